"""Additional scores of `evaluate`: AUC of two classes, loss of new labels, calibration of rare classes.

1 - AUC, with AUC the area under the ROC curve: the probability that an event of one class has a higher
predicted probability of it than an event of the other class; ties count half (Hanley and McNeil 1982). It is
the same for both classes.

Progressive validation charges 34.5 nats for a label that was never seen, for every model. The open log loss
charges by `unseen`: -ln P(new) for such a label, and -ln (1 - P(new)) P(label) for any other. Classes that
may not be predicted count as new: P(new) is then u + (1 - u) h, with h their total probability.

Below 1 in 100 the ten bins of a calibration curve are too wide: each decade has a bin of its own.

A calibration error is never 0, because outcomes are counts: `by_chance` is the error of a perfectly
calibrated model. Of n events of probability p, n p is missed by this much on average (de Moivre 1730;
Diaconis and Zabell 1991, Statistical Science 6(3)):

    E |X - n p| = 2 v C(n, v) p^v (1 - p)^(n - v + 1)        v = floor(n p) + 1
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from streamnb.events import ReliabilityBin
from streamnb.kernels.array_types import Floats, Ints
from streamnb.scoring.baselines import Baselines
from streamnb.scoring.new_class_probability import new_class_probability
from streamnb.scoring.prequential_scores import ESCAPE, ProgressiveValidation
from streamnb.scoring.ranked_events import RankedEvents
from streamnb.scoring.threshold_costs import ThresholdScores, by_probability

_DECADES = (0.0, 1e-5, 1e-4, 1e-3, 1e-2)
_NEVER = 1e-9  # events
_ONE_IN_TWENTY = 1.645  # standard deviations of a normal distribution
_UNIT = 2.0**40  # in parts of which probabilities are summed: their sum does not hang on how events are cut


class Improbable(NamedTuple):
    """Probabilities within one decade, with their observed frequency.

    Attributes:
        upper: the upper bound of the decade.
        times: number of times a known class had such a probability.
        told: the mean of these probabilities.
        came: the share of times when that class was the truth.
    """

    upper: float
    times: int
    told: float
    came: float


class ByChance(NamedTuple):
    """The mean and the 95 % quantile of the calibration error of perfectly calibrated predictions."""

    mean: float
    upper: float


def by_chance(bins: Iterable[ReliabilityBin]) -> ByChance | None:
    """Return the calibration error by chance for the confidences of a curve; None without events.

    All events of a bin count as ones of its mean confidence: of ten streams it is by less than 1 % too much.
    What is exceeded by one in twenty is read off a gamma distribution of this mean and variance (Wilson and
    Hilferty 1931).
    """
    events, mean, variance = 0, 0.0, 0.0
    for one in bins:
        n, p = one.events, min(one.confidence, 1.0)
        events += n
        v = math.floor(n * p) + 1
        if v > n or n * p < _NEVER:  # all are sure, or sure to be wrong
            continue
        ways = math.lgamma(n + 1) - math.lgamma(v + 1) - math.lgamma(n - v + 1)
        missed = 2.0 * v * math.exp(ways + v * math.log(p) + (n - v + 1) * math.log1p(-p))
        mean += missed
        variance += max(n * p * (1.0 - p) - missed * missed, 0.0)
    if not mean:
        return ByChance(0.0, 0.0) if events else None
    spread = variance / mean**2
    upper = mean * (1.0 - spread / 9.0 + _ONE_IN_TWENTY * math.sqrt(spread) / 3.0) ** 3
    return ByChance(mean / events, max(upper, mean) / events)  # for few errors `upper` may be below


class OpenValidation(ProgressiveValidation):
    """Progressive validation that also charges new labels by their probability, and ranks two classes.

    While there are at most two classes it keeps `RankedEvents`: 9 bytes for each event, and at most 96 MB.

    Attributes:
        baselines: scores of guessing on the same labels.
        newest_losses: open loss of each scored event of the last batch, in nats.
        observer: called with the probabilities and truths of each batch, if it is set.
    """

    def __init__(self, window_size: int = 1000) -> None:
        super().__init__(window_size)
        self.baselines = Baselines()
        self.observer: Callable[[Floats, Ints], None] | None = None
        self._ranked = RankedEvents()
        self._is_met = np.zeros(2, dtype=np.bool_)
        self._shown = 0
        self._met: set[int] = set()
        self._open_losses: list[float] = []
        self.newest_losses = np.zeros(0)
        # Times, sum of probabilities in units, how often it came; of each decade.
        self._improbable = [(0, 0, 0)] * (len(_DECADES) - 1)

    def update_many(
        self, probabilities: Floats, truths: Ints, n_classes: int | None = None, held: Floats | float = 0.0
    ) -> None:
        """Score a batch of events in order; see `ProgressiveValidation`."""
        before = self.events
        super().update_many(probabilities, truths, n_classes)
        self.baselines.update(truths[truths >= 0])
        if self.observer is not None:
            self.observer(probabilities, truths)
        held = np.broadcast_to(held, truths.shape)
        self.newest_losses = self._losses(probabilities, truths, before, held)
        losses = self.newest_losses.tolist()
        total = math.fsum(losses)
        self._open_losses += [total, math.fsum([*losses, -total])]  # with the rest: equal, however cut
        self._note_improbable(probabilities, truths)
        self._shown = max(self._shown, probabilities.shape[1], int(truths.max(initial=-1)) + 1)
        if self._shown > 2:
            self._ranked = RankedEvents()
            return
        is_scored = truths >= 0
        row, truth = np.zeros((int(is_scored.sum()), 2)), truths[is_scored]
        row[:, : probabilities.shape[1]] = probabilities[is_scored]
        of = truth[:, np.newaxis] == np.arange(2)
        is_met = self._is_met | (np.cumsum(of, axis=0) > of)  # in an event before
        with np.errstate(divide="ignore", invalid="ignore"):
            odds = np.log(row[:, 1]) - np.log(row[:, 0])
        # Odds are 0 (undecided) if a class is still unknown or may not be predicted.
        is_open = ((row == 0.0) & ~is_met).any(axis=1) | (held[is_scored] > 0.0)
        odds[is_open | np.isnan(odds)] = 0.0
        self._is_met |= of.any(axis=0)
        self._ranked.add(odds, truth)

    def _losses(self, probabilities: Floats, truths: Ints, before: int, held: Floats) -> Floats:
        """Return the open losses of events after `before` earlier ones."""
        scored = np.flatnonzero(truths >= 0)
        first = {k: i for i, k in reversed([*enumerate(truths[scored].tolist())]) if k not in self._met}
        is_new = np.isin(np.arange(scored.size), [*first.values()])
        classes = len(self._met) + np.cumsum(is_new) - is_new
        unseen = new_class_probability(before + np.arange(scored.size), classes)
        self._met |= first.keys()
        padded = np.pad(probabilities, ((0, 0), (0, 1)))
        told = padded[scored, np.minimum(truths[scored], probabilities.shape[1])]
        h = held[scored]
        is_new |= (h > 0.0) & (told == 0.0)
        known = (1.0 - unseen) * np.maximum((1.0 - h) * told, ESCAPE)
        charged = np.where(is_new, unseen + (1.0 - unseen) * h, known)
        return -np.log(charged)

    def _note_improbable(self, probabilities: Floats, truths: Ints) -> None:
        rows, truths = probabilities[truths >= 0], truths[truths >= 0, np.newaxis]
        of_truth = truths == np.arange(rows.shape[1])
        for b in range(len(_DECADES) - 1):
            within = (rows > _DECADES[b]) & (rows <= _DECADES[b + 1])
            told = np.rint(rows[within] * _UNIT).astype(np.int64)
            n, total, came = self._improbable[b]
            came += int((within & of_truth).sum())
            self._improbable[b] = n + told.size, total + int(told.sum()), came

    @property
    def improbable(self) -> list[Improbable]:
        """Return the nonempty decades below 1 in 100, from low to high."""
        rows = zip(_DECADES[1:], self._improbable, strict=True)
        return [Improbable(upper, n, told / _UNIT / n, came / n) for upper, (n, told, came) in rows if n]

    def most_confused(self, most: int) -> list[tuple[int, int, int]]:
        """Return truth, prediction and number of events of the most frequent confusions, in that order."""
        rows = [row for row in map(tuple, self._cells.rows().tolist()) if row[0] != row[1] and row[1] >= 0]
        return sorted(rows, key=lambda row: -row[2])[:most]

    @property
    def open_log_loss(self) -> float | None:
        """Mean loss per event in nats; None if none was scored.

        Labels scored before count as seen.
        """
        return math.fsum(self._open_losses) / self.events if self.events else None

    def costs_by_probability(self, cost: Callable[[int, int], float]) -> list[ThresholdScores]:
        """Return the mean cost of two classes by the threshold of the second one's probability.

        Args:
            cost: of a decision and a truth, each 0 or 1.
        """
        ranked = self.ranked
        return [] if ranked is None else by_probability(*ranked, cost)

    @property
    def ranked(self) -> tuple[Floats, Ints] | None:
        """Log odds of class 1 against class 0, and truths.

        None unless there are two classes, and after `MOST_EXACT` events.
        """
        return None if self._shown > 2 else self._ranked.events

    @property
    def one_less_auc(self) -> float | None:
        """1 - AUC over all events; an event before both classes were known counts as undecided.

        None unless there are two classes.
        """
        return self._ranked.share_misordered

    @property
    def auc_error(self) -> float:
        """Maximum error of `one_less_auc`, 0 up to `MOST_EXACT` events."""
        return self._ranked.error
