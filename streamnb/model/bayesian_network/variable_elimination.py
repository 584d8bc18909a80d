"""Variable elimination: sums and maxima over a product of factors, without ever making the whole product.

Each variable in turn is summed out of the factors that have it alone. What a step costs is the size of the
table it makes, and the order decides that; the best order is NP-hard to find, and *min-fill* is a good one:
next is the variable whose removal joins the fewest pairs of its neighbours that were not joined before.

References: Zhang and Poole (1996), "Exploiting causal independence in Bayesian network inference", JAIR 5;
Koller and Friedman, Probabilistic graphical models (2009), chapters 9 and 13.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import combinations

from streamnb.model.bayesian_network.factors import Factor, maximised, product, summed, total


def sum_of_products(factors: Iterable[Factor], kept: tuple[int, ...]) -> Factor:
    """The product of all factors, summed over every variable that is not in `kept`.

    Its axes are those of `kept`, in this order. Each of them must be a variable of some factor.
    """
    found = product(_eliminated(list(factors), kept))
    order = tuple(found.scope.index(variable) for variable in kept)
    misses = None if found.misses is None else found.misses.transpose(order)
    return Factor(kept, found.logs.transpose(order), misses)


def maximum(factors: Iterable[Factor], of: tuple[int, ...]) -> tuple[dict[int, int], float, int]:
    """The values of the variables `of` at which the sum over all others is greatest.

    Returns:
        variable -> value, of equals one and the same at every call; the logarithm of the sum there, and how
        many factors alpha -> 0 it has.
    """
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
    """The factors with every other variable summed out."""
    others = {variable for f in factors for variable in f.scope}.difference(kept)
    for variable in _min_fill(factors, others):
        own = [f for f in factors if variable in f.scope]
        factors = [f for f in factors if variable not in f.scope]
        factors.append(summed(product(own), (variable,)))
    return factors


def _min_fill(factors: Iterable[Factor], variables: Iterable[int]) -> Iterable[int]:
    """The variables in the order of elimination; ties go to the fewest neighbours, then to the numbers."""
    near: dict[int, set[int]] = {}
    for factor in factors:
        for variable in factor.scope:
            near.setdefault(variable, set()).update(factor.scope)
    left = sorted(variables)
    order = []
    while left:
        best = min(left, key=lambda variable: (_fill(near, variable), len(near[variable]), variable))
        left.remove(best)
        order.append(best)
        neighbours = near.pop(best) - {best}
        for other in neighbours:
            near[other] |= neighbours
            near[other].discard(best)
    return order


def _fill(near: Mapping[int, set[int]], variable: int) -> int:
    """How many pairs of its neighbours are not joined."""
    return sum(b not in near[a] for a, b in combinations(sorted(near[variable] - {variable}), 2))
