"""Moments of continuous attributes: Welford's (n, mean, M2) per attribute and class.

    learn     n' = n + w;  mean' = mean + w (x - mean) / n';  M2' = M2 + w (x - mean)(x - mean')
    unlearn   the same backwards; n is exact, M2 stays >= 0 and is 0 where only rounding is left of it, or
              n <= 1 and M2 / n <= (2^-10 largest)^2; an emptied cell is all zero again
    merge     Chan, Golub, LeVeque (1979): M2 = M2_a + M2_b + (mean_b - mean_a)^2 n_a n_b / (n_a + n_b)

References: Welford (1962), Technometrics 4(3); Chan, Golub and LeVeque (1979), STAN-CS-79-773. Weights n are
int64 in units of 1/1024 example; M2 is in examples. Variance is M2 / n (maximum likelihood).

What counts as spread. A mean moves towards a value by a share of the distance, and a rounded sum passes no
double that the exact one does not pass: so a mean lies between the values, up to the rounding of the step,
after any number of them. Values within j units in the last place, each at most eps |mean|, are then no
farther than (j + 1) eps |mean| from any mean on the way, and M2 / n, a weighted mean of products of two such
distances, is at most ((j + 1) eps |mean|)^2. Up to j = 7, as sums of a few terms differ that are equal on
paper, it is read as none:

    no spread    M2 / n <= (8 eps mean)^2          eps = 2^-52

A Gaussian this narrow could not separate neighbouring doubles. Beyond it deviations have digits left:
milliseconds in seconds since 1970 are 6e-13 of the mean, 300 times the limit. It does not grow with n: the
bound of the sums of all roundings does, but the mean cannot leave the values.

What unlearning leaves. Weights are exact, moments rounded, at each step by the size of what they are then: of
a cell that held values up to L, N values of weight 1 learned and unlearned, n of them at most and n' at last,

    |mean error| <= 4 N eps L n / n'        |M2 error| <= 32 N^2 eps L^2 n / n'

for n mean is wrong by (n + 6) u L more with each step (u = eps / 2; see `exact.moments` of the verification),
and M2 by 8 eps L^2 and what the means on both sides of the step make wrong, 4 L |mean error|. So a value is
unlearned as if it had never been there while its square times eps is small compared with the variance that
stays; 1e20 among ones takes with it what was known of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.growable_arrays import Growable, roomier
from streamnb.kernels.jit import inlined, kernel
from streamnb.values.example_weights import UNIT
from streamnb.values.nominal_values import LARGEST
from streamnb.values.type_aliases import Array

_ROUNDING = 16 * 2.0**-52
_NARROW = 2.0**-10
"""A standard deviation up to this share of the values may be rounding if n <= 1."""
FARTHEST = 1.001 * LARGEST
"""No mean is farther from zero: rounding may carry it a little beyond the values."""


@inlined
def learn_value(n: Any, mean: Any, M2: Any, f: int, k: int, x: float, weight: int) -> None:
    """Add `x` with `weight` units to cell [f, k]."""
    total = n[f, k] + weight
    delta = x - mean[f, k]
    mean[f, k] += delta * (weight / total)
    # Never negative but where rounding carried the mean beyond x, as it does once old weight is almost gone.
    M2[f, k] += max((weight / UNIT) * delta * (x - mean[f, k]), 0.0)
    n[f, k] = total


@kernel
def unlearn_value(n: Any, mean: Any, M2: Any, f: int, k: int, x: float, weight: int) -> None:
    """Take `x` with `weight` units out of cell [f, k], which holds at least that weight."""
    rest = n[f, k] - weight
    if rest == 0:
        n[f, k] = 0
        mean[f, k] = 0.0
        M2[f, k] = 0.0
        return
    before = mean[f, k] - (x - mean[f, k]) * (weight / rest)
    left = M2[f, k] - (weight / UNIT) * (x - mean[f, k]) * (x - before)
    # A difference below the rounding of its operands is noise, not spread: as a variance it would make one
    # value certain. The means are known to eps |mean|, and M2 to eps M2; the errors of earlier differences
    # are unknown. A single example has no spread. Lighter examples of at most that weight may have one: it is
    # separated from rounding if it is not narrow.
    largest = max(abs(x), abs(before), abs(mean[f, k]))
    span = abs(x - mean[f, k]) + abs(x - before)
    noise = _ROUNDING * (M2[f, k] + (weight / UNIT) * largest * span)
    if rest <= UNIT:
        noise = max(noise, (rest / UNIT) * (_NARROW * largest) ** 2)
    M2[f, k] = left if left > noise else 0.0
    mean[f, k] = before
    n[f, k] = rest


def merge_moments(n: Ints, mean: Floats, M2: Floats, n_b: Ints, mean_b: Floats, M2_b: Floats) -> None:
    """Add moments b to (n, mean, M2), cell by cell, in place (Chan's formula). All of one shape."""
    total = n + n_b
    share = np.divide(n_b, total, out=np.zeros_like(mean), where=total > 0)
    delta = mean_b - mean
    M2 += M2_b + delta * delta * (n / UNIT) * share
    mean += delta * share
    n[...] = total


class Moments(Growable):
    """Moments of every continuous attribute within every class.

    Attributes:
        n: int64[>= attributes, >= classes], weight in units.
        mean: float64 of the same shape.
        M2: float64 of the same shape, sum of squared deviations from the mean, >= 0.
    """

    def __init__(self) -> None:
        self.n = np.zeros((0, 2), dtype=np.int64)
        self.mean = np.zeros((0, 2), dtype=np.float64)
        self.M2 = np.zeros((0, 2), dtype=np.float64)

    def __iter__(self) -> Iterator[Array]:
        """Yield n, mean and M2."""
        return iter((self.n, self.mean, self.M2))

    def reserve(self, attributes: int, classes: int) -> None:
        """Grow to at least this shape."""
        have, columns = self.n.shape
        if attributes > have or classes > columns:
            longer = (roomier(array, attributes, times=1) for array in self)
            self.n, self.mean, self.M2 = (roomier(array, 0, classes) for array in longer)
