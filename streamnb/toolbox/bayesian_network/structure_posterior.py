"""Posterior over candidate structures of a Bayesian network, weighted by counts."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import combinations, permutations
from typing import Any, Self

from streamnb.errors import SnapshotError
from streamnb.toolbox.bayesian_network.dag import Dag, ancestors
from streamnb.toolbox.bayesian_network.joint_table import JointTable
from streamnb.toolbox.bayesian_network.network import BayesianNetwork
from streamnb.toolbox.posterior.conjugate import positive
from streamnb.values.example_weights import HEAVIEST
from streamnb.values.parameter_checks import check_whole
from streamnb.values.savable import Savable
from streamnb.values.state_validation import check_made, plain, state_errors
from streamnb.values.type_aliases import Array, State

Name = Hashable
_ROUNDING = 1e-9
Structure = tuple[tuple[int, ...], ...]
"""Numbers of the parents of each variable, ascending."""


class StructurePosterior(Savable):
    """P(G | D) over candidate structures G of a Bayesian network, proposed during the stream.

        P(G | D) ~ P(G) P(D | G)        P(D | G) from the counts (see `independence`), P(G) uniform

    All examples are counted in one joint table. So a late candidate is weighted by the whole stream, and the
    order of the stream does not change the posterior of a set of candidates. Candidates are proposed after
    `first`, 2 `first`, 4 `first` examples and so on, and by `propose`. They are the results of hill climbing,
    by single edges or by two parents at once, from the most probable candidate, from the empty structure, and
    from the structure found by tests of independence (see `JointTable.structure`). The most probable ones are
    kept.

    Args:
        variables: values by name.
        parents: maximum number of parents of a variable.
        candidates: number of structures that are kept.
        weight: equivalent sample size of the prior of each table.
        first: number of examples before the first proposal.

    Raises:
        ValueError: if a parameter is out of range, or there are more than 2^26 combinations of values.

    Examples:
        A lamp that is lit if at least one of two switches is on:

        >>> from streamnb import StructurePosterior
        >>> lamp = StructurePosterior({"one": [0, 1], "two": [0, 1], "lit": [0, 1]}, first=8)
        >>> for i in range(64):
        ...     one, two = i % 2, i // 2 % 2
        ...     lamp.learn_one({"one": one, "two": two, "lit": one | two})
        >>> lamp.map()
        {'one': [], 'two': [], 'lit': ['one', 'two']}

    References:
        Heckerman, Geiger and Chickering (1995), Machine Learning 20; Koller and Friedman (2009), chapter 18.
    """

    def __init__(
        self,
        variables: Mapping[Name, Sequence[Any]],
        parents: int = 3,
        candidates: int = 16,
        weight: float = 1.0,
        first: int = 64,
    ) -> None:
        check_whole("parents", parents, 0)
        check_whole("candidates", candidates, 1)
        check_whole("first", first, 1)
        self.variables, self.parents, self.candidates = variables, parents, candidates
        self.weight = positive("weight", weight)
        self.first = first
        self.table = JointTable(variables)
        """Counts, for general queries."""
        self._names = tuple(self.table.variables)
        self._kept: list[Structure] = [((),) * len(self._names)]
        self._next = first
        self._scores: dict[tuple[int, tuple[int, ...]], float] = {}  # cached scores of families

    @property
    def probabilities(self) -> list[tuple[dict[Any, list[Any]], float]]:
        """(parents by variable, P(G | D)) of each candidate, the most probable first; they sum to 1."""
        logs = [self._score(one) for one in self._kept]
        most = max(logs)
        shares = [math.exp(log - most) for log in logs]
        ordered = sorted(zip(self._kept, shares, strict=True), key=lambda pair: -pair[1])
        return [(self._named(one), share / math.fsum(shares)) for one, share in ordered]

    def probability(self, structure: Mapping[Name, Sequence[Name]]) -> float:
        """Return P(G | D), 0 if G is not a candidate. Raises ValueError for an invalid structure."""
        wanted = self._numbered(structure)
        return next((p for one, p in self.probabilities if self._numbered(one) == wanted), 0.0)

    def map(self) -> dict[Any, list[Any]]:
        """Return the parents by variable of the most probable candidate; ties go to the first proposed."""
        return self.probabilities[0][0]

    def network(self, alpha: float = 1.0) -> BayesianNetwork:
        """Return the network of the most probable structure, with tables counted from all examples."""
        network = BayesianNetwork(self.map(), values=self.table.variables, alpha=alpha)
        for x, n in self.table.examples():
            for done in range(0, math.ceil(n), HEAVIEST):  # the largest weight of one call
                network.learn_one(x, min(n - done, HEAVIEST))
        return network

    def learn_one(self, x: Mapping[Name, Any], w: float = 1.0) -> None:
        """Count an example; propose structures at the next doubling. Errors as of `JointTable.learn_one`."""
        self.table.learn_one(x, w)
        self._scores.clear()
        if self.table.n_examples >= self._next:
            self.propose()
            self._next *= 2

    def unlearn_one(self, x: Mapping[Name, Any], w: float = 1.0) -> None:
        """Subtract an example's counts exactly; earlier proposals stay. Raises UnlearnError."""
        self.table.unlearn_one(x, w)
        self._scores.clear()

    def propose(self) -> None:
        """Propose structures from all examples, and keep the most probable ones."""
        given = self._numbered(self.table.structure(self.parents, self.weight).parents())
        starts = [self._numbered(self.map()), ((),) * len(self._names), given]
        found = dict.fromkeys(self._kept)
        for one in starts:
            if all(len(above) <= self.parents for above in one):
                found.update(dict.fromkeys(self._climbed(one)))
        self._kept = sorted(found, key=lambda one: -self._score(one))[: self.candidates]

    def state(self) -> State:
        """Return counts and candidates. Raises TypeError for names that JSON cannot hold."""
        meta, arrays = self.table.state()
        kept = [
            [[plain(name) for name in above] for above in self._named(one).values()] for one in self._kept
        ]
        return {"type": type(self).__name__, "table": meta, "kept": kept, "next": self._next}, arrays

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace all state; return self. Raises SnapshotError, and changes nothing, if it is invalid."""
        check_made(meta, type=type(self).__name__)
        with state_errors("a posterior over structures", ValueError):
            parents = (dict(zip(self._names, one, strict=True)) for one in meta["kept"])
            kept = [self._numbered(one) for one in parents]
            moment = meta["next"]
            if not kept or type(moment) is not int or not moment > 0:
                raise SnapshotError(
                    f"{len(kept)} candidates, and the next proposal after {moment!r} examples"
                )
            self.table.load_state(meta["table"], arrays)
        self._kept, self._next = kept, moment
        self._scores.clear()
        return self

    def _named(self, structure: Structure) -> dict[Any, list[Any]]:
        pairs = zip(self._names, structure, strict=True)
        return {name: [self._names[u] for u in above] for name, above in pairs}

    def _numbered(self, parents: Mapping[Name, Sequence[Name]]) -> Structure:
        dag = Dag(parents)
        if set(dag.names) != set(self._names):
            raise ValueError(f"expected the parents of {list(self._names)}, found {list(parents)}")
        number = {name: i for i, name in enumerate(self._names)}
        return tuple(tuple(sorted(number[above] for above in parents[name])) for name in self._names)

    def _score(self, structure: Structure) -> float:
        return math.fsum(self._family_score(v, above) for v, above in enumerate(structure))

    def _family_score(self, v: int, above: tuple[int, ...]) -> float:
        if (v, above) not in self._scores:
            parents = [self._names[u] for u in above]
            self._scores[v, above] = self.table.family_score(self._names[v], parents, self.weight)
        return self._scores[v, above]

    def _climbed(self, structure: Structure) -> Iterator[Structure]:
        """Yield each structure on the way up: the best change of one edge while the score improves.

        If none improves it, two parents at once: in an exclusive or, a single parent has no effect.
        """
        yield structure
        while True:
            best = self._score(structure)
            ways = (self._neighbours(structure), self._with_two_more(structure))
            steps = (max(way, key=self._score, default=structure) for way in ways)
            ahead = next((step for step in steps if self._score(step) > best + _ROUNDING), None)
            if ahead is None:
                return
            structure = ahead
            yield structure

    def _neighbours(self, structure: Structure) -> Iterator[Structure]:
        for u, v in permutations(range(len(structure)), 2):
            if u in structure[v]:
                without = _with(structure, v, tuple(w for w in structure[v] if w != u))
                yield without
                yield from self._joined(without, v, u)
            elif v not in structure[u]:
                yield from self._joined(structure, u, v)

    def _with_two_more(self, structure: Structure) -> Iterator[Structure]:
        for v in range(len(structure)):
            for u, w in combinations([u for u in range(len(structure)) if u not in (v, *structure[v])], 2):
                for one in self._joined(structure, u, v):
                    yield from self._joined(one, w, v)

    def _joined(self, structure: Structure, u: int, v: int) -> Iterator[Structure]:
        """Yield the structure with u -> v added, unless that makes a cycle or too many parents."""
        if len(structure[v]) < self.parents and v not in ancestors(structure, [u]):
            yield _with(structure, v, tuple(sorted((*structure[v], u))))


def _with(structure: Structure, v: int, above: tuple[int, ...]) -> Structure:
    return (*structure[:v], above, *structure[v + 1 :])
