"""A learner that records what each event cost it, so that several can be compared event by event.

Of an event whose label came late, or changed, the label that holds in the end counts, and the prediction that
was served: what is recorded first is overwritten.

The loss is the open log loss that `evaluate` prints. Of labels that arrive separately it is the log loss in
which a label that was never seen costs 34.5 nats.
"""

from __future__ import annotations

from array import array
from typing import Any, NamedTuple

import numpy as np

from streamnb.config import Config
from streamnb.engine.labels.batches import EventBatch
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.evaluation.prequential_evaluation import stop_publishing
from streamnb.kernels.array_types import Floats, Ints
from streamnb.models.interface.stream_model import StreamModel
from streamnb.runtime import factories
from streamnb.scoring.ranking import OpenValidation
from streamnb.scoring.revisable_scores import RevisableScore, nats, scored

_NONE = -1


class Costs(NamedTuple):
    """Scored events, one row each, in the order of the stream.

    Attributes:
        place: index of the event among all records.
        truth: its label.
        loss: -ln of the predicted probability of its label, in nats.
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
    """A learner with two more stages: one opens a row for each event, one records its score.

    Args:
        config: its configuration.
        given: a model in place of the configured one.

    Attributes:
        validation: scores of labels inside events.
    """

    def __init__(self, config: Config, given: StreamModel | None = None) -> None:
        super().__init__(factories.settings(config), given or factories.model(config))
        stop_publishing(self)
        self.validation = self.progressive = OpenValidation(config.metrics.window)
        self._place, self._truth, self._loss, self._right = array("q"), array("q"), array("d"), array("b")
        self.event_path.stages = (self._open_rows, *self.event_path.stages, self._note_scores)
        if self.late is not None:
            self.late.scoring.observer = self._note

    def _open_rows(self, batch: EventBatch) -> None:
        self._place.extend(number - 1 for number in batch.numbers)
        self._truth.extend([_NONE] * len(batch))
        self._loss.extend([0.0] * len(batch))
        self._right.extend([0] * len(batch))

    def _note_scores(self, batch: EventBatch) -> None:
        """Record the scores of labels inside events."""
        told = np.flatnonzero(batch.truths >= 0)
        if told.size:
            rows, numbers = (
                batch.predicted.posteriors.probabilities[told],
                len(self._truth) - len(batch) + told,
            )
            self._note(numbers, scored(rows, batch.truths[told]))
            np.frombuffer(self._loss)[numbers] = self.validation.newest_losses

    def _note(self, numbers: Ints, score: RevisableScore | None) -> None:
        """Record scores of events; None takes one back."""
        truth: Any = _NONE if score is None else score.truth
        np.frombuffer(self._truth, dtype=np.int64)[numbers] = truth
        if score is not None:
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
        """Reason why events are not among the costs -> number of events."""
        unlabelled = len(self._truth) - np.count_nonzero(np.array(self._truth, dtype=np.int64) != _NONE)
        return {"without a label": int(unlabelled), "refused as dead letters": self.dead_letters}
