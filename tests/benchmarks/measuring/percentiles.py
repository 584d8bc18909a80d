"""The arithmetic of a measurement: when events are due, how long each step took, percentiles.

The load is an open loop: event i is due at start + i / rate, whether or not the system keeps up, and every
latency counts from there. A producer that waits for a slow system is late, and its lateness counts: leaving
it out (coordinated omission) would hide just the events that had to wait.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

_CLOCKS_AGREE = 0.005
"""Seconds by which a step may seem to end before it began: a broker cuts its stamps to milliseconds."""


class Schedule(NamedTuple):
    """Evenly spaced events.

    Attributes:
        start: when event 0 is due, seconds since the epoch.
        rate: events a second.
        events: how many.
    """

    start: float
    rate: float
    events: int

    def at(self, i: int) -> float:
        """When event i is due."""
        return self.start + i / self.rate

    def due(self, done: int, now: float) -> int:
        """How many events are due by `now`, of which `done` are known to be."""
        while done < self.events and self.at(done) <= now:
            done += 1
        return done


class Passage(NamedTuple):
    """One event's way, in seconds since the epoch; the order is that of time.

    Attributes:
        due: when it was to be produced.
        sent: when the producer handed it over.
        appended: the log's stamp of the event.
        taken: the journalled time of its commit, read before it was predicted.
        written: the log's stamp of its prediction.
        visible: when a read_committed reader had the prediction.
    """

    due: float
    sent: float
    appended: float
    taken: float
    written: float
    visible: float


class Figures(NamedTuple):
    """What is told of many durations, in seconds."""

    p50: float
    p90: float
    p99: float
    max: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Figures:
        """Of at least one value."""
        ordered = sorted(values)
        return cls(*(percentile(ordered, percent) for percent in (50, 90, 99, 100)))


STEPS: tuple[tuple[str, str], ...] = (
    ("due", "sent"),
    ("sent", "appended"),
    ("appended", "taken"),
    ("taken", "written"),
    ("written", "visible"),
)
"""The steps of a passage, by the names of its times."""

_BY_ONE_CLOCK = (("due", "sent"), ("sent", "taken"), ("taken", "visible"))
"""The steps that need no stamp of the log."""


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The least of the values that at least `percent` % of them do not exceed (nearest rank)."""
    return ordered[max(0, -(-percent * len(ordered) // 100) - 1)]


def latencies(passages: Iterable[Passage]) -> list[float]:
    """From due to visible."""
    return [passage.visible - passage.due for passage in passages]


def breakdown(passages: Sequence[Passage]) -> Mapping[str, Figures]:
    """Each step's figures, as ``due -> sent``.

    Where the log's stamps contradict our clock, as on a machine with another time, the steps that rest on
    them are joined with their neighbours, which do not.
    """
    agree = all(_duration(passage, step) >= -_CLOCKS_AGREE for passage in passages for step in STEPS)
    return {
        " -> ".join(step): Figures.of(_duration(passage, step) for passage in passages)
        for step in (STEPS if agree else _BY_ONE_CLOCK)
    }


def ratio(ours: Sequence[Figures], theirs: Sequence[Figures]) -> tuple[float, float]:
    """How many times theirs our p50 and p99 are: the medians over turns that were taken in pairs."""
    pairs = list(zip(ours, theirs, strict=True))
    return (
        statistics.median(mine.p50 / other.p50 for mine, other in pairs),
        statistics.median(mine.p99 / other.p99 for mine, other in pairs),
    )


def _duration(passage: Passage, step: tuple[str, str]) -> float:
    begin, end = step
    return float(getattr(passage, end) - getattr(passage, begin))
