"""Initial tables of a hidden Markov model: declared probabilities, or random starts of EM.

EM starts at random, because states with equal parameters would stay equal. On simulated streams with
persistent states, starts with persistent states reached the maximum more often; with alternating states, the
opposite held. In both cases sharper differences between states helped. So in even starts states persist half
the time, in odd starts they need not, and the weights are cubes.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from streamnb.kernels.array_types import Floats
from streamnb.statistics.counter_rng import uniforms
from streamnb.values.number_ranges import is_missing


class Distributions:
    """A distribution over columns for each row; a row that is not declared is uniform over all columns.

    Args:
        name: name of the distribution, for messages.
        rows: {column: probability} by row; an absent column has 0. Each row must sum to 1 within 1e-9, and is
            normalised.

    Raises:
        ValueError: if a row is not a distribution, or has a missing column (None, NaN).
    """

    def __init__(self, name: str, rows: Mapping[Any, Mapping[Any, float]]) -> None:
        self.rows: dict[Any, dict[Any, float]] = {}
        for row, given in rows.items():
            total = math.fsum(given.values())
            if not (all(p >= 0.0 for p in given.values()) and abs(total - 1.0) <= 1e-9):
                raise ValueError(f"{name} of {row!r} must be probabilities that sum to 1, not {dict(given)}")
            if any(map(is_missing, given)) or is_missing(row):
                raise ValueError(f"{name} of {row!r}: None and NaN cannot be names")
            self.rows[row] = {column: float(p) / total for column, p in given.items()}

    @property
    def columns(self) -> list[Any]:
        """Every column that occurs in a row, in order."""
        return list(dict.fromkeys(column for given in self.rows.values() for column in given))

    def table(self, rows: Sequence[Hashable], columns: Sequence[Hashable], of: int) -> Floats:
        """Return the probabilities of some of the `of` columns, shape (rows, columns)."""
        found = np.full((len(rows), len(columns)), 1.0 / of if of else 0.0)
        for r, row in enumerate(rows):
            given = self.rows.get(row)
            if given is not None:
                found[r] = [given.get(column, 0.0) for column in columns]
        return found


_APART = 1 << 40  # random numbers reserved for each start
_LEAST = 1e-3


def start_transitions(seed: int, start: int, states: int) -> Floats:
    """Return P(s_t+1 | s_t) of start number `start`, float64[K, K], one row for each s_t."""
    rows = _weights(seed, start * _APART, states, states)
    rows /= rows.sum(axis=1, keepdims=True)
    return (rows + np.eye(states)) / 2.0 if start % 2 == 0 else rows


def start_symbols(seed: int, start: int, states: int, first: int, stop: int) -> Floats:
    """Return weights of symbols `first` to `stop` - 1 by state, float64[stop - first, K]; row means are 1."""
    rows = _weights(seed, start * _APART + states * (states + first), stop - first, states)
    return np.asarray(rows / rows.mean(axis=1, keepdims=True))


def _weights(seed: int, number: int, rows: int, columns: int) -> Floats:
    """Return cubes of exponential variates, all positive."""
    drawn = -np.log1p(-uniforms(seed, number, rows * columns))
    return np.asarray(_LEAST + drawn**3).reshape(rows, columns)
