"""Naive Bayes that is as sure as it is right, as a classifier of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamnb.model.attributes.attributes import Attribute
from streamnb.model.attributes.priors import Prior
from streamnb.model.mixture.bayes_optimal_nb import BayesOptimalNB
from streamnb.model.mixture.hypotheses import Density, Hypothesis, Likelihood

__all__ = ["CalibratedNB"]


class CalibratedNB(BayesOptimalNB):
    """Naive Bayes whose probabilities are raised to a power that is learned.

        P'(v | x) ~ P(v | x)^a

    Naive Bayes takes for independent what is not, and is too sure of itself the longer its events are; a,
    one number, is learned by Newton's method on the log loss, one event at a time (see `temperature`). It
    predicts what ``Hypothesis(calibrated=True)`` of a `BayesOptimalNB` predicts, bit for bit.

    What was learned by gradient depends on the order of events: `merge` and `unlearn_one` are refused.

    Args:
        attributes: name -> `Text`, `Nominal` or `Continuous`, or just "text", "nominal", "continuous".
        likelihood: how texts are read: "multinomial", "presence", "bernoulli" or "complement".
        alpha: added to every count, above zero.
        m: use the m-estimate (n_c + m p) / (n + m), above zero, in place of alpha.
        p: prior estimate of the m-estimate; None is uniform over the values declared or seen.
        prior: "learned" (frequency), "uniform", or label -> relative weight (a label left out has none).
        half_life: what was learned counts half after this time (seconds of event time); None never forgets.
        density: how continuous values are read: "gaussian", or "binned".

    Examples:
        The power is 1/2 at first, so that odds of 2 to 1 become the root of 2 to 1:

        >>> import math
        >>> from streamnb import CalibratedNB
        >>> model = CalibratedNB({"text": "text"})
        >>> model.learn_one({"text": "win cash"}, "spam")
        >>> model.learn_one({"text": "see you"}, "ham")
        >>> round(model.predict_proba_one({"text": "cash"})["spam"], 3)
        0.586
        >>> round(math.sqrt(2) / (math.sqrt(2) + 1), 3)
        0.586

    References:
        Platt (1999), Probabilistic outputs for support vector machines; Guo et al. (2017), On calibration of
        modern neural networks.
    """

    def __init__(
        self,
        attributes: Mapping[Any, Attribute | str] | None = None,
        likelihood: Likelihood = "presence",
        alpha: float = 1.0,
        m: float | None = None,
        p: float | None = None,
        prior: Prior = "learned",
        half_life: float | None = None,
        density: Density = "gaussian",
    ) -> None:
        smoothing = alpha if m is None else None
        hypothesis = Hypothesis(likelihood, smoothing, m, p, prior, half_life, density, calibrated=True)
        super().__init__(attributes, (hypothesis,), switching_rate=0.0)
        self.likelihood = likelihood
        self.alpha = alpha
        self.m = m
        self.p = p
        self.prior = prior
        self.half_life = half_life
        self.density = density
