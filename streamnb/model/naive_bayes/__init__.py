"""Naive Bayes: its state, kernels and linear form, with its one-kind and semi-supervised variants."""
