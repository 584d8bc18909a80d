"""End an evaluation by a signal between two batches, with the scores of what was read.

The first SIGINT or SIGTERM ends the rows: it cuts off a wait for the next row, and lets a batch be completed.
The second ends the program.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import FrameType
from typing import Any, Self, TypeVar

from streamnb.formats.terminal_text import note
from streamnb.values.messages import Message

T = TypeVar("T")
EXIT_CODE = 130
_PART_SECONDS = 0.5
_SIGNALS = signal.SIGINT, signal.SIGTERM


def parts_of(rows: Iterator[T], most: int, limit: Callable[[], int] | None = None) -> Iterator[list[T]]:
    """Yield at most `most` rows at a time, fewer if the caller takes longer than half a second for a part.

    `limit` returns the maximum number of the next part.
    """
    n = most
    while part := list(islice(rows, n if limit is None else min(n, limit()))):
        started = time.monotonic()
        yield part
        spent = time.monotonic() - started
        n = max(1, int(min(most, len(part) * _PART_SECONDS / max(spent, 1e-9))))


class _EndOfRowsError(KeyboardInterrupt):
    """A signal arrived while the next row was awaited."""


class Interruption:
    """A context in which a first signal ends `rows`; outside the main thread it changes nothing.

    Attributes:
        came: whether a signal arrived.
    """

    def __init__(self) -> None:
        self.came = False
        self._waits = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        """Install the handlers."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the handlers."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def rows(self, source: Iterable[T]) -> Iterator[T]:
        """Yield the items of a source until a signal arrives; the item that is being read is left out."""
        items = iter(source)
        while not self.came:
            try:
                self._waits = True
                item = next(items)
                self._waits = False
            except StopIteration:
                self._waits = False
                return
            except _EndOfRowsError:
                return
            yield item

    def report(self, read: str, records: int) -> None:
        """Print how many events were read, as text and number of records, if a signal arrived."""
        if self.came:
            text = f"interrupted after {read}; the scores are of these alone"
            note(Message("evaluation-interrupted", text, records=records))

    def code(self, usual: int) -> int:
        """Return the exit code: `usual` unless a signal arrived."""
        return EXIT_CODE if self.came else usual

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        if self.came:
            raise KeyboardInterrupt
        self.came = True
        if self._waits:
            self._waits = False
            raise _EndOfRowsError
