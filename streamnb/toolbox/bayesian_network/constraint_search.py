"""Structure search by tests of independence: the PC algorithm, with Bayes factors as tests.

    edges    all pairs start connected; the edge of a and b is removed if they are independent given some
             neighbours of one of them: first given none, then each one, each two, and so on
    arrows   a -> c <- b if the edge of a and b was removed, c is adjacent to both, and c is not in their
             separating set; then every line whose other direction would create such a collider or a cycle
             is directed (Meek's rules 1 to 3)

The remaining lines cannot be directed from data: both directions are equivalent.

References: Spirtes, Glymour and Scheines (2000), Causation, prediction, and search, section 5.4; Colombo
and Maathuis (2014), "Order-independent constraint-based causal structure learning"; Meek (1995), UAI; Dor
and Tarsi (1992), "A simple algorithm to construct a consistent extension of a partially oriented graph".
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import combinations, permutations
from typing import NamedTuple

Name = Hashable
Pair = tuple[Name, Name]


class PartialDag(NamedTuple):
    """Edges of which some are directed.

    Attributes:
        names: names of all variables.
        arrows: directed edges (from, to).
        lines: undirected edges, in the order of the names.
    """

    names: tuple[Name, ...]
    arrows: frozenset[Pair]
    lines: frozenset[Pair]

    def parents(self) -> dict[Name, list[Name]]:
        """Return the parents of each variable in a network of these edges, without new colliders a -> c <- b.

        If the tests contradict each other, such a network may not exist. Then lines follow the order of the
        names, and an arrow that would close a cycle is reversed.
        """
        remaining, arrows, lines = list(self.names), set(self.arrows), set(self.lines)
        found: dict[Name, list[Name]] = {name: [] for name in self.names}
        while remaining:
            sinks = (name for name in reversed(remaining) if _is_sink(name, arrows, lines))
            sink = next(sinks, remaining[-1])
            adjacent = {a if b == sink else b for a, b in (*arrows, *lines) if sink in (a, b)}
            found[sink] = [name for name in self.names if name in adjacent]
            arrows, lines = ({pair for pair in pairs if sink not in pair} for pairs in (arrows, lines))
            remaining.remove(sink)
        return found


def search(
    names: Sequence[Name], independent: Callable[[Name, Name, tuple[Name, ...]], bool], most_given: int
) -> PartialDag:
    """Return the structure found by these tests of independence, given at most `most_given` variables."""
    beside = {name: [other for other in names if other != name] for name in names}
    parting: dict[Pair, tuple[Name, ...]] = {}
    for size in range(most_given + 1):
        as_begun = {name: tuple(others) for name, others in beside.items()}
        for a, b in combinations(names, 2):
            if b in beside[a]:
                sets = (
                    given
                    for x, y in ((a, b), (b, a))
                    for given in combinations([name for name in as_begun[x] if name != y], size)
                )
                parted = next((given for given in sets if independent(a, b, given)), None)
                if parted is not None:
                    parting[a, b] = parted
                    beside[a].remove(b)
                    beside[b].remove(a)
    return oriented(tuple(names), beside, parting)


def oriented(
    names: tuple[Name, ...], adjacent: dict[Name, list[Name]], parting: dict[Pair, tuple[Name, ...]]
) -> PartialDag:
    """Return the directed and undirected edges.

    Args:
        names: all variables.
        adjacent: joined variables, by variable.
        parting: the variables that separate a pair, by each pair that is not joined.
    """
    lines = {(a, b) for a, b in combinations(names, 2) if b in adjacent[a]}
    arrows: set[Pair] = set()

    def point(a: Name, b: Name) -> bool:
        """Direct a line; return False if the two share no line."""
        line = (a, b) if (a, b) in lines else (b, a)
        if line not in lines:
            return False
        lines.discard(line)
        arrows.add((a, b))
        return True

    for (a, b), given in parting.items():
        for c in adjacent[a]:
            if c in adjacent[b] and c not in given:
                point(a, c)
                point(b, c)
    while any(
        point(b, c)
        for b, c in permutations(names, 2)
        if c in adjacent[b] and _must_point(b, c, arrows, adjacent)
    ):
        pass
    return PartialDag(names, frozenset(arrows), frozenset(lines))


def _must_point(b: Name, c: Name, arrows: set[Pair], beside: dict[Name, list[Name]]) -> bool:
    """Return True if c -> b would create a collider or a cycle: Meek's rules 1, 2 and 3."""
    into_b, into_c = ({x for x, y in arrows if y == end} for end in (b, c))
    by_rule_1 = any(c not in beside[a] for a in into_b if a != c)
    by_rule_2 = any((b, a) in arrows for a in into_c)
    between = [a for a in beside[b] if a in into_c and a not in into_b and (b, a) not in arrows]
    by_rule_3 = any(y not in beside[x] for x, y in combinations(between, 2))
    return by_rule_1 or by_rule_2 or by_rule_3


def _is_sink(name: Name, arrows: set[Pair], lines: set[Pair]) -> bool:
    """Return True if all edges may point at `name`: none leaves it, and it makes no new collider."""
    if any(a == name for a, _ in arrows):
        return False
    on_lines = {a if b == name else b for a, b in lines if name in (a, b)}
    around = on_lines | {a for a, b in arrows if b == name}
    joined = {frozenset(pair) for pair in (*arrows, *lines)}
    return all(frozenset((x, y)) in joined for x in on_lines for y in around if x != y)
