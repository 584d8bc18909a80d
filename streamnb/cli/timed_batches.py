"""Batches of a stream, with bounded waiting."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from queue import Empty, Queue
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def parts_of(
    stream: Iterable[T], most: int, patience: float, stopped: Callable[[], bool] = lambda: False
) -> Iterator[list[T]]:
    """Cut a stream into parts of at most `most` items, none of which waits longer than `patience` seconds.

    A thread reads the stream, so that waiting for it delays no part. The iterator ends soon after `stopped`
    returns True; items read but not yielded are then lost. Items before an error are yielded before it is
    raised.
    """
    arrivals: Queue[list[T]] = Queue(most)  # an empty list ends the stream
    failed: list[Exception] = []

    def feed() -> None:
        try:
            for one in stream:
                arrivals.put([one])
        except Exception as error:  # noqa: BLE001  it is raised again by the reader of the queue
            failed.append(error)
        arrivals.put([])

    Thread(target=feed, daemon=True).start()
    part: list[T] = []
    due, is_over = 0.0, False
    while not is_over and not stopped():
        with suppress(Empty):
            arrived = arrivals.get(timeout=max(0.0, due - time.monotonic()) if part else patience)
            is_over = not arrived
            due = due if part else time.monotonic() + patience
            part += arrived
        if part and (is_over or len(part) == most or time.monotonic() >= due):
            yield part
            part = []
    if is_over and failed:
        raise failed[0]
