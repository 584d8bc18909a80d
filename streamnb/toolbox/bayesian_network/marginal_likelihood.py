"""Log marginal likelihood of counts with unknown chances: evidence for and against edges.

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

import numpy as np

from streamnb.kernels.array_types import Ints
from streamnb.statistics.rising_factorial import log_rising
from streamnb.values.example_weights import UNIT


def log_evidence(counts: Ints, weight: float) -> float:
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
