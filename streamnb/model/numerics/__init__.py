"""Arithmetic with an error bound: log space, compensated sums, Gamma ratios, counter-based random numbers."""
