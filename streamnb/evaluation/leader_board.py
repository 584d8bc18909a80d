"""Rank several models by their costs on the same events, with intervals that hold at any time.

The mean difference of log loss, and of accuracy, of each pair of models has a confidence sequence: an
interval for each number of events. All of them contain the mean of the expected differences at once,
except with a small probability. `paired_comparison` has the bound. The same data find the leader, so the
sequences of all pairs must hold together: m models have m (m - 1) sequences, two for each pair, and each
may fail with a probability of 5 % / (m (m - 1)) (Bonferroni).

Two models are tied by a score if their interval contains 0. The leader has the least log loss.

References: Howard, Ramdas, McAuliffe and Sekhon (2021), "Time-uniform, nonparametric, nonasymptotic
confidence sequences", Annals of Statistics 49(2); Choe and Ramdas (2024), "Comparing sequential
forecasters", Operations Research 72(4).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import combinations
from typing import Any, NamedTuple

import msgspec
import numpy as np

from streamnb.evaluation.event_costs import Costs
from streamnb.kernels.array_types import Floats, Ints
from streamnb.scoring.baselines import Baselines, BaselineScores
from streamnb.scoring.paired_comparison import interval
from streamnb.scoring.prequential_scores import ESCAPE

CONFIDENCE = 0.95
_CHECKPOINTS = 8
_BOUNDS = {"log_loss": -math.log(ESCAPE), "accuracy": 1.0}


class ScoreDifference(msgspec.Struct, frozen=True):
    """Mean difference of a score, and the ends of its interval."""

    mean: float
    lower: float
    upper: float

    @property
    def is_tie(self) -> bool:
        """True if the interval contains 0."""
        return self.lower <= 0.0 <= self.upper


class Differences(msgspec.Struct, frozen=True):
    """Differences of log loss, in nats, and of accuracy."""

    log_loss: ScoreDifference
    accuracy: ScoreDifference


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """One model on the board.

    Attributes:
        name: the model's name.
        accuracy: share of the events that it predicted right.
        log_loss: its mean loss for each event, in nats.
        to_leader: its scores minus the leader's; None of the leader.
        over_time: `to_leader` after each of some numbers of events.
        by_class: `to_leader` of the events of each class; each interval holds by itself.
    """

    name: str
    accuracy: float
    log_loss: float
    to_leader: Differences | None
    over_time: Mapping[int, Differences]
    by_class: Sequence[tuple[str, int, Differences]]


class Pair(msgspec.Struct, frozen=True):
    """Scores of `name` minus scores of `other`; equal if they predicted every event with the same loss."""

    name: str
    other: str
    differences: Differences
    is_equal: bool


class LeaderBoard(msgspec.Struct, frozen=True):
    """Models, the best first.

    Attributes:
        events: number of events that all models scored.
        standings: of each model.
        pairs: of all models.
        baselines: scores of guessing on the same events.
        by_some_only: number of scores of events that not all models scored.
    """

    events: int
    standings: Sequence[Standing]
    pairs: Sequence[Pair]
    baselines: BaselineScores | None
    by_some_only: int

    @property
    def leader(self) -> Standing:
        """The model with the least log loss."""
        return self.standings[0]

    @property
    def tied(self) -> list[str]:
        """Names of models that are tied with the leader by log loss."""
        return self.around(self.leader, "log_loss")[1]

    @property
    def equal(self) -> list[list[str]]:
        """Groups of models that predicted every event equally."""
        groups = [[one.name] for one in self.standings]
        for pair in self.pairs:
            if pair.is_equal:
                first, second = (
                    next(group for group in groups if name in group) for name in (pair.other, pair.name)
                )
                if first is not second:
                    first += second
                    groups.remove(second)
        return [group for group in groups if len(group) > 1]

    def around(self, best: Standing, score: str) -> tuple[list[str], list[str]]:
        """Return the names of models that are worse than the `best` by a score, and of ties."""
        worse: list[str] = []
        tied: list[str] = []
        for pair in self.pairs:
            if best.name in {pair.name, pair.other}:
                other = pair.name if pair.other == best.name else pair.other
                (tied if getattr(pair.differences, score).is_tie else worse).append(other)
        return worse, tied


class _Side(NamedTuple):
    name: str
    costs: Costs


def leader_board(names: Sequence[str], costs: Sequence[Costs]) -> LeaderBoard | None:
    """Return the board of the events that all models scored; None if there are none.

    Args:
        names: of the models, in the order in which equal ones are ranked.
        costs: of each model.
    """
    common: Ints = reduce(np.intersect1d, [one.place for one in costs])
    if not common.size:
        return None
    sides = [
        _Side(name, one.at(np.searchsorted(one.place, common)))
        for name, one in zip(names, costs, strict=True)
    ]
    sides.sort(key=lambda side: (side.costs.loss.mean(), -side.costs.right.mean()))
    miss = (1.0 - CONFIDENCE) / (len(sides) * (len(sides) - 1))
    leader = sides[0].costs
    numbers: dict[str, int] = {}  # an array of strings would take the bytes of the longest for each
    codes = np.array([numbers.setdefault(str(label), len(numbers)) for label in leader.truth])
    classes = sorted(
        ((label, np.flatnonzero(codes == k)) for label, k in sorted(numbers.items())),
        key=lambda one: -one[1].size,
    )
    guesses = Baselines()
    guesses.update(codes)
    return LeaderBoard(
        int(common.size),
        [_standing(side, leader, classes, miss) for side in sides],
        [_pair(b, a, miss) for a, b in combinations(sides, 2)],
        guesses.scores(float(leader.right.mean())),
        int(sum(one.place.size - common.size for one in costs)),
    )


def _standing(side: _Side, leader: Costs, classes: Sequence[tuple[str, Ints]], miss: float) -> Standing:
    costs, n = side.costs, side.costs.place.size
    found: dict[str, Any] = {"to_leader": None, "over_time": {}, "by_class": []}
    if costs is not leader:
        ends = sorted({math.ceil(n * k / _CHECKPOINTS) for k in range(1, _CHECKPOINTS + 1)})
        found = {
            "to_leader": _differences(costs, leader, slice(None), miss),
            "over_time": {end: _differences(costs, leader, slice(end), miss) for end in ends},
            "by_class": [
                (label, int(at.size), _differences(costs, leader, at, miss)) for label, at in classes
            ],
        }
    accuracy, loss = float(costs.right.mean()), math.fsum(costs.loss.tolist()) / n
    return Standing(name=side.name, accuracy=accuracy, log_loss=loss, **found)


def _pair(side: _Side, other: _Side, miss: float) -> Pair:
    a, b = side.costs, other.costs
    is_equal = not ((a.loss != b.loss).any() or (a.right != b.right).any())
    return Pair(side.name, other.name, _differences(a, b, slice(None), miss), is_equal)


def _differences(costs: Costs, other: Costs, rows: Any, miss: float) -> Differences:
    return Differences(
        _difference(costs.loss[rows] - other.loss[rows], _BOUNDS["log_loss"], miss),
        _difference((costs.right[rows] - other.right[rows]).astype(float), _BOUNDS["accuracy"], miss),
    )


def _difference(each: Floats, bound: float, miss: float) -> ScoreDifference:
    each = each.clip(-bound, bound)  # a class that was held back may be charged slightly more
    total, squares, n = (np.array(math.fsum(each**k)) for k in (1, 2, 0))
    lower, upper = interval(total, squares, n, bound, miss)
    return ScoreDifference(float(total / n), float(lower), float(upper))
