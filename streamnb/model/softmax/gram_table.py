"""Softmax regression on runs of bytes, which starts where naive Bayes stands, in a table of a fixed size.

    P(v | x) ~ exp(b_v + sum_i x_i (l_iv / 2 + w_iv))        l_iv = ln (n_iv + 1/2) / (n_v + 1)

as in `softmax`, whose steps it takes; x_i is greater the fewer events had run i (`rarity`), and x is scaled
to length one. Goodman and Yih (2006, Online discriminative spam filter training) showed what runs of bytes
tell of mail that its words do not.

A run has no row of its own but its bucket, which others may share (feature hashing, Weinberger et al. 2009),
and a class the cell so many places further. So memory is what it is, however many runs and classes there are;
where there are more than fit, they disturb each other, and the posterior and pools trust it less. A cell has
what it tells as one number: l / 2 + w, less what a run tells that the class never had.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamnb.compiler.bundles import bundle
from streamnb.model.attributes.expected import Expected, counts, real, reject, whole
from streamnb.model.attributes.signatures import Array
from streamnb.model.attributes.weights import UNIT
from streamnb.model.compiled.arrays import Floats, Ints
from streamnb.model.compiled.intrinsics import prefetch
from streamnb.model.compiled.jit import inlined, kernel
from streamnb.model.compiled.vectors import fill
from streamnb.model.encoding.byte_grams import ByteGrams
from streamnb.model.softmax.feature_table import COUNTS, TOTAL
from streamnb.model.softmax.softmax import DAMPING, LOGS, SURE, TRUST, log_of_none, rarity

CELLS = 4
"""For each bucket: classes beyond them lie in cells of the buckets that follow."""
_MOST_BITS, _LEAST_BITS = 19, 6
_SHARE = 8  # of the memory for features, which it takes beside them
_HEAVIEST = 1e37
_AHEAD = 16  # runs


@bundle
class GramTables(NamedTuple):
    """A table of B buckets for G learners, as the kernels take it.

    Attributes:
        told: float32[G, CELLS B], what a run tells of a class.
        counts: float32[CELLS B], weight of the events of a class that had it (examples).
        sums: float32[B, 1 + G], weight of all events that had it, and of each learner the sum of squared
            gradients.
        events: int64[A, 3 + C], of each attribute a row as of `feature_table`: weight of all events that had
            runs of it, and by class.
    """

    told: npt.NDArray[np.float32]
    counts: npt.NDArray[np.float32]
    sums: npt.NDArray[np.float32]
    events: Ints


@inlined
def _log_of(n: float) -> float:
    """Ln(n + 1/2) of a weight in examples; nearly all are whole and small."""
    at = np.int64(n)
    return float(LOGS[at]) if at == n and at < LOGS.size else math.log(n + 0.5)


@inlined
def _fetch(tables: GramTables, bucket: Any) -> None:
    """Ask for what is known of a bucket: tables are larger than caches, and nothing tells which is next."""
    prefetch(tables.sums, bucket * tables.sums.shape[1])
    prefetch(tables.counts, bucket * CELLS)
    for g in range(tables.told.shape[0]):
        prefetch(tables.told, g * tables.told.shape[1] + bucket * CELLS)


@kernel
def weigh_grams(grams: ByteGrams, e: int, tables: GramTables, values: Floats) -> float:
    """Fill values with v, what each run of event e weighs; 1 / |v|, or zero.

    Runs of an attribute of which none was learned weigh nothing.
    """
    first, stop, square = grams.ends[e], grams.ends[e + 1], 0.0
    for j in range(first, stop):
        if j + _AHEAD < stop:
            _fetch(tables, np.int64(grams.buckets[j + _AHEAD]))
        learned = tables.events[grams.groups[j], TOTAL]
        v = rarity(learned / UNIT, tables.sums[grams.buckets[j], 0]) if learned > 0 else 0.0
        values[j - first] = v
        square += v * v
    return 1.0 / math.sqrt(square) if square > 0.0 else 0.0


@inlined
def _add_none(grams: ByteGrams, e: int, tables: GramTables, values: Floats, scores: Floats) -> None:
    """Add what runs tell of classes that never had them."""
    first, stop = grams.ends[e], grams.ends[e + 1]
    j = first
    while j < stop:
        group, total = grams.groups[j], 0.0
        while j < stop and grams.groups[j] == group:
            total += values[j - first]
            j += 1
        if total > 0.0:
            for k in range(scores.size):
                scores[k] += TRUST * total * log_of_none(tables.events, group, k)


@kernel
def score_grams(
    g: int,
    grams: ByteGrams,
    e: int,
    tables: GramTables,
    scale: float,
    values: Floats,
    bias: Floats,
    known: Ints,
    scores: Floats,
) -> None:
    """Fill scores float64[K] with those of learner g, -inf for classes that are not known.

    Args:
        g: which learner.
        grams: of a batch.
        e: the event.
        tables: `GramTables`.
        scale: what `weigh_grams` returned.
        values: what it filled.
        bias: float64[2, >= K].
        known: int64[K], weight learned of each class.
        scores: float64[K].
    """
    K, mask = scores.size, tables.counts.size - 1
    fill(scores, 0.0)
    if scale > 0.0:
        first = grams.ends[e]
        for j in range(first, grams.ends[e + 1]):
            bucket, v = np.int64(grams.buckets[j]), values[j - first]
            if tables.sums[bucket, 0] == 0.0:
                continue
            cell = bucket * CELLS
            if cell + K <= mask:
                for k in range(K):
                    scores[k] += v * tables.told[g, cell + k]
            else:
                for k in range(K):
                    scores[k] += v * tables.told[g, (cell + k) & mask]
        _add_none(grams, e, tables, values, scores)
    for k in range(K):
        scores[k] = bias[0, k] + scale * scores[k] if known[k] > 0 else -np.inf


@kernel
def learn_grams(
    g: int,
    rate: float,
    grams: ByteGrams,
    e: int,
    tables: GramTables,
    scale: float,
    values: Floats,
    label: int,
    weight: float,
    probabilities: Floats,
    bias: Floats,
    gradient: Floats,
) -> None:
    """One step of learner g, of an event that it gave these probabilities (K,); `weight` in examples.

    `gradient` float64[K] is scratch.
    """
    if probabilities[label] >= SURE:
        return
    K, mask, half = probabilities.size, tables.counts.size - 1, 0.0
    for k in range(K):
        gradient[k] = weight * (probabilities[k] - (1.0 if k == label else 0.0))
        half += gradient[k] * gradient[k] / 2.0
    first = grams.ends[e]
    for j in range(first, grams.ends[e + 1] if scale > 0.0 else first):
        bucket, x = np.int64(grams.buckets[j]), scale * values[j - first]
        square = tables.sums[bucket, 1 + g] + half * x * x
        tables.sums[bucket, 1 + g] = square
        step = rate * x / math.sqrt(square + DAMPING)
        for k in range(K):
            tables.told[g, (bucket * CELLS + k) & mask] -= step * gradient[k]
    for k in range(K):
        bias[1, k] += gradient[k] * gradient[k]
        bias[0, k] -= rate * gradient[k] / math.sqrt(bias[1, k] + DAMPING)


@kernel
def count_grams(grams: ByteGrams, e: int, tables: GramTables, label: int, units: int) -> None:
    """Count event e, which every learner is told of."""
    mask, weight, group = tables.counts.size - 1, units / UNIT, np.int32(-1)
    for j in range(grams.ends[e], grams.ends[e + 1]):
        bucket = np.int64(grams.buckets[j])
        cell = (bucket * CELLS + label) & mask
        before = tables.counts[cell]
        tables.counts[cell] = before + weight
        more = TRUST * (_log_of(tables.counts[cell]) - _log_of(before))
        for g in range(tables.told.shape[0]):
            tables.told[g, cell] += more
        tables.sums[bucket, 0] += weight
        if grams.groups[j] != group:
            group = grams.groups[j]
            tables.events[group, TOTAL] += units
            tables.events[group, COUNTS + label] += units


@kernel
def gram_log_odds(
    g: int, grams: ByteGrams, tables: GramTables, values: Floats, one: int, other: int, odds: Floats
) -> None:
    """Fill odds with what each run of one event adds, in learner g, to the score of `one` less `other`.

    `values` are those of `weigh_grams`, times what it returned.
    """
    mask = tables.counts.size - 1
    for i in range(grams.buckets.size):
        cell, group = np.int64(grams.buckets[i]) * CELLS, grams.groups[i]
        none = TRUST * (log_of_none(tables.events, group, one) - log_of_none(tables.events, group, other))
        told = np.float64(tables.told[g, (cell + one) & mask]) - np.float64(
            tables.told[g, (cell + other) & mask]
        )
        odds[i] = values[i] * (told + none)


class Grams:
    """The table of G learners. It has cells from the first event with a text on.

    Args:
        learners: G.
        memory: bytes for the features beside it, of which it takes at most an eighth more.
    """

    def __init__(self, learners: int, memory: int) -> None:
        self._learners, self.bits = learners, _LEAST_BITS
        while self.bits < _MOST_BITS and _SHARE * self._size_of(self.bits + 1) <= memory:
            self.bits += 1
        self._events = np.zeros((0, COUNTS), dtype=np.int64)
        self._lay(0)

    def _size_of(self, bits: int) -> int:
        """Bytes of a table of so many bits."""
        return 4 * (1 + self._learners) * (CELLS + 1) << bits

    def _lay(self, buckets: int) -> None:
        G = self._learners
        self._told = np.zeros((G, CELLS * buckets), dtype=np.float32)
        self._counts = np.zeros(CELLS * buckets, dtype=np.float32)
        self._sums = np.zeros((buckets, 1 + G), dtype=np.float32)

    @property
    def is_there(self) -> bool:
        """Whether there are cells."""
        return bool(self._counts.size)

    @property
    def n_bytes(self) -> int:
        """Memory of the table, bytes."""
        return self._told.nbytes + self._counts.nbytes + self._sums.nbytes

    @property
    def tables(self) -> GramTables:
        """As the kernels take them."""
        return GramTables(self._told, self._counts, self._sums, self._events)

    def reserve(self, groups: int, classes: int) -> None:
        """Let there be so many attributes and classes."""
        more = [max(0, groups - len(self._events)), max(0, COUNTS + classes - self._events.shape[1])]
        if any(more):
            self._events = np.pad(self._events, [(0, n) for n in more])

    def lay(self) -> None:
        """Let there be cells."""
        if not self.is_there:
            self._lay(1 << self.bits)

    def state(self, classes: int) -> dict[str, Array]:
        """Copies of all that is not zero; the numbers of attributes, cells and buckets rise."""
        self.reserve(0, classes)
        met = np.flatnonzero(self._events[:, TOTAL])
        cells = np.flatnonzero((self._counts != 0) | (self._told != 0).any(axis=0))
        buckets = np.flatnonzero((self._sums != 0).any(axis=1))
        return {
            "gram_bits": np.array([self.bits if self.is_there else 0]),
            "gram_groups": met,
            "gram_events": self._events[met, TOTAL : COUNTS + classes],
            "gram_cells": cells,
            "gram_counts": self._counts[cells],
            "gram_told": self._told[:, cells],
            "gram_buckets": buckets,
            "gram_totals": self._sums[buckets, 0],
            "gram_squares": self._sums[buckets, 1:],
        }

    def expected(self, arrays: Mapping[str, Array], groups: int, classes: int) -> dict[str, Expected]:
        """The arrays of a state, which these are to be."""
        bits, G = np.ravel(arrays.get("gram_bits", 0)), self._learners
        buckets = 1 << int(bits[0]) if bits.size and _LEAST_BITS <= bits[0] <= _MOST_BITS else 0
        weights = partial(real, low=0.0, high=_HEAVIEST, dtype=np.float32)
        return {
            "gram_bits": whole(1, low=0, high=_MOST_BITS),
            "gram_groups": whole("attributes with runs", low=0, high=groups - 1),
            "gram_events": counts("attributes with runs", 1 + classes),
            "gram_cells": whole("cells", low=0, high=CELLS * buckets - 1),
            "gram_counts": weights("cells"),
            "gram_told": real(G, "cells", low=-_HEAVIEST, high=_HEAVIEST, dtype=np.float32),
            "gram_buckets": whole("buckets", low=0, high=buckets - 1),
            "gram_totals": weights("buckets"),
            "gram_squares": weights("buckets", G),
        }

    def load(self, arrays: Mapping[str, Array], classes: int) -> None:
        """Replace everything by what a state holds, which is as `expected`. Raises SnapshotError."""
        groups, cells, buckets = (arrays[f"gram_{name}"] for name in ("groups", "cells", "buckets"))
        for name in ("gram_groups", "gram_cells", "gram_buckets"):
            reject(name, np.diff(arrays[name]) <= 0, "not in order")
        bits = int(arrays["gram_bits"][0])
        reject("gram_bits", 0 < bits < _LEAST_BITS, "so small no table is")
        self._events = np.zeros((0, COUNTS), dtype=np.int64)
        self.reserve(int(groups.max(initial=-1)) + 1, classes)
        self._events[groups, TOTAL : COUNTS + classes] = arrays["gram_events"]
        self.bits = bits or self.bits
        self._lay(1 << bits if bits else 0)
        self._counts[cells], self._told[:, cells] = arrays["gram_counts"], arrays["gram_told"]
        self._sums[buckets, 0], self._sums[buckets, 1:] = arrays["gram_totals"], arrays["gram_squares"]
