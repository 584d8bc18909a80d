"""A call that may block for long, or for ever: its caller does other things, or shows that it is alive."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from streamnb.errors import Unavailable

_TURN_SECONDS = 0.2

R = TypeVar("R")


class SerialThread:
    """A thread that does one thing after another; it does not keep the process alive.

    Allocators keep memory by thread: what each of many would have to ask the system for, one finds warm.
    """

    def __init__(self) -> None:
        self._given: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="meanwhile", daemon=True).start()

    def begin(self, work: Callable[[], None]) -> None:
        """Let it do this next; it must not raise."""
        self._given.put(work)

    def end(self) -> None:
        """Let it end, once it has done what it was given."""
        self._given.put(None)

    def _run(self) -> None:
        while (work := self._given.get()) is not None:
            work()
            del work  # and what it holds, before the next comes


class BlockingCall(Generic[R]):
    """Work that begins at once, in another thread.

    The thread is left behind where nobody waits any more: what it holds is held until it returns.

    Args:
        work: what may block.
        seconds: how long to wait for it at most, from its beginning on.
        thread: does it; one of its own where there is none.
    """

    def __init__(
        self, work: Callable[[], R], seconds: float = math.inf, thread: SerialThread | None = None
    ) -> None:
        self._answers: queue.SimpleQueue[tuple[R | None, BaseException | None, float]] = queue.SimpleQueue()
        self._began = time.monotonic()
        self._seconds = seconds

        def run() -> None:
            try:
                self._answers.put((work(), None, time.monotonic()))
            except BaseException as error:  # noqa: BLE001  it is raised again in the caller's thread
                self._answers.put((None, error, time.monotonic()))

        if thread is None:
            threading.Thread(target=run, name="meanwhile", daemon=True).start()
        else:
            thread.begin(run)

    def is_over(self) -> bool:
        """Whether there is an answer that nobody has taken."""
        return not self._answers.empty()

    def answer(self, alive: Callable[[], None] = lambda: None) -> tuple[R, float]:
        """What the work returned, and when, by the monotonic clock; raises what it raised. To be asked once.

        Until then the caller's thread calls `alive` every fifth of a second.

        Args:
            alive: keeps elections and watchdogs content; what it raises is raised.

        Raises:
            Unavailable: there was no answer in time; what the work does may still come to pass.
        """
        deadline = self._began + self._seconds
        while True:
            left = deadline - time.monotonic()
            try:
                answer, error, ended = self._answers.get(timeout=max(0.0, min(_TURN_SECONDS, left)))
                break
            except queue.Empty:
                pass  # out of here, or what `alive` raises would seem to come of it
            alive()
            if left <= 0.0:
                raise Unavailable(f"no answer within {self._seconds:g} s")
        if error is not None:
            raise error
        return answer, ended  # type: ignore[return-value]  # it is R where there is no error


def call_blocking(
    work: Callable[[], R], alive: Callable[[], None] = lambda: None, seconds: float = math.inf
) -> R:
    """What `work` returns or raises, done in a thread of its own; see `BlockingCall`."""
    return BlockingCall(work, seconds).answer(alive)[0]
