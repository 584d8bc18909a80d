"""The views of the live page, as HTML: what the topics hold, or what is missing and how to get it."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from streamnb.charts import Bar, Markup, Series, bars, joined, line, number, percent, tag
from streamnb.charts.html_markup import visible
from streamnb.engine.labels.source_labels import SourceLabel
from streamnb.engine.processing.named_classes import ranked_by_class
from streamnb.errors import ConfigError, SnapshotError, StreamnbError
from streamnb.events import AccuracyEstimate, Event, MetricsReport, Prediction
from streamnb.formats.codec import IN_EVENT
from streamnb.formats.terminal_text import duration
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.queries.answers import PRIOR, explained, value_name
from streamnb.reports import report_charts
from streamnb.reports.report_charts import card, listing, missing, tile
from streamnb.reports.text_tables import action_text
from streamnb.serving.alert_view import AlertView, decisions
from streamnb.serving.class_views import ClassViews
from streamnb.serving.dead_letter_view import DeadLetterView
from streamnb.serving.health_strip import health_strip
from streamnb.serving.label_search import SearchedLabels
from streamnb.serving.learned_views import ModelPage
from streamnb.serving.prediction_table import PredictionTable, decided
from streamnb.serving.recent_records import RecentRecords
from streamnb.serving.replica import Replica
from streamnb.serving.review_queue import PAGE_SOURCE
from streamnb.serving.review_view import ReviewView
from streamnb.serving.tenant_pages import TenantPages
from streamnb.serving.time_ranges import DrawnRange, clock, drawn_range, range_name
from streamnb.statistics.memory_budget import MemoryUse
from streamnb.values.similar_labels import folded

GROUPS = {
    "Watch": {
        "": "Overview",
        "alerts": "Alerts",
        "quality": "Quality",
        "classes": "Classes",
        "posterior": "Model mix",
    },
    "Work": {
        "review": "Review",
        "events": "Predictions",
        "try": "Try a message",
        "dead-letters": "Dead letters",
    },
    "Inspect": {
        "labels": "Labels",
        "decisions": "Decisions",
        "tenants": "Tenants",
        "model": "Model",
        "operations": "Operations",
    },
}
"""Group of the navigation -> its views, each with its title."""
TITLES = {name: title for views in GROUPS.values() for name, title in views.items()}
CHARTED = ("", "classes", "posterior")
"""Views with charts over a range of time."""
RANGED = (*CHARTED, "alerts")
"""Views of a range of time."""
_ROWS, _CHOICES, _TOP = 25, 5, 8
_MOST_TRIED = 32 << 10  # characters
_NO_REPORT = "No report yet. A learner writes one about each second: `streamnb run`"


class PageViews:
    """The current contents of each page.

    Args:
        watch: the records read from the topics.
        replica: the model.
        csrf: the secret that each form carries.
        is_writable: True if labels can be written.
        can_send: True if dead letters can be sent again.
    """

    def __init__(
        self, watch: RecentRecords, replica: Replica, csrf: str, *, is_writable: bool, can_send: bool = True
    ) -> None:
        self._watch, self._replica, self._csrf, self._is_writable = watch, replica, csrf, is_writable
        self._memory: MemoryUse | None = None  # as it was when the replica was last not busy
        self.learned = ModelPage(watch.config, replica)
        self.csrf_field = tag("input", type="hidden", name="csrf", value=csrf)
        self.desk = watch.dead_letters
        self.dead_letters = DeadLetterView(watch, self.csrf_field, is_writable=can_send)
        self.classes = ClassViews(watch, self.learned)
        self.alerts, self.tenants = AlertView(watch), TenantPages(watch)
        self.table = PredictionTable(watch, self)
        self.review = ReviewView(watch, self, "" if is_writable else _NO_LABELS)

    def alike_label(self, label: str) -> str | None:
        """Return a class of the newest report that equals a new label but for case, blanks or Unicode."""
        with self._watch.lock:
            report, aliases = self._watch.report, self._watch.config.classes.aliases
        known = [] if report is None or label in aliases else report.labels
        alike = (name for name in known if folded(name) == folded(label))
        return None if label in known else next(alike, None)

    @property
    def n_predictions(self) -> int:
        """Number of predictions that the page has read so far."""
        with self._watch.lock:
            return self._watch.n_predictions

    def own_label(self, id_: str) -> str | None:
        """Return the label that this page has given an event, as far as it was read."""
        with self._watch.lock:
            return self._watch.judging.own(id_, PAGE_SOURCE)

    def note_written(self, id_: str, label: str | None) -> None:
        """Note a label that the page has written, so that no queue shows the event again. Takes the lock."""
        with self._watch.lock:
            self._watch.review_queue.note_written(id_, label)

    def strip(self) -> Markup:
        """Return the health of the learner in one line."""
        self._memory = self._replica.memory_use() or self._memory
        with self._watch.lock:
            return health_strip(self._watch, self._memory)

    def range_of(self, asked: Mapping[str, str]) -> str:
        """Return the range of time that a query asks for, or the default one of this moment."""
        with self._watch.lock:
            return range_name(self._watch, asked, time.time())

    def live(self, name: str, asked: dict[str, str]) -> Markup:
        """Return the part of a page that changes."""
        if name == "classes":
            return self.classes.shown(asked)
        if name == "model":  # queries the replica, so it must not hold the lock of `watch`
            return self.learned.shown(asked)
        if name == "events" and "id" not in asked:
            with self._watch.lock:
                trouble = self._trouble()
            problem = None if self._is_writable else missing(_NO_LABELS)
            return joined([trouble, problem, *self.table.shown(asked)])
        if name == "dead-letters":  # queries the log, too
            with self._watch.lock:
                trouble = self._trouble()
            return joined([trouble, *self.dead_letters.listing(asked)])
        drift = self.alerts.drift(asked) if name == "alerts" else Markup()  # asks the log, too
        searched = self._searched(asked["id"]) if name == "events" else None
        event = self._watch.events.find([asked["id"]]).get(asked["id"]) if name == "events" else None
        shown: dict[str, Callable[[], Iterable[object]]] = {
            "": lambda: self._overview(asked),
            "review": lambda: self.review.news(asked, _number_of(asked.get("since", ""))),
            "events": lambda: self._event(asked, event, searched),
            "try": self._try,
            "quality": self._quality,
            "posterior": lambda: self._posterior(asked),
            "labels": self._labels,
            "alerts": lambda: self.alerts.shown(asked, drift),
            "decisions": lambda: decisions(self._watch.report),
            "tenants": lambda: self.tenants.shown(asked),
            "operations": self._operations,
        }
        with self._watch.lock:
            return joined([self._trouble(), *shown.get(name, lambda: ())()])

    def _trouble(self) -> Markup | None:
        watch = self._watch
        told = watch.problem
        if watch.missing:
            told = told or f"Missing topic {', '.join(watch.missing)}: `streamnb topics create` makes it"
        return tag("p", told, class_="trouble") if told else None

    # Overview

    def _overview(self, asked: Mapping[str, str]) -> Iterator[Markup]:
        watch, report = self._watch, self._watch.report
        if report is None:
            yield missing(_NO_REPORT)
            return
        yield self._state(report)
        if raised := [one.name for one in report.monitors if one.raised]:
            yield tag("p", f"Alarms: {', '.join(raised)}", class_="trouble")
        if report.actions is not None:
            style = "trouble" if report.actions.is_paused else "missing"
            yield tag("p", f"Alarms have acted: {action_text(report.actions)}", class_=style)
        drawn = drawn_range(watch, asked)
        yield card(report_charts.accuracy(drawn.reports, report, drawn.marks, drawn.along), wide=True)
        yield card(report_charts.log_loss(drawn.reports, report, drawn.marks, drawn.along))
        yield card(report_charts.rates(report))
        yield from _notes(drawn)
        yield _happened(drawn)

    def _state(self, report: MetricsReport) -> Markup:
        scores, interval = report.window, report.window.accuracy_interval
        between = f"window {report.window_size:,}"
        if interval is not None:
            between += f"; {percent(interval.lower)} to {percent(interval.upper)}"
        learned = f"{number(report.learned)} learned"
        return report_charts.tiles([
            tile("Accuracy", percent(scores.accuracy), between, scores.accuracy),
            tile("Log loss", number(scores.log_loss), "nats", scores.log_loss),
            tile("Events read", number(report.events), learned, report.events),
            tile("Classes", number(report.classes), "", report.classes),
            tile("Dead letters", number(report.dead_letters), "", report.dead_letters),
        ])  # fmt: skip

    def _posterior(self, asked: Mapping[str, str]) -> Iterator[Markup]:
        drawn = drawn_range(self._watch, asked)
        weighed = None if self._watch.report is None else self._watch.report.posterior
        if weighed is not None:
            best = max(weighed.hypotheses, key=lambda one: one.posterior)
            value = best.posterior
            yield report_charts.tiles([tile("Most probable", percent(value), best.name, value)])
        if drawn.points or weighed is None:
            yield from report_charts.posterior(drawn.reports, drawn.marks, drawn.along)
        yield from _notes(drawn)

    # Predictions and labels

    def _searched(self, id_: str) -> SearchedLabels | None:
        """Return the labels of an event in the log; None if the page or the model knows them, or it fails."""
        with self._watch.lock:
            is_known = self._watch.knows_all_labels or self._watch.prediction(id_) is None
        if is_known or not self._watch.config.topics.labels or self._replica.said_of(id_) is not None:
            return None
        with suppress(StreamnbError):
            return self._watch.label_search.find(id_)
        return None

    def _event(
        self, asked: dict[str, str], event: Event | None, searched: SearchedLabels | None
    ) -> Iterator[Markup]:
        if not self._is_writable:
            yield missing(_NO_LABELS)
        one = self._watch.prediction(asked["id"])
        if one is None:
            yield missing("This event is not among those read.")
            return
        if searched is not None and searched.share < 1.0:
            yield tag(
                "p",
                f"The labels are searched for it: {percent(searched.share)} done.",
                class_="soft",
            )
        yield self._details(one, event, searched)

    def truths(
        self, found: Sequence[Prediction], searched: SearchedLabels | None = None
    ) -> list[tuple[Markup, str | None]]:
        """Return each label in force as far as it is known here, and the label if it arrived separately.

        The label may be older than the records that were read. `searched` are labels found in the log.
        """
        known: Sequence[tuple[SourceLabel, ...] | None] = [None] * len(found)
        if not self._watch.knows_all_labels:
            known = self._replica.said_of_all([one.id for one in found])
        return [self._truth(one, said, searched) for one, said in zip(found, known, strict=True)]

    def _truth(
        self, one: Prediction, known: tuple[SourceLabel, ...] | None, searched: SearchedLabels | None
    ) -> tuple[Markup, str | None]:
        watch, labels = self._watch, self._watch.judging
        is_known = watch.knows_all_labels or known is not None
        if searched is not None and searched.share == 1.0:
            labels, is_known = searched.labels, is_known or searched.is_whole
        if labels.mentions(one.id) or any(each.source != IN_EVENT for each in known or ()):
            said = labels.label(one.id, one.truth, known or ())
            style = "" if said is None else " good" if said == one.label else " warn"
            return _tag("said: ", said or "nothing", f"said{style}"), said
        if one.truth is None:
            return _tag("no label" if is_known else "label not known here"), None
        is_right, then = one.truth == one.label, "" if is_known else " when it came"
        if is_right:
            return _tag(f"right{then}", style="good"), None
        return _tag(f"wrong{then}: ", one.truth, "warn"), None

    def form(self, one: Prediction, *children: object) -> Markup | None:
        """Return a form that labels an event; None if labels cannot be set."""
        if not self._is_writable:
            return None
        hidden = (("csrf", self._csrf), ("id_json", json.dumps(one.id)))
        fields = (tag("input", type="hidden", name=name, value=value) for name, value in hidden)
        sent = {"method": "post", "action": "/page/label", "class_": "say", "data_send": True}
        return tag("form", *fields, *children, **sent)

    def _details(self, one: Prediction, event: Event | None, searched: SearchedLabels | None) -> Markup:
        age = f" UTC by {one.model.name} after {one.model.events:,} events"
        told = joined(["Predicted ", clock(one.ts), age])
        evidence = [
            (f"{each.attribute}: {value_name(each.value)}", each.log_odds) for each in one.evidence or ()
        ]
        if evidence or one.prior is not None:
            evidence = [*_beside_values(one), *evidence]
        other = tag(
            "input",
            name="label",
            required=True,
            maxlength=1000,
            placeholder="another class",
            aria_label="another class",
        )
        ((truth, said),) = self.truths([one], searched)
        head = (
            tag("h2", one.id),
            tag("p", truth),
            _authors(self._watch.judging.authors(one.id)),
            None if event is None else self.review.message(event, one.evidence or ()),
            tag("p", _dashed([told, *filter(None, [decided(one, with_cost=True)])]), class_="soft"),
            self.table.buttons(one, said),
            self.form(one, other, tag("button", "is its label")),
        )
        return joined([
            tag("section", *head, data_event=True, data_hold=True),
            _shares("Probabilities", one.probabilities),
            _bars("Evidence, log odds", evidence) if evidence else card(missing(_NO_EVIDENCE)),
            _shares("Hypotheses", one.hypotheses) if one.hypotheses else None,
        ])  # fmt: skip

    def _try(self) -> Iterator[Markup]:
        self._replica.wake()
        state = self._replica.state()
        if state["journal"] is None:
            yield missing(self._replica.status)
        else:
            learned, n = number(state["learned"]), number(state["journal"])
            told = f"The model has learned {learned} events, up to journal record {n}."
            yield tag("p", told, class_="soft")

    def tried(self, text: str) -> Markup:
        """Return the prediction of a message with its evidence, or a mark while the model loads."""
        if len(text) > _MOST_TRIED:
            return missing(f"At most {_MOST_TRIED:,} characters; ask `streamnb explain`.")
        why: dict[str, Any] = {"evidence": ()}
        problem = "No evidence."
        try:
            with self._replica.lock:
                self._replica.wake()
                if self._replica.is_loading:
                    return tag("p", _LATER, class_="missing", data_again=True)
                model = self._replica.asked()
                event = model.event(text)
                told = model.predict([event]).posteriors
                (probabilities,), (warning,) = ranked_by_class(told), model.warnings([event], told)
                try:
                    why = explained(model, event, None, 12)
                except ConfigError as error:
                    problem = str(error)
        except StreamnbError as error:
            return tag("p", str(error), class_="trouble")
        evidence = [(PRIOR, why["prior"])] if why["evidence"] else []
        evidence += [(f"{one['attribute']}: {one['name']}", one["log_odds"]) for one in why["evidence"]]
        sides = [tag("bdi", visible(str(why.get(side)))) for side in ("label", "against")]
        title = joined(["Evidence for ", sides[0], " against ", sides[1], ", log odds"])
        because = _bars(title, evidence) if evidence else card(missing(problem))
        warned = tag("p", f"Warning: {warning}", class_="trouble") if warning else None
        return joined([warned, _shares("Probabilities", probabilities), because])

    # Quality of the model

    def _quality(self) -> Iterable[Markup]:
        report = self._watch.report
        if report is None:
            return [missing(_NO_REPORT)]
        return [_focus(report), *report_charts.quality(report, self.classes.confusion())]

    # Labels, dead letters, model, operations

    def _labels(self) -> Iterator[Markup]:
        report, watch = self._watch.report, self._watch
        if not watch.config.topics.labels:
            yield missing(_NO_LABELS)
            return
        found = None if report is None else report.verdicts
        if found is None:
            yield missing("No report of labels yet; a learner that reads them writes one.")
        else:
            judged = f"{number(found.judged)} of {number(found.served)}"
            yield report_charts.tiles([
                tile("Coverage", percent(found.coverage), judged, found.coverage),
                tile("Waiting", number(found.pending), "events", found.pending),
                tile("Without event", number(found.awaited), "ids that labels name", found.awaited),
                tile("Median delay", _bound(found.median_delay), "of first labels", found.median_delay),
                tile("90 % within", _bound(found.p90_delay), "of first labels", found.p90_delay),
                *_unjudged(found.unjudged),
            ])  # fmt: skip
            most = [(one.most, one.events) for one in found.delays]
            delays = [("longer than a week" if a is None else _bound(a), n) for a, n in most]
            yield _bars("Delays of first labels, events", delays)
            yield _bars("Sources, labels", Counter(found.sources).most_common(_TOP))
            yield _bars("Outcomes of labels", Counter(found.outcomes).most_common())
        newest = list(watch.verdicts)[: -_ROWS - 1 : -1]
        rows = [(one.id, one.label or "(taken back)", one.source, one.by or "", one.weight) for one in newest]
        yield listing("Newest labels", ["event", "label", "source", "by", "weight"], rows, "None yet.")

    def _operations(self) -> Iterator[Markup]:
        commits, folder, now = list(self._watch.commits), self._watch.config.snapshot_folder, time.time()
        if not commits:
            yield missing("The journal is empty: nothing has been learned yet; `streamnb run` learns.")
            return
        kept = []
        with suppress(SnapshotError, OSError):
            kept = [
                (one.n, one.size, now - one.path.stat().st_mtime) for one in SnapshotFolder(folder).list()
            ]
        last, at = commits[-1], self._replica.state()["journal"]
        left = last.n - kept[-1][0] if kept else None
        newest = f"newest {duration(kept[-1][2])} old" if kept else ""
        yield report_charts.tiles([
            tile("Journal record", number(last.n), f"{duration(now - last.now)} ago", last.n),
            tile("Snapshots kept", number(len(kept)), newest, len(kept)),
            tile("Recovery replays", number(left), "records after the newest snapshot", left),
            tile("Replica at", number(at), "journal record" if at is not None else "no model is loaded", at),
        ])  # fmt: skip
        sizes = [sum(part.count for part in one.slices) for one in commits]
        xs, series = [one.n for one in commits], [Series("records", sizes)]
        yield card(line("Records in each commit", xs, series, within=(0, 1e12)), wide=True)
        files = [(str(n), f"{size:,} bytes", f"{duration(age)} ago") for n, size, age in reversed(kept)]
        nothing = f"None in {folder} of this machine."
        yield listing("Snapshots", ["journal record", "size", "written"], files, nothing)
        pairs = list(zip(commits, sizes, strict=True))[:-13:-1]
        rows = [(str(one.n), one.kind, size, clock(one.now)) for one, size in pairs]
        yield listing("Newest commits", ["record", "kind", "records", "when, UTC"], rows)


_NO_LABELS = (
    "Labels cannot be set here: `topics.labels` is not set. Set it for the learner, too, such as "
    '`topics.labels = "labels"`.'
)
_LATER = "The model is loading. The answer comes by itself; without scripts, ask again in a moment."
_LEAST_REST = 0.005  # log odds: rounding of less is not evidence
_NO_EVIDENCE = "This prediction holds no evidence. `predictions.evidence = 10` lets the learner write it."


def _focus(report: MetricsReport) -> Markup:
    scores, note = report.window, f"of the last {report.window_size:,}"
    return report_charts.tiles([
        tile("Macro-F1", f"{scores.macro_f1:.3f}", note, scores.macro_f1),
        tile("Calibration error", f"{scores.calibration_error:.3f}", note, scores.calibration_error),
        tile("Kappa", f"{scores.kappa:.3f}", note, scores.kappa),
    ])  # fmt: skip


def _notes(drawn: DrawnRange) -> Iterator[Markup]:
    if drawn.notes:
        yield tag("p", f"{'; '.join(drawn.notes).capitalize()}.", class_="soft")


def _happened(drawn: DrawnRange) -> Markup:
    """Return what happened in a range, newest first."""
    rows = [(clock(one.ts), one.events, one.mark.text) for one in drawn.happenings[: -_ROWS - 1 : -1]]
    nothing = (
        "No alarm, drift or change among the records read; `monitors` and `drift.detectors` look for them."
    )
    return listing("What happened", ["when, UTC", "records read", ""], rows, nothing)


def _number_of(text: str) -> int:
    """Return a number of a query; a huge one for other text, after which nothing is new."""
    return int(text) if text.isdecimal() and len(text) < 16 else 1 << 62


def _bars(title: str, rows: Iterable[tuple[str, float]]) -> Markup:
    return card(bars(title, [Bar(*row) for row in rows]))


def _shares(title: str, given: Mapping[str, float]) -> Markup:
    rows = sorted(given.items(), key=lambda item: -item[1])[:_TOP]
    return card(bars(title, [Bar(*row) for row in rows], text=percent, most=1.0))


def _beside_values(one: Prediction) -> Iterator[tuple[str, float]]:
    """Yield the prior, and what remains of the log odds of the two most probable classes."""
    shown = [each.log_odds for each in one.evidence or ()]
    if one.prior is not None:
        shown.append(one.prior)
        yield PRIOR, one.prior
    ranked = sorted(one.probabilities.values(), reverse=True)[:2]
    if len(ranked) == 2 and ranked[1] > 0.0:
        rest = math.log(ranked[0] / ranked[1]) - math.fsum(shown)
        if abs(rest) >= _LEAST_REST:
            yield "(all else)", rest


def _tag(text: str, label: str = "", style: str = "") -> Markup:
    label = visible(label)
    return tag("span", text, tag("bdi", label), class_=f"tag {style}".rstrip(), title=text + label)


def _authors(by_source: Mapping[str, str]) -> Markup | None:
    """Return a line with the author of each source's label; None without authors."""
    named = [
        joined(["labelled by ", tag("bdi", visible(name)), " for ", tag("bdi", visible(source))])
        for source, name in by_source.items()
    ]
    return tag("p", _dashed(named), class_="soft") if named else None


def _dashed(parts: Iterable[object]) -> Markup:
    return joined(part for n, one in enumerate(parts) for part in (" - " if n else None, one))


def _unjudged(estimate: AccuracyEstimate | None) -> Iterator[Markup]:
    if estimate is not None:
        between = f"{percent(estimate.interval.lower)} to {percent(estimate.interval.upper)}"
        note = f"in doubt: {estimate.doubt}" if estimate.doubt else between
        yield tile("Accuracy without labels", percent(estimate.accuracy), note, estimate.accuracy)


def _bound(seconds: float | None) -> str:
    return "-" if seconds is None else f"up to {duration(seconds)}" if seconds else "at once"
