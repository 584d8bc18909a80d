"""Parameters of a Bayesian network as numbers."""

from __future__ import annotations

from typing import Any, NamedTuple


class NetworkParameters(NamedTuple):
    """All tables of a network, at one moment.

    Attributes:
        parents: parents by variable.
        tables: variable -> values of its parents -> value -> P(value | values of the parents).
    """

    parents: dict[Any, tuple[Any, ...]]
    tables: dict[Any, dict[tuple[Any, ...], dict[Any, float]]]

    @property
    def n_free(self) -> dict[Any, int]:
        """Number of free parameters of each variable: one less than its values, in each row of its table."""
        return {name: sum(len(row) - 1 for row in rows.values()) for name, rows in self.tables.items()}
