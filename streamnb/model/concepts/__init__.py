"""Concept learning: the posterior by brute force, the version space, FIND-S."""
