"""A lock that serves waiting threads first."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class FairLock:
    """A lock that a thread cannot take again while another thread waits for it.

    A thread that releases a `threading.Lock` and acquires it again at once usually gets it before a waiting
    thread wakes up. A replica that follows a long journal would block requests that way. Here the thread that
    waits for the lock holds the gate, and later threads wait at the gate.
    """

    def __init__(self) -> None:
        self._gate, self._lock = threading.Lock(), threading.Lock()

    def __enter__(self) -> None:
        with self._gate:
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    @contextmanager
    def if_free(self) -> Iterator[bool]:
        """Acquire the lock unless that would block; yield whether it was acquired."""
        is_free = self._lock.acquire(blocking=False)
        try:
            yield is_free
        finally:
            if is_free:
                self._lock.release()
