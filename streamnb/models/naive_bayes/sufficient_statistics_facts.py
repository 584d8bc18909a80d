"""Sufficient statistics as facts, each of which can be read, compared and added separately.

    ("events", n)                                           events learned
    ("class", label, weight)                                weights are whole, in units of 1/1024 example
    ("word", attribute, word, label, weight)                of a multinomial text
    ("contains", attribute, word, label, weight)            of a Bernoulli text
    ("texts", attribute, label, weight)                     number of Bernoulli texts
    ("value", attribute, value, label, weight)              of a nominal attribute
    ("moments", attribute, label, weight, mean, M2)         of a continuous attribute

Column and row numbers are left out, because they depend on the order of events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from streamnb.features.vocabulary import packed
from streamnb.models.naive_bayes.partials import check_size
from streamnb.models.naive_bayes.sufficient_statistics import SufficientStatistics
from streamnb.statistics.counts import add_rows
from streamnb.values.attribute_kinds import BERNOULLI, MULTINOMIAL, NOMINAL
from streamnb.values.state_validation import plain, plain_attribute, state_errors
from streamnb.values.type_aliases import State

StatisticFact = tuple[Any, ...]
"""Name of the fact, then names and numbers."""
_KINDS = {MULTINOMIAL: "word", BERNOULLI: "contains", NOMINAL: "value"}
_GROUPS = {fact: kind for kind, fact in _KINDS.items()}


def facts_of(statistics: SufficientStatistics) -> Iterator[StatisticFact]:
    """Yield every non-zero fact, in no order. Raises ValueError after stop words, whose counts are lost."""
    statistics.finish_copy()
    if statistics.vocabulary.stopped():
        raise ValueError(
            "the model has stop words, whose counts are lost: facts need a model that was not pruned so"
        )
    labels = [plain(label) for label in statistics.classes]
    names = [plain_attribute(name) for _, name in statistics.layout.groups]
    size, K = statistics.vocabulary.size, len(labels)
    yield "events", statistics.events
    yield from (("class", label, int(statistics.class_weights[k])) for k, label in enumerate(labels))
    for group, (kind, _) in enumerate(statistics.layout.groups):
        if kind == BERNOULLI:
            totals = statistics.counts.totals[group, :K].tolist()
            yield from (("texts", names[group], labels[k], n) for k, n in enumerate(totals) if n)
    kinds = [_KINDS[kind] for kind, _ in statistics.layout.groups]
    groups, keys = statistics.vocabulary.groups[:size].tolist(), statistics.vocabulary.keys()
    table = statistics.counts.table[:size, :K]
    rows, columns = np.nonzero(table)
    for row, k, n in zip(rows.tolist(), columns.tolist(), table[rows, columns].tolist(), strict=True):
        yield kinds[groups[row]], names[groups[row]], keys[row].decode(), labels[k], n
    for name, f in statistics.layout.fields.items():
        n, mean, M2 = (array[f, :K].tolist() for array in statistics.moments)
        yield from (
            ("moments", plain_attribute(name), labels[k], n[k], mean[k], M2[k]) for k in range(K) if n[k]
        )


@state_errors("a model's facts", ValueError)
def state_of(facts: Iterable[StatisticFact]) -> State:
    """Return the `NaiveBayes` state of these facts; facts of one word are adjacent. Raises SnapshotError."""
    found: dict[str, list[StatisticFact]] = {}
    for what, *values in facts:
        found.setdefault(what, []).append(tuple(values))
    ((events,),) = found.pop("events")
    classes = found.pop("class", [])
    labels = [label for label, _ in classes]
    columns = {(type(label), label): k for k, label in enumerate(labels)}
    texts, moments = found.pop("texts", []), found.pop("moments", [])
    groups: dict[tuple[int, Any], int] = {(BERNOULLI, name): g for g, name in enumerate(_names(texts))}
    keys, owners, cells, weights = list[bytes](), list[int](), list[tuple[int, int]](), list[int]()
    for what, counted in found.items():
        before = None
        for name, key, label, n in counted:
            if before != (name, key):
                before = name, key
                keys.append(key.encode())
                owners.append(groups.setdefault((_GROUPS[what], name), len(groups)))
            cells.append((len(keys) - 1, columns[type(label), label]))
            weights.append(n)
    R, G, K = len(keys), len(groups), len(labels)
    check_size(R, K)
    table, totals, owner = np.zeros((R, K), np.int64), np.zeros((G, K), np.int64), np.array(owners, np.int32)
    table[tuple(np.array(cells, dtype=np.int64).reshape(-1, 2).T)] = weights
    add_rows(table, owner, totals)
    for (kind, _), g in groups.items():
        totals[g] *= kind != BERNOULLI
    for name, label, n in texts:
        totals[groups[BERNOULLI, name], columns[type(label), label]] = n
    fields = {name: f for f, name in enumerate(_names(moments))}
    mean, M2 = np.zeros((2, len(fields), K))
    weight = np.zeros((len(fields), K), np.int64)
    for name, label, n, middle, spread in moments:
        cell = fields[name], columns[type(label), label]
        weight[cell], mean[cell], M2[cell] = n, middle, spread
    meta = {
        "type": "NaiveBayes",
        "events": events,
        "classes": labels,
        "groups": list(map(list, groups)),
        "fields": list(fields),
    }
    arrays = {
        **packed(keys),
        "groups": owner,
        "class_weights": np.array([n for _, n in classes], np.int64),
        "table": table,
        "totals": totals,
        "n": weight,
        "mean": mean,
        "M2": M2,
    }
    return meta, arrays


def _names(facts: list[StatisticFact]) -> list[Any]:
    return list(dict.fromkeys(fact[0] for fact in facts))
