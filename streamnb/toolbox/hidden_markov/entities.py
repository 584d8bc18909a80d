"""Entities of a stream, each with the current belief about its chain."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping

import numpy as np

from streamnb.errors import SnapshotError
from streamnb.features.entity_attribute import packed, unpacked
from streamnb.kernels.array_types import Ints
from streamnb.kernels.growable_arrays import roomier
from streamnb.values.parameter_checks import check_whole
from streamnb.values.type_aliases import Array, Flags

_OBJECTS = 250  # approximate bytes of a name and its row without the text
_ARRAYS = {"arena": np.uint8, "ends": np.int64, "last": np.int64, "seen": np.float64, "beliefs": np.float64}


class Entities:
    """A row for each kept entity; when all rows are taken, the least recently seen entity is evicted.

    The kept entities depend on the order of events alone. Row numbers carry no meaning: a state lists
    entities by recency.

    Args:
        limit: maximum number of entities, at least 1.

    Attributes:
        rows: row by name, the least recently seen first.
        beliefs, last, seen: of each row, see `entity_filter_kernels.EntityChains`.
    """

    def __init__(self, limit: int) -> None:
        check_whole("entities", limit, 1)
        self.rows: OrderedDict[str, int] = OrderedDict()
        self.beliefs = np.zeros((2, 2))
        self.last = np.full(2, -1, dtype=np.int64)
        self.seen = np.full(2, np.nan)
        self._limit = limit
        self._text_bytes = 0

    @property
    def n_bytes(self) -> int:
        """Approximate memory in bytes, spare capacity included."""
        arrays = self.beliefs.nbytes + self.last.nbytes + self.seen.nbytes
        return arrays + self._text_bytes + _OBJECTS * len(self.rows)

    def find(self, names: Iterable[str | None]) -> tuple[Ints, Flags]:
        """Return the row of each name, or -1 if it has none, and an array of False (no chain begins)."""
        rows = [-1 if name is None else self.rows.get(name, -1) for name in names]
        return np.array(rows, dtype=np.int64), np.zeros(len(rows), dtype=np.bool_)

    def meet(self, names: Iterable[str | None], K: int) -> tuple[Ints, Flags]:
        """Return the row of each name (-1 for None), evicting the least recent, and True if it is new."""
        rows: list[int] = []
        fresh = []
        add, touch, find = rows.append, self.rows.move_to_end, self.rows.get
        for i, name in enumerate(names):
            row = -1 if name is None else find(name, -1)
            if row >= 0:
                touch(name)  # type: ignore[arg-type]  # only names have rows
            elif name is not None:
                row = self._begin(name)
                fresh.append(i)
            add(row)
        self.reserve(K)
        begins = np.zeros(len(rows), dtype=np.bool_)
        begins[fresh] = True
        return np.array(rows, dtype=np.int64), begins

    def _begin(self, name: str) -> int:
        row = len(self.rows)
        if row == self._limit:
            evicted, row = self.rows.popitem(last=False)
            self._text_bytes -= _text_bytes(evicted)
        self.rows[name] = row
        self._text_bytes += _text_bytes(name)
        return row

    def reserve(self, K: int) -> None:
        """Reserve capacity for all rows and for K states."""
        (rows, columns), need = self.beliefs.shape, len(self.rows)
        if need > rows or columns < K:
            rows = min(self._limit, max(need, 2 * rows)) if need > rows else rows
            self.beliefs = roomier(roomier(self.beliefs, rows, times=1), 0, K)
            self.last = roomier(self.last, rows, times=1, fill=-1)
            self.seen = roomier(self.seen, rows, times=1, fill=np.nan)

    def state(self, K: int) -> dict[str, Array]:
        """Return arrays of all entities with K states, the least recently seen first."""
        rows = np.fromiter(self.rows.values(), dtype=np.int64, count=len(self.rows))
        arena, ends = packed(self.rows)
        beliefs = np.zeros((rows.size, K))
        width = min(K, self.beliefs.shape[1])
        beliefs[:, :width] = self.beliefs[rows, :width]
        return {
            "arena": arena,
            "ends": ends,
            "last": self.last[rows],
            "seen": self.seen[rows],
            "beliefs": beliefs,
        }

    @classmethod
    def from_state(cls, arrays: Mapping[str, Array], limit: int, K: int) -> Entities:
        """Restore the entities of a `state`, the most recent ones up to `limit`. Raises SnapshotError."""
        if set(arrays) != set(_ARRAYS) or any(arrays[n].dtype != kind for n, kind in _ARRAYS.items()):
            raise SnapshotError(f"entities of the arrays {sorted(arrays)}")
        names = unpacked(arrays["arena"], arrays["ends"], "entities")
        n, last, beliefs = len(names), arrays["last"], arrays["beliefs"]
        if last.shape != (n,) or arrays["seen"].shape != (n,) or beliefs.shape != (n, K):
            raise SnapshotError(f"{n} entities of {K} states with beliefs of shape {beliefs.shape}")
        if ((last < -1) | (last >= K)).any() or not ((beliefs >= 0.0) & (beliefs <= 1.0)).all():
            raise SnapshotError("an entity has an unknown state, or beliefs outside [0, 1]")
        entities = cls(limit)
        first = max(0, n - limit)
        rows, _ = entities.meet(names[first:], K)
        entities.last[rows], entities.seen[rows] = last[first:], arrays["seen"][first:]
        entities.beliefs[rows, :K] = beliefs[first:]
        return entities


def _text_bytes(name: str) -> int:
    """Estimate the memory of the characters: 1 byte each in ASCII, else 2 or 4."""
    return len(name) if name.isascii() else len(name.encode("utf-16-le", "surrogatepass"))
