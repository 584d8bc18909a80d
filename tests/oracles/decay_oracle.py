r"""What decays in a model, counted once more with fifty digits, and how far doubles may lie from it.

An event of weight w, learned at time t, counts w 2^((t - t0) / h) for ever, and whoever reads at time T
divides by 2^((T - t0) / h). Sums of these weights are kept as decimal numbers, whose exponents have no end:
nothing has to be brought into a new epoch. Which epoch a time falls into is a matter of rounding at its edge,
and so it is told as doubles tell it; but for what decays altogether, no number depends on it.

How far learned numbers may be from these, with u = 2^-53:

    weight   The half-lives gone, g = (t - t0) / h, are rounded twice, and 2^g is wrong by a factor of at most
             2^(2 u g). Then there are 4 u more, of the power (one unit in the last place) and of its products
             with the weight and with how often a word occurs; and u for each of n additions of what is not
             negative. Bringing a number into an epoch multiplies it by a power of two, which is exact unless
             it underflows, by at most 2^-1074.
                                         |error| <= (exp(2 u g ln 2 + (n + 8) u) - 1) value + (n + 8) 2^-1074
    mean     With m = mean + e, and a = w / W' known to a relative c = (1 + p)(1 + u)^3 / (1 - r) - 1 for
             weights known to p and their sum to r, one update is m' = (m + (x - m) a (1 + c))(1 + u), so that
                                         |e'| <= ((1 - a)|e| + a (|x - mean| + |e|) c)(1 + u) + u |mean'|
    M2       Its increment w (x - m)(x - m') is wrong by w (|x - mean||e'| + |e||x - mean'| + |e e'|) and by
             the relative error (1 + p)(1 + u)^4 - 1 of its factors; the sum is rounded once.

Bounds of mean and M2 are carried along with the sums, and age as they do, so that a value of long ago widens
them no more than it still counts. They are evaluated in doubles, with a part in 2^48 added for that. The
decimals' own rounding is covered by a relative 1e-40, which is far below u^2.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from itertools import product
from typing import NamedTuple

import numpy as np

from streamnb.values.attribute_kinds import CONTINUOUS
from streamnb.values.example_weights import UNIT
from streamnb.values.nominal_values import LARGEST
from streamnb.verification.recount.event_recount import Group, Recount, Row

_DIGITS = Context(prec=50, Emax=MAX_EMAX, Emin=MIN_EMIN)
_LN2 = _DIGITS.ln(Decimal(2))
_OWN = Decimal("1e-40")
_ROUNDING = 2.0**-53
_LEAST = 2.0**-1074
_EVALUATED = 1.0 + 2.0**-48
_EPOCH = 32  # half-lives
_LATEST = 2.0**52  # half-lives that time goes on for
_LEAST_WEIGHT = 1e-200  # a weight of moments below it, at the beginning of an epoch, is none


def _power(exponent: Decimal) -> Decimal:
    """2^exponent."""
    return _DIGITS.exp(_DIGITS.multiply(exponent, _LN2))


class Clock:
    """The time of the learned events: it never goes back.

    Attributes:
        first: the first event time learned, seconds; None before there was one.
        latest: the largest.
    """

    def __init__(self) -> None:
        self.first: float | None = None
        self.latest: float | None = None

    def learn(self, time: float | None) -> None:
        """An event of this time is learned; of None it is one of now."""
        if time is None:
            return
        if self.first is None or self.latest is None:
            self.first = self.latest = time
        self.latest = max(self.latest, time)


class Doubles(NamedTuple):
    """What is known of the doubles in which weights were learned.

    Attributes:
        wrong: half-lives by which the time of a weight may be wrong.
        epoch: in which they are told.
        scale: what a weight of the beginning of time is multiplied by to be told in this epoch.
    """

    wrong: float
    epoch: int
    scale: Decimal

    def relative(self, additions: int) -> float:
        """How far a sum of so many weights may be from the exact one, relatively; without any it is exact."""
        if additions == 0:
            return 0.0
        return math.expm1(self.wrong * math.log(2.0) + (additions + 8) * _ROUNDING)

    def is_close(self, exact: Decimal, learned: float, additions: int) -> bool:
        """Whether a learned sum of weights is as near to the exact one as rounding has to leave it."""
        told = self.told(exact)
        bound = _DIGITS.multiply(told, _DIGITS.add(Decimal(self.relative(additions)), _OWN))
        least = Decimal((additions + 8) * _LEAST)
        return _is_within(learned, told, _DIGITS.add(bound, least))

    def told(self, weight: Decimal) -> Decimal:
        """A weight in this epoch."""
        return _DIGITS.multiply(weight, self.scale)


class DecayedMoments:
    """Weight, sum and sum of squares of the values of one continuous attribute within one class.

    Attributes:
        weight: in units of 1/1024 example at the beginning of time.
        additions: how many values were added.
    """

    __slots__ = ("_epoch", "_far", "_first", "_second", "_spread_far", "additions", "weight")

    def __init__(self) -> None:
        self._epoch = 0
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.weight = self._first = self._second = Decimal(0)
        self.additions = 0
        self._far = 0.0  # bound of the learned mean's error
        self._spread_far = 0.0  # of that of M2, in the cell's epoch

    def add(self, x: float, weight: Decimal, doubles: Doubles) -> None:
        """Add `x`, finite, with a weight of the beginning of time."""
        self.age(doubles)
        value, before = Decimal(x), self.weight
        deviation = abs(_DIGITS.subtract(value, self.mean)) if before else Decimal(0)
        first = _DIGITS.multiply(weight, value)
        self.weight = _DIGITS.add(before, weight)
        self._first = _DIGITS.add(self._first, first)
        self._second = _DIGITS.fma(first, value, self._second)
        self.additions += 1
        if before:
            stays, comes = (float(_DIGITS.divide(part, self.weight)) for part in (before, weight))
            self._widen(float(deviation), x, stays, comes, float(doubles.told(weight)) / UNIT, doubles)

    def age(self, doubles: Doubles) -> None:
        """Let it be another epoch: hardly anything decays altogether."""
        gone = doubles.epoch - self._epoch
        if gone > 0:
            if doubles.told(self.weight) < _LEAST_WEIGHT:
                self._begin_anew()
            self._spread_far = math.ldexp(self._spread_far, -_EPOCH * min(gone, 40)) + _LEAST
            self._epoch = doubles.epoch

    @property
    def mean(self) -> Decimal:
        """The mean; there is a weight."""
        return _DIGITS.divide(self._first, self.weight)

    @property
    def M2(self) -> Decimal:  # noqa: N802  the symbol of the formula
        """The sum of squared deviations from the mean, in units at the beginning of time."""
        return _DIGITS.subtract(self._second, _DIGITS.multiply(self._first, self.mean))

    def spread(self, doubles: Doubles) -> Decimal:
        """M2 in examples of this epoch."""
        return _DIGITS.divide(doubles.told(self.M2), Decimal(UNIT))

    def are_close(self, mean: float, M2: float, doubles: Doubles) -> tuple[bool, bool]:
        """Whether a learned mean and M2 are as near as rounding has to leave them. It is the cells' epoch."""
        middle = _DIGITS.sqrt(_DIGITS.divide(self._second, self.weight))
        squares = _DIGITS.divide(doubles.told(self._second), Decimal(UNIT))
        bounds = [
            _DIGITS.fma(own, _OWN, Decimal(far))
            for own, far in ((middle, self._far), (squares, self._spread_far))
        ]
        return _is_within(mean, self.mean, bounds[0]), _is_within(M2, self.spread(doubles), bounds[1])

    def _widen(
        self, deviation: float, x: float, stays: float, comes: float, weight: float, doubles: Doubles
    ) -> None:
        """Carry the bounds along an update; see the module's text for the letters."""
        u, r, p = _ROUNDING, doubles.relative(self.additions), doubles.relative(1)
        if not r < 0.5 or math.isinf(self._far):  # times so large that nothing is known of weights
            self._far = self._spread_far = math.inf
            return
        c = (p + 4.0 * u * (1.0 + p) + r) / (1.0 - r)
        factors = p + 5.0 * u * (1.0 + p)
        mean, far = self.mean, self._far
        after = abs(float(_DIGITS.subtract(Decimal(x), mean)))
        wrong = (stays * far + comes * (deviation + far) * c) * (1.0 + u) + u * abs(float(mean)) + _LEAST
        self._far = wrong = wrong * _EVALUATED
        increment = deviation * wrong + far * after + far * wrong
        increment += factors * (deviation + far) * (after + wrong)
        added = weight * increment + _LEAST * (2.0 + after + wrong)
        spread = u * abs(float(self.spread(doubles)))
        self._spread_far = ((self._spread_far + added) * (1.0 + u) + spread) * _EVALUATED


class DecayedCount:
    """Counts and moments of one half-life, in units of 1/1024 example at the beginning of time.

    Args:
        half_life: seconds.
        presence: whether texts that hold a word are counted, rather than words.
        clock: the time of the learned events, which somebody else moves.

    Attributes:
        rows: (group, word or value) -> class -> weight.
        totals: group -> class -> sum over its rows.
        classes: class -> weight.
        moments: (continuous attribute, class) -> sums.
        additions: class -> how many events were added.
        total_additions: (group, class) -> how many weights were added.
    """

    def __init__(self, half_life: float, clock: Clock, *, presence: bool) -> None:
        self.half_life = half_life
        self.presence = presence
        self.clock = clock
        self.rows: dict[Row, dict[str, Decimal]] = {}
        self.totals: dict[Group, dict[str, Decimal]] = defaultdict(dict)
        self.classes: dict[str, Decimal] = {}
        self.moments: dict[tuple[str, str], DecayedMoments] = defaultdict(DecayedMoments)
        self.additions: dict[str, int] = defaultdict(int)
        self.total_additions: dict[tuple[Group, str], int] = defaultdict(int)
        self._wrong = 0.0
        self._weight = self._now = Decimal(1)
        self._read: float | None = None
        self.epoch = 0
        self._doubles = self.doubles(0)

    def now(self) -> Doubles:
        """In the present epoch."""
        self._look()
        return self._doubles

    def doubles(self, epoch: int) -> Doubles:
        """In an epoch."""
        return Doubles(self._wrong, epoch, _power(Decimal(-_EPOCH * epoch)))

    def worth(self, weight: Decimal) -> float:
        """What a weight counts at the latest time, in examples."""
        self._look()
        return float(_DIGITS.divide(weight, self._now)) / UNIT

    def begin(self, label: str, weight: int) -> None:
        """An event of a class and so many units is learned; its attributes follow."""
        self._look()
        self._weight = _DIGITS.multiply(Decimal(weight), self._now)
        self.additions[label] += 1
        _add(self.classes, label, self._weight)

    def count(self, row: Row, label: str, times: int) -> None:
        """It has a word so many times, or a value."""
        change = self._weight if self.presence else _DIGITS.multiply(self._weight, Decimal(times))
        _add(self.rows.setdefault(row, {}), label, change)
        _add(self.totals[row[0]], label, change)
        self.total_additions[row[0], label] += 1

    def value(self, name: str, label: str, x: float) -> None:
        """It has a number."""
        self.moments[name, label].add(x, self._weight, self._doubles)

    def drop(self, rows: Iterable[Row]) -> None:
        """Forget these words; totals are then the sums of what is left, added up anew."""
        for row in rows:
            self.rows.pop(row, None)
        self.totals.clear()
        self.total_additions.clear()
        for (group, _), by_class in self.rows.items():
            for label, weight in by_class.items():
                _add(self.totals[group], label, weight)
                self.total_additions[group, label] += 1
        for group, label in self.total_additions:  # a row's own are the events of its class at most
            self.total_additions[group, label] += self.additions[label]

    def _look(self) -> None:
        """Look at the clock."""
        first, latest = self.clock.first, self.clock.latest
        if first is None or latest is None or latest == self._read:
            return
        self._read = latest
        gone = _DIGITS.divide(_DIGITS.subtract(Decimal(latest), Decimal(first)), Decimal(self.half_life))
        if gone < _LATEST * (1.0 + 2.0**-50):  # beyond, time stands still, to the last bit
            self._wrong = 2.001 * _ROUNDING * float(gone)
        self._now = _power(min(gone, Decimal(_LATEST)))
        self.epoch = int(min((latest - first) / self.half_life, _LATEST) / _EPOCH)
        self._doubles = self.doubles(self.epoch)


def _add(sums: dict[str, Decimal], label: str, weight: Decimal) -> None:
    before = sums.get(label)
    sums[label] = weight if before is None else _DIGITS.add(before, weight)


def _is_within(value: float, exact: Decimal, bound: Decimal) -> bool:
    return math.isfinite(value) and abs(_DIGITS.subtract(Decimal(value), exact)) <= bound


class DecayingRecount(Recount):
    """A recount that counts what decays, too.

    Attributes:
        clock: event time.
        decayed: counts and moments that decay, in the order of the sources; none before an event was learned.
    """

    def __init__(self):
        super().__init__()
        self.clock, self.decayed = Clock(), []

    def learn(self, event, label, weight, plan):
        if weight and not self.events:
            self.decayed = [DecayedCount(h, self.clock, presence=p) for h, p in plan.sources.decays]
        if weight:
            self.clock.learn(event.ts)
        for decayed in self.decayed if weight else ():
            decayed.begin(label, weight)
            for name, value in event.x.items():
                if plan.kind(name, value) == CONTINUOUS:
                    decayed.value(name, label, min(max(float(value), -LARGEST), LARGEST))
        super().learn(event, label, weight, plan)

    def _count(self, group, words, change):
        for word, times in Counter(words).items():
            for decayed in () if (group, word) in self.stopped else self.decayed:
                decayed.count((group, word), change.label, times)
        super()._count(group, words, change)

    def prune(self, pruning):
        before = list(self.rows)
        super().prune(pruning)
        for decayed in self.decayed:
            decayed.drop([row for row in before if row not in self.rows])


def decayed_otherwise(recount, statistics):
    """What is further from the exact numbers than rounding has to leave it, and where: table, name and class."""
    tables = statistics.decayed.tables
    clock = [np.nan if time is None else time for time in (recount.clock.first, recount.clock.latest)]
    if not np.array_equal(tables.clock, clock, equal_nan=True):
        yield "clock", ()
    for d, decayed in enumerate(recount.decayed):
        now = decayed.now().epoch
        if tables.epoch[d] != now:
            yield "epoch", (d,)
        for what, name, exact, learned, epoch, additions in _weights(statistics, d, decayed):
            if not 0 <= epoch <= now:
                yield "epoch of a row", (d, name)
                continue
            for label, k in statistics.classes.items():
                weight = exact.get(label, Decimal(0))
                if not decayed.doubles(epoch).is_close(weight, float(learned[k]), additions[label]):
                    yield what, (d, name, label)
        for name, label in product(statistics.layout.fields, statistics.classes):
            place = d, statistics.layout.fields[name], statistics.classes[label]
            if not _are_close(
                decayed, (name, label), *(float(a[place]) for a in (tables.n, tables.mean, tables.M2))
            ):
                yield "moments", (d, name, label)


def _weights(statistics, d, decayed):
    """Of classes, rows and totals: kind, name, the exact ones by class, those learned, their epoch, and additions."""
    tables, now = statistics.decayed.tables, decayed.now().epoch
    groups, vocabulary = list(statistics.layout.groups), statistics.vocabulary
    yield "class", "", decayed.classes, tables.classes[d], now, decayed.additions
    owners = vocabulary.groups[: vocabulary.size].tolist()
    for i, (g, key) in enumerate(zip(owners, vocabulary.keys(), strict=True)):
        row, epoch = (groups[g if g >= 0 else ~g], key.decode()), int(tables.row_epoch[i, d])
        yield "row", row[1], decayed.rows.get(row, {}), tables.table[i, d], epoch, decayed.additions
    for i, group in enumerate(groups):
        additions = {label: decayed.total_additions[group, label] for label in statistics.classes}
        yield "total", group[1], decayed.totals.get(group, {}), tables.totals[d, i], now, additions


def _are_close(decayed, cell, n, mean, M2):
    now, exact = decayed.now(), decayed.moments[cell]
    exact.age(now)
    if not exact.weight:
        return n == mean == M2 == 0.0
    return now.is_close(exact.weight, n, exact.additions) and all(exact.are_close(mean, M2, now))
