"""State that the parts of one worker share: its ports, its policy, and the end of its journal."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from streamnb.engine.journal.checkpoint import BEFORE, Checkpoint
from streamnb.engine.journal.job_identity import JobIdentity
from streamnb.engine.journal.snapshot_store import SnapshotStore
from streamnb.engine.ports import Log
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.sensor import Sensor


@dataclass(frozen=True)
class CommitPolicy:
    """When commits and snapshots are due: after how many events, bytes or seconds.

    `snapshot_replay` are seconds of replay behind the last snapshot. `commit_bytes` bounds the events of one
    commit, and also its outputs.
    """

    commit_events: int = 5000
    commit_seconds: float = 0.1
    snapshot_events: int = 1_000_000
    snapshot_seconds: float = 600.0
    snapshot_replay: float = 60.0
    commit_bytes: int = 16 << 20

    def is_snapshot_due(self, events: float, seconds: float, replay: float) -> bool:
        """Return if a snapshot is due, as many events, seconds, and seconds of replay after the last."""
        is_old = seconds >= self.snapshot_seconds or replay >= self.snapshot_replay
        return events >= self.snapshot_events or (events > 0 and is_old)


class WorkerStoppedError(Exception):
    """Stop request before recovery was complete."""


DEFAULT_POLICY = CommitPolicy()


@dataclass(eq=False)
class WorkerContext:
    """Ports of a worker, and the position of its learner in the journal.

    Invariants:

    * `checkpoint` is the end of the journal once the commit in flight is durable. Its positions
      are the offsets of the next records to learn.
    * Unless `is_ahead`, the learner equals the replay of the journal up to `checkpoint`.
    * `identity` is the identity that the next journal record has.

    Attributes:
        is_ahead: the model knows records that no commit holds, or whose commit failed.
        is_stopping: a stop was requested, maybe by a signal handler.
        running_since: end of the recovery, by the monotonic clock.
        polled_at: when reading of the next records began, seconds since the epoch.
    """

    log: Log
    snapshots: SnapshotStore
    learner: EventProcessor
    identity: JobIdentity
    policy: CommitPolicy
    clock: Callable[[], float]
    sensor: Sensor
    checkpoint: Checkpoint = BEFORE
    is_ahead: bool = False
    is_stopping: bool = False
    running_since: float = math.inf
    polled_at: float = 0.0

    @property
    def is_restored(self) -> bool:
        """True once the learner has recovered; before that, the model is not usable."""
        return self.checkpoint.n >= 0

    def heartbeat(self) -> None:
        """Renew the ownership of the log, and signal that the loop is alive."""
        self.log.heartbeat()
        self.sensor.heartbeat()

    def heartbeat_until_stop(self) -> None:
        """Send heartbeats; raise WorkerStoppedError after a stop request."""
        self.heartbeat()
        if self.is_stopping:
            raise WorkerStoppedError
