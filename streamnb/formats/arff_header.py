"""The header of an ARFF file: its attributes, their kinds and values, as Weka and MOA read them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from streamnb.errors import LogError

_MOST = 64 << 20  # characters of a header
_NAME = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s'"{}%,]+"""
_ATTRIBUTE = re.compile(rf"\s*@attribute\s+({_NAME})\s*(.*?)\s*", re.IGNORECASE | re.DOTALL)
_VALUE = re.compile(rf"\s*({_NAME})\s*,?")
_NUMERIC = {"numeric", "real", "integer"}
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_LONGEST_PATTERN = 200  # characters
_ISO = "yyyy-MM-dd'T'HH:mm:ss"
_PATTERN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|([^A-Za-z'])")
_DIRECTIVES = {
    "y": "%Y", "yyyy": "%Y", "yy": "%y", "M": "%m", "MM": "%m", "MMM": "%b", "MMMM": "%B",
    "d": "%d", "dd": "%d",
    "H": "%H", "HH": "%H", "h": "%I", "hh": "%I", "m": "%M", "mm": "%M", "s": "%S", "ss": "%S",
    "SSS": "%f", "a": "%p", "Z": "%z", "E": "%a", "EEE": "%a", "EEEE": "%A",
}  # fmt: skip
"""Field of a Java date pattern -> directive of `strptime`."""

Convert = Callable[[str], str | float | None]
"""Converts a token to its value; None is missing. Raises ValueError or KeyError for a token that the header
excludes."""


class ArffAttribute(NamedTuple):
    """One attribute of a header.

    Attributes:
        name: its name.
        kind: "continuous", "nominal", "string" or "date".
        convert: converts a token to its value.
        values: the values of a nominal attribute, in their order.
    """

    name: str
    kind: str
    convert: Convert
    values: tuple[str, ...] = ()

    @property
    def default(self) -> str | float | None:
        """The value of an attribute that a sparse row does not list; None is missing."""
        if self.kind == "nominal":
            return self.values[0]
        if self.kind == "continuous":
            return 0.0
        return "1970-01-01T00:00:00+00:00" if self.kind == "date" else None


def read_header(lines: Iterator[str]) -> list[ArffAttribute]:
    """Return the attributes, and leave the lines of data in the iterator.

    Raises:
        LogError: a declaration that is not ARFF, a relational attribute, or a header without its end.
    """
    attributes: list[ArffAttribute] = []
    size = 0
    for number, line in enumerate(lines, 1):
        size += len(line)
        if size > _MOST:
            raise LogError(f"has no @data in its first {_MOST} characters, so it is not ARFF")
        stripped = line.strip().removeprefix("\ufeff")
        keyword = stripped[:10].lower()
        if not stripped or stripped.startswith("%") or keyword.startswith("@relation"):
            continue
        if keyword.startswith("@data"):
            return attributes
        found = _ATTRIBUTE.fullmatch(stripped)
        if found is None:
            raise LogError(f"line {number} is not a declaration of ARFF; expected @attribute NAME TYPE")
        attributes.append(_attribute(number, unquoted(found[1]), found[2]))
    raise LogError("has no line @data, which ends the header of ARFF")


def unquoted(token: str) -> str:
    """Return a token without its quotes and escapes."""
    if token[:1] not in {"'", '"'}:
        return token
    return _ESCAPE.sub(_unescaped, token[1:-1]) if "\\" in token else token[1:-1]


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _ESCAPES.get(code, code)


def _attribute(number: int, name: str, kind: str) -> ArffAttribute:
    word, _, more = kind.partition(" ")
    word = word.lower()
    if kind.startswith("{"):
        values = _values(number, name, kind)
        return ArffAttribute(name, "nominal", {value: value for value in values}.__getitem__, values)
    if word in _NUMERIC:
        return ArffAttribute(name, "continuous", _number)
    if word == "string":
        return ArffAttribute(name, "string", str)
    if word == "date":
        pattern = unquoted(more.strip()) or _ISO
        return ArffAttribute(name, "date", _date(number, name, pattern))
    if word == "relational":
        what = "is relational, a table in each row: an event has one value for each attribute"
        raise LogError(f"line {number}: attribute {name!r} {what}")
    raise LogError(
        f"line {number}: attribute {name!r} is {kind or 'without a type'}; expected numeric, string, date "
        "or a list of values in braces"
    )


def _values(number: int, name: str, kind: str) -> tuple[str, ...]:
    end = kind.rindex("}") if "}" in kind else -1
    values, position = [], 1
    while position < end and (found := _VALUE.match(kind, position, end)):
        values.append(unquoted(found[1]))
        position = found.end()
    if end < 0 or kind[position:end].strip() or not values:
        raise LogError(f"line {number}: the values of attribute {name!r} are not a list in braces")
    return tuple(values)


def _number(token: str) -> float | None:
    try:
        value = float(token)
    except ValueError:
        value = math.inf
    if math.isfinite(value) and "_" not in token:
        return value
    if math.isnan(value):  # a missing value of Weka
        return None
    raise ValueError(f"{token!r} is not a finite number")


def _date(number: int, name: str, pattern: str) -> Convert:
    """Return a converter of dates to RFC 3339 date-times; a date without a zone is in UTC."""
    if len(pattern) > _LONGEST_PATTERN:
        raise LogError(f"line {number}: the date pattern of {name!r} has {len(pattern)} characters")
    directives = "".join(_directive(number, name, found) for found in _PATTERN.finditer(pattern))
    try:
        datetime.strptime("", directives)  # noqa: DTZ007  to compile the pattern
    except re.error:
        raise LogError(f"line {number}: the date pattern of {name!r} has a field twice") from None
    except ValueError:
        pass

    def convert(token: str) -> str:
        try:
            moment = datetime.strptime(token, directives)  # noqa: DTZ007  the pattern may have no zone
        except ValueError:
            raise ValueError(f"{token!r} is not a date of the pattern {pattern}") from None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()

    return convert


def _directive(number: int, name: str, found: re.Match[str]) -> str:
    if found[2] is None:
        return (found[3] or found[1].replace("''", "'") or "'").replace("%", "%%")
    if found[0] not in _DIRECTIVES:
        expected = "expected years, months, days, hours, minutes, seconds and Z"
        raise LogError(f"line {number}: the date pattern of {name!r} has {found[0]!r}; {expected}")
    return _DIRECTIVES[found[0]]
