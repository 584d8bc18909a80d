"""The loop: poll -> decode -> predict, learn -> encode -> commit. One process, one thread, one log."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

from streamnb.engine.journal.checkpoint import BEFORE, Checkpoint
from streamnb.engine.journal.job_identity import JobIdentity
from streamnb.engine.journal.journal_entries import (
    accept_configuration,
    accept_loss,
    accept_program,
    begin,
    install_retrained_model,
    missing_records,
    partitions_of,
    restate,
)
from streamnb.engine.journal.journal_history import ForeignRecord
from streamnb.engine.journal.journal_topic import JournalTopic
from streamnb.engine.journal.recovery import (
    configure,
    describe_changes,
    install_model,
    recover,
    refuse_changes,
)
from streamnb.engine.journal.snapshot_store import SnapshotStore
from streamnb.engine.ports import CommitInFlight, Log, Partition, Record
from streamnb.engine.processing.counters import Counters
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.processing.metrics_reports import why_nothing_is_evicted
from streamnb.engine.processing.retrained_model import RetrainedModel
from streamnb.engine.sensor import MOST_TENANTS, SILENT, Committed, Sensor, WorkerState
from streamnb.errors import JournalError, NotElected, OutOfRange, SnapshotError, UnknownTopic
from streamnb.models.tenants.tenant_models import TenantModels
from streamnb.runtime.snapshot_writer import LONGEST_WRITE, Saving
from streamnb.statistics.memory_budget import MemoryUse

_TURN_SECONDS = 0.5
_STAND_BY_SECONDS = 0.2
_LOOK_SECONDS = 1.0
_CALM_SECONDS = 1.0  # without an event
_COMMIT_BYTES = 16 << 20  # bytes of events, or of outputs
_RUNS = 2000  # runs of one partition's records, each at most 400 bytes in a journal record
_PARTITION_SECONDS = 5.0
_SHORT_OF_MEMORY = 0.8
_WHEN_FULL = {
    "words": "beyond that the rarest are forgotten",
    "long_words": "beyond that the rarest are forgotten",
    "features": "beyond that the lightest are forgotten",
    "pairs": "beyond that the attributes that came last lose theirs",
    "waiting": "beyond that the oldest events wait no longer",
}
_RAISED = {"waiting": ("labels.memory", ", up to an eighth of memory.budget")}
_EARLY_MOST, _EARLY_AGAIN = 0.5, 0.25  # share of the memory for labels before their events
_STANDS_SECONDS = 60.0  # maximum pause for a retrained model
_WORK = 4  # steps in a commit of what takes longer than one
_OFFER_SECONDS = 0.05
_STRAYS_TOLD = 5
_LONG_SECONDS = 5.0  # for a partition that lags to stand still
_STUCK_SECONDS = 60.0  # and until labels do not wait for it any more
_TELL_SECONDS = 10.0  # between two lines of why
_OUTLAST = (
    "retention overtook the learner: let topics.retention outlast its lag "
    "(`streamnb topics plan` shows how to raise a topic's)"
)
_WITHOUT = "bring them back, or go on without them: streamnb run --accept-loss"


@dataclass(frozen=True)
class CommitPolicy:
    """When commits and snapshots are due: after how many events, or how many seconds."""

    commit_events: int = 5000
    commit_seconds: float = 0.1
    snapshot_events: int = 100_000
    snapshot_seconds: float = 60.0


class _CommitBegun(NamedTuple):
    commit: CommitInFlight
    n: int
    at: float
    records: Sequence[Record]
    tally: Counters


class _WorkerStoppedError(Exception):
    """Stop request before recovery was complete."""


class Worker:
    """Loop that runs a learner on a log: it recovers, then commits until it is stopped.

    Args:
        log: not acquired yet; `run` closes it.
        snapshots: store of snapshots.
        learner: empty; recovery brings it to the end of the journal.
        identity: identity that the journal must have.
        pace: when commits and snapshots are due.
        clock: returns seconds since the epoch; read once a commit and journalled.
        sensor: receives events.
        accepts_loss: continue if records are lost that were never learned, and journal that.
        elected: called after the log is acquired, when no other process can begin the journal; returns the
            identity, and updates settings and model of the learner.

    Attributes:
        checkpoint: end of the journal, after recovery.
    """

    def __init__(
        self,
        log: Log,
        snapshots: SnapshotStore,
        learner: EventProcessor,
        identity: JobIdentity,
        pace: CommitPolicy = CommitPolicy(),
        clock: Callable[[], float] = time.time,
        sensor: Sensor = SILENT,
        *,
        accepts_loss: bool = False,
        elected: Callable[[], JobIdentity] | None = None,
    ) -> None:
        self.learner, self._log, self._snapshots = learner, log, snapshots
        self._identity, self._pace, self._clock = identity, pace, clock
        self._sensor, self._accepts_loss, self._elected = sensor, accepts_loss, elected
        self._left: Sequence[Record] = ()  # read, and not processed: the outputs of others filled a commit
        self._stopping = False
        self._last_asker = ""  # last process that asked for a pause
        self._only_events = False  # until those come of which labels are there
        self._ends: Mapping[Partition, int] = {}  # ends of the event topics when labels began to wait
        self._labels_read: Mapping[Partition, int] = {}  # as far as, when they last waited
        self._ahead = False  # the model knows records that no commit holds, or one that failed
        self._begun: _CommitBegun | None = None
        self.checkpoint = BEFORE  # after the commit under way
        self._saving: Saving | None = None  # the snapshot on its way
        self._saving_since = 0.0
        self._stuck = False  # the snapshot in progress is stuck, and this was reported
        self._unsaved = False  # something was committed since the last snapshot was begun
        self._saved_consumed = 0
        self._saved_at = 0.0
        self._topic_ids: Mapping[str, str] = {}
        self._journal: JournalTopic  # once it has started
        self._began = -math.inf  # when the last commit did
        self._running_since = math.inf
        self._reported = -math.inf  # when a commit last held a report
        self._waiting: dict[
            Partition, tuple[int, float]
        ] = {}  # partition that lags -> its position, since when
        self._logged_at = -math.inf  # when the last reason for waiting was logged
        self._forgets = True  # as far as reported
        self._short: set[str] = set()  # parts of memory that were reported as nearly full
        self._looked = self._listed = 0.0  # when at the lag, and at the partitions

    @property
    def is_restored(self) -> bool:
        """True after `start` has completed; before that, the model is not usable."""
        return self.checkpoint.n >= 0

    def stop(self) -> None:
        """Let `run` return after the current commit; may be called from a signal handler."""
        self._stopping = True

    def await_leadership(self, owner: str, waiting: Callable[[NotElected], None]) -> None:
        """Call `start` once no other learner is alive; return without it after `stop`.

        `waiting` receives the error with the present learner, again if that changes.
        """
        told = ""
        self._sensor.entered(WorkerState.STARTING)
        while not self._stopping:
            self._sensor.heartbeat()
            try:
                self.start(owner)
            except NotElected as error:
                if str(error) != told:
                    self._sensor.entered(WorkerState.STANDBY)
                    waiting(error)
                told = str(error)
                time.sleep(_STAND_BY_SECONDS)
            except _WorkerStoppedError:
                return
            else:
                return

    def start(self, owner: str) -> Checkpoint:
        """Acquire the log and recover; returns where the journal stands.

        Raises LogError (NotElected while another learner is alive), JournalError or SnapshotError; then
        nothing has been published.
        """
        self._log.acquire(owner)
        self._sensor.entered(WorkerState.RECOVERING)
        self._identity = self._identity if self._elected is None else self._elected()
        began, now = time.monotonic(), self._clock()
        strays: dict[int, ForeignRecord] = {}
        floors: list[int] = []  # checkpoints at an origin's floor
        replayed: list[int] = []  # records seen after the first replayed journal record

        def passed(at: Checkpoint, _: object) -> None:
            if at.n == at.origin.floor:
                floors.append(at.n)
            if not replayed:
                replayed.append(self.learner.consumed)

        self._journal = JournalTopic(self._log, self._log.partitions(self._identity.journal)[0])
        checkpoint = recover(
            self._log,
            self._snapshots,
            self.learner,
            self._identity,
            self._heartbeat,
            passed=passed,
            stray=lambda stray: strays.update({stray.offset: stray}),
            begins=True,
        )
        seconds = time.monotonic() - began
        self._report_foreign_records(strays.values())
        # No snapshot has the replayed records: one may be due before a new record arrives.
        self._saved_consumed, self._saved_at = min([self.learner.consumed, *replayed]), time.monotonic()
        self._unsaved |= bool(replayed)
        checkpoint = self._install_offered_model(checkpoint, now, is_due=bool(floors))
        checkpoint = checkpoint.with_new_partitions(partitions_of(self._log, self._identity))
        self._log.seek(checkpoint.positions)
        self.checkpoint = checkpoint
        self._topic_ids = checkpoint.origin.topic_ids
        self._check_topics()
        self.learner.tally = Counters()  # recovered events were reported before
        self._sensor.recovered(seconds, self.learner.consumed)
        self._sensor.reported(self.learner.report(now))
        self._running_since = time.monotonic()
        self._sensor.entered(WorkerState.RUNNING)
        return checkpoint

    def _install_offered_model(self, checkpoint: Checkpoint, now: float, *, is_due: bool) -> Checkpoint:
        """Write down what is different from when the journal was last written, if anything is.

        A snapshot follows at once where what is different stands in the way of a replay, or it is due.
        """
        if checkpoint.n < 0:
            return begin(self._log, self._identity, now)
        stood = checkpoint
        changes = refuse_changes(checkpoint, self._identity)
        missing = missing_records(self._log, checkpoint, self._identity)
        if missing and not self._accepts_loss:
            raise JournalError(f"{'; '.join(missing)}; {_WITHOUT}")
        if missing:  # first, for positions in partitions that are no more cannot be written down again
            self._sensor.noted(f"continuing without what is gone: {'; '.join(missing)}")
            checkpoint = accept_loss(self._log, checkpoint, self._identity, now)
        before, checkpoint = checkpoint, accept_program(self._log, checkpoint, self._identity, now)
        if checkpoint is not before:
            self._sensor.noted(f"continuing with what streamnb {before.origin.program} has learned")
        if changes:
            self._sensor.noted(f"the configuration was changed: {describe_changes(changes)}")
        checkpoint = accept_configuration(self._log, checkpoint, self._identity, now)
        if checkpoint is not stood or is_due:
            self._begin_saving(checkpoint)
            self._finish_saving(self._heartbeat)
        return checkpoint

    def _pause_for_handover(self, asker: str) -> None:
        """Pause commits until the asker offers a retrained model, and install it.

        Pause once for each asker, which may repeat its request shortly after.
        """
        self._last_asker, self._waiting = asker, {}
        self._await_commit()
        self._finish_saving(self._turn)
        self._sensor.noted("pausing commits until a retrained model is installed")
        deadline = time.monotonic() + _STANDS_SECONDS
        why = "none came"
        while self._snapshots.asked_by() == asker and not self._stopping and time.monotonic() < deadline:
            self._turn()
            try:
                rebuilt = self._offered(self.checkpoint)
            except SnapshotError as error:
                why = str(error)
                break
            if rebuilt is not None:
                self.install_model(rebuilt)
                return
            time.sleep(_OFFER_SECONDS)
        self._sensor.noted(f"continuing with the model as it was: {why}")

    def _offered(self, checkpoint: Checkpoint) -> RetrainedModel | None:
        found = self._snapshots.offered(checkpoint.n)
        is_ours = found is not None and found.digest == checkpoint.digest
        return RetrainedModel.from_parts(found.parts) if found is not None and is_ours else None

    def install_model(
        self,
        rebuilt: RetrainedModel,
        becomes: JobIdentity | None = None,
        merges: Mapping[str, Any] = MappingProxyType({}),
    ) -> Checkpoint:
        """Install a retrained model that is at the end of the journal, or a sum of others.

        The journal records the installation, with the merged states `merges` of a sum, and a snapshot is
        written. A model retrained under another configuration comes with its identity `becomes`, which the
        same record stores. Raises SnapshotError, without any change, if the model does not fit this learner.
        """
        self._await_commit()
        if becomes is None:
            self.learner.install_model(lambda: rebuilt)
        else:
            install_model(self.learner, lambda: rebuilt, becomes, becomes.semantic_config)
            configure(self.learner, becomes, becomes.semantic_config)
            self._identity = becomes
        self._ahead = True
        self.checkpoint = install_retrained_model(
            self._log, self.checkpoint, rebuilt, self._identity, self._clock(), merges
        )
        self._ahead = False
        what = "the sum of others" if merges else "a retrained model"
        self._sensor.noted(f"journal record {self.checkpoint.n} installed {what}")
        self._begin_saving(self.checkpoint)
        self._finish_saving(self._turn)
        return self.checkpoint

    def _report_foreign_records(self, strays: Collection[ForeignRecord]) -> None:
        for stray in sorted(strays)[:_STRAYS_TOLD]:
            self._sensor.noted(f"passing over offset {stray.offset} of the journal's topic: {stray.what}")
        if len(strays) > _STRAYS_TOLD:
            self._sensor.noted(f"and {len(strays) - _STRAYS_TOLD} more; `streamnb verify` counts them")

    def run(self, *, until_end: bool = False) -> None:
        """Poll, learn and commit until `stop`, or with `until_end` until everything has been read."""
        try:
            while self.is_restored and not self._stopping:
                records = self._read(until_end=until_end)
                if records:
                    self._step(records)
                else:
                    self._await_commit()
                    if self.learner.has_work:
                        self._step([])
                        continue
                    self._wait_for_events(self._log.lag())
                    if until_end and not any(self._log.lag().values()):
                        break
                    self._report_if_due(self.learner.settings.report_seconds)
                    if self.learner.monitors and self._silence(self._clock()):
                        self._step([])
                self._look_around()
                self._save_if_due(is_idle=not records)
            self._report_if_due(0.0)
            while until_end and self.is_restored and not self._stopping and self.learner.has_pending_report:
                self._step([])
        finally:  # commit the processed records, whatever stopped the rest
            self._await_commit()

    def close(self) -> None:
        """Write a last snapshot if anything was learned since the last one, and release the log.

        After a failed commit the model is ahead of the journal and must not be saved: recovery would learn
        the same records again.
        """
        try:
            self._finish_saving(self._sensor.heartbeat)
            if self.is_restored and self._unsaved and not self._ahead and self._begun is None:
                self._begin_saving(self.checkpoint)
                self._finish_saving(self._sensor.heartbeat)
        finally:
            self._log.close()
            self._sensor.entered(WorkerState.STOPPED)

    def _turn(self) -> None:
        self._log.heartbeat()
        self._sensor.heartbeat()

    def _heartbeat(self) -> None:
        """Send heartbeats during a recovery, which may be long, and raise on a stop request."""
        self._turn()
        if self._stopping:
            raise _WorkerStoppedError

    def _read(self, *, until_end: bool) -> Sequence[Record]:
        """Return the records of `_gather`; raise JournalError if the next records are lost."""
        try:
            return self._gather(until_end=until_end)
        except OutOfRange as error:
            missing = missing_records(self._log, self.checkpoint, self._identity)
            if not missing:
                raise
            eaten = any("were deleted" in line for line in missing)
            raise JournalError("; ".join([*missing, *([_OUTLAST] if eaten else []), _WITHOUT])) from error

    def _gather(self, *, until_end: bool = False) -> Sequence[Record]:
        """Return records for one commit: until it is due, or up to the limit; empty if none arrived.

        With `until_end` it does not wait at the end of the log. Number and bytes of the records are bounded,
        and so is memory.

        A commit is due `commit_seconds` after the start of the last one: records that arrived during that
        commit have waited already. If it is overdue, as after a pause of the stream, or if work is pending
        that needs no record, available records are taken without waiting. Waits are short, with heartbeats
        and checks for `stop` in between. Records left over from the last commit come first, without a wait.
        """
        if self._left:
            self._turn()
            waiting, self._left = self._left, ()
            return waiting
        records: list[Record] = []
        wait = 0.0 if self.learner.has_work else self._pace.commit_seconds
        due = self._began + wait
        latest = max(due, time.monotonic() + wait)
        size = 0
        while len(records) < self._pace.commit_events and size < _COMMIT_BYTES and not self._stopping:
            self._turn()
            self._finish_commit_if_over()
            left = (due if records else latest) - time.monotonic()
            most = self._pace.commit_events - len(records)
            found = self._log.poll(most, min(_TURN_SECONDS, max(0.0, left)))
            records += found
            size += sum([len(record.value) for record in found])
            now = time.monotonic()
            if now >= latest or (now >= due and records and not found):
                break
            if until_end and not found and not any(self._log.lag().values()):
                break
        return records

    def _step(self, records: Sequence[Record]) -> None:
        """Commit as many of the records as outputs and journal record can hold; none makes a report.

        1. Read the clock: `now` is journalled, and nothing learned or published depends on any other clock.
           The silences that monitors evaluate are journalled, too.
        2. Predict and learn the records in order, and encode the outputs. If outputs are large, as for many
           classes, leave the rest for the next commit: batching changes nothing else.
        3. Make the journal record of the processed records.
        4. Wait until the last commit is durable.
        5. Begin to write outputs, journal record and positions in one transaction. Meanwhile, read and learn
           the next records.

        A crash before the end of the transaction loses nothing: the records are read again. A crash after it
        repeats nothing: the journal lists the processed records, and recovery learns them without output.
        """
        self._began = time.monotonic()
        self._check_topics()
        now = self._clock()
        self._ahead = True
        before = self.learner.consumed
        work = _WORK if self.learner.has_work else 0
        silence = self._silence(now)
        first = records[: _named(records)]
        outputs = self.learner.process(first, now, self._turn, _COMMIT_BYTES, work, silence)
        taken = self.learner.consumed - before
        records, self._left = records[:taken], records[taken:]
        tally, self.learner.tally = self.learner.tally, Counters()
        if tally.report is not None:
            self._reported = self._began
        acted = self.learner.actions.acted(taken)
        checkpoint, transaction = self.checkpoint.commit(
            self._identity, records, outputs, now, work, silence, acted
        )
        self._await_commit()
        at = time.time()
        self._begun = _CommitBegun(self._log.begin_commit(transaction), checkpoint.n, at, records, tally)
        self.checkpoint, self._ahead = checkpoint, False
        late = None if self._only_events else self.learner.late
        if late is not None and late.fullness > _EARLY_MOST:
            self._wait_for_events(self._lag())
        self._finish_commit_if_over()

    def _silence(self, now: float) -> float:
        """Return the longest silence in seconds that monitors must evaluate now; 0 if there is none.

        With unread records only silences since the start of this learner count: it may have just started, and
        not have read the records of a longer silence.
        """
        overdue = self.learner.monitors.overdue(now)
        if overdue and any(self._log.lag().values()):
            seen = time.monotonic() - self._running_since
            overdue = [seconds for seconds in overdue if seconds <= seen]
        return max(overdue, default=0.0)

    def _report_if_due(self, seconds: float) -> None:
        """Commit a report of the last events before a pause, if the last report is too old.

        The age is measured by the monotonic clock; a replay takes the commit as it is.
        """
        old = time.monotonic() - self._reported >= seconds
        if old and self.is_restored and self.learner.has_pending_report:
            self._step([])

    def _finish_commit_if_over(self) -> None:
        if self._begun is not None and self._begun.commit.is_over():
            self._await_commit()

    def _await_commit(self) -> None:
        """Wait for the commit in flight, if any; if it fails, the model is ahead of the journal."""
        begun, self._begun = self._begun, None
        if begun is None:
            return
        ahead, self._ahead = self._ahead, True
        seconds = begun.commit.await_outcome()
        self._ahead, self._unsaved = ahead, True
        self._report_commit(begun, seconds)

    def _report_commit(self, begun: _CommitBegun, seconds: float) -> None:
        at, records = begun.at + seconds, begun.records
        if begun.tally.report is not None:
            self._sensor.reported(begun.tally.report)
        latencies = [at - record.timestamp for record in records]
        self._sensor.committed(Committed(begun.n, len(records), begun.tally, seconds, at, latencies, records))
        self._warn_if_nothing_is_evicted()

    def _look_around(self) -> None:
        """Check lag, memory, new partitions and hand-over requests periodically."""
        now = time.monotonic()
        if now - self._listed >= _PARTITION_SECONDS:
            self._listed = now
            self._take_new_partitions()
            self._survive_trimming()
        if now - self._looked >= _LOOK_SECONDS:
            self._looked = now
            lag = self._lag()
            self._sensor.observed(lag, self.learner.n_bytes)
            memory = self.learner.memory_use
            self._sensor.remembered(memory)
            if isinstance(self.learner.model, TenantModels):
                self._sensor.shared_out(self.learner.model.use(MOST_TENANTS))
            self._warn_if_memory_is_short(memory)
            self._wait_for_events(lag)
            self._report_waiting_events(lag, now)
            asker = self._snapshots.asked_by()
            if asker not in {"", self._last_asker}:
                self._pause_for_handover(asker)

    def _warn_if_nothing_is_evicted(self) -> None:
        why = why_nothing_is_evicted(self.learner.model) if self._forgets else ""
        if why:
            self._forgets = False
            self._sensor.noted(f'{why}; events.clock = "log" goes by when the log recorded each')

    def _warn_if_memory_is_short(self, memory: MemoryUse) -> None:
        """Log once for each part of memory that it is nearly full, and the consequence."""
        for name, part in memory.parts.items():
            if part.share > _SHORT_OF_MEMORY and name not in self._short:
                self._short.add(name)
                left = int((1.0 / part.share - 1.0) * self.learner.consumed)
                pace = f", at this pace in about {left:,} events" if left > 0 else ""
                key, most = _RAISED.get(name, ("memory.budget", ""))
                use = f"{name.replace('_', ' ')} take {part.share:.0%} of their {part.most / 1e6:.1f} MB"
                self._sensor.noted(f"{key}: {use}; {_WHEN_FULL[name]}{pace}; {key} may be raised{most}")

    def _lag(self) -> Mapping[Partition, int]:
        left = Counter(record.partition for record in self._left)
        return {partition: behind + left[partition] for partition, behind in self._log.lag().items()}

    def _wait_for_events(self, lag: Mapping[Partition, int]) -> None:
        """Pause reading labels while too many wait for events that are not read yet.

        Labels that are read faster than events would be dropped, like labels of events that never arrive.
        They wait for the events that existed when the wait began, since a continuous stream always has later
        ones, and for no partition that cannot be read.
        """
        late = self.learner.late
        if late is None or not self.is_restored:
            return
        at, labels, now = self.checkpoint.positions, late.settings.topic, time.monotonic()
        read = {p: place for p, place in at.items() if p.topic == labels}
        if not self._only_events:
            if read == self._labels_read:
                return  # none since they waited: events may be read first, each time
            self._ends = {p: at[p] + n for p, n in lag.items() if n and p in at and p not in read}
        long = {p: place for p, (place, since) in self._waiting.items() if now - since >= _STUCK_SECONDS}
        stuck = {p for p, place in long.items() if place == at.get(p)}
        # Transaction markers follow the last record, and do not count as lag.
        is_behind = any(at[p] < end and lag.get(p) for p, end in self._ends.items() if p not in stuck)
        waits = is_behind and late.fullness > (_EARLY_AGAIN if self._only_events else _EARLY_MOST)
        if waits != self._only_events:
            self._only_events = waits
            self._labels_read = read
            self._seek()

    def _seek(self) -> None:
        positions, late = self.checkpoint.positions, self.learner.late
        if self._only_events and late is not None:
            positions = {p: at for p, at in positions.items() if p.topic != late.settings.topic}
        self._left = ()  # it is read again
        self._log.seek(positions)

    def _report_waiting_events(self, lag: Mapping[Partition, int], now: float) -> None:
        """Log partitions whose records could not be read for a while."""
        at, before = self.checkpoint.positions, self._waiting
        lagging = [partition for partition, records in lag.items() if records and partition in at]
        unmoved = {p for p in lagging if p in before and before[p][0] == at[p]}
        self._waiting = {p: before[p] if p in unmoved else (at[p], now) for p in lagging}
        long = {p: now - since for p, (_, since) in self._waiting.items() if now - since >= _LONG_SECONDS}
        if long and now - self._logged_at >= _TELL_SECONDS:
            for line in self._log.held_up(long):
                self._logged_at = now
                self._sensor.noted(f"waiting for {max(long.values()):.0f} s: {line}")

    def _check_topics(self) -> None:
        """Raise JournalError if a topic was deleted or recreated.

        Check between reading and learning: a client may continue at the old offset of a recreated topic, and
        an id is never reused.
        """
        found = self._log.topic_ids([*self._topic_ids, self._identity.journal])
        for topic, known in self._topic_ids.items():
            if topic not in found:
                raise UnknownTopic(f"topic {topic!r} was deleted while this learner ran")
            if found[topic] != known:
                raise JournalError(
                    f"topic {topic!r} was deleted and recreated: offsets in the journal do not apply to it"
                )
        self._journal.check(found.get(self._identity.journal, ""))

    def _survive_trimming(self) -> None:
        """Write a current record and a snapshot if the beginning of the journal was deleted.

        Otherwise the record of the newest snapshot may be lost, and nothing could recover the state after
        this learner ends.
        """
        first = self._journal.trimmed()
        if first is None:
            return
        self._await_commit()
        self._finish_saving(self._turn)
        self._sensor.noted(f"the journal was trimmed up to offset {first}: a snapshot follows at once")
        self.checkpoint = restate(self._log, self.checkpoint, self._identity, self._clock())
        self._begin_saving(self.checkpoint)

    def _take_new_partitions(self) -> None:
        """Read new partitions from their beginning; the next commit journals them."""
        self._check_topics()
        found = partitions_of(self._log, self._identity)
        if not set(found) <= set(self.checkpoint.positions):
            self.checkpoint = self.checkpoint.with_new_partitions(found)
            self._seek()

    def _save_if_due(self, *, is_idle: bool) -> None:
        """Continue the snapshot in progress, or begin one if it is due.

        While events arrive it waits until no rows are being rehashed; without events the delay does not
        matter.
        """
        if self._saving is not None:
            if not self._saving.advance():
                self._warn_if_stuck()
                return
            self._finish_saving(self._turn)
        events = self.learner.consumed - self._saved_consumed
        seconds = time.monotonic() - self._saved_at
        is_due = events >= self._pace.snapshot_events or (events and seconds >= self._pace.snapshot_seconds)
        is_calm = is_idle and time.monotonic() - self._began >= _CALM_SECONDS
        is_late = seconds > 2 * self._pace.snapshot_seconds
        if is_due and (is_calm or is_late or self.learner.model.is_settled):
            self._await_commit()
            self._begin_saving(self.checkpoint)

    def _warn_if_stuck(self) -> None:
        """Log once that the disk does not respond; no further snapshot begins until it does."""
        if not self._stuck and time.monotonic() - self._saving_since > LONGEST_WRITE:
            self._stuck = True
            self._sensor.unsaved(f"one has not been written for {LONGEST_WRITE:g} s: does the disk answer?")

    def _begin_saving(self, checkpoint: Checkpoint) -> None:
        self._saving_since = self._saved_at = time.monotonic()
        self._saved_consumed = self.learner.consumed
        self._saving = Saving(self._snapshots, checkpoint, self.learner, self._identity)
        self._unsaved = self._stuck = False

    def _finish_saving(self, alive: Callable[[], None]) -> None:
        """Wait for the snapshot in progress; continue if it fails, as that only lengthens recovery."""
        saving, self._saving = self._saving, None
        if saving is None:
            return
        try:
            saved = saving.finish(alive)
        except SnapshotError as error:
            self._sensor.unsaved(str(error))
            self._unsaved = True
        else:
            with suppress(FileNotFoundError):  # a successor may have dropped it already
                self._sensor.saved(time.monotonic() - self._saving_since, saved.stat().st_size)


def _named(records: Sequence[Record]) -> int:
    """Return how many records fit in one journal record, which lists runs of one partition."""
    runs = 0
    for number, (before, record) in enumerate(pairwise(records), 1) if len(records) > _RUNS else ():
        runs += before.partition != record.partition
        if runs == _RUNS:
            return number
    return len(records)
