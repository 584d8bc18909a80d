"""Predict with, then update, the adaptive members (learners, calibrators, pools) for one event."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamnb.features.byte_ngrams import ByteNgrams
from streamnb.features.encoded_batch import Batch
from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.jit import inlined, kernel
from streamnb.kernels.vector_kernels import copy_to, count_positive
from streamnb.models.calibration.histogram_binning import correct_confidence, learn_confidence
from streamnb.models.calibration.temperature_scaling import learn_power, temper
from streamnb.models.mixture.hypothesis_kinds import BYTES, CALIBRATED, CALIBRATED_POOL, POOL, SOFTMAX
from streamnb.models.mixture.opinion_pool import learn_pool, score_pool
from streamnb.models.mixture.recent_gaussians import learn_recent
from streamnb.models.naive_bayes.naive_bayes_tables import CountViews
from streamnb.models.softmax.byte_ngram_table import count_grams, learn_grams, score_grams, weigh_grams
from streamnb.models.softmax.feature_extraction import ExtractedFeatures, extract, note_attributes
from streamnb.models.softmax.feature_table import (
    LIVE,
    NO_CLASS,
    ONCE,
    FeatureTableArrays,
    most_met_once,
    most_rows,
)
from streamnb.models.softmax.quantile_bins import note_value
from streamnb.models.softmax.softmax_regression import (
    count_features,
    learn_softmax,
    score_features,
    score_softmax,
)
from streamnb.statistics.logspace import log_normalise
from streamnb.values.example_weights import UNIT


@inlined
def has_capacity_for_features(features: FeatureTableArrays, known: Ints, most: int) -> bool:
    """Return True if `most` new features, and as many owners, fit the table, or its budget is spent."""
    size = features.size
    need = min(size[LIVE] + 2 * most, most_rows(features, count_positive(known)))
    entries = size[LIVE] + size[ONCE] + 2 * most
    return bool(need <= features.table.shape[0] and entries * 10 <= features.slots.size * 6)


@kernel
def extract_event(
    plan: Any,
    learners: Any,
    tables: CountViews,
    batch: Batch,
    e: int,
    bits: Any,
    adds: bool,
    extracted: ExtractedFeatures,
) -> None:
    """Fill `extracted` with the features of event e; new ones get rows if `adds`. `bits`: of its values."""
    most: Any = np.int64(0)  # typed: numba would compile a second version for a literal
    pairs: Any = np.bool_(False)
    most_once = most
    for i in range(plan.pairs.size):
        pairs |= plan.pairs[i]
    if adds:
        classes = count_positive(tables.classes)
        most = most_rows(learners.features, classes)
        if batch.weight[e] == UNIT and batch.label[e] < NO_CLASS:
            most_once = most_met_once(learners.features, classes)
    extract(
        batch, e, bits, tables.kinds, learners.features, learners.bins, learners.context,
        pairs, most, most_once, extracted,
    )  # fmt: skip


@kernel
def predict_by_learners(
    plan: Any,
    learners: Any,
    known: Ints,
    joint: Floats,
    grams: ByteNgrams,
    scratch: Any,
    pooled: int,
    answers: Floats,
) -> None:
    """Fill `answers` (H, K) with P_h(class | event) of every adaptive hypothesis h.

    Args:
        plan: `HypothesisPlan`.
        learners: `AdaptiveArrays`.
        known: int64[>= K], weight learned of each class.
        joint: float64[B, K], the scores of all readings of the counts.
        grams: the byte n-grams of the event.
        scratch: holds the event's extracted features; `learn_by_learners` reads it afterwards.
        pooled: number of opinions that are pooled; they come first.
        answers: float64[H, K].
    """
    extracted, is_cautious = scratch.extracted, plan.is_cautious[0]
    if plan.rates.size:
        score_features(
            extracted, learners.features, plan.pairs, is_cautious,
            scratch.likelihoods, scratch.dots, scratch.by_owner,
        )  # fmt: skip
    if plan.byte_rates.size:
        scratch.run_scale[0] = weigh_grams(grams, learners.grams, is_cautious, scratch.runs, scratch.told)
    for h in range(plan.kind.size):
        i = plan.reads[h]
        if plan.kind[h] == CALIBRATED:
            untempered = scratch.untempered[plan.number[h]]
            log_normalise(joint[i], untempered, answers[h])
            temper(untempered, learners.powers[plan.number[h], 0], known, scratch.scores)
            log_normalise(scratch.scores, scratch.logs[h], answers[h])
        elif plan.kind[h] == SOFTMAX:
            scratch.scales[i] = score_softmax(
                i, plan.pairs[i], is_cautious, extracted, scratch.likelihoods, scratch.dots,
                learners.bias, known, scratch.scores,
            )  # fmt: skip
            log_normalise(scratch.scores, scratch.logs[h], answers[h])
        elif plan.kind[h] == BYTES:
            bias = learners.bias[plan.rates.size + i]
            score_grams(scratch.run_scale[0], scratch.told[i], bias, known, is_cautious, scratch.scores)
            log_normalise(scratch.scores, scratch.logs[h], answers[h])
    for i in range(pooled):
        copy_to(scratch.opinions[i], scratch.logs[plan.opinions[i]])
    for p in range(plan.variances.size):
        score_pool(
            scratch.opinions[:pooled], learners.pool_weights[p], learners.pool_bias[p], known, scratch.scores
        )
        log_normalise(scratch.scores, scratch.pooled[1, p], scratch.pooled[0, p])
    for h in range(plan.kind.size):
        p = plan.reads[h]
        if plan.kind[h] == POOL:
            copy_to(answers[h], scratch.pooled[0, p])
            copy_to(scratch.logs[h], scratch.pooled[1, p])
        elif plan.kind[h] == CALIBRATED_POOL:
            correct_confidence(
                scratch.pooled[1, p], learners.confidence[plan.number[h]], known, scratch.scores
            )
            log_normalise(scratch.scores, scratch.logs[h], answers[h])


@kernel
def learn_by_learners(
    plan: Any,
    learners: Any,
    tables: CountViews,
    batch: Batch,
    grams: ByteNgrams,
    e: int,
    scratch: Any,
    pooled: int,
    answers: Floats,
) -> None:
    """Update the adaptive members with event e; only their counts if its class is new or the only one."""
    label, units = batch.label[e], batch.weight[e]
    known, weight = tables.classes, units / UNIT
    if known[label] > 0 and count_positive(known) > 1:
        for h in range(plan.kind.size):
            i = plan.reads[h]
            if plan.kind[h] == CALIBRATED:
                c = plan.number[h]
                learn_power(scratch.untempered[c], answers[h], label, weight, learners.powers, c)
            elif plan.kind[h] == SOFTMAX:
                learn_softmax(
                    i, plan.pairs[i], plan.rates[i], scratch.scales[i], label, weight, answers[h],
                    scratch.extracted, learners.features, learners.bias, scratch.scores,
                )  # fmt: skip
            elif plan.kind[h] == BYTES:
                learn_grams(
                    i, plan.byte_rates[i], grams, learners.grams, scratch.run_scale[0], scratch.runs,
                    label, weight, answers[h], learners.bias[plan.rates.size + i], scratch.scores,
                )  # fmt: skip
            elif plan.kind[h] == CALIBRATED_POOL:
                learn_confidence(scratch.pooled[1, i], label, units, learners.confidence[plan.number[h]])
        for p in range(plan.variances.size):
            learn_pool(
                scratch.opinions[:pooled], scratch.pooled[0, p], label, weight, plan.variances[p],
                learners.pool_weights[p], learners.covariance[p], learners.pool_bias[p], scratch.work,
            )  # fmt: skip
    if plan.half_lives.size:
        learn_recent(learners.recent, batch, e)
    count_grams(grams, learners.grams, label, units)
    if scratch.extracted.keys.size:
        count_features(scratch.extracted, learners.features, label, units)
        for v in range(batch.event_values[e], batch.event_values[e + 1]):
            note_value(learners.bins, int(batch.value_field[v]), batch.value[v])
        learners.context.learned[0] += units
        note_attributes(learners.features, learners.context, scratch.extracted)
        learners.context.last_label[0] = label
