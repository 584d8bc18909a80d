"""The measurement: contenders take turns under the same load, and every event's way is put together."""

from __future__ import annotations

import contextlib
import importlib.util
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

import msgspec

from streamnb.config import Config
from streamnb.engine.ports import Log
from streamnb.errors import LogError
from streamnb.event_logs.kafka.librdkafka_settings import translated_settings
from streamnb.runtime import context
from tests.benchmarks.measuring import load
from tests.benchmarks.measuring.bare_clients import Bare
from tests.benchmarks.measuring.echo_loops import echo
from tests.benchmarks.measuring.percentiles import Passage
from tests.benchmarks.measuring.processes import Actor, AnsweringActor, learn
from tests.benchmarks.measuring.topics import Place

LEARNER = "streamnb"
_START_SECONDS = 180.0  # kernels may have to be compiled, and a group has to settle
_DRAIN_SECONDS = 30.0
_LOOK_SECONDS = 0.05
_AFTERWARDS_SECONDS = 1.0  # what is visible a second time may come late
_TURN_SECONDS = 5.0
_AT_ONCE = 10_000


class Load(NamedTuple):
    """What is put on each contender.

    Attributes:
        rate: events a second.
        size: bytes of an event.
        warm_up: seconds that do not count.
        seconds: those that do; each contender has them in turns of about five.
    """

    rate: float
    size: int
    warm_up: float
    seconds: float

    @property
    def turns(self) -> int:
        """How many turns each contender has."""
        return max(1, round(self.seconds / _TURN_SECONDS))

    def events(self, seconds: float) -> int:
        """How many events are produced in so many seconds, at least one."""
        return max(1, round(self.rate * seconds))


class Measured(NamedTuple):
    """What became of one contender's events.

    Attributes:
        turns: the passages of each turn.
        missing: how many events were never seen.
        repeated: how many were seen once more than once.
    """

    turns: Sequence[Sequence[Passage]]
    missing: int
    repeated: int


class _CommitTime(msgspec.Struct):
    """What a prediction or an echo says of its commit."""

    ts: float


_decode = msgspec.json.Decoder(_CommitTime).decode


def echoes_for(config: Config) -> tuple[list[str], list[str]]:
    """The yardsticks that this log can have, the learner's client first, and why others are missing."""
    if not config.log.is_kafka:
        return ["embedded"], []
    if importlib.util.find_spec("confluent_kafka") is None:
        return ["kafka-python"], ["confluent-kafka is not installed"]
    try:
        translated_settings(config.kafka.settings(config.log))
    except LogError as error:
        return ["kafka-python"], [f"confluent-kafka: {error}"]
    both = ["kafka-python", "confluent-kafka"]
    return both if config.log.client == "kafka-python" else both[::-1], []


def measure(place: Place, work: Load, arguments: Sequence[str]) -> Mapping[str, Measured]:
    """Put the load on each contender, in turns; contender -> what became of its events.

    Args:
        place: where.
        work: the load.
        arguments: of ``streamnb run``.

    Raises:
        LogError: a process ended, or does not keep up with the load.
    """
    targets = [route.target for route in place.routes.values()]
    with contextlib.ExitStack() as stack:
        watcher = AnsweringActor("reader", place.folder, load.watch, place.config, targets)
        stack.enter_context(closing(watcher))
        producer = AnsweringActor("producer", place.folder, load.produce, place.config)
        stack.enter_context(closing(producer))
        contenders = {name: _contender(place, name, arguments) for name in place.routes}
        for contender in contenders.values():
            stack.enter_context(closing(contender))
        for asked in (watcher, producer):
            asked.answer(_START_SECONDS)
        produced = _take_turns(_Turns(place, work, producer, watcher), contenders, work)
        time.sleep(_AFTERWARDS_SECONDS)
        seen: list[load.Seen] = watcher.ask(None, _START_SECONDS)
    return _put_together(place, produced, seen)


def _contender(place: Place, name: str, arguments: Sequence[str]) -> Actor:
    if name == LEARNER:
        return Actor(name, place.folder, learn, list(arguments))
    source, target, group = place.routes[name]
    return Actor(name, place.folder, echo, name, Bare(place.config, group, source, target))


class _Turns:
    """Gives each contender its turns, one at a time."""

    def __init__(self, place: Place, work: Load, producer: AnsweringActor, watcher: AnsweringActor) -> None:
        self._routes = place.routes
        self._work = work
        self._producer = producer
        self._watcher = watcher
        self._expected = dict.fromkeys(place.routes, 0)

    def take(self, contender: Actor, turn: str, count: int, patience: float) -> load.Produced:
        """Produce events for one contender and wait until as many are visible.

        Raises LogError where that takes longer than `patience` seconds after the last was produced.
        """
        name, rate = contender.name, self._work.rate
        source, target, _ = self._routes[name]
        order = load.Turn(turn, source, rate, count, self._work.size)
        produced: load.Produced = self._producer.ask(order, 2 * count / rate + _START_SECONDS)
        self._expected[name] += count
        deadline = time.monotonic() + patience
        while (seen := self._watcher.ask(target, _START_SECONDS)) < self._expected[name]:
            contender.check()
            if time.monotonic() > deadline:
                raise LogError(
                    f"{name} does not keep up with {rate:g} events a second here: {patience:g} s after the "
                    f"last, {self._expected[name] - seen:,} are not visible; try a lower --rate"
                )
            time.sleep(_LOOK_SECONDS)
        return produced


def _take_turns(
    turns: _Turns, contenders: Mapping[str, Actor], work: Load
) -> Mapping[str, Mapping[str, load.Produced]]:
    """Contender -> turn -> what was produced. A slow moment of the machine meets all contenders."""
    for name, contender in contenders.items():
        turns.take(contender, f"{name}.first", 1, _START_SECONDS)
    for name, contender in contenders.items():
        turns.take(contender, f"{name}.warm", work.events(work.warm_up), _DRAIN_SECONDS)
    produced: dict[str, dict[str, load.Produced]] = {name: {} for name in contenders}
    for k in range(work.turns):
        for name, contender in contenders.items():
            turn, count = f"{name}.{k}", work.events(work.seconds / work.turns)
            produced[name][turn] = turns.take(contender, turn, count, _DRAIN_SECONDS)
    return produced


def _put_together(
    place: Place, produced: Mapping[str, Mapping[str, load.Produced]], seen: Iterable[load.Seen]
) -> Mapping[str, Measured]:
    answers: dict[str, list[load.Seen]] = {route.target: [] for route in place.routes.values()}
    for one in seen:
        answers[one.record.partition.topic].append(one)
    with closing(context.existing_log(place.config)) as log:
        return {
            name: passages_of(produced[name], _stamps(log, route.source), answers[route.target])
            for name, route in place.routes.items()
        }


def _stamps(log: Log, topic: str) -> Mapping[bytes | None, float]:
    """Key -> the log's stamp, of every record of a topic."""
    log.seek({partition: log.offsets(partition)[0] for partition in log.partitions(topic)})
    stamps: dict[bytes | None, float] = {}
    while any(log.lag().values()):
        stamps.update((record.key, record.timestamp) for record in log.poll(_AT_ONCE, 1.0))
    return stamps


def passages_of(
    turns: Mapping[str, load.Produced], appended: Mapping[bytes | None, float], seen: Iterable[load.Seen]
) -> Measured:
    """The way of every event that was seen, the first time that it was.

    Args:
        turns: turn -> when its events were due and sent.
        appended: event's id -> the log's stamp.
        seen: what answers the events, keyed as they are; that of other turns is passed over.
    """
    first: dict[bytes | None, load.Seen] = {}
    repeated = sum(first.setdefault(one.record.key, one) is not one for one in seen)
    passages, missing = [], 0
    for turn, (schedule, sent) in turns.items():
        found = [(i, key) for i in range(schedule.events) if (key := f"{turn}-{i}".encode()) in first]
        missing += schedule.events - len(found)
        passages.append([_passage(schedule.at(i), sent[i], appended[key], first[key]) for i, key in found])
    return Measured(passages, missing, repeated)


def _passage(due: float, sent: float, appended: float, seen: load.Seen) -> Passage:
    taken = _decode(seen.record.value).ts
    return Passage(due, sent, appended, taken, seen.record.timestamp, seen.at)
