"""One snapshot on its way, while the stream flows.

It is cut at an acknowledged commit, copied in slices between the commits that follow, and then written by a
thread of the store: no commit waits for the disk, and none for more than a slice.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from pathlib import Path

from streamnb.engine.journal.checkpoint import Checkpoint, snapshot_of
from streamnb.engine.journal.job_identity import JobIdentity
from streamnb.engine.journal.snapshot_store import SnapshotStore
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.errors import SnapshotError

_SLICE = 4 << 20  # bytes
_TURN_SECONDS = 0.2
LONGEST_WRITE = 600.0
"""Seconds after which a write that has not returned is given up."""


class Saving:
    """Snapshot in progress at an acknowledged checkpoint; the learner may continue at once."""

    def __init__(
        self, store: SnapshotStore, checkpoint: Checkpoint, learner: EventProcessor, identity: JobIdentity
    ) -> None:
        self.at = checkpoint.n
        self._store, self._checkpoint, self._identity = store, checkpoint, identity
        self._kept: Future[Path] | None = None  # once all is copied
        try:
            self._copy = learner.copying(store.segments(), store.aside)
        except SnapshotError as error:
            self._kept = Future()
            self._kept.set_exception(error)

    def advance(self) -> bool:
        """Continue for a moment; return whether the snapshot is kept, or has failed."""
        if self._kept is None and self._copy.advance(_SLICE):
            at, copy, of = self._checkpoint, self._copy, self._identity
            self._kept = self._store.save_aside(lambda: snapshot_of(at, copy.parts(), of, copy.segments()))
        return self._kept is not None and self._kept.done()

    def finish(self, alive: Callable[[], None] = lambda: None) -> Path:
        """Wait for the snapshot, and return its file; call `alive` while waiting.

        Raises SnapshotError, also if it was not written within `LONGEST_WRITE`.
        """
        waited = 0.0
        while not self.advance():
            alive()
            if self._kept is not None:
                wait([self._kept], _TURN_SECONDS)
                waited += _TURN_SECONDS
            if waited > LONGEST_WRITE:
                raise SnapshotError(f"not written within {LONGEST_WRITE:g} s: does the disk answer?")
        assert self._kept is not None  # noqa: S101  it is done
        return self._kept.result()
