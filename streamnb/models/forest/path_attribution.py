"""Attribution of the log odds of a forest to the attributes by which its trees split on the way to an event.

A tree predicts f_0 if it is cut at its root, and f_d if it is cut at the node of depth d on the event's path,
where the means over the prunings above are as they are. The share of the nodes from depth d on is

    R_d = prod_{i < d} r_i / (1 + r_i)        f_d(v) - f_{d-1}(v) = R_d (P_d(v) - P_{d-1}(v))

and the difference belongs to the attribute that split depth d - 1. The mean of f_0 over the trees and these
differences D_a(v) add up to the forest's prediction p(v). With L(x, y) = (x - y) / ln(x / y), the logarithmic
mean,

    ln p(v) / p(w) = ln f_0(v) / f_0(w) + sum_a D_a(v) / L(p(v), f_0(v)) - D_a(w) / L(p(w), f_0(w))

exactly, as in `pair_attribution`. Splits by attributes that the event does not have belong to the prior.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.jit import inlined, kernel
from streamnb.kernels.structs import struct_type
from streamnb.kernels.vector_kernels import fill
from streamnb.models.forest.node_arrays import ATTRIBUTE, CLASSES, COUNTS, RATIO, TOTAL, child_of

_CLOSE = 1e-9


@struct_type
class ReadPaths(NamedTuple):
    """Contributions of the splits of F forests to the predictions of n events, for K classes.

    Attributes:
        added: float64[F, n, 2 M + 2, K]: of split attribute `ForestArrays.links` a row, then of attributes
            that the event does not have, then the prediction of the roots.
        of_group, of_field: int64[G], int64[F], the split attribute of each group and field, or -1.
    """

    added: Floats
    of_group: Ints
    of_field: Ints

    @classmethod
    def none(cls) -> ReadPaths:
        """Return no events."""
        numbers = np.zeros(0, dtype=np.int64)
        return cls(np.zeros((0, 0, 0, 0)), numbers, numbers)


@inlined
def _estimate(forest: Any, node: Any, k: Any, known: Any, classes: float) -> float:
    if known[k] == 0:
        return 0.0
    count = forest.floats[node, COUNTS + k] if k < forest.size[CLASSES] else 0.0
    return float((count + 1.0 / classes) / (forest.floats[node, TOTAL] + 1.0))


@kernel
def keep_paths(forest: Any, numbers: Any, codes: Any, known: Any, classes: float, added: Any) -> None:
    """Fill `added` (2 M + 2, K) for one event."""
    T, last = forest.roots.size, added.shape[0] - 1
    for i in range(last + 1):
        fill(added[i], 0.0)
    for t in range(T):
        node, rest = np.int64(forest.roots[t]), 1.0 / T
        for k in range(known.size):
            added[last, k] += rest * _estimate(forest, node, k, known, classes)
        while forest.links[node, ATTRIBUTE] >= 0:
            a, ratio = np.int64(forest.links[node, ATTRIBUTE]), forest.floats[node, RATIO]
            child = child_of(forest, node, numbers, codes)
            number: Any = numbers[a >> 1] if a & 1 == 0 else np.float32(0.0)
            is_missing = codes[a >> 1] < 0 if a & 1 else np.isnan(number)
            row: Any = last - 1 if is_missing else a
            rest *= ratio / (1.0 + ratio)
            for k in range(known.size):
                after = _estimate(forest, child, k, known, classes)
                added[row, k] += rest * (after - _estimate(forest, node, k, known, classes))
            node = child


@kernel
def inverse_mean(added: Any, k: int) -> float:
    """Return 1 / L(p, f_0) of class k; 0 if the forest excludes the class."""
    last = added.shape[0] - 1
    before, more = added[last, k], 0.0
    for row in range(last):
        more += added[row, k]
    after = before + more
    if before <= 0.0 or after <= 0.0:
        return 0.0
    if abs(more) < _CLOSE * before:
        return float(1.0 / before)
    return math.log(after / before) / more
