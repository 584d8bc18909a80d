"""The table of features beside what was counted again: every count, total, owner, edge and code.

A pair that was met once has no row on either side: the class of its only event is compared. Where one side
has a row of it and the other has not, the latter counts one example of that class.

Where a recount begins with a state, features are known by their keys alone. Of words, values and all owners
the keys are made again, to have their names; a pair has its name once it is met again.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from streamnb.engine.verification.exact.bins import BINS, ExactBins
from streamnb.engine.verification.exact.decay import Row
from streamnb.engine.verification.features.keys import found_by
from streamnb.engine.verification.features.recount import NOBODY, FeatureRecount, Once
from streamnb.engine.verification.features.state import FeatureState
from streamnb.errors import SnapshotError
from streamnb.model.attributes.weights import UNIT
from streamnb.model.naive_bayes.sufficient_statistics import Statistics
from streamnb.model.softmax.feature_table import COUNTS, OWNER, TOTAL

__all__ = ["Tell", "compare_features", "features_of"]

Tell = Callable[[str, Mapping[str, str | int], Any, Any], None]
"""What, where, what was counted, and what was learned."""

_DOUBLE = 2.0**-46  # far above the rounding of a logarithm
_FLOAT = 2.0**-23  # twice the rounding of a float32


def features_of(state: FeatureState, statistics: Statistics, rows: Iterator[Row]) -> FeatureRecount:
    """A recount that begins with a state. Raises SnapshotError where that has a feature twice.

    Args:
        state: of the features.
        statistics: of the same model.
        rows: of its vocabulary.
    """
    recount = FeatureRecount()
    recount.rows = {key: row for row, key in enumerate(state.keys)}
    recount.once = {key: Once(k) for key, k in state.classes_met_once.items()}
    if len(recount.rows.keys() | recount.once) < len(state.table) + len(state.once):
        raise SnapshotError("a feature is there twice")
    recount.owners = array("q", state.table[:, OWNER].tolist())
    recount.told = [None] * len(state.table)
    for label, column in zip(state.labels, state.table[:, COUNTS:].T, strict=True):
        recount.begin_class(label)
        recount.counts[-1] = array("q", column.tolist())
    for kind, name in statistics.layout.groups:
        recount.groups[kind, str(name)] = len(recount.groups)
    for name in statistics.layout.fields:
        recount.bins[recount.field(str(name))] = ExactBins()
    recount.bins[: len(state.bins)] = state.bins
    recount.learned, recount.last, recount.chosen = state.learned, state.last, state.chosen
    for key, name in recount.names():
        if key in recount.rows:
            recount.told[recount.rows[key]] = name
    for group, word in rows:
        row = recount.rows.get(found_by(recount.word(recount.groups[group], word)), NOBODY)
        if row != NOBODY:
            recount.told[row] = word
    return recount


def compare_features(recount: FeatureRecount, state: FeatureState, tell: Tell) -> int:
    """Tell every number that differs; how many counts are equal."""
    comparing = _Comparing(recount, state, tell)
    comparing.context()
    comparing.bins()
    return comparing.counts() + comparing.met_once()


class _Comparing:
    """A recount and a state, and who is told what differs."""

    def __init__(self, recount: FeatureRecount, state: FeatureState, tell: Tell) -> None:
        self._recount, self._state, self._tell = recount, state, tell
        self._keys, self._once = state.keys, state.classes_met_once
        self._here = np.array([recount.rows.get(key, NOBODY) for key in self._keys], dtype=np.int64)

    def context(self) -> None:
        """On what it depends which features an event has."""
        recount, state = self._recount, self._state
        self._number("weight that features were learned of", {}, recount.learned / UNIT, state.learned / UNIT)
        last = list(recount.classes)[recount.last] if recount.last >= 0 else None
        self._number("label before", {}, last, state.labels[state.last] if state.last >= 0 else None)
        counted, learned = (
            None if chosen is None else [recount.attribute(number) for number in chosen]
            for chosen in (recount.chosen, state.chosen)
        )
        self._number("paired attributes", {}, counted, learned)

    def bins(self) -> None:
        """Edges and codes, and the values from which edges are going to be laid."""
        for name, f in self._recount.fields.items():
            counted = self._recount.bins[f]
            learned = self._state.bins[f] if f < len(self._state.bins) else ExactBins()
            place = {"attribute": name}
            self._number("values for bins", place, counted.learned, learned.learned)
            values = len(learned.values)
            self._row(place, "value for bins", counted.values[:values] if values else [], learned.values)
            self._row(place, "code", counted.codes, learned.codes)
            for bins, here, there in zip(BINS, counted.edges, learned.edges, strict=True):
                self._row(place, f"edge of {bins} bins", here, there)

    def counts(self) -> int:
        """Which features there are, whose they are, and how often they were learned; how many are equal."""
        table, matched = self._state.table, np.flatnonzero(self._here >= 0)
        labels, expected = self._expected(table.shape[0])
        learned = np.zeros_like(expected)
        learned[:, : len(self._state.labels)] = table[:, COUNTS:]
        differs = learned != expected
        for row, k in zip(*(places.tolist() for places in np.nonzero(differs)), strict=True):
            counted = int(expected[row, k]) / UNIT
            self._tell("count", self._place(row) | {"class": labels[k]}, counted, int(learned[row, k]) / UNIT)
        totals = expected.sum(axis=1)
        for row in np.flatnonzero((table[:, TOTAL] != totals) & ~differs.any(axis=1)).tolist():
            counted = int(totals[row]) / UNIT
            self._tell("count of all classes", self._place(row), counted, int(table[row, TOTAL]) / UNIT)
        self._owners(matched)
        self._logarithms(expected, differs, labels)
        self._presence(matched)
        return int(np.count_nonzero(~differs & (expected != 0)))

    def met_once(self) -> int:
        """Pairs that have no row yet, and the class of the event of each; how many are equal."""
        counted, learned = self._recount.once, self._once
        self._number("pairs met once", {}, len(counted), len(self._state.once))
        labels, equal = list(self._recount.classes), 0
        for key in {**counted, **learned}:
            here = labels[counted[key].k] if key in counted else None
            there = self._state.labels[learned[key]] if key in learned else None
            equal += here == there
            row = self._recount.rows.get(key)
            place = self._recount.place_of_once(key) if row is None else self._recount.place(row)
            self._number("class of its only event", place, here, there)
        return equal

    def _expected(self, size: int) -> tuple[list[str], npt.NDArray[np.int64]]:
        """Labels, those of the state first, and the recount's counts of the state's rows."""
        labels = [*self._state.labels, *(c for c in self._recount.classes if c not in self._state.labels)]
        expected, known = np.zeros((size, len(labels)), dtype=np.int64), self._here >= 0
        for label, k in self._recount.classes.items():
            column = np.zeros(len(self._recount.rows), dtype=np.int64)
            counts = np.array(self._recount.counts[k], dtype=np.int64)
            column[: counts.size] = counts
            expected[known, labels.index(label)] = column[self._here[known]]
        classes = list(self._recount.classes)
        for row in np.flatnonzero(~known).tolist():
            pair = self._recount.once.get(self._keys[row])
            if pair is not None:
                expected[row, labels.index(classes[pair.k])] = UNIT
        return labels, expected

    def _owners(self, matched: npt.NDArray[np.int64]) -> None:
        """Whether features belong to the same attributes."""
        to_here = np.append(self._here, NOBODY)
        learned = to_here[self._state.table[matched, OWNER]]  # NOBODY is the last
        counted = np.array(self._recount.owners, dtype=np.int64)[self._here[matched]]
        for i in np.flatnonzero(learned != counted).tolist():
            names = [self._recount.owner_name(int(owner)) for owner in (counted[i], learned[i])]
            self._tell("owner", self._place(int(matched[i])), *names)

    def _logarithms(
        self, expected: npt.NDArray[np.int64], differs: npt.NDArray[np.bool_], labels: list[str]
    ) -> None:
        """Whether ln(1 + 2 n), kept beside the counts in single precision, is that of the counts.

        Of owners there is none.
        """
        right = np.log1p(2.0 * expected[:, : self._state.logs.shape[1]] / UNIT)
        right[self._state.table[:, OWNER] == NOBODY] = 0.0
        found = self._state.logs.astype(np.float64)
        close = np.abs(found - right) <= _FLOAT * right + _DOUBLE * (right > 0.0)
        close |= differs[:, : found.shape[1]]  # which was told
        for row, k in zip(*(places.tolist() for places in np.nonzero(~close)), strict=True):
            place = self._place(row) | {"class": labels[k]}
            self._tell("logarithm of a count", place, float(right[row, k]), float(found[row, k]))

    def _presence(self, matched: npt.NDArray[np.int64]) -> None:
        """Features that are there twice, and those that are not there."""
        rows, times = np.unique(self._here[matched], return_counts=True)
        for row in rows[times > 1].tolist():
            self._tell("rows", self._recount.place(row), 1, int(times[rows == row][0]))
        keys, labels = list(self._recount.rows), self._state.labels
        for row in np.setdiff1d(np.arange(len(keys)), rows).tolist():
            once = self._once.get(keys[row])
            for label, k in self._recount.classes.items():
                counts = self._recount.counts[k]
                counted = counts[row] / UNIT if row < len(counts) else 0.0
                learned = 1.0 if once is not None and labels[once] == label else 0.0
                self._number("count", self._recount.place(row) | {"class": label}, counted, learned)

    def _place(self, row: int) -> dict[str, str | int]:
        """What a row of the state stands for."""
        here = int(self._here[row])
        if here != NOBODY:
            return self._recount.place(here)
        owner = int(self._state.table[row, OWNER])
        name = self._recount.owner_name(int(self._here[owner]) if owner != NOBODY else NOBODY)
        return {"attribute": name} | self._recount.place_of_once(self._keys[row])

    def _number(self, what: str, place: Mapping[str, str | int], counted: object, learned: object) -> None:
        if counted != learned:
            self._tell(what, place, counted, learned)

    def _row(
        self,
        place: Mapping[str, str | int],
        what: str,
        counted: list[float] | None,
        learned: list[float] | None,
    ) -> None:
        """Numbers in a row, or that there are none: how many, or the first that differs."""
        lengths = [None if numbers is None else len(numbers) for numbers in (counted, learned)]
        if lengths[0] != lengths[1]:
            self._tell(f"{what}: how many", place, *lengths)
            return
        for i, (here, there) in enumerate(zip(counted or (), learned or (), strict=True)):
            if here != there:
                self._tell(f"{what}, number {i}", place, here, there)
                return
