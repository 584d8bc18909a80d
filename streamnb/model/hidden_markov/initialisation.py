"""Where EM for hidden Markov models begins: at random, for nothing tells states apart that begin alike.

On simulated streams whose states stay, starts whose states stay led to the maximum more often; where states
took turns, it was the others; and of both those that told states apart more sharply. So in the even starts
states stay half the time, in the odd ones they need not, and weights are cubes.
"""

from __future__ import annotations

import numpy as np

from streamnb.model.hidden_markov.transitions import Floats
from streamnb.model.numerics.counter_rng import uniforms

__all__ = ["start_symbols", "start_transitions"]

_APART = 1 << 40  # numbers of a seed that one start has
_LEAST = 1e-3


def start_transitions(seed: int, start: int, states: int) -> Floats:
    """float64[K, K]: P(s_t+1 | s_t) by rows, of start number `start`."""
    rows = _weights(seed, start * _APART, states, states)
    rows /= rows.sum(axis=1, keepdims=True)
    return (rows + np.eye(states)) / 2.0 if start % 2 == 0 else rows


def start_symbols(seed: int, start: int, states: int, first: int, stop: int) -> Floats:
    """float64[stop - first, K]: weights of symbols `first` to `stop` - 1 by state; the mean of each is 1."""
    rows = _weights(seed, start * _APART + states * (states + first), stop - first, states)
    return np.asarray(rows / rows.mean(axis=1, keepdims=True))


def _weights(seed: int, number: int, rows: int, columns: int) -> Floats:
    """Cubes of exponential variates, none of them zero."""
    drawn = -np.log1p(-uniforms(seed, number, rows * columns))
    return np.asarray(_LEAST + drawn**3).reshape(rows, columns)
