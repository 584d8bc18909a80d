"""Discrete distributions that somebody stated, as nested mappings, for the rows of a table."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from streamnb.model.attributes.ranges import is_missing
from streamnb.model.hidden_markov.transitions import Floats

__all__ = ["Distributions"]


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

    def __eq__(self, other: object) -> bool:
        """Whether the same was stated."""
        return isinstance(other, Distributions) and self.rows == other.rows

    __hash__ = None  # type: ignore[assignment]  # it has a mapping
