"""Averaged one-dependence estimators: counts of pairs of values, read with each value as the parent of all.

    P(v, x) = P(v) / |S| sum_{b in S} P(b | v) prod_{a != b} P(a | b, v)

    P(a | b, v) = (n_abv + m P(a | v)) / (n_bv + m)      P(a | v) = (n_av + alpha) / (n_v + alpha |A|)

Each value b of an event is in turn the parent of all other values. S holds the values that at least 30
examples had, as in the paper; if S is empty, the model is naive Bayes. Attributes that are not counted in
pairs contribute P(a | v) and are not parents. n_v counts all events of a class, so P(a | v) is the
probability that an event has the attribute with this value. The product therefore runs over the values that
are present.

Reference: Webb, Boughton and Wang (2005), "Not so naive Bayes: aggregating one-dependence estimators",
Machine Learning 58(1).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.jit import inlined, kernel
from streamnb.kernels.structs import struct_type
from streamnb.statistics.logspace import LN2, mantissa_of, power_of
from streamnb.values.example_weights import UNIT
from streamnb.values.type_aliases import Flags

LEAST_MET = 30 * UNIT
"""Weight that a value must have before it serves as a parent, in units."""
_SOME = 8  # factors between two normalisations: each is at least 2^-110, so their product is at least 2^-1000
_NO_POWER = -(1 << 30)


@struct_type
class AveragedScratch(NamedTuple):
    """Scratch arrays for one event with V <= d values of paired attributes, and K classes.

    Attributes:
        attributes: int64[d], the attribute of each value.
        is_parent: bool[d], True if the value serves as a parent.
        bases: float64[K, d], m P(a | v).
        inverses: float64[K, d], 1 / (n_bv + m).
        products: float64[K, d], mantissa of the product for each parent.
        powers: int64[K, d], exponent of two of each product.
        counts: float64[d, K, d], n_abv of each pair of values.
    """

    attributes: Ints
    is_parent: Flags
    bases: Floats
    inverses: Floats
    products: Floats
    powers: Ints
    counts: Floats

    @classmethod
    def with_capacity(cls, d: int, K: int) -> AveragedScratch:
        """Allocate scratch arrays for events of d attributes and K classes."""
        attributes, powers = np.empty(d, dtype=np.int64), np.empty((K, d), dtype=np.int64)
        bases, inverses, products = np.empty((3, K, d))
        counts = np.empty((d, K, d))
        return cls(attributes, np.empty(d, dtype=np.bool_), bases, inverses, products, powers, counts)


@inlined
def _read_values(tables: Any, codes: Any, e: int, reading: Any, scratch: Any, joint: Any) -> Any:
    """Read P(a | v) and n_bv of every value of event e; return the number of paired values and of parents."""
    V, parents, paired, m = 0, 0, tables.pair_first.shape[0], reading.m
    for a in range(codes.shape[1]):
        if codes[e, a] < 0:
            continue
        row, met = tables.first[a] + codes[e, a], 0
        for k in range(joint.size):
            met += tables.values[row, k]
        if met == 0:
            continue
        for k in range(joint.size):
            count, spread = tables.values[row, k], reading.alpha * tables.live[a]
            base = (count + reading.alpha) / (tables.classes[k] + spread)
            if a < paired:
                scratch.bases[k, V], scratch.inverses[k, V] = m * base, 1.0 / (count + m)
                scratch.products[k, V], scratch.powers[k, V] = base, 0
            else:
                joint[k] += math.log(base)
        if a < paired:
            scratch.attributes[V], scratch.is_parent[V] = a, met >= LEAST_MET
            parents += met >= LEAST_MET
            V += 1
    return V, parents


@inlined
def _gather(tables: Any, codes: Any, e: int, V: int, scratch: Any) -> None:
    """Fill counts[i, k, j] = n_abv of values i and j of event e, for i != j; each pair is read once."""
    pairs, rows, counts = tables.pairs, tables.rows, scratch.counts
    for i in range(V):
        a = scratch.attributes[i]
        first, v = tables.pair_first[a], codes[e, a]
        for j in range(i + 1, V):
            b = scratch.attributes[j]
            row = first[b] + v * rows[b] + codes[e, b]
            for k in range(counts.shape[1]):
                count = float(pairs[row, k])
                counts[i, k, j] = count
                counts[j, k, i] = count


@inlined
def _multiply(V: int, scratch: Any) -> None:
    """Multiply the product of every parent by P(a | b, v) of each other value."""
    for i in range(V):
        for k in range(scratch.bases.shape[0]):
            counts, products, inverses = scratch.counts[i, k], scratch.products[k], scratch.inverses[k]
            base, own = scratch.bases[k, i], products[i]
            counts[i] = 0.0
            for j in range(V):
                products[j] *= (counts[j] + base) * inverses[j]
            products[i] = own
            if i % _SOME == _SOME - 1 or i == V - 1:
                powers = scratch.powers[k]
                for j in range(V):
                    powers[j] += power_of(products[j])
                    products[j] = mantissa_of(products[j])


@kernel
def score_averaged(tables: Any, codes: Any, e: int, reading: Any, scratch: Any, joint: Any) -> Any:
    """Add log P(event | k), averaged over the parents, to each joint[k]; return the number of paired values.

    Args:
        tables: `PairArrays`.
        codes: int32[n, d].
        e: index of the event.
        reading: `PairSmoothing`.
        scratch: `AveragedScratch`, overwritten.
        joint: float64[K], log P(k) on entry.
    """
    V, parents = _read_values(tables, codes, e, reading, scratch, joint)
    products, powers = scratch.products, scratch.powers
    if parents == 0:
        for k in range(joint.size):
            for i in range(V):
                joint[k] += math.log(products[k, i])
        return V
    _gather(tables, codes, e, V, scratch)
    _multiply(V, scratch)
    for k in range(joint.size):
        top = np.int64(_NO_POWER)
        for i in range(V):
            if scratch.is_parent[i]:
                top = max(top, powers[k, i])
        total = 0.0
        for i in range(V):
            if scratch.is_parent[i]:
                total += math.ldexp(products[k, i], max(powers[k, i] - top, _NO_POWER))
        joint[k] += math.log(total / parents) + top * LN2
    return V
