"""Attribution of a naive Bayes prediction to the values of an event, within the pass that predicts.

The score of an event is a sum over its values, and so are the log odds of two classes:

    log P(v1|x)/P(v2|x) = log P(v1)/P(v2) + sum over values of log P(a|v1)/P(a|v2)

For each value only these two classes are read, by the factors of `joint_log_likelihood`. The absence of all
words of a Bernoulli text is one part, and a present word adds its odds against its absence.

A class is excluded by a prior of 0, or by a factor alpha = 0 (a miss). A value whose event alone excludes one
of the classes counts +-`attribution.LIMIT`, and one that excludes both counts 0. A value that the model never
learned counts 0, because the score skips it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamnb.kernels.array_types import Floats
from streamnb.kernels.jit import inlined, kernel
from streamnb.kernels.vector_kernels import fill
from streamnb.models.interface.attribution_parts import (
    LIMIT,
    AttributionParts,
    choose_strongest,
    most_probable,
)
from streamnb.models.naive_bayes.gaussian_factors import LOG_2PI, SQUARE_LIMIT, gaussian_of, reading_of
from streamnb.models.naive_bayes.joint_log_likelihood import (
    is_declared,
    known,
    log_away,
    score_priors,
    smoothing_of,
    smoothing_of_value,
)
from streamnb.models.naive_bayes.naive_bayes_tables import CountViews
from streamnb.values.attribute_kinds import BERNOULLI, NOMINAL
from streamnb.values.example_weights import UNIT


@inlined
def _log_odds(one: float, other: float, pair: Any) -> float:
    """Return the difference of two logs, which may be infinite, within +-LIMIT."""
    if one == other:
        return 0.0
    one, other = min(one, pair[2]), min(other, pair[3])
    return 0.0 if one == other else min(max(one - other, -LIMIT), LIMIT)


@inlined
def _log_share(tables: Any, smoothing: Any, g: int, k: int, row: int) -> float:
    """Return the log of the share of a word or nominal value in class k; row < 0 is a declared value."""
    s, S, _, share, _ = smoothing
    count = float(tables.table[row, k]) if row >= 0 else 0.0
    if count + s <= 0.0:
        return -np.inf if tables.totals[g, k] > 0 else math.log(share)
    return math.log((count + s) / (tables.totals[g, k] + S))


@inlined
def _is_learned(tables: Any, row: int, one: int, other: int) -> bool:
    """Return whether anything is counted in this row, which usually one of the two classes has."""
    if tables.table[row, one] != 0 or tables.table[row, other] != 0:
        return True
    return bool(known(tables.table, row, tables.classes.size))


@inlined
def _log_density(tables: Any, f: int, k: int, x: float, reading: Any) -> float:
    centre, variance = gaussian_of(tables, f, k, reading)
    deviation = (x - centre) / math.sqrt(variance)
    return -0.5 * (LOG_2PI + math.log(variance) + min(deviation * deviation, SQUARE_LIMIT))


@inlined
def _log_absence(tables: Any, smoothing: Any, g: int, k: int) -> Any:
    """Return (log probability that a text of class k has no word, misses)."""
    s, S, rest, share, _ = smoothing
    n, words, histograms = tables.totals[g, k], tables.live[g], tables.histograms
    if n == 0 and S == 0.0:
        return words * math.log1p(-share), np.int64(0)
    b = tables.slot[g] * tables.totals.shape[1] + k
    own = histograms.absent[b] + (words - histograms.positive[b]) * log_away(s, n + rest)
    return own, np.int64(histograms.misses[b])


@inlined
def _log_presence(tables: Any, smoothing: Any, g: int, k: int, row: int, misses: Any) -> float:
    """Return what the presence of a word adds to the log score of class k; `misses` of no word at all."""
    s, S, rest, share, floor = smoothing
    floor_absent = 1.0 if tables.m[g] < 0.0 else 1.0 - floor
    n, count = tables.totals[g, k], tables.table[row, k]
    here, away = count + s, float(n - count) + rest
    if n == 0 and S == 0.0:
        added, more = math.log(share) - math.log1p(-share), 0
    elif here > 0.0 and away > 0.0:
        added, more = math.log(here / away), 0
    elif here > 0.0:  # always present: its absence was a miss
        added, more = -math.log(floor_absent * UNIT / n), -1
    else:
        added, more = math.log(floor * UNIT / n), 1
    if misses + more != 0:
        return -np.inf
    return np.inf if misses != 0 else added


@inlined
def _add_values(tables: Any, batch: Any, e: int, first: int, pair: Any, odds: Floats) -> None:
    """Fill the parts from `first` on, which are numbers."""
    one, other, _, _ = pair
    for v in range(batch.event_values[e], batch.event_values[e + 1]):
        f, x = batch.value_field[v], batch.value[v]
        reading = reading_of(tables, f)
        if reading[1] > 0.0:
            odds[first + v - batch.event_values[e]] = _log_odds(
                _log_density(tables, f, one, x, reading), _log_density(tables, f, other, x, reading), pair
            )


@inlined
def _add_text(
    tables: Any, batch: Any, bags: Any, bag: int, tokens: Any, part: int, pair: Any, odds: Floats
) -> None:
    """Fill the parts of a text, which has its first token, and the numbers of its tokens; see `Bags`.

    The first token of a word is where the next row of the bag stands. `part` is the text without its words.
    """
    one, other, _, _ = pair
    begin, first, stop = tokens
    g: Any = np.int64(bags.group[bag])
    smoothing = smoothing_of(tables, g)
    is_bernoulli = tables.kinds[g] == BERNOULLI
    misses_one, misses_other = np.int64(0), np.int64(0)
    if is_bernoulli:
        absent_one, misses_one = _log_absence(tables, smoothing, g, one)
        absent_other, misses_other = _log_absence(tables, smoothing, g, other)
        odds[part] = _log_odds(
            absent_one if misses_one == 0 else -np.inf,
            absent_other if misses_other == 0 else -np.inf,
            pair,
        )
    u, end = bags.bag_rows[bag], bags.bag_rows[bag + 1]
    for j in range(first, stop):
        if u == end:
            break
        row: Any = np.int64(batch.rows[begin + j])
        if row != bags.rows[u]:
            continue
        times = bags.amounts[u] / UNIT
        u += 1
        if not _is_learned(tables, row, one, other):
            continue
        if is_bernoulli:
            odds[j] = _log_odds(
                _log_presence(tables, smoothing, g, one, row, misses_one),
                _log_presence(tables, smoothing, g, other, row, misses_other),
                pair,
            )
        else:
            odds[j] = _log_odds(
                times * _log_share(tables, smoothing, g, one, row),
                times * _log_share(tables, smoothing, g, other, row),
                pair,
            )


@inlined
def _add_items(tables: Any, batch: Any, bags: Any, e: int, pair: Any, odds: Floats) -> Any:
    """Fill the parts of texts and nominal values; return the number of the event's parts."""
    one, other, _, _ = pair
    first, stop = batch.event_items[e], batch.event_items[e + 1]
    begin, bag, item = batch.item_rows[first], bags.event_bags[e], first
    rest = batch.item_rows[stop] - begin + batch.event_values[e + 1] - batch.event_values[e]
    while item < stop:
        g: Any = np.int64(batch.item_group[item])
        last = item + 1
        while last < stop and batch.item_group[last] == g:
            last += 1
        tokens = begin, batch.item_rows[item] - begin, batch.item_rows[last] - begin
        if tables.kinds[g] != NOMINAL:
            _add_text(tables, batch, bags, bag, tokens, rest + item - first, pair, odds)
        elif tokens[2] > tokens[1]:
            row: Any = np.int64(batch.rows[begin + tokens[1]])
            if (row >= 0 and _is_learned(tables, row, one, other)) or is_declared(tables, g):
                smoothing = smoothing_of_value(tables, g, row)
                odds[tokens[1]] = _log_odds(
                    _log_share(tables, smoothing, g, one, row),
                    _log_share(tables, smoothing, g, other, row),
                    pair,
                )
        item, bag = last, bag + 1
    return rest + stop - first


@kernel
def attribute_values(
    tables: CountViews,
    batch: Any,
    bags: Any,
    e: int,
    probabilities: Floats,
    priors: Floats,
    parts: AttributionParts,
) -> None:
    """Fill what each part of event e adds to the log odds of two classes, and the strongest parts.

    Nothing is filled if fewer than two classes have examples.

    Args:
        tables: the counts that `score_event` has read of this event.
        batch: the events, a `Batch`.
        bags: the same as `Bags`.
        e: the event.
        probabilities: float64[K], the prediction of event e.
        priors: float64[K], scratch.
        parts: is filled.
    """
    one, other = parts.classes[0], parts.classes[1]
    if one < 0:
        one, other = most_probable(probabilities, tables.classes)
    if other < 0:
        return
    odds = parts.odds
    fill(odds, 0.0)
    score_priors(tables.classes, tables.classes, tables.prior_mode, tables.prior, priors)
    odds[odds.size - 1] = _log_odds(priors[one], priors[other], (one, other, np.inf, np.inf))
    # Each log is cut to -inf for a class that its prior excludes.
    pair = (
        one,
        other,
        np.inf if priors[one] > -np.inf else -np.inf,
        np.inf if priors[other] > -np.inf else -np.inf,
    )
    first = batch.item_rows[batch.event_items[e + 1]] - batch.item_rows[batch.event_items[e]]
    n = _add_items(tables, batch, bags, e, pair, odds)
    _add_values(tables, batch, e, first, pair, odds)
    choose_strongest(e, n, parts)
