"""Maximum weighted spanning trees: the tree of all variables whose edges weigh most together."""

from __future__ import annotations

import numpy as np

from streamnb.model.compiled.arrays import Floats, Ints


def maximum_spanning_tree(weights: Floats) -> Ints:
    """The parent of each vertex in the tree that weighs most, -1 of the root, which is vertex 0.

    Prim's algorithm, in O(d^2): of all vertices outside, that with the heaviest edge to the tree is next; of
    equals the first, at that vertex of the tree which came into it first.

    Args:
        weights: float64[d, d], symmetric; the diagonal is not read.

    Examples:
        >>> maximum_spanning_tree(np.array([[0.0, 2.0, 1.0], [2.0, 0.0, 3.0], [1.0, 3.0, 0.0]])).tolist()
        [-1, 0, 1]

    References:
        Prim (1957), Bell System Technical Journal 36(6).
    """
    d = len(weights)
    parents = np.full(d, -1, dtype=np.int64)
    if d == 0:
        return parents
    best, outside = weights[0].copy(), np.arange(d) > 0
    parents[1:] = 0
    for _ in range(d - 1):
        vertex = int(np.argmax(np.where(outside, best, -np.inf)))
        outside[vertex] = False
        nearer = outside & (weights[vertex] > best)
        best[nearer] = weights[vertex][nearer]
        parents[nearer] = vertex
    return parents
