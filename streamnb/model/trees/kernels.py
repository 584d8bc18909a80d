"""Counts of values and of pairs of values within each class: how they are learned, and read along a tree.

    log P(v, x) = log P(v) + sum_i log P(a_i | a_pa(i), v)

    P(a | b, v) = (n_abv + m P(a | v)) / (n_bv + m)      P(a | v) = (n_av + alpha) / (n_v + alpha |A|)

An attribute that is missing drops its factor; where its parent is missing, and at a root, the factor is
P(a | v). n_bv counts the events that have both attributes. Values without any count are skipped; |A| is the
number of those that have one. Counts are in units of 1/1024 example, and so are alpha and m here.

Backing off to P(a | v) is what makes trees fit for probabilities. Log loss with m of 1, 5, 10, 20, 50 and
100 examples: Adult .369 .347 .340 .334 .330 .330; NSL-KDD .186 .171 .167 .168 .175 .189; Elec2 .537 .520 .515
.513 .516 .524. An m that grows with |A| does about as well (at |A|: .334, .170, .516). alpha matters less.

Learning an event of d attributes adds to d^2 / 2 pairs of values, predicting it reads d of them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from streamnb.compiler.bundles import bundle
from streamnb.model.attributes.signatures import Codes
from streamnb.model.compiled.arrays import Floats, Ints
from streamnb.model.compiled.jit import allocating, inlined, kernel
from streamnb.model.compiled.vectors import copy_to
from streamnb.model.naive_bayes.scoring import score_priors
from streamnb.model.numerics.logspace import normalise
from streamnb.model.trees.averaged import AveragedScratch, score_averaged

_SMALL = 1e-200  # a product of factors, of which none is below 1e-100, is taken apart below this


@bundle
class TreeTables(NamedTuple):
    """Counts of d attributes, of which the first P are counted in pairs, and the tree over them.

    There are columns for C >= K classes, and rows for at least as many values as an attribute has.

    Attributes:
        classes: int64[C], weight learned (units).
        totals: int64[d, C], of the events that have the attribute.
        live: int64[d], how many values have a count.
        rows: int64[d], for how many values there is capacity.
        first: int64[d], where an attribute's values begin.
        values: int64[rows, C].
        pair_first: int64[P, P], where the pairs of values of attributes i < j begin, those of one value of i
            adjoining.
        pairs: int64[rows, C].
        parent: int64[d], or -1.
        given_first: int64[d], where n_b of an attribute's parent begin; -1 without a parent.
        given: int64[rows, C], sums of `pairs` over the values of the child.
    """

    classes: Ints
    totals: Ints
    live: Ints
    rows: Ints
    first: Ints
    values: Ints
    pair_first: Ints
    pairs: Ints
    parent: Ints
    given_first: Ints
    given: Ints


@bundle
class TreeReading(NamedTuple):
    """How the counts are read.

    Attributes:
        alpha: added to every count, units.
        m: what P(a | v) counts beside the events that have the parent's value, units.
        prior: float64[K], relative weights of the classes where they are given.
        prior_mode: LEARNED, UNIFORM or GIVEN.
    """

    alpha: float
    m: float
    prior: Floats
    prior_mode: int


@bundle
class TreeScratch(NamedTuple):
    """Room to work in.

    Attributes:
        factors, products, joint: float64[K].
        misses: int64[K], zero.
        averaged: for what is averaged.
    """

    factors: Floats
    products: Floats
    joint: Floats
    misses: Ints
    averaged: AveragedScratch

    @classmethod
    def of(cls, d: int, K: int) -> TreeScratch:
        """For events of d attributes that are counted in pairs and K classes."""
        factors, products, joint = np.empty((3, K))
        return cls(factors, products, joint, np.zeros(K, dtype=np.int64), AveragedScratch.of(d, K))


@inlined
def _pair_row(tables: Any, a: int, v: int, b: int, u: int) -> Any:
    """The row of value v of attribute a together with value u of attribute b."""
    if a < b:
        return tables.pair_first[a, b] + v * tables.rows[b] + u
    return tables.pair_first[b, a] + u * tables.rows[a] + v


@inlined
def _is_counted(table: Any, row: int, K: int) -> bool:
    """Whether anything is counted in a row."""
    for k in range(K):  # noqa: SIM110  any() of a generator does not compile
        if table[row, k] != 0:
            return True
    return False


@inlined
def _score_attribute(tables: Any, codes: Any, e: int, a: int, reading: Any, factors: Any) -> bool:
    """Fill factors[k] = P(a | parent, k) of attribute a in event e; False where it says nothing."""
    v, K = codes[e, a], factors.size
    if v < 0 or not _is_counted(tables.values, tables.first[a] + v, K):
        return False
    row, spread = tables.first[a] + v, reading.alpha * tables.live[a]
    parent = tables.parent[a]
    u = codes[e, parent] if parent >= 0 else -1
    for k in range(K):
        factors[k] = (tables.values[row, k] + reading.alpha) / (tables.totals[a, k] + spread)
    if u >= 0:
        pair, given = _pair_row(tables, a, v, parent, u), tables.given_first[a] + u
        for k in range(K):
            factors[k] = (tables.pairs[pair, k] + reading.m * factors[k]) / (
                tables.given[given, k] + reading.m
            )
    return True


@inlined
def _score_event(
    tables: Any, codes: Any, e: int, reading: Any, factors: Any, products: Any, joint: Any
) -> None:
    """joint[k] = log P(k, event); -inf for a class without examples."""
    K = joint.size
    score_priors(tables.classes, tables.classes, reading.prior_mode, reading.prior, joint)
    for k in range(K):
        products[k] = 1.0
    for a in range(codes.shape[1]):
        if _score_attribute(tables, codes, e, a, reading, factors):
            for k in range(K):
                products[k] *= factors[k]
                if products[k] < _SMALL:
                    joint[k] += math.log(products[k])
                    products[k] = 1.0
    for k in range(K):
        joint[k] += math.log(products[k])


@kernel
def score_factors(tables: Any, codes: Any, e: int, reading: Any, factors: Any) -> None:
    """Fill factors (d, K) with what each attribute of event e multiplies P(k) by; 1 where it says nothing."""
    for a in range(codes.shape[1]):
        if not _score_attribute(tables, codes, e, a, reading, factors[a]):
            factors[a][:] = 1.0


@inlined
def count_event(tables: Any, codes: Any, e: int, k: int, weight: int) -> None:
    """Count event e `weight` more times in class k (units; below zero it is taken out)."""
    tables.classes[k] += weight
    K, paired = tables.classes.size, tables.pair_first.shape[0]
    for a in range(codes.shape[1]):
        v = codes[e, a]
        if v < 0:
            continue
        row = tables.first[a] + v
        before = _is_counted(tables.values, row, K)
        tables.values[row, k] += weight
        tables.totals[a, k] += weight
        tables.live[a] += np.int64(_is_counted(tables.values, row, K)) - np.int64(before)
        parent = tables.parent[a]
        if parent >= 0 and codes[e, parent] >= 0:
            tables.given[tables.given_first[a] + codes[e, parent], k] += weight
        if a < paired:
            _count_pairs(tables, codes, e, a, k, weight)


@inlined
def _count_pairs(tables: Any, codes: Any, e: int, a: int, k: int, weight: int) -> None:
    """Count the pairs of attribute a of event e with those that come after it."""
    pairs, rows, v = tables.pairs, tables.rows, codes[e, a]
    first = tables.pair_first[a]
    for b in range(a + 1, min(codes.shape[1], first.size)):
        u = codes[e, b]
        if u >= 0:
            pairs[first[b] + v * rows[b] + u, k] += weight


@inlined
def _can_unlearn(tables: Any, codes: Any, e: int, k: int, weight: int) -> bool:
    """Whether the counts hold event e in class k with this weight (units)."""
    if tables.classes[k] < weight:
        return False
    paired = min(codes.shape[1], tables.pair_first.shape[0])
    for a in range(codes.shape[1]):
        v = codes[e, a]
        if v < 0:
            continue
        if tables.values[tables.first[a] + v, k] < weight:
            return False
        for b in range(a + 1, paired):
            if codes[e, b] >= 0 and tables.pairs[_pair_row(tables, a, v, b, codes[e, b]), k] < weight:
                return False
    return True


@kernel
def unlearn_events(tables: Any, codes: Any, labels: Any, weights: Any) -> int:
    """Take events out, in order, as long as the counts hold the next one; how many.

    Those of weights below zero are put back.
    """
    for e in range(labels.size):
        k = labels[e]
        if not 0 <= k < tables.classes.size or not _can_unlearn(tables, codes, e, k, weights[e]):
            return int(e)
        count_event(tables, codes, e, k, -weights[e])
    return int(labels.size)


class TreeEvents(NamedTuple):
    """Events that are asked about, and learned.

    Attributes:
        codes: int32[n, d].
        labels: int64[n], class, or -1: do not learn.
        weights: int64[n], units.
    """

    codes: Codes
    labels: Ints
    weights: Ints

    def one(self, e: int) -> TreeEvents:
        """Event e alone."""
        return TreeEvents(self.codes[e : e + 1], self.labels[e : e + 1], self.weights[e : e + 1])


class TreeAnswers(NamedTuple):
    """What is asked of each event, to be filled in; None, or without rows, where it is not.

    Attributes:
        joints: float64[n, K], log P(k, event).
        probabilities: float64[n, K], P(k | event).
        averages: float64[n, K], log P(k, event) without a tree, see `averaged`.
    """

    joints: Floats | None = None
    probabilities: Floats | None = None
    averages: Floats | None = None


@kernel
def run_tree(first: int, tables: Any, reading: Any, events: Any, due: int, scratch: Any, told: Any) -> int:
    """From event `first` on: predict, then learn, strictly in order.

    Args:
        first: the first event.
        tables: `TreeTables`.
        reading: `TreeReading`.
        events: `TreeEvents`.
        due: after so many events that were learned it stops, for the tree is made anew.
        scratch: `TreeScratch`.
        told: `TreeAnswers`.

    Returns the event to go on with.
    """
    codes, labels, weights = events
    joints, probabilities, averages = told
    learned = 0
    for e in range(first, labels.size):
        if joints.shape[0] or probabilities.shape[0]:
            _score_event(tables, codes, e, reading, scratch.factors, scratch.products, scratch.joint)
            if joints.shape[0]:
                copy_to(joints[e], scratch.joint)
            if probabilities.shape[0]:
                normalise(scratch.joint, scratch.misses, probabilities[e])
        if averages.shape[0]:
            score_priors(tables.classes, tables.classes, reading.prior_mode, reading.prior, averages[e])
            score_averaged(tables, codes, e, reading, scratch.averaged, averages[e])
        if labels[e] >= 0:
            count_event(tables, codes, e, labels[e], weights[e])
            learned += 1
            if learned == due:
                return e + 1
    return int(labels.size)


@kernel
def _sum_pairs(tables: Any, i: int, j: int, sizes: Any, by_i: Any, by_j: Any, by_class: Any) -> None:
    """Sums of the pairs of attributes i < j over the values of the other, and over both."""
    by_i[:], by_j[:], by_class[:] = 0, 0, 0
    for v in range(sizes[i]):
        for u in range(sizes[j]):
            row = _pair_row(tables, i, v, j, u)
            for k in range(by_class.size):
                n = tables.pairs[row, k]
                by_i[v, k] += n
                by_j[u, k] += n
                by_class[k] += n


@allocating
def pair_information(tables: Any, sizes: Any, K: int, information: Any, weight: Any) -> None:
    """Conditional mutual information of all pairs of the first P attributes (nats).

        I(a; b | v) = sum_abv n_abv / N ln (n_abv n_v / (n_av n_bv))

    with all counts over the N events that have both attributes. N I(a; b | v) is what an edge adds to the log
    likelihood of what was learned.

    Args:
        tables: `TreeTables`.
        sizes: int64[d], how many codes each attribute has.
        K: how many classes there are.
        information: float64[P, P], is filled, but for the diagonal.
        weight: float64[P, P], gets N, in units.
    """
    P = information.shape[0]
    most = sizes[:P].max() if P else 0
    by_i, by_j = np.empty((most, K), dtype=np.int64), np.empty((most, K), dtype=np.int64)
    by_class = np.empty(K, dtype=np.int64)
    for i in range(P):
        for j in range(i + 1, P):
            _sum_pairs(tables, i, j, sizes, by_i, by_j, by_class)
            told = 0.0
            for v in range(sizes[i]):
                for u in range(sizes[j]):
                    row = _pair_row(tables, i, v, j, u)
                    for k in range(K):
                        n = float(tables.pairs[row, k])
                        if n > 0.0:
                            told += n * math.log(n / by_i[v, k] * (by_class[k] / float(by_j[u, k])))
            N = float(by_class.sum())
            weight[i, j] = weight[j, i] = N
            information[i, j] = information[j, i] = told / N if N > 0.0 else 0.0


@kernel
def fill_given(tables: Any, sizes: Any) -> None:
    """Make `given` anew from the pairs along the tree."""
    tables.given[:] = 0
    for a in range(tables.parent.size):
        parent = tables.parent[a]
        if parent < 0:
            continue
        for u in range(sizes[parent]):
            for v in range(sizes[a]):
                row = _pair_row(tables, a, v, parent, u)
                for k in range(tables.classes.size):
                    tables.given[tables.given_first[a] + u, k] += tables.pairs[row, k]


@kernel
def move_pairs(
    pairs: Any, pair_first: Any, rows: Any, sizes: Any, to_pairs: Any, to_first: Any, to_rows: Any
) -> None:
    """Copy the pairs of all attributes that both layouts have, so many values of each."""
    P, K = min(pair_first.shape[0], to_first.shape[0]), min(pairs.shape[1], to_pairs.shape[1])
    for i in range(P):
        for j in range(i + 1, P):
            for v in range(sizes[i]):
                for u in range(sizes[j]):
                    row = pair_first[i, j] + v * rows[j] + u
                    to = to_first[i, j] + v * to_rows[j] + u
                    for k in range(K):
                        to_pairs[to, k] = pairs[row, k]
