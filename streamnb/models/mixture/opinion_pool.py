"""A log-opinion pool: a weighted product of many classifiers, with learned weights.

    P(v | x) ~ exp(b_v + sum_i w_i ln P_i(v | x))

The weights, which may be negative, are a Bayesian linear model: a Gaussian around 1 / I that each event
narrows by the curvature of its log loss, and moves by a Newton step (an extended Kalman filter; Genest and
Zidek 1986 for pooling, Hinton 2002 for products of experts). Each event also widens the covariance slightly,
up to the initial variance, so that the pool follows a stream that changes.
"""

from __future__ import annotations

import math

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.jit import kernel

FLOOR = -8.0  # minimum of ln P of an opinion
_WIDEN = 1e-3
_NEGLIGIBLE = 1e-4
_BIAS_RATE, _BIAS_DAMPING = 0.02, 1e-4


@kernel
def score_pool(opinions: Floats, weights: Floats, bias: Floats, known: Ints, scores: Floats) -> None:
    """Fill scores (K,) from opinions ln P_i(v), (I, K), and the first I weights; -inf for unknown classes."""
    for k in range(scores.size):
        if known[k] > 0:
            total = bias[0, k]
            for i in range(opinions.shape[0]):
                total += weights[i] * max(opinions[i, k], FLOOR)
            scores[k] = total
        else:
            scores[k] = -np.inf


@kernel
def learn_pool(
    opinions: Floats,
    probabilities: Floats,
    label: int,
    weight: float,
    variance: float,
    weights: Floats,
    covariance: Floats,
    bias: Floats,
    work: Floats,
) -> None:
    """Update the weights by one event with pool probabilities (K,); `work` float64[4, I] is scratch.

    Fisher information of the weights: sum_v P(v) (u_v - u)(u_v - u)', with u_v the opinions on v and u their
    mean under P; it is added to the inverse of the covariance class by class (Sherman and Morrison 1950).
    """
    n, K = opinions.shape
    mean, gradient, away, turned = work[0], work[1], work[2], work[3]
    for i in range(n):
        mean[i] = 0.0
        for k in range(K):
            mean[i] += probabilities[k] * max(opinions[i, k], FLOOR)
        gradient[i] = mean[i] - max(opinions[i, label], FLOOR)
    for k in range(K):
        if probabilities[k] < _NEGLIGIBLE:
            continue
        for i in range(n):
            away[i] = max(opinions[i, k], FLOOR) - mean[i]
        scale = 1.0
        for i in range(n):
            turned[i] = 0.0
            for j in range(n):
                turned[i] += covariance[i, j] * away[j]
        for i in range(n):
            scale += weight * probabilities[k] * away[i] * turned[i]
        for i in range(n):
            for j in range(i + 1):
                covariance[i, j] -= weight * probabilities[k] * turned[i] * turned[j] / scale
                covariance[j, i] = covariance[i, j]
    for i in range(n):
        step = 0.0
        for j in range(n):
            step += covariance[i, j] * gradient[j]
        weights[i] -= weight * step
    trace = 0.0
    for i in range(n):
        trace += covariance[i, i]
    if trace * (1.0 + _WIDEN) < n * variance:
        for i in range(n):
            for j in range(n):
                covariance[i, j] *= 1.0 + _WIDEN
    for k in range(K):
        g = weight * (probabilities[k] - (1.0 if k == label else 0.0))
        bias[1, k] += g * g
        bias[0, k] -= _BIAS_RATE * g / math.sqrt(bias[1, k] + _BIAS_DAMPING)
