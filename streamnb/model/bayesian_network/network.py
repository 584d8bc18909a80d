"""A Bayesian network of a fixed structure: tables by counting, questions by variable elimination."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any, Self

import numpy as np

from streamnb.errors import UnlearnError
from streamnb.model.attributes.attributes import Nominal, check_attributes
from streamnb.model.attributes.expected import check_made, count
from streamnb.model.attributes.parameters import check_mapping
from streamnb.model.attributes.ranges import is_missing
from streamnb.model.attributes.signatures import Array, State
from streamnb.model.attributes.values import as_event, value_text
from streamnb.model.attributes.weights import UNIT, units
from streamnb.model.bayesian_network.completions import Worlds
from streamnb.model.bayesian_network.dag import Dag, ancestors
from streamnb.model.bayesian_network.declared_cpts import given_tables
from streamnb.model.bayesian_network.factors import Factor, total
from streamnb.model.bayesian_network.family_counts import FamilyTables
from streamnb.model.bayesian_network.independence import Independence
from streamnb.model.bayesian_network.joint_table import JointTable, MostProbable, Names, by_values, side
from streamnb.model.bayesian_network.kernels import Shape, Smoothed, learn_event, unlearn
from streamnb.model.bayesian_network.smoothing import NetworkSmoothing
from streamnb.model.bayesian_network.variable_elimination import maximum, sum_of_products
from streamnb.model.compiled.arrays import Floats, Ints
from streamnb.model.saving import Savable

_WORLDS = 1 << 12  # ways to fill the gaps of an event that are counted through; of more, by elimination
_PATTERNS, _FEW = 256, 64  # of events with gaps, of which it is kept how they can be filled in so few ways
Name = Hashable
Values = Mapping[Name, Any]


class BayesianNetwork(Savable):
    """A joint distribution as a product of small tables, one for each variable and its parents.

        P(Y_1, ..., Y_N) = prod_i P(Y_i | pa(Y_i))

    The tables are counted from events, smoothed when they are read, or given, or both: a row of a given table
    is its prior, and stands for `weight` examples. Values are compared by their text: True is "true". Those
    of a variable are declared, or taken from its given table, or met as the stream goes.

    Degenerate cases:
        missing         a variable that is absent, None, NaN or infinite is summed out when asked of. An event
                        is counted in each table of which it has all: the variable and its parents. (Events
                        with gaps teach more through `NetworkEM`.)
        unknown value   of an event that is learned: met, unless values are declared, or the table would have
                        more than `cells`; then, and in `log_evidence`, it counts as missing. Asked of
                        anything else it raises KeyError.
        no example      of a row: uniform, or the given table.
        alpha = 0       is read as the limit: of events that would all have probability 0, those that need the
                        fewest factors alpha share it.
        no value met    the distribution of such a variable is {}.

    Args:
        parents: variable -> its parents, for every variable.
        values: variable -> its values, where they are declared: then there are no others. Those of its
            `Nominal` serve as well.
        tables: variable -> P(variable | parents), as a mapping from the values of its parents (a tuple; with
            one parent its value alone, with none the distribution itself) to {value: probability}.
        alpha: added to every count, (n_c + alpha) / (n + alpha k) with k values.
        m: in place of alpha the equivalent sample size of the m-estimate (n_c + m / k) / (n + m).
        attributes: variable -> `Nominal`, where one is smoothed otherwise.
        weight: how many examples a row of a given table stands for.
        cells: the most cells of a table.

    Raises:
        ValueError: if a parent is unknown, arrows form a cycle, a given table is incomplete, or a parameter
            is out of range.

    Examples:
        The burglar alarm (Pearl 1988), its tables given:

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
        """What was counted."""
        self._smoothing = NetworkSmoothing(alpha, m, attributes or {}, given, weight)
        self.made_with = {"parents": parents, "values": values, "tables": tables, "alpha": alpha, "m": m}
        self.made_with |= {"attributes": attributes, "weight": weight, "cells": cells}
        self.n_events = 0
        """How many events with a weight were learned, less those unlearned."""
        self._read_for: Shape | None = None  # for which layout of the tables `_smoothed` is
        self._worlds: dict[Any, Worlds] = {}  # of events with gaps that came of late

    # -- reading ------------------------------------------------------------------------------------------

    @property
    def parents(self) -> dict[Any, tuple[Any, ...]]:
        """Variable -> its parents."""
        names = self._dag.names
        return {name: tuple(names[u] for u in self._dag.parents[v]) for v, name in enumerate(names)}

    @property
    def values(self) -> dict[Any, list[str]]:
        """Variable -> its values: declared, or met with a weight above zero."""
        return {name: self._live(v) for v, name in enumerate(self._dag.names)}

    @property
    def n_bytes(self) -> int:
        """Memory of the tables, bytes."""
        return self.counted.n_bytes

    @property
    def n_parameters(self) -> dict[Any, int]:
        """Variable -> the free numbers of its table: one less than its values, for each row."""
        values = self.values
        return {
            name: max(len(values[name]) - 1, 0) * math.prod(len(values[parent]) for parent in parents)
            for name, parents in self.parents.items()
        }

    def counts(self, name: Name) -> dict[tuple[str, ...], float]:
        """(values of the parents, value) -> examples counted; those above zero alone. Raises KeyError."""
        (v,) = self._dag.numbers([name])
        table = self.counted.weights(v)
        values = [self.counted.values(u) for u in self.counted.family(v)]
        return {
            tuple(values[axis][i] for axis, i in enumerate(at)): float(table[tuple(at)]) / UNIT
            for at in np.argwhere(table)
        }

    def table(self, name: Name) -> dict[tuple[str, ...], dict[str, float]]:
        """P(name | parents): values of the parents -> value -> probability. Raises KeyError."""
        (v,) = self._dag.numbers([name])
        *above, own = [self._live(u) for u in self.counted.family(v)]
        if not own or not all(above):
            return {}
        rows = self._read_shares(v, {}).reshape(-1, len(own)).tolist()
        return {at: dict(zip(own, row, strict=True)) for at, row in zip(product(*above), rows, strict=True)}

    def joint(self, *names: Name, given: Values | None = None) -> JointTable:
        """The joint table of these variables, given others; of all that are not given by default.

        Raises KeyError for what is no variable or value, ValueError where the evidence has probability 0, or
        a variable has no value yet.
        """
        others = tuple(name for name in self._dag.names if name not in (given or {}))
        found = self._distribution(names or others, given)
        if found is None:
            raise ValueError("one of these variables has no value yet")
        variables, shares = found
        return JointTable.from_counts(variables, shares)

    def marginal(self, *names: Name, given: Values | None = None) -> dict[Any, float]:
        """P of each value of a variable given others; of several, of each combination of values as a tuple.

        They sum to 1; {} where one of them has no value yet. Errors as of `joint`.
        """
        found = self._distribution(names, given)
        if found is None:
            return {}
        variables, shares = found
        return by_values(list(variables.values()), shares)

    def probability(self, event: Values, given: Values | None = None) -> float:
        """P(event | given), both as variable -> value. Errors as of `joint`."""
        asked, evidence = self._codes(event), self._codes(given or {})
        below, misses = self._log_probability(evidence)
        if below == -math.inf:
            raise ValueError(f"the evidence {dict(given or {})!r} has probability 0")
        if any(evidence.get(v, code) != code for v, code in asked.items()):
            return 0.0
        above, more = self._log_probability(evidence | asked)
        return min(1.0, math.exp(above - below)) if more == misses else 0.0

    def log_evidence(self, x: Values) -> float:
        """Log P(x) in nats of an event, what is missing or was never met summed out; -inf where it cannot be.

        Summed over a stream, each event before it is learned, it compares networks with one another.

        Raises TypeError for a value that is no scalar. Variables of other names are not looked at.
        """
        log, misses = self._log_probability(self._known(x))
        return -math.inf if misses else log

    def log_likelihood(self, events: Iterable[Values]) -> float:
        """The sum of `log_evidence` over events, in nats."""
        return math.fsum(map(self.log_evidence, events))

    def most_probable(self, *names: Name, given: Values | None = None) -> MostProbable:
        """The most probable values of these variables given others, all the rest summed out: the MAP.

        Without names, of all that are not given: the most probable explanation. Of equals one, and the same
        at every call. Errors as of `joint`.

        Examples:
            >>> coin = {"a": [], "b": ["a"]}
            >>> tables = {"a": {"H": 0.6, "T": 0.4}, "b": {"H": {"H": 0.5, "T": 0.5}, "T": {"H": 0, "T": 1}}}
            >>> BayesianNetwork(coin, tables=tables).most_probable().values
            {'a': 'T', 'b': 'T'}
        """
        evidence = self._codes(given or {})
        asked = names or tuple(name for name in self._dag.names if name not in (given or {}))
        numbers = self._asked(asked, evidence)
        if any(not self._live(v) for v in numbers):
            raise ValueError("one of these variables has no value yet")
        below, misses = self._log_probability(evidence)
        if below == -math.inf:
            raise ValueError(f"the evidence {dict(given or {})!r} has probability 0")
        found, above, more = maximum(self._factors({*numbers, *evidence}, evidence), numbers)
        values = {self._dag.names[v]: self._live(v)[i] for v, i in found.items()}
        return MostProbable(values, min(1.0, math.exp(above - below)) if more == misses else 0.0)

    def independent(self, a: Names, b: Names, given: Names = (), tolerance: float = 1e-9) -> Independence:
        """Whether the numbers make `a` and `b` independent given `given`; see `JointTable.independent`.

        What the arrows alone say, `d_separated` tells. Errors as of `joint`.
        """
        left, right, fixed = (side(one, self._dag.number) for one in (a, b, given))
        return self.joint(*left, *right, *fixed).independent(left, right, fixed, tolerance)

    def d_separated(self, a: Names, b: Names, given: Names = ()) -> bool:
        """Whether the arrows make `a` and `b` independent given `given`, whatever the tables hold.

        Raises KeyError for an unknown name, ValueError where a variable stands on two sides.
        """
        return self._dag.d_separated(*(side(one, self._dag.number) for one in (a, b, given)))

    # -- learning -----------------------------------------------------------------------------------------

    def learn_one(self, x: Values, w: float = 1.0) -> None:
        """Count an event, `w` times (in steps of 1/1024), in every table of which it has all.

        Raises TypeError or ValueError, and learns nothing, for a value that is no scalar, or a weight that is
        out of range.
        """
        weight = units(w)
        texts = self._texts(x)
        if weight:
            row = self._row(texts, adds=True)  # before the tables are asked for, which may grow by it
            learn_event(self.counted.shape, row, weight)
            self.n_events += 1

    def unlearn_one(self, x: Values, w: float = 1.0) -> None:
        """Undo ``learn_one(x, w)``, exactly.

        Raises UnlearnError, and changes nothing, where the counts show that this was never learned.
        """
        weight = units(w)
        texts = self._texts(x)
        if weight:
            row = self._row(texts, adds=False)
            is_new = any(t is not None and row[v] < 0 and self.counted.admits(v) for v, t in enumerate(texts))
            if is_new or self.n_events == 0 or not unlearn(self.counted.shape, row, weight):
                raise UnlearnError(f"this event was never learned with weight {w}")
            self.n_events -= 1

    # -- for learning by expectation ----------------------------------------------------------------------

    def family(self, v: int) -> tuple[int, ...]:
        """The numbers of the parents of variable `v`, and its own. Raises IndexError."""
        return self.counted.family(v)

    def encoded(self, x: Values, *, adds: bool) -> list[int]:
        """The code of each variable of an event, -1 where it has none; new values are added if it `adds`."""
        found: list[int] = self._row(self._texts(x), adds=adds).tolist()
        return found

    def meet(self, row: Sequence[int], weight: int) -> None:
        """Count, in units, that an event had these values, or did not after all; no table counts it."""
        self.counted.meet(row, weight)
        self.n_events += 1 if weight > 0 else -1

    def recount(
        self,
        before: Iterable[tuple[int, tuple[int, ...], int]],
        after: Iterable[tuple[int, tuple[int, ...], int]],
    ) -> int:
        """Expect of an event these (variable, codes of its family, weight) in place of those; what moved.

        Weights are in units of 2^-30 example.
        """
        change: dict[tuple[int, tuple[int, ...]], int] = {}
        for sign, parts in ((-1, before), (1, after)):
            for v, codes, weight in parts:
                change[v, codes] = change.get((v, codes), 0) + sign * weight
        for (v, codes), weight in change.items():
            if weight:
                self.counted.expect(v, codes, weight)
        return sum(map(abs, change.values()))

    def expected(self, row: Sequence[int]) -> list[tuple[int, list[tuple[tuple[int, ...], float]]]]:
        """Of each variable: the cells of its table that an event may be in, and how probable each is.

        Of an event given by its codes, -1 where it has a gap. A variable of whose family one has no value yet
        is left out; all are of an event that given tables rule out.
        """
        known = {v: code for v, code in enumerate(row) if self.counted.is_known(v, code)}
        gaps = [v for v in range(len(self._dag)) if v not in known]
        values = {v: tuple(np.flatnonzero(self.counted.is_live(v)).tolist()) for v in gaps}
        key = tuple(known.items()), tuple(values.values())
        worlds = self._worlds.get(key)
        if worlds is None:
            worlds = Worlds.of([self.counted.family(v) for v in range(len(self._dag))], known, values)
            if len(self._worlds) == _PATTERNS:
                self._worlds.clear()
            if worlds.number <= _FEW:
                self._worlds[key] = worlds
        if 0 < worlds.number <= _WORLDS:
            shares = worlds.weighed(self.counted, self._reads())
        elif self._log_probability(known)[0] == -math.inf:
            shares = None
        else:
            asked = (tuple(u for u in self.counted.family(v) if u not in known) for v, _ in worlds.cells)
            shares = [self._shares(numbers, known).ravel().tolist() for numbers in asked]
        if shares is None:
            return []
        found = zip(worlds.cells, shares, strict=True)
        return [(v, list(zip(cells, own, strict=True))) for (v, cells), own in found]

    # -- state --------------------------------------------------------------------------------------------

    def state(self) -> State:
        """All that was counted: JSON-able values, and arrays.

        Raises TypeError for names that are not strings, booleans or numbers.
        """
        meta, arrays = self.counted.state()
        return {"type": type(self).__name__, "events": self.n_events, **meta}, dict(arrays)

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace all that was counted by the `state` of a network of the same structure; returns self.

        Raises SnapshotError, and changes nothing, where it is none.
        """
        events = count(meta, "events")
        check_made(meta, type=type(self).__name__)
        self.counted.load_state(meta, arrays)
        self.n_events = events
        return self

    # -- inside -------------------------------------------------------------------------------------------

    def _reads(self) -> Smoothed:
        """How counts are read, for the kernels; anew where tables have grown."""
        if self._read_for is not self.counted.shape:
            self._read_for = self.counted.shape
            self._smoothed = self._smoothing.arrays(self.counted, np.zeros(0))
        return self._smoothed

    def _live(self, v: int) -> list[str]:
        live = self.counted.is_live(v)
        return [value for value, is_live in zip(self.counted.values(v), live, strict=True) if is_live]

    def _texts(self, x: Values) -> list[Any]:
        """Of each variable its value's text, None where missing."""
        found = map(as_event(x).get, self._dag.names)
        return [None if is_missing(value) else self._text(v, value) for v, value in enumerate(found)]

    def _text(self, v: int, value: Any) -> Any:
        """By what the values of a variable are compared."""
        return value_text(value)

    def _row(self, texts: Sequence[Any], *, adds: bool) -> Ints:
        """The code of each variable, -1 where it has none."""
        row = np.full(len(texts), -1, dtype=np.int64)
        for v, text in enumerate(texts):
            if text is not None:
                code = self.counted.lookup(v).get(text, -1)
                row[v] = self.counted.code(v, text) if code < 0 and adds else code
        return row

    def _known(self, x: Values) -> dict[int, int]:
        """Variable -> code, of what an event has and was met before."""
        row = self._row(self._texts(x), adds=False).tolist()
        return {v: code for v, code in enumerate(row) if self.counted.is_known(v, code)}

    def _codes(self, values: Values) -> dict[int, int]:
        """Variable -> code of what was asked for. Raises KeyError for what is no variable or value."""
        numbers = self._dag.numbers(values)
        found = {}
        for v, (name, value) in zip(numbers, values.items(), strict=True):
            code = self.counted.lookup(v).get(self._text(v, value), -1)
            if not self.counted.is_known(v, code):
                raise KeyError(f"{value!r} is no value of {name!r}; there are {self._live(v)}")
            found[v] = code
        return found

    def _asked(self, names: Sequence[Name], evidence: Mapping[int, int]) -> tuple[int, ...]:
        numbers = self._dag.numbers(names)
        if len(set(numbers)) < len(numbers) or evidence.keys() & set(numbers):
            raise ValueError(f"a variable is named twice: {', '.join(map(repr, names))}, and what is given")
        return numbers

    def _read(self, v: int, codes: Mapping[int, int]) -> Factor:
        return self._smoothing.factor(self.counted, v, codes)

    def _read_shares(self, v: int, codes: Mapping[int, int]) -> Floats:
        """As numbers: what has a factor alpha -> 0 is 0."""
        factor = self._read(v, codes)
        shares: Floats = np.exp(factor.logs)
        return shares if factor.misses is None else np.where(factor.misses > 0, 0.0, shares)

    def _factors(self, wanted: Iterable[int], evidence: Mapping[int, int]) -> list[Factor]:
        """P(v | parents) of all that has a part: what is neither asked for, nor above it, sums to 1."""
        return [self._read(v, evidence) for v in sorted(ancestors(self._dag.parents, wanted))]

    def _log_probability(self, evidence: Mapping[int, int]) -> tuple[float, int]:
        return total(sum_of_products(self._factors(evidence, evidence), ()))

    def _distribution(
        self, names: Sequence[Name], given: Values | None
    ) -> tuple[dict[Any, list[str]], Floats] | None:
        """The live values of each variable, and P of each combination; None where one has none."""
        evidence = self._codes(given or {})
        numbers = self._asked(names, evidence)
        if any(not self._live(v) for v in numbers):
            return None
        shares = self._shares(numbers, evidence)
        return {name: self._live(v) for name, v in zip(names, numbers, strict=True)}, shares

    def _shares(self, numbers: tuple[int, ...], evidence: Mapping[int, int]) -> Floats:
        """P of each combination of live values. Raises ValueError where the evidence has probability 0."""
        factor = sum_of_products(self._factors({*numbers, *evidence}, evidence), numbers)
        below, misses = total(factor)
        if below == -math.inf:
            raise ValueError("the evidence has probability 0")
        shares = np.exp(factor.logs - below)
        if factor.misses is not None:
            shares = np.where(factor.misses > misses, 0.0, shares)
        found: Floats = shares / shares.sum()
        return found
