"""Default sets of hypotheses."""

from __future__ import annotations

from streamnb.models.mixture.hypotheses import Hypothesis
from streamnb.models.mixture.hypothesis_kinds import AnyHypothesis, ByteSoftmax, OneDependence, Pool, Softmax

_ALPHAS = (1.0, 0.1, 0.01)

NAIVE_HYPOTHESES: tuple[Hypothesis, ...] = tuple(
    Hypothesis(likelihood, alpha=alpha)
    for likelihood in ("multinomial", "presence", "bernoulli", "complement")
    for alpha in _ALPHAS
)
"""Twelve naive Bayes models that learn nothing but counts, so they can be unlearned."""

DEFAULT_HYPOTHESES: tuple[AnyHypothesis, ...] = (
    *(Hypothesis("presence", alpha=alpha) for alpha in _ALPHAS),
    Hypothesis("presence", alpha=1.0, density="binned", calibrated=True),
    *(Hypothesis("presence", alpha=alpha, calibrated=True) for alpha in _ALPHAS[1:]),
    Softmax(0.6, pairs=True),
    Softmax(0.25),
    ByteSoftmax(0.6),
    OneDependence(max_attributes=64),
    Pool(0.01),
    Pool(0.1),
    Pool(0.1, calibrated=True),
)
"""Naive Bayes (good from the first events), calibrated; softmax regressions; pairs of values; and pools."""
