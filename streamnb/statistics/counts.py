"""Counts of discrete attributes: (attribute row x class) and what is derived from them.

A count is int64 in units of 1/1024 example, so that sums of weights are exact in any order. Rows belong to
groups: a text attribute is one group (its rows are tokens), a nominal field is one (its rows are values).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamnb.kernels.array_types import Ints
from streamnb.kernels.growable_arrays import Growable, capacity_for, grown
from streamnb.kernels.growable_arrays import widened as with_columns
from streamnb.kernels.jit import kernel
from streamnb.statistics.histograms import (
    Histograms,
    change_count,
    histograms_of,
    lacks_places,
    resized,
    widened,
    without_places,
)
from streamnb.statistics.lightest_rows import row_sums
from streamnb.values.attribute_kinds import BERNOULLI
from streamnb.values.example_weights import UNIT
from streamnb.values.state_validation import MOST, reject
from streamnb.values.type_aliases import Codes


class Counts(Growable):
    """The tables of one set of discrete attributes, grown as rows, groups and classes appear.

    Attributes:
        table: int64[>= rows, >= classes], weight of each row within each class.
        totals: int64[groups, >= classes]: tokens of the class (multinomial), texts (Bernoulli), or events
            that have the field (nominal).
        live: int64[groups], rows with a count above zero: the vocabulary size, or the number of values.
        kinds: int64[groups], MULTINOMIAL, BERNOULLI or NOMINAL.
        slot: int64[groups], which Bernoulli group this is, or -1.
    """

    def __init__(self) -> None:
        self.table = np.zeros((32, 2), dtype=np.int64)
        self.totals = np.zeros((0, 2), dtype=np.int64)
        self.live = np.zeros(0, dtype=np.int64)
        self.kinds = np.zeros(0, dtype=np.int64)
        self.slot = np.zeros(0, dtype=np.int64)
        self.histograms = Histograms.empty(0, 64, 8)

    @property
    def columns(self) -> int:
        """Number of classes for which there is capacity."""
        return self.table.shape[1]

    def add_group(self, kind: int) -> int:
        """Add a group and return its number."""
        group = self.kinds.size
        bernoulli = int(np.count_nonzero(self.kinds == BERNOULLI))
        self.kinds = np.append(self.kinds, kind)
        self.live = np.append(self.live, 0)
        self.slot = np.append(self.slot, bernoulli if kind == BERNOULLI else -1)
        self.totals = np.vstack([self.totals, np.zeros((1, self.columns), dtype=np.int64)])
        if kind == BERNOULLI:
            length, columns = (bernoulli + 1) * self.columns, self.histograms.weight.shape[1]
            self.histograms = resized(self.histograms, length, columns, 0)
        return group

    def reserve_rows(self, rows: int, most: int) -> None:
        """Grow the table in place if needed, to at most `most` rows."""
        if rows > self.table.shape[0]:
            self.table = grown(self.table, (capacity_for(rows, most), self.columns))

    def reserve_classes(self, classes: int, used: int) -> None:
        """Widen every array to hold `classes` columns; `used` rows are in use.

        The table is widened in place, from its last row to its first, so that it is never held twice.
        """
        columns = self.columns
        if classes <= columns:
            return
        wider = max(classes, columns + columns // 2)
        self.table = with_columns(self.table[:used], wider)
        self.totals = np.pad(self.totals, ((0, 0), (0, wider - columns)))
        self.histograms = widened(self.histograms, columns, wider)

    def reserve_texts(self, most: int) -> None:
        """Let every histogram take one more text of `most` different words."""
        columns, have = int(self.histograms.used.max(initial=0)) + most, self.histograms.weight.shape[1]
        columns = have if columns <= have else columns + have // 2
        if columns > have or lacks_places(self.histograms, self._texts()):
            self.histograms = resized(self.histograms, self.histograms.used.size, columns, self._texts())

    def load(self, name: str, table: Ints, totals: Ints, groups: Codes) -> None:
        """Adopt the table and totals of a valid state, for which there is capacity.

        Args:
            name: of the table, for error messages.
            table: int64[rows, K].
            totals: int64[groups, K].
            groups: int32[rows], group of each row; negative if the word was dropped for good.

        Raises SnapshotError if they contradict each other.
        """
        rows, K = table.shape
        reject(name, table.any(axis=1) & (groups < 0), "a count of a word that was dropped for good")
        reject(name, table.sum(dtype=np.float64) > MOST, "counts whose sum overflows")
        if (self.slot >= 0).any():
            words = np.flatnonzero((self.slot[groups] >= 0) & (groups >= 0))
            reject(name, table[words] > totals[groups[words]], "a word in more texts than there are")
        self.table[:rows, :K], self.totals[:, :K] = table, totals
        self.derive(groups)

    def derive(self, groups: Codes) -> None:
        """Recompute `live` and the histograms after the table was replaced.

        `groups`, int32[rows], holds the groups of the rows.

        Totals are not derived: a Bernoulli group's totals count texts, which the table does not contain.
        """
        table = self.table[: groups.size]
        alive = row_sums(table) > 0
        self.live = np.bincount(groups[alive], minlength=self.kinds.size).astype(np.int64)
        found = [
            np.unique(column[column > 0], return_counts=True)
            for group in np.flatnonzero(self.kinds == BERNOULLI)
            for column in table[groups == group].T
        ]
        self.histograms = histograms_of(found, self._texts())

    def forget(self, rows: Ints, groups: Codes) -> Ints:
        """Remove rows from `live` and the histograms, not the table; return their sums by group and class."""
        table, lost = self.table[rows], np.zeros_like(self.totals)
        add_rows(table, groups, lost)
        self.live -= np.bincount(groups[row_sums(table) > 0], minlength=self.live.size)
        _take_out(table, groups, self.slot, self.histograms)
        return lost

    def add(self, rows: Codes, columns: Ints, more: Ints, groups: Codes) -> None:
        """Add `more`, int64[rows, columns], to the table, and so to `live` and the histograms.

        The rows are distinct, with these groups, whose totals were updated before: a histogram that gets no
        word may yet have more texts.
        """
        has_texts = self.slot[groups] >= 0
        after = self.table[np.ix_(rows[has_texts], columns)] + more[has_texts]
        self.reserve_texts(without_places(self.histograms, after))
        self.histograms.stale[:] = True
        _add(self.table, rows, columns, more, groups, self.live, self.slot, self.histograms)

    def _texts(self) -> int:
        return int(self.totals[self.kinds == BERNOULLI].max(initial=0)) // UNIT


@kernel
def add_rows(table: Any, groups: Any, sums: Ints) -> None:
    """Add each row to the sums of its group; rows of stopped words, which have no counts, are skipped."""
    for row in range(table.shape[0]):
        if groups[row] >= 0:
            for k in range(table.shape[1]):
                sums[groups[row], k] += table[row, k]


@kernel
def _add(
    table: Any, rows: Any, columns: Any, more: Any, groups: Any, live: Any, slot: Any, histograms: Any
) -> None:
    for i in range(rows.size):
        row, g, was_known, is_known = rows[i], groups[i], False, False
        for k in range(table.shape[1]):
            was_known |= table[row, k] != 0
        for j in range(columns.size):
            if more[i, j] != 0:
                before, k = table[row, columns[j]], columns[j]
                table[row, k] = before + more[i, j]
                is_known = True
                if slot[g] >= 0:
                    change_count(histograms, slot[g] * table.shape[1] + k, before, before + more[i, j])
        live[g] += is_known and not was_known


@kernel
def _take_out(table: Any, groups: Any, slot: Any, histograms: Any) -> None:
    for row in range(table.shape[0]):
        for k in range(table.shape[1] if slot[groups[row]] >= 0 else 0):
            if table[row, k] > 0:
                change_count(histograms, slot[groups[row]] * table.shape[1] + k, table[row, k], 0)
