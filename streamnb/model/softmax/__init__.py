"""Softmax regression: its table of features, how they are extracted, quantile bins."""
