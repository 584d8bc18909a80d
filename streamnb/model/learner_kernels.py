"""How learners, calibrators and pools predict an event, and learn it, in one step of the hot path."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamnb.model.bins import note_value
from streamnb.model.calibration import learn_power, temper
from streamnb.model.collecting import collect, note_attributes
from streamnb.model.confidence import correct_confidence, learn_confidence
from streamnb.model.counts import UNIT
from streamnb.model.features import NO_CLASS, most_met_once, most_rows
from streamnb.model.jit import kernel
from streamnb.model.learners import CALIBRATED, CALIBRATED_POOL, POOL, SOFTMAX
from streamnb.model.logspace import log_normalise
from streamnb.model.opinion_pool import learn_pool, score_pool
from streamnb.model.softmax import count_features, learn_softmax, score_features, score_softmax

__all__ = ["has_room_for_features", "learn_by_learners", "predict_by_learners"]


@kernel
def has_room_for_features(features: Any, known: Any, most: int) -> bool:
    """Whether an event of so many new features, and as many owners, can be added, or the budget is spent."""
    need = min(features.size[0] + 2 * most, most_rows(features, np.count_nonzero(known)))
    entries = features.size.sum() + 2 * most
    return bool(need <= features.table.shape[0] and entries * 10 <= features.slots.size * 6)


@kernel
def predict_by_learners(
    plan: Any,
    learners: Any,
    tables: Any,
    batch: Any,
    e: int,
    bits: Any,
    adds: bool,
    joint: Any,
    room: Any,
    answers: Any,
) -> None:
    """Fill P_h(class | event) (H, K) of every hypothesis that learns from predictions.

    Args:
        plan: which hypothesis is what.
        learners: `LearnerTables`.
        tables: `Tables`.
        batch: the events.
        e: which event.
        bits: uint64[v], the bits of its values.
        adds: whether it is going to be learned.
        joint: float64[B, K], the scores of all readings of the counts.
        room: to work in; it is left as it is for `learn_by_learners`.
        answers: float64[H, K].
    """
    known, collected, M = tables.classes, room.collected, plan.rates.size
    if M:
        most, most_once = 0, 0
        if adds:
            classes = np.count_nonzero(known)
            most = most_rows(learners.features, classes)
            if batch.weight[e] == UNIT and batch.label[e] < NO_CLASS:
                most_once = most_met_once(learners.features, classes)
        collect(
            batch,
            e,
            bits,
            tables.kinds,
            learners.features,
            learners.bins,
            learners.context,
            plan.pairs.any(),
            most,
            most_once,
            collected,
        )
        score_features(collected, learners.features, plan.pairs, room.likelihoods, room.dots, room.by_owner)
    for h in range(plan.kind.size):
        i = plan.reads[h]
        if plan.kind[h] == CALIBRATED:
            untempered = room.untempered[plan.number[h]]
            log_normalise(joint[i], untempered, answers[h])
            temper(untempered, learners.powers[plan.number[h], 0], known, room.scores)
            log_normalise(room.scores, room.logs[h], answers[h])
        elif plan.kind[h] == SOFTMAX:
            room.scales[i] = score_softmax(
                i, plan.pairs[i], collected, room.likelihoods, room.dots, learners.bias, known, room.scores
            )
            log_normalise(room.scores, room.logs[h], answers[h])
    for i in range(plan.opinions.size):
        room.opinions[i] = room.logs[plan.opinions[i]]
    for p in range(plan.variances.size):
        score_pool(room.opinions, learners.pool_weights[p], learners.pool_bias[p], known, room.scores)
        log_normalise(room.scores, room.pooled[1, p], room.pooled[0, p])
    for h in range(plan.kind.size):
        p = plan.reads[h]
        if plan.kind[h] == POOL:
            answers[h], room.logs[h] = room.pooled[0, p], room.pooled[1, p]
        elif plan.kind[h] == CALIBRATED_POOL:
            correct_confidence(room.pooled[1, p], learners.confidence[plan.number[h]], known, room.scores)
            log_normalise(room.scores, room.logs[h], answers[h])


@kernel
def learn_by_learners(
    plan: Any, learners: Any, tables: Any, batch: Any, e: int, room: Any, answers: Any
) -> None:
    """Learn event e, which was just predicted, before its class is counted.

    The first event of a class, and all while there is one class only, teach no more than counts.
    """
    label, units = batch.label[e], batch.weight[e]
    known, weight, M = tables.classes, units / UNIT, plan.rates.size
    if known[label] > 0 and np.count_nonzero(known) > 1:
        for h in range(plan.kind.size):
            i = plan.reads[h]
            if plan.kind[h] == CALIBRATED:
                c = plan.number[h]
                learn_power(room.untempered[c], answers[h], label, weight, learners.powers, c)
            elif plan.kind[h] == SOFTMAX:
                learn_softmax(
                    i, plan.pairs[i], plan.rates[i], room.scales[i], label, weight, answers[h],
                    room.collected, learners.features, learners.bias,
                )  # fmt: skip
            elif plan.kind[h] == CALIBRATED_POOL:
                learn_confidence(room.pooled[1, i], label, units, learners.confidence[plan.number[h]])
        for p in range(plan.variances.size):
            learn_pool(
                room.opinions, room.pooled[0, p], label, weight, plan.variances[p], learners.pool_weights[p],
                learners.covariance[p], learners.pool_bias[p],
            )  # fmt: skip
    if M:
        count_features(room.collected, learners.features, label, units)
        for v in range(batch.event_values[e], batch.event_values[e + 1]):
            note_value(learners.bins, int(batch.value_field[v]), batch.value[v])
        learners.context.learned[0] += units
        note_attributes(learners.features, learners.context, room.collected)
        learners.context.last_label[0] = label
