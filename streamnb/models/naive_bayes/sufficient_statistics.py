"""Sufficient statistics of a naive Bayes model: everything that is learned, and nothing else.

Counts and moments, with the classes, attributes and vocabulary that name their rows and columns. Smoothing
and priors belong to the model, so several models can read the same statistics.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from streamnb.features.data_frames import FrameColumns
from streamnb.features.encoded_batch import Batch, Encoded
from streamnb.features.event_writer import EventWriter
from streamnb.features.feature_layout import Layout
from streamnb.features.targets import Targets
from streamnb.features.vocabulary import Vocabulary
from streamnb.kernels.array_types import Ints
from streamnb.kernels.growable_arrays import Growable, PinnedArrays, keep_rows, ranking
from streamnb.models.naive_bayes.naive_bayes_tables import CountViews, SmoothingParams
from streamnb.models.naive_bayes.state_copy import StateCopy
from streamnb.statistics.count_sources import Sources
from streamnb.statistics.counts import Counts
from streamnb.statistics.decayed_counts import DecayedCounts
from streamnb.statistics.document_frequency import DocumentFrequency
from streamnb.statistics.lightest_rows import drop_lightest, row_sums
from streamnb.statistics.memory_budget import KEPT, MemoryBudget, MemoryUse
from streamnb.statistics.moments import Moments
from streamnb.values.attribute_kinds import NOMINAL, STOPPED, UNKNOWN
from streamnb.values.example_weights import UNIT
from streamnb.values.type_aliases import Array, Codes, Flags

_NEVER = 1 << 40  # no row has such a number
_SLICE = 4 << 20  # bytes of rows that are moved at once
_ROW = 48  # bytes of a row without its counts, including its entry in a table of slots
_SWEPT_FOR_EACH = 8  # rows swept per new row


class Moment(NamedTuple):
    """Moments of one continuous attribute within one class: weight (examples), mean, variance (M2 / n)."""

    n: float
    mean: float
    variance: float


class BudgetChange(NamedTuple):
    """A change of the memory budget: the number of prunings before it, and what was known at the time.

    Rows, groups and fields met later had no part in what was learned before the change.
    """

    prunings: int
    groups: int
    fields: int


class SufficientStatistics(Growable):
    """Classes, attributes and their counts and moments, which grow with the stream.

    Invariant: row, group, field and column numbers mean the same in every table, and a row changes only after
    an unfinished copy has kept it.

    Attributes:
        classes: label -> column, in order of first appearance.
        class_weights: int64[>= K], learned weight of each class, in units of 1/1024 example.
        events: number of events learned, less those unlearned.
        layout: groups of rows and continuous fields.
        vocabulary: words and values -> rows.
        counts: (row x class).
        moments: (continuous field x class).
        sources: additional statistics, for hypotheses that read them.
        presence: document frequency of words if it is counted, else None.
        decayed: counts and moments that decay.
        survivors: int64[P], for each of P prunings, how many of the rows before it remain. Rows keep their
            order of first appearance, so these are the first rows.
        room: limit of rows and attributes; None is unlimited.
        room_changes: when that limit changed.
        forgotten: number of rows evicted under the budget, and their weight (units); not in the state.
        unfinished_copy: a copy of the state that `learned_counts.begin_copy` began; None if there is none.
    """

    def __init__(self, sources: Sources = Sources()) -> None:  # noqa: B008  an immutable value
        self.pin = PinnedArrays()
        self.classes: dict[Hashable, int] = {}
        self.class_weights = np.zeros(2, dtype=np.int64)
        self.events = 0
        self.vocabulary = Vocabulary()
        self.counts = Counts()
        self.moments = Moments()
        self.layout = Layout(self.counts)
        self.sources = sources
        self.presence = DocumentFrequency(bernoulli=sources.bernoulli) if sources.presence else None
        self.decayed = DecayedCounts(sources.decays)
        self.survivors = np.zeros(0, dtype=np.int64)
        self.room: MemoryBudget | None = None
        self.room_changes: tuple[BudgetChange, ...] = ()
        self.forgotten = 0, 0
        self.unfinished_copy: StateCopy | None = None

    def __getstate__(self) -> dict[str, Any]:
        self.finish_copy()
        return {**vars(self), "unfinished_copy": None}  # the copy belongs to the original

    @property
    def n_bytes(self) -> int:
        """Memory of the tables in bytes, including spare capacity."""
        arrays = [self.class_weights]
        for part in (self.vocabulary, self.counts, self.moments):
            arrays += [held for held in vars(part).values() if isinstance(held, np.ndarray)]
        beside = self.counts.histograms.n_bytes + self.decayed.n_bytes
        beside += self.presence.n_bytes if self.presence else 0
        return sum(array.nbytes for array in arrays) + beside

    def column(self, label: Hashable) -> int:
        """Return the column of a class, and add a column for a new class."""
        return self.classes.setdefault(label, len(self.classes))

    def encode(self, writer: EventWriter | FrameColumns, targets: Targets) -> Encoded:
        """Encode written events as arrays, and reserve memory for them in every table.

        If some of the events are learned, rows of earlier batches may move.
        """
        if self.vocabulary.holes and targets.labels.count(None) < len(targets.labels):
            self._close_holes()
        encoded = writer.encoded(targets, self.classes, self.layout, self.vocabulary)
        self.reserve()
        return encoded

    def reserve_one(self, writer: EventWriter, label: Hashable) -> bool:
        """Prepare to learn one written event without a batch; return False if it is too long."""
        rows = writer.add_one(label, self.classes, self.layout, self.vocabulary)
        if rows is None:
            return False
        self.reserve(rows)
        if self.layout.has_bernoulli:
            self.reserve_texts(rows)
        return True

    def reserve(self, more: int = 0) -> None:
        """Grow every table to the current groups, fields and classes, and to `more` additional rows."""
        K = len(self.classes)
        if self.class_weights.size < K:
            self.class_weights = np.pad(self.class_weights, (0, K - self.class_weights.size + K // 2))
        rows, fields = self.vocabulary.size + more, len(self.layout.fields)
        most = int(self.vocabulary.used[1])
        self.counts.reserve_classes(K, rows)
        self.counts.reserve_rows(rows, most)
        self.moments.reserve(fields, K)
        self.decayed.reserve(self.counts.kinds.size, rows, fields, K, most)
        if self.presence:
            self.presence.reserve(self.counts.kinds, rows, K, most)

    def tables(self, reading: SmoothingParams) -> CountViews:
        """Return the views that kernels take, with smoothing and priors."""
        counts, moments, K = self.counts, self.moments, len(self.classes)
        smoothing = reading.smoothing
        counted = counts.table, counts.totals, counts.live, counts.kinds, counts.slot, counts.histograms
        observed = moments.n, moments.mean, moments.M2
        smoothed = smoothing[0], smoothing[1], smoothing[2], smoothing[3]
        prior = reading.prior, reading.prior_mode
        weights, values = self.class_weights[:K], (reading.value_rows, reading.value_p)
        return CountViews(weights, *counted, *observed, *smoothed, *prior, reading.tied, *values)

    def note_single_event(self, size: int) -> None:
        """Record an event learned without a batch: the new number of rows, or -1 - rows if it was refused."""
        rows = size if size >= 0 else -1 - size
        if rows != self.vocabulary.size:
            if self.vocabulary.former.size:
                self.vocabulary.compact(_SWEPT_FOR_EACH * (rows - self.vocabulary.size))
            self.vocabulary.size = rows
        vars(self)["events"] += size >= 0  # `Growable.__setattr__` would cost a tenth of an event

    def reserve_texts(self, most: int) -> None:
        """Reserve histogram capacity for one more Bernoulli text of `most` different words."""
        self.counts.reserve_texts(most)
        if self.presence:
            self.presence.reserve_texts(most)

    def class_counts(self, name: Hashable) -> dict[str, dict[Any, float]]:
        """Return word or value -> class -> weight above zero of a discrete attribute. Raises KeyError."""
        rows = self.vocabulary.live_rows()
        groups = [number for (_, owner), number in self.layout.groups.items() if owner == name]
        if not groups:
            raise KeyError(name)
        rows = rows[self.vocabulary.groups[rows] == groups[0]]
        found = {}
        for row in rows[self.counts.table[rows].any(axis=1)]:
            weights = self.counts.table[row]
            found[self.vocabulary.key(row).decode()] = {
                label: int(weights[k]) / UNIT for label, k in self.classes.items() if weights[k]
            }
        return found

    def class_moments(self, name: Hashable) -> dict[Any, Moment]:
        """Return class -> moments of a continuous attribute, for classes that have it. Raises KeyError."""
        f = self.layout.fields[name]
        n, mean, M2 = (array[f] for array in self.moments)
        return {
            label: Moment(int(n[k]) / UNIT, float(mean[k]), float(M2[k] / (n[k] / UNIT)))
            for label, k in self.classes.items()
            if n[k] > 0
        }

    @property
    def _groups(self) -> Codes:
        return self.vocabulary.groups[: self.vocabulary.size]

    def stop_words(self) -> set[tuple[Any, bytes]]:
        """Return (attribute, word) of every stop word."""
        owners = list(self.layout.groups)
        return {(owners[group], key) for group, key in self.vocabulary.stopped()}

    def prune(self, min_count: float, drop_most_frequent: int, max_attributes: int | None) -> int:
        """Forget words of texts; see `NaiveBayes.prune`."""
        self.finish_copy()
        size = self.vocabulary.size
        groups = self.vocabulary.groups[:size]
        totals = row_sums(self.counts.table[:size])
        is_word = np.isin(groups, np.flatnonzero(self.counts.kinds != NOMINAL)) & (totals > 0)
        order = np.argsort(-totals, kind="stable")
        ranked = order[is_word[order]]
        stopped, ranked = ranked[:drop_most_frequent], ranked[drop_most_frequent:]
        kept = ranked[totals[ranked] >= min_count * UNIT]
        values = np.isin(groups, np.flatnonzero(self.counts.kinds == NOMINAL)) & (totals > 0)
        if max_attributes is not None:
            kept = kept[: max(0, max_attributes - int(np.count_nonzero(values)))]
        stays = totals > 0
        stays[ranked], stays[kept] = False, True
        gone = np.append(stopped, np.flatnonzero(~stays & (groups >= 0)))
        self._take_out(gone)
        self.counts.table[stopped] = 0
        if self.presence:
            self.presence.counts.table[stopped] = 0
        self.vocabulary.stop(stopped)
        self._forget(stays | (groups < 0))
        self.finish_copy()
        return int(stopped.size + ranked.size - kept.size)

    def evict(self, classes: int) -> None:
        """Evict rows down to `KEPT` if seven eighths of the rows allowed with `classes` classes are used.

        Rows of the smallest weight go first, and of equal rows the oldest. Before that, long words are
        thinned out in the same order, by their bytes.
        """
        if self.room is None:
            return
        vocabulary = self.vocabulary
        if self.room.is_short(vocabulary.live, vocabulary.live_bytes, classes):
            if vocabulary.holes or self.sources.decays:
                self.finish_copy()
            table, groups = self.counts.table, self._groups
            stays = np.ones(groups.size, dtype=np.bool_)
            is_stopped = groups < 0
            if vocabulary.live_bytes > (left := int(KEPT * self.room.long_bytes)):
                ranked = np.flatnonzero(~is_stopped)
                ranked = ranked[ranking(row_sums(table[ranked]))]
                long = vocabulary.long_bytes(ranked)
                left -= int(vocabulary.long_bytes(np.flatnonzero(is_stopped)).sum())
                stays[ranked[(long > 0) & (np.cumsum(long) > left)]] = False
            most = max(0, int(KEPT * self.room.rows(classes)) - int(np.count_nonzero(is_stopped)))
            weight = drop_lightest(table, groups, stays, most)
            gone = np.flatnonzero(~stays)
            self.forgotten = self.forgotten[0] + gone.size, self.forgotten[1] + weight
            self._take_out(gone)
            self._forget(stays)
        self.hold(classes)

    def has_capacity(self, classes: int, n_bytes: int, words: int) -> bool:
        """Return whether `classes` classes and `words` more words fit without eviction; False with holes.

        Words have `n_bytes` bytes in all; lower case makes a word at most half as long again.
        """
        if self.room is None:
            return True
        rows, long = self.vocabulary.live + words, self.vocabulary.live_bytes + 2 * n_bytes
        is_free = classes <= len(self.classes) or self.room.is_free(classes)
        return is_free and not self.vocabulary.holes and not self.room.is_short(rows, long, classes)

    def hold(self, classes: int) -> None:
        """Set the limits of rows and attributes for a number of classes."""
        if self.room is not None:
            self.vocabulary.allow(self.room.rows(classes), self.room.long_bytes)
            self.layout.most = self.room.attributes(classes)

    def change_budget(self, before: MemoryBudget | None) -> None:
        """Record that the budget was `before` until now, as a pruning that forgot nothing."""
        if before != self.room:
            self.finish_copy()
            self.survivors = np.append(self.survivors, self.vocabulary.size)
            known = len(self.layout.groups), len(self.layout.fields)
            self.room_changes += (BudgetChange(self.survivors.size, *known),)

    def attributes_learned(self, prunings: int) -> tuple[int, int]:
        """Return how many groups and fields an event learned after a number of prunings may have."""
        place = bisect_right(self.room_changes, prunings, key=attrgetter("prunings"))
        if place == len(self.room_changes):
            return len(self.layout.groups), len(self.layout.fields)
        return self.room_changes[place][1:]

    @property
    def memory_use(self) -> MemoryUse:
        """Share of the budget that rows take, and what was evicted."""
        if self.room is None:
            return MemoryUse()
        used = self.vocabulary.live, self.vocabulary.live_bytes, len(self.classes)
        rows, weight = self.forgotten
        return MemoryUse(self.room.taken(*used), rows, weight / UNIT)

    def _take_out(self, rows: Ints) -> None:
        """Remove rows from derived sums; a Bernoulli total counts texts and stays."""
        groups = self.vocabulary.groups[rows]
        self.counts.totals -= self.counts.forget(rows, groups) * (self.counts.slot < 0)[:, np.newaxis]
        if self.presence:
            self.presence.forget(rows, groups)
        if self.sources.decays:
            self.decayed.forget(rows, self.vocabulary.size, self._groups)

    def _forget(self, stays: Flags) -> None:
        self.survivors = np.append(self.survivors, self.vocabulary.size)
        self.vocabulary.keep(stays)

    def _close_holes(self) -> None:
        """Move some rows into holes; during a copy, only if the vocabulary is full."""
        if self.unfinished_copy is None:
            width = sum(table[:1].nbytes for table in self.row_tables())
            self._sweep(max(1, _SLICE // (_ROW + width)))
        elif self.vocabulary.size > self.vocabulary.used[1] - self.vocabulary.holes:
            self.finish_copy()

    def _sweep(self, rows: int) -> None:
        """Compact `rows` more rows of the vocabulary, and of all tables with it."""
        first = int(self.vocabulary.at[0])
        moved, to, stop = self.vocabulary.compact(rows)
        for table in self.row_tables():
            keep_rows(table, moved, stop, to, first)
        passed = slice(*np.searchsorted(self.survivors, [first, stop], side="right"))
        self.survivors = self.survivors.copy()  # a state may share the old array
        self.survivors[passed] = to + np.searchsorted(moved, self.survivors[passed])

    def rows_learned(self, batch: Batch, prunings: Ints | None) -> Codes:
        """Return the rows of a batch learned earlier, each event after a number of prunings (by default all).

        Rows that were forgotten since are STOPPED. So are rows that were added since: their word was
        forgotten, came again, and holds nothing of the event. Raises ValueError for an impossible number.
        """
        rows, P = batch.rows, self.survivors.size
        if self.room is not None:  # words without a row were not learned
            rows = np.where(rows == UNKNOWN, np.int32(STOPPED), rows)
        if prunings is None or not prunings.size:
            return rows
        if prunings.min() < 0 or prunings.max() > P:
            raise ValueError(
                f"learned after {prunings.min()} to {prunings.max()} prunings, but only {P} took place"
            )
        first_met_since = np.append(self.survivors, _NEVER)[prunings]
        first = np.repeat(first_met_since, np.diff(batch.item_rows[batch.event_items]))
        is_gone = (rows >= first) | ((rows == UNKNOWN) & (first < _NEVER))
        return np.where(is_gone, np.int32(STOPPED), rows)

    def row_tables(self) -> list[Array]:
        """Return every table that has a row for each word and value."""
        presence = [self.presence.counts.table] if self.presence else []
        return [self.counts.table, *presence, *self.decayed.row_tables]

    def keep(self, rows: Codes) -> None:
        """Copy these rows, which are about to change, if a copy is unfinished."""
        if self.unfinished_copy is not None:
            self.unfinished_copy.keep(rows)
            if self.unfinished_copy.done:
                self.unfinished_copy = None

    @property
    def is_copied(self) -> bool:
        """True during a copy, when rows must be passed to `keep` before they change."""
        return self.unfinished_copy is not None

    def finish_copy(self) -> None:
        """Finish a copy and close all holes, before anything may change."""
        if self.unfinished_copy is not None:
            self.unfinished_copy.finish()
            self.unfinished_copy = None
        if self.vocabulary.holes:
            self._sweep(self.vocabulary.size)
