"""The posterior over a finite set of hypotheses, one observation at a time, with a bound on its log loss.

    P(h | D, d) = P(d | h) P(h | D) / P(d | D)        P(d | D) = sum over h of P(d | h) P(h | D)

P(d | D), the *evidence* of d, is the prediction of the mixture of all hypotheses before it saw d. With a
switching rate r > 0 the true hypothesis may change: after each observation it is drawn from the prior with
probability r, so

    P'(h) = (1 - r) P(h | D) + r P0(h)

**The bound.** The chain of predictions is the sum over all sequences of hypotheses h_1 .. h_T of

    P0(h_1) P(d_1 | h_1)  prod over t = 2 .. T of  A(h_t-1, h_t) P(d_t | h_t)
    A(g, h) = r P0(h) + (1 - r) [g = h]

and one term of a sum of non-negative terms is at most the sum. Take -ln of both sides. For every sequence
with S switches the mixture's total log loss is at most the loss of the sequence, plus

    ln 1/P0(h_1)  +  sum over the S switches of ln 1/(r P0(h_new))
                  +  sum over the T - 1 - S stays of ln 1/(1 - r + r P0(h))

and, since 1 - r + r P0(h) >= 1 - r, it is at most loss(h) + ln 1/P0(h) + T ln 1/(1 - r) for one hypothesis h
throughout. The bound needs no assumption about the source of the data. It ignores only rounding: about 1e-16
of the sum of the losses' magnitudes.

References: Mitchell, Machine Learning (1997), sections 6.2 to 6.8; Herbster and Warmuth (1998), "Tracking the
best expert", Machine Learning 32; Vovk (1990), "Aggregating strategies"; Neumaier (1974), ZAMM 54(1).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Self, overload

import numpy as np
import numpy.typing as npt

from streamnb.errors import SnapshotError
from streamnb.kernels.array_types import Floats
from streamnb.statistics.counter_rng import choose, uniforms
from streamnb.statistics.hypothesis_weights import (
    HypothesisWeights,
    observe_many,
    restored,
    start,
    weighted_mean,
)
from streamnb.values.savable import SavableValue
from streamnb.values.state_validation import checked_names, plain, state_errors
from streamnb.values.type_aliases import Array, State


class SequentialPosterior(SavableValue):
    """P(h | D) over a finite set of hypotheses, by Bayes' theorem for one observation after another.

        P(h | D, d) = P(d | h) P(h | D) / P(d | D);   with a switching rate r, then P' = (1 - r) P + r P0

    The total log loss of its predictions, -ln P(D), is at most the loss of any hypothesis h plus
    ln 1/P0(h) + T ln 1/(1 - r) after T observations (see `bound`, and `path_bound` for sequences of
    hypotheses). The module has the derivation.

    Degenerate cases:
        zero prior      excluded for good, at any switching rate, and ignored by `ml`, `regret` and `bound`.
        excluded        by a log likelihood of -inf: for good at rate 0; otherwise it returns with its share
                        r P0(h) of the prior, while its total loss stays infinite.
        all excluded    an observation that no remaining hypothesis can explain raises ValueError.
        ties            go to the first hypothesis.

    Args:
        prior: relative weight by hypothesis, or just the hypotheses, with equal weights. Their order is kept.
        switching_rate: r, 0 <= r < 1; probability that the hypothesis is redrawn after an observation.

    Raises:
        ValueError: if `prior` is empty, a hypothesis occurs twice, or a weight or the rate is out of range.

    Examples:
        A patient tests positive (Mitchell 1997, section 6.2):

        >>> from streamnb import SequentialPosterior
        >>> posterior = SequentialPosterior({"cancer": 0.008, "no cancer": 0.992})
        >>> log_evidence = posterior.update({"cancer": 0.98, "no cancer": 0.03})
        >>> {h: round(p, 2) for h, p in posterior.probabilities.items()}
        {'cancer': 0.21, 'no cancer': 0.79}
        >>> posterior.map(), posterior.ml()
        ('no cancer', 'cancer')
        >>> posterior.regret() <= posterior.bound()
        True

    References:
        Mitchell, Machine Learning (1997), sections 6.2 to 6.8; Herbster and Warmuth (1998).
    """

    def __init__(self, prior: Mapping[Any, float] | Iterable[Hashable], switching_rate: float = 0.0) -> None:
        hypotheses = list(prior)
        relative = [prior[h] for h in hypotheses] if isinstance(prior, Mapping) else [1.0] * len(hypotheses)
        if not 0.0 <= switching_rate < 1.0:
            raise ValueError(f"switching_rate must be at least 0 and below 1, got {switching_rate}")
        self._place = {h: i for i, h in enumerate(hypotheses)}
        if len(self._place) < len(hypotheses):
            raise ValueError(
                "a hypothesis occurs twice: a list names hypotheses of equal weight, and a mapping has "
                "the weight of each, {'h1': 0.1, 'h2': 0.9}"
            )
        self.weights = start(relative)
        """State of the posterior, not a copy."""
        self.switching_rate = float(switching_rate)
        """Probability r that the hypothesis is redrawn after an observation."""

    @property
    def made_with(self) -> dict[str, Any]:
        """Arguments that construct an equal object; the prior itself is in the state."""
        return {"prior": self.hypotheses, "switching_rate": self.switching_rate}

    @property
    def hypotheses(self) -> list[Any]:
        """Hypotheses, in the order of the prior."""
        return list(self._place)

    @property
    def observations(self) -> int:
        """T, number of observations."""
        return int(self.weights.observations[0])

    @property
    def log_probabilities(self) -> dict[Any, float]:
        """Log P(h | D) for the next observation by hypothesis, in nats; -inf if excluded."""
        return self._by_hypothesis(self.weights.log_posterior)

    @property
    def probabilities(self) -> dict[Any, float]:
        """P(h | D) for the next observation by hypothesis, which sum to 1."""
        return self._by_hypothesis(self._probabilities())

    @property
    def losses(self) -> dict[Any, float]:
        """Total log loss -ln P(D | h) by hypothesis, in nats; inf once it excluded an observation."""
        return self._by_hypothesis(self.weights.losses[:-1].sum(axis=1))

    @property
    def log_evidence(self) -> float:
        """Log P(D) in nats: minus the total log loss of the mixture."""
        return 0.0 - float(self.weights.losses[-1].sum())

    def log_odds(self, a: Hashable, b: Hashable) -> float:
        """Return log of P(a | D) / P(b | D). Raises KeyError; ValueError if both are excluded."""
        first, second = (float(self.weights.log_posterior[self._place[h]]) for h in (a, b))
        if first == second == -math.inf:
            raise ValueError(f"both {a!r} and {b!r} are excluded: their odds are 0 to 0")
        return first - second

    def odds(self, a: Hashable, b: Hashable) -> float:
        """Return P(a | D) / P(b | D), inf if b is excluded; errors as of `log_odds`."""
        with np.errstate(over="ignore"):
            return float(np.exp(self.log_odds(a, b)))

    def map(self) -> Any:
        """Return the most probable hypothesis, argmax of P(h | D); ties go to the first."""
        return self.hypotheses[int(self.weights.log_posterior.argmax())]

    def ml(self) -> Any:
        """Return the hypothesis of least total log loss, argmax of P(D | h); ties go to the first."""
        return self.hypotheses[self._best()]

    def regret(self) -> float:
        """Return the total log loss of the mixture minus the loss of `ml`, in nats; -inf if none survived."""
        own, best = self.weights.losses[-1], self.weights.losses[self._best()]
        return float((own[0] - best[0]) + (own[1] - best[1]))

    def bound(self) -> float:
        """Return the upper bound of `regret`: ln 1/P0(h) + T ln 1/(1 - r), with h = `ml`, for any data."""
        stayed = self.observations * math.log1p(-self.switching_rate)
        return float(-self.weights.log_prior[self._best()]) - stayed

    def path_bound(self, path: Sequence[Hashable]) -> float:
        """Return a bound on the mixture's loss minus the loss of a path of T hypotheses.

        The path has one hypothesis for each observation. The bound is ln 1/P0(h_1), plus ln 1/(r P0(h)) for
        each switch to h, plus ln 1/(1 - r + r P0(h)) for each stay with h.

        Raises:
            ValueError: if the length of `path` is not the number of observations.
        """
        if len(path) != self.observations:
            raise ValueError(f"{self.observations} observations, but a path of {len(path)} hypotheses")
        rate, log_prior = self.switching_rate, self.weights.log_prior
        log_rate = math.log(rate) if rate > 0.0 else -math.inf
        terms = []
        for t, h in enumerate(path):
            k = self._place[h]
            if t == 0:
                terms.append(log_prior[k])
            elif h != path[t - 1]:
                terms.append(log_rate + log_prior[k])
            else:
                terms.append(min(np.logaddexp(math.log1p(-rate), log_rate + log_prior[k]), 0.0))
        return 0.0 - math.fsum(terms)

    @overload
    def predict(self, predictions: Mapping[Any, Mapping[Any, float]]) -> dict[Any, float]: ...

    @overload
    def predict(self, predictions: npt.ArrayLike) -> Floats: ...

    def predict(self, predictions: Mapping[Any, Mapping[Any, float]] | npt.ArrayLike) -> Any:
        """Return the Bayesian prediction P(v | D) = sum over h of P(v | h) P(h | D).

        Args:
            predictions: {v: P(v | h)} by hypothesis, with 0 for an absent value; or an array of shape (H, K)
                in the hypotheses' order.

        Returns:
            {v: P(v | D)}, or an array of shape (K,). The best value is the Bayes optimal classification.

        Raises:
            ValueError: if shape or hypotheses differ, or an entry of a hypothesis that is not excluded is
                negative or not finite.
        """
        if not isinstance(predictions, Mapping):
            rows = np.asarray(predictions, dtype=np.float64)
            if rows.ndim != 2 or len(rows) != len(self._place):
                raise ValueError(f"expected shape ({len(self._place)}, K), got {rows.shape}")
            return weighted_mean(self._probabilities(), rows)
        ordered = self._in_order(predictions)
        values = list(dict.fromkeys(v for row in ordered for v in row))
        table = np.array([[row.get(v, 0.0) for v in values] for row in ordered], dtype=np.float64)
        means = weighted_mean(self._probabilities(), table.reshape(len(ordered), len(values)))
        return dict(zip(values, means.tolist(), strict=True))

    def draw(self, counter: int, seed: int = 0) -> Any:
        """Draw a hypothesis from P(h | D): the Gibbs algorithm, which predicts with this hypothesis alone.

        The same `counter` and `seed` give the same draw from the same posterior (see `counter_rng`). If the
        target was drawn from the prior, the expected error is at most twice the error of the Bayes optimal
        classification (Haussler, Kearns and Schapire 1994; Mitchell 1997, section 6.8).
        """
        return self.hypotheses[choose(self.weights.log_posterior, float(uniforms(seed, counter, 1)[0]))]

    def update(self, likelihoods: Mapping[Any, float] | npt.ArrayLike) -> float:
        """Observe d by P(d | h, D) of every hypothesis, or its density; return log P(d | D), in nats.

        Args:
            likelihoods: likelihood by hypothesis, or an array of shape (H,) in their order; 0 excludes a
                hypothesis. A likelihood too small for a double is 0: use `update_log` for long data.

        Raises:
            ValueError: if a likelihood is negative or not finite, otherwise as `update_log`; nothing changes.
        """
        row = _row(self._in_order(likelihoods))
        if (row < 0.0).any():
            raise ValueError(f"a likelihood is negative: {row.tolist()}; for log likelihoods call update_log")
        with np.errstate(divide="ignore"):
            return self.update_log(np.log(row))

    def update_log(self, log_likelihoods: Mapping[Any, float] | npt.ArrayLike) -> float:
        """Observe d by log P(d | h, D) of every hypothesis; return log P(d | D) before the update.

        Args:
            log_likelihoods: log likelihood (nats) by hypothesis, or an array of shape (H,) in their order;
                -inf excludes a hypothesis. Log densities may exceed 0.

        Raises:
            ValueError: if hypotheses or shape differ, a value is NaN or +inf, or every remaining hypothesis
                excludes d; nothing changes.
        """
        return float(self.update_log_many(_row(self._in_order(log_likelihoods))[None, :])[0])

    def update_log_many(self, log_likelihoods: npt.ArrayLike) -> Floats:
        """Observe n rows, shape (n, H), like `update_log`, or none of them; return the log evidences."""
        rows = np.require(log_likelihoods, np.float64, ("C", "A", "W"))
        if rows.ndim != 2 or rows.shape[1] != len(self._place):
            raise ValueError(f"expected shape (n, {len(self._place)}), got {rows.shape}")
        evidences = np.empty(len(rows), dtype=np.float64)
        after = HypothesisWeights(**{name: array.copy() for name, array in self.weights._asdict().items()})
        done = observe_many(after, rows, self.switching_rate, evidences)
        if done < len(rows):
            is_nan, excluded = math.isnan(evidences[done]), "every remaining hypothesis excludes it"
            reason = "a log likelihood is NaN or +inf" if is_nan else excluded
            raise ValueError(f"observation {self.observations + done}: {reason}")
        self.weights = after
        return evidences

    def state(self) -> State:
        """Return the state as JSON-able values and copied arrays; equal streams give equal bytes.

        Raises TypeError for hypotheses that are not strings, booleans or numbers.
        """
        arrays = {name: array.copy() for name, array in self.weights._asdict().items()}
        return {"hypotheses": [*map(plain, self._place)], "switching_rate": self.switching_rate}, arrays

    @classmethod
    def from_state(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Restore the object of a `state`, which continues without a difference. Raises SnapshotError."""
        weights = restored(arrays)
        hypotheses = checked_names(meta.get("hypotheses"))
        if len(hypotheses) != weights.log_prior.size:
            raise SnapshotError(f"{weights.log_prior.size} weights for the hypotheses {hypotheses!r}")
        with state_errors("a posterior of hypotheses", ValueError):
            posterior = cls(hypotheses, meta["switching_rate"])
        posterior.weights = weights
        return posterior

    def __eq__(self, other: object) -> bool:
        """Return True if hypotheses, their order, the rate and the weights are equal."""
        if not isinstance(other, SequentialPosterior):
            return NotImplemented
        return (
            self.hypotheses == other.hypotheses
            and self.switching_rate == other.switching_rate
            and all(map(np.array_equal, self.weights, other.weights))
        )

    __hash__ = None  # it changes

    def __repr__(self) -> str:
        shown = ", ".join(f"{h!r}: {p:.3g}" for h, p in self.probabilities.items())
        return f"SequentialPosterior({{{shown}}}, observations={self.observations})"

    def _probabilities(self) -> Floats:
        weights = np.exp(self.weights.log_posterior)
        return np.asarray(weights / math.fsum(weights))

    def _by_hypothesis(self, values: Floats) -> dict[Any, float]:
        return dict(zip(self._place, values.tolist(), strict=True))

    def _in_order(self, values: Any) -> Any:
        """Return the values of a mapping in the order of the hypotheses; other values as they are."""
        if not isinstance(values, Mapping):
            return values
        if values.keys() != self._place.keys():
            raise ValueError(f"expected the hypotheses {self.hypotheses}, got {list(values)}")
        return [values[h] for h in self._place]

    def _best(self) -> int:
        possible = np.flatnonzero(self.weights.log_prior > -np.inf)
        return int(possible[self.weights.losses[possible].sum(axis=1).argmin()])


def _row(values: npt.ArrayLike) -> Floats:
    """Return one number for each hypothesis, float64[H]."""
    try:
        row = np.array(values, dtype=np.float64)
    except OverflowError as error:
        raise ValueError("a likelihood exceeds the largest double") from error
    if row.ndim != 1:
        raise ValueError(f"expected one likelihood for each hypothesis, got shape {row.shape}")
    return row
