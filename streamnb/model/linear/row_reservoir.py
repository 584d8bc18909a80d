"""A uniform sample of all rows so far, of bounded size: those that a model goes back to.

The first `size` rows are kept; the n-th after them takes the place of a kept one with probability size / n,
each place alike (Algorithm R), so that at any moment every row so far is kept with the same probability. The
draws are a function of n alone: a replay keeps the same rows.

Reference: Vitter (1985), "Random sampling with a reservoir", ACM Transactions on Mathematical Software 11(1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from streamnb.errors import SnapshotError
from streamnb.model.attributes.expected import checked, count, counts, named, real, whole
from streamnb.model.attributes.signatures import Array, State
from streamnb.model.attributes.values import LARGEST
from streamnb.model.compiled.arrays import Floats, Ints
from streamnb.model.compiled.growable import roomier
from streamnb.model.numerics.counter_rng import uniforms

_SEED, _AT_ONCE = 1985, 1024
_KEPT = "kept_"  # of the names of arrays in a state


class KeptRows:
    """Rows, each with the number of its label and its weight.

    Args:
        size: the most rows; 0 keeps none.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.seen = 0
        self._rows = np.zeros((0, 0))
        self._labels = np.zeros(0, dtype=np.int64)
        self._weights = np.zeros(0)
        self._block, self._draws = -1, [0.0]

    def __len__(self) -> int:
        """How many rows are kept."""
        return min(self.seen, self.size)

    @property
    def rows(self) -> Floats:
        """float64[kept, columns], a view; columns may be more, or fewer where the last have no value."""
        return self._rows[: len(self)]

    @property
    def labels(self) -> Ints:
        """int64[kept], a view."""
        return self._labels[: len(self)]

    @property
    def weights(self) -> Floats:
        """float64[kept]: of each row its weight, times how many rows it stands for."""
        kept = self._weights[: len(self)]
        return kept * (self.seen / kept.size) if kept.size else kept

    @property
    def n_bytes(self) -> int:
        """Memory, bytes, spare capacity included."""
        return self._rows.nbytes + self._labels.nbytes + self._weights.nbytes

    def offer(self, columns: Ints, values: Floats, label: int, weight: float, width: int) -> None:
        """Keep one more row, or not; `width` columns there are so far."""
        if not self.size:
            return
        place = self.seen
        self.seen += 1
        if place >= self.size:
            place = int(self._draw(place) * self.seen)
            if place >= self.size:
                return
        self._reserve(place + 1, width)
        self._rows[place] = 0.0
        self._rows[place, columns] = values
        self._labels[place], self._weights[place] = label, weight

    def state(self) -> State:
        """How many may be kept and came; and what is not 0, one row behind another, and where each ends."""
        at, columns = np.nonzero(self.rows)
        rows: dict[str, Array] = {
            "columns": columns,
            "values": self.rows[at, columns],
            "ends": np.searchsorted(at, np.arange(len(self)), side="right"),
            "labels": self.labels.copy(),
            "weights": self._weights[: len(self)].copy(),
        }
        return {"memory": self.size, "seen": self.seen}, {_KEPT + name: rows[name] for name in rows}

    @classmethod
    def from_state(
        cls, meta: Mapping[str, Any], arrays: Mapping[str, Array], columns: int, labels: int
    ) -> tuple[Self, dict[str, Array]]:
        """The rows of a model's state, of so many columns and labels, and the arrays that are not theirs.

        A state from before there were any has none. Raises SnapshotError.
        """
        others = {name: array for name, array in arrays.items() if not name.startswith(_KEPT)}
        if "memory" not in meta:
            return cls(0), others
        restored = cls(count(meta, "memory"))
        restored.seen = count(meta, "seen")
        n = len(restored)
        a = checked(
            named(arrays, _KEPT),
            {
                "columns": whole("values", low=0, high=columns - 1),
                "values": real("values", low=-LARGEST, high=LARGEST),
                "ends": counts(n),
                "labels": whole(n, low=0, high=labels - 1),
                "weights": real(n, low=2.0**-10, high=2.0**20),
            },
        )
        lengths = np.diff(a["ends"], prepend=0)
        if lengths.min(initial=0) < 0 or a["values"].size != lengths.sum():
            raise SnapshotError("kept rows end where they should not")
        rows = np.repeat(np.arange(n), lengths)
        if (np.diff(rows * columns + a["columns"]) <= 0).any():
            raise SnapshotError("columns of kept rows are out of order, or twice in a row")
        restored._reserve(n, columns)
        restored._rows[rows, a["columns"]] = a["values"]
        restored._labels[:n], restored._weights[:n] = a["labels"], a["weights"]
        return restored, others

    def _draw(self, number: int) -> float:
        block, at = divmod(number, _AT_ONCE)
        if block != self._block:
            self._block, self._draws = block, uniforms(_SEED, block * _AT_ONCE, _AT_ONCE).tolist()
        return self._draws[at]

    def _reserve(self, rows: int, columns: int) -> None:
        have, wide = self._rows.shape
        if rows > have or columns > wide:
            rows = max(rows, min(self.size, max(16, have * 3 // 2))) if rows > have else have
            self._rows = roomier(roomier(self._rows, rows, times=1), 0, columns, times=1.25)
            self._labels = roomier(self._labels, rows, times=1)
            self._weights = roomier(self._weights, rows, times=1)
