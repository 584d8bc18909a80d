"""Softmax regression that starts from naive Bayes and learns corrections by gradient.

    P(v | x) ~ exp(b_v + sum_i x_i (l_iv / 2 + w_iv))        l_iv = ln (n_iv + 1/2) / (n_v + 1)

over the features of an event, scaled to length one: x = v / |v|. The log likelihoods l come from counts; the
corrections w and b are learned by the gradient of the log loss (Mitchell 2017, Naive Bayes and logistic
regression, section 3), with a step size by feature that shrinks with its past gradients (Duchi, Hazan and
Singer 2011, AdaGrad, with one sum for all classes):

    g_v = P(v | x) - [v = label]    s_i += |g|^2 x_i^2 / 2    w_iv -= rate g_v x_i / sqrt(s_i + 1/1000)

An event whose label had at least probability .99 does not change the corrections; and the first event of a
pair does not change its correction.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.jit import inlined, kernel
from streamnb.kernels.vector_kernels import fill
from streamnb.models.softmax.feature_table import (
    COUNTS,
    END,
    KEY_BITS,
    NO_CLASS,
    NOBODY,
    OWNER,
    TOTAL,
    FeatureTableArrays,
    by_place,
    class_met,
    met_once,
    owner_in,
    put_slot,
    slot_at,
)
from streamnb.models.softmax.rare_class_shrinkage import add_shrinkage, is_any_shrunk, mean_log, shrinkage
from streamnb.values.example_weights import UNIT
from streamnb.values.type_aliases import Flags

TRUST = 0.5  # weight of the log likelihoods; with |x| = 1 it prevents overconfidence
_SMOOTHING = 0.5
DAMPING = 1e-3
SURE = 0.99
_RARITY_DAMPING = 0.3
_STEPS = 32  # number of table entries between two powers of two
_STEP_OF_HALF = 1022 * _STEPS


def _log_table(smoothing: float) -> Floats:
    logs: Floats = np.log(np.arange(4096) + smoothing)
    return logs


LOGS, _LOGS_OF_TOTALS = _log_table(_SMOOTHING), _log_table(2.0 * _SMOOTHING)
LOG_SMOOTHING = math.log(_SMOOTHING)
LOG_OF_ONE = float(np.float32(LOGS[1] - LOG_SMOOTHING))  # as stored for a feature met in one example


def _rarity_table() -> Floats:
    """Return (ln u + 1/20)^0.3 for u in steps of 3 %, by exponent and mantissa of u >= 1, (64 * 32,)."""
    exponent, step = np.divmod(np.arange(64 * _STEPS), _STEPS)
    middle = np.ldexp(0.5 + (step + 0.5) / (2 * _STEPS), exponent)
    return (np.log(np.maximum(middle, 1.0)) + 0.05) ** _RARITY_DAMPING


_RARITY = _rarity_table()


@inlined
def rarity(learned: float, having: float) -> float:
    """Return the damped inverse document frequency, of weights in examples."""
    bits: Any = np.float64((learned + 1.0) / (having + 0.5)).view(np.int64)  # exponent and five more bits
    return float(_RARITY[min(max((bits >> 47) - _STEP_OF_HALF, 0), _RARITY.size - 1)])


@inlined
def _log_of(units: int, smoothing: float, logs: Floats) -> float:
    """Return ln(n + smoothing) of a weight in units; nearly all are whole and small."""
    whole = units // UNIT
    if whole * UNIT == units and whole < logs.size:
        return float(logs[whole])
    return math.log(units / UNIT + smoothing)


@inlined
def mean_of_classes(table: Ints, owner: int, classes: int, is_cautious: bool) -> float:
    """Return the mean that `log_of_none` shrinks to, see `rare_class_shrinkage`; 0 without shrinkage."""
    weights, all_units = table[owner, COUNTS : COUNTS + classes], table[owner, TOTAL]
    if not (is_cautious and is_any_shrunk(weights, all_units)):
        return 0.0
    return mean_log(weights, all_units, 2.0 * _SMOOTHING)


@inlined
def log_of_none(table: Ints, owner: int, k: int, mean: float) -> float:
    """Return ln (1/2) / (n_v + 1) of a feature that class k never had, shrunk to `mean` if positive."""
    log = _log_of(table[owner, COUNTS + k], 2.0 * _SMOOTHING, _LOGS_OF_TOTALS)
    if mean > 0.0:
        log += shrinkage(table[owner, COUNTS + k], table[owner, TOTAL]) * (mean - log)
    return LOG_SMOOTHING - log


@inlined
def score_features(
    extracted: Any,
    features: FeatureTableArrays,
    pairs: Flags,
    is_cautious: bool,
    likelihoods: Floats,
    dots: Floats,
    by_owner: Floats,
) -> None:
    """Fill the sums over singles, and over pairs, of the features' scores, which are later divided by |v|.

    `likelihoods` float64[2, K] get the sums of v l, `dots` float64[M, 2, K] the sums of v w; `pairs` bool[M]:
    learners that read pairs; `by_owner` float64[2, >= owners] is scratch.
    """
    table, weights = features.table, features.weights
    rows, values, owners = extracted.rows, extracted.values, extracted.owners
    singles, M, K = extracted.n[0], dots.shape[0], likelihoods.shape[1]
    for part in range(2):
        fill(likelihoods[part], 0.0)
        for m in range(M):
            fill(dots[m, part], 0.0)
        fill(by_owner[part, : extracted.n[2]], 0.0)
    for i in range(extracted.n[1]):
        row, v = rows[i], values[i]
        if row < NOBODY:
            met = class_met(slot_at(features, by_place(row)))
            if met != NO_CLASS and v != 0.0:
                by_owner[1, owners[i]] += v
                likelihoods[1, met] += v * LOG_OF_ONE
            continue
        if row < 0 or v == 0.0 or table[row, TOTAL] == 0:
            continue
        part = 1 if i >= singles else 0
        by_owner[part, owners[i]] += v
        for k in range(K):
            likelihoods[part, k] += v * weights[row, 0, 1 + k]
        for m in range(M):
            if part == 0 or pairs[m]:
                for k in range(K):
                    dots[m, part, k] += v * weights[row, 1 + m, 1 + k]
    for part in range(2):
        for o in range(extracted.n[2]):
            v = by_owner[part, o]
            if v > 0.0:
                owner = extracted.owner_rows[o]
                mean = mean_of_classes(table, owner, K, is_cautious)
                for k in range(K):
                    likelihoods[part, k] += v * log_of_none(table, owner, k, mean)


@kernel
def score_softmax(
    m: int,
    takes_pairs: bool,
    is_cautious: bool,
    extracted: Any,
    likelihoods: Floats,
    dots: Floats,
    bias: Floats,
    known: Ints,
    scores: Floats,
) -> float:
    """Fill scores float64[K] of learner m, -inf for classes that are not known; return 1 / |v|."""
    square = extracted.squares[0] + (extracted.squares[1] if takes_pairs else 0.0)
    scale = 1.0 / math.sqrt(square) if square > 0.0 else 0.0
    for k in range(scores.size):
        score = TRUST * likelihoods[0, k] + dots[m, 0, k]
        if takes_pairs:
            score += TRUST * likelihoods[1, k] + dots[m, 1, k]
        scores[k] = bias[m, 0, k] + scale * score if known[k] > 0 else -np.inf
    if is_cautious:
        add_shrinkage(known, scores)
    return scale


@kernel
def feature_log_odds(
    m: int,
    takes_pairs: bool,
    is_cautious: bool,
    scale: float,
    extracted: Any,
    features: FeatureTableArrays,
    one: int,
    other: int,
    odds: Floats,
) -> None:
    """Fill odds with x_i (l_iv / 2 + w_iv) of learner m, class `one` less class `other`; `scale`: 1 / |v|."""
    table, weights = features.table, features.weights
    odds[: extracted.n[1]] = 0.0
    last: Any = np.int64(-1)
    mean = 0.0
    for i in range(extracted.n[1] if takes_pairs else extracted.n[0]):
        row, v = extracted.rows[i], extracted.values[i]
        if row == NOBODY or v == 0.0 or (row >= 0 and table[row, TOTAL] == 0):
            continue
        if row < NOBODY and class_met(slot_at(features, by_place(row))) == NO_CLASS:
            continue
        owner = extracted.owner_rows[extracted.owners[i]]
        if owner != last:
            last, mean = owner, mean_of_classes(table, owner, table.shape[1] - COUNTS, is_cautious)
        for sign, k in ((1.0, one), (-1.0, other)):
            likelihood, correction = log_of_none(table, owner, k, mean), 0.0
            if row >= 0:
                likelihood += weights[row, 0, 1 + k]
                correction = weights[row, 1 + m, 1 + k]
            elif class_met(slot_at(features, by_place(row))) == k:
                likelihood += LOG_OF_ONE
            odds[i] += sign * scale * v * (TRUST * likelihood + correction)


@inlined
def fill_gradient(probabilities: Any, label: Any, weight: Any, gradient: Any) -> float:
    """Fill gradient (K,) of the log loss by the scores; return half the square of its length."""
    half = 0.0
    for k in range(probabilities.size):
        gradient[k] = weight * (probabilities[k] - (1.0 if k == label else 0.0))
        half += gradient[k] * gradient[k] / 2.0
    return half


@inlined
def learn_bias(rate: Any, gradient: Any, bias: Any) -> None:
    """Take one step of the biases and their squares (2, >= K)."""
    for k in range(gradient.size):
        bias[1, k] += gradient[k] * gradient[k]
        bias[0, k] -= rate * gradient[k] / math.sqrt(bias[1, k] + DAMPING)


@kernel
def learn_softmax(
    m: int,
    takes_pairs: bool,
    rate: float,
    scale: float,
    label: int,
    weight: float,
    probabilities: Floats,
    extracted: Any,
    features: FeatureTableArrays,
    bias: Floats,
    gradient: Floats,
) -> None:
    """Step learner m by an event that it gave these probabilities (K,); `gradient` (K,) is scratch."""
    if probabilities[label] >= SURE:
        return
    K, half = probabilities.size, fill_gradient(probabilities, label, weight, gradient)
    weights, rows, values = features.weights, extracted.rows, extracted.values
    plane = 1 + m
    for i in range(extracted.n[1] if takes_pairs else extracted.n[0]):
        row, x = rows[i], scale * values[i]
        if row < 0 or x == 0.0:
            continue
        square = weights[row, plane, 0] + half * x * x
        weights[row, plane, 0] = square
        step = rate * x / math.sqrt(square + DAMPING)
        for k in range(K):
            weights[row, plane, 1 + k] -= step * gradient[k]
    learn_bias(rate, gradient, bias[m])


@inlined
def count_features(extracted: Any, features: FeatureTableArrays, label: int, weight: int) -> None:
    """Add the event to the counts of its features and their owners; `weight` in units."""
    table, weights = features.table, features.weights
    for o in range(extracted.n[2]):
        owner = extracted.owner_rows[o]
        if owner >= 0:
            table[owner, TOTAL] += weight
            table[owner, COUNTS + label] += weight
    for i in range(extracted.n[1]):
        row = extracted.rows[i]
        if row < NOBODY:
            slot = slot_at(features, by_place(row))
            if class_met(slot) == NO_CLASS:
                put_slot(features, by_place(row), met_once(slot & KEY_BITS, label))
        elif row >= 0:
            table[row, TOTAL] += weight
            table[row, COUNTS + label] += weight
            log = _log_of(table[row, COUNTS + label], _SMOOTHING, LOGS)
            weights[row, 0, 1 + label] = log - LOG_SMOOTHING


@kernel
def fill_logs(features: FeatureTableArrays, classes: int) -> None:
    """Fill the logarithms of the counts of all features, as `count_features` fills them."""
    table, weights = features.table, features.weights
    for row in range(features.size[END]):
        if owner_in(table[row, OWNER]) != NOBODY:
            for k in range(classes):
                if table[row, COUNTS + k] != 0:
                    log = _log_of(table[row, COUNTS + k], _SMOOTHING, LOGS)
                    weights[row, 0, 1 + k] = log - LOG_SMOOTHING
