"""Evaluation of drift detectors and monitors, and the records of their findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from streamnb.engine.ports import NewRecord
from streamnb.engine.processing.alarm_responses import AlarmResponse
from streamnb.engine.processing.counters import Counters
from streamnb.engine.processing.monitors import MonitoredBatch, Monitors
from streamnb.engine.settings import Settings
from streamnb.events import Alert, Drift, Event, ModelInfo, Prediction
from streamnb.formats.codec import encode_alert, encode_metrics
from streamnb.models.interface.predictions import Posteriors
from streamnb.scoring.drift_detectors import DriftDetectors


class DriftMonitoring(NamedTuple):
    """Observers of a learner.

    Attributes:
        settings: output topics.
        tally: counters.
        drift: the detectors.
        monitors: the monitors.
        actions: responses to alarms.
    """

    settings: Settings
    tally: Counters
    drift: DriftDetectors
    monitors: Monitors
    actions: AlarmResponse

    def predicted(
        self,
        events: Sequence[Event],
        truths: Sequence[str | None],
        posteriors: Posteriors,
        ages: Sequence[int],
        consumed: Sequence[int],
        now: float,
    ) -> list[tuple[int, NewRecord]]:
        """Return alerts on predicted events, each with the index of its event."""
        predicted = posteriors.labels()
        right = [
            -1 if truth is None or label is None else int(truth == label)
            for truth, label in zip(truths, predicted, strict=True)
        ]
        confidence = np.minimum(posteriors.probabilities.max(axis=1, initial=0.0), 1.0)
        seen = MonitoredBatch(predicted, truths, np.array(right, np.int8), confidence, consumed)
        return self.seen(seen, [event.id for event in events], ages, now)

    def seen(
        self, seen: MonitoredBatch, ids: Sequence[str], ages: Sequence[int], now: float
    ) -> list[tuple[int, NewRecord]]:
        """Return alerts on observed events, each with the index of its event."""
        return [
            (at, self.alert(found, ids[at], int(seen.numbers[at]), ages[at], now))
            for at, found in self.monitors.observe(seen)
        ]

    def discovered(
        self, classes: Sequence[str], said: Sequence[tuple[str, str | None, int, int]], now: float
    ) -> list[tuple[int, NewRecord]]:
        """Return alerts on new classes; `said` has id, label, records consumed and age of each."""
        alerts: list[tuple[int, NewRecord]] = []
        for label in classes:
            at = next((at for at, (_, one, *_) in enumerate(said) if one == label), 0)
            event_id, _, consumed, age = said[at]
            told = self.monitors.discovered(label)
            alerts += [(at, self.alert(found, event_id, consumed, age, now)) for found in told]
        return alerts

    def alert(
        self, found: Mapping[str, Any], event_id: str, consumed: int, age: int, now: float
    ) -> NewRecord:
        """Return the alert of a monitor's finding, after `consumed` records."""
        model = ModelInfo(self.settings.name, age)
        action = self.actions.asked_by(found.get("action", ""), consumed)
        alert = Alert(id=event_id, events=consumed, model=model, ts=now, **{**found, "action": action})
        self.tally.alerts[alert.monitor, alert.kind, alert.state] += 1
        return NewRecord(self.settings.alerts, self.settings.name.encode(), encode_alert(alert))

    def with_found(
        self,
        outputs: Sequence[NewRecord],
        predictions: Sequence[Prediction],
        consumed: Sequence[int],
        alerts: Sequence[tuple[int, NewRecord]],
    ) -> Iterator[NewRecord]:
        """Yield the published predictions, each followed by its drifts and alerts."""
        for place, (output, prediction, number) in enumerate(zip_longest(outputs, predictions, consumed)):
            if output is not None:
                yield output
            yield from self._drifts(prediction, number)
            yield from (alert for at, alert in alerts if at == place)

    def _drifts(self, prediction: Prediction, consumed: int) -> Iterator[NewRecord]:
        """Yield the drifts that a prediction reveals; an empty model predicted nothing."""
        if prediction.truth is not None and prediction.label is not None:
            error = int(prediction.label != prediction.truth)
            yield from self.observe(prediction.id, error, consumed, prediction.model, prediction.ts)

    def observe(
        self, event_id: str, error: int, consumed: int, model: ModelInfo, now: float
    ) -> Iterator[NewRecord]:
        """Yield the drifts that an error (1) or correct prediction (0) reveals."""
        for found in self.drift.observe(error):
            self.tally.drifts[found.detector] += 1
            drift = Drift(id=event_id, events=consumed, model=model, ts=now, **found._asdict())
            yield NewRecord(self.settings.metrics, self.settings.name.encode(), encode_metrics(drift))
