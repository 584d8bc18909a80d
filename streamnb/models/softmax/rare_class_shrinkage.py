"""Shrinkage for a class that has few examples in a long stream: the first of them may be mislabelled.

A softmax regression has learned almost nothing about such a class. Its bias is zero, as if the class were
frequent, and a feature that it never had is far more probable in it than in a class with thousands of
examples. So one event with a wrong label would attract all events with unseen features. A class v with n_v of
the N examples is therefore shrunk by d_v:

    d_v = 1 - n_v / min(16, N / 64)        if that is above zero and N >= 64, else 0

towards the mean of all classes, weighted by examples, and with its own frequency:

    ln(n_v + 1)  becomes  (1 - d_v) ln(n_v + 1) + d_v sum_u (n_u / N) ln(n_u + 1)
    s_v          becomes  s_v + d_v (ln n_v - sum_u (n_u / N) ln n_u)

for the logarithm in l (see `softmax_regression`), with n the examples that had the feature's attribute, and
for the score s_v.
"""

from __future__ import annotations

import math

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.jit import inlined
from streamnb.kernels.vector_kernels import fill
from streamnb.values.example_weights import UNIT

_TRUSTED, _RARE = 16, 64


@inlined
def shrinkage(units: int, all_units: int) -> float:
    """Return d_v of a class with weight `units` of `all_units`."""
    if units >= _TRUSTED * UNIT or all_units < _RARE * UNIT:
        return 0.0
    enough = min(np.float64(_TRUSTED * UNIT), all_units / _RARE)
    return float(1.0 - units / enough) if units < enough else 0.0


@inlined
def is_any_shrunk(weights: Ints, all_units: int) -> bool:
    """Return True if any class is shrunk, including classes without examples; weights in units."""
    fewest = _TRUSTED * UNIT
    for units in weights:
        fewest = min(fewest, units)
    return shrinkage(fewest, all_units) > 0.0


@inlined
def mean_log(weights: Ints, all_units: int, more: float) -> float:
    """Return the mean of ln(n + more) over the classes, weighted by their examples n; `weights` in units."""
    total = 0.0
    for units in weights:
        if units > 0:
            total += units * math.log(units / UNIT + more)
    return total / all_units


@inlined
def add_shrinkage(known: Ints, scores: Floats) -> None:
    """Add the change of each s_v to scores float64[K]; `known` int64[K] is the weight of each class."""
    all_units, fewest = 0, _TRUSTED * UNIT
    for units in known[: scores.size]:
        if units > 0:
            all_units += units
            fewest = min(fewest, units)
    if shrinkage(fewest, all_units) > 0.0:
        mean = mean_log(known[: scores.size], all_units, 0.0)
        for k in range(scores.size):
            if known[k] > 0:
                scores[k] += shrinkage(known[k], all_units) * (math.log(known[k] / UNIT) - mean)


@inlined
def shrunk_log_odds(known: Ints, one: int, other: int, scores: Floats) -> float:
    """Return what shrinkage adds to the log odds of two classes; `scores` (K,) is scratch."""
    fill(scores, 0.0)
    add_shrinkage(known, scores)
    return float(scores[one] - scores[other])
