"""P(h) of concepts before any example, and P(h | D) from the weights of disagreement.

    log P(h) P(D | h) = log P(h) + agreements log(1 - e) + disagreements log e + undecided log(1/2)

The posterior depends on differences between hypotheses. They are differences of integers, taken before any
rounding, so they are as exact after a million examples as after one.

No noise, e = 0, means the limit e -> 0: the hypotheses of least disagreement have all the weight. If some
hypothesis agrees with all labels, these are the version space. Otherwise P(D) = 0: the data refute the
assumption that a hypothesis and all labels are right, and the limit is the remaining answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from streamnb.kernels.array_types import Floats
from streamnb.statistics.logspace import LN2
from streamnb.toolbox.concepts.disagreements import Disagreements
from streamnb.toolbox.concepts.hypothesis_space import HypothesisSpace
from streamnb.values.example_weights import UNIT
from streamnb.values.type_aliases import Flags

ConceptPrior = Literal["uniform", "specific"] | Mapping[Any, float] | npt.ArrayLike


class LogPrior(NamedTuple):
    """A non-uniform prior over H hypotheses.

    Attributes:
        logs: float64[H], normalised; -inf for excluded hypotheses.
        possible: bool[H], False for excluded hypotheses.
    """

    logs: Floats
    possible: Flags


def log_prior(relative: npt.ArrayLike, size: int) -> LogPrior:
    """Return the prior of these relative weights, float64[size]. Raises ValueError if they are invalid."""
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
    """Return the prior as arrays, or None if it is uniform."""
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
            raise ValueError(
                f"the prior names {hypothesis!r}, which is not a hypothesis of the space"
            ) from None
    return log_prior(relative, space.size)


_BLOCK = 1 << 15
"""Hypotheses in one block, so that intermediate results stay in the processor's cache."""


_EXCLUDED = -1e280
"""Log odds of one disagreement in the limit of no noise: nothing outweighs it, and no sum overflows."""


class ConceptPosterior(NamedTuple):
    """The posterior over H hypotheses before normalisation.

    Attributes:
        weights: float64[H], with a maximum of 1.
        total: sum of the weights.
        best: number of the first most probable hypothesis.
        log_evidence: log P(D) in nats; -inf if D is impossible.
    """

    weights: Floats
    total: float
    best: int
    log_evidence: float


def check_noise(noise: float) -> None:
    """Raise ValueError unless noise is between 0 and 1/2."""
    if not 0.0 <= noise <= 0.5:
        raise ValueError(f"noise must be at least 0 and at most 1/2, got {noise!r}")


def concept_posterior(
    counts: Disagreements, noise: float, prior: LogPrior | None, scratch: Floats | None = None
) -> ConceptPosterior:
    """Return the posterior; `prior` None is uniform, and `scratch` is overwritten."""
    possible: Any = True if prior is None else prior.possible
    least = int(np.min(counts.margin, where=possible, initial=np.iinfo(np.int64).max))
    weights = np.empty(counts.margin.size) if scratch is None else scratch
    top, best = -math.inf, 0
    for part in _blocks(weights.size):
        logs = weights[part]
        _write_logs(counts, part, least, noise, logs)
        if prior is not None:
            logs += prior.logs[part]
        here = int(logs.argmax())
        if logs[here] > top:
            top, best = float(logs[here]), part.start + here
    for part in _blocks(weights.size):
        weights[part] -= top
        np.exp(weights[part], out=weights[part])
    total = float(weights.sum())
    log_evidence = top + math.log(total) - (math.log(weights.size) if prior is None else 0.0)
    log_evidence += _log_likelihood(counts.positives + least, counts.total, noise)
    return ConceptPosterior(weights, total, best, min(log_evidence, 0.0))


def _blocks(size: int) -> Iterator[slice]:
    return (slice(start, min(start + _BLOCK, size)) for start in range(0, size, _BLOCK))


def _write_logs(counts: Disagreements, part: slice, least: int, noise: float, logs: Floats) -> None:
    """Fill log P(D | h) of a block, relative to a decided hypothesis with the least margin."""
    each = (math.log(noise) - math.log1p(-noise)) / UNIT if noise > 0.0 else _EXCLUDED
    np.multiply(counts.margin[part] - least, each, out=logs)
    undecided = counts.undecided[part]
    if undecided.any():
        logs -= undecided * ((LN2 + math.log1p(-noise)) / UNIT)  # log of 1/2 relative to an agreement


def _log_likelihood(disagreements: int, total: int, noise: float) -> float:
    if noise == 0.0:
        return 0.0 if disagreements == 0 else -math.inf
    return (disagreements * math.log(noise) + (total - disagreements) * math.log1p(-noise)) / UNIT
