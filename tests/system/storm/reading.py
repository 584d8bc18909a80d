"""What a stranger reads of a topic: by librdkafka, committed records only, each partition to its end.

Of an embedded log, whose URL is given in place of an address, by its own reader.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from streamnb.event_logs.sqlite.sqlite_log import SqliteLog

Answer = TypeVar("Answer")
ANSWER_SECONDS = 60.0
AT_ONCE = 5000
LOOK_BACK = 50  # offsets; markers of transactions take some
SETTINGS = {
    "group.id": "stranger",
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 10,
    "log_level": 0,
}


class Found(NamedTuple):
    """One record."""

    partition: int
    offset: int
    key: str
    value: bytes
    at: float  # seconds since the epoch, as the broker or the producer noted
    id: str  # of the event that was written, in a header of the record or of its dead letter; else the key


ID = "id"
_IDS = (ID, f"original.{ID}")


def is_embedded(address: str) -> bool:
    return address.startswith("sqlite:///")


def read(address: str, topic: str) -> Iterator[Found]:
    """Every record, partition by partition only in so far as each is in order."""
    if is_embedded(address):
        yield from _embedded(address, topic)
        return
    with _consumer(address) as consumer:
        yield from _from(consumer, [TopicPartition(topic, number, 0) for number in _numbers(consumer, topic)])


def last_journalled(address: str, topic: str) -> dict | None:
    """The journal's last record; None where nothing has been committed lately."""
    if is_embedded(address):
        found = list(_embedded(address, topic, LOOK_BACK))
        return json.loads(found[-1].value) if found else None
    with _consumer(address) as consumer:
        low, high = _bounds(consumer, topic, 0)
        tail = list(_from(consumer, [TopicPartition(topic, 0, max(low, high - LOOK_BACK))]))
    return json.loads(tail[-1].value) if tail else None


def ends(address: str, topic: str) -> dict[str, int]:
    """Partition, as text -> offset of the next record."""
    if is_embedded(address):
        with closing(SqliteLog(Path(address.removeprefix("sqlite:///")))) as log:
            return {str(partition.number): log.offsets(partition)[1] for partition in log.partitions(topic)}
    with _consumer(address) as consumer:
        return {str(number): _bounds(consumer, topic, number)[1] for number in _numbers(consumer, topic)}


def _embedded(address: str, topic: str, last: int | None = None) -> Iterator[Found]:
    """Every record of a topic, or the last few of each partition."""
    with closing(SqliteLog(Path(address.removeprefix("sqlite:///")))) as log:
        for partition in log.partitions(topic):
            offset, end = log.offsets(partition)
            offset = offset if last is None else max(offset, end - last)
            while records := log.read(partition, offset, AT_ONCE):
                for record in records:
                    key = (record.key or b"").decode(errors="replace")
                    yield Found(
                        partition.number,
                        record.offset,
                        key,
                        record.value,
                        record.timestamp,
                        _id_of(record.headers, key),
                    )
                offset = records[-1].offset + 1


def _id_of(headers: Iterable[tuple[str, bytes]] | None, key: str) -> str:
    return next((value.decode() for name, value in headers or () if name in _IDS), key)


@contextmanager
def _consumer(address: str) -> Iterator[Consumer]:
    consumer = Consumer({"bootstrap.servers": address, **SETTINGS})
    try:
        yield consumer
    finally:
        consumer.close()


def _numbers(consumer: Consumer, topic: str) -> list[int]:
    def ask() -> list[int]:
        known = consumer.list_topics(topic, timeout=ANSWER_SECONDS).topics[topic]
        if known.error is not None:
            raise KafkaException(known.error)
        return sorted(known.partitions)

    return _until_it_leads(ask)


def _bounds(consumer: Consumer, topic: str, number: int) -> tuple[int, int]:
    """The earliest offset kept and the one after the last."""
    return _until_it_leads(
        lambda: consumer.get_watermark_offsets(TopicPartition(topic, number), ANSWER_SECONDS)
    )


def _until_it_leads(ask: Callable[[], Answer]) -> Answer:
    """A broker that is back leads its partitions again only after a while; consuming waits for it, asking does not."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while True:
        try:
            return ask()
        except KafkaException:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.5)


def _from(consumer: Consumer, places: list[TopicPartition]) -> Iterator[Found]:
    consumer.assign(places)
    left = {place.partition for place in places}
    while left:
        found = consumer.consume(AT_ONCE, ANSWER_SECONDS / 60)
        for message in found:
            if message.error() is None:
                key = (message.key() or b"").decode(errors="replace")
                yield Found(
                    message.partition(),
                    message.offset(),
                    key,
                    message.value() or b"",
                    message.timestamp()[1] / 1000,
                    _id_of(message.headers(), key),
                )
            elif message.error().code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
            else:
                raise KafkaException(message.error())
