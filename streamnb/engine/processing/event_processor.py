"""The learner's processor: predict each record's event, then learn and score it.

Deterministic: the same records with the same `now`, in any batches, give the same model and, except for
`now`, the same predictions. It does no I/O and reads no clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from streamnb.engine.ports import NewRecord, Record, value_sizes
from streamnb.engine.processing.admission import Admission
from streamnb.engine.processing.alarm_responses import PAUSE, AlarmResponse
from streamnb.engine.processing.drift_monitoring import DriftMonitoring
from streamnb.engine.processing.event_processing import EventProcessing
from streamnb.engine.processing.event_scoring import EventScoring
from streamnb.engine.processing.event_stages import PruneModel, learner_stages, max_at_once
from streamnb.engine.processing.label_processing import LabelProcessing
from streamnb.engine.processing.metrics_reports import metrics_report
from streamnb.engine.processing.processor_state import ProcessorState
from streamnb.engine.processing.tenant_stats import MOST, MOST_ALONE, TenantStats
from streamnb.engine.settings import Settings
from streamnb.events import MetricsReport
from streamnb.formats.codec import encode_metrics
from streamnb.formats.journal_record import AppliedAction
from streamnb.models.interface.attribution import explains_in_batches
from streamnb.models.interface.stream_model import StreamModel

_TOPIC = attrgetter("partition.topic")


class EventProcessor(ProcessorState):
    """The stages over one state: records in, outputs of a commit out.

    Other processors are the same state with other `event_path.stages`, see `LabelResolution`.

    Args:
        settings: of the learner.
        model: predicts and learns.

    Attributes:
        admission: limits on what may be learned next.
        event_path: events through their stages.
        label_path: label records through theirs.
        scoring: path of events that are only predicted.
    """

    def __init__(self, settings: Settings, model: StreamModel) -> None:
        super().__init__(settings, model)
        self.admission, self._monitoring = Admission(self), DriftMonitoring(self)
        self.label_path = LabelProcessing(self, self.admission, self._monitoring, PruneModel(self))
        stages = learner_stages(self, self.admission, self._monitoring)
        self.event_path = EventProcessing(self, self.admission, self.label_path, stages)
        self.scoring = EventScoring(self, self.admission)

    @property
    def has_pending_report(self) -> bool:
        """True if records were consumed since the last report, or tenants are due."""
        is_due = TenantStats.are_due(self.standings, self.settings.tenants, self.model)
        return self.consumed != self.reported or is_due

    def process(
        self,
        records: Sequence[Record],
        now: float,
        heartbeat: Callable[[], None] = lambda: None,
        max_bytes: float = math.inf,
        work: int = 0,
        silence: float = 0.0,
        acted: Sequence[AppliedAction] | None = None,
    ) -> list[NewRecord]:
        """Predict and learn the events among `records` in order; return the outputs of the commit.

        Args:
            records: events and label records; `consumed` rises by the number processed. No records make a
                commit that only reports.
            now: time of the commit.
            heartbeat: called before every few records, as processing may take long.
            max_bytes: stop after outputs of this size, exceeded by at most 4 MiB, or by the outputs of one
                record.
            work: steps of a retraction after the records, see `DelayedLabels.work`.
            silence: maximum seconds of the silence monitors that are checked.
            acted: journalled responses to alarms, in a replay; None decides them here.
        """
        outputs: list[NewRecord] = []
        self.has_events = self.has_labels = False
        start, reported, left = 0, -1, max_bytes
        self.actions.begin(acted)
        self.standings = TenantStats.of_topic(self.standings, self.settings.tenants, self.model)
        while start < len(records) and left > 0:
            before = self.consumed
            if self.responds_to_alarms and self.actions.look(start, before, self.monitors.raised(PAUSE)):
                self.model.reset_adaptive()
            part = self._alike(records[start : start + self._max_batch_size()])
            heartbeat()
            made = self._process_run(part, now, heartbeat, left)
            left -= sum(value_sizes(made))
            outputs += made
            start += self.consumed - before
            if self.consumed % self.settings.report_every == 0:
                outputs.append(self._report(now))
                reported = start
        for _ in range(work):
            self.work()
        for found in self.monitors.passed(now, silence, events=self.has_events, labels=self.has_labels):
            outputs.append(self._monitoring.alert(found, "", self.consumed, self.model.n_events, now))
        if not records or (reported < start and self._is_due(now)):
            outputs.append(self._report(now))
            reported = start
        if self.standings is not None and reported >= 0:
            most = MOST if records else MOST_ALONE
            outputs += self.standings.records(self.model, self.settings.name, now, most)
        return outputs

    def _process_run(
        self, records: Sequence[Record], now: float, heartbeat: Callable[[], None], max_bytes: float
    ) -> list[NewRecord]:
        """Process records of one sort: label records, or events."""
        labels = self.settings.labels
        if labels is not None and records[0].partition.topic == labels.topic:
            return self.label_path.process(records, now, heartbeat)
        return self.event_path.process(records, now, heartbeat, max_bytes)

    def _alike(self, records: Sequence[Record]) -> Sequence[Record]:
        """Return the leading records of one sort."""
        if self.settings.labels is None:
            return records
        topic = self.settings.labels.topic
        kinds = [found == topic for found in map(_TOPIC, records)]
        return records[: kinds.index(not kinds[0]) if (not kinds[0]) in kinds else len(records)]

    def _max_batch_size(self) -> int:
        """Return the batch size up to the next report, pruning or alarm response."""
        left = self.settings.report_every - self.consumed % self.settings.report_every
        alone = not explains_in_batches(self.model)
        most = min(max_at_once(self.settings, explains_alone=alone), left)
        if self.responds_to_alarms:
            most = min(most, AlarmResponse.ahead(self.consumed))
        every = self.settings.pruning.every
        return min(most, every - self.n_learned % every) if every else most

    @property
    def has_work(self) -> bool:
        """True while a retraction has events to visit."""
        return self.late is not None and self.late.has_work

    def work(self) -> None:
        """Perform one step of a retraction."""
        if self.late is not None:
            self.admission.hold()
            self.late.work(self.model)

    def score(
        self, records: Sequence[Record], now: float, journal: int, max_bytes: float = math.inf
    ) -> tuple[list[NewRecord], int]:
        """Predict events with an unchanged model, see `EventScoring.score`."""
        return self.scoring.score(records, now, journal, max_bytes)

    def learn_partial(
        self, records: Sequence[Record], now: float, journal: int, met: set[str]
    ) -> tuple[list[NewRecord], Any]:
        """Predict events, and learn them into a partial, see `EventScoring.learn_partial`."""
        return self.scoring.learn_partial(records, now, journal, met)

    def report(self, now: float) -> MetricsReport:
        """Return the current report."""
        return metrics_report(self, now)

    def _is_due(self, now: float) -> bool:
        """Return if the last report is old, or in the future because the clock was set back."""
        return not 0.0 <= now - self.reported_at < self.settings.report_seconds

    def _report(self, now: float) -> NewRecord:
        """Return the record of a report; if too large, without its parts that grow with the classes."""
        self.reported_at, self.reported = now, self.consumed
        report = self.tally.report = self.report(now)
        encoded = encode_metrics(report)
        if self.settings.max_bytes and len(encoded) > self.settings.max_bytes:
            self.tally.report = msgspec.structs.replace(report, labels=(), confusion=(), class_rates=())
            encoded = encode_metrics(self.tally.report)
        return NewRecord(self.settings.metrics, self.settings.name.encode(), encoded)
