"""The scores of an event by many hypotheses at once: log P_h(class, event), over shared counts.

For every distinct word of a text the counts are fetched once, from each source (words, texts that hold the
word, decayed tables), and every hypothesis multiplies its factor:

    multinomial, presence   (c + s) / (n + S)
    complement              (n' + S) / (c' + s)        c', n' = c and n summed over all other classes
    Bernoulli               (c + s) / (N - c + S - s)  times (N - c + S - s) / (N + S) for every known word

with s = alpha, S = alpha |V| (Bernoulli 2 alpha) or s = m p, S = m; see `hypotheses.Hypothesis`. Factors are
multiplied as doubles, whose exponents are split off before they can overflow.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from streamnb.features.bags import Bags
from streamnb.features.encoded_batch import Batch
from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.intrinsics import prefetch
from streamnb.kernels.jit import inlined, kernel
from streamnb.kernels.structs import struct_type
from streamnb.kernels.vector_kernels import add_to, copy_to, fill
from streamnb.models.mixture.hypotheses import BERNOULLI, COMPLEMENT, MULTINOMIAL, PRESENCE, SmoothingTables
from streamnb.models.naive_bayes.gaussian_factors import score_value
from streamnb.models.naive_bayes.joint_log_likelihood import is_declared, log_absent, log_away, score_priors
from streamnb.models.naive_bayes.naive_bayes_tables import CountViews
from streamnb.statistics.class_priors import GIVEN
from streamnb.statistics.count_sources import FIRST_DECAYED, PRESENT, TOKENS
from streamnb.statistics.decayed_counts import DecayedTables, ages, row_scale
from streamnb.statistics.document_frequency import DocumentFrequencyArrays
from streamnb.statistics.logspace import LN2, mantissa_of, power_of
from streamnb.values.attribute_kinds import NOMINAL
from streamnb.values.example_weights import UNIT
from streamnb.values.type_aliases import Flags

_SAFE_BITS = 1000.0  # exponent that a product, starting in [1/2, 1), may reach
_AHEAD = 4  # words
_LINE = 8  # counts that are fetched together


@struct_type
class HypothesisScratch(NamedTuple):
    """Scratch for H hypotheses, K classes and D half-lives; holds nothing between two events.

    Attributes:
        joint: float64[H + others, K], the result; others are duplicates, then readings of recent events.
        above, below: float64[H, K], products of numerators and denominators.
        exponent: int64[H, K], powers of two split off from them.
        counts: float64[2 + D, K], of one row: by source, in units.
        totals: float64[2 + D, K], of one group.
        others, other_totals: float64[2 + D, K], of `counts` and `totals` over all other classes.
        s, S, rest: float64[H], smoothing in units; rest = S - s without its rounding error.
        age: float64[D], half-lives since the beginning of the epoch.
        scale: float64[D], 2^-age.
        value: float64[K], log densities, or texts.
        power: float64[K], of the factors of one word.
    """

    joint: Floats
    above: Floats
    below: Floats
    exponent: Ints
    counts: Floats
    totals: Floats
    others: Floats
    other_totals: Floats
    s: Floats
    S: Floats
    rest: Floats
    age: Floats
    scale: Floats
    value: Floats
    power: Floats

    @classmethod
    def with_capacity(cls, hypotheses: int, others: int, classes: int, decays: int) -> HypothesisScratch:
        """Return scratch for these numbers."""
        by_class = (hypotheses, classes)
        sources = (FIRST_DECAYED + decays, classes)
        return cls(
            np.empty((hypotheses + others, classes)),
            np.empty(by_class),
            np.empty(by_class),
            np.empty(by_class, dtype=np.int64),
            np.empty(sources),
            np.empty(sources),
            np.empty(sources),
            np.empty(sources),
            np.empty(hypotheses),
            np.empty(hypotheses),
            np.empty(hypotheses),
            np.empty(decays),
            np.empty(decays),
            np.empty(classes),
            np.empty(classes),
        )


@inlined
def _sum_others(counts: Floats, source: int, others: Floats) -> float:
    """Fill the sums over all other classes (a difference would lose digits); return the total."""
    total = 0.0
    for k in range(counts.shape[1]):
        others[source, k] = total
        total += counts[source, k]
    after = 0.0
    for k in range(counts.shape[1] - 1, -1, -1):
        others[source, k] += after
        after += counts[source, k]
    return total


@inlined
def _split(above: Floats, below: Floats, exponent: Ints) -> None:
    for h in range(above.shape[0]):
        for k in range(above.shape[1]):
            exponent[h, k] += power_of(above[h, k]) - power_of(below[h, k])
            above[h, k] = mantissa_of(above[h, k])
            below[h, k] = mantissa_of(below[h, k])


@inlined
def set_smoothing(
    readings: SmoothingTables, g: int, is_text: bool, values: float, scratch: HypothesisScratch
) -> float:
    """Set the smoothing of every hypothesis for group g; return the log2 bound of a smoothing factor."""
    low, high = 1.0, 1.0
    for h in range(scratch.s.size):
        is_bernoulli = is_text and readings.likelihood[h] == BERNOULLI
        among = 2.0 if is_bernoulli else max(values, 1.0)
        if readings.m[h, g] < 0.0:
            scratch.s[h] = readings.alpha[h, g] * UNIT
            scratch.S[h] = scratch.s[h] * among
            scratch.rest[h] = scratch.s[h] * (among - 1.0)
        else:
            p = 1.0 / among if math.isnan(readings.p[h, g]) else readings.p[h, g]
            scratch.s[h] = readings.m[h, g] * p * UNIT
            scratch.S[h] = readings.m[h, g] * UNIT
            scratch.rest[h] = readings.m[h, g] * (1.0 - p) * UNIT
        low = min(low, scratch.s[h])
        if is_bernoulli:
            low = min(low, scratch.rest[h])
        high = max(high, scratch.S[h])
    return max(-math.log2(low), math.log2(high)) + 1.0


@inlined
def fetch_totals(
    tables: CountViews,
    presence: DocumentFrequencyArrays,
    decayed: DecayedTables,
    g: int,
    is_text: bool,
    scratch: HypothesisScratch,
) -> float:
    """Fetch the totals of group g from every source; return the log2 bound of the largest."""
    K = scratch.joint.shape[1]
    for k in range(K):
        scratch.totals[TOKENS, k] = float(tables.totals[g, k])
        scratch.totals[PRESENT, k] = float(presence.words[g, k]) if is_text and presence.table.size else 0.0
        for d in range(scratch.age.size):
            scratch.totals[FIRST_DECAYED + d, k] = decayed.totals[d, g, k] * scratch.scale[d]
    most = 1.0
    for source in range(scratch.totals.shape[0]):
        most = max(most, _sum_others(scratch.totals, source, scratch.other_totals))
    if is_text and presence.table.size:
        for k in range(K):
            most = max(most, float(presence.texts[g, k]))
    return math.log2(most) + 1.0


@inlined
def fetch_counts(
    row: int, table: Any, presence_table: Ints, by_tokens: bool, counts: Floats, others: Floats
) -> bool:
    """Fetch the undecayed counts of a row, token counts only if `by_tokens`; return False if all are 0."""
    if not by_tokens:
        met = np.int64(0)
        for k in range(counts.shape[1]):
            met |= table[row, k]
        if met != 0:
            for k in range(counts.shape[1]):
                counts[PRESENT, k] = float(presence_table[row, k])
        return bool(met != 0)
    total = 0.0
    for k in range(counts.shape[1]):
        counts[TOKENS, k] = float(table[row, k])
        total += counts[TOKENS, k]
    for k in range(counts.shape[1]):
        others[TOKENS, k] = total - counts[TOKENS, k]  # integers: exact
    if total > 0.0 and presence_table.size:
        for k in range(counts.shape[1]):
            counts[PRESENT, k] = float(presence_table[row, k])
    return total > 0.0


@inlined
def fetch_decayed(
    row: int, table: Any, epoch: Ints, row_epoch: Ints, scale: Floats, counts: Floats, others: Floats
) -> None:
    """Fetch the decayed counts of a row, by half-life."""
    for d in range(scale.size):
        source = FIRST_DECAYED + d
        now = row_scale(epoch[d] - row_epoch[row, d], scale[d])
        for k in range(counts.shape[1]):
            counts[source, k] = table[row, d, k] * now
        _sum_others(counts, source, others)


@inlined
def _word_once(
    likelihood: Ints,
    source: Ints,
    s: Floats,
    rest: Floats,
    texts: Floats,
    counts: Floats,
    others: Floats,
    above: Floats,
    below: Floats,
) -> None:
    """Multiply the factors of a word's first occurrence; `texts` (K,) is the number of texts by class."""
    K = counts.shape[1]
    for h in range(likelihood.size):
        j, add = source[h], s[h]
        if likelihood[h] == COMPLEMENT:
            for k in range(K):
                below[h, k] *= others[j, k] + add
        else:
            for k in range(K):
                above[h, k] *= counts[j, k] + add
        if likelihood[h] == BERNOULLI:
            for k in range(K):
                below[h, k] *= texts[k] - counts[j, k] + rest[h]


@inlined
def _multiply_by_power(product: Floats, h: int, power: Floats, n: int) -> None:
    """product[h] *= power^n by squaring, for n >= 1, class by class; `power` is overwritten."""
    while True:
        if n & 1:
            for k in range(power.size):
                product[h, k] *= power[k]
        n >>= 1
        if n == 0:
            break
        for k in range(power.size):
            power[k] *= power[k]


@inlined
def _word_again(
    likelihood: Ints,
    source: Ints,
    s: Floats,
    times: int,
    counts: Floats,
    others: Floats,
    above: Floats,
    below: Floats,
    power: Floats,
) -> None:
    """Multiply the factors of `times` more occurrences of a word, for likelihoods of occurrences."""
    for h in range(likelihood.size):
        j, add = source[h], s[h]
        if likelihood[h] == COMPLEMENT:
            for k in range(power.size):
                power[k] = others[j, k] + add
            _multiply_by_power(below, h, power, times)
        elif likelihood[h] == MULTINOMIAL:
            for k in range(power.size):
                power[k] = counts[j, k] + add
            _multiply_by_power(above, h, power, times)


@inlined
def _word_in_logs(
    likelihood: Ints, source: Ints, s: Floats, times: float, counts: Floats, others: Floats, joint: Floats
) -> None:
    """Add the same as logarithms, for counts too large for a product, or fractional."""
    for h in range(likelihood.size):
        j, add = source[h], s[h]
        for k in range(counts.shape[1]):
            if likelihood[h] == COMPLEMENT:
                joint[h, k] -= times * math.log(others[j, k] + add)
            elif likelihood[h] == MULTINOMIAL:
                joint[h, k] += times * math.log(counts[j, k] + add)


@kernel
def score_absence(
    tables: CountViews,
    presence: DocumentFrequencyArrays,
    readings: SmoothingTables,
    g: int,
    scratch: HypothesisScratch,
) -> None:
    """Add the Bernoulli log likelihood of a text without any known word."""
    columns = presence.texts.shape[1]
    for k in range(scratch.joint.shape[1]):
        b = presence.slot[g] * columns + k
        N = float(presence.texts[g, k])
        others = float(tables.live[g] - presence.histograms.positive[b])
        for h in range(scratch.s.size):
            if readings.likelihood[h] != BERNOULLI:
                continue
            s, rest = scratch.s[h], scratch.rest[h]
            if presence.histograms.stale[b]:
                presence.absent[h, b], _ = log_absent(presence.histograms, b, N, s, rest, 1.0)
            scratch.joint[h, k] += presence.absent[h, b] + others * log_away(s, N + rest)
        presence.histograms.stale[b] = False


@kernel
def _score_text(
    tables: CountViews,
    presence: DocumentFrequencyArrays,
    decayed: DecayedTables,
    readings: SmoothingTables,
    bags: Bags,
    bag: int,
    scratch: HypothesisScratch,
) -> None:
    g = bags.group[bag]
    bits = set_smoothing(readings, g, True, float(tables.live[g]), scratch)
    bits = max(bits, fetch_totals(tables, presence, decayed, g, True, scratch)) + 1.0
    if presence.slot.size > 0 and presence.slot[g] >= 0:
        score_absence(tables, presence, readings, g, scratch)
    rows, amounts, table, presence_table = bags.rows, bags.amounts, tables.table, presence.table
    decayed_table, epoch, row_epoch = decayed.table, decayed.epoch, decayed.row_epoch
    likelihood, source, joint, exponent = readings.likelihood, readings.texts, scratch.joint, scratch.exponent
    counts, others, above, below = scratch.counts, scratch.others, scratch.above, scratch.below
    power = scratch.power
    s, S, rest, scale, texts = scratch.s, scratch.S, scratch.rest, scratch.scale, scratch.value
    for k in range(texts.size):
        texts[k] = float(presence.texts[g, k]) if presence_table.size else 0.0
    words, amount, used, by_tokens = 0.0, 0.0, 0.0, False
    for h in range(source.size):
        by_tokens |= source[h] != PRESENT
    first, stop = bags.bag_rows[bag], bags.bag_rows[bag + 1]
    for j in range(first, stop):
        ahead = np.int64(rows[min(j + _AHEAD, stop - 1)])
        for k in range(0, counts.shape[1], _LINE):
            prefetch(table, ahead * table.shape[1] + k)
            prefetch(presence_table, ahead * presence_table.shape[1] + k)
        if not fetch_counts(rows[j], table, presence_table, by_tokens, counts, others):
            continue
        if scale.size:
            fetch_decayed(rows[j], decayed_table, epoch, row_epoch, scale, counts, others)
        times = amounts[j] / UNIT
        words += 1.0
        amount += times
        whole = times == math.floor(times) and bits * times <= _SAFE_BITS
        used += bits * times if whole else bits
        if used > _SAFE_BITS:
            _split(above, below, exponent)
            used = bits * times if whole else bits
        _word_once(likelihood, source, s, rest, texts, counts, others, above, below)
        if not whole:
            _word_in_logs(likelihood, source, s, times - 1.0, counts, others, joint)
        elif times > 1.0:
            _word_again(likelihood, source, s, int(times) - 1, counts, others, above, below, power)
    _split(above, below, exponent)
    for h in range(likelihood.size):
        for k in range(texts.size):
            total = scratch.totals[source[h], k]
            if likelihood[h] == COMPLEMENT:
                joint[h, k] += amount * math.log(scratch.other_totals[source[h], k] + S[h])
            elif likelihood[h] != BERNOULLI:
                joint[h, k] -= (words if likelihood[h] == PRESENCE else amount) * math.log(total + S[h])


@kernel
def score_nominal(
    tables: CountViews,
    presence: DocumentFrequencyArrays,
    decayed: DecayedTables,
    readings: SmoothingTables,
    bags: Bags,
    bag: int,
    scratch: HypothesisScratch,
) -> None:
    """Add the factor of a nominal attribute; a bag without a row is a value that was never met."""
    g, first, stop = bags.group[bag], bags.bag_rows[bag], bags.bag_rows[bag + 1]
    set_smoothing(readings, g, False, max(float(tables.live[g]), tables.declared[g]), scratch)
    fetch_totals(tables, presence, decayed, g, False, scratch)
    table, presence_table, counts, others = tables.table, presence.table, scratch.counts, scratch.others
    decayed_table, epoch, row_epoch, scale = decayed.table, decayed.epoch, decayed.row_epoch, scratch.scale
    for j in range(first, max(stop, first + 1)):
        is_met = j < stop and fetch_counts(bags.rows[j], table, presence_table, True, counts, others)
        if not is_met:
            if not is_declared(tables, g):
                continue
            for source in range(counts.shape[0]):
                fill(counts[source], 0.0)
        elif scale.size:
            fetch_decayed(bags.rows[j], decayed_table, epoch, row_epoch, scale, counts, others)
        for h in range(scratch.s.size):
            source, s, S = readings.plain[h], scratch.s[h], scratch.S[h]
            for k in range(scratch.joint.shape[1]):
                scratch.above[h, k] *= (scratch.counts[source, k] + s) / (scratch.totals[source, k] + S)
        _split(scratch.above, scratch.below, scratch.exponent)


@kernel
def _score_values(
    tables: CountViews,
    decayed: DecayedTables,
    readings: SmoothingTables,
    binned: Flags,
    batch: Batch,
    e: int,
    scratch: HypothesisScratch,
) -> None:
    for source in range(scratch.counts.shape[0]):
        d = source - FIRST_DECAYED
        if source == PRESENT:
            continue
        fill(scratch.value, 0.0)
        for v in range(batch.event_values[e], batch.event_values[e + 1]):
            f, x = batch.value_field[v], batch.value[v]
            if d < 0:
                score_value(tables.n[f], tables.mean[f], tables.M2[f], 1.0, tables.classes, x, scratch.value)
            else:
                n, mean, M2 = decayed.n[d, f], decayed.mean[d, f], decayed.M2[d, f]
                score_value(n, mean, M2, scratch.scale[d], tables.classes, x, scratch.value)
        for h in range(scratch.s.size):
            if readings.plain[h] == source and not binned[h]:
                add_to(scratch.joint[h], scratch.value)


@inlined
def score_class_priors(
    tables: CountViews, decayed: DecayedTables, readings: SmoothingTables, joint: Floats
) -> None:
    """joint[h, k] = log P_h(class k); copied from the previous hypothesis if it is the same."""
    mode, plain = readings.prior_mode, readings.plain
    for h in range(plain.size):
        d = plain[h] - FIRST_DECAYED
        if h > 0 and plain[h] == plain[h - 1] and mode[h] == mode[h - 1] and mode[h] != GIVEN:
            for k in range(joint.shape[1]):
                joint[h, k] = joint[h - 1, k]
        elif d < 0:
            score_priors(tables.classes, tables.classes, mode[h], readings.prior[h], joint[h])
        else:
            score_priors(tables.classes, decayed.classes[d], mode[h], readings.prior[h], joint[h])


@kernel
def score_hypotheses(
    tables: CountViews,
    presence: DocumentFrequencyArrays,
    decayed: DecayedTables,
    readings: SmoothingTables,
    plan: Any,
    batch: Batch,
    bags: Bags,
    e: int,
    scratch: HypothesisScratch,
) -> None:
    """Fill scratch.joint[h, k] with log P_h(class k, event e); -inf for a class without examples.

    Binned readings and duplicates lack continuous attributes: `binned_density.score_binned` adds them.
    """
    H, K = scratch.above.shape
    ages(decayed, batch.time[e], scratch.age)
    for d in range(scratch.age.size):
        scratch.scale[d] = 2.0 ** -scratch.age[d]
    score_class_priors(tables, decayed, readings, scratch.joint)
    joint, above, below, exponent = scratch.joint, scratch.above, scratch.below, scratch.exponent
    for h in range(H):
        for k in range(K):
            above[h, k], below[h, k], exponent[h, k] = 1.0, 1.0, 0
    for bag in range(bags.event_bags[e], bags.event_bags[e + 1]):
        if tables.kinds[bags.group[bag]] == NOMINAL:
            score_nominal(tables, presence, decayed, readings, bags, bag, scratch)
        else:
            _score_text(tables, presence, decayed, readings, bags, bag, scratch)
    for h in range(H):
        for k in range(K):
            joint[h, k] += math.log(above[h, k] / below[h, k]) + exponent[h, k] * LN2
    for i in range(plan.duplicate_of.size):
        copy_to(joint[H + i], joint[plan.duplicate_of[i]])
    if batch.event_values[e + 1] > batch.event_values[e]:
        _score_values(tables, decayed, readings, plan.binned, batch, e, scratch)
