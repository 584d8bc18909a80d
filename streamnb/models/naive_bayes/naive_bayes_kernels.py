"""The steps of the hot path: learn, unlearn and predict an event, as `prediction_kernels` composes them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.intrinsics import prefetch
from streamnb.kernels.jit import inlined, kernel
from streamnb.models.naive_bayes.gaussian_factors import pooled_moments, score_value
from streamnb.models.naive_bayes.joint_log_likelihood import JointScore, known, score_event
from streamnb.models.naive_bayes.naive_bayes_tables import CountViews
from streamnb.statistics.histograms import has_capacity, highest_count, histogram_move
from streamnb.statistics.logspace import normalise
from streamnb.statistics.moments import learn_value, unlearn_value
from streamnb.values.attribute_kinds import BERNOULLI, UNKNOWN
from streamnb.values.example_weights import UNIT

_SMALL = 1e-250  # times one more factor, which is above 1e-17, is still a normal number


@inlined
def _count_event(tables: CountViews, batch: Any, e: int, k: int, weight: int) -> Any:
    """Add `weight` (which may be negative) to every count of event e; return the lowest resulting count."""
    K = tables.classes.size
    tables.classes[k] += weight
    lowest = tables.classes[k]
    columns = tables.totals.shape[1]
    histograms = tables.histograms
    exact, occupied = histograms.exact, histograms.occupied
    counted, words = histograms.weight, histograms.words
    used, positive = histograms.used, histograms.positive
    previous = np.int64(-1)
    for item in range(batch.event_items[e], batch.event_items[e + 1]):
        g = np.int64(batch.item_group[item])
        bernoulli = tables.kinds[g] == BERNOULLI
        b = tables.slot[g] * columns + k
        change = np.int64(weight)
        if not bernoulli and batch.item_amount[item] != UNIT:
            change = batch.item_amount[item] * abs(weight) // UNIT * np.sign(weight)
        if bernoulli:
            histograms.stale[b] = True
            if g != previous:
                tables.totals[g, k] += weight
        live, total = np.int64(0), np.int64(0)
        for j in range(batch.item_rows[item], batch.item_rows[item + 1]):
            row = batch.rows[j]
            if row < 0:
                continue
            before = tables.table[row, k]
            was_known = before != 0 or known(tables.table, row, K)
            tables.table[row, k] = before + change
            is_known = before + change != 0 or known(tables.table, row, K)
            live += np.int64(is_known) - np.int64(was_known)
            lowest = min(lowest, before + change)
            if bernoulli:
                histogram_move(exact, occupied, counted, words, used, positive, b, before, before + change)
            else:
                total += change
        tables.live[g] += live
        tables.totals[g, k] += total
        lowest = min(lowest, tables.totals[g, k])
        previous = g
    return lowest


@inlined
def learn_event(tables: CountViews, batch: Any, e: int) -> None:
    """Add event e, which has a label, to its class."""
    k, weight = batch.label[e], batch.weight[e]
    _count_event(tables, batch, e, k, weight)
    for v in range(batch.event_values[e], batch.event_values[e + 1]):
        learn_value(tables.n, tables.mean, tables.M2, batch.value_field[v], k, batch.value[v], weight)


@kernel
def _words_in_more_texts_than_there_are(tables: CountViews, batch: Any, e: int, k: int) -> bool:
    columns = tables.totals.shape[1]
    for item in range(batch.event_items[e], batch.event_items[e + 1]):
        g = batch.item_group[item]
        if tables.kinds[g] == BERNOULLI:
            b = tables.slot[g] * columns + k
            if highest_count(tables.histograms, b) > tables.totals[g, k]:
                return True
    return False


@kernel
def unlearn_event(tables: CountViews, batch: Any, e: int) -> bool:
    """Unlearn event e; return False, and change nothing, if it cannot have been learned."""
    k, weight = batch.label[e], batch.weight[e]
    for j in range(batch.item_rows[batch.event_items[e]], batch.item_rows[batch.event_items[e + 1]]):
        if batch.rows[j] == UNKNOWN:
            return False
    for v in range(batch.event_values[e], batch.event_values[e + 1]):
        if tables.n[batch.value_field[v], k] < weight:
            return False
    lowest = _count_event(tables, batch, e, k, -weight)
    if lowest < 0 or _words_in_more_texts_than_there_are(tables, batch, e, k):
        _count_event(tables, batch, e, k, weight)
        return False
    for v in range(batch.event_values[e], batch.event_values[e + 1]):
        unlearn_value(tables.n, tables.mean, tables.M2, batch.value_field[v], k, batch.value[v], weight)
    return True


@kernel
def unlearn_events(first: int, most: int, tables: CountViews, batch: Any, begins: Any, starts: Ints) -> Any:
    """Unlearn events in order, from event `first`.

    If ``begins[e]``, its weight is also subtracted from ``starts[k]``; `begins` may be empty. Returns n; or
    the event before which the histograms lack capacity for `most` more counts; or -1 - e if event e cannot
    have been learned, which leaves it and all later events as they were.
    """
    for e in range(first, batch.label.size):
        k, is_start = batch.label[e], begins.size > 0 and begins[e]
        if k < 0 or (is_start and starts[k] < batch.weight[e]):
            return -1 - e
        if not has_capacity(tables.histograms, tables.slot, tables.totals, k, most):
            return e
        if not unlearn_event(tables, batch, e):
            return -1 - e
        if is_start:
            starts[k] -= batch.weight[e]
    return batch.label.size


@inlined
def fetch_event(table: Any, batch: Any, e: int) -> None:
    """Prefetch the counts of an event while the event before it is processed."""
    columns = table.shape[1]
    for j in range(batch.item_rows[batch.event_items[e]], batch.item_rows[batch.event_items[e + 1]]):
        row = np.int64(batch.rows[j])
        if row >= 0:
            for k in range(0, min(columns, 32), 8):
                prefetch(table, row * columns + k)


@inlined
def predict_event(
    tables: CountViews, batch: Any, e: int, score: JointScore, probabilities: Floats, joints: Floats
) -> None:
    """Fill row e of `probabilities`, and of `joints` if it has rows; see `prediction_kernels.run`."""
    score_event(tables, batch, e, score)
    normalise(score.joint, score.misses, probabilities[e])
    if joints.shape[0] > 0:
        for k in range(score.joint.size):
            joints[e, k] = score.joint[k] if score.misses[k] == 0 else -np.inf


@inlined
def _multiply_share(
    tables: CountViews, g: int, row: int, times: float, joint: Floats, product: Floats
) -> None:
    """Multiply each class by its share of a value of group g; row < 0 is a value never met."""
    for k in range(joint.size):
        count = tables.table[row, k] if row >= 0 else 0
        share = (count + UNIT) / (tables.totals[g, k] + UNIT * (tables.live[g] + 1.0))
        if times != 1.0:
            joint[k] += times * math.log(share)
            continue
        product[k] *= share
        if product[k] < _SMALL:
            joint[k] += math.log(product[k])
            product[k] = 1.0


@kernel
def evidence_per_token(tables: CountViews, batch: Any, e: int, joint: Floats, product: Floats) -> float:
    """Return the log likelihood per token of event e in the class that it fits best, in nats.

        l(x) = max over v of 1/T [ sum over tokens and nominal values of log (n_v(a) + 1) / (n_v + V + 1)
                                   + sum over numbers of log N(x; mean_v, variance_v) ]

    over the T tokens, values and numbers of the event, with V values met of the attribute. One more value,
    with n_v(a) = 0, stands for all values never met: prediction skips them, but they are the strongest sign
    of an unusual event. The prior is left out, or l would fall when a class becomes rare. l depends on counts
    and moments only, not on the declared smoothing. It is nan if no attribute of the event was ever learned.

    `joint` and `product`, float64[K], are scratch. Numbers that never varied are skipped.
    """
    K = joint.size
    for k in range(K):
        joint[k] = 0.0 if tables.classes[k] > 0 else -np.inf
        product[k] = 1.0
    tokens = 0.0
    for item in range(batch.event_items[e], batch.event_items[e + 1]):
        g, times = batch.item_group[item], batch.item_amount[item] / UNIT
        if tables.live[g] == 0:  # perhaps first learned with the next event
            continue
        for j in range(batch.item_rows[item], batch.item_rows[item + 1]):
            row = batch.rows[j]
            if row >= UNKNOWN:
                is_met = row >= 0 and known(tables.table, row, K)
                _multiply_share(tables, g, row if is_met else UNKNOWN, times, joint, product)
                tokens += times
    for v in range(batch.event_values[e], batch.event_values[e + 1]):
        f = batch.value_field[v]
        n, mean, M2 = tables.n[f], tables.mean[f], tables.M2[f]
        if pooled_moments(n, mean, M2, 1.0)[1] > 0.0:
            score_value(n, mean, M2, 1.0, tables.classes, batch.value[v], joint)
            tokens += 1.0
    highest = -np.inf
    for k in range(K):
        highest = max(highest, joint[k] + math.log(product[k]))
    return highest / tokens if tokens > 0.0 else np.nan
