"""Most informative words and values of a class, to inspect what a model learned."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streamnb.models.naive_bayes.sufficient_statistics import SufficientStatistics
from streamnb.values.attribute_kinds import BERNOULLI
from streamnb.values.example_weights import UNIT


class InformativeValue(NamedTuple):
    """A word or value, with its log odds for a class.

    Attributes:
        attribute: the attribute's name.
        value: the word or value.
        log_odds: log P(value | class) - log P(value | all other classes together), alpha = 1 (nats).
        weight: its weight in the class, in examples.
    """

    attribute: Any
    value: str
    log_odds: float
    weight: float


def strongest(statistics: SufficientStatistics, label: Any, top: int = 10) -> list[InformativeValue]:
    """Return the words and values that add most to an average event of a class, strongest first.

    Ranked by P(value | class) x log odds, the value's share of the Kullback-Leibler divergence of the class
    from the rest. So rare words with large odds and common words with small odds both rank low.
    """
    k, K = statistics.classes[label], len(statistics.classes)
    size = statistics.vocabulary.size
    groups = statistics.vocabulary.groups[:size]
    all_of = statistics.counts.table[:size, :K].sum(axis=1)  # whole numbers: exact in any order
    rows = np.flatnonzero((groups >= 0) & (all_of > 0))
    own = statistics.counts.table[rows, k] / UNIT
    others = all_of[rows] / UNIT - own
    own_total = statistics.counts.totals[groups[rows], k] / UNIT
    other_totals = statistics.counts.totals[:, :K].sum(axis=1)[groups[rows]] / UNIT - own_total
    kinds = statistics.counts.kinds[groups[rows]]
    values = np.where(kinds == BERNOULLI, 2, statistics.counts.live[groups[rows]])
    inside = (own + 1) / (own_total + values)
    outside = (others + 1) / (other_totals + values)
    odds = np.log(inside / outside)
    order = np.argsort(-inside * odds, kind="stable")[:top]
    names = [name for _, name in statistics.layout.groups]
    return [
        InformativeValue(
            names[groups[rows[i]]],
            statistics.vocabulary.key(rows[i]).decode(errors="replace"),
            float(odds[i]),
            float(own[i]),
        )
        for i in order
        if odds[i] > 0.0
    ]
