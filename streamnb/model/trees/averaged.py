"""Averaged one-dependence estimators: the counts of a tree model, read without a tree.

    P(v, x) = P(v) / |S| sum_{b in S} P(b | v) prod_{a != b} P(a | b, v)

    P(a | b, v) = (n_abv + m P(a | v)) / (n_bv + m)      P(a | v) = (n_av + alpha) / (n_v + alpha |A|)

Each value b of an event is in turn the parent of all others; S are those that at least 30 examples had, as in
the paper, and where there is none this is naive Bayes. Attributes that are not counted in pairs say P(a | v),
and are no parents. n_v counts all events of a class, so P(a | v) is the probability that an event has the
attribute, and this value: the product is that of all the values that are there, whatever the others are.

Reference: Webb, Boughton and Wang (2005), "Not so naive Bayes: aggregating one-dependence estimators",
Machine Learning 58(1).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamnb.model.attributes.weights import UNIT
from streamnb.model.compiled.arrays import Floats, Ints
from streamnb.model.compiled.jit import inlined, kernel
from streamnb.model.naive_bayes.scoring import score_priors
from streamnb.model.numerics.logspace import LN2, mantissa_of, power_of

LEAST_MET = 30 * UNIT
"""Examples that have had a value before it is a parent."""
_SOME = 8  # factors, of which none is below 2^-110, whose product is no less than 2^-1000


@inlined
def _take_apart(products: Any, powers: Any) -> None:
    """Move powers of two from products (K,) to `powers`."""
    for k in range(products.size):
        powers[k] += power_of(products[k])
        products[k] = mantissa_of(products[k])


@inlined
def _read_values(tables: Any, codes: Any, e: int, reading: Any, work: Any, found: Any, joint: Any) -> int:
    """Read P(a | v) and n_bv of every value of event e; how many there are that are counted in pairs."""
    known, paired = 0, tables.pair_first.shape[0]
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
            work[2, known, k] = (count + reading.alpha) / (tables.classes[k] + spread)
            work[0, known, k] = reading.averaged_m * work[2, known, k]
            work[1, known, k] = 1.0 / (count + reading.averaged_m)
            work[3, known, k] = 0.0
        if a < paired:
            found[0, known], found[1, known] = a, met >= LEAST_MET
            known += 1
        else:
            for k in range(joint.size):
                joint[k] += math.log(work[2, known, k])
    return known


@inlined
def _multiply_pairs(tables: Any, codes: Any, e: int, work: Any, found: Any, known: int) -> None:
    """Multiply the products of all parents by what each of the other values says given them."""
    bases, inverses, products, powers = work[0], work[1], work[2], work[3]
    rows, pairs = tables.rows, tables.pairs
    for i in range(known):
        first, v = tables.pair_first[found[0, i]], codes[e, found[0, i]]
        _take_apart(products[i], powers[i])
        for j in range(i + 1, known):
            b = found[0, j]
            row = first[b] + v * rows[b] + codes[e, b]
            for k in range(products.shape[1]):
                count = float(pairs[row, k])
                products[i, k] *= (count + bases[j, k]) * inverses[i, k]
                products[j, k] *= (count + bases[i, k]) * inverses[j, k]
            if (j - i) % _SOME == 0:
                _take_apart(products[i], powers[i])
        if i % _SOME == _SOME - 1:
            for j in range(i + 1, known):
                _take_apart(products[j], powers[j])
    for i in range(known):
        _take_apart(products[i], powers[i])


@kernel
def score_averaged(
    tables: Any, codes: Any, e: int, reading: Any, work: Any, found: Any, joint: Any
) -> None:
    """joint[k] = log P(k, event), on average over the parents; -inf for a class without examples.

    Args:
        tables: `TreeTables`.
        codes: int32[n, d].
        e: the event.
        reading: `TreeReading`.
        work: float64[4, d, K], to work in: m P(a | v), 1 / (n_bv + m), and products with their powers of two.
        found: int64[2, d], the same: which attributes are known, and whether they are parents.
        joint: float64[K], is filled.
    """
    score_priors(tables.classes, tables.classes, reading.prior_mode, reading.prior, joint)
    known = _read_values(tables, codes, e, reading, work, found, joint)
    parents = 0
    for i in range(known):
        parents += found[1, i]
    if parents == 0:
        for i in range(known):
            for k in range(joint.size):
                joint[k] += math.log(work[2, i, k])
        return
    _multiply_pairs(tables, codes, e, work, found, known)
    for k in range(joint.size):
        top = -np.inf
        for i in range(known):
            if found[1, i]:
                top = max(top, work[3, i, k])
        total = 0.0
        for i in range(known):
            if found[1, i]:
                total += math.ldexp(work[2, i, k], int(work[3, i, k] - top))
        joint[k] += math.log(total / parents) + top * LN2


def averaged_log_odds(tables: Any, codes: Ints, reading: Any, classes: tuple[int, int]) -> Floats:
    """What each attribute of an event adds to the log odds of two classes; with the prior they are all.

    Let A_b(v) be what the parent b says. With the logarithmic mean L(x, y) = (x - y) / ln(x / y),

        ln(sum_b A_b(v) / sum_b A_b(w)) = sum_b L(A_b(v), A_b(w)) / L(sum A(v), sum A(w)) ln(A_b(v) / A_b(w))

    and each logarithm on the right is a sum over attributes (Ang 2004, "Decomposition analysis for
    policymaking in energy", Energy Policy 32(9)).

    Args:
        tables: `TreeTables`.
        codes: int32[d], of the event.
        reading: `TreeReading`.
        classes: the class whose log odds they are, and the one against which.

    Returns float64[d].
    """
    pair, m, odds = list(classes), reading.averaged_m, np.zeros(codes.size)
    known = np.flatnonzero(codes >= 0)
    known = known[tables.values[tables.first[known] + codes[known]].any(axis=1)]
    counts = tables.values[tables.first[known] + codes[known]]
    bases = (counts[:, pair] + reading.alpha) / (
        tables.classes[pair] + reading.alpha * tables.live[known][:, np.newaxis]
    )
    paired = tables.pair_first.shape[0]
    parents = np.flatnonzero((known < paired) & (counts.sum(axis=1) >= LEAST_MET))
    factors = np.tile(np.log(bases), (max(parents.size, 1), 1, 1))
    for p, b in enumerate(parents):
        for i, a in enumerate(known):
            if i != b and a < paired:
                low, high = min(a, known[b]), max(a, known[b])
                row = tables.pair_first[low, high] + codes[low] * tables.rows[high] + codes[high]
                factors[p, i] = np.log((tables.pairs[row, pair] + m * bases[i]) / (counts[b, pair] + m))
    said = factors.sum(axis=1)
    said = np.exp(np.maximum(said - said.max(), -700.0))
    shares = _logarithmic_mean(*said.T) / _logarithmic_mean(*said.sum(axis=0))
    odds[known] = shares @ (factors[:, :, 0] - factors[:, :, 1])
    return odds


def _logarithmic_mean(x: Floats, y: Floats) -> Floats:
    """(x - y) / ln(x / y) of positive numbers, and x where they are equal."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(x == y, x, (x - y) / np.log(x / y))
