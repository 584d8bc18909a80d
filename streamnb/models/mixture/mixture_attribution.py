"""Attribution of every hypothesis' log odds to the values of one event, by the hypothesis' formula.

For a fixed event every score is a sum over its parts, and so are the log odds of two classes:

    naive Bayes    log P(v1)/P(v2) + sum over values of log P(a|v1)/P(a|v2)
    calibrated     the same times its power
    softmax        b_v1 - b_v2 + sum over features of x_i (l_iv1/2 + w_iv1 - l_iv2/2 - w_iv2)
    one dependence log P(v1)/P(v2) + sum over values of log P(a|b,v1)/P(a|b,v2), b the value of each parent,
                   weighed by its likelihood, see `pair_attribution`
    forest         log odds at the roots + sum over the values that decided splits, see `path_attribution`
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

from streamnb.features.bags import Bags
from streamnb.features.byte_ngrams import ByteNgrams
from streamnb.features.encoded_batch import Batch
from streamnb.features.keyed_hash import hash_word
from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.jit import inlined, kernel
from streamnb.kernels.vector_kernels import copy_to, fill
from streamnb.models.calibration import temperature_scaling
from streamnb.models.forest.path_attribution import inverse_mean
from streamnb.models.interface.attribution_parts import LIMIT, choose_strongest, most_probable
from streamnb.models.mixture import opinion_pool
from streamnb.models.mixture.attribution_items import AttributionItems
from streamnb.models.mixture.binned_density import read_value
from streamnb.models.mixture.byte_ngram_attribution import find_runs, share_runs
from streamnb.models.mixture.hypotheses import BERNOULLI, COMPLEMENT, MULTINOMIAL, SmoothingTables
from streamnb.models.mixture.hypothesis_kinds import (
    BYTES,
    CALIBRATED,
    CALIBRATED_POOL,
    FOREST,
    NAIVE,
    ONE_DEPENDENCE,
    POOL,
    SOFTMAX,
)
from streamnb.models.mixture.hypothesis_log_likelihood import (
    HypothesisScratch,
    fetch_counts,
    fetch_decayed,
    fetch_totals,
    score_absence,
    score_class_priors,
    score_nominal,
    set_smoothing,
)
from streamnb.models.mixture.recent_gaussians import score_recent_prior, score_recent_value
from streamnb.models.naive_bayes.gaussian_factors import score_value
from streamnb.models.naive_bayes.naive_bayes_tables import CountViews
from streamnb.models.one_dependence.pair_attribution import averaged_log_odds
from streamnb.models.softmax.byte_ngram_table import gram_log_odds
from streamnb.models.softmax.feature_table import KEY_BITS, mixed
from streamnb.models.softmax.rare_class_shrinkage import shrunk_log_odds
from streamnb.models.softmax.softmax_regression import feature_log_odds
from streamnb.statistics.count_sources import FIRST_DECAYED, PRESENT
from streamnb.statistics.decayed_counts import DecayedTables
from streamnb.statistics.document_frequency import DocumentFrequencyArrays
from streamnb.statistics.logspace import LN2
from streamnb.values.attribute_kinds import NOMINAL
from streamnb.values.example_weights import UNIT

_POWER_FLOOR, _POOL_FLOOR = temperature_scaling.FLOOR, opinion_pool.FLOOR


@inlined
def _cut(a: float, b: float, floor: float) -> Any:
    """Return the log odds of two logs raised to at least `floor`, and their ratio to the uncut log odds."""
    log_odds = max(a, floor) - max(b, floor)
    if a >= floor and b >= floor:
        return log_odds, 1.0
    uncut = a - b
    return log_odds, log_odds / uncut if math.isfinite(uncut) and uncut != 0.0 else 0.0


@kernel
def _weigh(
    plan: Any,
    learners: Any,
    learner_scratch: Any,
    pooled: int,
    classes: Any,
    shares: Floats,
    items: AttributionItems,
) -> None:
    """Fill the factors by which parts of readings and learners add to the mean over all hypotheses.

    A pool is a sum over its opinions, and so is the mean over hypotheses: no hypothesis needs a row of parts.
    """
    one, other = classes
    weights, by_reading = items.weights, items.by_reading
    for factors in (by_reading, items.by_learner, items.by_bytes):
        fill(factors, 0.0)
    copy_to(weights, shares)
    for i in range(pooled):
        opinion = learner_scratch.opinions[i]
        _, share = _cut(opinion[one], opinion[other], _POOL_FLOOR)
        for h in range(shares.size):
            if plan.kind[h] == POOL or plan.kind[h] == CALIBRATED_POOL:
                weights[plan.opinions[i]] += shares[h] * learners.pool_weights[plan.reads[h], i] * share
    for h in range(shares.size):
        i = plan.reads[h]
        if plan.kind[h] == NAIVE:
            by_reading[i] += weights[h]
        elif plan.kind[h] == CALIBRATED:
            logs, power = learner_scratch.untempered[plan.number[h]], learners.powers[plan.number[h], 0]
            _, share = _cut(logs[one], logs[other], _POWER_FLOOR)
            by_reading[i] += weights[h] * power * share
        elif plan.kind[h] == SOFTMAX:
            items.by_learner[i] += weights[h]
        elif plan.kind[h] == BYTES:
            items.by_bytes[i] += weights[h]


@inlined
def _clear(scratch: HypothesisScratch) -> None:
    for h in range(scratch.above.shape[0]):
        for k in range(scratch.above.shape[1]):
            scratch.joint[h, k] = 0.0
            scratch.above[h, k], scratch.below[h, k], scratch.exponent[h, k] = 1.0, 1.0, 0


@inlined
def _log_odds_of_word(
    likelihood: int, j: int, s: float, rest: float, times: float, total: float, classes: Any, scratch: Any
) -> float:
    """Return what a word adds by one reading, whose counts are of source j; `total`: of the totals."""
    one, other = classes
    counts, others, texts = scratch.counts[j], scratch.others[j], scratch.value
    if likelihood == COMPLEMENT:
        return times * (math.log((others[other] + s) / (others[one] + s)) + total)
    odds = math.log((counts[one] + s) / (counts[other] + s))
    if likelihood == BERNOULLI:
        return odds - math.log((texts[one] - counts[one] + rest) / (texts[other] - counts[other] + rest))
    return times * (odds - total) if likelihood == MULTINOMIAL else odds - total


@inlined
def _fill_totals(
    readings: SmoothingTables,
    presence: DocumentFrequencyArrays,
    g: int,
    classes: Any,
    scratch: HypothesisScratch,
    log_odds: Floats,
) -> bool:
    """Fill the log odds of the totals of text g, and its texts by class; return True if any reads tokens."""
    one, other = classes
    sources, S, by_tokens = readings.texts, scratch.S, False
    for h in range(sources.size):
        by_tokens |= sources[h] != PRESENT
        totals = scratch.other_totals if readings.likelihood[h] == COMPLEMENT else scratch.totals
        log_odds[h] = math.log((totals[sources[h], one] + S[h]) / (totals[sources[h], other] + S[h]))
    for k in range(scratch.value.size):
        scratch.value[k] = float(presence.texts[g, k]) if presence.table.size else 0.0
    return by_tokens


@kernel
def _add_text(
    tables: CountViews,
    presence: DocumentFrequencyArrays,
    decayed: DecayedTables,
    readings: SmoothingTables,
    batch: Batch,
    tokens: Any,
    part: int,
    g: int,
    classes: Any,
    scratch: HypothesisScratch,
    items: AttributionItems,
) -> None:
    """Add the words of a text, which has its first token and the number of its tokens and those before it.

    The text without its words is `part`.
    """
    one, other = classes
    begin, first, stop = tokens
    set_smoothing(readings, g, True, float(tables.live[g]), scratch)
    fetch_totals(tables, presence, decayed, g, True, scratch)
    likelihood, sources, by_reading = readings.likelihood, readings.texts, items.by_reading
    if presence.slot.size > 0 and presence.slot[g] >= 0:
        _clear(scratch)
        score_absence(tables, presence, readings, g, scratch)
        for h in range(sources.size):
            items.parts.odds[part] += by_reading[h] * (scratch.joint[h, one] - scratch.joint[h, other])
    by_tokens = _fill_totals(readings, presence, g, classes, scratch, items.totals)
    for j in range(first, stop):
        row = batch.rows[begin + j]
        if row < 0 or items.of_token[j] != j or items.amount[j] == 0.0:
            continue
        if not fetch_counts(row, tables.table, presence.table, by_tokens, scratch.counts, scratch.others):
            continue
        if scratch.scale.size:
            fetch_decayed(row, decayed.table, decayed.epoch, decayed.row_epoch, scratch.scale, scratch.counts,
                          scratch.others)  # fmt: skip
        for h in range(sources.size):
            if by_reading[h] != 0.0:
                items.parts.odds[j] += by_reading[h] * _log_odds_of_word(
                    likelihood[h], sources[h], scratch.s[h], scratch.rest[h], items.amount[j],
                    items.totals[h], classes, scratch,
                )  # fmt: skip


@inlined
def _log_odds_of_others(
    plan: Any,
    tables: CountViews,
    learners: Any,
    batch: Batch,
    e: int,
    v: int,
    extracted: Any,
    classes: Any,
    value: Floats,
    by_reading: Floats,
) -> float:
    """Return what number v of event e adds by its bins, and by its density in recent events."""
    one, other = classes
    added = 0.0
    if plan.binned.any():
        read_value(tables, learners, batch, e, v, extracted, value)
        for b in range(plan.binned.size):
            if plan.binned[b]:
                added += by_reading[b] * (value[one] - value[other])
    at = batch.event_values[e] + v
    for r in range(plan.half_lives.size):
        fill(value, 0.0)
        score_recent_value(learners.recent, tables.classes, r, batch.value_field[at], batch.value[at], value)
        added += by_reading[plan.binned.size + r] * (value[one] - value[other])
    return added


@kernel
def _add_numbers(
    plan: Any,
    state: Any,
    readings: SmoothingTables,
    batch: Batch,
    e: int,
    first: int,
    extracted: Any,
    classes: Any,
    scratch: HypothesisScratch,
    items: AttributionItems,
) -> None:
    """Add the numbers, which are the parts from `first` on, by their bins and their Gaussian densities."""
    tables, _, decayed, learners, _ = state
    one, other = classes
    value, by_reading, odds = scratch.value, items.by_reading, items.parts.odds
    for v in range(batch.event_values[e + 1] - batch.event_values[e]):
        at = batch.event_values[e] + v
        f, x = batch.value_field[at], batch.value[at]
        odds[first + v] += _log_odds_of_others(
            plan, tables, learners, batch, e, v, extracted, classes, value, by_reading
        )
        for source in range(scratch.counts.shape[0]):
            d = source - FIRST_DECAYED
            if source == PRESENT:
                continue
            fill(value, 0.0)
            if d < 0:
                score_value(tables.n[f], tables.mean[f], tables.M2[f], 1.0, tables.classes, x, value)
            else:
                n, mean, M2 = decayed.n[d, f], decayed.mean[d, f], decayed.M2[d, f]
                score_value(n, mean, M2, scratch.scale[d], tables.classes, x, value)
            for h in range(readings.plain.size):
                if readings.plain[h] == source and not plan.binned[h]:
                    odds[first + v] += by_reading[h] * (value[one] - value[other])


@kernel
def _add_readings(
    state: Any,
    readings: SmoothingTables,
    plan: Any,
    batch: Batch,
    bags: Bags,
    e: int,
    extracted: Any,
    classes: Any,
    scratch: HypothesisScratch,
    items: AttributionItems,
) -> None:
    """Add the parts of the readings of the counts."""
    tables, presence, decayed, _, _ = state
    one, other = classes
    item, stop = batch.event_items[e], batch.event_items[e + 1]
    begin, by_reading = batch.item_rows[item], items.by_reading
    numbers = batch.item_rows[stop] - begin
    texts = numbers + batch.event_values[e + 1] - batch.event_values[e] - item
    if batch.event_values[e + 1] > batch.event_values[e]:
        _add_numbers(plan, state, readings, batch, e, numbers, extracted, classes, scratch, items)
    for i in range(plan.duplicate_of.size):  # they differ from their readings in numbers alone
        by_reading[plan.duplicate_of[i]] += by_reading[readings.plain.size + i]
    bag = bags.event_bags[e]
    while item < stop:
        g: Any = np.int64(batch.item_group[item])
        last = item + 1
        while last < stop and batch.item_group[last] == g:
            last += 1
        first, end = batch.item_rows[item] - begin, batch.item_rows[last] - begin
        if tables.kinds[g] != NOMINAL:
            tokens = (begin, first, end)
            _add_text(tables, presence, decayed, readings, batch, tokens, texts + item, g, classes, scratch,
                      items)  # fmt: skip
        elif end > first:
            _clear(scratch)
            score_nominal(tables, presence, decayed, readings, bags, bag, scratch)
            part, above, exponent = items.of_token[first], scratch.above, scratch.exponent
            for h in range(readings.plain.size):
                told = math.log(above[h, one] / above[h, other])
                told -= math.log(scratch.below[h, one] / scratch.below[h, other])
                told += (exponent[h, one] - exponent[h, other]) * LN2
                items.parts.odds[part] += by_reading[h] * told
        item, bag = last, bag + 1


@inlined
def _find(items: AttributionItems, mask: Any, key: Any, hashed: Any) -> Any:
    """Return the place of a key's entry, or the free place that ends its chain."""
    place = hashed & mask
    while items.places[place] >= 0 and items.keys[items.places[place]] != key:
        place = (place + np.uint64(1)) & mask
    return place


@inlined
def _put(items: AttributionItems, mask: Any, key: Any, hashed: Any, one: int, other: int) -> int:
    """Add a feature that belongs to two parts, unless its key is there; return the first part."""
    place = _find(items, mask, key, hashed)
    if items.places[place] < 0:
        n = items.n[0]
        items.places[place] = n
        items.keys[n], items.owners[0, n], items.owners[1, n] = key, one, other
        items.n[0] = n + 1
    return int(items.owners[0, items.places[place]])


@inlined
def _owner(items: AttributionItems, mask: Any, key: Any, hashed: Any) -> int:
    at = items.places[_find(items, mask, key, hashed)]
    return int(items.owners[0, at]) if at >= 0 else -1


@kernel
def _find_parts(
    batch: Batch,
    e: int,
    learners: Any,
    extracted: Any,
    items: AttributionItems,
) -> None:
    """Fill the part and the occurrences of each token, and the two parts of each feature, -1 for no part."""
    secret, mask = learners.features.secret, np.uint64(items.places.size - 1)
    first, stop = batch.event_items[e], batch.event_items[e + 1]
    begin, tokens = batch.item_rows[first], batch.item_rows[stop] - batch.item_rows[first]
    fill(items.places, -1)
    items.n[0] = 0
    for item in range(first, stop):
        for j in range(batch.item_rows[item] - begin, batch.item_rows[item + 1] - begin):
            key = batch.keys[begin + j] & KEY_BITS
            items.amount[j] = 0.0
            part = _put(items, mask, key, hash_word(secret, key), j, j)
            items.of_token[j] = part
            items.amount[part] += batch.item_amount[item] / UNIT
    if not extracted.keys.size:
        return
    for v in range(extracted.n[4]):
        for i in extracted.of_value[v]:
            if i >= 0:
                _put(items, mask, extracted.keys[i], extracted.hashes[i], tokens + v, tokens + v)
    for i in range(extracted.n[0]):
        part = _owner(items, mask, extracted.keys[i], extracted.hashes[i])
        items.own[0, i] = part
        items.own[1, i] = part
    if extracted.n[1] > extracted.n[0]:
        _find_parts_of_pairs(batch, e, learners, extracted, mask, items)


@kernel
def _find_parts_of_pairs(
    batch: Batch,
    e: int,
    learners: Any,
    extracted: Any,
    mask: Any,
    items: AttributionItems,
) -> None:
    secret, context = learners.features.secret, learners.context
    begin = batch.item_rows[batch.event_items[e]]
    for item in range(batch.event_items[e], batch.event_items[e + 1]):
        for j in range(batch.item_rows[item], batch.item_rows[item + 1] - 1):
            key = mixed(batch.keys[j], batch.keys[j + 1]) & KEY_BITS
            one, other = items.of_token[j - begin], items.of_token[j + 1 - begin]
            _put(items, mask, key, hash_word(secret, key), one, other)
    chosen = max(context.n_chosen[0], 0)
    for first in range(chosen):
        for second in range(first + 1, chosen):
            a, b = extracted.slots[first], extracted.slots[second]
            if a >= 0 and b >= 0:
                key_a, key_b = extracted.attribute_keys[a], extracted.attribute_keys[b]
                one = _owner(items, mask, key_a & KEY_BITS, hash_word(secret, key_a & KEY_BITS))
                other = _owner(items, mask, key_b & KEY_BITS, hash_word(secret, key_b & KEY_BITS))
                key = mixed(key_a, key_b) & KEY_BITS
                _put(items, mask, key, hash_word(secret, key), one, other)
                key = mixed(extracted.fine_keys[a], extracted.fine_keys[b]) & KEY_BITS
                _put(items, mask, key, hash_word(secret, key), one, other)
    for i in range(extracted.n[0], extracted.n[1]):
        at = items.places[_find(items, mask, extracted.keys[i], extracted.hashes[i])]
        for side in range(2):
            items.own[side, i] = items.owners[side, at] if at >= 0 else -1


@kernel
def _add_learners(
    plan: Any,
    learners: Any,
    known: Ints,
    classes: Any,
    learner_scratch: Any,
    items: AttributionItems,
) -> None:
    """Add the parts of softmax regressions, and fill their priors."""
    one, other = classes
    extracted, told, is_cautious = learner_scratch.extracted, items.feature_odds, plan.is_cautious[0]
    for h in range(plan.kind.size):
        if plan.kind[h] == SOFTMAX:
            m = plan.reads[h]
            pairs, factor = plan.pairs[m], items.by_learner[m]
            feature_log_odds(
                m, pairs, is_cautious, learner_scratch.scales[m], extracted, learners.features, one, other,
                told,
            )  # fmt: skip
            prior = learners.bias[m, 0, one] - learners.bias[m, 0, other]
            for i in range(extracted.n[1] if pairs else extracted.n[0]):
                for side in range(2):
                    if items.own[side, i] >= 0:
                        items.parts.odds[items.own[side, i]] += factor * told[i] / 2.0
                    else:
                        prior += told[i] / 2.0
            if is_cautious:
                prior += shrunk_log_odds(known, one, other, learner_scratch.scores)
            items.priors[h] = prior


@kernel
def _add_byte_ngrams(
    plan: Any,
    learners: Any,
    batch: Batch,
    e: int,
    grams: ByteNgrams,
    learner_scratch: Any,
    classes: Any,
    items: AttributionItems,
) -> None:
    """Add the parts of byte n-gram learners; the values of the n-grams are in `learner_scratch`."""
    n, told, means, (one, other) = grams.n[0], items.feature_odds, items.times, classes
    if n == 0:
        return
    fill(means[:n], 0.0)
    for g in range(items.by_bytes.size):
        factor = items.by_bytes[g] * learner_scratch.run_scale[0]
        gram_log_odds(g, grams, learners.grams, plan.is_cautious[0], learner_scratch.runs, one, other, told)
        for i in range(n):
            means[i] += factor * told[i]
    copy_to(told[:n], means[:n])
    find_runs(batch, e, grams, items.places, items.runs, items.times)
    share_runs(batch, e, grams, told, items)


@kernel
def _add_pairs(batch: Batch, e: int, d: int, weight: float, classes: Any, items: AttributionItems) -> None:
    """Add the parts of one-dependence estimator d: nominal values and numbers."""
    read, odds, (one, other) = items.dependence, items.parts.odds, classes
    averaged_log_odds(read, d, e, one, other)
    first, stop = batch.event_items[e], batch.event_items[e + 1]
    begin = batch.item_rows[first]
    for item in range(first, stop):
        a = read.of_group[d, batch.item_group[item]]
        if a >= 0 and batch.item_rows[item] < batch.item_rows[item + 1]:
            odds[batch.item_rows[item] - begin] += weight * read.odds[a]
    numbers = batch.item_rows[stop] - begin - batch.event_values[e]
    for v in range(batch.event_values[e], batch.event_values[e + 1]):
        a = read.of_field[d, batch.value_field[v]]
        if a >= 0:
            odds[numbers + v] += weight * read.odds[a]


@inlined
def _of_path(added: Any, row: int, classes: Any, inverses: Any) -> float:
    return float(added[row, classes[0]] * inverses[0] - added[row, classes[1]] * inverses[1])


@kernel
def _add_paths(batch: Batch, e: int, f: int, weight: float, classes: Any, items: AttributionItems) -> float:
    """Add the parts of forest f: nominal values and numbers; return the log odds of its prior."""
    added, odds = items.paths.added[f, e], items.parts.odds
    one, other = classes
    inverses = (inverse_mean(added, one), inverse_mean(added, other))
    first, stop = batch.event_items[e], batch.event_items[e + 1]
    begin = batch.item_rows[first]
    for item in range(first, stop):
        a = items.paths.of_group[batch.item_group[item]]
        if a >= 0 and batch.item_rows[item] < batch.item_rows[item + 1]:
            odds[batch.item_rows[item] - begin] += weight * _of_path(added, a, classes, inverses)
    numbers = batch.item_rows[stop] - begin - batch.event_values[e]
    for v in range(batch.event_values[e], batch.event_values[e + 1]):
        a = items.paths.of_field[batch.value_field[v]]
        if a >= 0:
            odds[numbers + v] += weight * _of_path(added, a, classes, inverses)
    last = added.shape[0] - 1
    return math.log(added[last, one] / added[last, other]) + _of_path(added, last - 1, classes, inverses)


@inlined
def _log_odds_of_prior(
    plan: Any, learners: Any, known: Ints, i: int, classes: Any, by_class: Floats, scores: Floats
) -> float:
    """Return the log odds of the classes by reading i; by_class: log priors of the distinct readings."""
    one, other = classes
    if i >= plan.binned.size:
        score_recent_prior(learners.recent, known, i - plan.binned.size, scores)
        return float(scores[one] - scores[other])
    b = i if i < by_class.shape[0] else plan.duplicate_of[i - by_class.shape[0]]
    return float(by_class[b, one] - by_class[b, other])


@kernel
def _fill_priors(
    plan: Any,
    learners: Any,
    known: Ints,
    classes: Any,
    scratch: HypothesisScratch,
    learner_scratch: Any,
    batch: Batch,
    e: int,
    awake: int,
    items: AttributionItems,
) -> None:
    """Fill the priors of hypotheses, except softmax and pools, and add the parts of forests.

    scratch.above: log priors by reading.
    """
    one, other = classes
    by_class, priors = scratch.above, items.priors
    for h in range(plan.kind.size):
        i, logs = plan.reads[h], learner_scratch.logs[h]
        if plan.kind[h] == NAIVE or plan.kind[h] == CALIBRATED:
            priors[h] = _log_odds_of_prior(
                plan, learners, known, i, classes, by_class, learner_scratch.scores
            )
        if plan.kind[h] == CALIBRATED:
            logs, power = learner_scratch.untempered[plan.number[h]], learners.powers[plan.number[h], 0]
            told, share = _cut(logs[one], logs[other], _POWER_FLOOR)
            priors[h] = power * (share * priors[h] if math.isfinite(priors[h]) else told)
        elif plan.kind[h] == ONE_DEPENDENCE:
            if e >= awake:
                weights = items.dependence.classes[i, e]
                priors[h] = math.log(weights[one] / weights[other])
            else:
                priors[h] = logs[one] - logs[other]
        elif plan.kind[h] == FOREST:
            priors[h] = logs[one] - logs[other]
            if e >= awake and items.paths.added[plan.number[h], e, -1, one] > 0.0:
                priors[h] = _add_paths(batch, e, plan.number[h], items.weights[h], classes, items)
        elif plan.kind[h] == BYTES:
            bias = learners.bias[plan.rates.size + i, 0]
            priors[h] = bias[one] - bias[other]
            if plan.is_cautious[0]:
                priors[h] += shrunk_log_odds(known, one, other, learner_scratch.scores)


@kernel
def _fill_priors_of_pools(
    plan: Any,
    learners: Any,
    pooled: int,
    classes: Any,
    learner_scratch: Any,
    priors: Floats,
) -> None:
    one, other = classes
    opinions = learner_scratch.opinions
    for h in range(plan.kind.size):
        p = plan.reads[h]
        if plan.kind[h] == POOL or plan.kind[h] == CALIBRATED_POOL:
            prior = learners.pool_bias[p, 0, one] - learners.pool_bias[p, 0, other]
            for i in range(pooled):
                _, share = _cut(opinions[i, one], opinions[i, other], _POOL_FLOOR)
                prior += learners.pool_weights[p, i] * share * priors[plan.opinions[i]]
            if plan.kind[h] == CALIBRATED_POOL:
                before, after = learner_scratch.pooled[1, p], learner_scratch.logs[h]
                prior += (after[one] - after[other]) - (before[one] - before[other])
            priors[h] = prior


@kernel
def attribute_event(
    state: Any,
    readings: SmoothingTables,
    plan: Any,
    batch: Batch,
    bags: Bags,
    grams: ByteNgrams,
    e: int,
    awake: int,
    pooled: int,
    probabilities: Floats,
    shares: Floats,
    scratch: HypothesisScratch,
    learner_scratch: Any,
    items: AttributionItems,
) -> None:
    """Fill what each part of event e adds to the log odds, averaged over hypotheses, and the strongest parts.

    A prior that rules out one of the classes counts as +-`attribution.LIMIT`, a prior that rules out both as
    0. Nothing is filled if fewer than two classes have examples.

    Args:
        state: (CountViews, DocumentFrequencyArrays, DecayedTables, AdaptiveArrays, HypothesisWeights).
        readings: of the counts.
        plan: `HypothesisPlan`.
        batch: the events.
        bags: the same as bags.
        grams: the byte n-grams of event e.
        e: the event.
        awake: the first event that gated estimators and forests predict.
        pooled: number of opinions that are pooled; they come first.
        probabilities: float64[K], the prediction of event e.
        shares: float64[H], weights of the hypotheses in the mean.
        scratch: holds the ages of decayed tables; the rest is overwritten.
        learner_scratch: holds the event's features and the predictions of learners, by `predict_by_learners`.
        items: is filled.
    """
    tables, _, decayed, learners, _ = state
    extracted = learner_scratch.extracted
    classes = (items.parts.classes[0], items.parts.classes[1])
    if classes[0] < 0:
        classes = most_probable(probabilities, tables.classes)
    if classes[1] < 0:
        return
    n = batch.item_rows[batch.event_items[e + 1]] - batch.item_rows[batch.event_items[e]]
    n += batch.event_values[e + 1] - batch.event_values[e]
    n += batch.event_items[e + 1] - batch.event_items[e]
    fill(items.parts.odds, 0.0)
    _weigh(plan, learners, learner_scratch, pooled, classes, shares, items)
    _find_parts(batch, e, learners, extracted, items)
    _add_learners(plan, learners, tables.classes, classes, learner_scratch, items)
    _add_byte_ngrams(plan, learners, batch, e, grams, learner_scratch, classes, items)
    score_class_priors(tables, decayed, readings, scratch.above)
    _fill_priors(plan, learners, tables.classes, classes, scratch, learner_scratch, batch, e, awake, items)
    _fill_priors_of_pools(plan, learners, pooled, classes, learner_scratch, items.priors)
    _add_readings(state, readings, plan, batch, bags, e, extracted, classes, scratch, items)
    for h in range(plan.kind.size):
        if plan.kind[h] == ONE_DEPENDENCE and e >= awake:
            _add_pairs(batch, e, plan.reads[h], items.weights[h], classes, items)
    total = 0.0
    for h in range(plan.kind.size):
        if shares[h] > 0.0 and not math.isnan(items.priors[h]):
            total += shares[h] * min(max(items.priors[h], -LIMIT), LIMIT)
    items.parts.odds[items.parts.odds.size - 1] = total
    choose_strongest(e, n, items.parts)
