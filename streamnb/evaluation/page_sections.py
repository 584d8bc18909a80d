"""Sections of the page of an evaluation about time, classes, attributes, errors, data, and for experts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from streamnb.charts import (
    Axis,
    Bar,
    Figures,
    Mark,
    Markup,
    Series,
    bars,
    calibration,
    count,
    heat_map,
    line,
    number,
    percent,
    table,
    tag,
)
from streamnb.evaluation.page_records import CurvePoint, NotedEvent, PageRecords
from streamnb.evaluation.page_thresholds import MATRIX
from streamnb.evaluation.page_verdict import NAME, Findings
from streamnb.models.interface.stream_model import StreamModel
from streamnb.models.naive_bayes.counting_model import CountingModel
from streamnb.models.naive_bayes.most_informative import strongest
from streamnb.reports import report_charts
from streamnb.reports.class_table import by_class
from streamnb.reports.report_charts import card, missing, tile, tiles
from streamnb.values.parameter_checks import cut, pluralize

_FEWEST = 2
_CLASSES, _WORDS, _COLUMNS = 12, 8, 200
_LISTED = 30  # classes in a table
_TEXT, _FIRST_TEXT = 600, 120  # characters of an event
_NOT_LISTED = "None: labels that come later, and a part that is held out, are scored and not listed."


def over_time(found: Findings, records: PageRecords) -> Iterator[Markup]:
    """Yield the curves: from the first event on, next to the guesses; and of the window."""
    report = found.report
    if not records.points or not report.cumulative.events:
        yield missing("No curves: a part that is held out is scored by one model.")
        return
    start = [one for one in records.start if one.report.cumulative.events]
    yield card(
        _from_start("Accuracy so far, from the first event on", start, _accuracies(start), as_share=True),
        wide=True,
    )
    points = [one.report for one in records.points]
    marks = [Mark(one.events, f"drift: {one.detector} at {one.id}") for one in records.drifts]
    yield card(report_charts.accuracy(points, report, marks), wide=True)
    if start[-1].log_loss is not None:
        losses = [Series("log loss, all", [one.log_loss for one in start])]
        yield card(
            _from_start("Log loss so far, nats, from the first event on", start, losses, as_share=False)
        )
    yield card(report_charts.log_loss(points, report, marks))


def _accuracies(start: Sequence[CurvePoint]) -> list[Series]:
    made = [Series("this model", [one.report.cumulative.accuracy for one in start])]
    if start[-1].most_frequent is not None:
        made.append(Series("guess: most frequent class", [one.most_frequent for one in start]))
        made.append(Series("guess: same as before", [one.same_as_before for one in start]))
    return made


def _from_start(
    title: str, start: Sequence[CurvePoint], series: Sequence[Series], *, as_share: bool
) -> Markup:
    """Plot all points on an axis on which each tenfold number of events has the same width."""
    xs = [max(1, one.report.events) for one in start]
    ticks = [10**n for n in range(len(str(xs[-1]))) if 10**n >= xs[0]]
    return line(
        title,
        [_log(n) for n in xs],
        series,
        within=(0, 1 if as_share else 1e9),
        y=percent if as_share else number,
        axis=Axis(lambda place: count(round(10**place)), [_log(n) for n in ticks]),
        is_whole=True,
    )


def _log(n: float) -> float:
    return math.log10(n)


def classes(found: Findings) -> Iterator[Markup]:
    """Yield the most frequent confusions, the matrix, and the scores of each class."""
    report = found.report
    if confusions := found.scores.confusions:
        header = ["label", "taken for", "events"]
        pairs = [(cut(a, NAME), cut(b, NAME), n) for a, b, n in confusions]
        yield card(table(header, pairs, "Most frequent confusions"))
    ranked = sorted(by_class(report), key=lambda one: (one.f1, -one.events))
    if ranked:
        shown, n = ranked[:_LISTED], len(ranked)
        caption = "Classes, the worst first" + ("" if n <= _LISTED else f": {_LISTED} of {n}")
        header = ["class", "events", "missed", "precision", "recall", "F1"]
        rows = [
            (
                cut(one.label, NAME),
                one.events,
                one.events - round((one.recall or 0.0) * one.events),
                Figures(percent(one.precision)),
                Figures(percent(one.recall)),
                Figures(f"{one.f1:.3f}"),
            )
            for one in shown
        ]
        yield card(table(header, rows, caption))
    if not report.confusion or len(report.labels) > MATRIX:
        yield missing(f"No matrix of {report.classes:,} classes: it is readable up to {MATRIX}.")
    elif len(report.labels) > 1:
        order = sorted(range(len(report.labels)), key=lambda k: report.labels[k])
        is_empty = sum(row[-1] for row in report.confusion) <= 1  # the first event
        columns, names = ([*order] if is_empty else [*order, len(order)]), [*report.labels, "(none yet)"]
        cells = [[report.confusion[m][n] for n in columns] for m in order]
        title = "Confusion matrix: events by true and predicted class"
        yield card(heat_map(title, [names[m] for m in order], [names[n] for n in columns], cells), wide=True)


def importance(found: Findings, model: StreamModel) -> Iterator[Markup]:
    """Yield the attributes that decide, and the strongest words and values of the most frequent classes."""
    if rows := [Bar(str(one.attribute), one.share) for one in found.decides if one.nats > 0.0]:
        title = "Importance: share of the rise in log loss if the attribute is shuffled"
        yield card(bars(title, rows, text=percent, most=1.0), wide=True)
    if not rows and not isinstance(model, CountingModel):
        yield missing("This model has no words or values to show, and fewer than two attributes.")
    if not isinstance(model, CountingModel):
        return
    kept = Counter({label: weight for label, weight in model.class_weights.items() if weight})
    if len(kept) < _FEWEST:
        yield missing("There is one class, which needs no evidence.")
    for label, weight in kept.most_common(_CLASSES) if len(kept) >= _FEWEST else ():
        informative = strongest(model.statistics, label, _WORDS)
        bars_of = [Bar(f"{one.attribute}: {one.value}", one.log_odds) for one in informative]
        bars_of.sort(key=lambda row: -row.value)
        if bars_of:
            yield card(bars(f"{cut(str(label), NAME)}, {number(weight)} learned: log odds", bars_of))


def errors(records: PageRecords) -> Iterator[Markup]:
    """Yield the worst errors with their texts, and the first events of the classes."""
    if not records.worst and not records.firsts:
        yield missing(_NOT_LISTED)
        return
    if records.worst:
        items = [tag("li", *_error(one)) for one in records.worst]
        title = tag("h3", "Worst errors: the label had the least probability")
        yield card(title, tag("ol", *items, class_="errors"), wide=True)
    else:
        yield missing("Each event of a known class was predicted right.")
    rows = [
        (
            cut(one.prediction.truth or "", NAME),
            cut(one.prediction.id, NAME),
            _predicted(one),
            cut(one.content, _FIRST_TEXT),
        )
        for one in records.firsts
    ]
    caption = "First event of each class, which no model can predict"
    if records.n_classes > len(rows):
        caption += f": {len(rows)} of {records.n_classes:,}"
    yield card(table(["class", "event", "predicted", "content"], rows, caption), wide=True)


def _error(one: NotedEvent) -> Iterator[Markup]:
    said = one.prediction
    truth, probability = said.truth or "", percent(said.probabilities.get(said.truth or "", 0.0))
    head = [
        tag("b", cut(truth, NAME), dir="auto"),
        tag("span", f"had {probability}, predicted "),
        tag("b", _predicted(one), dir="auto"),
        tag("span", f"with {percent(said.probability)}"),
        tag("span", f"event {cut(said.id, NAME)}", class_="soft"),
    ]
    yield tag("p", *head, class_="error")
    if one.content:
        yield tag("blockquote", cut(" ".join(one.content.split()), _TEXT), dir="auto")


def _predicted(one: NotedEvent) -> str:
    return cut(one.prediction.label or "(none yet)", NAME)


def data(found: Findings) -> Iterator[Markup]:
    """Yield the columns, and the dead letters."""
    report = found.report
    yield tiles([
        tile("Records", number(report.events)),
        tile("Learned", number(report.learned)),
        tile("Dead letters", number(report.dead_letters), style="warn" if report.dead_letters else ""),
        tile("Classes", number(report.classes)),
        tile("Words and values", number(report.attributes)),
    ])  # fmt: skip
    if found.dead_letters:
        header = ["reason", "path", "records", "first row", "detail"]
        letters = [
            [cut(cell, 200) if isinstance(cell, str) else cell for cell in row.values()]
            for row in found.dead_letters
        ]
        yield card(table(header, letters, "Dead letters: records that are not valid events"), wide=True)
    if not found.columns:
        yield missing("No profile of columns: none could be read, or a log was evaluated.")
        return
    more = len(found.columns) - _COLUMNS
    caption = f"Columns, in {pluralize(found.n_rows, 'row')}, evenly spaced, of at most 4 KB"
    caption += f": {_COLUMNS} of {len(found.columns):,}" if more > 0 else ""
    header = ["column", "read as", "missing", "different", "values", "odd"]
    rows = [
        (
            cut(one.name, NAME),
            one.kind,
            Figures(percent(one.missing)),
            one.distinct,
            one.summary,
            one.odd or "none",
        )
        for one in found.columns[:_COLUMNS]
    ]
    yield card(table(header, rows, caption), wide=True)


def expert(found: Findings, records: PageRecords) -> Iterator[Markup]:
    """Yield all scores, the posterior of the hypotheses, and the time taken."""
    report = found.report
    rows = [(f"the last {report.window_size:,}", report.window), ("all", report.cumulative)]
    header = ["of", "events", "accuracy", "log loss", "macro F1", "kappa", "Brier", "calibration error"]
    if report.cumulative.events:
        yield tiles(_score_tiles(found))
        caption = "All scores; the log loss charges 34.5 nats for a label that was never seen"
        yield card(table(header, [report_charts.scores(*row) for row in rows], caption), wide=True)
    if report.class_rates:
        yield card(report_charts.rates(report))
    if 0 < report.window.events < report.cumulative.events:
        yield card(calibration(f"Calibration, the last {report.window_size:,}", report.window.reliability))
    if report.posterior is not None and records.points and report.learned:
        yield from report_charts.posterior([one.report for one in records.points])
    if records.slow:
        listed = [
            (
                f"{one.first:,} to {one.last:,}",
                1000.0 * one.seconds,
                1e6 * one.seconds / one.records,
                one.size,
            )
            for one in records.slow[:5]
        ]
        header = ["rows", "milliseconds", "microseconds a row", "bytes"]
        yield card(table(header, listed, "Slowest batches"))


def _score_tiles(found: Findings) -> Iterator[Markup]:
    report, scores = found.report, found.scores
    price, closed = scores.open_log_loss, report.cumulative.log_loss
    note = "nats; a new label costs by its probability"
    yield tile(
        "Log loss",
        number(closed if price is None else price),
        "nats" if price is None else note,
        closed if price is None else price,
    )
    if scores.one_less_auc is not None:
        area = 1.0 - scores.one_less_auc
        yield tile("AUC", f"{area:.4f}", "area under the ROC curve", area)
    yield tile("Kappa", f"{report.cumulative.kappa:.4f}", "0 is as good as chance", report.cumulative.kappa)
    if (guesses := scores.baselines) is not None:
        text = f"{guesses.kappa_temporal:.4f}"
        yield tile("Kappa-temporal", text, "0 is as good as the label before", guesses.kappa_temporal)
