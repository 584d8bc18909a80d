"""Attribution of the log odds of a one-dependence estimator to the values of an event.

An estimator predicts and learns a batch before the mixture decides which two classes an attribution compares.
So it keeps what it read of each event, and the log odds are computed from that.

Let A_b(v) be the product with parent b. With the logarithmic mean L(x, y) = (x - y) / ln(x / y),

    ln(sum_b A_b(v) / sum_b A_b(w)) = sum_b L(A_b(v), A_b(w)) / L(sum A(v), sum A(w)) ln(A_b(v) / A_b(w))

and each logarithm on the right is a sum over attributes (Ang 2004, "Decomposition analysis for policymaking
in energy", Energy Policy 32(9)).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.jit import inlined, kernel
from streamnb.kernels.structs import struct_type
from streamnb.values.type_aliases import Flags

_LOWEST = -700.0  # least logarithm: its power is a normal number
MOST_KEPT = 1 << 20
"""Numbers that are kept of the events of a batch, unless one event has more."""


@struct_type
class ReadPairs(NamedTuple):
    """Counts that D estimators read of each of n events, before they learned it, for K classes.

    An event has V <= d values of paired attributes, of A attributes in all.

    Attributes:
        m: float64[D], the weight of P(a | v).
        classes: float64[D, n, K], weight of each class.
        sizes: int64[D, n], V.
        attributes, is_parent, bases, inverses, counts: of `AveragedScratch`, behind D and n.
        unpaired: float64[D, n, A, K], P(a | v) of values whose attributes are not paired, otherwise 0.
        of_group, of_field: int64[D, G], int64[D, F], the attribute of each group and field, or -1.
        sums: float64[2, d], scratch: log of the product of each parent.
        ratios: float64[d, d], scratch: log odds of each value by each parent.
        odds: float64[A], log odds of each attribute's value.
    """

    m: Floats
    classes: Floats
    sizes: Ints
    attributes: Ints
    is_parent: Flags
    bases: Floats
    inverses: Floats
    counts: Floats
    unpaired: Floats
    of_group: Ints
    of_field: Ints
    sums: Floats
    ratios: Floats
    odds: Floats

    @classmethod
    def with_capacity(
        cls, m: Floats, n: int, sizes: tuple[int, int, int], of_group: Ints, of_field: Ints
    ) -> ReadPairs:
        """Return room for n events; `sizes` are d, A and K."""
        (d, A, K), D = sizes, m.size
        attributes = np.zeros((D, n, d), dtype=np.int64)
        return cls(
            m,
            np.zeros((D, n, K)),
            np.zeros((D, n), dtype=np.int64),
            attributes,
            np.zeros((D, n, d), dtype=np.bool_),
            np.zeros((D, n, K, d)),
            np.zeros((D, n, K, d)),
            np.zeros((D, n, d, K, d)),
            np.zeros((D, n, A, K)),
            of_group,
            of_field,
            np.zeros((2, d)),
            np.zeros((d, d)),
            np.zeros(A),
        )

    @classmethod
    def none(cls) -> ReadPairs:
        """Return room for no event."""
        nobody = np.zeros((0, 0), dtype=np.int64)
        return cls.with_capacity(np.zeros(0), 0, (0, 0, 0), nobody, nobody)

    def of_estimator(self, h: int) -> ReadPairs:
        """Return the part of estimator h, as the only one."""
        per_estimator = {name: getattr(self, name)[h : h + 1] for name in self._fields[:11]}
        return self._replace(**per_estimator)

    def from_event(self, e: int) -> ReadPairs:
        """Return the part of the events from e on, for a single estimator."""
        per_event = {name: getattr(self, name)[:, e:] for name in self._fields[1:9]}
        return self._replace(**per_event)


@inlined
def keep_read_pairs(
    tables: Any, codes: Any, e: int, V: int, reading: Any, scratch: Any, K: int, kept: Any
) -> None:
    """Keep what `score_averaged` read of event e, which has V values of paired attributes."""
    kept.sizes[0, e] = V
    for k in range(K):
        kept.classes[0, e, k] = float(tables.classes[k])
        for i in range(V):
            kept.bases[0, e, k, i] = scratch.bases[k, i]
            kept.inverses[0, e, k, i] = scratch.inverses[k, i]
            for j in range(V):
                kept.counts[0, e, i, k, j] = scratch.counts[i, k, j]
    for i in range(V):
        kept.attributes[0, e, i] = scratch.attributes[i]
        kept.is_parent[0, e, i] = scratch.is_parent[i]
    for a in range(tables.pair_first.shape[0], codes.shape[1]):
        if codes[e, a] >= 0:
            row, met = tables.first[a] + codes[e, a], 0
            for k in range(K):
                met += tables.values[row, k]
            for k in range(K if met > 0 else 0):
                spread = reading.alpha * tables.live[a]
                share = (tables.values[row, k] + reading.alpha) / (tables.classes[k] + spread)
                kept.unpaired[0, e, a, k] = share


@inlined
def _logarithmic_mean(x: float, y: float) -> float:
    return x if x == y else (x - y) / math.log(x / y)


@inlined
def _log_factor(kept: Any, h: int, e: int, i: int, parent: int, k: int) -> float:
    """Return log P(value i | parent, class k); of the parent itself log P(parent | class k)."""
    if i == parent:
        return math.log(kept.bases[h, e, k, i] / kept.m[h])
    count = kept.counts[h, e, i, k, parent]
    return math.log((count + kept.bases[h, e, k, i]) * kept.inverses[h, e, k, parent])


@inlined
def _fill_ratios(kept: Any, h: int, e: int, one: int, other: int) -> Any:
    """Fill the log odds of each value by each parent, and the logs of the products; return the highest."""
    highest = -np.inf
    for j in range(kept.sizes[h, e]):
        if kept.is_parent[h, e, j]:
            kept.sums[0, j], kept.sums[1, j] = 0.0, 0.0
            for i in range(kept.sizes[h, e]):
                of_one, of_other = _log_factor(kept, h, e, i, j, one), _log_factor(kept, h, e, i, j, other)
                kept.sums[0, j] += of_one
                kept.sums[1, j] += of_other
                kept.ratios[j, i] = of_one - of_other
            highest = max(highest, kept.sums[0, j], kept.sums[1, j])
    return highest


@inlined
def _fill_shares(kept: Any, h: int, e: int, highest: float) -> None:
    """Replace the logs of the products by the share of each parent, in ``sums[0]``."""
    sums, total_one, total_other = kept.sums, 0.0, 0.0
    for j in range(kept.sizes[h, e]):
        if kept.is_parent[h, e, j]:
            for side in range(2):
                sums[side, j] = math.exp(max(sums[side, j] - highest, _LOWEST))
            total_one += sums[0, j]
            total_other += sums[1, j]
    whole = _logarithmic_mean(total_one, total_other)
    for j in range(kept.sizes[h, e]):
        if kept.is_parent[h, e, j]:
            sums[0, j] = _logarithmic_mean(sums[0, j], sums[1, j]) / whole


@kernel
def averaged_log_odds(kept: ReadPairs, h: int, e: int, one: int, other: int) -> None:
    """Fill `kept.odds` with what each attribute of event e adds to the log odds of two classes (nats).

    These numbers and the log odds of the classes' weights sum to the log odds of the event by estimator h.
    """
    V, odds, attributes = kept.sizes[h, e], kept.odds, kept.attributes[h, e]
    for a in range(odds.size):
        share, of_other = kept.unpaired[h, e, a, one], kept.unpaired[h, e, a, other]
        odds[a] = math.log(share / of_other) if share > 0.0 else 0.0
    highest = _fill_ratios(kept, h, e, one, other)
    if highest == -np.inf:  # no value serves as a parent
        for i in range(V):
            odds[attributes[i]] = math.log(kept.bases[h, e, one, i] / kept.bases[h, e, other, i])
        return
    _fill_shares(kept, h, e, highest)
    for j in range(V):
        if kept.is_parent[h, e, j]:
            for i in range(V):
                odds[attributes[i]] += kept.sums[0, j] * kept.ratios[j, i]
