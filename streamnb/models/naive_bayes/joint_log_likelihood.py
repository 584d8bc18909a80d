"""The score of an event: log P(class, event), one factor for each attribute.

    log P(v | event) = log P(v) + sum over attributes of log P(a | v) + constant

    multinomial text   each token        (n_k + s) / (n + S)           n = tokens of class v in this text
    nominal field      its value         (n_c + s) / (n + S)           n = events of class v with this field
    Bernoulli text     each known word   (n_c + s) / (n + S)  if present, else its complement
    continuous         its value         Gaussian density; see `gaussian` for its mean and variance

with s = alpha, S = alpha |V| (alpha smoothing) or s = m p, S = m (the m-estimate). Tokens and values whose
counts are all zero are skipped, except in a nominal field with declared values, from its first value until as
many are met as are declared. Counts, s and S are in units of 1/1024 example.

Factors are multiplied, not summed as logs, and a product is split exactly into mantissa and exponent before
it can overflow. So a token costs one multiplication per class, and a nominal value or a number a division or
two. Only the exponential parts of densities are summed.

alpha = 0 is the limit alpha -> 0: each factor alpha is counted as a *miss* and left out; only the
classes with the fewest misses keep any probability (see `logspace.normalise`).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.intrinsics import trailing_zeros
from streamnb.kernels.jit import allocating, inlined, kernel
from streamnb.models.naive_bayes.gaussian_factors import LOG_2PI, SQUARE_LIMIT, gaussian_of, reading_of
from streamnb.statistics.class_priors import GIVEN, LEARNED, SMOOTHED_EVENLY, UNIFORM
from streamnb.statistics.histograms import Histograms
from streamnb.statistics.logspace import LN2, factors_until_overflow, power_of
from streamnb.values.attribute_kinds import BERNOULLI, NOMINAL, UNKNOWN
from streamnb.values.example_weights import UNIT

SMALL = 1e-140  # the product of two of them is a normal number
_LARGE = 1e140
_FEW = 4  # words
_NEAR_ZERO = 1.0 / 64.0


class JointScore(NamedTuple):
    """The score of each of K classes: joint + log(product 2^exponent), without `misses` factors alpha."""

    joint: Floats
    misses: Ints
    product: Floats
    exponent: Ints


@allocating
def score_of(K: int) -> JointScore:
    """Allocate scratch for K classes."""
    joint, product = np.empty(K, dtype=np.float64), np.empty(K, dtype=np.float64)
    return JointScore(joint, np.empty(K, dtype=np.int64), product, np.empty(K, dtype=np.int64))


@inlined
def smoothing_of(tables: Any, g: int) -> tuple[float, float, float, float, float]:
    """Return (s, S, S - s, share, floor) of group g: s is added to a count and S to a total, in units.

    S - s is computed separately, because for p near 1 a difference would lose digits. `share` = s / S is the
    probability of a value in a class without observations. A miss (see above) is a factor alpha x floor / n.
    A Bernoulli group has two values, present and absent.
    """
    values = 2.0 if tables.kinds[g] == BERNOULLI else max(float(tables.live[g]), tables.declared[g], 1.0)
    if tables.m[g] < 0.0:
        s = tables.alpha[g] * UNIT
        return s, s * values, s * (values - 1.0), 1.0 / values, 1.0
    return _with_p(tables.m[g], 1.0 / values if math.isnan(tables.p[g]) else tables.p[g])


@inlined
def _with_p(m: float, p: float) -> tuple[float, float, float, float, float]:
    return m * p * UNIT, m * UNIT, m * (1.0 - p) * UNIT, p, p


@inlined
def known(table: Any, row: int, K: int) -> bool:
    """Return whether anything is counted in this row."""
    for k in range(K):  # noqa: SIM110  any() of a generator does not compile
        if table[row, k] != 0:
            return True
    return False


@inlined
def smoothing_of_value(tables: Any, g: int, row: int) -> tuple[float, float, float, float, float]:
    """Return `smoothing_of` the nominal value in this row, which may have a p of its own.

    A value without a count has that of the group: it is a factor of every class, so probabilities are the
    same, and do not depend on whether it has a row already.
    """
    for i in range(tables.value_rows.size):
        if tables.value_rows[i] == row and known(tables.table, row, tables.classes.size):
            return _with_p(tables.m[g], tables.value_p[i])
    return smoothing_of(tables, g)


@inlined
def is_declared(tables: Any, g: int) -> bool:
    """Return whether fewer values are met than declared, and some are. False for texts.

    Before the first value an attribute has no factor, whether or not its group exists already.
    """
    return bool(0 < tables.live[g] < tables.declared[g])


@inlined
def split(product: Floats, exponent: Ints, K: int) -> None:
    """Move the exponent of each product to `exponent`, so that product is in [1/2, 1) again."""
    for k in range(K):
        mantissa, power = math.frexp(product[k])
        product[k] = mantissa
        exponent[k] += power


@inlined
def score_priors(classes: Any, weights: Any, mode: int, given: Floats, joint: Floats) -> None:
    """Set joint[k] = log P(class k), -inf for a class without examples.

    Args:
        classes: learned weight of each class.
        weights: weights that give the learned frequencies.
        mode: see `class_priors`.
        given: relative weights, for GIVEN; weights to add, for the smoothed modes.
        joint: receives the result.
    """
    K = joint.size
    total = 0.0
    met = 1
    if mode == SMOOTHED_EVENLY:
        met = 0
        for k in range(K):
            met += classes[k] > 0
    for k in range(K):
        joint[k] = 0.0
        if classes[k] > 0:
            if mode == LEARNED:
                joint[k] = float(weights[k])
            elif mode == UNIFORM:
                joint[k] = 1.0
            elif mode != GIVEN:
                joint[k] = weights[k] + given[k] / met
            else:
                joint[k] = given[k]
        total += joint[k]
    if total == 0.0:  # no class with a given prior has examples: use equal priors
        for k in range(K):
            joint[k] = 1.0 if classes[k] > 0 else 0.0
            total += joint[k]
    for k in range(K):
        joint[k] = math.log(joint[k] / total) if joint[k] > 0.0 else -np.inf


@inlined
def _score_unmet(
    tables: Any, g: int, units: int, s: float, floor: float, joint: Floats, misses: Ints
) -> None:
    for k in range(joint.size):
        if s > 0.0:
            joint[k] += units / UNIT * math.log(s)
        elif tables.totals[g, k] > 0:
            misses[k] += units
            joint[k] += units / UNIT * math.log(floor * UNIT)


@kernel
def _score_shares(tables: Any, batch: Any, first: int, last: int, score: JointScore) -> None:
    joint, misses, product, exponent = score
    K = joint.size
    g = batch.item_group[first]
    row = batch.rows[batch.item_rows[first]] if tables.kinds[g] == NOMINAL else UNKNOWN
    s, S, _, share, floor = smoothing_of_value(tables, g, row)
    highest = 1.0
    for k in range(K):
        highest = max(highest, float(tables.totals[g, k]))
    most_factors = factors_until_overflow(s if 0.0 < s < 1.0 else 1.0, highest + s)
    left = most_factors
    amount = 0.0
    for item in range(first, last):
        units = batch.item_amount[item]
        for j in range(batch.item_rows[item], batch.item_rows[item + 1]):
            row, times = batch.rows[j], units / UNIT
            if row < 0 or not known(tables.table, row, K):
                if is_declared(tables, g):
                    amount += times
                    _score_unmet(tables, g, units, s, floor, joint, misses)
                continue
            amount += times
            if s == 0.0:
                for k in range(K):
                    count = tables.table[row, k]
                    if count > 0:
                        joint[k] += times * math.log(float(count))
                    elif tables.totals[g, k] > 0:
                        misses[k] += units
                        joint[k] += times * math.log(floor * UNIT)
            elif units != UNIT:
                for k in range(K):
                    joint[k] += times * math.log(tables.table[row, k] + s)
            else:
                for k in range(K):
                    product[k] *= tables.table[row, k] + s
                left -= 1
                if left == 0:
                    split(product, exponent, K)
                    left = most_factors
    if left != most_factors:
        split(product, exponent, K)
    if amount > 0.0:
        for k in range(K):
            whole = tables.totals[g, k] + S
            joint[k] += amount * (-math.log(whole) if whole > 0.0 else math.log(share))


@inlined
def multiply(factor: float, k: int, product: Floats, exponent: Ints) -> None:
    """Multiply the score of class k by a factor between 1e-160 and 1e165."""
    product[k] *= factor
    if not SMALL < product[k] < _LARGE:
        product[k], power = math.frexp(product[k])
        exponent[k] += power


@inlined
def _score_nominal(tables: Any, batch: Any, item: int, score: JointScore) -> None:
    """Do `_score_shares` for one nominal value, without logarithms."""
    joint, _, product, exponent = score
    K = joint.size
    g = batch.item_group[item]
    row = batch.rows[batch.item_rows[item]]
    s, S, _, _, _ = smoothing_of_value(tables, g, row)
    is_met = row >= 0 and known(tables.table, row, K)
    if not is_met and not is_declared(tables, g):
        return
    if s < SMALL or batch.item_amount[item] != UNIT:
        split(product, exponent, K)
        _score_shares(tables, batch, item, item + 1, score)
        return
    for k in range(K):
        count = tables.table[row, k] if is_met else 0
        multiply((count + s) / (tables.totals[g, k] + S), k, product, exponent)


@inlined
def log_away(here: float, away: float) -> float:
    """Return the log of away / (here + away) at full precision, whichever is small."""
    x = here / (here + away)
    if x < _NEAR_ZERO:  # ln(1 - x) by its series; terms from x^11 on are below rounding
        series = 1.0 / 10.0
        for n in range(9, 0, -1):
            series = series * x + 1.0 / n
        return -x * series
    return math.log1p(-x) if here < away else math.log(away / (here + away))


@inlined
def _multiply_absent(
    count: Any, words: Any, n: Any, s: float, rest: float, floor: float, whole: float, scale: float, sums: Any
) -> Any:
    """Add the absence of `words` words with this count to `sums` (total, product, its factors, misses)."""
    total, product, multiplied, misses = sums
    away = float(n - count) + rest
    if away <= 0.0:
        misses += words
        total += words * math.log(floor * UNIT / n)
    elif words <= _FEW and away > SMALL * whole:
        for _ in range(words):
            product *= away * scale
            if product < SMALL:
                total += math.log(product)
                product = 1.0
        multiplied += words
    else:
        total += words * log_away(count + s, away)
    return total, product, multiplied, misses


@inlined
def log_absent(histograms: Histograms, b: int, n: Any, s: float, rest: float, floor: float) -> Any:
    """Return (log probability that a text of a class lacks every word of histogram b, misses).

    Requires n + s + rest > 0. A count of few words, as frequent words have, is multiplied, which is cheaper
    than a logarithm. A low count is shared by many words, and its factor is so near 1 that a product would
    lose digits. Fractional counts come first, so the order does not depend on where whole counts are stored.
    """
    whole = n + s + rest
    scale = 2.0 ** -power_of(whole)  # exact: all factors are away / whole times one common factor
    sums = (0.0, 1.0, 0, 0)
    weight, words, used = histograms.weight, histograms.words, histograms.used[b]
    for i in range(used):
        if weight[b, i] % UNIT != 0:
            sums = _multiply_absent(weight[b, i], words[b, i], n, s, rest, floor, whole, scale, sums)
    exact, occupied = histograms.exact, histograms.occupied
    for block in range(occupied.shape[1]):
        left = occupied[b, block]
        while left != 0:
            at = block * 64 + trailing_zeros(left)
            sums = _multiply_absent(at * UNIT, np.int64(exact[b, at]), n, s, rest, floor, whole, scale, sums)
            left &= left - np.uint64(1)
    for i in range(used):
        if weight[b, i] % UNIT == 0:
            sums = _multiply_absent(weight[b, i], words[b, i], n, s, rest, floor, whole, scale, sums)
    total, product, multiplied, misses = sums
    return total + math.log(product) - multiplied * math.log(whole * scale), misses


@kernel
def _score_presence(tables: Any, batch: Any, first: int, last: int, score: JointScore) -> None:
    """Add the factors of items first..last, all of one Bernoulli group: all absent, then the present."""
    joint, misses, product, exponent = score
    K = joint.size
    g = batch.item_group[first]
    s, S, rest, share, floor = smoothing_of(tables, g)
    floor_absent = 1.0 if tables.m[g] < 0.0 else 1.0 - floor
    words = tables.live[g]
    histograms = tables.histograms
    columns = tables.totals.shape[1]
    highest = 1.0
    for k in range(K):
        n = tables.totals[g, k]
        highest = max(highest, float(n))
        if tables.classes[k] == 0:
            continue
        if n == 0 and S == 0.0:
            joint[k] += words * math.log1p(-share)
            continue
        b = tables.slot[g] * columns + k
        if histograms.stale[b]:
            histograms.absent[b], histograms.misses[b] = log_absent(histograms, b, n, s, rest, floor_absent)
            histograms.stale[b] = False
        joint[k] += histograms.absent[b] + (words - histograms.positive[b]) * log_away(s, n + rest)
        misses[k] += histograms.misses[b] * UNIT
    lowest = min(s if s > 0.0 else 1.0, rest if rest > 0.0 else 1.0, 1.0)
    most_factors = factors_until_overflow(lowest / (highest + max(s, rest)), 1.0)  # of odds, above 1 or below
    left = most_factors
    for item in range(first, last):
        for j in range(batch.item_rows[item], batch.item_rows[item + 1]):
            row = batch.rows[j]
            if row < 0 or not known(tables.table, row, K):
                continue
            for k in range(K):
                n, count = tables.totals[g, k], tables.table[row, k]
                here, away = count + s, float(n - count) + rest
                if n == 0 and S == 0.0:
                    joint[k] += math.log(share) - math.log1p(-share)
                elif here > 0.0 and away > 0.0:
                    product[k] *= here / away
                elif here > 0.0:  # always present: its absence was counted as a miss
                    misses[k] -= UNIT
                    joint[k] -= math.log(floor_absent * UNIT / n)
                else:
                    misses[k] += UNIT
                    joint[k] += math.log(floor * UNIT / n)
            left -= 1
            if left == 0:
                split(product, exponent, K)
                left = most_factors
    if left != most_factors:
        split(product, exponent, K)


@inlined
def _multiply_value(tables: Any, f: int, x: float, score: JointScore) -> None:
    """Multiply by the density of one number: `gaussian.score_value` without logarithms."""
    joint, _, product, exponent = score
    reading = reading_of(tables, f)
    if reading[1] <= 0.0:
        return
    for k in range(joint.size):
        if tables.classes[k] == 0:
            continue
        centre, variance = gaussian_of(tables, f, k, reading)
        scale = 1.0 / math.sqrt(variance)
        deviation = (x - centre) * scale
        joint[k] -= 0.5 * (LOG_2PI + min(deviation * deviation, SQUARE_LIMIT))
        multiply(scale, k, product, exponent)


@inlined
def score_event(tables: Any, batch: Any, e: int, score: JointScore) -> None:
    """Set joint[k] = log P(class k, event e), without the factors counted in `misses`."""
    joint, misses, product, exponent = score
    K = joint.size
    score_priors(tables.classes, tables.classes, tables.prior_mode, tables.prior, joint)
    for k in range(K):
        misses[k] = 0
        product[k] = 1.0
        exponent[k] = 0
    first, stop = batch.event_items[e], batch.event_items[e + 1]
    is_split = True
    while first < stop:
        last = first + 1
        kind = tables.kinds[batch.item_group[first]]
        if kind == NOMINAL:
            _score_nominal(tables, batch, first, score)
            is_split = False
            first = last
            continue
        while last < stop and batch.item_group[last] == batch.item_group[first]:
            last += 1
        if not is_split:  # both functions below expect a product in [1/2, 1)
            split(product, exponent, K)
            is_split = True
        if kind == BERNOULLI:
            _score_presence(tables, batch, first, last, score)
        else:
            _score_shares(tables, batch, first, last, score)
        first = last
    for v in range(batch.event_values[e], batch.event_values[e + 1]):
        _multiply_value(tables, batch.value_field[v], batch.value[v], score)
    split(product, exponent, K)  # else the last digit would depend on earlier splits
    for k in range(K):
        joint[k] += math.log(product[k]) + exponent[k] * LN2
