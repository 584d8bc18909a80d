"""How learners, calibrators and pools predict an event, and learn it, in one step of the hot path."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamnb.model.attributes.weights import UNIT
from streamnb.model.calibration.histogram_binning import correct_confidence, learn_confidence
from streamnb.model.calibration.temperature import learn_power, temper
from streamnb.model.compiled.jit import inlined, kernel
from streamnb.model.compiled.vectors import copy_to, count_positive
from streamnb.model.mixture.components import CALIBRATED, CALIBRATED_POOL, POOL, SOFTMAX
from streamnb.model.mixture.opinion_pool import learn_pool, score_pool
from streamnb.model.numerics.logspace import log_normalise
from streamnb.model.softmax.feature_extraction import collect, note_attributes
from streamnb.model.softmax.feature_table import NO_CLASS, most_met_once, most_rows
from streamnb.model.softmax.quantile_bins import note_value
from streamnb.model.softmax.softmax import count_features, learn_softmax, score_features, score_softmax

__all__ = ["collect_event", "has_room_for_features", "learn_by_learners", "predict_by_learners"]


@inlined
def has_room_for_features(features: Any, known: Any, most: int) -> bool:
    """Whether an event of so many new features, and as many owners, can be added, or the budget is spent."""
    need = min(features.size[0] + 2 * most, most_rows(features, count_positive(known)))
    entries = features.size[0] + features.size[1] + 2 * most
    return bool(need <= features.table.shape[0] and entries * 10 <= features.slots.size * 6)


@kernel
def collect_event(
    plan: Any, learners: Any, tables: Any, batch: Any, e: int, bits: Any, adds: bool, collected: Any
) -> None:
    """Fill `collected` with the features of event e, pairs where a learner takes them.

    Args:
        plan: which hypothesis is what.
        learners: `LearnerTables`.
        tables: `Tables`.
        batch: the events.
        e: which event.
        bits: uint64[v], the bits of its values.
        adds: whether it is going to be learned: then new features are added.
        collected: `Collected`.
    """
    most: Any = np.int64(0)  # of a type: literals would be compiled anew
    pairs: Any = np.bool_(False)
    most_once = most
    for i in range(plan.pairs.size):
        pairs |= plan.pairs[i]
    if adds:
        classes = count_positive(tables.classes)
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
        pairs,
        most,
        most_once,
        collected,
    )


@inlined
def predict_by_learners(plan: Any, learners: Any, known: Any, joint: Any, room: Any, answers: Any) -> None:
    """Fill P_h(class | event) (H, K) of every hypothesis that learns from predictions.

    Args:
        plan: which hypothesis is what.
        learners: `LearnerTables`.
        known: int64[>= K], weight learned of each class.
        joint: float64[B, K], the scores of all readings of the counts.
        room: to work in, where the event's features are collected; left as it is for `learn_by_learners`.
        answers: float64[H, K].
    """
    collected = room.collected
    if plan.rates.size:
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
        copy_to(room.opinions[i], room.logs[plan.opinions[i]])
    for p in range(plan.variances.size):
        score_pool(room.opinions, learners.pool_weights[p], learners.pool_bias[p], known, room.scores)
        log_normalise(room.scores, room.pooled[1, p], room.pooled[0, p])
    for h in range(plan.kind.size):
        p = plan.reads[h]
        if plan.kind[h] == POOL:
            copy_to(answers[h], room.pooled[0, p])
            copy_to(room.logs[h], room.pooled[1, p])
        elif plan.kind[h] == CALIBRATED_POOL:
            correct_confidence(room.pooled[1, p], learners.confidence[plan.number[h]], known, room.scores)
            log_normalise(room.scores, room.logs[h], answers[h])


@inlined
def learn_by_learners(
    plan: Any, learners: Any, tables: Any, batch: Any, e: int, room: Any, answers: Any
) -> None:
    """Learn event e, which was just predicted, before its class is counted.

    The first event of a class, and all while there is one class only, teach no more than counts.
    """
    label, units = batch.label[e], batch.weight[e]
    known, weight = tables.classes, units / UNIT
    if known[label] > 0 and count_positive(known) > 1:
        for h in range(plan.kind.size):
            i = plan.reads[h]
            if plan.kind[h] == CALIBRATED:
                c = plan.number[h]
                learn_power(room.untempered[c], answers[h], label, weight, learners.powers, c)
            elif plan.kind[h] == SOFTMAX:
                learn_softmax(
                    i, plan.pairs[i], plan.rates[i], room.scales[i], label, weight, answers[h],
                    room.collected, learners.features, learners.bias, room.scores,
                )  # fmt: skip
            elif plan.kind[h] == CALIBRATED_POOL:
                learn_confidence(room.pooled[1, i], label, units, learners.confidence[plan.number[h]])
        for p in range(plan.variances.size):
            learn_pool(
                room.opinions, room.pooled[0, p], label, weight, plan.variances[p], learners.pool_weights[p],
                learners.covariance[p], learners.pool_bias[p], room.work,
            )  # fmt: skip
    if room.collected.keys.size:
        count_features(room.collected, learners.features, label, units)
        for v in range(batch.event_values[e], batch.event_values[e + 1]):
            note_value(learners.bins, int(batch.value_field[v]), batch.value[v])
        learners.context.learned[0] += units
        note_attributes(learners.features, learners.context, room.collected)
        learners.context.last_label[0] = label
