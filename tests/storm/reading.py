"""What a stranger reads of a topic: by librdkafka, committed records only, each partition to its end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

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


def read(address: str, topic: str) -> Iterator[Found]:
    """Every record, partition by partition only in so far as each is in order."""
    with _consumer(address) as consumer:
        yield from _from(consumer, [TopicPartition(topic, number, 0) for number in _numbers(consumer, topic)])


def last_journalled(address: str, topic: str) -> dict | None:
    """The journal's last record; None where nothing has been committed lately."""
    with _consumer(address) as consumer:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), ANSWER_SECONDS)
        tail = list(_from(consumer, [TopicPartition(topic, 0, max(low, high - LOOK_BACK))]))
    return json.loads(tail[-1].value) if tail else None


def ends(address: str, topic: str) -> dict[str, int]:
    """Partition, as text -> offset of the next record."""
    with _consumer(address) as consumer:
        return {
            str(number): consumer.get_watermark_offsets(TopicPartition(topic, number), ANSWER_SECONDS)[1]
            for number in _numbers(consumer, topic)
        }


@contextmanager
def _consumer(address: str) -> Iterator[Consumer]:
    consumer = Consumer({"bootstrap.servers": address, **SETTINGS})
    try:
        yield consumer
    finally:
        consumer.close()


def _numbers(consumer: Consumer, topic: str) -> list[int]:
    return sorted(consumer.list_topics(topic, timeout=ANSWER_SECONDS).topics[topic].partitions)


def _from(consumer: Consumer, places: list[TopicPartition]) -> Iterator[Found]:
    consumer.assign(places)
    left = {place.partition for place in places}
    while left:
        found = consumer.consume(AT_ONCE, ANSWER_SECONDS / 60)
        for message in found:
            if message.error() is None:
                yield Found(
                    message.partition(),
                    message.offset(),
                    (message.key() or b"").decode(errors="replace"),
                    message.value() or b"",
                    message.timestamp()[1] / 1000,
                )
            elif message.error().code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
            else:
                raise KafkaException(message.error())
