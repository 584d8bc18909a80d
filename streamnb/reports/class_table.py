"""How each class is predicted, by the confusion of classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from streamnb.events import MetricsReport
from streamnb.reports.text_columns import table
from streamnb.reports.text_tables import MOST_CLASSES
from streamnb.scoring.ranking import ByChance

HEADER = ("class", "events", "precision", "recall", "lift")


class ClassScore(msgspec.Struct, frozen=True):
    """How one class is predicted.

    Attributes:
        label: the class.
        events: how many had it.
        precision: the share of what was taken for it that was it; None where nothing was.
        recall: the share of its events that were taken for it; None where there are none.
        lift: how many times as frequent it is among what was taken for it as among all events.
    """

    label: str
    events: int
    precision: float | None
    recall: float | None
    lift: float | None


def by_class(report: MetricsReport) -> list[ClassScore]:
    """Of each class of a report, in its order; none beyond 100 classes, whose confusion is not reported.

    Events of classes that were never learned do not count.
    """
    found, confusion = [], report.confusion
    total = sum(map(sum, confusion))
    for k, label in enumerate(report.labels):
        events, right = sum(confusion[k]), confusion[k][k]
        taken = sum(row[k] for row in confusion)
        precision = right / taken if taken else None
        lift = precision * total / events if precision is not None and events else None
        found.append(ClassScore(label, events, precision, right / events if events else None, lift))
    return found


def cells(found: Sequence[ClassScore]) -> list[tuple[object, ...]]:
    """As rows below `HEADER`; an empty cell where there is nothing to divide by."""
    rows = [(one.label, one.events, one.precision, one.recall, one.lift) for one in found]
    return [tuple("" if value is None else value for value in row) for row in rows]


def print_by_class(report: MetricsReport, more: Mapping[str, Any]) -> None:
    """How each class is predicted, where they are few; how two are ranked, and what new ones cost."""
    if report.cumulative.events and report.classes <= MOST_CLASSES:
        print("\n" + table(cells(by_class(report)), HEADER))
    if (auc := more["one_less_auc"]) is not None:
        print(f"1-AUC {100.0 * auc:.4f} %: so many pairs, one of each class, are in the wrong order")
    if (loss := more["open_log_loss"]) is not None:
        print(f"log loss {loss:.4f} where a label that is new costs -ln P(new), and not 34.5")


def print_chance(error: float, chance: ByChance) -> None:
    """How much of a calibration error is chance."""
    told = f"{chance.mean:.4f} on average, and above {chance.upper:.4f} in one stream of twenty"
    print(f"calibration error {error:.4f}; of probabilities that are right it is {told}")


def print_improbable(found: Sequence[Mapping[str, Any]]) -> None:
    """How often what was called improbable came."""
    if found:
        rows = [
            (f"up to {one['upper']:g}", f"{one['told']:.2g}", f"{one['came']:.2g}", one["times"])
            for one in found
        ]
        print("\n" + table(rows, ("called improbable", "mean", "came", "times")))
