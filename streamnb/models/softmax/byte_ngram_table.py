"""Softmax regression on byte n-grams that starts from naive Bayes, in a table of fixed size.

    P(v | x) ~ exp(b_v + sum_i x_i (l_iv / 2 + w_iv))        l_iv = ln (n_iv + 1/2) / (n_v + 1)

with the steps of `softmax_regression`; x_i decreases with the number of events that had n-gram i (`rarity`),
and x is scaled to length one. Goodman and Yih (2006, Online discriminative spam filter training) showed that
byte n-grams improve spam filters over words.

An n-gram has no row of its own but a bucket, possibly shared (feature hashing, Weinberger et al. 2009), and
a class has a cell at an offset. So memory does not grow with n-grams and classes; too many of them collide,
and the posterior and pools trust the regression less. A cell holds one number: l / 2 + w, less the value for
an n-gram that the class never had.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial, reduce
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from streamnb.features.byte_ngrams import ByteNgrams
from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.growable_arrays import Growable, blocks, roomier
from streamnb.kernels.intrinsics import prefetch
from streamnb.kernels.jit import inlined, kernel
from streamnb.kernels.structs import struct_type
from streamnb.kernels.vector_kernels import fill
from streamnb.models.softmax.feature_table import COUNTS, TOTAL
from streamnb.models.softmax.rare_class_shrinkage import add_shrinkage
from streamnb.models.softmax.softmax_regression import (
    DAMPING,
    LOGS,
    SURE,
    TRUST,
    fill_gradient,
    learn_bias,
    log_of_none,
    mean_of_classes,
    rarity,
)
from streamnb.values.example_weights import UNIT
from streamnb.values.state_validation import ExpectedArray, counts, real, reject, whole
from streamnb.values.type_aliases import Array, Aside

CELLS = 4  # in each bucket; further classes use cells of the buckets that follow
_OF_TWO = 2  # cells of a record while there are at most two classes: saves cache lines
_MOST_BITS, _LEAST_BITS = 19, 6
_HEAVIEST = 1e37
_AT_ONCE = 64  # n-grams
_LINE = 16  # numbers of a cache line
_ALL, _SQUARES = 0, 1  # columns of a record
Records = npt.NDArray[np.float32]
_RISES: Floats = TRUST * (LOGS[1:] - LOGS[:-1])  # change of l / 2 from n examples to n + 1


@struct_type
class ByteNgramArrays(NamedTuple):
    """A table of B buckets for G learners, as the kernels take it.

    Attributes:
        records: float32[B, (1 + G) (1 + cells)], one row for each bucket, to be fetched at once: weight of
            all events that had it (examples); sum of squared gradients of each learner; weights of these
            events by class; and the scores of these classes by learner.
        events: int64[A, 3 + C], one row for each attribute as in `feature_table`: weight of all events with
            n-grams of it, and by class.
        cells: `CELLS`, or two while there are at most two classes.
    """

    records: Records
    events: Ints
    cells: int


@inlined
def _learners(tables: Any) -> Any:
    return tables.records.shape[1] // (1 + tables.cells) - 1


@inlined
def _counts_at(learners: Any) -> Any:
    """Return the column of the first class weight; scores of learner g begin `cells` (1 + g) later."""
    return 1 + learners


@inlined
def _log_of(n: float) -> float:
    """Return ln(n + 1/2) of a weight in examples; nearly all are whole and small."""
    at = np.int64(n)
    return float(LOGS[at]) if at == n and at < LOGS.size else math.log(n + 0.5)


@inlined
def _fetch_each(first: Any, stop: Any, grams: ByteNgrams, records: Any, classes: Any) -> None:
    """Prefetch the records of some n-grams, including the following buckets with cells of theirs."""
    width = records.shape[1]
    last = (classes + CELLS - 1) // CELLS * width - 1
    for j in range(first, stop):
        begin = np.int64(grams.buckets[j]) * width
        for i in range(0, last, _LINE):
            prefetch(records, begin + i)
        prefetch(records, begin + last)


@inlined
def _weigh_each(first: Any, stop: Any, grams: ByteNgrams, tables: Any, values: Any, square: float) -> float:
    """Fill the values v of some n-grams; return `square` plus their squares."""
    group, learned = np.int32(-1), 0.0
    for j in range(np.uint64(first), np.uint64(stop)):
        if grams.groups[j] != group:
            group = grams.groups[j]
            learned = tables.events[group, TOTAL] / UNIT
        having = tables.records[np.uint64(grams.buckets[j]), _ALL]
        v = rarity(learned, having) if learned > 0.0 else 0.0
        values[j] = v
        square += v * v
    return square


@inlined
def _add_told(
    first: Any, stop: Any, grams: ByteNgrams, records: Any, values: Any, at: Any, told: Any
) -> None:
    """Add the scores of some n-grams, from column `at` on, to told (K,), with four sums in registers."""
    K, mask = told.size, records.shape[0] - 1
    shares = K > CELLS  # then the cells of an n-gram never met may belong to other buckets
    for k in range(0, K, CELLS):
        a, b = told[k], told[k + 1] if k + 1 < K else 0.0
        c, d = told[k + 2] if k + 2 < K else 0.0, told[k + 3] if k + 3 < K else 0.0
        for j in range(np.uint64(first), np.uint64(stop)):
            bucket, v = np.int64(grams.buckets[j]), values[j]
            if shares and records[np.uint64(bucket), _ALL] == 0.0:
                continue
            r = np.uint64((bucket + k // CELLS) & mask)
            a += v * np.float64(records[r, at])
            b += v * np.float64(records[r, at + 1])
            if k + 2 < K:
                c += v * np.float64(records[r, at + 2])
                d += v * np.float64(records[r, at + 3])
        told[k] = a
        if k + 1 < K:
            told[k + 1] = b
        if k + 2 < K:
            told[k + 2] = c
        if k + 3 < K:
            told[k + 3] = d


@inlined
def _take_step(step: float, gradient: Any, records: Any, bucket: Any, at: Any) -> None:
    """Subtract step times gradient (K,) from the scores of an n-gram, in the cells from column `at` on."""
    K, mask = gradient.size, records.shape[0] - 1
    for first in range(0, K - CELLS + 1, CELLS):
        r = (bucket + first // CELLS) & mask
        a, b = records[r, at] - step * gradient[first], records[r, at + 1] - step * gradient[first + 1]
        c = records[r, at + 2] - step * gradient[first + 2]
        d = records[r, at + 3] - step * gradient[first + 3]
        records[r, at], records[r, at + 1], records[r, at + 2], records[r, at + 3] = a, b, c, d
    r = (bucket + K // CELLS) & mask
    for k in range(K // CELLS * CELLS, K):
        records[r, at + k % CELLS] -= step * gradient[k]


@kernel
def weigh_grams(
    grams: ByteNgrams, tables: ByteNgramArrays, is_cautious: bool, values: Floats, told: Floats
) -> float:
    """Fill `values` with v of each n-gram of an event; return 1 / |v|, or 0.

    N-grams of an attribute that was never learned have v = 0. Also fill told float64[G, K] with the summed
    scores by learner, to be divided by |v|; new classes are doubted if `is_cautious`.
    """
    records, n, square = tables.records, grams.n[0], 0.0
    G, K = told.shape
    for g in range(G):
        fill(told[g], 0.0)
    if K > CELLS:
        _fetch_each(0, min(n, _AT_ONCE), grams, records, K)
    for first in range(0, n, _AT_ONCE):
        stop = min(first + _AT_ONCE, n)
        if K > CELLS:
            _fetch_each(stop, min(stop + _AT_ONCE, n), grams, records, K)
        square = _weigh_each(first, stop, grams, tables, values, square)
        for g in range(G):
            _add_told(first, stop, grams, records, values, _counts_at(G) + tables.cells * (1 + g), told[g])
    for g in range(G):
        _add_none(grams, tables, is_cautious, values, told[g])
    return 1.0 / math.sqrt(square) if square > 0.0 else 0.0


@inlined
def _add_none(
    grams: ByteNgrams, tables: ByteNgramArrays, is_cautious: bool, values: Floats, told: Floats
) -> None:
    j, n = 0, grams.n[0]
    while j < n:
        group, total = grams.groups[j], 0.0
        while j < n and grams.groups[j] == group:
            total += values[j]
            j += 1
        if total > 0.0:
            mean = mean_of_classes(tables.events, group, told.size, is_cautious)
            for k in range(told.size):
                told[k] += TRUST * total * log_of_none(tables.events, group, k, mean)


@inlined
def score_grams(
    scale: float, told: Floats, bias: Floats, known: Ints, is_cautious: bool, scores: Floats
) -> None:
    """Fill scores float64[K] of one learner, -inf for classes that are not known.

    `scale` and `told` float64[K] are from `weigh_grams`; bias: float64[2, >= K]; `known`: weight by class.
    """
    for k in range(scores.size):
        scores[k] = bias[0, k] + scale * told[k] if known[k] > 0 else -np.inf
    if is_cautious:
        add_shrinkage(known, scores)


@kernel
def learn_grams(
    g: int,
    rate: float,
    grams: ByteNgrams,
    tables: ByteNgramArrays,
    scale: float,
    values: Floats,
    label: int,
    weight: float,
    probabilities: Floats,
    bias: Floats,
    gradient: Floats,
) -> None:
    """Step learner g by an event that it gave these probabilities (K,); `gradient` (K,) is scratch."""
    if probabilities[label] >= SURE:
        return
    half, records = fill_gradient(probabilities, label, weight, gradient), tables.records
    at = _counts_at(_learners(tables)) + tables.cells * (1 + g)
    for j in range(grams.n[0] if scale > 0.0 else 0):
        bucket, x = np.int64(grams.buckets[j]), scale * values[j]
        square = records[bucket, _SQUARES + g] + half * x * x
        records[bucket, _SQUARES + g] = square
        _take_step(rate * x / math.sqrt(square + DAMPING), gradient, records, bucket, at)
    learn_bias(rate, gradient, bias)


@inlined
def _rise(before: Any, after: Any) -> float:
    n = np.int64(before)
    if after - before == 1.0 and n == before and n < _RISES.size:
        return float(_RISES[np.uint64(n)])
    return TRUST * (_log_of(after) - _log_of(before))


@kernel
def count_grams(grams: ByteNgrams, tables: ByteNgramArrays, label: int, units: int) -> None:
    """Count an event, and add the change of its log likelihoods to the scores of every learner."""
    records, weight, group = tables.records, units / UNIT, np.int32(-1)
    mask, G, cells = records.shape[0] - 1, _learners(tables), tables.cells
    at, further = _counts_at(G) + label % CELLS, label // CELLS
    for j in range(np.uint64(grams.n[0])):
        bucket = np.int64(grams.buckets[j])
        r = np.uint64((bucket + further) & mask)
        before = records[r, at]
        after = np.float32(before + weight)
        records[r, at], more = after, _rise(before, after)
        for g in range(G):
            records[r, at + cells * (1 + g)] += more
        records[np.uint64(bucket), _ALL] += weight
        if grams.groups[j] != group:
            group = grams.groups[j]
            tables.events[group, TOTAL] += units
            tables.events[group, COUNTS + label] += units


@kernel
def gram_log_odds(
    g: int,
    grams: ByteNgrams,
    tables: ByteNgramArrays,
    is_cautious: bool,
    values: Floats,
    one: int,
    other: int,
    odds: Floats,
) -> None:
    """Fill `odds` of `one` against `other`, by n-gram, in learner g; `values`: scaled, of `weigh_grams`."""
    records = tables.records
    mask, at = records.shape[0] - 1, _counts_at(_learners(tables)) + tables.cells * (1 + g)
    last, none = np.int32(-1), 0.0
    for i in range(grams.n[0]):
        bucket, group = np.int64(grams.buckets[i]), grams.groups[i]
        if group != last:
            mean = mean_of_classes(tables.events, group, tables.events.shape[1] - COUNTS, is_cautious)
            none = log_of_none(tables.events, group, one, mean)
            none = TRUST * (none - log_of_none(tables.events, group, other, mean))
            last = group
        score = np.float64(records[(bucket + one // CELLS) & mask, at + one % CELLS])
        score -= np.float64(records[(bucket + other // CELLS) & mask, at + other % CELLS])
        odds[i] = values[i] * (score + none)


def _sums_of(records: Records, learners: int) -> Records:
    return records[:, : 1 + learners]


def _cells_of(records: Records, learners: int) -> Records:
    cells = records.shape[1] // (1 + learners) - 1
    return records[:, 1 + learners :].reshape(len(records), 1 + learners, cells)


def _without_zeros(copied: Any, learners: int, parts: Sequence[slice], aside: Aside) -> dict[str, Array]:
    def sums() -> Iterator[Records]:
        return (_sums_of(copied[part], learners) for part in parts)

    def cells() -> Iterator[Records]:
        return (_cells_of(copied[part], learners) for part in parts)

    are_cells, are_buckets = [*map(_any_of_columns, cells())], [*map(_any_of_columns, sums())]
    columns, are_cells = np.arange(are_cells[0].shape[1]), [*map(_index, are_cells)]

    def numbers() -> Iterator[Array]:
        for part, is_cell in zip(parts, are_cells, strict=True):
            places = np.arange(part.start, part.stop)[:, np.newaxis] * CELLS + columns
            yield places[is_cell]

    def each(column: int) -> Iterator[Array]:
        return (found[:, column][is_cell] for found, is_cell in zip(cells(), are_cells, strict=True))

    buckets = zip(parts, are_buckets, strict=True)
    return {
        "gram_cells": aside(numbers()),
        "gram_counts": aside(each(0)),
        "gram_told": aside(chain.from_iterable(map(each, range(1, 1 + learners)))).reshape(learners, -1),
        "gram_buckets": aside(part.start + np.flatnonzero(is_bucket) for part, is_bucket in buckets),
        "gram_totals": aside(found[of, 0] for found, of in zip(sums(), are_buckets, strict=True)),
        "gram_squares": aside(found[of, 1:] for found, of in zip(sums(), are_buckets, strict=True)),
    }


def _told_by(counts: Any) -> Floats:
    """Return the naive Bayes score for a class' count, less the score for count 0."""
    scores: Floats = np.log1p(2.0 * counts.astype(np.float64)) / 2.0
    return scores


def _any_of_columns(table: Any) -> Any:
    """Return the mask (B, ...) of rows of (B, G, ...) with a nonzero: `any` along G, three times as fast."""
    return reduce(np.logical_or, (table[:, g] != 0 for g in range(table.shape[1])))


def _index(where: Any) -> Any:
    """Return a mask as an index: by positions if they are few, in half the time and no more memory."""
    return where.nonzero() if 16 * np.count_nonzero(where) < where.size else where


class ByteNgramTable(Growable):
    """The table of G learners. Its cells are allocated at the first event with a text.

    Args:
        learners: G.
        memory: maximum, bytes.
        by_two: whether `memory` holds while there are two classes. At the third class `evict` folds the
            table, so that it holds again.
    """

    def __init__(self, learners: int, memory: int, by_two: bool) -> None:
        self._learners = learners
        self._events = np.zeros((0, COUNTS), dtype=np.int64)
        self._lay(0, 0)
        self.keep_within(memory, by_two)

    def __getstate__(self) -> dict[str, Any]:
        """Return only the nonzero words of a sparse table, bit for bit, for small pickles."""
        words = self._records.reshape(-1).view(np.uint64)
        is_set = words != 0
        if 2 * np.count_nonzero(is_set) >= words.size:
            return self.__dict__.copy()
        places = np.flatnonzero(is_set)
        return self.__dict__ | {"_records": (self._records.shape, places, words[places])}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if isinstance(state["_records"], tuple):
            shape, places, words = state["_records"]
            records = np.zeros(shape, dtype=np.float32)
            records.reshape(-1).view(np.uint64)[places] = words
            self._records = records

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy the table as it is, which is faster than looking for zeros."""
        again = type(self).__new__(type(self))
        again.__dict__.update(deepcopy(self.__dict__, memo))
        return again

    def keep_within(self, memory: int, by_two: bool) -> None:
        """Bound the memory of a future table; an existing table keeps its size until it is folded."""
        self._most_bits = self._bits_within(memory, CELLS) if by_two else _MOST_BITS
        if not self.is_there:
            self.bits = self._bits_within(memory, _OF_TWO if by_two else CELLS)

    def _bits_within(self, memory: int, cells: int) -> int:
        record = 4 * (1 + self._learners) * (cells + 1)
        return min(_MOST_BITS, max(_LEAST_BITS, (memory // record).bit_length() - 1))

    def is_to_fold(self, classes: int) -> bool:
        """Return True if `classes` exceeds the cells of a record for the first time."""
        return classes > self._n_cells and self._n_cells < CELLS and self.bits > self._most_bits

    def _lay(self, buckets: int, classes: int) -> None:
        G, self._n_cells = self._learners, _OF_TWO if classes <= _OF_TWO else CELLS
        self._records = np.zeros((buckets, (1 + G) * (1 + self._n_cells)), dtype=np.float32)

    @property
    def _sums(self) -> Records:
        """View (B, 1 + G): weight of all events and sums of squares, by bucket."""
        return _sums_of(self._records, self._learners)

    @property
    def _cells(self) -> Records:
        """View (B, 1 + G, cells): count and scores, by class."""
        return _cells_of(self._records, self._learners)

    @property
    def is_there(self) -> bool:
        """True if the cells are allocated."""
        return bool(self._records.size)

    @property
    def n_bytes(self) -> int:
        """Memory of the table, bytes."""
        return self._records.nbytes

    @property
    def tables(self) -> ByteNgramArrays:
        """The arrays that the kernels take."""
        return ByteNgramArrays(self._records, self._events, self._n_cells)

    def reserve(self, groups: int, classes: int) -> None:
        """Grow the arrays to hold these numbers of attributes and classes."""
        self._events = roomier(self._events, groups, COUNTS + classes, times=1.0)
        self.evict(classes)

    def evict(self, classes: int) -> None:
        """Widen the records for this number of classes, folding the table if needed; see `is_to_fold`."""
        if classes > self._n_cells < CELLS:
            while self.bits > self._most_bits:
                self._fold()
            sums, cells = self._sums, self._cells
            self._lay(len(self._records), classes)
            self._sums[:], self._cells[:, :, : cells.shape[2]] = sums, cells

    def _fold(self) -> None:
        """Merge each pair of buckets: the sums, and the mean of w weighted by events."""
        self.bits -= 1
        sums, cells = (table.reshape(-1, 2, *table.shape[1:]) for table in (self._sums, self._cells))
        counts, learned = cells[:, :, :1], cells[:, :, 1:] - _told_by(cells[:, :, :1])
        met = sums[:, :, _ALL, np.newaxis, np.newaxis].astype(np.float64)
        mean = (met * learned).sum(axis=1) / np.maximum(met.sum(axis=1), 1.0 / UNIT)
        self._lay(len(sums), _OF_TWO)
        self._sums[:] = sums.sum(axis=1)
        self._cells[:, :1] = counts.sum(axis=1)
        self._cells[:, 1:] = mean + _told_by(self._cells[:, :1])

    def lay(self, classes: int) -> None:
        """Allocate the cells, unless they are."""
        if not self.is_there:
            self._lay(1 << self.bits, classes)

    def copying(self, classes: int, aside: Aside) -> Callable[[], dict[str, Array]]:
        """Return a callable, for any thread, that builds the current state from a copy; it takes longer."""
        self.reserve(0, classes)
        met = np.flatnonzero(self._events[:, TOTAL])
        small = {
            "gram_bits": np.array([self.bits if self.is_there else 0]),
            "gram_groups": met,
            "gram_events": self._events[met, TOTAL : COUNTS + classes],
        }
        parts = blocks(len(self._records), self._records[:1].nbytes)
        copied = aside(self._records[part] for part in parts)
        return lambda: small | _without_zeros(copied, self._learners, parts, aside)

    def expected(self, arrays: Mapping[str, Array], groups: int, classes: int) -> dict[str, ExpectedArray]:
        """Return the expected arrays of a state."""
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
        """Replace everything by a state that is as `expected`. Raises SnapshotError."""
        groups, cells, buckets = (arrays[f"gram_{name}"] for name in ("groups", "cells", "buckets"))
        for name in ("gram_groups", "gram_cells", "gram_buckets"):
            reject(name, np.diff(arrays[name]) <= 0, "not in order")
        bits = int(arrays["gram_bits"][0])
        reject("gram_bits", 0 < bits < _LEAST_BITS, f"fewer than {_LEAST_BITS} bits")
        self._events = np.zeros((0, COUNTS), dtype=np.int64)
        self.reserve(int(groups.max(initial=-1)) + 1, classes)
        self._events[groups, TOTAL : COUNTS + classes] = arrays["gram_events"]
        self.bits = bits or self.bits
        of_bucket, of_record = np.divmod(cells, CELLS)
        self._lay(1 << bits if bits else 0, max(classes, int(of_record.max(initial=0)) + 1))
        self._cells[of_bucket, 0, of_record] = arrays["gram_counts"]
        self._cells[of_bucket, 1:, of_record] = arrays["gram_told"].T
        self._sums[buckets, 0], self._sums[buckets, 1:] = arrays["gram_totals"], arrays["gram_squares"]
