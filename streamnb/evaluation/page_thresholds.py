"""Sections of the page of an evaluation about probabilities: ROC, precision-recall, calibration, costs.

Two classes have one curve, of the rarer class. Of more classes the curves are of those with the lowest F1,
each against the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from streamnb.charts import (
    Axis,
    Figures,
    Mark,
    Markup,
    Series,
    ShareCurve,
    calibration,
    curves,
    heat_map,
    line,
    number,
    percent,
    table,
)
from streamnb.evaluation.page_records import PageRecords
from streamnb.evaluation.page_verdict import NAME, Findings
from streamnb.reports.class_table import by_class
from streamnb.reports.report_charts import card, missing
from streamnb.scoring.ranking import OpenValidation
from streamnb.scoring.threshold_counts import STEPS, Prices, ThresholdCounts, counts_of
from streamnb.values.parameter_checks import cut

MATRIX = 30
"""Maximum number of classes of a readable matrix."""
_CURVES = 5
_SHORT = 20  # characters of a class at an axis
_LISTED = (10, 20, 50, 100, 150, 180, 190)  # indices in `STEPS`
_NONE = "No curves: they need labels inside the events, and two to 100 classes."


class Ranked(NamedTuple):
    """A class against the rest: its name, counts at thresholds, and area under the ROC curve."""

    label: str
    counts: ThresholdCounts
    area: float


def ranked_classes(found: Findings, records: PageRecords, scores: OpenValidation) -> list[Ranked]:
    """Return the counts of the rarer of two classes, or of the classes with the lowest F1."""
    classes = by_class(found.report)
    names, exact, auc = [one.label for one in classes], scores.ranked, found.scores.one_less_auc
    if exact is not None and auc is not None and len(names) == 2:
        k = min((0, 1), key=lambda k: classes[k].events)
        return [Ranked(names[k], counts_of(*exact, k), 1.0 - auc)]
    order = sorted((k for k in range(len(names)) if classes[k].events), key=lambda k: classes[k].f1)
    if len(names) == 2:
        order.sort(key=lambda k: classes[k].events)
    made = [(names[k], records.grid.counts(k)) for k in order[: 1 if len(names) == 2 else _CURVES]]
    return [
        Ranked(name, counts, counts.area)
        for name, counts in made
        if counts is not None and counts.positives and counts.negatives
    ]


def ranking(ranked: Sequence[Ranked]) -> Iterator[Markup]:
    """Yield ROC and precision-recall curves."""
    if not ranked:
        yield missing(_NONE)
        return
    roc, precision = [], []
    for one in ranked:
        name, counts = cut(one.label, NAME), one.counts
        xs, ys = counts.thinned(counts.false_positive_rate, counts.recall)
        roc.append(ShareCurve(name, xs, ys, f"area {one.area:.4f}"))
        xs, ys = counts.thinned(counts.recall[1:], counts.precision[1:])
        precision.append(ShareCurve(name, xs, ys, f"average precision {counts.average_precision:.4f}"))
    share = ranked[0].counts.positives / (ranked[0].counts.positives + ranked[0].counts.negatives)
    only = cut(ranked[0].label, _SHORT) if len(ranked) == 1 else ""
    caught, called = (
        (f"{only} found", f"called {only}") if only else ("events of the class found", "called so")
    )
    title = f"ROC of {only}" if only else "ROC, each class against the rest"
    yield card(curves(title, roc, x=f"others {called}", y=caught, diagonal=True))
    title = "Precision and recall" + (f" of {only}" if only else "")
    guess = share if only else None
    yield card(
        curves(title, precision, x=f"recall: {caught}", y=f"precision: right of those {called}", guess=guess)
    )


def probabilities(found: Findings) -> Iterator[Markup]:
    """Yield the calibration, and what remains if predictions of little confidence are left out."""
    report = found.report
    yield card(calibration("Calibration", report.cumulative.reliability))
    rows, n, right = [], 0, 0.0
    for one in reversed(report.cumulative.reliability):
        n, right = n + one.events, right + one.accuracy * one.events
        share = n / report.cumulative.events
        rows.append((f"above {percent(one.lower)}", Figures(percent(share)), Figures(percent(right / n))))
    caption = "If only predictions of some confidence are used"
    yield card(table(["confidence", "share of events", "right"], rows, caption))


def costs(
    ranked: Sequence[Ranked], given: Mapping[str, Mapping[str, float]], labels: Sequence[str]
) -> Iterator[Markup]:
    """Yield the mean cost by threshold, and what happens at some thresholds of two classes.

    Args:
        ranked: the classes.
        given: decision -> truth -> cost, as configured.
        labels: all classes.
    """
    if not ranked:
        yield missing("No cost by threshold, for the same reason.")
        return
    prices = [prices_of(one.label, given, labels) for one in ranked]
    series, marks = [], []
    for one, price in zip(ranked, prices, strict=True):
        cost, best = one.counts.mean_costs(STEPS, price), _best(one.counts, price)
        note = f"least {number(float(cost[best]))}, at {percent(float(STEPS[best]))}"
        series.append(Series(cut(one.label, NAME), cost.tolist(), note=note))
        marks.append(Mark(float(STEPS[best]), f"{cut(one.label, NAME)}: {note}", "least"))
    title = "Mean cost of an event by threshold"
    yield card(
        line(
            title,
            STEPS.tolist(),
            series,
            marks=marks[: len(marks) == 1],
            within=(0, 1e9),
            axis=Axis(percent),
            height=260,
        ),
        wide=len(ranked) > 1,
    )
    if len(ranked) == 1:
        yield card(_table(ranked[0], prices[0]))


def decisions(found: Findings) -> Iterator[Markup]:
    """Yield the decisions by true class, and the cost if only some are taken, by expected cost."""
    cells, costs_by = found.scores.decided, found.scores.by_expected_cost
    truths = sorted({str(one.truth) for one in cells})
    names: list[str | None] = [
        *sorted({one.decision for one in cells if one.decision is not None}, key=str),
        None,
    ]
    events = {(str(one.truth), one.decision): one.events for one in cells}
    if cells and max(len(truths), len(names)) <= MATRIX:
        values = [[events.get((truth, name), 0) for name in names] for truth in truths]
        columns = [str(name) if name is not None else "nothing" for name in names]
        title = "Decisions: events by true class and decision"
        yield card(heat_map(title, truths, columns, values, "decided"), wide=True)
    if costs_by:
        rows = [
            (
                Figures(number(one.threshold)),
                Figures(percent(one.coverage)),
                Figures(percent(one.accuracy)),
                Figures(number(one.mean_cost)),
            )
            for one in costs_by
        ]
        header = ["expected cost up to", "share decided", "right", "mean cost"]
        yield card(table(header, rows, "If only decisions of some expected cost are taken"), wide=True)


def prices_of(label: str, given: Mapping[str, Mapping[str, float]], labels: Sequence[str]) -> Prices:
    """Return the costs of calling an event `label`: as configured for two classes, else equal."""
    if len(labels) != 2 or not given:
        return Prices()
    other, equal = labels[1 - labels.index(label)], Prices()
    called, passed = given.get(label, {}), given.get(other, {})
    return Prices(
        called.get(label, equal.hit),
        passed.get(label, equal.miss),
        called.get(other, equal.alarm),
        passed.get(other, equal.passed),
    )


def _best(counts: ThresholdCounts, prices: Prices) -> int:
    """Return the index of the step of least cost; of equal ones the middle."""
    cost = counts.mean_costs(STEPS, prices)
    least = np.flatnonzero(cost == cost.min())
    return int(least[least.size // 2])


def _table(one: Ranked, prices: Prices) -> Markup:
    counts, total = one.counts, one.counts.positives + one.counts.negatives
    best = _best(counts, prices)
    places = sorted({*_LISTED, best} - {0, STEPS.size - 1})
    listed = STEPS[places]
    found, wrong = (column.tolist() for column in counts.at(listed))
    rows = [
        (
            f"{percent(t)}{' (least cost)' if place == best else ''}",
            tp,
            counts.positives - tp,
            fp,
            Figures(percent(tp / (tp + fp)) if tp + fp else "-"),
            Figures(number(cost)),
        )
        for place, t, tp, fp, cost in zip(
            places, listed.tolist(), found, wrong, counts.mean_costs(listed, prices).tolist(), strict=True
        )
    ]
    header = ["threshold", "found", "missed", "false alarms", "precision", "mean cost"]
    caption = f"If an event is called {cut(one.label, NAME)} from some probability on, of {total:,}"
    return table(header, rows, caption)
