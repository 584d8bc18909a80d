"""Least squares weights from co-moments by the sweep operator, at full rank or below.

    minimise  sum (d - w^T x - b)^2 + l2 |w|^2   <=>   (M_xx + l2 I) w = M_xy,  b = mean(d) - w^T mean(x)

Sweeping the co-moments of target and attributes on an attribute k is one step of Gauss-Jordan elimination,

    A_ij -= A_ik A_jk / A_kk    A_ik /= A_kk    A_kk = -1 / A_kk

after which the block of the swept attributes is -M^-1. The column of the target holds their weights, its
diagonal element the residual sum of squares, and the column of an unswept attribute its regression on the
swept ones. The next attribute to sweep is the attribute that the swept ones explain least. An attribute
explained to 1e-24 of its squares (1e-12 of its spread) counts as a linear combination of them: of all weights
that fit equally, the weights of least norm are then taken, as `lstsq` does.

The normal equations square the condition number. So all steps use the 106 bits of the co-moments, which
leaves more accuracy than an orthogonal decomposition of the events in doubles.

Reference: Goodnight (1979), A tutorial on the SWEEP operator, The American Statistician 33(3).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Floats
from streamnb.kernels.jit import inlined, kernel
from streamnb.statistics.double_double import add, divide, multiply
from streamnb.toolbox.linear.comoments import CoMoments
from streamnb.values.type_aliases import Flags

_EXPLAINED = 1e-24


class Fit(NamedTuple):
    """A least squares solution.

    Attributes:
        n: weight learned, in examples.
        weights: float64[d].
        mean: float64[d], mean of the attributes.
        mean_low: float64[d], low parts of the mean.
        target: mean of the targets.
        squares: sum of squared residuals.
        swept: bool[d], attributes that are not linear combinations of other swept ones.
    """

    n: float
    weights: Floats
    mean: Floats
    mean_low: Floats
    target: float
    squares: float
    swept: Flags

    @property
    def rank(self) -> int:
        """Rank of the attributes: the number of linearly independent directions that varied."""
        return int(np.count_nonzero(self.swept))

    def predict(self, x: Floats) -> float:
        """Return w^T x + b, computed about the mean, so that large offsets cancel before the product."""
        return float(self.target + self.weights @ ((x - self.mean) - self.mean_low))


def fit(moments: CoMoments, l2: float) -> Fit:
    """Return the least squares regression of the first column on all other columns."""
    A, A_low = moments.M.copy(), moments.M_low.copy()
    swept = np.zeros(len(A), dtype=np.bool_)
    _sweep(A, A_low, l2, swept, A.diagonal() + l2)
    swept = swept[1:]
    weights = np.where(swept, A[1:, 0], 0.0)
    squares = float(A[0, 0]) - l2 * float(weights @ weights)
    if not swept.all():
        weights = _least_norm(weights, swept, A[1:, 1:][swept][:, ~swept])
    mean, low = moments.mean, moments.mean_low
    target = float(mean[0])
    return Fit(moments.n, weights, mean[1:], low[1:], target, max(squares, 0.0), swept)


def _least_norm(weights: Floats, swept: Flags, explained: Floats) -> Floats:
    """Return the weights of least norm: remove their component in the null space of the design."""
    free = np.zeros((weights.size, explained.shape[1]))
    free[swept] = -explained
    free[~swept] = np.eye(explained.shape[1])
    basis = np.linalg.qr(free / np.linalg.norm(free, axis=0))[0]
    for _ in range(2):  # twice, because of rounding
        weights = weights - basis @ (basis.T @ weights)
    return weights


@kernel
def _sweep(A: Any, low: Any, l2: float, swept: Any, before: Any) -> None:
    """Add l2 to the diagonal except row 0 (`before` is the result), and sweep all unexplained rows."""
    d = A.shape[0]
    for k in range(1, d):
        A[k, k], low[k, k] = add(A[k, k], low[k, k], l2, 0.0)
    for _ in range(1, d):
        k, most = 0, _EXPLAINED
        for i in range(1, d):
            if not swept[i] and A[i, i] > most * before[i]:
                k, most = i, A[i, i] / before[i]
        if k == 0:
            return
        swept[k] = True
        _sweep_on(A, low, k)


@inlined
def _sweep_on(A: Any, low: Any, k: int) -> None:
    """Sweep row k, see the module's formula; row k and column k keep their old values until the end."""
    D, D_low = A[k, k], low[k, k]
    for i in range(A.shape[0]):
        if i != k:
            q, q_low = divide(A[i, k], low[i, k], D, D_low)
            for j in range(i + 1):
                if j != k:
                    p, e = multiply(q, q_low, A[k, j], low[k, j])
                    A[i, j], low[i, j] = add(A[i, j], low[i, j], -p, -e)
                    A[j, i], low[j, i] = A[i, j], low[i, j]
            A[i, k], low[i, k] = q, q_low
    for i in range(A.shape[0]):
        A[k, i], low[k, i] = A[i, k], low[i, k]
    A[k, k], low[k, k] = divide(-1.0, 0.0, D, D_low)
