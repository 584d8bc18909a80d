"""A model as text: one fact a line, in the order of their bytes, so that `diff`, `sort` and git work on it.

    # streamnb model, format 1
    class	"ham"	2048
    ...
    ~	5	<SHA-256 of all that is before, in hex>

A line has a subject and then values, each in canonical JSON, separated by tabs. Equal models are equal bytes,
and floats keep their bits. The last line has the number of lines before it, the first one included.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any

from streamnb.errors import SnapshotError
from streamnb.formats.canonical_json import canonical

FIRST = b"# streamnb model, format 1"
_MOST = 1 << 62
_OBJECT, _TAB = "configuration", "\t"
_TABBED = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(_TAB, ":")).encode


def _is_name(value: Any) -> bool:
    return isinstance(value, str | bool | int) or _is_number(value)


def _is_attribute(value: Any) -> bool:
    return value is None or _is_name(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _MOST


def _is_number(value: Any) -> bool:
    return type(value) is float and math.isfinite(value)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


_KEYED = _is_attribute, _is_text, _is_name, _is_count
_FORMS: Mapping[str, tuple[Callable[[Any], bool], ...]] = {
    "class": (_is_name, _is_count),
    "configuration": (_is_object,),
    "contains": _KEYED,
    "events": (_is_count,),
    "moments": (_is_attribute, _is_name, _is_count, _is_number, _is_number),
    "position": (_is_text, _is_count, _is_text, _is_count, _is_text),
    "texts": (_is_attribute, _is_name, _is_count),
    "value": _KEYED,
    "word": _KEYED,
}
"""First word of a line -> checks of its values."""
_PREDICATES = {"moments": 3, "position": 2}
"""Number of values at the end of a line that are not its subject, if more than one."""


def encode_text(facts: Iterable[tuple[Any, ...]]) -> bytes:
    """Return facts, in any order, as text."""
    lines = sorted(map(_line, facts))
    body = b"".join(line + b"\n" for line in (FIRST, *lines))
    return body + b"~\t%d\t%s\n" % (1 + len(lines), hashlib.sha256(body).hexdigest().encode())


def decode_text(text: bytes) -> list[tuple[Any, ...]]:
    """Return the facts of a text, in its order.

    Raises SnapshotError, with the line, for anything that `encode_text` does not write.
    """
    first, *lines = text.split(b"\n")
    if first != FIRST:
        raise SnapshotError(
            f"line 1: no model as text begins with {first[:60]!r}, but with {FIRST.decode()!r}"
        )
    if len(lines) < 2 or lines.pop() or not lines[-1].startswith(b"~"):
        raise SnapshotError("it is cut off: its last line, with the number of lines, is missing")
    end = lines.pop()
    facts = [_fact(line, number) for number, line in enumerate(lines, 2)]
    for number, (before, line) in enumerate(pairwise(lines), 3):
        if before >= line:
            fault = "is there twice" if before == line else "is not in order (LC_ALL=C sort)"
            raise SnapshotError(f"line {number} {fault}: {_shown(line)}")
    for number, (fact, after) in enumerate(pairwise(facts), 3):
        if _about(fact) == _about(after):
            shown = _shown(lines[number - 2])
            raise SnapshotError(f"line {number} is about the same as the line before: {shown}")
    if missing := {"configuration", "events"} - {fact[0] for fact in facts}:
        raise SnapshotError(f"it has no line {min(missing)!r}")
    digest = hashlib.sha256(text[: len(text) - len(end) - 1]).hexdigest()
    if end != b"~\t%d\t%s" % (1 + len(lines), digest.encode()):
        raise SnapshotError(
            f"line {2 + len(lines)}: its lines are not those that were written; export the model again, and "
            "change nothing in it"
        )
    return facts


def _about(fact: tuple[Any, ...]) -> list[tuple[type, Any]]:
    """Return the subject of a fact; the rest is its predicate."""
    return [(type(value), value) for value in fact[: -_PREDICATES.get(fact[0], 1)]]


def _line(fact: tuple[Any, ...]) -> bytes:
    what, *values = fact
    if what == _OBJECT:
        return b"\t".join([what.encode(), *map(canonical, values)])
    return f"{what}\t{_TABBED(values)[1:-1]}".encode()


def _fact(line: bytes, number: int) -> tuple[Any, ...]:
    what, _, values = line.decode(errors="replace").partition("\t")
    forms = _FORMS.get(what, ())
    try:  # strings escape tabs: a raw tab in one makes fewer values than tabs
        found = json.loads(f"[{values}]" if what == _OBJECT else f"[{values.replace(_TAB, ',')}]")
        fits = len(found) == len(forms) and all(is_it(item) for is_it, item in zip(forms, found, strict=True))
        if fits and _line(fact := (what, *found)) == line:
            return fact
    except (ValueError, RecursionError):
        pass
    raise SnapshotError(f"line {number} is not a fact of a model: {_shown(line)}")


def _shown(line: bytes) -> str:
    return repr(line[:80].decode(errors="replace"))
