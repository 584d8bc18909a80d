"""Calibration by temperature: a classifier that is too sure of itself, or not enough, is raised to a power.

    P'(v | x) ~ P(v | x)^a

One number for all classes, learned by Newton's method on the log loss, one event at a time: for two
classes it is the slope of logistic calibration (Platt 1999), for more it is temperature scaling (Guo et
al. 2017). Naive Bayes counts as independent what is not, and so needs a < 1; the longer its events the
smaller.
"""

from __future__ import annotations

from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.jit import kernel

FIRST_POWER = 0.5
LEAST_POWER, MOST_POWER = 0.02, 4.0
FLOOR = -20.0  # lower bound on ln P: a single event of probability 0 must not ruin the fit
_MEMORY = 0.999  # decay of the curvature: a mean over about a thousand events, which follows drift


@kernel
def temper(log_probabilities: Floats, power: float, known: Ints, scores: Floats) -> None:
    """Fill scores (K,) with a ln P(v); -inf for unknown classes."""
    for k in range(scores.size):
        scores[k] = power * max(log_probabilities[k], FLOOR) if known[k] > 0 else -float("inf")


@kernel
def learn_power(
    log_probabilities: Floats, probabilities: Floats, label: int, weight: float, powers: Floats, c: int
) -> None:
    """Take one step of calibrator c, with power and curvature powers[c], on an event.

    With u_v = ln P(v): gradient sum_v P'(v) u_v - u_label, curvature the variance of u under P'.
    """
    mean, square = 0.0, 0.0
    for k in range(probabilities.size):
        u = max(log_probabilities[k], FLOOR)
        mean += probabilities[k] * u
        square += probabilities[k] * u * u
    gradient = mean - max(log_probabilities[label], FLOOR)
    powers[c, 1] = _MEMORY * powers[c, 1] + weight * max(square - mean * mean, 0.0)
    if powers[c, 1] > 0.0:
        power = powers[c, 0] - weight * gradient / powers[c, 1]
        powers[c, 0] = min(max(power, LEAST_POWER), MOST_POWER)
