"""A thread that follows a log next to its learner, and restarts after failures."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from contextlib import closing, contextmanager, suppress
from typing import ClassVar, TypeVar

from streamnb.config import Config
from streamnb.engine.ports import Log, OutageListener
from streamnb.errors import StreamnbError, Unavailable
from streamnb.runtime import context
from streamnb.values.messages import Message

AGAIN_SECONDS = 1.0
PATIENCE_SECONDS = 8.0
"""Seconds for which a request waits for a log that does not answer."""
T = TypeVar("T")


class FollowerThread(ABC):
    """Follows a log from `start` to `close`; other threads query its state under `lock`.

    Args:
        config: of the learner.
        tell: (callback) receives the reason of each restart, once for each distinct reason.

    Attributes:
        config: the same.
        lock: held while the state changes or is read.
        problem: why it does not follow now; empty if it does.
        error: the last failure: a StreamnbError, after which it began again, or another, which ended it.
    """

    _again: ClassVar[str] = ""
    """The reaction to a failure, for the message."""
    _join_seconds: ClassVar[float | None] = None
    """Timeout of `close`; None waits for the end of the thread."""

    def __init__(self, config: Config, tell: Callable[[Message], None]) -> None:
        self.config, self._tell = config, tell
        self.lock = FairLock()
        self.problem = ""
        self.error: BaseException | None = None
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=type(self).__name__.lower(), daemon=True)

    def start(self) -> None:
        """Follow from now on, without waiting."""
        self._thread.start()

    def stop(self) -> None:
        """Follow no more, without waiting for the end."""
        self._stopping = True

    def close(self) -> None:
        """Follow no more."""
        self.stop()
        if self.is_alive:
            self._thread.join(self._join_seconds)

    @property
    def is_alive(self) -> bool:
        """True while the thread follows or tries to."""
        return self._thread.is_alive()

    @abstractmethod
    def _follow(self, log: Log) -> None:
        """Follow until `is_over`. Raises StreamnbError."""

    def open_log(self) -> Log:
        """Open the log."""
        return context.existing_log(self.config)

    def failure_message(self, error: StreamnbError) -> Message:
        """Return the message on a failure after which it begins again."""
        return Message("following-restarts", f"{self._again}: {error}", error=str(error))

    def is_over(self) -> bool:
        """Return True if it must not follow now."""
        return self._stopping

    def is_due(self) -> bool:
        """Wait until it should follow; return False to end the thread."""
        return not self._stopping

    def _run(self) -> None:
        while self.is_due():
            try:
                with closing(self.open_log()) as log:
                    self._follow(log)
            except StreamnbError as error:
                if self.is_over():
                    continue
                if str(error) != self.problem:
                    self._tell(self.failure_message(error))
                self.problem, self.error = str(error), error
                self.rest()
            except BaseException as error:
                self.error = error
                raise

    def rest(self) -> None:
        """Wait after a failure."""
        time.sleep(AGAIN_SECONDS)


class ShortOutages(OutageListener):
    """A policy that gives up before the client of a request does."""

    def unreachable(self, error: Unavailable, seconds: float) -> None:
        """Return for some seconds, then raise."""
        if seconds > PATIENCE_SECONDS:
            raise error


class LogOnDemand:
    """A log that one thread opens at its first use, and opens again after a failure.

    It waits only `PATIENCE_SECONDS` for a log that does not answer, because requests wait for it.

    Args:
        config: the learner's configuration.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._log: Log | None = None
        self._is_stopped = False

    @contextmanager
    def opened(self) -> Iterator[Log]:
        """Yield the log. A StreamnbError of the body closes it. Raises Unavailable after `stop`."""
        if self._is_stopped:
            raise Unavailable("the server stops")
        try:
            if self._log is None:
                self._log = context.existing_log(self._config, ShortOutages())
            yield self._log
        except StreamnbError:
            self.close()
            raise

    def stop(self) -> None:
        """Let each later `opened` raise; any thread may call this."""
        self._is_stopped = True

    def close(self) -> None:
        """Close the log, if it is open."""
        log, self._log = self._log, None
        if log is not None:
            with suppress(StreamnbError):
                log.close()


class LogThread:
    """A thread that uses a log on demand, alone, and answers the questions of requests in their order.

    Args:
        config: the learner's configuration.
        name: of the thread.
        seconds: for which a question waits for its answer.
    """

    def __init__(self, config: Config, name: str, seconds: float) -> None:
        self._thread, self._seconds = ThreadPoolExecutor(1, name), seconds
        self._log = LogOnDemand(config)

    def answer(self, work: Callable[[Log], T]) -> T:
        """Return what `work` returns for the log. Raises StreamnbError, and Unavailable if it is late."""
        try:
            return self.submit(work).result(self._seconds)
        except LateError:
            raise Unavailable(
                "the log does not answer: look at what you change before you repeat it"
            ) from None

    def submit(self, work: Callable[[Log], T]) -> Future[T]:
        """Return the future result of `work`. Raises Unavailable if the server stops."""

        def run() -> T:
            with self._log.opened() as log:
                return work(log)

        try:
            return self._thread.submit(run)
        except RuntimeError as error:
            raise Unavailable("the server stops") from error

    def close(self) -> None:
        """Answer no more, without waiting for an answer that is due."""
        self._log.stop()
        self._thread.submit(self._log.close)
        self._thread.shutdown(wait=False)


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
