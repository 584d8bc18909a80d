"""A call that may block for long: its caller does other work, or sends heartbeats."""

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
    """A daemon thread that runs one task after another.

    Allocators keep memory per thread: one thread reuses warm memory that several would request separately.
    """

    def __init__(self) -> None:
        self._given: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="meanwhile", daemon=True).start()

    def begin(self, work: Callable[[], None]) -> None:
        """Queue a task; it must not raise."""
        self._given.put(work)

    def end(self) -> None:
        """End the thread after the queued tasks."""
        self._given.put(None)

    def _run(self) -> None:
        while (work := self._given.get()) is not None:
            work()
            del work  # release its memory before the next task


class BlockingCall(Generic[R]):
    """Work that begins at once, in another thread.

    The thread continues after its caller has stopped waiting: its memory is held until it returns.

    Args:
        work: the call that may block.
        seconds: maximum wait, from the start of the work.
        thread: runs the work; by default a new thread.
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
        """Return whether a result waits."""
        return not self._answers.empty()

    def answer(self, alive: Callable[[], None] = lambda: None) -> tuple[R, float]:
        """Return the result of the work and its completion time by the monotonic clock. Call it once.

        Until then the caller's thread calls `alive` every fifth of a second. An exception of the work is
        raised.

        Args:
            alive: heartbeat callback; its exceptions propagate.

        Raises:
            Unavailable: the result was not there in time; the work may still take effect.
        """
        deadline = self._began + self._seconds
        while True:
            left = deadline - time.monotonic()
            try:
                answer, error, ended = self._answers.get(timeout=max(0.0, min(_TURN_SECONDS, left)))
                break
            except queue.Empty:
                pass  # `alive` is called outside, so that its exceptions have no false cause
            alive()
            if left <= 0.0:
                raise Unavailable(f"no answer within {self._seconds:g} s")
        if error is not None:
            raise error
        return answer, ended  # type: ignore[return-value]  # it is R without an error


def call_blocking(
    work: Callable[[], R], alive: Callable[[], None] = lambda: None, seconds: float = math.inf
) -> R:
    """Return the result of `work`, run in a separate thread; see `BlockingCall`."""
    return BlockingCall(work, seconds).answer(alive)[0]
