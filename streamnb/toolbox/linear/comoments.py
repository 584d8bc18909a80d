"""Sums and sums of products of several numbers, in 106 bits: the sufficient statistics of least squares.

    learn     n' = n + w;  S1' = S1 + w z;  S2' = S2 + w z z^T
    unlearn   the same with -w
    read      M = S2 - S1 S1^T / n, the co-moments about the mean

Sums about zero, when they are centred, lose (mean / spread)^2 of their accuracy if the mean is far from zero:
in doubles that is all of it at an offset of 1e8. Here every sum is a pair of doubles (see `double_double`)
with 106 bits. The values themselves are doubles, and have lost mean / spread of their accuracy on arrival. So
M is as accurate as the data at any offset. Any order of events gives the same M to about 1e-30, and
unlearning undoes learning to the same accuracy. Welford's running co-moments in doubles keep neither, and
solving for weights squares the condition number.

Weights are int64 in units of 1/1024 example, so that the sums stay sums of few bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from streamnb.errors import SnapshotError, UnlearnError
from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.growable_arrays import roomier
from streamnb.kernels.jit import kernel
from streamnb.statistics.double_double import add, divide, multiply, two_product
from streamnb.values.example_weights import UNIT
from streamnb.values.state_validation import checked, count, real
from streamnb.values.type_aliases import Array

_LEAST = 1e-280  # smallest sum of squares whose reciprocal can still be multiplied
_CONSTANT = 2.0**-80  # relative to a sum of squares: rounding residue of 0, and a spread of 1e-12 of the size


class CoMoments(NamedTuple):
    """Moments about the mean.

    Attributes:
        n: weight, in examples.
        mean: float64[d].
        mean_low: float64[d], low parts of the mean.
        M: float64[d, d], sum of products of deviations from the mean.
        M_low: float64[d, d], low parts of M.
    """

    n: float
    mean: Floats
    mean_low: Floats
    M: Floats
    M_low: Floats


class SecondMoments:
    """Sums of columns and of their products; a column that an event does not mention is 0.

    Attributes:
        units: weight learned, in units of 1/1024 example.
    """

    def __init__(self) -> None:
        self.units = 0
        self._sums = np.zeros((2, 0))  # high and low parts
        self._products = np.zeros((2, 0, 0))  # lower triangles

    def __len__(self) -> int:
        """Return the capacity in columns."""
        return self._sums.shape[1]

    def reserve(self, columns: int) -> None:
        """Grow to at least this many columns, which were 0 in all events so far."""
        if columns > len(self):
            self._sums = roomier(self._sums, 0, columns)
            self._products = roomier(self._products, 0, columns, columns)

    def update(self, columns: Ints, values: Floats, weight: int = UNIT) -> None:
        """Learn an event of this weight in units, unlearn if negative, or raise UnlearnError unchanged."""
        if weight < 0 and self._is_less_than(columns, values, weight):
            raise UnlearnError(
                "the event was never learned with this weight: the sums hold less than it would remove"
            )
        self.units += weight
        if self.units == 0:
            self._sums[...] = 0.0
            self._products[...] = 0.0
        else:
            _learn(self._sums, self._products, columns, values, weight / UNIT)

    def _is_less_than(self, columns: Ints, values: Floats, weight: int) -> bool:
        squares = self._products[0, columns, columns]
        left = squares + weight / UNIT * values * values
        return self.units + weight < 0 or bool((left < -_CONSTANT * squares).any())

    def about_the_mean(self, columns: int) -> CoMoments:
        """Return the co-moments of the first `columns` columns; zeros if nothing was learned."""
        mean, products = np.zeros((2, columns)), np.zeros((2, columns, columns))
        if self.units:
            _centre(self._sums, self._products, self.units / UNIT, mean, *products)
        return CoMoments(self.units / UNIT, *mean, *products)

    def arrays(self, columns: int) -> dict[str, Floats]:
        """Return copies of the sums of the first `columns` columns."""
        return {
            "sums": self._sums[:, :columns].copy(),
            "products": np.tril(self._products[:, :columns, :columns]),
        }

    @classmethod
    def from_arrays(cls, units: Any, arrays: Mapping[str, Array], columns: int) -> Self:
        """Restore the moments from `arrays`. Raises SnapshotError if the arrays are invalid."""
        expected = {"sums": real(2, "columns"), "products": real(2, "columns", "columns")}
        found = checked(arrays, expected, columns=columns)
        moments = cls()
        moments.units = count({"units": units}, "units")
        moments._sums, moments._products = found["sums"].copy(), found["products"].copy()
        if (moments._products[0].diagonal() < 0.0).any():
            raise SnapshotError("a sum of squares of least squares is negative")
        return moments


@kernel
def _learn(sums: Any, products: Any, columns: Any, values: Any, weight: float) -> None:
    for i in range(columns.size):
        a = columns[i]
        w, w_low = two_product(weight, values[i])
        sums[0, a], sums[1, a] = add(sums[0, a], sums[1, a], w, w_low)
        for j in range(columns.size):
            b = columns[j]
            if b <= a:
                p, e = multiply(w, w_low, values[j], 0.0)
                products[0, a, b], products[1, a, b] = add(products[0, a, b], products[1, a, b], p, e)


@kernel
def _centre(sums: Any, products: Any, n: float, mean: Any, M: Any, low: Any) -> None:
    for a in range(mean.shape[1]):
        m, m_low = divide(sums[0, a], sums[1, a], n, 0.0)
        mean[0, a], mean[1, a] = m, m_low
        for b in range(a + 1):
            p, e = multiply(m, m_low, sums[0, b], sums[1, b])
            p, e = add(products[0, a, b], products[1, a, b], -p, -e)
            if a == b and p <= max(_CONSTANT * products[0, a, a], _LEAST):
                p, e = 0.0, 0.0
            M[a, b] = M[b, a] = p
            low[a, b] = low[b, a] = e
