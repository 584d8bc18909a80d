"""Arrays that grow: small ones are moved, others stay where they are and never have to be held twice.

One that stays is the beginning of reserved addresses, of which the system backs what was written to. What
moved, leaves holes behind that `malloc` does not give back: megabytes, had it been large. The system is asked
for large pages as soon as one would be filled: a table of gigabytes that is read at random spends more time
in finding out where its pages are than in waiting for them. (Remapping, as `realloc` does it, splits large
pages.) Where addresses are limited none are reserved, and all arrays are moved.
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
_AT_ONCE = 1 << 16  # bytes of rows that are copied at once: memory for them is there, and in the caches
_BLOCK = 1 << 20  # bytes of rows that a copy takes at a time
_LARGE = 2 << 20  # bytes: a large page
_RESERVED = 1 << 36  # bytes of addresses; where the system has not so many, an array is moved as it grows
_NORESERVE = 0x4000  # MAP_NORESERVE on Linux: addresses are no promise of memory


class Pin:
    """What was noted of arrays, as where they stand, while none of them is replaced. A copy knows nothing.

    Attributes:
        edition: another object once one was replaced.
        noted: with the edition that it is of, so that what was noted meanwhile is not taken for true.
    """

    __slots__ = ("edition", "noted")
    edition: object
    noted: Any

    def __init__(self) -> None:
        self.forget()

    def __reduce__(self) -> tuple[type[Pin], tuple[()]]:
        return Pin, ()

    def forget(self) -> None:
        """One was replaced. What was noted goes, for it may hold the one that was."""
        self.edition, self.noted = object(), None


class Growable:
    """What owns arrays that are replaced as they grow, or others that do.

    Attributes:
        pin: of all of these together: it forgets as soon as an attribute is set that is no integer.
    """

    pin = Pin()  # of those that belong to none that has one

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if type(value) is not int:
            if isinstance(value, Growable):
                vars(value)["pin"] = self.pin
            self.pin.forget()


def roomier(array: npt.NDArray[Any], *shape: int, times: float = 1.5, fill: float = 0) -> npt.NDArray[Any]:
    """The array with at least this shape; too short an axis gets so many `times` its length, or more."""
    if all(map(ge, array.shape, shape)):
        return array
    axes = zip(shape, array.shape, strict=False)
    lengths = (max(n, int(times * have)) if n > have else have for n, have in axes)
    # `np.pad` takes five times as long for a few rows.
    longer = np.full((*lengths, *array.shape[len(shape) :]), fill, dtype=array.dtype)
    longer[tuple(map(slice, array.shape))] = array
    return longer


def capacity_for(rows: int, most: int = 1 << 62) -> int:
    """So many rows and as many again, or an eighth of many; but no more than there may be."""
    return max(rows, min(rows + max(rows // 8, min(rows, 8192)) + 32, most))


def grown(array: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """The array with zeros after its last element; the one given is not to be used any more.

    It is another object, whether it was moved or not.
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
    moved = np.zeros(shape, dtype=array.dtype)  # another one: a kernel may be reading the one given
    moved.reshape(-1)[: array.size] = array.reshape(-1)
    return moved


def keep_rows(
    array: npt.NDArray[Any], rows: npt.NDArray[np.int64], used: int, to: int = 0, first: int = 0
) -> None:
    """Move these of the rows before `used`, in rising order, to where `to` is, and let zeros follow them.

    Behind `to` there were zeros up to the `first` row that may not be zero. In place and a few at a time, so
    that there are never two of a large table.
    """
    for part in blocks(rows.size, array[:1].nbytes, _AT_ONCE):
        array[to + part.start : to + part.stop] = array.take(rows[part], axis=0)  # faster than array[rows]
    array[max(to + rows.size, first) : used] = 0


def blocks(rows: int, row_bytes: int, most: int = _BLOCK) -> list[slice]:
    """The parts of a table that may be copied at once, one of them at least."""
    step = max(1, most // max(row_bytes, 1))
    return [slice(first, min(first + step, rows)) for first in range(0, max(rows, 1), step)]


def ranking(weights: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """From the heaviest row to the lightest, and of equals from the last to the first."""
    return weights.size - 1 - np.argsort(-weights[::-1], kind="stable")


def widened(array: npt.NDArray[Any], columns: int) -> npt.NDArray[Any]:
    """The array with so many columns in its last axis, the new ones zero, where it is; as `grown`."""
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
    """A hash table of so many free slots, in memory of its own where they are many.

    What `malloc` gets back, it would take for something else, and hold both.
    """
    slots = _mapped(8 * count, np.dtype(np.uint64)) if 8 * count >= _LARGE else None
    if slots is None:
        return np.zeros(count, dtype=np.uint64)
    _ask_for_large_pages(slots)
    return slots


def _whole(array: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
    """All of the reserved memory that an array is the beginning of."""
    whole = array.base
    if isinstance(whole, np.ndarray) and isinstance(whole.base, memoryview):
        return whole if isinstance(whole.base.obj, mmap.mmap) else None
    return None


def _are_limited() -> bool:
    """Whether the process may have only so many addresses (``ulimit -v``): others need them, too."""
    try:
        import resource  # noqa: PLC0415  not on every system
    except ImportError:
        return False
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def _mapped(n_bytes: int, dtype: np.dtype[Any]) -> npt.NDArray[Any] | None:
    """Zeros at addresses of their own, shape (n_bytes / itemsize,); None where the system gives none."""
    try:
        memory = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
    except (AttributeError, OSError, OverflowError, ValueError):  # another system, or a limit
        return None
    return np.frombuffer(memory, dtype=dtype)


def _ask_for_large_pages(whole: npt.NDArray[Any]) -> None:
    """From now on, of what `_mapped` gave; to ask again changes nothing."""
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without large pages
            whole.base.obj.madvise(mmap.MADV_HUGEPAGE)  # type: ignore[union-attr]
