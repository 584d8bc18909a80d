"""Values that JSON has no type for (times, durations, decimals, bytes), as the JSON values of an event.

Parquet files and data frames both read such values by these rules, so that one table has the same attributes
by either way. docs/formats.md has the rules as a table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np

from streamnb.values.nominal_values import value_text

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""Unit of a time or a duration -> units per second."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400
_NS = 10**9
_HEX = "\\x"
_BETWEEN = (
    b"\x00\x01\x02"  # rare, and no end of it is its beginning: it occurs within a value, or between two
)


def date_time(count: int, per_second: int) -> str:
    """Return a time since the epoch as an RFC 3339 date-time in UTC.

    A year beyond 1 to 9999, which RFC 3339 cannot write, has a sign, as in ISO 8601 (``+12026-01-02T...``).

    Args:
        count: seconds, or parts of seconds, since 1970-01-01T00:00:00Z.
        per_second: how many parts a second has, a power of ten up to 10**9.
    """
    seconds, parts = divmod(count, per_second)
    try:
        whole = (_EPOCH + timedelta(seconds=seconds)).isoformat()[:-6]
    except OverflowError:
        whole = str(np.datetime64(seconds, "s"))
        whole = whole if whole.startswith("-") else f"+{whole}"
    return f"{whole}{_fraction(parts * (_NS // per_second))}+00:00"


def time_of_day(count: int, per_second: int) -> str:
    """Return a time since midnight as ``hh:mm:ss``, with a fraction if there is one."""
    seconds, parts = divmod(count, per_second)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour:02}:{minute:02}:{second:02}{_fraction(parts * (_NS // per_second))}"


def bytes_text(raw: bytes, *, is_fixed: bool) -> str:
    r"""Return bytes as text; different bytes of one column become different texts.

    With `is_fixed`, every value of the column has the same length, as hashes and UUIDs have, and becomes
    hexadecimal digits. Other bytes are decoded as UTF-8. Bytes that are not UTF-8, or begin with ``\x``,
    become ``\x`` and hexadecimal digits.
    """
    if is_fixed:
        return raw.hex()
    text = raw.decode(errors="ignore")
    return text if text.encode() == raw and text[:2] != _HEX else _HEX + raw.hex()


def bytes_texts(values: Sequence[bytes]) -> list[str]:
    """Return the texts of many bytes, as `bytes_text` without `is_fixed`."""
    texts = _BETWEEN.join(values).decode(errors="ignore").split(_BETWEEN.decode())
    if len(texts) != len(values):  # a value holds the separator, or there is none
        texts = [raw.decode(errors="ignore") for raw in values]
    return [
        text if text.encode() == raw and text[:2] != _HEX else _HEX + raw.hex()
        for text, raw in zip(texts, values, strict=True)
    ]


def decimal_number(value: Decimal) -> int | float:
    """Return a finite decimal as a number: an int with all digits if it is whole, else the nearest double."""
    return int(value) if value == value.to_integral_value() else float(value)


def name_text(value: Any) -> str:
    """Return the text of an id or a label: 1, 1.0 and decimal 1.00 are "1", true is "true".

    A decimal keeps all its digits. Raises as `value_text` for anything but strings, booleans and numbers.
    """
    if not isinstance(value, Decimal):
        return value_text(value)
    if value == value.to_integral_value():
        return str(int(value))
    nearest = float(value)
    return repr(nearest) if Decimal(repr(nearest)) == value else f"{value.normalize():f}"


def json_value(value: Any) -> Any:
    """Return a value of Python or pandas that is not missing as the JSON value that an event holds.

    Values that JSON has are returned as they are, and so are values that no event can hold. A decimal that is
    not finite is None.
    """
    for kind, convert in _CONVERTERS:
        if isinstance(value, kind):
            return convert(value)
    return value


def _of_numpy(value: Any) -> Any:
    unit, step = np.datetime_data(value.dtype)
    if unit not in PER_SECOND:  # longer than a second, or shorter than a nanosecond
        unit, step = ("ns" if unit in {"ps", "fs", "as"} else "s"), 1
        value = value.astype(f"{value.dtype.char}8[{unit}]")
    count, per_second = int(value.astype(np.int64)) * step, PER_SECOND[unit]
    return date_time(count, per_second) if isinstance(value, np.datetime64) else count / per_second


def _since_midnight(value: datetime | time) -> int:
    # A time of pandas has more digits than one of Python.
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * _NS + value.microsecond * 1000 + int(getattr(value, "nanosecond", 0))


def _offset(value: datetime) -> int:
    # A time without a zone is in UTC.
    offset = value.utcoffset()
    return 0 if offset is None else _nanoseconds(offset)


def _nanoseconds(duration: timedelta) -> int:
    # A duration of pandas has more digits than one of Python.
    whole = (duration.days * _DAY + duration.seconds) * _NS + duration.microseconds * 1000
    return whole + int(getattr(duration, "nanoseconds", 0))


def _fraction(nanoseconds: int) -> str:
    # No digits, six, or nine.
    if not nanoseconds:
        return ""
    return f".{nanoseconds:09}" if nanoseconds % 1000 else f".{nanoseconds // 1000:06}"


def _of_datetime(value: datetime) -> str:
    if type(value) is datetime and value.tzinfo is UTC:  # as below, at once
        return value.isoformat()
    days = value.toordinal() - _EPOCH.toordinal()
    return date_time(days * _DAY * _NS + _since_midnight(value) - _offset(value), _NS)


_CONVERTERS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (datetime, _of_datetime),  # which is a date, too
    (date, lambda day: date_time((day.toordinal() - _EPOCH.toordinal()) * _DAY, 1)),
    (time, lambda moment: time_of_day(_since_midnight(moment), _NS)),
    (timedelta, lambda duration: _nanoseconds(duration) / _NS),
    (Decimal, lambda number: decimal_number(number) if number.is_finite() else None),
    (bytes, lambda raw: bytes_text(raw, is_fixed=False)),
    (UUID, str),
    (np.datetime64 | np.timedelta64, _of_numpy),
)
"""Python types -> conversions of their values to JSON values."""
