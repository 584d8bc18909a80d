"""The path of label records through a processor: decode, admit, apply to waiting events, observe."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec
import numpy as np

from streamnb.engine.labels.batches import LabelBatch, LabelBatchResult, timestamps
from streamnb.engine.labels.delayed_labels import DelayedLabels
from streamnb.engine.ports import NewRecord, Record
from streamnb.engine.processing.admission import Admission
from streamnb.engine.processing.drift_monitoring import DriftMonitoring
from streamnb.engine.processing.event_stages import PruneModel
from streamnb.engine.processing.processor_state import ProcessorState
from streamnb.errors import MalformedEvent
from streamnb.events import LabelRecord, Retraction
from streamnb.formats.codec import decode_labels

_Decoded = Sequence[LabelRecord | Retraction | MalformedEvent]


class LabelProcessing:
    """Label records of one run of records.

    Args:
        state: of the processor; its labels may arrive separately.
        admission: admits new labels.
        monitoring: observes first labels and new classes.
        pruning: prunes the model after it has learned.
    """

    def __init__(
        self,
        state: ProcessorState,
        admission: Admission,
        monitoring: DriftMonitoring,
        pruning: PruneModel,
    ) -> None:
        self._state, self._admission = state, admission
        self._monitoring, self._pruning = monitoring, pruning

    def process(
        self, records: Sequence[Record], now: float, heartbeat: Callable[[], None]
    ) -> list[NewRecord]:
        """Apply label records; return dead letters, drifts and alerts."""
        return self._process(records, self._decode(records), now, heartbeat)

    def _process(
        self, records: Sequence[Record], decoded: _Decoded, now: float, heartbeat: Callable[[], None]
    ) -> list[NewRecord]:
        state, late = self._state, self._state.late
        assert late is not None  # noqa: S101
        has_room = self._has_room(decoded, late)
        if not has_room and len(records) > 1:  # its halves may fit
            half = len(records) // 2
            outputs = self._process(records[:half], decoded[:half], now, heartbeat)
            return outputs + self._process(records[half:], decoded[half:], now, heartbeat)
        records = late.pending.horizon.dated(records)
        times = timestamps(records)
        earliest = late.pending.horizon.passing(times)
        one_by_one = self._tells_classes(decoded)
        outputs = []
        rows: list[int] = []

        def apply() -> None:
            labels: Any = [decoded[row] for row in rows]
            numbers = [state.consumed + 1 + row for row in rows]
            of = [records[row] for row in rows]
            outputs.extend(
                self.apply(LabelBatch.from_labels(labels, of, numbers, earliest[rows], now), heartbeat)
            )
            rows.clear()

        if has_room and not one_by_one and set(map(type, decoded)) == {LabelRecord}:  # the common case
            rows += range(len(decoded))
        for row, one in enumerate(decoded[len(rows) :]):
            if isinstance(one, LabelRecord):
                if not has_room and not self._admission.admits({one.label}):
                    outputs.append(state.reject(records[row], self._admission.refused()))
                    continue
                rows.append(row)
                if one_by_one:
                    apply()
            elif isinstance(one, MalformedEvent):
                outputs.append(state.reject(records[row], one))
            else:
                apply()
                if not late.retract(one, records[row]):
                    refused = MalformedEvent(
                        "too-many-sources", "$.source", "too many sources were withdrawn"
                    )
                    outputs.append(state.reject(records[row], refused))
        apply()
        late.passed(times)
        state.consumed += len(records)
        return outputs

    def _decode(self, records: Sequence[Record]) -> _Decoded:
        """Return the decoded records; labels have weight 0 during a pause."""
        values, times = [record.value for record in records], [record.timestamp for record in records]
        decoded = decode_labels(values, self._state.settings.schema, times)
        if not self._state.actions.is_paused:
            return decoded
        return [
            msgspec.structs.replace(one, weight=0.0) if isinstance(one, LabelRecord) else one
            for one in decoded
        ]

    def _has_room(self, decoded: _Decoded, late: DelayedLabels) -> bool:
        """Return if the model has capacity for all labels and their events."""
        pending = late.pending
        given = [one for one in decoded if isinstance(one, LabelRecord)]
        labels = {one.label for one in given}
        if self._admission.has_room(labels, pending.n_bytes):
            return True
        ids = [one.id.encode() for one in given]
        named = pending.find(ids, np.full(len(ids), -math.inf), np.zeros(len(ids), dtype=np.int64))
        return self._admission.has_room(labels, int(pending.sizes(named[named >= 0]).sum()))

    def _tells_classes(self, decoded: _Decoded) -> bool:
        """Return if labels are applied one by one, to attribute each new class to its label."""
        if not self._state.monitors.tell_classes:
            return False
        labels = {one.label for one in decoded if isinstance(one, LabelRecord)}
        return not labels <= self._state.known.follow(self._state.model.classes).columns.keys()

    def apply(self, batch: LabelBatch, heartbeat: Callable[[], None] = lambda: None) -> list[NewRecord]:
        """Learn and score a batch; return dead letters, drifts and alerts."""
        state, late = self._state, self._state.late
        if not len(batch) or late is None:
            return []
        learned, model_learned, classes = state.n_learned, state.model.n_events, len(state.model.classes)
        state.has_labels = True
        state.count_skipped(batch.labels)
        result = late.take(batch, state.model, heartbeat)
        state.tally.learned.update(result.learned)
        state.tally.small_weights += result.small_weights
        self._pruning.after(learned)
        outputs = list(self._rejected(late, result))
        firsts = list(chain.from_iterable(result.firsts)) if state.drift.names or state.monitors else []
        outputs += self._monitoring.observe_first_labels(firsts, batch.now)
        if state.monitors.tell_classes:
            ages = [model_learned] * len(batch)
            said = list(zip(batch.ids, batch.labels, batch.numbers, ages, strict=True))
            found = self._monitoring.discovered(state.model.classes[classes:], said, batch.now)
            outputs += [alert for _, alert in found]
        return outputs

    def _rejected(self, late: DelayedLabels, result: LabelBatchResult) -> Iterator[NewRecord]:
        """Yield the dead letters of rejected labels, up to their maximum rate."""
        state = self._state
        for refused in result.refused:
            if late.may_publish_rejection(refused.number - 1):
                error = MalformedEvent(refused.reason, refused.path, "")
                yield state.reject(refused.record, error)
