"""Features: what the gradient learners know of words, values and pairs of them, found by a 64-bit key.

A feature's key is a hash of what it stands for, so that a pair of words needs no name of its own; two of n
features share a key with probability about n^2 / 2^65. Rows are in the order in which they were learned. Each
feature belongs to an *owner*, the feature that says that its attribute is present at all: the owner's counts
are the class totals by which the feature's counts are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamnb.model.jit import inlined, kernel
from streamnb.model.vocabulary import grown

__all__ = [
    "COUNTS",
    "KEY",
    "NOBODY",
    "OWNER",
    "TOTAL",
    "FeatureTables",
    "Features",
    "add_feature",
    "find_feature",
    "mixed",
    "most_rows",
]

KEY, OWNER, TOTAL, COUNTS = 0, 1, 2, 3  # columns of the table; one column for each class from COUNTS on
NOBODY = -1  # in place of a row
_LOW, _HALF, _ONE = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(1)
_MULTIPLY, _FINISH = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_MAX_LOAD = 0.6


class FeatureTables(NamedTuple):
    """R rows for C >= K classes and M gradient learners, as the kernels take them.

    Attributes:
        slots: uint64[power of two], upper half of a key and row + 1.
        table: int64[>= R, 3 + C], key, owner's row or NOBODY, total weight and weight by class (units).
        weights: float32[>= R, 1 + M, 1 + C]. First ln(1 + 2 n) of the weight n in each class (examples), from
            column 1 on; then of each learner the sum of squared gradients and its weights by class.
        size: int64[1], R.
        memory: int64[1], the budget, bytes.
    """

    slots: npt.NDArray[np.uint64]
    table: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float32]
    size: npt.NDArray[np.int64]
    memory: npt.NDArray[np.int64]


@inlined
def mixed(a: Any, b: Any) -> Any:
    """A key of two, in this order (uint64)."""
    key = (a ^ (b * _MULTIPLY + (a << np.uint64(6)) + (a >> np.uint64(2)))) * _FINISH
    key ^= key >> _HALF
    key *= _MULTIPLY
    return key ^ (key >> np.uint64(29))


@inlined
def find_feature(slots: Any, table: Any, key: Any) -> Any:
    """The row of a key, or -1 - (the free slot that ends its chain)."""
    mask = np.uint64(slots.size - 1)
    place = key & mask
    while True:
        slot = slots[place]
        if slot == np.uint64(0):
            return -1 - np.int64(place)
        if slot >> _HALF == key >> _HALF:
            row = np.int64(slot & _LOW) - 1
            if np.uint64(table[row, KEY]) == key:
                return row
        place = (place + _ONE) & mask


@inlined
def add_feature(slots: Any, table: Any, size: Any, key: Any, owner: Any, free: int) -> int:
    """The new row of a key that was not found and whose chain ends at slot `free`; there has to be room."""
    row = size[0]
    size[0] += 1
    table[row, KEY] = np.int64(key)
    table[row, OWNER] = owner
    slots[free] = (key >> _HALF) << _HALF | np.uint64(row + 1)
    return int(row)


@kernel
def most_rows(features: Any, classes: Any) -> int:
    """How many rows may be in use while so many classes have examples; what is in use may stay.

    Room for classes that come later, or that have come already in the same batch, does not count: which
    features there are has to depend on the events before, and on nothing else.
    """
    planes = features.weights.shape[1]
    row_bytes = 8 * (COUNTS + classes) + 4 * planes * (1 + classes) + 16  # 8 / load for the slots
    return int(max(features.size[0], features.memory[0] // row_bytes))


@kernel
def _fill(size: int, slots: Any, table: Any) -> None:
    """Enter the first `size` rows into empty `slots`."""
    mask = np.uint64(slots.size - 1)
    for row in range(size):
        key = np.uint64(table[row, KEY])
        place = key & mask
        while slots[place] != np.uint64(0):
            place = (place + _ONE) & mask
        slots[place] = (key >> _HALF) << _HALF | np.uint64(row + 1)


class Features:
    """The features of M gradient learners, within a budget of memory.

    Where the budget is spent, what was never met before is not added; what is known goes on learning.

    Args:
        learners: M.
        memory: of the tables, bytes.
    """

    def __init__(self, learners: int, memory: int) -> None:
        self._size = np.zeros(1, dtype=np.int64)
        self._memory = np.array([memory], dtype=np.int64)
        self._slots = np.zeros(64, dtype=np.uint64)
        self.table = np.zeros((32, COUNTS + 2), dtype=np.int64)
        self.weights = np.zeros((32, 1 + learners, 1 + 2), dtype=np.float32)

    @property
    def size(self) -> int:
        """How many features there are, owners included."""
        return int(self._size[0])

    @property
    def n_bytes(self) -> int:
        """Memory of the tables, bytes, room to grow included."""
        return self._slots.nbytes + self.table.nbytes + self.weights.nbytes

    @property
    def tables(self) -> FeatureTables:
        """As the kernels take them."""
        return FeatureTables(self._slots, self.table, self.weights, self._size, self._memory)

    def room(self, classes: int, known: int, features: int) -> None:
        """Let the tables hold `classes` columns, and so many new features as far as the budget goes.

        `known` of the classes have examples.
        """
        have = self.weights.shape[2] - 1
        if classes > have:
            more = max(classes, have + have // 8) - have
            self.table = np.pad(self.table, ((0, 0), (0, more)))
            self.weights = np.pad(self.weights, ((0, 0), (0, 0), (0, more)))
        most = int(most_rows(self.tables, known))
        need = min(self.size + features, most)
        if need > len(self.table):
            rows = max(need, min(need + need // 2, most))
            self.table = grown(self.table, (rows, self.table.shape[1]))
            self.weights = grown(self.weights, (rows, *self.weights.shape[1:]))
        if need > self._slots.size * _MAX_LOAD:
            self._slots = np.zeros(1 << int(need / _MAX_LOAD).bit_length(), dtype=np.uint64)
            _fill(self.size, self._slots, self.table)

    def load(self, arrays: Mapping[str, npt.NDArray[Any]], classes: int) -> None:
        """Replace everything by what a state holds."""
        table, weights = arrays["features"], arrays["feature_weights"]
        self._size[0] = 0
        self.room(classes, classes, 0)
        if len(table) > len(self.table):
            self.table = grown(self.table, (len(table), self.table.shape[1]))
            self.weights = grown(self.weights, (len(table), *self.weights.shape[1:]))
        self.table[: len(table), : COUNTS + classes] = table
        self.weights[: len(table), :, : 1 + classes] = weights
        self._size[0] = len(table)
        self._slots = np.zeros(max(64, 1 << int(len(table) / _MAX_LOAD).bit_length()), dtype=np.uint64)
        _fill(self.size, self._slots, self.table)
