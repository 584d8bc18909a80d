"""The linear unit with the delta rule (LMS): least squares by gradient, one event at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from river import base

from streamnb.toolbox.linear.design_matrix import is_no_target, real
from streamnb.toolbox.linear.gradient_unit import GradientUnit


class LinearUnit(GradientUnit, base.Regressor):  # type: ignore[misc]  # River is untyped here
    """A linear unit that learns by the delta rule (LMS, Widrow and Hoff).

        h(x) = w_0 + sum w_k x_k        w_k <- w_k + eta (d - h(x)) x_k,  x_0 = 1

    Each event makes one step down the gradient of (d - h(x))^2 / 2. The step costs O(d) of the attributes of
    the event. The weights follow changes but never settle: `LinearRegression` is the exact minimum. If
    eta |x|^2 > 1, the step is shortened so that h(x) = d, because larger steps diverge.

    A missing attribute (absent, None, NaN, infinite) is 0, and a string is 1 in the column (name, value). An
    event whose target is missing is not learned. Numbers beyond +-1e140 are read as +-1e140.

    Args:
        rate: eta, greater than 0.
        features: maximum number of columns; later ones are ignored.

    Raises:
        ValueError: if a parameter is out of range.

    Examples:
        >>> from streamnb import LinearUnit
        >>> unit = LinearUnit(rate=0.05)
        >>> unit.learn_one({"x": 2.0}, 10.0)  # 0.05 (10 - 0) = 0.5, times 1 and 2
        >>> unit.intercept, unit.weights
        (0.5, {'x': 1.0})
        >>> unit.predict_one({"x": 2.0})
        2.5

    References:
        Mitchell, Machine Learning (1997), section 4.4.3; Widrow and Hoff (1960), Adaptive switching circuits.
    """

    def predict_one(self, x: Mapping[Any, Any]) -> float:
        """Return h(x). Raises TypeError for a value that is not a number, boolean, string or None."""
        return self._net(self._row(x, adds=False))

    def learn_one(self, x: Mapping[Any, Any], y: float | None) -> None:
        """Learn the target `y` of `x`. Raises TypeError, and learns nothing, if a value is invalid."""
        if not is_no_target(y):
            target = real("target", y)
            row = self._row(x, adds=True)
            step = min(self.rate, 1.0 / float(row[1] @ row[1]))
            self._move(row, step * (target - self._net(row)))
