"""Independence: by numbers, with the probabilities that support the answer, and by the marginal likelihood.

The log marginal likelihood of counts with unknown chances is evidence for and against edges.

With an equivalent sample size s, spread evenly over the r cells of a table of counts n,

    L(n) = sum over cells of ln (s / r)_n         (a)_n the rising factorial a (a + 1) ... (a + n - 1)

A family, a variable v and its parents, has the log evidence ("BDeu score") L(v, parents) - L(parents); a
structure has the sum over its families. The score is the sum of the log predictives of all examples, in any
order, and is equal for Markov equivalent structures. Given c, the log Bayes factor of dependence between a
and b against independence is

    ln P(D | dependent) / P(D | independent) = L(a, b, c) - L(a, c) - L(b, c) + L(c)

Reference: Heckerman, Geiger and Chickering (1995), "Learning Bayesian networks: the combination of knowledge
and statistical data", Machine Learning 20.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.statistics.rising_factorial import log_rising
from streamnb.values.example_weights import UNIT


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


def log_evidence(counts: Ints | Floats, weight: float) -> float:
    """Return L of a table of counts (units of 1/1024 example), in nats, with sample size `weight`."""
    each = weight / counts.size
    seen, how_often = np.unique(counts[counts > 0], return_counts=True)
    pairs = zip(seen.tolist(), how_often.tolist(), strict=True)
    return math.fsum(times * log_rising(each, n / UNIT) for n, times in pairs)


def log_bayes_factor(cube: Ints, weight: float) -> float:
    """Return the log Bayes factor of dependence, in nats, from the counts of a, b and c as three axes."""
    with_c = (cube, cube.sum(axis=1), cube.sum(axis=0), cube.sum(axis=(0, 1)))
    together, a, b, c = (log_evidence(counts, weight) for counts in with_c)
    return (together - a) - (b - c)
