"""Tables over a few discrete variables, as logarithms: what elimination multiplies, sums and maximises.

Products of many small numbers stay where doubles are dense: log P of 1e-300, or of far less, is a number like
any other. An entry may carry factors alpha with alpha -> 0, too, which `misses` counts: of such limits a sum
or a maximum is that of the entries with the fewest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from streamnb.model.attributes.signatures import Array
from streamnb.model.compiled.arrays import Floats, Ints

MOST_CELLS = 1 << 26
"""Of a table that elimination makes: 512 MiB of doubles."""
_NEVER = np.int64(2**62)

Logs = Floats
Misses = Ints | None


class Factor(NamedTuple):
    """A function of some variables that is nowhere negative.

    Attributes:
        scope: the numbers of the variables, one for each axis.
        logs: the logarithm of each value, -inf where it is zero.
        misses: int64 of the same shape, how many factors alpha -> 0 it has; None where there are none.
    """

    scope: tuple[int, ...]
    logs: Logs
    misses: Misses = None


def product(factors: Sequence[Factor]) -> Factor:
    """The product, over all variables of any of them, in the order in which they first occur.

    Raises ValueError where it would have more than `MOST_CELLS` entries.
    """
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
    """The sum over all values of these variables."""
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
    """The maximum over the values of one variable, and which value it is at: of equals the first."""
    axis = factor.scope.index(variable)
    logs, misses = _of_the_fewest(factor, (axis,))
    found = Factor(_without(factor.scope, (axis,)), logs.max(axis=axis), misses)
    return found, logs.argmax(axis=axis)


def total(factor: Factor) -> tuple[float, int]:
    """The logarithm of the sum of all entries, and how many factors alpha -> 0 it has."""
    found = summed(factor, factor.scope)
    return float(found.logs), 0 if found.misses is None else int(found.misses)


def _of_the_fewest(factor: Factor, axes: tuple[int, ...]) -> tuple[Logs, Misses]:
    """The logs along the axes, with -inf for those that others leave infinitely far behind; their misses."""
    if factor.misses is None:
        return factor.logs, None
    counted = np.where(factor.logs > -np.inf, factor.misses, _NEVER)
    fewest = counted.min(axis=axes, keepdims=True)
    logs = np.where(counted == fewest, factor.logs, -np.inf)
    return logs, np.where(fewest == _NEVER, 0, fewest).squeeze(axes)


def _without(scope: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(variable for axis, variable in enumerate(scope) if axis not in axes)


def _aligned(scope: tuple[int, ...], array: Any, wanted: tuple[int, ...]) -> Array:
    """A view with an axis for each variable wanted, of length 1 where the factor does not have it."""
    places = sorted(range(len(scope)), key=lambda axis: wanted.index(scope[axis]))
    lengths = dict(zip(scope, array.shape, strict=True))
    aligned: Array = array.transpose(places).reshape([lengths.get(v, 1) for v in wanted])
    return aligned
