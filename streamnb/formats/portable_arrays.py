"""Numpy arrays as portable bytes: C order, little endian, of a closed list of dtypes."""

from __future__ import annotations

import io
import math
import sys
import zlib
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Literal, get_args

import numpy as np

from streamnb.errors import SnapshotError
from streamnb.kernels.growable_arrays import blocks
from streamnb.values.type_aliases import Array

Dtype = Literal[
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"
]
BLOCK = 1 << 20  # bytes handled at a time
_UNSIGNED = np.dtype("<u8")

_DTYPES: dict[str, Dtype] = {name: name for name in get_args(Dtype)}


def array_dtype(array: Array | StoredArray) -> Dtype:
    """Return the portable name of the array's dtype, whatever its byte order.

    Raises:
        SnapshotError: not a plain `numpy.ndarray`, or a dtype beyond the closed list.
    """
    # A subclass, such as a masked array, may hold more than its elements, which would be lost.
    if type(array) not in {np.ndarray, StoredArray}:
        raise SnapshotError(f"expected numpy.ndarray, got {type(array).__name__}")
    if array.dtype.name not in _DTYPES:
        raise SnapshotError(f"dtype {array.dtype.name} is not one of {', '.join(_DTYPES)}")
    return _DTYPES[array.dtype.name]


def array_blocks(array: Array | StoredArray) -> Iterator[bytes]:
    """Yield the elements in C order, little endian, in blocks of at most `BLOCK` bytes, without a whole copy.

    Raises SnapshotError if a stored array cannot be read.
    """
    if isinstance(array, StoredArray):
        flat = array.reshape(-1)
        for part in blocks(flat.size, flat.dtype.itemsize):
            yield from array_blocks(flat[part])
        return
    if array.size == 0:
        return
    little = array.dtype.newbyteorder("<")
    found: Any = np.nditer(
        array,
        flags=["external_loop", "buffered"],
        op_dtypes=[little],
        order="C",
        casting="equiv",
        buffersize=BLOCK // little.itemsize,
    )
    for block in found:
        # In memory any byte but 0 is true; in a snapshot it is 1, so that equal values are equal bytes.
        yield (block.view(np.uint8).astype(np.bool_) if little.kind == "b" else block).tobytes()


def planes(octets: bytes, itemsize: int) -> bytes:
    """Return the bytes of whole elements by their place: the first byte of each, then the second, and so on.

    The high bytes of numbers repeat, and the low bytes of fractions do not, so each compress better alone.
    """
    return np.frombuffer(octets, dtype=np.uint8).reshape(-1, itemsize).T.tobytes() if itemsize > 1 else octets


def may_ascend(dtype: str, dimensions: int) -> bool:
    """Return whether an array is one of 64-bit integers in one dimension."""
    return dimensions == 1 and dtype in {"int64", "uint64"}


def is_ascending(array: Array | StoredArray) -> bool:
    """Return whether an array `may_ascend`, and no number is below its predecessor."""
    if not may_ascend(array.dtype.name, len(array.shape)):
        return False
    last = np.zeros(0, dtype=array.dtype.newbyteorder("<"))
    for block in array_blocks(array):
        numbers = np.concatenate([last, np.frombuffer(block, dtype=last.dtype)])
        if (numbers[1:] < numbers[:-1]).any():
            return False
        last = numbers[-1:]
    return bool(array.size)


def stored_blocks(array: Array | StoredArray, *, differences: bool) -> Iterator[tuple[bytes, bytes]]:
    """Yield the elements as bytes, and the same as they are stored, in blocks of `BLOCK` bytes.

    They are stored as `planes`, and with `differences` each number less its predecessor, modulo 2^64.
    Raises SnapshotError as `array_blocks`.
    """
    rest, itemsize, last = b"", array.dtype.itemsize, np.uint64(0)
    for block in chain(array_blocks(array), [b""]):
        rest += block
        while len(rest) >= BLOCK or (not block and rest):
            octets, rest = rest[:BLOCK], rest[BLOCK:]
            if differences:
                numbers = np.frombuffer(octets, dtype=_UNSIGNED)
                yield octets, planes(np.diff(numbers, prepend=last).tobytes(), itemsize)
                last = numbers[-1]
            else:
                yield octets, planes(octets, itemsize)


def read_array(
    file: io.BufferedIOBase, dtype: Dtype, shape: list[int], *, differences: bool
) -> tuple[Array, int]:
    """Return the next array of `stored_blocks`, with its own memory, and the CRC-32 of its elements.

    Raises:
        SnapshotError: the file ends too early, or a bool is neither 0 nor 1.
    """
    array = np.empty(shape, dtype=dtype)
    octets, last = array.reshape(-1).view(np.uint8), np.uint64(0)
    crc, buffer = 0, np.empty(min(BLOCK, octets.size), dtype=np.uint8)
    for start in range(0, octets.size, BLOCK):
        block = octets[start : start + BLOCK]
        found = buffer[: block.size]
        if file.readinto(found.data) != found.nbytes:
            raise SnapshotError("the file ended while it was being read")
        block.reshape(-1, array.itemsize)[:] = found.reshape(array.itemsize, -1).T
        if differences:
            numbers = block.view(_UNSIGNED)
            numbers[:] = np.cumsum(numbers) + last
            last = numbers[-1]
        crc = zlib.crc32(block.data, crc)
    if dtype == "bool" and (octets > 1).any():
        raise SnapshotError("a bool is neither 0 nor 1")
    return (array if sys.byteorder == "little" else array.byteswap(inplace=True)), crc


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
