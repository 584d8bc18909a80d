"""A model of all tenants as the prior of each: a tenant's own counts take over as they grow.

For a tenant that has learned n of a class v, a word or value a, or a number x, the m-estimate with p = P, the
probability by the shared model:

    P_t(v)     = (n_v + m P(v)) / (n + m)                n = examples of the tenant
    P_t(a | v) = (n_a + m P(a | v)) / (n_v + m)          n_v = tokens, or events with this field, of class v
    P_t(x | v) = (n_v N(x; u, s^2) + m N(x; U, max(V, s^2))) / (n_v + m)

with u and s^2 the moments of the tenant's own values, and U and V the moments of all values, as naive Bayes
reads them. Own values without spread lean on the pooled variance of all (see `gaussian`). No density exceeds
1 / sqrt(2 pi s^2). So whatever other tenants teach, the density stays near the density of the own values:

    |P_t(x | v) - N(x; u, s^2)| <= m / (n_v + m) / sqrt(2 pi s^2)
    P_t(x | v) >= n_v / (n_v + m) N(x; u, s^2)

The shared model learns each event right after the tenant's model, in stream order, so batching has no effect.
A shared prior changes how a tenant's model is read, not what it learns.

The m are the same for all streams, chosen by `tests/benchmarks/shared_prior.py` on five labelled streams:

    classes   3 examples      of 1, 3 and 10: little difference unless a label differs in meaning by tenant
    texts     1,000 tokens    of 10 to 10,000: 10 and 100 are worse than one model for all, because a word
                              that was met once has too much weight; 3,000 is as good
    values    30 examples     of 1 to 100, nominal values and numbers: 3 is better for connections by
                              service, 100 for incomes by work

Reference: MacKay and Bauman Peto (1995), A hierarchical Dirichlet language model.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

import numpy as np

from streamnb.features.encoded_batch import Batch
from streamnb.features.event_writer import EventWriter
from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.jit import inlined, kernel
from streamnb.models.naive_bayes.gaussian_factors import LOG_2PI, SQUARE_LIMIT, moments_of, pooled_moments
from streamnb.models.naive_bayes.joint_log_likelihood import (
    SMALL,
    JointScore,
    is_declared,
    known,
    multiply,
    score_priors,
    smoothing_of,
    split,
)
from streamnb.models.naive_bayes.naive_bayes_kernels import fetch_event, learn_event
from streamnb.models.naive_bayes.naive_bayes_tables import CountViews
from streamnb.models.tenants.eviction_kernels import CLASSES, TenantArrays
from streamnb.models.tenants.tenant_kernels import TenantPosteriors, count_right, learn_own
from streamnb.statistics.logspace import LN2, normalise
from streamnb.values.attribute_kinds import MULTINOMIAL
from streamnb.values.example_weights import UNIT

OF_CLASSES, OF_TEXTS, OF_VALUES = 3.0, 1000.0, 30.0
"""The m of each. They are part of the model: predictions depend on them."""


class OwnModel(NamedTuple):
    """Events, and the models of their tenants; see `run_tenants`."""

    tables: CountViews
    batch: Batch
    slots: Ints
    loaded: TenantArrays
    posteriors: TenantPosteriors


class SharedPriorScratch(NamedTuple):
    """Scratch by class: its column in the tenant's model (or -1), a weight, and terms of factors."""

    column: Ints
    weight: Floats
    each: Floats
    whole: Floats


@inlined
def _score_classes(shared: CountViews, own: Any, s: int, joint: Floats, scratch: Any) -> None:
    """Set joint[c] = log P_t(c), and the column of each class in slot s."""
    column, weight, _, _ = scratch
    total = 0.0
    for c in range(joint.size):
        column[c] = -1
        total += shared.classes[c]
    for c in range(joint.size):
        weight[c] = OF_CLASSES * UNIT * (shared.classes[c] / total) if total > 0.0 else 0.0
    if s >= 0:
        for k in range(own.loaded.sizes[s, CLASSES]):
            c = own.loaded.labels[s, k]
            column[c] = k
            weight[c] += own.loaded.weights[s, k]
    score_priors(shared.classes, weight, shared.prior_mode, shared.prior, joint)


@inlined
def _score_item(
    shared: CountViews, batch: Any, item: int, own: Any, place: int, score: Any, scratch: Any
) -> None:
    """Add the factors of one item; `place` is its index among the tenant's own items, or -1."""
    joint, _, product, exponent = score
    column, _, each, whole = scratch
    K, units = joint.size, batch.item_amount[item]
    g: Any = np.int64(batch.item_group[item])
    s, S, _, _, _ = smoothing_of(shared, g)
    columns = own.tables.table.shape[1]
    m = UNIT * (OF_TEXTS if shared.kinds[g] == MULTINOMIAL else OF_VALUES)
    for c in range(K):
        n = 0.0
        if place >= 0 and column[c] >= 0:
            n = float(own.tables.totals[own.batch.item_group[place], column[c]])
        each[c] = m / (shared.totals[g, c] + S)
        whole[c] = 1.0 / (n + m)
    first = batch.item_rows[item]
    for j in range(first, batch.item_rows[item + 1]):
        row: Any = np.int64(batch.rows[j])
        mine: Any = np.int64(-1)
        if place >= 0:
            mine = np.int64(own.batch.rows[own.batch.item_rows[place] + j - first])
        is_met = row >= 0 and known(shared.table, row, K)
        # The shared model may have evicted a word of the tenant; P is then the probability of an unknown
        # word.
        is_own = mine >= 0 and known(own.tables.table, mine, columns)
        if not is_met and not is_own and not is_declared(shared, g):
            continue
        for c in range(K):
            count = s + shared.table[row, c] if is_met else s
            n = float(own.tables.table[mine, column[c]]) if mine >= 0 and column[c] >= 0 else 0.0
            factor = (n + each[c] * count) * whole[c]
            if units == UNIT and factor > SMALL:
                multiply(factor, c, product, exponent)
            else:
                joint[c] += units / UNIT * math.log(factor)


@inlined
def _score_value(shared: CountViews, f: int, x: float, own: Any, mine: int, score: Any, scratch: Any) -> None:
    """Add the density of one number; `mine` is the tenant's own field, or -1.

    The common part of both exponents is added to the log, and the rest is multiplied.
    """
    joint, _, product, exponent = score
    n, mean, M2 = shared.n[f], shared.mean[f], shared.M2[f]
    pooled = pooled_moments(n, mean, M2, 1.0)
    if pooled[1] <= 0.0:
        return
    own_pooled = pooled
    if mine >= 0:
        found = pooled_moments(own.tables.n[mine], own.tables.mean[mine], own.tables.M2[mine], 1.0)
        if found[1] > 0.0:
            own_pooled = found
    for c in range(joint.size):
        if shared.classes[c] == 0:
            continue
        centre, variance = moments_of(n, mean, M2, c, 1.0, pooled)
        k, weight = scratch.column[c], 0.0
        own_centre, own_variance = centre, variance
        if mine >= 0 and k >= 0 and own.tables.n[mine, k] > 0:
            tables = own.tables
            weight = tables.n[mine, k] / UNIT
            own_centre, own_variance = moments_of(
                tables.n[mine], tables.mean[mine], tables.M2[mine], k, 1.0, own_pooled
            )
            variance = max(variance, own_variance)
        scale, own_scale = 1.0 / math.sqrt(variance), 1.0 / math.sqrt(own_variance)
        away, own_away = (x - centre) * scale, (x - own_centre) * own_scale
        square, own_square = min(away * away, SQUARE_LIMIT), min(own_away * own_away, SQUARE_LIMIT)
        common = min(square, own_square)
        joint[c] -= 0.5 * (LOG_2PI + common)
        density = weight * own_scale * math.exp(0.5 * (common - own_square))
        density += OF_VALUES * scale * math.exp(0.5 * (common - square))
        multiply(density / (weight + OF_VALUES), c, product, exponent)


@inlined
def _score_event(shared: CountViews, batch: Any, e: int, own: Any, score: Any, scratch: Any) -> None:
    joint, misses, product, exponent = score
    K = joint.size
    _score_classes(shared, own, own.slots[e], joint, scratch)
    for c in range(K):
        misses[c], product[c], exponent[c] = 0, 1.0, 0
    # The tenant's items and values are a subset of all, in the same order.
    place, stop = own.batch.event_items[e], own.batch.event_items[e + 1]
    for item in range(batch.event_items[e], batch.event_items[e + 1]):
        g = batch.item_group[item]
        found: Any = np.int64(-1)
        if place < stop and own.loaded.group_attribute[own.batch.item_group[place]] == g:
            found = place
            place += 1
        _score_item(shared, batch, item, own, found, score, scratch)
    place, stop = own.batch.event_values[e], own.batch.event_values[e + 1]
    for v in range(batch.event_values[e], batch.event_values[e + 1]):
        f = batch.value_field[v]
        mine: Any = np.int64(-1)
        if place < stop and own.loaded.field_attribute[own.batch.value_field[place]] == f:
            mine = np.int64(own.batch.value_field[place])
            place += 1
        _score_value(shared, f, batch.value[v], own, mine, score, scratch)
    split(product, exponent, K)
    for c in range(K):
        joint[c] += math.log(product[c]) + exponent[c] * LN2


@kernel
def run_below(shared: CountViews, batch: Any, own: Any, learn: bool, score: JointScore, scratch: Any) -> None:
    """Predict each event by what its tenant and all others taught before it, then learn it in both models."""
    probabilities, has = own.posteriors.probabilities, own.posteriors.has
    for e in range(own.slots.size):
        if e + 1 < own.slots.size:
            fetch_event(shared.table, batch, e + 1)
        s, learns = own.slots[e], learn and batch.label[e] >= 0
        if probabilities.shape[0] > 0:
            _score_event(shared, batch, e, own, score, scratch)
            normalise(score.joint, score.misses, probabilities[e])
            for c in range(shared.classes.size):
                has[e, c] = shared.classes[c] > 0
            if learns:
                count_right(probabilities[e], batch.label[e], s, own.loaded)
        if learns:
            learn_own(own.tables, own.batch, e, s, own.loaded)
            learn_event(shared, batch, e)


class SharedPrior(Protocol):
    """The shared model as the interface that `ActiveModels` uses."""

    def run_below(self, writer: EventWriter, targets: Any, own: OwnModel, *, learn: bool) -> None:
        """Predict events, each by its tenant's model with this model as prior, and learn them in both."""
