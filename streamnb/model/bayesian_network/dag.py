"""A directed acyclic graph over named variables, and what its arrows say about independence."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

from streamnb.model.attributes.nearest import did_you_mean
from streamnb.model.attributes.parameters import check_mapping

Name = Hashable


class Dag:
    """Variables and their parents, by number and by name.

    Args:
        parents: variable -> its parents, for every variable; the order of both is kept.

    Attributes:
        names: of the variables, by number.
        number: name -> number.
        parents: of each variable the numbers of its parents, in the order given.
        children: of each variable the numbers of its children, rising.
        order: all numbers, parents before children.

    Raises:
        ValueError: if a parent is no variable or is named twice, or arrows run in a circle.

    Examples:
        >>> dag = Dag({"rain": [], "sprinkler": [], "wet": ["rain", "sprinkler"]})
        >>> dag.d_separated(["rain"], ["sprinkler"], [])
        True
        >>> dag.d_separated(["rain"], ["sprinkler"], ["wet"])  # wet without a sprinkler: it has rained
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
        """The number of each name. Raises KeyError, saying which there are, for one that is no variable."""
        found = []
        for name in names:
            if name not in self.number:
                known = ", ".join(map(repr, self.names)) + did_you_mean(str(name), map(str, self.names))
                raise KeyError(f"{name!r} is no variable of this network; there are {known}")
            found.append(self.number[name])
        return tuple(found)

    def d_separated(self, a: Iterable[Name], b: Iterable[Name], given: Iterable[Name] = ()) -> bool:
        """Whether the arrows alone make `a` and `b` independent given `given`, whatever the tables hold.

        No path joins them once those of `given` are observed: a path is cut at an observed variable, but for
        one where two arrows meet, which joins them when it, or a descendant of it, is observed.

        Raises KeyError for an unknown name, ValueError where a variable is on two of the three sides.

        Reference: Pearl (1988), Probabilistic reasoning in intelligent systems, section 3.3; as reachability
        ("Bayes ball"): Shachter (1998), UAI.
        """
        left, right, seen = set(self.numbers(a)), set(self.numbers(b)), set(self.numbers(given))
        if left & right or left & seen or right & seen:
            raise ValueError("a variable stands on two sides of a question of independence")
        return not self._reachable(left, seen) & right

    def _reachable(self, sources: set[int], seen: set[int]) -> set[int]:
        """Every variable that a path leads to that `seen` does not cut.

        Where two arrows meet, a way from the one goes down until something is observed, if anything is, and
        comes back up to the other.
        """
        found: set[int] = set()
        visited: set[tuple[int, bool]] = set()
        waiting = [(source, True) for source in sources]  # (variable, whether it was come to from a child)
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
                raise ValueError(f"parents of {name!r}: {parent!r} is no variable; there are {known}")
        if len(set(given)) < len(given):
            raise ValueError(f"parents of {name!r}: one of {list(given)!r} is named twice")
        return tuple(self.number[parent] for parent in given)


def ancestors(parents: Sequence[Sequence[int]], numbers: Iterable[int]) -> set[int]:
    """These variables, and all that an arrow leads from to them, by whatever way; of each its parents."""
    found: set[int] = set()
    waiting = list(numbers)
    while waiting:
        variable = waiting.pop()
        if variable not in found:
            found.add(variable)
            waiting += parents[variable]
    return found
