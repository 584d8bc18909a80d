"""An array that is stored elsewhere and read by rows on demand, without memory for the whole."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from streamnb.values.type_aliases import Array


class StoredArray:
    """A read-only array.

    Args:
        read: fills a buffer with the stored bytes from an offset on; rows are concatenated.
        dtype, shape: of the array.
    """

    def __init__(
        self, read: Callable[[memoryview, int], None], dtype: np.dtype, shape: tuple[int, ...]
    ) -> None:
        self._read, self.dtype, self.shape = read, dtype, shape

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The size of all elements in bytes."""
        return self.size * self.dtype.itemsize

    def reshape(self, *shape: int) -> StoredArray:
        """Return the same elements in another shape, of which one number may be -1."""
        rest = self.size // max(1, -math.prod(shape)) if -1 in shape else 0
        return StoredArray(self._read, self.dtype, tuple(rest if n == -1 else n for n in shape))

    def __getitem__(self, rows: slice) -> Array:
        """Return these rows. Raises what `read` raises."""
        first, stop, _ = rows.indices(len(self))
        found = np.empty((max(0, stop - first), *self.shape[1:]), self.dtype)
        self._read(found.reshape(-1).view(np.uint8).data, first * (self.nbytes // max(1, len(self))))
        return found
