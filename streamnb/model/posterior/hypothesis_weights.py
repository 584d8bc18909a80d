"""The weights of hypotheses as arrays, and the kernel that updates them, as `sequential` has derived it.

A kernel that makes the likelihoods itself calls `observe` for each of its events, and `SequentialPosterior`
calls it for everyone else, so that there is one update.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamnb.compiler.bundles import bundle
from streamnb.errors import SnapshotError
from streamnb.model.attributes.expected import FINITE, checked, counts, real
from streamnb.model.attributes.signatures import Array
from streamnb.model.compiled.arrays import Floats, Ints
from streamnb.model.compiled.jit import kernel
from streamnb.model.numerics.compensated import add

_MOST = 1e300  # a log likelihood above this is refused as +inf is: totals cannot overflow downwards


@bundle
class Weights(NamedTuple):
    """The state of a posterior over H hypotheses, as the kernel `observe` takes it.

    Attributes:
        log_prior: float64[H], normalised; -inf is excluded for ever.
        log_posterior: float64[H], normalised log P(h | D) for the next observation; -inf where excluded.
        losses: float64[H + 1, 2], total -ln P(d | h, earlier d) of each hypothesis, inf once it excluded an
            observation; in the last row that of the mixture. Sum, and Neumaier's compensation.
        observations: int64[1], how many were observed.
    """

    log_prior: Floats
    log_posterior: Floats
    losses: Floats
    observations: Ints


def start(prior: npt.ArrayLike) -> Weights:
    """The weights before any observation, of relative prior weights >= 0, shape (H,).

    A hypothesis of prior weight zero is excluded for ever, with a switching rate too: the share that comes
    back after each observation is a share of the prior.

    Raises:
        ValueError: if there is no hypothesis, a weight is negative or not finite, or all are zero.
    """
    try:
        relative = np.array(prior, dtype=np.float64)
    except OverflowError as error:
        raise ValueError(f"no double holds one of the prior weights {prior!r}") from error
    if relative.ndim != 1 or relative.size == 0:
        raise ValueError("a posterior needs at least one hypothesis")
    if not ((relative >= 0.0) & (relative < np.inf)).all() or not relative.any():
        raise ValueError(f"prior weights must be finite, not negative and not all zero, got {prior!r}")
    most = relative.max()
    with np.errstate(divide="ignore"):  # log 0 = -inf; no division of tiny by huge weights before the log
        log_prior = (np.log(relative) - np.log(most)) - math.log(math.fsum(relative / most))
    losses = np.zeros((relative.size + 1, 2), dtype=np.float64)
    return Weights(log_prior, log_prior.copy(), losses, np.zeros(1, dtype=np.int64))


@kernel
def _share(weights: Weights, switching_rate: float) -> None:
    """P(h) becomes (1 - r) P(h) + r P0(h), in log space, for 0 < r < 1."""
    log_stay, log_switch = math.log1p(-switching_rate), math.log(switching_rate)
    for h in range(weights.log_prior.size):
        stayed = log_stay + weights.log_posterior[h]
        came = log_switch + weights.log_prior[h]
        high, low = max(stayed, came), min(stayed, came)
        if high > -np.inf:
            weights.log_posterior[h] = min(high + math.log1p(math.exp(low - high)), 0.0)


@kernel
def observe(weights: Weights, log_likelihoods: Floats, switching_rate: float) -> float:
    """Update by log P(d | h, D), float64[H] (-inf excludes h); log P(d | D), the evidence before the update.

    0 <= switching_rate < 1. Changes nothing, and returns -inf, where every remaining hypothesis excludes d;
    changes nothing, and returns NaN, where a log likelihood is NaN or +inf (above 1e300).
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
def observe_many(weights: Weights, log_likelihoods: Floats, switching_rate: float, evidences: Floats) -> int:
    """Observe each row in order; how many there were before one that was refused."""
    for i in range(log_likelihoods.shape[0]):
        evidences[i] = observe(weights, log_likelihoods[i], switching_rate)
        if not evidences[i] > -np.inf:
            return i
    return len(log_likelihoods)


def restored(arrays: Mapping[str, Array]) -> Weights:
    """The weights whose arrays these are, by name. Raises SnapshotError where they do not fit together."""
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
    weights = Weights(**{name: array.copy() for name, array in found.items()})
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
    """Sum over h of weights[h] rows[h], shapes (H,) and (H, K), of weights that sum to 1.

    Rows of weight zero take no part, whatever they hold. Added in order, and kept within the range of the
    rows, which rounding may not leave.

    Raises:
        ValueError: if an entry of a row that takes part is negative, infinite or NaN.
    """
    weights, rows = weights[weights > 0.0], rows[weights > 0.0]
    if not ((rows >= 0.0) & (rows < np.inf)).all():
        raise ValueError("P(v | h) must be finite and not negative")
    mean = np.zeros(rows.shape[1], dtype=np.float64)
    for weight, row in zip(weights, rows, strict=True):
        mean += weight * row
    return np.clip(mean, rows.min(axis=0), rows.max(axis=0))
