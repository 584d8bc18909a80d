"""Clients of a log with nothing around them: what a loop needs to read, and to write in transactions.

They keep no promise beyond that; one that fails ends its process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from streamnb.config import Config
from streamnb.engine.ports import NewRecord
from streamnb.event_logs.kafka.librdkafka_settings import translated_settings
from streamnb.runtime import context

Pair = tuple[bytes | None, bytes]
"""Key and value of a record."""

_FETCH_WAIT_MS = 100
_LINGER_MS = 5
_BATCH_BYTES = 512 << 10


class Bare(NamedTuple):
    """What a loop that only copies needs to know.

    Attributes:
        config: where the log is, and how to talk to it.
        name: of the group and the transactional id.
        source: topic that is read, from its beginning.
        target: topic that is written.
    """

    config: Config
    name: str
    source: str
    target: str


class Client(Protocol):
    """A client that reads one topic and writes another."""

    def poll(self, limit: int, seconds: float) -> Sequence[Pair]:
        """At most `limit` committed records; waits up to `seconds` for the first."""
        ...

    def write(self, pairs: Sequence[Pair]) -> None:
        """Write records, and the positions of all that was polled, in one transaction; durable on return."""
        ...

    def close(self) -> None:
        """Release everything held."""
        ...


class _KafkaPython:
    """The settings that decide about speed are those of the learner's clients."""

    def __init__(self, bare: Bare) -> None:
        from kafka import KafkaConsumer, KafkaProducer, TopicPartition
        from kafka.structs import OffsetAndMetadata

        settings = bare.config.kafka.settings(bare.config.log)
        self._target = bare.target
        self._next: dict[Any, Any] = {}
        self._positioned: Any = OffsetAndMetadata
        self._consumer = KafkaConsumer(
            **settings,
            group_id=bare.name,
            isolation_level="read_committed",
            enable_auto_commit=False,
            max_partition_fetch_bytes=4 << 20,
            fetch_max_bytes=16 << 20,
            fetch_max_wait_ms=_FETCH_WAIT_MS,
        )
        numbers = self._consumer.partitions_for_topic(bare.source) or ()
        self._consumer.assign([TopicPartition(bare.source, number) for number in numbers])
        self._consumer.seek_to_beginning()
        self._producer = KafkaProducer(
            **settings,
            transactional_id=bare.name,
            retry_backoff_ms=10,
            linger_ms=_LINGER_MS,
            batch_size=_BATCH_BYTES,
        )
        self._producer.init_transactions()

    def poll(self, limit: int, seconds: float) -> Sequence[Pair]:
        found = self._consumer.poll(timeout_ms=int(seconds * 1000), max_records=limit)
        for place, records in found.items():
            self._next[place] = self._positioned(records[-1].offset + 1, "", -1)
        return [(record.key, record.value) for records in found.values() for record in records]

    def write(self, pairs: Sequence[Pair]) -> None:
        producer, target = self._producer, self._target
        producer.begin_transaction()
        for key, value in pairs:
            producer.send(target, value=value, key=key)
        producer.send_offsets_to_transaction(self._next, self._consumer.group_metadata())
        producer.commit_transaction()

    def close(self) -> None:
        self._consumer.close()
        self._producer.close()


class _Librdkafka:
    """confluent-kafka. By default it rests for a second when its queue is full (`fetch.queue.backoff.ms`)."""

    def __init__(self, bare: Bare) -> None:
        from confluent_kafka import Consumer, Producer, TopicPartition

        settings = translated_settings(bare.config.kafka.settings(bare.config.log))
        self._target = bare.target
        self._next: dict[tuple[str, int], int] = {}
        self._positioned = TopicPartition
        self._consumer = Consumer(
            {
                **settings,
                "group.id": bare.name,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": _FETCH_WAIT_MS,
                "fetch.queue.backoff.ms": 5,
            }
        )
        numbers = self._consumer.list_topics(bare.source).topics[bare.source].partitions
        self._consumer.assign([TopicPartition(bare.source, number, 0) for number in numbers])
        self._producer = Producer(
            {
                **settings,
                "transactional.id": bare.name,
                "linger.ms": _LINGER_MS,
                "queue.buffering.max.messages": 1_000_000,
            }
        )
        self._producer.init_transactions()

    def poll(self, limit: int, seconds: float) -> Sequence[Pair]:
        # `consume` waits the whole time for as many as allowed: one record, then what else is there.
        first = self._consumer.consume(1, seconds)
        found = [*first, *self._consumer.consume(limit - 1, 0)] if first and limit > 1 else first
        records = [record for record in found if record.error() is None]
        self._next.update({(record.topic(), record.partition()): record.offset() + 1 for record in records})
        return [(record.key(), record.value()) for record in records]

    def write(self, pairs: Sequence[Pair]) -> None:
        producer, target = self._producer, self._target
        producer.begin_transaction()
        for key, value in pairs:
            producer.produce(target, value, key)
        offsets = [self._positioned(*place, offset) for place, offset in self._next.items()]
        producer.send_offsets_to_transaction(offsets, self._consumer.consumer_group_metadata())
        producer.commit_transaction()

    def close(self) -> None:
        self._consumer.close()


class _Embedded:
    """The embedded log, whose transaction here holds the records alone."""

    def __init__(self, bare: Bare) -> None:
        self._target = bare.target
        self._log = context.existing_log(bare.config)
        self._log.seek(dict.fromkeys(self._log.partitions(bare.source), 0))

    def poll(self, limit: int, seconds: float) -> Sequence[Pair]:
        return [(record.key, record.value) for record in self._log.poll(limit, seconds)]

    def write(self, pairs: Sequence[Pair]) -> None:
        self._log.append([NewRecord(self._target, key, value) for key, value in pairs])

    def close(self) -> None:
        self._log.close()


CLIENTS: Mapping[str, Callable[[Bare], Client]] = {
    "kafka-python": _KafkaPython,
    "confluent-kafka": _Librdkafka,
    "embedded": _Embedded,
}
"""Name -> what opens it."""
