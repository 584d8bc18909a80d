"""Variable elimination: sums and maxima over a product of factors without building the whole product.

Each variable in turn is summed out of the factors that contain it. A step costs the size of the table that it
builds, and that depends on the order. The best order is NP-hard to find, and *min-fill* is a good one: it
removes the variable whose removal connects the fewest pairs of neighbours that were not connected before.

References: Zhang and Poole (1996), "Exploiting causal independence in Bayesian network inference", JAIR 5;
Koller and Friedman, Probabilistic graphical models (2009), chapters 9 and 13.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import combinations

from streamnb.toolbox.bayesian_network.factors import Factor, maximised, product, summed, total


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
