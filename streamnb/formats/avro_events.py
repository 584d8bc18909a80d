"""Rows of an Avro container file as event records, with the types of its schema: ``streamnb[avro]``.

Values become what the same values in Parquet become. A thousand rows are in memory at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from functools import partial
from itertools import chain, islice
from operator import itemgetter
from typing import Any

import msgspec

from streamnb.errors import ConfigError, LogError, why
from streamnb.formats.column_events import ColumnEvents
from streamnb.formats.event_columns import CsvColumns, RowNote, check_header, hexadecimal_note
from streamnb.formats.event_source import EventSource
from streamnb.values.json_conversion import bytes_text, bytes_texts, json_value, name_text

_MAGIC = b"Obj\x01"
_AT_ONCE = 1000
_NAMED = (str, bool, int, float, Decimal)
_NUMBERS = {bool, int, float, Decimal}
_WHOLE = {str, bool, int, type(None)}
_SCALARS = _WHOLE | {float}
_JSON, _FLOATS = {"string", "int", "long", "boolean", "enum"}, {"float", "double"}
_TIMES = {"timestamp-millis", "timestamp-micros"}
_Convert = Callable[[Sequence[Any]], list[Any]]
_IsPlain = Callable[[Sequence[Any]], bool]


def avro_events(source: EventSource) -> Iterator[bytes]:
    """Return the event of each row.

    Raises:
        ConfigError: fastavro is missing, or a configured column.
        LogError: the file is damaged or not Avro, has no records, or lacks the required label column.
    """
    try:
        import fastavro  # noqa: PLC0415  an extra
    except ImportError as error:
        raise ConfigError("reading Avro needs fastavro: pip install 'streamnb[avro]'") from error
    if not source.start.startswith(_MAGIC):
        raise LogError(f"is not an Avro container file: it begins with {source.start[:8]!r} (--format)")
    try:
        rows = fastavro.reader(source.content)
        fields = rows.writer_schema.get("fields") if isinstance(rows.writer_schema, dict) else None
        names = [field["name"] for field in fields or ()]
        if not all(isinstance(name, str) for name in _field_names(rows.writer_schema)):
            raise TypeError("the name of a field is not a string")  # noqa: TRY301  as other faults of a schema
    except Exception as error:
        raise LogError(f"is not an Avro container file that can be read: {why(error)}") from error
    if fields is None:
        raise LogError("is Avro of a type other than record; expected records")
    source.settle_header(names)
    check_header(names, source.columns, "Avro")
    reader = _AvroColumns(source.columns, fields, source.note)
    events = ColumnEvents(names, source.columns, source.ids)
    return chain.from_iterable(map(events.rows, map(reader.cells, _parts(rows))))


def _parts(rows: Iterator[Any]) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows in lists. Raises LogError for damaged content, after the rows before it."""
    number = 0
    while True:
        part: list[dict[str, Any]] = []
        try:
            part.extend(islice(rows, _AT_ONCE))
        except Exception as error:
            yield part
            number += len(part)
            raise LogError(f"no Avro that can be read, after row {number}: {why(error)}") from error
        if not part:
            return
        yield part
        number += len(part)


class _AvroColumns:
    """Converter of rows to columns of JSON values, by the types and roles of columns."""

    def __init__(self, columns: CsvColumns, fields: list[dict[str, Any]], note: RowNote) -> None:
        self._note = note
        strings = {field["name"] for field in fields if field["type"] == "string"}
        self._names = {columns.id, columns.label, columns.text, *columns.strings} - strings
        self._missing = {token for token in columns.missing if token}
        self._columns = [(field["name"], *_converter(field["type"])) for field in fields]
        self._may_be_hex = {name for name, is_plain, _ in self._columns if is_plain is _never}

    def cells(self, rows: list[dict[str, Any]]) -> list[list[Any]]:
        """Return the cells of each column; None for missing values."""
        return [
            self._column(name, is_plain, convert, [*map(itemgetter(name), rows)])
            for name, is_plain, convert in self._columns
        ]

    def _column(self, name: str, is_plain: _IsPlain, convert: _Convert, given: list[Any]) -> list[Any]:
        found = given if is_plain(given) else convert(given)
        if name in self._may_be_hex and (message := hexadecimal_note(name, found, given)):
            self._may_be_hex.remove(name)
            self._note(message)
        if not self._missing and (name not in self._names or _NUMBERS.isdisjoint(map(type, given))):
            return found
        return [
            self._named(name, value, raw) if value is not None and isinstance(raw, _NAMED) else value
            for value, raw in zip(found, given, strict=True)
        ]

    def _named(self, name: str, value: Any, raw: Any) -> Any:
        """Return a role's value as a name, or None if its text means missing."""
        text = raw if type(raw) is str else name_text(raw)
        return None if text in self._missing else text if name in self._names else value


def _field_names(kind: Any) -> Iterator[Any]:
    """Yield the names of all fields of an Avro type, at any depth."""
    if isinstance(kind, list):
        yield from chain.from_iterable(map(_field_names, kind))
    elif isinstance(kind, dict):
        for field in kind.get("fields", ()):
            yield field["name"]
            yield from _field_names(field["type"])
        for inner in ("type", "items", "values"):
            yield from _field_names(kind.get(inner))


def _without_none(convert: _Convert, given: Sequence[Any]) -> list[Any]:
    """Return a column with its values other than None converted."""
    if None not in given:
        return convert(given)
    found = iter(convert([value for value in given if value is not None]))
    return [None if value is None else next(found) for value in given]


def _converter(kind: Any) -> tuple[_IsPlain, _Convert]:
    """Return, for an Avro type, whether a column's values are JSON already, and a converter of others."""
    if isinstance(kind, list):
        others = [one for one in kind if one != "null"]
        is_plain, convert = _converter(others[0]) if len(others) == 1 else (_are_plain, _plain_values)
        return is_plain, partial(_without_none, convert)
    name: Any = kind.get("type") if isinstance(kind, dict) else kind
    if isinstance(kind, dict) and "logicalType" in kind:
        return (_are_strings, _times) if kind["logicalType"] in _TIMES else (_are_plain, _plain_values)
    if name in {"array", "record"}:
        return _checker(kind), _plain_values
    return _BYTES.get(name) or (_PLAIN_IF.get(name, _are_plain), _plain_values)


def _plain_values(values: Sequence[Any]) -> list[Any]:
    return [*map(plain_value, values)]


def _times(values: Sequence[Any]) -> list[Any]:
    """Return the texts of times in UTC, as `json_value` writes them."""
    if set(map(type, values)) != {datetime}:  # a type that fastavro does not decode to times
        return [*map(json_value, values)]
    raw = msgspec.json.encode(values).replace(b'Z"', b'+00:00"')
    return raw[2:-2].decode().split('","')


def _always(_: Sequence[Any]) -> bool:
    return True


def _never(_: Sequence[Any]) -> bool:
    return False


def _are_strings(values: Sequence[Any]) -> bool:
    return set(map(type, values)) == {str}


def _are_finite(values: Sequence[Any]) -> bool:
    """Return whether all numbers are finite. Their sum may overflow, rarely and harmlessly."""
    return math.isfinite(sum(filter(None, values)))


def _are_plain(values: Collection[Any]) -> bool:
    kinds = set(map(type, values))
    if float not in kinds:
        return kinds <= _SCALARS
    if kinds == {float}:
        return math.isfinite(sum(values))  # the sum may overflow, rarely and harmlessly
    return kinds <= _SCALARS and all(map(_is_finite, values))


def _is_finite(value: Any) -> bool:
    return type(value) is not float or math.isfinite(value)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


_BYTES: dict[str, tuple[_IsPlain, _Convert]] = {
    "bytes": (_never, bytes_texts),
    "fixed": (_never, lambda values: [raw.hex() for raw in values]),
}
_PLAIN_IF: dict[str, _IsPlain] = dict.fromkeys(_JSON, _always) | dict.fromkeys(_FLOATS, _are_finite)
"""Name of a type -> whether a column's values are JSON already."""


def _checker(kind: dict[str, Any]) -> _IsPlain:
    """Return whether all values of an array or record type are JSON already.

    The encoder writes a number within them that is not finite as null.
    """
    is_array = kind["type"] == "array"
    inner = [kind["items"]] if is_array else [field["type"] for field in kind["fields"]]
    are_plain = all(isinstance(one, str) and one in _JSON | _FLOATS for one in inner)
    return _always if are_plain else _are_plain


def plain_value(value: Any) -> Any:
    """Return a decoded value with values that JSON has in place of times, decimals, bytes and NaN."""
    kind = type(value)
    if kind in _WHOLE:
        return value
    if kind is float:
        return _finite(value)
    if kind is dict:
        if _are_plain(value.values()):  # names of fields and keys of maps are strings
            return value
        return {str(key): plain_value(inner) for key, inner in value.items()}
    if kind is list or kind is tuple:
        return value if _are_plain(value) else [plain_value(inner) for inner in value]
    return bytes_text(value, is_fixed=False) if kind is bytes else json_value(value)
