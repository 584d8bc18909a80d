"""Weights of a model as a linear function that separates two classes; see `linear_form`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from streamnb.features.event_writer import EventWriter
from streamnb.features.tokenizer import words
from streamnb.models.calibration.sequential_laplace import sigmoid
from streamnb.models.naive_bayes.gaussian_factors import gaussian_of, reading_of
from streamnb.models.naive_bayes.linear_form import (
    Curve,
    LogLimit,
    curve,
    log_odds_of_presence,
    log_odds_of_values,
    smoothing,
    smoothing_of_rows,
)
from streamnb.models.naive_bayes.naive_bayes_tables import CountViews, Covariance
from streamnb.models.naive_bayes.sufficient_statistics import SufficientStatistics
from streamnb.statistics.class_priors import relative_weights
from streamnb.values.attribute_kinds import BERNOULLI
from streamnb.values.example_weights import UNIT
from streamnb.values.hooks import Shown
from streamnb.values.type_aliases import Array


class Weight(NamedTuple):
    """A word or nominal value, with its weight.

    Attributes:
        attribute: the attribute's name.
        value: the word or value.
        weight: added to the log odds (nats) by an occurrence of a word, the presence of a Bernoulli word, or
            the value. Infinite if alpha = 0 excludes one of the classes.
        positive: its weight in the positive class, in examples.
        negative: its weight in the negative class, in examples.
    """

    attribute: Any
    value: str
    weight: float
    positive: float
    negative: float


class _Group(NamedTuple):
    """Words or values (`keys`) of one attribute, and their weights; the positive class is first."""

    kind: int
    name: Any
    keys: list[bytes]
    weights: LogLimit
    absent: LogLimit
    seen: Array
    adds: Array
    unmet: LogLimit

    def weight(self, place: int | None) -> LogLimit:
        """Return the weight of the key at this place; None is a word or value without a key."""
        if place is None:
            return self.unmet
        return LogLimit(float(self.weights.log[place]), float(self.weights.misses[place]))

    def items(self, places: Iterator[int] | range) -> Iterator[Weight]:
        weights = self.weights.plain()
        for i in places:
            value = self.keys[i].decode(errors="replace")
            yield Weight(self.name, value, float(weights[i]), *map(float, self.seen[i]))


class LinearView(Shown):
    """The log odds of one class against another as a linear function; see `NaiveBayes.linear_view`.

    A copy: later learning does not change it.

    Attributes:
        positive: the class v1, favoured by positive weights.
        negative: the class v0.
        bias: log P(v1)/P(v0), of every event; infinite if a given prior is zero.
        curves: continuous attributes, except those without effect.
    """

    def __init__(
        self,
        pair: tuple[Any, Any],
        bias: float,
        groups: list[_Group],
        curves: list[Curve],
        write: Callable[[EventWriter, Any], None],
    ) -> None:
        self.positive, self.negative = pair
        self.bias, self.curves, self._groups, self._write = bias, curves, groups, write

    def __repr__(self) -> str:
        size = sum(len(group.keys) for group in self._groups)
        return (
            f"LinearView(log odds of {self.positive!r} against {self.negative!r}: bias {self.bias:.6g}, "
            f"{size} words and values, {len(self.curves)} curves)"
        )

    @property
    def absent(self) -> dict[Any, float]:
        """Bernoulli text -> its share of the bias in events that have the text."""
        return {g.name: float(g.absent.plain()) for g in self._groups if g.kind == BERNOULLI}

    @property
    def items(self) -> Iterator[Weight]:
        """All words and values with their weights, attribute by attribute."""
        for group in self._groups:
            yield from group.items(range(len(group.keys)))

    def top(self, n: int = 10) -> dict[Any, list[Weight]]:
        """Return class -> the words and values that add most to its log odds in its average event.

        Ranked by frequency in the class x log odds; weights alone would favour words seen once. These log
        odds use alpha = 1, so infinite weights have a rank, too. Equals keep the order of `items`.
        """
        return {self.positive: self._strongest(0, n), self.negative: self._strongest(1, n)}

    def log_odds(self, x: Any) -> float:
        """Return log P(v1|x)/P(v0|x) in nats, infinite if alpha = 0 or a given prior excludes a class.

        Raises TypeError or ValueError for a value that does not fit the kind of its attribute.
        """
        features = _Features()
        self._write(features, x)
        if math.isinf(self.bias):
            return self.bias
        log, misses = self.bias, 0.0
        for owner in features.texts:
            if owner in self._numbered:
                absent = self._numbered[owner][0].absent
                log, misses = log + absent.log, misses + absent.misses
        for (owner, key), times in features.times.items():
            group, places = self._numbered.get(owner, (None, {}))
            if group is not None:
                adds = group.weight(places.get(key))
                log, misses = log + times * adds.log, misses + times * adds.misses
        for name, value in features.values():
            if name in self._curves:
                log += self._curves[name].log_odds(value)
        return float(LogLimit(log, misses).plain())

    def probability(self, x: Any) -> float:
        """Return P(v1|x) = 1 / (1 + exp(-log odds)); with more classes, P(v1 | x, v1 or v0)."""
        return sigmoid(self.log_odds(x))

    @cached_property
    def _numbered(self) -> dict[tuple[int, Any], tuple[_Group, dict[bytes, int]]]:
        return {(g.kind, g.name): (g, {key: i for i, key in enumerate(g.keys)}) for g in self._groups}

    @cached_property
    def _curves(self) -> dict[Any, Curve]:
        return {curve.attribute: curve for curve in self.curves}

    def _strongest(self, k: int, n: int) -> list[Weight]:
        ranked = []
        for group in self._groups:
            sign = group.weights.plain() * (1.0 if k == 0 else -1.0)
            adds = np.where(sign > 0.0, group.adds[:, k], 0.0)
            best = np.argsort(-adds, kind="stable")[:n]
            best = best[adds[best] > 0.0]
            ranked += list(zip(adds[best].tolist(), group.items(iter(best.tolist())), strict=True))
        ranked.sort(key=lambda pair: -pair[0])
        return [item for _, item in ranked[:n]]


class _Features(EventWriter):
    """A writer that keeps Bernoulli texts as (kind, name), and the occurrences of every word and value."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[tuple[int, Hashable], None] = {}
        self.times: dict[tuple[tuple[int, Hashable], bytes], float] = {}

    def values(self) -> Iterator[tuple[Hashable, float]]:
        names = list(self._fields)
        return zip((names[i] for i in self._field), self._value, strict=True)

    def write(self, kind: int, name: Hashable, item: bytes, *, whole: bool, amount: int) -> None:
        """Append the features of one item."""
        owner = (kind, name)
        keys = [item] if whole else [word.encode() for word in words(item.decode())]
        if kind == BERNOULLI:
            self.texts[owner] = None
            self.times.update({(owner, key): 1.0 for key in keys})
            return
        for key, occurrences in Counter(keys).items():
            self.times[owner, key] = self.times.get((owner, key), 0.0) + occurrences * amount / UNIT


def linear_view(
    statistics: SufficientStatistics,
    tables: CountViews,
    between: tuple[Any, Any],
    write: Callable[[EventWriter, Any], None],
    covariance: Covariance | None = None,
) -> LinearView:
    """Return the view of two classes; `write` passes an event to a writer. See `NaiveBayes.linear_view`."""
    if covariance is not None:
        tables = tables._replace(tied=int(covariance == "tied"))
    pair = _pair(statistics, *between)
    columns = np.array([statistics.classes[label] for label in pair])
    curves = []
    for name, f in statistics.layout.fields.items():
        reading = reading_of(tables, f)
        if reading[1] > 0.0:
            of_pair = [gaussian_of(tables, f, k, reading) for k in columns.tolist()]
            means, variances = zip(*of_pair, strict=True)
            curves.append(curve(name, means, variances))
    prior = _prior(tables, columns, pair)
    return LinearView(pair, prior, _groups(statistics, tables, columns), curves, write)


def _pair(statistics: SufficientStatistics, positive: Any, negative: Any) -> tuple[Any, Any]:
    known = [label for label, k in statistics.classes.items() if statistics.class_weights[k] > 0]
    if negative is None:
        others = [label for label in known if label != positive]
        if len(others) != 1:
            raise ValueError(f"{positive!r} against which class? There are {len(others)} others")
        negative = others[0]
    for label in (positive, negative):
        if label not in known:
            raise ValueError(f"nothing has been learned of a class {label!r}")
    if positive == negative:
        raise ValueError(
            f"the log odds of a class against itself ({positive!r}) are always 0: name another class"
        )
    return positive, negative


def _prior(tables: CountViews, columns: Array, pair: tuple[Any, Any]) -> float:
    weights = relative_weights(tables.classes, tables.prior, tables.prior_mode)
    if not weights.any():  # no class with a given prior has examples: use equal priors
        return 0.0
    positive, negative = weights[columns]
    if positive == negative == 0.0:
        raise ValueError(f"the given priors of both {pair[0]!r} and {pair[1]!r} are zero")
    with np.errstate(divide="ignore"):
        return float(np.log(positive) - np.log(negative))


def _groups(statistics: SufficientStatistics, tables: CountViews, columns: Array) -> list[_Group]:
    size, K = statistics.vocabulary.size, tables.classes.size
    owner = statistics.vocabulary.groups[:size]
    rows = np.flatnonzero((owner >= 0) & tables.table[:size, :K].any(axis=1))
    rows = rows[np.argsort(owner[rows], kind="stable")]
    ends = np.searchsorted(owner[rows], np.arange(tables.kinds.size + 1))
    keys = statistics.vocabulary.keys()
    events = tables.classes[columns] / UNIT
    found = []
    for (kind, name), g in statistics.layout.groups.items():
        mine = rows[ends[g] : ends[g + 1]]
        counts, totals = tables.table[mine[:, None], columns], tables.totals[g, columns]
        values = 2.0 if kind == BERNOULLI else max(float(tables.live[g]), tables.declared[g], 1.0)
        how = smoothing(tables.alpha[g], tables.m[g], tables.p[g], values)
        of_rows = smoothing_of_rows(how, tables, g, mine)
        weights, absent = _weights(kind, counts, totals, of_rows)
        laplace, _ = _weights(kind, counts, totals, smoothing(1.0, -1.0, math.nan, values))
        unmet = LogLimit(0.0, 0.0)
        if tables.live[g] < tables.declared[g]:
            log, misses = log_odds_of_values(np.zeros((1, 2)), totals, how)
            unmet = LogLimit(log.item(), misses.item())
        seen = counts / UNIT
        adds = seen / events * np.stack([laplace.log, -laplace.log], axis=1)
        own = [keys[row] for row in mine.tolist()]
        found.append(_Group(kind, name, own, weights, absent, seen, adds, unmet))
    return found


def _weights(kind: int, counts: Array, totals: Array, how: Any) -> tuple[LogLimit, LogLimit]:
    if kind == BERNOULLI:
        return log_odds_of_presence(counts, totals, how)
    return log_odds_of_values(counts, totals, how), LogLimit(0.0, 0)
