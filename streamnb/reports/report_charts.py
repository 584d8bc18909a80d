"""Reports as pictures: what the live page and the page of an evaluation have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from streamnb.charts import (
    BY_NUMBER,
    Axis,
    Bar,
    Figures,
    Mark,
    Markup,
    Series,
    bars,
    calibration,
    heat_map,
    joined,
    line,
    percent,
    stacked,
    table,
    tag,
)
from streamnb.events import MetricsReport, PosteriorReport, Scores
from streamnb.reports.class_table import HEADER, by_class, cells

_CLASSES, _BANDS = 20, 7
NONE_YET = "(none yet)"
"""The head of the column of events that came before any class was known."""
_NO_HYPOTHESES = "This model weighs no hypotheses, or has not reported any: see `hypotheses`."


class Along(NamedTuple):
    """The quantity along which reports are drawn.

    Attributes:
        axis: the horizontal axis.
        place: returns the place of a report on it.
        name: what it is, for the title of a chart; empty if it need not be named.
    """

    axis: Axis
    place: Callable[[MetricsReport], float]
    name: str = ""

    def titled(self, quantity: str) -> str:
        """Return the title of a chart of a quantity."""
        return f"{quantity} by {self.name}" if self.name else quantity


BY_EVENTS = Along(BY_NUMBER, lambda report: report.events, "events read")
"""The records that the learner had read at each report."""


def missing(told: str) -> Markup:
    """Return a note on missing data and how to get it; text in backticks is shown as code."""
    return tag("p", with_code(told), class_="missing")


def with_code(text: str) -> Markup:
    """Return a sentence with the text in backticks as code."""
    return joined(tag("code", part) if n % 2 else part for n, part in enumerate(text.split("`")))


def card(*children: object, wide: bool = False) -> Markup:
    """Return a card of elements."""
    return tag("section", *children, class_="card wide" if wide else "card")


def listing(title: str, header: Sequence[str], rows: Sequence[Sequence[object]], nothing: str = "") -> Markup:
    """Return a table with its title, or a note that it is empty."""
    return card(tag("h2", title), table(header, rows) if rows else missing(nothing), wide=True)


def tiles(made: Iterable[Markup]) -> Markup:
    """Return tiles in a row."""
    return tag("div", *made, class_="tiles")


def tile(name: str, shown: str, note: str = "", value: float | None = None, *, style: str = "") -> Markup:
    """Return one number, as text and exactly."""
    exact = None if value is None else str(value)
    figures = tag("span", shown, class_=f"value {style}".rstrip(), data_value=exact)
    named = tag("div", tag("span", name, class_="name"), figures)
    return tag("div", named, tag("span", note, class_="soft"), class_="tile")


def rates(report: MetricsReport) -> Markup:
    """Return a chart of class frequencies."""
    if not report.class_rates:
        return missing("No class rates: nothing was learned yet, or there are more than 100 classes.")
    pairs = sorted(zip(report.labels, report.class_rates, strict=True), key=lambda pair: -pair[1].weight)
    places = {name: n for n, name in enumerate(report.labels)}
    rows = [
        Bar(name, one.rate, one.lower, one.upper, colour=fixed_colour(places[name]))
        for name, one in pairs[:_CLASSES]
    ]
    return bars("Class rates, with their intervals", rows, text=percent, most=1.0)


def confusion(report: MetricsReport, link: Callable[[str, str], str] | None = None) -> Markup:
    """Return the confusion matrix, in which numbers lead to `link` of truth and prediction."""
    if not report.confusion:
        return missing("No confusion: nothing was scored yet, or there are more than 100 classes.")
    sums = [sum(row) for row in report.confusion]
    kept = sorted(sorted(range(len(sums)), key=lambda n: -sums[n])[:_CLASSES])
    has_empty = any(report.confusion[n][-1] for n in kept)
    columns, names = [*kept, len(sums)] if has_empty else kept, [*report.labels, NONE_YET]
    cells = [[report.confusion[m][n] for n in columns] for m in kept]
    rest = "" if len(kept) == len(sums) else f", the {len(kept)} most frequent of {len(sums)} classes"
    rows, heads = [names[m] for m in kept], [names[n] for n in columns]
    return heat_map(f"Confusion{rest}", rows, heads, cells, link=link)


def fixed_colour(place: int) -> int:
    """Return the colour of the class or hypothesis with a place in an order that does not change.

    It is 1 to 7, and then 9 to 15, which are darker or lighter. 8 is grey.
    """
    return place % (2 * _BANDS) + 1 + (place % (2 * _BANDS) >= _BANDS)


def scores(name: str, one: Scores) -> list[object]:
    """Return a row of all scores."""
    found = (one.log_loss, one.macro_f1, one.kappa, one.brier, one.calibration_error)
    return [name, one.events, Figures(percent(one.accuracy)), *(Figures(f"{value:.4f}") for value in found)]


def bands(weighed: Sequence[PosteriorReport]) -> list[Series]:
    """Return the series of the hypotheses with the greatest weights, and the sum of all further ones.

    A hypothesis has the colour of its place in the configuration, in whichever order the series are.
    """
    places = {one.name: n for n, one in enumerate(weighed[-1].hypotheses)}
    shares = [{each.name: each.posterior for each in one.hypotheses} for one in weighed]
    most = {name: max(one.get(name, 0.0) for one in shares) for name in shares[-1]}
    kept = sorted(most, key=lambda name: -most[name])[:_BANDS]
    bands = [
        Series(name, [one.get(name, 0.0) for one in shares], colour=fixed_colour(places[name]))
        for name in kept
    ]
    others = Series("others", [1.0 - sum(one.get(name, 0.0) for name in kept) for one in shares], colour=8)
    return bands if len(kept) == len(most) else [*bands, others]


def accuracy(
    points: Sequence[MetricsReport], report: MetricsReport, marks: Sequence[Mark], along: Along = BY_EVENTS
) -> Markup:
    """Plot the accuracy: of the window, with its credible band, and of all."""
    windows = [one.window for one in points]
    mass = "" if report.interval_mass is None else f" ({percent(report.interval_mass)} credible)"
    within = [one.accuracy_interval for one in windows]
    window = Series(
        f"last {report.window_size:,}{mass}",
        [one.accuracy for one in windows],
        [one.lower if one else None for one in within],
        [one.upper if one else None for one in within],
    )
    both = [window, Series("all", [one.cumulative.accuracy for one in points])]
    xs, title = [along.place(one) for one in points], along.titled("Accuracy")
    return line(title, xs, both, marks=marks, within=(0, 1), y=percent, axis=along.axis)


def log_loss(
    points: Sequence[MetricsReport], report: MetricsReport, marks: Sequence[Mark], along: Along = BY_EVENTS
) -> Markup:
    """Plot the log loss: of the window, and of all."""
    both = [
        Series(f"last {report.window_size:,}", [one.window.log_loss for one in points]),
        Series("all", [one.cumulative.log_loss for one in points]),
    ]
    xs, title = [along.place(one) for one in points], f"{along.titled('Log loss')}, nats"
    return line(title, xs, both, marks=marks, within=(0, 1e9), axis=along.axis)


def quality(report: MetricsReport, confused: Iterable[Markup] | None = None) -> Iterable[Markup]:
    """Return the charts of prediction quality: calibration, confusion, all scores.

    `confused` shows the confusion instead of the matrix.
    """
    scopes = ((f"the last {report.window_size:,}", report.window), ("all", report.cumulative))
    for name, one in scopes:
        yield card(calibration(f"Calibration, {name}", one.reliability))
    yield from [card(confusion(report), wide=True)] if confused is None else confused
    header = ["of", "events", "accuracy", "log loss", "macro-F1", "kappa", "Brier", "calibration error"]
    yield listing("Scores", header, [scores(*scope) for scope in scopes])
    if found := by_class(report):
        found.sort(key=lambda one: -one.events)
        cut = "" if len(found) <= _CLASSES else f", the {_CLASSES} most frequent of {len(found)}"
        yield listing(f"By class{cut}", HEADER, cells(found[:_CLASSES]))


def posterior(
    points: Sequence[MetricsReport], marks: Sequence[Mark] = (), along: Along = BY_EVENTS
) -> Iterable[Markup]:
    """Plot the posterior of the hypotheses, with the regret and its bound."""
    found = [(along.place(one), one.posterior) for one in points if one.posterior is not None]
    if not found:
        yield missing(_NO_HYPOTHESES)
        return
    xs, weighed, last = [x for x, _ in found], [one for _, one in found], found[-1][1]
    best = sorted(last.hypotheses, key=lambda one: -one.posterior)
    title = along.titled("Posterior")
    yield card(
        stacked(title, xs, bands(weighed), marks=marks, axis=along.axis, height=260),
        wide=True,
    )
    regrets = Series("regret", [one.regret for one in weighed])
    both = [regrets, Series("its bound", [one.bound for one in weighed])]
    title = f"{along.titled(f'Regret against the best hypothesis, {last.best},')} in nats"
    yield card(line(title, xs, both, marks=marks, axis=along.axis, is_whole=True), wide=True)
    rows = [(one.name, percent(one.posterior), percent(one.prior), one.loss) for one in best]
    yield listing("Hypotheses", ["hypothesis", "posterior", "prior", "log loss in all, nats"], rows)
