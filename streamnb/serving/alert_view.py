"""The pages of alerts and decisions: the state of each monitor, past alerts, and the cost of decisions."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from itertools import islice

from streamnb.charts import Figures, Markup, joined, number, percent, spark, table, tag
from streamnb.charts.html_markup import visible
from streamnb.config.monitor_config import MonitorConfig
from streamnb.errors import StreamnbError
from streamnb.events import Alert, DecisionScores, MetricsReport, MonitorReport
from streamnb.formats.terminal_text import duration
from streamnb.reports import report_charts
from streamnb.reports.report_charts import card, listing, missing, tile
from streamnb.reports.text_tables import action_text
from streamnb.scoring.attribute_drift import ALPHA, AttributeChange, AttributeDrift
from streamnb.serving.drift_windows import WINDOW_EVENTS, DriftTable
from streamnb.serving.page_tables import (
    Asked,
    choice,
    event_link,
    filter_form,
    kept_field,
    link,
    page_of,
    text_filter,
)
from streamnb.serving.recent_records import RecentRecords
from streamnb.serving.time_ranges import TITLES, clock, range_name

PATH = "/page/alerts"
_NEWEST = 1000  # predictions of which the share of a class is taken
_NO_MONITORS = "No monitors: `[[monitors]]` in the configuration of the learner raises alarms."
_NONE_FITS = "No alert fits, among the records read."
_MONITORED = [
    "monitor", "kind", "state", "rate", "tolerated", "alarm at", "Bayes factor", "since, UTC", "first event",
]  # fmt: skip
_PAST = [
    "when, UTC", "monitor", "state", "found at", "rate", "tolerated", "Bayes factor", "false alarm",
    "changed at record",
]  # fmt: skip
_CHANGED = ["attribute", "state", "by chance", "windows", "greatest difference"]
_DRIFT = "Drift by attribute"
_MOST_SHOWN = 25
_NO_ANSWER = "The log does not answer: drift by attribute is not known now."
_READING = "Events are being read."
_TOO_FEW = f"Too few events in this range: two windows of {WINDOW_EVENTS} are the least."
_STATES = {"": "all", "raised": "raised", "cleared": "cleared", "discovered": "discovered"}


class AlertView:
    """Monitors and alerts of one stream. All methods but `filters` need the lock of `watch`."""

    def __init__(self, watch: RecentRecords) -> None:
        self._watch = watch

    def filters(self, asked: Asked) -> Markup:
        """Return the form that filters past alerts. Takes the lock."""
        with self._watch.lock:
            names = dict.fromkeys(one.monitor for one in self._watch.alerts)
        return filter_form(
            PATH,
            text_filter("q", "Event or class", asked),
            choice("monitor", "Monitor", {"": "all"} | {name: name for name in names}, asked),
            choice("state", "State", _STATES, asked),
            kept_field("range", asked),
            title="Filter alerts",
        )

    def drift(self, asked: Asked) -> Markup:
        """Return the drift by attribute in the range of a query. Takes the lock, and asks the log."""
        with self._watch.lock:
            name = range_name(self._watch, asked, time.time())
        try:
            found = self._watch.attribute_drift.table(name)
        except StreamnbError:
            return card(tag("h2", _DRIFT), missing(_NO_ANSWER), wide=True)
        if found.drift is None or not found.drift.changes:
            return card(tag("h2", _DRIFT), missing(_READING if found.is_loading else _TOO_FEW), wide=True)
        return _attributes(found, found.drift, TITLES[name])

    def shown(self, asked: Asked, drift: Markup) -> Iterator[Markup]:
        """Yield the state of each monitor, drift by attribute, past alerts, and drifts of the error rate."""
        report = self._watch.report
        states = () if report is None else report.monitors
        if states:
            yield from self._monitors(states)
        else:
            yield missing(_NO_MONITORS)
        if report is not None and report.actions is not None:
            style = "trouble" if report.actions.is_paused else "missing"
            yield tag("p", f"Alarms have acted: {action_text(report.actions)}", class_=style)
        yield drift
        yield self._history(asked)
        newest = list(self._watch.drifts)[:-26:-1]
        rows = [
            (one.detector, event_link(one.id), one.events, Figures(percent(one.error_rate)),
             Figures(percent(one.recent_error_rate)), clock(one.ts))
            for one in newest
        ]  # fmt: skip
        header = ["detector", "at event", "records read", "errors", "last 100", "when, UTC"]
        nothing = "None among the records read; `drift.detectors` look for changes of the error rate."
        yield listing("Drifts of the error rate", header, rows, nothing)

    def _monitors(self, states: tuple[MonitorReport, ...]) -> Iterator[Markup]:
        raised = sum(one.raised for one in states)
        told = f"raised, among {len(states)} monitors"
        style = "warn" if raised else "good"
        yield report_charts.tiles([tile("Alarms", number(raised), told, raised, style=style)])
        configured = {one.name: one for one in self._watch.config.monitors}
        newest = {one.monitor: one for one in self._watch.alerts}
        rows = [self._row(one, configured.get(one.name), newest.get(one.name)) for one in states]
        yield listing("Monitors", _MONITORED, rows)

    def _row(self, one: MonitorReport, given: MonitorConfig | None, alert: Alert | None) -> list[object]:
        style, text = ("warn", "alarm") if one.raised else ("good", "within bounds")
        state = tag("span", text, class_=f"tag {style}")
        alert = alert if alert is not None and (alert.state == "raised") == one.raised else None
        since = clock(alert.ts) if alert is not None else "before the records read" if one.raised else "-"
        first = event_link(alert.id) if alert is not None and one.raised and alert.id else "-"
        bounds = [Figures("-")] * 2
        if given is not None:
            bounds = [_bounds(given, given.tolerated), _bounds(given, given.alarming)]
        name = link(one.name, PATH, {"monitor": one.name})
        rate = self._rate(one, given)
        factor = Figures("-" if one.bayes_factor is None else _factor(one.bayes_factor))
        return [name, one.kind, state, rate, *bounds, factor, since, first]

    def _rate(self, one: MonitorReport, given: MonitorConfig | None) -> Figures:
        """Return the rate that a monitor is about, of the window or of the newest predictions."""
        report, watch = self._watch.report, self._watch
        found: float | None = None
        if report is not None and report.window.events:
            window = {
                "error-rate": 1.0 - report.window.accuracy,
                "calibration": report.window.calibration_error,
            }
            found = window.get(one.kind)
        if report is not None and one.kind == "class-rate" and given is not None:
            if given.of == "labels":
                rates = dict(zip(report.labels, report.class_rates, strict=False))
                found = rates[given.label].rate if given.label in rates else None
            else:
                labels = list(islice(watch.newest_labels(), _NEWEST))
                found = labels.count(given.label) / len(labels) if labels else None
        return Figures(percent(found))

    def _history(self, asked: Asked) -> Markup:
        text = asked.get("q", "").casefold()
        found = [
            (n, one)
            for n, one in enumerate(self._watch.alerts)
            if asked.get("monitor", "") in {"", one.monitor}
            and asked.get("state", "") in {"", one.state}
            and (not text or text in f"{one.id}\n{one.label}".casefold())
        ]
        first = self._watch.n_alerts - len(self._watch.alerts)
        told = f"{len(found):,} among the newest {len(self._watch.alerts):,}; GET /alerts has all."
        rows, links = page_of(found[::-1], PATH, asked, lambda row: str(first + row[0]), told)
        shown = table(_PAST, [_past(one) for _, one in rows]) if rows else missing(_NONE_FITS)
        return tag(
            "section", tag("h2", "Alerts, newest first"), shown, links, class_="card wide", data_hold=True
        )


def _attributes(found: DriftTable, drift: AttributeDrift, range_: str) -> Markup:
    """Return a table of attributes, in falling certainty of a change in the newest window."""
    n_rows = len(drift.changes) * (found.n_windows - found.n_reference)
    ordered = sorted(drift.changes.items(), key=lambda item: (item[1][-1].p, min(one.p for one in item[1])))
    rows = [_attribute(name, changes, drift.level, n_rows) for name, changes in ordered[:_MOST_SHOWN]]
    n_drifting = sum(changes[-1].p <= drift.level for changes in drift.changes.values())
    told = (
        f"{n_drifting:,} of {len(drift.changes):,} attributes drift. Windows of {found.step:,} records, of "
        f"each the first {WINDOW_EVENTS:,} events at most; the first {found.n_reference} are the reference. "
        f"By chance, one such table in {round(1 / ALPHA)} or fewer marks anything. Sorted events drift, too."
    )
    omitted = drift.n_omitted + max(0, len(ordered) - len(rows))
    told += f" {omitted:,} more attributes are not listed." if omitted else ""
    note = tag("p", told, class_="soft")
    return card(tag("h2", f"{_DRIFT}, {range_.lower()}"), table(_CHANGED, rows), note, wide=True)


def _attribute(name: str, changes: list[AttributeChange], level: float, n_rows: int) -> list[object]:
    last = changes[-1]
    style, text = ("warn", "drifts") if last.p <= level else ("good", "as before")
    levels = [math.log(max(one.p, 1e-300)) / math.log(level) for one in changes]
    over = [n for n, one in enumerate(changes, 1) if one.p <= level]
    told = f"beyond chance in window {', '.join(map(str, over))}" if over else "in no window beyond chance"
    chance = min(1.0, last.p * n_rows)
    return [
        name,
        tag("span", text, class_=f"tag {style}"),
        Figures(f"{chance:.1e}" if chance < 1e-3 else percent(chance)),
        spark(levels, f"{told}, of {len(changes)}"),
        _difference(last),
    ]


def _difference(one: AttributeChange) -> str:
    if one.p >= 1.0:
        return "-"
    if one.is_number:
        return f"median {number(one.before)}, now {number(one.now)}"
    shares = f"in {percent(one.before)} of events, now {percent(one.now)}"
    return shares if one.value is None else f"{visible(one.value)} {shares}"


def _past(one: Alert) -> list[object]:
    state = " ".join(part for part in (one.state, one.direction, one.label) if part)
    style = {"raised": "warn", "cleared": "good"}.get(one.state, "")
    where: object = event_link(one.id) if one.id else f"silent for {duration(one.seconds or 0.0)}"
    factor = "-" if one.bayes_factor is None else _factor(one.bayes_factor)
    false = "-" if one.false_alarm is None else f"at most {percent(one.false_alarm)}"
    numbers = [Figures(percent(one.rate)), Figures(percent(one.tolerated)), Figures(factor), Figures(false)]
    since = Figures("-" if one.since is None else f"{one.since:,}")
    return [
        clock(one.ts),
        one.monitor,
        tag("span", state, class_=f"tag {style}".rstrip()),
        where,
        *numbers,
        since,
    ]


def _factor(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) and value < 1e6 else f"{value:.0e}"


def _bounds(given: MonitorConfig, rates: tuple[float, ...] | None) -> Figures:
    if given.after is not None:
        return Figures(duration(given.after))
    return Figures(" to ".join(map(percent, rates)) if rates else "-")


def decisions(report: MetricsReport | None) -> Iterator[Markup]:
    """Yield the cost of decisions and the share of events that were decided."""
    if report is None or report.decisions is None:
        yield missing(
            "No decisions: `[decision]` declares costs, and the learner reports what they amount to."
        )
        return
    found = report.decisions
    scopes = ((f"last {report.window_size:,}", found.window), ("all", found.cumulative))
    best = found.window if found.window.events else found.cumulative
    name = scopes[0][0] if found.window.events else "all"
    yield report_charts.tiles([
        tile("Mean cost", number(best.mean_cost), f"over {name}", best.mean_cost),
        tile("Decided", percent(best.coverage), f"over {name}", best.coverage),
        tile("Right decisions", percent(best.accuracy), "among those decided", best.accuracy),
    ])  # fmt: skip
    header = ["of", "labelled events", "mean cost", "decided", "right among the decided"]
    yield listing("Decisions", header, [_scores(*scope) for scope in scopes])
    queue = link("Review what was not decided", "/page/review", {"queue": "undecided"})
    yield tag("p", joined([queue, ", or ", link("list it", "/page/events", {"decision": "none"}), "."]))


def _scores(name: str, one: DecisionScores) -> list[object]:
    if not one.events:
        return [name, 0, *[Figures("-")] * 3]
    shares = Figures(percent(one.coverage)), Figures(percent(one.accuracy))
    return [name, one.events, Figures(f"{one.mean_cost:.4g}"), *shares]
