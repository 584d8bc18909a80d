"""Apache Kafka behind the log's port.

One learner holds several clients. A *member* of the consumer group, subscribed to the journal's one partition
and never reading it, takes part in the election. A *producer* with the model's transactional id fences its
predecessor. A *reader* without a group polls the events; a *seeker* reads single records; an
*admin* describes topics and their offsets. Member and admin use kafka-python; the remaining clients use a
`Library`, one of two.

Safety rests on the transactional id alone: `init_transactions` of a successor makes every later commit of its
predecessor fail. The election only decides which learner may try. Brokers 2.7 or later.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from kafka import TopicPartition, errors

from streamnb.engine.ports import (
    HANDED_ON,
    CommitInFlight,
    Forwarded,
    Log,
    NewRecord,
    OutageListener,
    Owner,
    Partition,
    Record,
    TopicLoss,
    Transaction,
    WriteOutcome,
    WriteRequest,
    check_since,
)
from streamnb.engine.topic_plan import losses
from streamnb.errors import Fenced, LogError
from streamnb.event_logs.kafka.client_interface import Library, Producer
from streamnb.event_logs.kafka.consumer_group import nobody_in
from streamnb.event_logs.kafka.kafka_clients import Clients
from streamnb.event_logs.kafka.kafka_cluster import KafkaCluster
from streamnb.event_logs.kafka.kafka_commits import KafkaCommits
from streamnb.event_logs.kafka.kafka_python_client import KafkaPython
from streamnb.event_logs.kafka.kafka_records import KafkaRecords
from streamnb.event_logs.kafka.kafka_requests import KafkaRequests
from streamnb.event_logs.kafka.kafka_transactions import Transactions
from streamnb.event_logs.kafka.partition_sharing import GroupShare
from streamnb.event_logs.kafka.tool_command import ToolCommand
from streamnb.event_logs.request_index import by_request


class KafkaLog(Log):
    """A log on a Kafka cluster.

    `KafkaCluster`, `KafkaRecords` and `KafkaCommits` hold the guarantees. Invariant: they share one
    administration client, one retry policy and one heartbeat, which any waiting call sends.

    Args:
        client: settings of kafka-python that all clients share: bootstrap_servers, security_protocol,
            sasl_mechanism, ssl_cafile and so on.
        model: name of the model: group and transactional id are ``streamnb.<model>``.
        journal_topic: the journal's topic.
        requests_topic: topic that keeps the keys of `append_requests`; empty for none.
        session_timeout: seconds without a heartbeat after which a learner may be replaced, at least the
            broker's group.min.session.timeout.ms.
        transaction_timeout: seconds after which the broker aborts a transaction that was left open.
        elected_within: seconds to wait for the election in one `acquire`.
        patience: retry policy while the cluster cannot be reached.
        library: makes the clients that read and write.

    Raises:
        LogError: the cluster cannot be reached or refuses access, or the library is missing.
    """

    def __init__(
        self,
        client: Mapping[str, Any],
        *,
        model: str = "default",
        journal_topic: str = "journal",
        requests_topic: str = "",
        session_timeout: float = 10.0,
        transaction_timeout: float = 15.0,
        elected_within: float = 30.0,
        patience: OutageListener | None = None,
        library: Callable[[Clients, str], Library] = KafkaPython,
    ) -> None:
        clients = Clients(client)
        self._name = f"streamnb.{model}"
        self._library = library(clients, self._name)
        self._journal = Partition(journal_topic, 0)
        self._timeouts = session_timeout, transaction_timeout
        self._plain: Producer | None = None
        self._cluster = KafkaCluster(clients, patience or OutageListener())
        try:
            self._records = KafkaRecords(self._cluster, self._library, transaction_timeout)
        except BaseException:
            self._cluster.close()
            raise
        parts = self._cluster, self._records, self._library
        self._commits = KafkaCommits(*parts, self._name, self._journal, *self._timeouts, elected_within)
        self._cluster.heartbeat = self._commits.heartbeat
        of_requests = self._name, requests_topic, transaction_timeout
        self._requests = KafkaRequests(*parts, *of_requests)
        self._placing: Producer | None = None

    # -- for the learner --------------------------------------------------------------------------------

    def acquire(self, owner: str) -> None:
        """Become the learner; see `KafkaCommits.acquire`."""
        self._commits.acquire(owner)

    def heartbeat(self) -> None:
        """Poll the group a few times per session. Raises `Fenced` if this learner is no longer elected."""
        self._commits.heartbeat()

    def owner(self) -> Owner | None:
        """Return the learner that the group has elected; None during an election or without permission."""
        return self._cluster.owner(self._name, self._journal)

    def begin_commit(self, transaction: Transaction) -> CommitInFlight:
        """Begin to commit in another thread, which owns the producer until the commit is settled."""
        return self._commits.begin(transaction)

    # -- for all clients ----------------------------------------------------------------------------------

    def partitions(self, topic: str) -> Sequence[Partition]:
        """Return the topic's partitions in order, including new ones."""
        return self._cluster.partitions(topic)

    def topic_id(self, topic: str) -> str:
        """Return the topic's UUID."""
        return str(self._cluster.described(topic)["topic_id"])

    def topic_ids(self, topics: Sequence[str]) -> Mapping[str, str]:
        """Return the UUIDs of the topics that exist."""
        return self._cluster.topic_ids(topics)

    def sizes(self, topics: Iterable[str]) -> Mapping[str, int]:
        """Return the bytes available in a batch; see `KafkaCluster.sizes`."""
        topics = list(topics)
        self._commits.topics.update(topics)
        return self._cluster.sizes(topics)

    def losses(self, topics: Mapping[str, str]) -> Sequence[TopicLoss]:
        """Return the settings by which topics lose records, with the command that changes each."""
        line = self.line
        return [
            loss._replace(change=line.configure(topic, loss.difference.what, loss.difference.planned))
            for topic, settings in self._cluster.settings(topics).items()
            for loss in losses(topics[topic], topic, settings)
        ]

    def retention(self, topics: Iterable[str]) -> Mapping[str, float]:
        """Return `retention.ms` of each topic that has one and shows it, in seconds."""
        found = {
            topic: settings.get("retention.ms", "-1")
            for topic, settings in self._cluster.settings(topics).items()
        }
        return {topic: int(text) / 1000 for topic, text in found.items() if text.isdigit()}

    def missing(self, partition: Partition, first: int, end: int, most_bytes: int) -> tuple[int, int]:
        """Return how many offsets are missing; see `missing_offsets`."""
        return self._cluster.missing(partition, first, end, most_bytes)

    def offsets(self, partition: Partition) -> tuple[int, int]:
        """Return the earliest offset and the high watermark, which includes open transactions."""
        return self._cluster.offset_ranges([partition])[partition]

    def offset_ranges(self, topic: str) -> Mapping[Partition, tuple[int, int]]:
        """Return the offsets of all partitions of a topic, as `offsets` does."""
        return self._cluster.offset_ranges(self.partitions(topic))

    def read(self, partition: Partition, offset: int, limit: int) -> Sequence[Record]:
        """Return at most `limit` committed records from `offset` on; see `KafkaRecords.read`."""
        return self._records.read(partition, offset, limit)

    def seek(self, positions: Mapping[Partition, int]) -> None:
        """Let `poll` read exactly these partitions from their positions."""
        self._records.seek(positions)

    def poll(self, limit: int, timeout: float) -> Sequence[Record]:
        """Return at most `limit` committed records; wait up to `timeout` seconds for the first."""
        return self._records.poll(limit, timeout)

    def lag(self) -> Mapping[Partition, int]:
        """Return the offsets between the records that `poll` has returned and each partition's end."""
        return self._records.lag()

    def held_up(self, partitions: Collection[Partition]) -> Sequence[str]:
        """Return a line for each partition whose reader waits for an open transaction."""
        return self._records.held_up(partitions)

    def append(self, records: Sequence[NewRecord]) -> None:
        """Write records for producers; durable on return. After an error some may have been written."""
        self._cluster.check_known((), {record.topic for record in records})
        if self._plain is None:
            self._plain = self._cluster.with_retries(self._library.producer)
            self._cluster.on_close(self._plain.abandon)  # records of finished `append` calls are delivered
        self._plain.deliver(records, self._cluster.with_retries)

    def append_requests(self, requests: Sequence[WriteRequest]) -> Sequence[WriteOutcome]:
        """Write requests: those with keys as `KafkaRequests` does, others as `append` does."""
        if any(request.key for request in requests):
            return self._requests.append(requests)
        records = [record for request in requests for record in request.records]
        self._cluster.check_known((), {record.topic for record in records})
        if self._placing is None:
            self._placing = self._cluster.with_retries(lambda: self._library.producer(is_placed=True))
            self._cluster.on_close(self._placing.abandon)
        places = by_request(requests, self._placing.deliver_placed(records, self._cluster.with_retries))
        return [WriteOutcome(own, one.note) for one, own in zip(requests, places, strict=True)]

    def forwarded(self, topic: str, by: str = HANDED_ON) -> Mapping[Partition, Forwarded]:
        """Return how far `forward` has forwarded a topic, from the offsets of a group without members."""
        partitions, group = self.partitions(topic), f"{self._name}.{by}"
        with contextlib.closing(self._cluster.clients.noted(group)) as member:

            def ask() -> Mapping[Partition, Any]:
                return {
                    place: member.committed(TopicPartition(*place), metadata=True) for place in partitions
                }

            found = self._cluster.with_retries(ask, "READ", group)
        return {
            place: Forwarded(at.offset, (at.metadata or "").rstrip("\0"))  # librdkafka ends it with a NUL
            for place, at in found.items()
            if at is not None
        }

    def forward(
        self,
        records: Sequence[NewRecord],
        since: Mapping[Partition, Forwarded],
        until: Mapping[Partition, Forwarded],
        by: str = HANDED_ON,
    ) -> None:
        """Append records and commit positions in one transaction; see `Log.forward`.

        First fence any concurrent call and end its open transaction: the positions noted then remain valid
        until this transaction commits. Raises `Unavailable` if the outcome is unknown; a restarted caller
        reads it from the positions.
        """
        self._cluster.check_known(until, {record.topic for record in records})
        group = f"{self._name}.{by}"
        transactions = Transactions(self._library, group, self._timeouts[1])
        try:
            self._cluster.with_retries(lambda: transactions.begin_anew(self._cluster.wait))
            check_since(self, since, until, by)
            nobody = nobody_in(group)
            positions = {place: at.offset for place, at in until.items()}
            notes = {place: at.note for place, at in until.items()}
            transactions.send(records, positions, nobody, "handing on", notes).await_outcome(
                self._cluster.wait
            )
        except LogError as error:
            if isinstance(error.__cause__, errors.ProducerFencedError | errors.InvalidProducerEpochError):
                # The error's text is for learners; after a restart the positions show whether this one
                # committed.
                raise Fenced("another process also forwards these records: start again") from error
            raise
        finally:
            transactions.close()

    @property
    def line(self) -> ToolCommand:
        """Builder of command lines for Kafka's own tools."""
        return self._cluster.clients.line

    def share(self, group: str, topics: Sequence[str], owner: str) -> GroupShare:
        """Join a group whose members share the partitions of topics.

        Only `GroupShare` may call `seek` then.
        """
        cluster = self._cluster
        clients = cluster.clients, self._library
        retries = cluster.patience, cluster.with_retries
        return GroupShare(self, *clients, group, topics, owner, self._timeouts, *retries)

    def close(self) -> None:
        """Leave the group and close every client."""
        self._requests.close()
        self._commits.close()
        self._cluster.close()
