"""Names of states and symbols as a saved state holds them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from streamnb.errors import SnapshotError
from streamnb.model.attributes.ranges import is_missing

__all__ = ["checked_attributes", "checked_names", "plain_names"]

_PLAIN = (str, bool, int, float)


def plain_names(names: Iterable[Any]) -> list[Any]:
    """The same, numpy's scalars as Python's. Raises TypeError but for strings, booleans and numbers."""
    plain = [name.item() if isinstance(name, np.generic) else name for name in names]
    for name in plain:
        if not isinstance(name, _PLAIN):
            raise TypeError(f"{name!r} cannot be saved: only strings, booleans and numbers")
    return plain


def checked_names(names: Any, declared: Sequence[Any] = ()) -> list[Any]:
    """Names that begin with the `declared`, none missing or twice. Raises SnapshotError."""
    if not isinstance(names, list) or names[: len(declared)] != list(declared):
        raise SnapshotError(f"expected names that begin with {list(declared)}, found {names!r}")
    if not all(isinstance(name, _PLAIN) and not is_missing(name) for name in names):
        raise SnapshotError(f"names that are none: {names!r}")
    if len(set(names)) < len(names):
        raise SnapshotError("a name occurs twice")
    return list(names)


def checked_attributes(names: Any) -> list[Any]:
    """Names of attributes, of which one may be None; none twice. Raises SnapshotError."""
    if not isinstance(names, list):
        raise SnapshotError(f"expected a list of attributes, found {names!r}")
    if not all(name is None or isinstance(name, _PLAIN) for name in names):
        raise SnapshotError(f"names of attributes that are none: {names!r}")
    if len(set(names)) < len(names):
        raise SnapshotError(f"an attribute occurs twice: {names!r}")
    return names
