"""How probable each concept is before any example."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from streamnb.model.concepts.hypothesis_space import HypothesisSpace

__all__ = ["ConceptPrior", "Floats", "LogPrior", "log_prior", "prior_over"]

Floats = npt.NDArray[np.float64]
ConceptPrior = Literal["uniform", "specific"] | Mapping[Any, float] | npt.ArrayLike


class LogPrior(NamedTuple):
    """A prior over H hypotheses that is not uniform.

    Attributes:
        logs: float64[H], normalised; -inf of those that are excluded.
        possible: bool[H], which are not excluded.
    """

    logs: Floats
    possible: npt.NDArray[np.bool_]


def log_prior(relative: npt.ArrayLike, size: int) -> LogPrior:
    """The prior of these relative weights, float64[size].

    Raises:
        ValueError: if there are not `size` of them, one is negative or not finite, or all are zero.
    """
    prior = np.array(relative, dtype=np.float64)
    if prior.shape != (size,):
        raise ValueError(f"a prior of shape {prior.shape} for {size} hypotheses")
    if not ((prior >= 0.0) & (prior < np.inf)).all() or not prior.any():
        raise ValueError("prior weights must be finite, not negative and not all zero")
    most = prior.max()
    with np.errstate(divide="ignore"):  # log 0 = -inf; no division of tiny by huge weights before the log
        logs: Floats = np.log(prior) - np.log(most)
    return LogPrior(logs - math.log(np.exp(logs).sum()), prior > 0.0)


def prior_over(space: HypothesisSpace, prior: ConceptPrior) -> LogPrior | None:
    """The prior as arrays; None where it is uniform."""
    if isinstance(prior, str):
        if prior == "uniform":
            return None
        if prior == "specific":
            return log_prior(space.specificity(), space.size)
        raise ValueError(f"prior must be 'uniform', 'specific' or weights, not {prior!r}")
    if not isinstance(prior, Mapping):
        return log_prior(prior, space.size)
    relative = np.zeros(space.size, dtype=np.float64)
    for hypothesis, weight in prior.items():
        try:
            relative[space.number(hypothesis)] = weight
        except KeyError:
            raise ValueError(f"a prior of {hypothesis!r}, which is no hypothesis") from None
    return log_prior(relative, space.size)
