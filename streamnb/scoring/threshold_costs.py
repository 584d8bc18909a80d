"""Mean cost of decisions by threshold: what another threshold would have cost on the same events.

Two thresholds are varied. *By expected cost*, the class of least expected cost is decided if this cost is
at most the threshold, and otherwise nothing is (Chow 1970). A well calibrated model costs least at the
cost of not deciding. *By probability*, the second of two classes is decided if its probability is at least
the threshold. A well calibrated model costs least at the threshold that follows from the costs (Elkan
2001).

References: Chow (1970), IEEE Transactions on Information Theory 16(1); Elkan (2001), "The foundations of
cost-sensitive learning", IJCAI.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.scoring.threshold_counts import Prices, counts_of
from streamnb.values.type_aliases import Flags

_QUANTILES = np.arange(1, 20) / 20.0
_GRID = np.array([0.01, *(np.arange(1, 20) / 20.0), 0.99])
_ABOVE_ALL = float(np.nextafter(1.0, 2.0))  # a threshold that no probability reaches


class ThresholdScores(msgspec.Struct, frozen=True):
    """Scores of decisions at one threshold.

    Attributes:
        threshold: of the expected cost, or of the probability.
        coverage: the share of events with a decision.
        accuracy: the share of correct decisions; None without any.
        mean_cost: mean cost of the decisions, or of not deciding.
    """

    threshold: float
    coverage: float
    accuracy: float | None
    mean_cost: float


def by_expected_cost(
    expected: Floats, costs: Floats, is_right: Flags, undecided: float, given: float | None = None
) -> list[ThresholdScores]:
    """Return the scores at about twenty thresholds, in rising order.

    Args:
        expected: expected cost of the best decision, infinite if there is none; shape (n,).
        costs: cost of that decision by the label, shape (n,).
        is_right: whether it is the label, shape (n,).
        undecided: cost of not deciding.
        given: one more threshold.
    """
    finite = expected[np.isfinite(expected)]
    if not finite.size:
        return []
    order = np.argsort(expected, kind="stable")
    sorted_ = expected[order]
    cost, right = (np.concatenate(([0.0], np.cumsum(each[order]))) for each in (costs, is_right))
    thresholds = {float(finite.min()), *np.quantile(finite, _QUANTILES).tolist(), float(finite.max())}
    thresholds |= set() if given is None else {given}
    found, n = [], expected.size
    for threshold in sorted(thresholds):
        k = int(np.searchsorted(sorted_, threshold, side="right"))
        total = float(cost[k]) + undecided * (n - k)
        found.append(ThresholdScores(threshold, k / n, float(right[k]) / k if k else None, total / n))
    return found


def by_probability(
    log_odds: Floats, truths: Ints, cost: Callable[[int, int], float]
) -> list[ThresholdScores]:
    """Return the scores of two classes at the best threshold and on a grid, in rising order; all are decided.

    Args:
        log_odds: ln P(second) - ln P(first), shape (n,).
        truths: 0 or 1, shape (n,).
        cost: of a decision and a truth.
    """
    counts = counts_of(log_odds, truths, 1)
    if not (counts.hits.size > 1 and counts.positives and counts.negatives):
        return []
    prices = Prices(cost(1, 1), cost(0, 1), cost(1, 0), cost(0, 0))
    best = counts.thresholds[counts.mean_costs(counts.thresholds, prices).argmin()]
    thresholds = np.unique(np.append(_GRID, min(best, _ABOVE_ALL)))
    hits, alarms = counts.at(thresholds)
    accuracy = (hits + counts.negatives - alarms) / truths.size
    rows = zip(thresholds, accuracy, counts.mean_costs(thresholds, prices), strict=True)
    return [ThresholdScores(float(t), 1.0, float(right), float(each)) for t, right, each in rows]


def least_cost(found: Sequence[ThresholdScores]) -> ThresholdScores | None:
    """Return the scores of least mean cost, of equals the first; None without any."""
    return min(found, key=lambda one: one.mean_cost, default=None)


def costs_of(
    decisions: Sequence[Any], truths: Sequence[Any], cost: Callable[[Any, Any], float]
) -> tuple[Floats, Flags]:
    """Return the cost of each decision, and whether it is right. Both have the shape (n,)."""
    known: dict[tuple[Any, Any], float] = {}
    found = np.empty(len(truths))
    for i, pair in enumerate(zip(decisions, truths, strict=True)):
        if pair not in known:
            known[pair] = cost(*pair)
        found[i] = known[pair]
    return found, np.array([a == b for a, b in zip(decisions, truths, strict=True)], dtype=np.bool_)
