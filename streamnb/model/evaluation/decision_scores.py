"""What decisions turned out to be worth: their mean cost, how many there were, how many of them were right.

What is kept are counts of (truth, decision), and what was decided of events that wait for their labels. So
each event is scored by what was decided when it was served, a label that is taken back leaves no trace, and
costs are those of one rule: under another one it begins anew.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from streamnb.errors import SnapshotError
from streamnb.events import DecisionReport, DecisionScores
from streamnb.model.attributes.expected import checked, count, reading, whole
from streamnb.model.attributes.signatures import Array, State
from streamnb.model.evaluation.decisions import DecisionRule

_NOTHING = -1  # in place of the number of a decision
_Cell = tuple[str, str | None]


class ServedDecisions:
    """Scores of all decisions, and of the last `window_size` events that got a first label.

    Args:
        rule: by which it is decided.
        window_size: >= 1.

    Attributes:
        first: number of the first event that may wait for its label; those before are passed over.
    """

    def __init__(self, rule: DecisionRule, window_size: int) -> None:
        self.rule, self.window_size, self.first = rule, window_size, 0
        self._served: list[str | None] = []  # of the events from there on
        self._cells: Counter[_Cell] = Counter()
        self._window: dict[int, _Cell | None] = {}  # in the order of first labels; None was taken back

    @property
    def next(self) -> int:
        """Number of the next event."""
        return self.first + len(self._served)

    def begin(self, number: int) -> None:
        """The next event has this number, and none waits."""
        self._window = {place + number - self.next: cell for place, cell in self._window.items()}
        self.first, self._served = number, []

    def forget(self, before: int) -> None:
        """Events with smaller numbers do not wait."""
        gone = max(0, before - self.first)
        del self._served[:gone]
        self.first += gone

    def serve(self, decisions: Iterable[str | None]) -> None:
        """This was decided of the next events."""
        self._served += decisions

    def add(self, decisions: Sequence[str | None], truths: Sequence[str | None]) -> None:
        """This was decided of the next events, whose labels came with them: those without one never wait."""
        first = self.next
        self.serve(decisions)
        self.judge(range(first, self.next), truths)
        self.forget(self.next)

    def judge(self, numbers: Sequence[int], truths: Sequence[str | None]) -> None:
        """Count events that wait, and got their first labels; None is none."""
        for number, truth in zip(numbers, truths, strict=True):
            if number >= self.first and truth is not None:
                cell = self._window[number] = truth, self._served[number - self.first]
                self._cells[cell] += 1
                if len(self._window) > self.window_size:
                    del self._window[next(iter(self._window))]

    def replace(self, number: int, before: str | None, after: str | None) -> None:
        """Another label holds of an event that was counted; None is none."""
        if number < self.first:
            return
        decision = self._served[number - self.first]
        if before is not None:
            self._cells[before, decision] -= 1
        if after is not None:
            self._cells[after, decision] += 1
        if number in self._window:
            self._window[number] = None if after is None else (after, decision)

    def report(self) -> DecisionReport:
        """The scores as they stand."""
        window = Counter(cell for cell in self._window.values() if cell)
        return DecisionReport(self._scores(self._cells), self._scores(window))

    def _scores(self, cells: Counter[_Cell]) -> DecisionScores:
        """As means; sums are exact, so that the order of cells does not matter."""
        events = cells.total()
        decided = sum(n for (_, decision), n in cells.items() if decision is not None)
        right = sum(n for (truth, decision), n in cells.items() if decision == truth)
        cost = math.fsum(n * self.rule.cost(decision, truth) for (truth, decision), n in cells.items())
        return DecisionScores(
            events=events,
            mean_cost=cost / max(1, events),
            coverage=decided / max(1, events),
            accuracy=right / decided if decided else None,
        )

    def state(self) -> State:
        """Everything, as JSON-able values and an array; equal scores give equal bytes."""
        names = sorted({one for one in self._served if one is not None})
        number = {name: k for k, name in enumerate(names)} | {None: _NOTHING}
        cells = [[*cell, n] for cell, n in self._cells.items() if n]
        meta = {
            "rule": msgspec.to_builtins(self.rule),
            "window_size": self.window_size,
            "first": self.first,
            "cells": sorted(cells, key=lambda row: (row[0], row[1] is not None, row[1] or "")),
            "window": [[place, *(cell or ())] for place, cell in self._window.items()],
            "names": names,
        }
        return meta, {"served": np.array([number[one] for one in self._served], dtype=np.int32)}

    @classmethod
    @reading("scores of decisions", ValueError, msgspec.ValidationError)
    def from_state(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> ServedDecisions:
        """The object that `state` described. Raises SnapshotError where it is none."""
        rule = msgspec.convert(meta["rule"], DecisionRule)
        made = cls(rule, count(meta, "window_size", least=1))
        made.first = count(meta, "first")
        names = [*msgspec.convert(meta["names"], list[str]), None]
        expected = {"served": whole("events", low=_NOTHING, high=len(names) - 2, dtype=np.int32)}
        made._served = [names[k] for k in checked(arrays, expected)["served"].tolist()]
        for truth, decision, n in msgspec.convert(meta["cells"], list[tuple[str, str | None, int]]):
            made._cells[truth, decision] = n
        if min(made._cells.values(), default=1) < 1:
            raise SnapshotError("cells: expected counts of 1 or more")
        for place, *cell in meta["window"]:
            made._window[int(place)] = msgspec.convert(cell, tuple[str, str | None]) if cell else None
        return made
