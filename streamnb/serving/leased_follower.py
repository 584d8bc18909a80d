"""A thread that works through a topic while it has the lease of its position: webhooks and sources."""

from __future__ import annotations

import random
import time
import uuid
from abc import abstractmethod
from collections.abc import Callable

from streamnb.config import Config
from streamnb.engine.ports import Log
from streamnb.errors import Fenced
from streamnb.runtime.log_follower import FollowerThread
from streamnb.serving.leased_position import LeasedPosition, Start
from streamnb.values.messages import Message

_LOOK_SECONDS, _TURN_SECONDS = 2.0, 0.1


class LeasedFollower(FollowerThread):
    """Waits for the lease of a position, works, and releases the lease at the end or after a failure.

    Args:
        config: the configuration.
        report: callback that receives messages for the operator.
        lease_seconds: see `LeasedPosition`.

    Attributes:
        lease_seconds: the same.
        owner: name of this process in the lease.
    """

    def __init__(self, config: Config, report: Callable[[Message], None], lease_seconds: float) -> None:
        super().__init__(config, report)
        self.lease_seconds, self.owner = lease_seconds, str(uuid.uuid4())

    @abstractmethod
    def position_in(self, log: Log) -> LeasedPosition:
        """Return the position, without its lease."""

    @abstractmethod
    def work(self, log: Log, position: LeasedPosition, start: Start) -> None:
        """Work until `is_over`, or until the position must be acquired again. Raises StreamnbError."""

    @abstractmethod
    def show(self, *, is_working: bool) -> None:
        """Show whether this process has the lease."""

    def _follow(self, log: Log) -> None:
        position = self.position_in(log)
        start = self._elected(position)
        if start is None:
            return
        self.show(is_working=True)
        try:
            self.work(log, position, start)
        except Fenced:
            raise  # the lease is another process's now
        except BaseException:
            position.release()
            raise
        else:
            position.release()
        finally:
            self.show(is_working=False)

    def _elected(self, position: LeasedPosition) -> Start | None:
        """Wait for the lease; return None at the end."""
        while not self.is_over():
            try:
                if (start := position.acquire()) is not None:
                    return start
            except Fenced:  # another process was faster
                pass
            self.wait(random.uniform(_LOOK_SECONDS / 2, _LOOK_SECONDS), None)  # noqa: S311
        return None

    def wait(self, seconds: float, position: LeasedPosition | None) -> None:
        """Wait, and keep the lease of a position meanwhile; return at once at the end."""
        until = time.monotonic() + seconds
        while not self.is_over() and time.monotonic() < until:
            time.sleep(_TURN_SECONDS)
            if position is not None and position.is_due:
                position.save()
