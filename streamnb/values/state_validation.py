"""What a state has to be, said as a table and checked before anything is made of it.

A checksum says that a state is as it was written, not that a model wrote it. Kernels check no bounds: an
index that leads nowhere, or a count that no stream can have, has to be found before they see it.

    found = checked(
        arrays,
        {
            "class_weights": counts("classes"),
            "table": counts("rows", "classes"),
            "groups": whole("rows", low=0, high=G - 1),
            "mean": real("fields", "classes"),
        },
        fields=F,
    )

A dimension that has a name is the same in every array; what was not given is as the first array has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamnb.errors import SnapshotError

MOST = 1 << 62
"""Weights, and sums of them, are below this: one more event does not overflow them (units)."""
FINITE = float(np.finfo(np.float64).max)
LARGE = np.float64(1e300)  # a float32 is compared as a double
_NO_VALUES: tuple[type[Exception], ...] = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    TypeError,
)


class ExpectedArray(NamedTuple):
    """One array: of this type and shape, and between `low` and `high`, both of them included.

    Attributes:
        dtype: its type, exactly.
        shape: of each dimension its size or its name.
        low, high: numbers, or arrays that are as good as one of its shape. NaN is never between.
    """

    dtype: npt.DTypeLike
    shape: tuple[str | int, ...]
    low: Any
    high: Any


def counts(*shape: str | int) -> ExpectedArray:
    """Weights or numbers of events: int64, none below zero and none near an overflow."""
    return ExpectedArray(np.int64, shape, 0, MOST)


def whole(*shape: str | int, low: Any, high: Any, dtype: npt.DTypeLike = np.int64) -> ExpectedArray:
    """Integers of a range, such as indices."""
    return ExpectedArray(dtype, shape, low, high)


def real(
    *shape: str | int, low: Any = -LARGE, high: Any = LARGE, dtype: npt.DTypeLike = np.float64
) -> ExpectedArray:
    """Numbers that are finite, and whose sums are."""
    return ExpectedArray(dtype, shape, low, high)


class PartArrays(dict[str, npt.NDArray[Any]]):
    """The arrays of one part of a state, without what their names begin with there: `prefix`."""

    prefix = ""


def named(arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> PartArrays:
    """The arrays whose name begins so, without it: those of one part of a state."""
    part = PartArrays({name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)})
    part.prefix = getattr(arrays, "prefix", "") + prefix
    return part


def checked(
    arrays: Mapping[str, npt.NDArray[Any]], expected: Mapping[str, ExpectedArray], **sizes: int
) -> dict[str, npt.NDArray[Any]]:
    """The arrays, row-major, where they are what is expected and no others; they are not copied.

    Args:
        arrays: of a state, or the `named` ones of a part.
        expected: name -> what that array has to be.
        sizes: of dimensions that are known.

    Raises SnapshotError, which names the array.
    """
    prefix = getattr(arrays, "prefix", "")
    if arrays.keys() != expected.keys():
        names = [sorted(prefix + name for name in given) for given in (expected, arrays)]
        raise SnapshotError(f"expected the arrays {names[0]}, found {names[1]}")
    for name, (dtype, shape, low, high) in expected.items():
        array = arrays[name]
        if getattr(array, "dtype", None) != dtype or array.ndim != len(shape):
            raise SnapshotError(
                f"{prefix}{name}: expected {_describe_range(dtype, shape, sizes)}, found {_is(array)}"
            )
        wanted = tuple(
            sizes.setdefault(d, n) if isinstance(d, str) else d
            for d, n in zip(shape, array.shape, strict=True)
        )
        if array.shape != wanted:
            raise SnapshotError(
                f"{prefix}{name}: expected {_describe_range(dtype, shape, sizes)}, found {_is(array)}"
            )
        _check_range(prefix + name, array, low, high)
    return {name: np.ascontiguousarray(arrays[name]) for name in expected}


def reject(name: str, is_wrong: Any, why: str) -> None:
    """Raise SnapshotError, with the first place, where anything of an array is wrong."""
    if np.any(is_wrong):
        place = np.argwhere(is_wrong)[0].tolist()
        raise SnapshotError(f"{name}{place or ''}: {why}")


def count(meta: Mapping[str, Any], name: str, most: int = MOST, least: int = 0) -> int:
    """An integer among the values of a state. Raises SnapshotError."""
    value = meta.get(name)
    if type(value) is not int or not least <= value <= most:
        raise SnapshotError(f"{name}: expected an integer from {least} to {most}, found {value!r}")
    return value


def check_made(meta: Mapping[str, Any], **own: Any) -> None:
    """Raise SnapshotError unless these values of a state are one's own."""
    for name, value in own.items():
        if meta.get(name) != value:
            raise SnapshotError(f"this is a state with {name} = {meta.get(name)!r}, not {value!r}")


def tally(meta: Mapping[str, Any], name: str) -> Counter[str]:
    """Numbers of events by name, among the values of a state. Raises SnapshotError."""
    return Counter({one: count(meta[name], one) for one in meta[name]})


@contextmanager
def state_errors(what: str, *more: type[Exception]) -> Iterator[None]:
    """Where values of a state turn out to be none, as they are read, let it be a SnapshotError.

    Also a decorator of what reads them. `more`, such as ValueError, are errors that say nothing else there.
    """
    try:
        yield
    except (*_NO_VALUES, *more) as error:
        raise SnapshotError(f"this is no state of {what}: {error!r}") from error


def _check_range(name: str, array: npt.NDArray[Any], low: Any, high: Any) -> None:
    if not array.size:
        return
    if np.ndim(low) == np.ndim(high) == 0 and low <= array.min() and array.max() <= high:
        return  # the extremes are NaN where anything is
    is_right = (array >= low) & (array <= high)
    if not is_right.all():
        place = tuple(np.argwhere(~is_right)[0].tolist())
        low, high = (np.broadcast_to(bound, array.shape)[place] for bound in (low, high))
        raise SnapshotError(f"{name}{list(place)}: {array[place]} is not between {low} and {high}")


def _describe_range(dtype: npt.DTypeLike, shape: tuple[str | int, ...], sizes: Mapping[str, int]) -> str:
    """An expectation, in words."""
    dimensions = [f"{sizes[d]} {d}" if isinstance(d, str) and d in sizes else str(d) for d in shape]
    return f"{np.dtype(dtype)} of shape ({', '.join(dimensions)})"


def _is(array: Any) -> str:
    return f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
