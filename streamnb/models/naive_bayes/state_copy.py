"""A copy of a model's state at one moment, made in slices while the model continues to learn.

Arrays that only grow are copied slice by slice, up to their length at that moment. In the table of counts a
row is copied before it changes, so learning pays only for the rows that it touches, however large the table
is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Ints
from streamnb.kernels.jit import kernel
from streamnb.values.type_aliases import Array, Codes, State

_ALL = 1 << 62


@kernel
def _fresh(rows: Any, first: int, taken: Any, fresh: Any) -> Any:
    """Mark rows from `first` that are not taken, write them to `fresh`, and return their number."""
    found = 0
    for row in rows:
        if first <= row < taken.size and not taken[row]:
            taken[row] = True
            fresh[found] = row
            found += 1
    return found


@kernel
def _copy(table: Any, rows: Any, copied: Any) -> None:
    for row in rows:
        for d in range(copied.shape[1]):
            for k in range(copied.shape[2]):
                copied[row, d, k] = table[row, d, k]


class Copied(NamedTuple):
    """An array and its copy. `whole` returns the array, which moves when it grows."""

    whole: Callable[[], Array]
    copied: Array


class StateCopy:
    """A state as of the construction of this object.

    The owner calls `keep` before rows change, and `finish` before anything else changes.

    Args:
        meta: JSON-able values.
        small: arrays that do not change.
        growing: arrays that change only beyond the size of their copy.
        rows: tables as (row, set, class) that may change anywhere, with copies of the same number of rows.
    """

    def __init__(
        self,
        meta: Mapping[str, Any],
        small: Mapping[str, Array],
        growing: Mapping[str, Copied],
        rows: Mapping[str, Copied],
    ) -> None:
        self._meta, self._small, self._growing, self._rows = dict(meta), dict(small), growing, rows
        self._left = list(growing.values())
        self._at = 0  # position in the first of `_left`, then in the tables
        self._taken = np.zeros(len(rows["table"].copied), np.bool_)
        self.done = False

    def keep(self, rows: Codes) -> None:
        """Copy rows that are about to change; negative codes such as UNKNOWN are skipped."""
        if not self.done:
            fresh = np.empty(rows.size, np.int64)
            found = _fresh(rows, 0 if self._left else self._at, self._taken, fresh)
            self._copy_rows(fresh[:found])

    def _copy_rows(self, rows: Ints) -> None:
        for whole, copied in self._rows.values():
            _copy(whole(), rows, copied)

    def advance(self, n_bytes: int) -> bool:
        """Copy about `n_bytes` more; return whether the copy is complete."""
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
        """Copy the remainder."""
        self.advance(_ALL)

    def state(self) -> State:
        """Return JSON-able values and arrays without spare capacity; finishes the copy first."""
        self.finish()
        copied: Mapping[str, Array] = {name: part.copied for name, part in self._growing.items()}
        rows = {name: _without_sets(part.copied, name) for name, part in self._rows.items()}
        return self._meta, {**copied, **self._small, **rows}


def _without_sets(copied: Array, name: str) -> Array:
    """Return a copy in the shape of its table: (row, class), (row, set, class), or (row, set) for epochs."""
    if name == "decayed_row_epoch":
        return copied[:, :, 0]
    return copied if name == "decayed_table" else copied[:, 0]
