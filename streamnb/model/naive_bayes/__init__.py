"""Naive Bayes: its state, kernels and linear form, with its variants and its semi-supervised form."""
