"""Checks of single JSON values: each returns the value, or raises an error with its path."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date
from typing import Any, NoReturn

from streamnb.formats.json_parsing import refuse
from streamnb.formats.json_paths import Keys
from streamnb.values.time_parts import time_parts

CSV_FAULT = "csv"
_FAULTY = {
    CSV_FAULT: "a row of CSV",
    "arff": "a row of ARFF",
    "svmlight": "a line of svmlight",
    "vw": "a line of Vowpal Wabbit",
    "fasttext": "a line of fastText",
    "mail": "a mail",
}
"""Key of the object that begins the array of a malformed row -> what it is; the value is the reason."""

LONGEST_NAME = 1000  # characters of an id or a label

_TYPES = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
_SCALAR = "a string, a boolean or a number"
_DATE_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:Z|([+-])(\d\d):(\d\d))",
    re.ASCII | re.IGNORECASE,
)
_LOCAL_TIME = re.compile(
    r"\d{4}-\d\d-\d\d(?P<time>[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)?", re.ASCII | re.IGNORECASE
)
_LONGEST_FAULT = 200
_MOST_DIGITS = 18  # of a fraction; further digits change no double noticeably
_DAY = 86400
_EPOCH = date(1970, 1, 1).toordinal()


def refuse_type(value: Any, expected: str, keys: Keys) -> NoReturn:
    """Raise MalformedEvent for a value of another JSON type than expected."""
    refuse("wrong-type", keys, f"expected {expected}, found {_TYPES.get(type(value), 'a number')}")


def look_up(record: Any, keys: tuple[str, ...]) -> Any:
    """Return the value at a path; None if it, or an object on the way to it, is absent or null."""
    value = record
    for key in keys:
        if type(value) is not dict:
            _refuse_step(record, keys)
        value = value.get(key)
        if value is None:
            return None
    return value


def _refuse_step(record: Any, keys: tuple[str, ...]) -> NoReturn:
    depth = 0
    while type(record) is dict:
        record = record[keys[depth]]
        depth += 1
    if not depth and type(record) is list:
        first = record[0] if record and type(record[0]) is dict else {}
        faults = ((what, first.get(key)) for key, what in _FAULTY.items())
        found = [f" of {what}: {fault[:_LONGEST_FAULT]}" for what, fault in faults if type(fault) is str]
        refuse("wrong-type", (), f"expected an object, found an array{''.join(found[:1])}")
    refuse_type(record, "an object", keys[:depth])


def body(value: Any, keys: Keys) -> str:
    """Return the string of a text attribute; a number is rejected."""
    return value if type(value) is str else refuse_type(value, 'a string, such as "42" for 42', keys)


def name(value: Any, keys: Keys) -> str:
    """Return an id, label or other name as a string of 1 to 1000 characters, for predictions repeat it.

    A number or boolean becomes its text, as of a nominal value: 1 and 1.0 are both "1", true is "true".
    """
    found: str = value if type(value) is str else nominal(value, keys)
    if not 0 < len(found) <= LONGEST_NAME:
        refuse("out-of-range", keys, f"expected 1 to {LONGEST_NAME} characters, found {len(found)}")
    return found


def required_name(value: Any, keys: Keys) -> str:
    """Return a name that must be present."""
    return refuse("missing", keys, "expected a string, found none") if value is None else name(value, keys)


def number(value: Any, keys: Keys) -> float:
    """Return a number as a finite double."""
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is not float and type(value) is not int:
        refuse_type(value, "a number", keys)
    try:
        double = float(value)
    except OverflowError:
        double = math.inf
    if not math.isfinite(double):
        refuse("out-of-range", keys, "no finite double holds this number")
    return double


def moment(value: Any, keys: Keys) -> float:
    """Return a time in seconds since the epoch, from a number or an RFC 3339 date-time with UTC offset."""
    if type(value) is not str:
        return number(value, keys)
    found = _DATE_TIME.fullmatch(value)
    if not found:
        refuse("wrong-type", keys, f"expected a number or an RFC 3339 date-time, found {_unread_time(value)}")
    *parts, fraction, sign, hours, minutes = found.groups(default="0")
    try:
        whole = _whole_seconds(list(map(int, parts)), [int(f"{sign}1"), int(hours), int(minutes)])
    except ValueError:
        refuse("out-of-range", keys, "there is no such date or time")
    digits = fraction[:_MOST_DIGITS]
    scale: int = 10 ** len(digits)
    return (whole * scale + int(digits)) / scale  # of integers: rounded once


def _unread_time(value: str) -> str:
    local = _LOCAL_TIME.fullmatch(value)
    if local is None:
        return "a string"
    if local["time"] is None:
        return "a date without a time"
    return "a date and time without its offset from UTC, such as Z or +02:00"


def _whole_seconds(parts: list[int], offset: list[int]) -> int:
    """Return the seconds from the epoch to a date and time with UTC offset. Raises ValueError if invalid.

    A leap second, which ends a month in UTC, is the second after it, as POSIX counts. Python's own parser
    accepts no leap second, and differs between versions otherwise.
    """
    *day, hour, minute, second = parts
    sign, hours, minutes = offset
    if max(hour, hours) > 23 or max(minute, minutes) > 59:
        raise ValueError(parts)
    days = date(*day).toordinal() - _EPOCH
    whole = days * _DAY + (hour - sign * hours) * 3600 + (minute - sign * minutes) * 60 + second
    if second > 59 and (second > 60 or whole % _DAY or date.fromordinal(whole // _DAY + _EPOCH).day > 1):
        raise ValueError(parts)
    return whole


def time_part(value: Any, part: str, now: float | None, keys: Keys) -> str | float | None:
    """Return a part of a time; None for an age without `now`."""
    found = time_parts(value)
    if found is None:
        refuse(
            "wrong-type", keys, "expected a time, such as 2026-01-31T23:05:00Z, or seconds since the epoch"
        )
    return found.part(part, now)


def nominal(value: Any, keys: Keys) -> str:
    """Return a string, boolean or number as text: true is "true"; 3 and 3.0 are both "3"."""
    if type(value) is str:
        return value
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is dict or type(value) is list:
        refuse_type(value, _SCALAR, keys)
    return str(int(value)) if number(value, keys).is_integer() else repr(value)


def undeclared(value: Any, keys: Keys) -> str | float | bool:
    """Return a string or boolean as it is, a number as a double."""
    if type(value) is str or type(value) is bool:
        return value
    if type(value) is dict:
        refuse(
            "wrong-type", keys, f"expected {_SCALAR}, found an object; `streamnb init` declares its values"
        )
    if type(value) is list:
        refuse_type(value, _SCALAR, keys)
    return number(value, keys)


Reading = Callable[[Any, Keys], str | float]
READERS: dict[str, Reading] = {"text": body, "nominal": nominal, "continuous": number}
"""Kind of a declared attribute -> its reader."""
