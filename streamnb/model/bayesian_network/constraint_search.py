"""A structure by tests of independence: the PC algorithm, with Bayes factors as its tests.

    edges    all pairs are joined; a and b are parted where, given some neighbours of one of them, they are
             independent: no neighbours are tried first, then each one, each two, and so on
    arrows   a -> c <- b where a and b are parted, c joins both, and c is not among what parts them; then
             what would make another such place, or a circle, points the other way (Meek's rules 1 to 3)

What is left without a direction no data can direct: either way says the same.

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
    """Edges, of which some have a direction.

    Attributes:
        names: of all variables.
        arrows: (from, to).
        lines: pairs that are joined without a direction, in the order of the names.
    """

    names: tuple[Name, ...]
    arrows: frozenset[Pair]
    lines: frozenset[Pair]

    def parents(self) -> dict[Name, list[Name]]:
        """Variable -> parents in a network of these edges, the lines directed without a new a -> c <- b.

        Where tests contradict each other there may be none; then lines go as the names are ordered, and an
        arrow that would close a circle is turned.
        """
        left, arrows, lines = list(self.names), set(self.arrows), set(self.lines)
        found: dict[Name, list[Name]] = {name: [] for name in self.names}
        while left:
            sink = next((name for name in reversed(left) if _is_sink(name, arrows, lines)), left[-1])
            beside = {a if b == sink else b for a, b in (*arrows, *lines) if sink in (a, b)}
            found[sink] = [name for name in self.names if name in beside]
            arrows, lines = ({pair for pair in pairs if sink not in pair} for pairs in (arrows, lines))
            left.remove(sink)
        return found


def search(
    names: Sequence[Name], independent: Callable[[Name, Name, tuple[Name, ...]], bool], most_given: int
) -> PartialDag:
    """The structure that these tests of independence leave, given sets of at most `most_given` variables."""
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
    return _directed(tuple(names), beside, parting)


def _directed(
    names: tuple[Name, ...], beside: dict[Name, list[Name]], parting: dict[Pair, tuple[Name, ...]]
) -> PartialDag:
    lines = {(a, b) for a, b in combinations(names, 2) if b in beside[a]}
    arrows: set[Pair] = set()

    def point(a: Name, b: Name) -> bool:
        """Direct a line; False where there is none to direct."""
        line = (a, b) if (a, b) in lines else (b, a)
        if line not in lines:
            return False
        lines.discard(line)
        arrows.add((a, b))
        return True

    for (a, b), given in parting.items():
        for c in beside[a]:
            if c in beside[b] and c not in given:
                point(a, c)
                point(b, c)
    while any(
        point(b, c) for b, c in permutations(names, 2) if c in beside[b] and _must_point(b, c, arrows, beside)
    ):
        pass
    return PartialDag(names, frozenset(arrows), frozenset(lines))


def _must_point(b: Name, c: Name, arrows: set[Pair], beside: dict[Name, list[Name]]) -> bool:
    """Whether c -> b would make a place where two arrows meet, or a circle: Meek's rules 1, 2 and 3."""
    into_b, into_c = ({x for x, y in arrows if y == end} for end in (b, c))
    by_rule_1 = any(c not in beside[a] for a in into_b if a != c)
    by_rule_2 = any((b, a) in arrows for a in into_c)
    between = [a for a in beside[b] if a in into_c and a not in into_b and (b, a) not in arrows]
    by_rule_3 = any(y not in beside[x] for x, y in combinations(between, 2))
    return by_rule_1 or by_rule_2 or by_rule_3


def _is_sink(name: Name, arrows: set[Pair], lines: set[Pair]) -> bool:
    """Whether all edges may point at it: none leaves it, and what a line joins is joined to all the rest."""
    if any(a == name for a, _ in arrows):
        return False
    on_lines = {a if b == name else b for a, b in lines if name in (a, b)}
    around = on_lines | {a for a, b in arrows if b == name}
    joined = {frozenset(pair) for pair in (*arrows, *lines)}
    return all(frozenset((x, y)) in joined for x in on_lines for y in around if x != y)
