"""Times in common notations, and what a classifier can learn of one: hour, weekday, month and age.

A time without a zone is in UTC, and one with an offset is converted to UTC, as are all parts. These notations
are read:

    2026-01-31T23:05:00.5+02:00, 2026-01-31 23:05, 2026-01-31, 20260131, 2026/01/31    ISO 8601, nearly
    31.01.2026 23:05                                                     day.month.year
    31 Jan 2026, 31-Jan-2026, Jan 31, 2026, Sat, 31 Jan 2026 23:05:00 +0000   with the English month
    1769900700, 1769900700123                                            seconds, milliseconds since 1970

Dates such as 1/2/2026 are not read: the month is either number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Any, NamedTuple

from streamnb.values.parameter_checks import brief

HOURS = tuple(map(str, range(24)))
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS = tuple(
    "january february march april may june july august september october november december".split()
)

PARTS = {"hour": "nominal", "weekday": "nominal", "month": "nominal", "age": "continuous"}
"""Part of a time -> kind of the attribute."""

_CLOCK = r"(?:[T ,]\ ?(\d\d?):(\d\d)(?::(\d\d)(?:[.,]\d+)?)?)?\ ?(Z|UTC|GMT|[+-]\d\d:?\d\d)?"
_DAY = r"(?:[A-Za-z]{3,9},?\ )?"
_DD, _NAME = r"(\d\d?)(?:st|nd|rd|th)?", r"([A-Za-z]{3,9})\.?"
_FORMS = (
    ("ymd", re.compile(rf"(\d{{4}})([-/.])(\d\d?)\2(\d\d?){_CLOCK}", re.IGNORECASE)),
    ("compact", re.compile(rf"((?:19|20)\d\d)()(\d\d)(\d\d){_CLOCK}", re.IGNORECASE)),
    ("dmy", re.compile(rf"(\d\d?)(\.)(\d\d?)\.(\d{{4}}){_CLOCK}", re.IGNORECASE)),
    ("dby", re.compile(rf"{_DAY}{_DD}([- ]){_NAME},?\2(\d{{4}}){_CLOCK}", re.IGNORECASE)),
    ("bdy", re.compile(rf"{_DAY}{_NAME}( ){_DD},?\ (\d{{4}}){_CLOCK}", re.IGNORECASE)),
)
_NUMBER = re.compile(r"-?\d{1,20}(?:\.\d+)?")
_MILLI, _MICRO, _NANO = 1e11, 1e14, 1e17  # from here on a number has a smaller unit than seconds
_SECONDS_OF_DAY = 86_400.0
_FIRST, _END = -62_135_596_800.0, 253_402_300_800.0  # the years 1 to 9999


class TimeParts(NamedTuple):
    """A time in UTC, by its parts.

    Attributes:
        seconds: since 1970-01-01T00:00:00Z.
        hour, weekday, month: of it.
    """

    seconds: float
    hour: str
    weekday: str
    month: str

    def part(self, name: str, now: float | None) -> str | float | None:
        """Return a part; the age, in days before `now` (seconds since 1970), is None if `now` is."""
        if name == "age":
            return None if now is None else (now - self.seconds) / _SECONDS_OF_DAY
        found: str = getattr(self, name)
        return found


def time_attributes(
    name: str, value: Any, parts: Iterable[str] = ("hour", "weekday", "month"), now: Any = None
) -> dict[str, str | float]:
    """Return the attributes of a time, as ``kind = "time"`` makes them in the service.

    Args:
        name: the name before each part's.
        value: the time, see `time_parts`; None has no attributes.
        parts: keys of `PARTS`.
        now: the time from which an age counts; None leaves it out.

    Raises:
        ValueError: an unknown part, or a value or `now` that is not a time.

    Examples:
        >>> time_attributes("created", "2026-01-31 23:05", ("hour", "age"), now="2026-02-02 11:05")
        {'created.hour': '23', 'created.age': 1.5}
    """
    parts = tuple(parts)
    for part in parts:
        if part not in PARTS:
            raise ValueError(f"parts: expected some of {', '.join(PARTS)}, not {part!r}")
    if value is None:
        return {}
    found, reference = time_parts(value), None if now is None else time_parts(now)
    if found is None or (reference is None and now is not None):
        raise ValueError(
            f"attribute {name!r}: expected a time, not {brief(repr(value if found is None else now))}"
        )
    values = {
        f"{name}.{part}": found.part(part, None if reference is None else reference.seconds) for part in parts
    }
    return {key: one for key, one in values.items() if one is not None}


def time_parts(value: Any) -> TimeParts | None:
    """Return the parts of a time: a string, number or datetime; None for anything else.

    Examples:
        >>> time_parts("2026-01-31T23:05:00+02:00")[1:]
        ('21', 'saturday', 'january')
        >>> time_parts("31.1.2026") == time_parts(1769817600) == time_parts("Jan 31, 2026")
        True
        >>> time_parts("1/2/2026") is time_parts("soon") is None
        True
    """
    if isinstance(value, str):
        moment = _moment_of(value.strip())
        if moment is not None:
            return _parts(moment)
        if not _NUMBER.fullmatch(value.strip()):
            return None
        value = float(value)
    if isinstance(value, date):
        moment = value if isinstance(value, datetime) else datetime.combine(value, time())
        return _parts(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return _of_number(float(value) if abs(value) < _END * 1e9 else math.inf)


def _of_number(number: float) -> TimeParts | None:
    for least, unit in ((_NANO, 1e9), (_MICRO, 1e6), (_MILLI, 1e3)):
        if abs(number) >= least:
            number /= unit
            break
    if not _FIRST <= number < _END:
        return None
    return _parts(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=number))


def _parts(moment: datetime) -> TimeParts | None:
    try:
        utc = moment.astimezone(UTC)
    except OverflowError:
        return None
    return TimeParts(utc.timestamp(), HOURS[utc.hour], WEEKDAYS[utc.weekday()], MONTHS[utc.month - 1])


def _moment_of(text: str) -> datetime | None:
    for order, form in _FORMS:
        if (found := form.fullmatch(text)) is not None:
            first, _, second, third, *clock, zone = found.groups()
            parts = {
                "dmy": (third, second, first),
                "dby": (third, second, first),
                "bdy": (third, first, second),
            }
            return _built(parts.get(order, (first, second, third)), clock, zone)
    return None


def _built(parts: Sequence[str], clock: Sequence[str | None], zone: str | None) -> datetime | None:
    year, month, day = parts
    if not month.isdigit():
        names = [n for n, name in enumerate(MONTHS, 1) if name.startswith(month.lower())]
        if len(names) != 1:
            return None
        month = str(names[0])
    hour, minute, second = (int(one or 0) for one in clock)
    offset = timedelta()
    if zone and zone[0] in "+-":
        digits = zone[1:].replace(":", "")
        offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:])) * (-1 if zone[0] == "-" else 1)
    try:
        leap = timedelta(seconds=max(0, second - 59))
        found = datetime(
            int(year), int(month), int(day), hour, minute, min(second, 59), tzinfo=timezone(offset)
        )
        return found + leap if second <= 60 else None
    except (ValueError, OverflowError):
        return None
