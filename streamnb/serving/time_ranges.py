"""The range of time that a view draws, as its query names it, with what happened in it."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from streamnb.charts import Mark, Markup, tag, time_axis
from streamnb.charts.chart_axis import has_date
from streamnb.events import Alert, MetricsReport
from streamnb.formats.journal_record import JournalRecord
from streamnb.formats.terminal_text import duration
from streamnb.reports.report_charts import BY_EVENTS, Along
from streamnb.serving.recent_records import RecentRecords
from streamnb.serving.report_history import RANGES, ReportPoint

TITLES = {"15m": "15 min", "1h": "1 h", "24h": "24 h", "7d": "7 d", "all": "All"}
KEYS = ("range", "x")
"""Keys of a query that choose what is drawn; links to other views keep them."""
_CHANGES = {
    "genesis": "learner begun",
    "config": "configuration changed",
    "rollback": "rolled back",
    "loss": "records lost",
    "program": "another version of streamnb",
    "adopt": "model installed",
    "foreign": "foreign journal records",
}


class Happening(NamedTuple):
    """An occurrence, with its time and the number of events before it."""

    ts: float
    events: int
    mark: Mark


class DrawnRange(NamedTuple):
    """The reports and occurrences that the charts of a view draw.

    Attributes:
        points: the reports, oldest first.
        along: the horizontal axis.
        happenings: what happened within it, oldest first.
        notes: what the reader must know of it.
    """

    points: list[ReportPoint]
    along: Along
    happenings: list[Happening]
    notes: list[str]

    @property
    def reports(self) -> list[MetricsReport]:
        """The reports of the points."""
        return [one.report for one in self.points]

    @property
    def marks(self) -> list[Mark]:
        """Marks of what happened."""
        return [one.mark for one in self.happenings]


def drawn_range(watch: RecentRecords, asked: Mapping[str, str]) -> DrawnRange:
    """Return what the charts draw for a query. Needs the lock."""
    now = time.time()
    name = range_name(watch, asked, now)
    points, n_turned_back = watch.history.select(name, now)
    by_events = asked.get("x") == "events"
    notes = list(_notes(watch, len(points), now))
    if n_turned_back:
        why = f"{n_turned_back:,} reports lie before a time that the clock has gone back to"
        notes.append(f"{why}: only the axis of events draws them")
    reports = [one.report for one in points]
    if not by_events and not all(has_date(one.ts) for one in (reports[:1] + reports[-1:])):
        by_events = True
        notes.append("these times have no dates, so the axis has events")
    if by_events and n_turned_back:
        points = watch.history.all_points(name)
    happenings = sorted(_happenings(watch, reports))
    if not points:
        return DrawnRange([], BY_EVENTS, happenings, notes)
    first, last = points[0].report, points[-1].report
    if by_events:
        kept = [one for one in happenings if first.events <= one.events <= last.events]
        marks = [one._replace(mark=one.mark._replace(at=one.events)) for one in kept]
        return DrawnRange(points, BY_EVENTS, marks, notes)
    seconds = RANGES[name]
    start, end = (first.ts, last.ts) if seconds is None else (now - seconds, now)
    marks = [one for one in happenings if start <= one.ts <= end]
    return DrawnRange(points, Along(time_axis(start, end), _ts), marks, notes)


def _ts(report: MetricsReport) -> float:
    return report.ts


def range_name(watch: RecentRecords, asked: Mapping[str, str], now: float) -> str:
    """Return the asked range, or an hour if reports began earlier and continue, or all. Needs the lock."""
    if (name := asked.get("range", "")) in RANGES:
        return name
    points, hour = watch.history.all_points("all"), 3600.0
    if not points:
        return "all"
    is_long = points[0].report.ts < now - hour < points[-1].report.ts
    return "1h" if is_long else "all"


def _notes(watch: RecentRecords, n_points: int, now: float) -> Iterator[str]:
    if not watch.has_history:
        yield "older reports are being read"
    if watch.report is not None and not n_points:
        age = duration(now - watch.report.ts)
        yield f"no report in this range: the newest is {age} old"


def _happenings(watch: RecentRecords, reports: Sequence[MetricsReport]) -> Iterator[Happening]:
    for drift in watch.drifts:
        text = f"drift: {drift.detector} at {drift.id}"
        yield Happening(drift.ts, drift.events, Mark(drift.ts, text))
    for alert in watch.alerts:
        yield Happening(alert.ts, alert.events, _alert_mark(alert))
    times, events = [one.ts for one in reports], [one.events for one in reports]
    for change in watch.changes:
        place = bisect_right(times, change.now)
        yield Happening(change.now, events[place - 1] if place else 0, _change_mark(change))


def _alert_mark(alert: Alert) -> Mark:
    what = f"{alert.monitor}: {alert.kind} {alert.state}"
    what += f" {alert.direction}" if alert.direction else ""
    what += f", {alert.label}" if alert.label else ""
    kind = "cleared" if alert.state == "cleared" else "alarm"
    return Mark(alert.ts, what, f"{alert.monitor:.20}{' ended' * (kind == 'cleared')}", kind)


def _change_mark(change: JournalRecord) -> Mark:
    what = _CHANGES.get(change.kind, change.kind)
    return Mark(change.now, f"{what}: journal record {change.n}", what, "change")


def range_links(where: str, asked: Mapping[str, str], *, has_axis: bool = True) -> Markup:
    """Return the ranges and axes of a view as links, which work without a script.

    Args:
        where: the path of the view.
        asked: its query.
        has_axis: False leaves out the choice of the axis.
    """
    chosen, by_events = asked.get("range", ""), asked.get("x") == "events"

    def link(title: str, more: Mapping[str, str], *, is_chosen: bool) -> Markup:
        query = urlencode({name: value for name, value in {**asked, **more}.items() if value})
        return tag("a", title, href=f"{where}?{query}" if query else where, aria_current=is_chosen and "true")

    ranges = [link(title, {"range": name}, is_chosen=name == chosen) for name, title in TITLES.items()]
    axes = [
        link("by time", {"x": ""}, is_chosen=not by_events),
        link("by events", {"x": "events"}, is_chosen=by_events),
    ]
    return tag(
        "div",
        tag("nav", *ranges, aria_label="Range", class_="ranges"),
        tag("nav", *axes, aria_label="Axis", class_="ranges") if has_axis else None,
        tag("span", "UTC", class_="soft zone") if has_axis else None,
        class_="axes",
    )


def clock(seconds: float) -> Markup:
    """Return a time in UTC, to which the page adds the reader's own; arbitrary numbers are shown, too."""
    if not has_date(seconds):
        return tag("span", f"{seconds:g} s after 1970")
    shown = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))
    return tag("time", shown, datetime=shown.replace(" ", "T") + "Z", data_seconds=f"{seconds:.0f}")
