"""Targets of events: labels, weights and times."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, repeat
from typing import Any, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.values.example_weights import HEAVIEST, UNIT, units, warn_of_small_weight
from streamnb.values.number_ranges import is_missing
from streamnb.values.type_aliases import Flags, Times, Weights


class Targets(NamedTuple):
    """The targets of n events: labels, weights and times.

    Attributes:
        labels: the classes; an event without a label (None, or a number that is not finite) is not learned.
        weights: int64[n] in units; an event of weight 0 is not learned.
        times: float64[n] in seconds, nan if unknown.
    """

    labels: list[Any]
    weights: Ints
    times: Floats

    @classmethod
    def from_labels(
        cls, n: int, labels: Iterable[Any] | None, weights: Weights = None, times: Times = None
    ) -> Targets:
        """Return the targets of n events; by default they have no label, the weight 1 and no time.

        Raises ValueError if there are not n of each, or a weight lies out of range.
        """
        ys, ws, ts = (None if column is None else list(column) for column in (labels, weights, times))
        for column in (ys, ws, ts):
            if column is not None and len(column) != n:
                raise ValueError(f"{n} events, but {len(column)} labels, weights or times")
        targets = cls([None] * n if ys is None else ys, np.full(n, UNIT), np.full(n, np.nan))
        if ws is not None and not (set(map(type, ws)) <= {float} and ws.count(1.0) == n):
            targets.weights[:] = _units(ws)
        if ts is not None and set(map(type, ts)) == {float}:
            seconds = np.array(ts, dtype=np.float64)
            targets.times[:] = np.where(np.isfinite(seconds), seconds, np.nan)
        elif ts is not None and any(time is not None for time in ts):
            targets.times[:] = [_seconds(time) for time in ts]
        return targets

    def chosen(self, flags: Flags) -> Targets:
        """Return the targets of the events with a flag."""
        return Targets(list(compress(self.labels, flags)), self.weights[flags], self.times[flags])

    def columns(self, classes: dict[Any, int]) -> tuple[Ints, Ints, Flags]:
        """Return for each event its class column (-1: not learned), the number of known classes, and a flag.

        The flag is true if the event is learned. New classes are added in order. Raises TypeError, before
        that, for a label that cannot be hashed.
        """
        n = len(self.labels)
        if self.labels.count(None) == n:
            return np.full(n, -1), np.full(n, len(classes)), np.zeros(n, dtype=np.bool_)
        found = np.fromiter(map(classes.get, self.labels, repeat(-1)), dtype=np.int64, count=n)
        if found.min() >= 0 and self.weights.all():  # all are learned, and their classes known
            return found, np.full(n, len(classes)), np.ones(n, dtype=np.bool_)
        if set(map(type, self.labels)) == {str} and self.weights.all():  # all are learned
            before = len(classes)
            columns = np.array([classes.setdefault(label, len(classes)) for label in self.labels])
            known = np.maximum.accumulate(np.append(before, columns[:-1] + 1))
            return columns, known, np.ones(n, dtype=np.bool_)
        counts, column = [], []
        for label, weight in zip(self.labels, self.weights.tolist(), strict=True):
            counts.append(len(classes))
            adds = weight > 0 and not is_missing(label)
            column.append(classes.setdefault(label, len(classes)) if adds else -1)
        columns = np.array(column, dtype=np.int64)
        return columns, np.array(counts, dtype=np.int64), columns >= 0


class EncodedExamples(NamedTuple):
    """The events of a list that were learned, with a label and a weight, and that can be unlearned.

    Attributes:
        xs, labels: of each event.
        weights: int64[n] in units, above zero.
        prunings: int64[n], how many prunings preceded its learning; None if not given.
    """

    xs: list[Any]
    labels: list[Any]
    weights: Ints
    prunings: Ints | None

    @classmethod
    def from_examples(
        cls, xs: Iterable[Any], ys: Iterable[Any], ws: Weights, prunings: Iterable[int] | None
    ) -> EncodedExamples:
        """Return the learned ones of n events. Raises ValueError for a wrong length or weight."""
        events = list(xs)
        labels, weights, _ = Targets.from_labels(len(events), list(ys), ws)
        numbers = None if prunings is None else np.fromiter(prunings, dtype=np.int64)
        if numbers is not None and numbers.size != len(events):
            raise ValueError(f"{len(events)} events, but {numbers.size} numbers of prunings")
        taught = [e for e, y in enumerate(labels) if weights[e] and not is_missing(y)]
        chosen = [events[e] for e in taught], [labels[e] for e in taught]
        return cls(*chosen, weights[taught], None if numbers is None else numbers[taught])

    def each(self) -> Iterator[tuple[Any, Any, float, int | None]]:
        """Yield event, label, weight in examples, and number of prunings."""
        numbers = repeat(None) if self.prunings is None else self.prunings.tolist()
        for x, y, weight, number in zip(self.xs, self.labels, self.weights.tolist(), numbers, strict=False):
            yield x, y, weight / UNIT, number


def _units(weights: Sequence[float]) -> Ints | list[int]:
    if set(map(type, weights)) == {float}:
        given = np.array(weights)
        if ((given >= 0.0) & (given <= HEAVIEST)).all():
            rounded: Ints = np.rint(given * UNIT).astype(np.int64)  # to even, as `round`
            is_small = (given > 0.0) & (given < 1.0 / UNIT)
            if is_small.any():
                warn_of_small_weight()
                rounded[is_small] = 1
            return rounded
    return list(map(units, weights))


def _seconds(time: float | None) -> float:
    try:
        seconds = math.nan if time is None else float(time)
    except OverflowError:  # an integer beyond every double
        return math.nan
    return seconds if math.isfinite(seconds) else math.nan
