"""The state of a model at one moment, copied in slices while the model goes on learning.

What only grows at its end is copied slice by slice as far as it reached at the first moment. Of the table of
counts a row that is about to change is copied before it changes, so that learning pays for the rows that it
touches and for nothing else, however large the table is.
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


class Copied(NamedTuple):
    """An array and its copy. `whole` says how to get at the array, for it moves as it grows."""

    whole: Callable[[], Array]
    copied: Array


class StateCopy:
    """A state as it is when this is made.

    Its owner calls `keep` before rows change, and `finish` before anything else does.

    Args:
        meta: values that JSON can hold.
        small: arrays that nobody changes.
        growing: arrays that change only beyond the size of their copy.
        rows: tables as (row, set, class) that may change anywhere, with copies of as many rows each.
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
        self._at = 0  # in the first of those left, then in the tables
        self._taken = np.zeros(len(rows["table"].copied), np.bool_)
        self.done = False

    def keep(self, rows: Codes) -> None:
        """These rows are about to change; UNKNOWN and the like are passed over."""
        if not self.done:
            fresh = np.empty(rows.size, np.int64)
            found = _fresh(rows, 0 if self._left else self._at, self._taken, fresh)
            self._copy_rows(fresh[:found])

    def _copy_rows(self, rows: Ints) -> None:
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

    def state(self) -> State:
        """JSON-able values, and arrays without spare capacity, once all has been copied."""
        self.finish()
        copied: Mapping[str, Array] = {name: part.copied for name, part in self._growing.items()}
        rows = {name: _without_sets(part.copied, name) for name, part in self._rows.items()}
        return self._meta, {**copied, **self._small, **rows}


def _without_sets(copied: Array, name: str) -> Array:
    """A copy in the shape of its table: (row, class), (row, set, class), or (row, set) for epochs."""
    if name == "decayed_row_epoch":
        return copied[:, :, 0]
    return copied if name == "decayed_table" else copied[:, 0]
