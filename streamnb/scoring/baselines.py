"""Baselines without a model: the most frequent class so far, and the same label as before.

An accuracy means little without that by guessing. Kappa-temporal compares it with repeating a label:

    kappa_temporal = (p - p_same) / (1 - p_same)        p = accuracy, p_same = accuracy of the label before

It is below 0 if the model is worse than that. The first event is wrong for both baselines, as it is for an
untrained model. A run is a maximal sequence of equal labels; in random order n labels, n_k of class k, have
1 + (n^2 - sum_k n_k^2) / n runs on average (Wald and Wolfowitz 1940). Far fewer mean that rows are grouped by
label.

References: Zliobaite, Bifet, Read, Pfahringer and Holmes (2015), "Evaluation methods and decision theory for
classification of streaming data with temporal dependence", Machine Learning 98(3).
"""

from __future__ import annotations

from array import array

import msgspec
import numpy as np

from streamnb.kernels.array_types import Ints
from streamnb.scoring.revisable_scores import RevisableScore

_ENOUGH_RUNS = 10.0  # expected runs, below which few runs may be due to chance
_GROUPED = 5.0  # times fewer runs than expected
_NONE = -1


class BaselineScores(msgspec.Struct, frozen=True):
    """Accuracy of the baselines, and of the model relative to them.

    Attributes:
        most_frequent: accuracy of the most frequent class so far; of a part that is held out, of the class
            that was most frequent in the other part.
        same_as_before: accuracy of the label of the event before.
        kappa_temporal: 1 for a perfect model, 0 for one that is as good as the same label as before.
        label_runs: number of runs of equal labels.
        expected_label_runs: average number of runs in random order.
    """

    most_frequent: float
    same_as_before: float
    kappa_temporal: float
    label_runs: int
    expected_label_runs: float

    @property
    def is_grouped(self) -> bool:
        """True if equal labels follow each other far more often than in random order."""
        expected = self.expected_label_runs
        return expected >= _ENOUGH_RUNS and self.label_runs * _GROUPED <= expected


class Baselines:
    """Scores the baselines on the labels of a stream, in order; keeps one number for each class."""

    def __init__(self) -> None:
        self.events = 0
        self._counts: list[int] = []
        self._top = self._last = _NONE
        self._n_frequent = self._n_same = self._n_runs = 0
        self._is_fixed = False

    def train(self, truths: Ints) -> None:
        """Take the labels of a part that is learned first and not scored. int64[n], class indices."""
        self._pass(truths.tolist())
        self._n_frequent = self._n_same = 0
        self._is_fixed = True

    def update(self, truths: Ints) -> None:
        """Score the labels of events. int64[n], class indices."""
        self.events += truths.size
        self._pass(truths.tolist())

    def _pass(self, truths: list[int]) -> None:
        counts, top, last = self._counts, self._top, self._last
        counts += [0] * (max(truths, default=_NONE) + 1 - len(counts))
        for truth in truths:
            self._n_frequent += truth == top
            if truth == last:
                self._n_same += 1
            else:
                self._n_runs += 1
                last = truth
            counts[truth] += 1
            if not self._is_fixed and (top == _NONE or counts[truth] > counts[top]):
                top = truth
        self._top, self._last = top, last

    def scores(self, accuracy: float) -> BaselineScores | None:
        """Return the scores next to a model's accuracy on the same events; None without events."""
        if not self.events:
            return None
        same, n = self._n_same / self.events, sum(self._counts)
        squares = sum(count * count for count in self._counts)
        return BaselineScores(
            most_frequent=self._n_frequent / self.events,
            same_as_before=same,
            kappa_temporal=(accuracy - same) / (1.0 - same) if same < 1.0 else 0.0,
            label_runs=self._n_runs,
            expected_label_runs=1.0 + (n * n - squares) / n,
        )


class LateTruths:
    """Labels in force of events whose labels arrive separately; 4 bytes for each event."""

    def __init__(self) -> None:
        self._truths = array("i")

    def note(self, numbers: Ints, score: RevisableScore | None) -> None:
        """Record the labels of events, by their numbers; None takes one back."""
        self._truths.extend([_NONE] * (int(numbers.max(initial=-1)) + 1 - len(self._truths)))
        np.frombuffer(self._truths, dtype=np.int32)[numbers] = _NONE if score is None else score.truth

    @property
    def truths(self) -> Ints:
        """Class index of each event, -1 without a label."""
        return np.array(self._truths, dtype=np.int64)

    @property
    def baselines(self) -> Baselines:
        """The baselines over these labels in the order of the events, as if each label came at once."""
        truths, made = self.truths, Baselines()
        made.update(truths[truths != _NONE])
        return made
