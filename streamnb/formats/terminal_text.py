"""Data as text for a terminal, and counts of events for people."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from streamnb.values.message_names import Level, level_of
from streamnb.values.messages import Message
from streamnb.values.parameter_checks import pluralize

if TYPE_CHECKING:
    from streamnb.events import MetricsReport

LOGGER = logging.getLogger("streamnb")
"""The parent of one logger for each event name."""
LOGGER.addHandler(logging.NullHandler())  # a library writes nothing by itself
_LEVELS = {Level.INFO: logging.INFO, Level.WARNING: logging.WARNING, Level.ERROR: logging.ERROR}


def printable(text: object) -> str:
    r"""Return the text in one line, with control characters escaped as Python does, ESC as \x1b.

    Characters that control a terminal, end a line or change the direction of writing would let an event forge
    the program's output. They are what `str.isprintable` rejects: Unicode's Other and Separator, except the
    space.
    """
    line = str(text)
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def emit(message: Message, prefix: str = "", stacklevel: int = 2) -> None:
    """Log a message by the logger `streamnb.EVENT`. All messages of the package come through here.

    Args:
        message: goes into the record with its level, and with `event` and `fields` as attributes.
        prefix: begins the sentence in plain format.
        stacklevel: the caller to which the record belongs, as `logging` counts.
    """
    level = _LEVELS[level_of(message.event)]
    extra = {"event": message.event, "fields": message.fields, "prefix": prefix}
    shown = message.reworded(printable(message))
    LOGGER.getChild(message.event).log(level, shown, extra=extra, stacklevel=stacklevel)


def note(message: Message) -> None:
    """Log a message under the name of the program."""
    emit(message, "streamnb: ", 3)


def warn(message: Message) -> None:
    """Log a message under the name of the program, as a warning."""
    emit(message, "streamnb: warning: ", 3)


def left_out(events: Mapping[str, int]) -> str:
    """Return how many events were left out, and why, as one line for each reason."""
    return "".join(f"left out: {pluralize(n, 'event')} {why}\n" for why, n in events.items() if n)


def counted(report: MetricsReport, records: int) -> str:
    """Return the number of events, and of records if labels are records, too."""
    from streamnb.formats.codec import IN_EVENT  # noqa: PLC0415  --help needs none of it

    if report.verdicts is None:
        return pluralize(records, "event")
    events, has_labels = report.verdicts.served, report.verdicts.sources.keys() - {IN_EVENT}
    among = f" of {pluralize(records, 'record')}" if events != records else ""
    return pluralize(events, "event") + among + ", labels among them" * bool(among and has_labels)


def duration(seconds: float) -> str:
    """Return a time in the largest unit of which it has at least two."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
