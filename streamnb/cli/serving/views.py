"""The views of the live page, as HTML: what the topics hold, or what is missing and how to get it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from streamnb.adapters.snapshot_folder import SnapshotFolder
from streamnb.cli.answers import explained
from streamnb.cli.serving.replica import Replica
from streamnb.cli.serving.watch import Watch
from streamnb.errors import ConfigError, SnapshotError, StreamnbError
from streamnb.events import MetricsReport, PosteriorReport, Prediction, Scores
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
_PLACE = ("reason", "path", "topic", "partition", "offset")
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
        if name == "model":  # asks the replica, and keeps nobody waiting who reads
            return self._model()
        shown: dict[str, Callable[[], Iterable[object]]] = {
            "": self._overview,
            "events": lambda: self._events(asked),
            "quality": self._quality,
            "posterior": self._posterior,
            "labels": self._labels,
            "dead-letters": self._letters,
            "operations": self._operations,
        }
        with self._watch.lock:
            return joined([self._trouble(), *shown.get(name, lambda: ())()])

    def _trouble(self) -> Markup | None:
        watch = self._watch
        told = watch.problem or ("Reading the newest records ..." if watch.is_loading else "")
        if watch.missing:
            told = told or f"There is no topic {', '.join(watch.missing)}: `streamnb topics create` makes it"
        return tag("p", told, class_="trouble") if told else None

    # Overview

    def _overview(self) -> Iterator[Markup]:
        watch, report = self._watch, self._watch.report
        yield self._state(report)
        if report is None:
            yield _missing(_NO_REPORT)
            return
        xs, windows = [one.events for one in watch.points], [one.window for one in watch.points]
        marks = [(drift.events, f"drift: {drift.detector} at {drift.id}") for drift in watch.drifts]
        mass = "" if report.interval_mass is None else f" ({percent(report.interval_mass)} credible)"
        last, wholes = f"last {report.window_size:,}", [one.cumulative for one in watch.points]
        within = [one.accuracy_interval for one in windows]
        window = Series(
            last + mass,
            [one.accuracy for one in windows],
            [one.lower if one else None for one in within],
            [one.upper if one else None for one in within],
        )
        both = [window, Series("all", [one.accuracy for one in wholes])]
        accuracy = line("Accuracy by events read", xs, both, marks=marks, within=(0, 1), y=percent)
        yield _card(accuracy, wide=True)
        both = [
            Series(last, [one.log_loss for one in windows]),
            Series("all", [one.log_loss for one in wholes]),
        ]
        yield _card(line("Log loss by events read, nats", xs, both, marks=marks, within=(0, 1e9)))
        yield _card(_rates(report))
        newest = list(watch.drifts)[:-11:-1]
        rates = [(percent(one.error_rate), percent(one.recent_error_rate), _clock(one.ts)) for one in newest]
        rows = [(one.detector, one.id, one.events, *more) for one, more in zip(newest, rates, strict=True)]
        header = ["detector", "at event", "records read", "errors", "of the last 100", "when, UTC"]
        yield _listing(
            "Drifts", header, rows, "None among the records read; `drift.detectors` look for them."
        )

    def _state(self, report: MetricsReport | None) -> Markup:
        watch, state, told, style = self._watch, "has not begun", "", "warn"
        behind = watch.behind()
        if watch.commits:
            age = time.time() - watch.commits[-1].now
            is_new, told = age <= _STALLED_SECONDS, f"commit {_duration(age)} ago"
            state = "learns" if is_new else "no commit" if behind else "idle"
            style = "warn" if behind and not is_new else "good"
        tiles = [
            _tile("Learner", state, told, style=style),
            _tile("Records a second", count(watch.rate()), "over ten seconds"),
            _tile("Behind", number(behind), "records to read", behind),
        ]
        if report is not None:
            scores, interval = report.window, report.window.accuracy_interval
            between = "" if interval is None else f"{percent(interval.lower)} to {percent(interval.upper)}"
            learned = f"{number(report.learned)} learned"
            tiles += [
                _tile("Accuracy", percent(scores.accuracy), between, scores.accuracy),
                _tile("Log loss", number(scores.log_loss), "nats", scores.log_loss),
                _tile("Events read", number(report.events), learned, report.events),
            ]
        return _tiles(tiles)

    # Predictions, and what is said of them

    def _events(self, asked: dict[str, str]) -> Iterator[Markup]:
        watch = self._watch
        said = {verdict.id: verdict.label or "nothing" for verdict in watch.verdicts}
        if not self._is_writable:
            yield _missing(_NO_LABELS)
        if "id" in asked:
            one = watch.prediction(asked["id"])
            yield self._details(one, said) if one else _missing("This event is not among those read.")
            return
        found = watch.predictions(asked.get("q", ""), _ROWS, wrong="wrong" in asked)
        if not found:
            yield _missing("No such prediction among those read." if watch.n_seen else "No predictions yet.")
            return
        told = f"The newest of {watch.n_seen:,}; the list stands still while you point at it."
        yield tag("p", told, class_="soft")
        yield tag("ul", *(self._row(one, said) for one in found), class_="rows", data_hold=True)

    def _row(self, one: Prediction, said: dict[str, str]) -> Markup:
        link = tag("a", one.id, href=f"/page/events?id={quote(one.id, safe='')}", class_="id")
        sure = f"{one.label} {percent(one.probability)}" if one.label else "no class yet"
        return tag("li", link, tag("span", sure, class_="guess"), _truth(one, said), self._buttons(one))

    def _buttons(self, one: Prediction) -> Markup | None:
        """One for each of the most probable classes."""
        labels = [label for label, _ in Counter(one.probabilities).most_common(_CHOICES)]
        made = [tag("button", v, name="label", value=v, aria_label=f"{one.id} is {v}") for v in labels]
        return self._form(one, *made) if made else None

    def _form(self, one: Prediction, *children: object) -> Markup | None:
        if not self._is_writable:
            return None
        hidden = (("csrf", self._csrf), ("id", one.id))
        fields = (tag("input", type="hidden", name=name, value=value) for name, value in hidden)
        sent = {"method": "post", "action": "/page/label", "class_": "say", "data_send": True}
        return tag("form", *fields, *children, **sent)

    def _details(self, one: Prediction, said: dict[str, str]) -> Markup:
        told = f"Predicted {_clock(one.ts)} UTC by {one.model.name} after {one.model.events:,} events."
        evidence = [(f"{each.attribute}: {each.value}", each.log_odds) for each in one.evidence or ()]
        other = tag("input", name="label", required=True, maxlength=1000, aria_label="another label")
        return joined([
            tag("h2", one.id, " ", _truth(one, said)),
            tag("p", told, class_="soft"),
            self._buttons(one),
            self._form(one, other, tag("button", "is its label")),
            _shares("Probabilities", one.probabilities),
            _bars("Evidence, log odds", evidence) if evidence else _card(_missing(_NO_EVIDENCE)),
            _shares("Hypotheses", one.hypotheses) if one.hypotheses else None,
        ])  # fmt: skip

    def tried(self, text: str) -> Markup:
        """What the model says of a message, and why."""
        if len(text) > _MOST_TRIED:
            return _missing(f"At most {_MOST_TRIED:,} characters; ask `streamnb explain`.")
        why: dict[str, Any] = {"evidence": ()}
        problem = "No evidence."
        try:
            with self._replica.lock:
                model = self._replica.asked()
                event = model.event(text)
                (probabilities,) = model.predicted([event])
                try:
                    why = explained(model, event, None, 12)
                except ConfigError as error:
                    problem = str(error)
        except StreamnbError as error:
            return tag("p", str(error), class_="trouble")
        evidence = [(f"{one['attribute']}: {one['value']}", one["log_odds"]) for one in why["evidence"]]
        title = f"Evidence for {why.get('label')} against {why.get('against')}, log odds"
        because = _bars(title, evidence) if evidence else _card(_missing(problem))
        return joined([_shares("Probabilities", probabilities), because])

    # How good it is

    def _quality(self) -> Iterator[Markup]:
        report = self._watch.report
        if report is None:
            yield _missing(_NO_REPORT)
            return
        scopes = ((f"the last {report.window_size:,}", report.window), ("all", report.cumulative))
        for name, scores in scopes:
            yield _card(calibration(f"Calibration, {name}", scores.reliability))
        yield _card(_confusion(report), wide=True)
        header = ["of", "events", "accuracy", "log loss", "macro-F1", "kappa", "Brier", "calibration error"]
        yield _listing("Scores", header, [_scores(*scope) for scope in scopes])

    def _posterior(self) -> Iterator[Markup]:
        found = [(one.events, one.posterior) for one in self._watch.points if one.posterior is not None]
        if not found:
            yield _missing("This model weighs no hypotheses, or has not reported any: see `hypotheses`.")
            return
        xs, weighed, last = [n for n, _ in found], [one for _, one in found], found[-1][1]
        yield _card(stacked("Posterior by events read", xs, _bands(weighed), height=260), wide=True)
        regrets = Series("regret", [one.regret for one in weighed])
        both = [regrets, Series("its bound", [one.bound for one in weighed])]
        title = f"Regret against the best hypothesis, {last.best}, by events read, nats"
        yield _card(line(title, xs, both), wide=True)
        best = sorted(last.hypotheses, key=lambda one: -one.posterior)
        rows = [(one.name, percent(one.posterior), percent(one.prior), one.loss) for one in best]
        yield _listing("Hypotheses", ["hypothesis", "posterior", "prior", "log loss in all, nats"], rows)

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
            judged = f"{number(found.judged)} of {number(found.served)}"
            yield _tiles([
                _tile("Coverage", percent(found.coverage), judged, found.coverage),
                _tile("Waiting", number(found.pending), "events", found.pending),
                _tile("Median delay", _bound(found.median_delay), "of first labels", found.median_delay),
                _tile("90 % within", _bound(found.p90_delay), "of first labels", found.p90_delay),
            ])  # fmt: skip
            most = [(one.most, one.events) for one in found.delays]
            delays = [("longer than a week" if a is None else _bound(a), n) for a, n in most]
            yield _bars("Delays of first labels, events", delays)
            yield _bars("Sources, labels", Counter(found.sources).most_common(_TOP))
            yield _bars("What became of labels", Counter(found.outcomes).most_common())
        newest = list(watch.verdicts)[: -_ROWS - 1 : -1]
        rows = [(one.id, one.label or "(taken back)", one.source, one.weight) for one in newest]
        yield _listing("Newest labels", ["event", "label", "source", "weight"], rows, "None yet.")

    def _letters(self) -> Iterator[Markup]:
        letters = list(self._watch.letters)
        if not letters:
            yield _missing("No dead letters among the records read.")
            return
        reasons = Counter(one.about.get("reason", "?") for one in letters).most_common()
        yield _bars(f"Reasons of the newest {len(letters):,}", reasons)
        rows = []
        for one in letters[: -_ROWS - 1 : -1]:
            reason, path, *place = (one.about.get(key, "?") for key in _PLACE)
            rows.append((reason, path, "{}/{}@{}".format(*place), tag("code", one.value)))
        yield _listing("Newest", ["reason", "path", "from", "beginning of the record"], rows)

    def _model(self) -> Markup:
        """Classes, size and strongest words; computed seldom, for the replica stands still for it."""
        made, shown = self._learned
        if not shown or time.monotonic() > made + _MODEL_SECONDS:
            try:
                with self._replica.lock:
                    model = self._replica.asked().model
                    weights = Counter(dict(model.class_weights)).most_common(_CLASSES)
                    sizes = len(model.class_weights), model.n_attributes, model.n_events
                    counted = weights if isinstance(model, CountingModel) else []
                    words = [strongest(model.statistics, label, _TOP) if n else [] for label, n in counted]
            except StreamnbError as error:
                return _missing(str(error))
            names = ("Classes", "Words and values", "Events learned")
            tiles = _tiles(_tile(a, number(n), value=n) for a, n in zip(names, sizes, strict=True))
            cards = [
                _bars(
                    f"{label}, {number(n)} learned: log odds",
                    sorted([(f"{a}: {v}", odds) for a, v, odds, _ in found], key=lambda row: -row[1]),
                )
                for (label, n), found in zip(counted, words, strict=True)
            ]
            shown = joined([tiles, *(cards or [_missing("This kind of model keeps no counts of words.")])])
            self._learned = time.monotonic(), shown
        return shown

    def _operations(self) -> Iterator[Markup]:
        commits, folder, now = list(self._watch.commits), self._watch.config.snapshot_folder, time.time()
        if not commits:
            yield _missing("The journal is empty: nothing has been learned yet; `streamnb run` learns.")
            return
        kept = []
        with suppress(SnapshotError, OSError):
            kept = [
                (one.n, one.size, now - one.path.stat().st_mtime) for one in SnapshotFolder(folder).list()
            ]
        last, at = commits[-1], self._replica.state()["journal"]
        left = last.n - kept[-1][0] if kept else None
        newest = f"newest {_duration(kept[-1][2])} old" if kept else ""
        yield _tiles([
            _tile("Journal record", number(last.n), f"{_duration(now - last.now)} ago", last.n),
            _tile("Snapshots kept", number(len(kept)), newest, len(kept)),
            _tile("Recovery replays", number(left), "records after the newest snapshot", left),
            _tile("Replica at", number(at), "journal record", at),
        ])  # fmt: skip
        sizes = [sum(part.count for part in one.slices) for one in commits]
        xs, series = [one.n for one in commits], [Series("records", sizes)]
        yield _card(line("Records in each commit", xs, series, within=(0, 1e12)), wide=True)
        files = [(str(n), f"{size:,} bytes", f"{_duration(age)} ago") for n, size, age in reversed(kept)]
        nothing = f"None in {folder} of this machine."
        yield _listing("Snapshots", ["journal record", "size", "written"], files, nothing)
        pairs = list(zip(commits, sizes, strict=True))[:-13:-1]
        rows = [(str(one.n), one.kind, f"{size:,}", _clock(one.now)) for one, size in pairs]
        yield _listing("Newest commits", ["record", "kind", "records", "when, UTC"], rows)


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


def _listing(
    title: str, header: Sequence[str], rows: Sequence[Sequence[object]], nothing: str = ""
) -> Markup:
    return _card(tag("h2", title), table(header, rows) if rows else _missing(nothing), wide=True)


def _bars(title: str, rows: Iterable[tuple[str, float]]) -> Markup:
    return _card(bars(title, [Bar(*row) for row in rows]))


def _shares(title: str, given: Mapping[str, float]) -> Markup:
    """The greatest of them."""
    rows = sorted(given.items(), key=lambda item: -item[1])[:_TOP]
    return _card(bars(title, [Bar(*row) for row in rows], text=percent, most=1.0))


def _tiles(tiles: Iterable[Markup]) -> Markup:
    return tag("div", *tiles, class_="tiles")


def _tile(name: str, shown: str, note: str = "", value: float | None = None, *, style: str = "") -> Markup:
    exact = None if value is None else str(value)
    figures = tag("span", shown, class_=f"value {style}".rstrip(), data_value=exact)
    return tag(
        "div", tag("span", name, class_="name"), figures, tag("span", note, class_="soft"), class_="tile"
    )


def _truth(one: Prediction, said: dict[str, str]) -> Markup:
    if one.id in said:
        return tag("span", f"said: {said[one.id]}", class_="tag said")
    if one.truth is None:
        return tag("span", "no label", class_="tag")
    is_right = one.truth == one.label
    shown = "right" if is_right else f"wrong: {one.truth}"
    return tag("span", shown, class_="tag good" if is_right else "tag warn")


def _rates(report: MetricsReport) -> Markup:
    if not report.class_rates:
        return _missing("No class rates: nothing was learned yet, or there are more than 100 classes.")
    pairs = sorted(zip(report.labels, report.class_rates, strict=True), key=lambda pair: -pair[1].weight)
    rows = [Bar(name, one.rate, one.lower, one.upper) for name, one in pairs[:_CLASSES]]
    return bars("Class rates, with their intervals", rows, text=percent, most=1.0)


def _confusion(report: MetricsReport) -> Markup:
    if not report.confusion:
        return _missing("No confusion: nothing was scored yet, or there are more than 100 classes.")
    sums = [sum(row) for row in report.confusion]
    kept = sorted(sorted(range(len(sums)), key=lambda n: -sums[n])[:_CLASSES])
    has_empty = any(report.confusion[n][-1] for n in kept)
    columns, names = [*kept, len(sums)] if has_empty else kept, [*report.labels, "(none yet)"]
    cells = [[report.confusion[m][n] for n in columns] for m in kept]
    rest = "" if len(kept) == len(sums) else f", the {len(kept)} most frequent of {len(sums)} classes"
    return heat_map(f"Confusion{rest}", [names[m] for m in kept], [names[n] for n in columns], cells)


def _scores(name: str, one: Scores) -> list[object]:
    found = (one.log_loss, one.macro_f1, one.kappa, one.brier, one.calibration_error)
    return [name, one.events, percent(one.accuracy), *(f"{value:.4f}" for value in found)]


def _bands(weighed: Sequence[PosteriorReport]) -> list[Series]:
    """The hypotheses that ever weighed most, the others together."""
    shares = [{each.name: each.posterior for each in one.hypotheses} for one in weighed]
    most = {name: max(one.get(name, 0.0) for one in shares) for name in shares[-1]}
    kept = sorted(most, key=lambda name: -most[name])[:_BANDS]
    bands = [Series(name, [one.get(name, 0.0) for one in shares]) for name in kept]
    others = Series("others", [1.0 - sum(one.get(name, 0.0) for name in kept) for one in shares])
    return bands if len(kept) == len(most) else [*bands, others]


def _clock(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))


def _bound(seconds: float | None) -> str:
    return "-" if seconds is None else f"up to {_duration(seconds)}" if seconds else "at once"


def _duration(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
