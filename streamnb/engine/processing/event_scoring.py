"""Events that are only predicted, by a model that another process teaches: scorers, and Spark."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any, cast

from streamnb.engine.labels.batches import EventBatch
from streamnb.engine.ports import NewRecord, Record, value_sizes
from streamnb.engine.processing.admission import Admission
from streamnb.engine.processing.event_stages import (
    EventDecoding,
    PublishPredictions,
    add_evidence,
    max_at_once,
)
from streamnb.engine.processing.processor_state import ProcessorState
from streamnb.models.interface.predictions import Posteriors
from streamnb.models.interface.stream_model import PartialLearner

_PLACE = itemgetter(0)


class EventScoring:
    """Predictions by an unchanged model.

    Args:
        state: of the processor.
        admission: limits each batch, and the classes of a partial.
    """

    def __init__(self, state: ProcessorState, admission: Admission) -> None:
        self._state, self._admission = state, admission
        self._decoding = EventDecoding(state)
        self._publish = PublishPredictions(state)

    def score(
        self, records: Sequence[Record], now: float, journal: int, max_bytes: float = math.inf
    ) -> tuple[list[NewRecord], int]:
        """Predict events; return the outputs and the number of records taken.

        The model stands at record `journal`, which predictions name. Stops as `EventProcessor.process` does
        after `max_bytes`. Records that are not events are skipped: the learner makes their dead letters.
        """
        state, outputs = self._state, list[NewRecord]()
        done, left = 0, max_bytes
        while done < len(records) and left > 0:
            part = records[done : done + max_at_once(state.settings, explains_alone=True)]
            events = self._decoding.decode_all(part)
            few = self._admission.predicted_at_once(events.labels)
            if few:
                batch = EventBatch.from_columns(events.prefix(few), part, now=now, journal=journal)
                top = state.settings.evidence
                if top:
                    explained = map(state.model.explain_one, batch.xs, repeat(top), batch.times)
                    add_evidence(batch, explained)
                self._predict(batch, state.model.predict_posteriors(batch.xs, batch.times))
                left -= sum(value_sizes(batch.outputs))
                outputs += batch.outputs
            done += len(part) if few == len(events.ids) else events.places[few]
        return outputs, done

    def learn_partial(
        self, records: Sequence[Record], now: float, journal: int, met: set[str]
    ) -> tuple[list[NewRecord], Any]:
        """Predict events with an unchanged model, and learn them into a partial; return both.

        Args:
            records: events; others, and events with a label too many, become dead letters.
            now: time of the predictions.
            journal: the model's journal record, which predictions name.
            met: labels of earlier records, in addition to the model's; new labels are added.

        A prediction's key is the position of its event, so a repeated call repeats the key.
        """
        state, model = self._state, cast("PartialLearner", self._state.model)
        known, most = set(state.model.classes), state.settings.max_classes or sys.maxsize
        events, admitted = self._decoding.decode_all(records), list[int]()
        refused = events.refused
        for row, (label, place) in enumerate(zip(events.labels, events.places, strict=True)):
            if label is not None and label not in known and label not in met:
                if len(known) + len(met) >= most:
                    refused.append((place, self._admission.refused()))
                    continue
                met.add(label)
            admitted.append(row)
        batch = EventBatch.from_columns(events.chosen(admitted), records, now=now, journal=journal)
        said, partial = model.partial(batch.xs, batch.labels, batch.weights)
        outputs = [state.reject(records[place], error) for place, error in sorted(refused, key=_PLACE)]
        if len(batch):
            self._predict(batch, said)
        for output, record in zip(batch.outputs, batch.records, strict=True):
            is_said = output.topic == state.settings.predictions
            key = f"{record.partition}@{record.offset}".encode() if is_said else output.key
            outputs.append(NewRecord(output.topic, key, output.value, output.headers))
        return outputs, partial

    def _predict(self, batch: EventBatch, posteriors: Posteriors) -> None:
        model = self._state.model
        batch.predicted = self._state.pipeline.predict(posteriors, model)
        batch.ages = [model.n_events] * len(batch)
        self._publish(batch)
