"""Naive Bayes for two classes as a linear function of the event, and its logistic form.

    log P(v1|x)/P(v0|x) = bias + sum_i w_i x_i        P(v1|x) = 1 / (1 + exp(-(bias + sum_i w_i x_i)))

    prior              bias   log P(v1)/P(v0)
    multinomial word   w_i    log p_i/q_i, times its occurrences          p_i = P(a_i|v1), q_i = P(a_i|v0)
    nominal value      w_i    log p_i/q_i
    Bernoulli word     w_i    log p_i (1 - q_i) / (q_i (1 - p_i)); if the event has the text, the bias
                              gains sum_i log (1 - p_i)/(1 - q_i), the log odds of the empty text
    continuous         square (x - c)^2 + weight (x - c) + bias; equal variances leave no square, and then
                       this is (mu_1 - mu_0)/s^2 x + (mu_0^2 - mu_1^2)/(2 s^2)

Missing attributes, and words and values never seen, drop out with their term. This module computes weights
from counts and moments; `linear_view` combines them.

With alpha = 0, read as the limit, a weight is a number plus a multiple of log(alpha) -> -inf. The linear form
holds for such pairs. As plain numbers the weights would be infinite, and weights of both signs would not add.

References: Mitchell, Machine Learning (1997), chapter 6; Minsky (1961), Steps toward artificial intelligence.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from streamnb.values.example_weights import UNIT
from streamnb.values.type_aliases import Array

_FARTHEST = 1e150  # standard deviations from a mean, beyond which the model's density is constant


class LogLimit(NamedTuple):
    """log + misses x log(alpha) for alpha -> 0; `misses` counts factors alpha. Two arrays, or two numbers."""

    log: Any
    misses: Any

    def less(self, other: LogLimit) -> LogLimit:
        """Return the difference."""
        return LogLimit(self.log - other.log, self.misses - other.misses)

    def plain(self) -> Any:
        """Return plain numbers, infinite if there are misses."""
        return np.where(self.misses == 0, self.log, np.where(self.misses > 0, -np.inf, np.inf))


class SmoothingCoefficients(NamedTuple):
    """Smoothing of counts: (n_c + s) / (n + S), in the units of the counts.

    s, rest, share and the floors are numbers, or arrays if each value has a p of its own.

    Attributes:
        s: added to a count.
        S: added to a total.
        rest: S - s, computed separately to be exact.
        share: probability of a value in a class without observations.
        floor: if s is zero, a count of zero is a miss, a factor alpha x floor / n.
        floor_absent: the same for the absence of a Bernoulli word that is in every text of the class.
    """

    s: Any
    S: float
    rest: Any
    share: Any
    floor: Any
    floor_absent: Any


def smoothing(alpha: float, m: float, p: float, values: float) -> SmoothingCoefficients:
    """Return the m-estimate, or alpha if m < 0; p = nan is uniform over `values` values (Bernoulli: two)."""
    if m < 0.0:
        s = alpha * UNIT
        return SmoothingCoefficients(s, s * values, s * (values - 1.0), 1.0 / values, 1.0, 1.0)
    return _with_p(m, 1.0 / values if math.isnan(p) else p)


def _with_p(m: float, p: Any) -> SmoothingCoefficients:
    return SmoothingCoefficients(m * p * UNIT, m * UNIT, m * (1.0 - p) * UNIT, p, p, 1.0 - p)


def smoothing_of_rows(how: SmoothingCoefficients, tables: Any, g: int, rows: Array) -> SmoothingCoefficients:
    """Return the smoothing of the values of group g in these rows; some may have a p of their own."""
    own = dict(zip(tables.value_rows.tolist(), tables.value_p.tolist(), strict=True))
    if own.keys().isdisjoint(rows.tolist()):
        return how
    return _with_p(tables.m[g], np.array([own.get(row, how.share) for row in rows.tolist()]))


def log_odds_of_values(counts: Array, totals: Array, how: SmoothingCoefficients) -> LogLimit:
    """Return log p_i/q_i of each word or value of a multinomial or nominal attribute.

    `counts` has a row per value and a column per class, the positive class first; `totals` has shape (2,). A
    value that neither class has gets a weight, too, if the totals differ.
    """
    positive, negative = (_shares(counts[:, k], float(totals[k]), how) for k in (0, 1))
    return positive.less(negative)


def log_odds_of_presence(
    counts: Array, totals: Array, how: SmoothingCoefficients
) -> tuple[LogLimit, LogLimit]:
    """Return log p_i (1 - q_i) / (q_i (1 - p_i)) of each Bernoulli word, and the log odds of an empty text.

    Shapes as in `log_odds_of_values`; totals count texts.
    """
    positive, negative = (_presence(counts[:, k], float(totals[k]), how) for k in (0, 1))
    absent = positive[1].less(negative[1])
    return positive[0].less(negative[0]), LogLimit(float(absent.log.sum()), int(absent.misses.sum()))


def _shares(count: Array, n: float, how: SmoothingCoefficients) -> LogLimit:
    if how.S > 0.0:
        return LogLimit(np.log((count + how.s) / (n + how.S)), np.zeros(count.size, dtype=np.int64))
    if n == 0:
        return LogLimit(np.log(np.full(count.size, how.share)), np.zeros(count.size, dtype=np.int64))
    seen = np.where(count > 0, count, how.floor * UNIT)
    return LogLimit(np.log(seen / n), (count == 0).astype(np.int64))


def _presence(count: Array, n: float, how: SmoothingCoefficients) -> tuple[LogLimit, LogLimit]:
    misses = np.zeros(count.size, dtype=np.int64)
    if n == 0 and how.S == 0.0:
        odds = math.log(how.share) - math.log1p(-how.share)
        nothing = np.full(count.size, math.log1p(-how.share))
        return LogLimit(np.full(count.size, odds), misses), LogLimit(nothing, misses)
    here, away = count + how.s, (n - count) + how.rest
    whole = here + away
    never, always = here <= 0.0, away <= 0.0
    # For the many rare words: log(1 - here / whole) keeps all digits.
    few = np.where(here < away, here, 0.0)
    here, away = np.where(never, how.floor * UNIT, here), np.where(always, how.floor_absent * UNIT, away)
    absent = np.where(few > 0.0, np.log1p(-few / whole), np.log(away / whole))
    return LogLimit(np.log(here / away), never.astype(np.int64) - always), LogLimit(absent, misses + always)


class Curve(NamedTuple):
    """Contribution of a number x to the log odds: square (x - centre)^2 + weight (x - centre) + bias.

    The centre is the mean of the class with the smaller variance. So no term exceeds a few times (x - mean)^2
    / variance of the two classes, and the sum is accurate for every x. An expansion at 0 would have far
    larger terms for values such as seconds since 1970.

    Attributes:
        attribute: the attribute's name.
        centre: see above.
        square: per squared unit of x; zero if the variances are equal.
        weight: per unit of x.
        bias: added to the bias if the event has the number.
        means: of the positive and of the negative class.
        variances: the same.
    """

    attribute: Any
    centre: float
    square: float
    weight: float
    bias: float
    means: tuple[float, float]
    variances: tuple[float, float]

    def log_odds(self, x: float) -> float:
        """Return the curve at x, or the difference of densities if x is beyond the range of the quadratic."""
        d = x - self.centre
        value = self.square * d * d + self.weight * d + self.bias
        far = [abs(x - mean) / math.sqrt(s2) for mean, s2 in zip(self.means, self.variances, strict=True)]
        if max(far) < _FARTHEST and math.isfinite(value):
            return value
        positive, negative = (min(deviation, _FARTHEST) for deviation in far)
        logs = math.log(self.variances[1]) - math.log(self.variances[0])
        return 0.5 * ((negative - positive) * (negative + positive) + logs)


def curve(attribute: Any, means: tuple[float, float], variances: tuple[float, float]) -> Curve:
    """Return log N(x; mean, variance) of the positive minus the negative class, as a polynomial in x.

    Why the terms stay small: with c = mu_1, s_1 <= s_0, d = x - mu_1 and g = mu_1 - mu_0 they are d^2
    (1/s_0^2 - 1/s_1^2) / 2, g d / s_0^2 and g^2 / (2 s_0^2), and g^2 <= 2 (x - mu_0)^2 + 2 d^2.
    """
    centre = means[0] if variances[0] <= variances[1] else means[1]
    # Products may overflow: `Curve.log_odds` then uses the densities themselves.
    with np.errstate(over="ignore", invalid="ignore"):
        s2, s2_other = np.float64(variances[0]), np.float64(variances[1])
        d, d_other = centre - means[0], centre - means[1]
        square = (s2 - s2_other) / s2 / s2_other / 2.0
        weight = d_other / s2_other - d / s2
        bias = (d_other * d_other / s2_other - d * d / s2 + np.log(s2_other) - np.log(s2)) / 2.0
    return Curve(attribute, centre, float(square), float(weight), float(bias), means, variances)
