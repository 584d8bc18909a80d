"""Write the events of HTTP clients to the log, from one thread that owns a log.

Requests that arrive while a write is in progress are written together by the next one. So a slow log makes
writes larger instead of more frequent.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from streamnb.config import Config
from streamnb.engine.ports import WriteOutcome, WriteRequest
from streamnb.errors import StreamnbError, Unavailable
from streamnb.runtime.log_follower import PATIENCE_SECONDS, LogOnDemand
from streamnb.values.messages import Message

_MOST_RECORDS = 5000  # in one write
_MOST_WAITING_BYTES = 64 << 20


class _Waiting(NamedTuple):
    request: WriteRequest
    size: int
    loop: asyncio.AbstractEventLoop
    outcome: asyncio.Future[WriteOutcome]

    def answer(self, outcome: WriteOutcome | StreamnbError) -> None:
        """Pass the outcome to the event loop, unless the client has gone."""

        def hand_over() -> None:
            if self.outcome.done():
                return
            if isinstance(outcome, StreamnbError):
                self.outcome.set_exception(outcome)
            else:
                self.outcome.set_result(outcome)

        with suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(hand_over)


class RequestWriter:
    """Writes requests in the order in which they arrive.

    Invariant: the thread alone uses the log, and holds at most one write in progress.

    Args:
        config: the learner's configuration.
        report: callback that receives the reason when the log fails, once for each distinct reason.
    """

    def __init__(self, config: Config, report: Callable[[Message], None]) -> None:
        self._report_failure = report
        self._waiting: deque[_Waiting] = deque()
        self._bytes, self._problem = 0, ""
        self._changed = threading.Condition()
        self._stopping = False
        self._log = LogOnDemand(config)
        self._thread = threading.Thread(target=self._run, name="requestwriter", daemon=True)

    def start(self) -> None:
        """Start the thread; the log is opened by the first request."""
        self._thread.start()

    def close(self) -> None:
        """End the thread after the write in progress; requests that still wait are refused."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join(PATIENCE_SECONDS)

    async def write(self, request: WriteRequest) -> WriteOutcome:
        """Write one request durably.

        Raises:
            Unavailable: too much waits already, and nothing of the request is written; or the log does not
                answer, and the request may be written.
            LogError: the log refuses a record, or has no place for keys.
        """
        loop = asyncio.get_running_loop()
        size = sum([len(record.value) for record in request.records])
        one = _Waiting(request, size, loop, loop.create_future())
        with self._changed:
            if self._stopping or self._bytes > _MOST_WAITING_BYTES:
                raise Unavailable(
                    "too many events wait for the log: none of these was written; send them again"
                )
            self._bytes += size
            self._waiting.append(one)
            self._changed.notify()
        return await one.outcome

    def _run(self) -> None:
        while group := self._next_group():
            self._write(group)
        self._log.close()

    def _next_group(self) -> list[_Waiting]:
        """Wait for requests; return the requests for one write, or none at the end."""
        with self._changed:
            while not self._waiting and not self._stopping:
                self._changed.wait()
            group: list[_Waiting] = []
            records = 0
            while self._waiting and (not group or records < _MOST_RECORDS) and not self._stopping:
                group.append(self._waiting.popleft())
                records += len(group[-1].request.records)
                self._bytes -= group[-1].size
            for one in self._waiting if self._stopping else ():
                one.answer(Unavailable("the server stops: none of these events was written; send them again"))
            return group

    def _write(self, group: Sequence[_Waiting]) -> None:
        try:
            with self._log.opened() as log:
                outcomes = log.append_requests([one.request for one in group])
        except StreamnbError as error:
            if len(group) > 1 and not isinstance(error, Unavailable):  # one of them may be the cause
                for one in group:
                    self._write([one])
                return
            self._report(error)
            for one in group:
                one.answer(error)
        else:
            for one, outcome in zip(group, outcomes, strict=True):
                one.answer(outcome)

    def _report(self, error: StreamnbError) -> None:
        """Log a new reason."""
        if str(error) != self._problem:
            self._problem = str(error)
            self._report_failure(
                Message("events-not-written", f"events over HTTP: {error}", error=str(error))
            )
