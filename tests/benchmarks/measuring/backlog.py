"""A backlog of events, produced beforehand, and who works it off: the whole service, or a loop that copies.

Each runs in a process of its own and says when it is ready: clients are connected, kernels are compiled, the
learner is elected and has written its first journal record. What counts begins there, and ends when the last
event is committed. The processor's time is that of all threads of the process.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from multiprocessing.connection import Connection
from typing import NamedTuple

from streamnb.config import Config
from streamnb.engine.ports import NewRecord, Partition, Record
from streamnb.engine.sensor import Committed, Sensor
from streamnb.runtime import context, factories
from streamnb.runtime.worker import Worker
from streamnb.telemetry.worker_observers import watched
from tests.benchmarks.measuring.bare_clients import CLIENTS, Bare, Pair
from tests.benchmarks.measuring.echo_loops import batches

_AT_ONCE = 10_000


class Spent(NamedTuple):
    """What working a backlog off took.

    Attributes:
        seconds: by the clock.
        processor: seconds of the processor, of all threads of the process.
        commits: how many transactions it took.
    """

    seconds: float
    processor: float
    commits: int


class _Watch:
    """Times from its making on."""

    def __init__(self) -> None:
        self._seconds, self._processor = time.perf_counter(), time.process_time()

    def spent(self, commits: int) -> Spent:
        """Until now."""
        return Spent(time.perf_counter() - self._seconds, time.process_time() - self._processor, commits)


class _Until(Sensor):
    """Stops a worker once so many records are committed."""

    def __init__(self, events: int) -> None:
        self._left = events
        self._commits = 0
        self.worker: Worker | None = None
        self.watch: _Watch | None = None
        self.spent: Spent | None = None

    def committed(self, commit: Committed) -> None:
        """Count; at the end note the time, which goes on for what is done after the last commit."""
        self._left -= commit.consumed
        self._commits += 1
        if self._left <= 0 and self.watch is not None and self.worker is not None:
            self.spent = self.watch.spent(self._commits)
            self.worker.stop()


def fill(config: Config, events: Sequence[Pair]) -> None:
    """Produce the backlog; the log's topics are there. Raises LogError."""
    topic = config.topics.events[0]
    with closing(context.existing_log(config)) as log:
        for start in range(0, len(events), _AT_ONCE):
            log.append([NewRecord(topic, key, value) for key, value in events[start : start + _AT_ONCE]])


def output_size(config: Config, events: Sequence[Pair]) -> int:
    """Bytes that the service writes for an event, key included: those of its predictions and reports."""
    learner = factories.learner(config)
    records = [Record(Partition("", 0), i, key, value, 0.0) for i, (key, value) in enumerate(events)]
    outputs = learner.process(records, time.time())
    return round(sum(len(output.key or b"") + len(output.value) for output in outputs) / len(events))


def serve(orders: Connection, config: Config, events: int) -> None:
    """The whole service, as ``streamnb run`` has it; answers the order to begin by what was `Spent`."""
    factories.warm_up()
    until = _Until(events)
    with watched(config, until) as sensor:
        worker = until.worker = factories.worker(
            config, factories.learner(config), context.open_log(config), sensor
        )
        try:
            worker.start("bench")
            _wait_for_order(orders)
            until.watch = _Watch()
            worker.run()
            orders.send(until.spent)
        finally:
            worker.close()


def copy(orders: Connection, client: str, bare: Bare, events: int, size: int) -> None:
    """Read and write by a client with nothing around it: `size` bytes for each event, key included."""
    with closing(CLIENTS[client](bare)) as opened:
        _wait_for_order(orders)
        watch = _Watch()
        left, commits = events, 0
        for pairs in batches(opened.poll, bare.config):
            opened.write([(key, b"." * (size - len(key or b""))) for key, _ in pairs])
            left, commits = left - len(pairs), commits + 1
            if left <= 0:
                break
        orders.send(watch.spent(commits))


def _wait_for_order(orders: Connection) -> None:
    factories.tune_interpreter()
    orders.send(None)
    orders.recv()
