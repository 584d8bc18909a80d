"""Whoever follows a log beside its learner: a thread of its own, that begins again where it cannot go on."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import closing
from typing import ClassVar

from streamnb.config import Config
from streamnb.engine.ports import Log
from streamnb.errors import StreamnbError
from streamnb.runtime import context
from streamnb.serving.fair_lock import FairLock

AGAIN_SECONDS = 1.0


class FollowerThread(ABC):
    """Follows from `start` to `close`; others ask under `lock`.

    Args:
        config: of the learner.
        tell: is told why it begins again, or cannot; once of each reason.

    Attributes:
        config: the same.
        lock: held while what it knows changes, and while that is asked.
        problem: why it does not follow; empty where it does.
    """

    _again: ClassVar[str]
    """What it does after a failure, for who is told."""
    _join_seconds: ClassVar[float | None] = None
    """How long an end is waited for; None is until it is there."""

    def __init__(self, config: Config, tell: Callable[[str], None]) -> None:
        self.config, self._tell = config, tell
        self.lock = FairLock()
        self.problem = ""
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=type(self).__name__.lower(), daemon=True)

    def start(self) -> None:
        """Follow from now on, without waiting."""
        self._thread.start()

    def close(self) -> None:
        """Follow no more."""
        self._stopping = True
        self._thread.join(self._join_seconds)

    @property
    def is_alive(self) -> bool:
        """Whether it follows, or tries to."""
        return self._thread.is_alive()

    @abstractmethod
    def _follow(self, log: Log) -> None:
        """Go on until it is over. Raises StreamnbError."""

    def _is_over(self) -> bool:
        """Whether it is to follow no more, for good or for now."""
        return self._stopping

    def _is_due(self) -> bool:
        """Wait until it is to follow; False where it is to end."""
        return not self._stopping

    def _run(self) -> None:
        while self._is_due():
            try:
                with closing(context.existing_log(self.config)) as log:
                    self._follow(log)
            except StreamnbError as error:
                if self._is_over():
                    continue
                if str(error) != self.problem:
                    self._tell(f"{self._again}: {error}")
                self.problem = str(error)
                time.sleep(AGAIN_SECONDS)
