"""Markov equivalence: graphs that assert the same independences, which no counts can distinguish.

Two graphs are equivalent if they join the same pairs of variables and have the same colliders a -> c <- b
with a and b not joined (Verma and Pearl 1990). Their BDeu scores are equal.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import numpy as np

from streamnb.kernels.array_types import Ints
from streamnb.toolbox.bayesian_network.constraint_search import Name, Pair, oriented

ENUMERATED = 5
"""Number of variables up to which all graphs are listed: 29,281 of five."""


class StructureClass(NamedTuple):
    """A class of equivalent structures.

    Attributes:
        arrows: pairs (from, to) that have this direction in every structure of the class.
        lines: pairs that are joined in either direction.
        structure: parents by variable, in one structure of the class.
        probability: P(class | D).
        error: standard error of the probability; 0 if it is exact.
    """

    arrows: frozenset[Pair]
    lines: frozenset[Pair]
    structure: dict[Name, list[Name]]
    probability: float
    error: float


@lru_cache(maxsize=ENUMERATED + 1)
def all_graphs(n: int) -> Ints:
    """Return every acyclic graph of n variables: the mask of each variable's parents, int64[graphs, n]."""
    own = [[mask for mask in range(1 << n) if not mask >> v & 1] for v in range(n)]
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*own, indexing="ij")], axis=1)
    remaining = np.full(len(grid), (1 << n) - 1)
    for _ in range(n):  # remove variables without remaining parents: a cycle never loses one
        for v in range(n):
            remaining = np.where(grid[:, v] & remaining, remaining, remaining & ~(1 << v))
    return np.asarray(grid[remaining == 0])


def signatures(graphs: Ints) -> Ints:
    """Return joined pairs and colliders as bits, equal for equivalent graphs: int64[graphs, 2]."""
    n = graphs.shape[1]
    joined = np.zeros(len(graphs), dtype=np.int64)
    colliders = np.zeros(len(graphs), dtype=np.int64)
    apart = {}
    for i, (a, b) in enumerate(combinations(range(n), 2)):
        is_joined = (graphs[:, a] >> b | graphs[:, b] >> a) & 1
        joined |= is_joined << i
        apart[a, b] = 1 - is_joined
    triples = ((a, b, c) for a, b in apart for c in range(n) if c not in (a, b))
    for i, (a, b, c) in enumerate(triples):
        colliders |= (graphs[:, c] >> a & graphs[:, c] >> b & apart[a, b]) << i
    return np.stack([joined, colliders], axis=1)


def essential(parents: dict[Name, list[Name]]) -> tuple[frozenset[Pair], frozenset[Pair]]:
    """Return arrows and lines of the class of a structure, by Meek's rules."""
    beside = {
        name: [other for other in parents if other in parents[name] or name in parents[other]]
        for name in parents
    }
    parting = {
        (a, b): tuple(c for c in beside[a] if c in beside[b] and not {a, b} <= set(parents[c]))
        for a, b in combinations(parents, 2)
        if b not in beside[a]
    }
    found = oriented(tuple(parents), beside, parting)
    return found.arrows, found.lines
