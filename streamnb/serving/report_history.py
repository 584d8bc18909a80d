"""Reports over any range of time, thinned so that a view takes as long after a year as after an hour."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from streamnb.engine.ports import Log, Partition, Record
from streamnb.errors import OutOfRange
from streamnb.events import MetricsReport

RANGES: dict[str, float | None] = {"15m": 900.0, "1h": 3600.0, "24h": 86_400.0, "7d": 604_800.0, "all": None}
"""Name of a range -> its seconds; None has no limit."""
_POINTS = 400  # of a range; the range without a limit has up to twice as many
_WIDEST = 1e12  # seconds; only times that no clock has come so far
# A client of Kafka fetches up to 4 MB for each read at another offset.
_SAMPLED = 100  # records that are read of each range, in the part of the topic that is not followed


class ClassTally(NamedTuple):
    """Numbers of scored events by class, from the first event on.

    Attributes:
        labels: the classes.
        counts: of shape (3, classes): events of the class, predictions of it, and right ones, int64.
    """

    labels: tuple[str, ...]
    counts: npt.NDArray[np.int64]


class ReportPoint(NamedTuple):
    """A report without what grows with the square of the number of classes."""

    report: MetricsReport
    classes: ClassTally | None


class SelectedReports(NamedTuple):
    """Reports of a range.

    Attributes:
        points: in the order of events.
        n_turned_back: reports that are left out because a later one has an earlier time.
    """

    points: list[ReportPoint]
    n_turned_back: int


class ReportHistory:
    """The newest report of each interval, for ranges with intervals of different lengths.

    A range of limited length has 400 intervals. The range without a limit doubles the length of its intervals
    when it has 800 of them. So memory and the time of a view are bounded, whatever the number of reports.

    Invariant: the points of a range have rising numbers of events.
    """

    def __init__(self) -> None:
        self._tiers = {name: _Tier(seconds) for name, seconds in RANGES.items()}
        self._labels: tuple[str, ...] = ()  # shared by points, which mostly have the same

    def add(self, report: MetricsReport) -> None:
        """Add the newest report, and drop reports of more events, which a rollback has undone."""
        point = self._point(report)
        for tier in self._tiers.values():
            tier.add(point)

    def add_earlier(self, reports: Sequence[MetricsReport]) -> None:
        """Add reports, in any order, that are older than all that were added."""
        points = [self._point(one) for one in sorted(reports, key=lambda one: one.events)]
        for tier in self._tiers.values():
            tier.add_earlier(points)

    def select(self, name: str, now: float) -> SelectedReports:
        """Return the reports of a range that ends now, with rising events and times."""
        points, seconds = self._tiers[name].points, RANGES[name]
        kept: list[ReportPoint] = []
        for one in reversed(points):
            if not kept or one.report.ts <= kept[-1].report.ts:
                kept.append(one)
        n_turned_back = len(points) - len(kept)
        kept = [one for one in reversed(kept) if seconds is None or one.report.ts >= now - seconds]
        return SelectedReports(kept, n_turned_back)

    def all_points(self, name: str) -> list[ReportPoint]:
        """Return the points of a range, whatever their times."""
        return list(self._tiers[name].points)

    def _point(self, report: MetricsReport) -> ReportPoint:
        if report.labels != self._labels:
            self._labels = report.labels
        slim = replace(
            report,
            labels=(),
            confusion=(),
            class_rates=(),
            verdicts=None,
            cumulative=replace(report.cumulative, reliability=()),
            window=replace(report.window, reliability=()),
        )
        return ReportPoint(slim, _tally(report, self._labels))


def _tally(report: MetricsReport, labels: tuple[str, ...]) -> ClassTally | None:
    if not labels:
        return None
    confusion = np.array(report.confusion, dtype=np.int64)
    square = confusion[:, :-1]
    return ClassTally(labels, np.stack([confusion.sum(1), square.sum(0), square.diagonal()]))


class _Tier:
    """Points of one range, one for each interval."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._width = 1.0 if seconds is None else seconds / _POINTS
        self.points: deque[ReportPoint] = deque()

    def add(self, point: ReportPoint) -> None:
        points = self.points
        while points and points[-1].report.events >= point.report.events:
            points.pop()
        if len(points) > 1 and self._interval(points[-1]) == self._interval(point):
            points.pop()
        points.append(point)
        if self._seconds is not None:
            while points[0].report.ts < point.report.ts - self._seconds:
                points.popleft()
        self._thin()

    def add_earlier(self, points: Sequence[ReportPoint]) -> None:
        newer = list(self.points)
        end = newer[0].report.events if newer else None
        self.points = deque()
        for one in points:
            if end is None or one.report.events < end:
                self.add(one)
        for one in newer:
            self.add(one)

    def _interval(self, point: ReportPoint) -> float:
        return point.report.ts // self._width

    def _thin(self) -> None:
        while len(self.points) > 2 * _POINTS:  # in a limited range, only if a clock jumps
            if self._seconds is not None or self._width > _WIDEST:
                self.points.popleft()
                continue
            self._width *= 2.0
            before, self.points = list(self.points), deque()
            for one in before:
                if len(self.points) > 1 and self._interval(self.points[-1]) == self._interval(one):
                    self.points.pop()
                self.points.append(one)


def sampled_records(log: Log, partition: Partition, end: int, now: float) -> Iterator[Record | None]:
    """Yield records before an offset that represent each range, and None between reads.

    It reads about 20 records to find where a range begins, and 100 records of it, so it takes as long for ten
    thousand records as for ten million.

    Args:
        log: the log.
        partition: a partition of the topic of metrics.
        end: the offset before which records are read.
        now: the time at which ranges end, in the log's time.
    """
    seen: set[int] = set()
    first = log.offsets(partition)[0]
    for seconds in sorted(RANGES.values(), key=lambda each: each or float("inf")):
        low = first
        if seconds is not None:
            low = yield from offset_since(log, partition, first, end, now - seconds)
        step = max(1.0, (end - low) / _SAMPLED)
        for n in range(min(_SAMPLED, max(0, end - low))):
            offset = low + int(n * step)
            if offset not in seen:
                seen.add(offset)
                yield _one(log, partition, offset)


def offset_since(
    log: Log, partition: Partition, first: int, end: int, ts: float
) -> Generator[None, None, int]:
    """Return the first offset at a time or later, of records whose times rise; yield between reads."""
    while first < end:
        middle = (first + end) // 2
        found = _one(log, partition, middle)
        yield None
        if found is None or found.timestamp < ts:
            first = middle + 1
        else:
            end = middle
    return first


def _one(log: Log, partition: Partition, offset: int) -> Record | None:
    """Return the first record from an offset on; None if retention has removed it."""
    with suppress(OutOfRange):
        return next(iter(log.read(partition, offset, 1)), None)
    return None
