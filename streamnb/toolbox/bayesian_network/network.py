"""A Bayesian network of fixed structure: tables by counting, queries by variable elimination."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any, Self

import numpy as np

from streamnb.errors import UnlearnError
from streamnb.features.attributes import Nominal, check_attributes
from streamnb.kernels.array_types import Floats, Ints
from streamnb.models.interface.parameter_count import ParameterCount
from streamnb.statistics.counter_rng import pick, uniforms
from streamnb.toolbox.bayesian_network.dag import Dag
from streamnb.toolbox.bayesian_network.declared_cpts import given_tables
from streamnb.toolbox.bayesian_network.factors import Factor
from streamnb.toolbox.bayesian_network.family_counts import FamilyTables
from streamnb.toolbox.bayesian_network.independence import Independence
from streamnb.toolbox.bayesian_network.joint_table import JointTable, MostProbable, Names, by_values, side
from streamnb.toolbox.bayesian_network.network_kernels import (
    SmoothedNetwork,
    learn_event,
    unlearn,
)
from streamnb.toolbox.bayesian_network.network_parameters import NetworkParameters
from streamnb.toolbox.bayesian_network.network_smoothing import NetworkSmoothing
from streamnb.toolbox.bayesian_network.variable_elimination import NetworkInference, maximum, ratio
from streamnb.values.example_weights import UNIT, units
from streamnb.values.nominal_values import as_event, value_text
from streamnb.values.number_ranges import is_missing
from streamnb.values.parameter_checks import check_mapping, check_whole
from streamnb.values.savable import Savable
from streamnb.values.state_validation import check_made, count
from streamnb.values.type_aliases import Array, State

Name = Hashable
Values = Mapping[Name, Any]


class BayesianNetwork(ParameterCount, Savable):
    """A joint distribution as a product of small tables, one for each variable and its parents.

        P(Y_1, ..., Y_N) = prod_i P(Y_i | pa(Y_i))

    Invariant: the tables hold counts of events, and are smoothed on read. A row of a declared table is its
    prior, and stands for `weight` examples. Values are compared by their text: True is "true". The values of
    a variable are declared, taken from its declared table, or added as they appear.

    Degenerate cases:
        missing         a variable that is absent, None, NaN or infinite is summed out in queries. An event is
                        counted in each table for which it has the variable and all parents. (`NetworkEM`
                        learns more from events with gaps.)
        unknown value   in a learned event: added, unless values are declared or the table would exceed
                        `cells`; then, and in `log_evidence`, it counts as missing. In any other query it
                        raises KeyError.
        no example      for a row: uniform, or the declared table.
        alpha = 0       means the limit: of events that would all have probability 0, those with the fewest
                        factors alpha share it.
        no value        the distribution of a variable without values is {}.

    Args:
        parents: parents by variable, for every variable.
        values: declared values by variable, which exclude all other values. The values of its `Nominal`
            count, too.
        tables: P(variable | parents) by variable, as a mapping from the values of its parents (a tuple; with
            one parent its value alone, with none the distribution itself) to {value: probability}.
        alpha: added to every count, (n_c + alpha) / (n + alpha k) with k values.
        m: equivalent sample size of the m-estimate (n_c + m / k) / (n + m), used instead of alpha.
        attributes: `Nominal` by variable, for variables with their own smoothing.
        weight: number of examples that a row of a declared table stands for.
        cells: maximum number of cells of a table.

    Raises:
        ValueError: if a parent is unknown, arrows form a cycle, a declared table is incomplete, or a
            parameter is out of range.

    Examples:
        The burglar alarm (Pearl 1988), with declared tables:

        >>> from streamnb import BayesianNetwork
        >>> alarm = BayesianNetwork(
        ...     {"burglary": [], "earthquake": [], "alarm": ["burglary", "earthquake"]},
        ...     tables={
        ...         "burglary": {"yes": 0.001, "no": 0.999},
        ...         "earthquake": {"yes": 0.002, "no": 0.998},
        ...         "alarm": {
        ...             ("yes", "yes"): {"yes": 0.95, "no": 0.05},
        ...             ("yes", "no"): {"yes": 0.94, "no": 0.06},
        ...             ("no", "yes"): {"yes": 0.29, "no": 0.71},
        ...             ("no", "no"): {"yes": 0.001, "no": 0.999},
        ...         },
        ...     },
        ... )
        >>> round(alarm.probability({"burglary": "yes"}, given={"alarm": "yes"}), 3)
        0.374
        >>> round(alarm.probability({"burglary": "yes"}, given={"alarm": "yes", "earthquake": "yes"}), 4)
        0.0033
        >>> alarm.d_separated("burglary", "earthquake")
        True
        >>> alarm.d_separated("burglary", "earthquake", given=["alarm"])
        False

        Counted from events, with Laplace's rule:

        >>> weather = BayesianNetwork({"rain": [], "wet": ["rain"]})
        >>> for rain, wet in [("yes", "yes"), ("yes", "yes"), ("no", "no"), ("no", None)]:
        ...     weather.learn_one({"rain": rain, "wet": wet})
        >>> round(weather.probability({"wet": "yes"}, given={"rain": "yes"}), 12)  # (2 + 1) / (2 + 2)
        0.75

    References:
        Pearl, Probabilistic reasoning in intelligent systems (1988); Koller and Friedman, Probabilistic
        graphical models (2009), chapters 3, 9 and 17.
    """

    def __init__(
        self,
        parents: Mapping[Name, Sequence[Name]],
        values: Mapping[Name, Sequence[Any]] | None = None,
        tables: Mapping[Name, Any] | None = None,
        alpha: float = 1.0,
        m: float | None = None,
        attributes: Mapping[Name, Any] | None = None,
        weight: float = 1.0,
        cells: int = 1 << 22,
    ) -> None:
        check_attributes(attributes)
        check_mapping("values", values, "{'wet': ['yes', 'no']}")
        check_mapping("tables", tables, "{'rain': {'yes': 0.2, 'no': 0.8}}")
        self._dag = Dag(parents)
        own = {
            name: nominal.values
            for name, nominal in (attributes or {}).items()
            if isinstance(nominal, Nominal) and nominal.values is not None
        }
        declared, given = given_tables(self._dag, {**own, **(values or {})}, tables or {})
        self._dag.numbers(attributes or {})
        self.counted = FamilyTables(self._dag, declared, cells)
        """Counts of the network."""
        self.smoothing = NetworkSmoothing(alpha, m, attributes or {}, given, weight)
        self.made_with = {"parents": parents, "values": values, "tables": tables, "alpha": alpha, "m": m}
        self.made_with |= {"attributes": attributes, "weight": weight, "cells": cells}
        self.n_events = 0
        """Number of events with a weight that were learned, less those unlearned."""
        self.inference = NetworkInference(self.counted, self._read)
        """Probabilities by numbers of variables and codes of values."""

    @property
    def parents(self) -> dict[Any, tuple[Any, ...]]:
        """Parents by variable."""
        names = self._dag.names
        return {name: tuple(names[u] for u in self._dag.parents[v]) for v, name in enumerate(names)}

    @property
    def values(self) -> dict[Any, list[str]]:
        """Values by variable: declared, or with a positive weight."""
        return {name: self.counted.live_values(v) for v, name in enumerate(self._dag.names)}

    @property
    def n_bytes(self) -> int:
        """Memory of the tables, bytes."""
        return self.counted.n_bytes

    def parameters(self) -> NetworkParameters:
        """Return the table of each variable, with its number of free parameters."""
        return NetworkParameters(self.parents, {name: self.table(name) for name in self._dag.names})

    def counts(self, name: Name) -> dict[tuple[str, ...], float]:
        """Return the counted examples by (values of the parents, value), if positive. Raises KeyError."""
        (v,) = self._dag.numbers([name])
        table = self.counted.weights(v)
        values = [self.counted.values(u) for u in self.counted.family(v)]
        return {
            tuple(values[axis][i] for axis, i in enumerate(at)): float(table[tuple(at)]) / UNIT
            for at in np.argwhere(table)
        }

    def table(self, name: Name) -> dict[tuple[str, ...], dict[str, float]]:
        """Return P(name | parents) as {value: probability} by the values of the parents. Raises KeyError."""
        (v,) = self._dag.numbers([name])
        *above, own = [self.counted.live_values(u) for u in self.counted.family(v)]
        if not own or not all(above):
            return {}
        rows = self.inference.read(v, {}).shares().reshape(-1, len(own)).tolist()
        return {at: dict(zip(own, row, strict=True)) for at, row in zip(product(*above), rows, strict=True)}

    def joint(self, *names: Name, given: Values | None = None) -> JointTable:
        """Return the joint table of these variables, by default of all that are not given.

        Raises KeyError for an unknown variable or value, ValueError if the evidence has probability 0 or a
        variable has no value yet.
        """
        free = tuple(name for name in self._dag.names if name not in (given or {}))
        found = self._distribution(names or free, given)
        if found is None:
            raise ValueError("one of these variables has no value yet")
        variables, shares = found
        return JointTable.from_counts(variables, shares)

    def marginal(self, *names: Name, given: Values | None = None) -> dict[Any, float]:
        """Return P of each value, or combination of values; {} if one has none. Errors as of `joint`."""
        found = self._distribution(names, given)
        if found is None:
            return {}
        variables, shares = found
        return by_values(list(variables.values()), shares)

    def probability(self, event: Values, given: Values | None = None) -> float:
        """Return P(event | given), both as value by variable. Errors as of `joint`."""
        asked, evidence = self._codes(event), self._codes(given or {})
        base = self.inference.log_probability(evidence)
        _check_possible(base, given)
        if any(evidence.get(v, code) != code for v, code in asked.items()):
            return 0.0
        return ratio(self.inference.log_probability(evidence | asked), base)

    def log_evidence(self, x: Values) -> float:
        """Return log P(x) in nats, with unknown values summed out; -inf if impossible.

        Its sum over a stream, with each event before it is learned, compares networks. Raises TypeError for a
        value that is not a scalar. Other names are ignored.
        """
        log, misses = self.inference.log_probability(self._known(x))
        return -math.inf if misses else log

    def log_likelihood(self, events: Iterable[Values]) -> float:
        """Return the sum of `log_evidence` over events, in nats."""
        return math.fsum(map(self.log_evidence, events))

    def most_probable(self, *names: Name, given: Values | None = None) -> MostProbable:
        """Return the most probable values of these variables (MAP), with all other variables summed out.

        Without names, all variables that are not given: the most probable explanation. Ties are resolved the
        same way at every call. Errors as of `joint`.

        Examples:
            >>> coin = {"a": [], "b": ["a"]}
            >>> tables = {"a": {"H": 0.6, "T": 0.4}, "b": {"H": {"H": 0.5, "T": 0.5}, "T": {"H": 0, "T": 1}}}
            >>> BayesianNetwork(coin, tables=tables).most_probable().values
            {'a': 'T', 'b': 'T'}
        """
        evidence = self._codes(given or {})
        asked = names or tuple(name for name in self._dag.names if name not in (given or {}))
        numbers = self._asked(asked, evidence)
        if any(not self.counted.live_values(v) for v in numbers):
            raise ValueError("one of these variables has no value yet")
        base = self.inference.log_probability(evidence)
        _check_possible(base, given)
        found, above, more = maximum(self.inference.factors({*numbers, *evidence}, evidence), numbers)
        values = {self._dag.names[v]: self.counted.live_values(v)[i] for v, i in found.items()}
        return MostProbable(values, ratio((above, more), base))

    def independent(self, a: Names, b: Names, given: Names = (), tolerance: float = 1e-9) -> Independence:
        """Compare the probabilities: are `a` and `b` independent given `given`? See `JointTable.independent`.

        `d_separated` answers from the graph alone. Errors as of `joint`.
        """
        left, right, fixed = (side(one, self._dag.number) for one in (a, b, given))
        return self.joint(*left, *right, *fixed).independent(left, right, fixed, tolerance)

    def d_separated(self, a: Names, b: Names, given: Names = ()) -> bool:
        """Return True if the graph makes `a` and `b` independent given `given`, for any tables.

        Raises KeyError for an unknown name, ValueError if a variable is on two sides.
        """
        return self._dag.d_separated(*(side(one, self._dag.number) for one in (a, b, given)))

    def sample(self, n: int, seed: int = 0, first: int = 0) -> list[dict[Any, Any]]:
        """Draw events from the product of the tables, parents before children.

        Args:
            n: number of events.
            seed: seed of the counter-based generator: equal seed and number give the same event.
            first: number of the first event.

        Raises:
            ValueError: if a variable has no value yet.

        Examples:
            >>> coin = BayesianNetwork({"a": [], "b": ["a"]}, values={"a": "HT", "b": "HT"})
            >>> coin.sample(2)
            [{'a': 'H', 'b': 'H'}, {'a': 'H', 'b': 'T'}]
        """
        check_whole("n", n, 0)
        names = [self._dag.names[v] for v in self._dag.order]
        tables = {name: self.table(name) for name in names}
        if not all(tables.values()):
            raise ValueError("one of these variables has no value yet")
        parents, found = self.parents, []
        for i in range(first, first + n):
            x: dict[Any, Any] = {}
            for name, u in zip(names, uniforms(seed, i * len(names), len(names)).tolist(), strict=True):
                x[name] = pick(tables[name][tuple(x[above] for above in parents[name])], u)
            found.append({name: x[name] for name in self._dag.names})
        return found

    def learn_one(self, x: Values, w: float = 1.0) -> None:
        """Count an event `w` times (steps of 1/1024) in every table for which it is complete, or raise."""
        weight = units(w)
        texts = self._texts(x)
        if weight:
            row = self._row(texts, adds=True)  # before `shape` is read, because the tables may grow
            learn_event(self.counted.shape, row, weight)
            self.n_events += 1

    def unlearn_one(self, x: Values, w: float = 1.0) -> None:
        """Undo ``learn_one(x, w)`` exactly, or raise UnlearnError and change nothing."""
        weight = units(w)
        texts = self._texts(x)
        if weight:
            row = self._row(texts, adds=False)
            is_new = any(t is not None and row[v] < 0 and self.counted.admits(v) for v, t in enumerate(texts))
            if is_new or self.n_events == 0 or not unlearn(self.counted.shape, row, weight):
                raise UnlearnError(f"this event was never learned with weight {w}")
            self.n_events -= 1

    def encoded(self, x: Values, *, adds: bool) -> list[int]:
        """Return the code of each variable of an event, -1 if it has none; new values are added if `adds`."""
        found: list[int] = self._row(self._texts(x), adds=adds).tolist()
        return found

    def smoothed(self) -> SmoothedNetwork:
        """Return smoothing parameters for the kernels."""
        return self.smoothing.arrays(self.counted, np.zeros(0))

    def state(self) -> State:
        """Return all counts. Raises TypeError for names that JSON cannot hold."""
        meta, arrays = self.counted.state()
        return {"type": type(self).__name__, "events": self.n_events, **meta}, dict(arrays)

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace all counts; return self. Raises SnapshotError, and changes nothing, if invalid."""
        events = count(meta, "events")
        check_made(meta, type=type(self).__name__)
        self.counted.load_state(meta, arrays)
        self.n_events = events
        return self

    def _texts(self, x: Values) -> list[Any]:
        found = map(as_event(x).get, self._dag.names)
        return [None if is_missing(value) else self._text(v, value) for v, value in enumerate(found)]

    def _text(self, v: int, value: Any) -> Any:
        return value_text(value)

    def _row(self, texts: Sequence[Any], *, adds: bool) -> Ints:
        row = np.full(len(texts), -1, dtype=np.int64)
        for v, text in enumerate(texts):
            if text is not None:
                code = self.counted.lookup(v).get(text, -1)
                row[v] = self.counted.code(v, text) if code < 0 and adds else code
        return row

    def _known(self, x: Values) -> dict[int, int]:
        row = self._row(self._texts(x), adds=False).tolist()
        return {v: code for v, code in enumerate(row) if self.counted.is_known(v, code)}

    def _codes(self, values: Values) -> dict[int, int]:
        numbers = self._dag.numbers(values)
        found = {}
        for v, (name, value) in zip(numbers, values.items(), strict=True):
            code = self.counted.lookup(v).get(self._text(v, value), -1)
            if not self.counted.is_known(v, code):
                live = self.counted.live_values(v)
                raise KeyError(f"{value!r} is not a value of {name!r}; the values are {live}")
            found[v] = code
        return found

    def _asked(self, names: Sequence[Name], evidence: Mapping[int, int]) -> tuple[int, ...]:
        numbers = self._dag.numbers(names)
        if len(set(numbers)) < len(numbers) or evidence.keys() & set(numbers):
            raise ValueError(f"a variable is named twice: {', '.join(map(repr, names))}, and the evidence")
        return numbers

    def _read(self, v: int, codes: Mapping[int, int]) -> Factor:
        return self.smoothing.factor(self.counted, v, codes)

    def _distribution(
        self, names: Sequence[Name], given: Values | None
    ) -> tuple[dict[Any, list[str]], Floats] | None:
        """Return the live values of each variable and P of each combination; None if a variable has none."""
        evidence = self._codes(given or {})
        numbers = self._asked(names, evidence)
        if any(not self.counted.live_values(v) for v in numbers):
            return None
        shares = self.inference.shares(numbers, evidence)
        return {name: self.counted.live_values(v) for name, v in zip(names, numbers, strict=True)}, shares


def _check_possible(evidence: tuple[float, int], given: Values | None) -> None:
    if evidence[0] == -math.inf:
        raise ValueError(f"the evidence {dict(given or {})!r} has probability 0")
