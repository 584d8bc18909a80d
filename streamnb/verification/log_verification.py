"""Compare the learned state with the log: the journal's chain, its slices, a recount, and the outputs.

Verification only reads. It stops at the end that the journal has when it begins, so a learner may run
meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from streamnb.engine.journal.job_identity import JournalOrigin
from streamnb.engine.journal.journal_entries import missing_records
from streamnb.engine.journal.recovery import describe_changes, refuse_changes
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.retraining import log_retraining
from streamnb.errors import JournalError, LogError, SnapshotError
from streamnb.events import Event, LabelRecord, Retraction
from streamnb.models.interface.stream_model import StreamModel
from streamnb.models.naive_bayes.counting_model import CountingModel
from streamnb.models.tenants.tenant_models import TenantModels
from streamnb.values.parameter_checks import pluralize
from streamnb.verification.check_results import CheckResults
from streamnb.verification.log.journal_chain import CHAIN, LEARNED, LogScan, earliest_kept, scan_log
from streamnb.verification.log.kept_snapshots import SNAPSHOTS, KeptSnapshots
from streamnb.verification.log.processed_slices import SLICES, ProcessedReader
from streamnb.verification.log.published_outputs import ProcessedEvents, PublishedOutputs
from streamnb.verification.log.replayed_states import StateReplay
from streamnb.verification.recount.event_recount import Recount, RecountPlan, TenantRecount
from streamnb.verification.recount.label_recount import LabelRecount
from streamnb.verification.recount.recount_comparison import Compared, LearnedState, compare, recount_of

RECOUNT, CONFIGURATION, LOG = "recount", "configuration", "log"


@dataclass(frozen=True)
class VerificationSource(log_retraining.RetrainingSource):
    """Log, snapshots and learner to verify; `plans` may raise JournalError for a configuration."""

    plans: Callable[[JournalOrigin], RecountPlan]


@dataclass
class VerificationResult:
    """Results and counters of a verification.

    Attributes:
        findings: results of all checks.
        n: last journal record that was read; -1 if there is none.
        events: records of all kinds that were recounted, or only read if nothing is counted.
        labels: label records and retractions among `events`.
        refused: dead letters among `events`.
        commits: commits in which `events` were learned.
        adopted: last record that installed a retrained model; -1 if there is none.
        compared: numbers of the state that equal the recount; None if it was not compared.
    """

    findings: CheckResults
    n: int = -1
    events: int = 0
    labels: int = 0
    refused: int = 0
    commits: int = 0
    adopted: int = -1
    compared: Compared | None = None


def verify(
    source: VerificationSource, findings: CheckResults, progress: Callable[[int], None] = lambda _: None
) -> VerificationResult:
    """Run all checks, and report every difference to `findings`.

    1. The chain of the journal, and its positions.
    2. Every slice that the log still holds. Its events are recounted from the beginning of the journal, or
       from the oldest snapshot from which the log is complete.
    3. The recount against every snapshot on the way, and against the recovered state.
    4. The recovered state, and the features and gradient-trained parts of snapshots, against a replay without
       snapshots.
    5. Predictions and dead letters against the events.

    A model that is not a table of counts cannot be recounted. Instead of step 3, the model and the snapshots
    on the way are compared with a replay, bit for bit. `progress` is called repeatedly with the number of
    events read so far.

    Raises LogError if the log or its journal cannot be read at all.
    """
    verified = VerificationResult(findings)
    # Snapshots first: one that is kept meanwhile stands at a record beyond the journal's end as it is taken.
    kept = KeptSnapshots(source.snapshots, findings)
    kept.list()
    earliest = earliest_kept(source.log, source.identity.topics)
    journal = source.log.partitions(source.identity.journal)[0]
    seen = scan_log(source.log, journal, earliest, kept.origins, findings)
    verified.n, verified.adopted = seen.end.n, seen.adopted
    if seen.first is None:
        if not seen.is_broken:
            findings.differs(CHAIN, "the journal is empty: nothing has been learned yet")
        return verified
    _check_present(source, seen, findings)
    kept.check_places(seen)
    recounting = _Recount(source, seen, kept, verified, progress)
    try:
        recounting.run(ProcessedReader(source.log, seen, kept.origins, earliest, source.plans))
    except JournalError as error:  # a configuration that this program does not know
        findings.differs(CONFIGURATION, str(error))
    replays = StateReplay(source.log, source.snapshots, source.learner, source.identity, seen, findings)
    learner = replays.present(RECOUNT, kept)
    if learner is not None:
        if recounting.counts:
            _compare_recount(recounting.recount, learner, seen, verified)
        recounting.report_corrections(learner.model)
        replays.compare(learner, kept, recounting.base)
    return verified


def _check_present(source: VerificationSource, seen: LogScan, findings: CheckResults) -> None:
    end = {"record": seen.end.n}
    if not seen.is_broken:
        findings.ok(CHAIN, f"records {seen.first_n:,} to {seen.end.n:,}, each follows the one before")
    if seen.first_n > 0:
        text = f"the records before {seen.first_n:,} are no longer kept"
        findings.unchecked(CHAIN, text, record=seen.first_n)
    try:
        changes = describe_changes(refuse_changes(seen.end, source.identity))
        text = f"other from the next run on: {changes}" if changes else "that of the journal"
        findings.ok(CONFIGURATION, text)
    except JournalError as error:
        findings.differs(CONFIGURATION, str(error), end)
    try:
        for line in missing_records(source.log, seen.end, source.identity):
            findings.differs(LOG, line, end)
    except LogError as error:
        findings.differs(LOG, str(error), end)


@dataclass(eq=False)
class _Recount:
    """One pass over the events: slices, recount, snapshots on the way, and outputs.

    Attributes:
        recount: None without a starting point, or with missing events.
        counts: True if the model is a table of counts that can be recounted.
        base: record of the snapshot after which counting begins; -1 if no snapshot is needed.
    """

    source: VerificationSource
    seen: LogScan
    kept: KeptSnapshots
    verified: VerificationResult
    progress: Callable[[int], None]

    def __post_init__(self) -> None:
        self.recount: Recount | None = None
        self._findings = self.verified.findings
        learner = self.source.learner()
        self._of_tenants = isinstance(learner.model, TenantModels)
        self.counts = self._of_tenants or isinstance(learner.model, CountingModel)
        self._new = TenantRecount.for_model(learner.model)
        self._late = None if learner.late is None else LabelRecount(self._new)
        self.base = -1

    def run(self, reader: ProcessedReader) -> None:
        self._begin()
        plans = [plan for origin in self.seen.origins.values() if (plan := reader.plan(origin)) is not None]
        settings = [plan.settings for plan in plans]
        published = PublishedOutputs(self.source.log, settings, self.seen, self.kept.origins, self._findings)
        published.begin()
        read = 0
        for processed in reader(self._findings):
            read += len(processed.events)
            self.progress(read)
            published.expect(processed)
            self._count(processed, reader.plan(processed.step.after.origin))
        if not self._findings.count(LEARNED):
            self._findings.ok(LEARNED, "every event up to them was learned once: none twice, none skipped")
        self._report_slices(reader)
        published.check(lambda: reader(CheckResults()))

    def _begin(self) -> None:
        seen = self.seen
        least = max(seen.first_n, seen.unread, seen.relearned)
        why = "the journal no longer keeps what they were learned by" if least else ""
        if least == seen.relearned:
            why = "they were retrained there under another configuration"
        elif least == seen.unread:
            why = seen.why
        if why and (self._late is not None or self._of_tenants):
            how = "labels that arrive separately" if self._late is not None else "models of tenants"
            self._give_up(f"{how}, with events up to journal record {least}: {why}", record=least)
            return
        if not self.counts:
            text = "this kind of model is not a table of counts: it is compared only with a replay"
            self._findings.unchecked(RECOUNT, text)
            return
        if not why:
            self.recount = self._new
            return
        for n, state in self.kept.states(least, seen):
            try:
                self.recount, self.base = recount_of(state), n
            except SnapshotError as error:
                text = f"the snapshot at journal record {n}: {error}"
                self._findings.differs(SNAPSHOTS, text, {"record": n})
                continue
            events = pluralize(self.recount.consumed, "event")
            text = f"{events} up to journal record {n}, where the recount begins with a snapshot: {why}"
            self._findings.unchecked(RECOUNT, text, record=n)
            return
        text = f"events up to journal record {least}, and no snapshot stands after it: {why}"
        self._findings.unchecked(RECOUNT, text, record=least)

    def _give_up(self, why: str, **place: int) -> None:
        self.recount = self._late = None
        self.counts = False
        self._findings.unchecked(RECOUNT, f"{why}: only a replay checks them", **place)

    def _count(self, processed: ProcessedEvents, plan: RecountPlan | None) -> None:
        record = processed.step.record
        if plan is None or not self.seen.counts(record.n) or (self.recount is None and self.counts):
            return
        if record.kind == "adopt" and self._late is not None:
            text = f"late labels from journal record {record.n} on, which installed a retrained model"
            self._give_up(text, record=record.n)
        if record.n > self.base:
            if self._late is not None:
                self._late.take(processed.events, record.work, plan)
            elif self.recount is not None:
                for _, event in processed.events:
                    if event is None or isinstance(event, Event):
                        self.recount.take(event, plan)
            self.verified.events += len(processed.events)
            self.verified.labels += sum(
                isinstance(one, LabelRecord | Retraction) for _, one in processed.events
            )
            self.verified.refused += sum(event is None for _, event in processed.events)
            self.verified.commits += record.kind == "commit"
        if self.recount is not None and not (self.seen.is_broken or self._of_tenants):
            self.kept.compare(processed.step, self.recount, self.base)

    def report_corrections(self, model: StreamModel) -> None:
        n = 0 if self._late is None else self._late.recount.unlearned
        if n and model.corrections == "exact":
            self._findings.ok(RECOUNT, f"{pluralize(n, 'event')} taken back, as labels changed")
        elif n:
            back = "nothing" if model.corrections == "again" else "counts and moments alone"
            text = f"{pluralize(n, 'event')} taught again, as labels changed; it takes back {back}"
            self._findings.unchecked(RECOUNT, text)

    def _report_slices(self, reader: ProcessedReader) -> None:
        if reader.gone:
            self._findings.unchecked(SLICES, f"{pluralize(reader.gone, 'slice')} no longer kept")
        if self._findings.count(SLICES):
            return
        self._findings.ok(SLICES, f"learned records are in {pluralize(reader.slices, 'slice')}")
        lost = [n for n in sorted(reader.incomplete) if n > self.base and self.seen.counts(n)]
        if lost and (self.recount or self._late) is not None:
            self.recount = self._late = None
            text = f"events of journal record {lost[0]} were deleted while they were verified"
            self._findings.unchecked(RECOUNT, text, record=lost[0])


def learned_state(learner: EventProcessor) -> LearnedState:
    """Return the state of a processor, as a recount compares it."""
    return LearnedState.of_model(learner.model, learner.consumed, learner.dead_letters)


def _compare_recount(
    recount: Recount | None, learner: EventProcessor, seen: LogScan, verified: VerificationResult
) -> None:
    findings = verified.findings
    if recount is None or seen.is_broken:
        findings.unchecked(RECOUNT, "the state: what was learned could not be counted")
        return
    compared = compare(recount, learned_state(learner), RECOUNT, seen.end.n, findings)
    verified.compared = compared
    if not findings.count(RECOUNT):
        findings.ok(RECOUNT, str(compared), record=seen.end.n)
