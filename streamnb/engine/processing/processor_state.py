"""State of a processor: the model, its scores and counters, and what a snapshot of them holds."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from streamnb.engine.labels.delayed_labels import DelayedLabels
from streamnb.engine.ports import NewRecord, Record
from streamnb.engine.processing.alarm_responses import AlarmResponse
from streamnb.engine.processing.counters import Counters
from streamnb.engine.processing.dead_letters import dead_letter
from streamnb.engine.processing.known_classes import KnownClasses
from streamnb.engine.processing.metrics_reports import posterior_of
from streamnb.engine.processing.monitors import Monitors
from streamnb.engine.processing.prediction_pipeline import PredictionPipeline
from streamnb.engine.processing.processor_state_copy import ProcessorStateCopy
from streamnb.engine.processing.retrained_model import Offsets, RetrainedModel, offsets_of, part_of
from streamnb.engine.processing.tenant_stats import TenantStats
from streamnb.engine.settings import LabelSettings, Settings
from streamnb.errors import MalformedEvent, SnapshotError
from streamnb.events import ActionReport
from streamnb.formats.snapshot_container import SnapshotPart
from streamnb.models.interface.stream_model import StreamModel
from streamnb.models.interface.tenant_usage import TenantedModel
from streamnb.scoring.decision_scores import ServedDecisions
from streamnb.scoring.drift_detectors import DriftDetectors
from streamnb.scoring.prequential_scores import ProgressiveValidation
from streamnb.statistics.memory_budget import MemoryComponent as MemoryPart
from streamnb.statistics.memory_budget import MemoryUse
from streamnb.values.state_validation import count, state_errors
from streamnb.values.type_aliases import Aside, concatenated

_STATE = (
    "settings", "model", "progressive", "drift", "monitors", "actions", "late", "decisions", "standings",
    "consumed", "dead_letters", "forgotten", "tally", "reported_at", "known", "reported", "_pipeline",
)  # fmt: skip
"""Attributes of a processor's state, all but those that each call of `process` sets."""


class ProcessorState:
    """A model with its scores and counters, as the stages share them.

    Attributes:
        settings: of the learner.
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
        reported_at: time of the last report; -inf without one.
        tally: counters since they were last replaced; not state.
        known: classes of the model; not state.
        reported: records consumed at the last report; not state.
        has_events, has_labels: the commit has events, and labels; not state.
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
        self.reported_at = -np.inf
        self.known = KnownClasses()
        self.reported = 0
        self.has_events = self.has_labels = False

    @property
    def pipeline(self) -> PredictionPipeline:
        """The steps from posteriors to published predictions, for the current settings and rule."""
        made = self._pipeline
        if made.settings is not self.settings or made.decisions is not self.decisions:
            made = self._pipeline = PredictionPipeline(self.settings, self.decisions)
        return made

    @property
    def hypotheses(self) -> Sequence[str]:
        """Hypotheses of the model, if predictions have their probabilities."""
        posterior = posterior_of(self.model) if self.settings.hypotheses else None
        return () if posterior is None else posterior.hypotheses

    @property
    def n_learned(self) -> int:
        """Number of events learned; never falls, unlike the model's number."""
        return self.model.n_events if self.late is None else self.late.learned

    @property
    def responds_to_alarms(self) -> bool:
        """True if an alarm may change what is learned."""
        return self.actions.is_busy or self.monitors.act

    @property
    def alarm_responses(self) -> ActionReport | None:
        """Responses so far; None if no monitor requests any, and there were none."""
        return self.actions.report() if self.monitors.act or self.actions.is_told else None

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

    def reject(self, record: Record, error: MalformedEvent) -> NewRecord:
        """Count a rejected record, and return its dead letter."""
        self.dead_letters += 1
        self.tally.dead_letters[error.reason] += 1
        about = (("remedy", error.remedy),) if error.remedy else ()
        return dead_letter(self.settings, record, error.reason, error.path, about)

    def count_skipped(self, labels: Sequence[str | None]) -> None:
        """Count the labels that are not learned because of a pause."""
        if self.actions.is_paused:
            self.actions.passed_over += len(labels) - labels.count(None)

    def prune(self) -> int:
        """Prune the vocabulary by the settings; return the number of words removed."""
        pruning = self.settings.pruning
        return self.model.prune(pruning.min_count, pruning.drop_most_frequent, pruning.max_attributes)

    def parts(self) -> dict[str, SnapshotPart]:
        """Return all state, for a snapshot."""
        return self.copying().parts()

    def copying(self, held: Container[str] = (), aside: Aside = concatenated) -> ProcessorStateCopy:
        """Return a consistent copy of all state; segments in `held` are stored already."""
        counters: dict[str, float] = {"consumed": self.consumed, "dead_letters": self.dead_letters}
        if np.isfinite(self.reported_at):
            counters["reported_at"] = self.reported_at
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
        copy, reported = self.copying(), self.reported
        parts = copy.parts() | ({} if self.consumed else {"model": SnapshotPart(*model.state())})
        before = self.model
        self.settings, self.model = settings, model
        self.load(parts, copy.segments())
        if self.consumed and counts_room:
            self.model.change_budget(before)
        self.reported = reported
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
                raise SnapshotError("classes: expected the labels of a stream, all of them strings")
            self.model.load_state(*parts["model"])
            standings = parts.get("standings")
        self.standings = None if standings is None else TenantStats.from_part(standings, self.model)
        self.progressive, self.late, self.drift, self.forgotten = progressive, late, drift, forgotten
        self.monitors, self.actions = monitors, actions
        self.decisions = decisions
        if late is not None:
            late.scoring.decisions = decisions
        self.consumed, self.dead_letters, self.reported_at = consumed, dead_letters, reported_at
        self.reported, self.known = consumed, KnownClasses()

    def take(self, other: ProcessorState) -> None:
        """Take the whole state of another processor, which must not be used afterwards."""
        for name in _STATE:
            setattr(self, name, getattr(other, name))

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
        self.forgotten, self.known = found.all_erased, KnownClasses()
        if self.late is not None:
            self.late.adopt(found.first, found.pruned, found.erased)

    def report_all_tenants(self, names: Sequence[str] = ()) -> None:
        """Make all tenants due again after the model was replaced, including the former `names`."""
        if self.standings is not None:
            self.standings = self.standings.begin_anew(names, self.model)
