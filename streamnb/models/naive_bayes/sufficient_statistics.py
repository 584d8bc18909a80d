"""The sufficient statistics of a naive Bayes model: all that is ever learned, and nothing else.

Counts and moments with what gives their rows and columns a meaning: classes, attributes, vocabulary. How
they are read (smoothing, priors) is the model's affair, so that several models can read one set of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from streamnb.errors import SnapshotError
from streamnb.features.data_frames import FrameColumns
from streamnb.features.encoded_batch import Batch, Encoded
from streamnb.features.event_writer import EventWriter
from streamnb.features.feature_layout import Layout
from streamnb.features.row_codes import STOPPED, UNKNOWN
from streamnb.features.targets import Targets
from streamnb.features.vocabulary import Vocabulary
from streamnb.kernels.array_types import Ints
from streamnb.kernels.growable_arrays import Growable, PinnedArrays, keep_rows, ranking
from streamnb.models.naive_bayes.naive_bayes_tables import CountViews, SmoothingParams
from streamnb.models.naive_bayes.state_copy import Copied, StateCopy
from streamnb.statistics.count_sources import Sources
from streamnb.statistics.counts import Counts, add_rows
from streamnb.statistics.decayed_counts import DecayedCounts
from streamnb.statistics.document_frequency import DocumentFrequency
from streamnb.statistics.lightest_rows import drop_lightest
from streamnb.statistics.memory_budget import KEPT, MemoryBudget
from streamnb.statistics.memory_use import MemoryUse
from streamnb.statistics.moments import FARTHEST, Moments, merge_moments
from streamnb.statistics.row_sums import row_sums
from streamnb.values.attribute_kinds import NOMINAL
from streamnb.values.example_weights import UNIT
from streamnb.values.state_names import checked_names, plain
from streamnb.values.state_validation import (
    MOST,
    ExpectedArray,
    checked,
    count,
    counts,
    real,
    reject,
    state_errors,
    whole,
)
from streamnb.values.type_aliases import Array, Codes, Flags

_NEVER = 1 << 40  # no row has such a number
_SLICE = 4 << 20  # bytes of rows that are moved at once
_ROW = 48  # of a row beside its counts, with what it takes to enter it in a table of slots
_SWEPT_FOR_EACH = 8  # rows, for each that is new


class Moment(NamedTuple):
    """Moments of one continuous attribute within one class: weight (examples), mean, variance (M2 / n)."""

    n: float
    mean: float
    variance: float


class BudgetChange(NamedTuple):
    """When other memory than before was given: after how many prunings, and what was known by then.

    Of what was learned before, all rows, groups and fields met since had no part.
    """

    prunings: int
    groups: int
    fields: int


class SufficientStatistics(Growable):
    """Classes, attributes and their counts and moments, grown as they are met.

    Attributes:
        classes: label -> column, in the order in which they were met.
        class_weights: int64[>= K], weight learned of each class, in units of 1/1024 example.
        events: how many events were learned, less those unlearned.
        layout: groups of rows and continuous fields.
        vocabulary: words and values -> rows.
        counts: (row x class).
        moments: (continuous field x class).
        sources: what is counted beside these, for hypotheses that read it.
        presence: texts that hold a word, where they are counted; else None.
        decayed: counts and moments that decay.
        survivors: int64[P], of the rows that there were before each of P prunings, how many are left. Rows
            stay in the order in which they were met, so these are the first ones.
        room: how many rows and attributes there may be; None is any number.
        room_changes: when that became another number.
        forgotten: how many rows went for want of room, and their weight (units); in no state.
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
        self._copy: StateCopy | None = None  # one that is not done yet

    def __getstate__(self) -> dict[str, Any]:
        self.finish_copy()
        return {**vars(self), "_copy": None}  # a copy of the original's, which it does not wait for

    @property
    def n_bytes(self) -> int:
        """Memory of the tables, bytes: all that grows with rows and classes, spare capacity included."""
        arrays = [self.class_weights]
        for part in (self.vocabulary, self.counts, self.moments):
            arrays += [held for held in vars(part).values() if isinstance(held, np.ndarray)]
        beside = self.counts.histograms.n_bytes + self.decayed.n_bytes
        beside += self.presence.n_bytes if self.presence else 0
        return sum(array.nbytes for array in arrays) + beside

    def column(self, label: Hashable) -> int:
        """The column of a class, a new one where it is met for the first time."""
        return self.classes.setdefault(label, len(self.classes))

    def encode(self, writer: EventWriter | FrameColumns, targets: Targets) -> Encoded:
        """What was written, as arrays; every table has room for it afterwards.

        Rows that were encoded before may be others by then, where some of these events are learned.
        """
        if self.vocabulary.holes and targets.labels.count(None) < len(targets.labels):
            self._close_holes()
        encoded = writer.encoded(targets, self.classes, self.layout, self.vocabulary)
        self.reserve()
        return encoded

    def reserve_one(self, writer: EventWriter, label: Hashable) -> bool:
        """Let the one event written be learned without a batch; False where it is too long for that."""
        rows = writer.add_one(label, self.classes, self.layout, self.vocabulary)
        if rows is None:
            return False
        self.reserve(rows)
        if self.layout.has_bernoulli:
            self.reserve_texts(rows)
        return True

    def reserve(self, more: int = 0) -> None:
        """Grow every table to the groups, fields and classes there are, and to so many more rows."""
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
        """As the kernels take them, with the smoothing and priors to read them by."""
        counts, moments, K = self.counts, self.moments, len(self.classes)
        smoothing, prior, mode = reading
        counted = counts.table, counts.totals, counts.live, counts.kinds, counts.slot, counts.histograms
        observed = moments.n, moments.mean, moments.M2
        smoothed = smoothing[0], smoothing[1], smoothing[2], smoothing[3]
        return CountViews(self.class_weights[:K], *counted, *observed, *smoothed, prior, mode)

    def note_single_event(self, size: int) -> None:
        """An event was learned without a batch: how many rows there are, or -1 - rows where it was not."""
        rows = size if size >= 0 else -1 - size
        if rows != self.vocabulary.size:
            if self.vocabulary.former.size:
                self.vocabulary.compact(_SWEPT_FOR_EACH * (rows - self.vocabulary.size))
            self.vocabulary.size = rows
        vars(self)["events"] += size >= 0  # past `Growable`, which costs a tenth of an event

    def reserve_texts(self, most: int) -> None:
        """Let the histograms of Bernoulli texts take one more text of `most` different words."""
        self.counts.reserve_texts(most)
        if self.presence:
            self.presence.reserve_texts(most)

    def group_of(self, name: Hashable) -> int:
        """The group of a discrete attribute. Raises KeyError."""
        for (_, owner), number in self.layout.groups.items():
            if owner == name:
                return number
        raise KeyError(name)

    def class_counts(self, name: Hashable) -> dict[str, dict[Any, float]]:
        """Word or value -> class -> weight, of one discrete attribute; only what is above zero."""
        rows = self.vocabulary.live_rows()
        rows = rows[self.vocabulary.groups[rows] == self.group_of(name)]
        found = {}
        for row in rows[self.counts.table[rows].any(axis=1)]:
            weights = self.counts.table[row]
            found[self.vocabulary.key(row).decode()] = {
                label: int(weights[k]) / UNIT for label, k in self.classes.items() if weights[k]
            }
        return found

    def class_moments(self, name: Hashable) -> dict[Any, Moment]:
        """Class -> moments of one continuous attribute, for classes that have it. Raises KeyError."""
        f = self.layout.fields[name]
        n, mean, M2 = (array[f] for array in self.moments)
        return {
            label: Moment(int(n[k]) / UNIT, float(mean[k]), float(M2[k] / (n[k] / UNIT)))
            for label, k in self.classes.items()
            if n[k] > 0
        }

    @property
    def _groups(self) -> Codes:
        """Of which group each row is."""
        return self.vocabulary.groups[: self.vocabulary.size]

    def seen_by(self, other: SufficientStatistics, encoded: Encoded) -> Encoded:
        """Events that are encoded here, as `other` knows their words, values and attributes."""
        groups, fields = other.layout.numbers_in(self.layout, adds=False)
        rows = other.vocabulary.merge_keys(self.vocabulary, groups, adds=False)
        batch = encoded.batch.renumbered(groups, fields, rows)
        return encoded._replace(batch=batch, known=np.full(batch.label.size, len(other.classes)))

    def merge(self, other: SufficientStatistics) -> None:
        """Add all of `other`, in time of it alone: counts exactly, moments by Chan's formula.

        Words that were dropped for good here are left out, as if its events had been learned here. Raises
        ValueError, and changes nothing, where it has dropped others, or rows are bounded here.
        """
        if self.room is not None:
            raise ValueError(
                "what is learned within a budget of memory depends on the order of events: nothing is merged "
                "into it"
            )
        sums = (self.class_weights, other.class_weights), (self.counts.totals, other.counts.totals)
        if any(sum(part.sum(dtype=np.float64) for part in both) > MOST for both in sums):
            raise ValueError(f"counts of more than {MOST // UNIT:,} words or examples are not kept")
        if (stopped := other.stop_words()) and not stopped <= self.stop_words():
            raise ValueError("a model that was pruned to other stop words cannot be merged into this one")
        self.finish_copy()
        other.finish_copy()
        columns = np.array([self.column(label) for label in other.classes], dtype=np.int64)
        groups, fields = self.layout.numbers_in(other.layout, adds=True)
        rows = self.vocabulary.merge_keys(other.vocabulary, groups)
        self.reserve()
        K, counted = columns.size, rows >= 0
        table, left_out = other.counts.table[: rows.size, :K], np.zeros_like(other.counts.totals[:, :K])
        add_rows(table[~counted], other._groups[~counted], left_out)
        left_out[other.counts.slot >= 0] = 0  # texts are counted, whatever words they have
        self.counts.totals[np.ix_(groups, columns)] += other.counts.totals[:, :K] - left_out
        rows = rows[counted]
        self.counts.add(rows, columns, table[counted], self.vocabulary.groups[rows])
        self.class_weights[columns] += other.class_weights[:K]
        self.events += other.events
        cells = np.ix_(fields, columns)
        merged = [array[cells] for array in self.moments]
        merge_moments(*merged, *(array[: fields.size, :K] for array in other.moments))
        for array, values in zip(self.moments, merged, strict=True):
            array[cells] = values

    def stop_words(self) -> set[tuple[Any, bytes]]:
        """(attribute, word) of every word that was dropped for good."""
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
        """Where seven eighths of the rows that may be with so many classes are taken, forget down to `KEPT`.

        Those with the smallest weight go first, and of equals those met first: of rows that were met once,
        those that were not seen the longest. Long words are thinned out likewise before, by their bytes.
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
        """Whether nothing is to be forgotten, and nothing left out, while so many classes and words are met.

        And no hole is left to be closed: those who hear that there is room take much at once. Words of so
        many bytes: lower case makes one no more than half as long again.
        """
        if self.room is None:
            return True
        rows, long = self.vocabulary.live + words, self.vocabulary.live_bytes + 2 * n_bytes
        is_free = classes <= len(self.classes) or self.room.is_free(classes)
        return is_free and not self.vocabulary.holes and not self.room.is_short(rows, long, classes)

    def hold(self, classes: int) -> None:
        """Let there be no more rows and attributes than there may be with so many classes."""
        if self.room is not None:
            self.vocabulary.allow(self.room.rows(classes), self.room.long_bytes)
            self.layout.most = self.room.attributes(classes)

    def change_budget(self, before: MemoryBudget | None) -> None:
        """Take down that up to now there was another room.

        It counts as a pruning that forgot nothing: what was met before has a row among the survivors, and
        what there was no room for has none, however much room there is now.
        """
        if before != self.room:
            self.finish_copy()
            self.survivors = np.append(self.survivors, self.vocabulary.size)
            known = len(self.layout.groups), len(self.layout.fields)
            self.room_changes += (BudgetChange(self.survivors.size, *known),)

    def attributes_learned(self, prunings: int) -> tuple[int, int]:
        """Of an event that was learned after so many prunings: how many groups and fields may be its own."""
        place = bisect_right(self.room_changes, prunings, key=attrgetter("prunings"))
        if place == len(self.room_changes):
            return len(self.layout.groups), len(self.layout.fields)
        return self.room_changes[place][1:]

    @property
    def memory_use(self) -> MemoryUse:
        """What rows take of their room, and which were forgotten."""
        if self.room is None:
            return MemoryUse()
        used = self.vocabulary.live, self.vocabulary.live_bytes, len(self.classes)
        rows, weight = self.forgotten
        return MemoryUse(self.room.taken(*used), rows, weight / UNIT)

    def _take_out(self, rows: Ints) -> None:
        """Let what is derived from tables be without these rows; a Bernoulli total counts texts and stays."""
        groups = self.vocabulary.groups[rows]
        self.counts.totals -= self.counts.forget(rows, groups) * (self.counts.slot < 0)[:, np.newaxis]
        if self.presence:
            self.presence.forget(rows, groups)
        if self.sources.decays:
            self.decayed.forget(rows, self.vocabulary.size, self._groups)

    def _forget(self, stays: Flags) -> None:
        """Keep these rows. One without any count says nothing: only stopped words have to be remembered."""
        self.survivors = np.append(self.survivors, self.vocabulary.size)
        self.vocabulary.keep(stays)

    def _close_holes(self) -> None:
        """Move some rows to where others were forgotten, unless a copy is being made and there is room."""
        if self._copy is None:
            width = sum(table[:1].nbytes for table in self._row_tables())
            self._sweep(max(1, _SLICE // (_ROW + width)))
        elif self.vocabulary.size > self.vocabulary.used[1] - self.vocabulary.holes:
            self.finish_copy()

    def _sweep(self, rows: int) -> None:
        """Let the vocabulary go through so many rows more, and move those of all tables likewise."""
        first = int(self.vocabulary.at[0])
        moved, to, stop = self.vocabulary.compact(rows)
        for table in self._row_tables():
            keep_rows(table, moved, stop, to, first)
        passed = slice(*np.searchsorted(self.survivors, [first, stop], side="right"))
        self.survivors = self.survivors.copy()  # a state may have the one there is
        self.survivors[passed] = to + np.searchsorted(moved, self.survivors[passed])

    def rows_learned(self, batch: Batch, prunings: Ints | None) -> Codes:
        """The rows of a batch that was learned before, each event after so many prunings (by default all).

        What was forgotten since is STOPPED. So is a row that was met since: it is of a word that had been
        forgotten and came again, and holds nothing of the event. Raises ValueError for what is no number.
        """
        rows, P = batch.rows, self.survivors.size
        if self.room is not None:  # what there was no room for was not learned
            rows = np.where(rows == UNKNOWN, np.int32(STOPPED), rows)
        if prunings is None or not prunings.size:
            return rows
        if prunings.min() < 0 or prunings.max() > P:
            raise ValueError(f"learned after {prunings.min()} to {prunings.max()} prunings: there were {P}")
        first_met_since = np.append(self.survivors, _NEVER)[prunings]
        first = np.repeat(first_met_since, np.diff(batch.item_rows[batch.event_items]))
        is_gone = (rows >= first) | ((rows == UNKNOWN) & (first < _NEVER))
        return np.where(is_gone, np.int32(STOPPED), rows)

    def _row_tables(self) -> list[Array]:
        """Every table that has a row for each word and value."""
        presence = [self.presence.counts.table] if self.presence else []
        return [self.counts.table, *presence, *self.decayed.row_tables]

    def copying(
        self,
        kind: str,
        more: Mapping[str, Any] = MappingProxyType({}),
        arrays: Mapping[str, Array] = MappingProxyType({}),
    ) -> StateCopy:
        """The state of a model of this kind as it is now, to be copied while learning goes on.

        It has `more` values and `arrays` of the model's own, which are small and not changed.

        A copy that was begun is finished. Raises TypeError for labels and names that are not strings,
        booleans, numbers or None.
        """
        self.finish_copy()
        self.reserve()
        vocabulary, counts = self.vocabulary, self.counts
        rows, K = vocabulary.size, len(self.classes)
        fields = len(self.layout.fields)
        small = {
            **arrays,
            "class_weights": self.class_weights[:K].copy(),
            "totals": counts.totals[:, :K].copy(),
            **{
                name: array[:fields, :K].copy()
                for name, array in zip(("n", "mean", "M2"), self.moments, strict=True)
            },
        }
        growing = {
            "cells": Copied(lambda: vocabulary.cells, np.empty(16 * rows, np.uint8)),
            "arena": Copied(lambda: vocabulary.arena, np.empty(int(vocabulary.used[0]), np.uint8)),
            "groups": Copied(lambda: vocabulary.groups, np.empty(rows, np.int32)),
        }
        tables = {"table": Copied(lambda: counts.table[:, np.newaxis], np.empty((rows, 1, K), np.int64))}
        if self.survivors.size:
            small["survivors"] = self.survivors
        if presence := self.presence:
            small["texts"] = presence.counts.totals[:, :K].copy()
            tables["presence"] = Copied(
                lambda: presence.counts.table[:, np.newaxis], np.empty((rows, 1, K), np.int64)
            )
        if D := (decayed := self.decayed).tables.epoch.size:
            small |= decayed.state(len(self.layout.groups), fields, K)
            tables["decayed_table"] = Copied(lambda: decayed.tables.table, np.empty((rows, D, K)))
            tables["decayed_row_epoch"] = Copied(
                lambda: decayed.tables.row_epoch[:, :, np.newaxis], np.empty((rows, D, 1), np.int64)
            )
        self._copy = StateCopy({"type": kind, **self.described(), **more}, small, growing, tables)
        return self._copy

    def keep(self, rows: Codes) -> None:
        """Say that these rows are about to change."""
        if self._copy is not None:
            self._copy.keep(rows)
            if self._copy.done:
                self._copy = None

    @property
    def is_copied(self) -> bool:
        """Whether a copy is being made, which has to hear of every row before it changes."""
        return self._copy is not None

    def finish_copy(self) -> None:
        """Say that anything is about to change: first a copy is finished, and holes are closed."""
        if self._copy is not None:
            self._copy.finish()
            self._copy = None
        if self.vocabulary.holes:
            self._sweep(self.vocabulary.size)

    def described(self) -> dict[str, Any]:
        """The values of a state that are no arrays."""
        return {
            "events": self.events,
            "classes": [plain(label) for label in self.classes],
            **self.layout.described(),
            **({} if self.sources == Sources() else {"sources": self.sources.described()}),
            **({"room_changes": list(map(list, self.room_changes))} if self.room_changes else {}),
        }

    @classmethod
    @state_errors("counts of events", ValueError)
    def from_state(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> SufficientStatistics:
        """The statistics of a `state`, which may hold other arrays. Raises SnapshotError."""
        statistics = cls(Sources.from_description(meta.get("sources", {})))
        statistics.events = count(meta, "events", least=-MOST)  # parts of one event are unlearned one by one
        for label in checked_names(meta["classes"]):
            statistics.column(label)
        statistics.layout.load(meta)
        statistics._load(arrays)
        statistics._load_room_changes(meta.get("room_changes", ()))
        return statistics

    def _load(self, arrays: Mapping[str, Array]) -> None:
        """Take over the arrays of a state of these classes, groups and fields."""
        G, F, K = self.counts.kinds.size, len(self.layout.fields), len(self.classes)
        expected = self._expected(G)
        if "survivors" in arrays:
            expected["survivors"] = whole("prunings", low=0, high=np.size(arrays["groups"]))
        own = {name: array for name, array in arrays.items() if name in expected}
        found = checked(own, expected, groups=G, fields=F, classes=K, decays=len(self.sources.decays))
        self.vocabulary = Vocabulary.from_state(found)
        self.survivors = found.get("survivors", self.survivors).copy()
        reject("survivors", np.diff(self.survivors) < 0, "fewer than before an earlier pruning")
        self.reserve()
        self.class_weights[:K] = found["class_weights"]
        self.counts.load("table", found["table"], found["totals"], self._groups)
        sums = np.zeros((G, K), dtype=np.int64)
        add_rows(found["table"], self.vocabulary.groups, sums)
        is_wrong = (sums != found["totals"]).T & (self.counts.slot < 0)  # texts are not summed
        reject("totals", is_wrong.T, "not the sum of the rows of its group")
        for name, array in zip(("n", "mean", "M2"), self.moments, strict=True):
            array[:F, :K] = found[name]
        if self.presence:
            self.presence.load(found["presence"], found["texts"], self._groups)
        if self.sources.decays:
            self.decayed.load(found)

    def _load_room_changes(self, found: Any) -> None:
        """Those of a state. Raises SnapshotError where they do not rise, or are more than there is now."""
        most = self.survivors.size, len(self.layout.groups), len(self.layout.fields)
        rows = np.array([(0, 0, 0), *found, most])
        if rows.shape[1:] != (3,) or rows.dtype != np.int64 or np.any(np.diff(rows, axis=0) < 0):
            raise SnapshotError(f"room_changes: {found!r} does not rise up to {most}")
        self.room_changes = tuple(BudgetChange(*change) for change in found)

    def _expected(self, groups: int) -> dict[str, ExpectedArray]:
        """The arrays of a state."""
        expected = {
            "cells": whole("bytes of short words", low=0, high=255, dtype=np.uint8),
            "arena": whole("bytes of long words", low=0, high=255, dtype=np.uint8),
            "groups": whole("rows", low=-groups, high=groups - 1, dtype=np.int32),
            "class_weights": counts("classes"),
            "table": counts("rows", "classes"),
            "totals": counts("groups", "classes"),
            "n": counts("fields", "classes"),
            "mean": real("fields", "classes", low=-FARTHEST, high=FARTHEST),
            "M2": real("fields", "classes", low=0.0),
        }
        if self.presence:
            expected |= {"presence": counts("rows", "classes"), "texts": counts("groups", "classes")}
        return expected | (self.decayed.expected() if self.sources.decays else {})
