"""Growable arrays: small ones are moved, large ones stay in place and are never held twice.

A large array is the beginning of reserved addresses, of which the system backs the written pages. Moving a
large array would leave holes of megabytes that `malloc` does not return. The system is asked for large pages
as soon as one would be filled: a table of gigabytes with random reads spends more time in address translation
than in waiting for memory. (Remapping, as in `realloc`, splits large pages.) If addresses are limited, none
are reserved, and all arrays are moved.
"""

from __future__ import annotations

import math
import mmap
from contextlib import suppress
from operator import ge
from typing import Any

import numpy as np
import numpy.typing as npt

_STAYS = 1 << 18  # bytes
_AT_ONCE = 1 << 16  # bytes of rows copied at once: they fit in the caches
_BLOCK = 1 << 20  # bytes of rows that a copy takes at a time
_LARGE = 2 << 20  # bytes: a large page
_RESERVED = 1 << 36  # bytes of addresses; if the system refuses, an array is moved as it grows
_NORESERVE = 0x4000  # MAP_NORESERVE on Linux: reserving addresses does not commit memory


class PinnedArrays:
    """A cache of values derived from arrays, such as addresses, valid until one array is replaced.

    A copy starts empty.

    Attributes:
        edition: replaced by a new object whenever an array is replaced.
        noted: the cached value with its edition, so that a stale value is not used.
    """

    __slots__ = ("edition", "noted")
    edition: object
    noted: Any

    def __init__(self) -> None:
        self.forget()

    def __reduce__(self) -> tuple[type[PinnedArrays], tuple[()]]:
        return PinnedArrays, ()

    def forget(self) -> None:
        """Invalidate the cache, and drop the value, which may hold the replaced array."""
        self.edition, self.noted = object(), None


class Growable:
    """Owner of arrays that are replaced as they grow, or of such owners, alone or in lists.

    Attributes:
        pin: their shared cache, invalidated when any attribute other than an integer is replaced.
    """

    pin = PinnedArrays()  # default for objects without an owner

    def __setattr__(self, name: str, value: Any) -> None:
        is_kept = vars(self).get(name, self) is value
        super().__setattr__(name, value)
        if type(value) is not int and not is_kept:
            _share(self.pin, value)
            self.pin.forget()


def _share(pin: PinnedArrays, held: Any) -> None:
    """Give owners their cache, and owners of theirs."""
    for owner in held if type(held) is list else (held,):
        if isinstance(owner, Growable) and owner.pin is not pin:
            vars(owner)["pin"] = pin
            for further in vars(owner).values():
                _share(pin, further)


def roomier(array: npt.NDArray[Any], *shape: int, times: float = 1.5, fill: float = 0) -> npt.NDArray[Any]:
    """Return the array with at least this shape; a short axis grows by the factor `times` or more."""
    if all(map(ge, array.shape, shape)):
        return array
    axes = zip(shape, array.shape, strict=False)
    lengths = (max(n, int(times * have)) if n > have else have for n, have in axes)
    # `np.pad` takes five times as long for a few rows.
    longer = np.full((*lengths, *array.shape[len(shape) :]), fill, dtype=array.dtype)
    longer[tuple(map(slice, array.shape))] = array
    return longer


def capacity_for(rows: int, most: int = 1 << 62) -> int:
    """Return a capacity of up to twice the rows (an eighth more for many), limited by `most`."""
    return max(rows, min(rows + max(rows // 8, min(rows, 8192)) + 32, most))


def grown(array: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return the array extended with zeros; the argument must not be used any more.

    The result is another object, whether it was moved or not.
    """
    count = math.prod(shape)
    whole = _whole(array)
    n_bytes = count * array.itemsize
    if whole is None and _STAYS <= n_bytes <= _RESERVED and not _are_limited():
        whole = _mapped(_RESERVED, array.dtype)
        if whole is not None:
            whole[: array.size] = array.reshape(-1)
    if whole is not None and count <= whole.size:
        if n_bytes >= _LARGE:
            _ask_for_large_pages(whole)
        return whole[:count].reshape(shape)
    moved = np.zeros(shape, dtype=array.dtype)  # a new array: a kernel may be reading the old one
    moved.reshape(-1)[: array.size] = array.reshape(-1)
    return moved


def keep_rows(
    array: npt.NDArray[Any], rows: npt.NDArray[np.int64], used: int, to: int = 0, first: int = 0
) -> None:
    """Move these rows, in rising order, to row `to`, and fill the rest up to `used` with zeros.

    Rows from `to` up to `first` were zero before. The rows are moved in place, a few at a time, so that a
    large table is never held twice.
    """
    for part in blocks(rows.size, array[:1].nbytes, _AT_ONCE):
        array[to + part.start : to + part.stop] = array.take(rows[part], axis=0)  # faster than array[rows]
    array[max(to + rows.size, first) : used] = 0


def blocks(rows: int, row_bytes: int, most: int = _BLOCK) -> list[slice]:
    """Return the slices in which a table is copied; at least one."""
    step = max(1, most // max(row_bytes, 1))
    return [slice(first, min(first + step, rows)) for first in range(0, max(rows, 1), step)]


def ranking(weights: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the rows from the heaviest to the lightest, and of equal ones from the last to the first."""
    return weights.size - 1 - np.argsort(-weights[::-1], kind="stable")


def widened(array: npt.NDArray[Any], columns: int) -> npt.NDArray[Any]:
    """Return the array widened with zeros to `columns` in its last axis, in place, as `grown`."""
    shape, have = (*array.shape[:-1], columns), array.shape[-1]
    whole = grown(array, shape)
    rows, wide = whole.reshape(-1)[: array.size].reshape(-1, have), whole.reshape(-1, columns)
    parts = blocks(len(rows), wide[:1].nbytes, _AT_ONCE)
    for part in reversed(parts):  # from the last: none is written over before it is read
        moved = rows[part].copy()
        wide[part, have:] = 0
        wide[part, :have] = moved
    return whole


def empty_slots(count: int) -> npt.NDArray[np.uint64]:
    """Return a hash table of free slots, in separate memory if it is large.

    Memory returned to `malloc` would be reused for other data while both tables are held.
    """
    slots = _mapped(8 * count, np.dtype(np.uint64)) if 8 * count >= _LARGE else None
    if slots is None:
        return np.zeros(count, dtype=np.uint64)
    _ask_for_large_pages(slots)
    return slots


def _whole(array: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
    """Return the reserved memory at whose beginning an array lies, or None."""
    whole = array.base
    if isinstance(whole, np.ndarray) and isinstance(whole.base, memoryview):
        return whole if isinstance(whole.base.obj, mmap.mmap) else None
    return None


def _are_limited() -> bool:
    """Return whether the process's addresses are limited (``ulimit -v``), so that none may be reserved."""
    try:
        import resource  # noqa: PLC0415  not on every system
    except ImportError:
        return False
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def _mapped(n_bytes: int, dtype: np.dtype[Any]) -> npt.NDArray[Any] | None:
    """Return zeros in separate memory, shape (n_bytes / itemsize,); None if the system refuses."""
    try:
        memory = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
    except (AttributeError, OSError, OverflowError, ValueError):  # another system, or a limit
        return None
    return np.frombuffer(memory, dtype=dtype)


def _ask_for_large_pages(whole: npt.NDArray[Any]) -> None:
    """Request large pages for memory from `_mapped`; repeated requests have no effect."""
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without large pages
            whole.base.obj.madvise(mmap.MADV_HUGEPAGE)  # type: ignore[union-attr]
