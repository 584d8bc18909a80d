"""What units that learn by gradient share: a weighted sum whose weights are moved in small steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from streamnb.model.attributes.expected import check_made, checked, real
from streamnb.model.attributes.parameters import check_whole
from streamnb.model.attributes.signatures import Array, State
from streamnb.model.linear.design_matrix import Design, Row
from streamnb.model.saving import Savable


class WeightedSum:
    """w_0 + sum over k of w_k x_k, of the columns of a `Design`; all weights are 0 at first.

    Args:
        features: the most columns.
    """

    def __init__(self, features: int) -> None:
        check_whole("features", features, 1)
        self._features = features
        self._design = Design(features)
        self._weights = np.zeros(1)  # with room for those of columns to come

    @property
    def intercept(self) -> float:
        """w_0."""
        return float(self._weights[0])

    @property
    def weights(self) -> dict[Any, float]:
        """Attribute, or (attribute, value) -> w_k."""
        return self._design.named(self._weights[: len(self._design)])

    def row(self, x: Mapping[Any, Any], *, adds: bool) -> Row:
        """The event's columns and values, x_0 = 1 in column 0; see `Design.row`."""
        row = self._design.row(x, adds=adds)
        more = len(self._design) - self._weights.size
        if more > 0:
            self._weights = np.pad(self._weights, (0, max(more, self._weights.size // 2)))
        return row

    def net(self, row: Row) -> float:
        """The weighted sum."""
        return float(self._weights[row[0]] @ row[1])

    def move(self, row: Row, amount: float) -> None:
        """w_k += amount x_k."""
        self._weights[row[0]] += amount * row[1]

    def state(self, kind: str) -> State:
        """Columns and weights, for a model of this kind."""
        meta = {"type": kind, "columns": self._design.described()}
        return meta, {"weights": self._weights[: len(self._design)].copy()}

    @classmethod
    def from_state(
        cls, kind: str, features: int, meta: Mapping[str, Any], arrays: Mapping[str, Array]
    ) -> Self:
        """The sum that `state` described, of the same kind. Raises SnapshotError."""
        check_made(meta, type=kind)
        restored = cls(features)
        restored._design = Design.from_description(meta.get("columns"), features)
        weights = checked(arrays, {"weights": real("columns")}, columns=len(restored._design))["weights"]
        restored._weights = weights.copy()
        return restored


class GradientUnit(Savable):
    """A unit of so many columns at the most, and the rate at which it learns; see those that inherit it."""

    def __init__(self, rate: float = 0.05, features: int = 1 << 20) -> None:
        if not 0.0 < rate <= 1e12:
            raise ValueError(f"rate must be above 0, and 1e12 at most, not {rate!r}")
        self.rate, self.features = rate, features
        self._sum = WeightedSum(features)

    @property
    def intercept(self) -> float:
        """w_0."""
        return self._sum.intercept

    @property
    def weights(self) -> dict[Any, float]:
        """Attribute, or (attribute, value) of a string -> its weight."""
        return self._sum.weights

    def state(self) -> State:
        """All that was learned: JSON-able values, and arrays.

        Raises TypeError for names that are not strings, booleans, numbers or None.
        """
        return self._sum.state(type(self).__name__)

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace all that was learned by a `state`; returns self. Raises SnapshotError."""
        self._sum = WeightedSum.from_state(type(self).__name__, self.features, meta, arrays)
        return self
