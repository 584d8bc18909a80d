"""Scores of predictions whose labels come later, change, and are withdrawn.

Served predictions are compared with the current labels. A score that is revoked leaves no trace:

* Counts are integers.
* Terms (loss, Brier score, confidence) are rounded to multiples of 2^-44 once, which moves a mean by less
  than 3e-14, and are added up as integers. So sums are exact, in any order, however often terms come and go.
* The window is a ring of the first verdicts, in the order in which they came. A place in it has a number that
  only grows; a correction rewrites its place while it is still there, a withdrawal leaves it empty.

`ProgressiveValidation` scores streams whose labels are in their events; both give the same scores
up to rounding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from streamnb.errors import SnapshotError
from streamnb.events import Scores
from streamnb.kernels.array_types import Floats, Ints
from streamnb.scoring.prequential_scores import BINS, ProgressiveValidation, score_each, scores_of
from streamnb.values.state_validation import MOST, checked, count, reject, state_errors, whole
from streamnb.values.type_aliases import Array, Flags, State

NOTHING = -1
"""In place of a class: an empty model predicted none."""
_SCALE = 2.0**44
_EMPTY = -2  # in place of a truth: what stood in the window was withdrawn
_LOSS, _BRIER, _CONFIDENCE = 0, 1, 2
_GREATEST = 1 << 112  # limit of a sum over events, each with a loss of at most 35 * 2^44
_HALF, _LOW = 32, (1 << 32) - 1  # halves of a cell's number
_AT_ONCE = 8192  # terms whose sum fits 64 bits: each is below 35 * 2^44


def nats(total: int) -> float:
    """Convert a sum of terms to nats."""
    return total / _SCALE


def total(given: Any) -> int:
    """Return a sum or a number of events from a state. Raises SnapshotError if it is impossible."""
    if not 0 <= (value := int(given)) < _GREATEST:
        raise SnapshotError(f"expected a sum from 0 to 2^112, found one of {len(str(given))} digits")
    return value


class RevisableScore(NamedTuple):
    """Scores of n predictions.

    Attributes:
        truth, predicted: int64[n], numbers of classes; `NOTHING` was predicted by an empty model.
        terms: int64[n, 3], loss, Brier score and confidence, each times 2^44.
    """

    truth: Ints
    predicted: Ints
    terms: Ints

    @property
    def confidence(self) -> Floats:
        """Probability of the predicted class, float64[n]."""
        return self.terms[:, _CONFIDENCE] / _SCALE

    def at(self, places: slice | Array) -> RevisableScore:
        """Return the scores at some places."""
        return RevisableScore(self.truth[places], self.predicted[places], self.terms[places])


class LabelledOutcomes(NamedTuple):
    """Labelled events, oldest first: float64[n] confidence of the prediction, bool[n] if it was right."""

    confidence: Floats
    is_right: Flags

    def part(self, some: slice) -> LabelledOutcomes:
        """Return some of the events."""
        return LabelledOutcomes(self.confidence[some], self.is_right[some])


def scored(probabilities: Floats, truths: Ints) -> RevisableScore:
    """Return the scores of n events.

    Args:
        probabilities: shape (n, K), by class; a row of zeros is an empty model's.
        truths: shape (n,), numbers of classes, >= 0; K and beyond have probability 0.
    """
    labels, terms = score_each(probabilities, truths)
    return RevisableScore(labels[:, 0], labels[:, 1], np.rint(terms * _SCALE).astype(np.int64))


_NO_SCORE = RevisableScore(np.array([_EMPTY]), np.array([NOTHING]), np.zeros((1, 3), dtype=np.int64))


class _Sums:
    """Sums over a scope, as integers."""

    def __init__(self) -> None:
        self.cells: Counter[tuple[int, int]] = Counter()
        self.sums = [0] * (_CONFIDENCE + BINS)
        self.bins = np.zeros((BINS, 2), dtype=np.int64)

    def add(self, score: RevisableScore, times: int = 1) -> None:
        """Count scores, or with `times` = -1 remove them."""
        truth, predicted, terms = score
        for first in range(0, truth.size, _AT_ONCE):
            self._add(truth[first:][:_AT_ONCE], predicted[first:][:_AT_ONCE], terms[first:][:_AT_ONCE], times)

    def _add(self, truth: Ints, predicted: Ints, terms: Ints, times: int) -> None:
        codes, counts = np.unique((truth << _HALF) + predicted + 1, return_counts=True)
        for code, n in zip(codes.tolist(), counts.tolist(), strict=True):
            cell = code >> _HALF, (code & _LOW) - 1
            self.cells[cell] += times * n
            if not self.cells[cell]:
                del self.cells[cell]
        self.sums[_LOSS] += times * int(terms[:, _LOSS].sum())
        self.sums[_BRIER] += times * int(terms[:, _BRIER].sum())
        is_told = predicted != NOTHING
        confidence = terms[is_told, _CONFIDENCE]
        b = np.maximum(0, np.ceil(confidence / _SCALE * BINS).astype(np.int64) - 1)
        right = (truth == predicted)[is_told]
        sums = np.zeros(BINS, dtype=np.int64)
        np.add.at(sums, b, confidence)
        for bin_, total in enumerate(sums.tolist(), _CONFIDENCE):
            self.sums[bin_] += times * total
        counts = [np.bincount(of, minlength=BINS) for of in (b, b[right])]
        self.bins += times * np.stack(counts, axis=1)

    def scores(self) -> Scores:
        """Return the means."""
        classes = 1 + max((max(cell) for cell in self.cells), default=-1)
        margins = np.zeros((3, classes), dtype=np.int64)
        for (truth, predicted), n in self.cells.items():
            margins[0, truth] += n
            if predicted != NOTHING:
                margins[1, predicted] += n
                margins[2, truth] += n * (truth == predicted)
        return scores_of(margins, self.bins.tolist(), [value / _SCALE for value in self.sums])


class ServedScores:
    """Scores of all labels so far, and of the last `window_size` (>= 1) first labels."""

    def __init__(self, window_size: int) -> None:
        self._all = _Sums()
        self._first = 0  # verdicts so far that were an event's first: the number of the next place
        self._truth = np.full(window_size, _EMPTY, dtype=np.int64)
        self._predicted = np.full(window_size, NOTHING, dtype=np.int64)
        self._terms = np.zeros((window_size, 3), dtype=np.int64)
        self._told: dict[str, Scores] = {}  # since something changed

    @classmethod
    def after(cls, before: ProgressiveValidation) -> ServedScores:
        """Continue the scores of events that arrived with labels; classes are in the order of the model."""
        _, arrays = before.state()
        made = cls(before.window_size)
        made._all.cells.update({(t, p): n for t, p, n in arrays["cells"].tolist()})
        made._all.bins = arrays["bins"].copy()
        made._all.sums = [round(total * _SCALE) for total in arrays["sums"].sum(axis=1).tolist()]
        made._first = before.events
        used = len(arrays["window_labels"])
        places = np.arange(before.window_size)[:used]  # the state has the ring's places as they are
        made._truth[places], made._predicted[places] = arrays["window_labels"].T
        made._terms[places] = np.rint(arrays["window_terms"] * _SCALE).astype(np.int64)
        return made

    @property
    def events(self) -> int:
        """Number of scored events."""
        return self._all.cells.total()

    @property
    def n_classes(self) -> int:
        """Largest class number in the scores, plus 1."""
        cells = map(max, self._all.cells)
        return 1 + max(int(self._truth.max()), int(self._predicted.max()), *cells, NOTHING)

    @property
    def window_size(self) -> int:
        """Capacity of the window in events."""
        return len(self._truth)

    def add(self, score: RevisableScore) -> int:
        """Count the scores of events with first labels; return the number of the first in the window."""
        self._told.clear()
        self._all.add(score)
        first, self._first = self._first, self._first + score.truth.size
        newest = score.at(slice(max(0, score.truth.size - self.window_size), None))
        self._write(np.arange(self._first - newest.truth.size, self._first), newest)
        return first

    def replace(self, number: int, before: RevisableScore | None, after: RevisableScore | None) -> None:
        """Replace the counted score of one event; None means no score."""
        self._told.clear()
        if before is not None:
            self._all.add(before, -1)
        if after is not None:
            self._all.add(after)
        if number >= self._first - self.window_size:
            self._write(np.array([number]), _NO_SCORE if after is None else after)

    def cumulative(self) -> Scores:
        """Return the scores of all labels."""
        if "all" not in self._told:
            self._told["all"] = self._all.scores()
        return self._told["all"]

    def window(self) -> Scores:
        """Return the scores of the window."""
        if "window" not in self._told:
            sums = _Sums()
            sums.add(RevisableScore(self._truth, self._predicted, self._terms).at(self._truth != _EMPTY))
            self._told["window"] = sums.scores()
        return self._told["window"]

    def labelled(self) -> LabelledOutcomes:
        """Return the events of the window that a model with classes predicted, oldest first."""
        places = np.arange(self._first - self.window_size, self._first) % self.window_size
        places = places[(self._truth[places] != _EMPTY) & (self._predicted[places] != NOTHING)]
        confidence = self._terms[places, _CONFIDENCE] / _SCALE
        return LabelledOutcomes(confidence, self._truth[places] == self._predicted[places])

    def confusion(self, classes: Sequence[int]) -> Ints:
        """Return events by truth and prediction, shape (K, K + 1); the last column is an empty model's."""
        place = {number: k for k, number in enumerate(classes)} | {NOTHING: len(classes)}
        found = np.zeros((len(classes), len(classes) + 1), dtype=np.int64)
        for (truth, predicted), n in self._all.cells.items():
            if truth in place and predicted in place:
                found[place[truth], place[predicted]] = n
        return found

    def state(self) -> State:
        """Return everything as JSON-able values and arrays; equal scores give equal bytes."""
        cells = sorted((*cell, n) for cell, n in self._all.cells.items())
        meta = {
            "window_size": self.window_size,
            "first": self._first,
            "sums": [str(value) for value in self._all.sums],  # beyond 64 bits after some millions
        }
        return meta, {
            "cells": np.array(cells, dtype=np.int64).reshape(-1, 3),
            "bins": self._all.bins.copy(),
            "window_labels": np.stack((self._truth, self._predicted), axis=1),
            "window_terms": self._terms.copy(),
        }

    @classmethod
    @state_errors("scores of what was served", ValueError)
    def from_state(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> ServedScores:
        """Return the object that `state` described. Raises SnapshotError if it is invalid."""
        made = cls(count(meta, "window_size", least=1))
        made._first = count(meta, "first")
        found = checked(
            arrays,
            {
                "cells": whole("cells", 3, low=[0, NOTHING, 1], high=MOST),
                "bins": whole(BINS, 2, low=0, high=MOST),
                "window_labels": whole(made.window_size, 2, low=[_EMPTY, NOTHING], high=MOST),
                "window_terms": whole(made.window_size, 3, low=0, high=MOST),
            },
        )
        made._all.cells.update({(t, p): n for t, p, n in found["cells"].tolist()})
        made._all.bins, made._all.sums = found["bins"].copy(), [*map(total, meta["sums"])]
        if len(made._all.sums) != _CONFIDENCE + BINS:
            raise SnapshotError(f"sums: expected {_CONFIDENCE + BINS}, found {len(made._all.sums)}")
        reject("cells", np.diff(found["cells"][:, 0]) < 0, "not in order")
        made._truth, made._predicted = (column.copy() for column in found["window_labels"].T)
        made._terms = found["window_terms"].copy()
        return made

    def check(self, classes: int) -> None:
        """Raise SnapshotError if a score's class is not among the `classes` known ones."""
        cells = np.array([*self._all.cells], dtype=np.int64).reshape(-1, 2)
        reject("cells", cells >= classes, f"there are {classes} classes")
        window = np.stack((self._truth, self._predicted))
        reject("window_labels", (window >= classes) | (window[:1] == NOTHING), f"there are {classes} classes")

    def _write(self, numbers: Ints, score: RevisableScore) -> None:
        places = numbers % self.window_size
        self._truth[places], self._predicted[places], self._terms[places] = score
