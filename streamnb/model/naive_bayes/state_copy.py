"""The state of a model at one moment, copied in slices while the model goes on learning.

What only grows at its end is copied slice by slice as far as it reached at the first moment. Of the table of
counts a row that is about to change is copied before it changes, so that learning pays for the rows that it
touches and for nothing else, however large the table is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamnb.model.compiled.jit import kernel

if TYPE_CHECKING:
    from streamnb.model.naive_bayes.sufficient_statistics import Statistics

__all__ = ["StateCopy"]

Array = npt.NDArray[Any]
_ALL = 1 << 62


@kernel
def _fresh(rows: Any, first: int, taken: Any, fresh: Any) -> Any:
    """Those of `rows` from `first` on that nobody has taken yet, taken from now on; how many."""
    found = 0
    for row in rows:
        if first <= row < taken.size and not taken[row]:
            taken[row] = True
            fresh[found] = row
            found += 1
    return found


@kernel
def _copy(table: Any, rows: Any, copied: Any) -> None:
    """Copy these rows; columns beyond the copy's are newer."""
    for row in rows:
        for d in range(copied.shape[1]):
            for k in range(copied.shape[2]):
                copied[row, d, k] = table[row, d, k]


class _Growing(NamedTuple):
    """An array that changes only beyond `copied.size`: how to get at it, for it moves as it grows."""

    whole: Callable[[], Array]
    copied: Array


class _Rows(NamedTuple):
    """A table that may change anywhere: how to get at it as (row, set, class), and its copy of this shape."""

    whole: Callable[[], Array]
    copied: Array


class StateCopy:
    """The state of `statistics` as it is when this is made.

    The owner of the statistics calls `keep` before rows change, and `finish` before anything else does.

    Args:
        statistics: whose state; it may go on learning.
        kind: of the model that reads them.
        more: values of the model's own.
        arrays: arrays of the model's own, which nobody changes.
    """

    def __init__(
        self, statistics: Statistics, kind: str, more: Mapping[str, Any], arrays: Mapping[str, Array]
    ) -> None:
        self._statistics = statistics
        vocabulary, counts = statistics.vocabulary, statistics.counts
        rows, K = vocabulary.size, len(statistics.classes)
        fields = len(statistics.layout.fields)
        self._meta = {"type": kind, **statistics.described(), **more}
        self._small = {
            **arrays,
            "class_weights": statistics.class_weights[:K].copy(),
            "totals": counts.totals[:, :K].copy(),
            **{
                name: array[:fields, :K].copy()
                for name, array in zip(("n", "mean", "M2"), statistics.moments, strict=True)
            },
        }
        self._growing = {
            "cells": _Growing(lambda: vocabulary.cells, np.empty(16 * rows, np.uint8)),
            "arena": _Growing(lambda: vocabulary.arena, np.empty(int(vocabulary.used[0]), np.uint8)),
            "groups": _Growing(lambda: vocabulary.groups, np.empty(rows, np.int32)),
        }
        self._left = list(self._growing.values())
        self._at = 0  # in the first of those left, then in the tables
        self._rows = {"table": _Rows(lambda: counts.table[:, np.newaxis], np.empty((rows, 1, K), np.int64))}
        self._copy_beside(rows, K, fields)
        self._taken = np.zeros(rows, np.bool_)
        self.done = False

    def _copy_beside(self, rows: int, K: int, fields: int) -> None:
        """What hypotheses count beside the table."""
        presence, decayed = self._statistics.presence, self._statistics.decayed
        if presence:
            self._small["texts"] = presence.counts.totals[:, :K].copy()
            self._rows["presence"] = _Rows(
                lambda: presence.counts.table[:, np.newaxis], np.empty((rows, 1, K), np.int64)
            )
        if D := decayed.tables.epoch.size:
            self._small |= decayed.state(len(self._statistics.layout.groups), fields, K)
            self._rows["decayed_table"] = _Rows(lambda: decayed.tables.table, np.empty((rows, D, K)))
            self._rows["decayed_row_epoch"] = _Rows(
                lambda: decayed.tables.row_epoch[:, :, np.newaxis], np.empty((rows, D, 1), np.int64)
            )

    def keep(self, rows: npt.NDArray[np.int32]) -> None:
        """These rows are about to change; UNKNOWN and the like are passed over."""
        if not self.done:
            fresh = np.empty(rows.size, np.int64)
            found = _fresh(rows, 0 if self._left else self._at, self._taken, fresh)
            self._copy_rows(fresh[:found])

    def _copy_rows(self, rows: npt.NDArray[np.int64]) -> None:
        for whole, copied in self._rows.values():
            _copy(whole(), rows, copied)

    def advance(self, n_bytes: int) -> bool:
        """Copy about so many bytes more; whether that is all."""
        while n_bytes > 0 and self._left:
            source, copied = self._left[0]
            stop = min(copied.size, self._at + max(1, n_bytes // copied.itemsize))
            copied[self._at : stop] = source()[self._at : stop]
            n_bytes -= (stop - self._at) * copied.itemsize
            self._at = stop
            if stop == copied.size:
                self._left.pop(0)
                self._at = 0
        if not self._left and not self.done:
            rows = self._taken.size
            width = max(8, sum(copied[:1].nbytes for _, copied in self._rows.values()))
            stop = min(rows, self._at + max(int(n_bytes > 0), n_bytes // width))
            self._copy_rows(self._at + np.flatnonzero(~self._taken[self._at : stop]))
            self._at = stop
            self.done = stop == rows
        return self.done

    def finish(self) -> None:
        """Copy all that is left."""
        self.advance(_ALL)

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """JSON-able values, and arrays without spare room, once all has been copied."""
        self.finish()
        copied: Mapping[str, Array] = {name: part.copied for name, part in self._growing.items()}
        rows = {name: _without_sets(part.copied, name) for name, part in self._rows.items()}
        return self._meta, {**copied, **self._small, **rows}


def _without_sets(copied: Array, name: str) -> Array:
    """A copy in the shape of its table: (row, class), (row, set, class), or (row, set) for epochs."""
    if name == "decayed_row_epoch":
        return copied[:, :, 0]
    return copied if name == "decayed_table" else copied[:, 0]
