"""Conjunctions of nominal constraints, and the finite space of all conjunctions over declared values.

A conjunction requires for each attribute either nothing ("?") or one value. h1 is more general than or equal
to h2 if it covers every instance that h2 covers, that is, if each constraint of h1 is a constraint of h2. The
most specific hypothesis is the *empty concept*, which covers nothing.

Over attributes of n_1 .. n_k values there are (n_1 + 1) .. (n_k + 1) + 1 conjunctions (one that excludes
every value of some attribute equals the empty concept). The numbering makes the conjunctions that cover an
instance computable: number 0 is the empty concept, and 1 + i the conjunction whose constraints are the digits
of i, in a number system with n_j + 1 digits at position j, in which digit 0 is "?". An instance is covered by
the 2^k conjunctions whose digits are 0 or the digits of its own values.

Reference: Mitchell, Machine Learning (1997), chapter 2.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from streamnb.kernels.array_types import Floats
from streamnb.toolbox.concepts.hypothesis_space import Judgement
from streamnb.values.nominal_values import declared_texts, value_text
from streamnb.values.number_ranges import is_missing
from streamnb.values.parameter_checks import check_mapping
from streamnb.values.state_validation import plain
from streamnb.values.type_aliases import Flags

MOST_HYPOTHESES = 10_000_000
"""Maximum size of a space: a learner takes about 40 bytes for each hypothesis."""


class Conjunction:
    """A concept that requires one value of each of some attributes, or the empty concept.

    Values are compared by their text, as in `Nominal`: 3 and 3.0 are "3", True is "true".

    Args:
        constraints: required value by attribute; {} covers everything, None is the empty concept, which
            covers nothing.

    Raises:
        TypeError: for a value that is not a string, boolean or number.

    Examples:
        >>> from streamnb import Conjunction
        >>> sunny = Conjunction({"sky": "sunny"})
        >>> sunny.covers({"sky": "sunny", "wind": "weak"}), sunny.covers({"sky": "rainy"})
        (True, False)
        >>> sunny.covers({"wind": "weak"}) is None  # the sky is missing: undecided
        True
        >>> sunny.is_more_general_or_equal(Conjunction({"sky": "sunny", "wind": "weak"}))
        True
        >>> str(sunny), str(Conjunction({})), str(Conjunction(None))
        ('sky=sunny', 'anything', 'nothing')

    References:
        Mitchell, Machine Learning (1997), section 2.2.
    """

    def __init__(self, constraints: Mapping[Any, Any] | None) -> None:
        check_mapping("constraints", constraints, "{'sky': 'sunny'}")
        texts = {name: value_text(value) for name, value in (constraints or {}).items()}
        self._constraints = None if constraints is None else texts

    @property
    def constraints(self) -> dict[Any, str] | None:
        """Required value by attribute, as text; None for the empty concept."""
        return None if self._constraints is None else dict(self._constraints)

    def covers(self, x: Mapping[Any, Any]) -> bool | None:
        """Return True if `x` is in the concept; None if that depends on missing (or non-finite) values."""
        if self._constraints is None:
            return False
        covered: bool | None = True
        for name, required in self._constraints.items():
            value = x.get(name)
            if is_missing(value):
                covered = None
            elif value_text(value) != required:
                return False
        return covered

    def is_more_general_or_equal(self, other: Conjunction) -> bool:
        """Return True if this covers all that `other` covers: its constraints are a subset of the other's."""
        if other._constraints is None or self._constraints is None:
            return other._constraints is None
        return self._constraints.items() <= other._constraints.items()

    def __eq__(self, other: object) -> bool:
        """Return True if both have the same constraints, in any order."""
        if not isinstance(other, Conjunction):
            return NotImplemented
        return self._constraints == other._constraints

    def __hash__(self) -> int:
        return hash(None if self._constraints is None else frozenset(self._constraints.items()))

    def __repr__(self) -> str:
        return f"Conjunction({self._constraints!r})"

    def __str__(self) -> str:
        if self._constraints is None:
            return "nothing"
        return " & ".join(f"{name}={value}" for name, value in self._constraints.items()) or "anything"


class Conjunctions:
    """Space of all conjunctions over declared attributes and values, with the empty concept.

    No constraint requires an undeclared value, and undeclared attributes are ignored. Number 0 is the empty
    concept, number 1 the most general conjunction.

    Args:
        attributes: values by name, at least one each; values are compared by their text.

    Raises:
        ValueError: if `attributes` is empty, an attribute has no value or a value twice, or there are more
            than ten million hypotheses.
        TypeError: for a value that is not a string, boolean or number.

    Examples:
        The hypotheses of EnjoySport (Mitchell 1997, section 2.3), 4 x 3 x 3 x 3 x 3 x 3 + 1 of them:

        >>> from streamnb import Conjunction, Conjunctions
        >>> space = Conjunctions({
        ...     "sky": ["sunny", "cloudy", "rainy"], "temperature": ["warm", "cold"],
        ...     "humidity": ["normal", "high"], "wind": ["strong", "weak"],
        ...     "water": ["warm", "cool"], "forecast": ["same", "change"],
        ... })
        >>> space.size
        973
        >>> space.notation(Conjunction({"sky": "sunny", "wind": "strong"}))
        '<sunny, ?, ?, strong, ?, ?>'
    """

    def __init__(self, attributes: Mapping[Any, Iterable[Any]]) -> None:
        check_mapping("attributes", attributes, "{'sky': ['sunny', 'rainy']}")
        self._digits: dict[Hashable, dict[str, int]] = {}
        for name, values in attributes.items():
            texts = declared_texts(values)
            self._digits[name] = {text: i for i, text in enumerate(texts, start=1)}
            if not texts or len(self._digits[name]) < len(texts):
                raise ValueError(f"attribute {name!r}: expected different values, at least one, got {texts}")
        if not self._digits:
            raise ValueError("conjunctions need at least one attribute")
        self._shape = tuple(len(digits) + 1 for digits in self._digits.values())
        if self.size > MOST_HYPOTHESES:
            raise ValueError(f"{self.size:,} conjunctions are more than {MOST_HYPOTHESES:,}")
        steps = np.cumprod([1, *self._shape[:0:-1]], dtype=np.int64)[::-1]
        self._steps: dict[Hashable, int] = dict(zip(self._digits, steps.tolist(), strict=True))

    @property
    def attributes(self) -> dict[Any, list[str]]:
        """Values by attribute name, as text."""
        return {name: list(digits) for name, digits in self._digits.items()}

    @property
    def size(self) -> int:
        """Number of hypotheses, including the empty concept."""
        return 1 + math.prod(self._shape)

    def judge(self, x: Mapping[Any, Any]) -> Judgement:
        """Return the conjunctions that cover `x`, and those that are undecided.

        Raises TypeError for a value of a declared attribute that is not a string, boolean or number.
        """
        numbers = np.ones(1, dtype=np.int64)
        decided = np.ones(1, dtype=np.bool_)
        for name, digits in self._digits.items():
            value = x.get(name)
            if is_missing(value):
                possible = np.arange(len(digits) + 1)
                decided = (decided[:, np.newaxis] & (possible == 0)).ravel()
            else:
                digit = digits.get(value_text(value))
                possible = np.array([0] if digit is None else [0, digit])
                decided = np.repeat(decided, possible.size)
            numbers = (numbers[:, np.newaxis] + self._steps[name] * possible).ravel()
        return Judgement(numbers[decided], numbers[~decided])

    def hypothesis(self, number: int) -> Conjunction:
        """Return the conjunction of this number. Raises IndexError."""
        if not 0 <= number < self.size:
            raise IndexError(f"hypothesis {number} is out of range: the space has {self.size}")
        if number == 0:
            return Conjunction(None)
        constraints = {}
        for name, digits in self._digits.items():
            digit = (number - 1) // self._steps[name] % (len(digits) + 1)
            if digit:
                constraints[name] = list(digits)[digit - 1]
        return Conjunction(constraints)

    def number(self, hypothesis: Conjunction) -> int:
        """Return the number of a conjunction. Raises KeyError if the space does not contain it."""
        if not isinstance(hypothesis, Conjunction):
            raise KeyError(hypothesis)
        constraints = hypothesis.constraints
        if constraints is None:
            return 0
        offsets = [self._steps[name] * self._digits[name][value] for name, value in constraints.items()]
        return 1 + sum(offsets)

    def specificity(self) -> Floats:
        """Return 2^constraints, float64[size]; for the empty concept 2^(attributes + 1)."""
        constraints = np.zeros(self._shape, dtype=np.int64)
        for axis, size in enumerate(self._shape):
            asks = (np.arange(size) > 0).reshape([-1 if a == axis else 1 for a in range(len(self._shape))])
            constraints += asks
        asked = np.concatenate([[len(self._shape) + 1], constraints.ravel()])
        relative: Floats = np.exp2(asked)
        return relative

    def general(self, chosen: Flags) -> list[int]:
        """Return the most general of the chosen, bool[size], which include all between any two of them.

        A chosen conjunction is not among them if one of its constraints can be dropped.
        """
        grid = chosen[1:].reshape(self._shape)
        most = grid.copy()
        for axis in range(grid.ndim):
            np.moveaxis(most, axis, 0)[1:] &= ~np.moveaxis(grid, axis, 0)[0]
        found: list[int] = (1 + np.flatnonzero(most)).tolist()
        return found or np.flatnonzero(chosen[:1]).tolist()

    def specific(self, chosen: Flags) -> list[int]:
        """Return the most specific of the chosen, bool[size], which include all between any two of them."""
        if chosen[0]:
            return [0]
        grid = chosen[1:].reshape(self._shape)
        least = grid.copy()
        for axis in range(grid.ndim):
            np.moveaxis(least, axis, 0)[0] &= ~np.moveaxis(grid, axis, 0)[1:].any(axis=0)
        return (1 + np.flatnonzero(least)).tolist()

    def notation(self, hypothesis: Conjunction) -> str:
        """Return a conjunction in Mitchell's notation: a value or "?" for each attribute; "0" for none."""
        constraints = hypothesis.constraints
        asked = ["0" if constraints is None else constraints.get(name, "?") for name in self._digits]
        return f"<{', '.join(asked)}>"

    def described(self) -> dict[str, Any]:
        """Return names and values. Raises TypeError for names that are not strings, booleans or numbers."""
        return {"attributes": [[plain(name), list(digits)] for name, digits in self._digits.items()]}

    def __eq__(self, other: object) -> bool:
        """Return True if both have the same attributes and values, in the same order."""
        if not isinstance(other, Conjunctions):
            return NotImplemented
        return list(self.attributes.items()) == list(other.attributes.items())

    __hash__ = None  # type: ignore[assignment]  # not needed

    def __repr__(self) -> str:
        return f"Conjunctions({self.attributes!r})"
