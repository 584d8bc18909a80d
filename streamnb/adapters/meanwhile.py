"""A call that may block for long, or for ever, while its caller goes on showing that it is alive."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from streamnb.errors import Unavailable

__all__ = ["meanwhile"]

_TURN_SECONDS = 0.2

R = TypeVar("R")


def meanwhile(
    work: Callable[[], R], alive: Callable[[], None] = lambda: None, seconds: float = math.inf
) -> R:
    """What `work` returns or raises; until then the caller's thread calls `alive` every fifth of a second.

    `work` runs in a thread of its own, which is left behind where `alive` raises or time is up: it does not
    keep the process alive, but what it holds is held until it returns.

    Args:
        work: what may block.
        alive: keeps elections and watchdogs content; what it raises is raised.
        seconds: how long to wait at most.

    Raises:
        Unavailable: there was no answer within `seconds`; what `work` does may still come to pass.
    """
    answers: queue.SimpleQueue[tuple[R | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            answers.put((work(), None))
        except BaseException as error:  # noqa: BLE001  it is raised again in the caller's thread
            answers.put((None, error))

    threading.Thread(target=run, name="meanwhile", daemon=True).start()
    deadline = time.monotonic() + seconds
    while True:
        left = deadline - time.monotonic()
        try:
            answer, error = answers.get(timeout=max(0.0, min(_TURN_SECONDS, left)))
            break
        except queue.Empty:
            pass  # out of here, or what `alive` raises would seem to come of it
        alive()
        if left <= 0.0:
            raise Unavailable(f"no answer within {seconds:g} s")
    if error is not None:
        raise error
    return answer  # type: ignore[return-value]  # it is R where there is no error
