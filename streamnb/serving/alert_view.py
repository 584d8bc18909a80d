"""The pages of alerts and decisions: the state of each monitor, past alerts, and the cost of decisions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice

from streamnb.charts import Figures, Markup, joined, number, percent, table, tag
from streamnb.config.monitor_config import MonitorConfig
from streamnb.events import Alert, DecisionScores, MetricsReport, MonitorReport
from streamnb.formats.terminal_text import duration
from streamnb.reports import report_charts
from streamnb.reports.report_charts import listing, missing, tile
from streamnb.reports.text_tables import action_text
from streamnb.serving.page_tables import (
    Asked,
    choice,
    event_link,
    filter_form,
    link,
    page_links,
    taken,
    text_filter,
)
from streamnb.serving.recent_records import RecentRecords
from streamnb.serving.time_ranges import clock

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
            title="Filter alerts",
        )

    def shown(self, asked: Asked) -> Iterator[Markup]:
        """Yield the state of each monitor, past alerts, and drifts."""
        report = self._watch.report
        states = () if report is None else report.monitors
        if states:
            yield from self._monitors(states)
        else:
            yield missing(_NO_MONITORS)
        if report is not None and report.actions is not None:
            style = "trouble" if report.actions.is_paused else "missing"
            yield tag("p", f"Alarms have acted: {action_text(report.actions)}", class_=style)
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
        rows, after = taken(reversed(found), asked.get("after"), lambda row: str(first + row[0]))
        shown = table(_PAST, [_past(one) for _, one in rows]) if rows else missing(_NONE_FITS)
        told = f"{len(found):,} among the newest {len(self._watch.alerts):,}; GET /alerts has all."
        links = page_links(PATH, asked, after, told)
        return tag(
            "section", tag("h2", "Alerts, newest first"), shown, links, class_="card wide", data_hold=True
        )


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
