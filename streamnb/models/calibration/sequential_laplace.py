"""Sequential Laplace: sigmoid units with a Gaussian over their weights that every event narrows.

    P(y = 1 | x, w) = h = 1 / (1 + exp(-w^T x)),    w ~ N(mean, P),  P = S S^T;  at first N(0, v I)

An event (x, d), d in [0, 1], of weight c, moves the mean to the mode of the posterior and narrows P by the
curvature there. The likelihood depends on w only through m = w^T x, so the mode is the root of one equation
in one unknown, and the event costs O(columns^2):

    s = x^T P x      m = m0 + s c (d - h(m))      a = c h(m) (1 - h(m))
    mean' = mean + P x (m - m0) / s               P' = P - P x x^T P a / (1 + a s)

The step goes to the mode itself. A single Newton step would overshoot by 1/(1 - h) if the unit was confident
and wrong. P is stored as a root (Potter's form), which stays a root of a positive matrix under any rounding:

    S' = S - S v v^T a / (r (r + 1)),   v = S^T x,   r = sqrt(1 + a s)

References: Spiegelhalter and Lauritzen (1990), Networks 20; MacKay (1992), Neural Computation 4(5); Bierman
(1977), Factorization Methods for Discrete Sequential Estimation, section V.3 (Potter).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.growable_arrays import roomier
from streamnb.kernels.jit import inlined, kernel
from streamnb.values.state_validation import checked, real
from streamnb.values.type_aliases import Array

_FARTHEST = 1e150  # bound of a mean: with values of up to 1e140 its sum stays within a double
_NONE = np.zeros(0, dtype=np.int64)


class LaplaceUnits:
    """Sigmoid units over the same columns, each with its own Gaussian.

    Args:
        units: number of units.
        variance: prior variance v of each weight.
    """

    def __init__(self, units: int, variance: float) -> None:
        self.variance = variance
        self._columns = 0
        self._means = np.zeros((units, 0))
        self._roots = np.zeros((units, 0, 0))
        self._moved = np.zeros((units, 2))
        self._scratch = np.zeros(0)

    def __len__(self) -> int:
        """Return the number of units."""
        return len(self._means)

    @property
    def means(self) -> Floats:
        """Weights, float64[units, columns]: the mode of what was learned."""
        return self._means[:, : self._columns]

    @property
    def roots(self) -> Floats:
        """Root S of each unit, float64[units, columns, columns]."""
        return self._roots[:, : self._columns, : self._columns]

    def reserve(self, columns: int) -> None:
        """Grow to this many columns; new ones, 0 in all events so far, get the prior variance."""
        if columns > self._scratch.size:
            self._means = roomier(self._means, 0, columns)
            self._roots = roomier(self._roots, 0, columns, columns)
            self._scratch = np.zeros(self._means.shape[1])
        for column in range(self._columns, columns):
            self._roots[:, column, column] = math.sqrt(self.variance)
        self._columns = max(columns, self._columns)

    def add(self, unit: int, sign: float = 1.0) -> None:
        """Add a copy of a unit, or its mirror image with sign -1."""
        self._means = np.concatenate([self._means, sign * self._means[unit : unit + 1]])
        self._roots = np.concatenate([self._roots, self._roots[unit : unit + 1]])
        self._moved = np.concatenate([self._moved, self._moved[unit : unit + 1]])

    def order(self, units: list[int]) -> None:
        """Reorder the units."""
        self._means, self._roots, self._moved = self._means[units], self._roots[units], self._moved[units]

    def net(self, unit: int, columns: Ints, values: Floats) -> float:
        """Return w^T x of a unit."""
        return float(self._means[unit, columns] @ values)

    def learn(self, columns: Ints, values: Floats, targets: Floats, weight: float) -> None:
        """Learn an event from the target of each unit, float64[units]."""
        d = self._columns
        _learn(self._means, self._roots, self._moved, d, columns, values, targets, weight, self._scratch)

    def due(self, far: float, least: float, most: float) -> Ints:
        """Return the units due for a refit: after `most` events, or after `least` if the mode drifted far.

        Far means that the squared steps, in standard deviations, sum to more than `far` for each column.
        """
        if not _any_due(self._moved, far * self._columns, least, most):
            return _NONE
        moved, events = self._moved.T
        return np.flatnonzero((events >= most) | ((events >= least) & (moved > far * self._columns)))

    def rest(self, unit: int) -> None:
        """Reset the step statistics of a unit."""
        self._moved[unit] = 0.0

    def replace(self, unit: int, mean: Floats, root: Floats) -> None:
        """Replace the Gaussian of one unit."""
        self.means[unit], self.roots[unit] = mean, root

    def set_posterior(self, means: Floats, roots: Floats) -> None:
        """Replace the Gaussians of all units."""
        self._means, self._roots = np.array(means, order="C"), np.array(roots, order="C")
        self._moved = np.zeros((len(means), 2))
        self._columns = means.shape[1]
        self._scratch = np.zeros(self._columns)

    def arrays(self) -> dict[str, Floats]:
        """Return copies of all that was learned."""
        return {"means": self.means.copy(), "roots": self.roots.copy(), "moved": self._moved.copy()}

    @property
    def n_bytes(self) -> int:
        """Memory, bytes, spare capacity included."""
        return self._means.nbytes + self._roots.nbytes

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], units: int, columns: int, variance: float) -> Self:
        """Restore units from arrays; "moved" may be absent. Raises SnapshotError for invalid arrays."""
        widest = 1.001 * math.sqrt(variance)  # a posterior is not wider than its prior
        expected = {
            "means": real(units, "columns", low=-_FARTHEST, high=_FARTHEST),
            "roots": real(units, "columns", "columns", low=-widest, high=widest),
            "moved": real(units, 2, low=0.0),
        }
        found = checked({"moved": np.zeros((units, 2)), **arrays}, expected, columns=columns)
        restored = cls(units, variance)
        restored.set_posterior(found["means"], found["roots"])
        restored._moved = found["moved"].copy()
        return restored


def sigmoid(m: float) -> float:
    """Return 1 / (1 + exp(-m)) without overflow."""
    if m >= 0.0:
        return 1.0 / (1.0 + math.exp(-m))
    return math.exp(m) / (1.0 + math.exp(m))


def log_sigmoid(m: float) -> float:
    """Return ln of `sigmoid`, also if `sigmoid` underflows."""
    return min(m, 0.0) - math.log1p(math.exp(-abs(m)))


@kernel
def _learn(
    means: Any, roots: Any, moved: Any, d: int, columns: Any, values: Any, targets: Any, weight: float, v: Any
) -> None:
    for u in range(targets.size):
        moved[u, 0] += _learn_unit(means[u], roots[u], d, columns, values, targets[u], weight, v)
        moved[u, 1] += 1.0


@kernel
def _any_due(moved: Any, far: float, least: float, most: float) -> bool:
    found = False
    for u in range(len(moved)):
        found |= moved[u, 1] >= most or (moved[u, 1] >= least and moved[u, 0] > far)
    return found


@inlined
def _learn_unit(
    mean: Any, S: Any, d: int, columns: Any, values: Any, target: float, weight: float, v: Any
) -> Any:
    """Update one unit by the module's formulas, with scratch v; return the squared step in deviations."""
    m0 = 0.0
    for j in range(d):
        v[j] = 0.0
    for i in range(columns.size):
        m0 += values[i] * mean[columns[i]]
        for j in range(d):
            v[j] += values[i] * S[columns[i], j]
    s = 0.0
    for j in range(d):
        s += v[j] * v[j]
    if s * weight == 0.0:
        return 0.0
    m = _mode(m0, s * weight, target)
    e = math.exp(-abs(m))
    a = weight * e / ((1.0 + e) * (1.0 + e))
    r = math.sqrt(1.0 + a * s)
    move, narrow = (m - m0) / s, a / (r * (r + 1.0))
    for i in range(d):
        g = 0.0
        for j in range(d):
            g += S[i, j] * v[j]
        mean[i] += move * g
        for j in range(d):
            S[i, j] -= narrow * g * v[j]
    return move * (m - m0)


@inlined
def _mode(m0: float, s: float, target: float) -> float:
    """Return the root of m - m0 - s (target - h(m)) by Newton's method between two bounds that close in.

    The left side rises in m. It is not below 0 at max(m0 + 1, ln s), where s (1 - h) <= s / exp(m) <= 1, and
    by symmetry not above 0 at min(m0 - 1, -ln s).
    """
    far = math.log(s)
    low, high = min(m0 - 1.0, -far), max(m0 + 1.0, far)
    m = m0
    for _ in range(200):
        e = math.exp(-abs(m))
        h = (1.0 if m >= 0.0 else e) / (1.0 + e)
        rise = m - m0 - s * (target - h)
        if rise > 0.0:
            high = m
        else:
            low = m
        closer = m - rise / (1.0 + s * e / ((1.0 + e) * (1.0 + e)))
        if not low < closer < high:
            closer = 0.5 * (low + high)
        if abs(closer - m) <= 1e-15 * abs(m) or closer in (low, high):
            return closer
        m = closer
    return m
