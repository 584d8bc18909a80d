"""Exact arithmetic for recounts, in whole numbers and fractions."""
