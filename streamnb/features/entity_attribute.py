"""The attribute of an event that names its entity or tenant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from streamnb.errors import SnapshotError
from streamnb.values.nominal_values import as_event, value_text
from streamnb.values.number_ranges import is_missing
from streamnb.values.type_aliases import Array


def name_in(x: Any, attribute: Any, role: str) -> str | None:
    """Return the value of this attribute as a name, None if missing. Raises TypeError for a collection."""
    value = as_event(x).get(attribute)
    if type(value) is str:
        return value
    try:
        return None if is_missing(value) else value_text(value)
    except TypeError as error:
        raise TypeError(f"{role} {attribute!r}: {error}") from error


def without(x: Any, attribute: Any) -> Any:
    """Return the event without this attribute; the event itself if it has none."""
    return {name: value for name, value in x.items() if name != attribute} if attribute in x else x


def packed(names: Iterable[str]) -> tuple[Array, Array]:
    """Return names as a state has them: uint8[n], their bytes, and int64[names + 1], their offsets."""
    encoded = [name.encode("utf-8", "surrogatepass") for name in names]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return np.frombuffer(b"".join(encoded), dtype=np.uint8).copy(), ends


def unpacked(arena: Array, ends: Array, whose: str) -> Sequence[str]:
    """Return the names that were `packed`. Raises SnapshotError if they are invalid, or not distinct."""
    held = arena.tobytes()
    if ends.ndim != 1 or ends.size < 1 or ends[0] != 0 or (np.diff(ends) < 0).any() or ends[-1] != len(held):
        raise SnapshotError(f"the names of {whose} do not fill what holds them")
    try:
        names = [held[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(ends.tolist())]
    except UnicodeDecodeError as error:
        raise SnapshotError(f"the name of one of the {whose} is no UTF-8: {error}") from error
    if len(set(names)) < len(names):
        raise SnapshotError(f"one of the {whose} stands twice")
    return names
