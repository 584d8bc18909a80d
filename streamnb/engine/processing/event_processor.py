"""The learner's processor: predict each record's event, then learn and score it.

Deterministic: the same records with the same `now`, in any batches, give the same model and, except for
`now`, the same predictions. It does no I/O and reads no clock.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, compress
from operator import attrgetter, itemgetter
from types import MappingProxyType
from typing import Any, TypeVar, cast

import msgspec
import numpy as np

from streamnb.engine.labels.batches import EventBatch, LabelBatch
from streamnb.engine.labels.delayed_labels import DelayedLabels
from streamnb.engine.labels.label_report import label_report
from streamnb.engine.labels.source_labels import ResolvedLabel, SourceLabel
from streamnb.engine.ports import NewRecord, Record
from streamnb.engine.processing.admission import Admission
from streamnb.engine.processing.alarm_responses import PAUSE, AlarmResponse
from streamnb.engine.processing.counters import Counters
from streamnb.engine.processing.dead_letters import dead_letter
from streamnb.engine.processing.drift_monitoring import DriftMonitoring
from streamnb.engine.processing.known_classes import KnownClasses, class_bytes
from streamnb.engine.processing.metrics_reports import (
    class_rates,
    posterior_of,
    posterior_report,
    with_interval,
)
from streamnb.engine.processing.monitors import MonitoredBatch, Monitors
from streamnb.engine.processing.prediction_pipeline import PredictionPipeline
from streamnb.engine.processing.processor_state_copy import ProcessorStateCopy
from streamnb.engine.processing.retrained_model import Offsets, RetrainedModel, offsets_of, part_of
from streamnb.engine.processing.tenant_stats import MOST, MOST_ALONE, TenantStats
from streamnb.engine.settings import ROOM_EVERY, LabelSettings, Settings
from streamnb.errors import MalformedEvent, SnapshotError
from streamnb.events import ActionReport, Attribution, Event, LabelRecord, MetricsReport, ModelInfo
from streamnb.formats.codec import IN_EVENT, decode_event, decode_labels, encode_metrics
from streamnb.formats.journal_record import AppliedAction
from streamnb.formats.snapshot_container import SnapshotPart
from streamnb.kernels.array_types import Floats
from streamnb.models.interface.predictions import Posteriors
from streamnb.models.interface.stream_model import PartialLearner, StreamModel
from streamnb.models.interface.tenant_usage import TenantedModel
from streamnb.scoring.decision_rule import weights_before
from streamnb.scoring.decision_scores import ServedDecisions
from streamnb.scoring.drift_detectors import DriftDetectors
from streamnb.scoring.prequential_scores import ProgressiveValidation
from streamnb.statistics.memory_budget import MemoryComponent as MemoryPart
from streamnb.statistics.memory_budget import MemoryUse
from streamnb.values.example_weights import is_below_unit
from streamnb.values.state_validation import count, state_errors
from streamnb.values.type_aliases import Aside, concatenated

_AT_ONCE = 1000
_BYTES_AT_ONCE = 4 << 20  # of predictions, estimated beforehand
_BYTES_WHERE_SHORT = 64 << 10  # of events at once under a short memory budget
_TOPIC = attrgetter("partition.topic")
_TIME, _PLACE = attrgetter("timestamp"), itemgetter(0)
_MOST_CONFUSED = 100  # classes whose confusion is reported
_EventOrLabel = TypeVar("_EventOrLabel", Event, LabelRecord)


class EventProcessor:
    """A model with its scores and counters.

    Attributes:
        model: predicts and learns.
        progressive: prequential scores of its predictions.
        drift: drift detectors, which never change a prediction.
        monitors: monitors of rates and silences.
        actions: responses to their alarms.
        late: waiting events, and scores of served predictions; None if all labels are inside events.
        decisions: decisions and their scores; None without a decision rule.
        standings: statistics of tenants; None if disabled.
        consumed: number of records, of every sort.
        dead_letters: number of rejected records.
        forgotten: events erased on demand.
        tally: counters since they were last replaced.
    """

    def __init__(self, settings: Settings, model: StreamModel) -> None:
        self.settings, self.model = settings, model
        self.progressive = ProgressiveValidation(settings.window)
        self.drift = DriftDetectors(settings.detectors)
        self.monitors = Monitors(settings.monitors)
        self.actions = AlarmResponse()
        self.late = None if settings.labels is None else DelayedLabels(settings.labels, settings.window)
        self._decide_by(None)
        self._pipeline = PredictionPipeline(settings, self.decisions)
        self.standings: TenantStats | None = None
        self.consumed = 0
        self.dead_letters = 0
        self.forgotten: Offsets = {}
        self.tally = Counters()
        self._reported_at = -np.inf
        self._known = KnownClasses()
        self._reported = 0  # records consumed at the last report; not state
        self._hears_events = self._hears_labels = False  # in this commit

    @property
    def has_pending_report(self) -> bool:
        """True if records were consumed since the last report, or tenants are due."""
        is_due = TenantStats.are_due(self.standings, self.settings.tenants, self.model)
        return self.consumed != self._reported or is_due

    def process(
        self,
        records: Sequence[Record],
        now: float,
        alive: Callable[[], None] = lambda: None,
        most_bytes: float = math.inf,
        work: int = 0,
        silence: float = 0.0,
        acted: Sequence[AppliedAction] | None = None,
    ) -> list[NewRecord]:
        """Predict and learn the events among `records` in order; return the outputs of the commit.

        Args:
            records: events and label records; `consumed` rises by the number processed. No records make a
                commit that only reports.
            now: time of the commit.
            alive: called before every few records, as processing may take long.
            most_bytes: stop after outputs of this size, exceeded by at most 4 MiB, or by the outputs of one
                record.
            work: steps of a retraction after the records, see `DelayedLabels.work`.
            silence: maximum seconds of the silence monitors that are checked.
            acted: journalled responses to alarms, in a replay; None decides them here.
        """
        outputs: list[NewRecord] = []
        self._hears_events = self._hears_labels = False
        start, reported, left = 0, -1, most_bytes
        self.actions.begin(acted)
        self.standings = TenantStats.of_topic(self.standings, self.settings.tenants, self.model)
        while start < len(records) and left > 0:
            before = self.consumed
            if self._acts and self.actions.look(start, before, self.monitors.raised(PAUSE)):
                self.model.reset_adaptive()
            part = self._alike(records[start : start + self._max_batch_size()])
            alive()
            made = self._process_slice(part, now, alive, left)
            left -= sum([len(output.value) for output in made])
            outputs += made
            start += self.consumed - before
            if self.consumed % self.settings.report_every == 0:
                outputs.append(self._report(now))
                reported = start
        for _ in range(work):
            self.work()
        for found in self.monitors.passed(now, silence, events=self._hears_events, labels=self._hears_labels):
            outputs.append(self._watching.alert(found, "", self.consumed, self.model.n_events, now))
        if not records or (reported < start and self._is_due(now)):
            outputs.append(self._report(now))
            reported = start
        if self.standings is not None and reported >= 0:
            most = MOST if records else MOST_ALONE
            outputs += self.standings.records(self.model, self.settings.name, now, most)
        return outputs

    @property
    def _acts(self) -> bool:
        return self.actions.is_busy or self.monitors.act

    @property
    def alarm_responses(self) -> ActionReport | None:
        """Responses so far; None if no monitor requests any, and there were none."""
        return self.actions.report() if self.monitors.act or self.actions.is_told else None

    def _process_slice(
        self, records: Sequence[Record], now: float, alive: Callable[[], None], most_bytes: float
    ) -> list[NewRecord]:
        """Process records of one sort: label records, or events."""
        labels = self.settings.labels
        if labels is not None and records[0].partition.topic == labels.topic:
            return self._take(records, now, alive)
        return self._process_part(records, now, alive, most_bytes)

    def _alike(self, records: Sequence[Record]) -> Sequence[Record]:
        """Return the leading records of one sort."""
        if self.settings.labels is None:
            return records
        topic = self.settings.labels.topic
        kinds = [found == topic for found in map(_TOPIC, records)]
        return records[: kinds.index(not kinds[0]) if (not kinds[0]) in kinds else len(records)]

    @property
    def n_bytes(self) -> int:
        """Approximate memory of the model and of waiting events."""
        return self.model.n_bytes + (0 if self.late is None else self.late.pending.n_bytes)

    @property
    def memory_use(self) -> MemoryUse:
        """Use of the memory budget by the model and by waiting events; empty without a budget."""
        use = self.model.memory_use
        if self.late is None or not use.parts:
            return use
        waiting = MemoryPart(self.late.pending.n_bytes, self.late.settings.memory)
        return use._replace(parts={**use.parts, "waiting": waiting})

    @property
    def has_work(self) -> bool:
        """True while a retraction has events to visit."""
        return self.late is not None and self.late.has_work

    def work(self) -> None:
        """Perform one step of a retraction."""
        if self.late is not None:
            self._admission.hold()
            self.late.work(self.model)

    def _is_due(self, now: float) -> bool:
        """Return if the last report is old, or in the future because the clock was set back."""
        return not 0.0 <= now - self._reported_at < self.settings.report_seconds

    def report(self, now: float) -> MetricsReport:
        """Return the current report."""
        classes = self.model.classes
        labels = tuple(str(label) for label in classes) if len(classes) <= _MOST_CONFUSED else ()
        # Labels that were scored but never learned are not classes: they have a row of truth without a name.
        late, scores = self.late, self.progressive if self.late is None else self.late.scoring.scores
        confusion = self.progressive.confusion(len(labels))
        if late is not None:
            confusion = late.scoring.scores.confusion(late.scoring.columns_of(labels))
        mass = self.settings.interval
        return MetricsReport(
            events=self.consumed,
            learned=self.model.n_events,
            dead_letters=self.dead_letters,
            cumulative=with_interval(scores.cumulative(), mass),
            window=with_interval(scores.window(), mass),
            window_size=self.settings.window,
            classes=len(classes),
            labels=labels,
            confusion=tuple(tuple(row) for row in confusion.tolist()),
            attributes=self.model.n_attributes,
            model=ModelInfo(self.settings.name, self.model.n_events),
            ts=now,
            posterior=posterior_report(self.model),
            interval_mass=mass,
            class_rates=class_rates(self.model.class_weights.values(), mass) if labels else (),
            verdicts=None if late is None else label_report(late, mass),
            served_by=self.settings.by,
            monitors=self.monitors.reports(),
            decisions=None if self.decisions is None else self.decisions.report(),
            actions=self.alarm_responses,
        )

    def parts(self) -> dict[str, SnapshotPart]:
        """Return all state, for a snapshot."""
        return self.copying().parts()

    def copying(self, held: Container[str] = (), aside: Aside = concatenated) -> ProcessorStateCopy:
        """Return a consistent copy of all state; segments in `held` are stored already."""
        counters: dict[str, float] = {"consumed": self.consumed, "dead_letters": self.dead_letters}
        if np.isfinite(self._reported_at):
            counters["reported_at"] = self._reported_at
        small = {"learner": SnapshotPart(counters, {})}
        if self.late is None:
            small["progressive"] = SnapshotPart(*self.progressive.state())
        if self.drift.names:
            small["drift"] = SnapshotPart(*self.drift.state())
        if self.monitors:
            small["monitors"] = SnapshotPart(*self.monitors.state())
        if self.alarm_responses is not None:
            small["actions"] = SnapshotPart(self.actions.state(), {})
        if self.decisions is not None:
            if self.late is not None:
                self.decisions.forget(self.late.pending.oldest)
            small["decisions"] = SnapshotPart(*self.decisions.state())
        if self.forgotten:
            small["forgotten"] = part_of(self.forgotten)
        if self.standings is not None:
            small["standings"] = self.standings.part(self.model)
        late = None if self.late is None else self.late.copying(held)
        return ProcessorStateCopy(self.model.copying(aside), small, late)

    def reconfigure(self, settings: Settings, model: StreamModel, *, counts_room: bool = True) -> None:
        """Continue with the learned state under other settings, loaded by an empty `model`.

        Unchanged detectors, monitors and delayed labels keep their state; a changed decision rule starts from
        zero. An empty state takes the `model` as it is, of any kind. The state counts a capacity change only
        if `counts_room`: a reader leaves the state as the journal has it.
        """
        if settings.labels is None and not self.consumed:
            self.late = None  # without delayed labels so far
        copy, reported = self.copying(), self._reported
        parts = copy.parts() | ({} if self.consumed else {"model": SnapshotPart(*model.state())})
        before = self.model
        self.settings, self.model = settings, model
        self.load(parts, copy.segments())
        if self.consumed and counts_room:
            self.model.change_budget(before)
        self._reported = reported
        self.drift.choose(settings.detectors)
        self.monitors.choose(settings.monitors)
        if settings.labels is not None:
            if self.late is None:
                self.late = DelayedLabels.after(settings.labels, self.progressive, model.classes)
                if self.decisions is not None:
                    self.decisions.begin(self.late.pending.next)
            self.late.apply_settings(settings.labels)
        self._decide_by(self.decisions)

    def load(
        self, parts: Mapping[str, SnapshotPart], segments: Mapping[str, bytes] = MappingProxyType({})
    ) -> None:
        """Restore from the parts of a snapshot; raise SnapshotError if they are invalid.

        Detectors, monitors, decision rule and delayed labels are the snapshot's: it may be older than the
        settings, which `reconfigure` then applies.
        """
        with state_errors("such a learner", ValueError):
            late, progressive = None, self.progressive
            if "labels" in parts:
                settings = self.settings.labels or LabelSettings()
                classes = parts["model"].meta.get("classes", [])
                late = DelayedLabels.from_state(settings, parts, segments, classes)
            else:
                progressive = ProgressiveValidation.from_state(*parts["progressive"])
            watched = parts.get("drift")  # absent without detectors
            drift = DriftDetectors() if watched is None else DriftDetectors.from_state(*watched)
            monitors = Monitors.from_state(*parts["monitors"]) if "monitors" in parts else Monitors()
            acted = parts.get("actions")
            actions = AlarmResponse() if acted is None else AlarmResponse.from_state(acted.meta)
            decisions = ServedDecisions.from_state(*parts["decisions"]) if "decisions" in parts else None
            forgotten = offsets_of(parts["forgotten"]) if "forgotten" in parts else {}
            counters = parts["learner"].meta
            consumed, dead_letters = count(counters, "consumed"), count(counters, "dead_letters")
            reported_at = counters.get("reported_at", -np.inf)
            if not isinstance(reported_at, (int, float)) or reported_at != reported_at:  # noqa: PLR0124  NaN
                raise SnapshotError(f"reported_at: expected a time, found {reported_at!r}")
            labels = parts["model"].meta.get("classes", [])
            if not all(isinstance(label, str) for label in labels):
                raise SnapshotError(f"classes: expected the labels of a stream, found {labels!r}")
            self.model.load_state(*parts["model"])
            standings = parts.get("standings")
        self.standings = None if standings is None else TenantStats.from_part(standings, self.model)
        self.progressive, self.late, self.drift, self.forgotten = progressive, late, drift, forgotten
        self.monitors, self.actions = monitors, actions
        self.decisions = decisions
        if late is not None:
            late.scoring.decisions = decisions
        self.consumed, self.dead_letters, self._reported_at = consumed, dead_letters, reported_at
        self._reported, self._known = consumed, KnownClasses()

    def _decide_by(self, before: ServedDecisions | None) -> None:
        rule, pending = self.settings.decision, None if self.late is None else self.late.pending
        self.decisions = before if before is not None and before.rule == rule else None
        if rule is not None and self.decisions is None:
            self.decisions = ServedDecisions(rule, self.settings.window)
            self.decisions.begin(0 if pending is None else pending.next)
        if self.late is not None:
            self.late.scoring.decisions = self.decisions

    def install_model(self, rebuilt: Callable[[], RetrainedModel], model: StreamModel | None = None) -> None:
        """Install a retrained model, loaded by `model` if its kind is new; all scores stay."""
        found, reader = rebuilt(), self.model if model is None else model
        names = self.model.store.names if isinstance(self.model, TenantedModel) else []
        with state_errors("such a learner", ValueError):
            reader.load_state(*found.model)
        self.model = reader
        self.report_all_tenants(names)
        self.forgotten, self._known = found.all_erased, KnownClasses()
        if self.late is not None:
            self.late.adopt(found.first, found.pruned, found.erased)

    def report_all_tenants(self, names: Sequence[str] = ()) -> None:
        """Make all tenants due again after the model was replaced, including the former `names`."""
        if self.standings is not None:
            self.standings = self.standings.begin_anew(names, self.model)

    def _max_batch_size(self) -> int:
        """Return the batch size up to the next report, pruning or alarm response."""
        if self.settings.evidence:
            return 1
        most = min(_AT_ONCE, self.settings.report_every - self.consumed % self.settings.report_every)
        if self._acts:
            most = min(most, AlarmResponse.ahead(self.consumed))
        every = self.settings.pruning.every
        return min(most, every - self._n_learned % every) if every else most

    @property
    def _n_learned(self) -> int:
        """Number of events learned; never falls, unlike the model's number."""
        return self.model.n_events if self.late is None else self.late.learned

    def _take(self, records: Sequence[Record], now: float, alive: Callable[[], None]) -> list[NewRecord]:
        """Apply label records; return dead letters, drifts and alerts."""
        assert self.late is not None  # noqa: S101
        recorded = [record.timestamp for record in records]
        records = self._dated(records)
        outputs: list[NewRecord] = []
        values = [record.value for record in records]
        said = decode_labels(values, self.settings.schema, recorded)
        if self.actions.is_paused:
            said = [_weightless(one) if isinstance(one, LabelRecord) else one for one in said]
        times = _times(records)
        earliest = self.late.pending.horizon.passing(times)
        places: list[int] = []
        admission = self._admission
        labels = {one.label for one in said if isinstance(one, LabelRecord)}
        has_room = admission.has_room_for_verdicts(labels)
        # One by one, each new class is attributed to its label, even a label that revokes another.
        known = self._known.follow(self.model.classes).columns
        one_by_one = not has_room or (self.monitors.tell_classes and not labels <= known.keys())

        def take() -> None:
            verdicts: Any = [said[place] for place in places]
            of = [records[place] for place in places]
            heard = LabelBatch(verdicts, of, places.copy(), times[places], earliest[places])
            outputs.extend(self._taken(heard, now, alive))
            places.clear()

        if not one_by_one and set(map(type, said)) == {LabelRecord}:  # the common case
            places += range(len(said))
        for place, one in enumerate(said[len(places) :]):
            if isinstance(one, LabelRecord):
                if not has_room and not admission.admits({one.label}):
                    outputs.append(self._dead_letter(records[place], admission.refused()))
                    continue
                places.append(place)
                if one_by_one:  # without capacity, the next admission depends on this label
                    take()
            elif isinstance(one, MalformedEvent):
                outputs.append(self._dead_letter(records[place], one))
            else:
                take()
                if not self.late.retract(one, records[place]):
                    refused = MalformedEvent(
                        "too-many-sources", "$.source", "too many sources were withdrawn"
                    )
                    outputs.append(self._dead_letter(records[place], refused))
        take()
        self.late.passed(times)
        self.consumed += len(records)
        return outputs

    def _taken(
        self, heard: LabelBatch, now: float, alive: Callable[[], None] = lambda: None
    ) -> Iterator[NewRecord]:
        if not heard.labels or self.late is None:
            return
        learned, learned_before, classes = self._n_learned, self.model.n_events, len(self.model.classes)
        self._hears_labels = True
        self._skip_paused([verdict.label for verdict in heard.labels])
        taken = self.late.take(heard, self.model, alive)
        self.tally.learned.update(taken.learned)
        self.tally.small_weights += taken.small_weights
        self._prune(learned)
        for refused in taken.refused:
            if self.late.may_publish_rejection(self.consumed + refused.place):
                self.dead_letters += 1
                self.tally.dead_letters[refused.reason] += 1
                yield dead_letter(self.settings, refused.record, refused.reason, refused.path)
        watched = self.drift.names or self.monitors
        firsts = list(chain.from_iterable(taken.firsts)) if watched else []
        for first in firsts if self.drift.names else ():
            if first.is_right is not None:
                model = ModelInfo(self.settings.name, first.age)
                yield from self._watching.observe(
                    first.id, int(not first.is_right), self.consumed + first.place + 1, model, now
                )
        if self.monitors and firsts:
            ids, labels, right, confidence, ages, places = zip(*firsts, strict=True)
            told = [-1 if one is None else int(one) for one in right]
            numbers = [self.consumed + place + 1 for place in places]
            seen = MonitoredBatch((), labels, np.array(told, np.int8), np.array(confidence), numbers)
            yield from (alert for _, alert in self._watching.seen(seen, ids, ages, now))
        if self.monitors.tell_classes:
            said = [
                (one.id, one.label, self.consumed + place + 1, learned_before)
                for one, place in zip(heard.labels, heard.places, strict=True)
            ]
            found = self._watching.discovered(self.model.classes[classes:], said, now)
            yield from (alert for _, alert in found)

    def _process_part(
        self, records: Sequence[Record], now: float, alive: Callable[[], None], most_bytes: float
    ) -> list[NewRecord]:
        """Process events up to the limit of bytes; return dead letters and predictions."""
        events, places, refused = self._decoded(records)
        records = self._dated(records)
        self._hears_events |= bool(events)
        outputs: list[NewRecord] = []
        done, left, ahead = 0, most_bytes, len(events)
        begins = list(accumulate([len(records[place].value) for place in places], initial=0))
        ends = begins[1:]
        times = np.zeros(0) if self.late is None else _times(records)
        earliest = times if self.late is None else self.late.pending.horizon.passing(times)[places]
        while done < len(events) and left > 0:
            if done:
                alive()
            near = slice(done, done + ahead)
            stop = done + self._admitted(events[near], begins[done], ends[near])
            if stop == done:
                outputs.append(self._dead_letter(records[places[done]], self._admission.refused()))
                done, ahead = done + 1, ROOM_EVERY
                continue
            stop = done + self._prefix(events[done:stop])
            if self.late is not None:
                stop = done + self.late.first_repeat(events[done:stop], earliest[done:stop])
            if stop > done:
                at = [records[place] for place in places[done:stop]]
                arrived = EventBatch(events[done:stop], at, places[done:stop], earliest[done:stop])
                made = list(self._predict_then_learn(arrived, now))
            else:
                place = places[done]
                made = self._repeated(events[done], records[place], place, earliest[done], now)
                stop += 1
            left -= sum([len(output.value) for output in made])
            outputs += made
            # After a short prefix look at few events only, else the cost is quadratic.
            done, ahead = stop, max(ROOM_EVERY, 2 * (stop - done))
        taken = len(records) if done == len(events) else places[done]
        letters = [self._dead_letter(records[place], error) for place, error in refused if place < taken]
        if self.late is not None:
            self.late.passed(times[:taken])
        self.consumed += taken
        return letters + outputs

    def _dated(self, records: Sequence[Record]) -> Sequence[Record]:
        """Return the records with plausible timestamps; see `Watermark.dated`."""
        if self.late is None:
            return records
        return self.late.pending.horizon.dated(records)

    @property
    def _admission(self) -> Admission:
        return Admission(self.model, self.late, self.settings.max_classes, self._known)

    def _admitted(self, events: Sequence[Event], begin: int, ends: Sequence[int]) -> int:
        """Return how many events may be learned at once, given their bytes; 0 rejects the first."""
        admission, n = self._admission, len(events)
        while not admission.has_room(admission.labels_of_all(events[:n]), ends[n - 1] - begin):
            if n <= ROOM_EVERY:
                few = max(1, bisect_right(ends, begin + _BYTES_WHERE_SHORT))
                before = admission.before_new(events[:few], self._n_learned)
                return before or int(admission.admits(admission.labels(events[0])))
            n = max(ROOM_EVERY, n // 2)
        return n

    def _decoded(
        self, records: Sequence[Record]
    ) -> tuple[list[Event], list[int], list[tuple[int, MalformedEvent]]]:
        """Return events, their indexes in `records`, and index and error of rejected records."""
        events, places, refused = [], [], []
        for place, record in enumerate(records):
            try:
                events.append(self._decode(record))
                places.append(place)
            except MalformedEvent as error:
                refused.append((place, error))
        return events, places, refused

    def _decode(self, record: Record) -> Event:
        event = decode_event(record.value, self.settings.schema, record.key, record.timestamp)
        return _weightless(event) if self.actions.is_paused else event

    def _repeated(
        self, event: Event, record: Record, place: int, earliest: float, now: float
    ) -> list[NewRecord]:
        """Apply the label of a repeated event, or reject the event, as configured."""
        assert self.late is not None  # noqa: S101
        if self.late.settings.repeats == "dead-letter":
            return [self._dead_letter(record, MalformedEvent("repeated", "$.id", event.id))]
        if event.label is None:
            return []
        verdict = LabelRecord(event.id, event.label, IN_EVENT, event.weight)
        heard = LabelBatch([verdict], [record], [place], _times([record]), np.array([earliest]))
        return list(self._taken(heard, now))

    def _prefix(self, events: Sequence[Event]) -> int:
        """Return how many events may be predicted at once: their predictions take at most 4 MiB."""
        known = self._known.follow(self.model.classes)
        size, longest = known.n_bytes, known.longest
        new = {event.label for event in events if event.label not in known.columns} - {None}
        longest = max([longest, *map(class_bytes, new)])
        if (size + 2 * longest + sum(map(class_bytes, new))) * len(events) <= _BYTES_AT_ONCE:
            return len(events)
        total = 0
        for number, event in enumerate(events):
            total += size + 2 * longest  # plus the predicted and the true label
            if number and total > _BYTES_AT_ONCE:
                return number
            if event.label in new:
                size += class_bytes(event.label)
                new.discard(event.label)
        return len(events)

    def _predict_then_learn(self, arrived: EventBatch, now: float) -> Iterable[NewRecord]:
        """Predict and learn a batch of events."""
        events, records, places, _ = arrived
        evidence = self._evidence(events[0]) if self.settings.evidence else None
        learned, n_learned, classes = self.model.n_events, self._n_learned, len(self.model.classes)
        said: list[tuple[SourceLabel, ...]] = []
        truths: list[ResolvedLabel | None] = []
        labels, weights = [event.label for event in events], [event.weight for event in events]
        self._skip_paused(labels)
        if self.late is not None:
            said = self.late.source_labels_before(arrived)
            truths = [self.late.resolve(one) if one else None for one in said]
            labels = [truth and truth.label for truth in truths]
            weights = [truth.weight if truth else 0.0 for truth in truths]
            if is_below_unit(self.late.settings.weights.get(IN_EVENT, 1.0)):
                self.tally.small_weights += sum(event.label is not None for event in events)
            if len(events) == 1:
                self._admission.admits({labels[0]})  # only the resolved label takes capacity
        pipeline = self.pipeline
        taught = self.model.class_weights if pipeline.uses_weights else {}
        posteriors = self.model.predict_then_learn_many(
            [event.x for event in events], labels, weights, [event.ts for event in events]
        )
        are_learned = [y is not None and weight > 0 for y, weight in zip(labels, weights, strict=True)]
        ages = list(accumulate(are_learned[:-1], initial=learned))
        before = (
            weights_before(posteriors.classes, taught, labels, weights) if pipeline.uses_weights else None
        )
        predicted = pipeline.predict(posteriors, self.model, ages, before, labels)
        posteriors, decided = predicted.posteriors, predicted.decisions
        if self.late is None:
            column = self._known.follow(posteriors.classes).columns
            columns = [-1 if label is None else column.get(label, -1) for label in labels]
            truth = np.array(columns, dtype=np.int64)
            self.progressive.update_many(posteriors.probabilities, truth, held=posteriors.held)
            if self.decisions is not None and decided is not None:
                self.decisions.add(decided, labels)
        else:
            self.late.serve(arrived, said, truths, posteriors, ages, self.model, decided)
        self._prune(n_learned)
        self.tally.learned.update(label for label in compress(labels, are_learned) if label is not None)
        consumed = [self.consumed + place + 1 for place in places]
        alerts = []
        if self.monitors:
            self._hears_labels |= any(label is not None for label in labels)
            alerts = self._watching.predicted(events, labels, posteriors, ages, consumed, now)
            named = list(zip([event.id for event in events], labels, consumed, ages, strict=True))
            alerts += self._watching.discovered(self.model.classes[classes:], named, now)
        is_published = self.settings.by == "learner"
        if not (is_published or self.drift.names):
            return [alert for _, alert in alerts]
        predictions = pipeline.predictions(
            [event.id for event in events], labels, predicted, ages, now, evidence, None, self._hypotheses
        )
        outputs = pipeline.encode(predictions, records, now, self.tally) if is_published else []
        if not (self.drift.names or alerts):
            return outputs
        return self._watching.with_found(outputs, predictions, consumed, alerts)

    def score(
        self, records: Sequence[Record], now: float, journal: int, most_bytes: float = math.inf
    ) -> tuple[list[NewRecord], int]:
        """Predict events with an unchanged model; return the outputs and the number of records taken.

        The model stands at record `journal`, which predictions name. Stops as `process` does after
        `most_bytes`. Records that are not events are skipped: the learner makes their dead letters.
        """
        outputs: list[NewRecord] = []
        done, left = 0, most_bytes
        while done < len(records) and left > 0:
            part = records[done : done + (1 if self.settings.evidence else _AT_ONCE)]
            events, places, _ = self._decoded(part)
            few, made = self._prefix(events), list[NewRecord]()
            if few:
                evidence = self._evidence(events[0]) if self.settings.evidence else None
                scored, of = events[:few], [part[place] for place in places[:few]]
                said = self.model.predict_posteriors([one.x for one in scored], [one.ts for one in scored])
                made = self._published(scored, of, said, now, journal, evidence)
            left -= sum([len(output.value) for output in made])
            outputs += made
            done += len(part) if few == len(events) else places[few]
        return outputs, done

    def _published(
        self,
        events: Sequence[Event],
        records: Sequence[Record],
        said: Posteriors,
        now: float,
        journal: int,
        evidence: tuple[Attribution, ...] | None = None,
    ) -> list[NewRecord]:
        """Return the outputs for events, predicted by the model at a journal record."""
        ids, labels = [one.id for one in events], [one.label for one in events]
        predicted, ages = self.pipeline.predict(said, self.model), [self.model.n_events] * len(events)
        made = self.pipeline.predictions(
            ids, labels, predicted, ages, now, evidence, journal, self._hypotheses
        )
        return self.pipeline.encode(made, records, now, self.tally)

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
        decoded, at, refused = self._decoded(records)
        known, most = set(self.model.classes), self.settings.max_classes or sys.maxsize
        events: list[Event] = []
        places: list[int] = []
        for event, place in zip(decoded, at, strict=True):
            if event.label is not None and event.label not in known and event.label not in met:
                if len(known) + len(met) >= most:
                    refused.append((place, self._admission.refused()))
                    continue
                met.add(event.label)
            events.append(event)
            places.append(place)
        labels, model = [event.label for event in events], cast("PartialLearner", self.model)
        said, partial = model.partial([one.x for one in events], labels, [one.weight for one in events])
        outputs = [self._dead_letter(records[place], error) for place, error in sorted(refused, key=_PLACE)]
        taken = [records[place] for place in places]
        published = self._published(events, taken, said, now, journal) if events else []
        for output, record in zip(published, taken, strict=True):
            is_said = output.topic == self.settings.predictions
            key = f"{record.partition}@{record.offset}".encode() if is_said else output.key
            outputs.append(NewRecord(output.topic, key, output.value, output.headers))
        return outputs, partial

    @property
    def _watching(self) -> DriftMonitoring:
        return DriftMonitoring(self.settings, self.tally, self.drift, self.monitors, self.actions)

    @property
    def pipeline(self) -> PredictionPipeline:
        """The steps from posteriors to published predictions, for the current settings and rule."""
        made = self._pipeline
        if made.settings is not self.settings or made.decisions is not self.decisions:
            made = self._pipeline = PredictionPipeline(self.settings, self.decisions)
        return made

    @property
    def _hypotheses(self) -> Sequence[str]:
        posterior = posterior_of(self.model) if self.settings.hypotheses else None
        return () if posterior is None else posterior.hypotheses

    def _skip_paused(self, labels: Sequence[str | None]) -> None:
        """Count the labels that are not learned because of a pause."""
        if self.actions.is_paused:
            self.actions.passed_over += len(labels) - labels.count(None)

    def _prune(self, learned_before: int) -> None:
        pruning = self.settings.pruning
        learned = self._n_learned
        if pruning.every and learned > learned_before and learned % pruning.every == 0:
            self.prune()
        if learned > learned_before and learned % ROOM_EVERY == 0:
            self.model.evict(len(self.model.classes))

    def prune(self) -> int:
        """Prune the vocabulary by the settings; return the number of words removed."""
        pruning = self.settings.pruning
        return self.model.prune(pruning.min_count, pruning.drop_most_frequent, pruning.max_attributes)

    def _evidence(self, event: Event) -> tuple[Attribution, ...]:
        found = self.model.explain_one(event.x, self.settings.evidence, event.ts)
        return tuple(Attribution(str(item.attribute), item.value, item.log_odds) for item in found)

    def _dead_letter(self, record: Record, error: MalformedEvent) -> NewRecord:
        self.dead_letters += 1
        self.tally.dead_letters[error.reason] += 1
        about = (("remedy", error.remedy),) if error.remedy else ()
        return dead_letter(self.settings, record, error.reason, error.path, about)

    def _report(self, now: float) -> NewRecord:
        """Return the record of a report; if too large, without its parts that grow with the classes."""
        self._reported_at, self._reported = now, self.consumed
        report = self.tally.report = self.report(now)
        encoded = encode_metrics(report)
        if self.settings.max_bytes and len(encoded) > self.settings.max_bytes:
            self.tally.report = msgspec.structs.replace(report, labels=(), confusion=(), class_rates=())
            encoded = encode_metrics(self.tally.report)
        return NewRecord(self.settings.metrics, self.settings.name.encode(), encoded)


def _weightless(said: _EventOrLabel) -> _EventOrLabel:
    """Return an event or label with weight 0, which is scored but not learned."""
    return msgspec.structs.replace(said, weight=0.0)


def _times(records: Sequence[Record]) -> Floats:
    return np.fromiter(map(_TIME, records), dtype=np.float64, count=len(records))
