"""The yardsticks: loops that do all that a learner does with the log, and learn nothing.

Each reads committed records, and at every commit interval, in one transaction, writes one record for each and
its positions. They are as short as such a loop can be and keep no promise beyond that; a client that fails
ends its process. Each runs in a process of its own until it is ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple, TypeVar

from streamnb.cli import wiring
from streamnb.config import Config
from streamnb.engine.ports import NewRecord

__all__ = ["Echo", "embedded", "kafka_python", "librdkafka", "librdkafka_settings", "paced"]

_AT_ONCE = 1000
_WAIT_SECONDS = 0.5

R = TypeVar("R")

_LIBRDKAFKA = {
    "security_protocol": "security.protocol",
    "sasl_mechanism": "sasl.mechanism",
    "sasl_plain_username": "sasl.username",
    "sasl_plain_password": "sasl.password",
    "ssl_cafile": "ssl.ca.location",
    "ssl_certfile": "ssl.certificate.location",
    "ssl_keyfile": "ssl.key.location",
}
"""Settings of kafka-python -> of librdkafka."""


class Echo(NamedTuple):
    """What a loop is to do.

    Attributes:
        config: where the log is, and how to talk to it.
        name: of the group and the transactional id.
        source: topic that is read.
        target: topic that is written.
    """

    config: Config
    name: str
    source: str
    target: str


def paced(
    poll: Callable[[float], Sequence[R]], interval: float, clock: Callable[[], float] = time.monotonic
) -> Iterator[list[R]]:
    """Batches without end, none empty: each holds what came until `interval` seconds after the last one."""
    began = clock()
    while True:
        records: list[R] = []
        while not records or (len(records) < _AT_ONCE and clock() < began + interval):
            records += poll(max(0.0, began + interval - clock()) if records else _WAIT_SECONDS)
        began = clock()
        yield records


def kafka_python(echo: Echo) -> None:
    """With the client that the learner uses."""
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition  # noqa: PLC0415
    from kafka.structs import OffsetAndMetadata  # noqa: PLC0415

    settings = echo.config.kafka.settings(echo.config.log)
    reading = {"isolation_level": "read_committed", "enable_auto_commit": False, "fetch_max_wait_ms": 100}
    consumer = KafkaConsumer(
        echo.source, **settings, **reading, group_id=echo.name, auto_offset_reset="earliest"
    )
    producer = KafkaProducer(**settings, transactional_id=echo.name, retry_backoff_ms=10)
    producer.init_transactions()

    def poll(seconds: float) -> list[Any]:
        found = consumer.poll(timeout_ms=int(seconds * 1000), max_records=_AT_ONCE)
        return [record for records in found.values() for record in records]

    with closing(consumer):
        for records in paced(poll, echo.config.commit.interval):
            now = time.time()
            producer.begin_transaction()
            for record in records:
                producer.send(echo.target, value=_echoed(record.value, now), key=record.key)
            next_offsets = {TopicPartition(r.topic, r.partition): r.offset + 1 for r in records}
            offsets = {place: OffsetAndMetadata(offset, "", -1) for place, offset in next_offsets.items()}
            producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            producer.commit_transaction()


def librdkafka(echo: Echo) -> None:
    """With confluent-kafka."""
    from confluent_kafka import Consumer, Producer, TopicPartition  # noqa: PLC0415

    settings = librdkafka_settings(echo.config.kafka.settings(echo.config.log))
    reading = {"isolation.level": "read_committed", "enable.auto.commit": False, "fetch.wait.max.ms": 100}
    consumer = Consumer({**settings, **reading, "group.id": echo.name, "auto.offset.reset": "earliest"})
    consumer.subscribe([echo.source])
    producer = Producer({**settings, "transactional.id": echo.name})
    producer.init_transactions()

    def poll(seconds: float) -> list[Any]:
        # `consume` waits the whole time for as many as allowed; one record, then what else is there
        first = consumer.consume(1, seconds)
        found = [*first, *consumer.consume(_AT_ONCE, 0)] if first else []
        return [record for record in found if record.error() is None]

    with closing(consumer):
        for records in paced(poll, echo.config.commit.interval):
            now = time.time()
            producer.begin_transaction()
            for record in records:
                producer.produce(echo.target, value=_echoed(record.value(), now), key=record.key())
            next_offsets = {(r.topic(), r.partition()): r.offset() + 1 for r in records}
            offsets = [TopicPartition(*place, offset) for place, offset in next_offsets.items()]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
            producer.commit_transaction()


def embedded(echo: Echo) -> None:
    """On the embedded log, whose transaction here holds the records alone."""
    with closing(wiring.existing_log(echo.config)) as log:
        log.seek(dict.fromkeys(log.partitions(echo.source), 0))
        for records in paced(lambda seconds: log.poll(_AT_ONCE, seconds), echo.config.commit.interval):
            now = time.time()
            log.append([NewRecord(echo.target, r.key, _echoed(r.value, now)) for r in records])


def librdkafka_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The same connection for librdkafka. Raises KeyError for a setting that it has no word for."""
    translated = {_LIBRDKAFKA[key]: value for key, value in settings.items() if key != "bootstrap_servers"}
    return {"bootstrap.servers": ",".join(settings["bootstrap_servers"]), **translated}


def _echoed(event: bytes, now: float) -> bytes:
    """As long as a prediction, about, and stamped like one."""
    return b'{"event":%b,"ts":%b}' % (event, repr(now).encode())
