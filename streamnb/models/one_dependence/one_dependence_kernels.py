"""Kernels that learn and unlearn counts of values and of pairs of values within each class.

Counts are in units of 1/1024 example. Learning an event of d attributes adds to d^2 / 2 pairs of values.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Ints
from streamnb.kernels.jit import inlined, kernel
from streamnb.kernels.structs import struct_type
from streamnb.models.naive_bayes.joint_log_likelihood import known, score_priors
from streamnb.models.one_dependence.averaged_one_dependence import score_averaged
from streamnb.models.one_dependence.pair_attribution import keep_read_pairs
from streamnb.statistics.class_priors import LEARNED
from streamnb.values.type_aliases import Codes


@struct_type
class PairArrays(NamedTuple):
    """Counts of d attributes, of which the first P are counted in pairs.

    The tables have columns for C >= K classes, and rows for at least as many values as an attribute has.

    Attributes:
        classes: int64[C], weight learned (units).
        live: int64[d], number of values with a count.
        rows: int64[d], capacity in values.
        first: int64[d], first row of an attribute in `values`.
        values: int64[rows, C].
        pair_first: int64[P, P], first row of the pairs of attributes i < j; pairs with the same value of i
            are contiguous.
        pairs: int64[rows, C].
    """

    classes: Ints
    live: Ints
    rows: Ints
    first: Ints
    values: Ints
    pair_first: Ints
    pairs: Ints


@struct_type
class PairSmoothing(NamedTuple):
    """Smoothing on read, in units: `alpha` is added to every count, and `m` is the weight of P(a | v)."""

    alpha: float
    m: float


@inlined
def count_event(tables: Any, codes: Any, e: int, k: int, weight: int) -> None:
    """Add `weight` (units) to the counts of event e in class k; a negative weight subtracts."""
    tables.classes[k] += weight
    K, paired = tables.classes.size, tables.pair_first.shape[0]
    for a in range(codes.shape[1]):
        v = codes[e, a]
        if v < 0:
            continue
        row = tables.first[a] + v
        before = known(tables.values, row, K)
        tables.values[row, k] += weight
        tables.live[a] += np.int64(known(tables.values, row, K)) - np.int64(before)
        if a < paired:  # pairs are stored at the lower attribute
            pairs, rows, first = tables.pairs, tables.rows, tables.pair_first[a]
            for b in range(a + 1, min(codes.shape[1], paired)):
                u = codes[e, b]
                if u >= 0:
                    pairs[first[b] + v * rows[b] + u, k] += weight


@inlined
def _can_unlearn(tables: Any, codes: Any, e: int, k: int, weight: int) -> bool:
    if tables.classes[k] < weight:
        return False
    paired = min(codes.shape[1], tables.pair_first.shape[0])
    for a in range(codes.shape[1]):
        v, start = codes[e, a], tables.first[a]
        if v < 0:  # the events without the attribute must remain at least 0
            if tables.values[start : start + tables.rows[a], k].sum() > tables.classes[k] - weight:
                return False
            continue
        if tables.values[start + v, k] < weight:
            return False
        for b in range(a + 1, paired):
            first = tables.pair_first[a, b] + v * tables.rows[b]
            if codes[e, b] >= 0 and tables.pairs[first + codes[e, b], k] < weight:
                return False
    return True


@kernel
def unlearn_events(tables: Any, codes: Any, labels: Any, weights: Any) -> int:
    """Unlearn events in order until the counts do not hold the next one; return the number unlearned.

    Events with negative weights are learned again.
    """
    for e in range(labels.size):
        k = labels[e]
        if not 0 <= k < tables.classes.size or not _can_unlearn(tables, codes, e, k, weights[e]):
            return int(e)
        count_event(tables, codes, e, k, -weights[e])
    return int(labels.size)


class CodedEvents(NamedTuple):
    """Events: codes int32[n, d], labels int64[n] (-1: predict only), weights int64[n] in units."""

    codes: Codes
    labels: Ints
    weights: Ints

    def one(self, e: int) -> CodedEvents:
        """Return event e alone."""
        return CodedEvents(self.codes[e : e + 1], self.labels[e : e + 1], self.weights[e : e + 1])


@kernel
def run_pairs(tables: Any, reading: Any, events: Any, scratch: Any, joints: Any, kept: Any) -> None:
    """Predict each event if `joints` has rows, then learn it if it has a label, strictly in order.

    Args:
        tables: `PairArrays`.
        reading: `PairSmoothing`.
        events: `CodedEvents`.
        scratch: `AveragedScratch`.
        joints: float64[n, K], filled with log P(k, event); zero rows skip prediction.
        kept: `ReadPairs` of this estimator, filled for each predicted event; None keeps nothing.
    """
    codes, labels, weights = events
    for e in range(labels.size):
        if joints.shape[0]:
            score_priors(tables.classes, tables.classes, LEARNED, joints[e], joints[e])  # learned priors only
            V = score_averaged(tables, codes, e, reading, scratch, joints[e])
            if kept is not None:
                keep_read_pairs(tables, codes, e, V, reading, scratch, joints.shape[1], kept)
        if labels[e] >= 0:
            count_event(tables, codes, e, labels[e], weights[e])


@kernel
def move_pairs(
    pairs: Any, pair_first: Any, rows: Any, sizes: Any, to_pairs: Any, to_first: Any, to_rows: Any
) -> None:
    """Copy the pairs of the attributes that both layouts have, for the first `sizes` values of each."""
    P, K = min(pair_first.shape[0], to_first.shape[0]), min(pairs.shape[1], to_pairs.shape[1])
    for i in range(P):
        for j in range(i + 1, P):
            for v in range(sizes[i]):
                for u in range(sizes[j]):
                    row = pair_first[i, j] + v * rows[j] + u
                    to = to_first[i, j] + v * to_rows[j] + u
                    for k in range(K):
                        to_pairs[to, k] = pairs[row, k]
