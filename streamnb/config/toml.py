"""Values as TOML text. The standard library reads TOML and does not write it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping

import msgspec

__all__ = ["from_literal", "literal"]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def literal(value: object) -> str:
    """The TOML literal of a string, number, boolean, list or table, on one line."""
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        pairs = (f"{_key(str(key))} = {literal(item)}" for key, item in value.items())
        return f"{{ {', '.join(pairs)} }}" if value else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    return str(value)


def from_literal(text: str) -> object:
    """The value of one TOML literal; `text` itself where it is none, for the key's kind to refuse."""
    try:
        table = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    return table["value"] if len(table) == 1 else text


def _string(text: str) -> str:
    # JSON's escapes are TOML's, but for DEL, which TOML wants escaped.
    return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _string(name)
