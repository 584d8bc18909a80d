"""Reading and writing through kafka-python, a client written in Python."""

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

from streamnb.adapters.kafka.clients import Clients
from streamnb.adapters.kafka.library import NO_NOTES, WAIT_MS, Patiently
from streamnb.engine.ports import NewRecord, Partition, Record, tuples

_APPENDS_WITH = ("self", "tp", "timestamp_ms", "key", "value", "headers", "now", "abort_on_new_batch")
"""What kafka-python 3.0.9 to 3.0.12 need to know to append a record."""


def send(producer: Any, record: NewRecord) -> Any:
    """Hand one record over; its delivery, to be waited for."""
    topic, key, value, headers = record
    is_tombstone = value == b"" and key is not None and not headers
    return producer.send(topic, None if is_tombstone else value, key, list(headers) if headers else None)


def send_all(producer: Any, records: Sequence[NewRecord]) -> Iterator[Any]:
    """Hand records over within one transaction; their deliveries, in order.

    kafka-python 3.0.12 looks at every `send` anew at what is the same for all of a transaction: settings, the
    topic's metadata, the transaction's state, each under locks. That takes as long as to append a record to
    its batch. So a partition's first record goes by `send`, and with it the partition into the transaction;
    those after it are appended where `send` would append them. Where the transaction has failed by then,
    their deliveries do.

    What `send` has more to do for goes by it always: a record without a key, whose partition depends on the
    batches; one with headers; a tombstone; one larger than a batch, which may be too large to be sent. So do
    all records where a version of the client appends in another way.
    """
    append, wake_up = producer._accumulator.append, producer._sender.wakeup  # noqa: SLF001  see above
    largest = producer.config["batch_size"]
    is_known = tuple(inspect.signature(RecordAccumulator.append).parameters) == _APPENDS_WITH
    begun: dict[str, dict[int, TopicPartition]] = {}  # of topics whose metadata is there
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
    """Where a record with a key goes; None where the topic is not known any more."""
    topic, key, value, _ = record
    cluster = producer._metadata  # noqa: SLF001  see above
    try:
        number: int = producer.config["partitioner"].partition(topic, key, key, value, value, cluster)
    except ValueError:
        return None
    return number


_ANSWER_MS = 5_000  # the longest that a question about offsets waits for an answer
_TURN_SECONDS = 0.2


class _AnyNames(bytearray):
    """The bytes of a batch, which say whether a part of them that was to be text was none."""

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
    """Read a record that has a header whose name is not UTF-8, which a broker takes, without its headers.

    kafka-python 3.0.12 calls its batch damaged, so that nobody gets past it. Librdkafka tells none, either.
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
    """The library; see `streamnb.adapters.kafka.library`.

    Args:
        clients: makes the clients themselves.
        group: of the learner; readers are in none.
    """

    def __init__(self, clients: Clients, group: str) -> None:  # noqa: ARG002  others need the group
        self._clients = clients

    def reader(self, wait_ms: int = WAIT_MS) -> _Reader:
        """A consumer in no group."""
        return _Reader(self._clients.reader(wait_ms))

    def transactional(self, transactional_id: str, timeout: float) -> _TransactionalProducer:
        """A producer of transactions; the broker aborts one that stays open for `timeout` seconds."""
        return _TransactionalProducer(self._clients.transactional(transactional_id, timeout), timeout)

    def producer(self) -> _Producer:
        """A producer without transactions."""
        return _Producer(self._clients.producer())


class _Reader:
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
        """Those of which the client knows no partitions."""
        topics = {place.topic for place in self._consumer.assignment()}
        return {topic for topic in topics if not self._consumer.partitions_for_topic(topic)}

    def close(self) -> None:
        with contextlib.suppress(errors.KafkaError):
            self._consumer.close()


class _Abandoned:
    """A producer that can be let go."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer

    def abandon(self) -> None:
        """Let it go, whatever it has still to deliver.

        Its `close` would first wait for all deliveries, and where that fails it closes nothing: the thread
        would go on sending. Only the thread can be told to drop them.
        """
        sender = self._producer._sender  # noqa: SLF001  see above
        sender.force_close()
        sender.join(_TURN_SECONDS)
        with contextlib.suppress(errors.KafkaError):
            self._producer.close(timeout=0)


class _TransactionalProducer(_Abandoned):
    def __init__(self, producer: Any, timeout: float) -> None:
        super().__init__(producer)
        self._timeout = timeout

    def init_transactions(self) -> None:
        self._producer.init_transactions()

    def begin_transaction(self) -> None:
        self._producer.begin_transaction()

    def deliver(self, records: Sequence[NewRecord]) -> None:
        """The client would commit without a batch that expired inside the transaction: look at each."""
        sent: list[Any] = []
        try:
            sent.extend(send_all(self._producer, records))  # those before one that fails are kept
            # The flush of kafka-python 3.0.12 gives up on a batch that is split, for it is too large for its
            # topic; to wait for each delivery goes on with the parts.
            with contextlib.suppress(errors.UnknownError):
                self._producer.flush(timeout=self._timeout)
            for delivery in sent:
                if not delivery.succeeded():
                    delivery.get(timeout=self._timeout)
        except errors.KafkaError:
            # After a failure the client refuses every call: this says why.
            failed = [pair for pair in zip(records, sent, strict=False) if pair[1].failed()]
            # A delivery with a general error failed only because another one of its batch did.
            for record, delivery in sorted(
                failed, key=lambda pair: type(pair[1].exception) is errors.KafkaError
            )[:1]:
                raise of_record(delivery.exception, record.topic, len(record.value)) from None
            raise

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


class _Producer(_Abandoned):
    def deliver(self, records: Sequence[NewRecord], patiently: Patiently) -> None:
        for record, delivery in [
            (record, patiently(partial(send, self._producer, record), "WRITE", record.topic))
            for record in records
        ]:
            patiently(partial(delivery.get, _ANSWER_MS / 1000), "WRITE", record.topic)


def of_record(error: errors.KafkaError, topic: str, size: int) -> errors.KafkaError:
    """The error of a delivery, with the topic where that is the cause; of one that is too large, its size.

    kafka-python 3.0.12 tells several records of a batch whose time is refused as invalid ones.
    """
    if isinstance(error, errors.InvalidRecordError) and "timestamp" in str(error).lower():
        error = errors.InvalidTimestampError(*error.args)
    if isinstance(error, errors.InvalidRecordError | errors.InvalidTimestampError):
        return type(error)(f"topic {topic}:", *error.args)
    if isinstance(error, errors.MessageSizeTooLargeError | errors.RecordListTooLargeError):
        return type(error)(f"{size:,} bytes for topic {topic}")
    return error


def _records(place: TopicPartition, found: Sequence[Any]) -> list[Record]:
    """Consumed records of one partition. A value that is null (a tombstone) is read as empty."""
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
    """The headers of a consumed record; a value that is null is read as empty."""
    return tuple((name, b"" if value is None else value) for name, value in found)
