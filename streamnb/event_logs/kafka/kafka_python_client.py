"""Read and write through kafka-python, a client written in Python."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from kafka import TopicPartition, errors
from kafka.producer.record_accumulator import RecordAccumulator
from kafka.record.default_records import DefaultRecordBatch
from kafka.structs import OffsetAndMetadata

from streamnb.engine.ports import NewRecord, Partition, Record, tuples
from streamnb.event_logs.kafka.client_interface import NO_NOTES, WAIT_MS, Patiently
from streamnb.event_logs.kafka.kafka_clients import Clients

_APPENDS_WITH = ("self", "tp", "timestamp_ms", "key", "value", "headers", "now", "abort_on_new_batch")
"""Parameters of `RecordAccumulator.append` in kafka-python 3.0.9 to 3.0.12."""


def send(producer: Any, record: NewRecord) -> Any:
    """Send one record and return its delivery future."""
    topic, key, value, headers = record
    is_tombstone = value == b"" and key is not None and not headers
    return producer.send(topic, None if is_tombstone else value, key, list(headers) if headers else None)


def send_all(producer: Any, records: Sequence[NewRecord]) -> Iterator[Any]:
    """Send records within one transaction, and yield their delivery futures in order.

    For every `send`, kafka-python 3.0.12 checks again what is constant within a transaction (settings, topic
    metadata, transaction state), each under a lock. This takes as long as appending the record to its batch.
    Therefore only the first record of a partition goes through `send`, which adds the partition to the
    transaction. Later records are appended directly to the accumulator; if the transaction has failed
    meanwhile, their deliveries fail.

    Records that need more work always go through `send`: a record without a key, whose partition depends on
    the batches; a record with headers; a tombstone; a record larger than a batch, which may be too large to
    send. If the client's version appends with other parameters, all records go through `send`.
    """
    append, wake_up = producer._accumulator.append, producer._sender.wakeup  # noqa: SLF001  see above
    largest = producer.config["batch_size"]
    is_known = tuple(inspect.signature(RecordAccumulator.append).parameters) == _APPENDS_WITH
    begun: dict[str, dict[int, TopicPartition]] = {}  # topics whose metadata is available
    for record in records:
        topic, key, value, headers = record
        is_plain = (
            is_known and key is not None and value != b"" and not headers and len(key) + len(value) <= largest
        )
        number = _partition(producer, record) if is_plain and topic in begun else None
        if number is None:
            delivery = send(producer, record)
            if not delivery.failed():
                begun.setdefault(topic, {})
        elif number not in begun[topic]:
            delivery = producer.send(topic, value, key, partition=number)
            begun[topic][number] = TopicPartition(topic, number)
        else:
            delivery, is_full, is_new, _ = append(begun[topic][number], None, key, value, [])
            if is_full or is_new:
                wake_up()
        yield delivery


def _partition(producer: Any, record: NewRecord) -> int | None:
    """Return the partition of a record with a key; None if the topic's metadata is missing."""
    topic, key, value, _ = record
    cluster = producer._metadata  # noqa: SLF001  see above
    try:
        number: int = producer.config["partitioner"].partition(topic, key, key, value, value, cluster)
    except ValueError:
        return None
    return number


_ANSWER_MS = 5_000  # timeout of a request for offsets
_TURN_SECONDS = 0.2


class _AnyNames(bytearray):
    """The bytes of a batch; `is_odd` is set when a name in them was not UTF-8."""

    is_odd = False

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        return _Name(self, found) if isinstance(place, slice) else found


class _Name(bytearray):
    def __init__(self, batch: _AnyNames, found: bytes) -> None:
        super().__init__(found)
        self._batch = batch

    def decode(self, *_: object) -> str:
        try:
            return super().decode()
        except UnicodeDecodeError:
            self._batch.is_odd = True
            return ""


def _with_any_names(read: Callable[..., Any]) -> Callable[..., Any]:
    """Read a record without its headers if a header name is not UTF-8; brokers accept such names.

    kafka-python 3.0.12 reports its batch as damaged, which would block every reader. librdkafka returns no
    headers for such a record either.
    """

    def read_any(batch: Any, *rest: Any) -> Any:
        try:
            found = read(batch, *rest)
        except UnicodeDecodeError:
            batch._buffer = _AnyNames(batch._buffer)  # noqa: SLF001  see above
            found = read(batch, *rest)
        content = batch._buffer  # noqa: SLF001
        if type(content) is _AnyNames and content.is_odd:
            found._headers = []  # noqa: SLF001
            content.is_odd = False
        return found

    return read_any


DefaultRecordBatch._read_msg = _with_any_names(DefaultRecordBatch._read_msg)  # noqa: SLF001


class KafkaPython:
    """The kafka-python library; see `streamnb.event_logs.kafka.client_interface`.

    Args:
        clients: makes the clients.
        group: the learner's group; readers join no group.
    """

    def __init__(self, clients: Clients, group: str) -> None:  # noqa: ARG002  others need the group
        self._clients = clients

    def reader(self, wait_ms: int = WAIT_MS) -> _KafkaPythonReader:
        """Return a consumer without a group."""
        return _KafkaPythonReader(self._clients.reader(wait_ms))

    def transactional(
        self,
        transactional_id: str,
        timeout: float,
        *,
        is_placed: bool = False,  # noqa: ARG002  every delivery has its place
    ) -> _KafkaPythonTransactionalProducer:
        """Return a transactional producer, whose transactions the broker aborts after `timeout` seconds."""
        return _KafkaPythonTransactionalProducer(
            self._clients.transactional(transactional_id, timeout), timeout
        )

    def producer(self, *, is_placed: bool = False) -> _KafkaPythonProducer:  # noqa: ARG002  as above
        """Return a producer without transactions."""
        return _KafkaPythonProducer(self._clients.producer())


class _KafkaPythonReader:
    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    def seek(self, positions: Mapping[Partition, int]) -> None:
        self._consumer.assign([TopicPartition(*partition) for partition in positions])
        for partition, offset in positions.items():
            self._consumer.seek(TopicPartition(*partition), offset)

    def poll(self, limit: int, seconds: float) -> Sequence[Record]:
        found = self._consumer.poll(int(seconds * 1000), limit)
        return [record for place, records in found.items() for record in _records(place, records)]

    def position(self, partition: Partition) -> int:
        return int(self._consumer.position(TopicPartition(*partition), timeout_ms=_ANSWER_MS))

    def partitions(self) -> Collection[Partition]:
        return [Partition(*place) for place in self._consumer.assignment()]

    def doubtful(self) -> Collection[str]:
        """Return the topics for which the client has no partition metadata."""
        topics = {place.topic for place in self._consumer.assignment()}
        return {topic for topic in topics if not self._consumer.partitions_for_topic(topic)}

    def close(self) -> None:
        with contextlib.suppress(errors.KafkaError):
            self._consumer.close()


class _Abandoned:
    def __init__(self, producer: Any) -> None:
        self._producer = producer

    def abandon(self) -> None:
        """Drop the producer with its undelivered records.

        `close` would first wait for all deliveries, and on failure would leave the thread sending. Only the
        thread can drop the records.
        """
        sender = self._producer._sender  # noqa: SLF001  see above
        sender.force_close()
        sender.join(_TURN_SECONDS)
        with contextlib.suppress(errors.KafkaError):
            self._producer.close(timeout=0)


class _KafkaPythonTransactionalProducer(_Abandoned):
    def __init__(self, producer: Any, timeout: float) -> None:
        super().__init__(producer)
        self._timeout = timeout

    def init_transactions(self) -> None:
        self._producer.init_transactions()

    def begin_transaction(self) -> None:
        self._producer.begin_transaction()

    def announce(self, partition: Partition) -> None:
        """Queue the partition: the client adds all queued partitions with one request."""
        manager = self._producer._transaction_manager  # noqa: SLF001  no public way
        manager.maybe_add_partition_to_transaction(TopicPartition(*partition))

    def deliver(self, records: Sequence[NewRecord]) -> None:
        """Check each delivery: the client would commit without a batch that expired in the transaction."""
        self._delivered(records)

    def deliver_placed(self, records: Sequence[NewRecord]) -> list[tuple[Partition, int]]:
        return [_place(delivery.value) for delivery in self._delivered(records)]

    def _delivered(self, records: Sequence[NewRecord]) -> list[Any]:
        sent: list[Any] = []
        try:
            sent.extend(send_all(self._producer, records))  # keeps the deliveries before a failed one
            # In kafka-python 3.0.12, flush fails on a batch that is split because it is too large for its
            # topic; waiting for each delivery covers the parts.
            with contextlib.suppress(errors.UnknownError):
                self._producer.flush(timeout=self._timeout)
            for delivery in sent:
                if not delivery.succeeded():
                    delivery.get(timeout=self._timeout)
        except errors.KafkaError:
            # After a failure the client refuses every call; the failed delivery holds the cause.
            failed = [pair for pair in zip(records, sent, strict=False) if pair[1].failed()]
            # A delivery with a general error failed only because of another delivery in its batch.
            for record, delivery in sorted(
                failed, key=lambda pair: type(pair[1].exception) is errors.KafkaError
            )[:1]:
                raise of_record(delivery.exception, record.topic, len(record.value)) from None
            raise
        return sent

    def send_offsets_to_transaction(
        self, positions: Mapping[Partition, int], membership: Any, notes: Mapping[Partition, str] = NO_NOTES
    ) -> None:
        offsets = {
            TopicPartition(*partition): OffsetAndMetadata(offset, notes.get(partition, ""), -1)
            for partition, offset in positions.items()
        }
        self._producer.send_offsets_to_transaction(offsets, membership)

    def commit_transaction(self) -> None:
        self._producer.commit_transaction()


class _KafkaPythonProducer(_Abandoned):
    def deliver(self, records: Sequence[NewRecord], patiently: Patiently) -> None:
        self.deliver_placed(records, patiently)

    def deliver_placed(
        self, records: Sequence[NewRecord], patiently: Patiently
    ) -> list[tuple[Partition, int]]:
        sent = [
            (record, patiently(partial(send, self._producer, record), "WRITE", record.topic))
            for record in records
        ]
        return [
            _place(patiently(partial(delivery.get, _ANSWER_MS / 1000), "WRITE", record.topic))
            for record, delivery in sent
        ]


def _place(delivered: Any) -> tuple[Partition, int]:
    return Partition(delivered.topic, delivered.partition), delivered.offset


def of_record(error: errors.KafkaError, topic: str, size: int) -> errors.KafkaError:
    """Return the error of a delivery, with the topic if it is the cause, or with the size of a large record.

    If several records of a batch have a refused timestamp, kafka-python 3.0.12 reports invalid records.
    """
    if isinstance(error, errors.InvalidRecordError) and "timestamp" in str(error).lower():
        error = errors.InvalidTimestampError(*error.args)
    if isinstance(error, errors.InvalidRecordError | errors.InvalidTimestampError):
        return type(error)(f"topic {topic}:", *error.args)
    if isinstance(error, errors.MessageSizeTooLargeError | errors.RecordListTooLargeError):
        return type(error)(f"{size:,} bytes for topic {topic}")
    return error


def _records(place: TopicPartition, found: Sequence[Any]) -> list[Record]:
    """Return consumed records of one partition. A null value (a tombstone) is read as empty."""
    partition = Partition(*place)
    rows = [
        (
            partition,
            record.offset,
            record.key,
            b"" if record.value is None else record.value,
            record.timestamp / 1000.0,
            headers_of(record.headers) if record.headers else (),
        )
        for record in found
    ]
    return tuples(Record, rows)


def headers_of(found: Iterable[tuple[str, bytes | None]]) -> tuple[tuple[str, bytes], ...]:
    """Return the headers of a consumed record; a null value is read as empty."""
    return tuple((name, b"" if value is None else value) for name, value in found)
