"""Least squares, one event at a time, from sums alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

from river import base

from streamnb.errors import UnlearnError
from streamnb.kernels.array_types import Floats, Ints
from streamnb.toolbox.linear.comoments import SecondMoments
from streamnb.toolbox.linear.design_matrix import Design, is_no_target, real
from streamnb.toolbox.linear.least_squares import Fit, fit
from streamnb.values.example_weights import UNIT, units
from streamnb.values.parameter_checks import check_whole
from streamnb.values.savable import Savable
from streamnb.values.state_validation import check_made
from streamnb.values.type_aliases import Array, State


class LinearRegression(Savable, base.Regressor):  # type: ignore[misc]  # River is untyped here
    """Least squares: the exact maximum likelihood hypothesis under Gaussian noise at any moment.

        h_ML = argmin over h of sum (d_i - h(x_i))^2        h(x) = w^T x + b

    The model keeps sums and sums of products only, of 106 bits each, and solves for w on demand. So it equals
    the batch solution of all learned events, in any order; `unlearn_one` is the inverse of `learn_one`.
    Learning costs O(d^2) of the d attributes of the event. The first prediction after a learned event costs
    O(d^3) of all d attributes, and each further one O(d).

    Degenerate cases:
        missing         an attribute that is absent, None, NaN or infinite is read as 0, as in River.
        strings         1 in the column (name, value); each value has its own column.
        never varied    combinations of attributes that never varied (more attributes than events, one the
                        double of another) leave many solutions: the least |w| is taken, without b. A
                        spread below 1e-12 of the size, or of what other attributes explain of it, counts as
                        none.
        nothing learned predicts 0.
        no target       an event whose target is missing is not learned.
        huge            numbers beyond +-1e140 are read as +-1e140.
        tiny            an attribute whose squared deviations sum to less than 1e-280 (about 1e-140 each)
                        counts as never varied, without a warning: rescale it.

    Args:
        l2: adds l2 |w|^2 to the sum of squares (ridge regression); b is not penalised.
        features: maximum number of columns; later ones are ignored. n columns take 16 n^2 bytes.

    Raises:
        ValueError: if a parameter is out of range.

    Examples:
        >>> from streamnb import LinearRegression
        >>> model = LinearRegression()
        >>> for x, d in [(1, 3.1), (2, 4.9), (3, 7.1), (4, 8.9)]:
        ...     model.learn_one({"x": x}, d)
        >>> round(model.weights["x"], 3), round(model.intercept, 3)
        (1.96, 1.1)
        >>> round(model.predict_one({"x": 5}), 3)
        10.9
        >>> round(model.noise_variance, 4)  # (0.04^2 + 0.12^2 + 0.12^2 + 0.04^2) / 4
        0.008

    References:
        Mitchell, Machine Learning (1997), section 6.4; Björck (1996), Numerical Methods for Least Squares
        Problems; Gelman et al. (2013), Bayesian Data Analysis, section 14.2 (the predictive distribution).
    """

    def __init__(self, l2: float = 0.0, features: int = 512) -> None:
        if not 0.0 <= l2 <= 1e140:
            raise ValueError(f"l2 must lie between 0 and 1e140, not {l2!r}")
        check_whole("features", features, 1)
        self.l2, self.features = l2, features
        self._design = Design(features)
        self._moments = SecondMoments()  # column 0 is the target
        self._moments.reserve(1)
        self._fit: Fit | None = None

    @property
    def n(self) -> float:
        """Weight learned, in examples."""
        return self._moments.units / UNIT

    @property
    def weights(self) -> dict[Any, float]:
        """Weight w by attribute, or by (attribute, value) of a string."""
        return dict(zip(self._design.columns, self._solution().weights.tolist(), strict=True))

    @property
    def intercept(self) -> float:
        """Prediction b if every attribute is 0."""
        solution = self._solution()
        pairs = zip(solution.weights.tolist(), solution.mean.tolist(), strict=True)
        return math.fsum([solution.target, *(-w * mean for w, mean in pairs)])

    @property
    def rank(self) -> int:
        """Number of linearly independent combinations of attributes that have varied."""
        return self._solution().rank

    @property
    def noise_variance(self) -> float:
        """Maximum likelihood variance of the noise, sum of squared residuals / n; 0 before any event."""
        solution = self._solution()
        return solution.squares / solution.n if solution.n else 0.0

    def predict_one(self, x: Mapping[Any, Any]) -> float:
        """Return h(x) = w^T x + b. Raises TypeError unless values are numbers, booleans, strings or None."""
        return self._solution().predict(self._dense(x))

    def learn_one(self, x: Mapping[Any, Any], y: float | None, w: float = 1.0) -> None:
        """Learn the target `y` of `x`, `w` times (steps of 1/1024), or raise and learn nothing."""
        weight = units(w)
        if weight and not is_no_target(y):
            self._update(*self._design.row(x, real("target", y), adds=True), weight)

    def unlearn_one(self, x: Mapping[Any, Any], y: float | None, w: float = 1.0) -> None:
        """Undo ``learn_one(x, y, w)``, or raise UnlearnError and change nothing."""
        weight = units(w)
        if not weight or is_no_target(y):
            return
        if len(self._design) <= self.features and self._design.unknown(x):
            raise UnlearnError(f"no learned event had the attributes {self._design.unknown(x)}")
        self._update(*self._design.row(x, real("target", y), adds=False), -weight)

    def state(self) -> State:
        """Return all that was learned. Raises TypeError for names that JSON cannot hold."""
        meta = {
            "type": type(self).__name__,
            "units": self._moments.units,
            "columns": self._design.described(),
        }
        return meta, self._moments.arrays(len(self._design))

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace all that was learned by a `state`; return self. Raises SnapshotError if it is invalid."""
        check_made(meta, type=type(self).__name__)
        design = Design.from_description(meta.get("columns"), self.features)
        self._moments = SecondMoments.from_arrays(meta.get("units"), arrays, len(design))
        self._design = design
        self._fit = None
        return self

    def _update(self, columns: Ints, values: Floats, weight: int) -> None:
        self._moments.reserve(len(self._design))
        self._moments.update(columns, values, weight)
        self._fit = None

    def _solution(self) -> Fit:
        if self._fit is None:
            self._fit = fit(self._moments.about_the_mean(len(self._design)), self.l2)
        return self._fit

    def _dense(self, x: Mapping[Any, Any]) -> Floats:
        return self._design.dense(self._design.row(x, adds=False))[1:]
