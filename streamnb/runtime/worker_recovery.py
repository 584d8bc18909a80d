"""Recovery of a worker: from an empty learner to the end of its journal."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from streamnb.engine.journal.checkpoint import Checkpoint
from streamnb.engine.journal.job_identity import JobIdentity
from streamnb.engine.journal.journal_entries import (
    accept_configuration,
    accept_loss,
    accept_program,
    begin,
    missing_records,
    partitions_of,
)
from streamnb.engine.journal.journal_history import ForeignRecord
from streamnb.engine.journal.recovery import continues, describe_changes, recover, refuse_changes
from streamnb.engine.journal.recovery_faults import events_unlearned
from streamnb.engine.processing.counters import Counters
from streamnb.errors import JournalError
from streamnb.runtime.leadership import HandedOver
from streamnb.runtime.snapshot_writer import SnapshotWriter
from streamnb.runtime.topic_guard import TopicGuard
from streamnb.runtime.worker_context import WorkerContext
from streamnb.values.messages import Message

_MAX_REPORTED = 5  # foreign records


@dataclass(eq=False)
class _Replay:
    """Observations during a replay."""

    consumed: int | None = None  # records that the learner knew after the first replayed journal record
    met_floor: bool = False  # an origin's floor: events were erased there
    foreign: dict[int, ForeignRecord] = field(default_factory=dict)


class WorkerRecovery:
    """Recovery of the exact state, in the process that was elected.

    Invariants:

    * Nothing is published, and `context.checkpoint` is set last: until then the model is not usable.
    * The journal records what differs from its last record (configuration, program, lost input) before any
      event is learned under it.

    Args:
        context: of the worker; its learner is empty.
        topics: learns the ids of the topics.
        writer: writes a snapshot if what is journalled would hinder a replay.
        accepts_loss: continue if records are lost that were never learned, and journal that.
        elected: returns the identity now that no other process can begin the journal, and updates settings
            and model of the learner.
    """

    def __init__(
        self,
        context: WorkerContext,
        topics: TopicGuard,
        writer: SnapshotWriter,
        *,
        accepts_loss: bool,
        elected: Callable[[], JobIdentity] | None,
    ) -> None:
        self._context, self._topics, self._writer = context, topics, writer
        self._accepts_loss, self._elected = accepts_loss, elected

    def run(self, handed_over: HandedOver | None = None) -> Checkpoint:
        """Recover; return the end of the journal, from which the log is read.

        1. Replay the journal from the newest snapshot on, or from the state of a standby that followed it.
        2. Journal what has changed since its last record.
        3. Seek to the positions, and check that the journal still refers to the same topics.

        Raises LogError, JournalError or SnapshotError; then nothing has been published. Raises
        WorkerStoppedError after a stop request.
        """
        context = self._context
        if self._elected is not None:
            context.identity = self._elected()
        context.sensor.configured(context.identity.config_hash)
        began, now = time.monotonic(), context.clock()
        if handed_over is not None and not continues(
            context.log, context.identity, handed_over.followed.checkpoint
        ):
            handed_over = None  # rolled back meanwhile
        checkpoint, replay = self._replay(handed_over)  # 1
        seconds = time.monotonic() - began
        self._report_foreign_records(replay.foreign.values())
        consumed = context.learner.consumed
        if handed_over is not None:
            unsaved = handed_over.unsaved_seconds + seconds
            self._writer.begin_after_recovery(handed_over.saved_consumed, -1, unsaved, handed_over.snapshot)
        elif replay.consumed is None:
            self._writer.begin_after_recovery(consumed, max(0, checkpoint.n), 0.0)
        else:
            self._writer.begin_after_recovery(min(consumed, replay.consumed), -1, seconds)
        checkpoint = self._journal_changes(checkpoint, now, is_snapshot_due=replay.met_floor)  # 2
        checkpoint = checkpoint.with_new_partitions(partitions_of(context.log, context.identity))
        context.log.seek(checkpoint.positions)  # 3
        context.checkpoint = checkpoint
        self._topics.expect(checkpoint)
        context.learner.tally = Counters()  # recovered events were reported before
        context.sensor.recovered(seconds, context.learner.consumed)
        context.sensor.reported(context.learner.report(now))
        context.running_since = time.monotonic()
        return checkpoint

    def _replay(self, handed_over: HandedOver | None) -> tuple[Checkpoint, _Replay]:
        context, replay = self._context, _Replay()
        if handed_over is not None:
            context.learner.take(handed_over.learner)

        def passed(at: Checkpoint, _: object) -> None:
            replay.met_floor |= at.n == at.origin.floor
            if replay.consumed is None:
                replay.consumed = context.learner.consumed

        def foreign(record: ForeignRecord) -> None:
            replay.foreign[record.offset] = record

        self._topics.find_journal()
        checkpoint = recover(
            context.log,
            context.snapshots,
            context.learner,
            context.identity,
            context.heartbeat_until_stop,
            passed=passed,
            stray=foreign,
            begins=True,
            since=None if handed_over is None else handed_over.followed,
        )
        return checkpoint, replay

    def _journal_changes(self, checkpoint: Checkpoint, now: float, *, is_snapshot_due: bool) -> Checkpoint:
        """Begin an empty journal; else journal lost input, and a changed program or configuration.

        A snapshot follows at once if a change would hinder a replay, or if it is due anyway.
        """
        context = self._context
        log, identity, sensor = context.log, context.identity, context.sensor
        if checkpoint.n < 0:
            return begin(log, identity, now)
        recovered = checkpoint
        changes = refuse_changes(checkpoint, identity)
        missing = missing_records(log, checkpoint, identity)
        if missing and not self._accepts_loss:
            raise JournalError(str(events_unlearned(missing)))
        if missing:  # first: a later record cannot hold positions in partitions that no longer exist
            text = f"continuing without what is gone: {'; '.join(missing)}"
            sensor.noted(Message("loss-accepted", text, missing=list(missing)))
            checkpoint = accept_loss(log, checkpoint, identity, now)
        before, checkpoint = checkpoint, accept_program(log, checkpoint, identity, now)
        if checkpoint is not before:
            program = before.origin.program
            text = f"continuing with what streamnb {program} has learned"
            sensor.noted(Message("program-changed", text, before=program))
        if changes:
            told = describe_changes(changes)
            text = f"the configuration was changed: {told}"
            sensor.noted(Message("configuration-changed", text, changes=told))
        checkpoint = accept_configuration(log, checkpoint, identity, now)
        if checkpoint is not recovered or is_snapshot_due:
            self._writer.finish(context.heartbeat_until_stop)
            self._writer.begin(checkpoint)
            self._writer.finish(context.heartbeat_until_stop)
        return checkpoint

    def _report_foreign_records(self, records: Collection[ForeignRecord]) -> None:
        noted = self._context.sensor.noted
        for record in sorted(records)[:_MAX_REPORTED]:
            text = f"passing over offset {record.offset} in the journal's topic: {record.what}"
            noted(Message("foreign-record", text, offset=record.offset, reason=record.what))
        if len(records) > _MAX_REPORTED:
            more = len(records) - _MAX_REPORTED
            text = f"and {more} more; `streamnb verify` counts them"
            noted(Message("more-foreign-records", text, count=more))
