"""Rows of an Avro container file as event records, with the types of its schema: ``streamnb[avro]``.

Values become what the same values in Parquet become. A block of rows is in memory at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, cast

import msgspec

from streamnb.errors import ConfigError, LogError, why
from streamnb.formats.event_columns import check_header
from streamnb.formats.event_source import EventSource
from streamnb.values.json_conversion import bytes_text, json_value, name_text

_NAMED = (str, bool, int, float, Decimal)
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
    number = 0
    try:
        rows = fastavro.reader(source.content)
        fields = rows.writer_schema.get("fields") if isinstance(rows.writer_schema, dict) else None
    except Exception as error:
        raise LogError(f"is not an Avro container file that can be read: {why(error)}") from error
    if fields is None:
        raise LogError("is Avro of a type other than record; expected records")
    names = [field["name"] for field in fields]
    check_header(names, source.columns, "Avro")
    reader = _AvroColumns(source, fields)
    while True:
        try:
            row = next(rows, None)
        except Exception as error:
            raise LogError(f"no Avro that can be read, after row {number}: {why(error)}") from error
        if row is None:
            return
        number += 1
        cells = reader.cells(cast("dict[str, Any]", row))
        content = source.encoded(cells) if source.columns.id not in cells else b""
        yield source.event(cells, content, reader.columns)


class _AvroColumns:
    """Converter of rows to JSON values, by the types and roles of columns.

    Attributes:
        columns: the roles of columns; missing cells are already left out.
    """

    def __init__(self, source: EventSource, fields: list[dict[str, Any]]) -> None:
        columns = source.columns
        self.columns = msgspec.structs.replace(columns, missing=())
        self._names = {columns.id, columns.label, columns.text, *columns.strings}
        self._missing = {token for token in columns.missing if token}
        self._converters = [(field["name"], _converter(field["type"])) for field in fields]

    def cells(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return the values of a row, without missing ones except the id."""
        found = {}
        for name, convert in self._converters:
            value = convert(row[name])
            if value is not None and isinstance(row[name], _NAMED) and (name in self._names or self._missing):
                text = name_text(row[name])
                value = None if text in self._missing else text if name in self._names else value
            if value is not None or name == self.columns.id:
                found[name] = value
        return found


def _converter(kind: Any) -> _Convert:
    """Return a converter of the values of an Avro type to JSON values."""
    if isinstance(kind, list):
        others = [one for one in kind if one != "null"]
        return _converter(others[0]) if len(others) == 1 else _plain
    if isinstance(kind, dict) and kind.get("type") == "fixed" and "logicalType" not in kind:
        return lambda value: None if value is None else bytes_text(value, is_fixed=True)
    return _plain


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, bytes):
        return bytes_text(value, is_fixed=False)
    return json_value(value)
