"""Decisions of least expected cost.

Decision d costs C(d, v) if the truth is class v, and 1 if it is a class never seen, which has the probability
u. Its expected cost for an event x is

    R(d | x) = u + (1 - u) sum of C(d, v) P(v | x) over v.

Bayes' decision rule takes the d of the least R, and no rule costs less on average (Wald 1950; Berger 1985,
sec. 4.4). If right decisions cost 0 and wrong ones 1, that is the most probable class. If even the least R
exceeds the cost of not deciding, nothing is decided (Chow 1970).

A cost that is not configured is 0 or 1. So with the gain G = 1 - C

    sum of C(d, v) P(v) = 1 - [G(d, d) P(d) + sum of G(d, v) P(v) over those v != d whose cost is given],

which takes time for each class and each given cost, and not for each pair of classes.

If class frequencies differ from those in training, P is corrected by the new frequencies (Saerens, Latinne &
Decaestecker 2002), without retraining:

    P'(v | x) ~ P(v | x) new(v) / learned(v).

The new frequencies may be given, or estimated from the n newest labelled events, of which c_v were of class
v, plus K pseudo-events with the learned frequencies. So no class is excluded, and nothing is corrected before
any event is labelled:

    new(v) = (c_v + K learned(v)) / (n + K).

An event that is not more typical than `novelty` is rejected in any case; see `Typicality`.

References: Wald (1950), Statistical Decision Functions; Chow (1970), IEEE Transactions on Information Theory
16(1); Berger (1985), Statistical Decision Theory and Bayesian Analysis; Saerens, Latinne & Decaestecker
(2002), "Adjusting the outputs of a classifier to new a priori probabilities", Neural Computation 14(1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.scoring.typicality import NOTHING, Evidence
from streamnb.values.example_weights import UNIT, units
from streamnb.values.type_aliases import Flags

_UNKNOWN = float(np.finfo(np.float64).min)  # gain of an unknown class, below all others


class PosteriorBatch(Protocol):
    """Predictions of a model for n events, as in `interface.predictions.Posteriors`."""

    @property
    def classes(self) -> Sequence[Any]:
        """The K classes."""

    @property
    def probabilities(self) -> Floats:
        """P(v | x), shape (n, K)."""

    @property
    def known(self) -> Ints:
        """Number of classes known before each event, shape (n,)."""

    @property
    def quarantined(self) -> Flags | None:
        """Classes that may not be decided, shape (n, K); None if there are none."""

    @property
    def evidence(self) -> Floats | None:
        """Log likelihood per token, shape (n,), nan if undefined; None if the model does not compute it."""


class DecisionBatch(NamedTuple):
    """Decisions on n events.

    Attributes:
        labels: the class of each event, None if nothing is decided.
        costs: their expected costs.
        shares: typicality for the class of least cost; None if unused or unknown.
        evidence: float32[n], from which the shares follow, if used.
        novelty: the share up to which nothing is decided; 0 if unused.
        choices: column of the class of least cost, decided or not; K of an empty model. Shape (n,).
        least: its expected cost, infinite if no class can be decided. Shape (n,).
    """

    labels: list[Any]
    costs: list[float]
    shares: Sequence[float | None]
    evidence: Evidence
    novelty: float = 0.0
    choices: Ints | Sequence[int] = ()
    least: Floats | Sequence[float] = ()

    def fields(self) -> Iterator[dict[str, Any]]:
        """Yield the fields of each prediction."""
        for label, cost, share in zip(self.labels, self.costs, self.shares, strict=True):
            fields = {"decision": label, "expected_cost": cost}
            if self.novelty and label is None:
                fields["rejected"] = "cost" if share is None else "novel"
            yield fields if share is None else {**fields, "novelty": share}


class DecisionRule(msgspec.Struct, frozen=True):
    """A decision rule.

    Attributes:
        costs: decision -> truth -> cost, >= 0; by default 1, or 0 if decision and truth are equal.
        reject: the cost of not deciding, >= 0; None: always decide if possible.
        priors: future class frequencies: "learned" (as in training), "uniform", "windowed" (as among the
            newest labelled events), or class -> weight, 0 by default.
        window: number of events in that window.
        novelty: largest typicality, among the labelled events of its class, at which an event is rejected.
    """

    costs: Mapping[str, Mapping[str, float]] = msgspec.field(default_factory=dict)
    reject: float | None = None
    priors: str | Mapping[str, float] = "learned"
    window: int = 1000
    novelty: float = 0.0

    @property
    def window_size(self) -> int:
        """Number of labelled events that are counted."""
        return self.window if self.priors == "windowed" else 0

    @property
    def is_weighing(self) -> bool:
        """True if the rule uses the weights of classes."""
        return self.priors != "learned"

    def cost(self, decision: Any, truth: Any) -> float:
        """Return C(d, v). For no decision d is None: the cost is `reject`, or 1 by default."""
        if decision is None:
            return 1.0 if self.reject is None else self.reject
        return self.costs.get(decision, {}).get(truth, float(decision != truth))

    def decide(
        self,
        said: PosteriorBatch,
        unseen: Floats,
        weights: Floats | None = None,
        newest: Floats | None = None,
    ) -> DecisionBatch:
        """Return the decisions on n events. Of equal costs, the most probable and then the first class wins.

        How events are cut into calls changes nothing, bit for bit. Nothing is decided by an empty model, or
        if no class has any probability under the new priors.

        Args:
            said: the model's predictions.
            unseen: shape (n,), u.
            weights: as of `weights_before`, for a rule that `is_weighing`.
            newest: number of the newest labelled events of each class, shape (n, K), for windowed priors.
        """
        classes, P = said.classes, said.probabilities
        n, K = P.shape
        none = self.cost(None, None)
        if not K:
            return DecisionBatch([None] * n, [none] * n, [None] * n, NOTHING, 0.0, [0] * n, [np.inf] * n)
        if weights is not None:
            P = self._corrected(P, classes, weights, newest)
        gains = P * np.array([1.0 - self.cost(label, label) for label in classes])
        for d, v, cost in self._given(classes):
            gains[:, d] += P[:, v] * (1.0 - cost)
        gains[np.arange(K) >= said.known[:, np.newaxis]] = _UNKNOWN
        if said.quarantined is not None:
            gains[said.quarantined] = _UNKNOWN
        gain = gains.max(axis=1, keepdims=True)
        best = np.where(gains == gain, P, -1.0).argmax(axis=1)
        least = unseen + (1.0 - unseen) * np.maximum(0.0, 1.0 - gain[:, 0])
        can_decide = P.max(axis=1) > 0.0
        choices = np.where(can_decide, best, K)
        is_decided = can_decide.copy()
        if self.reject is not None:
            is_decided &= least <= self.reject
        named = [*classes, None]
        labels = [named[k] for k in np.where(is_decided, best, K).tolist()]
        costs, least = np.where(is_decided, least, none).tolist(), np.where(can_decide, least, np.inf)
        return DecisionBatch(labels, costs, [None] * n, NOTHING, 0.0, choices, least)

    def _given(self, classes: Sequence[Any]) -> Iterator[tuple[int, int, float]]:
        column = {label: k for k, label in enumerate(classes)}
        for decision, row in sorted(self.costs.items()):
            for truth, cost in sorted(row.items()):
                if decision != truth and decision in column and truth in column:
                    yield column[decision], column[truth], cost

    def _corrected(self, P: Floats, classes: Sequence[Any], weights: Floats, newest: Floats | None) -> Floats:
        """Return P'; a row without any probability stays zero. Its sum does not depend on later columns."""
        new = np.ones(len(classes))
        if isinstance(self.priors, Mapping):
            most = max(self.priors.values())  # so that nothing is beyond the range of a double
            new = np.array([self.priors.get(label, 0.0) / most for label in classes])
        if newest is not None:
            known = np.count_nonzero(weights > 0.0, axis=1, keepdims=True)
            new = newest + weights * (known / np.maximum(weights.sum(axis=1, keepdims=True), 1.0 / UNIT))
        odds = np.divide(P * new, weights, out=np.zeros_like(P), where=weights > 0.0)
        total = np.cumsum(odds, axis=1)[:, -1:]
        found: Floats = np.divide(odds, total, out=np.zeros_like(P), where=total > 0.0)
        return found


def weights_before(
    classes: Sequence[Any],
    learned: Mapping[Any, float],
    labels: Sequence[Any] = (),
    weights: Sequence[float] = (),
) -> Floats:
    """Return the learned weight of each class before each of n events. Shape (n, K).

    Args:
        classes: the K classes after all of them.
        learned: class -> weight before the first, in examples.
        labels: of the events, None for an unlearned event; without labels there is one row.
        weights: the weight of each event.
    """
    column = {label: k for k, label in enumerate(classes)}
    taught = np.zeros((max(1, len(labels)), len(classes)))
    taught[0] = [learned.get(label, 0.0) for label in classes]
    for i, (label, weight) in enumerate(zip(labels[:-1], weights, strict=False), 1):
        if label in column:
            taught[i, column[label]] += units(weight) / UNIT
    return np.cumsum(taught, axis=0)  # exact: of multiples of 1/1024
