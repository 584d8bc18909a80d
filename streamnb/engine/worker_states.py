"""States of a worker, as one table, and the state machine that enforces it.

An outage of the log interrupts any state but STOPPED: WAITING ends in the state before it, in a state that
may follow that one, or in STOPPED.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from streamnb.engine.sensor import SILENT, Sensor, WorkerState

_S = WorkerState
TRANSITIONS: Mapping[WorkerState, frozenset[WorkerState]] = MappingProxyType(
    {
        _S.STARTING: frozenset({_S.STANDBY, _S.RECOVERING, _S.WAITING, _S.STOPPED}),
        _S.STANDBY: frozenset({_S.RECOVERING, _S.WAITING, _S.STOPPED}),
        _S.RECOVERING: frozenset({_S.RUNNING, _S.WAITING, _S.STOPPED}),
        _S.RUNNING: frozenset({_S.WAITING, _S.STOPPED}),
        _S.WAITING: frozenset({_S.STARTING, _S.STANDBY, _S.RECOVERING, _S.RUNNING, _S.STOPPED}),
        _S.STOPPED: frozenset(),
    }
)
"""State of a learner -> the states that may follow it."""

SCORER_TRANSITIONS: Mapping[WorkerState, frozenset[WorkerState]] = MappingProxyType(
    {
        **TRANSITIONS,
        _S.RUNNING: TRANSITIONS[_S.RUNNING] | {_S.RECOVERING},
    }
)
"""The same for a scorer, which recovers again whenever its replica falls behind; it never stands by."""


class WorkerStates:
    """State machine of one worker, from STARTING to STOPPED.

    Attributes:
        state: current state.
        sensor: receives each state that is entered; may be replaced.
    """

    def __init__(
        self,
        sensor: Sensor = SILENT,
        transitions: Mapping[WorkerState, frozenset[WorkerState]] = TRANSITIONS,
    ) -> None:
        self.sensor, self._transitions = sensor, transitions
        self.state = self._interrupted = WorkerState.STARTING

    def begin(self) -> None:
        """Report the first state: from here on the process sends heartbeats."""
        self.sensor.entered(self.state)

    def enter(self, state: WorkerState) -> None:
        """Enter a state; the current one again changes nothing. Raises ValueError for a forbidden one."""
        if state is self.state:
            return
        if not self.allows(state):
            raise ValueError(f"a worker that is {self.state} cannot become {state}")
        if state is WorkerState.WAITING:
            self._interrupted = self.state
        self.state = state
        self.sensor.entered(state)

    def allows(self, state: WorkerState) -> bool:
        """Return whether a state may follow the current one."""
        is_listed = state in self._transitions[self.state]
        if self.state is not WorkerState.WAITING or state is self._interrupted:
            return is_listed
        return is_listed and state in self._transitions[self._interrupted]

    def resume(self) -> None:
        """Return from WAITING, if that is the current state, to the state before."""
        if self.state is WorkerState.WAITING:
            self.enter(self._interrupted)
