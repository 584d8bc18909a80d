"""What a metrics report says of the hypotheses that a model weighs."""

from __future__ import annotations

import numpy as np

from streamnb.events import HypothesisScore, PosteriorReport
from streamnb.model.interface.stream_model import StreamModel
from streamnb.model.posterior.sequential import SequentialPosterior

__all__ = ["posterior_of", "posterior_report"]


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
