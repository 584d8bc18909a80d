"""Counts of values and of pairs of values: tree-augmented naive Bayes, averaged one-dependence estimators."""
