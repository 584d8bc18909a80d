"""What `evaluate` tells beside progressive validation: ranks of two classes, cost of new labels.

1 - AUC, where AUC is the area under the ROC curve: the probability that of two events, one of each class, the
one that is of a class was given the higher probability of it; equal ones count half (Hanley and McNeil 1982).
It is the same whichever class is asked for.

Progressive validation charges 34.5 nats for a label that was never seen, whoever predicts. The open log loss
charges what `unseen` says: -ln P(new) for such a label, and -ln (1 - P(new)) P(label) for any other. Classes
that may not be predicted are as new ones: P(new) is then u + (1 - u) h, where h is what they have together.
"""

from __future__ import annotations

import math
from array import array

import numpy as np

from streamnb.model.compiled.arrays import Floats, Ints
from streamnb.model.evaluation.progressive import ESCAPE, ProgressiveValidation
from streamnb.model.evaluation.unseen import probability_of_unseen


def share_misordered(scores: Floats, truths: Ints) -> float | None:
    """1 - AUC, exact but for one division; None where a class has no event.

    Args:
        scores: float64[n], higher for class 1. None is NaN.
        truths: int64[n], 0 or 1.
    """
    _, place = np.unique(scores, return_inverse=True)
    counts = np.zeros((2, place.max(initial=0) + 1), dtype=np.int64)
    np.add.at(counts, (truths, place), 1)
    zeros, ones = counts
    above = zeros.sum() - np.cumsum(zeros)
    pairs = int(zeros.sum()) * int(ones.sum())
    return int((ones * (2 * above + zeros)).sum()) / (2 * pairs) if pairs else None


class OpenValidation(ProgressiveValidation):
    """Progressive validation that also charges new labels by their probability, and ranks two classes.

    While there are at most two classes it keeps the log odds of every event, 9 bytes each.
    """

    def __init__(self, window_size: int = 1000) -> None:
        super().__init__(window_size)
        self._odds, self._truths = array("d"), array("b")
        self._is_met = np.zeros(2, dtype=np.bool_)
        self._shown = 0
        self._met: set[int] = set()
        self._open_losses: list[float] = []

    def update_many(
        self, probabilities: Floats, truths: Ints, n_classes: int | None = None, held: Floats | float = 0.0
    ) -> None:
        """Score a batch of events in order; see `ProgressiveValidation`."""
        before = self.events
        super().update_many(probabilities, truths, n_classes)
        held = np.broadcast_to(held, truths.shape)
        self._open_losses.append(self._open_loss(probabilities, truths, before, held))
        self._shown = max(self._shown, probabilities.shape[1], int(truths.max(initial=-1)) + 1)
        if self._shown > 2:
            self._odds, self._truths = array("d"), array("b")
            return
        is_scored = truths >= 0
        row, truth = np.zeros((int(is_scored.sum()), 2)), truths[is_scored]
        row[:, : probabilities.shape[1]] = probabilities[is_scored]
        of = truth[:, np.newaxis] == np.arange(2)
        is_met = self._is_met | (np.cumsum(of, axis=0) > of)  # in an event before
        with np.errstate(divide="ignore", invalid="ignore"):
            odds = np.log(row[:, 1]) - np.log(row[:, 0])
        # Nothing is known of a class that was never met, or is said of one that may not be predicted.
        is_open = ((row == 0.0) & ~is_met).any(axis=1) | (held[is_scored] > 0.0)
        odds[is_open | np.isnan(odds)] = 0.0
        self._is_met |= of.any(axis=0)
        self._odds.frombytes(odds.tobytes())
        self._truths.frombytes(truth.astype(np.int8).tobytes())

    def _open_loss(self, probabilities: Floats, truths: Ints, before: int, held: Floats) -> float:
        """In total, of events after so many others."""
        scored = np.flatnonzero(truths >= 0)
        first = {k: i for i, k in reversed([*enumerate(truths[scored].tolist())]) if k not in self._met}
        is_new = np.isin(np.arange(scored.size), [*first.values()])
        classes = len(self._met) + np.cumsum(is_new) - is_new
        unseen = probability_of_unseen(before + np.arange(scored.size), classes)
        self._met |= first.keys()
        padded = np.pad(probabilities, ((0, 0), (0, 1)))
        told = padded[scored, np.minimum(truths[scored], probabilities.shape[1])]
        h = held[scored]
        is_new |= (h > 0.0) & (told == 0.0)
        known = (1.0 - unseen) * np.maximum((1.0 - h) * told, ESCAPE)
        charged = np.where(is_new, unseen + (1.0 - unseen) * h, known)
        return -math.fsum(np.log(charged).tolist())

    @property
    def open_log_loss(self) -> float | None:
        """Mean of what each event cost, nats; None where none was scored.

        Labels that were scored before are the ones that were seen.
        """
        return math.fsum(self._open_losses) / self.events if self.events else None

    @property
    def one_less_auc(self) -> float | None:
        """Of all events; an event before one of the two classes was met counts as undecided.

        None where there are not two classes.
        """
        return share_misordered(np.array(self._odds), np.array(self._truths, dtype=np.int64))
