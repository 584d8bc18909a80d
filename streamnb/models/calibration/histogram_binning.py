"""Calibration by bins: how sure a classifier is, corrected by how often it was right when it was so sure.

    q = (r + s p) / (n + s)

p is the probability of the most probable class. Of n events with p in the same bin (on the scale of its log
odds) r had that class: q is the mean of a Beta posterior whose prior is worth s events at p (Zadrozny and
Elkan 2001, histogram binning, with such a prior). The other classes share the rest as before. It corrects
what a single power cannot: overconfidence at high and underconfidence at low probabilities.
"""

from __future__ import annotations

import math

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.jit import inlined, kernel
from streamnb.kernels.vector_kernels import copy_to, count_positive
from streamnb.values.example_weights import UNIT

CONFIDENCES = 50
"""Bins of log odds, half a nat each, from -4.1 on: even odds lie within one."""
_PER_NAT, _LOWEST = 2.0, -4.1
_PRIOR_EVENTS = 20.0
_LEAST_REST = 1e-9
_LEAST, _MOST = 1e-7, 1.0 - 1e-4  # bounds on 1 - P of the first choice


@inlined
def _rest(log_probabilities: Floats, top: int) -> float:
    """Return 1 - P(top) as a sum: a difference would lose digits if P(top) is near one."""
    rest = 0.0
    for k in range(log_probabilities.size):
        if k != top:
            rest += math.exp(log_probabilities[k])
    return max(rest, _LEAST_REST)


@inlined
def _bin_of(rest: float) -> int:
    odds = math.log((1.0 - rest) / rest)
    return min(max(math.floor(_PER_NAT * (odds - _LOWEST)), 0), CONFIDENCES - 1)


@kernel
def correct_confidence(log_probabilities: Floats, counts: Ints, known: Ints, scores: Floats) -> None:
    """Fill scores (K,) with logs of the corrected probabilities; -inf for unknown classes.

    `counts` int64[CONFIDENCES, 2]: weights of all and of correct events by bin. A single class is not
    corrected.
    """
    copy_to(scores, log_probabilities)
    if count_positive(known) < 2:
        return
    top = int(np.argmax(log_probabilities))
    rest = _rest(log_probabilities, top)
    n, right = counts[_bin_of(rest)]
    # 1 - (r + 20 p) / (n + 20)
    wrong = ((n - right) / UNIT + _PRIOR_EVENTS * rest) / (n / UNIT + _PRIOR_EVENTS)
    wrong = min(max(wrong, _LEAST), _MOST)
    more = math.log(wrong / rest)
    for k in range(scores.size):
        scores[k] += more
    scores[top] = math.log1p(-wrong)


@kernel
def learn_confidence(log_probabilities: Floats, label: int, weight: int, counts: Ints) -> None:
    """Count an event; `weight` in units."""
    top = int(np.argmax(log_probabilities))
    b = _bin_of(_rest(log_probabilities, top))
    counts[b, 0] += weight
    if top == label:
        counts[b, 1] += weight
