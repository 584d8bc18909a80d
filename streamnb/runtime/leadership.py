"""Leadership: at most one learner writes to a journal."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from streamnb.engine.journal.recovery import Followed
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.sensor import WorkerState
from streamnb.engine.worker_states import WorkerStates
from streamnb.errors import NotElected
from streamnb.runtime.snapshot_writer import SnapshotInProgress
from streamnb.runtime.worker_context import WorkerContext

_RETRY_SECONDS = 0.2


class HandedOver(NamedTuple):
    """State that a standby hands to the worker of its process.

    Attributes:
        learner: the state, which only the receiver may use.
        followed: its position in the journal.
        saved_consumed: records in the newest snapshot.
        unsaved_seconds: processing time since that snapshot.
        snapshot: snapshot in progress, if any.
    """

    learner: EventProcessor
    followed: Followed
    saved_consumed: int
    unsaved_seconds: float
    snapshot: SnapshotInProgress | None


class JournalFollower(Protocol):
    """State of the active learner, followed while another process is elected; see `Standby`."""

    @property
    def behind(self) -> int | None:
        """Journal records that it has not processed; None if it could not take over."""

    @property
    def journal_record(self) -> int:
        """Number of the last journal record that it has learned; -1 while it has no state."""

    @property
    def config_hash(self) -> str:
        """Hash of the configuration that a takeover would bring; empty while unknown."""

    def begin(self) -> None:
        """Start, unless started."""

    def close(self) -> None:
        """End."""

    def hand_over(self, heartbeat: Callable[[], None]) -> HandedOver | None:
        """End, and return the state, or None."""


class Leadership:
    """Election of this process as the learner, and its states until then.

    Invariant: RECOVERING is entered exactly if the log was acquired.
    """

    def __init__(self, context: WorkerContext, states: WorkerStates) -> None:
        self._context, self._states = context, states

    def acquire(self, owner: str) -> None:
        """Become the learner. Raises NotElected while another learner is alive."""
        self._context.log.acquire(owner)
        self._states.enter(WorkerState.RECOVERING)

    def wait(
        self, owner: str, waiting: Callable[[NotElected], None], standby: JournalFollower | None = None
    ) -> bool:
        """Acquire the log once no other learner is alive; return False after a stop request.

        `waiting` receives the error with the present learner, again if that changes. `standby` follows that
        learner meanwhile.
        """
        sensor, reported = self._context.sensor, ""
        self._states.begin()
        while not self._context.is_stopping:
            sensor.heartbeat()
            try:
                self.acquire(owner)
            except NotElected as error:
                if str(error) != reported:
                    self._states.enter(WorkerState.STANDBY)
                    waiting(error)
                    if standby is not None:
                        standby.begin()
                reported = str(error)
                if standby is not None:
                    sensor.stood_by(standby.behind, standby.journal_record)
                    if standby.config_hash:
                        sensor.configured(standby.config_hash)
                time.sleep(_RETRY_SECONDS)
            else:
                return True
        return False
