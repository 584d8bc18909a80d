"""What all tenants have taught, as the prior of each: a tenant's own counts take over as they grow.

A class v, a word or value a, and a number x of it, as a tenant sees them that has learned n of them, by the
m-estimate whose p is what the model of all says, P:

    P_t(v)     = (n_v + m P(v)) / (n + m)                n = examples of the tenant
    P_t(a | v) = (n_a + m P(a | v)) / (n_v + m)          n_v = tokens, or events with this field, of class v
    P_t(x | v) = (n_v N(x; u, s^2) + m N(x; U, max(V, s^2))) / (n_v + m)

with u and s^2 the moments of the tenant's own values as naive Bayes reads them, and U and V those of all. Own
values that never differ lean on the pooled variance of all (see `gaussian`). No density is above
1 / sqrt(2 pi s^2) then. So whatever others teach, what is said of a number is near what own values say of it:

    |P_t(x | v) - N(x; u, s^2)| <= m / (n_v + m) / sqrt(2 pi s^2)
    P_t(x | v) >= n_v / (n_v + m) N(x; u, s^2)

The model of all learns each event right after its tenant has, in the order of the stream: so how that is cut
cannot be seen. What a tenant's model has learned is no other than without it; only its reading is.

The m are the same for all streams, chosen by `tests/benchmarks/shared_prior.py` on five labelled streams:

    classes   3 examples      of 1, 3 and 10: hardly another but where labels mean something else to a tenant
    texts     1,000 tokens    of 10 to 10,000: 10 and 100 are worse than one model for all, as a word that
                              was met once then speaks too loudly; 3,000 is as good
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
"""The m of each. Predictions are made by them: another one would be another model."""


class OwnModel(NamedTuple):
    """Events, and the models of their tenants; see `kernels.run_tenants`."""

    tables: CountViews
    batch: Batch
    slots: Ints
    loaded: TenantArrays
    said: TenantPosteriors


class SharedPriorScratch(NamedTuple):
    """Of each class: its column in the tenant's model, or -1; a weight; and what factors are made of."""

    column: Ints
    weight: Floats
    each: Floats
    whole: Floats


@inlined
def _score_classes(shared: CountViews, own: Any, s: int, joint: Floats, scratch: Any) -> None:
    """joint[c] = log P_t(c), and the column of each class in slot s; all know a class that one knows."""
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
    """Add the factors of one item; `place` is that among the tenant's own items, -1 where it knows none."""
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
        # The model of all may have forgotten what a tenant knows: P is that of a word that it never met.
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

    Of both densities what is common to the exponential parts is summed, and the rest multiplied.
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
    """joint[c] = log P_t(class c, event e), of every class of all."""
    joint, misses, product, exponent = score
    K = joint.size
    _score_classes(shared, own, own.slots[e], joint, scratch)
    for c in range(K):
        misses[c], product[c], exponent[c] = 0, 1.0, 0
    # The tenant's items and values are some of all, in the same order: of attributes it has learned.
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
    """Predict each event by what its tenant and all others taught before it, then let both learn it."""
    probabilities, has = own.said.probabilities, own.said.has
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
    """The model of the events of all tenants, as their desk asks it."""

    def run_below(self, writer: EventWriter, targets: Any, own: OwnModel, *, learn: bool) -> None:
        """Predict events, each by its tenant's model with this one as prior, and let both learn them.

        `targets` are as `ActiveModels.run` takes them, and `own` what it made of them.
        """
