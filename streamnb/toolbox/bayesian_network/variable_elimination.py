"""Variable elimination: sums and maxima over a product of factors without building the whole product.

Each variable in turn is summed out of the factors that contain it. A step costs the size of the table that it
builds, and that depends on the order. The best order is NP-hard to find, and *min-fill* is a good one: it
removes the variable whose removal connects the fewest pairs of neighbours that were not connected before.

References: Zhang and Poole (1996), "Exploiting causal independence in Bayesian network inference", JAIR 5;
Koller and Friedman, Probabilistic graphical models (2009), chapters 9 and 13.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import combinations

import numpy as np

from streamnb.kernels.array_types import Floats
from streamnb.toolbox.bayesian_network.dag import ancestors
from streamnb.toolbox.bayesian_network.factors import Factor, maximised, product, summed, total
from streamnb.toolbox.bayesian_network.family_counts import FamilyTables


class NetworkInference:
    """Sums over the joint distribution of a network.

    Invariant: the result is the sum over the whole joint table, but only the factors of the variables of a
    question and of their ancestors are read, because all other factors sum to 1.

    Args:
        tables: the counts, with the graph.
        read: returns P(v | parents) as a factor, for a variable and known codes.
    """

    def __init__(self, tables: FamilyTables, read: Callable[[int, Mapping[int, int]], Factor]) -> None:
        self._tables, self.read = tables, read

    def factors(self, wanted: Iterable[int], evidence: Mapping[int, int]) -> list[Factor]:
        """Return P(v | parents) of the wanted variables and their ancestors."""
        return [self.read(v, evidence) for v in sorted(ancestors(self._tables.dag.parents, wanted))]

    def log_probability(self, evidence: Mapping[int, int]) -> tuple[float, int]:
        """Return log P(evidence), and its number of factors that are 0 only in the limit."""
        return total(sum_of_products(self.factors(evidence, evidence), ()))

    def shares(self, numbers: tuple[int, ...], evidence: Mapping[int, int]) -> Floats:
        """Return P of each combination of live values. Raises ValueError if P(evidence) is 0."""
        factor = sum_of_products(self.factors({*numbers, *evidence}, evidence), numbers)
        below, misses = total(factor)
        if below == -math.inf:
            raise ValueError("the evidence has probability 0")
        shares = np.exp(factor.logs - below)
        if factor.misses is not None:
            shares = np.where(factor.misses > misses, 0.0, shares)
        found: Floats = shares / shares.sum()
        return found


def ratio(above: tuple[float, int], below: tuple[float, int]) -> float:
    """Return P(a, b) / P(b) from both log probabilities; 0 if a has more factors that are 0 in the limit."""
    return min(1.0, math.exp(above[0] - below[0])) if above[1] == below[1] else 0.0


def sum_of_products(factors: Iterable[Factor], kept: tuple[int, ...]) -> Factor:
    """Return the product of all factors, summed over every variable except the axes `kept`."""
    found = product(_eliminated(list(factors), kept))
    order = tuple(found.scope.index(variable) for variable in kept)
    misses = None if found.misses is None else found.misses.transpose(order)
    return Factor(kept, found.logs.transpose(order), misses)


def maximum(factors: Iterable[Factor], of: tuple[int, ...]) -> tuple[dict[int, int], float, int]:
    """Return the values of the variables `of` that maximise the sum over all others, its log and misses."""
    rest = _eliminated(list(factors), of)
    steps = []
    for variable in _min_fill(rest, of):
        best, at = maximised(product([f for f in rest if variable in f.scope]), variable)
        rest = [f for f in rest if variable not in f.scope] + [best]
        steps.append((variable, best.scope, at))
    found: dict[int, int] = {}
    for variable, scope, at in reversed(steps):
        found[variable] = int(at[tuple(found[other] for other in scope)])
    log, misses = total(product(rest))
    return {variable: found[variable] for variable in of}, log, misses


def _eliminated(factors: list[Factor], kept: Collection[int]) -> list[Factor]:
    others = {variable for f in factors for variable in f.scope}.difference(kept)
    for variable in _min_fill(factors, others):
        own = [f for f in factors if variable in f.scope]
        factors = [f for f in factors if variable not in f.scope]
        factors.append(summed(product(own), (variable,)))
    return factors


def _min_fill(factors: Iterable[Factor], variables: Iterable[int]) -> Iterable[int]:
    """Return the variables in elimination order; ties go to the fewest neighbours, then to the numbers."""
    near: dict[int, set[int]] = {}
    for factor in factors:
        for variable in factor.scope:
            near.setdefault(variable, set()).update(factor.scope)
    remaining = sorted(variables)
    order = []
    while remaining:
        best = min(remaining, key=lambda variable: (_fill(near, variable), len(near[variable]), variable))
        remaining.remove(best)
        order.append(best)
        neighbours = near.pop(best) - {best}
        for other in neighbours:
            near[other] |= neighbours
            near[other].discard(best)
    return order


def _fill(near: Mapping[int, set[int]], variable: int) -> int:
    return sum(b not in near[a] for a, b in combinations(sorted(near[variable] - {variable}), 2))
