"""Kernels of a network: count an event, and score its classes if all relevant variables are known.

All tables are stored one after the other in one array. A variable's table has a row for each combination of
parent values, and a column for each of its values, with spare capacity.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.jit import inlined, kernel
from streamnb.kernels.structs import struct_type
from streamnb.statistics.logspace import normalise
from streamnb.values.type_aliases import Flags

ALPHA, M_ESTIMATE, GIVEN_TABLE = 0, 1, 2
TARGET = 0  # variable that is predicted
_UNIT = 1024.0  # units of one example
_SMALL = 1e-100  # below this, a product is moved into the logarithm, so that no factor makes it underflow


@struct_type
class NetworkArrays(NamedTuple):
    """Layout of the tables, and the counts.

    Attributes:
        counts: int64, all tables; a cell is ``offset[v] + row * capacity[v] + value``.
        totals: int64, row sums; the sum of a row is at ``first_row[v] + row``.
        met: int64[V, max capacity], weight of the learned events with this value.
        live: int64[V], number of values of a variable that are declared or have a positive weight.
        offset, first_row, capacity: int64[V].
        starts: int64[V + 1]; the parents of v are ``parent[starts[v]:starts[v + 1]]``.
        parent, stride: int64, number of each parent, and the distance in rows between its consecutive values.
        downhill: int64[V], children before parents.
        child_starts, child: the children of v, in the same form as the parents.
        is_open: bool[V], True if values are added as they appear.
    """

    counts: Ints
    totals: Ints
    met: Ints
    live: Ints
    offset: Ints
    first_row: Ints
    capacity: Ints
    starts: Ints
    parent: Ints
    stride: Ints
    downhill: Ints
    child_starts: Ints
    child: Ints
    is_open: Flags


@struct_type
class SmoothedNetwork(NamedTuple):
    """Smoothing of the counts.

    Attributes:
        how: int64[V], ALPHA, M_ESTIMATE or GIVEN_TABLE.
        amount: float64[V], alpha, m, or the weight of a declared row, in units.
        given: float64, declared tables in the layout of `NetworkArrays.counts`.
        prior: float64[K], relative weight of each class if declared or uniform; empty if learned.
    """

    how: Ints
    amount: Floats
    given: Floats
    prior: Floats


@inlined
def row_of(shape: Any, codes: Any, v: int, skipped: int) -> Any:
    """Return the row of v's table selected by the parents, with `skipped` as 0; -1 if a parent is missing."""
    row = 0
    for i in range(shape.starts[v], shape.starts[v + 1]):
        parent = shape.parent[i]
        if parent != skipped:
            if codes[parent] < 0:
                return -1
            row += codes[parent] * shape.stride[i]
    return row


@kernel
def learn_event(shape: Any, codes: Any, weight: int) -> None:
    """Count every known variable and every complete family of an event; a negative weight subtracts."""
    for v in range(shape.capacity.size):
        if codes[v] < 0:
            continue
        before = shape.met[v, codes[v]]
        shape.met[v, codes[v]] = before + weight
        if shape.is_open[v]:
            shape.live[v] += np.int64(before + weight > 0) - np.int64(before > 0)
        row = row_of(shape, codes, v, -1)
        if row >= 0:
            shape.counts[shape.offset[v] + row * shape.capacity[v] + codes[v]] += weight
            shape.totals[shape.first_row[v] + row] += weight


@kernel
def unlearn(shape: Any, codes: Any, weight: int) -> bool:
    """Undo `learn_event`; return False, and change nothing, if a count is too small."""
    for v in range(shape.capacity.size):
        if codes[v] >= 0:
            row = row_of(shape, codes, v, -1)
            too_few = row >= 0 and shape.counts[shape.offset[v] + row * shape.capacity[v] + codes[v]] < weight
            if too_few or shape.met[v, codes[v]] < weight:
                return False
    learn_event(shape, codes, -weight)
    return True


@inlined
def _is_known(shape: Any, codes: Any, v: int) -> bool:
    return codes[v] >= 0 and (not shape.is_open[v] or shape.met[v, codes[v]] > 0)


@inlined
def _all_known(shape: Any, codes: Any, needed: Any) -> bool:
    """Mark the variables that affect the posterior; return False if one must be summed out."""
    for i in range(shape.downhill.size):
        v = shape.downhill[i]
        known = v != TARGET and _is_known(shape, codes, v)
        needed[v] = known or v == TARGET
        for j in range(shape.child_starts[v], shape.child_starts[v + 1]):
            needed[v] |= needed[shape.child[j]]
        if needed[v] and not known and v != TARGET:
            return False
    return True


@inlined
def smoothed_factor(how: Any, amount: float, given: float, count: Any, total: Any, live: Any) -> Any:
    """Return P(value | parents) from its count, and True for a factor alpha with alpha = 0 (a miss)."""
    if how == ALPHA and amount > 0.0:
        return (count + amount) / (total + amount * live), False
    if how == M_ESTIMATE and amount > 0.0:
        return (count + amount / live) / (total + amount), False
    if how == GIVEN_TABLE:
        return (count + amount * given) / (total + amount), False
    if total <= 0:
        return 1.0 / live, False
    if count > 0:
        return count / total, False
    return (_UNIT if how == ALPHA else _UNIT / live) / total, True


class NetworkScratch(NamedTuple):
    """Scratch of `run_network`: bool[V], variables that affect the target, and three sums for each class."""

    needed: Flags
    joint: Floats
    misses: Ints
    products: Floats


@inlined
def _multiply(shape: Any, smoothed: Any, v: int, cell: int, row: int, k: int, scratch: Any) -> None:
    """Multiply class k's product by P(value | parents); count the factors alpha with alpha = 0."""
    _, joint, misses, products = scratch
    count, total, how = shape.counts[cell], shape.totals[shape.first_row[v] + row], smoothed.how[v]
    given = smoothed.given[cell] if how == GIVEN_TABLE else 0.0
    factor, is_miss = smoothed_factor(how, smoothed.amount[v], given, count, total, shape.live[v])
    misses[k] += is_miss
    products[k] *= factor
    if products[k] < _SMALL:
        joint[k] += math.log(products[k]) if products[k] > 0.0 else -np.inf
        products[k] = 1.0


@inlined
def _score(shape: Any, smoothed: Any, codes: Any, scratch: Any) -> None:
    """Fill log P(class, event) of each class, up to a common constant."""
    needed, joint, misses, products = scratch
    classes = joint.size
    for k in range(classes):
        joint[k] = 0.0 if shape.met[TARGET, k] > 0 else -np.inf
        misses[k] = 0
        products[k] = 1.0
    if smoothed.prior.size:
        given = 0.0
        for k in range(classes):
            given += smoothed.prior[k] if joint[k] > -np.inf else 0.0
        for k in range(classes):
            if given > 0.0:  # otherwise the declared prior covers other classes only: it is uniform
                joint[k] += math.log(smoothed.prior[k]) if smoothed.prior[k] > 0.0 else -np.inf
    else:
        row = row_of(shape, codes, TARGET, -1)
        for k in range(classes):
            if joint[k] > -np.inf:
                cell = shape.offset[TARGET] + row * shape.capacity[TARGET] + k
                _multiply(shape, smoothed, TARGET, cell, row, k, scratch)
    for i in range(shape.child_starts[TARGET], shape.child_starts[TARGET + 1]):
        v = shape.child[i]
        if not needed[v]:
            continue
        first = row_of(shape, codes, v, TARGET)
        step = 0
        for j in range(shape.starts[v], shape.starts[v + 1]):
            if shape.parent[j] == TARGET:
                step = shape.stride[j]
        for k in range(classes):
            if joint[k] > -np.inf:
                row = first + k * step
                cell = shape.offset[v] + row * shape.capacity[v] + codes[v]
                _multiply(shape, smoothed, v, cell, row, k, scratch)
    for k in range(classes):
        if joint[k] > -np.inf:
            joint[k] += math.log(products[k])


@kernel
def run_network(
    shape: Any, smoothed: Any, codes: Any, weights: Any, first: int, scratch: Any, probabilities: Any
) -> int:
    """Predict each event from `first` on, then learn it if it has a weight, strictly in order.

    `codes` is int64[n, V], the values of each event, -1 if missing; the target's value is the label.
    `weights` is int64[n], in units; 0 is not learned. `probabilities` is float64[n, K or more], and is
    filled.

    Returns the number of the first event with a variable to sum out, which is neither predicted nor learned;
    n if there is none.
    """
    for e in range(first, weights.size):
        if not _all_known(shape, codes[e], scratch.needed):
            return int(e)
        _score(shape, smoothed, codes[e], scratch)
        normalise(scratch.joint, scratch.misses, probabilities[e])
        if weights[e] > 0:
            learn_event(shape, codes[e], weights[e])
    return int(weights.size)
