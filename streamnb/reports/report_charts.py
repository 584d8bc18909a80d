"""Reports as pictures: what the live page and the page of an evaluation have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from streamnb.charts import (
    Bar,
    Figures,
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
_NO_HYPOTHESES = "This model weighs no hypotheses, or has not reported any: see `hypotheses`."
Marks = Sequence[tuple[float, str]]
"""(events read, what happened there)."""


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
    return tag(
        "div", tag("span", name, class_="name"), figures, tag("span", note, class_="soft"), class_="tile"
    )


def rates(report: MetricsReport) -> Markup:
    """Return a chart of class frequencies."""
    if not report.class_rates:
        return missing("No class rates: nothing was learned yet, or there are more than 100 classes.")
    pairs = sorted(zip(report.labels, report.class_rates, strict=True), key=lambda pair: -pair[1].weight)
    rows = [Bar(name, one.rate, one.lower, one.upper) for name, one in pairs[:_CLASSES]]
    return bars("Class rates, with their intervals", rows, text=percent, most=1.0)


def confusion(report: MetricsReport) -> Markup:
    """Return the confusion matrix."""
    if not report.confusion:
        return missing("No confusion: nothing was scored yet, or there are more than 100 classes.")
    sums = [sum(row) for row in report.confusion]
    kept = sorted(sorted(range(len(sums)), key=lambda n: -sums[n])[:_CLASSES])
    has_empty = any(report.confusion[n][-1] for n in kept)
    columns, names = [*kept, len(sums)] if has_empty else kept, [*report.labels, "(none yet)"]
    cells = [[report.confusion[m][n] for n in columns] for m in kept]
    rest = "" if len(kept) == len(sums) else f", the {len(kept)} most frequent of {len(sums)} classes"
    return heat_map(f"Confusion{rest}", [names[m] for m in kept], [names[n] for n in columns], cells)


def scores(name: str, one: Scores) -> list[object]:
    """Return a row of all scores."""
    found = (one.log_loss, one.macro_f1, one.kappa, one.brier, one.calibration_error)
    return [name, one.events, Figures(percent(one.accuracy)), *(Figures(f"{value:.4f}") for value in found)]


def bands(weighed: Sequence[PosteriorReport]) -> list[Series]:
    """Return the series of the hypotheses with the greatest weights, and the sum of all further ones."""
    shares = [{each.name: each.posterior for each in one.hypotheses} for one in weighed]
    most = {name: max(one.get(name, 0.0) for one in shares) for name in shares[-1]}
    kept = sorted(most, key=lambda name: -most[name])[:_BANDS]
    bands = [Series(name, [one.get(name, 0.0) for one in shares]) for name in kept]
    others = Series("others", [1.0 - sum(one.get(name, 0.0) for name in kept) for one in shares])
    return bands if len(kept) == len(most) else [*bands, others]


def accuracy(points: Sequence[MetricsReport], report: MetricsReport, marks: Marks) -> Markup:
    """Plot the accuracy over the events: of the window, with its credible band, and of all."""
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
    xs = [one.events for one in points]
    return line("Accuracy by events read", xs, both, marks=marks, within=(0, 1), y=percent)


def log_loss(points: Sequence[MetricsReport], report: MetricsReport, marks: Marks) -> Markup:
    """Plot the log loss over the events: of the window, and of all."""
    both = [
        Series(f"last {report.window_size:,}", [one.window.log_loss for one in points]),
        Series("all", [one.cumulative.log_loss for one in points]),
    ]
    xs = [one.events for one in points]
    return line("Log loss by events read, nats", xs, both, marks=marks, within=(0, 1e9))


def quality(report: MetricsReport) -> Iterable[Markup]:
    """Return the charts of prediction quality: calibration, confusion, all scores."""
    scopes = ((f"the last {report.window_size:,}", report.window), ("all", report.cumulative))
    for name, one in scopes:
        yield card(calibration(f"Calibration, {name}", one.reliability))
    yield card(confusion(report), wide=True)
    header = ["of", "events", "accuracy", "log loss", "macro-F1", "kappa", "Brier", "calibration error"]
    yield listing("Scores", header, [scores(*scope) for scope in scopes])
    if found := by_class(report):
        found.sort(key=lambda one: -one.events)
        cut = "" if len(found) <= _CLASSES else f", the {_CLASSES} most frequent of {len(found)}"
        yield listing(f"By class{cut}", HEADER, cells(found[:_CLASSES]))


def posterior(points: Sequence[MetricsReport]) -> Iterable[Markup]:
    """Plot the posterior of the hypotheses over the events, with the regret and its bound."""
    found = [(one.events, one.posterior) for one in points if one.posterior is not None]
    if not found:
        yield missing(_NO_HYPOTHESES)
        return
    xs, weighed, last = [n for n, _ in found], [one for _, one in found], found[-1][1]
    yield card(stacked("Posterior by events read", xs, bands(weighed), height=260), wide=True)
    regrets = Series("regret", [one.regret for one in weighed])
    both = [regrets, Series("its bound", [one.bound for one in weighed])]
    title = f"Regret against the best hypothesis, {last.best}, by events read, nats"
    yield card(line(title, xs, both), wide=True)
    best = sorted(last.hypotheses, key=lambda one: -one.posterior)
    rows = [(one.name, percent(one.posterior), percent(one.prior), one.loss) for one in best]
    yield listing("Hypotheses", ["hypothesis", "posterior", "prior", "log loss in all, nats"], rows)
