from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb.values.time_parts import HOURS, MONTHS, WEEKDAYS, time_attributes, time_parts

MOMENTS = st.datetimes(
    datetime(1901, 1, 1),  # noqa: DTZ001  hypothesis adds the zone
    datetime(2099, 1, 1),  # noqa: DTZ001
    timezones=st.builds(lambda m: timezone(timedelta(minutes=m)), st.integers(-14 * 60, 14 * 60)),
)


@given(MOMENTS)
def test_a_time_is_read_in_every_notation(moment):
    moment = moment.replace(microsecond=0)
    utc = moment.astimezone(UTC)
    expected = (utc.timestamp(), HOURS[utc.hour], WEEKDAYS[utc.weekday()], MONTHS[utc.month - 1])
    clock = utc.strftime("%H:%M:%S")
    written = [
        moment.isoformat(),
        moment.isoformat(" "),
        moment.isoformat() + "",
        utc.isoformat().replace("+00:00", "Z"),
        utc.isoformat().replace("+00:00", ""),
        format_datetime(moment),
        f"{utc.day:02}.{utc.month:02}.{utc.year} {clock}",
        f"{utc.year}/{utc.month}/{utc.day} {clock}",
        f"{utc.day} {MONTHS[utc.month - 1]} {utc.year} {clock}",
        f"{MONTHS[utc.month - 1][:3].title()} {utc.day}, {utc.year} {clock}",
        f"{utc:%Y%m%d}T{clock}Z",
        utc.timestamp(),
        int(utc.timestamp()),
        utc,
        utc.replace(tzinfo=None),
        moment,
    ]
    seconds = utc.timestamp()
    if abs(seconds) >= 2e8:  # smaller numbers of milliseconds would be seconds
        written += [seconds * 1000, seconds * 10**6, str(int(seconds) * 1000)]
    assert {repr(one): time_parts(one) for one in written} == {repr(one): expected for one in written}
    assert time_parts(utc.date().isoformat())[2:] == expected[2:]


@pytest.mark.parametrize(
    "value",
    ["", "soon", "1/2/2026", "1/31/2026", "2026-13-01", "2026-02-30", "2026-01-01 25:00", "31 Ju 2026", "2026-1",
     "2026-01-01T00:00+99:99", "23:05", None, True, [], {}, float("nan"), float("inf"), 10**400, "9" * 21, "1.2.3"],
)  # fmt: skip
def test_what_is_no_time_is_none(value):
    assert time_parts(value) is None


def test_the_age_is_in_days_before_now():
    parts = time_parts("2026-01-31")
    assert parts.part("age", parts.seconds + 86_400 * 1.5) == 1.5
    assert parts.part("age", None) is None
    assert parts.part("weekday", None) == "saturday"


def test_a_leap_second_is_the_second_after_it():
    assert time_parts("2016-12-31T23:59:60Z") == time_parts("2017-01-01T00:00:00Z")


def test_attributes_of_a_time_are_those_of_the_service():
    assert time_attributes("t", None) == {}
    assert time_attributes("t", 0) == {"t.hour": "0", "t.weekday": "thursday", "t.month": "january"}
    assert time_attributes("t", 0, ["age"]) == {}
    assert time_attributes("t", 0, ["age"], now=0) == {"t.age": 0.0}
    for value, parts, now in (("soon", ["hour"], None), (0, ["year"], None), (0, ["age"], "soon")):
        with pytest.raises(ValueError, match=r"expected"):
            time_attributes("t", value, parts, now)
