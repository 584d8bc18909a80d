r"""Exact sums of the values of one cell, and how far Welford's recurrence may lie from them.

A double is a multiple of 2^-1074. In this unit, sums of doubles and of their squares are exact integers, so
mean and M2 are exact fractions.

The error of the learned moments follows, to first order in u = 2^-53. N + 8 in place of N + 6 and a factor
1 + g cover the higher orders (Higham, Accuracy and Stability, section 3.1, for g = N' u / (1 - N' u)). Let N
be the updates made, X the largest |x|, n the weight in examples.

    mean   With m = mean + e, one update is m' = (m + (x - m)(w/t)(1 + 3u))(1 + u), so that
           t e' = (t - w) e + w (x - m) 3u + t m' u. Summed up, |e| <= 3u 2X + N u X = (N + 6) u X.
                                                                      |e| <= E = g X
    M2     Its increments q = w (x - mean)(x - mean') are rounded four times, and the sum once each time:
           (N + 4) u M2. Wrong means change q by at most |e||x - mean'| + |e'||x - mean| + |e e'|, and
           |x - mean'| = (1 - w/t)|x - mean|. By Cauchy and Schwarz sum w |x - mean| <= sqrt(n r M2), where
           r = max t / (t - w) over all updates but the first of the cell, exact itself; 2 for equal weights.
                                     |M2 error| <= (1 + g)(g M2 + 2 E sqrt(r n M2) + n E^2)

In terms of the condition number k = X sqrt(n / M2) the relative error of M2 is thus about N u (1 + 2.8 k),
the form that Chan, Golub and LeVeque (1983), The American Statistician 37(3), give for updating. A product
that underflows adds at most 2^-1075 before it is multiplied by a deviation of at most 2X.

If values are also unlearned (see `statistics.moments`), let n be the current weight, m the maximum, l the
minimum after an unlearned value, and W the weight of all N updates since the cell was last empty. The error
of one step propagates with its weight, so that

    |mean error| <= 4 N eps X m / n        |M2 error| <= (32 W m / l + 160 m) N eps X^2        eps = 2u

and if at most one example remains, a small M2 is set to 0: the bound then includes its former value.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Self

from streamnb.values.example_weights import UNIT

_ROUNDING = 2.0**-53
_LEAST = 2.0**-1074
_ONE = 1 << 1074  # in parts of the least double


class ExactMoments:
    """Weight, sum and sum of squares of the values of one continuous attribute within one class.

    Attributes:
        n: weight in units of 1/1024 example.
    """

    __slots__ = "n _first _lacks _largest _least _most _moved _ratio _second _updates".split()

    def __init__(self) -> None:
        self.n = 0
        self._first = self._second = 0  # the latter in parts of parts
        self._updates = 0
        self._largest = 0.0
        self._ratio = 2.0
        self._moved = self._most = self._least = 0  # weight of updates; least that was left, 0 is none
        self._lacks = 0.0

    @classmethod
    def of(cls, n: int, mean: float, M2: float) -> Self:  # noqa: N803  the symbol of the formula
        """Return sums with exactly these moments."""
        sums = cls()
        sums.n = n
        sums._first = n * _parts(mean)
        sums._second = UNIT * _parts(M2) * _ONE + n * _parts(mean) ** 2
        sums._largest = abs(mean)
        return sums

    def add(self, x: float, weight: int) -> None:
        """Add finite `x` with `weight` units; a negative weight unlearns it."""
        part = _parts(x)
        if self.n:
            self._ratio = max(self._ratio, (self.n + weight) / self.n)
        self.n += weight
        self._first += weight * part
        self._second += weight * part * part
        self._updates += 1
        self._largest = max(self._largest, abs(x))
        self._moved += abs(weight)
        self._most = max(self._most, self.n)
        if weight < 0 < self.n:
            self._least = min(self._least or self.n, self.n)
            self._lacks = float(self.M2) if self.n <= UNIT else self._lacks

    @property
    def mean(self) -> Fraction:
        """The mean, exactly; n is above zero."""
        return Fraction(self._first, self.n * _ONE)

    @property
    def M2(self) -> Fraction:  # noqa: N802  the symbol of the formula
        """The sum of squared deviations from the mean, in examples, exactly."""
        squares = self._second * self.n - self._first * self._first
        return Fraction(squares, self.n * UNIT * _ONE * _ONE)

    def bounds(self) -> tuple[float, float]:
        """Return bounds on the error of a mean and an M2 that were learned one value at a time."""
        if self._updates == 0:
            return 0.0, 0.0
        if self._least:
            return self._bounds_of_taking_back()
        steps = (self._updates + 8) * _ROUNDING
        g = steps / (1.0 - steps)
        least = self._updates * _LEAST
        E = g * self._largest + least  # noqa: N806
        n, M2 = self.n / UNIT, float(self.M2)  # noqa: N806
        spread = 2.0 * E * math.sqrt(self._ratio * n) * math.sqrt(M2)
        return E, (1.0 + g) * (g * M2 + spread + n * E * E) + least * (2.0 + 4.0 * self._largest)

    def _bounds_of_taking_back(self) -> tuple[float, float]:
        steps = self._updates * 2.0 * _ROUNDING * self._largest
        spread = 32.0 * (self._moved / UNIT) * (self._most / self._least) + 160.0 * (self._most / UNIT)
        return 4.0 * steps * self._most / self.n, spread * steps * self._largest + self._lacks


def _parts(x: float) -> int:
    part, whole = x.as_integer_ratio()
    return part * (_ONE // whole)
