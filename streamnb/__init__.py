"""A streaming Bayesian classifier: it learns from a log of labelled events, one at a time, exactly once."""
