"""The linear unit: least squares or a loss of classification by gradient, one event at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from river import base

from streamnb.kernels.array_types import Floats
from streamnb.toolbox.linear.design_matrix import Row, is_no_target, real
from streamnb.toolbox.linear.gradient_unit import GradientUnit

Loss = Literal["squared", "hinge", "squared_hinge", "exponential", "perceptron", "winnow"]
_MOST_EXPONENT = 700.0
_MOST_STEPS = 300.0  # exp of it, times the largest number of a row, is finite


class LinearUnit(GradientUnit, base.Regressor):  # type: ignore[misc]  # River is untyped here
    """A linear unit that learns by gradient steps; with the squared loss the delta rule (LMS).

        h(x) = w_0 + sum w_k x_k        w_k <- w_k - eta L'(h(x)) x_k,  x_0 = 1

        squared         (d - h)^2 / 2           least squares, or with d of 1 and -1 a classifier
        hinge           max(0, 1 - d h)         the support vector machine (L1 SVM)
        squared_hinge   max(0, 1 - d h)^2       the L2 SVM
        exponential     exp(-d h)               as AdaBoost
        perceptron      max(0, -d h)            steps at mistakes only, and at h = 0
        winnow          steps of the perceptron for v_k, and w_k = exp(v_k) - exp(-v_k)

    Winnow (balanced) multiplies where the perceptron adds: the two parts exp(v_k) and exp(-v_k) of a weight,
    both 1 at first, are multiplied by exp(eta d x_k) and by its inverse. With many irrelevant attributes it
    makes far fewer mistakes.

    All losses but the squared one take targets of 1 and -1 and refuse others; the sign of h(x) is the class,
    and `PlattScaling` makes a probability of it. Each step costs O(d) of the attributes of the event. The
    weights follow changes but never settle: `LinearRegression` is the exact minimum of squares. A step of
    the squared losses and the exponential one is shortened if it would pass h(x) = d, because larger steps
    diverge.

    A missing attribute (absent, None, NaN, infinite) is 0, and a string is 1 in the column (name, value). An
    event whose target is missing is not learned. Numbers beyond +-1e140 are read as +-1e140.

    Args:
        rate: eta, greater than 0.
        loss: L; see above. The cross entropy is the loss of `SigmoidUnit`.
        l2: adds l2 |w|^2 / 2 to the loss of each event, without w_0; a step then costs O(d) of all columns.
            Winnow takes |v|^2 instead.
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

        A perceptron on the logical or:

        >>> gate = LinearUnit(rate=1.0, loss="perceptron")
        >>> for _ in range(5):
        ...     for a, b, d in [(0, 0, -1), (0, 1, 1), (1, 0, 1), (1, 1, 1)]:
        ...         gate.learn_one({"a": a, "b": b}, d)
        >>> [gate.predict_one({"a": a, "b": b}) > 0 for a, b in [(0, 0), (0, 1), (1, 0), (1, 1)]]
        [False, True, True, True]

    References:
        Mitchell, Machine Learning (1997), section 4.4.3; Widrow and Hoff (1960), Adaptive switching circuits;
        Littlestone (1988), "Learning quickly when irrelevant attributes abound", Machine Learning 2.
    """

    def __init__(
        self, rate: float = 0.05, features: int = 1 << 20, loss: Loss = "squared", l2: float = 0.0
    ) -> None:
        super().__init__(rate, features)
        if loss not in _DESCENTS:
            raise ValueError(f"loss must be one of {', '.join(_DESCENTS)}, not {loss!r}")
        if not 0.0 <= l2 * rate < 1.0:
            raise ValueError(f"l2 must be at least 0 and below 1 / rate, not {l2!r}")
        self.loss, self.l2 = loss, l2

    @property
    def intercept(self) -> float:
        """Weight w_0."""
        return float(self._linked(self._weights[:1])[0])

    @property
    def weights(self) -> dict[Any, float]:
        """Weight by attribute, or by (attribute, value) of a string."""
        return self._design.named(self._linked(self._weights[: len(self._design)]))

    def predict_one(self, x: Mapping[Any, Any]) -> float:
        """Return h(x). Raises TypeError for a value that is not a number, boolean, string or None."""
        return self._score(self._row(x, adds=False))

    def learn_one(self, x: Mapping[Any, Any], y: float | None) -> None:
        """Learn the target `y` of `x`. Raises TypeError, and learns nothing, if a value is invalid."""
        if not is_no_target(y):
            target = real("target", y)
            row = self._row(x, adds=True)
            if self.loss != "squared" and abs(target) != 1.0:
                raise ValueError(f"the loss {self.loss!r} takes the targets 1 and -1, not {y!r}")
            net, size = self._score(row), float(row[1] @ row[1])
            amount = self.rate * _DESCENTS[self.loss](net, target)
            if self.loss in _BOUNDED:
                most = abs(target - net) / size
                amount = max(-most, min(amount, most))
            if self.l2:
                self._weights[1:] *= 1.0 - self.rate * self.l2
            self._move(row, amount)

    def _linked(self, steps: Floats) -> Floats:
        """Return weights from sums of steps."""
        if self.loss != "winnow":
            return steps
        return 2.0 * np.sinh(np.clip(steps, -_MOST_STEPS, _MOST_STEPS))

    def _score(self, row: Row) -> float:
        return float(self._linked(self._weights[row[0]]) @ row[1])


_DESCENTS: dict[str, Callable[[float, float], float]] = {
    "squared": lambda h, d: d - h,
    "hinge": lambda h, d: d if d * h < 1.0 else 0.0,
    "squared_hinge": lambda h, d: 2.0 * d * max(0.0, 1.0 - d * h),
    "exponential": lambda h, d: d * math.exp(min(-d * h, _MOST_EXPONENT)),
    "perceptron": lambda h, d: d if d * h <= 0.0 else 0.0,
    "winnow": lambda h, d: d if d * h <= 0.0 else 0.0,
}
"""-L'(h) by h and target d."""
_BOUNDED = ("squared", "squared_hinge", "exponential")
