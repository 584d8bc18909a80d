"""Numerical independence, with the probabilities that support the answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Floats


class Comparison(NamedTuple):
    """Joint probability and product of marginals for one combination of values.

    Attributes:
        a, b, given: values by variable, for both sides and for the condition.
        joint: P(a, b | given).
        product: P(a | given) P(b | given).
        p_a, p_b: the two factors of `product`.
    """

    a: dict[Any, str]
    b: dict[Any, str]
    given: dict[Any, str]
    joint: float
    product: float
    p_a: float
    p_b: float

    @property
    def difference(self) -> float:
        """P(a, b | given) - P(a | given) P(b | given)."""
        return self.joint - self.product


class Independence(NamedTuple):
    """The answer to "is a independent of b, given c?"; its truth value is `holds`.

    Attributes:
        holds: True if no difference exceeds the tolerance.
        tolerance: absolute tolerance.
        largest: the comparison with the largest difference; ties go to the first.
        comparisons: one for each combination of values whose `given` has a positive probability.
    """

    holds: bool
    tolerance: float
    largest: Comparison
    comparisons: tuple[Comparison, ...]

    def __bool__(self) -> bool:
        return self.holds


def compared(
    table: Floats,
    values: Sequence[Sequence[str]],
    sides: tuple[Sequence[Any], Sequence[Any], Sequence[Any]],
    tolerance: float,
) -> Independence:
    """Compare a joint table with the product of its marginals, for each value of the condition.

    Args:
        table: P(a, b, c), with the axes of a before the axes of b, and these before c.
        values: values of each axis.
        sides: names of a, b and c.
        tolerance: at least 0.
    """
    if not 0.0 <= tolerance < math.inf:
        raise ValueError(f"a tolerance must be finite and at least 0, not {tolerance!r}")
    names = [name for side in sides for name in side]
    of = dict(zip(names, values, strict=True))  # the last variable varies fastest, as axes do
    combinations = [
        [dict(zip(side, one, strict=True)) for one in product(*(of[name] for name in side))] for side in sides
    ]
    cube = table.reshape([len(side) for side in combinations])
    found = []
    for k, given in enumerate(combinations[2]):
        total = float(cube[:, :, k].sum())
        if total > 0.0:
            p = cube[:, :, k] / total
            p_a, p_b = p.sum(axis=1), p.sum(axis=0)
            for (i, j), joint in np.ndenumerate(p):
                apart = float(p_a[i] * p_b[j])
                sides_of = (combinations[0][i], combinations[1][j], given)
                found.append(Comparison(*sides_of, float(joint), apart, float(p_a[i]), float(p_b[j])))
    largest = max(found, key=lambda one: abs(one.difference))
    return Independence(abs(largest.difference) <= tolerance, tolerance, largest, tuple(found))
