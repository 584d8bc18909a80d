"""Posterior over all structures of a Bayesian network, weighted by counts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.toolbox.bayesian_network.dag import Dag
from streamnb.toolbox.bayesian_network.independence import log_evidence
from streamnb.toolbox.bayesian_network.joint_table import JointTable
from streamnb.toolbox.bayesian_network.markov_equivalence import (
    ENUMERATED,
    StructureClass,
    all_graphs,
    essential,
    signatures,
)
from streamnb.toolbox.bayesian_network.network import BayesianNetwork
from streamnb.toolbox.bayesian_network.structure_sums import Structure, StructureSums, best_structure
from streamnb.toolbox.posterior.conjugate import positive
from streamnb.values.example_weights import HEAVIEST
from streamnb.values.parameter_checks import check_whole
from streamnb.values.savable import Savable
from streamnb.values.state_validation import check_made, state_errors
from streamnb.values.type_aliases import Array, State

Name = Hashable
Counts = Ints | Floats
MOST_VARIABLES = 12
"""Exact sums over all structures take time 4^n."""


class StructurePosterior(Savable):
    """P(G | D) over all structures G of a Bayesian network: every acyclic graph over the variables.

        P(G | D) ~ P(D | G)        P(D | G) from the counts (BDeu, see `independence`), P(G) uniform

    Examples are counted in one joint table, and the posterior is computed from the counts on read. So the
    order of the stream changes nothing, and unlearning is exact. Edges of different directions can be
    equivalent, and then have equal probability: `edges` and `classes` report such ambiguity.

        up to 5 variables     `probabilities` lists every structure; all results are exact
        up to 12 variables    `probability`, `edges` and `map` are exact sums over all structures (see
                              `structure_sums`); `classes` estimates by independent draws, with its error
        more                  refused; `JointTable.structure` finds one structure by tests

    Args:
        variables: values by name.
        parents: maximum number of parents of a variable; structures with more have probability 0. None: no
            maximum. With a maximum some members of a class of equivalent structures may be excluded.
        weight: equivalent sample size of the prior of each table.

    Raises:
        ValueError: if a parameter is out of range, or there is not at least one variable, or more than 12,
            or more than 2^26 combinations of values.

    Examples:
        A lamp that is lit if at least one of two switches is on:

        >>> from streamnb import StructurePosterior
        >>> lamp = StructurePosterior({"one": [0, 1], "two": [0, 1], "lit": [0, 1]})
        >>> for i in range(64):
        ...     one, two = i % 2, i // 2 % 2
        ...     lamp.learn_one({"one": one, "two": two, "lit": one | two})
        >>> lamp.map()
        {'one': [], 'two': [], 'lit': ['one', 'two']}
        >>> round(lamp.edges()["one", "lit"], 3), round(lamp.edges()["lit", "one"], 3)
        (0.849, 0.151)

    References:
        Heckerman, Geiger and Chickering (1995), Machine Learning 20; Koller and Friedman (2009), chapter 18;
        Tian and He (2009), UAI.
    """

    def __init__(
        self, variables: Mapping[Name, Sequence[Any]], parents: int | None = None, weight: float = 1.0
    ) -> None:
        if parents is not None:
            check_whole("parents", parents, 0)
        self.variables, self.parents = variables, parents
        self.weight = positive("weight", weight)
        self.table = JointTable(variables)
        """Counts, for general queries."""
        self._names = tuple(self.table.variables)
        if not self._names:
            raise ValueError("variables: expected at least one variable")
        if len(self._names) > MOST_VARIABLES:
            raise ValueError(
                f"{len(self._names)} variables exceed the {MOST_VARIABLES} of a sum over all structures; "
                "JointTable.structure finds one structure by tests of independence"
            )
        self._cached: StructureSums | None = None

    @property
    def probabilities(self) -> list[tuple[dict[Any, list[Any]], float]]:
        """(parents by variable, P(G | D)) of every structure, the most probable first; they sum to 1.

        Raises ValueError above 5 variables, which have too many structures for a list.
        """
        graphs, shares = self._enumerated()
        order = np.argsort(-shares, kind="stable")
        return [(self._named(graphs[i]), float(shares[i])) for i in order]

    def probability(self, structure: Mapping[Name, Sequence[Name]]) -> float:
        """Return P(G | D) of a structure, parents by variable. Raises ValueError if it is invalid."""
        sums = self._sums()
        return math.exp(sums.log_weight(self._masks(structure)) - sums.log_total)

    def edges(self) -> dict[tuple[Any, Any], float]:
        """Return P(G has the arrow a -> b | D) by (a, b): the sum over all structures that have it.

        The sum of both directions is the probability that the two variables are joined.
        """
        found = self._sums().edges()
        pairs = ((u, v) for u in range(len(self._names)) for v in range(len(self._names)) if u != v)
        return {(self._names[u], self._names[v]): float(found[u, v]) for u, v in pairs}

    def classes(self, draws: int = 1000, seed: int = 0) -> list[StructureClass]:
        """Return the classes of Markov equivalent structures, the most probable first.

        Args:
            draws: number of draws above 5 variables. A probability is then the share p of the draws, with the
                standard error sqrt(p (1 - p) / draws), and classes that no draw meets are absent.
            seed: seed of the draws.
        """
        check_whole("draws", draws, 1)
        if len(self._names) <= ENUMERATED:
            graphs, shares = self._enumerated()
        else:
            drawn = Counter(self._sums().draw(counter, seed) for counter in range(draws))
            graphs = np.array(list(drawn), dtype=np.int64)
            shares = np.array(list(drawn.values())) / draws
        keys, first, place = np.unique(signatures(graphs), axis=0, return_index=True, return_inverse=True)
        totals = np.bincount(place.ravel(), weights=shares, minlength=len(keys))
        found = []
        for i in np.argsort(-totals, kind="stable"):
            structure, p = self._named(graphs[first[i]]), float(min(totals[i], 1.0))
            error = 0.0 if len(self._names) <= ENUMERATED else math.sqrt(p * (1.0 - p) / draws)
            found.append(StructureClass(*essential(structure), structure, p, error))
        return found

    def draw(self, counter: int, seed: int = 0) -> dict[Any, list[Any]]:
        """Return a structure drawn from P(G | D); equal `counter` and `seed` give the same draw."""
        return self._named(self._sums().draw(counter, seed))

    def map(self) -> dict[Any, list[Any]]:
        """Return the parents by variable of a most probable structure.

        Equivalent structures are equally probable. Of these, arrows mostly lead from earlier to later
        variables.
        """
        return self._named(best_structure(self._sums().scores))

    def network(self, alpha: float = 1.0) -> BayesianNetwork:
        """Return the network of the most probable structure, with tables counted from all examples."""
        network = BayesianNetwork(self.map(), values=self.table.variables, alpha=alpha)
        for x, n in self.table.examples():
            for done in range(0, math.ceil(n), HEAVIEST):  # the largest weight of one call
                network.learn_one(x, min(n - done, HEAVIEST))
        return network

    def learn_one(self, x: Mapping[Name, Any], w: float = 1.0) -> None:
        """Count an example. Errors as of `JointTable.learn_one`."""
        self.table.learn_one(x, w)
        self._cached = None

    def unlearn_one(self, x: Mapping[Name, Any], w: float = 1.0) -> None:
        """Subtract an example's counts exactly. Raises UnlearnError."""
        self.table.unlearn_one(x, w)
        self._cached = None

    def state(self) -> State:
        """Return the counts. Raises TypeError for names that JSON cannot hold."""
        meta, arrays = self.table.state()
        return {"type": type(self).__name__, "table": meta}, arrays

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace all state; return self. Raises SnapshotError, and changes nothing, if it is invalid."""
        check_made(meta, type=type(self).__name__)
        with state_errors("a posterior over structures", ValueError):
            self.table.load_state(meta["table"], arrays)
        self._cached = None
        return self

    def _enumerated(self) -> tuple[Ints, Floats]:
        """Return all graphs and their probabilities."""
        if len(self._names) > ENUMERATED:
            raise ValueError(
                f"the structures of {len(self._names)} variables are too many to list (more than "
                f"{ENUMERATED} variables): call edges, classes, or probability of one structure"
            )
        graphs, scores = all_graphs(len(self._names)), self._sums().scores
        logs = scores[np.arange(len(self._names)), graphs].sum(axis=1)
        shares = np.exp(logs - logs.max())
        return graphs, shares / math.fsum(shares)

    def _named(self, structure: Sequence[int]) -> dict[Any, list[Any]]:
        pairs = zip(self._names, structure, strict=True)
        return {name: [other for i, other in enumerate(self._names) if mask >> i & 1] for name, mask in pairs}

    def _masks(self, parents: Mapping[Name, Sequence[Name]]) -> Structure:
        dag = Dag(parents)
        if set(dag.names) != set(self._names):
            raise ValueError(f"expected the parents of {list(self._names)}, found {list(parents)}")
        number = {name: i for i, name in enumerate(self._names)}
        return tuple(sum(1 << number[above] for above in parents[name]) for name in self._names)

    def _sums(self) -> StructureSums:
        if self._cached is None:
            self._cached = StructureSums(family_scores(self.table.counts, self.parents, self.weight))
        return self._cached


def family_scores(counts: Counts, parents: int | None, weight: float) -> Floats:
    """Return the log evidence of each family: of parents and variable, minus the evidence of parents.

    Args:
        counts: joint table, an axis for each of n variables, in units of 1/1024 example.
        parents: maximum number of parents; None: no maximum.
        weight: equivalent sample size of the prior of each table.

    Returns:
        float64[n, 2^n] by variable and mask of its parents; -inf if it is among them, or they are too many.
    """
    n = counts.ndim
    most = n if parents is None else parents
    found = np.full((n, 1 << n), -np.inf)
    of_set = dict(_evidences(counts, (1 << n) - 1, n, most + 1, weight))
    for mask in (mask for mask in of_set if mask.bit_count() <= most):
        for v in (v for v in range(n) if not mask >> v & 1):
            found[v, mask] = of_set[mask | 1 << v] - of_set[mask]
    return found


def _evidences(
    counts: Counts, mask: int, first: int, most: int, weight: float
) -> Iterator[tuple[int, float]]:
    """Yield the log evidence of each set of at most `most` variables that lacks none from `first` on.

    Each table is summed from one with another variable: 3^n cells in all for n variables of two values.
    """
    if mask.bit_count() <= most:
        yield mask, log_evidence(counts, weight)
    for v in range(first):  # the axes below `first` are all present, so v is axis v
        yield from _evidences(np.asarray(counts.sum(axis=v)), mask ^ 1 << v, v, most, weight)
