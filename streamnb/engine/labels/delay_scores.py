"""Scores of served predictions, on the classes that the model knew when it served them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from streamnb.engine.labels.interner import Interner
from streamnb.engine.labels.label_buffer import LabelBuffer
from streamnb.engine.labels.unlabelled_accuracy import expected_accuracy
from streamnb.errors import SnapshotError
from streamnb.events import AccuracyEstimate
from streamnb.kernels.array_types import Ints
from streamnb.scoring.decision_scores import ServedDecisions
from streamnb.scoring.revisable_scores import NOTHING, RevisableScore, ServedScores, scored, total
from streamnb.values.state_validation import checked_names

DELAYS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 43200.0, 86400.0, 259200.0, 604800.0)
"""Upper bounds of delay buckets 1, 2, ... in seconds. Bucket 0 holds labels inside events, the last all later
ones."""

_CELLS_AT_ONCE = 1 << 20  # events times classes


class DelayScoring:
    """Scores of served predictions, and of labels by their delay.

    Args:
        pending: the waiting events.
        window: labelled events in the sliding window of scores.

    Attributes:
        scores: of served predictions.
        delays: events, correct predictions and loss times 2^44 by delay bucket of first labels.
        names: interned classes, in the order of first use.
        decisions: scores of decisions; None without a decision rule.
        observer: called with the numbers of events, and their scores; None is the score of unlabelled events.
    """

    def __init__(self, pending: LabelBuffer, window: int) -> None:
        self.scores = ServedScores(window)
        self.delays = [[0, 0, 0] for _ in range(len(DELAYS) + 2)]
        self.names: Interner[str] = Interner()
        self.decisions: ServedDecisions | None = None
        self.observer: Callable[[Ints, RevisableScore | None], None] | None = None
        self._pending = pending
        self._former: list[tuple[int, list[str]]] = []  # (event number limit, class order)
        self._by_column = self._places([])  # class index in the model -> in `names`; last: none

    def columns_of(self, classes: Sequence[Any]) -> list[int]:
        """Return the interned numbers of classes."""
        return [self.names[label] for label in classes]

    def follow(self, classes: Sequence[Any]) -> None:
        """Extend the mapping by the current classes of the model."""
        known = self._by_column.size - 1
        if len(classes) != known:
            known = known if len(classes) > known else 0  # the model was replaced
            self._by_column = np.append(self._by_column[:known], self._places(classes[known:]))

    def reserve(self, numbers: int) -> None:
        """Reserve class numbers below `numbers`, for scores of classes that the model no longer has."""
        for number in range(len(self.names), numbers):
            self.names[f"\0{number}"]

    def follow_other_model(self) -> None:
        """Start a new class order, for a newly installed model."""
        names = [self.names.names[k] for k in self._by_column[:-1].tolist()]
        self._former.append((self._pending.next, names))
        self._by_column = self._places([])

    def count(self, numbers: Ints, truth: Ints, delays: Ints) -> RevisableScore:
        """Score events for the first time, with the given delay buckets."""
        score = self._scored(numbers, truth)
        first = self.scores.add(score)
        self._pending.write(numbers, score=first + np.arange(numbers.size), delay=delays)
        self._count_delays(delays, score, 1)
        if self.decisions is not None:
            self.decisions.judge(numbers.tolist(), [self.names.names[k] for k in truth.tolist()])
        if self.observer is not None:
            self.observer(numbers, score)
        return score

    def replace(self, number: int, before: str | None, after: str | None) -> None:
        """Replace the score of an event whose resolved label changed; None means unlabelled."""
        one = np.array([number])
        truths = [None if label is None else np.array([self.names[label]]) for label in (before, after)]
        scores = [None if truth is None else self._scored(one, truth) for truth in truths]
        self.scores.replace(int(self._pending.column("score", one)[0]), *scores)
        for score, times in zip(scores, (-1, 1), strict=True):
            if score is not None:
                self._count_delays(self._pending.column("delay", one), score, times)
        if self.decisions is not None:
            self.decisions.replace(number, before, after)
        if self.observer is not None:
            self.observer(one, scores[1])

    def unlabelled(self, mass: float) -> AccuracyEstimate | None:
        """Estimate the accuracy of the newest unlabelled predictions; None if there are none."""
        numbers = self._pending.newest_unlabelled(self.scores.window_size)
        known = self._pending.column("known", numbers.copy())
        step = max(1, _CELLS_AT_ONCE // int(known.max(initial=1)))
        parts = [numbers[first:][:step] for first in range(0, numbers.size, step)]
        sure = [self._pending.served(part, int(known.max())).max(axis=1, initial=0.0) for part in parts]
        confidence = np.minimum(np.concatenate([np.zeros(0), *sure]), 1.0)
        confidence = confidence[confidence > 0.0]
        return expected_accuracy(confidence, self.scores.labelled(), mass) if confidence.size else None

    def _count_delays(self, delays: Ints, score: RevisableScore, times: int) -> None:
        for delay in np.unique(delays).tolist():
            inside, row = delays == delay, self.delays[delay]
            row[0] += times * int(np.count_nonzero(inside))
            row[1] += times * int(np.count_nonzero(score.truth[inside] == score.predicted[inside]))
            row[2] += times * int(score.terms[inside, 0].sum())

    def _scored(self, numbers: Ints, truth: Ints) -> RevisableScore:
        """Score served predictions against label numbers, in the class order of their model."""
        predicted, terms = np.zeros_like(truth), np.zeros((truth.size, 3), dtype=np.int64)
        models = np.searchsorted([until for until, _ in self._former], numbers, side="right")
        for model in np.unique(models).tolist():
            is_former = model < len(self._former)
            by_column = self._places(self._former[model][1]) if is_former else self._by_column
            classes = by_column.size - 1
            columns = np.full(len(self.names), classes)  # number in `names` -> class index in the model
            columns[by_column[:-1]] = np.arange(classes)
            step = max(1, _CELLS_AT_ONCE // max(1, classes))
            of = np.flatnonzero(models == model)
            for some in np.split(of, range(step, of.size, step)):
                part = scored(self._pending.served(numbers[some], classes), columns[truth[some]])
                predicted[some], terms[some] = by_column[part.predicted], part.terms
        return RevisableScore(truth, predicted, terms)

    def _places(self, classes: Sequence[Any]) -> Ints:
        return np.array([*self.columns_of(classes), NOTHING], dtype=np.int64)

    def state(self) -> dict[str, Any]:
        """Return the state as JSON values; `scores` has its own snapshot part."""
        former = {"former": [[until, names] for until, names in self._former]} if self._former else {}
        delays = [[events, right, str(loss)] for events, right, loss in self.delays]
        return {"delays": delays, "names": list(self.names), **former}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore from a `state`; raise SnapshotError if it is invalid."""
        self.delays = [[total(n) for n in (events, right, loss)] for events, right, loss in state["delays"]]
        if len(self.delays) != len(DELAYS) + 2:
            raise SnapshotError(f"delays: expected {len(DELAYS) + 2} rows, found {len(self.delays)}")
        self.columns_of(checked_names(state["names"]))
        self.scores.check(len(self.names))
        self._former = [(int(until), list(map(str, names))) for until, names in state.get("former", ())]
