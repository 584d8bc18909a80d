"""Networks the slow and obvious way: counts in dictionaries, fractions, and a sum over the whole joint table."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product

from hypothesis import strategies as st

TINY = Fraction(1, 10**60)  # alpha -> 0, as an exact number that is small enough


class Enumerated:
    """A network over events of texts, which are learned at once."""

    def __init__(self, parents, events, alpha=1, m=None, values=None, unsmoothed=()):
        self.parents = parents
        self.events = [(x, Fraction(w)) for x, w in events]
        met = {name: Counter() for name in parents}
        self.cells = {name: Counter() for name in parents}
        for x, w in self.events:
            for name, above in parents.items():
                if x.get(name) is not None and w:
                    met[name][x[name]] += w
                    if all(x.get(parent) is not None for parent in above):
                        self.cells[name][tuple(x[parent] for parent in above), x[name]] += w
        self.values = {name: (values or {}).get(name) or list(met[name]) for name in parents}
        self.unsmoothed = unsmoothed
        self.smoothing = (TINY if alpha == 0 else Fraction(alpha), None if m is None else Fraction(m) or TINY)

    def share(self, name, above, value):
        k = len(self.values[name])
        alpha, m = (TINY, None) if name in self.unsmoothed else self.smoothing
        every, whole = (alpha, alpha * k) if m is None else (m / k, m)
        n = sum(self.cells[name][above, other] for other in self.values[name])
        return (self.cells[name][above, value] + every) / (n + whole)

    def joint(self, x):
        found = Fraction(1)
        for name, above in self.parents.items():
            found *= self.share(name, tuple(x[parent] for parent in above), x[name])
        return found

    def worlds(self, given):
        names = list(self.parents)
        for values in product(*(self.values[name] for name in names)):
            x = dict(zip(names, values, strict=True))
            if all(x[name] == value for name, value in given.items()):
                yield x, self.joint(x)

    def distribution(self, names, given):
        found = Counter()
        for x, p in self.worlds(given):
            found[tuple(x[name] for name in names)] += p
        total = sum(found.values())
        return {key: p / total for key, p in found.items()}

    def probability(self, given):
        return sum(p for _, p in self.worlds(given))


@st.composite
def structures(draw, most=6):
    """Variable -> parents, in an order in which parents need not come first."""
    n = draw(st.integers(1, most))
    parents = {}
    for i in range(n):
        above = draw(st.sets(st.integers(0, i - 1), max_size=3)) if i else set()
        parents[f"v{i}"] = [f"v{j}" for j in sorted(above)]
    names = draw(st.permutations(sorted(parents)))
    return {name: parents[name] for name in names}


WEIGHTS = [Fraction(1), Fraction(1, 2), Fraction(3), Fraction(1, 1024)]


@st.composite
def networks(draw, most=6):
    """(parents, events with weights): every variable has a value, since the first event has all."""
    parents = draw(structures(most))
    cards = {name: draw(st.integers(1, 4)) for name in parents}
    values = {name: st.sampled_from([f"x{i}" for i in range(cards[name])]) for name in parents}
    whole = st.fixed_dictionaries(values)
    gappy = st.fixed_dictionaries({name: st.none() | value for name, value in values.items()})
    n = draw(st.integers(1, 12))
    events = [draw(whole)] + [draw(gappy) for _ in range(n - 1)]
    return parents, [(x, draw(st.sampled_from(WEIGHTS))) for x in events]


SMOOTHING = st.sampled_from([{"alpha": 1}, {"alpha": 0.25}, {"alpha": 0}, {"m": 2}, {"m": 0.5}, {"m": 0}])
