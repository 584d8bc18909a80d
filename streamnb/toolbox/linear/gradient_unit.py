"""Base class of units that learn by gradient steps: a weighted sum of the columns of an event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from streamnb.kernels.growable_arrays import roomier
from streamnb.toolbox.linear.design_matrix import Design, Row
from streamnb.values.parameter_checks import check_whole
from streamnb.values.savable import Savable
from streamnb.values.state_validation import check_made, checked, real
from streamnb.values.type_aliases import Array, State


class GradientUnit(Savable):
    """w_0 + sum over k of w_k x_k, over the columns of a `Design`; all weights start at 0.

    Args:
        rate: learning rate, see the subclasses.
        features: maximum number of columns.
    """

    def __init__(self, rate: float = 0.05, features: int = 1 << 20) -> None:
        if not 0.0 < rate <= 1e12:
            raise ValueError(f"rate must be greater than 0 and at most 1e12, not {rate!r}")
        check_whole("features", features, 1)
        self.rate, self.features = rate, features
        self._design = Design(features)
        self._weights = np.zeros(1)  # with spare capacity

    @property
    def intercept(self) -> float:
        """Weight w_0."""
        return float(self._weights[0])

    @property
    def weights(self) -> dict[Any, float]:
        """Weight by attribute, or by (attribute, value) of a string."""
        return self._design.named(self._weights[: len(self._design)])

    def state(self) -> State:
        """Return all that was learned. Raises TypeError for names that JSON cannot hold."""
        meta = {"type": type(self).__name__, "columns": self._design.described()}
        return meta, {"weights": self._weights[: len(self._design)].copy()}

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace all that was learned by a `state`; return self. Raises SnapshotError if it is invalid."""
        check_made(meta, type=type(self).__name__)
        design = Design.from_description(meta.get("columns"), self.features)
        weights = checked(arrays, {"weights": real("columns")}, columns=len(design))["weights"]
        self._design, self._weights = design, weights.copy()
        return self

    def _row(self, x: Mapping[Any, Any], *, adds: bool) -> Row:
        row = self._design.row(x, adds=adds)
        if len(self._design) > self._weights.size:
            self._weights = roomier(self._weights, len(self._design))
        return row

    def _net(self, row: Row) -> float:
        return float(self._weights[row[0]] @ row[1])

    def _move(self, row: Row, amount: float) -> None:
        self._weights[row[0]] += amount * row[1]
