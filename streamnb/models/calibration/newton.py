"""Newton's method on the regularised cross entropy, over events that can be read repeatedly.

    f(w) = sum over events of c (-d ln h - (1 - d) ln (1 - h))  +  1/2 sum over columns of w_j^2 / v_j
    gradient = sum c (h - d) x + w / v          Hessian = sum c h (1 - h) x x^T + diag(1 / v)

A pass sums value, gradient and Hessian at the current trial weights, and keeps no event. If f did not fall,
the step is halved: f is convex, so this converges to the unique optimum from any start.

Reference: Boyd and Vandenberghe (2004), Convex Optimization, section 9.5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from streamnb.kernels.array_types import Floats

Chunks = Callable[[], Iterable[tuple[Floats, Floats, Floats]]]
_ENOUGH = 1e-12  # relative decrease of f expected from the next step, below which the method stops


class Optimum(NamedTuple):
    """Result of the passes.

    Attributes:
        means: float64[units, columns], the weights.
        roots: float64[units, columns, columns], roots of the inverse Hessians: the Laplace approximation.
        values: float64[units], f.
        before: float64[units], f at the start.
        passes: number of passes.
        converged: True if a further pass would change only rounding.
    """

    means: Floats
    roots: Floats
    values: Floats
    before: Floats
    passes: int
    converged: bool


def optimum(start: Floats, chunks: Chunks, precision: float, passes: int) -> Optimum:
    """Minimise f for each unit separately, from weights float64[units, columns].

    Args:
        start: initial weights.
        chunks: yields all events at each call: rows (n, columns), targets (n, units), weights (n,).
        precision: 1 / v of every weight, greater than 0.
        passes: maximum number of passes, at least 1.

    Raises:
        ValueError: if `passes` is less than 1.
    """
    if passes < 1:
        raise ValueError(f"passes must be at least 1, not {passes}")
    units, columns = start.shape
    best, tried = start.copy(), start.copy()
    values, steps, roots = np.full(units, np.inf), np.zeros_like(start), np.zeros((units, columns, columns))
    lengths, done = np.ones(units), np.zeros(units, dtype=bool)
    before, made = values, 0
    while made < passes and not done.all():
        value, gradient, hessian = _pass(tried, chunks, precision)
        if made == 0:
            before = value
        made += 1
        for u in np.flatnonzero(~done):  # units are independent of each other
            if not value[u] <= values[u] + 1e-15 * abs(values[u]):
                lengths[u] /= 2.0
                continue
            best[u], values[u], lengths[u] = tried[u], value[u], 1.0
            roots[u] = _root_of_inverse(hessian[u])
            steps[u] = roots[u] @ (roots[u].T @ gradient[u])
            done[u] = gradient[u] @ steps[u] / 2.0 <= _ENOUGH * (1.0 + value[u])
        tried = best - lengths[:, None] * steps
    return Optimum(np.where(done[:, None], tried, best), roots, values, before, made, bool(done.all()))


def _pass(weights: Floats, chunks: Chunks, precision: float) -> tuple[Floats, Floats, Floats]:
    """Return f, its gradient and its Hessian for each unit."""
    value = 0.5 * precision * np.square(weights).sum(axis=1)
    gradient = precision * weights
    hessian = np.tile(precision * np.eye(weights.shape[1]), (len(weights), 1, 1))
    for rows, targets, weigh in chunks():
        nets = rows @ weights.T
        e = np.exp(-np.abs(nets))
        # Sum d and 1 - d separately: ln (1 - h) of a confident unit would be lost next to m.
        value += weigh @ (targets * np.maximum(-nets, 0.0) + (1.0 - targets) * np.maximum(nets, 0.0))
        value += weigh @ np.log1p(e)
        gradient += ((np.where(nets >= 0.0, 1.0, e) / (1.0 + e) - targets).T * weigh) @ rows
        curvature = (e.T / np.square(1.0 + e.T) * weigh).T
        for u in range(len(weights)):
            hessian[u] += (rows.T * curvature[:, u]) @ rows
    return value, gradient, hessian


def _root_of_inverse(hessian: Floats) -> Floats:
    """Return F with F F^T = H^-1; eigenvalues below the rounding error are raised to it."""
    scale = 1.0 / np.sqrt(hessian.diagonal())
    scaled = hessian * scale * scale[:, None]
    try:
        factor = np.linalg.cholesky(scaled)
        if np.square(factor.diagonal()).min() > 1e6 * scale.size**2 * 2.0**-52:  # well conditioned
            return scale[:, None] * np.linalg.inv(factor).T
    except np.linalg.LinAlgError:
        pass
    values, vectors = np.linalg.eigh(scaled)
    root: Floats = scale[:, None] * vectors
    root /= np.sqrt(np.maximum(values, values.size * 2.0**-52 * values[-1]))
    return root
