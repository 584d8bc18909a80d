"""Bayesian networks: counts of families, variable elimination, incremental EM, joint tables."""
