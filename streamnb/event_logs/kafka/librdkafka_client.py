"""Read and write through librdkafka, a client written in C, by way of confluent-kafka.

Python does little work per event here: it makes one record of each message read, and calls `produce` once for
each output.
"""

from __future__ import annotations

import contextlib
import math
import struct
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka import Producer as LibrdkafkaProducer
from kafka import errors

from streamnb.engine.ports import NewRecord, Partition, Record, tuples
from streamnb.errors import LogError
from streamnb.event_logs.kafka.client_interface import NO_NOTES, WAIT_MS, Patiently
from streamnb.event_logs.kafka.consumer_group import nobody_in
from streamnb.event_logs.kafka.error_actions import Action, classify
from streamnb.event_logs.kafka.kafka_clients import Clients
from streamnb.event_logs.kafka.kafka_python_client import headers_of, of_record
from streamnb.event_logs.kafka.librdkafka_errors import as_kafka_python, raised_as_kafka_python
from streamnb.event_logs.kafka.librdkafka_settings import producing, reading, transacting

_ANSWER_SECONDS = 10.0
_TURN_SECONDS = 0.2  # for calls that signals do not interrupt
_DELIVERY_TURNS = 25
_DOUBT_SECONDS = 5.0
_Places = list[tuple[Partition, int] | None]
_NOT_OF_READERS = {KafkaError.GROUP_AUTHORIZATION_FAILED}  # readers join no group


class Librdkafka:
    """The librdkafka library; see `streamnb.event_logs.kafka.client_interface`.

    Args:
        clients: holds the settings, in the names of kafka-python.
        group: the learner's group; readers join no group.

    Raises:
        LogError: a setting has no counterpart in librdkafka.
    """

    def __init__(self, clients: Clients, group: str) -> None:
        self._clients, self._settings = clients, clients.settings
        self._group = group
        reading(self._settings, group)

    def reader(self, wait_ms: int = WAIT_MS) -> _LibrdkafkaReader:
        """Return a consumer without a group."""
        settings = {**reading(self._settings, self._group), "fetch.wait.max.ms": wait_ms}
        consumer = _made(Consumer, settings)
        _check_membership_bytes(consumer.consumer_group_metadata(), self._group)
        return _LibrdkafkaReader(consumer)

    def transactional(
        self, transactional_id: str, timeout: float, *, is_placed: bool = False
    ) -> _LibrdkafkaTransactionalProducer:
        """Return a transactional producer, whose transactions the broker aborts after `timeout` seconds."""
        settings = transacting(self._settings, transactional_id, timeout)
        return _LibrdkafkaTransactionalProducer(self._fitting(settings, is_placed=is_placed), timeout)

    def producer(self, *, is_placed: bool = False) -> _LibrdkafkaProducer:
        """Return a producer without transactions."""
        return _LibrdkafkaProducer(self._fitting(producing(self._settings), is_placed=is_placed))

    def _fitting(self, settings: dict[str, Any], *, is_placed: bool) -> dict[str, Any]:
        """Return the producer's settings with batches that every topic accepts.

        Only deliveries that are reported can say where a record is.
        """
        size = min(settings["batch.size"], self._clients.largest_batch)
        return {**settings, "batch.size": size, "delivery.report.only.error": not is_placed}


class _Partitions(dict[tuple[str, int], Partition]):
    """Map (topic, number) to its unique `Partition`, made on first use."""

    def __missing__(self, place: tuple[str, int]) -> Partition:
        return self.setdefault(place, Partition(*place))


def _headers(messages: Sequence[Any]) -> list[tuple[tuple[str, bytes], ...]]:
    """Return the headers of each message; none if a name is not UTF-8, which brokers accept.

    For such a message, confluent-kafka 2.16 returns a list with a hole and sets an error. Python's
    specialised method calls do not check for that error; calls through `map` do.
    """
    headers: list[tuple[tuple[str, bytes], ...]] = []
    told = map(Message.headers, messages)
    while len(headers) < len(messages):
        try:
            headers.extend(headers_of(given) if given else () for given in told)
        except (SystemError, UnicodeDecodeError):
            headers.append(())
    return headers


class _LibrdkafkaReader:
    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._next: dict[Partition, int] = {}
        self._partitions = _Partitions()
        self._doubted = time.monotonic()  # time of the last check that the topics exist
        self._owed: errors.KafkaError | None = None  # an error behind records not yet returned
        self._located: set[str] = set()  # topics whose leaders are known

    def seek(self, positions: Mapping[Partition, int]) -> None:
        self._next = dict(positions)
        self._doubted = time.monotonic()
        self._owed = None
        self._locate({partition.topic for partition in positions})
        with raised_as_kafka_python():
            self._consumer.assign([TopicPartition(*partition, at) for partition, at in positions.items()])

    def _locate(self, topics: set[str]) -> None:
        """Request the leaders of new topics: an idle client would do so half a second later.

        Failures are ignored: the client retries by itself, and `poll` reports errors.
        """
        for topic in topics - self._located:
            with contextlib.suppress(KafkaException):
                self._consumer.list_topics(topic, _TURN_SECONDS)
                self._located.add(topic)

    def poll(self, limit: int, seconds: float) -> Sequence[Record]:
        """Consume one message, then the available rest: a single call waits until all are there."""
        if self._owed is not None:
            error, self._owed = self._owed, None
            raise error
        with raised_as_kafka_python():
            messages = self._consumer.consume(1, seconds)
            if messages and limit > 1:
                messages += self._consumer.consume(limit - 1, 0)
        if any(map(Message.error, messages)):
            messages = self._without_events(messages)
        if not messages:
            return []
        found, offsets = self._partitions, list(map(Message.offset, messages))
        topics, numbers = list(map(Message.topic, messages)), list(map(Message.partition, messages))
        if topics.count(topics[0]) == numbers.count(numbers[0]) == len(messages):  # all of one partition
            partitions = [found[topics[0], numbers[0]]] * len(messages)
            lasts = {partitions[0]: offsets[-1]}
        else:
            partitions = [found[place] for place in zip(topics, numbers, strict=True)]
            lasts = dict(zip(partitions, offsets, strict=True))
        for partition, last in lasts.items():
            self._next[partition] = max(self._next[partition], last + 1)
        values = [value or b"" for value in map(Message.value, messages)]  # a tombstone is read as empty
        times = [milliseconds / 1000.0 for _, milliseconds in map(Message.timestamp, messages)]
        headers = _headers(messages)
        keys = map(Message.key, messages)
        return tuples(Record, zip(partitions, offsets, keys, values, times, headers, strict=True))

    def _without_events(self, messages: Iterable[Any]) -> list[Any]:
        """Return the records among consumed messages; raise the error, at once if no record was consumed.

        The end of a partition is an event, too: at a marker, only this event shows the reader's position.
        """
        kept, wrong = [], None
        for message in messages:
            error = message.error()
            if error is None:
                kept.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                partition = self._partitions[message.topic(), message.partition()]
                self._next[partition] = max(self._next[partition], message.offset())
            elif error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                self._doubted = -math.inf
            elif error.code() not in _NOT_OF_READERS:
                wrong = wrong or self._meaning(message, error)
        if wrong is not None and not kept:
            raise wrong
        self._owed = wrong
        return kept

    def _meaning(self, message: Any, error: Any) -> errors.KafkaError | None:
        """Return the exception, or None if the client recovers by itself."""
        found = as_kafka_python(error)
        if isinstance(found, errors.OffsetOutOfRangeError):
            return type(found)({self._partitions[message.topic(), message.partition()]: message.offset()})
        if isinstance(found, errors.TopicAuthorizationFailedError):
            return type(found)({message.topic()})
        return None if classify(found, committing=False) is Action.RETRY else found

    def position(self, partition: Partition) -> int:
        return self._next[partition]

    def partitions(self) -> Collection[Partition]:
        return self._next.keys()

    def doubtful(self) -> Collection[str]:
        """Return all topics now and then: librdkafka may never report a deleted topic."""
        now = time.monotonic()
        if now - self._doubted < _DOUBT_SECONDS:
            return ()
        self._doubted = now
        return {partition.topic for partition in self._next}

    def close(self) -> None:
        self._consumer.close()


class _Sending:
    """A producer with minimal work per record."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._producer = _made(LibrdkafkaProducer, settings)

    def abandon(self) -> None:
        """Drop the producer with its undelivered records; its threads end with the last reference."""
        if self._producer is not None:
            self._producer.purge()
        self._producer = None

    def _send(self, records: Iterable[NewRecord]) -> None:
        produce = self._producer.produce
        for topic, key, value, headers in records:
            try:
                if headers:
                    produce(topic, value, key, headers=list(headers))
                else:
                    produce(topic, value if value or key is None else None, key)  # or a tombstone
            except KafkaException as error:  # larger than any request
                raise of_record(as_kafka_python(error.args[0]), topic, len(value)) from error

    def _flush(self, seconds: float) -> None:
        """Wait until all records are delivered. Raises KafkaTimeoutError after `seconds`."""
        if self._producer.flush(seconds):
            raise self._late(seconds)

    def _late(self, seconds: float) -> errors.KafkaTimeoutError:
        return errors.KafkaTimeoutError(
            f"{len(self._producer)} records were not acknowledged within {seconds:g} s"
        )

    def _send_placed(self, records: Sequence[NewRecord]) -> tuple[_Places, list[errors.KafkaError]]:
        """Send records; return their places and their errors, both filled in by later deliveries."""
        places: _Places = [None] * len(records)
        failed: list[errors.KafkaError] = []

        def delivered(i: int, error: Any, message: Any) -> None:
            if error is None:
                places[i] = Partition(message.topic(), message.partition()), message.offset()
            else:
                failed.append(_of_message(error, message))

        for i, (topic, key, value, headers) in enumerate(records):
            about = {"headers": list(headers)} if headers else {}
            try:
                self._producer.produce(topic, value, key, on_delivery=partial(delivered, i), **about)
            except KafkaException as error:  # larger than any request
                raise of_record(as_kafka_python(error.args[0]), topic, len(value)) from error
        return places, failed


class _LibrdkafkaTransactionalProducer(_Sending):
    """A producer without delivery callbacks: a failed record makes the next transactional call fail."""

    def __init__(self, settings: Mapping[str, Any], timeout: float) -> None:
        super().__init__(settings)
        self._timeout = timeout

    def init_transactions(self) -> None:
        with raised_as_kafka_python():
            self._producer.init_transactions(max(_ANSWER_SECONDS, self._timeout))

    def begin_transaction(self) -> None:
        with raised_as_kafka_python():
            self._producer.begin_transaction()

    def announce(self, partition: Partition) -> None:
        """Ignore the call: librdkafka adds a partition with its first record."""

    def deliver(self, records: Sequence[NewRecord]) -> None:
        """Raise the transaction's own error: after it the client rejects records and may keep some."""
        with raised_as_kafka_python():
            try:
                self._send(records)
                self._flush_in_turns(self._timeout)
            except errors.KafkaError:
                self._raise_failed()
                raise

    def deliver_placed(self, records: Sequence[NewRecord]) -> list[tuple[Partition, int]]:
        with raised_as_kafka_python():
            try:
                places, failed = self._send_placed(records)
                self._flush_in_turns(self._timeout)
                return _all_delivered(places, failed)
            except errors.KafkaError:
                self._raise_failed()
                raise

    def _flush_in_turns(self, seconds: float) -> None:
        """Flush in short turns, so that a failed transaction is detected at once."""
        for _ in range(math.ceil(seconds / _TURN_SECONDS)):
            if not self._producer.flush(_TURN_SECONDS):
                return
            self._raise_failed()
        raise self._late(seconds)

    def _raise_failed(self) -> None:
        """Raise the error with which the transaction failed, if it has failed.

        Only a call that requires another state reports it: `begin_transaction` is refused in a healthy
        transaction.
        """
        try:
            self._producer.begin_transaction()
        except KafkaException as error:
            if error.args[0].txn_requires_abort() or error.args[0].fatal():
                raise

    def send_offsets_to_transaction(
        self, positions: Mapping[Partition, int], membership: Any, notes: Mapping[Partition, str] = NO_NOTES
    ) -> None:
        offsets = [
            TopicPartition(*partition, offset, notes.get(partition, ""))
            for partition, offset in positions.items()
        ]
        with raised_as_kafka_python():
            self._producer.send_offsets_to_transaction(offsets, membership_bytes(membership), self._timeout)

    def commit_transaction(self) -> None:
        with raised_as_kafka_python():
            self._producer.commit_transaction(self._timeout)


class _LibrdkafkaProducer(_Sending):
    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__({**settings, "on_delivery": self._note})
        self._failed: list[errors.KafkaError] = []
        self._topics: set[str] = set()

    def deliver(self, records: Sequence[NewRecord], patiently: Patiently) -> None:
        self._failed.clear()
        self._topics = {record.topic for record in records}
        with raised_as_kafka_python():
            self._send(records)
        patiently(self._delivered, "WRITE", "")

    def deliver_placed(
        self, records: Sequence[NewRecord], patiently: Patiently
    ) -> list[tuple[Partition, int]]:
        self._topics = {record.topic for record in records}
        with raised_as_kafka_python():
            places, self._failed = self._send_placed(records)
        patiently(self._delivered, "WRITE", "")
        return _all_delivered(places, self._failed)

    def _delivered(self) -> None:
        """Flush in short turns, between which signals are handled.

        Without write permission on any topic, librdkafka reports a cluster authorization error.
        """
        try:
            with raised_as_kafka_python():
                for _ in range(_DELIVERY_TURNS):
                    if not self._producer.flush(_TURN_SECONDS):
                        break
                if self._failed:
                    raise self._failed[0]
                self._flush(_TURN_SECONDS)
        except errors.ClusterAuthorizationFailedError as error:
            raise errors.TopicAuthorizationFailedError(self._topics) from error

    def _note(self, error: Any, message: Any) -> None:
        self._failed.append(_of_message(error, message))


def _of_message(error: Any, message: Any) -> errors.KafkaError:
    named = [{message.topic()}] if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED else []
    return of_record(as_kafka_python(error, *named), message.topic(), len(message))


def _all_delivered(places: _Places, failed: Sequence[errors.KafkaError]) -> list[tuple[Partition, int]]:
    """Return the places. Raises the first error of a delivery."""
    if failed:
        raise failed[0]
    found = [place for place in places if place is not None]
    if len(found) < len(places):
        raise errors.KafkaTimeoutError(f"{len(places) - len(found)} records were not delivered")
    return found


def membership_bytes(membership: Any) -> bytes:
    """Serialize a ConsumerGroupMetadata of kafka-python as librdkafka does.

    The layout is librdkafka's: ``CGMDv2:``, the generation as 32 bits in native byte order, the group and the
    member, each followed by a zero byte, and a byte 1 for a missing instance id.
    """
    generation = struct.pack("=i", membership.generation_id)
    return b"CGMDv2:%b%b\0%b\0\1" % (generation, membership.group_id.encode(), membership.member_id.encode())


def _check_membership_bytes(theirs: bytes, group: str) -> None:
    """Raise LogError if this librdkafka serializes memberships in an unknown form."""
    if theirs != membership_bytes(nobody_in(group)):
        raise LogError(
            "this confluent-kafka writes group memberships in a form that streamnb does not know; install an "
            'earlier one, or set log.client = "kafka-python"'
        )


def _made(kind: Any, settings: Mapping[str, Any]) -> Any:
    try:
        return kind(settings)
    except (KafkaException, TypeError, ValueError) as error:
        said = error.args[0].str() if isinstance(error, KafkaException) else error
        raise LogError(f"kafka.client: {said}") from error
