"""What the log on Kafka asks of a client library: the part of it through which every event goes.

Elections and questions about topics, offsets and groups are kafka-python's, whatever the library: they are
rare, and their rules are the same. Every call here blocks for a bounded time and raises errors of
kafka-python, `kafka.errors`, which is the vocabulary that `error_actions` and `error_texts` speak.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from streamnb.engine.ports import NewRecord, Partition, Record

Patiently = Callable[[Callable[[], Any], str, str], Any]
"""Asks until there is an answer: the question, which leave it needs, of which topic."""

WAIT_MS = 100
NO_NOTES: Mapping[Partition, str] = MappingProxyType({})


class Reader(Protocol):
    """A consumer in no group, that reads what is committed and resets nothing by itself."""

    def seek(self, positions: Mapping[Partition, int]) -> None:
        """Read exactly these partitions, each from its position; nothing that was fetched before counts."""

    def poll(self, limit: int, seconds: float) -> Sequence[Record]:
        """At most `limit` records, those of a partition in order; waits up to `seconds` for the first.

        Raises OffsetOutOfRangeError with ``{(topic, number): offset}`` for what is not held.
        """

    def position(self, partition: Partition) -> int:
        """The next offset to be read, behind all markers and aborted records that were passed."""

    def partitions(self) -> Collection[Partition]:
        """What is read."""

    def doubtful(self) -> Collection[str]:
        """Topics that are read and may have been deleted, so that the cluster has to be asked."""

    def close(self) -> None:
        """Close the connections."""


class TransactionalProducer(Protocol):
    """One producer under a transactional id. After an error it is good for nothing but `abandon`."""

    def init_transactions(self) -> None:
        """Fence every earlier producer of the id and settle its transaction."""

    def begin_transaction(self) -> None:
        """Begin."""

    def deliver(self, records: Sequence[NewRecord]) -> None:
        """Write records; on return every one is with the broker, or the commit will fail.

        Raises the error of one that is not, where that is known.
        """

    def send_offsets_to_transaction(
        self, positions: Mapping[Partition, int], membership: Any, notes: Mapping[Partition, str] = NO_NOTES
    ) -> None:
        """Note positions in the group, some with a text, if `membership` is not out of date.

        It is a ConsumerGroupMetadata.
        """

    def commit_transaction(self) -> None:
        """Commit; committed on return."""

    def abandon(self) -> None:
        """Let it go at once, whatever it has still to deliver; an open transaction stays open."""


class Producer(Protocol):
    """A producer without transactions, that delivers once and in order, however long it takes."""

    def deliver(self, records: Sequence[NewRecord], patiently: Patiently) -> None:
        """Write records; on return every one of them is with the broker."""

    def abandon(self) -> None:
        """Let it go at once, whatever it has still to deliver."""


class Library(Protocol):
    """Makes the clients of one log. All raise LogError where settings are not taken."""

    def reader(self, wait_ms: int = WAIT_MS) -> Reader:
        """A consumer in no group.

        A broker that has nothing new keeps a request for so long. Whoever seeks another place waits for it.
        """

    def transactional(self, transactional_id: str, timeout: float) -> TransactionalProducer:
        """A producer of transactions; the broker aborts one that stays open for `timeout` seconds."""

    def producer(self) -> Producer:
        """A producer without transactions."""
