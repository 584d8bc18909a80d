"""What a counting model has learned, without the reading of events; statistics as a state, and back.

A state has every number that was learned, so that `statistics_from_state` returns equal statistics. A state
whose numbers contradict one another is rejected.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from inspect import signature
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from streamnb.errors import SnapshotError
from streamnb.features.data_frames import rows_of
from streamnb.features.feature_layout import LearnedTypes, learned_types
from streamnb.features.vocabulary import Vocabulary
from streamnb.kernels.array_types import Floats
from streamnb.models.interface.feature_importances import FeatureImportance, Predicts, feature_importances
from streamnb.models.interface.stream_model import Most, StateCopying, StreamModel
from streamnb.models.naive_bayes.state_copy import Copied, StateCopy
from streamnb.models.naive_bayes.sufficient_statistics import BudgetChange, Moment, SufficientStatistics
from streamnb.statistics.count_sources import Sources
from streamnb.statistics.counts import add_rows
from streamnb.statistics.memory_budget import MemoryBudget, MemoryUse
from streamnb.statistics.moments import FARTHEST
from streamnb.values.example_weights import UNIT
from streamnb.values.parameter_checks import brief, pluralize
from streamnb.values.savable import Savable
from streamnb.values.state_validation import (
    MOST,
    ExpectedArray,
    checked,
    checked_names,
    count,
    counts,
    plain,
    real,
    reject,
    state_errors,
    whole,
)
from streamnb.values.type_aliases import Array, Aside, State, concatenated

_WORDS = "words and values"


class LearnedCounts(Savable):
    """The statistics of a model, their state and their memory budget.

    Invariant: the statistics hold everything that was learned; equal statistics have equal states, bit for
    bit, and under a budget they evict rows before they exceed it.
    """

    _statistics: SufficientStatistics

    def __repr__(self) -> str:
        """Return the parameters that are not the defaults, and how much was learned."""
        given = {name: getattr(self, name) for name in signature(type(self)).parameters}
        usual = {name: one.default for name, one in signature(type(self)).parameters.items()}
        changed = [f"{name}={brief(repr(one))}" for name, one in given.items() if one != usual[name]]
        events, values = (
            pluralize(self.n_events, "event"),
            pluralize(self.n_attributes, "word or value", _WORDS),
        )
        learned = f"{events} learned, {pluralize(len(self.classes), 'class', 'classes')}, {values}"
        return (
            f"{type(self).__name__}({', '.join(changed)}): {learned if self.n_events else 'nothing learned'}"
        )

    def feature_importances(self: Predicts, X: Any, y: Iterable[Any]) -> list[FeatureImportance]:
        """Return the importance of each attribute on labelled events, the most important first.

        Args:
            X: a data frame, or n dictionaries of name and value; best events that were not learned.
            y: their labels.
        """
        return feature_importances(self, rows_of(X), list(y))

    @property
    def classes(self) -> list[Any]:
        """Every class met, in order of first appearance."""
        return list(self._statistics.classes)

    @property
    def statistics(self) -> SufficientStatistics:
        """Everything learned, without holes. Do not use it while an event is being learned."""
        if not self.is_settled:
            self._statistics.finish_copy()
        return self._statistics

    @property
    def class_weights(self) -> dict[Any, float]:
        """Class -> weight learned, in examples."""
        weights = self._statistics.class_weights
        return {label: int(weights[k]) / UNIT for label, k in self._statistics.classes.items()}

    @property
    def n_events(self) -> int:
        """Number of events learned, less those unlearned."""
        return self._statistics.events

    @property
    def n_prunings(self) -> int:
        """Number of prunings so far; see `unlearn_many`."""
        return self._statistics.survivors.size

    @property
    def n_attributes(self) -> int:
        """Number of words and nominal values with a count above zero."""
        return int(self._statistics.counts.live.sum())

    @property
    def n_bytes(self) -> int:
        """Memory of everything learned, in bytes, including spare capacity."""
        return self._statistics.n_bytes

    def class_counts(self, name: Any) -> dict[str, dict[Any, float]]:
        """Return word or value -> class -> weight of a text or nominal attribute. Raises KeyError."""
        return self._statistics.class_counts(name)

    def class_moments(self, name: Any) -> dict[Any, Moment]:
        """Return class -> moments of a continuous attribute. Raises KeyError."""
        return self._statistics.class_moments(name)

    @property
    def learned_attributes(self) -> list[Any]:
        """Names of learned attributes in order of first appearance, continuous attributes last."""
        layout = self._statistics.layout
        return [*dict.fromkeys((*(name for _, name in layout.groups), *layout.fields))]

    def knows(self, name: Any) -> bool:
        """Return whether anything was learned of an attribute."""
        layout = self._statistics.layout
        return bool(learned_types(layout, name))

    @property
    def learned_types(self) -> LearnedTypes:
        """The types by which attributes were learned so far, unaffected by later learning."""
        layout = self._statistics.layout
        return LearnedTypes(frozenset(layout.groups), frozenset(layout.fields))

    def prune(self, min_count: float = 0.0, drop_most_frequent: int = 0, max_attributes: Most = None) -> int:
        """Forget words of the text attributes; return how many.

        Drops the `drop_most_frequent` most frequent words for good (they become stop words), then words with
        a total weight below `min_count`, then the rarest until at most `max_attributes` words and values
        remain. Of equals, the latest go first. Forgotten words are not unlearned again, see `unlearn_many`.

        Joachims (1996) removed the 100 most frequent words and those seen fewer than 3 times.
        """
        return self._statistics.prune(min_count, drop_most_frequent, max_attributes)

    def keep_within(self, n_bytes: int) -> None:
        """Limit the memory of everything learned, with a copy of it, to `n_bytes`; see `evict`.

        Features of softmax regressions use up to the `memory` given to the model in any case.
        """
        self._statistics.room = self._budget(n_bytes)

    def has_capacity(self, classes: int, n_bytes: int, words: int) -> bool:
        """Return whether `words` words and values of `n_bytes` bytes fit, with this number of classes."""
        self._statistics.hold(len(self._statistics.classes))
        return self._statistics.has_capacity(classes, n_bytes, words)

    def reset_adaptive(self) -> None:
        """Do nothing: counts hold what is true of most of a stream."""

    def change_budget(self, before: StreamModel) -> None:
        """Continue from another model's statistics with this model's memory budget; see `StreamModel`."""
        if isinstance(before, LearnedCounts):
            self._statistics.change_budget(before._statistics.room)  # noqa: SLF001  of this class

    def evict(self, classes: int) -> None:
        """Evict the values that matter least, if this number of classes leaves too little memory."""
        self._statistics.evict(classes)

    @property
    def memory_use(self) -> MemoryUse:
        """Share of the memory budget in use."""
        return self._statistics.memory_use

    @property
    def most_classes(self) -> int:
        """Maximum number of classes within the memory budget."""
        layout, room = self._statistics.layout, self._statistics.room
        return sys.maxsize if room is None else room.classes(len(layout.groups) + len(layout.fields))

    def state(self) -> State:
        """Return everything learned: JSON-able values, and arrays. Equal states have equal bytes.

        Raises TypeError for labels and names that are not strings, booleans or numbers, and SnapshotError if
        JSON cannot represent them: a lone surrogate, an integer beyond 64 bits.
        """
        return self.copying().state()

    @property
    def is_settled(self) -> bool:
        """True if the vocabulary has no holes."""
        return not self._statistics.vocabulary.holes

    def copying(self, _aside: Aside = concatenated, /) -> StateCopying:
        """Begin to copy the current `state` while the model continues to learn."""
        return begin_copy(self._statistics, type(self).__name__)

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace everything by a `state` of this class; return self. Raises ValueError or SnapshotError."""
        if meta.get("type") != type(self).__name__:
            raise ValueError(f"this is the state of a {meta.get('type')}, not of a {type(self).__name__}")
        room = self._statistics.room
        self._statistics = statistics_from_state(meta, arrays)
        self._statistics.room = room
        return self

    def _budget(self, n_bytes: int) -> MemoryBudget:
        """Return a budget: a third for rows, as much for a copy of them, and the rest for other tables."""
        return MemoryBudget(n_bytes // 3, n_bytes)

    def _known(self) -> dict[Any, int]:
        weights = self._statistics.class_weights
        return {label: k for label, k in self._statistics.classes.items() if weights[k] > 0}

    def _by_class(self, values: Floats) -> dict[Any, float]:
        return {label: float(values[k]) for label, k in self._known().items()}


def begin_copy(
    statistics: SufficientStatistics,
    kind: str,
    more: Mapping[str, Any] = MappingProxyType({}),
    arrays: Mapping[str, Array] = MappingProxyType({}),
) -> StateCopy:
    """Begin to copy the current state of a model of this kind, while learning continues.

    The copy includes the model's own `more` values and `arrays`, which are small and do not change. An
    earlier copy is finished first. Raises TypeError for labels and names that are not strings, booleans,
    numbers or None.
    """
    statistics.finish_copy()
    statistics.reserve()
    vocabulary, counts = statistics.vocabulary, statistics.counts
    rows, K = vocabulary.size, len(statistics.classes)
    fields = len(statistics.layout.fields)
    small = {
        **arrays,
        "class_weights": statistics.class_weights[:K].copy(),
        "totals": counts.totals[:, :K].copy(),
        **{
            name: array[:fields, :K].copy()
            for name, array in zip(("n", "mean", "M2"), statistics.moments, strict=True)
        },
    }
    growing = {
        "cells": Copied(lambda: vocabulary.cells, np.empty(16 * rows, np.uint8)),
        "arena": Copied(lambda: vocabulary.arena, np.empty(int(vocabulary.used[0]), np.uint8)),
        "groups": Copied(lambda: vocabulary.groups, np.empty(rows, np.int32)),
    }
    tables = {"table": Copied(lambda: counts.table[:, np.newaxis], np.empty((rows, 1, K), np.int64))}
    if statistics.survivors.size:
        small["survivors"] = statistics.survivors
    if presence := statistics.presence:
        small["texts"] = presence.counts.totals[:, :K].copy()
        tables["presence"] = Copied(
            lambda: presence.counts.table[:, np.newaxis], np.empty((rows, 1, K), np.int64)
        )
    if D := (decayed := statistics.decayed).tables.epoch.size:
        small |= decayed.state(len(statistics.layout.groups), fields, K)
        tables["decayed_table"] = Copied(lambda: decayed.tables.table, np.empty((rows, D, K)))
        tables["decayed_row_epoch"] = Copied(
            lambda: decayed.tables.row_epoch[:, :, np.newaxis], np.empty((rows, D, 1), np.int64)
        )
    statistics.unfinished_copy = StateCopy(
        {"type": kind, **_described(statistics), **more}, small, growing, tables
    )
    return statistics.unfinished_copy


def _described(statistics: SufficientStatistics) -> dict[str, Any]:
    return {
        "events": statistics.events,
        "classes": [plain(label) for label in statistics.classes],
        **statistics.layout.described(),
        **({} if statistics.sources == Sources() else {"sources": statistics.sources.described()}),
        **({"room_changes": list(map(list, statistics.room_changes))} if statistics.room_changes else {}),
    }


@state_errors("counts of events", ValueError)
def statistics_from_state(meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> SufficientStatistics:
    """Return the statistics of a `state`, ignoring other arrays. Raises SnapshotError."""
    statistics = SufficientStatistics(Sources.from_description(meta.get("sources", {})))
    statistics.events = count(meta, "events", least=-MOST)  # parts of one event are unlearned one by one
    for label in checked_names(meta["classes"]):
        statistics.column(label)
    statistics.layout.load(meta)
    _load(statistics, arrays)
    _load_room_changes(statistics, meta.get("room_changes", ()))
    return statistics


def _load(statistics: SufficientStatistics, arrays: Mapping[str, Array]) -> None:
    G, F, K = statistics.counts.kinds.size, len(statistics.layout.fields), len(statistics.classes)
    expected = _expected(statistics, G)
    if "survivors" in arrays:
        expected["survivors"] = whole("prunings", low=0, high=np.size(arrays["groups"]))
    own = {name: array for name, array in arrays.items() if name in expected}
    found = checked(own, expected, groups=G, fields=F, classes=K, decays=len(statistics.sources.decays))
    statistics.vocabulary = Vocabulary.from_state(found)
    groups = statistics.vocabulary.groups[: statistics.vocabulary.size]
    statistics.survivors = found.get("survivors", statistics.survivors).copy()
    reject("survivors", np.diff(statistics.survivors) < 0, "fewer than before an earlier pruning")
    statistics.reserve()
    statistics.class_weights[:K] = found["class_weights"]
    statistics.counts.load("table", found["table"], found["totals"], groups)
    sums = np.zeros((G, K), dtype=np.int64)
    add_rows(found["table"], groups, sums)
    is_wrong = (sums != found["totals"]).T & (statistics.counts.slot < 0)  # texts are not summed
    reject("totals", is_wrong.T, "not the sum of the rows of its group")
    for name, array in zip(("n", "mean", "M2"), statistics.moments, strict=True):
        array[:F, :K] = found[name]
    if statistics.presence:
        statistics.presence.load(found["presence"], found["texts"], groups)
    if statistics.sources.decays:
        statistics.decayed.load(found)


def _load_room_changes(statistics: SufficientStatistics, found: Any) -> None:
    most = statistics.survivors.size, len(statistics.layout.groups), len(statistics.layout.fields)
    rows = np.array([(0, 0, 0), *found, most])
    if rows.shape[1:] != (3,) or rows.dtype != np.int64 or np.any(np.diff(rows, axis=0) < 0):
        raise SnapshotError(f"room_changes: {found!r} does not rise up to {most}")
    statistics.room_changes = tuple(BudgetChange(*change) for change in found)


def _expected(statistics: SufficientStatistics, groups: int) -> dict[str, ExpectedArray]:
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
    if statistics.presence:
        expected |= {"presence": counts("rows", "classes"), "texts": counts("groups", "classes")}
    return expected | (statistics.decayed.expected() if statistics.sources.decays else {})
