"""Probabilities from the scores of any classifier (Platt), one held-out pair at a time."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from numbers import Real
from typing import Any, Self

import numpy as np

from streamnb.errors import SnapshotError
from streamnb.kernels.array_types import Floats, Ints
from streamnb.models.calibration.newton import optimum
from streamnb.models.calibration.reservoir_refit import go_back
from streamnb.models.calibration.row_reservoir import KeptRows
from streamnb.models.calibration.sequential_laplace import LaplaceUnits, sigmoid
from streamnb.values.nominal_values import LARGEST
from streamnb.values.number_ranges import nearest_double
from streamnb.values.parameter_checks import check_whole
from streamnb.values.savable import SavableValue
from streamnb.values.state_validation import check_made
from streamnb.values.type_aliases import Array, State

_VARIANCE = 1e12  # as good as flat, for scores of any sensible scale
_COLUMNS = np.arange(2)
_CHUNK = 4096


class PlattScaling(SavableValue):
    """The probability of the positive class from a score f, such as log odds or a margin.

        Pr(y = 1 | x) = 1 / (1 + exp(A f + B))

    A and B are fitted on pairs (f, y) of events that the scorer had not learned when it scored them: learn a
    pair after the score was given and before, or while, the scorer learns the event. Platt's targets, (N+ +
    1) / (N+ + 2) of the positive and 1 / (N- + 2) of the negative pairs, keep A and B finite where scores
    separate the classes. They take 1 / (N + 2) from each of N pairs; here the N-th pair of a class gives 2 /
    ((N + 1) (N + 2)), the growth of the total since the previous pair. It is a sigmoid unit of two weights
    with an all but flat prior, which goes back to a uniform sample of the pairs (see `revisiting`): in any
    order it is within 2 % of Platt's optimum, which `refine` reaches with all pairs.

    Args:
        memory: how many pairs are kept, of 32 to 48 bytes each. 0 keeps none: then pairs that are sorted by
            label are fitted badly.

    Raises:
        ValueError: if `memory` is below 0.

    Degenerate cases:
        nothing yet     probability 1/2.
        equal scores    B alone is known: the share of positives.
        NaN             is not learned; its probability is (N+ + 1) / (N+ + N- + 2).
        infinite        is not learned; its probability is the limit, 0 or 1 (as for NaN if A = 0).

    Examples:
        A first pair (1, positive) has Platt's target 2/3, and a second one (-1, negative) 1/3; A and B that
        give both are -ln 2 and 0:

        >>> from streamnb import PlattScaling
        >>> platt = PlattScaling()
        >>> platt.learn_one(1.0, True)
        >>> round(platt.probability(1.0), 3)
        0.667
        >>> platt.learn_one(-1.0, False)
        >>> round(platt.A, 3), abs(round(platt.B, 3)), round(platt.probability(-1.0), 3)
        (-0.693, 0.0, 0.333)

    References:
        Platt (1999), Probabilistic outputs for support vector machines; Lin, Lin and Weng (2007), A note on
        Platt's probabilistic outputs.
    """

    def __init__(self, memory: int = 2048) -> None:
        check_whole("memory", memory, 0)
        self.memory = memory
        self._kept = KeptRows(memory)
        self._counts = [0, 0]
        self._units = LaplaceUnits(1, _VARIANCE)
        self._units.reserve(2)

    def __repr__(self) -> str:
        return f"PlattScaling(A={self.A:.6g}, B={self.B:.6g}, memory={self.memory})"

    @property
    def A(self) -> float:  # noqa: N802  Platt's symbol
        """The slope, below 0 where greater scores are for the positive class."""
        return -float(self._units.means[0, 0])

    @property
    def B(self) -> float:  # noqa: N802  Platt's symbol
        """The offset."""
        return -float(self._units.means[0, 1])

    @property
    def counts(self) -> dict[bool, int]:
        """Number of learned pairs of either label."""
        return {False: self._counts[0], True: self._counts[1]}

    def probability(self, score: float) -> float:
        """Return Pr(y = 1) of a score. Raises TypeError if it is not a number."""
        score = _double(score)
        if math.isnan(score) or (math.isinf(score) and self.A == 0.0):
            return (self._counts[1] + 1) / (sum(self._counts) + 2)
        if math.isinf(score):
            return float((score > 0.0) == (self.A < 0.0))
        return sigmoid(self._units.net(0, _COLUMNS, _row(score)))

    def predict_proba_one(self, score: float) -> dict[bool, float]:
        """Return the probability of either label; they sum to 1."""
        p = self.probability(score)
        return {False: 1.0 - p, True: p}

    def learn_one(self, score: float, y: bool) -> None:  # noqa: FBT001  the label
        """Learn a score and whether its event was positive.

        Raises TypeError if the score is not a number, ValueError if the label is not a truth value.
        """
        score, y = _double(score), _truth(y)
        if math.isfinite(score):
            self._counts[y] += 1
            n = self._counts[y]
            taken = 2 / ((n + 1) * (n + 2))
            self._units.learn(_COLUMNS, _row(score), np.array([1.0 - taken if y else taken]), 1.0)
            self._kept.offer(_COLUMNS, _row(score), int(y), 1.0, 2)
            go_back(self._units, self._kept, self._targets)

    def refine(self, pairs: Collection[tuple[float, bool]], passes: int = 100) -> int:
        """Fit Platt's A and B to these pairs, replacing earlier ones; return the number of passes.

        Raises TypeError if `pairs` is an iterator, ValueError if a label is not a truth value.
        """
        if isinstance(pairs, Iterator):
            raise TypeError("pairs that can be iterated only once cannot be gone through again")
        counts, kept = [0, 0], KeptRows(self.memory)
        for score, label in pairs:
            if math.isfinite(score):
                y = _truth(label)
                counts[y] += 1
                kept.offer(_COLUMNS, _row(score), int(y), 1.0, 2)
        self._counts, self._kept = counts, kept
        found = optimum(self._units.means, lambda: self._chunks(pairs), 1.0 / _VARIANCE, passes)
        self._units.set_posterior(found.means, found.roots)
        return found.passes

    def state(self) -> State:
        """Return everything learned: JSON-able values, and arrays."""
        meta, kept = self._kept.state()
        own = {"type": type(self).__name__, "counts": list(self._counts)}
        return {**own, **meta}, {**self._units.arrays(), **kept}

    @classmethod
    def from_state(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Restore the object that `state` described, with its memory if any. Raises SnapshotError."""
        counts = meta.get("counts")
        check_made(meta, type=cls.__name__)
        if not isinstance(counts, list) or [type(n) for n in counts] != [int, int] or min(counts) < 0:
            raise SnapshotError(f"expected two counts of at least 0, found {counts!r}")
        kept, weights = KeptRows.from_state(meta, arrays, 2, 2)
        restored = cls(kept.size)
        restored._kept = kept
        restored._units = LaplaceUnits.from_arrays(weights, 1, 2, _VARIANCE)
        restored._counts = list(counts)
        return restored

    def _targets(self, labels: Ints) -> Floats:
        negative, positive = self._counts
        return np.array([[1 / (negative + 2)], [(positive + 1) / (positive + 2)]])[labels]

    def _chunks(self, pairs: Collection[tuple[float, bool]]) -> Iterator[tuple[Floats, Floats, Floats]]:
        finite = ((score, y) for score, y in pairs if math.isfinite(score))
        while chunk := list(islice(finite, _CHUNK)):
            labels = np.array([int(bool(y)) for _, y in chunk])
            yield np.array([_row(score) for score, _ in chunk]), self._targets(labels), np.ones(len(chunk))


def _row(score: float) -> Floats:
    return np.array([min(max(score, -LARGEST), LARGEST), 1.0])


def _truth(y: Any) -> bool:
    if not (isinstance(y, (Real, np.bool_)) and y in {0, 1}):
        raise ValueError(f"expected True or False, or 1 or 0, got {y!r}")
    return bool(y)


def _double(score: Any) -> float:
    if not isinstance(score, (Real, np.bool_)):
        raise TypeError(f"a score is a number, not {type(score).__name__}")
    return nearest_double(score, LARGEST)
