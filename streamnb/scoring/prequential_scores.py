"""Progressive validation: every labelled event is scored by the prediction made before it was learned.

What is kept, and why nothing in it drifts:

* Counts (the confusion matrix, the calibration bins) are int64 and exact. Of the matrix only the cells are
  kept in which something was counted, at most one for each event: the square of many classes is too large.
* Cumulative sums are compensated (Neumaier 1974): a sum of n terms >= 0 is off by about one rounding, plus
  n^2 eps^2 relative, which is 5e-18 for ten million events.
* The window keeps its events' terms in a ring and no sums at all. `window` adds them up, oldest first, with
  the same arithmetic as the cumulative sums: it equals, bit for bit, the cumulative scores of a new object
  that saw only those events. An update costs O(classes), a reading of the window O(window_size + classes).

No term depends on how many classes a row is padded to, so cutting the stream into other batches changes no
bit of the state.

References: Dawid (1984), "The prequential approach", JRSS A 147(2); Neumaier (1974), ZAMM 54(1);
Cohen (1960), EPM 20(1); Brier (1950), MWR 78(1); Guo et al. (2017), "On calibration", ICML.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from streamnb.errors import SnapshotError
from streamnb.events import ReliabilityBin, Scores
from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.growable_arrays import roomier
from streamnb.kernels.jit import inlined, kernel
from streamnb.statistics.compensated import add
from streamnb.values.hooks import Shown
from streamnb.values.parameter_checks import check_whole
from streamnb.values.state_validation import MOST, checked, count, counts, real, reject, state_errors, whole
from streamnb.values.type_aliases import Array

BINS = 10
"""Calibration bins of equal width; bin b holds the confidences in (b / 10, (b + 1) / 10]."""

ESCAPE = 1e-15
"""The least probability a truth is scored with; so a label never seen before costs 34.5 nats."""

_NOTHING = -1  # predicted by an empty model
_TRUTH, _PREDICTED = 0, 1  # columns of a ring's labels
# Columns of a ring's terms; rows of a tally's sums, the last one per bin.
_LOSS, _BRIER, _CONFIDENCE = 0, 1, 2
_COUNT, _RIGHT = 0, 1  # columns of a tally's bins
_SLACK = 1e-9  # rounding error by which a probability may exceed 1
_HALF, _LOW = 32, (1 << 32) - 1  # halves of a cell's number
_AT_LEAST = 1024  # cells that may wait


class _Ring(NamedTuple):
    """The last labelled events; event i is in slot i modulo the window's size.

    `labels`, int64[window_size, 2]: truth and prediction; `terms`, float64[window_size, 3]: loss, Brier
    score, confidence.
    """

    labels: Ints
    terms: Floats


class _Cells:
    """Non-zero cells of a confusion matrix, as numbers: truth in the upper half, prediction + 1 below.

    Cells of recent events wait in a buffer, and are sorted in together.
    """

    def __init__(self, codes: Ints, counts: Ints) -> None:
        self._codes, self._counts = codes, counts  # rising
        self.waiting = np.zeros(_AT_LEAST, dtype=np.int64)
        self.waits = 0

    def reserve(self, more: int) -> None:
        if self.waits + more > self.waiting.size:
            self._sort_in()
            self.waiting = np.zeros(max(_AT_LEAST, more, self._codes.size // 2), dtype=np.int64)

    def _sort_in(self) -> None:
        waiting, self.waits = self.waiting[: self.waits], 0
        known = self._codes.size
        added, times = np.unique(waiting, return_counts=True)
        self._codes, place = np.unique(np.concatenate((self._codes, added)), return_inverse=True)
        counts = np.zeros(self._codes.size, dtype=np.int64)
        counts[place[:known]] = self._counts
        counts[place[known:]] += times
        self._counts = counts

    def rows(self) -> Ints:
        """Return truth, prediction (`_NOTHING` by an empty model) and count of each. Shape (C, 3)."""
        self._sort_in()
        return np.stack((self._codes >> _HALF, (self._codes & _LOW) - 1, self._counts), axis=1)


def _codes(rows: Ints) -> Ints:
    return (rows[:, 0] << _HALF) + rows[:, 1] + 1


class _Tally(NamedTuple):
    """Sums over a scope.

    `bins`, int64[BINS, 2]: events and right predictions by confidence. `sums`, float64[2 + BINS, 2]: loss,
    Brier score and each bin's confidence, each as sum and compensation.
    """

    bins: Ints
    sums: Floats


def _empty_tally() -> _Tally:
    return _Tally(np.zeros((BINS, 2), dtype=np.int64), np.zeros((_CONFIDENCE + BINS, 2), dtype=np.float64))


@kernel
def _are_probabilities(values: Any) -> bool:
    """Return whether every value lies in [0, 1]; NaN does not."""
    valid = True
    for value in values.flat:
        valid &= 0.0 <= value <= 1.0 + _SLACK
    return valid


@kernel
def _add_slot(labels: Any, terms: Any, slot: int, bins: Any, sums: Any) -> None:
    add(sums, _LOSS, terms[slot, _LOSS])
    add(sums, _BRIER, terms[slot, _BRIER])
    if labels[slot, _PREDICTED] == _NOTHING:
        return
    confidence = terms[slot, _CONFIDENCE]
    b = max(0, math.ceil(confidence * BINS) - 1)
    bins[b, _COUNT] += 1
    bins[b, _RIGHT] += labels[slot, _PREDICTED] == labels[slot, _TRUTH]
    add(sums, _CONFIDENCE + b, confidence)


@kernel
def _score(probabilities: Any, truth: int, labels: Any, terms: Any, slot: int) -> None:
    """Write the loss, Brier score and confidence of one event into a slot of a ring."""
    predicted = _NOTHING
    confidence = 0.0
    brier = 0.0
    for k in range(probabilities.size):
        p = probabilities[k]
        if p > confidence:
            predicted = k
            confidence = p
        if k != truth:
            brier += p * p
    # The truth's term comes last, so that the order of additions does not depend on padding.
    likelihood = probabilities[truth] if truth < probabilities.size else 0.0
    brier += (likelihood - 1.0) * (likelihood - 1.0)
    labels[slot, _TRUTH] = truth
    labels[slot, _PREDICTED] = predicted
    terms[slot, _LOSS] = -math.log(min(max(likelihood, ESCAPE), 1.0))
    terms[slot, _BRIER] = brier
    terms[slot, _CONFIDENCE] = min(confidence, 1.0)


@kernel
def _score_each(probabilities: Any, truths: Any, labels: Any, terms: Any) -> None:
    for i in range(truths.size):
        _score(probabilities[i], truths[i], labels, terms, i)


def score_each(probabilities: Floats, truths: Ints) -> tuple[Ints, Floats]:
    """Return int64[n, 2], truth and prediction of n events; and float64[n, 3], loss, Brier, confidence."""
    labels, terms = np.empty((truths.size, 2), dtype=np.int64), np.empty((truths.size, 3))
    _score_each(np.require(probabilities, np.float64, ("C", "A", "W")), truths, labels, terms)
    return labels, terms


@inlined
def _add_margins(labels: Any, slot: int, margins: Any) -> None:
    truth, predicted = labels[slot, _TRUTH], labels[slot, _PREDICTED]
    margins[0, truth] += 1
    if predicted != _NOTHING:
        margins[1, predicted] += 1
        margins[2, truth] += predicted == truth


@kernel
def _update(events: int, batch: Any, cells: Any, margins: Any, ring: Any, tally: Any) -> int:
    """Score a batch in order, after `events` earlier ones; fill `cells`; return the new number of events."""
    probabilities, truths = batch
    labels, terms = ring
    bins, sums = tally
    before = events
    for i in range(truths.size):
        truth = truths[i]
        if truth < 0:
            continue
        slot = events % labels.shape[0]
        _score(probabilities[i], truth, labels, terms, slot)
        cells[events - before] = (truth << _HALF) + labels[slot, _PREDICTED] + 1
        _add_margins(labels, slot, margins)
        _add_slot(labels, terms, slot, bins, sums)
        events += 1
    return events


@kernel
def _add_window(events: int, ring: Any, margins: Any, tally: Any) -> None:
    """Add up the ring after `events` events, oldest first; `margins` as in `_scores`."""
    labels, terms = ring
    bins, sums = tally
    window_size = labels.shape[0]
    for event in range(max(0, events - window_size), events):
        slot = event % window_size
        _add_margins(labels, slot, margins)
        _add_slot(labels, terms, slot, bins, sums)


class ProgressiveValidation(Shown):
    """Scores over the whole stream, and over a sliding window of the last labelled events.

    Degenerate cases:
        no events       every score is 0.0, and `Scores.events` is 0.
        empty model     an event met by a model without classes (a row of zeros) counts as wrong, in a column
                        of its own; it costs -ln(ESCAPE), its Brier score is 1, and calibration leaves it out.
                        River skips such events.
        unseen truth    a truth without a column or of probability 0 costs -ln(ESCAPE); its Brier term is 1.
        ties            the first of the most probable classes is the predicted one.
        macro-F1        over the classes seen as truth or prediction within the scope; "no prediction" is not
                        a class. A class never predicted right has F1 = 0.
        kappa           chance agreement is certain (p_e = 1) only where every event has one and the same
                        truth and prediction: 1.0. River returns 0.0 there, scikit-learn NaN.
        calibration     0.0 if no event of the scope was predicted.
        log loss        p = 1 costs exactly 0; River charges 1e-15, because it clips p from above too.

    Args:
        window_size: how many labelled events the window holds, >= 1; each takes 40 bytes.

    Raises:
        ValueError: if `window_size` is below 1.
    """

    def __init__(self, window_size: int = 1000) -> None:
        check_whole("window_size", window_size, 1)
        self.events = 0
        """Number of scored labelled events."""
        self._classes = 0
        nothing = np.zeros(0, dtype=np.int64)
        self._cells = _Cells(nothing, nothing)
        self._margins = np.zeros((3, 2), dtype=np.int64)
        self._ring = _Ring(np.zeros((window_size, 2), dtype=np.int64), np.zeros((window_size, 3)))
        self._tally = _empty_tally()

    def __repr__(self) -> str:
        one = self.cumulative()
        told = f"accuracy {one.accuracy:.4f}, log loss {one.log_loss:.4f}"
        return f"ProgressiveValidation({one.events} events, {told})"

    @property
    def window_size(self) -> int:
        """Capacity of the window in events."""
        return len(self._ring.labels)

    def update_many(
        self, probabilities: Floats, truths: Ints, n_classes: int | None = None, held: Floats | float = 0.0
    ) -> None:
        """Score a batch of events in order. How a stream is cut into batches changes nothing.

        Args:
            probabilities: shape (n, K), columns = classes in order of index; a class not yet known when the
                event was met has probability 0, a row of zeros was met by an empty model.
            truths: shape (n,), class indices; below 0 = unlabelled and not scored; K and beyond = unseen.
            n_classes: number of classes after the batch, if it may exceed the classes in the arrays.
            held: shape (n,), the probability of classes that may not be predicted: they have 0 in the rows.

        Raises:
            ValueError: if the shapes disagree, a value is not a probability, or `n_classes` is less than what
                has been shown; nothing is changed.
        """
        # One memory layout, so that there is one compiled kernel.
        probabilities = np.require(probabilities, np.float64, ("C", "A", "W"))
        truths = np.require(truths, np.int64, ("C", "A", "W"))
        if probabilities.ndim != 2 or truths.shape != probabilities.shape[:1]:
            raise ValueError(f"shapes (n, K) and (n,) expected, got {probabilities.shape} and {truths.shape}")
        if not _are_probabilities(probabilities):
            raise ValueError("probabilities must lie between 0 and 1")
        shown = max(self._classes, probabilities.shape[1], int(truths.max(initial=-1)) + 1)
        if n_classes is not None and n_classes < shown:
            raise ValueError(f"n_classes = {n_classes}, but {shown} classes have been shown")
        self._grow(shown if n_classes is None else n_classes)
        self._cells.reserve(truths.size)
        batch, cells = (probabilities, truths), self._cells.waiting[self._cells.waits :]
        events = _update(self.events, batch, cells, self._margins, self._ring, self._tally)
        self._cells.waits += events - self.events
        self.events = events

    def cumulative(self) -> Scores:
        """Return the scores over the whole stream."""
        return _scores(self._margins, self._tally)

    def window(self) -> Scores:
        """Return the scores over the last `window_size` labelled events, summed afresh."""
        margins = np.zeros((3, self._classes), dtype=np.int64)
        tally = _empty_tally()
        _add_window(self.events, self._ring, margins, tally)
        return _scores(margins, tally)

    def confusion(self, classes: int | None = None) -> Ints:
        """Return events by truth and prediction, shape (K, K + 1); the last column is an empty model's."""
        K = self._classes if classes is None else classes
        truth, predicted, count = self._cells.rows().T
        inside = (truth < K) & (predicted < K)
        confusion = np.zeros((K, K + 1), dtype=np.int64)
        confusion[truth[inside], predicted[inside]] = count[inside]  # _NOTHING is the last
        return confusion

    def state(self) -> tuple[dict[str, object], dict[str, Array]]:
        """Return everything as JSON-able values and copied arrays; equal streams give equal bytes."""
        used = min(self.events, self.window_size)
        arrays: dict[str, Array] = {
            "cells": self._cells.rows(),
            "window_labels": self._ring.labels[:used].copy(),
            "window_terms": self._ring.terms[:used].copy(),
            "bins": self._tally.bins.copy(),
            "sums": self._tally.sums.copy(),
        }
        return {"window_size": self.window_size, "classes": self._classes}, arrays

    @classmethod
    @state_errors("scores")
    def from_state(cls, meta: Mapping[str, object], arrays: Mapping[str, Array]) -> ProgressiveValidation:
        """Return the object of a `state`, which continues identically. Raises SnapshotError."""
        window_size = meta.get("window_size")
        if type(window_size) is not int or window_size < 1:
            raise SnapshotError(f"window_size must be an integer above 0, got {window_size!r}")
        classes = _check(window_size, meta, arrays)
        validation = cls(window_size)
        truth, predicted, count = arrays["cells"].T
        used, is_right = len(arrays["window_labels"]), truth == predicted
        validation._grow(classes)
        validation._cells = _Cells(_codes(arrays["cells"]), count.copy())
        np.add.at(validation._margins[0], truth, count)
        np.add.at(validation._margins[1], predicted[predicted >= 0], count[predicted >= 0])
        np.add.at(validation._margins[2], truth[is_right], count[is_right])
        validation.events = int(count.sum())
        validation._ring.labels[:used] = arrays["window_labels"]
        validation._ring.terms[:used] = arrays["window_terms"]
        validation._tally.bins[...] = arrays["bins"]
        validation._tally.sums[...] = arrays["sums"]
        return validation

    def _grow(self, classes: int) -> None:
        self._classes = classes
        self._margins = roomier(self._margins, 0, classes)


def _scores(margins: Ints, tally: _Tally) -> Scores:
    return scores_of(margins, tally.bins.tolist(), tally.sums.sum(axis=1).tolist())


def scores_of(margins: Ints, bins: Sequence[Sequence[int]], sums: Sequence[float]) -> Scores:
    """Return the scores of a scope.

    Args:
        margins: shape (3, K), events by truth, by prediction, and predicted right.
        bins: number of events and of correct predictions, by calibration bin.
        sums: loss, Brier score, and each bin's confidence.
    """
    truths, predictions, rights = margins.tolist()  # Python's integers do not overflow in products
    events = sum(truths)
    if events == 0:
        return Scores(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    right = sum(rights)
    f1 = [2 * r / (t + p) for t, p, r in zip(truths, predictions, rights, strict=True) if t + p]
    chance = sum(map(operator.mul, truths, predictions))  # events^2 p_e
    loss, brier, *confidences = sums
    calibrated = sum(count for count, _ in bins)
    gaps = (confidence - right for confidence, (_, right) in zip(confidences, bins, strict=True))
    return Scores(
        events=events,
        accuracy=right / events,
        log_loss=loss / events,
        macro_f1=math.fsum(f1) / len(f1),
        kappa=(events * right - chance) / (events**2 - chance) if chance < events**2 else 1.0,
        brier=brier / events,
        calibration_error=math.fsum(map(abs, gaps)) / calibrated if calibrated else 0.0,
        reliability=tuple(
            ReliabilityBin(b / BINS, (b + 1) / BINS, confidence / count, right / count, count)
            for b, (confidence, (count, right)) in enumerate(zip(confidences, bins, strict=True))
            if count
        ),
    )


def _check(window_size: int, meta: Mapping[str, object], arrays: Mapping[str, Array]) -> int:
    """Return the number of classes. Raises SnapshotError for inconsistent arrays; kernels do not check."""
    classes = count(meta, "classes", most=(1 << (_HALF - 1)) - 1)
    empty, lowest = _empty_tally(), np.array([0, _NOTHING])  # a truth, and a prediction
    found = checked(
        arrays,
        {
            "cells": whole("cells", 3, low=[*lowest, 1], high=[classes - 1, classes - 1, MOST]),
            "window_labels": whole("window", 2, low=lowest, high=classes - 1),
            "window_terms": real("window", 3, low=0.0, high=np.array([100.0, 4.0, 1.0])),
            "bins": counts(*empty.bins.shape),
            "sums": real(*empty.sums.shape),
        },
    )
    cells, used = found["cells"], len(found["window_labels"])
    events = cells[:, 2].sum(dtype=np.float64)
    if events > MOST or used != min(int(events), window_size):
        raise SnapshotError(f"window_labels: {used} events of {events:g}, but the window holds {window_size}")
    reject("cells", np.diff(_codes(cells)) <= 0, "not in order")
    predicted = cells[cells[:, 1] != _NOTHING]
    right = predicted[predicted[:, 0] == predicted[:, 1]]
    counted = [int(rows[:, 2].sum()) for rows in (predicted, right)]
    binned = arrays["bins"].sum(axis=0).tolist()
    if counted != binned:
        raise SnapshotError(f"cells: {counted} events predicted, and predicted right; bins: {binned}")
    return classes
