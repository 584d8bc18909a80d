"""A standby: the state of the active learner, followed through its journal until a takeover.

Without it a takeover would recover from the newest snapshot, and so depend on the retention of the events
after it. A standby has learned these events already, and keeps snapshots of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from streamnb.config import Config
from streamnb.engine.journal.job_identity import JobIdentity
from streamnb.engine.journal.journal_history import last
from streamnb.engine.journal.recovery import JournalTail, standing
from streamnb.engine.ports import Log
from streamnb.errors import SnapshotError, StreamnbError, Unavailable
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.runtime import context, factories, log_follower
from streamnb.runtime.leadership import HandedOver
from streamnb.runtime.log_follower import FollowerThread, ShortOutages
from streamnb.runtime.snapshot_writer import SnapshotInProgress
from streamnb.runtime.worker_context import CommitPolicy
from streamnb.values.messages import Message

_IDLE_SECONDS = 0.1
_AGAIN_SECONDS = 5.0
_LOOK_SECONDS = 1.0
_PATIENCE_FACTOR = 1.25  # a learner that shares the folder saves first


class StandbyOutages(ShortOutages):
    """Policy that waits longer if giving up would lose the state of a standby.

    Args:
        keeps_waiting: returns True to wait for the log, given the error and the seconds since the first one.
    """

    def __init__(self, keeps_waiting: Callable[[Unavailable, float], bool]) -> None:
        self._keeps_waiting = keeps_waiting

    def unreachable(self, error: Unavailable, seconds: float) -> None:
        """Return to keep waiting, or raise."""
        if not self._keeps_waiting(error, seconds):
            super().unreachable(error, seconds)


class Standby(FollowerThread):
    """Follows the journal of the active learner in a thread, until `hand_over` or `close`.

    After a failure it begins again: from the newest snapshot of the folder, which another process may have
    brought. While it fails, a takeover would probably fail too. The state outlasts an outage of the log,
    which may no longer hold the events by which the state could be learned again.

    Args:
        config: of the learner; its kernels are ready.
        report: (callback) receives messages, in the thread.
    """

    _join_seconds = 5.0  # a cluster that does not answer is not waited for

    def __init__(self, config: Config, report: Callable[[Message], None]) -> None:
        super().__init__(config, report)
        self._snapshots: SnapshotFolder = factories.snapshots(config)
        self._tail: JournalTail | None = None
        self._saves: StandbySnapshots | None = None
        self._is_last_turn = False
        self._behind, self._config_hash = 0, ""
        self._fetches = factories.MirrorFetches(config)

    @property
    def behind(self) -> int | None:
        """Journal records that it had to process at its last look; None while it does not follow."""
        return None if self._tail is None or self.problem else self._behind

    @property
    def journal_record(self) -> int:
        """Number of the last journal record that it has learned; -1 while it has no state."""
        tail = self._tail
        return -1 if tail is None else tail.checkpoint.n

    @property
    def config_hash(self) -> str:
        """Hash of the configuration that a takeover would bring; empty until the log was read."""
        return self._config_hash

    def begin(self) -> None:
        """Start the thread, if it is not started."""
        if not self._thread.is_alive() and not self._is_last_turn:
            self.start()

    def hand_over(self, heartbeat: Callable[[], None]) -> HandedOver | None:
        """End the thread once it has processed all it can read; return its state, or None if it has none.

        The caller is elected, so that the journal does not grow. `heartbeat` is called while waiting; an
        exception of it ends the thread without a result.
        """
        self._is_last_turn = True
        try:
            while self.is_alive:
                heartbeat()
                self._thread.join(_IDLE_SECONDS)
        except BaseException:
            self.stop()
            raise
        tail, saves = self._tail, self._saves
        if tail is None or saves is None:
            return None
        return HandedOver(
            tail.learner, tail.followed, saves.consumed, saves.unsaved_seconds, saves.in_progress
        )

    def reconfigure(self, config: Config) -> None:
        """Save snapshots by another configuration from now on."""
        self.config = config
        self._snapshots.keep = config.snapshots.keep
        if (saves := self._saves) is not None:
            saves.policy = factories.commit_policy(config)

    def is_due(self) -> bool:
        """Return False once it is stopped, or must hand its state over."""
        return not (self._stopping or self._is_last_turn)

    def open_log(self) -> Log:
        """Open the log; wait only some seconds for it, unless there is a state."""
        return context.existing_log(self.config, StandbyOutages(self._keeps_state))

    def rest(self) -> None:
        """Wait some seconds, unless the state must be handed over."""
        until = time.monotonic() + _AGAIN_SECONDS
        while self.is_due() and time.monotonic() < until:
            time.sleep(_IDLE_SECONDS)

    def failure_message(self, error: StreamnbError) -> Message:
        """Return the message that it could not take over, with the way out."""
        folder = self.config.snapshot_folder
        found, _, _ = str(error).partition("; bring ")  # only a learner may do what follows
        text = (
            f"this standby cannot take over now: {found}; if it lacks records, copy the learner's newest "
            f"snapshot to {folder}"
        )
        return Message("standby-not-ready", text, error=found, folder=str(folder))

    def _follow(self, log: Log) -> None:
        self._tail = None
        self._fetches(log)
        config = factories.begun_configuration(self.config, log)
        identity = factories.identity(config)
        self._config_hash = identity.config_hash
        n = standing(log, self._snapshots, identity).n
        if n < 0:
            time.sleep(_IDLE_SECONDS)
            return
        learner = factories.learner(config)
        tail = JournalTail.recovered(log, self._snapshots, learner, identity, n, self._check)
        policy = factories.commit_policy(config)
        saves = StandbySnapshots(self._snapshots, identity, policy, tail, self._tell)
        try:
            self._advance(log, tail, saves)
        except BaseException:
            self._tail = None
            raise

    def _advance(self, log: Log, tail: JournalTail, saves: StandbySnapshots) -> None:
        journal = log.partitions(self.config.topics.journal)[0]
        looked_at = -_LOOK_SECONDS
        while not self._stopping:
            is_last = self._is_last_turn
            if time.monotonic() - looked_at >= _LOOK_SECONDS:
                looked_at = time.monotonic()
                newest = last(log, journal)
                self._behind = 0 if newest is None else newest.record.n - tail.checkpoint.n
            began = time.monotonic()
            for record in tail.advance():
                saves.unsaved_seconds += time.monotonic() - began
                self._behind = max(0, self._behind - 1)
                saves.look(is_floor=tail.checkpoint.origin.floor == record.n)
                began = time.monotonic()
            if self._tail is None or self.problem:
                n = tail.checkpoint.n
                text = f"this standby follows the learner, at journal record {n}"
                self._tell(Message("standby-follows", text, journal=n))
                self._fetches.succeeded()
            self._tail, self._saves, self.problem = tail, saves, ""
            if is_last:
                return
            saves.look()
            time.sleep(_IDLE_SECONDS)

    def _keeps_state(self, error: Unavailable, seconds: float) -> bool:
        """Return True if the state must outlast an outage, for as long as a learner waits; report it once."""
        if self._tail is None or self._stopping or seconds >= self.config.kafka.give_up_after:
            return False
        if seconds > log_follower.PATIENCE_SECONDS and not self.problem:
            self.problem = str(error)
            self._tell(self.failure_message(error))
        return True

    def _check(self) -> None:
        if self._stopping:
            raise SnapshotError("stopped")


class StandbySnapshots:
    """Snapshots of a standby, by the policy of the learner.

    A learner that shares the folder saves first, because this one waits somewhat longer, from the newest
    snapshot of either. Two saves never mix: see `SnapshotFolder.save`.

    Attributes:
        policy: when snapshots are due.
        consumed: records that the newest snapshot has.
        unsaved_seconds: processing time since then.
        in_progress: snapshot in progress.
    """

    def __init__(
        self,
        store: SnapshotFolder,
        identity: JobIdentity,
        policy: CommitPolicy,
        tail: JournalTail,
        report: Callable[[Message], None],
    ) -> None:
        self._store, self._identity, self.policy, self._tail = store, identity, policy, tail
        self._report = report
        self.consumed, self.unsaved_seconds = tail.learner.consumed, 0.0
        self.in_progress: SnapshotInProgress | None = None
        self._saved_n = store.newest_record()
        self._began = self._looked = time.monotonic()

    def look(self, *, is_floor: bool = False) -> None:
        """Continue or begin a snapshot, at once if `is_floor`: events were erased."""
        if self.in_progress is not None:
            if not self.in_progress.advance():
                return
            self._finish(self.in_progress)
            self.in_progress = None
        now = time.monotonic()
        if now - self._looked >= _LOOK_SECONDS:
            self._looked = now
            with suppress(SnapshotError):
                if (newest := self._store.newest_record()) > self._saved_n:
                    self._count_from(newest)
        if is_floor or self._is_due(now):
            checkpoint = self._tail.checkpoint
            self._count_from(checkpoint.n)
            self.in_progress = SnapshotInProgress(self._store, self._tail.learner, self._identity, checkpoint)

    def _is_due(self, now: float) -> bool:
        events = self._tail.learner.consumed - self.consumed
        passed = events, now - self._began, self.unsaved_seconds
        return self.policy.is_snapshot_due(*(amount / _PATIENCE_FACTOR for amount in passed))

    def _finish(self, snapshot: SnapshotInProgress) -> None:
        try:
            snapshot.finish(lambda: None)
        except SnapshotError as error:
            text = f"no snapshot was kept: {error}"
            self._report(Message("snapshot-not-kept", text, reason=str(error)))

    def _count_from(self, n: int) -> None:
        self._saved_n, self._began = n, time.monotonic()
        self.consumed, self.unsaved_seconds = self._tail.learner.consumed, 0.0
