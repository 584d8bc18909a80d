"""The two ends of a measurement, each in a process of its own: who produces, and who sees what is visible."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from streamnb.config import Config
from streamnb.engine.ports import Log, NewRecord, Record
from streamnb.formats.codec import encode_event
from streamnb.runtime import context
from tests.benchmarks.measuring import drawn_messages
from tests.benchmarks.measuring.percentiles import Schedule

_AT_ONCE = 10_000
_WAIT_SECONDS = 0.05


class Turn(NamedTuple):
    """Events to be produced, to one topic and at a steady rate.

    Attributes:
        name: of the turn; the events' ids are ``name-0``, ``name-1`` and so on.
        topic: where they go.
        rate: events a second.
        events: how many.
        size: bytes of each.
    """

    name: str
    topic: str
    rate: float
    events: int
    size: int


class Produced(NamedTuple):
    """What became of a turn: when its events were due, and when each was handed to the log."""

    schedule: Schedule
    sent: list[float]


class Seen(NamedTuple):
    """A record that became visible, and when, in seconds since the epoch."""

    record: Record
    at: float


def events(name: str, size: int) -> Iterator[tuple[bytes, bytes]]:
    """Id and bytes of generated events without end, each of `size` bytes or as many as it needs."""
    for i, (x, label) in enumerate(drawn_messages.messages(drawn_messages.Parameters())):
        features = {"channel": x["channel"], "length": x["length"]}
        event = {"id": f"{name}-{i}", "text": x["text"], "features": features, "label": label}
        missing = size - len(encode_event({**event, "padding": ""}))
        if missing >= 0:  # in a field that no schema reads
            event = {**event, "padding": "." * missing}
        yield f"{name}-{i}".encode(), encode_event(event)


def write(log: Log, turn: Turn) -> Produced:
    """Append the events of a turn, each as soon as it is due and the log has taken those before it."""
    drawn = [
        NewRecord(turn.topic, key, raw) for key, raw in islice(events(turn.name, turn.size), turn.events)
    ]
    schedule = Schedule(time.time(), turn.rate, turn.events)
    sent: list[float] = []
    while (done := len(sent)) < turn.events:
        now = time.time()
        due = schedule.due(done, now)
        if due == done:
            time.sleep(max(0.0, schedule.at(done) - now))
            continue
        sent += [now] * (due - done)
        log.append(drawn[done:due])
    return Produced(schedule, sent)


def produce(orders: Connection, config: Config) -> None:
    """Say when ready, then answer each `Turn` with what was `Produced`, until the orders end."""
    with closing(context.existing_log(config)) as log:
        orders.send(None)
        while (turn := _order(orders)) is not None:
            orders.send(write(log, turn))


def watch(orders: Connection, config: Config, topics: Sequence[str]) -> None:
    """Say when ready, then see what gets visible in topics.

    The order of a topic is answered by how many of its records were seen, and the end of orders by all that
    was `Seen`.
    """
    seen: list[Seen] = []
    counts: Counter[str] = Counter()
    with closing(context.existing_log(config)) as log:
        log.seek({partition: 0 for topic in topics for partition in log.partitions(topic)})
        orders.send(None)
        while True:
            records = log.poll(_AT_ONCE, _WAIT_SECONDS)
            now = time.time()
            seen += [Seen(record, now) for record in records]
            counts.update(record.partition.topic for record in records)
            if orders.poll():
                if (topic := _order(orders)) is None:
                    break
                orders.send(counts[topic])
    orders.send(seen)


def _order(orders: Connection) -> Any:
    """The next order; None at their end, and where whoever gave them is gone."""
    try:
        return orders.recv()
    except EOFError:
        return None
