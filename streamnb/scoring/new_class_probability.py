"""Probability that the next label is new: Hoppe's urn with unknown concentration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from streamnb.kernels.array_types import Floats, Ints

_LOWEST, _HIGHEST = -10, 20
_BITS, _DIGITS = 10, 4
CONCENTRATIONS = 2.0 ** np.arange(_LOWEST, _HIGHEST + 1)
"""Number of hypotheses, one of them the urn's."""
_MOST_CACHED = 4096
_CACHE: dict[tuple[int, int], float] = {}
_LOGS = np.log(CONCENTRATIONS)
_LOG_GAMMAS = np.array([math.lgamma(theta) for theta in CONCENTRATIONS])


def new_class_probability(events: Ints, classes: Ints) -> Floats:
    """Return P(the next label is a new one) after n `events` with K <= n `classes`, both of shape (m,)."""
    from scipy.special import gammaln  # noqa: PLC0415  slow to load, and only scoring labels needs it

    weights = np.multiply.outer(classes, _LOGS) + _LOG_GAMMAS
    weights -= gammaln(np.add.outer(events, CONCENTRATIONS))
    weights = np.exp(weights - weights.max(axis=1, keepdims=True))
    new = CONCENTRATIONS / np.add.outer(events, CONCENTRATIONS)
    return np.asarray((weights * new).sum(axis=1) / weights.sum(axis=1))


def published_new_class_probability(events: Ints, classes: Ints, held: Floats | float = 0.0) -> Floats:
    """Return `new_class_probability` as published in predictions: u + (1 - u) h, to four digits.

    h is `held`, the probability of known classes that may not be predicted. From 1,024 events on u is
    computed for numbers of ten significant bits, and interpolated linearly: one result serves many events.
    """
    step = np.left_shift(1, np.maximum(np.frexp(events)[1] - _BITS, 0))
    low = events - events % step
    differs = (low[1:] != low[:-1]) | (classes[1:] != classes[:-1])
    starts = np.append(0, np.flatnonzero(differs) + 1)[: events.size]
    columns = (each[starts].tolist() for each in (low, step, classes))
    sides = _evaluated([(at, k) for n, more, k in zip(*columns, strict=True) for at in (n, n + more)])
    times = np.diff(starts, append=events.size)
    before, after = np.repeat(np.reshape(sides, (-1, 2)), times, axis=0).T
    u = before + (after - before) * ((events - low) / step)
    u = u + (1.0 - u) * held
    scale = 10.0 ** (_DIGITS - 1 - np.floor(np.log10(u)))
    return np.asarray(np.round(u * scale) / scale)


def _evaluated(pairs: Sequence[tuple[int, int]]) -> list[float]:
    """Return `new_class_probability` of each (events, classes); what is not cached is computed at once."""
    found = {pair: _CACHE.get(pair) for pair in pairs}
    missing = [pair for pair, value in found.items() if value is None]
    if missing:
        events, classes = np.array(missing).T
        computed = dict(zip(missing, new_class_probability(events, classes).tolist(), strict=True))
        found |= computed
        if len(_CACHE) > _MOST_CACHED:
            _CACHE.clear()
        _CACHE.update(computed)
    return [cast("float", found[pair]) for pair in pairs]
