"""An array in a file, of which rows are read as they are asked for: it takes no memory.

Not mapped: what a disk fails to give back would end the process, and no exception says so.
"""

from __future__ import annotations

import math
import os
import weakref

import numpy as np

from streamnb.errors import SnapshotError
from streamnb.model.attributes.signatures import Array


class ArrayFile:
    """One that nobody writes to any more.

    Args:
        descriptor: of its rows, one after the other; it is closed as this is gone.
        dtype, shape: of the array.
    """

    def __init__(self, descriptor: int, dtype: np.dtype, shape: tuple[int, ...]) -> None:
        self._descriptor, self.dtype, self.shape = descriptor, dtype, shape
        weakref.finalize(self, os.close, descriptor)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def size(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Of all elements."""
        return self.size * self.dtype.itemsize

    def reshape(self, *shape: int) -> ArrayFile:
        """The same elements in another shape, of which one number may be -1."""
        rest = self.size // max(1, -math.prod(shape)) if -1 in shape else 0
        return ArrayFile(os.dup(self._descriptor), self.dtype, tuple(rest if n == -1 else n for n in shape))

    def __getitem__(self, rows: slice) -> Array:
        """These rows. Raises SnapshotError where the file cannot be read."""
        first, stop, _ = rows.indices(len(self))
        found = np.empty((max(0, stop - first), *self.shape[1:]), self.dtype)
        left, at = found.reshape(-1).view(np.uint8).data, first * (self.nbytes // max(1, len(self)))
        try:
            while left:
                if not (n := os.preadv(self._descriptor, [left], at)):
                    raise SnapshotError("the file of a copy ended while it was being read")
                left, at = left[n:], at + n
        except OSError as error:
            raise SnapshotError(f"a copy cannot be read back: {error.strerror}") from error
        return found
