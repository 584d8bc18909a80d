"""The horizontal axis of a line chart, by number or by time, and what happened along it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from streamnb.charts.html_markup import count

_STEPS = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
    86400, 172800, 604800, 1209600, 2592000, 7776000, 31536000, 157680000, 1576800000,
)  # fmt: skip
_MOST_TICKS = 6
_DAY = 86400
_EARLIEST, _LATEST = -6.2e10, 2.5e11  # seconds for which there is a date


class Mark(NamedTuple):
    """An occurrence at a place of the axis.

    Attributes:
        at: the place.
        text: the whole text, for the tooltip.
        label: the words on the picture; default: up to the first colon of the text.
        kind: "drift", "alarm", "cleared" or "change", which sets the colour.
    """

    at: float
    text: str
    label: str = ""
    kind: str = "drift"


class Axis(NamedTuple):
    """The horizontal axis.

    Attributes:
        text: formats a value.
        ticks: the values that are written below; empty for the ends and the middle.
        ends: the values at both ends; None for the first and the last x.
        is_time: whether values are seconds since the epoch; a page may then add the reader's own time.
    """

    text: Callable[[float], str] = count
    ticks: Sequence[float] = ()
    ends: tuple[float, float] | None = None
    is_time: bool = False


BY_NUMBER = Axis()
"""Numbers, with the first, the last and the middle written."""


def has_date(seconds: float) -> bool:
    """Return True if seconds since the epoch are within the years that have a date here."""
    return _EARLIEST < seconds < _LATEST


def time_axis(first: float, last: float) -> Axis:
    """Return an axis of time in UTC with round ticks, at most six of them.

    Args:
        first: its beginning, seconds since the epoch; must have a date.
        last: its end, at least `first`.
    """
    span = last - first
    step = next((each for each in _STEPS if span / each <= _MOST_TICKS), _STEPS[-1])
    start = math.ceil(first / step) * step
    ticks = [start + n * step for n in range(int((last - start) // step) + 1)] if span else [first]
    form = "%Y-%m-%d" if step >= _DAY else "%H:%M:%S" if step < 60 else "%H:%M"
    if step < _DAY < span:
        form = f"%m-%d {form}"

    def text(seconds: float) -> str:
        shown = form if step >= _DAY or seconds in ticks else "%Y-%m-%d %H:%M:%S"
        return datetime.fromtimestamp(seconds, UTC).strftime(shown)

    return Axis(text, ticks, (first, last), is_time=True)
