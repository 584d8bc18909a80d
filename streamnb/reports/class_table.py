"""Table of scores by class, from the confusion matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from streamnb.events import MetricsReport
from streamnb.reports.text_columns import table
from streamnb.scoring.ranking import ByChance

HEADER = ("class", "events", "precision", "recall", "lift")


class ClassScore(msgspec.Struct, frozen=True):
    """Scores of one class.

    Attributes:
        label: the class.
        events: events of the class.
        precision: share of its predictions that were right; None without predictions.
        recall: share of its events that were predicted as it; None without events.
        lift: its frequency among its predictions, divided by its frequency among all events.
    """

    label: str
    events: int
    precision: float | None
    recall: float | None
    lift: float | None

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 if no event of the class was predicted right."""
        precision, recall = self.precision or 0.0, self.recall or 0.0
        return 2.0 * precision * recall / (precision + recall) if precision + recall else 0.0


def by_class(report: MetricsReport) -> list[ClassScore]:
    """Return the scores of learned classes; empty above 100 classes, which have no confusion matrix."""
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
    """Return the rows below `HEADER`; undefined scores are empty."""
    rows = [(one.label, one.events, one.precision, one.recall, one.lift) for one in found]
    return [tuple("" if value is None else value for value in row) for row in rows]


def print_by_class(report: MetricsReport, one_less_auc: float | None) -> None:
    """Print scores by class in the order of their names, and 1 - AUC."""
    if report.cumulative.events and report.labels:
        print("\n" + table(cells(sorted(by_class(report), key=lambda one: one.label)), HEADER))
    if one_less_auc is not None:
        print(
            f"1-AUC {100.0 * one_less_auc:.4f} %: the share of pairs, one of each class, in the wrong order"
        )


def print_chance(error: float, chance: ByChance) -> None:
    """Print the part of a calibration error that is due to chance."""
    told = f"{chance.mean:.4f} on average, and above {chance.upper:.4f} in one stream of twenty"
    print(f"calibration error {error:.4f}; of probabilities that are right it is {told}")


def print_improbable(found: Sequence[Mapping[str, Any]]) -> None:
    """Print the frequency of outcomes that were predicted as improbable."""
    if found:
        rows = [
            (f"up to {one['upper']:g}", f"{one['told']:.2g}", f"{one['came']:.2g}", one["times"])
            for one in found
        ]
        print("\n" + table(rows, ("called improbable", "mean", "came", "times")))
