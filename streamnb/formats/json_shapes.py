"""Shapes of JSON files: one object a line, or values of several lines, or one array of them; flat objects.

A shape is sniffed in the first bytes of a file, and holds for all of it. Objects without `features` and
`text`, whose other fields are numbers, strings and booleans, are flat: these fields become features. Events
without ids get made ones. Every other event is passed on as it is, byte by byte.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from streamnb.errors import LogError
from streamnb.features.attributes import some_of
from streamnb.features.number_notation import dates_of
from streamnb.features.schema_inference import FieldSummary, is_date
from streamnb.formats.event_columns import CsvColumns, RowIds, RowNote
from streamnb.formats.event_csv import TIME_PARTS
from streamnb.values.messages import Message

_LOOKED_AT = 100  # values
_ARRAY = re.compile(rb"\s*\[\s*(?:\{|\]|$)")
_OBJECT = re.compile(rb"\s*\{\s*$")
_BETWEEN = re.compile(rb"\}[ \t]*\{")
_MARK = re.compile(r"[^ \t\r\n]")
_LINE_ENDS = str.maketrans("\r\n", "  ")
_NESTED = frozenset(b"{[")
_READ = 1 << 16  # characters
_OF_LABELS = frozenset(("id", "label", "source", "weight", "ts", "withdraw", "since"))
_MOST_LEFT_OUT = 100  # names of fields
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_parse = json.JSONDecoder(parse_int=len, parse_float=len, parse_constant=len).raw_decode


class JsonShape(msgspec.Struct, frozen=True):
    """The shape of a file of JSON.

    Attributes:
        is_lines: whether each value is one line.
        arrays: members of the only object that are arrays of objects; the values of a single one are events.
        lacks_ids: whether its events get ids.
        is_flat: whether fields of its objects are features.
        dates: features that are dates, and are left out.
    """

    is_lines: bool = True
    arrays: tuple[str, ...] = ()
    lacks_ids: bool = False
    is_flat: bool = False
    dates: frozenset[str] = frozenset()

    @property
    def member(self) -> str:
        """The array whose values are the events; empty for none."""
        return self.arrays[0] if len(self.arrays) == 1 else ""

    @property
    def findings(self) -> list[str]:
        """Differences from events in lines, for a message."""
        found = [] if self.is_lines or self.arrays else ["JSON that is not one object a line"]
        if self.member:
            found.append(f"the objects of the array {self.member!r} as events (`jq` selects others)")
        elif self.arrays:
            jq = f"`jq -c '.{self.arrays[0]}[]' FILE` writes one"
            found.append(f"arrays of objects in {some_of(self.arrays)}, not read as events ({jq})")
        if self.dates:
            found.append(f"dates in {some_of(sorted(self.dates))} left out ({TIME_PARTS})")
        return found + ["flat objects, whose fields are features (--set events.id, label, ts)"] * self.is_flat


def sniff_shape(start: bytes, columns: CsvColumns) -> JsonShape:
    """Return the shape of a file by its first bytes in UTF-8, of which the last line may be cut."""
    first = start.lstrip().partition(b"\n")[0]
    is_lines = _ARRAY.match(first) is None and _OBJECT.match(first) is None and not _holds_several(first)
    whole = first if is_lines else start.lstrip()
    arrays = arrays_of(whole.decode(errors="replace")) if whole[:1] == b"{" and b"[" in whole else []
    shape = JsonShape(is_lines and len(arrays) != 1, tuple(arrays))
    if not (columns.makes_ids or columns.leaves_out_dates or columns.flat is not None):
        return shape
    raws: Iterable[Any] = io.BytesIO(start) if shape.is_lines else _values_of(start, shape.member)
    objects: list[dict[str, Any]] = []
    for raw in raws:
        try:
            value = msgspec.json.decode(raw)
        except (ValueError, RecursionError):
            continue
        if type(value) is dict:
            objects.append(value)
            if len(objects) == _LOOKED_AT:
                break
    if not objects:
        return shape
    lacks_ids = columns.makes_ids and not any("id" in one for one in objects)
    is_flat = columns.flat is not None and _are_flat(objects, columns.flat)
    features = (
        objects if is_flat else [inner for one in objects if type(inner := one.get("features")) is dict]
    )
    dates = _dates_in(features) if columns.leaves_out_dates else []
    kept = columns.declared | (columns.flat or frozenset())
    return JsonShape(shape.is_lines, shape.arrays, lacks_ids, is_flat, frozenset(dates) - kept)


def _holds_several(line: bytes) -> bool:
    """Return whether another object follows the first one of a line."""
    text = line.decode(errors="replace") if _BETWEEN.search(line) else ""
    try:
        return text[:1] == "{" and text[_parse(text)[1] :].lstrip(" \t")[:1] == "{"
    except (ValueError, RecursionError):
        return False


def _dates_in(features: Iterable[dict[str, Any]]) -> list[str]:
    seen: dict[str, FieldSummary] = {}
    others: set[str] = set()  # names with a value that is not a date
    for one in features:
        if others.issuperset(one):
            continue
        for name in one.keys() - others:
            value = one[name]
            if value is None:
                continue
            if type(value) is str and is_date(value):
                seen.setdefault(name, FieldSummary()).add(value)
            else:
                others.add(name)
    return [name for name, one in seen.items() if name not in others and dates_of(one)]


def _values_of(start: bytes, member: str) -> Iterator[str]:
    try:
        yield from json_values(io.StringIO(start.decode(errors="replace")).read, len(start), member)
    except LogError:  # the last value is cut
        return


def _are_flat(objects: list[dict[str, Any]], kept: frozenset[str]) -> bool:
    names = set[str]().union(*objects)
    if not names.isdisjoint(("features", "text")) or names <= _OF_LABELS:
        return False
    values = [value for one in objects for name, value in one.items() if name not in kept]
    return any(value is not None for value in values) and not any(isinstance(value, dict) for value in values)


def json_values(read: Callable[[int], str], longest: int, member: str = "") -> Iterator[str]:
    """Yield the text of each JSON value, or of each value in top-level arrays, without line ends.

    Memory holds one value, and twice as much while it is read.

    Args:
        read: returns at most as many of the next characters, and "" at the end.
        longest: the most characters of a value.
        member: the array in top-level objects whose values are yielded; empty for the objects themselves.

    Raises:
        LogError: text that is not JSON, or a value that is too long or too deep.
    """
    source = _ValueSource(read, longest)
    while mark := source.mark():
        if mark == "[":
            yield from source.elements()
        elif mark == "{" and member:
            names = []
            for name in source.members():
                names.append(name)
                if name == member and source.mark() == "[":
                    yield from source.elements()
                else:
                    source.value()
            if member not in names:
                raise LogError(f"is JSON whose next object lacks the array {member!r}")
        else:
            yield source.value()


def arrays_of(start: str) -> list[str]:
    """Return the members of an object that are arrays of objects, if the object is all of a text.

    The text may be cut. An object with a field of events has none.
    """
    source = _ValueSource(io.StringIO(start).read, len(start))
    found: list[str] = []
    try:
        for name in source.members():
            if name in {"features", "text", "label"}:
                return []
            if source.mark() != "[":
                source.value()
                continue
            for n, element in enumerate(source.elements()):
                found += [name] if n == 0 and element.startswith("{") else []
        return found if not source.mark() else []
    except LogError:  # the text is cut
        return found


class _ValueSource:
    """Text that is read as values, one after another.

    Attributes:
        at: index of the next character in the text that is held.
    """

    def __init__(self, read: Callable[[int], str], longest: int) -> None:
        self._read, self._longest = read, longest
        self._text, self.at = "", 0

    def mark(self) -> str:
        """Return the next character except blanks, without passing it; empty at the end."""
        while True:
            found = _MARK.search(self._text, self.at)
            if found is not None:
                self.at = found.start()
                return found[0]
            self.at = len(self._text)
            if not self._read_more():
                return ""

    def elements(self) -> Iterator[str]:
        """Yield the values of the array that begins here, and pass it."""
        self.at += 1
        is_after = False
        while (mark := self.mark()) != "]":
            if not mark:
                raise LogError("the JSON array ends too early")
            if is_after and mark != ",":
                raise LogError(f"is not JSON: expected a comma or the end of the array, found {mark!r}")
            if is_after:
                self.at += 1
            else:
                yield self.value()
            is_after = not is_after
        self.at += 1

    def members(self) -> Iterator[str]:
        """Yield the names of the members of the object that begins here; the caller passes each value."""
        mark = self.mark()
        while mark in {"{", ","}:
            self.at += 1
            if mark == "{" and self.mark() == "}":
                break
            if self.mark() != '"':
                raise LogError(f"is not JSON: expected the name of a member, found {self.mark()!r}")
            name = json.loads(self.value())
            if self.mark() != ":":
                raise LogError(f"is not JSON: expected a colon, found {self.mark()!r}")
            self.at += 1
            self.mark()
            yield name
            mark = self.mark()
        if self.mark() != "}":
            raise LogError("the JSON object ends too early")
        self.at += 1

    def value(self) -> str:
        """Return the value that begins here, and pass it."""
        while True:
            try:
                _, end = _parse(self._text, self.at)
            except RecursionError as error:
                raise LogError("a JSON value is nested too deeply") from error
            except ValueError as error:
                if len(self._text) - self.at > self._longest:
                    raise LogError(f"longer than {self._longest} characters is a JSON value") from error
                if not self._read_more():
                    raise LogError(f"is not JSON: {error}") from error
                continue
            if end < len(self._text) or not self._read_more():  # a number may go on
                break
        value, self.at = self._text[self.at : end], end
        return value.translate(_LINE_ENDS) if "\n" in value or "\r" in value else value

    def _read_more(self) -> bool:
        rest = self._text[self.at :]
        part = self._read(max(_READ, len(rest)))  # as much again, so that few values are parsed twice
        self._text, self.at = rest + part, 0
        return part != ""


class Reshaper:
    """Makes events of raw JSON objects, by the shape of their file.

    Args:
        shape: the shape.
        columns: which fields stay outside `features`.
        ids: makes ids.
        note: called at the end with the fields that were left out.
    """

    def __init__(self, shape: JsonShape, columns: CsvColumns, ids: RowIds, note: RowNote) -> None:
        self._shape, self._kept, self._ids, self._note = shape, columns.flat or frozenset(), ids, note
        self._left_out: dict[str, None] = {}

    def events(self, raws: Iterable[bytes]) -> Iterator[bytes]:
        """Return the events; values that are not objects as they are."""
        shape = self._shape
        return self._reshaped(raws) if shape.is_flat or shape.lacks_ids or shape.dates else iter(raws)

    def _reshaped(self, raws: Iterable[bytes]) -> Iterator[bytes]:
        shape, flat, ids = self._shape, self._flat, self._ids
        for number, raw in enumerate(raws):
            made_id = ids(number, raw) if shape.lacks_ids else ""
            event = flat(raw) if shape.is_flat or shape.dates else raw
            yield with_id(event, made_id) if shape.lacks_ids else event
        if self._left_out:
            names = list(self._left_out)
            text = f"{some_of(names)}: not read, for a feature is not a list or an object"
            self._note(Message("fields-not-read", text, paths=names))

    def _flat(self, raw: bytes) -> bytes:
        try:
            fields = _decode_fields(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return raw
        if "features" in fields:
            return self._without_dates(raw, fields) if self._shape.dates else raw
        if not self._shape.is_flat:
            return raw
        event: dict[str, Any] = {}
        features: dict[str, Any] = {}
        for name, value in fields.items():
            if name in self._kept:
                event[name] = value
            elif name in self._shape.dates:
                continue
            elif memoryview(value)[0] in _NESTED:
                if len(self._left_out) < _MOST_LEFT_OUT:
                    self._left_out[name] = None
            else:
                features[name] = value
        event["features"] = features
        return msgspec.json.encode(event)

    def _without_dates(self, raw: bytes, fields: dict[str, Any]) -> bytes:
        try:
            features = _decode_fields(fields["features"])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return raw
        dates = self._shape.dates
        kept = {name: value for name, value in features.items() if name not in dates}
        return msgspec.json.encode(fields | {"features": kept})


def with_id(raw: bytes, made_id: str) -> bytes:
    """Return an object with an id before its own, which wins, as the last of equal keys does."""
    start, brace, rest = raw.partition(b"{")
    if start.strip() or not brace:
        return raw
    comma = b"" if rest.lstrip().startswith(b"}") else b","
    return b'{"id":%s%s%s' % (msgspec.json.encode(made_id), comma, rest)
