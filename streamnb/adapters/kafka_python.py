"""Apache Kafka behind the log's port, through kafka-python.

One learner holds several clients. A *member* of the consumer group, subscribed to the journal's one
partition and never reading it, is how a learner is elected. A *producer* with the model's one transactional
id is how its predecessor is fenced. A *reader* without a group polls the events; a *seeker* looks single
records up.

Safety rests on the transactional id alone: `init_transactions` of a successor makes every later commit of its
predecessor fail. The election only decides who tries. Brokers 2.7 or later.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from kafka import (
    ConsumerGroupMetadata,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    TopicPartition,
    errors,
)
from kafka.structs import OffsetAndMetadata

from streamnb.engine.ports import NewRecord, Partition, Record, Transaction
from streamnb.errors import Fenced, LogError, NotElected, OutOfRange, UnknownTopic

__all__ = ["KafkaLog"]

_FENCED = (
    errors.ProducerFencedError,
    errors.InvalidProducerEpochError,
    errors.FencedInstanceIdError,
    errors.IllegalGenerationError,
    errors.UnknownMemberIdError,
)
_POLL_MS = 50
_LARGEST_REQUEST = 64 << 20  # the topic's max.message.bytes decides, not the client
_GRACE = 15.0  # seconds beyond the transaction timeout after which an open transaction is a hanging one


class KafkaLog:
    """A log on a Kafka cluster.

    Args:
        client: settings of kafka-python that all four clients share: bootstrap_servers, security_protocol,
            sasl_mechanism, ssl_cafile and so on.
        model: name of the model: group and transactional id are ``streamnb.<model>``.
        journal_topic: the journal's topic.
        session_timeout: seconds without a heartbeat after which a learner may be replaced, at least the
            broker's group.min.session.timeout.ms.
        transaction_timeout: seconds after which the broker aborts a transaction that was left open.
        elected_within: seconds to wait for the election in `acquire`.

    Raises:
        LogError: the cluster cannot be reached.
    """

    def __init__(
        self,
        client: Mapping[str, Any],
        *,
        model: str = "default",
        journal_topic: str = "journal",
        session_timeout: float = 10.0,
        transaction_timeout: float = 15.0,
        elected_within: float = 30.0,
    ) -> None:
        self._client = dict(client)
        self._name = f"streamnb.{model}"
        self._journal = TopicPartition(journal_topic, 0)
        self._session_timeout = session_timeout
        self._transaction_timeout = transaction_timeout
        self._elected_within = elected_within
        self._member: KafkaConsumer | None = None
        self._membership: ConsumerGroupMetadata | None = None
        self._transactional: KafkaProducer | None = None
        self._plain: KafkaProducer | None = None
        self._ids: dict[str, str] = {}
        self._opened = contextlib.ExitStack()
        self._beaten = 0.0
        with self._errors():
            self._reader = self._consumer("read_committed")
            self._seeker = self._consumer("read_committed")
            self._watermarks = self._consumer("read_uncommitted")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the learner's side -------------------------------------------------------------------------------

    def acquire(self, owner: str) -> None:
        """Become the one learner.

        1. Join the group and wait to be given the journal's partition: elected.
        2. `init_transactions`: fence the predecessor, settle its open transaction.
        3. Still elected? The membership of this moment goes with every commit.
        """
        with self._errors():
            self._member = KafkaConsumer(
                **self._client,
                group_id=self._name,
                client_id=owner,
                enable_auto_commit=False,
                auto_offset_reset="latest",
                session_timeout_ms=int(self._session_timeout * 1000),
                heartbeat_interval_ms=max(100, int(self._session_timeout * 1000 / 5)),
                max_poll_interval_ms=30_000,
                # A group leader that does not know the topic yet assigns nothing: let it look again soon.
                metadata_max_age_ms=1_000,
            )
            self._opened.callback(self._member.close)
            self._member.subscribe([self._journal.topic])
            deadline = time.monotonic() + self._elected_within
            while self._journal not in self._member.assignment():
                if time.monotonic() > deadline:
                    raise NotElected(f"another learner of {self._name} is alive; this one was not elected")
                self._member.poll(timeout_ms=_POLL_MS)
            self._member.pause(self._journal)
            self._membership = self._member.group_metadata()
            self._new_producer()
        self._beat()

    def heartbeat(self) -> None:
        """Poll the group, a few times a session. Raises `Fenced` where this learner is elected no longer."""
        if time.monotonic() - self._beaten >= min(1.0, self._session_timeout / 5):
            self._beat()

    def _beat(self) -> None:
        if self._member is None:
            return
        with self._errors():
            self._member.poll(timeout_ms=0)
            self._beaten = time.monotonic()
            now = self._member.group_metadata()
        then = self._membership
        elected = self._journal in self._member.assignment()
        if then is None or not elected or now.member_id != then.member_id or not now.member_id:
            raise Fenced(f"this learner of {self._name} lost the election")

    def commit(self, transaction: Transaction) -> None:
        """Write outputs, journal record and positions in one transaction.

        1. Begin. 2. Send everything, flush, and look at every delivery: a batch that expired inside a
        transaction does not fail the commit by itself. 3. Send the positions, for lag tools. 4. Commit.

        Where the outcome is unknown, the transaction is settled by a new producer and the journal's end
        tells: either it was committed, or the same bytes are sent again.
        """
        self.heartbeat()
        for _ in range(3):
            if self._attempt(transaction):
                return
            self._beat()  # still elected, or Fenced
            with self._errors():
                self._new_producer()
            if self._is_committed(transaction):
                return
        raise LogError(f"commit {transaction.n} failed three times")

    def _attempt(self, transaction: Transaction) -> bool:
        """Whether the commit was confirmed; False where its outcome is unknown. Raises `Fenced`."""
        try:
            with self._errors():
                self._send(transaction)
        except Fenced:
            raise
        except LogError:
            return False
        return True

    def _send(self, transaction: Transaction) -> None:
        producer = self._transactional
        if producer is None:
            raise LogError("acquire comes before commit")
        producer.begin_transaction()
        sent = [_send(producer, record) for record in (*transaction.outputs, transaction.journal)]
        producer.flush()
        for delivery in sent:
            delivery.get(timeout=self._transaction_timeout)
        offsets = {
            TopicPartition(*partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in transaction.positions.items()
        }
        producer.send_offsets_to_transaction(offsets, self._membership)
        producer.commit_transaction()

    def _is_committed(self, transaction: Transaction) -> bool:
        """Whether the journal's last record is this commit's. Raises `Fenced` where it is another's."""
        partition = Partition(*self._journal)
        first, end = self.offsets(partition)
        last = None
        for start in range(
            end, first - 1, -100
        ):  # markers take offsets too: look back until a record is found
            found = self.read(partition, max(first, start - 100), 1000)
            if found:
                last = found[-1]
                break
        if last is not None and last.value == transaction.journal.value:
            return True
        expected = transaction.n == 0 if last is None else f'"n":{transaction.n - 1},'.encode() in last.value
        if not expected:
            raise Fenced(f"the journal of {self._name} does not end before commit {transaction.n}")
        return False

    def _new_producer(self) -> None:
        """A producer that has fenced all before it."""
        old, self._transactional = self._transactional, None
        if old is not None:
            old.close(timeout=0)
        producer = KafkaProducer(
            **self._client,
            transactional_id=self._name,
            acks="all",
            enable_idempotence=True,
            retry_backoff_ms=10,
            linger_ms=5,
            max_request_size=_LARGEST_REQUEST,
            transaction_timeout_ms=int(self._transaction_timeout * 1000),
            delivery_timeout_ms=int(self._transaction_timeout * 1000),
            request_timeout_ms=int(self._transaction_timeout * 500),
            max_block_ms=60_000,
        )
        producer.init_transactions()
        self._transactional = producer

    # -- everybody's side ---------------------------------------------------------------------------------

    def partitions(self, topic: str) -> Sequence[Partition]:
        """The topic's partitions in order."""
        with self._errors():
            numbers = self._seeker.partitions_for_topic(topic)
        if not numbers:
            raise UnknownTopic(f"there is no topic {topic!r}")
        return [Partition(topic, number) for number in sorted(numbers)]

    def topic_id(self, topic: str) -> str:
        """The topic's UUID."""
        with self._errors(), contextlib.closing(KafkaAdminClient(**self._client)) as admin:
            (found,) = admin.describe_topics([topic])
        if found["error_code"]:
            raise UnknownTopic(f"there is no topic {topic!r}")
        return str(found["topic_id"])

    def offsets(self, partition: Partition) -> tuple[int, int]:
        """The earliest offset kept, and the high watermark, transactions still open included."""
        place = TopicPartition(*partition)
        with self._errors():
            first = self._watermarks.beginning_offsets([place])[place]
            return first, self._watermarks.end_offsets([place])[place]

    def read(self, partition: Partition, offset: int, limit: int) -> Sequence[Record]:
        """At most `limit` committed records from `offset` on; empty where there is none up to the end.

        Raises LogError where an open transaction holds the end back beyond its timeout.
        """
        first, end = self.offsets(partition)
        if not first <= offset <= end:
            raise OutOfRange(
                f"{partition.topic}/{partition.number} holds offsets {first} to {end}, not {offset}"
            )
        place = TopicPartition(*partition)
        deadline = time.monotonic() + self._transaction_timeout + _GRACE
        with self._errors():
            self._seeker.assign([place])
            self._seeker.seek(place, offset)
            while self._seeker.position(place) < end:
                for records in self._seeker.poll(timeout_ms=_POLL_MS, max_records=limit).values():
                    return [_record(record) for record in records]
                if time.monotonic() > deadline:
                    raise LogError(
                        f"{partition.topic}/{partition.number} does not get beyond offset "
                        f"{self._seeker.position(place)} of {end}: a transaction hangs; "
                        "find it with kafka-transactions.sh find-hanging"
                    )
        return []

    def seek(self, positions: Mapping[Partition, int]) -> None:
        """Let `poll` read exactly these partitions, each from its position on."""
        with self._errors():
            self._reader.assign([TopicPartition(*partition) for partition in positions])
            for partition, offset in positions.items():
                self._reader.seek(TopicPartition(*partition), offset)

    def poll(self, limit: int, timeout: float) -> Sequence[Record]:
        """At most `limit` committed records; waits up to `timeout` seconds for the first."""
        deadline = time.monotonic() + timeout
        while True:
            self.heartbeat()
            left = min(0.5, max(0.0, deadline - time.monotonic()))
            with self._errors():
                found = self._reader.poll(timeout_ms=int(left * 1000), max_records=limit)
            if found or time.monotonic() >= deadline:
                return [_record(record) for records in found.values() for record in records]

    def at_end(self) -> bool:
        """Whether `poll` has returned everything that its partitions hold."""
        with self._errors():
            places = list(self._reader.assignment())
            ends = self._watermarks.end_offsets(places) if places else {}
            return all(self._reader.position(place) >= ends[place] for place in places)

    def append(self, records: Sequence[NewRecord]) -> None:
        """Write records, for producers; durable on return. Some may be written where this fails."""
        with self._errors():
            if self._plain is None:
                self._plain = KafkaProducer(
                    **self._client,
                    acks="all",
                    linger_ms=5,
                    retry_backoff_ms=20,
                    max_request_size=_LARGEST_REQUEST,
                )
                self._opened.callback(self._plain.close)
            for topic in {record.topic for record in records}:
                self.partitions(topic)
            sent = [_send(self._plain, record) for record in records]
            self._plain.flush()
            for delivery in sent:
                delivery.get(timeout=self._transaction_timeout)

    def close(self) -> None:
        """Leave the group and close every client."""
        with contextlib.suppress(errors.KafkaError):
            if self._transactional is not None:
                self._transactional.close(timeout=1)
                self._transactional = None
            self._opened.close()
        self._member = None

    def _consumer(self, isolation: str) -> KafkaConsumer:
        consumer = KafkaConsumer(
            **self._client,
            group_id=None,
            isolation_level=isolation,
            enable_auto_commit=False,
            auto_offset_reset="none",
            max_partition_fetch_bytes=4 << 20,
            fetch_max_wait_ms=100,
        )
        self._opened.callback(consumer.close)
        return consumer

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Errors of the client as errors of the log."""
        try:
            yield
        except errors.OffsetOutOfRangeError as error:
            raise OutOfRange(f"records asked for are gone, or not there yet: {error}") from error
        except errors.UnknownTopicOrPartitionError as error:
            raise UnknownTopic(str(error)) from error
        except _FENCED as error:
            raise Fenced(f"another learner of {self._name} has taken over: {error!r}") from error
        except errors.KafkaError as error:
            raise LogError(f"Kafka: {error!r}") from error


def _send(producer: KafkaProducer, record: NewRecord) -> Any:
    return producer.send(record.topic, value=record.value, key=record.key, headers=list(record.headers))


def _record(found: Any) -> Record:
    """A consumed record. A value that is null (a tombstone) is read as empty."""
    headers = tuple((name, b"" if value is None else value) for name, value in found.headers)
    return Record(
        Partition(found.topic, found.partition),
        found.offset,
        found.key,
        b"" if found.value is None else found.value,
        found.timestamp / 1000.0,
        headers,
    )
