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

from streamnb.model.jit import kernel

if TYPE_CHECKING:
    from streamnb.model.statistics import Statistics

__all__ = ["StateCopy"]

Array = npt.NDArray[Any]
_ALL = 1 << 62


@kernel
def _keep(table: Any, rows: Any, first: int, taken: Any, copied: Any) -> None:
    """Copy those of `rows` from `first` on that nobody has taken yet; columns beyond the copy's are newer."""
    for row in rows:
        if first <= row < taken.size and not taken[row]:
            taken[row] = True
            for k in range(copied.shape[1]):
                copied[row, k] = table[row, k]


@kernel
def _copy_rows(table: Any, first: int, stop: int, taken: Any, copied: Any) -> None:
    """Copy the rows from `first` to `stop`, those taken before they changed apart."""
    for row in range(first, stop):
        if not taken[row]:
            for k in range(copied.shape[1]):
                copied[row, k] = table[row, k]


class _Growing(NamedTuple):
    """An array that changes only beyond `copied.size`: how to get at it, for it moves as it grows."""

    whole: Callable[[], Array]
    copied: Array


class StateCopy:
    """The state of `statistics` as it is when this is made.

    The owner of the statistics calls `keep` before rows change, and `finish` before anything else does.

    Args:
        statistics: whose state; it may go on learning.
        kind: of the model that reads them.
    """

    def __init__(self, statistics: Statistics, kind: str) -> None:
        self._statistics = statistics
        vocabulary, counts = statistics.vocabulary, statistics.counts
        rows, K = vocabulary.size, len(statistics.classes)
        fields = len(statistics.layout.fields)
        self._meta = {"type": kind, **statistics.described()}
        self._small = {
            "class_weights": statistics.class_weights[:K].copy(),
            "totals": counts.totals[:, :K].copy(),
            **{
                name: array[:fields, :K].copy()
                for name, array in zip(("n", "mean", "M2"), statistics.moments, strict=True)
            },
        }
        self._growing = {
            "arena": _Growing(lambda: vocabulary.arena, np.empty(int(vocabulary.ends[rows]), np.uint8)),
            "ends": _Growing(lambda: vocabulary.ends, np.empty(rows + 1, np.int64)),
            "groups": _Growing(lambda: vocabulary.groups, np.empty(rows, np.int32)),
        }
        self._left = list(self._growing.values())
        self._at = 0  # in the first of those left, then in the table
        self._table = np.empty((rows, K), np.int64)
        self._taken = np.zeros(rows, np.bool_)
        self.done = False

    def keep(self, rows: npt.NDArray[np.int32]) -> None:
        """These rows are about to change; UNKNOWN and the like are passed over."""
        if not self.done:
            first = 0 if self._left else self._at
            _keep(self._statistics.counts.table, rows, first, self._taken, self._table)

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
            rows, width = self._table.shape[0], max(8, self._table.shape[1] * 8)
            stop = min(rows, self._at + max(int(n_bytes > 0), n_bytes // width))
            _copy_rows(self._statistics.counts.table, self._at, stop, self._taken, self._table)
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
        return self._meta, {**copied, **self._small, "table": self._table}
