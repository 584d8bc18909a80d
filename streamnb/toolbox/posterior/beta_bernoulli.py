"""The Beta-Bernoulli posterior: the chance of a coin, from heads and tails."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from streamnb.errors import UnlearnError
from streamnb.statistics.credible_intervals import beta_intervals
from streamnb.statistics.rising_factorial import log_rising_ratio
from streamnb.toolbox.posterior.conjugate import (
    Conjugate,
    checked_counts,
    examples,
    log_coefficient,
    positive,
    whole_counts,
)
from streamnb.values.state_validation import state_errors
from streamnb.values.type_aliases import Array, State


class Beta(NamedTuple):
    """Parameters of a Beta distribution with density proportional to t^(alpha - 1) (1 - t)^(beta - 1)."""

    alpha: float
    beta: float


class BetaBernoulli(Conjugate):
    """Posterior of the chance theta of an event, from the numbers of successes and failures.

        P(theta | D) = Beta(alpha + successes, beta + failures)

    `alpha` and `beta` are imaginary counts of earlier observations. 1 and 1 is the uniform prior, 1/2 and 1/2
    is Jeffreys's prior.

    An observation is True or 1, or False or 0. Any other value, including a missing one, raises ValueError.

    Args:
        alpha: imaginary successes, greater than 0.
        beta: imaginary failures, greater than 0.

    Raises:
        ValueError: if a parameter is out of range, or the sum exceeds the largest double.

    Examples:
        A coin thought to be fair, as if 10 heads and 10 tails had been seen, falls heads 7 times in 10:

        >>> from streamnb import BetaBernoulli
        >>> coin = BetaBernoulli(10, 10)
        >>> for heads in [1, 1, 0, 1, 1, 1, 0, 1, 1, 0]:
        ...     coin.update(heads)
        >>> coin.posterior
        Beta(alpha=17.0, beta=13.0)
        >>> round(coin.mean, 4), round(coin.mode, 4)
        (0.5667, 0.5714)
        >>> lower, upper = coin.interval(0.95)
        >>> round(lower, 3), round(upper, 3)
        (0.389, 0.736)

    References:
        Gelman et al., Bayesian Data Analysis (2013), section 2.4; Brown, Cai and DasGupta (2001), "Interval
        estimation for a binomial proportion", Statistical Science 16(2).
    """

    def __init__(self, alpha: float = 1.0, beta: float = 1.0) -> None:
        self._prior = Beta(positive("alpha", alpha), positive("beta", beta))
        positive("alpha + beta", alpha + beta)
        self.made_with = self._prior._asdict()
        self._successes = 0
        self._failures = 0

    @property
    def prior(self) -> Beta:
        """Alpha and beta of the prior."""
        return self._prior

    @property
    def posterior(self) -> Beta:
        """Parameters (alpha + successes, beta + failures) of the posterior."""
        return Beta(self._prior.alpha + self.successes, self._prior.beta + self.failures)

    @property
    def successes(self) -> float:
        """Weight of the observations that were true."""
        return examples(self._successes)

    @property
    def failures(self) -> float:
        """Weight of the observations that were false."""
        return examples(self._failures)

    @property
    def mean(self) -> float:
        """E[theta | D], which is also P(next observation is true | D)."""
        a, b = self.posterior
        return a / (a + b)

    @property
    def mode(self) -> float | None:
        """MAP value of theta; None if the maximum is not unique."""
        a, b = self.posterior
        if min(a, b) > 1.0:
            return (a - 1.0) / ((a - 1.0) + (b - 1.0))
        if (a, b) == (1.0, 1.0) or max(a, b) < 1.0:
            return None
        return 1.0 if a > b else 0.0

    @property
    def variance(self) -> float:
        """Var[theta | D]."""
        a, b = self.posterior
        return (a / (a + b)) * (b / (a + b)) / (a + b + 1.0)

    def interval(self, mass: float = 0.95) -> tuple[float, float]:
        """Return the equal-tailed interval of theta with probability `mass`. Raises ValueError."""
        lower, upper = beta_intervals(*self.posterior, mass)
        return float(lower), float(upper)

    def log_predictive(self, x: Any) -> float:
        """Return log P(next is `x` | D) in nats. Raises ValueError unless `x` is true or false."""
        self._check(x)
        a, b = self.posterior
        return math.log(a if x else b) - math.log(a + b)

    def log_predictive_counts(self, successes: float, failures: float) -> float:
        """Return log P(the next observations hold these counts, in any order | D), in nats.

            C(h + t, h) B(a + h, b + t) / B(a, b)        with a, b = the posterior, h true and t false

        This is the beta-binomial distribution. As a + b grows, it becomes the binomial C(h + t, h) p^h (1 -
        p)^t with p = a / (a + b): a known chance is a prior of many imaginary observations.

        Raises ValueError for numbers that are negative or not whole.

        Examples:
            >>> from streamnb import BetaBernoulli
            >>> import math
            >>> round(math.exp(BetaBernoulli(1, 1).log_predictive_counts(3, 1)), 6)  # as 0 of 4
            0.2
        """
        h, t = whole_counts((successes, failures))
        a, b = self.posterior
        return log_coefficient((h, t)) + log_rising_ratio(a, b, h) + log_rising_ratio(b, a + h, t)

    @property
    def log_evidence(self) -> float:
        """Log P(D) = log B(alpha + successes, beta + failures) - log B(alpha, beta), in nats.

        This is the probability of the sequence, without the number of sequences that have the same counts;
        see `log_predictive_counts`.
        """
        (a, b), h, t = self._prior, self.successes, self.failures
        return log_rising_ratio(a, b, h) + log_rising_ratio(b, a + h, t)

    def state(self) -> State:
        """Return prior and counts, as JSON-able values and arrays."""
        return self._prior._asdict(), {"counts": np.array([self._successes, self._failures], dtype=np.int64)}

    @classmethod
    def from_state(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Restore the posterior of a `state`. Raises SnapshotError."""
        counts = checked_counts(arrays, 2)
        with state_errors("a Beta posterior", ValueError):
            posterior = cls(meta["alpha"], meta["beta"])
        posterior._successes, posterior._failures = counts
        return posterior

    def _check(self, x: Any) -> None:
        if x not in (0, 1):
            raise ValueError(f"an observation must be true or false, 1 or 0, not {x!r}")

    def _add(self, x: Any, weight: int) -> None:
        if x:
            self._successes += weight
        else:
            self._failures += weight

    def _take(self, x: Any, weight: int) -> None:
        if weight > (self._successes if x else self._failures):
            raise UnlearnError(f"{bool(x)} was not observed with a weight of {examples(weight):g}")
        self._add(x, -weight)

    def _merge(self, other: Self) -> None:
        self._successes += other._successes
        self._failures += other._failures

    def __repr__(self) -> str:
        return f"BetaBernoulli(posterior={self.posterior})"
