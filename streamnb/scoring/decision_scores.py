"""Scores of decisions: their mean cost, coverage and accuracy.

The state holds counts of (truth, decision), and the decisions on events that wait for their labels. Therefore
each event is scored by the decision when it was served, a revoked label leaves no trace, and costs follow one
rule: a change of the rule resets the scores. The labelled events also give the typicality of events and the
recent class frequencies: each scored event counts once, whatever its weight.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import msgspec
import numpy as np

from streamnb.errors import SnapshotError
from streamnb.events import DecisionReport, DecisionScores
from streamnb.kernels.array_types import Floats
from streamnb.scoring.decision_rule import DecisionBatch, DecisionRule, PosteriorBatch
from streamnb.scoring.typicality import NO_EVIDENCE, Evidence, Typicality, rounded
from streamnb.values.state_validation import ExpectedArray, checked, count, real, state_errors, whole
from streamnb.values.type_aliases import Array, State

_NOTHING = -1  # in place of the number of a decision
_Cell = tuple[str, str | None]


class DecisionCell(msgspec.Struct, frozen=True):
    """Labelled events with one truth and one decision.

    Attributes:
        truth: the label.
        decision: the decided class; None if nothing was decided.
        events: their number.
        cost: the cost of each.
    """

    truth: Any
    decision: Any
    events: int
    cost: float


class ServedDecisions:
    """Scores of all decisions, and of the last `window_size` events with a first label.

    Args:
        rule: the decision rule.
        window_size: >= 1.

    Attributes:
        first: number of the first event that may wait for its label; earlier events are skipped.
        usual: the evidence of labelled events.
    """

    def __init__(self, rule: DecisionRule, window_size: int) -> None:
        self.rule, self.window_size, self.first = rule, window_size, 0
        self.usual = Typicality()
        self._served: list[str | None] = []  # decisions from `first` on
        self._evidence = array("f")  # evidence from `first` on, if the rule uses novelty
        self._cells: Counter[_Cell] = Counter()
        self._window: dict[int, _Cell | None] = {}  # in the order of first labels; None was taken back

    @property
    def next(self) -> int:
        """Number of the next event."""
        return self.first + len(self._served)

    def begin(self, number: int) -> None:
        """Set the number of the next event; none waits."""
        self._window = {place + number - self.next: cell for place, cell in self._window.items()}
        self.first, self._served, self._evidence = number, [], array("f")

    def forget(self, before: int) -> None:
        """Stop waiting for events with smaller numbers."""
        gone = max(0, before - self.first)
        del self._served[:gone]
        del self._evidence[:gone]
        self.first += gone

    def decide(
        self,
        said: PosteriorBatch,
        unseen: Floats,
        weights: Floats | None = None,
        truths: Sequence[str | None] = (),
    ) -> DecisionBatch:
        """Return the decisions for the next n events, without a change of state.

        Args:
            said: predictions of the model.
            unseen: shape (n,), u.
            weights: as of `weights_before`, for a rule that `is_weighing`.
            truths: labels known on arrival: each counts before the next event is decided.
        """
        newest = None
        if self.rule.window_size and weights is not None:
            newest = self._newest_before(said.classes, truths, len(unseen))
        decided = self.rule.decide(said, unseen, weights, newest)
        if not (self.rule.novelty and said.evidence is not None):
            return decided
        return self._without_novel(decided, rounded(said.evidence), truths)

    def _without_novel(
        self, decided: DecisionBatch, evidence: Evidence, truths: Sequence[str | None]
    ) -> DecisionBatch:
        labels, costs, usual = list(decided.labels), list(decided.costs), self.usual.copy()
        shares: list[float | None] = [None] * len(labels)
        for i, (fit, truth) in enumerate(zip_longest(evidence.tolist(), truths)):
            label = labels[i]
            if label is not None and fit != NO_EVIDENCE:
                shares[i] = share = usual.share(label, fit)
                if share <= self.rule.novelty:
                    labels[i], costs[i] = None, self.rule.cost(None, None)
            if truth is not None:
                usual.learn(truth, fit)
        return DecisionBatch(
            labels, costs, shares, evidence, self.rule.novelty, decided.choices, decided.least
        )

    def _newest_before(self, classes: Sequence[Any], truths: Sequence[str | None], n: int) -> Floats:
        """Return the newest labelled events of each class, before each of n events. Shape (n, K)."""
        column = {label: k for k, label in enumerate(classes)}
        most = self.rule.window_size
        judged = [cell and cell[0] for cell in self._window.values()][-most:]
        change = np.zeros((n, len(classes)))
        for label, many in Counter(judged).items():
            if label in column:
                change[0, column[label]] += many
        for i, truth in enumerate(truths[: n - 1], 1):
            if truth is not None:
                judged.append(truth)
                gone = judged[-most - 1] if len(judged) > most else None
                for label, one in ((truth, 1.0), (gone, -1.0)):
                    if label in column:
                        change[i, column[label]] += one
        return np.cumsum(change, axis=0)

    def serve(self, decided: DecisionBatch) -> None:
        """Store the decisions on the next events."""
        self._served += decided.labels
        if self.rule.novelty:
            missing = len(decided.labels) - decided.evidence.size  # all of them, if any
            self._evidence.extend([*decided.evidence.tolist(), *[NO_EVIDENCE] * missing])

    def add(self, decided: DecisionBatch, truths: Sequence[str | None]) -> None:
        """Store the decisions on events that arrived with labels; an event without one never waits."""
        first = self.next
        self.serve(decided)
        self.judge(range(first, self.next), truths)
        self.forget(self.next)

    def judge(self, numbers: Sequence[int], truths: Sequence[str | None]) -> None:
        """Count waiting events that got their first labels; None means no label."""
        for number, truth in zip(numbers, truths, strict=True):
            if number >= self.first and truth is not None:
                cell = self._window[number] = truth, self._served[number - self.first]
                self._cells[cell] += 1
                if self.rule.novelty:
                    self.usual.learn(truth, self._evidence[number - self.first])
                if len(self._window) > max(self.window_size, self.rule.window_size):
                    del self._window[next(iter(self._window))]

    def replace(self, number: int, before: str | None, after: str | None) -> None:
        """Replace the label of an event that was counted; None means no label."""
        if number < self.first:
            return
        decision = self._served[number - self.first]
        for label, one, note in ((before, -1, self.usual.forget), (after, 1, self.usual.learn)):
            if label is not None:
                self._cells[label, decision] += one
                if self.rule.novelty:
                    note(label, self._evidence[number - self.first])
        if number in self._window:
            self._window[number] = None if after is None else (after, decision)

    @property
    def cells(self) -> list[DecisionCell]:
        """Labelled events by truth and decision, in the order of their names; no decision comes last."""
        cells = [(truth, decision, n) for (truth, decision), n in self._cells.items() if n]
        cells.sort(key=lambda cell: (str(cell[0]), cell[1] is None, str(cell[1])))
        return [DecisionCell(*cell, self.rule.cost(cell[1], cell[0])) for cell in cells]

    def report(self) -> DecisionReport:
        """Return the current scores."""
        window = Counter(cell for cell in list(self._window.values())[-self.window_size :] if cell)
        return DecisionReport(self._scores(self._cells), self._scores(window))

    def _scores(self, cells: Counter[_Cell]) -> DecisionScores:
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
        """Return everything as JSON-able values and an array; equal scores give equal bytes."""
        names = sorted({one for one in self._served if one is not None})
        number = {name: k for k, name in enumerate(names)} | {None: _NOTHING}
        cells = [[*cell, n] for cell, n in self._cells.items() if n]
        meta = {
            "rule": _of_rule(self.rule),
            "window_size": self.window_size,
            "first": self.first,
            "cells": sorted(cells, key=lambda row: (row[0], row[1] is not None, row[1] or "")),
            "window": [[place, *(cell or ())] for place, cell in self._window.items()],
            "names": names,
        }
        arrays: dict[str, Array] = {"served": np.array([number[one] for one in self._served], dtype=np.int32)}
        if self.rule.novelty:
            meta["usual"], arrays["usual"] = self.usual.state()
            arrays["evidence"] = np.array(self._evidence, dtype=np.float32)
        return meta, arrays

    @classmethod
    @state_errors("scores of decisions", ValueError, msgspec.ValidationError)
    def from_state(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> ServedDecisions:
        """Return the object that `state` described. Raises SnapshotError if it is invalid."""
        rule = msgspec.convert(meta["rule"], DecisionRule)
        made = cls(rule, count(meta, "window_size", least=1))
        made.first = count(meta, "first")
        names = [*msgspec.convert(meta["names"], list[str]), None]
        expected = {"served": whole("events", low=_NOTHING, high=len(names) - 2, dtype=np.int32)}
        if rule.novelty:
            expected["usual"] = real("usual", dtype=np.float32)
            expected["evidence"] = ExpectedArray(np.float32, ("events",), -NO_EVIDENCE, NO_EVIDENCE)
        found = checked(arrays, expected)
        made._served = [names[k] for k in found["served"].tolist()]
        if rule.novelty:
            sizes = msgspec.convert(meta["usual"], list[tuple[str, int]])
            made.usual, made._evidence = Typicality.from_state(sizes, found["usual"]), array("f")
            made._evidence.frombytes(found["evidence"].tobytes())
        for truth, decision, n in msgspec.convert(meta["cells"], list[tuple[str, str | None, int]]):
            made._cells[truth, decision] = n
        if min(made._cells.values(), default=1) < 1:
            raise SnapshotError("cells: expected counts of 1 or more")
        for place, *cell in meta["window"]:
            made._window[int(place)] = msgspec.convert(cell, tuple[str, str | None]) if cell else None
        return made


def _of_rule(rule: DecisionRule) -> dict[str, Any]:
    meta: dict[str, Any] = msgspec.to_builtins(rule)
    if not rule.window_size:
        del meta["window"]
    if not rule.novelty:
        del meta["novelty"]
    return meta
