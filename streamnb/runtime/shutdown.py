"""Stop a service on a signal, also during preparations that take minutes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import suppress

from streamnb.config import Config
from streamnb.event_logs.blocking_call import BlockingCall
from streamnb.runtime import factories
from streamnb.runtime.worker import Worker

_SIGN_SECONDS = 1.0


def warm_up(config: Config, alive: Callable[[], None]) -> None:
    """Compile the kernels, with signs of life: on a busy machine one kernel alone may take a minute."""
    ready = threading.Event()

    def show() -> None:
        while not ready.wait(_SIGN_SECONDS):
            alive()

    showing = BlockingCall(show)
    try:
        factories.warm_up(config)
    finally:
        ready.set()
        showing.answer()


class _StopSignalError(KeyboardInterrupt):
    """Stop request. A KeyboardInterrupt that leaves an `exec` ends Python by SIGINT even if it is caught."""


class Stop:
    """Stop request by a signal, whose number is `signal`; it stops the worker, if there is one."""

    def __init__(self) -> None:
        self.worker: Worker | None = None
        self.signal = 0
        self._interrupts = False
        stops = [signal.SIGTERM, signal.SIGINT]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # set by nohup
            stops.append(signal.SIGHUP)
        for number in stops:
            signal.signal(number, self._note)

    def __call__(self) -> bool:
        """Return True after a stop request."""
        return self.signal != 0

    def interrupts(self, work: Callable[[], object]) -> bool:
        """Do what holds nothing and may take minutes; whether it was asked to stop, which ends it at once."""
        self._interrupts = True
        try:
            with suppress(_StopSignalError):
                work()
        finally:
            self._interrupts = False
        return self()

    def _note(self, number: int, _frame: object) -> None:
        self.signal = number
        if self._interrupts:
            raise _StopSignalError
        if self.worker is not None:
            self.worker.stop()
