"""Text from data, as a terminal may have it; and how events are counted for people."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from streamnb.values.parameter_checks import pluralize

if TYPE_CHECKING:
    from streamnb.events import MetricsReport


def printable(text: object) -> str:
    r"""The text in one line; what is no letter, mark or space is escaped as Python does, an ESC as \x1b.

    Characters that steer a terminal, end a line or turn the direction of writing would let an event say what
    the program did not. They are what `str.isprintable` refuses: Unicode's Other and Separator, but for the
    space.
    """
    told = str(text)
    if told.isprintable():
        return told
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in told)


def warn(text: object) -> None:
    """Print a warning on standard error, in one line."""
    sys.stderr.write(f"streamnb: warning: {printable(text)}\n")


def left_out(events: Mapping[str, int]) -> str:
    """How many events were left out, and why: one line for each reason that there was, each ended."""
    return "".join(f"left out: {pluralize(n, 'event')} {why}\n" for why, n in events.items() if n)


def counted(report: MetricsReport, records: int) -> str:
    """How many events there were; where labels are records, too, also how many there are."""
    from streamnb.formats.codec import IN_EVENT  # noqa: PLC0415  --help needs none of it

    if report.verdicts is None:
        return pluralize(records, "event")
    events, has_labels = report.verdicts.served, report.verdicts.sources.keys() - {IN_EVENT}
    among = f" of {pluralize(records, 'record')}" if events != records else ""
    return pluralize(events, "event") + among + ", labels among them" * bool(among and has_labels)


def duration(seconds: float) -> str:
    """A time in the largest unit that it has two of."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
