"""Expectations of a saved state as a table, checked before the state is used.

A valid checksum does not show that a model wrote the state. Kernels check no bounds, so an index out of
range, or a count that no stream can have, must be found before a kernel reads it.

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

A dimension with a name has the same size in every array. Its first array sets a size that is not passed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamnb.errors import SnapshotError
from streamnb.values.number_ranges import is_missing
from streamnb.values.parameter_checks import brief

MOST = 1 << 62
"""Upper bound of weights and their sums (units): one more event does not overflow them."""
FINITE = float(np.finfo(np.float64).max)
LARGE = np.float64(1e300)  # a float32 is compared as a double
_INVALID: tuple[type[Exception], ...] = ArithmeticError, AttributeError, LookupError, MemoryError, TypeError


class ExpectedArray(NamedTuple):
    """The type, shape and inclusive range of one array.

    Attributes:
        dtype: its exact type.
        shape: the size of each dimension, or its name.
        low, high: numbers, or arrays that broadcast to the shape. NaN is never between them.
    """

    dtype: npt.DTypeLike
    shape: tuple[str | int, ...]
    low: Any
    high: Any


def counts(*shape: str | int) -> ExpectedArray:
    """Expect weights or numbers of events: int64, not negative and not near an overflow."""
    return ExpectedArray(np.int64, shape, 0, MOST)


def whole(*shape: str | int, low: Any, high: Any, dtype: npt.DTypeLike = np.int64) -> ExpectedArray:
    """Expect integers of a range, such as indices."""
    return ExpectedArray(dtype, shape, low, high)


def real(
    *shape: str | int, low: Any = -LARGE, high: Any = LARGE, dtype: npt.DTypeLike = np.float64
) -> ExpectedArray:
    """Expect finite numbers with finite sums."""
    return ExpectedArray(dtype, shape, low, high)


class PartArrays(dict[str, npt.NDArray[Any]]):
    """The arrays of one part of a state, without the `prefix` that their names have in the whole state."""

    prefix = ""


def named(arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> PartArrays:
    """Return the arrays whose name begins with `prefix`, by the rest of their names."""
    part = PartArrays({name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)})
    part.prefix = getattr(arrays, "prefix", "") + prefix
    return part


def checked(
    arrays: Mapping[str, npt.NDArray[Any]], expected: Mapping[str, ExpectedArray], **sizes: int
) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays, row-major and not copied if they are so already.

    Args:
        arrays: the arrays of a state, or the `named` arrays of a part.
        expected: name -> expectation.
        sizes: sizes of dimensions that are known.

    Raises SnapshotError with the array's name if an array is missing, unexpected, or not as expected.
    """
    prefix = getattr(arrays, "prefix", "")
    if arrays.keys() != expected.keys():
        names = [sorted(prefix + name for name in mapping) for mapping in (expected, arrays)]
        raise SnapshotError(f"expected the arrays {names[0]}, found {names[1]}")
    for name, (dtype, shape, low, high) in expected.items():
        array = arrays[name]
        fits = getattr(array, "dtype", None) == dtype and array.ndim == len(shape)
        if not fits or array.shape != tuple(
            sizes.setdefault(d, n) if isinstance(d, str) else d
            for d, n in zip(shape, array.shape, strict=True)
        ):
            raise SnapshotError(
                f"{prefix}{name}: expected {_describe_range(dtype, shape, sizes)}, found {_is(array)}"
            )
        _check_range(prefix + name, array, low, high)
    return {name: np.ascontiguousarray(arrays[name]) for name in expected}


def reject(name: str, is_wrong: Any, why: str) -> None:
    """Raise SnapshotError with the first index at which `is_wrong` is true, if there is one."""
    if np.any(is_wrong):
        place = np.argwhere(is_wrong)[0].tolist()
        raise SnapshotError(f"{name}{place or ''}: {why}")


def count(meta: Mapping[str, Any], name: str, most: int = MOST, least: int = 0) -> int:
    """Return an integer among the values of a state. Raise SnapshotError if it is not one in range."""
    value = meta.get(name)
    if type(value) is not int or not least <= value <= most:
        raise SnapshotError(f"{name}: expected an integer from {least} to {most}, found {value!r}")
    return value


def check_made(meta: Mapping[str, Any], **own: Any) -> None:
    """Raise SnapshotError unless these values of a state are equal to the model's own."""
    for name, value in own.items():
        if meta.get(name) != value:
            raise SnapshotError(f"this is a state with {name} = {meta.get(name)!r}, not {value!r}")


def tally(meta: Mapping[str, Any], name: str) -> Counter[str]:
    """Return numbers of events by name, among the values of a state. Raises SnapshotError."""
    return Counter({key: count(meta[name], key) for key in meta[name]})


@contextmanager
def state_errors(what: str, *more: type[Exception]) -> Iterator[None]:
    """Convert errors from reading an invalid state into SnapshotError; also a decorator.

    `more` are further error types, such as ValueError, that only an invalid state can cause there.
    """
    try:
        yield
    except (*_INVALID, *more) as error:
        raise SnapshotError(f"not a valid state of {what}: {error!r}") from error


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
    dimensions = [f"{sizes[d]} {d}" if isinstance(d, str) and d in sizes else str(d) for d in shape]
    return f"{np.dtype(dtype)} of shape ({', '.join(dimensions)})"


def _is(array: Any) -> str:
    return f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__


_PLAIN = (str, bool, int, float)


def plain(value: Any) -> str | bool | int | float:
    """Return a value as JSON can hold it, numpy scalars as Python's. Raise TypeError for other types."""
    found = value.item() if isinstance(value, np.generic) else value
    if not isinstance(found, _PLAIN):
        raise TypeError(f"{value!r} cannot be saved: only strings, booleans and numbers")
    return found


def plain_attribute(name: Any) -> str | bool | int | float | None:
    """Return the name of an attribute by `plain`, or None for the attribute None."""
    return None if name is None else plain(name)


def checked_names(names: Any, declared: Sequence[Any] = ()) -> list[Any]:
    """Return names that begin with `declared`. Raise SnapshotError for a missing or duplicate name."""
    found = checked_attributes(names)
    if found[: len(declared)] != list(declared) or any(map(is_missing, found)):
        begin = f" that begin with {brief(repr(list(declared)))}" if declared else ""
        raise SnapshotError(f"expected names{begin}, none missing, found {brief(repr(names))}")
    return list(found)


def checked_attributes(names: Any) -> list[Any]:
    """Return names of attributes, of which one may be None. Raise SnapshotError for a duplicate."""
    if not isinstance(names, list):
        raise SnapshotError(f"expected a list of names, found {brief(repr(names))}")
    if odd := [name for name in names if not (name is None or isinstance(name, _PLAIN))]:
        raise SnapshotError(f"invalid names: {brief(repr(odd))}")
    name, times = max(Counter(names).items(), key=itemgetter(1), default=(None, 0))
    if times > 1:
        raise SnapshotError(f"a name occurs twice: {brief(repr(name))}")
    return names
