"""Scores of each class over the newest labelled predictions, in two halves, for any number of classes."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from streamnb.reports.report_charts import fixed_colour

Pair = tuple[str, str | None]
"""The label in force of an event, and the predicted one; None if the model knew no class."""


class RecentScore(NamedTuple):
    """Scores of one class over the newest labelled predictions.

    Attributes:
        label: the class.
        events: how many have this label.
        predicted: how many were predicted as it.
        right: how many of these were right.
        change: F1 in the newer half minus F1 in the older half; None without events in one of them.
    """

    label: str
    events: int
    predicted: int
    right: int
    change: float | None

    @property
    def precision(self) -> float | None:
        """Share of its predictions that were right; None without predictions."""
        return self.right / self.predicted if self.predicted else None

    @property
    def recall(self) -> float | None:
        """Share of its events that were predicted as it; None without events."""
        return self.right / self.events if self.events else None

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 if no event of the class was predicted right."""
        return _f1(self.events, self.predicted, self.right)


class RecentScores(NamedTuple):
    """Scores of all classes over the newest labelled predictions.

    Attributes:
        n_events: how many there are.
        classes: one score for each class, in falling order of events.
        confusions: (truth, predicted) of wrong predictions -> number, the most frequent first.
    """

    n_events: int
    classes: list[RecentScore]
    confusions: list[tuple[Pair, int]]


def recent_scores(pairs: Sequence[Pair]) -> RecentScores:
    """Return the scores of pairs, oldest first."""
    middle = len(pairs) // 2
    halves = [Counter(pairs[:middle]), Counter(pairs[middle:])]
    tallies = [_tally(half.items()) for half in halves]
    labels = dict.fromkeys(label for tally in tallies for label in tally)
    found = []
    for label in labels:
        parts = [tally.get(label, [0, 0, 0]) for tally in tallies]
        change = None
        if parts[0][0] and parts[1][0]:
            change = _f1(*parts[1]) - _f1(*parts[0])
        events, predicted, right = (a + b for a, b in zip(*parts, strict=True))
        found.append(RecentScore(label, events, predicted, right, change))
    found.sort(key=lambda one: (-one.events, one.label))
    wrong = [(pair, n) for pair, n in (halves[0] + halves[1]).most_common() if pair[0] != pair[1]]
    return RecentScores(len(pairs), found, wrong)


def _f1(events: int, predicted: int, right: int) -> float:
    return 2.0 * right / (events + predicted) if right else 0.0


def _tally(counted: Iterable[tuple[Pair, int]]) -> dict[str, list[int]]:
    """Return events, predictions and right ones of each class."""
    tally: dict[str, list[int]] = {}
    for (truth, predicted), n in counted:
        tally.setdefault(truth, [0, 0, 0])[0] += n
        if predicted is not None:
            tally.setdefault(predicted, [0, 0, 0])[1] += n
        if truth == predicted:
            tally[truth][2] += n
    return tally


def class_colour(label: str, labels: Sequence[str]) -> int:
    """Return the colour of a class: by its place among all classes, or else by its name."""
    place = labels.index(label) if label in labels else zlib.crc32(label.encode(errors="replace"))
    return fixed_colour(place)
