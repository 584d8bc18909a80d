"""What decays in a model, beside what was counted again: clock, epochs, every weight and every moment."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache
from typing import Any

from streamnb.engine.verification.exact.decay import DecayedCount, DecayedMoments, Group, Row
from streamnb.engine.verification.recount.recount import Recount
from streamnb.errors import SnapshotError
from streamnb.model.compiled.arrays import Floats
from streamnb.model.naive_bayes.sufficient_statistics import Statistics

Tell = Callable[[str, Mapping[str, str | int], Any, Any], None]
"""What, where, what was counted, and what was learned."""
_Cell = tuple[str, str]


class DecayComparison:
    """Decayed tables, beside a recount of them.

    Args:
        recount: which counts the same half-lives.
        statistics: of a model.
        rows: the rows of its vocabulary, in order.
    """

    def __init__(self, recount: Recount, statistics: Statistics, rows: Sequence[Row]) -> None:
        self._recount = recount
        self._tables = statistics.decayed.tables
        self._rows = rows
        self._labels = [str(label) for label in statistics.classes]
        self._groups = [(kind, str(name)) for kind, name in statistics.layout.groups]
        self._fields = [str(name) for name in statistics.layout.fields]

    def begin(self) -> None:
        """Let the recount begin with what was learned. Raises SnapshotError for numbers that are none."""
        if not self._recount.decayed:
            return
        clock = self._recount.clock
        clock.first, clock.latest = self._clock()
        for d, decayed in enumerate(self._recount.decayed):
            epoch = decayed.now().epoch
            epochs = self._tables.row_epoch[: len(self._rows), d].tolist()
            if self._tables.epoch[d] != epoch or not all(0 <= e <= epoch for e in epochs):
                raise SnapshotError(f"epochs of the half-life {_shown(decayed)} that are none")
            rows = {
                row: (e, self._row(i, d)) for i, (row, e) in enumerate(zip(self._rows, epochs, strict=True))
            }
            totals, classes, moments = self._totals(d), self._classes(d), self._moments(d)
            weights = [weights for _, weights in rows.values()] + [*totals.values(), classes]
            values = [value for by_class in weights for value in by_class.values()]
            if not all(0.0 <= value < math.inf for value in values):
                raise SnapshotError(f"weights of the half-life {_shown(decayed)} that are none")
            for (name, label), (n, mean, M2) in moments.items():  # noqa: N806
                if not (0.0 < n < math.inf and math.isfinite(mean) and 0.0 <= M2 < math.inf):
                    raise SnapshotError(
                        f"{name!r} of class {label!r} has moments {n}, {mean}, {M2} of the half-life "
                        f"{_shown(decayed)}"
                    )
            decayed.begin_with({row: held for row, held in rows.items() if held[1]}, totals, classes, moments)

    def compare(self, tell: Tell) -> tuple[int, int]:
        """Tell every number that differs; how many weights, and how many cells of moments, are equal."""
        counted, learned = self._recount.clock, self._clock()
        for name, right, found in zip(
            ("first", "latest"), (counted.first, counted.latest), learned, strict=True
        ):
            if right != found:
                tell(f"{name} event time", {}, right, found)
        weights = moments = 0
        for d, decayed in enumerate(self._recount.decayed):
            epoch, found = decayed.now().epoch, int(self._tables.epoch[d])
            if epoch != found:
                tell("epoch", {"half_life": _shown(decayed)}, epoch, found)  # the rest as if it were right
            comparing = _DecayComparing(decayed, tell)
            self._compare_rows(d, comparing)
            for group, by_class in _pairs(decayed.totals, self._totals(d)):
                for label, pair in by_class:
                    additions = decayed.total_additions.get((group, label), 0)
                    comparing.weight("total", {"attribute": group[1], "class": label}, pair, epoch, additions)
            for label, pair in _both(decayed.classes, self._classes(d)):
                comparing.weight("weight", {"class": label}, pair, epoch, decayed.additions.get(label, 0))
            cells = self._moments(d)
            for cell in {**decayed.moments, **cells}:
                comparing.moments(cell, decayed.moments.get(cell), cells.get(cell, (0.0, 0.0, 0.0)))
            weights += comparing.equal_weights
            moments += comparing.equal_moments
        return weights, moments

    def _compare_rows(self, d: int, comparing: _DecayComparing) -> None:
        decayed, seen = comparing.decayed, set()
        epochs = self._tables.row_epoch[:, d]
        for i, row in enumerate(self._rows):
            seen.add(row)
            self._compare_row(comparing, row, self._row(i, d), int(epochs[i]))
        for row in decayed.rows:
            if row not in seen:
                self._compare_row(comparing, row, {}, 0)

    def _compare_row(
        self, comparing: _DecayComparing, row: Row, learned: Mapping[str, float], epoch: int
    ) -> None:
        decayed = comparing.decayed
        place = {"attribute": row[0][1], "value": row[1]}
        if not 0 <= epoch <= decayed.epoch:
            comparing.tell("epoch of a row", {**place, "half_life": _shown(decayed)}, decayed.epoch, epoch)
            return
        for label, pair in _both(decayed.rows.get(row, {}), learned):
            additions = decayed.additions.get(label, 0)
            comparing.weight("count", {**place, "class": label}, pair, epoch, additions)

    def _clock(self) -> tuple[float | None, float | None]:
        first, latest = (None if math.isnan(time) else time for time in self._tables.clock.tolist())
        return first, latest

    def _by_class(self, weights: Floats) -> dict[str, float]:
        """Those that are not zero; a nan is not."""
        found = weights[: len(self._labels)].tolist()
        return {label: weight for label, weight in zip(self._labels, found, strict=True) if weight != 0.0}

    def _row(self, row: int, d: int) -> dict[str, float]:
        return self._by_class(self._tables.table[row, d])

    def _totals(self, d: int) -> dict[Group, dict[str, float]]:
        totals = self._tables.totals[d, : len(self._groups)]
        return {group: self._by_class(by_class) for group, by_class in zip(self._groups, totals, strict=True)}

    def _classes(self, d: int) -> dict[str, float]:
        return self._by_class(self._tables.classes[d])

    def _moments(self, d: int) -> dict[_Cell, tuple[float, float, float]]:
        n, mean, M2 = (array[d].tolist() for array in (self._tables.n, self._tables.mean, self._tables.M2))  # noqa: N806
        return {
            (name, label): (n[f][k], mean[f][k], M2[f][k])
            for f, name in enumerate(self._fields)
            for k, label in enumerate(self._labels)
            if n[f][k] != 0.0 or mean[f][k] != 0.0 or M2[f][k] != 0.0
        }


class _DecayComparing:
    """Tells what differs of one half-life, and counts what does not."""

    def __init__(self, decayed: DecayedCount, tell: Tell) -> None:
        self.decayed = decayed
        self.tell = tell
        self.equal_weights = 0
        self.equal_moments = 0
        self._doubles = cache(decayed.doubles)

    def weight(
        self,
        what: str,
        place: Mapping[str, str | int],
        pair: tuple[Decimal, float],
        epoch: int,
        additions: int,
    ) -> None:
        """A weight, learned in an epoch; told in examples of the latest time."""
        counted, learned = pair
        doubles = self._doubles(epoch)
        if doubles.is_close(counted, learned, additions):
            self.equal_weights += 1
            return
        told = self.decayed.worth(doubles.since(learned)) if math.isfinite(learned) else learned
        kind = f"{self.decayed.name}: {what}"
        self.tell(kind, {**place, "half_life": _shown(self.decayed)}, self.decayed.worth(counted), told)

    def moments(
        self, cell: _Cell, counted: DecayedMoments | None, learned: tuple[float, float, float]
    ) -> None:
        """Moments of one continuous attribute within one class."""
        now = self.decayed.now()
        place = {"attribute": cell[0], "class": cell[1], "half_life": _shown(self.decayed)}
        n, *values = learned
        if counted is None:
            counted = DecayedMoments()
        counted.age(now)
        if not now.is_close(counted.weight, n, counted.additions):
            told = self.decayed.worth(now.since(n)) if math.isfinite(n) else n
            self.tell("forgetting weight", place, self.decayed.worth(counted.weight), told)
            return
        exact = (float(counted.mean), float(counted.spread(now))) if counted.weight else (0.0, 0.0)
        close = (
            counted.are_close(values[0], values[1], now)
            if counted.weight
            else tuple(v == 0.0 for v in values)
        )
        for what, value, right, is_close in zip(("mean", "M2"), values, exact, close, strict=True):
            if not is_close:
                self.tell(f"forgetting {what}", place, right, value)
        self.equal_moments += all(close) and n > 0.0


def _both(
    counted: Mapping[str, Decimal], learned: Mapping[str, float]
) -> Iterator[tuple[str, tuple[Decimal, float]]]:
    for label in {**counted, **learned}:
        yield label, (counted.get(label, Decimal(0)), learned.get(label, 0.0))


def _pairs(
    counted: Mapping[Group, Mapping[str, Decimal]], learned: Mapping[Group, Mapping[str, float]]
) -> Iterator[tuple[Group, Iterator[tuple[str, tuple[Decimal, float]]]]]:
    for group in {**counted, **learned}:
        yield group, _both(counted.get(group, {}), learned.get(group, {}))


def _shown(decayed: DecayedCount) -> str:
    return f"{decayed.half_life:g}s"
