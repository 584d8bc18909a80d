"""Values of Kafka Connect and Debezium whose meaning is in their schema: dates as numbers, decimals as bytes.

Connect writes a value either with its schema, as ``{"schema": ..., "payload": ...}``, or by Avro, where the
name is the property ``connect.name``. Without a schema the number stays a number.

Source: Debezium 3.6, "Data types" of the PostgreSQL connector; `org.apache.kafka.connect.data`.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import date, time
from decimal import Decimal
from functools import partial
from typing import Any

from streamnb.values.json_conversion import (
    PER_SECOND,
    bytes_text,
    date_time,
    decimal_number,
    json_value,
    time_of_day,
)

Convert = Callable[[Any], Any]
_DAY = 86_400
_DAYS = range(-719_162, 2_932_897)
"""Days since 1970 from year 1 to 9999. PostgreSQL's infinite dates arrive as days beyond, and are missing."""
_ENDS = {(1 << 63) - 1, -(1 << 63)}
"""Infinite times in nanoseconds, of which 64 bits hold the years 1677 to 2262 alone."""
_DEBEZIUM, _CONNECT = "io.debezium", "org.apache.kafka.connect.data"


def _date(days: int) -> str | None:
    return date_time(days * _DAY, 1) if days in _DAYS else None


def _moment(unit: str, count: int) -> str | None:
    per_second = PER_SECOND[unit]
    return (
        date_time(count, per_second) if count // per_second // _DAY in _DAYS and count not in _ENDS else None
    )


def _zoned(text: str) -> str | None:
    return None if text.endswith("infinity") or text[0] in "+-" else text


def _iso_date(text: str) -> str | None:
    return None if text[0] in "+-" else json_value(date.fromisoformat(text.removesuffix("Z")))


def _iso_time(text: str) -> str:
    return str(json_value(time.fromisoformat(text.removesuffix("Z"))))


def _time(unit: str, count: int) -> str:
    return time_of_day(count, PER_SECOND[unit])


def _decimal(parameters: Mapping[str, Any], raw: Any) -> Any:
    if isinstance(raw, str | bytes):
        raw = Decimal(_unscaled(raw)).scaleb(-int(parameters.get("scale", 0)))
    return decimal_number(raw) if isinstance(raw, Decimal) and raw.is_finite() else None


def _scaled(value: Any) -> Any:
    return _decimal({"scale": value["scale"]}, value["value"])


def _unscaled(raw: str | bytes) -> int:
    return int.from_bytes(b64decode(raw) if isinstance(raw, str) else raw, "big", signed=True)


def _bytes(raw: Any) -> str:
    return bytes_text(b64decode(raw) if isinstance(raw, str) else raw, is_fixed=False)


_CONVERTERS: Mapping[str, Convert] = {
    f"{_CONNECT}.Date": _date,
    f"{_CONNECT}.Time": partial(_time, "ms"),
    f"{_CONNECT}.Timestamp": partial(_moment, "ms"),
    f"{_DEBEZIUM}.time.Date": _date,
    f"{_DEBEZIUM}.time.Time": partial(_time, "ms"),
    f"{_DEBEZIUM}.time.MicroTime": partial(_time, "us"),
    f"{_DEBEZIUM}.time.NanoTime": partial(_time, "ns"),
    f"{_DEBEZIUM}.time.Timestamp": partial(_moment, "ms"),
    f"{_DEBEZIUM}.time.MicroTimestamp": partial(_moment, "us"),
    f"{_DEBEZIUM}.time.NanoTimestamp": partial(_moment, "ns"),
    f"{_DEBEZIUM}.time.ZonedTimestamp": _zoned,
    f"{_DEBEZIUM}.time.IsoDate": _iso_date,
    f"{_DEBEZIUM}.time.IsoTime": _iso_time,
    f"{_DEBEZIUM}.time.IsoTimestamp": _zoned,
    f"{_DEBEZIUM}.time.MicroDuration": lambda count: count / PER_SECOND["us"],
    f"{_DEBEZIUM}.data.VariableScaleDecimal": _scaled,
    "int-date": _date,
    "int-time-millis": partial(_time, "ms"),
    "long-time-micros": partial(_time, "us"),
    **{
        f"long-{name}-{unit}": partial(_moment, short)
        for name in ("timestamp", "local-timestamp")
        for unit, short in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    },
}
"""Name of a schema, or base and logical type of Avro -> conversion of its values to JSON values."""


def times_as_numbers(kind: Any) -> Any:
    """Return an Avro schema whose dates and times are numbers, with a name for `named_converter`.

    A reader that makes dates fails for the whole record if one is outside the years 1 to 9999. Types within
    arrays, maps and unions of several types stay as they are, because their values are not converted by name.
    """
    if isinstance(kind, list):
        return kind if len([one for one in kind if one != "null"]) > 1 else list(map(times_as_numbers, kind))
    if not isinstance(kind, dict):
        return kind
    found = {name: times_as_numbers(value) if name == "type" else value for name, value in kind.items()}
    if "fields" in found:
        found["fields"] = list(map(times_as_numbers, found["fields"]))
    name = f"{found.get('type')}-{found.get('logicalType')}"
    if name in _CONVERTERS:
        del found["logicalType"]
        found.setdefault("connect.name", name)
    return found


def named_converter(name: object, parameters: Mapping[str, Any]) -> Convert | None:
    """Return the conversion of values whose schema has this name, or None for a name without a meaning here.

    A value that is converted already, such as a decimal of Avro, stays as it is. A date outside the years 1
    to 9999 is None, as are infinite times: PostgreSQL's infinite dates arrive as such days.
    """
    if name == f"{_CONNECT}.Decimal":
        return partial(_decimal, parameters)
    convert = _CONVERTERS.get(str(name))
    if convert is None:
        return None
    return lambda value: convert(value) if type(value) in {int, str, dict} else json_value(value)


def struct_converter(schema: Mapping[str, Any]) -> Convert | None:
    """Return the conversion of payloads of a Connect schema in JSON; None if they stay as they are.

    Args:
        schema: such as ``{"type": "struct", "fields": [{"field": "at", "type": "int64", "name": ...}]}``.
    """
    if (named := named_converter(schema.get("name"), schema.get("parameters") or {})) is not None:
        return named
    if schema.get("type") == "bytes":
        return _bytes
    if schema.get("type") in {"float", "double"}:  # NaN and infinities are texts
        return lambda value: None if isinstance(value, str) else value
    if schema.get("type") != "struct":
        return None
    found = {
        field["field"]: convert
        for field in schema.get("fields", ())
        if (convert := struct_converter(field)) is not None
    }
    return partial(convert_fields, found) if found else None


def convert_fields(converters: Mapping[str, Convert], row: Any) -> Any:
    """Return a row with the values of some fields converted; None stays None."""
    if not isinstance(row, Mapping):
        return row
    return {
        name: convert(value) if value is not None and (convert := converters.get(name)) else value
        for name, value in row.items()
    }
