"""The path of events through a processor: decode, cut into batches, and pass each through the stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

from streamnb.engine.labels.batches import EventBatch, LabelBatch
from streamnb.engine.ports import NewRecord, Record, value_sizes
from streamnb.engine.processing.admission import Admission
from streamnb.engine.processing.event_stages import EventDecoding, EventStage
from streamnb.engine.processing.label_processing import LabelProcessing
from streamnb.engine.processing.processor_state import ProcessorState
from streamnb.engine.settings import ROOM_EVERY
from streamnb.errors import MalformedEvent
from streamnb.events import LabelRecord
from streamnb.formats.codec import IN_EVENT


class EventProcessing:
    """Events of one run of records.

    Args:
        state: of the processor.
        admission: limits each batch.
        labels: applies the label of a repeated event.
        stages: steps of each batch, in order.

    Attributes:
        decoding: the first stage.
        stages: further stages.
    """

    def __init__(
        self,
        state: ProcessorState,
        admission: Admission,
        labels: LabelProcessing,
        stages: Sequence[EventStage],
    ) -> None:
        self._state, self._admission, self._labels = state, admission, labels
        self.decoding = EventDecoding(state)
        self.stages = stages

    def process(
        self, records: Sequence[Record], now: float, heartbeat: Callable[[], None], max_bytes: float
    ) -> list[NewRecord]:
        """Process events up to the limit of bytes; return dead letters and predictions."""
        state = self._state
        batch, times, refused = self.decoding.decode(records, now)
        state.has_events |= bool(len(batch))
        outputs: list[NewRecord] = []
        begins = list(accumulate(value_sizes(batch.records), initial=0))
        done, left, ahead = 0, max_bytes, len(batch)
        while done < len(batch) and left > 0:
            if done:
                heartbeat()
            near = batch.part(done, min(done + ahead, len(batch)))
            n = self._admission.admitted(near, begins[done], begins[done + 1 : done + 1 + ahead])
            if not n:
                outputs.append(state.reject(near.records[0], self._admission.refused()))
                done, ahead = done + 1, ROOM_EVERY
                continue
            made, n = self._process_next(near, n)
            left -= sum(value_sizes(made))
            outputs += made
            # After a short prefix look at few events only, else the cost is quadratic.
            done, ahead = done + n, max(ROOM_EVERY, 2 * n)
        taken = len(records) if done == len(batch) else batch.numbers[done] - 1 - state.consumed
        letters = [state.reject(records[place], error) for place, error in refused if place < taken]
        if state.late is not None:
            state.late.passed(times[:taken])
        state.consumed += taken
        return letters + outputs

    def _process_next(self, near: EventBatch, admitted: int) -> tuple[Sequence[NewRecord], int]:
        """Process as many of the admitted events as go together; return their outputs and number."""
        n = self._admission.predicted_at_once(near.labels[:admitted])
        if self._state.late is not None:
            n = self._state.late.first_repeat(near.part(0, n))
            if not n:
                return self._repeat(near), 1
        batch = near.part(0, n)
        for stage in self.stages:
            stage(batch)
        return batch.outputs, n

    def _repeat(self, batch: EventBatch) -> Sequence[NewRecord]:
        """Apply the label of a repeated event, or reject the event, as configured."""
        late = self._state.late
        assert late is not None  # noqa: S101
        record, event_id, label = batch.records[0], batch.ids[0], batch.labels[0]
        if late.settings.repeats == "dead-letter":
            return [self._state.reject(record, MalformedEvent("repeated", "$.id", event_id))]
        if label is None:
            return []
        said = [LabelRecord(event_id, label, IN_EVENT, batch.weights[0])]
        heard = LabelBatch.from_labels(said, [record], batch.numbers[:1], batch.earliest[:1], batch.now)
        return self._labels.apply(heard)
