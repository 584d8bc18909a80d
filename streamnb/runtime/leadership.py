"""Leadership: at most one learner writes to a journal."""

from __future__ import annotations

import time
from collections.abc import Callable

from streamnb.engine.sensor import WorkerState
from streamnb.engine.worker_states import WorkerStates
from streamnb.errors import NotElected
from streamnb.runtime.worker_context import WorkerContext

_RETRY_SECONDS = 0.2


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

    def wait(self, owner: str, waiting: Callable[[NotElected], None]) -> bool:
        """Acquire the log once no other learner is alive; return False after a stop request.

        `waiting` receives the error with the present learner, again if that changes.
        """
        reported = ""
        self._states.begin()
        while not self._context.is_stopping:
            self._context.sensor.heartbeat()
            try:
                self.acquire(owner)
            except NotElected as error:
                if str(error) != reported:
                    self._states.enter(WorkerState.STANDBY)
                    waiting(error)
                reported = str(error)
                time.sleep(_RETRY_SECONDS)
            else:
                return True
        return False
