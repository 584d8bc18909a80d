"""Where the tables of a hidden Markov model begin: as somebody stated them, or for EM at random.

EM begins at random, for nothing tells states apart that begin alike. On simulated streams whose states stay,
starts whose states stay led to the maximum more often; where states took turns, it was the others; and of
both those that told states apart more sharply. So in the even starts states stay half the time, in the odd
ones they need not, and weights are cubes.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from streamnb.model.attributes.ranges import is_missing
from streamnb.model.compiled.arrays import Floats
from streamnb.model.numerics.counter_rng import uniforms


class Distributions:
    """For each row a distribution over columns; a row that nobody stated is uniform over all columns.

    Args:
        name: what it is, for messages.
        rows: row -> {column: probability}; a column left out has 0. Each row sums to 1 (within 1e-9, of
            which it is rid).

    Raises:
        ValueError: if a row is no distribution, or has a missing column (None, NaN).
    """

    def __init__(self, name: str, rows: Mapping[Any, Mapping[Any, float]]) -> None:
        self.rows: dict[Any, dict[Any, float]] = {}
        for row, given in rows.items():
            total = math.fsum(given.values())
            if not (all(p >= 0.0 for p in given.values()) and abs(total - 1.0) <= 1e-9):
                raise ValueError(f"{name} of {row!r} must be probabilities that sum to 1, not {dict(given)}")
            if any(map(is_missing, given)) or is_missing(row):
                raise ValueError(f"{name} of {row!r}: None and NaN are no names")
            self.rows[row] = {column: float(p) / total for column, p in given.items()}

    @property
    def columns(self) -> list[Any]:
        """Every column that a row names, in order."""
        return list(dict.fromkeys(column for given in self.rows.values() for column in given))

    def table(self, rows: Sequence[Hashable], columns: Sequence[Hashable], of: int) -> Floats:
        """Shape (rows, columns): the probabilities of some columns, of which there are `of` in all."""
        found = np.full((len(rows), len(columns)), 1.0 / of if of else 0.0)
        for r, row in enumerate(rows):
            given = self.rows.get(row)
            if given is not None:
                found[r] = [given.get(column, 0.0) for column in columns]
        return found


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
