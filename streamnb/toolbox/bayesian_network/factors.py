"""Factors: tables over a few discrete variables, as logarithms, with product, sum and maximum.

In logarithms, products of many small numbers do not underflow: log P of 1e-300 or far less is an ordinary
number. An entry may also carry factors alpha with alpha -> 0, counted by `misses`. In the limit, only the
entries with the fewest such factors contribute to a sum or a maximum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.values.type_aliases import Array

MOST_CELLS = 1 << 26
"""Maximum size of a table made by elimination: 512 MiB of doubles."""
_NEVER = np.int64(2**62)

Logs = Floats
Misses = Ints | None


class Factor(NamedTuple):
    """A non-negative function of some variables.

    Attributes:
        scope: numbers of the variables, one for each axis.
        logs: logarithm of each value, -inf for zero.
        misses: int64 of the same shape, number of factors alpha -> 0; None if there are none.
    """

    scope: tuple[int, ...]
    logs: Logs
    misses: Misses = None

    def shares(self) -> Floats:
        """Return the values; a value with a factor alpha -> 0 is 0."""
        shares: Floats = np.exp(self.logs)
        return shares if self.misses is None else np.where(self.misses > 0, 0.0, shares)


def product(factors: Sequence[Factor]) -> Factor:
    """Return the product of all factors. Raises ValueError for more than `MOST_CELLS` entries."""
    scope: tuple[int, ...] = tuple(dict.fromkeys(variable for f in factors for variable in f.scope))
    logs = [_aligned(f.scope, f.logs, scope) for f in factors]
    shape = np.broadcast_shapes((1,) * len(scope), *(array.shape for array in logs))
    if (cells := int(np.prod(shape, dtype=object))) > MOST_CELLS:
        raise ValueError(f"this query needs a table of {cells:,} cells over {len(scope)} variables")
    misses = [_aligned(f.scope, f.misses, scope) for f in factors if f.misses is not None]
    return Factor(
        scope,
        np.array(np.broadcast_to(reduce(np.add, logs, np.zeros((1,) * len(scope))), shape)),
        np.array(np.broadcast_to(reduce(np.add, misses), shape)) if misses else None,
    )


def summed(factor: Factor, variables: Iterable[int]) -> Factor:
    """Return the sum over all values of these variables."""
    axes = tuple(factor.scope.index(variable) for variable in variables)
    if not axes:
        return factor
    logs, misses = _of_the_fewest(factor, axes)
    top = logs.max(axis=axes, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        found = np.log(np.exp(logs - top).sum(axis=axes)) + top.squeeze(axes)
    return Factor(_without(factor.scope, axes), found, misses)


def maximised(factor: Factor, variable: int) -> tuple[Factor, Ints]:
    """Return the maximum over the values of one variable, and its argument; ties go to the first value."""
    axis = factor.scope.index(variable)
    logs, misses = _of_the_fewest(factor, (axis,))
    found = Factor(_without(factor.scope, (axis,)), logs.max(axis=axis), misses)
    return found, logs.argmax(axis=axis)


def total(factor: Factor) -> tuple[float, int]:
    """Return the logarithm of the sum of all entries, and its number of factors alpha -> 0."""
    found = summed(factor, factor.scope)
    return float(found.logs), 0 if found.misses is None else int(found.misses)


def _of_the_fewest(factor: Factor, axes: tuple[int, ...]) -> tuple[Logs, Misses]:
    """Return the logs along the axes, with -inf for entries that vanish in the limit, and the misses."""
    if factor.misses is None:
        return factor.logs, None
    counted = np.where(factor.logs > -np.inf, factor.misses, _NEVER)
    fewest = counted.min(axis=axes, keepdims=True)
    logs = np.where(counted == fewest, factor.logs, -np.inf)
    return logs, np.where(fewest == _NEVER, 0, fewest).squeeze(axes)


def _without(scope: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(variable for axis, variable in enumerate(scope) if axis not in axes)


def _aligned(scope: tuple[int, ...], array: Any, wanted: tuple[int, ...]) -> Array:
    """Return a view with an axis for each wanted variable, of length 1 if the factor does not have it."""
    places = sorted(range(len(scope)), key=lambda axis: wanted.index(scope[axis]))
    lengths = dict(zip(scope, array.shape, strict=True))
    aligned: Array = array.transpose(places).reshape([lengths.get(v, 1) for v in wanted])
    return aligned
