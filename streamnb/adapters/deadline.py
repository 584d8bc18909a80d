"""Ends the wait for a call that may never return."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from streamnb.errors import LogError

__all__ = ["within"]

R = TypeVar("R")


def within(seconds: float, work: Callable[[], R]) -> R:
    """What `work` returns or raises.

    It runs in a thread of its own, which is left behind where it does not return in time: the thread does not
    keep the process alive, but what it holds is held until then. So this is for commands that end soon.

    Raises:
        LogError: there was no answer within `seconds`.
    """
    answers: queue.SimpleQueue[tuple[R | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            answers.put((work(), None))
        except BaseException as error:  # noqa: BLE001  it is raised again in the caller's thread
            answers.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    try:
        answer, error = answers.get(timeout=seconds)
    except queue.Empty:
        raise LogError(f"no answer within {seconds:g} s") from None
    if error is not None:
        raise error
    return answer  # type: ignore[return-value]  # it is R where there is no error
