"""Names, labels and values as a saved state holds them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from streamnb.errors import SnapshotError
from streamnb.values.number_ranges import is_missing
from streamnb.values.parameter_checks import brief

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
