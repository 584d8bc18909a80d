"""Mean and variance of a normal variable, both unknown: a normal-inverse-gamma prior, and moments."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, Self, TypeVar

from streamnb.errors import SnapshotError, UnlearnError
from streamnb.model.attributes.expected import checked, counts, reading, real
from streamnb.model.attributes.ranges import is_missing
from streamnb.model.attributes.signatures import Array, State
from streamnb.model.attributes.values import LARGEST
from streamnb.model.numerics.rising_factorial import log_rising
from streamnb.model.posterior.conjugate import Conjugate, examples, positive
from streamnb.model.posterior.credible_intervals import inverse_gamma_interval, student_t_interval
from streamnb.model.stats.moments import FARTHEST, Moments, learn_value, merge_moments, unlearn_value

T = TypeVar("T")
_MOST = sys.float_info.max


class NormalInverseGammaParameters(NamedTuple):
    """Sigma^2 ~ InverseGamma(alpha, beta), and mu given sigma^2 ~ N(mean, sigma^2 / kappa)."""

    mean: float
    kappa: float
    alpha: float
    beta: float


class MeanAndVariance(NamedTuple, Generic[T]):
    """What is asked of both unknowns: of mu, and of sigma^2."""

    mean: T
    variance: T


class NormalInverseGamma(Conjugate):
    """The mean mu and variance sigma^2 of a normal variable, by the moments of what was observed.

        sigma^2 ~ InverseGamma(alpha, beta),   mu | sigma^2 ~ N(mean, sigma^2 / kappa)      before, and after:

        kappa' = kappa + n              mean' = (kappa mean + n xbar) / kappa'
        alpha' = alpha + n / 2          beta' = beta + M2 / 2 + kappa n (xbar - mean)^2 / (2 kappa')

    The next observation is of Student's t distribution with 2 alpha' degrees of freedom, at mean', of scale
    sqrt(beta' (kappa' + 1) / (alpha' kappa')).

    An observation is a finite number; a missing one is refused. Those beyond +-10^140 are observed as
    +-10^140 (see `moments`), and predicted as they are. What is left after `unlearn` has no spread where
    only rounding would be left of it, or where it weighs no more than a single observation and the spread is
    below 1/1024 of the values.

    Args:
        mean: of mu, between -10^140 and 10^140.
        kappa: imaginary observations that stand behind `mean`, above zero.
        alpha: half the imaginary observations that stand behind the variance, above zero.
        beta: half their sum of squares, above zero.

    Raises:
        ValueError: if one of them is out of range.

    Examples:
        >>> from streamnb import NormalInverseGamma
        >>> height = NormalInverseGamma(mean=0.0, kappa=1.0, alpha=2.0, beta=1.0)
        >>> for x in [2.0, -1.2, 2.2]:
        ...     height.update(x)
        >>> mean, kappa, alpha, beta = height.posterior
        >>> round(mean, 4), kappa, alpha, round(beta, 4)
        (0.75, 4.0, 3.5, 5.015)
        >>> round(height.predictive(1.0), 4)
        0.282
        >>> [round(bound, 3) for bound in height.interval(0.95).mean]
        [-0.665, 2.165]

    References:
        Gelman et al., Bayesian Data Analysis (2013), section 3.3; Murphy (2007), "Conjugate Bayesian analysis
        of the Gaussian distribution".
    """

    def __init__(self, mean: float = 0.0, kappa: float = 1.0, alpha: float = 1.0, beta: float = 1.0) -> None:
        if not -LARGEST <= mean <= LARGEST:
            raise ValueError(f"mean must lie between -1e140 and 1e140, not {mean!r}")
        self._prior = NormalInverseGammaParameters(
            float(mean), positive("kappa", kappa), positive("alpha", alpha), positive("beta", beta)
        )
        self._moments = Moments()
        self._moments.reserve(1, 1)

    @property
    def made_with(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return self._prior._asdict()

    @property
    def prior(self) -> NormalInverseGammaParameters:
        """Mean, kappa, alpha and beta, as they were given."""
        return self._prior

    @property
    def posterior(self) -> NormalInverseGammaParameters:
        """(mean', kappa', alpha', beta')."""
        mean, kappa, alpha, beta = self._prior
        n, xbar, _ = self.observed
        nearer = mean + (xbar - mean) * (n / (kappa + n))
        return NormalInverseGammaParameters(nearer, kappa + n, alpha + n / 2.0, beta + self._gained())

    @property
    def observed(self) -> tuple[float, float, float]:
        """Weight, mean and M2 (sum of squared deviations from the mean) of the observations."""
        n, mean, M2 = (array[0, 0].item() for array in self._moments)
        return examples(n), mean, M2

    @property
    def mean(self) -> MeanAndVariance[float]:
        """E[mu | D], nan where alpha' <= 1/2; and E[sigma^2 | D], inf where alpha' <= 1."""
        mean, _, alpha, beta = self.posterior
        return MeanAndVariance(
            mean if alpha > 0.5 else math.nan, beta / (alpha - 1.0) if alpha > 1.0 else math.inf
        )

    @property
    def mode(self) -> MeanAndVariance[float]:
        """The MAP values of mu and sigma^2 together: mean', and beta' / (alpha' + 3/2)."""
        mean, _, alpha, beta = self.posterior
        return MeanAndVariance(mean, beta / (alpha + 1.5))

    @property
    def variance(self) -> MeanAndVariance[float]:
        """Var[mu | D], inf where alpha' <= 1; and Var[sigma^2 | D], inf where alpha' <= 2."""
        _, kappa, alpha, beta = self.posterior
        of_variance = math.inf
        if alpha > 2.0:
            expected = beta / (alpha - 1.0)
            of_variance = expected * (expected / (alpha - 2.0))
        return MeanAndVariance(beta / (alpha - 1.0) / kappa if alpha > 1.0 else math.inf, of_variance)

    def interval(self, mass: float = 0.95) -> MeanAndVariance[tuple[float, float]]:
        """Bounds of mu, and of sigma^2: each between its own with probability `mass`, beyond each as likely.

        Raises:
            ValueError: if `mass` is not between 0 and 1, both excluded.
        """
        mean, kappa, alpha, beta = self.posterior
        lower, upper = student_t_interval(2.0 * alpha, mass)
        scale = math.sqrt(beta / alpha) / math.sqrt(kappa)
        return MeanAndVariance(
            (mean + scale * lower, mean + scale * upper), inverse_gamma_interval(alpha, beta, mass)
        )

    def log_predictive(self, x: float) -> float:
        """Log of the density of the next observation at `x`; raises ValueError where that is no number."""
        self._check(x)
        x = _double(x)
        mean, kappa, alpha, beta = self.posterior
        spread = 0.5 * (
            math.log(2.0) + math.log(beta) + math.log1p(1.0 / kappa)
        )  # ln of scale sqrt(2 alpha')
        # ln(1 + z^2) with z = |x - mean| / e^spread: z^2 alone may be beyond a double.
        distance = math.log(abs(x - mean)) - spread if x != mean else -math.inf
        beyond = math.log1p(math.exp(2.0 * distance)) if distance < 300.0 else 2.0 * distance
        return log_rising(alpha, 0.5) - 0.5 * math.log(math.pi) - spread - (alpha + 0.5) * beyond

    @property
    def log_evidence(self) -> float:
        """Log P(D), a density, in nats.

        ln Gamma(alpha') / Gamma(alpha) + alpha ln beta - alpha' ln beta'
            + ln(kappa / kappa') / 2 - n ln(2 pi) / 2
        """
        _, kappa, alpha, beta = self._prior
        n, gained = self.observed[0], self._gained()
        normal = 0.5 * (n * (math.log(2.0 * math.pi) + math.log(beta + gained)) + math.log1p(n / kappa))
        times = gained / beta  # of values beyond all that the prior expects, beyond a double
        more = math.log1p(times) if times < math.inf else math.log(gained) - math.log(beta)
        return log_rising(alpha, 0.5 * n) - alpha * more - normal

    def state(self) -> State:
        """Prior and moments, as JSON-able values and copied arrays."""
        n, mean, M2 = (array[0, :1].copy() for array in self._moments)
        return self._prior._asdict(), {"n": n, "mean": mean, "M2": M2}

    @classmethod
    def from_state(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """The posterior that `state` described. Raises SnapshotError."""
        with reading("a normal-inverse-gamma posterior", ValueError):
            posterior = cls(*(meta[name] for name in NormalInverseGammaParameters._fields))
        mean = real(1, low=-FARTHEST, high=FARTHEST)
        found = checked(arrays, {"n": counts(1), "mean": mean, "M2": real(1, low=0.0)})
        if not found["n"][0] and (found["mean"][0] or found["M2"][0]):
            raise SnapshotError("moments of nothing")
        for name, array in zip(("n", "mean", "M2"), posterior._moments, strict=True):
            array[0, 0] = found[name][0]
        return posterior

    def _gained(self) -> float:
        """By how much beta' is above beta."""
        mean, kappa, _, _ = self._prior
        n, xbar, M2 = self.observed
        return (M2 + kappa * (n / (kappa + n)) * (xbar - mean) ** 2) / 2.0

    def _check(self, x: Any) -> None:
        if isinstance(x, (str, bytes)) or is_missing(x):
            raise ValueError(f"an observation must be a finite number, not {x!r}")

    def _add(self, x: Any, weight: int) -> None:
        n, mean, M2 = self._moments
        learn_value(n, mean, M2, 0, 0, _within(x), weight)

    def _take(self, x: Any, weight: int) -> None:
        if weight > self._moments.n[0, 0]:
            raise UnlearnError(f"not even a weight of {examples(weight):g} was observed")
        n, mean, M2 = self._moments
        unlearn_value(n, mean, M2, 0, 0, _within(x), weight)

    def _merge(self, other: Self) -> None:
        merge_moments(*self._moments, *other._moments)

    def __repr__(self) -> str:
        return f"NormalInverseGamma(posterior={self.posterior})"


def _within(x: float) -> float:
    """A value whose square can be summed."""
    return min(max(_double(x), -LARGEST), LARGEST)


def _double(x: float) -> float:
    """An integer may be beyond every double; then the largest stands for it."""
    try:
        return float(x)
    except OverflowError:
        return _MOST if x > 0 else -_MOST
