"""The views of the live page, as HTML: what the topics hold, or what is missing and how to get it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from streamnb.adapters.snapshot_folder import SnapshotFolder
from streamnb.cli.answers import explained
from streamnb.cli.serving.replica import Replica
from streamnb.cli.serving.watch import Point, Watch
from streamnb.errors import ConfigError, SnapshotError, StreamnbError
from streamnb.events import MetricsReport, Prediction, Scores
from streamnb.model.naive_bayes.counting_model import CountingModel
from streamnb.model.naive_bayes.most_informative import strongest
from streamnb.pictures import (
    Bar,
    Markup,
    Series,
    bars,
    calibration,
    count,
    heat_map,
    joined,
    line,
    number,
    percent,
    stacked,
    table,
    tag,
)

__all__ = ["SOURCE", "TITLES", "Views"]

SOURCE = "dashboard"
"""Who says what is clicked on the page."""
TITLES = {
    "": "Overview",
    "events": "Predictions",
    "try": "Try a message",
    "quality": "Quality",
    "posterior": "Hypotheses",
    "labels": "Labels",
    "dead-letters": "Dead letters",
    "model": "Model",
    "operations": "Operations",
}
_ROWS, _CLASSES, _CHOICES, _BANDS, _TOP = 25, 12, 5, 7, 8
_STALLED_SECONDS = 15.0
_MODEL_SECONDS = 20.0
_MOST_TRIED = 32 << 10  # characters
_NO_REPORT = "No report yet. A learner writes one about each second: `streamnb run`"


class Views:
    """What each page shows now.

    Args:
        watch: what was read of the topics.
        replica: the model.
        csrf: what a form has to bring.
        is_writable: whether labels can be written.
    """

    def __init__(self, watch: Watch, replica: Replica, csrf: str, *, is_writable: bool) -> None:
        self._watch, self._replica, self._csrf, self._is_writable = watch, replica, csrf, is_writable
        self._learned: tuple[float, Markup] = 0.0, Markup()

    def live(self, name: str, asked: dict[str, str]) -> Markup:
        """The part of a page that changes."""
        shown: dict[str, Callable[[], Iterable[object]]] = {
            "": self._overview,
            "events": lambda: self._events(asked),
            "try": lambda: (),
            "quality": self._quality,
            "posterior": self._posterior,
            "labels": self._labels,
            "dead-letters": self._letters,
            "model": self._model,
            "operations": self._operations,
        }
        if name == "model":  # asks the replica, and keeps nobody waiting who reads
            return joined(shown[name]())
        with self._watch.lock:
            return joined([self._trouble(), *shown[name]()])

    def _trouble(self) -> Markup | None:
        watch = self._watch
        told = watch.problem or ("Reading the newest records ..." if watch.is_loading else "")
        if watch.missing:
            told = told or f"There is no topic {', '.join(watch.missing)}: `streamnb topics create` makes it"
        return tag("p", told, class_="trouble") if told else None

    # Overview

    def _overview(self) -> Iterator[Markup]:
        watch, report = self._watch, self._watch.report
        yield tag("div", *self._tiles(report), class_="tiles")
        if report is None:
            yield _missing(_NO_REPORT)
            return
        points, xs = list(watch.points), [one.events for one in watch.points]
        marks = [(drift.events, f"drift: {drift.detector} at {drift.id}") for drift in watch.drifts]
        mass = "" if report.interval_mass is None else f" ({percent(report.interval_mass)} credible)"
        window = Series(
            f"last {report.window_size:,}{mass}",
            [one.accuracy for one in points],
            [one.lower for one in points],
            [one.upper for one in points],
        )
        whole = Series("all", [one.all_accuracy for one in points])
        yield _card(
            line("Accuracy by events read", xs, [window, whole], marks=marks, within=(0, 1), y=percent),
            wide=True,
        )
        losses = [
            Series(f"last {report.window_size:,}", [one.log_loss for one in points]),
            Series("all", [one.all_log_loss for one in points]),
        ]
        yield _card(line("Log loss by events read, nats", xs, losses, marks=marks, within=(0, 1e9)))
        yield _card(_rates(report))
        yield _card(tag("h2", "Drifts"), self._drifts(), wide=True)

    def _tiles(self, report: MetricsReport | None) -> Iterator[Markup]:
        behind = self._watch.behind()
        state, style = self._state(behind)
        commits = self._watch.commits
        told = f"commit {_duration(time.time() - commits[-1].now)} ago" if commits else ""
        yield _tile("Learner", state, told, style=style)
        yield _tile("Records a second", count(self._watch.rate()), "over ten seconds")
        yield _tile("Behind", "-" if behind is None else number(behind), "records to read", value=behind)
        if report is None:
            return
        scores, interval = report.window, report.window.accuracy_interval
        between = "" if interval is None else f"{percent(interval.lower)} to {percent(interval.upper)}"
        yield _tile("Accuracy", percent(scores.accuracy), between, value=scores.accuracy)
        yield _tile("Log loss", number(scores.log_loss), "nats", value=scores.log_loss)
        yield _tile(
            "Events read", number(report.events), f"{number(report.learned)} learned", value=report.events
        )

    def _state(self, behind: int | None) -> tuple[str, str]:
        commits = self._watch.commits
        if not commits:
            return "has not begun", "warn"
        age = time.time() - commits[-1].now
        if behind and age > _STALLED_SECONDS:
            return "no commit", "warn"
        return ("idle" if age > _STALLED_SECONDS else "learns"), "good"

    def _drifts(self) -> Markup:
        if not self._watch.drifts:
            return _missing("None among the records read. `drift.detectors` says who looks for them.")
        rows = [
            [
                drift.detector,
                drift.id,
                drift.events,
                percent(drift.error_rate),
                percent(drift.recent_error_rate),
                _clock(drift.ts),
            ]
            for drift in reversed(list(self._watch.drifts)[-10:])
        ]
        return table(["detector", "at event", "records read", "errors", "of the last 100", "when, UTC"], rows)

    # Predictions, and what is said of them

    def _events(self, asked: dict[str, str]) -> Iterator[Markup]:
        chosen = asked.get("id")
        said = {verdict.id: verdict.label or "nothing" for verdict in self._watch.verdicts}
        if chosen is not None:
            found = self._watch.prediction(chosen)
            yield (
                self._details(found, said)
                if found
                else _missing("This event is not among the predictions read.")
            )
            return
        found_ones = self._watch.predictions(asked.get("q", ""), _ROWS, wrong="wrong" in asked)
        if not self._is_writable:
            yield _missing(_NO_LABELS)
        if not found_ones:
            yield _missing(
                "No such prediction among those read." if self._watch.n_seen else "No predictions yet."
            )
            return
        rows = [self._row(one, said) for one in found_ones]
        yield tag(
            "p",
            f"The newest of {self._watch.n_seen:,}; the list stands still while you point at it.",
            class_="soft",
        )
        yield tag("ul", *rows, class_="rows", data_hold=True)

    def _row(self, one: Prediction, said: dict[str, str]) -> Markup:
        link = tag("a", one.id, href=f"/page/events?id={quote(one.id, safe='')}", class_="id")
        sure = tag(
            "span", f"{one.label} {percent(one.probability)}" if one.label else "no class yet", class_="guess"
        )
        return tag("li", link, sure, _truth(one, said), self._buttons(one))

    def _buttons(self, one: Prediction) -> Markup | None:
        if not self._is_writable or not one.probabilities:
            return None
        labels = sorted(one.probabilities, key=lambda label: -one.probabilities[label])[:_CHOICES]
        made = (
            tag("button", label, name="label", value=label, aria_label=f"{one.id} is {label}")
            for label in labels
        )
        return self._form("/page/label", tag("input", type="hidden", name="id", value=one.id), *made)

    def _form(self, action: str, *children: object) -> Markup:
        csrf = tag("input", type="hidden", name="csrf", value=self._csrf)
        return tag("form", csrf, *children, method="post", action=action, data_send=True, class_="say")

    def _details(self, one: Prediction, said: dict[str, str]) -> Markup:
        rows = sorted(one.probabilities.items(), key=lambda item: -item[1])[:_TOP]
        weighed = sorted((one.hypotheses or {}).items(), key=lambda item: -item[1])[:_TOP]
        evidence = [Bar(f"{e.attribute}: {e.value}", e.log_odds) for e in one.evidence or ()]
        wanted = tag(
            "input",
            name="label",
            required=True,
            maxlength=1000,
            aria_label="its label",
            placeholder="another label",
        )
        id_ = tag("input", type="hidden", name="id", value=one.id)
        told = f"Predicted {_clock(one.ts)} UTC by {one.model.name} after {one.model.events:,} events."
        return joined([
            tag("h2", one.id, " ", _truth(one, said)),
            tag("p", told, class_="soft"),
            self._buttons(one) or _missing(_NO_LABELS),
            self._form("/page/label", id_, wanted, tag("button", "Say so")) if self._is_writable else None,
            _card(bars("Probabilities", [Bar(*row) for row in rows], text=percent, most=1.0)),
            _card(bars("Evidence, log odds", evidence)) if evidence else _card(_missing(_NO_EVIDENCE)),
            _card(bars("Hypotheses", [Bar(*row) for row in weighed], most=1.0)) if weighed else None,
        ])  # fmt: skip

    def tried(self, text: str) -> Markup:
        """What the model says of a message, and why."""
        if len(text) > _MOST_TRIED:
            return _missing(f"At most {_MOST_TRIED:,} characters; ask `streamnb explain`.")
        try:
            with self._replica.lock:
                model = self._replica.asked()
                event = model.event(text)
                (probabilities,) = model.predicted([event])
                why: dict[str, Any] = {"evidence": (), "problem": ""}
                try:
                    why |= explained(model, event, None, 12)
                except ConfigError as error:
                    why["problem"] = str(error)
        except StreamnbError as error:
            return tag("p", str(error), class_="trouble")
        rows = [Bar(*row) for row in list(probabilities.items())[:_TOP]]
        evidence = [Bar(f"{one['attribute']}: {one['value']}", one["log_odds"]) for one in why["evidence"]]
        against = f"Evidence for {why.get('label')} against {why.get('against')}, log odds"
        return joined([
            _card(bars("Probabilities", rows, text=percent, most=1.0)),
            _card(bars(against, evidence)) if evidence else _card(tag("p", why["problem"] or "No evidence.")),
        ])  # fmt: skip

    # How good it is

    def _quality(self) -> Iterator[Markup]:
        report = self._watch.report
        if report is None:
            yield _missing(_NO_REPORT)
            return
        for title, scores in (
            (f"Calibration, last {report.window_size:,}", report.window),
            ("Calibration, all", report.cumulative),
        ):
            yield _card(
                calibration(title, scores.reliability)
                if scores.reliability
                else _missing(f"{title}: nothing scored.")
            )
        yield _card(_confusion(report), wide=True)
        yield _card(tag("h2", "Scores"), _scores(report), wide=True)

    def _posterior(self) -> Iterator[Markup]:
        report, points = self._watch.report, [one for one in self._watch.points if one.posterior]
        weighed = None if report is None else report.posterior
        if weighed is None or not points:
            yield _missing(
                "This model weighs no hypotheses, or has not reported any; `model.kind = mixture` does."
            )
            return
        xs = [one.events for one in points]
        yield _card(stacked("Posterior by events read", xs, _bands(points), height=260), wide=True)
        regret = [
            Series("regret", [one.regret for one in points]),
            Series("its bound", [one.bound for one in points]),
        ]
        yield _card(line("Regret against the best hypothesis, by events read, nats", xs, regret), wide=True)
        best = sorted(weighed.hypotheses, key=lambda one: -one.posterior)
        rows = [[one.name, percent(one.posterior), percent(one.prior), one.loss] for one in best]
        told = f"The best so far is {weighed.best}; the mixture has lost {number(weighed.loss)} nats in all."
        header = ["hypothesis", "posterior", "prior", "log loss in all"]
        yield _card(tag("h2", "Hypotheses"), tag("p", told), table(header, rows), wide=True)

    # Labels, dead letters, model, operations

    def _labels(self) -> Iterator[Markup]:
        report, watch = self._watch.report, self._watch
        if not watch.config.topics.labels:
            yield _missing(_NO_LABELS)
            return
        found = None if report is None else report.verdicts
        if found is None:
            yield _missing("No report of labels yet; a learner that reads them writes one.")
        else:
            tiles = (
                (
                    "Coverage",
                    percent(found.coverage),
                    f"{number(found.judged)} of {number(found.served)}",
                    found.coverage,
                ),
                ("Waiting", number(found.pending), "events", found.pending),
                ("Median delay", _bound(found.median_delay), "of first labels", found.median_delay),
                ("90 % within", _bound(found.p90_delay), "of first labels", found.p90_delay),
            )
            yield tag("div", *(_tile(a, b, c, value=d) for a, b, c, d in tiles), class_="tiles")
            delays = [
                Bar("longer than a week" if one.most is None else _bound(one.most), one.events)
                for one in found.delays
            ]
            yield _card(bars("Delays of first labels, events", delays))
            yield _card(
                bars("Sources, labels", [Bar(*row) for row in Counter(found.sources).most_common(_TOP)])
            )
            yield _card(
                bars("What became of labels", [Bar(*row) for row in Counter(found.outcomes).most_common()])
            )
        newest = [
            [one.id, one.label or "(taken back)", one.source, one.weight]
            for one in reversed(list(watch.verdicts)[-_ROWS:])
        ]
        shown = table(["event", "label", "source", "weight"], newest) if newest else _missing("None yet.")
        yield _card(tag("h2", "Newest labels"), shown, wide=True)

    def _letters(self) -> Iterator[Markup]:
        letters = list(self._watch.letters)
        if not letters:
            yield _missing("No dead letters: every record could be read.")
            return
        reasons = Counter(one.about.get("reason", "?") for one in letters).most_common()
        yield _card(
            bars(f"Reasons of the newest {len(letters):,}", [Bar(*row) for row in reasons]), wide=True
        )
        rows = []
        for one in reversed(letters[-_ROWS:]):
            about = one.about
            place = f"{about.get('topic')}/{about.get('partition')}@{about.get('offset')}"
            rows.append([about.get("reason", "?"), about.get("path", ""), place, tag("code", one.value)])
        yield _card(
            tag("h2", "Newest"), table(["reason", "path", "from", "beginning of the record"], rows), wide=True
        )

    def _model(self) -> Iterable[object]:
        made, shown = self._learned
        if time.monotonic() > made + _MODEL_SECONDS or not shown:
            shown = joined(self._described())
            self._learned = time.monotonic(), shown
        return [shown]

    def _described(self) -> Iterator[Markup]:
        """Classes, size and strongest words; computed seldom, for the replica stands still for it."""
        try:
            with self._replica.lock:
                model = self._replica.asked().model
                weights = Counter({str(label): weight for label, weight in model.class_weights.items()})
                attributes, learned = model.n_attributes, model.n_events
                names = {str(label): label for label in model.class_weights}
                found = {
                    name: strongest(model.statistics, names[name], _TOP)
                    for name, weight in weights.most_common(_CLASSES)
                    if weight and isinstance(model, CountingModel)
                }
        except (StreamnbError, SnapshotError) as error:
            yield _missing(str(error))
            return
        tiles = (("Classes", len(weights)), ("Words and values", attributes), ("Events learned", learned))
        yield tag("div", *(_tile(name, number(value), value=value) for name, value in tiles), class_="tiles")
        if not found:
            yield _missing(
                "No strongest words: this kind of model keeps no counts, or nothing has been learned."
            )
        for name, words in found.items():
            rows = [
                Bar(f"{one.attribute}: {one.value}", one.log_odds, note=f"{number(one.weight)} times")
                for one in words
            ]
            yield _card(bars(f"{name}, {number(weights[name])} events: log odds", rows))

    def _operations(self) -> Iterator[Markup]:
        commits, folder, now = list(self._watch.commits), self._watch.config.snapshot_folder, time.time()
        if not commits:
            yield _missing("The journal is empty: nothing has been learned yet. `streamnb run` learns.")
            return
        kept = []
        with suppress(SnapshotError, OSError):
            kept = [(one.n, one.size, one.path.stat().st_mtime) for one in SnapshotFolder(folder).list()]
        last, state = commits[-1], self._replica.state()
        replayed = None if not kept else last.n - kept[-1][0]
        tiles = (
            ("Journal record", number(last.n), f"{_duration(now - last.now)} ago", last.n),
            (
                "Snapshots kept",
                number(len(kept)),
                f"newest {_duration(now - kept[-1][2])} old" if kept else "",
                len(kept),
            ),
            ("Recovery replays", number(replayed), "records after the newest snapshot", replayed),
            ("Replica at", number(state["journal"]), "journal record", state["journal"]),
        )
        yield tag("div", *(_tile(a, b, c, value=d) for a, b, c, d in tiles), class_="tiles")
        sizes = [float(sum(part.count for part in one.slices)) for one in commits]
        yield _card(
            line(
                "Records in each commit",
                [one.n for one in commits],
                [Series("records", sizes)],
                within=(0, 1e12),
            ),
            wide=True,
        )
        rows = [
            [str(n), f"{size:,} bytes", f"{_duration(now - written)} ago"]
            for n, size, written in reversed(kept)
        ]
        shown = (
            table(["journal record", "size", "written"], rows)
            if rows
            else _missing(f"None in {folder} of this machine.")
        )
        yield _card(tag("h2", "Snapshots"), shown)
        newest = [
            [str(one.n), one.kind, f"{size:,.0f}", _clock(one.now)]
            for one, size in list(zip(commits, sizes, strict=True))[:-13:-1]
        ]
        yield _card(tag("h2", "Newest commits"), table(["record", "kind", "records", "when, UTC"], newest))


_NO_LABELS = (
    "Labels cannot be said here: `topics.labels` is not set. Set it for the learner, too, such as "
    '`topics.labels = "labels"`.'
)
_NO_EVIDENCE = "This prediction holds no evidence. `predictions.evidence = 10` lets the learner write it."


def _missing(told: str) -> Markup:
    """What there is not, and how to get it; what stands between backticks is to be typed."""
    parts = (tag("code", part) if n % 2 else part for n, part in enumerate(told.split("`")))
    return tag("p", *parts, class_="missing")


def _card(*children: object, wide: bool = False) -> Markup:
    return tag("section", *children, class_="card wide" if wide else "card")


def _tile(name: str, shown: str, note: str = "", *, value: object = None, style: str | None = None) -> Markup:
    figures = tag(
        "span",
        shown,
        class_=f"value {style or ''}".rstrip(),
        data_value=None if value is None else str(value),
    )
    return tag(
        "div", tag("span", name, class_="name"), figures, tag("span", note, class_="soft"), class_="tile"
    )


def _truth(one: Prediction, said: dict[str, str]) -> Markup:
    if one.id in said:
        return tag("span", f"said: {said[one.id]}", class_="tag said")
    if one.truth is None:
        return tag("span", "no label", class_="tag")
    return (
        tag("span", "right", class_="tag good")
        if one.truth == one.label
        else tag("span", f"wrong: {one.truth}", class_="tag warn")
    )


def _rates(report: MetricsReport) -> Markup:
    if not report.class_rates:
        return _missing("No class rates: nothing was learned yet, or there are more than 100 classes.")
    pairs = sorted(zip(report.labels, report.class_rates, strict=True), key=lambda pair: -pair[1].weight)
    rows = [
        Bar(name, one.rate, one.lower, one.upper, f"weight {number(one.weight)}")
        for name, one in pairs[:_CLASSES]
    ]
    return bars("Class rates, with their intervals", rows, text=percent, most=1.0)


def _confusion(report: MetricsReport) -> Markup:
    if not report.confusion:
        return _missing("No confusion: nothing was scored yet, or there are more than 100 classes.")
    sums = [sum(row) for row in report.confusion]
    kept = sorted(sorted(range(len(sums)), key=lambda n: -sums[n])[:_CLASSES])
    has_empty = any(report.confusion[n][-1] for n in kept)
    columns = [*kept, len(sums)] if has_empty else kept
    names = [*report.labels, "(none yet)"]
    cells = [[report.confusion[m][n] for n in columns] for m in kept]
    rest = "" if len(kept) == len(sums) else f", the {len(kept)} most frequent of {len(sums)} classes"
    return heat_map(f"Confusion{rest}", [names[m] for m in kept], [names[n] for n in columns], cells)


def _scores(report: MetricsReport) -> Markup:
    def row(name: str, one: Scores) -> list[object]:
        found = (one.log_loss, one.macro_f1, one.kappa, one.brier, one.calibration_error)
        return [name, one.events, percent(one.accuracy), *(f"{value:.4f}" for value in found)]

    header = ["of", "events", "accuracy", "log loss", "macro-F1", "kappa", "Brier", "calibration error"]
    return table(
        header, [row(f"the last {report.window_size:,}", report.window), row("all", report.cumulative)]
    )


def _bands(points: Sequence[Point]) -> list[Series]:
    """The hypotheses that ever weighed most, the others together."""
    names = [name for name, _ in points[-1].posterior]
    shares = [dict(one.posterior) for one in points]
    most = {name: max(one.get(name, 0.0) for one in shares) for name in names}
    kept = sorted(names, key=lambda name: -most[name])[:_BANDS]
    bands = [Series(name, [one.get(name, 0.0) for one in shares]) for name in kept]
    if len(kept) == len(names):
        return bands
    return [*bands, Series("others", [1.0 - sum(one.get(name, 0.0) for name in kept) for one in shares])]


def _clock(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))


def _bound(seconds: float | None) -> str:
    return "-" if seconds is None else f"up to {_duration(seconds)}" if seconds else "at once"


def _duration(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
