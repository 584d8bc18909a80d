"""A learner that notes what each event cost it, so that two can be compared event by event.

Of an event whose label came late, or changed, the label that holds in the end counts, and the prediction that
was served: what is noted first is overwritten.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from streamnb.config import Config
from streamnb.engine.labels.batches import EventBatch
from streamnb.engine.labels.delay_scores import DelayScoring
from streamnb.engine.labels.delayed_labels import DelayedLabels
from streamnb.engine.ports import NewRecord
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.kernels.array_types import Floats, Ints
from streamnb.runtime import factories
from streamnb.scoring.prequential_scores import ProgressiveValidation
from streamnb.scoring.revisable_scores import RevisableScore, nats, scored

_Noted = Callable[[Ints, RevisableScore], None]
_NONE = -1


class _CostValidation(ProgressiveValidation):
    def __init__(self, window: int, noted: _Noted) -> None:
        super().__init__(window)
        self._noted, self._n = noted, 0

    def update_many(
        self, probabilities: Floats, truths: Ints, n_classes: int | None = None, held: Floats | float = 0.0
    ) -> None:
        """Score a batch of events."""
        super().update_many(probabilities, truths, n_classes, held)
        told = np.flatnonzero(truths >= 0)
        self._noted(self._n + told, scored(probabilities[told], truths[told]))
        self._n += truths.size


class _CostScoring(DelayScoring):
    def __init__(self, late: DelayedLabels, window: int, noted: _Noted) -> None:
        super().__init__(late.pending, window)
        self.names, self.decisions, self._noted = late.scoring.names, late.scoring.decisions, noted

    def count(self, numbers: Ints, truth: Ints, delays: Ints) -> RevisableScore:
        score = super().count(numbers, truth, delays)
        self._noted(numbers, score)
        return score

    def replace(self, number: int, before: str | None, after: str | None) -> None:
        super().replace(number, before, after)
        one, truth = np.array([number]), np.array([_NONE if after is None else self.names[after]])
        nothing = RevisableScore(truth, truth, np.zeros((1, 3), dtype=np.int64))
        self._noted(one, nothing if after is None else self._scored(one, truth))


class Costs(NamedTuple):
    """Scored events, one row each, in the order of the stream.

    Attributes:
        place: index of the event among all records.
        truth: its label.
        loss: -ln of the predicted probability of its label, nats.
        right: whether it was predicted.
    """

    place: Ints
    truth: Any
    loss: Floats
    right: Ints

    def at(self, rows: Ints) -> Costs:
        """Return the rows at some indices."""
        return Costs(self.place[rows], self.truth[rows], self.loss[rows], self.right[rows])


class PrequentialProcessor(EventProcessor):
    """See above."""

    def __init__(self, config: Config) -> None:
        learner = factories.learner(config)
        super().__init__(learner.settings, learner.model)
        self._place, self._truth, self._loss, self._right = array("q"), array("q"), array("d"), array("b")
        self.progressive = _CostValidation(self.settings.window, self._note)
        if self.late is not None:
            self.late.scoring = _CostScoring(self.late, self.settings.window, self._note)

    def _predict_then_learn(self, arrived: EventBatch, now: float) -> Iterable[NewRecord]:
        places = arrived.places
        self._place.extend(self.consumed + place for place in places)
        self._truth.extend([_NONE] * len(places))
        self._loss.extend([0.0] * len(places))
        self._right.extend([0] * len(places))
        return super()._predict_then_learn(arrived, now)

    def _note(self, numbers: Ints, score: RevisableScore) -> None:
        np.frombuffer(self._truth, dtype=np.int64)[numbers] = score.truth
        np.frombuffer(self._loss)[numbers] = [*map(nats, score.terms[:, 0].tolist())]
        np.frombuffer(self._right, dtype=np.int8)[numbers] = score.truth == score.predicted

    @property
    def costs(self) -> Costs:
        """Return the costs of all events whose label is known."""
        names = self.model.classes if self.late is None else self.late.scoring.names.names
        truth = np.array(self._truth, dtype=np.int64)
        known = np.flatnonzero(truth != _NONE)
        place, loss = np.array(self._place, dtype=np.int64), np.array(self._loss)
        right = np.array(self._right, dtype=np.int64)
        labels = np.array([*names, ""], dtype=object)
        return Costs(place[known], labels[truth[known]], loss[known], right[known])

    @property
    def left_out(self) -> dict[str, int]:
        """Why events are not among the costs -> how many."""
        unlabelled = len(self._truth) - np.count_nonzero(np.array(self._truth, dtype=np.int64) != _NONE)
        return {"without a label": int(unlabelled), "refused as dead letters": self.dead_letters}
