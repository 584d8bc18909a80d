"""Attribution of every hypothesis' log odds to the values of one event, by the hypothesis' formula.

For a fixed event every score is a sum over its parts, and so are the log odds of two classes:

    naive Bayes    log P(v1)/P(v2) + sum over values of log P(a|v1)/P(a|v2)
    calibrated     the same times its power
    softmax        b_v1 - b_v2 + sum over features of x_i (l_iv1/2 + w_iv1 - l_iv2/2 - w_iv2)
    one dependence log P(v1)/P(v2) + sum over values of log P(a|b,v1)/P(a|b,v2), b the value of each parent,
                   weighed by its likelihood, see `averaged_one_dependence`
    byte softmax   b_v1 - b_v2 + sum over runs of bytes of the same; a quarter of it for each byte
    pool           b_v1 - b_v2 + sum over opinions of w_i times the log odds of the opinion; what the
                   correction of its confidence adds is the prior's

A pair feature counts half for each of its parts. Terms outside the event belong to the prior: biases, the
previous label, and the half of a pair with the previous label. If a floor under the probabilities cuts the
log odds of a calibrated or pooled hypothesis, all parts are cut in proportion; if it cuts infinite log odds
(a class with prior 0), the remainder belongs to the prior.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamnb.features.byte_ngrams import find_byte_ngrams
from streamnb.features.encoded_batch import Batch
from streamnb.kernels.array_types import Floats, Hashes, Ints
from streamnb.kernels.jit import allocating, inlined, kernel
from streamnb.models.calibration import temperature_scaling
from streamnb.models.interface.attribution import LIMIT
from streamnb.models.mixture import opinion_pool
from streamnb.models.mixture.adaptive_kernels import extract_event, predict_by_learners
from streamnb.models.mixture.adaptive_state import AdaptiveArrays, AdaptiveScratch, HypothesisPlan
from streamnb.models.mixture.attribution_items import AttributionItems
from streamnb.models.mixture.binned_density import read_value, score_binned
from streamnb.models.mixture.hypotheses import SmoothingTables
from streamnb.models.mixture.hypothesis_kinds import (
    BYTES,
    CALIBRATED,
    CALIBRATED_POOL,
    NAIVE,
    ONE_DEPENDENCE,
    POOL,
    SOFTMAX,
)
from streamnb.models.mixture.hypothesis_log_likelihood import HypothesisScratch, score_hypotheses
from streamnb.models.naive_bayes.naive_bayes_tables import CountViews
from streamnb.models.softmax.feature_extraction import ExtractedFeatures, ExtractionContext, put_value
from streamnb.models.softmax.feature_table import KEY_BITS, mixed
from streamnb.models.softmax.quantile_bins import LAYOUTS
from streamnb.models.softmax.rare_class_shrinkage import shrunk_log_odds
from streamnb.models.softmax.softmax_regression import feature_log_odds
from streamnb.statistics.decayed_counts import DecayedTables
from streamnb.statistics.document_frequency import DocumentFrequencyArrays
from streamnb.values.type_aliases import Flags

_POWER_FLOOR, _POOL_FLOOR = temperature_scaling.FLOOR, opinion_pool.FLOOR


@allocating
def _by_readings(
    tables: CountViews,
    presence: DocumentFrequencyArrays,
    decayed: DecayedTables,
    readings: SmoothingTables,
    flat: SmoothingTables,
    plan: HypothesisPlan,
    parts: AttributionItems,
    classes: Any,
    scratch: HypothesisScratch,
    odds: Floats,
) -> None:
    """Fill odds (B, n) with what each part adds to each reading of the counts; the prior is the last.

    Continuous values add nothing to binned readings yet, see `_by_bins`. `flat` are the readings with
    positive priors, so that parts are differences of finite scores.
    """
    one, other = classes
    n, base, batch, bags = odds.shape[1], parts.base, parts.batch, parts.bags
    scores = np.empty((n, 2, odds.shape[0]))
    for e in range(n):
        score_hypotheses(tables, presence, decayed, flat, plan, batch, bags, e, scratch)
        scores[e, 0] = scratch.joint[:, one]
        scores[e, 1] = scratch.joint[:, other]
    for i in range(n - 1):
        for b in range(odds.shape[0]):
            odds[b, i] = (scores[i, 0, b] - scores[base[i], 0, b]) - (scores[i, 1, b] - scores[base[i], 1, b])
    score_hypotheses(tables, presence, decayed, readings, plan, batch, bags, n - 1, scratch)
    odds[:, n - 1] = scratch.joint[:, one] - scratch.joint[:, other]


@kernel
def _by_bins(
    binned: Flags,
    tables: CountViews,
    learners: AdaptiveArrays,
    event: Batch,
    first: int,
    classes: Any,
    extracted: ExtractedFeatures,
    value: Floats,
    odds: Floats,
) -> None:
    one, other = classes
    e: Any = np.int64(0)  # typed: numba would compile a second version for a literal
    for v in range(event.value.size):
        read_value(tables, learners, event, e, v, extracted, value)
        for b in range(binned.size):
            if binned[b]:
                odds[b, first + v] = value[one] - value[other]


@inlined
def _part_of(key: Any, keys: Any, parts: Any, default: Any) -> Any:
    """Return parts[i] for the i with keys[i] == key (keys ascend), or the default."""
    at = np.searchsorted(keys, key)
    return parts[at] if at < keys.size and keys[at] == key else default


@allocating
def _parts_of_singles(batch: Batch, bits: Hashes, parts: AttributionItems, learners: AdaptiveArrays) -> Any:
    """Return ascending keys of all features except pairs and the previous label, and the part of each."""
    tokens, alone, n = batch.keys.size, parts.alone, batch.keys.size
    keys = np.empty(tokens + (LAYOUTS + 1) * batch.value.size, dtype=np.uint64)
    owners = np.empty(keys.size, dtype=np.int64)
    keys[:tokens] = batch.keys & KEY_BITS
    owners[:tokens] = parts.of_token
    for v in range(batch.value.size):
        alone.n[:] = 0
        alone.places[:] = -1
        field, secret = np.int64(batch.value_field[v]), learners.features.secret
        put_value(field, batch.value[v], bits[v], learners.bins, secret, alone.places, alone)
        for i in range(alone.n[0]):
            keys[n], owners[n] = alone.keys[i], parts.batch.rows.size + v
            n += 1
    order = np.argsort(keys[:n])
    return keys[:n][order], owners[:n][order]


@allocating
def _parts_of_pairs(
    batch: Batch,
    parts: AttributionItems,
    context: ExtractionContext,
    extracted: ExtractedFeatures,
    singles: Any,
    owners: Any,
) -> Any:
    """Return ascending keys of all pair features, and the two parts of each, (2, pairs)."""
    of_token, rest, m = parts.of_token, parts.base.size, 0
    chosen = max(context.n_chosen[0], 0)
    keys = np.empty(batch.keys.size + chosen * chosen, dtype=np.uint64)
    two = np.empty((2, keys.size), dtype=np.int64)
    for item in range(batch.item_group.size):
        for j in range(batch.item_rows[item], batch.item_rows[item + 1] - 1):
            keys[m] = mixed(batch.keys[j], batch.keys[j + 1]) & KEY_BITS
            two[0, m], two[1, m] = of_token[j], of_token[j + 1]
            m += 1
    for one in range(chosen):
        for other in range(one + 1, chosen):
            a, b = extracted.slots[one], extracted.slots[other]
            if a >= 0 and b >= 0:
                key_a, key_b = extracted.attribute_keys[a], extracted.attribute_keys[b]
                keys[m] = mixed(key_a, key_b) & KEY_BITS
                keys[m + 1] = mixed(extracted.fine_keys[a], extracted.fine_keys[b]) & KEY_BITS
                two[0, m : m + 2] = _part_of(key_a & KEY_BITS, singles, owners, rest)
                two[1, m : m + 2] = _part_of(key_b & KEY_BITS, singles, owners, rest)
                m += 2
    order = np.argsort(keys[:m])
    return keys[:m][order], two[:, :m][:, order]


@allocating
def _parts_of_features(
    batch: Batch,
    bits: Hashes,
    parts: AttributionItems,
    learners: AdaptiveArrays,
    extracted: ExtractedFeatures,
    own: Ints,
) -> None:
    """Fill own int64[2, >= features] with the two parts of every feature extracted from an event.

    Both are equal except for pairs; n - 1, the column of the prior, stands for a part outside the event.
    """
    rest = parts.base.size
    singles, owners = _parts_of_singles(batch, bits, parts, learners)
    for i in range(extracted.n[0]):
        own[:, i] = _part_of(extracted.keys[i], singles, owners, rest)
    if extracted.n[1] > extracted.n[0]:
        pairs, two = _parts_of_pairs(batch, parts, learners.context, extracted, singles, owners)
        for i in range(extracted.n[0], extracted.n[1]):
            for side in range(2):
                own[side, i] = _part_of(extracted.keys[i], pairs, two[side], rest)


@inlined
def _cut(a: float, b: float, floor: float) -> Any:
    """Return the log odds of two logs raised to at least `floor`, and their ratio to the uncut log odds."""
    log_odds = max(a, floor) - max(b, floor)
    if a >= floor and b >= floor:
        return log_odds, 1.0
    uncut = a - b
    return log_odds, log_odds / uncut if math.isfinite(uncut) and uncut != 0.0 else 0.0


@allocating
def _of_learners(
    plan: HypothesisPlan,
    learners: AdaptiveArrays,
    extracted: ExtractedFeatures,
    scales: Floats,
    own: Ints,
    known: Ints,
    classes: Any,
    odds: Floats,
) -> None:
    one, other = classes
    is_cautious = plan.is_cautious[0]
    prior = shrunk_log_odds(known, one, other) if is_cautious else 0.0
    told = np.empty(extracted.keys.size)
    for h in range(plan.kind.size):
        if plan.kind[h] == SOFTMAX:
            m = plan.reads[h]
            pairs = plan.pairs[m]
            feature_log_odds(m, pairs, is_cautious, scales[m], extracted, learners.features, one, other, told)
            odds[h] = 0.0
            for i in range(extracted.n[1] if pairs else extracted.n[0]):
                for side in range(2):
                    odds[h, own[side, i]] += told[i] / 2.0
            odds[h, -1] += learners.bias[m, 0, one] - learners.bias[m, 0, other] + prior


@allocating
def _of_calibrated(
    plan: HypothesisPlan,
    learners: AdaptiveArrays,
    untempered: Floats,
    classes: Any,
    by_reading: Floats,
    odds: Floats,
) -> None:
    """Fill the rows of naive Bayes hypotheses in odds (H, n), calibrated or not."""
    one, other = classes
    for h in range(plan.kind.size):
        if plan.kind[h] == NAIVE:
            odds[h] = by_reading[plan.reads[h]]
        elif plan.kind[h] == CALIBRATED:
            logs, power = untempered[plan.number[h]], learners.powers[plan.number[h], 0]
            told, share = _cut(logs[one], logs[other], _POWER_FLOOR)
            prior = by_reading[plan.reads[h], -1]
            odds[h] = power * share * by_reading[plan.reads[h]]
            odds[h, -1] = power * (share * prior if math.isfinite(prior) else told)


@allocating
def _of_pools(
    plan: HypothesisPlan,
    learners: AdaptiveArrays,
    learner_scratch: AdaptiveScratch,
    pooled: int,
    classes: Any,
    odds: Floats,
) -> None:
    """Fill the rows of pools in odds (H, n) from the rows of their opinions, which must be filled."""
    opinions = learner_scratch.opinions
    one, other = classes
    for h in range(plan.kind.size):
        if plan.kind[h] == POOL or plan.kind[h] == CALIBRATED_POOL:
            p = plan.reads[h]
            odds[h] = 0.0
            for i in range(pooled):
                _, share = _cut(opinions[i, one], opinions[i, other], _POOL_FLOOR)
                odds[h] += learners.pool_weights[p, i] * share * odds[plan.opinions[i]]
            odds[h, -1] += learners.pool_bias[p, 0, one] - learners.pool_bias[p, 0, other]
            if plan.kind[h] == CALIBRATED_POOL:
                before, after = learner_scratch.pooled[1, p], learner_scratch.logs[h]
                odds[h, -1] += (after[one] - after[other]) - (before[one] - before[other])


@allocating
def mean_log_odds(
    state: Any,
    readings: SmoothingTables,
    flat: SmoothingTables,
    plan: HypothesisPlan,
    event: Any,
    parts: AttributionItems,
    classes: Any,
    scratch: HypothesisScratch,
    learner_scratch: AdaptiveScratch,
    dependence: Floats,
    pooled: int,
    runs: Floats,
    shares: Floats,
) -> Any:
    """Return float64[n]: what each part adds to the log odds, averaged over hypotheses; the prior is last.

    A prior that rules out one of the classes counts as +-`attribution.LIMIT`, a prior that rules out both as
    0.

    Args:
        state: (CountViews, DocumentFrequencyArrays, DecayedTables, AdaptiveArrays).
        readings: of the counts.
        flat: the same, with priors that rule out no class.
        plan: `HypothesisPlan`.
        event: (batch of the event, bits of its values, its bags, buffers for its byte n-grams).
        parts: `AttributionItems` of it.
        classes: (class, reference class) of the log odds, as indices.
        scratch: of the readings.
        learner_scratch: of the learners; its logs hold predictions of one-dependence estimators.
        dependence: float64[D, n], the parts of one-dependence estimators.
        pooled: number of opinions that are pooled; they come first.
        runs: float64[G, n], the parts of byte n-gram learners.
        shares: float64[H], weights of the hypotheses in the mean.
    """
    tables, presence, decayed, learners = state
    batch, bits, bags, grams = event
    H, n = plan.kind.size, parts.base.size + 1
    by_reading, odds = np.empty((scratch.joint.shape[0], n)), np.zeros((H, n))
    _by_readings(tables, presence, decayed, readings, flat, plan, parts, classes, scratch, by_reading)
    e: Any = np.int64(0)  # typed: numba would compile a second version for a literal
    extracted = learner_scratch.extracted
    if extracted.keys.size:
        adds: Any = np.bool_(False)
        extract_event(plan, learners, tables, batch, e, bits, adds, extracted)
        first: Any = np.int64(parts.batch.rows.size)
        _by_bins(plan.binned, tables, learners, batch, first, classes, extracted, scratch.value, by_reading)
    if (plan.kind != NAIVE).any():
        by_hypothesis = np.empty((H, scratch.joint.shape[1]))
        score_hypotheses(tables, presence, decayed, readings, plan, batch, bags, e, scratch)
        if extracted.keys.size:
            score_binned(plan.binned, tables, learners, batch, e, extracted, scratch.value, scratch.joint)
        find_byte_ngrams(grams, batch, e, learners.grams.records)
        predict_by_learners(
            plan, learners, tables.classes, scratch.joint, grams, learner_scratch, pooled, by_hypothesis
        )
    _of_calibrated(plan, learners, learner_scratch.untempered, classes, by_reading, odds)
    if plan.rates.size:
        own = np.empty((2, extracted.keys.size), dtype=np.int64)
        _parts_of_features(batch, bits, parts, learners, extracted, own)
        _of_learners(plan, learners, extracted, learner_scratch.scales, own, tables.classes, classes, odds)
    for h in range(H):
        if plan.kind[h] == ONE_DEPENDENCE:
            odds[h] = dependence[plan.reads[h]]
        elif plan.kind[h] == BYTES:
            odds[h] = runs[plan.reads[h]]
    _of_pools(plan, learners, learner_scratch, pooled, classes, odds)
    mean = np.zeros(n)
    for h in range(H):
        if shares[h] > 0.0:
            prior = odds[h, n - 1]
            odds[h, n - 1] = 0.0 if math.isnan(prior) else min(max(prior, -LIMIT), LIMIT)
            mean += shares[h] * odds[h]
    return mean
