"""Sufficient statistics as arrays: counts, histograms, moments, decayed and presence counts."""
