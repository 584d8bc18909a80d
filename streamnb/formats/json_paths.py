"""Paths of values in a record.

``$.user.age`` goes from the record into the object at ``user`` and takes its ``age``. A key of other
characters than letters, digits, ``_`` and ``-`` is a JSON string in brackets: ``$["odd key"]``. Entries of
arrays are only ever reported, as in ``$.tags[3]``.
"""

from __future__ import annotations

import json
import re

from streamnb.errors import ConfigError

Keys = tuple[str | int, ...]
"""The steps of a path: a str enters an object, an int an array; () is the whole record."""

_PLAIN = re.compile(r"[\w-]+")
_STEP = re.compile(r'\.([\w-]+)|\[("(?:[^"\\]|\\.)*")\]')
_LONGEST_PATH = 256  # a dead letter carries the path in a header, and a sender chooses its keys


def parse_path(path: str) -> tuple[str, ...]:
    """Return the keys of a path: ``$.a["odd key"]`` is ``("a", "odd key")``. Raises `ConfigError`."""
    keys = []
    position = 1
    while path.startswith("$") and (step := _STEP.match(path, position)):
        keys.append(step[1] or _unquote(step[2], path))
        position = step.end()
    if not keys or position != len(path):
        raise ConfigError(f'path {path!r}: expected $ and at least one .key or ["odd key"], and no more')
    return tuple(keys)


def _unquote(quoted: str, path: str) -> str:
    try:
        return str(json.loads(quoted))
    except ValueError:
        raise ConfigError(f"path {path!r}: {quoted} is not a JSON string") from None


def render_path(keys: Keys) -> str:
    """Return the path of some keys, as `parse_path` reads it; beyond 256 characters it is cut short."""
    path = "$" + "".join(map(_render_step, keys))
    return path if len(path) <= _LONGEST_PATH else path[: _LONGEST_PATH - 3] + "..."


def _render_step(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    return f".{key}" if _PLAIN.fullmatch(key) else f"[{json.dumps(key)}]"
