"""The loop: poll -> decode -> predict, learn -> encode -> commit. One process, one thread, one log."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from streamnb.engine.journal.checkpoint import Checkpoint
from streamnb.engine.journal.job_identity import JobIdentity
from streamnb.engine.journal.snapshot_store import SnapshotStore
from streamnb.engine.ports import Log, Record
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.processing.retrained_model import RetrainedModel
from streamnb.engine.sensor import SILENT, Sensor, WorkerState
from streamnb.engine.worker_states import WorkerStates
from streamnb.errors import NotElected
from streamnb.runtime.committer import Committer
from streamnb.runtime.label_back_pressure import LabelBackPressure, StalledPartitions
from streamnb.runtime.leadership import JournalFollower, Leadership
from streamnb.runtime.model_handover import ModelHandover
from streamnb.runtime.record_reader import RecordReader
from streamnb.runtime.snapshot_writer import SnapshotWriter
from streamnb.runtime.surveillance import (
    LossSurveillance,
    MemorySurveillance,
    RecoverySurveillance,
    TopicSurveillance,
)
from streamnb.runtime.topic_guard import TopicGuard
from streamnb.runtime.worker_context import DEFAULT_POLICY, CommitPolicy, WorkerContext, WorkerStoppedError
from streamnb.runtime.worker_recovery import WorkerRecovery

_LOOK_SECONDS = 1.0
_PARTITION_SECONDS = 5.0
_SETTINGS_SECONDS = 30.0


class Worker:
    """Loop that runs a learner on a log: it recovers, then commits until it is stopped.

    Args:
        log: not acquired yet; `close` closes it.
        snapshots: store of snapshots.
        learner: empty; recovery brings it to the end of the journal.
        identity: identity that the journal must have.
        policy: when commits and snapshots are due.
        clock: returns seconds since the epoch; read once a commit and journalled.
        sensor: receives events.
        accepts_loss: continue if records are lost that were never learned, and journal that.
        elected: called after the log is acquired, when no other process can begin the journal; returns the
            identity, and updates settings and model of the learner.
        states: state machine that others, such as the policy for outages, share; by default one of its own.

    Attributes:
        learner: the learner.
        context: what the parts of the worker share.
    """

    def __init__(
        self,
        log: Log,
        snapshots: SnapshotStore,
        learner: EventProcessor,
        identity: JobIdentity,
        policy: CommitPolicy = DEFAULT_POLICY,
        clock: Callable[[], float] = time.time,
        sensor: Sensor = SILENT,
        *,
        accepts_loss: bool = False,
        elected: Callable[[], JobIdentity] | None = None,
        states: WorkerStates | None = None,
    ) -> None:
        self.learner = learner
        self.context = context = WorkerContext(log, snapshots, learner, identity, policy, clock, sensor)
        self._states = WorkerStates(sensor) if states is None else states
        self._leadership = Leadership(context, self._states)
        topics = TopicGuard(context)
        self._committer = Committer(context, topics)
        self._reader = RecordReader(context, self._committer)
        self._writer = SnapshotWriter(context, self._committer)
        self._recovery = WorkerRecovery(
            context, topics, self._writer, accepts_loss=accepts_loss, elected=elected
        )
        self._stalled = StalledPartitions(context)
        self._back_pressure = LabelBackPressure(context, self._reader, self._stalled)
        self._handover = ModelHandover(context, self._committer, self._writer, self._stalled)
        self._topics = TopicSurveillance(context, topics, self._committer, self._reader, self._writer)
        self._memory = MemorySurveillance(context)
        self._losses, self._recoverable = LossSurveillance(context), RecoverySurveillance(context)
        self._looked = self._listed = self._compared = 0.0  # when at lag, partitions and settings

    @property
    def checkpoint(self) -> Checkpoint:
        """End of the journal, after recovery."""
        return self.context.checkpoint

    @property
    def is_restored(self) -> bool:
        """True after `start` has completed; before that, the model is not usable."""
        return self.context.is_restored

    def stop(self) -> None:
        """Let `run` return after the current commit; may be called from a signal handler."""
        self.context.is_stopping = True

    def await_leadership(
        self, owner: str, waiting: Callable[[NotElected], None], standby: JournalFollower | None = None
    ) -> None:
        """Start once no other learner is alive; return without a start after `stop`.

        `waiting` receives the error with the present learner, again if that changes. `standby` follows that
        learner, and the recovery continues with its state.
        """
        try:
            if self._leadership.wait(owner, waiting, standby):
                with suppress(WorkerStoppedError):
                    self._recover(standby)
        finally:
            if standby is not None:
                standby.close()

    def start(self, owner: str) -> Checkpoint:
        """Acquire the log and recover; returns where the journal stands.

        Raises LogError (NotElected while another learner is alive), JournalError or SnapshotError; then
        nothing has been published.
        """
        self._leadership.acquire(owner)
        return self._recover()

    def _recover(self, standby: JournalFollower | None = None) -> Checkpoint:
        handed_over = None
        if standby is not None:
            handed_over = standby.hand_over(self.context.heartbeat_until_stop)
        checkpoint = self._recovery.run(handed_over)
        self._states.enter(WorkerState.RUNNING)
        return checkpoint

    def install_model(
        self,
        model: RetrainedModel,
        becomes: JobIdentity | None = None,
        merges: Mapping[str, Any] = MappingProxyType({}),
    ) -> Checkpoint:
        """Install a retrained model that is at the end of the journal, or a sum of others.

        The journal records the installation, with the merged states `merges` of a sum, and a snapshot is
        written. A model retrained under another configuration comes with its identity `becomes`, which the
        same record stores. Raises SnapshotError, without any change, if the model does not fit this learner.
        """
        return self._handover.install(model, becomes, merges)

    def run(self, *, until_end: bool = False) -> None:
        """Poll, learn and commit until `stop`, or with `until_end` until everything has been read."""
        try:
            if self.is_restored:
                self._losses.report_gaps()
            while self.is_restored and not self.context.is_stopping:
                records = self._reader.read(until_end=until_end)
                if records:
                    self._commit(records)
                else:
                    self._committer.await_commit()
                    if self.learner.has_work:
                        self._commit([])
                        continue
                    self._back_pressure.update(self._reader.lag())
                    if until_end and not any(self._reader.lag().values()):
                        break
                    self._commit_if_quiet()
                self._look_around()
                self._writer.save_if_due(is_idle=not records)
            if self.is_restored:
                self._losses.report_gaps()
            if self._committer.is_report_due(0.0):
                self._commit([])
            while (
                until_end
                and self.is_restored
                and not self.context.is_stopping
                and self.learner.has_pending_report
            ):
                self._commit([])
        finally:  # commit the processed records, whatever stopped the rest
            self._committer.await_commit()

    def close(self) -> None:
        """Write a last snapshot if anything was learned since the last one, and release the log."""
        try:
            self._writer.close()
        finally:
            self.context.log.close()
            self._states.enter(WorkerState.STOPPED)

    def _commit(self, records: Sequence[Record]) -> None:
        """Commit some of the records, and keep the rest for the next commit."""
        rest = self._committer.commit(records)
        if records:
            self._reader.left = rest
        self._memory.warn_if_nothing_is_evicted()
        self._back_pressure.update_after_commit()
        self._committer.finish_if_over()

    def _commit_if_quiet(self) -> None:
        """Commit without records: a report that is due, or a silence that a monitor must evaluate."""
        if self._committer.is_report_due(self.learner.settings.report_seconds):
            self._commit([])
        if self.learner.monitors and self._committer.silence(self.context.clock()):
            self._commit([])

    def _look_around(self) -> None:
        """Check lag, memory, partitions, settings and hand-over requests periodically."""
        now = time.monotonic()
        if now - self._listed >= _PARTITION_SECONDS:
            self._listed = now
            self._topics.take_new_partitions()
            self._topics.survive_trimming()
            self._losses.report_gaps()
        if now - self._compared >= _SETTINGS_SECONDS:
            self._compared = now
            self._losses.report_settings()
            self._recoverable.observe()
        if now - self._looked >= _LOOK_SECONDS:
            self._looked = now
            lag = self._reader.lag()
            self._memory.observe(lag)
            self._back_pressure.update(lag)
            self._stalled.update(lag, now)
            self._handover.pause_if_asked()
