"""Arithmetic in log space: products that neither overflow nor underflow, and their normalisation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamnb.kernels.jit import inlined, kernel

LN2 = math.log(2.0)
_FRACTION_BITS, _POWER_OF_HALF = 52, 1022
_FRACTION, _HALF = (1 << _FRACTION_BITS) - 1, _POWER_OF_HALF << _FRACTION_BITS


@inlined
def power_of(x: float) -> Any:
    """Return the exponent e of x = m 2^e, m in [1/2, 1), as `math.frexp`; x normal and positive."""
    return (np.float64(x).view(np.int64) >> _FRACTION_BITS) - _POWER_OF_HALF


@inlined
def mantissa_of(x: float) -> Any:
    """Return the mantissa m of x = m 2^e, as `math.frexp`."""
    return np.int64(np.float64(x).view(np.int64) & _FRACTION | _HALF).view(np.float64)


@inlined
def factors_until_overflow(low: float, high: float) -> int:
    """Return the number of factors in [low, high] that a double in [1/2, 1) can take; at least 1."""
    bits = max(abs(math.log2(low)), abs(math.log2(high))) + 1.0
    return max(1, int(1000.0 / bits))


@inlined
def _exp(x: Any) -> Any:
    """Return e^x, with a shortcut for 0, the most frequent argument."""
    return 1.0 if x == 0.0 else math.exp(x)


@inlined
def normalise(joint: Any, misses: Any, probabilities: Any) -> None:
    """Compute the posterior of log scores, exp(joint) / sum(exp(joint)), over the scores with fewest misses.

    A class with score -inf takes no part. `misses` counts factors alpha with alpha -> 0: in the limit only
    the classes with the fewest misses keep any probability. Without such a class, all are zero.
    """
    fewest = np.int64(2**62)
    for k in range(joint.size):
        if joint[k] > -np.inf and misses[k] < fewest:
            fewest = misses[k]
    top = -np.inf
    for k in range(joint.size):
        if misses[k] == fewest and joint[k] > top:
            top = joint[k]
    total = 0.0
    for k in range(joint.size):
        if misses[k] == fewest and joint[k] > -np.inf:
            probabilities[k] = _exp(joint[k] - top)
            total += probabilities[k]
        else:
            probabilities[k] = 0.0
    if total > 0.0:
        for k in range(joint.size):
            probabilities[k] /= total


@kernel
def log_normalise(scores: Any, log_probabilities: Any, probabilities: Any) -> None:
    """Compute the posterior of log scores and its logarithms; zeros if every score is -inf."""
    top = -np.inf
    for k in range(scores.size):
        top = max(top, scores[k])
    total = 0.0
    for k in range(scores.size):
        probabilities[k] = _exp(scores[k] - top) if scores[k] > -np.inf else 0.0
        total += probabilities[k]
    away = top + math.log(total) if total > 0.0 else 0.0
    for k in range(scores.size):
        log_probabilities[k] = scores[k] - away
        if total > 0.0:
            probabilities[k] /= total
