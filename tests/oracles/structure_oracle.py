"""The posterior over structures the slow way: every graph in turn, by gamma functions, over lists of events."""

from __future__ import annotations

import math
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from itertools import combinations, product


def every_structure(names, most=None):
    """Each acyclic graph as parents by variable, with at most `most` parents of a variable."""
    most = len(names) - 1 if most is None else most
    ways = []
    for name in names:
        others = [other for other in names if other != name]
        ways.append([list(some) for n in range(most + 1) for some in combinations(others, n)])
    for way in product(*ways):
        parents = dict(zip(names, way, strict=True))
        try:
            TopologicalSorter(parents).prepare()
        except CycleError:
            continue
        yield parents


def log_likelihood(parents, variables, events, weight=1.0):
    """The Dirichlet-multinomial likelihood of each table, by its gamma functions; events are (x, count) pairs."""
    found = 0.0
    for name, above in parents.items():
        rows = math.prod(len(variables[parent]) for parent in above)
        row, cell = weight / rows, weight / rows / len(variables[name])
        cells, totals = Counter(), Counter()
        for x, n in events:
            key = tuple(x[parent] for parent in above)
            cells[key, x[name]] += n
            totals[key] += n
        found += sum(math.lgamma(row) - math.lgamma(row + n) for n in totals.values())
        found += sum(math.lgamma(cell + n) - math.lgamma(cell) for n in cells.values())
    return found


def posterior(variables, events, weight=1.0, most=None):
    """(structure, P(G | D)) of every structure."""
    structures = list(every_structure(list(variables), most))
    logs = [log_likelihood(one, variables, events, weight) for one in structures]
    shares = [math.exp(log - max(logs)) for log in logs]
    return [(one, share / math.fsum(shares)) for one, share in zip(structures, shares, strict=True)]


def edges(weighted):
    """P(a -> b | D) by pair."""
    found = Counter()
    for structure, p in weighted:
        for b, above in structure.items():
            for a in above:
                found[a, b] += p
    return found
