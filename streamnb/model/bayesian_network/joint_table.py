"""A joint probability table, and every question it answers by the sum and product rules."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from streamnb.model.attributes.parameters import check_mapping
from streamnb.model.attributes.values import declared_texts, value_text
from streamnb.model.bayesian_network.factors import MOST_CELLS
from streamnb.model.bayesian_network.independence import Independence, compared
from streamnb.model.compiled.arrays import Floats

Name = Hashable
_SUM = 1e-9


class MostProbable(NamedTuple):
    """An assignment, and how probable it is.

    Attributes:
        values: variable -> value.
        probability: of these values, given the evidence.
    """

    values: dict[Any, str]
    probability: float


class JointTable:
    """P(X_1, ..., X_n) of discrete variables, an entry for each combination of their values.

        marginal        P(x) = sum over all others of P(x, ...)         the sum rule
        conditional     P(x | e) = P(x, e) / P(e)                       the product rule
        independence    P(a, b | c) = P(a | c) P(b | c)

    Values are compared by their text, so that True is "true" and 3.0 is "3". What is asked of evidence with
    probability 0 has no answer, and raises ValueError.

    Args:
        variables: name -> its values, in the order of the axes.
        probabilities: an array with an axis for each variable, or combination of values -> probability, where
            one left out has none. They sum to 1, to 1e-9.

    Raises:
        ValueError: if there is a negative or infinite probability, if they do not sum to 1, if the shape is
            another, or if there are more than 2^26 combinations; the message names the entry at fault.

    Examples:
        Whether it is a burglary, given the alarm (Russell and Norvig's alarm domain):

        >>> values = ["yes", "no"]
        >>> table = JointTable({"alarm": values, "burglary": values}, [[0.09, 0.1], [0.01, 0.8]])
        >>> round(table.probability({"burglary": "yes"}, given={"alarm": "yes"}), 2)
        0.47
        >>> round(table.probability({"burglary": "yes", "alarm": "yes"}), 2)
        0.09

    References:
        Russell and Norvig, Artificial Intelligence: A Modern Approach, chapter 12.
    """

    def __init__(self, variables: Mapping[Name, Sequence[Any]], probabilities: Any) -> None:
        check_mapping("variables", variables, "{'rain': ['yes', 'no']}")
        self._values = {name: _texts(name, values) for name, values in variables.items()}
        table = _array(self._values, probabilities)
        found = math.fsum(table.ravel())
        if not abs(found - 1.0) <= _SUM:
            raise ValueError(
                f"the probabilities sum to {found!r}, not to 1; are they counts? see from_counts"
            )
        self._table = table

    @classmethod
    def from_counts(cls, variables: Mapping[Name, Sequence[Any]], counts: Any) -> JointTable:
        """The table of counts, or of other weights, divided by their sum; shapes as of the constructor.

        Raises ValueError where one is negative or not finite, or all are zero.

        Examples:
            >>> table = JointTable.from_counts({"a": [0, 1], "b": [0, 1]}, [[2, 1], [2, 2]])
            >>> table.marginal("a")
            {'0': 0.42857142857142855, '1': 0.5714285714285714}
        """
        weights = _array({name: _texts(name, values) for name, values in variables.items()}, counts)
        top = float(weights.max(initial=0.0))
        if not top > 0.0:
            raise ValueError("all counts are zero: there is nothing to divide by")
        weights /= top  # a sum of huge ones may be more than a double can hold
        return cls(variables, weights / math.fsum(weights.ravel()))

    # -- reading ------------------------------------------------------------------------------------------

    @property
    def variables(self) -> dict[Any, list[str]]:
        """Name -> its values, in the order of the axes."""
        return {name: list(values) for name, values in self._values.items()}

    @property
    def probabilities(self) -> Floats:
        """The table, an axis for each variable: a copy."""
        return self._table.copy()

    def marginal(self, *names: Name) -> dict[Any, float]:
        """P of each value of one variable; of several, of each combination of values as a tuple.

        Raises KeyError for a name that is no variable, ValueError for one named twice.
        """
        return self.conditional(*names, given={})

    def conditional(self, *names: Name, given: Mapping[Name, Any]) -> dict[Any, float]:
        """P( . | given) of each value of one variable; of several, of each combination of values as a tuple.

        Raises KeyError for what is no variable or value, ValueError where the evidence has probability 0.

        Examples:
            >>> table = JointTable({"a": [0, 1], "b": [0, 1]}, [[0.125, 0.25], [0.375, 0.25]])
            >>> table.conditional("a", given={"b": 0})
            {'0': 0.25, '1': 0.75}
        """
        values, table = self._restricted(names, given)
        keys = [tuple(values[axis][i] for axis, i in enumerate(at)) for at in np.ndindex(*table.shape)]
        return {
            (key[0] if len(names) == 1 else key): p
            for key, p in zip(keys, table.ravel().tolist(), strict=True)
        }

    def restricted(self, *names: Name, given: Mapping[Name, Any] | None = None) -> JointTable:
        """The table of P(names | given) alone, with the axes in the order named.

        Errors as of `conditional`; a variable on both sides is refused with ValueError.
        """
        values, table = self._restricted(names, given or {})
        return JointTable(dict(zip(names, values, strict=True)), table)

    def probability(self, event: Mapping[Name, Any], given: Mapping[Name, Any] | None = None) -> float:
        """P(event | given), both as variable -> value.

        A variable on both sides is looked at on both: P(a=1 | a=0) is 0. Errors as of `conditional`.
        """
        given = given or {}
        total = float(self._table[self._index(given)].sum())
        if not total > 0.0:
            raise ValueError(f"the evidence {dict(given)!r} has probability 0")
        for name, value in given.items():
            if name in event and self._code(name, event[name]) != self._code(name, value):
                return 0.0
        return min(1.0, float(self._table[self._index({**given, **event})].sum()) / total)

    def most_probable(self, *names: Name, given: Mapping[Name, Any] | None = None) -> MostProbable:
        """The most probable values of these variables, all others summed out: the MAP; of equals the first.

        By default of all that are not given. Errors as of `conditional`.

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

    def independent(
        self,
        a: Name | Iterable[Name],
        b: Name | Iterable[Name],
        given: Name | Iterable[Name] = (),
        tolerance: float = 1e-9,
    ) -> Independence:
        """Whether `a` and `b` are independent, given `given`, and every number that this rests on.

        They are where P(a, b | c) and P(a | c) P(b | c) differ by at most `tolerance` for all values, of
        those c that have a probability above 0. Each side is a variable, or several in a list.

        Examples:
            >>> coins = JointTable({"a": ["H", "T"], "b": ["H", "T"]}, [[0.25, 0.25], [0.25, 0.25]])
            >>> answer = coins.independent("a", "b")
            >>> bool(answer), answer.comparisons[0].joint, answer.comparisons[0].product
            (True, 0.25, 0.25)
        """
        left, right, fixed = (self._side(one) for one in (a, b, given))
        if not left or not right:
            raise ValueError("independence is asked of two variables, or sets of them")
        values, table = self._restricted((*left, *right, *fixed), {})
        return compared(table, values, (left, right, fixed), tolerance)

    # -- inside -------------------------------------------------------------------------------------------

    def _restricted(self, names: Sequence[Name], given: Mapping[Name, Any]) -> tuple[list[list[str]], Floats]:
        """The values of each of these variables, and P of each combination, given others."""
        if len(set(names)) < len(names) or set(names) & set(given):
            raise ValueError(f"a variable is named twice: {', '.join(map(repr, (*names, *given)))}")
        wanted = [self._axis(name) for name in names]
        kept = np.asarray(self._table[self._index(given)])
        left = [axis for axis, name in enumerate(self._values) if name not in given]
        summed = kept.sum(axis=tuple(i for i, axis in enumerate(left) if axis not in wanted))
        order = [axis for axis in left if axis in wanted]
        table = np.asarray(summed).transpose([order.index(axis) for axis in wanted])
        if not kept.any():
            raise ValueError(f"the evidence {dict(given)!r} has probability 0")
        if table.size < self._table.size:  # divided by its own sum: rounding takes no share of it above 1
            table = table / table.sum()
        return [self._values[name] for name in names], table

    def _side(self, names: Any) -> tuple[Name, ...]:
        """One variable, or several."""
        is_one = isinstance(names, str) or (isinstance(names, Hashable) and names in self._values)
        return (names,) if is_one else tuple(names)

    def _axis(self, name: Name) -> int:
        if name not in self._values:
            known = ", ".join(map(repr, self._values))
            raise KeyError(f"{name!r} is no variable of this table; there are {known}")
        return list(self._values).index(name)

    def _code(self, name: Name, value: Any) -> int:
        self._axis(name)
        text, values = value_text(value), self._values[name]
        if text not in values:
            raise KeyError(f"{value!r} is no value of {name!r}; there are {', '.join(map(repr, values))}")
        return values.index(text)

    def _index(self, given: Mapping[Name, Any]) -> tuple[Any, ...]:
        codes = {name: self._code(name, value) for name, value in given.items()}
        return tuple(codes.get(name, slice(None)) for name in self._values)


def _array(values: Mapping[Name, Sequence[str]], given: Any) -> Floats:
    """As an array of the right shape, none of them negative. Raises ValueError."""
    shape = tuple(map(len, values.values()))
    if (cells := math.prod(shape)) > MOST_CELLS:
        raise ValueError(f"a table of {cells:,} cells over {len(shape)} variables; at most {MOST_CELLS:,}")
    try:
        if isinstance(given, Mapping):
            table = np.zeros(shape)
            for key, p in given.items():
                table[_place(values, key)] = p
        else:
            table = np.array(given, dtype=np.float64)
    except OverflowError as error:
        raise ValueError("no double holds one of these probabilities") from error
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
    if len(texts) != len(values) or not all(
        text in own for text, own in zip(texts, values.values(), strict=True)
    ):
        raise ValueError(f"expected a value for each of {', '.join(map(repr, values))}, got {key!r}")
    return tuple(own.index(text) for text, own in zip(texts, values.values(), strict=True))


def _texts(name: Name, values: Sequence[Any]) -> list[str]:
    texts = declared_texts(values)
    if not texts or len(set(texts)) < len(texts):
        raise ValueError(f"values of {name!r}: expected some, none of them twice, got {list(values)!r}")
    return texts
