"""Stages of a batch of events: each adds columns to an `EventBatch`, or changes the state by them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, compress, repeat
from operator import attrgetter
from typing import cast

import numpy as np

from streamnb.engine.labels.batches import EventBatch, timestamps
from streamnb.engine.ports import Record
from streamnb.engine.processing.admission import Admission
from streamnb.engine.processing.drift_monitoring import DriftMonitoring
from streamnb.engine.processing.processor_state import ProcessorState
from streamnb.engine.settings import ROOM_EVERY, Settings
from streamnb.errors import MalformedEvent
from streamnb.events import Attribution
from streamnb.formats.codec import IN_EVENT, decode_events
from streamnb.formats.decoded_events import DecodedEvents
from streamnb.kernels.array_types import Floats
from streamnb.models.interface.attribution import Item, explain_then_learn_many
from streamnb.models.interface.predictions import Posteriors
from streamnb.scoring.decision_rule import weights_before
from streamnb.values.example_weights import is_below_unit

EventStage = Callable[[EventBatch], None]
"""A step of every batch of events."""

Refused = Sequence[tuple[int, MalformedEvent]]
"""Index and error of records."""

_KEY, _VALUE, _TIME = map(attrgetter, ("key", "value", "timestamp"))


class EventDecoding:
    """The first stage: records to events.

    Args:
        state: of the processor.

    Attributes:
        decode_all: returns the events among records, and the errors of rejected ones.
    """

    def __init__(self, state: ProcessorState) -> None:
        self._state = state
        self.decode_all: Callable[[Sequence[Record]], DecodedEvents] = self._decode_all

    def _decode_all(self, records: Sequence[Record]) -> DecodedEvents:
        schema = self._state.settings.schema
        keys = list(map(_KEY, records)) if schema.entity_path == "" else ()
        times = list(map(_TIME, records)) if schema.clock == "log" else ()
        decoded = decode_events(list(map(_VALUE, records)), schema, keys, times)
        if not self._state.actions.is_paused:
            return decoded
        return decoded._replace(weights=[0.0] * len(decoded.ids))

    def decode(self, records: Sequence[Record], now: float) -> tuple[EventBatch, Floats, Refused]:
        """Return the events among records, times of all records, and index and error of rejected ones.

        The times are empty if all labels are inside events.
        """
        columns = self.decode_all(records)
        horizon = None if self._state.late is None else self._state.late.pending.horizon
        dated, first = records if horizon is None else horizon.dated(records), self._state.consumed + 1
        numbers: Sequence[int] = range(first, first + len(records))
        if columns.refused:
            numbers = [first + place for place in columns.places]
        batch = EventBatch.from_columns(columns, dated, numbers, now)
        if horizon is None:
            return batch, batch.earliest, columns.refused
        times = timestamps(dated)
        batch.earliest = horizon.passing(times)[list(columns.places)]
        return batch, times, columns.refused


class _StateStage:
    """A stage made once for the state of a processor."""

    def __init__(self, state: ProcessorState) -> None:
        self._state = state


def max_at_once(settings: Settings, *, explains_alone: bool) -> int:
    """Return how many records make a batch at most: fewer if each is explained alone, which takes longer."""
    return 50 if settings.evidence and explains_alone else 1000


def add_evidence(batch: EventBatch, explained: Iterable[Sequence[Item]]) -> None:
    """Add the items of each event, and its prior, as they are published."""
    evidence, priors = list[tuple[Attribution, ...]](), list[float | None]()
    for items in explained:
        evidence.append(tuple(Attribution(str(name), value, odds) for name, value, odds in items))
        priors.append(getattr(items, "prior", None))
    batch.evidence, batch.priors = evidence, priors


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
        share = 1.0 if late is None else late.settings.weights.get(IN_EVENT, 1.0)
        if state.settings.schema.weight_path is not None or is_below_unit(share):
            rows = zip(batch.labels, batch.weights, strict=True)
            state.tally.small_weights += sum(y is not None and is_below_unit(w * share) for y, w in rows)
        if late is None:
            return
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
        taught_labels = cast("Sequence[str]", labels)
        if None in labels or min(weights) <= 0.0:
            are_learned = [y is not None and weight > 0 for y, weight in zip(labels, weights, strict=True)]
            batch.ages = list(accumulate(are_learned[:-1], initial=learned))
            taught_labels = list(compress(taught_labels, are_learned))
        else:
            batch.ages = list(range(learned, learned + len(labels)))
        before = None
        if pipeline.uses_weights:
            before = weights_before(posteriors.classes, taught, labels, weights)
        batch.predicted = pipeline.predict(posteriors, model, batch.ages, before, labels)
        state.tally.learned.update(taught_labels)

    def _posteriors(self, batch: EventBatch) -> Posteriors:
        """Predict and learn; add the evidence of each event, if it is published."""
        model, top = self._state.model, self._state.settings.evidence
        columns = batch.xs, batch.labels, batch.weights, batch.times
        if not top:
            return model.predict_then_learn_many(*columns)
        posteriors, explained = explain_then_learn_many(model, *columns, top)
        add_evidence(batch, explained)
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
        truths = map(column.get, cast("Sequence[str]", batch.labels), repeat(-1))  # -1 also without a label
        batch.truths = np.fromiter(truths, dtype=np.int64, count=len(batch))
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
