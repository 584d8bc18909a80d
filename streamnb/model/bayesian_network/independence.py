"""Independence, with the numbers that the answer rests on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from streamnb.model.compiled.arrays import Floats


class Comparison(NamedTuple):
    """One combination of values.

    Attributes:
        a, b, given: variable -> value, of the two sides and of what is given.
        joint: P(a, b | given).
        product: P(a | given) P(b | given).
        p_a, p_b: its two factors.
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
    """The answer to "is a independent of b, given c?"; true where it is.

    Attributes:
        holds: whether no two of the numbers differ by more than the tolerance.
        tolerance: absolute.
        largest: the comparison that differs most; of equals the first.
        comparisons: of each combination of values whose `given` has a probability above 0.
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
    """Compare a joint table with the product of its marginals, for each value of what is given.

    Args:
        table: P(a, b, c), the axes of a before those of b and c.
        values: of each axis.
        sides: the names of a, b and c.
        tolerance: not negative.
    """
    if not 0.0 <= tolerance < math.inf:
        raise ValueError(f"a tolerance must be a finite number of 0 or more, not {tolerance!r}")
    names = [name for side in sides for name in side]
    of = dict(zip(names, values, strict=True))  # the last variable goes fastest, as axes do
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
