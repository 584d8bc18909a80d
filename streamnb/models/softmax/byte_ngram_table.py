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
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial, reduce
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from streamnb.features.byte_ngrams import ByteNgrams
from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.growable_arrays import blocks, roomier
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

CELLS = 4
"""For each bucket: classes beyond them lie in cells of the buckets that follow."""
_OF_TWO = 2  # cells that a record has as long as there are not more classes: no cache holds what is not read
_MOST_BITS, _LEAST_BITS = 19, 6
_HEAVIEST = 1e37
_AT_ONCE = 64  # runs
_LINE = 16  # numbers of a cache line
_ALL, _SQUARES = 0, 1  # of a record; the squares of all learners
Records = npt.NDArray[np.float32]
_RISES: Floats = TRUST * (LOGS[1:] - LOGS[:-1])  # of what a run tells, from n examples to n + 1


@struct_type
class ByteNgramArrays(NamedTuple):
    """A table of B buckets for G learners, as the kernels take it.

    Attributes:
        records: float32[B, (1 + G) (1 + cells)], of each bucket, so that all of it is fetched at once: weight
            of all events that had it (examples); of each learner the sum of squared gradients; weights of the
            events of its cells' classes that had it; and for each learner what it tells of them.
        events: int64[A, 3 + C], of each attribute a row as of `feature_table`: weight of all events that had
            runs of it, and by class.
        cells: `CELLS`, or two as long as there are not more classes.
    """

    records: Records
    events: Ints
    cells: int


@inlined
def _learners(tables: Any) -> Any:
    """How many there are."""
    return tables.records.shape[1] // (1 + tables.cells) - 1


@inlined
def _counts_at(learners: Any) -> Any:
    """Where the weights of a record's classes begin; what learner g tells begins `cells` (1 + g) after."""
    return 1 + learners


@inlined
def _log_of(n: float) -> float:
    """Ln(n + 1/2) of a weight in examples; nearly all are whole and small."""
    at = np.int64(n)
    return float(LOGS[at]) if at == n and at < LOGS.size else math.log(n + 0.5)


@inlined
def _fetch_each(first: Any, stop: Any, grams: ByteNgrams, records: Any, classes: Any) -> None:
    """Ask for what is known of some runs in cells of the buckets that follow, too; see `find_byte_ngrams`."""
    width = records.shape[1]
    last = (classes + CELLS - 1) // CELLS * width - 1
    for j in range(first, stop):
        begin = np.int64(grams.buckets[j]) * width
        for i in range(0, last, _LINE):
            prefetch(records, begin + i)
        prefetch(records, begin + last)


@inlined
def _weigh_each(first: Any, stop: Any, grams: ByteNgrams, tables: Any, values: Any, square: float) -> float:
    """Fill in what some runs weigh; `square` and theirs."""
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
    """Add what some runs tell, in the cells from `at` of their records on, to told (K,).

    Four classes at once, whose sums need not be written before the last run is read.
    """
    K, mask = told.size, records.shape[0] - 1
    shares = K > CELLS  # of a run that nobody met, cells may have what others tell
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
    """Take step times gradient (K,) from what a run tells, in the cells from `at` of its records on."""
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
    """Fill values with v, what each run of an event weighs; 1 / |v|, or zero.

    Runs of an attribute of which none was learned weigh nothing. Fill told float64[G, K] with what all runs
    together tell each learner, to be divided by |v|; classes that are new are doubted where it `is_cautious`.
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
    """Add what runs tell of classes that never had them."""
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
    """Fill scores float64[K] with those of one learner, -inf for classes that are not known.

    Args:
        scale: what `weigh_grams` returned.
        told: float64[K], what it filled for the learner.
        bias: float64[2, >= K].
        known: int64[K], weight learned of each class.
        is_cautious: whether classes that are new are doubted.
        scores: float64[K].
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
    """One step of learner g, of an event that it gave these probabilities (K,); `weight` in examples.

    `gradient` float64[K] is scratch.
    """
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
    """By how much more a run tells of a class once its weight is `after`; nearly all are of one example."""
    n = np.int64(before)
    if after - before == 1.0 and n == before and n < _RISES.size:
        return float(_RISES[np.uint64(n)])
    return TRUST * (_log_of(after) - _log_of(before))


@kernel
def count_grams(grams: ByteNgrams, tables: ByteNgramArrays, label: int, units: int) -> None:
    """Count an event, which every learner is told of."""
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
    """Fill odds with what each run of one event adds, in learner g, to the score of `one` less `other`.

    `values` are those of `weigh_grams`, times what it returned.
    """
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
        told = np.float64(records[(bucket + one // CELLS) & mask, at + one % CELLS])
        told -= np.float64(records[(bucket + other // CELLS) & mask, at + other % CELLS])
        odds[i] = values[i] * (told + none)


def _sums_of(records: Records, learners: int) -> Records:
    return records[:, : 1 + learners]


def _cells_of(records: Records, learners: int) -> Records:
    cells = records.shape[1] // (1 + learners) - 1
    return records[:, 1 + learners :].reshape(len(records), 1 + learners, cells)


def _without_zeros(copied: Any, learners: int, parts: Sequence[slice], aside: Aside) -> dict[str, Array]:
    """All of a copied table that is not zero; the numbers of cells and buckets rise."""

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
    """What naive Bayes tells by how often a class had a run, beyond what it tells where that is never."""
    told: Floats = np.log1p(2.0 * counts.astype(np.float64)) / 2.0
    return told


def _any_of_columns(table: Any) -> Any:
    """Where a table (B, G, ...) is not all zero, (B, ...): what `any` finds along G, three times as fast."""
    return reduce(np.logical_or, (table[:, g] != 0 for g in range(table.shape[1])))


def _index(where: Any) -> Any:
    """The same as an index: by places where these are few, which takes half the time and no more memory."""
    return where.nonzero() if 16 * np.count_nonzero(where) < where.size else where


class ByteNgramTable:
    """The table of G learners. It has cells from the first event with a text on.

    Args:
        learners: G.
        memory: which it takes at most, bytes.
        by_two: whether that is so while there are two classes. As a third one comes the table is folded, so
            that it is so again, by `evict`.
    """

    def __init__(self, learners: int, memory: int, by_two: bool) -> None:
        self._learners = learners
        self._events = np.zeros((0, COUNTS), dtype=np.int64)
        self._lay(0, 0)
        self.keep_within(memory, by_two)

    def __getstate__(self) -> dict[str, Any]:
        """Return all but the zeros, which fill the table of few events: pickles are as small as files.

        Bits are kept, not values: those of a negative zero are not all zero.
        """
        words = self._records.reshape(-1).view(np.uint64)
        is_set = words != 0
        if 2 * np.count_nonzero(is_set) >= words.size:
            return self.__dict__.copy()
        places = np.flatnonzero(is_set)
        return self.__dict__ | {"_records": (self._records.shape, places, words[places])}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Lay the table again where zeros were left out."""
        self.__dict__.update(state)
        if isinstance(state["_records"], tuple):
            shape, places, words = state["_records"]
            records = np.zeros(shape, dtype=np.float32)
            records.reshape(-1).view(np.uint64)[places] = words
            self._records = records

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy the table as it lies, which is faster than to look for its zeros."""
        again = type(self).__new__(type(self))
        again.__dict__.update(deepcopy(self.__dict__, memo))
        return again

    def keep_within(self, memory: int, by_two: bool) -> None:
        """Let a table that is yet to come take so many bytes, and one that is there once it is folded."""
        self._most_bits = self._bits_within(memory, CELLS) if by_two else _MOST_BITS
        if not self.is_there:
            self.bits = self._bits_within(memory, _OF_TWO if by_two else CELLS)

    def _bits_within(self, memory: int, cells: int) -> int:
        """So many has a table of records of so many cells."""
        record = 4 * (1 + self._learners) * (cells + 1)
        return min(_MOST_BITS, max(_LEAST_BITS, (memory // record).bit_length() - 1))

    def is_to_fold(self, classes: int) -> bool:
        """Whether so many classes are the first that the table is folded for."""
        return classes > self._n_cells and self._n_cells < CELLS and self.bits > self._most_bits

    def _lay(self, buckets: int, classes: int) -> None:
        G, self._n_cells = self._learners, _OF_TWO if classes <= _OF_TWO else CELLS
        self._records = np.zeros((buckets, (1 + G) * (1 + self._n_cells)), dtype=np.float32)

    @property
    def _sums(self) -> Records:
        """Of each bucket all its events, and squares. A view (B, 1 + G)."""
        return _sums_of(self._records, self._learners)

    @property
    def _cells(self) -> Records:
        """Of each class' cell its count, and what learners tell. A view (B, 1 + G, cells)."""
        return _cells_of(self._records, self._learners)

    @property
    def is_there(self) -> bool:
        """Whether there are cells."""
        return bool(self._records.size)

    @property
    def n_bytes(self) -> int:
        """Memory of the table, bytes."""
        return self._records.nbytes

    @property
    def tables(self) -> ByteNgramArrays:
        """As the kernels take them."""
        return ByteNgramArrays(self._records, self._events, self._n_cells)

    def reserve(self, groups: int, classes: int) -> None:
        """Let there be so many attributes and classes."""
        self._events = roomier(self._events, groups, COUNTS + classes, times=1.0)
        self.evict(classes)

    def evict(self, classes: int) -> None:
        """Let records have cells for so many classes; see `is_to_fold`."""
        if classes > self._n_cells < CELLS:
            while self.bits > self._most_bits:
                self._fold()
            sums, cells = self._sums, self._cells
            self._lay(len(self._records), classes)
            self._sums[:], self._cells[:, :, : cells.shape[2]] = sums, cells

    def _fold(self) -> None:
        """Let every bucket be what two were: the sums, and the mean of w by how often each was met."""
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
        """Let there be cells, of so many classes."""
        if not self.is_there:
            self._lay(1 << self.bits, classes)

    def copying(self, classes: int, aside: Aside) -> Callable[[], dict[str, Array]]:
        """What makes the state of now out of a copy, which takes longer; any thread may call it."""
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
        of_bucket, of_record = np.divmod(cells, CELLS)
        self._lay(1 << bits if bits else 0, max(classes, int(of_record.max(initial=0)) + 1))
        self._cells[of_bucket, 0, of_record] = arrays["gram_counts"]
        self._cells[of_bucket, 1:, of_record] = arrays["gram_told"].T
        self._sums[buckets, 0], self._sums[buckets, 1:] = arrays["gram_totals"], arrays["gram_squares"]
