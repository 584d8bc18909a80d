"""Counts of values and of pairs of values, for averaged one-dependence estimators."""
