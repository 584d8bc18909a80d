"""Counts of right and wrong positives at each threshold: points of ROC, precision-recall and cost curves.

An event is called positive if its probability of a class is at least the threshold t. Of P events of the
class and N others, TP(t) and FP(t) are called so:

    recall = TP / P    false positive rate = FP / N    precision = TP / (TP + FP)
    mean cost = (hit TP + miss (P - TP) + alarm FP + pass (N - FP)) / (P + N)
    average precision = sum over thresholds, falling, of (rise of the recall) * precision

`OpenValidation` keeps the log odds of each event while there are two classes: `counts_of` has each of their
thresholds. `ThresholdGrid` is for any number of classes: it counts the events between 287 fixed thresholds,
for each class against the rest. Its counts at these thresholds are exact, too.

Reference: Fawcett (2006), "An introduction to ROC analysis", Pattern Recognition Letters 27(8).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamnb.kernels.array_types import Floats, Ints

MOST_CLASSES = 100
"""Classes of a grid; each takes 5 KB."""
STEPS = np.linspace(0.0, 1.0, 201)
"""Thresholds of a cost curve."""
_TAIL = 1.0 / (1.0 + np.exp(np.arange(5.5, 16.5, 0.25)))  # even steps of log odds
_LIMITS = np.union1d(np.union1d(STEPS[1:], _TAIL), 1.0 - _TAIL)
_BINS = _LIMITS.size + 1


class Prices(NamedTuple):
    """Costs of one event: of the class and called so, of the class and missed, other and called so, other."""

    hit: float = 0.0
    miss: float = 1.0
    alarm: float = 1.0
    passed: float = 0.0


class ThresholdCounts(NamedTuple):
    """Counts at falling thresholds.

    Attributes:
        thresholds: float64[m], probabilities; the first is infinite: nothing is positive.
        hits: int64[m], TP.
        alarms: int64[m], FP.
    """

    thresholds: Floats
    hits: Ints
    alarms: Ints

    @property
    def positives(self) -> int:
        """P."""
        return int(self.hits[-1])

    @property
    def negatives(self) -> int:
        """N."""
        return int(self.alarms[-1])

    @property
    def recall(self) -> Floats:
        """Share of the events of the class that are called so. float64[m]."""
        return np.asarray(self.hits / max(1, self.positives))

    @property
    def false_positive_rate(self) -> Floats:
        """Share of the other events that are called so. float64[m]."""
        return np.asarray(self.alarms / max(1, self.negatives))

    @property
    def precision(self) -> Floats:
        """Share of the class among the events that are called so; 1 without any. float64[m]."""
        called = self.hits + self.alarms
        return np.asarray(np.divide(self.hits, called, out=np.ones(called.size), where=called > 0))

    @property
    def average_precision(self) -> float:
        """Mean of the precision over the events of the class."""
        return float((np.diff(self.recall) * self.precision[1:]).sum())

    @property
    def area(self) -> float:
        """Area under the ROC curve; events of one threshold count as ties."""
        steps = np.diff(self.false_positive_rate)
        return float((steps * (self.recall[1:] + self.recall[:-1])).sum() / 2.0)

    def mean_costs(self, thresholds: Floats, prices: Prices) -> Floats:
        """Return the mean cost of an event at each of some thresholds. float64[n]."""
        hits, alarms = self.at(thresholds)
        P, N = self.positives, self.negatives
        of_class = prices.hit * hits + prices.miss * (P - hits)
        return np.asarray((of_class + prices.alarm * alarms + prices.passed * (N - alarms)) / max(1, P + N))

    def at(self, thresholds: Floats) -> tuple[Ints, Ints]:
        """Return TP and FP at some thresholds, of which each lies between two known ones. int64[n]."""
        place = np.searchsorted(-self.thresholds, -thresholds, side="right") - 1
        return self.hits[place], self.alarms[place]

    def thinned(self, xs: Floats, ys: Floats, most: int = 300) -> tuple[list[float], list[float]]:
        """Return at most about `most` points of a curve, evenly spaced along it, with both ends."""
        length = np.concatenate(([0.0], np.cumsum(np.abs(np.diff(xs)) + np.abs(np.diff(ys)))))
        kept = np.searchsorted(length, np.linspace(0.0, length[-1], most))
        kept = np.unique(np.concatenate(([0], kept.clip(max=xs.size - 1), [xs.size - 1])))
        kept = np.arange(xs.size) if xs.size <= most else kept
        return xs[kept].tolist(), ys[kept].tolist()


def counts_of(log_odds: Floats, truths: Ints, positive: int) -> ThresholdCounts:
    """Return the counts at each distinct threshold.

    Args:
        log_odds: float64[n], of class 1 against class 0.
        truths: int[n], 0 or 1.
        positive: the class that is called so, 0 or 1.
    """
    scores = log_odds if positive else -log_odds
    order = np.argsort(-scores, kind="stable")
    scores, is_hit = scores[order], truths[order] == positive
    last = np.flatnonzero(np.append(scores[1:] != scores[:-1], scores.size > 0))  # of equal scores
    with np.errstate(over="ignore"):
        thresholds = 1.0 / (1.0 + np.exp(-scores[last]))
    hits = np.cumsum(is_hit, dtype=np.int64)[last]
    return _begun(thresholds, hits, last + 1 - hits)


class ThresholdGrid:
    """Events of each class, and of all others, by the probability of the class.

    Events of more than `MOST_CLASSES` classes are no longer counted.
    """

    def __init__(self) -> None:
        self._counts = np.zeros((0, 2, _BINS), dtype=np.int64)  # class, is it the truth, bin
        self.is_full = False

    def add(self, probabilities: Floats, truths: Ints) -> None:
        """Count events. float64[n, K] and int64[n], of which those below 0 are skipped."""
        K = max(probabilities.shape[1], int(truths.max(initial=-1)) + 1)
        self.is_full |= K > MOST_CLASSES
        if self.is_full:
            self._counts = self._counts[:0]
            return
        rows, truth = probabilities[truths >= 0], truths[truths >= 0]
        missing, known = K - rows.shape[1], self._counts.shape[0]
        rows = np.pad(rows, ((0, 0), (0, missing)))
        if known < K:
            # Before a class was known, its probability was 0.
            seen = int(self._counts[0].sum()) if known else 0
            self._counts = np.concatenate((self._counts, np.zeros((K - known, 2, _BINS), dtype=np.int64)))
            self._counts[known:, 0, 0] = seen
        bins = np.searchsorted(_LIMITS, rows, side="right")
        is_truth = truth[:, np.newaxis] == np.arange(K)
        cells = (np.arange(K) * 2 + is_truth) * _BINS + bins
        self._counts[:K] += np.bincount(cells.ravel(), minlength=K * 2 * _BINS).reshape(K, 2, _BINS)
        # Classes beyond K are known, and have no probability here.
        self._counts[K:, 0, 0] += truth.size

    def counts(self, k: int) -> ThresholdCounts | None:
        """Return the counts of one class against the rest; None if no event was counted."""
        if k >= self._counts.shape[0]:
            return None
        falling = np.cumsum(self._counts[k, :, ::-1], axis=1)
        thresholds = np.append(_LIMITS[::-1], 0.0)
        return _begun(thresholds, falling[1], falling[0])


def _begun(thresholds: Floats, hits: Ints, alarms: Ints) -> ThresholdCounts:
    """Return counts that begin with a threshold above all probabilities."""
    columns = (np.append(np.inf, thresholds), np.append(0, hits), np.append(0, alarms))
    return ThresholdCounts(*(np.asarray(column) for column in columns))
