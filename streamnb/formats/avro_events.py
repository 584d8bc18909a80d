"""Rows of an Avro container file as event records, with the types of its schema: ``streamnb[avro]``.

Values become what the same values in Parquet become. A thousand rows are in memory at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import islice
from typing import Any

from streamnb.errors import ConfigError, LogError, why
from streamnb.formats.column_events import ColumnEvents
from streamnb.formats.event_columns import CsvColumns, check_header
from streamnb.formats.event_source import EventSource
from streamnb.values.json_conversion import bytes_text, json_value, name_text

_AT_ONCE = 1000
_NAMED = (str, bool, int, float, Decimal)
_JSON, _FLOATS = {"string", "int", "long", "boolean", "enum"}, {"float", "double"}
_Convert = Callable[[Any], Any]


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
        self._converters = [(field["name"], _converter(field["type"])) for field in fields]

    def cells(self, rows: list[dict[str, Any]]) -> list[list[Any]]:
        """Return the cells of each column; None for missing values."""
        return [
            self._column(name, convert, [row[name] for row in rows]) for name, convert in self._converters
        ]

    def _column(self, name: str, convert: _Convert | None, given: list[Any]) -> list[Any]:
        found = given if convert is None else [None if value is None else convert(value) for value in given]
        if name not in self._names and not self._missing:
            return found
        return [
            self._named(name, value, raw) if value is not None and isinstance(raw, _NAMED) else value
            for value, raw in zip(found, given, strict=True)
        ]

    def _named(self, name: str, value: Any, raw: Any) -> Any:
        """Return a role's value as a name, or None if its text means missing."""
        text = raw if type(raw) is str else name_text(raw)
        return None if text in self._missing else text if name in self._names else value


def _converter(kind: Any) -> _Convert | None:
    """Return a converter of the values of an Avro type to JSON values; None if they are JSON already."""
    if isinstance(kind, list):
        others = [one for one in kind if one != "null"]
        return _converter(others[0]) if len(others) == 1 else _plain
    name = kind.get("type") if isinstance(kind, dict) else kind
    if isinstance(kind, dict) and "logicalType" in kind:
        return _plain
    if name == "fixed":
        return lambda value: bytes_text(value, is_fixed=True)
    return None if name in _JSON else _finite if name in _FLOATS else _plain


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return _finite(value)
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, bytes):
        return bytes_text(value, is_fixed=False)
    return json_value(value)
