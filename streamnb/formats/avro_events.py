"""Rows of an Avro container file as event records, with the types of its schema: ``streamnb[avro]``.

Values become what the same values in Parquet become. A thousand rows are in memory at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from decimal import Decimal
from itertools import islice
from operator import itemgetter
from typing import Any

from streamnb.errors import ConfigError, LogError, why
from streamnb.formats.column_events import ColumnEvents
from streamnb.formats.event_columns import CsvColumns, check_header
from streamnb.formats.event_source import EventSource
from streamnb.values.json_conversion import bytes_text, json_value, name_text

_MAGIC = b"Obj\x01"
_AT_ONCE = 1000
_NAMED = (str, bool, int, float, Decimal)
_NUMBERS = {bool, int, float, Decimal}
_WHOLE = {str, bool, int, type(None)}
_SCALARS = _WHOLE | {float}
_JSON, _FLOATS = {"string", "int", "long", "boolean", "enum"}, {"float", "double"}
_TIMES = {"timestamp-millis", "timestamp-micros"}
_Convert = Callable[[Any], Any]
_IsPlain = Callable[[list[Any]], bool]


def avro_events(source: EventSource) -> Iterator[bytes]:
    """Yield the event of each row.

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
    except Exception as error:
        raise LogError(f"is not an Avro container file that can be read: {why(error)}") from error
    if fields is None:
        raise LogError("is Avro of a type other than record; expected records")
    names = [field["name"] for field in fields]
    source.settle_header(names)
    check_header(names, source.columns, "Avro")
    reader = _AvroColumns(source.columns, fields)
    events = ColumnEvents(names, source.columns, source.ids)
    for part in _parts(rows):
        yield from events.rows(reader.cells(part))


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

    def __init__(self, columns: CsvColumns, fields: list[dict[str, Any]]) -> None:
        self._names = {columns.id, columns.label, columns.text, *columns.strings}
        self._missing = {token for token in columns.missing if token}
        self._columns = [(field["name"], *_converter(field["type"])) for field in fields]

    def cells(self, rows: list[dict[str, Any]]) -> list[list[Any]]:
        """Return the cells of each column; None for missing values."""
        return [
            self._column(name, is_plain, convert, list(map(itemgetter(name), rows)))
            for name, is_plain, convert in self._columns
        ]

    def _column(self, name: str, is_plain: _IsPlain, convert: _Convert, given: list[Any]) -> list[Any]:
        found = given
        if not is_plain(given):
            found = [None if value is None else convert(value) for value in given]
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


def _converter(kind: Any) -> tuple[_IsPlain, _Convert]:
    """Return, for an Avro type, whether a column's values are JSON already, and a converter of others."""
    if isinstance(kind, list):
        others = [one for one in kind if one != "null"]
        return _converter(others[0]) if len(others) == 1 else (_are_plain, plain_value)
    name = kind.get("type") if isinstance(kind, dict) else kind
    if isinstance(kind, dict) and "logicalType" in kind:
        return (_never, json_value) if kind["logicalType"] in _TIMES else (_are_plain, plain_value)
    if name == "fixed":
        return _never, lambda value: bytes_text(value, is_fixed=True)
    if name in {"array", "record"}:
        return _checker(kind), plain_value
    if name in _JSON:
        return _always, plain_value
    return (_are_finite, _finite) if name in _FLOATS else (_are_plain, plain_value)


def _checker(kind: dict[str, Any]) -> _IsPlain:
    """Return whether all values of an array or record type are JSON already.

    The encoder writes a number within them that is not finite as null.
    """
    is_array = kind["type"] == "array"
    inner = [kind["items"]] if is_array else [field["type"] for field in kind["fields"]]
    are_plain = all(isinstance(one, str) and one in _JSON | _FLOATS for one in inner)
    return _always if are_plain else _are_plain


def _always(_: list[Any]) -> bool:
    return True


def _never(_: list[Any]) -> bool:
    return False


def _are_finite(values: list[Any]) -> bool:
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
