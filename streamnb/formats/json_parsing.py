"""Bytes -> JSON value, checked to the last byte, or the reason why they are not JSON.

msgspec is fast but reports too little about what it rejects. Rejected bytes are parsed again by Python's own
parser, which accepts lone surrogates and numbers beyond a double, so that the invalid value can be located.
Of duplicate keys the last one wins in both parsers; but a lone surrogate is rejected in all of them,
because the text itself is searched.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NoReturn

import msgspec

from streamnb.errors import MalformedEvent
from streamnb.formats.json_paths import Keys, render_path

MAX_DEPTH = 100
"""Maximum nesting depth of arrays and objects. Python's own limit depends on the caller's stack, so that a
replay could judge a record differently than the run did; this one is far below it."""

SHALLOW = 2 * MAX_DEPTH
"""Number of bytes in which JSON cannot nest deeper: every level is opened and closed."""

_TOKENS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
_ESCAPED = b"\\u003"  # the first five characters of an escaped colon
_STEPS = {b"[": 1, b"{": 1, b"]": -1, b"}": -1}


def refuse(reason: str, keys: Keys, detail: str, remedy: str = "") -> NoReturn:
    """Raise `MalformedEvent` for the value at some keys."""
    raise MalformedEvent(reason, render_path(keys), detail, remedy) from None


def parse(raw: bytes, max_bytes: int) -> Any:
    """Return the JSON value of a record. A number beyond every double becomes an infinity or a huge int.

    Raises:
        MalformedEvent: oversize, invalid-utf8, invalid-json or lone-surrogate, checked in this order,
            except that excessive nesting (invalid-json) is found right after oversize.
    """
    if len(raw) > max_bytes:
        refuse("oversize", (), f"expected at most {max_bytes} bytes, found {len(raw)}")
    if len(raw) > SHALLOW and maybe_deep(raw) and _is_deep(raw):
        refuse("invalid-json", (), f"nested more than {MAX_DEPTH} levels deep")
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _parse_slowly(raw)


def repeated_key(raw: bytes) -> str | None:
    """Return a key that comes twice in one object of a JSON text; None if there is none, or it is not JSON.

    Encoding writes each key with one colon, and texts with the colons that they have. So if encoding what was
    decoded writes as many colons as the text has, no key was dropped. Otherwise, or if escapes in the text
    may be colons, the text is parsed again, slowly.
    """
    try:
        encoded = msgspec.json.encode(msgspec.json.decode(raw))
        if encoded.count(b":") == raw.count(b":") and _ESCAPED not in raw:
            return None
        json.loads(raw, object_pairs_hook=_refuse_repeated)
    except _RepeatedKeyError as error:
        return error.key
    except (ValueError, RecursionError, msgspec.DecodeError):
        pass
    return None


class _RepeatedKeyError(Exception):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise _RepeatedKeyError(key)
        seen.add(key)


def maybe_deep(raw: bytes) -> bool:
    """Return whether there are enough brackets to nest too deeply."""
    return raw.count(b"[") + raw.count(b"{") > MAX_DEPTH


def _is_deep(raw: bytes) -> bool:
    depth = 0
    for token in _TOKENS.finditer(raw):
        depth += _STEPS.get(token[0], 0)
        if depth > MAX_DEPTH:
            return True
    return False


def _parse_slowly(raw: bytes) -> Any:
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        refuse("invalid-utf8", (), f"{error.reason} at byte {error.start}")
    try:
        whole = _load(text, object_pairs_hook=_Pairs)
    except json.JSONDecodeError as error:
        refuse("invalid-json", (), f"{error.msg} at character {error.pos}")
    keys = find(whole, _has_surrogate)
    if keys is not None:
        refuse("lone-surrogate", keys, "half of a surrogate pair, which no UTF-8 can hold")
    return _load(text)


class _Pairs(list[tuple[str, Any]]):
    """An object with all its entries, duplicate keys included."""

    items = list.__iter__


def _parse_int(digits: str) -> float:
    return int(digits) if len(digits) < 400 else float(digits)  # int() refuses thousands of digits


def _refuse_constant(name: str) -> NoReturn:
    refuse("invalid-json", (), f"{name} is not JSON")


def _has_surrogate(value: Any) -> bool:
    return isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value)


_load = partial(json.loads, parse_int=_parse_int, parse_constant=_refuse_constant)


def is_nonfinite(value: Any) -> bool:
    """Return whether a value is an infinity, a NaN, or an int beyond every double."""
    if isinstance(value, int | float):
        try:
            return not math.isfinite(value)
        except OverflowError:
            return True
    return False


def find(value: Any, wanted: Callable[[Any], bool], keys: Keys = ()) -> Keys | None:
    """Return the keys of the first key or value of a JSON value that is `wanted`, or None."""
    if wanted(value):
        return keys
    entries: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, dict | _Pairs):
        entries = value.items()
    elif isinstance(value, list | tuple):
        entries = enumerate(value)
    for key, entry in entries:
        found = (*keys, key) if wanted(key) else find(entry, wanted, (*keys, key))
        if found is not None:
            return found
    return None
