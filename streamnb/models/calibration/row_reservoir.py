"""A uniform sample of bounded size of all rows so far, kept for refits.

The first `size` rows are kept. The n-th row replaces a kept one with probability size / n, each kept row with
the same probability (Algorithm R). So at any moment every row so far is kept with the same probability. The
draws are a function of n alone: a replay keeps the same rows.

Reference: Vitter (1985), "Random sampling with a reservoir", ACM Transactions on Mathematical Software 11(1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from streamnb.errors import SnapshotError
from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.growable_arrays import roomier
from streamnb.statistics.counter_rng import uniforms
from streamnb.values.nominal_values import LARGEST
from streamnb.values.state_validation import checked, count, counts, named, real, whole
from streamnb.values.type_aliases import Array, State

_SEED, _AT_ONCE = 1985, 1024
_KEPT = "kept_"  # prefix of the names of arrays in a state


class KeptRows:
    """Rows, each with its class index and its weight.

    Args:
        size: maximum number of rows; 0 keeps none.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.seen = 0
        self._rows = np.zeros((0, 0))
        self._labels = np.zeros(0, dtype=np.int64)
        self._weights = np.zeros(0)
        self._block, self._draws = -1, [0.0]

    def __len__(self) -> int:
        """Return the number of kept rows."""
        return min(self.seen, self.size)

    @property
    def rows(self) -> Floats:
        """Kept rows, float64[kept, columns], a view; trailing columns without values may be absent."""
        return self._rows[: len(self)]

    @property
    def labels(self) -> Ints:
        """Class index of each kept row, int64[kept], a view."""
        return self._labels[: len(self)]

    @property
    def weights(self) -> Floats:
        """Weight of each kept row times the number of rows it stands for, float64[kept]."""
        kept = self._weights[: len(self)]
        return kept * (self.seen / kept.size) if kept.size else kept

    @property
    def n_bytes(self) -> int:
        """Memory, bytes, spare capacity included."""
        return self._rows.nbytes + self._labels.nbytes + self._weights.nbytes

    def offer(self, columns: Ints, values: Floats, label: int, weight: float, width: int) -> None:
        """Offer one more row, which may be kept; `width` is the current number of columns."""
        if not self.size:
            return
        index = self.seen
        self.seen += 1
        if index >= self.size:
            index = int(self._draw(index) * self.seen)
            if index >= self.size:
                return
        self._reserve(index + 1, width)
        self._rows[index] = 0.0
        self._rows[index, columns] = values
        self._labels[index], self._weights[index] = label, weight

    def state(self) -> State:
        """Return the sizes, and the nonzero values row by row with the end of each row."""
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
        """Restore the rows of a state; return them and all other arrays. Raises SnapshotError."""
        others = {name: array for name, array in arrays.items() if not name.startswith(_KEPT)}
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
            raise SnapshotError("the ends of kept rows do not match their values")
        rows = np.repeat(np.arange(n), lengths)
        if (np.diff(rows * columns + a["columns"]) <= 0).any():
            raise SnapshotError("columns of kept rows are out of order or repeated")
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
