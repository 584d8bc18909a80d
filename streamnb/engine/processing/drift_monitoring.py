"""Evaluation of drift detectors and monitors, and the records of their findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from streamnb.engine.labels.batches import EventBatch, FirstLabel
from streamnb.engine.ports import NewRecord
from streamnb.engine.processing.monitors import MonitoredBatch
from streamnb.engine.processing.processor_state import ProcessorState
from streamnb.events import Alert, Drift, ModelInfo
from streamnb.formats.codec import encode_alert, encode_metrics


class DriftMonitoring:
    """Observers of a learner.

    Args:
        state: of the processor.
    """

    def __init__(self, state: ProcessorState) -> None:
        self._state = state

    def observe_events(self, batch: EventBatch) -> None:
        """Add the alerts on predicted events."""
        state = self._state
        if not state.monitors:
            return
        posteriors, labels = batch.predicted.posteriors, batch.labels
        state.has_labels |= any(label is not None for label in labels)
        predicted = posteriors.labels()
        right = [
            -1 if truth is None or label is None else int(truth == label)
            for truth, label in zip(labels, predicted, strict=True)
        ]
        confidence = np.minimum(posteriors.probabilities.max(axis=1, initial=0.0), 1.0)
        seen = MonitoredBatch(predicted, labels, np.array(right, np.int8), confidence, batch.numbers)
        named = list(zip(batch.ids, labels, batch.numbers, batch.ages, strict=True))
        batch.alerts = [
            *self.seen(seen, batch.ids, batch.ages, batch.now),
            *self.discovered(state.model.classes[batch.classes_before :], named, batch.now),
        ]

    def seen(
        self, seen: MonitoredBatch, ids: Sequence[str], ages: Sequence[int], now: float
    ) -> list[tuple[int, NewRecord]]:
        """Return alerts on observed events, each with the index of its event."""
        return [
            (at, self.alert(found, ids[at], int(seen.numbers[at]), ages[at], now))
            for at, found in self._state.monitors.observe(seen)
        ]

    def discovered(
        self, classes: Sequence[str], said: Sequence[tuple[str, str | None, int, int]], now: float
    ) -> list[tuple[int, NewRecord]]:
        """Return alerts on new classes; `said` has id, label, records consumed and age of each."""
        alerts: list[tuple[int, NewRecord]] = []
        for label in classes:
            at = next((at for at, (_, one, *_) in enumerate(said) if one == label), 0)
            event_id, _, consumed, age = said[at]
            told = self._state.monitors.discovered(label)
            alerts += [(at, self.alert(found, event_id, consumed, age, now)) for found in told]
        return alerts

    def alert(
        self, found: Mapping[str, Any], event_id: str, consumed: int, age: int, now: float
    ) -> NewRecord:
        """Return the alert of a monitor's finding, after `consumed` records."""
        model = ModelInfo(self._state.settings.name, age)
        action = self._state.actions.asked_by(found.get("action", ""), consumed)
        alert = Alert(id=event_id, events=consumed, model=model, ts=now, **{**found, "action": action})
        self._state.tally.alerts[alert.monitor, alert.kind, alert.state] += 1
        return NewRecord(self._state.settings.alerts, self._state.settings.name.encode(), encode_alert(alert))

    def add_findings(self, batch: EventBatch) -> None:
        """Put drifts and alerts after the predictions that reveal them."""
        if not (batch.outputs or self._state.drift.names):
            batch.outputs = [alert for _, alert in batch.alerts]
        elif self._state.drift.names or batch.alerts:
            batch.outputs = list(self._with_found(batch))

    def _with_found(self, batch: EventBatch) -> Iterator[NewRecord]:
        predicted = batch.predicted.posteriors.labels()
        each = zip_longest(batch.outputs, predicted, batch.labels)
        for place, (output, label, truth) in enumerate(each):
            if output is not None:
                yield output
            if truth is not None and label is not None:  # an empty model predicted nothing
                model = ModelInfo(self._state.settings.name, batch.ages[place], batch.journal)
                error, number = int(label != truth), batch.numbers[place]
                yield from self.observe(batch.ids[place], error, number, model, batch.now)
            yield from (alert for at, alert in batch.alerts if at == place)

    def observe_first_labels(self, firsts: Sequence[FirstLabel], now: float) -> Iterator[NewRecord]:
        """Yield the drifts and alerts that the first labels of served predictions reveal."""
        state = self._state
        for first in firsts if state.drift.names else ():
            if first.is_right is not None:
                model = ModelInfo(state.settings.name, first.age)
                yield from self.observe(first.id, int(not first.is_right), first.number, model, now)
        if state.monitors and firsts:
            ids, labels, right, confidence, ages, numbers = zip(*firsts, strict=True)
            told = [-1 if one is None else int(one) for one in right]
            seen = MonitoredBatch((), labels, np.array(told, np.int8), np.array(confidence), numbers)
            yield from (alert for _, alert in self.seen(seen, ids, ages, now))

    def observe(
        self, event_id: str, error: int, consumed: int, model: ModelInfo, now: float
    ) -> Iterator[NewRecord]:
        """Yield the drifts that an error (1) or correct prediction (0) reveals."""
        for found in self._state.drift.observe(error):
            self._state.tally.drifts[found.detector] += 1
            drift = Drift(id=event_id, events=consumed, model=model, ts=now, **found._asdict())
            yield NewRecord(
                self._state.settings.metrics, self._state.settings.name.encode(), encode_metrics(drift)
            )
