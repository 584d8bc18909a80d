"""Canonical JSON: equal values have equal bytes, and any language reads back the same values."""

from __future__ import annotations

import json
import math
from typing import Any

from streamnb.errors import SnapshotError

MAX_DEPTH = 64


def canonical(value: Any) -> bytes:
    """Return the unique JSON text, in UTF-8, of a value that `refuse_unportable` accepts.

    Keys are sorted by code point; whitespace is absent; floats have the fewest digits that round-trip, in
    Python's notation; strings escape only what JSON demands.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def refuse_unportable(value: Any, path: str = "$", depth: int = 0) -> None:
    """Raise SnapshotError unless a value is None, bool, 64-bit int, finite float, str, list or dict.

    Args:
        value: the value before writing, or after reading.
        path: the value's JSON path, for the message.
        depth: how many lists and dicts enclose the value.

    Raises:
        SnapshotError: anything else, with its path: NaN, infinities, lone surrogates, tuples, numpy scalars,
            keys other than strings, lists and dicts nested more than `MAX_DEPTH` deep.
    """
    fault = _fault(value) if depth <= MAX_DEPTH else f"a value in more than {MAX_DEPTH} lists and objects"
    if fault:
        raise SnapshotError(f"{fault} - at {path}")
    if isinstance(value, list):
        for i, item in enumerate(value):
            refuse_unportable(item, f"{path}[{i}]", depth + 1)
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise SnapshotError(f"a key that is a {type(key).__name__}, not a string - at {path}")
            if fault := _fault(key):
                raise SnapshotError(f"the key {key!r}: {fault} - at {path}")
            refuse_unportable(item, f"{path}.{key}", depth + 1)


def _fault(value: Any) -> str | None:
    if value is None or isinstance(value, (list, dict)):
        return None
    if isinstance(value, str):
        return None if _is_utf8(value) else "a lone surrogate, which UTF-8 cannot hold"
    if isinstance(value, int):
        return None if -(2**63) <= value < 2**63 else "an integer that 64 bits with a sign cannot hold"
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{value}, which is not a finite number"
    return f"a {type(value).__name__}, for which JSON has no form"


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
