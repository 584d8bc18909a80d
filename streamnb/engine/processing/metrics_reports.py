"""What a metrics report says of hypotheses, and how sure it can be of accuracy and class rates.

Accuracy and rates are chances of something that happens or not: a prediction is right, an event is of the
class. Their intervals are credible ones. The prior
of such a chance is Jeffreys's, Beta(1/2, 1/2), so that after h of n it is Beta(h + 1/2, n - h + 1/2). It
takes no side, weighs as one event, and its equal-tailed intervals hold what they promise at all rates but the
most extreme (Brown, Cai and DasGupta 2001). Each class stands against all others together: the interval of
its rate does not depend on how many others there are, nor change when another one is met.

An interval says where the chance lies that made these events, as if it had been the same for all of them. The
accuracy of a learner grows as it learns: then the interval is one of the mean chance over the events, and a
little wider than it need be, for p (1 - p) is concave.

References: Jeffreys (1961), Theory of Probability, section 3.1; Brown, Cai and DasGupta (2001), "Interval
estimation for a binomial proportion", Statistical Science 16(2).
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

import msgspec
import numpy as np

from streamnb.events import ClassRate, HypothesisScore, Interval, PosteriorReport, Scores
from streamnb.models.interface.stream_model import StreamModel
from streamnb.statistics.credible_intervals import beta_intervals
from streamnb.statistics.sequential_posterior import SequentialPosterior

_JEFFREYS = 0.5
_MANY = 1000  # events, after which one with a time would have come


def with_interval(scores: Scores, mass: float) -> Scores:
    """The scores with the interval of their accuracy; as they are where no event was scored."""
    n = scores.events
    if not n:
        return scores
    right = round(scores.accuracy * n)  # as exact as a count: the quotient is off by 1e-16 of itself at most
    return msgspec.structs.replace(scores, accuracy_interval=_interval(right, n, mass))


@lru_cache(16)  # where labels come late, many reports in a row have no new ones
def _interval(right: int, n: int, mass: float) -> Interval:
    lower, upper = beta_intervals(right + _JEFFREYS, n - right + _JEFFREYS, mass)
    return Interval(float(lower), float(upper))


def class_rates(weights: Collection[float], mass: float) -> tuple[ClassRate, ...]:
    """The rate of each class, by the weight learned of each, in examples; none where nothing was learned."""
    return _rates(tuple(weights), mass)


@lru_cache(16)
def _rates(weights: tuple[float, ...], mass: float) -> tuple[ClassRate, ...]:
    learned = np.array(weights, dtype=np.float64)
    total = float(learned.sum())
    if not total:
        return ()
    lower, upper = beta_intervals(learned + _JEFFREYS, total - learned + _JEFFREYS, mass)
    columns = (learned, learned / total, lower, upper)
    return tuple(ClassRate(*row) for row in zip(*(column.tolist() for column in columns), strict=True))


def why_nothing_is_evicted(model: StreamModel) -> str:
    """Of a model with half-lives that has learned many events, and none with a time; else empty."""
    statistics = getattr(model, "statistics", None)
    if statistics is None or model.n_events < _MANY or not statistics.sources.decays:
        return ""
    is_timeless = np.isnan(statistics.decayed.tables.clock[0])
    return (
        "half-lives have no effect: no event that was learned had a time at events.ts" if is_timeless else ""
    )


def posterior_of(model: StreamModel) -> SequentialPosterior | None:
    """The posterior over its hypotheses; None where the model is a single one."""
    return getattr(model, "posterior", None)


def posterior_report(model: StreamModel) -> PosteriorReport | None:
    """How probable each hypothesis is, what each has lost, and what the mixture of all has."""
    posterior = posterior_of(model)
    if posterior is None:
        return None
    priors = np.exp(posterior.weights.log_prior).tolist()
    probabilities, losses = posterior.probabilities, posterior.losses
    return PosteriorReport(
        hypotheses=tuple(
            HypothesisScore(name, prior, probabilities[name], losses[name])
            for name, prior in zip(posterior.hypotheses, priors, strict=True)
        ),
        best=posterior.ml(),
        loss=0.0 - posterior.log_evidence,
        regret=posterior.regret(),
        bound=posterior.bound(),
        observations=posterior.observations,
        switching_rate=posterior.switching_rate,
    )
