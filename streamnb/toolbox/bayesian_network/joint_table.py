"""A joint probability table, queried by the sum and product rules."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any, NamedTuple, Self

import numpy as np

from streamnb.errors import SnapshotError, UnlearnError
from streamnb.kernels.array_types import Floats, Ints
from streamnb.statistics.counter_rng import uniforms
from streamnb.toolbox.bayesian_network.constraint_search import PartialDag, search
from streamnb.toolbox.bayesian_network.factors import MOST_CELLS
from streamnb.toolbox.bayesian_network.independence import (
    Independence,
    compared,
    log_bayes_factor,
    log_evidence,
)
from streamnb.toolbox.posterior.conjugate import positive
from streamnb.values.example_weights import UNIT, units
from streamnb.values.nominal_values import declared_texts, value_text
from streamnb.values.number_ranges import is_missing
from streamnb.values.parameter_checks import check_mapping, check_whole, did_you_mean
from streamnb.values.savable import Savable
from streamnb.values.state_validation import FINITE, MOST, check_made, checked, counts, plain, real, reject
from streamnb.values.type_aliases import Array, Flags, State

Name = Hashable
Names = Name | Iterable[Name]
"""A variable, or several variables."""
Event = Mapping[Name, Any] | Sequence[Mapping[Name, Any]]
_SUM = 1e-9
_MOST_ALTERNATIVES = 10


class MostProbable(NamedTuple):
    """An assignment of values, and its probability.

    Attributes:
        values: value by variable.
        probability: probability of these values, given the evidence.
    """

    values: dict[Any, str]
    probability: float


class Summand(NamedTuple):
    """One term of a sum by inclusion and exclusion.

    Attributes:
        sign: 1 or -1.
        values: value by variable for several alternatives together; None if they contradict each other.
        probability: probability that all of them hold, given the evidence.
    """

    sign: int
    values: dict[Any, str] | None
    probability: float


class JointTable(Savable):
    """P(X_1, ..., X_n) of discrete variables, with an entry for each combination of their values.

        marginal        P(x) = sum over the other variables of P(x, ...)  the sum rule
        conditional     P(x | e) = P(x, e) / P(e)                       the product rule
        independence    P(a, b | c) = P(a | c) P(b | c)

    The table is declared, or counted, or both. A declared table stands for `weight` examples:

        P(x) = (weight P_given(x) + n(x)) / (weight + n)

    Values are compared by their text: True is "true" and 3.0 is "3". Queries with evidence of probability 0,
    or to a table that is neither declared nor learned, raise ValueError.

    Args:
        variables: values by name, in the order of the axes.
        probabilities: an array with an axis for each variable, or probability by combination of values, 0 if
            absent. They must sum to 1 within 1e-9. None: the table holds only what it learns.
        weight: number of examples that the declared table stands for.

    Raises:
        ValueError: if a probability is negative or infinite, the sum is not 1, the shape differs, or there
            are more than 2^26 combinations; the message names the wrong entry.

    Examples:
        The probability of a burglary, given the alarm (Russell and Norvig's alarm domain):

        >>> values = ["yes", "no"]
        >>> table = JointTable({"alarm": values, "burglary": values}, [[0.09, 0.1], [0.01, 0.8]])
        >>> round(table.probability({"burglary": "yes"}, given={"alarm": "yes"}), 2)
        0.47
        >>> round(table.probability({"burglary": "yes", "alarm": "yes"}), 2)
        0.09

        A table that counts:

        >>> seen = JointTable({"alarm": values, "burglary": values})
        >>> for alarm, burglary in [("no", "no"), ("yes", "yes"), ("no", "no"), ("yes", "no")]:
        ...     seen.learn_one({"alarm": alarm, "burglary": burglary})
        >>> seen.probability({"burglary": "yes"}, given={"alarm": "yes"})
        0.5

    References:
        Russell and Norvig, Artificial Intelligence: A Modern Approach, chapter 12.
    """

    def __init__(
        self, variables: Mapping[Name, Sequence[Any]], probabilities: Any = None, weight: float = 1.0
    ) -> None:
        check_mapping("variables", variables, "{'rain': ['yes', 'no']}")
        self._values = {name: _texts(name, values) for name, values in variables.items()}
        self._given = _array(self._values, {} if probabilities is None else probabilities)
        self._counts = np.zeros(self._given.shape, dtype=np.int64)
        self._weight = 0.0 if probabilities is None else positive("weight", weight)
        self.made_with = {"variables": self._values}  # the declared table is in the state
        found = math.fsum(self._given.ravel())
        if probabilities is not None and not abs(found - 1.0) <= _SUM:
            raise ValueError(f"the probabilities sum to {found!r}, not to 1; for counts use from_counts")
        self._read: Floats | None = None  # cached P of each combination

    @classmethod
    def from_counts(cls, variables: Mapping[Name, Sequence[Any]], counts: Any) -> JointTable:
        """Return the table of counts or other weights, divided by their sum; shapes as in the constructor.

        Counts in steps of 1/1024 are treated as learned here. Other weights become a declared table that
        stands for as many examples as their sum. Raises ValueError if a weight is negative or not finite, or
        all are zero.

        Examples:
            >>> table = JointTable.from_counts({"a": [0, 1], "b": [0, 1]}, [[2, 1], [2, 2]])
            >>> table.marginal("a")
            {'0': 0.42857142857142855, '1': 0.5714285714285714}
        """
        counted = cls(variables)
        weights = _array(counted._values, counts)
        top = float(weights.max(initial=0.0))
        if not top > 0.0:
            raise ValueError("all counts are zero: they cannot be normalised")
        total = math.fsum(weights.ravel() / top)  # the sum of huge weights may exceed a double
        if top * total < MOST / UNIT and not (weights * UNIT % 1.0).any():
            counted._counts = (weights * UNIT).astype(np.int64)
            return counted
        return cls(variables, weights / top / total, min(top * total, FINITE))

    def learn_one(self, x: Mapping[Name, Any], w: float = 1.0) -> None:
        """Count an example `w` times (steps of 1/1024), or raise KeyError for an undeclared value."""
        self._count(x, units(w))

    def unlearn_one(self, x: Mapping[Name, Any], w: float = 1.0) -> None:
        """Undo ``learn_one(x, w)`` exactly, or raise UnlearnError and change nothing."""
        self._count(x, -units(w))

    def merge(self, other: JointTable) -> Self:
        """Add the counts of `other`; return self. Raises ValueError if the tables do not match."""
        is_same = self._values == other._values and self._weight == other._weight
        if not is_same or not np.array_equal(self._given, other._given):
            raise ValueError(
                "only joint tables with equal variables, values and declared table can be merged"
            )
        self._counts = self._counts + other._counts
        self._read = None
        return self

    @property
    def n_examples(self) -> float:
        """Weight of the learned examples."""
        return float(self._counts.sum()) / UNIT

    def examples(self) -> Iterator[tuple[dict[Any, str], float]]:
        """Yield each learned combination of values with its weight."""
        values = list(self._values.values())
        for at in np.argwhere(self._counts):
            texts = [own[i] for own, i in zip(values, at, strict=True)]
            yield dict(zip(self._values, texts, strict=True)), float(self._counts[tuple(at)]) / UNIT

    def log_bayes_factor(self, a: Names, b: Names, given: Names = (), weight: float = 1.0) -> float:
        """Return the log Bayes factor of dependence between a and b, given `given`, in nats.

        A positive value is evidence for dependence, a negative one for independence. It is exact, with every
        chance unknown (see `independence`). `independent` compares the table's numbers, which also
        vary by chance.

        Args:
            a: a variable, or several in a list.
            b: a variable, or several in a list.
            given: a variable, several in a list, or none.
            weight: equivalent sample size of the prior.

        Raises ValueError if nothing was learned one by one or from counts; otherwise as `independent`.

        Examples:
            Frequencies of two independent coins differ a little from the exact product:

            >>> coins = JointTable.from_counts({"a": "HT", "b": "HT"}, [[242, 256], [252, 250]])
            >>> bool(coins.independent("a", "b")), round(coins.log_bayes_factor("a", "b"), 1)
            (False, -3.9)
        """
        left, right, fixed = (side(one, self._values) for one in (a, b, given))
        if not left or not right:
            raise ValueError("dependence needs two variables, or two sets of variables")
        sizes = [math.prod(len(self._values[name]) for name in side) for side in (left, right, fixed)]
        return log_bayes_factor(self._counted(*left, *right, *fixed).reshape(sizes), weight)

    def family_score(self, name: Name, parents: Sequence[Name], weight: float = 1.0) -> float:
        """Return log P of a variable's counts, given its parents, in nats (see `independence`)."""
        counts = self._counted(*parents, name)
        return log_evidence(counts, weight) - log_evidence(counts.sum(axis=-1), weight)

    def structure(self, most_given: int = 3, weight: float = 1.0) -> PartialDag:
        """Return the structure found by tests of independence with `log_bayes_factor`.

        The PC algorithm (see `constraint_search`) conditions on at most `most_given` variables at a time.
        """
        return search(
            tuple(self._values), lambda a, b, c: self.log_bayes_factor(a, b, c, weight) <= 0.0, most_given
        )

    def sample(self, n: int, seed: int = 0, first: int = 0) -> list[dict[Any, str]]:
        """Draw combinations of values by their probabilities.

        Args:
            n: number of draws.
            seed: seed of the counter-based generator: equal seed and number give the same draw.
            first: number of the first draw.

        Examples:
            >>> JointTable({"a": "xy", "b": "HT"}, [[0.5, 0.0], [0.0, 0.5]]).sample(3)
            [{'a': 'x', 'b': 'H'}, {'a': 'x', 'b': 'H'}, {'a': 'x', 'b': 'H'}]
        """
        check_whole("n", n, 0)
        reached = np.cumsum(self.probabilities)
        places = np.searchsorted(reached, uniforms(seed, first, n) * reached[-1], side="right")
        codes = np.stack(np.unravel_index(places, self.probabilities.shape or (1,)), axis=1).tolist()
        values = self.variables
        return [
            {name: own[code] for (name, own), code in zip(values.items(), row, strict=False)} for row in codes
        ]

    def state(self) -> State:
        """Return variables and counts: JSON-able values, and arrays. Raises TypeError for other names."""
        variables = [[plain(name), values] for name, values in self._values.items()]
        arrays = {"given": self._given.ravel(), "counts": self._counts.ravel().copy()}
        return {"type": type(self).__name__, "variables": variables, "weight": self._weight}, arrays

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace all state; return self. Raises SnapshotError, and changes nothing, if it is invalid."""
        expected, size = self.state()[0], self._counts.size
        check_made(meta, type=expected["type"], variables=expected["variables"])
        found = checked(arrays, {"given": real(size, low=0.0, high=1.0), "counts": counts(size)})
        weight, given = meta.get("weight"), found["given"]
        if not isinstance(weight, float) or not 0.0 <= weight <= FINITE:
            raise SnapshotError(f"weight: expected a number of at least 0, found {weight!r}")
        reject("given", abs(math.fsum(given) - (weight > 0.0)) > _SUM, "probabilities that do not sum to 1")
        reject("counts", found["counts"].sum(dtype=np.float64) > MOST, "counts whose sum overflows")
        shape = self._counts.shape
        self._weight, self._given = weight, given.reshape(shape).copy()
        self._counts, self._read = found["counts"].reshape(shape).copy(), None
        return self

    @property
    def variables(self) -> dict[Any, list[str]]:
        """Values by variable name, in the order of the axes."""
        return {name: list(values) for name, values in self._values.items()}

    @property
    def counts(self) -> Ints:
        """Learned weights in units of 1/1024 example, with an axis for each variable: a copy."""
        return self._counts.copy()

    @property
    def probabilities(self) -> Floats:
        """The table, with an axis for each variable: a copy."""
        return self._table.copy()

    @property
    def _table(self) -> Floats:
        if self._read is None:
            n = self.n_examples
            if not self._weight + n > 0.0:
                raise ValueError("this table is neither declared nor learned: it has no probabilities")
            share = self._weight / (self._weight + n) if n else 1.0
            learned = self._counts / (self._counts.sum(dtype=np.float64) or 1.0)
            self._read = share * self._given + (1.0 - share) * learned
        return self._read

    def marginal(self, *names: Name) -> dict[Any, float]:
        """Return P of each value of one variable, or of each combination (a tuple) of several variables.

        Raises KeyError for an unknown name, ValueError for a repeated one.
        """
        return self.conditional(*names, given={})

    def conditional(self, *names: Name, given: Mapping[Name, Any]) -> dict[Any, float]:
        """Return P( . | given) of each value of one variable, or of each combination (a tuple) of several.

        Raises KeyError for an unknown variable or value, ValueError if the evidence has probability 0.

        Examples:
            >>> table = JointTable({"a": [0, 1], "b": [0, 1]}, [[0.125, 0.25], [0.375, 0.25]])
            >>> table.conditional("a", given={"b": 0})
            {'0': 0.25, '1': 0.75}
        """
        values, table = self._restricted(names, given)
        return by_values(values, table)

    def restricted(self, *names: Name, given: Mapping[Name, Any] | None = None) -> JointTable:
        """Return the table of P(names | given), with the axes in the order of the names.

        Errors as of `conditional`; a variable on both sides raises ValueError.
        """
        values, table = self._restricted(names, given or {})
        return JointTable(dict(zip(names, values, strict=True)), table)

    def probability(self, event: Event, given: Event | None = None) -> float:
        """Return P(event | given), each as value by variable, or as several alternatives.

        A variable on both sides must agree: P(a=1 | a=0) is 0. Errors as of `conditional`.

        Examples:
            >>> table = JointTable({"a": [0, 1], "b": [0, 1]}, [[0.4, 0.1], [0.2, 0.3]])
            >>> round(table.probability([{"a": 1}, {"b": 1}]), 12)  # .5 + .4 - .3
            0.6
        """
        evidence = self._holds({} if given is None else given)
        total = float(self._table[evidence].sum())
        if not total > 0.0:
            raise ValueError(f"the evidence {given!r} has probability 0")
        return min(1.0, float(self._table[evidence & self._holds(event)].sum()) / total)

    def inclusion_exclusion(
        self, alternatives: Sequence[Mapping[Name, Any]], given: Event | None = None
    ) -> list[Summand]:
        """Return the terms that sum to P(at least one of the alternatives | given).

            P(A or B) = P(A) + P(B) - P(A, B)      and so on: + for an odd number of them, - for an even one

        Raises ValueError for more than 10 alternatives, which have 2^10 - 1 terms; otherwise as
        `conditional`.
        """
        if len(alternatives) > _MOST_ALTERNATIVES:
            raise ValueError(f"{len(alternatives)} alternatives are more than {_MOST_ALTERNATIVES}")
        found = []
        for size in range(1, len(alternatives) + 1):
            for chosen in combinations(alternatives, size):
                pairs = [(name, value_text(value)) for one in chosen for name, value in one.items()]
                values = dict(pairs)
                agree = all(values[name] == value for name, value in pairs)
                p = self.probability(values, given) if agree else 0.0
                found.append(Summand(-1 if size % 2 == 0 else 1, values if agree else None, p))
        return found

    def most_probable(self, *names: Name, given: Mapping[Name, Any] | None = None) -> MostProbable:
        """Return the most probable values of these variables (MAP), with all other variables summed out.

        Ties go to the first. Without names, all variables that are not given. Errors as of `conditional`.

        Examples:
            >>> table = JointTable({"a": [0, 1], "b": [0, 1]}, [[0.4, 0.0], [0.3, 0.3]])
            >>> table.most_probable().values, table.most_probable("a").values
            ({'a': '0', 'b': '0'}, {'a': '1'})
        """
        asked = names or tuple(name for name in self._values if name not in (given or {}))
        values, table = self._restricted(asked, given or {})
        best = np.unravel_index(int(table.argmax()), table.shape)
        found = {name: values[axis][best[axis]] for axis, name in enumerate(asked)}
        return MostProbable(found, float(table[best]))

    def independent(self, a: Names, b: Names, given: Names = (), tolerance: float = 1e-9) -> Independence:
        """Compare P(a, b | c) with P(a | c) P(b | c): are `a` and `b` independent, given `given` (c)?

        The answer is yes if the two differ by at most `tolerance` for all values with P(c) greater than 0.
        Each side is a variable, or several in a list.

        Examples:
            >>> coins = JointTable({"a": ["H", "T"], "b": ["H", "T"]}, [[0.25, 0.25], [0.25, 0.25]])
            >>> answer = coins.independent("a", "b")
            >>> bool(answer), answer.comparisons[0].joint, answer.comparisons[0].product
            (True, 0.25, 0.25)
        """
        left, right, fixed = (side(one, self._values) for one in (a, b, given))
        if not left or not right:
            raise ValueError("independence needs two variables, or two sets of variables")
        values, table = self._restricted((*left, *right, *fixed), {})
        return compared(table, values, (left, right, fixed), tolerance)

    def _count(self, x: Mapping[Name, Any], weight: int) -> None:
        for name in self._values:
            if is_missing(x.get(name)):
                raise KeyError(
                    f"the example has no value of {name!r}: a joint table counts complete examples only"
                )
        at = tuple(self._code(name, x[name]) for name in self._values)
        if self._counts[at] + weight < 0:
            raise UnlearnError(f"{dict(x)!r} was never learned with a weight of {-weight / UNIT:g}")
        self._counts[at] += weight
        self._read = None

    def _restricted(self, names: Sequence[Name], given: Mapping[Name, Any]) -> tuple[list[list[str]], Floats]:
        """Return the values of each of these variables, and P of each combination, given the evidence."""
        if len(set(names)) < len(names) or set(names) & set(given):
            raise ValueError(f"a variable is named twice: {', '.join(map(repr, (*names, *given)))}")
        wanted = [_axis(self._values, name) for name in names]
        kept = np.asarray(self._table[self._index(given)])
        left = [axis for axis, name in enumerate(self._values) if name not in given]
        summed = kept.sum(axis=tuple(i for i, axis in enumerate(left) if axis not in wanted))
        order = [axis for axis in left if axis in wanted]
        table = np.asarray(summed).transpose([order.index(axis) for axis in wanted])
        if not kept.any():
            raise ValueError(f"the evidence {dict(given)!r} has probability 0")
        if table.size < self._table.size:  # normalise by its own sum, so that no probability exceeds 1
            table = table / table.sum()
        return [self._values[name] for name in names], table

    def _counted(self, *names: Name) -> Ints:
        if not self._counts.any():
            raise ValueError("this table has learned no examples: a declared table holds no evidence")
        axes = [_axis(self._values, name) for name in names]
        if len(set(axes)) < len(axes):
            raise ValueError(f"a variable is named twice: {', '.join(map(repr, names))}")
        summed = self._counts.sum(axis=tuple(i for i in range(self._counts.ndim) if i not in axes))
        return np.asarray(summed).transpose([sorted(axes).index(axis) for axis in axes])

    def _holds(self, event: Event) -> Flags:
        holds = np.zeros(self._table.shape, dtype=np.bool_)
        for one in [event] if isinstance(event, Mapping) else event:
            holds[self._index(one)] = True
        return holds

    def _code(self, name: Name, value: Any) -> int:
        _axis(self._values, name)
        text, values = value_text(value), self._values[name]
        if text not in values:
            known = ", ".join(map(repr, values)) + did_you_mean(text, values)
            raise KeyError(f"{value!r} is not a value of {name!r}; the values are {known}")
        return values.index(text)

    def _index(self, given: Mapping[Name, Any]) -> tuple[Any, ...]:
        codes = {name: self._code(name, value) for name, value in given.items()}
        return tuple(codes.get(name, slice(None)) for name in self._values)


def side(names: Any, known: Mapping[Name, Any]) -> tuple[Name, ...]:
    """Return a variable, or several, as a tuple."""
    is_one = isinstance(names, str) or (isinstance(names, Hashable) and names in known)
    return (names,) if is_one else tuple(names)


def by_values(values: Sequence[Sequence[str]], table: Floats) -> dict[Any, float]:
    """Return P of each value of one variable, or of each combination (a tuple) of several."""
    keys = product(*values) if len(values) != 1 else values[0]
    return dict(zip(keys, table.ravel().tolist(), strict=True))


def _axis(values: Mapping[Name, Sequence[str]], name: Name) -> int:
    """Return the axis of a variable. Raises KeyError, with the known names."""
    if name not in values:
        known = ", ".join(map(repr, values)) + did_you_mean(str(name), map(str, values))
        raise KeyError(f"{name!r} is not a variable of this table; the variables are {known}")
    return list(values).index(name)


def _array(values: Mapping[Name, Sequence[str]], given: Any) -> Floats:
    shape = tuple(map(len, values.values()))
    if (cells := math.prod(shape)) > MOST_CELLS:
        raise ValueError(
            f"a table of {cells:,} cells over {len(shape)} variables exceeds {MOST_CELLS:,} cells"
        )
    try:
        if isinstance(given, Mapping):
            table = np.zeros(shape)
            for key, p in given.items():
                table[_place(values, key)] = p
        else:
            table = np.array(given, dtype=np.float64)
    except OverflowError as error:
        raise ValueError("a probability exceeds the largest double") from error
    if table.shape != shape:
        raise ValueError(f"expected an array of shape {shape}, got {table.shape}")
    wrong = np.argwhere(~((table >= 0.0) & (table < np.inf)))
    if wrong.size:
        at = tuple(wrong[0])
        named = [own[i] for own, i in zip(values.values(), at, strict=True)]
        raise ValueError(f"the probability of {', '.join(named)} is {table[at]}")
    return table


def _place(values: Mapping[Name, Sequence[str]], key: Any) -> tuple[int, ...]:
    texts = [value_text(value) for value in (key if isinstance(key, tuple) else (key,))]
    try:
        return tuple(own.index(text) for text, own in zip(texts, values.values(), strict=True))
    except ValueError:  # wrong number of values, or an unknown value
        of = ", ".join(map(repr, values))
        raise ValueError(f"expected a value for each of {of}, got {key!r}") from None


def _texts(name: Name, values: Sequence[Any]) -> list[str]:
    texts = declared_texts(values)
    if not texts or len(set(texts)) < len(texts):
        raise ValueError(f"values of {name!r}: expected one or more, all different, got {list(values)!r}")
    return texts
