"""Gaussian factors: the mean and variance by which a class reads a number.

They are computed on each read from the moments (n, mean, M2) of one attribute by class, n in examples:

    T    = [sum M2 + sum n (mean - overall mean)^2] / sum n               variance over all classes
    1/H  = [m / T + sum (n - 3)^2 / M2] / [m + sum (n - 3)]               pooled variance
    s^2  = max((M2 + m H) / (n + m), H / 5)                               m = 10

The sums for H include the classes with `spread` and more than 3 examples. If T is 0, the number
is the same in all classes, and its factor is dropped. A class that never had the attribute takes the overall
mean and T. Nothing but moments is stored, so learning, unlearning and merging are unchanged.

A class leans on the pooled variance as an m-estimate leans on its prior: with few examples H counts, with
many M2 / n. A class without spread gets m H / (n + m), at least H / 5. Without this floor, a class that is
constant so far gains log(n) / 2 nats at its value from each such attribute.

Why H is a harmonic mean (of variances weighted by n - 3): the arithmetic mean is the variance of the widest
class. One rare class far from the rest would widen every class until no class can be separated. With many
examples H / 5 is below the variance of any class that has spread and a fifth of all examples. (n - 3) / M2 is
the unbiased estimate of the precision of a Gaussian from n values. T counts as m examples in H. So if no
class has spread, H is T, and a flag that equals the label decides.

m and the share 1/5 were chosen on seven labelled streams; ADR 8 has the measurements. If M2 is below 1e-9
(n - 3) T it counts as that much (the `var_smoothing` of scikit-learn), so that quotients stay finite.

With `tied` covariance, all classes share the variance within classes, sum M2 / sum n, and the log odds of two
classes are linear in the number. It is at least 1e-9 T; if no class has spread, it is T / 5.

Reference: Friedman (1989), Regularized Discriminant Analysis, JASA 84(405): variances shrunk towards a pooled
variance.
"""

from __future__ import annotations

import math
from typing import Any

from streamnb.kernels.array_types import Floats
from streamnb.kernels.jit import inlined
from streamnb.values.example_weights import UNIT

LOG_2PI = math.log(2.0 * math.pi)
SQUARE_LIMIT = 1e300  # bounds a squared deviation, so that a sum of them stays finite
POOLED_EXAMPLES = 10.0
"""The weight m of the pooled variance, in examples of a class."""
LEAST_SHARE = 0.2
"""The floor of a variance, as a share of the pooled variance."""
NO_SPREAD = 8 * 2.0**-52
"""A standard deviation up to this share of the mean is rounding; see `streamnb.statistics.moments`."""
_NARROWEST = 1e-9
_FEW = 3.0  # with at most 3 examples the expected precision is infinite
_LEAST_VARIANCE = 1e-320  # moments may be subnormal; the inverse root of this is finite


@inlined
def spread(n: Any, mean: Any, M2: Any, k: int) -> float:
    """Return M2 of class k (examples x the attribute's unit squared), or 0 if it is only rounding."""
    rounding = NO_SPREAD * mean[k]
    return M2[k] if M2[k] > n[k] / UNIT * rounding * rounding else 0.0


@inlined
def _overall(n: Any, mean: Any, M2: Any) -> tuple[float, float]:
    """Return the overall mean and T; T is 0 if the attribute has no effect."""
    first, weight, squares, away = -1, 0.0, 0.0, 0.0
    for k in range(n.size):
        if n[k] > 0:
            if first < 0:
                first = k
            weight += n[k] / UNIT
            squares += spread(n, mean, M2, k)
            away += (n[k] / UNIT) * (mean[k] - mean[first])
    if first < 0:
        return 0.0, 0.0
    centre = mean[first] + away / weight  # exact if all means are equal
    between = 0.0
    for k in range(n.size):
        if n[k] > 0:
            between += (n[k] / UNIT) * (mean[k] - centre) ** 2
    rounding = NO_SPREAD * centre
    if between > weight * rounding * rounding:
        squares += between
    return centre, squares / weight


@inlined
def pooled_moments(n: Any, mean: Any, M2: Any, worth: float) -> tuple[float, float, float]:
    """Return (overall mean, T, H) of an attribute; T is 0 if the attribute has no effect.

    Args:
        n: weight by class, in units of 1/1024 example; int64[K] or float64[K].
        mean: float64[K].
        M2: float64[K], in examples.
        worth: factor of `n` and `M2`; below 1 for weights that decay.
    """
    centre, total = _overall(n, mean, M2)
    if total <= 0.0:
        return centre, 0.0, 0.0
    examples = precision = POOLED_EXAMPLES
    for k in range(n.size):
        known = n[k] * (worth / UNIT) - _FEW
        if known > 0.0:
            squares = spread(n, mean, M2, k) * worth
            if squares > 0.0:
                examples += known
                precision += known / max(squares / (known * total), _NARROWEST)
    return centre, total, total * (examples / precision)


@inlined
def moments_of(
    n: Any, mean: Any, M2: Any, k: int, worth: float, pooled: tuple[float, float, float]
) -> tuple[float, float]:
    """Return the mean and variance of class k; `pooled` are the `pooled_moments`, with T above 0."""
    centre, total, usual = pooled
    if n[k] <= 0:
        return centre, total
    squares = spread(n, mean, M2, k) * worth + POOLED_EXAMPLES * usual
    variance = squares / (n[k] * (worth / UNIT) + POOLED_EXAMPLES)
    return mean[k], max(variance, LEAST_SHARE * usual, _LEAST_VARIANCE)


@inlined
def reading_of(tables: Any, f: int) -> tuple[float, float, float, float]:
    """Return (overall mean, T, H, the variance that all classes share or 0) of continuous field f."""
    n, mean, M2 = tables.n[f], tables.mean[f], tables.M2[f]
    centre, total, usual = pooled_moments(n, mean, M2, 1.0)
    if tables.tied == 0 or total <= 0.0:
        return centre, total, usual, 0.0
    squares = weight = 0.0
    for k in range(n.size):
        if n[k] > 0:
            weight += n[k] / UNIT
            squares += spread(n, mean, M2, k)
    least = _NARROWEST if squares > 0.0 else LEAST_SHARE
    return centre, total, usual, max(squares / weight, least * total, _LEAST_VARIANCE)


@inlined
def gaussian_of(
    tables: Any, f: int, k: int, reading: tuple[float, float, float, float]
) -> tuple[float, float]:
    """Return the mean and variance of class k, as predictions use them; the reading has T above 0."""
    centre, total, usual, shared = reading
    if shared > 0.0:
        return (tables.mean[f, k] if tables.n[f, k] > 0 else centre), shared
    return moments_of(tables.n[f], tables.mean[f], tables.M2[f], k, 1.0, (centre, total, usual))


@inlined
def score_value(n: Any, mean: Any, M2: Any, worth: float, classes: Any, x: float, joint: Floats) -> None:
    """Add log N(x; mean, variance) to joint[k] of every class, if T > 0; arguments as in `pooled_moments`."""
    pooled = pooled_moments(n, mean, M2, worth)
    if pooled[1] <= 0.0:
        return
    for k in range(joint.size):
        if classes[k] == 0:
            continue
        centre, variance = moments_of(n, mean, M2, k, worth, pooled)
        deviation = (x - centre) / math.sqrt(variance)
        joint[k] -= 0.5 * (LOG_2PI + math.log(variance) + min(deviation * deviation, SQUARE_LIMIT))
