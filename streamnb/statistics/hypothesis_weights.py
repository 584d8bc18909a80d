"""Weights of hypotheses as arrays, and the kernel that updates them; see `sequential` for the derivation.

A kernel that computes the likelihoods itself calls `observe` for each event. `SequentialPosterior` calls it
for all other callers, so there is only one update.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamnb.errors import SnapshotError
from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.jit import kernel
from streamnb.kernels.structs import struct_type
from streamnb.statistics.compensated import add
from streamnb.values.state_validation import FINITE, checked, counts, real
from streamnb.values.type_aliases import Array

_MOST = 1e300  # log likelihoods above this are refused like +inf, so that totals cannot overflow


@struct_type
class HypothesisWeights(NamedTuple):
    """State of a posterior over H hypotheses, as input of the kernel `observe`.

    Attributes:
        log_prior: float64[H], normalised; -inf means excluded for good.
        log_posterior: float64[H], normalised log P(h | D) for the next observation; -inf if excluded.
        losses: float64[H + 1, 2], total -ln P(d | h, earlier d) of each hypothesis, inf once it excluded an
            observation; the last row belongs to the mixture. Sum, and Neumaier's compensation.
        observations: int64[1], number of observations.
    """

    log_prior: Floats
    log_posterior: Floats
    losses: Floats
    observations: Ints


def start(prior: npt.ArrayLike) -> HypothesisWeights:
    """Return the weights before any observation, from relative prior weights >= 0 of shape (H,).

    A hypothesis of prior weight 0 is excluded for good, even with a switching rate, because the share that
    returns after each observation is a share of the prior.

    Raises:
        ValueError: if `prior` is empty, a weight is negative or not finite, or all are zero.
    """
    try:
        relative = np.array(prior, dtype=np.float64)
    except OverflowError as error:
        raise ValueError(f"a prior weight exceeds the largest double: {prior!r}") from error
    if relative.ndim != 1 or relative.size == 0:
        raise ValueError("a posterior needs at least one hypothesis")
    if not ((relative >= 0.0) & (relative < np.inf)).all() or not relative.any():
        raise ValueError(f"prior weights must be finite, not negative and not all zero, got {prior!r}")
    most = relative.max()
    with np.errstate(divide="ignore"):  # log 0 = -inf; no division of tiny by huge weights before the log
        log_prior = (np.log(relative) - np.log(most)) - math.log(math.fsum(relative / most))
    losses = np.zeros((relative.size + 1, 2), dtype=np.float64)
    return HypothesisWeights(log_prior, log_prior.copy(), losses, np.zeros(1, dtype=np.int64))


@kernel
def _share(weights: HypothesisWeights, switching_rate: float) -> None:
    """Replace P(h) by (1 - r) P(h) + r P0(h), in log space, for 0 < r < 1."""
    log_stay, log_switch = math.log1p(-switching_rate), math.log(switching_rate)
    for h in range(weights.log_prior.size):
        stayed = log_stay + weights.log_posterior[h]
        came = log_switch + weights.log_prior[h]
        high, low = max(stayed, came), min(stayed, came)
        if high > -np.inf:
            weights.log_posterior[h] = min(high + math.log1p(math.exp(low - high)), 0.0)


@kernel
def observe(weights: HypothesisWeights, log_likelihoods: Floats, switching_rate: float) -> float:
    """Update by log P(d | h, D), float64[H] (-inf excludes h); return log P(d | D) before the update.

    0 <= switching_rate < 1. Changes nothing and returns -inf if every remaining hypothesis excludes d.
    Changes nothing and returns NaN if a log likelihood is NaN or above 1e300.
    """
    H = weights.log_prior.size
    top = -np.inf
    for h in range(H):
        if not log_likelihoods[h] <= _MOST:
            return np.nan
        top = max(top, weights.log_posterior[h] + log_likelihoods[h])
    if top == -np.inf:
        return top
    total = 0.0
    for h in range(H):
        total += math.exp(weights.log_posterior[h] + log_likelihoods[h] - top)
    log_total = math.log(total)  # >= 0: one of the terms is exp(0)
    for h in range(H):
        joint = weights.log_posterior[h] + log_likelihoods[h]
        weights.log_posterior[h] = (joint - top) - log_total
        add(weights.losses, h, -log_likelihoods[h])
    add(weights.losses, H, -(top + log_total))
    weights.observations[0] += 1
    if switching_rate > 0.0:
        _share(weights, switching_rate)
    return top + log_total


@kernel
def observe_many(
    weights: HypothesisWeights, log_likelihoods: Floats, switching_rate: float, evidences: Floats
) -> int:
    """Observe each row in order; return the number of rows before the first one that was refused."""
    for i in range(log_likelihoods.shape[0]):
        evidences[i] = observe(weights, log_likelihoods[i], switching_rate)
        if not evidences[i] > -np.inf:
            return i
    return len(log_likelihoods)


def restored(arrays: Mapping[str, Array]) -> HypothesisWeights:
    """Restore the weights from arrays. Raises SnapshotError if they are inconsistent."""
    H = np.size(arrays.get("log_prior", ()))
    found = checked(
        arrays,
        {
            "log_prior": real("hypotheses", low=-np.inf, high=0.0),
            "log_posterior": real("hypotheses", low=-np.inf, high=0.0),
            "losses": real(H + 1, 2, low=-FINITE, high=np.array([np.inf, FINITE])),
            "observations": counts(1),
        },
    )
    weights = HypothesisWeights(**{name: array.copy() for name, array in found.items()})
    if H == 0:
        raise SnapshotError("a posterior of no hypotheses")
    for name in ("log_prior", "log_posterior"):
        logs = getattr(weights, name)
        if not abs(math.fsum(np.exp(logs)) - 1.0) <= 1e-9:
            raise SnapshotError(f"{name} holds no probabilities: {logs}")
    if (weights.log_posterior > -np.inf)[weights.log_prior == -np.inf].any():
        raise SnapshotError("log_posterior gives weight to a hypothesis without prior")
    return weights


def weighted_mean(weights: Floats, rows: Floats) -> Floats:
    """Return the sum over h of weights[h] rows[h], shapes (H,) and (H, K), with weights that sum to 1.

    Rows of weight zero are ignored, whatever they hold. The sum is taken in order, and clipped to the range
    of the rows against rounding.

    Raises:
        ValueError: if an entry of a row with weight is negative, infinite or NaN.
    """
    weights, rows = weights[weights > 0.0], rows[weights > 0.0]
    if not ((rows >= 0.0) & (rows < np.inf)).all():
        raise ValueError("P(v | h) must be finite and not negative")
    mean = np.zeros(rows.shape[1], dtype=np.float64)
    for weight, row in zip(weights, rows, strict=True):
        mean += weight * row
    return np.clip(mean, rows.min(axis=0), rows.max(axis=0))
