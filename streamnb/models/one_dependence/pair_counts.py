"""Counts of values and of pairs of values within classes, in units of 1/1024 example; exact in any order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.growable_arrays import Growable
from streamnb.models.one_dependence.averaged_one_dependence import AveragedScratch
from streamnb.models.one_dependence.one_dependence_kernels import (
    CodedEvents,
    PairArrays,
    PairSmoothing,
    move_pairs,
    run_pairs,
    unlearn_events,
)
from streamnb.models.one_dependence.pair_attribution import ReadPairs
from streamnb.values.state_validation import MOST, checked, count, reject, whole
from streamnb.values.state_validation import counts as counts_of
from streamnb.values.type_aliases import Array, Codes

Counts = Ints
_FEW_CLASSES = 4


class PairCounts(Growable):
    """Counts of events given as codes of d attributes and a class.

    Only the first attributes are counted in pairs, as many as fit `memory`. That number falls as values and
    classes are added: attributes that no longer fit lose their pairs.

    Args:
        memory: limit of the pair counts, bytes, spare capacity included.
        bounds_values: limit the counts of values, too, to a quarter of `memory` in addition.

    Attributes:
        sizes: int64[d], number of codes of each attribute.
        classes: number of classes.
        events: number of events learned, less those unlearned.
        paired: maximum number of attributes counted in pairs; -1 while all are.
    """

    def __init__(self, memory: int, *, bounds_values: bool = False) -> None:
        self.memory, self.bounds_values = memory, bounds_values
        self.sizes: Counts = np.zeros(0, dtype=np.int64)
        self.classes = 0
        self.events = 0
        self.paired = -1
        self.tables = _laid_out(np.zeros(0, dtype=np.int64), 1, 0, spare=0)

    @property
    def n_bytes(self) -> int:
        """Memory, bytes, spare capacity included."""
        return sum(array.nbytes for array in self.tables)

    @property
    def pair_bytes(self) -> int:
        """Memory that the pair counts take without spare capacity, bytes."""
        P = self.tables.pair_first.shape[0]
        before = np.cumsum(self.sizes[:P]) - self.sizes[:P]
        return 8 * self.classes * int((self.sizes[:P] * before).sum())

    def fitting(self, sizes: Counts, classes: int) -> int:
        """Return how many attributes of these sizes can be counted in pairs; -1 for all."""
        limit = sizes.size if self.paired < 0 else min(sizes.size, self.paired)
        if self.bounds_values:  # with spare capacity, or every new value would rebuild the tables
            sizes, classes = _spared(sizes), _spared_columns(classes)
        before = np.cumsum(sizes) - sizes
        n_bytes = 8 * classes * np.cumsum(sizes * before)
        fits = int(np.searchsorted(n_bytes[:limit], self.memory, side="right"))
        return self.paired if fits == limit else fits

    def keeping(self, sizes: Counts, classes: int) -> int:
        """Return how many attributes of these sizes can be counted at all."""
        if not self._is_over(8 * classes * int(sizes.sum())):
            return sizes.size
        return int(np.searchsorted(8 * classes * np.cumsum(sizes), self.memory // 4, side="right"))

    def _is_over(self, n_bytes: int) -> bool:
        return self.bounds_values and n_bytes > self.memory // 4

    def keep_first(self, kept: int) -> None:
        """Discard the counts of all but the first `kept` attributes."""
        if kept < self.sizes.size:
            self._move(self.sizes[:kept], self.classes, min(kept, self.tables.pair_first.shape[0]))

    def begin(self, class_weights: Counts, events: int) -> None:
        """Start from `events` events without attributes, whose classes have these weights (units)."""
        met = int(np.flatnonzero(class_weights).max(initial=-1)) + 1
        self.reserve(self.sizes, met)
        self.tables.classes[:met], self.events = class_weights[:met], events

    def reserve(self, sizes: Counts, classes: int) -> None:
        """Reserve capacity for `sizes` values of each attribute and for this number of classes."""
        self.paired = self.fitting(sizes, classes)
        tables, d = self.tables, sizes.size
        P = d if self.paired < 0 else min(d, self.paired)
        has_rows = d == tables.rows.size and bool((sizes <= tables.rows).all())
        is_paired = tables.pair_first.shape[0] == P
        if not (has_rows and is_paired and classes <= tables.classes.size):
            self._move(sizes, classes, P)
        vars(self)["sizes"], self.classes = sizes, classes  # kernels do not read them

    def run(
        self, events: CodedEvents, reading: PairSmoothing, joints: Floats, kept: ReadPairs | None = None
    ) -> None:
        """Learn the labelled events in order; capacity must have been reserved.

        If `joints` (float64[n, K]) has rows, log P(class, event) is written before each event is learned, and
        what was read of it to `kept`.
        """
        scratch = AveragedScratch.with_capacity(
            min(events.codes.shape[1], len(self.tables.pair_first)), self.classes
        )
        run_pairs(self.tables, reading, events, scratch, joints, kept)
        self.events += int(np.count_nonzero(events.labels >= 0))

    def unlearn_many(self, codes: Codes, labels: Counts, weights: Counts) -> int:
        """Unlearn events in order until the counts do not hold the next one; return the number unlearned."""
        labels = labels[: self.events]
        done = int(unlearn_events(self.tables, codes, labels, weights))
        self.events -= done
        return done

    def learn_again(self, codes: Codes, labels: Counts, weights: Counts) -> None:
        """Learn events again that `unlearn_many` removed."""
        unlearn_events(self.tables, codes, labels, -weights)
        self.events += labels.size

    def state(self) -> dict[str, Array]:
        """Return all counts, without spare capacity; totals are sums of `values`, and no parent is fixed."""
        tables, K = self.tables, self.classes
        P = tables.pair_first.shape[0]
        bare = _laid_out(self.sizes, K, P, spare=0)
        move_pairs(
            tables.pairs, tables.pair_first, tables.rows, self.sizes, bare.pairs, bare.pair_first, bare.rows
        )
        values = tables.values[_rows(tables.first, self.sizes), :K]
        return {
            "class_weights": tables.classes[:K].copy(),
            "totals": _totals(values, bare.first),
            "values": values,
            "pairs": bare.pairs,
            "parents": np.full(self.sizes.size, -1, dtype=np.int64),
        }

    def load(self, sizes: Counts, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Replace the counts by a `state`, with its `events` and `paired`. Raises SnapshotError."""
        self.events = count(meta, "events")
        self.paired = count(meta, "paired", least=-1)
        weights = arrays["class_weights"]
        K, P = np.size(weights), sizes.size if self.paired < 0 else min(sizes.size, self.paired)
        bare = _laid_out(sizes, K, P, spare=0)
        arrays = checked(
            arrays,
            {
                "class_weights": counts_of("classes"),
                "totals": whole(sizes.size, K, low=0, high=weights),
                "values": whole(*bare.values.shape, low=0, high=weights),
                "pairs": whole(*bare.pairs.shape, low=0, high=weights),
                "parents": whole(*sizes.shape, low=-1, high=-1),
            },
        )
        _check(arrays, bare)
        classes, values, pairs = (np.array(arrays[name]) for name in ("class_weights", "values", "pairs"))
        self.tables = bare._replace(classes=classes, values=values, pairs=pairs)
        self.sizes, self.classes = sizes, K
        for a, first in enumerate(bare.first.tolist()):
            bare.live[a] = np.count_nonzero(values[first : first + sizes[a]].any(axis=1))
        self.reserve(sizes, K)

    def _move(self, sizes: Counts, classes: int, paired: int) -> None:
        """Rebuild the tables for more values or classes, or for fewer pairs or attributes (the last go)."""
        old, d = self.tables, min(self.sizes.size, sizes.size)
        for spare in (2, 1, 0):
            new = _laid_out(sizes, classes, paired, spare)
            if new.pairs.nbytes <= self.memory and not self._is_over(new.values.nbytes):
                break
        K = min(old.classes.size, new.classes.size)
        new.classes[:K] = old.classes[:K]
        new.live[:d] = old.live[:d]
        before = self.sizes[:d]
        new.values[_rows(new.first[:d], before), :K] = old.values[_rows(old.first[:d], before), :K]
        move_pairs(old.pairs, old.pair_first, old.rows, self.sizes, new.pairs, new.pair_first, new.rows)
        self.tables, self.sizes, self.classes = new, sizes, classes


def _laid_out(sizes: Counts, classes: int, paired: int, spare: int) -> PairArrays:
    """Return empty tables for these numbers of values and classes.

    `spare` 2 reserves up to twice as many values, `spare` 1 up to seven more. With few classes the rows get
    no spare columns, because all classes appear early.
    """
    d, rows, columns = sizes.size, sizes.copy(), classes
    if spare == 1:
        rows = (sizes + 7) // 8 * 8
    elif spare:
        rows, columns = _spared(sizes), _spared_columns(classes)
    i, j = np.triu_indices(paired, 1)
    length = rows[i] * rows[j]
    pair_first = np.full((paired, paired), -1, dtype=np.int64)
    pair_first[i, j] = np.cumsum(length) - length
    return PairArrays(
        classes=np.zeros(columns, dtype=np.int64),
        live=np.zeros(d, dtype=np.int64),
        rows=rows,
        first=np.cumsum(rows) - rows,
        values=np.zeros((int(rows.sum()), columns), dtype=np.int64),
        pair_first=pair_first,
        pairs=np.zeros((int(length.sum()), columns), dtype=np.int64),
    )


def _spared(sizes: Counts) -> Counts:
    """Return a capacity of up to twice as many values, at least 4."""
    return np.asarray(1 << np.ceil(np.log2(np.maximum(sizes, 4))).astype(np.int64))


def _spared_columns(classes: int) -> int:
    return classes + (classes // 2 if classes > _FEW_CLASSES else 0)


def _rows(first: Counts, sizes: Counts) -> Counts:
    """Return the rows of all values, attribute by attribute."""
    offsets = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.repeat(first, sizes) + offsets


def _totals(values: Counts, first: Counts) -> Counts:
    """Return the sums over the values of each attribute, which has at least one row. Shape (d, K)."""
    return np.add.reduceat(values, first) if first.size else np.zeros((0, values.shape[1]), dtype=np.int64)


def _check(arrays: Mapping[str, Array], bare: PairArrays) -> None:
    for name in ("class_weights", "values", "pairs"):
        reject(name, arrays[name].sum(dtype=np.float64) > MOST, "counts whose sum overflows")
    sums = _totals(arrays["values"], bare.first)
    reject("totals", sums != arrays["totals"], "not the sums over the values of an attribute")
