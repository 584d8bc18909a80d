"""Sections of a metrics report: hypotheses, and credible intervals of accuracy and class rates.

Accuracy and class rates are binomial proportions. With Jeffreys's prior Beta(1/2, 1/2), h successes in n give
the posterior Beta(h + 1/2, n - h + 1/2). The prior is symmetric, weighs as one event, and its equal-tailed
intervals have nominal coverage at all but the most extreme rates (Brown, Cai and DasGupta 2001). Each class
is tested against all remaining classes together, so its interval does not depend on their number.

An interval assumes one constant proportion. The accuracy of a learner rises while it learns: then the
interval covers the mean proportion over the events, and is slightly too wide, because p (1 - p) is concave.

References: Jeffreys (1961), Theory of Probability, section 3.1; Brown, Cai and DasGupta (2001), "Interval
estimation for a binomial proportion", Statistical Science 16(2).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from streamnb.engine.labels.label_report import label_report
from streamnb.events import (
    ClassRate,
    HypothesisScore,
    Interval,
    MetricsReport,
    ModelInfo,
    PosteriorReport,
    Scores,
)
from streamnb.models.interface.stream_model import StreamModel
from streamnb.statistics.credible_intervals import beta_intervals
from streamnb.statistics.sequential_posterior import SequentialPosterior

if TYPE_CHECKING:
    from streamnb.engine.processing.processor_state import ProcessorState

_JEFFREYS = 0.5
_MOST_CONFUSED = 100  # classes whose confusion is reported
_MANY = 1000  # events within which one should have a time


def with_interval(scores: Scores, mass: float) -> Scores:
    """Return scores with the interval of their accuracy; unchanged without events."""
    return with_intervals((scores,), (), mass)[0][0]


def with_intervals(
    scores: Sequence[Scores], weights: Collection[float], mass: float
) -> tuple[list[Scores], tuple[ClassRate, ...]]:
    """Return scores with the intervals of their accuracies, and the rate of each class.

    All intervals are computed together, which takes as long as one of them.

    Args:
        scores: unchanged without events.
        weights: learned weight of each class in examples; no rates if nothing was learned.
        mass: the probability of an interval.
    """
    learned = np.array([*weights], dtype=np.float64)
    total = float(learned.sum())
    known = learned.tolist() if total else []
    # exact: the relative error of the quotient is at most 1e-16
    pairs = [(round(each.accuracy * each.events), each.events) for each in scores if each.events]
    hits = (*(right for right, _ in pairs), *known)
    misses = (*(n - right for right, n in pairs), *(total - weight for weight in known))
    intervals = iter(_intervals(hits, misses, mass))
    told = [
        msgspec.structs.replace(each, accuracy_interval=Interval(*next(intervals))) if each.events else each
        for each in scores
    ]
    rates = zip(known, (learned / (total or 1.0)).tolist(), intervals, strict=bool(known))
    return told, tuple(ClassRate(weight, rate, *bounds) for weight, rate, bounds in rates)


@lru_cache(16)  # with late labels many consecutive reports are equal
def _intervals(
    hits: tuple[float, ...], misses: tuple[float, ...], mass: float
) -> tuple[tuple[float, float], ...]:
    """Return the lower and upper bound of each proportion."""
    lower, upper = beta_intervals(np.array(hits) + _JEFFREYS, np.array(misses) + _JEFFREYS, mass)
    return tuple(zip(lower.tolist(), upper.tolist(), strict=True))


def why_nothing_is_evicted(model: StreamModel) -> str:
    """Explain half-lives without effect: many events were learned, none with a time; else ""."""
    statistics = getattr(model, "statistics", None)
    if statistics is None or model.n_events < _MANY or not statistics.sources.decays:
        return ""
    is_timeless = np.isnan(statistics.decayed.tables.clock[0])
    return "half-lives have no effect: no learned event had a time at events.ts" if is_timeless else ""


def posterior_of(model: StreamModel) -> SequentialPosterior | None:
    """Return the posterior over a model's hypotheses; None for a single model."""
    return getattr(model, "posterior", None)


def posterior_report(model: StreamModel) -> PosteriorReport | None:
    """Return probability and loss of each hypothesis and of the mixture."""
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


def metrics_report(state: ProcessorState, now: float) -> MetricsReport:
    """Return the current report of a processor."""
    classes = state.model.classes
    labels = tuple(str(label) for label in classes) if len(classes) <= _MOST_CONFUSED else ()
    # Labels that were scored but never learned are not classes: they have a row of truth without a name.
    late, scores = state.late, state.progressive if state.late is None else state.late.scoring.scores
    confusion = state.progressive.confusion(len(labels))
    if late is not None:
        confusion = late.scoring.scores.confusion(late.scoring.columns_of(labels))
    mass = state.settings.interval
    weights = state.model.class_weights.values() if labels else ()
    (cumulative, window), rates = with_intervals((scores.cumulative(), scores.window()), weights, mass)
    return MetricsReport(
        events=state.consumed,
        learned=state.model.n_events,
        dead_letters=state.dead_letters,
        cumulative=cumulative,
        window=window,
        window_size=state.settings.window,
        classes=len(classes),
        labels=labels,
        confusion=tuple(tuple(row) for row in confusion.tolist()),
        attributes=state.model.n_attributes,
        model=ModelInfo(state.settings.name, state.model.n_events),
        ts=now,
        posterior=posterior_report(state.model),
        interval_mass=mass,
        class_rates=rates,
        verdicts=None if late is None else label_report(late, mass),
        served_by=state.settings.by,
        monitors=state.monitors.reports(),
        decisions=None if state.decisions is None else state.decisions.report(),
        actions=state.alarm_responses,
    )
