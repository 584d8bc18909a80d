"""A directed acyclic graph over named variables, with d-separation."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

from streamnb.values.parameter_checks import check_mapping, did_you_mean

Name = Hashable


class Dag:
    """Variables and their parents, by number and by name.

    Args:
        parents: parents of every variable; the order of both is kept.

    Attributes:
        names: names of the variables, by number.
        number: number by name.
        parents: numbers of the parents of each variable, in the declared order.
        children: numbers of the children of each variable, ascending.
        order: all numbers, parents before children.

    Raises:
        ValueError: if a parent is not a variable or is named twice, or the arrows form a cycle.

    Examples:
        >>> dag = Dag({"rain": [], "sprinkler": [], "wet": ["rain", "sprinkler"]})
        >>> dag.d_separated(["rain"], ["sprinkler"], [])
        True
        >>> dag.d_separated(["rain"], ["sprinkler"], ["wet"])  # wet without a sprinkler: it rained
        False
    """

    def __init__(self, parents: Mapping[Name, Sequence[Name]]) -> None:
        check_mapping("parents", parents, "{'rain': [], 'wet': ['rain']}")
        self.names = tuple(parents)
        self.number = {name: i for i, name in enumerate(self.names)}
        self.parents = tuple(self._numbers_of(name, given) for name, given in parents.items())
        every = range(len(self.names))
        self.children = tuple(tuple(c for c in every if i in self.parents[c]) for i in every)
        try:
            self.order = tuple(TopologicalSorter(dict(enumerate(self.parents))).static_order())
        except CycleError as error:
            circle = " <- ".join(repr(self.names[i]) for i in reversed(error.args[1]))
            raise ValueError(f"parents form a cycle: {circle}") from error

    def __len__(self) -> int:
        return len(self.names)

    def numbers(self, names: Iterable[Name]) -> tuple[int, ...]:
        """Return the number of each name. Raises KeyError, with the known names, for an unknown name."""
        found = []
        for name in names:
            if name not in self.number:
                known = ", ".join(map(repr, self.names)) + did_you_mean(str(name), map(str, self.names))
                raise KeyError(f"{name!r} is not a variable of this network; the variables are {known}")
            found.append(self.number[name])
        return tuple(found)

    def d_separated(self, a: Iterable[Name], b: Iterable[Name], given: Iterable[Name] = ()) -> bool:
        """Return True if the graph makes `a` and `b` independent given `given`, for any tables.

        That is the case if no path connects them once `given` is observed. An observed variable blocks a
        path unless it is a collider. A collider blocks it unless it, or a descendant of it, is observed.

        Raises KeyError for an unknown name, ValueError if a variable is on two of the three sides.

        Reference: Pearl (1988), Probabilistic reasoning in intelligent systems, section 3.3; as reachability
        ("Bayes ball"): Shachter (1998), UAI.
        """
        left, right, seen = set(self.numbers(a)), set(self.numbers(b)), set(self.numbers(given))
        if left & right or left & seen or right & seen:
            raise ValueError("a variable occurs on two sides of a question of independence")
        return not self._reachable(left, seen) & right

    def _reachable(self, sources: set[int], seen: set[int]) -> set[int]:
        """Return every variable reachable by a path that `seen` does not block.

        At a collider the search continues down to an observed descendant, and from it up to the other parent.
        """
        found: set[int] = set()
        visited: set[tuple[int, bool]] = set()
        waiting = [(source, True) for source in sources]  # (variable, True if reached from a child)
        while waiting:
            variable, from_child = step = waiting.pop()
            if step in visited:
                continue
            visited.add(step)
            if variable not in seen:
                found.add(variable)
                waiting += [(child, False) for child in self.children[variable]]
                if from_child:
                    waiting += [(parent, True) for parent in self.parents[variable]]
            elif not from_child:
                waiting += [(parent, True) for parent in self.parents[variable]]
        return found

    def _numbers_of(self, name: Name, given: Any) -> tuple[int, ...]:
        if isinstance(given, str):
            raise ValueError(f"parents of {name!r}: expected a list of names, not {given!r}")  # noqa: TRY004
        for parent in given:
            if parent not in self.number:
                known = ", ".join(map(repr, self.names))
                raise ValueError(
                    f"parents of {name!r}: {parent!r} is not a variable; the variables are {known}. "
                    "Parents are variable -> list of its parents, [] for none"
                )
        if len(set(given)) < len(given):
            raise ValueError(f"parents of {name!r}: one of {list(given)!r} is named twice")
        return tuple(self.number[parent] for parent in given)


def ancestors(parents: Sequence[Sequence[int]], numbers: Iterable[int]) -> set[int]:
    """Return these variables and all of their ancestors."""
    found: set[int] = set()
    waiting = list(numbers)
    while waiting:
        variable = waiting.pop()
        if variable not in found:
            found.add(variable)
            waiting += parents[variable]
    return found
