"""Stages of a batch of events: each adds columns to an `EventBatch`, or changes the state by them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, compress
from typing import cast

import msgspec
import numpy as np

from streamnb.engine.labels.batches import EventBatch, timestamps
from streamnb.engine.ports import Record
from streamnb.engine.processing.admission import Admission
from streamnb.engine.processing.drift_monitoring import DriftMonitoring
from streamnb.engine.processing.processor_state import ProcessorState
from streamnb.engine.settings import ROOM_EVERY, Settings
from streamnb.errors import MalformedEvent
from streamnb.events import Attribution, Event
from streamnb.formats.codec import IN_EVENT, decode_events
from streamnb.kernels.array_types import Floats
from streamnb.models.interface.attribution import Item, explain_then_learn_many
from streamnb.models.interface.predictions import Posteriors
from streamnb.scoring.decision_rule import weights_before
from streamnb.values.example_weights import is_below_unit

EventStage = Callable[[EventBatch], None]
"""A step of every batch of events."""


class EventDecoding:
    """The first stage: records to events.

    Args:
        state: of the processor.

    Attributes:
        decode_all: returns the event of each record, or why it has none.
    """

    def __init__(self, state: ProcessorState) -> None:
        self._state = state
        self.decode_all: Callable[[Sequence[Record]], list[Event | MalformedEvent]] = self._decode_all

    def _decode_all(self, records: Sequence[Record]) -> list[Event | MalformedEvent]:
        decoded = decode_events(
            [record.value for record in records],
            self._state.settings.schema,
            [record.key for record in records],
            [record.timestamp for record in records],
        )
        if not self._state.actions.is_paused:
            return decoded
        return [
            msgspec.structs.replace(one, weight=0.0) if isinstance(one, Event) else one for one in decoded
        ]

    def events(
        self, records: Sequence[Record]
    ) -> tuple[list[Event], list[int], list[tuple[int, MalformedEvent]]]:
        """Return events, their indexes in `records`, and index and error of rejected records."""
        decoded = self.decode_all(records)
        refused = [(place, one) for place, one in enumerate(decoded) if isinstance(one, MalformedEvent)]
        if not refused:
            return cast("list[Event]", decoded), list(range(len(decoded))), refused
        places = [place for place, one in enumerate(decoded) if isinstance(one, Event)]
        return [cast("Event", decoded[place]) for place in places], places, refused

    def decode(
        self, records: Sequence[Record], now: float
    ) -> tuple[EventBatch, Floats, list[tuple[int, MalformedEvent]]]:
        """Return the events among records, times of all records, and index and error of rejected ones.

        The times are empty if all labels are inside events.
        """
        events, places, refused = self.events(records)
        horizon = None if self._state.late is None else self._state.late.pending.horizon
        dated, first = records if horizon is None else horizon.dated(records), self._state.consumed + 1
        numbers = [first + place for place in places]
        batch = EventBatch.from_events(events, [dated[place] for place in places], numbers, now)
        if horizon is None:
            return batch, batch.earliest, refused
        times = timestamps(dated)
        batch.earliest = horizon.passing(times)[places]
        return batch, times, refused


class _StateStage:
    """A stage made once for the state of a processor."""

    def __init__(self, state: ProcessorState) -> None:
        self._state = state


def max_at_once(settings: Settings) -> int:
    """Return how many records make a batch at most: fewer if each is explained, which takes longer."""
    return 50 if settings.evidence else 1000


def attributions(explained: Iterable[Sequence[Item]]) -> list[tuple[Attribution, ...]]:
    """Return the items of each event as they are published."""
    return [tuple(Attribution(str(name), value, odds) for name, value, odds in items) for items in explained]


class JoinLabels:
    """The labels of arriving events.

    Args:
        state: of the processor.
        admission: admits new labels.
    """

    def __init__(self, state: ProcessorState, admission: Admission) -> None:
        self._state, self._admission = state, admission

    def __call__(self, batch: EventBatch) -> None:
        """Replace labels inside events by the labels in force; count those that a pause skips."""
        state, late = self._state, self._state.late
        state.count_skipped(batch.labels)
        if late is None:
            return
        if is_below_unit(late.settings.weights.get(IN_EVENT, 1.0)):
            state.tally.small_weights += len(batch) - batch.labels.count(None)
        late.join(batch)
        if len(batch) == 1:
            self._admission.admits({batch.labels[0]})  # only the resolved label takes capacity


class PredictAndLearn(_StateStage):
    """The model: one kernel predicts and learns, event by event."""

    def __call__(self, batch: EventBatch) -> None:
        """Add ages and predictions."""
        state, model, pipeline = self._state, self._state.model, self._state.pipeline
        labels, weights, learned = batch.labels, batch.weights, model.n_events
        batch.learned_before, batch.classes_before = state.n_learned, len(model.classes)
        taught = model.class_weights if pipeline.uses_weights else {}
        posteriors = self._posteriors(batch)
        are_learned = [y is not None and weight > 0 for y, weight in zip(labels, weights, strict=True)]
        batch.ages = list(accumulate(are_learned[:-1], initial=learned))
        before = None
        if pipeline.uses_weights:
            before = weights_before(posteriors.classes, taught, labels, weights)
        batch.predicted = pipeline.predict(posteriors, model, batch.ages, before, labels)
        state.tally.learned.update(label for label in compress(labels, are_learned) if label is not None)

    def _posteriors(self, batch: EventBatch) -> Posteriors:
        """Predict and learn; add the evidence of each event, if it is published."""
        model, top = self._state.model, self._state.settings.evidence
        columns = batch.xs, batch.labels, batch.weights, batch.times
        if not top:
            return model.predict_then_learn_many(*columns)
        posteriors, explained = explain_then_learn_many(model, *columns, top)
        batch.evidence = attributions(explained)
        return posteriors


class ScorePredictions(_StateStage):
    """Scores of predictions whose labels are known, and the buffer of events that wait for theirs."""

    def __call__(self, batch: EventBatch) -> None:
        """Score, or store, the predictions."""
        state = self._state
        if state.late is not None:
            state.late.serve(batch, state.model)
            return
        posteriors, decided = batch.predicted.posteriors, batch.predicted.decisions
        column = state.known.follow(posteriors.classes).columns
        truths = [-1 if label is None else column.get(label, -1) for label in batch.labels]
        batch.truths = np.array(truths, dtype=np.int64)
        state.progressive.update_many(posteriors.probabilities, batch.truths, held=posteriors.held)
        if state.decisions is not None and decided is not None:
            state.decisions.add(decided, batch.labels)


class PruneModel(_StateStage):
    """Prunings and evictions that are due by the number of learned events."""

    def __call__(self, batch: EventBatch) -> None:
        """Prune after a batch of events."""
        self.after(batch.learned_before)

    def after(self, learned_before: int) -> None:
        """Prune and evict if due since `learned_before` events."""
        state = self._state
        every, learned = state.settings.pruning.every, state.n_learned
        if every and learned > learned_before and learned % every == 0:
            state.prune()
        if learned > learned_before and learned % ROOM_EVERY == 0:
            state.model.evict(len(state.model.classes))


class PublishPredictions(_StateStage):
    """Records of predictions."""

    def __call__(self, batch: EventBatch) -> None:
        """Add the records of predictions, if this process publishes them."""
        state = self._state
        if batch.journal is not None or state.settings.by == "learner":
            batch.outputs = state.pipeline.encode(batch, state.hypotheses, state.tally)


def learner_stages(
    state: ProcessorState, admission: Admission, monitoring: DriftMonitoring
) -> tuple[EventStage, ...]:
    """Return the stages of a learner, in order."""
    return (
        JoinLabels(state, admission),
        PredictAndLearn(state),
        ScorePredictions(state),
        PruneModel(state),
        monitoring.observe_events,
        PublishPredictions(state),
        monitoring.add_findings,
    )
