"""Sums over all acyclic graphs of n variables, in time 4^n, without a list of the graphs.

The weight of a graph is the product of the weights of its families, a variable and its parents. Every graph
has one sequence of layers: the first one holds the variables without parents, and each next layer holds the
variables with at least one parent in the layer before it and none outside the layers so far. With P the
variables of the layers so far and K the last layer, the graphs that complete them have the total weight

    G(P, K) = sum over L of G(P + L, L) prod over v in L of w(v, P, K)         G(all, K) = 1
    w(v, P, K) = Z(v, P) - Z(v, P - K)              Z(v, U): sum of v's family weights, parents within U

No term is negative, unlike in a sum by inclusion and exclusion. Sets of variables are bit masks, and all
weights are logarithms. The most probable graph is found by its last variable (Silander and Myllymaki 2006).

References: Tian and He (2009), "Computing posterior probabilities of structural features in Bayesian
networks", UAI; Kuipers and Moffa (2017), "Partition MCMC for inference on acyclic digraphs", JASA 112.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.statistics.counter_rng import choose, uniforms

Structure = tuple[int, ...]
"""Mask of the parents of each variable."""


class StructureSums:
    """Total weight, probabilities of edges, draws, and the best graph, from the weights of families.

    Args:
        scores: log weight by variable and mask of its parents, float64[n, 2^n]; -inf excludes a family.
    """

    def __init__(self, scores: Floats) -> None:
        self.scores = scores
        self._n = len(scores)
        self._size = np.array([mask.bit_count() for mask in range(1 << self._n)], dtype=np.int64)
        self._start = np.concatenate([[0], np.cumsum(1 << self._size)]).astype(np.int64)
        self._within = self._sums(scores)
        self._remaining = np.full(int(self._start[-1]), -np.inf)  # log G(P, K)
        self._remaining[self._start[-2] :] = 0.0
        for placed in reversed(range((1 << self._n) - 1)):
            steps, following = self._steps(placed)
            begin = self._start[placed]
            self._remaining[begin : begin + len(steps)] = _log_sum(steps + self._remaining[following])

    @property
    def log_total(self) -> float:
        """Log of the total weight of all graphs."""
        return float(self._remaining[0])

    def log_weight(self, structure: Structure) -> float:
        """Return the log weight of one acyclic graph."""
        return float(sum(self.scores[v, mask] for v, mask in enumerate(structure)))

    def edges(self) -> Floats:
        """Return the probability of each arrow u -> v, float64[u, v]."""
        n, found = self._n, np.zeros((self._n, self._n))
        holding = np.full((n, n, 1 << n), -np.inf)  # by u and v: families of v with u among the parents
        masks = np.arange(1 << n)
        for u in range(n):
            with_u = (masks >> u & 1).astype(bool)
            holding[u][:, with_u] = self.scores[:, with_u]
        holding = self._sums(holding.reshape(n * n, -1)).reshape(n, n, -1)
        reached = np.full(self._remaining.size, -np.inf)  # log weight of the layers so far
        reached[0] = 0.0
        for placed in range((1 << n) - 1):
            steps, following = self._steps(placed)
            begin = self._start[placed]
            arriving = steps + reached[begin : begin + len(steps), None]
            reached[following] = _log_sum(arriving.T)
            share = np.exp(arriving + self._remaining[following] - self.log_total)
            last = _subsets(placed)
            for v, has in self._members(placed):
                chance = share[:, has].sum(axis=1)
                every = self._joining(self._within[v], placed, last)
                for u in _bits(placed):
                    part = self._joining(holding[u, v], placed, last)
                    is_open = (chance > 0.0) & (part > -np.inf)
                    found[u, v] += float(chance[is_open] @ np.exp(part[is_open] - every[is_open]))
        return np.clip(found, 0.0, 1.0)

    def draw(self, counter: int, seed: int) -> Structure:
        """Return draw number `counter` from the graphs, in proportion to their weight."""
        chances = iter(uniforms(seed, counter * 2 * self._n, 2 * self._n).tolist())
        found, placed, last = [0] * self._n, 0, 0
        while placed < (1 << self._n) - 1:
            steps, following = self._steps(placed)
            row = int(self._rank(np.array([last]), np.array([placed]))[0])
            layer = _choose(steps[row] + self._remaining[following], next(chances))
            members = [v for v, has in self._members(placed) if has[layer]]
            for v in members:
                above = _subsets(placed)
                weights = np.where((above & last != 0) | (placed == 0), self.scores[v, above], -np.inf)
                found[v] = int(above[_choose(weights, next(chances))])
            last = sum(1 << v for v in members)
            placed |= last
        return tuple(found)

    def _sums(self, scores: Floats) -> Floats:
        """Return log sums over all subsets of each mask, along the last axis."""
        found = scores.copy()
        for i in range(self._n):
            masks = np.flatnonzero(np.arange(1 << self._n) >> i & 1)
            found[:, masks] = np.logaddexp(found[:, masks], found[:, masks ^ (1 << i)])
        return found

    def _steps(self, placed: int) -> tuple[Floats, Ints]:
        """Return the log weight of each next layer (columns) after each last layer (rows), and its state."""
        last = _subsets(placed)
        found = np.zeros((last.size, 1))
        layers = np.zeros(1, dtype=np.int64)
        for v in self._outside(placed):
            weights = self._joining(self._within[v], placed, last)
            found = np.concatenate([found, found + weights[:, None]], axis=1)
            layers = np.concatenate([layers, layers | 1 << v])
        after = layers | placed
        following = self._start[after] + self._rank(layers, after)
        return found[:, 1:], following[1:]

    def _members(self, placed: int) -> Iterator[tuple[int, Ints]]:
        """Yield each variable that is not placed, with the columns of `_steps` that it belongs to."""
        outside = self._outside(placed)
        columns = np.arange(1, 1 << len(outside))
        for i, v in enumerate(outside):
            yield v, (columns >> i & 1).astype(bool)

    def _outside(self, placed: int) -> list[int]:
        return [v for v in range(self._n) if not placed >> v & 1]

    def _joining(self, within: Floats, placed: int, last: Ints) -> Floats:
        """Return the log sum of families within `placed` with a parent in each last layer; all if empty."""
        if not placed:
            return within[[0]]
        whole, rest = within[placed], within[placed & ~last]
        with np.errstate(divide="ignore", invalid="ignore"):
            found = whole + np.log1p(-np.exp(np.minimum(rest - whole, 0.0)))
        return np.where((last > 0) & (whole > -np.inf), found, -np.inf)

    def _rank(self, subsets: Ints, sets: Ints) -> Ints:
        """Return the number of each subset among the subsets of its set, ascending."""
        found = np.zeros(subsets.size, dtype=np.int64)
        for i in range(self._n):
            found |= (subsets >> i & 1) << self._size[sets & (1 << i) - 1]
        return found


def best_structure(scores: Floats) -> Structure:
    """Return the best graph by scores as in `StructureSums`; ties go to the first family."""
    n = len(scores)
    most, at = scores.copy(), np.broadcast_to(np.arange(1 << n), scores.shape).copy()
    for i in range(n):
        masks = np.flatnonzero(np.arange(1 << n) >> i & 1)
        without = masks ^ (1 << i)
        better = most[:, without] >= most[:, masks]
        most[:, masks] = np.where(better, most[:, without], most[:, masks])
        at[:, masks] = np.where(better, at[:, without], at[:, masks])
    total = np.full(1 << n, -np.inf)
    total[0] = 0.0
    last = [0] * (1 << n)
    for placed in range(1, 1 << n):
        ways = [(total[placed ^ 1 << v] + most[v, placed ^ 1 << v], v) for v in _bits(placed)]
        total[placed], last[placed] = max(ways)
    found, placed = [0] * n, (1 << n) - 1
    while placed:
        v = last[placed]
        placed ^= 1 << v
        found[v] = int(at[v, placed])
    return tuple(found)


def _subsets(mask: int) -> Ints:
    """Return all subsets of a mask, ascending."""
    found = np.zeros(1, dtype=np.int64)
    for i in _bits(mask):
        found = np.concatenate([found, found | 1 << i])
    return found


def _bits(mask: int) -> list[int]:
    return [i for i in range(mask.bit_length()) if mask >> i & 1]


def _choose(log_weights: Floats, chance: float) -> int:
    return int(choose(log_weights - _log_sum(log_weights[None, :]), chance))


def _log_sum(rows: Floats) -> Floats:
    top = rows.max(axis=1)
    finite = np.where(top > -np.inf, top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(finite + np.log(np.exp(rows - finite[:, None]).sum(axis=1)))
