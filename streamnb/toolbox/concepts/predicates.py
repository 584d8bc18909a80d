"""Hypothesis spaces of named functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

from streamnb.toolbox.concepts.hypothesis_space import Judgement
from streamnb.values.state_validation import plain

Predicate = Callable[[Any], bool | None]
"""A function that returns True if an instance is in the concept, or None if that is undecided."""


class Predicates:
    """A hypothesis space of named functions, in the order of declaration.

    Args:
        functions: functions of an instance by name, which return True, False or None.

    Raises:
        ValueError: if `functions` is empty.
    """

    def __init__(self, functions: Mapping[Any, Predicate]) -> None:
        if not functions:
            raise ValueError("a concept learner needs at least one hypothesis")
        self._functions = dict(functions)
        self._names = list(functions)
        self._numbers = {name: i for i, name in enumerate(functions)}

    @property
    def size(self) -> int:
        """Number of functions."""
        return len(self._names)

    def judge(self, x: Any) -> Judgement:
        """Call each function. Raises any exception of a function, and TypeError for any other result."""
        covering, undecided = [], []
        for i, (name, function) in enumerate(self._functions.items()):
            answer = function(x)
            if answer is None:
                undecided.append(i)
            elif not isinstance(answer, (bool, np.bool_)):
                raise TypeError(f"hypothesis {name!r} must return True, False or None, not {answer!r}")
            elif answer:
                covering.append(i)
        return Judgement(np.array(covering, dtype=np.int64), np.array(undecided, dtype=np.int64))

    def hypothesis(self, number: int) -> Any:
        """Return the name of the function of this number."""
        return self._names[number]

    def number(self, hypothesis: Any) -> int:
        """Return the number of the function of this name. Raises KeyError."""
        return self._numbers[hypothesis]

    def specificity(self, _chosen: Any = None, /) -> NoReturn:
        """Raise TypeError: functions cannot be ordered by specificity."""
        raise TypeError("functions have no order from general to specific; a space of conjunctions has")

    general = specific = specificity

    def described(self) -> dict[str, Any]:
        """Return the names, without the functions. Raises TypeError for names of other types."""
        return {"names": [*map(plain, self._names)]}

    def __eq__(self, other: object) -> bool:
        """Return True if both have the same functions under the same names, in the same order."""
        if not isinstance(other, Predicates):
            return NotImplemented
        return list(self._functions.items()) == list(other._functions.items())

    __hash__ = None  # type: ignore[assignment]  # names and functions may not be hashable
