"""Structural EM: the structure and the tables of a network, from events with gaps.

    E   expected joint counts of all events, with their gaps filled under the current network
    M   tables: posterior means of these counts; at the fixed point of both steps also the structure: the most
        probable one of the expected counts (BDeu, exact up to 12 variables)

until the structure stays. The E step needs the joint table of the network and one pass over the *patterns*:
the distinct events, which are at most prod (values + 1), however long the stream is. So the order of the
stream changes nothing, and unlearning is exact.

Reference: Friedman (1998), "The Bayesian structural EM algorithm", UAI.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from itertools import product
from typing import Any, Self

import numpy as np

from streamnb.errors import UnlearnError
from streamnb.kernels.array_types import Floats
from streamnb.toolbox.bayesian_network.dag import Dag
from streamnb.toolbox.bayesian_network.joint_table import JointTable
from streamnb.toolbox.bayesian_network.network import BayesianNetwork
from streamnb.toolbox.bayesian_network.structure_posterior import MOST_VARIABLES, family_scores
from streamnb.toolbox.bayesian_network.structure_sums import Structure, best_structure
from streamnb.toolbox.posterior.conjugate import positive
from streamnb.values.example_weights import UNIT, units
from streamnb.values.nominal_values import as_event, value_text
from streamnb.values.number_ranges import is_missing
from streamnb.values.parameter_checks import check_whole
from streamnb.values.savable import Savable
from streamnb.values.state_validation import (
    check_made,
    checked,
    counts,
    real,
    reject,
    state_errors,
    whole,
)
from streamnb.values.type_aliases import Array, State

Name = Hashable
_GAP = -1
_STILL = 1e-9  # largest change of a probability that ends EM
_MOST_CELLS = 1 << 20


class StructuralEM(Savable):
    """The most probable structure of a network, and its tables, from events with gaps.

    Without gaps the result is that of `StructurePosterior`: the counts are the expected counts, and one
    structure step is exact. With gaps the structure is a fixed point, which may be a local optimum. The
    search starts from all arrows, so that filled gaps show every dependence of the known values. A variable
    that no event has stays independent of all others.

    Args:
        variables: values by name; any other value counts as missing.
        parents: maximum number of parents of a variable. None: no maximum.
        weight: equivalent sample size of the prior of each table.

    Raises:
        ValueError: if a parameter is out of range, there is not at least one variable, or more than 12, or
            more than 2^20 combinations of values.

    Examples:
        A lamp that is lit if at least one of two switches is on; every third time one switch was not seen:

        >>> from streamnb import StructuralEM
        >>> lamp = StructuralEM({"one": [0, 1], "two": [0, 1], "lit": [0, 1]})
        >>> for i in range(96):
        ...     one, two = i % 2, i // 2 % 2
        ...     lamp.learn_one({"one": one, "two": None if i % 3 == 0 else two, "lit": one | two})
        >>> lamp.climb()
        >>> lamp.structure["lit"]
        ['one', 'two']
        >>> round(lamp.network().probability({"lit": 1}, given={"one": 0, "two": 0}), 2)
        0.01
    """

    def __init__(
        self, variables: Mapping[Name, Sequence[Any]], parents: int | None = None, weight: float = 1.0
    ) -> None:
        if parents is not None:
            check_whole("parents", parents, 0)
        self.variables, self.parents = variables, parents
        self.weight = positive("weight", weight)
        values = JointTable(variables).variables
        self._names = tuple(values)
        if not 1 <= len(self._names) <= MOST_VARIABLES:
            raise ValueError(f"variables: expected from 1 to {MOST_VARIABLES}, got {len(self._names)}")
        self._values = values
        self._shape = tuple(map(len, values.values()))
        if math.prod(self._shape) > _MOST_CELLS:
            raise ValueError(f"{math.prod(self._shape):,} combinations of values exceed {_MOST_CELLS:,}")
        self._patterns: dict[tuple[int, ...], int] = {}  # codes, -1 for a gap; weight in units
        self._masks: Structure = (0,) * len(self._names)
        self._joint: Floats = np.full(self._shape, 1.0 / math.prod(self._shape))

    @property
    def structure(self) -> dict[Any, list[Any]]:
        """Parents by variable, as of the last `climb`."""
        return {
            name: [other for i, other in enumerate(self._names) if mask >> i & 1]
            for name, mask in zip(self._names, self._masks, strict=True)
        }

    @property
    def log_likelihood(self) -> float:
        """Log P of the known values of all events under the network of the last `climb`, in nats."""
        parts = ((weight / UNIT, self._joint[_at(codes)].sum()) for codes, weight in self._patterns.items())
        return math.fsum(weight * math.log(p) for weight, p in parts)

    def learn_one(self, x: Mapping[Name, Any], w: float = 1.0) -> None:
        """Count an event `w` times (steps of 1/1024); `climb` fills its gaps."""
        self._count(x, units(w))

    def unlearn_one(self, x: Mapping[Name, Any], w: float = 1.0) -> None:
        """Undo ``learn_one(x, w)`` exactly, or raise UnlearnError and change nothing."""
        self._count(x, -units(w))

    def climb(self, steps: int = 1000) -> None:
        """Search from the structure with all arrows: EM, then the best structure, until it stays.

        Args:
            steps: maximum number of steps of EM for each structure.
        """
        check_whole("steps", steps, 1)
        masks: Structure = tuple((1 << v) - 1 for v in range(len(self._names)))
        joint, visited = np.full(self._shape, 1.0 / math.prod(self._shape)), set[Structure]()
        while masks not in visited:
            visited.add(masks)
            for _ in range(steps):
                filled, before = self._filled(joint), joint
                joint = self._product(masks, filled)
                if np.abs(joint - before).max() <= _STILL:
                    break
            self._masks, self._joint = masks, joint
            scores = family_scores(filled, self.parents, self.weight)
            best = best_structure(scores)
            if _score(scores, best) > _score(scores, masks) + _STILL:
                masks = best

    def network(self) -> BayesianNetwork:
        """Return the network of the last `climb`, with its tables declared."""
        tables: dict[Any, Any] = {}
        for v, (name, above) in enumerate(self.structure.items()):
            values = [self._values[other] for other in (*above, name)]
            rows = np.moveaxis(self._conditional(v, self._masks[v], self._joint, 0.0), v, -1)
            shares = rows.reshape(-1, len(values[-1])).tolist()
            named = [dict(zip(values[-1], row, strict=True)) for row in shares]
            tables[name] = dict(zip(product(*values[:-1]), named, strict=True)) if above else named[0]
        return BayesianNetwork(self.structure, values=self._values, tables=tables)

    def state(self) -> State:
        """Return the patterns, and the result of the last `climb`."""
        codes = np.array(list(self._patterns), dtype=np.int64).reshape(-1, len(self._names))
        return {"type": type(self).__name__}, {
            "codes": codes,
            "weights": np.array(list(self._patterns.values()), dtype=np.int64),
            "parents": np.array(self._masks, dtype=np.int64),
            "joint": self._joint.copy(),
        }

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace all state; return self. Raises SnapshotError, and changes nothing, if it is invalid."""
        check_made(meta, type=type(self).__name__)
        n = len(self._names)
        expected = {
            "codes": whole("patterns", n, low=_GAP, high=np.array(self._shape) - 1),
            "weights": counts("patterns"),
            "parents": whole(n, low=0, high=(1 << n) - 1),
            "joint": real(*self._shape, low=0.0, high=1.0),
        }
        found = checked(arrays, expected)
        reject("joint", abs(found["joint"].sum() - 1.0) > _STILL, "probabilities that do not sum to 1")
        reject("joint", found["joint"] <= 0.0, "a probability of 0")
        patterns = dict(zip(map(tuple, found["codes"].tolist()), found["weights"].tolist(), strict=True))
        reject("codes", len(patterns) < len(found["codes"]), "a pattern occurs twice")
        masks = tuple(found["parents"].tolist())
        with state_errors("structural EM", ValueError):
            Dag({v: [u for u in range(n) if mask >> u & 1] for v, mask in enumerate(masks)})
        self._patterns, self._masks, self._joint = patterns, masks, found["joint"]
        return self

    def _count(self, x: Mapping[Name, Any], weight: int) -> None:
        event = as_event(x)
        given = ((self._values[name], event.get(name)) for name in self._names)
        texts = ((values, None if is_missing(value) else value_text(value)) for values, value in given)
        codes = tuple(values.index(text) if text in values else _GAP for values, text in texts)
        left = self._patterns.get(codes, 0) + weight
        if left < 0:
            raise UnlearnError(f"this event was never learned with weight {-weight / UNIT:g}")
        self._patterns[codes] = left
        if not left:
            del self._patterns[codes]

    def _filled(self, joint: Floats) -> Floats:
        """Return the expected joint counts of all events, in units."""
        found = np.zeros(self._shape)
        for codes, weight in self._patterns.items():
            part = joint[_at(codes)]
            found[_at(codes)] += weight * part / part.sum()
        return found

    def _product(self, masks: Structure, filled: Floats) -> Floats:
        """Return the joint table of a structure whose tables are posterior means of counts."""
        weight = self.weight * UNIT
        parts = (self._conditional(v, mask, filled, weight) for v, mask in enumerate(masks))
        joint = math.prod(parts, start=np.ones(self._shape))
        return np.asarray(joint / joint.sum())

    def _conditional(self, v: int, mask: int, table: Floats, weight: float) -> Floats:
        """Return P(v | parents) by the axes of the joint table; axes of other variables have length 1."""
        others = tuple(u for u in range(len(self._names)) if u != v and not mask >> u & 1)
        family = table.sum(axis=others, keepdims=True)
        family = family + weight / family.size
        return np.asarray(family / family.sum(axis=v, keepdims=True))


def _at(codes: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(slice(None) if code == _GAP else slice(code, code + 1) for code in codes)


def _score(scores: Floats, masks: Structure) -> float:
    return math.fsum(scores[v, mask] for v, mask in enumerate(masks))
