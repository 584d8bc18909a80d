"""Ends a process whose worker hangs in a call that never returns; recovery makes that safe."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress

from streamnb.engine.sensor import Committed, Sensor, WorkerState
from streamnb.errors import Unavailable
from streamnb.event_logs.blocking_call import call_blocking
from streamnb.telemetry.log_output import OUTPUT
from streamnb.values.messages import Message

_TICK_SECONDS = 1.0
_TELL_SECONDS = 5.0
_STDERR = 2


class Watchdog(Sensor):
    """Thread that ends the process after too much time without a heartbeat of the worker.

    It counts its own ticks instead of clock time: a process that was stopped and continues, or a machine that
    slept, has silence on the clock but no ticks. No heartbeat is due before STARTING and after STOPPED.

    A call that hangs while holding the interpreter lock (in native code) stops the watchdog, too. Then the
    client's heartbeats stop as well, and a standby takes over all the same.
    """

    def __init__(self, seconds: float, end: Callable[[int], object] = os._exit) -> None:
        self._seconds, self._end = seconds, end
        self._tick_seconds = min(_TICK_SECONDS, seconds / 4)
        self._state: WorkerState | None = None
        self._signs = 0  # heartbeats; only the worker's thread counts them
        self._seen = 0  # heartbeats seen by the last tick
        self._ticks = 0  # since the last heartbeat; only the watchdog's thread counts them
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def start(self) -> None:
        """Start watching."""
        self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._closed.set()
        self._thread.join()

    def entered(self, state: WorkerState) -> None:
        """Store the state; a change is a heartbeat, too."""
        self._state = state
        self.heartbeat()

    def heartbeat(self) -> None:
        """Count a heartbeat."""
        self._signs += 1

    def committed(self, commit: Committed) -> None:  # noqa: ARG002  the event is enough
        """Count a heartbeat."""
        self.heartbeat()

    def saved(self, seconds: float, size: int) -> None:  # noqa: ARG002
        """Count a heartbeat."""
        self.heartbeat()

    def unsaved(self, reason: str) -> None:  # noqa: ARG002
        """Count a heartbeat."""
        self.heartbeat()

    def tick(self) -> None:
        """Count one tick; end the process if there were too many without a heartbeat."""
        signs = self._signs
        well = signs != self._seen or self._state in {None, WorkerState.STOPPED}
        self._seen, self._ticks = signs, 0 if well else self._ticks + 1
        if self._ticks * self._tick_seconds >= self._seconds:
            try:
                with suppress(Unavailable, OSError):  # the reader of standard error may hang, too
                    call_blocking(self._warn, seconds=_TELL_SECONDS)
            finally:
                self._end(1)

    def _watch(self) -> None:
        while not self._closed.wait(self._tick_seconds):
            self.tick()

    def _warn(self) -> None:
        """Write the cause and all stacks, past `sys.stderr`, whose lock may be held for ever."""
        text = (
            f"a call has not returned for {self._seconds:g} s while {self._state}; "
            "ending the process; the next start continues from the journal"
        )
        fields = {"seconds": self._seconds, "state": self._state, "cause": "no heartbeat", "code": 1}
        if OUTPUT.form == "json":
            message = Message("call-hangs", text, command="streamnb doctor", stacks=_stacks(), **fields)
            os.write(_STDERR, OUTPUT.urgent(message))
        else:
            os.write(
                _STDERR, OUTPUT.urgent(Message("call-hangs", f"{text}. Stacks of its threads:", **fields))
            )
            faulthandler.dump_traceback(_STDERR, all_threads=True)


def _stacks() -> dict[str, list[str]]:
    """Return the stack of each thread, the innermost call first, without a lock or a file."""
    return {
        str(number): [
            f"{one.f_code.co_filename}:{line} {one.f_code.co_name}"
            for one, line in traceback.walk_stack(frame)
        ]
        for number, frame in sys._current_frames().items()  # noqa: SLF001  as `faulthandler` does
    }
