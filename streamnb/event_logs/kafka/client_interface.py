"""Port of the Kafka client library: the part through which every event passes.

kafka-python handles elections and requests about topics, offsets and groups, whatever the library: these are
rare and follow the same rules. Every call here blocks for a bounded time and raises errors of kafka-python
(`kafka.errors`), which `error_actions` and `error_messages` interpret.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from streamnb.engine.ports import NewRecord, Partition, Record

Patiently = Callable[[Callable[[], Any], str, str], Any]
"""Retries a request until it succeeds. Arguments: request, required permission, topic."""

WAIT_MS = 100
NO_NOTES: Mapping[Partition, str] = MappingProxyType({})


class Reader(Protocol):
    """A consumer without a group that reads committed records and never resets offsets by itself."""

    def seek(self, positions: Mapping[Partition, int]) -> None:
        """Read exactly these partitions from their positions, and drop earlier fetches."""

    def poll(self, limit: int, seconds: float) -> Sequence[Record]:
        """Return at most `limit` records, in order within a partition; wait up to `seconds` for the first.

        Raises OffsetOutOfRangeError with ``{(topic, number): offset}`` for offsets outside the log.
        """

    def position(self, partition: Partition) -> int:
        """Return the next offset to read, after all markers and aborted records already skipped."""

    def partitions(self) -> Collection[Partition]:
        """Return the partitions that are read."""

    def doubtful(self) -> Collection[str]:
        """Return the read topics that may have been deleted, which the caller must check with the cluster."""

    def close(self) -> None:
        """Close the connections."""


class TransactionalProducer(Protocol):
    """A producer with a transactional id. After an error, only `abandon` may be called."""

    def init_transactions(self) -> None:
        """Fence earlier producers of the id and end their transactions."""

    def begin_transaction(self) -> None:
        """Begin a transaction."""

    def announce(self, partition: Partition) -> None:
        """Add a partition to the transaction in the request that adds the next record's.

        Only saves a request; a client that cannot do so ignores the call.
        """

    def deliver(self, records: Sequence[NewRecord]) -> None:
        """Write records; on return each record is delivered, or the commit will fail.

        Raises the error of a failed delivery if it is known.
        """

    def deliver_placed(self, records: Sequence[NewRecord]) -> list[tuple[Partition, int]]:
        """Write records as `deliver` does; return the partition and offset of each."""

    def send_offsets_to_transaction(
        self, positions: Mapping[Partition, int], membership: Any, notes: Mapping[Partition, str] = NO_NOTES
    ) -> None:
        """Commit positions to the group, optionally with metadata, if `membership` is current.

        `membership` is a ConsumerGroupMetadata.
        """

    def commit_transaction(self) -> None:
        """Commit the transaction; it is committed on return."""

    def abandon(self) -> None:
        """Drop the producer at once with its undelivered records; an open transaction stays open."""


class Producer(Protocol):
    """An idempotent producer without transactions, which retries until a record is delivered."""

    def deliver(self, records: Sequence[NewRecord], patiently: Patiently) -> None:
        """Write records; on return each record is delivered."""

    def deliver_placed(
        self, records: Sequence[NewRecord], patiently: Patiently
    ) -> list[tuple[Partition, int]]:
        """Write records as `deliver` does; return the partition and offset of each."""

    def abandon(self) -> None:
        """Drop the producer at once with its undelivered records."""


class Library(Protocol):
    """Factory of the clients of one log. Its methods raise LogError if a setting is invalid."""

    def reader(self, wait_ms: int = WAIT_MS) -> Reader:
        """Return a consumer without a group.

        `wait_ms` is the time that a broker holds a fetch without new records; a seek waits for that fetch.
        """

    def transactional(
        self, transactional_id: str, timeout: float, *, is_placed: bool = False
    ) -> TransactionalProducer:
        """Return a transactional producer, whose transactions the broker aborts after `timeout` seconds.

        Only a producer with `is_placed` has `deliver_placed`.
        """

    def producer(self, *, is_placed: bool = False) -> Producer:
        """Return a producer without transactions; `is_placed` as above."""
