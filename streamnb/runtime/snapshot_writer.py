"""Snapshots while the stream flows: when a snapshot is due, and the snapshot in progress.

A snapshot is cut at an acknowledged commit, copied in slices between the commits that follow, and then
written by a thread of the store: no commit waits for the disk, and none for more than a slice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from pathlib import Path

from streamnb.engine.journal.checkpoint import Checkpoint, snapshot_of
from streamnb.engine.journal.job_identity import JobIdentity
from streamnb.engine.journal.snapshot_store import SnapshotStore
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.errors import SnapshotError
from streamnb.runtime.committer import Committer
from streamnb.runtime.worker_context import WorkerContext

_SLICE = 4 << 20  # bytes
_TURN_SECONDS = 0.2
_CALM_SECONDS = 1.0  # without an event
LONGEST_WRITE = 600.0
"""Seconds after which a write that has not returned is given up."""


class SnapshotInProgress:
    """Snapshot at an acknowledged checkpoint, which the learner equals; it may continue at once."""

    def __init__(
        self, store: SnapshotStore, learner: EventProcessor, identity: JobIdentity, checkpoint: Checkpoint
    ) -> None:
        self.began = time.monotonic()
        self._store, self._checkpoint, self._identity = store, checkpoint, identity
        self._written: Future[Path] | None = None  # once all is copied
        try:
            self._copy = learner.copying(store.segments(), store.aside)
        except SnapshotError as error:
            self._written = Future()
            self._written.set_exception(error)

    def advance(self) -> bool:
        """Copy the next slice; return True once the snapshot is written, or has failed."""
        if self._written is None and self._copy.advance(_SLICE):
            at, copy, identity = self._checkpoint, self._copy, self._identity
            self._written = self._store.save_aside(
                lambda: snapshot_of(at, copy.parts(), identity, copy.segments())
            )
        return self._written is not None and self._written.done()

    def finish(self, heartbeat: Callable[[], None]) -> Path:
        """Wait for the snapshot, and return its file; call `heartbeat` while waiting.

        Raises SnapshotError, also if it was not written within `LONGEST_WRITE`.
        """
        waited = 0.0
        while not self.advance():
            heartbeat()
            if self._written is not None:
                wait([self._written], _TURN_SECONDS)
                waited += _TURN_SECONDS
            if waited > LONGEST_WRITE:
                raise SnapshotError(f"not written within {LONGEST_WRITE:g} s: does the disk answer?")
        assert self._written is not None  # noqa: S101  it is done
        return self._written.result()


class SnapshotWriter:
    """Snapshots of a worker, one at a time.

    Invariants:

    * A snapshot begins only while the learner equals the journal: no commit is in flight, and none failed.
    * A snapshot that fails only lengthens recovery: it is reported, and the next one is tried when due.
    """

    def __init__(self, context: WorkerContext, committer: Committer) -> None:
        self._context, self._committer = context, committer
        self._current: SnapshotInProgress | None = None
        self._is_stuck = False  # the current one is stuck, and this was reported
        self._saved_n = 0  # journal record of the last snapshot; record 0 has nothing to save
        self._saved_consumed = 0
        self._saved_at = 0.0
        self._saved_seconds = 0.0  # of `Committer.processing_seconds`, when the last snapshot began

    @property
    def is_busy(self) -> bool:
        """True while a snapshot is in progress."""
        return self._current is not None

    def begin_after_recovery(
        self, consumed: int, n: int, replayed: float, current: SnapshotInProgress | None = None
    ) -> None:
        """Count from a recovered snapshot on, which has `consumed` records.

        Its journal record is `n`, or -1 if others were replayed after it, in `replayed` seconds. They are in
        no snapshot: one may be due before a new record arrives. `current` is in progress already.
        """
        self._current = current
        self._saved_consumed, self._saved_n, self._saved_at = consumed, n, time.monotonic()
        self._saved_seconds = self._committer.processing_seconds - replayed

    def save_if_due(self, *, is_idle: bool) -> None:
        """Continue the snapshot in progress, or begin one if it is due.

        While events arrive it waits until no rows are being rehashed; without events the delay does not
        matter.
        """
        if self._current is not None:
            if not self._current.advance():
                self._warn_if_stuck(self._current)
                return
            self.finish(self._context.heartbeat)
        policy, learner = self._context.policy, self._context.learner
        events = learner.consumed - self._saved_consumed
        seconds = time.monotonic() - self._saved_at
        replay = self._committer.processing_seconds - self._saved_seconds
        is_due = policy.is_snapshot_due(events, seconds, replay)
        is_calm = is_idle and time.monotonic() - self._committer.began >= _CALM_SECONDS
        is_late = seconds > 2 * policy.snapshot_seconds or replay > 2 * policy.snapshot_replay
        if is_due and (is_calm or is_late or learner.model.is_settled):
            self._committer.await_commit()
            self.begin(self._context.checkpoint)

    def begin(self, checkpoint: Checkpoint) -> None:
        """Begin a snapshot at a checkpoint that the learner equals; none may be in progress."""
        context = self._context
        self._current = SnapshotInProgress(context.snapshots, context.learner, context.identity, checkpoint)
        self._saved_at, self._saved_consumed = self._current.began, self._context.learner.consumed
        self._saved_n, self._is_stuck = checkpoint.n, False
        self._saved_seconds = self._committer.processing_seconds

    def finish(self, heartbeat: Callable[[], None]) -> None:
        """Wait for the snapshot in progress, if any."""
        current, self._current = self._current, None
        if current is None:
            return
        try:
            saved = current.finish(heartbeat)
        except SnapshotError as error:
            self._context.sensor.unsaved(str(error))
            self._saved_n = -1
        else:
            with suppress(FileNotFoundError):  # a successor may have dropped it already
                self._context.sensor.saved(time.monotonic() - current.began, saved.stat().st_size)

    def close(self) -> None:
        """Write a last snapshot if anything was journalled since the last one.

        After a failed commit the model is ahead of the journal and must not be saved: recovery would learn
        the same records again.
        """
        context = self._context
        self.finish(context.sensor.heartbeat)
        if context.checkpoint.n > self._saved_n and self._committer.is_consistent:
            self.begin(context.checkpoint)
            self.finish(context.sensor.heartbeat)

    def _warn_if_stuck(self, current: SnapshotInProgress) -> None:
        """Log once that the disk does not respond; no further snapshot begins until it does."""
        if not self._is_stuck and time.monotonic() - current.began > LONGEST_WRITE:
            self._is_stuck = True
            reason = f"one has not been written for {LONGEST_WRITE:g} s: does the disk answer?"
            self._context.sensor.unsaved(reason)
