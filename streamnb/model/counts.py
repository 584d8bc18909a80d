"""Counts of discrete attributes: (attribute row x class) and what is derived from them.

A count is int64 in units of 1/1024 example, so that sums of weights are exact in any order. Rows belong to
groups: a text attribute is one group (its rows are tokens), a nominal field is one (its rows are values).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamnb.model.growing import grown, with_room
from streamnb.model.jit import inlined, kernel
from streamnb.model.vocabulary import Vocabulary

__all__ = [
    "BERNOULLI",
    "MULTINOMIAL",
    "NOMINAL",
    "UNIT",
    "Counts",
    "Histograms",
    "has_room",
    "histogram_move",
    "widen_rows",
]

UNIT = 1024
MULTINOMIAL, BERNOULLI, NOMINAL = 0, 1, 2


class Histograms(NamedTuple):
    """For each Bernoulli group and class: which counts its words have, and how many words each.

    What the absent words of a class say depends on its words' counts alone, of which only about
    sqrt(2 x mass) differ. Kept sorted, so that the sum over them is a function of the counts, whatever the
    order in which they came.

    Attributes:
        weight: int64[B, C], the different counts above zero, rising. B = Bernoulli groups x classes.
        words: int64[B, C], how many words have that count.
        used: int64[B], how many columns are in use.
        positive: int64[B], how many words have a count above zero.
        absent: float64[B], log probability that every word above zero is absent; valid unless stale.
        misses: int64[B], how many of those words are absent with probability alpha -> 0.
        stale: bool[B].
    """

    weight: npt.NDArray[np.int64]
    words: npt.NDArray[np.int64]
    used: npt.NDArray[np.int64]
    positive: npt.NDArray[np.int64]
    absent: npt.NDArray[np.float64]
    misses: npt.NDArray[np.int64]
    stale: npt.NDArray[np.bool_]


@inlined
def _place(weight: Any, b: int, used: int, count: int, first: int) -> int:
    """Where `count` stands in row b, or would, of `used` counts; two from `first` on are tried first."""
    for at in range(first, min(first + 2, used)):
        if weight[b, at] >= count:
            return at
    low, high = 0, used
    while low < high:
        middle = (low + high) // 2
        if weight[b, middle] < count:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def histogram_move(weight: Any, words: Any, used: Any, positive: Any, b: int, old: int, new: int) -> None:
    """One word's count changes from `old` to `new` in histogram b; counts of zero are not kept.

    Where it is the only word of its count and stays in its place, as frequent words do, only the count is
    written over. The arrays are those of `Histograms`, one by one: a tuple of them costs more than the rest.
    """
    size, at = used[b], 0
    if old > 0:
        at = _place(weight, b, size, old, 0)
        stays = (at == 0 or weight[b, at - 1] < new) and (at + 1 == size or new < weight[b, at + 1])
        if words[b, at] == 1 and stays and new > 0:
            weight[b, at] = new
            return
        words[b, at] -= 1
        positive[b] -= 1
        if words[b, at] == 0:
            size -= 1
            for i in range(at, size):
                weight[b, i] = weight[b, i + 1]
                words[b, i] = words[b, i + 1]
    if new > 0:
        at = _place(weight, b, size, new, at if new > old else 0)
        positive[b] += 1
        if at < size and weight[b, at] == new:
            words[b, at] += 1
        else:
            for i in range(size, at, -1):
                weight[b, i] = weight[b, i - 1]
                words[b, i] = words[b, i - 1]
            weight[b, at] = new
            words[b, at] = 1
            size += 1
    used[b] = size


@inlined
def has_room(histograms: Any, slot: Any, columns: int, k: int, most: int) -> bool:
    """Whether class k's histograms can take one more text of `most` different words (slot: see `Counts`)."""
    for g in range(slot.size):
        if slot[g] >= 0:
            used = histograms.used[slot[g] * columns + k]
            if used + most > histograms.weight.shape[1]:
                return False
    return True


class Counts:
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
        self.histograms = _empty_histograms(0, 8)

    @property
    def columns(self) -> int:
        """For how many classes there is room."""
        return self.table.shape[1]

    def add_group(self, kind: int) -> int:
        """A new group; its number."""
        group = self.kinds.size
        bernoulli = int(np.count_nonzero(self.kinds == BERNOULLI))
        self.kinds = np.append(self.kinds, kind)
        self.live = np.append(self.live, 0)
        self.slot = np.append(self.slot, bernoulli if kind == BERNOULLI else -1)
        self.totals = np.vstack([self.totals, np.zeros((1, self.columns), dtype=np.int64)])
        if kind == BERNOULLI:
            self._resize_histograms((bernoulli + 1) * self.columns, self.histograms.weight.shape[1])
        return group

    def room_for_rows(self, rows: int) -> None:
        """Grow the table in place, if need be."""
        if rows > self.table.shape[0]:
            self.table = grown(self.table, (with_room(rows), self.columns))

    def room_for_classes(self, classes: int) -> None:
        """Widen every array to hold `classes` columns.

        The table is widened in place, from its last row to its first, so that it is never held twice.
        """
        rows, columns = self.table.shape
        if classes <= columns:
            return
        wider = max(classes, columns + columns // 2)
        self.table = grown(self.table, (rows, wider))
        widen_rows(self.table.reshape(-1), rows, columns, wider)
        self.totals = np.pad(self.totals, ((0, 0), (0, wider - columns)))
        self.histograms = Histograms(
            *(_widen_classes(array, columns, wider) for array in self.histograms)
        )._replace(stale=np.ones(self.histograms.used.size // columns * wider, dtype=np.bool_))

    def room_for_counts(self, columns: int) -> None:
        """Let every histogram hold `columns` different counts."""
        have = self.histograms.weight.shape[1]
        if columns > have:
            self._resize_histograms(self.histograms.used.size, columns + have // 2)

    def derive(self, vocabulary: Vocabulary) -> None:
        """Make `live` and the histograms anew from the table, after it was replaced or added to.

        Totals are not derived: those of a Bernoulli group count texts, which the table does not say.
        """
        table = self.table[: vocabulary.size]
        groups = vocabulary.groups[: vocabulary.size]
        alive = table.any(axis=1)
        self.live = np.bincount(groups[alive], minlength=self.kinds.size).astype(np.int64)
        found = [
            np.unique(column[column > 0], return_counts=True)
            for group in np.flatnonzero(self.kinds == BERNOULLI)
            for column in table[groups == group].T
        ]
        most = max((counts.size for counts, _ in found), default=0)
        self.histograms = _empty_histograms(len(found), max(8, most))
        for b, (counts, words) in enumerate(found):
            self.histograms.weight[b, : counts.size] = counts
            self.histograms.words[b, : counts.size] = words
            self.histograms.used[b] = counts.size
            self.histograms.positive[b] = words.sum()

    def _resize_histograms(self, length: int, columns: int) -> None:
        old = self.histograms
        self.histograms = _empty_histograms(length, columns)
        for new_array, old_array in zip(self.histograms, old, strict=True):
            if old_array.ndim == 2:
                new_array[: old_array.shape[0], : old_array.shape[1]] = old_array
            else:
                new_array[: old_array.size] = old_array


def _empty_histograms(length: int, columns: int) -> Histograms:
    return Histograms(
        weight=np.zeros((length, columns), dtype=np.int64),
        words=np.zeros((length, columns), dtype=np.int64),
        used=np.zeros(length, dtype=np.int64),
        positive=np.zeros(length, dtype=np.int64),
        absent=np.zeros(length, dtype=np.float64),
        misses=np.zeros(length, dtype=np.int64),
        stale=np.ones(length, dtype=np.bool_),
    )


def _widen_classes(array: npt.NDArray[Any], columns: int, wider: int) -> npt.NDArray[Any]:
    """An array whose first axis is (group x class), with room for more classes in each group."""
    by_group = array.reshape(-1, columns, *array.shape[1:])
    pad = [(0, 0), (0, wider - columns)] + [(0, 0)] * (array.ndim - 1)
    return np.pad(by_group, pad).reshape(-1, *array.shape[1:])


@kernel
def widen_rows(flat: Any, rows: int, columns: int, wider: int) -> None:
    """Move rows of `columns` to rows of `wider` in the same memory, last row first."""
    for row in range(rows - 1, -1, -1):
        for k in range(wider - 1, -1, -1):
            flat[row * wider + k] = flat[row * columns + k] if k < columns else 0
