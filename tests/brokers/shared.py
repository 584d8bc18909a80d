"""One broker for all workers of a run: the process that has the workers starts it when the first of them asks.

That process outlives its workers, which end one by one, and the kernel ends the broker with it.
"""

from __future__ import annotations

import threading
from multiprocessing.connection import Client, Listener
from pathlib import Path
from typing import NamedTuple

WORKERS_AT_MOST = 64


class Host:
    """Answers workers that ask for the broker, at `address`; `make` makes a cluster that is not started."""

    def __init__(self, make):
        self._make = make
        self._cluster = None
        self._listener = Listener(family="AF_UNIX", backlog=WORKERS_AT_MOST)
        self.address = self._listener.address
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self):
        """End the broker, and what answers."""
        with Client(self.address) as visitor:
            visitor.send("the end")
        self._thread.join()
        self._listener.close()
        if self._cluster is not None:
            self._cluster.kill()

    def _serve(self):
        while True:
            with self._listener.accept() as visitor:
                if visitor.recv() == "the end":
                    return
                visitor.send(self._answer())

    def _answer(self):
        """Where the broker is and its log; or why there is none, which is tried again for the next who asks."""
        try:
            if self._cluster is None:
                self._cluster = self._make().start()
        except Exception as error:  # noqa: BLE001  the worker raises it
            return error
        (node,) = self._cluster.nodes
        return node.address, str(node.log)


class Shared:
    """The broker as a worker has it: neither stopped nor paused, for others are at work on it."""

    def __init__(self, host):
        self._host = host
        self.address, self.nodes = "", []

    def start(self):
        with Client(self._host) as asked:
            asked.send("a broker")
            answer = asked.recv()
        if isinstance(answer, Exception):
            raise answer
        self.address, log = answer
        self.nodes = [Log(Path(log))]
        return self

    def kill(self):
        """Not by a worker."""


class Log(NamedTuple):
    """What the node says."""

    log: Path

    def tail(self, characters=4000):
        return self.log.read_text(errors="replace")[-characters:]
