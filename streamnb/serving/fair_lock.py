"""A lock that is given to who waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class FairLock:
    """A lock that nobody takes twice while another waits for it.

    Who lets `threading.Lock` go and wants it at once has it again before who waits has woken up, hundreds of
    times in a row: a replica that follows a long journal would keep all waiting who ask. Here whoever waits
    at the lock holds the gate, and the others wait there.
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
        """Entered, unless that would be to wait; whether it was."""
        is_free = self._lock.acquire(blocking=False)
        try:
            yield is_free
        finally:
            if is_free:
                self._lock.release()
