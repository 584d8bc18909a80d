"""What a storm on an embedded log has in place of brokers: a writer of its file, and transactions nobody tells of."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from streamnb.engine.ports import NewRecord
from streamnb.errors import LogError
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from tests.system.storm.reading import ID
from tests.system.storm.stream import Made

TURN_SECONDS = 0.02


class EmbeddedSource(threading.Thread):
    """As `Source`; an append that fails has written nothing, and is tried again.

    A learner that is frozen in the midst of a write keeps others from theirs until it goes on.
    """

    def __init__(self, address: str, topics: dict[str, str], stream: Iterable[Made], rate: float) -> None:
        super().__init__(name="source", daemon=True)
        self._path = Path(address.removeprefix("sqlite:///"))
        self._topics = topics
        self._stream = list(stream)
        self._rate = rate
        self.acknowledged = 0
        self.complaints: list[str] = []

    def run(self) -> None:
        began = time.monotonic()
        with closing(SqliteLog(self._path)) as log:
            while self.acknowledged < len(self._stream):
                due = min(len(self._stream), int((time.monotonic() - began) * self._rate))
                part = self._stream[self.acknowledged : due]
                try:
                    log.append(
                        [
                            NewRecord(
                                self._topics[one.role], one.key.encode(), one.raw, ((ID, one.id.encode()),)
                            )
                            for one in part
                        ]
                    )
                    self.acknowledged += len(part)
                except LogError:
                    pass
                time.sleep(TURN_SECONDS)


class NoTransactions:
    """A file has no broker that would tell whether a learner's transaction is open."""

    are_told = False

    def state(self) -> str:
        return "not told"

    def leader(self, *, coordinating: bool) -> int:
        raise NotImplementedError

    def close(self) -> None:
        pass


class NoCluster:
    """An embedded log has no nodes."""

    def __init__(self, folder: Path) -> None:
        self.address = f"sqlite:///{folder / 'log.db'}"
        self.nodes: list[Any] = []
