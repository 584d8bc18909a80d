"""The sigmoid unit, which predicts probabilities and learns by gradient (Mitchell, section 6.5)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np

from streamnb.kernels.array_types import Floats
from streamnb.models.calibration.sequential_laplace import sigmoid
from streamnb.toolbox.linear.design_matrix import is_no_target, real
from streamnb.toolbox.linear.gradient_unit import GradientUnit
from streamnb.values.state_validation import checked, count
from streamnb.values.state_validation import real as numbers
from streamnb.values.type_aliases import State


class SigmoidUnit(GradientUnit):
    """A sigmoid unit that learns to predict probabilities by gradient ascent on the likelihood.

        h(x) = 1 / (1 + exp(-w_0 - sum w_k x_k))
        G(h, D) = sum d_i ln h(x_i) + (1 - d_i) ln (1 - h(x_i))          -G is the cross entropy
        w_k <- w_k + eta sum (d_i - h(x_i)) x_ik,  x_0 = 1

    The h with the greatest G is the maximum likelihood hypothesis for targets d that are 0 or 1 with
    probability h(x); d may also be such a probability itself. `learn_one` takes the step of one event,
    `learn_many` the sum of the steps of several. A layer consists of separate units, which share no weights.
    `LogisticRegression` learns the same hypotheses without a learning rate.

    A missing attribute (absent, None, NaN, infinite) is 0, and a string is 1 in the column (name, value). An
    event whose target is missing is not learned. Numbers beyond +-1e140 are read as +-1e140.

    Args:
        rate: eta, greater than 0.
        features: maximum number of columns; later ones are ignored.

    Raises:
        ValueError: if a parameter is out of range.

    Attributes:
        cross_entropy: sum over learned events, each predicted before it was learned, in nats.
        n: number of learned events.

    Examples:
        >>> from streamnb import SigmoidUnit
        >>> unit = SigmoidUnit(rate=0.5)
        >>> unit.learn_one({"x": 2.0}, 0.9)  # 0.5 (0.9 - 0.5) = 0.2, times 1 and 2
        >>> round(unit.intercept, 3), {k: round(w, 3) for k, w in unit.weights.items()}
        (0.2, {'x': 0.4})
        >>> round(unit.predict_one({"x": 2.0}), 3)  # 1 / (1 + exp(-1))
        0.731
        >>> round(unit.cross_entropy, 3)  # ln 2, of h = 1/2
        0.693

    References:
        Mitchell, Machine Learning (1997), section 6.5.
    """

    def __init__(self, rate: float = 0.05, features: int = 1 << 20) -> None:
        super().__init__(rate, features)
        self.cross_entropy = 0.0
        self.n = 0

    def predict_one(self, x: Mapping[Any, Any]) -> float:
        """Return h(x) in [0, 1]. Raises TypeError unless values are numbers, booleans, strings or None."""
        return sigmoid(self._net(self._row(x, adds=False)))

    def log_likelihood(self, events: Iterable[tuple[Mapping[Any, Any], float]]) -> float:
        """Return G of events (x, d) under the current weights, in nats; errors as of `learn_one`."""
        rows = [(self._row(x, adds=False), _probability(d)) for x, d in events if not is_no_target(d)]
        return -math.fsum(_loss(self._net(row), d) for row, d in rows)

    def learn_one(self, x: Mapping[Any, Any], d: float | None) -> None:
        """Learn the target of `x`, 0 or 1 or a probability, or raise and learn nothing."""
        self.learn_many([(x, d)])

    def learn_many(self, events: Iterable[tuple[Mapping[Any, Any], float | None]]) -> None:
        """Make one step by the sum over events (x, d), all predicted by the same weights."""
        labelled = [(x, _probability(d)) for x, d in events if not is_no_target(d)]
        rows = [(self._row(x, adds=True), d) for x, d in labelled]
        nets = [self._net(row) for row, _ in rows]
        for (row, d), net in zip(rows, nets, strict=True):
            self.cross_entropy += _loss(net, d)
            self._move(row, self.rate * (d - sigmoid(net)))
        self.n += len(rows)

    def state(self) -> State:
        """Return the state of a unit, with `n` and the cross entropy."""
        meta, arrays = super().state()
        return {**meta, "n": self.n}, {**arrays, "cross_entropy": np.array([self.cross_entropy])}

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Floats]) -> Self:
        """Replace all that was learned by a `state`; return self. Raises SnapshotError if it is invalid."""
        n = count(meta, "n")
        total = {name: array for name, array in arrays.items() if name == "cross_entropy"}
        (entropy,) = checked(total, {"cross_entropy": numbers(1, low=0.0)})["cross_entropy"]
        super().load_state(meta, {name: array for name, array in arrays.items() if name not in total})
        self.n, self.cross_entropy = n, float(entropy)
        return self


def _loss(net: float, d: float) -> float:
    return d * max(-net, 0.0) + (1.0 - d) * max(net, 0.0) + math.log1p(math.exp(-abs(net)))


def _probability(d: Any) -> float:
    p = real("target", d)
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"a target must lie between 0 and 1, not {d!r}")
    return p
