"""Which words and values speak most for a class: for people who want to see what was learned."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streamnb.model.attributes.kinds import BERNOULLI
from streamnb.model.attributes.weights import UNIT
from streamnb.model.naive_bayes.sufficient_statistics import Statistics


class Strong(NamedTuple):
    """A word or value, with what it says for a class.

    Attributes:
        attribute: the attribute's name.
        value: the word or value.
        log_odds: log P(value | class) - log P(value | all other classes together), alpha = 1 (nats).
        weight: how often it was seen in the class, in examples.
    """

    attribute: Any
    value: str
    log_odds: float
    weight: float


def strongest(statistics: Statistics, label: Any, top: int = 10) -> list[Strong]:
    """The words and values that add most to an average event of a class, the strongest first.

    Ranked by P(value | class) x log odds, the value's share of the Kullback-Leibler divergence of the class
    from the rest: rare words with large odds and common words with small ones both say little.
    """
    k, K = statistics.classes[label], len(statistics.classes)
    size = statistics.vocabulary.size
    groups = statistics.vocabulary.groups[:size]
    rows = np.flatnonzero((groups >= 0) & (statistics.counts.table[:size, :K].any(axis=1)))
    table = statistics.counts.table[rows, :K] / UNIT
    totals = statistics.counts.totals[groups[rows], :K] / UNIT
    kinds = statistics.counts.kinds[groups[rows]]
    values = np.where(kinds == BERNOULLI, 2, statistics.counts.live[groups[rows]])
    inside = (table[:, k] + 1) / (totals[:, k] + values)
    outside = (table.sum(axis=1) - table[:, k] + 1) / (totals.sum(axis=1) - totals[:, k] + values)
    odds = np.log(inside / outside)
    order = np.argsort(-inside * odds, kind="stable")[:top]
    names = [name for _, name in statistics.layout.groups]
    return [
        Strong(
            names[groups[rows[i]]],
            statistics.vocabulary.key(rows[i]).decode(errors="replace"),
            float(odds[i]),
            float(table[i, k]),
        )
        for i in order
        if odds[i] > 0.0
    ]
