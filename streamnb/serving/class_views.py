"""The classes: which are confused, which are best, worst and most changed, and a page for each."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from urllib.parse import urlencode

from streamnb.charts import Bar, Figures, Markup, Series, bars, joined, line, number, percent, tag
from streamnb.charts.html_markup import visible
from streamnb.events import MetricsReport, Prediction
from streamnb.reports import report_charts
from streamnb.reports.report_charts import NONE_YET, card, listing, missing, tile
from streamnb.serving.class_scores import RecentScore, RecentScores, class_colour, recent_scores
from streamnb.serving.learned_views import ModelPage
from streamnb.serving.recent_records import RecentRecords
from streamnb.serving.report_history import ReportPoint
from streamnb.serving.time_ranges import DrawnRange, clock, drawn_range

_MATRIX = 12  # classes that a readable matrix may have
_LISTED, _CONFUSIONS, _EVENTS = 10, 25, 8
_INTERVALS = 24  # steps of precision and recall over time
_SECONDS = 4.0  # for which scores of the newest predictions are kept
_SCORED = 10_000  # newest predictions
_HEADER = ("class", "events", "precision", "recall", "F1", "change of F1")


class _LinkedNumber(Markup, Figures):
    """A number that is a link."""


class ClassViews:
    """Views of the classes of one model.

    Args:
        watch: the newest records.
        learned: the words of the model.
    """

    def __init__(self, watch: RecentRecords, learned: ModelPage) -> None:
        self._watch, self._learned = watch, learned
        self._scores: tuple[float, RecentScores] | None = None

    def shown(self, asked: Mapping[str, str]) -> Markup:
        """Return the page of a class, or of all. Takes the lock, and the replica's before it."""
        label = asked.get("class")
        words = None if label is None else self._learned.words_of(label)
        with self._watch.lock:
            return joined(self._all() if label is None else self._one(label, asked, words))

    def confusion(self) -> Iterator[Markup]:
        """Yield the confusion matrix, or the most frequent confusions of many classes. Needs the lock."""
        report = self._watch.report
        if report is None:
            return
        if report.confusion and len(report.labels) <= _MATRIX:
            yield card(report_charts.confusion(report, _events_path), wide=True)
        else:
            yield self._confusions(report)
        yield tag("p", "A number leads to its events among the newest predictions.", class_="soft")

    def _confusions(self, report: MetricsReport) -> Markup:
        """Return the most frequent confusions, of all events or of the newest labelled predictions."""
        if report.confusion:
            names = report.labels
            counted = {
                (names[m], names[n]): count
                for m, row in enumerate(report.confusion)
                for n, count in enumerate(row[:-1])
                if count and m != n
            }
            found, scope = sorted(counted.items(), key=lambda item: -item[1]), "all events"
            events = dict(zip(names, map(sum, report.confusion), strict=True))
        else:
            scores = self._recent()
            found = [((a, b), n) for (a, b), n in scores.confusions if b is not None]
            events = {one.label: one.events for one in scores.classes}
            scope = f"the newest {scores.n_events:,} labelled predictions"
        title = f"Most frequent confusions of {scope}"
        rows = [
            (
                _class_link(truth),
                _class_link(guess),
                _LinkedNumber(tag("a", number(n), href=_events_path(truth, guess))),
                Figures(percent(n / events[truth])),
            )
            for (truth, guess), n in found[:_CONFUSIONS]
        ]
        header = ["label", "predicted as", "events", "share of the label"]
        return listing(title, header, rows, "No wrong prediction among them.")

    # All classes

    def _all(self) -> Iterator[Markup]:
        report, scores = self._watch.report, self._recent()
        known = report.classes if report is not None else len(scores.classes)
        names = report.labels if report is not None else ()
        worst = sorted((one for one in scores.classes if one.events), key=lambda one: (one.f1, -one.events))
        noted = f"scored over the newest {scores.n_events:,} labelled predictions"
        tiles = [tile("Classes", number(known), noted, known)]
        if worst:
            tiles.append(tile("Lowest F1", f"{worst[0].f1:.3f}", f"{worst[0].label:.60}", worst[0].f1))
        yield report_charts.tiles(tiles)
        if not scores.classes:
            yield missing("No labelled prediction was read yet.")
            return
        if len(scores.classes) <= 2 * _LISTED:
            yield listing("Classes, the most frequent first", _HEADER, _rows(scores.classes, names))
        else:
            yield listing("Worst", _HEADER, _rows(worst[:_LISTED], names))
            yield listing("Best", _HEADER, _rows(worst[: -_LISTED - 1 : -1], names))
            changed = [one for one in scores.classes if one.change is not None]
            changed.sort(key=lambda one: -abs(one.change or 0.0))
            title = "Most changed between the older and the newer half"
            yield listing(title, _HEADER, _rows(changed[:_LISTED], names), "No class has events in both.")
            yield listing("Most frequent", _HEADER, _rows(scores.classes[:_LISTED], names))
        yield from self.confusion()
        links = [_class_link(name) for name in (names or [one.label for one in scores.classes])]
        told = tag("summary", f"All {len(links):,} classes")
        yield card(tag("details", told, *(tag("p", each) for each in links), class_="all"), wide=True)

    def _recent(self) -> RecentScores:
        now = time.monotonic()
        if self._scores is None or now > self._scores[0] + _SECONDS:
            self._scores = now, recent_scores(self._watch.labelled_pairs(_SCORED))
        return self._scores[1]

    # One class

    def _one(self, label: str, asked: Mapping[str, str], words: Markup | None) -> Iterator[Markup]:
        found = [one for one in self._recent().classes if one.label == label]
        report = self._watch.report
        names = () if report is None else report.labels
        dot = _dot(class_colour(label, names))
        yield tag("h2", dot, " ", tag("bdi", visible(label)), class_="class-name")
        if not found and label not in names:
            yield missing("No such class among the newest predictions, nor in the newest report.")
            return
        if found:
            one = found[0]
            noted = f"over the newest {self._recent().n_events:,} labelled predictions"
            yield report_charts.tiles([
                tile("Recall", percent(one.recall), noted, one.recall),
                tile("Precision", percent(one.precision), "", one.precision),
                tile("Events", number(one.events), "", one.events),
                tile("Predicted", number(one.predicted), "", one.predicted),
            ])  # fmt: skip
        yield from self._over_time(label, drawn_range(self._watch, asked))
        if words is not None:
            yield words
        yield self._events(label)
        sources = Counter(each.source for each in self._watch.verdicts if each.label == label)
        if sources:
            rows = [Bar(*each) for each in sources.most_common(_EVENTS)]
            yield card(bars(f"Sources of its labels, of the newest {len(self._watch.verdicts):,}", rows))

    def _over_time(self, label: str, drawn: DrawnRange) -> Iterator[Markup]:
        points = [one for one in drawn.points if one.classes is not None]
        step = max(1, len(points) // _INTERVALS)
        points = points[(len(points) - 1) % step :: step] if points else []
        shares = [_shares(a, b, label) for a, b in pairwise(points)]
        if not shares:
            yield missing("No reports of this class in this range; there are none above 100 classes.")
            return
        xs = [drawn.along.place(one.report) for one in points[1:]]
        names, axis = ("precision", "recall", "rate"), drawn.along.axis
        lines = [Series(name, [each[n] for each in shares]) for n, name in enumerate(names)]
        options = {"marks": drawn.marks, "within": (0.0, 1.0), "y": percent, "axis": axis, "is_whole": True}
        colour = class_colour(label, points[-1].classes.labels if points[-1].classes else ())
        title = drawn.along.titled("Precision and recall of each interval")
        yield card(line(title, xs, lines[:2], **options), wide=True)  # type: ignore[arg-type]
        rate = [lines[2]._replace(colour=colour)]
        yield card(line(drawn.along.titled("Rate"), xs, rate, **options))  # type: ignore[arg-type]

    def _events(self, label: str) -> Markup:
        """Return the newest events of the class, and the wrong predictions that were most sure."""
        watch = self._watch
        made = []
        newest = watch.matching(_EVENTS, lambda truth, guess: label in {truth, guess})
        wrong = watch.matching(
            10 * _EVENTS, lambda truth, guess: truth not in {None, guess} and label in {truth, guess}
        )
        worst = sorted(wrong, key=lambda each: -(each.probability or 0.0))[:_EVENTS]
        header = ["event", "when, UTC", "label", "predicted", "probability"]
        for title, found in (("Newest", newest), ("Most sure and wrong", worst)):
            rows = [self._row(each) for each in found]
            made.append(listing(title, header, rows, "None among the newest predictions."))
        return joined(made)

    def _row(self, one: Prediction) -> Sequence[object]:
        truth = self._watch.judging.label(one.id, one.truth)
        style = "" if truth is None else "good" if truth == one.label else "warn"
        shown = tag("span", visible(truth or "not known"), class_=f"tag {style}".rstrip())
        guess = "no class yet" if one.label is None else visible(one.label)
        link = tag("a", one.id, href=f"/page/events?{urlencode({'id': one.id})}")
        return link, clock(one.ts), shown, guess, Figures(percent(one.probability))


def _shares(before: ReportPoint, after: ReportPoint, label: str) -> tuple[float | None, ...]:
    """Return precision, recall and rate of a class between two reports; None if they are not known."""
    a, b = before.classes, after.classes
    if a is None or b is None or label not in b.labels:
        return None, None, None
    place = b.labels.index(label)
    old = a.counts[:, place].tolist() if place < len(a.labels) and a.labels[place] == label else [0, 0, 0]
    events, predicted, right = (
        new - each for new, each in zip(b.counts[:, place].tolist(), old, strict=True)
    )
    total = int(b.counts[0].sum() - a.counts[0].sum())
    return _share(right, predicted), _share(right, events), _share(events, total)


def _share(part: int, whole: int) -> float | None:
    """Return a share; None if corrected labels have made it meaningless."""
    return part / whole if 0 <= part <= whole and whole else None


def _rows(found: Sequence[RecentScore], names: Sequence[str]) -> list[Sequence[object]]:
    text: Callable[[float | None], Figures] = lambda value: Figures("-" if value is None else f"{value:.3f}")  # noqa: E731
    return [
        (
            joined([_dot(class_colour(one.label, names)), " ", _class_link(one.label)]),
            one.events,
            text(one.precision),
            text(one.recall),
            text(one.f1),
            Figures("-" if one.change is None else f"{one.change:+.3f}"),
        )
        for one in found
    ]


def _dot(colour: int) -> Markup:
    circle = tag("circle", cx=5, cy=5, r=5, class_=f"area c{colour}")
    return tag("svg", circle, width=10, height=10, aria_hidden="true", class_="snb dot")


def _class_link(label: str) -> Markup:
    return tag("a", tag("bdi", visible(label)), href=f"/page/classes?{urlencode({'class': label})}")


def _events_path(truth: str, guess: str) -> str:
    """Return the address of the events of a label with this prediction; the prediction may be empty."""
    chosen = {"truth": truth, "predicted": "" if guess == NONE_YET else guess}
    return f"/page/events?{urlencode(chosen)}"
