"""Exact sums for a recount: moments as integers and fractions, and the error that a learner may have.

A double is a multiple of 2^-1074, so sums of values and of squares are exact integers. `ExactMoments`
holds them for one attribute and class. `bounds` returns how far Welford's mean and M2 may be from them.
"""
