"""Read committed records: of one partition by `read`, and of several in turn by `poll`."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from kafka import IsolationLevel, TopicPartition

from streamnb.engine.ports import Partition, Record
from streamnb.errors import LogError, OutOfRange
from streamnb.event_logs.kafka.client_interface import Library, Reader
from streamnb.event_logs.kafka.error_messages import translated
from streamnb.event_logs.kafka.kafka_cluster import TURN_SECONDS, KafkaCluster
from streamnb.event_logs.kafka.open_transactions import GRACE_SECONDS, OpenedBy, open_transactions, waits

_POLL_SECONDS = 0.05
_SEEK_MS = 10


class KafkaRecords:
    """Readers of committed records.

    Invariant: no record of an open or aborted transaction is returned, and no committed record is skipped.
    The reader of `poll` and the seeker of `read` are separate clients, so that neither moves the other.

    Args:
        cluster: knows partitions and their ends.
        library: makes both clients.
        transaction_timeout: seconds after which the broker aborts a transaction; one that stays open for
            longer hangs.
    """

    def __init__(self, cluster: KafkaCluster, library: Library, transaction_timeout: float) -> None:
        self._cluster = cluster
        self._transaction_timeout = transaction_timeout
        self._extents: dict[Partition, tuple[int, int]] = {}  # as of the last request: ends only grow
        self._seeking: tuple[Partition, int] | None = None  # position of the seeker
        self._reader: Reader = cluster.open(library.reader)
        self._seeker: Reader = cluster.open(lambda: library.reader(_SEEK_MS))

    def read(self, partition: Partition, offset: int, limit: int) -> Sequence[Record]:
        """Return at most `limit` committed records from `offset` on; none if the end is reached.

        Raises LogError if an open transaction blocks the end for longer than its timeout.
        """
        first, end = self._extents.get(partition, (0, 0))
        with self._naming_what_is_held():
            if first <= offset < end and (found := self._fetched(partition, offset, end, limit)):
                return found
            # Up to the cached end there may be only aborted records: use the current end.
            first, end = self._current_extent(partition)
            if not first <= offset <= end:
                raise _not_held(partition, first, end, offset)
            return self._fetched(partition, offset, end, limit)

    def _current_extent(self, partition: Partition) -> tuple[int, int]:
        self._extents[partition] = self._cluster.offset_ranges([partition])[partition]
        return self._extents[partition]

    def _fetched(self, *request: Any) -> Sequence[Record]:
        return self._cluster.with_retries(partial(self._fetch, *request), "READ")

    def _fetch(self, partition: Partition, offset: int, end: int, limit: int) -> Sequence[Record]:
        """Return the first records before `end`; wait for open transactions before them."""
        deadline, before = math.inf, -1
        if self._seeking != (partition, offset):  # otherwise prefetched records are still usable
            self._seeker.seek({partition: offset})
        self._seeking = None
        while (position := self._seeker.position(partition)) < end:
            if position > before:  # skipped aborted records, possibly many
                deadline = time.monotonic() + self._transaction_timeout + GRACE_SECONDS
                before = position
            if found := self._seeker.poll(limit, _POLL_SECONDS):
                self._seeking = partition, found[-1].offset + 1
                return found
            self._cluster.wait()
            if time.monotonic() > deadline:
                self._cluster.admin.describe_cluster()  # raises if the cluster does not answer
                raise LogError(self._hanging(TopicPartition(*partition), end))
        return []

    def _hanging(self, place: TopicPartition, end: int) -> str:
        """Describe the transaction that blocks the readers of a partition."""
        found: Mapping[TopicPartition, OpenedBy] = {}
        with contextlib.suppress(LogError), translated():
            found = open_transactions(self._cluster.admin, [place])
        position = self._seeker.position(Partition(*place))
        return f"{waits(place, position, end, found.get(place), self._cluster.clients.line)}; it hangs"

    def seek(self, positions: Mapping[Partition, int]) -> None:
        """Let `poll` read exactly these partitions from their positions."""
        self._cluster.check_known(positions)
        with translated():
            self._reader.seek(positions)
            self._seeker.seek({})  # stop its prefetching
        self._seeking = None

    def poll(self, limit: int, timeout: float) -> Sequence[Record]:
        """Return at most `limit` committed records; wait up to `timeout` seconds for the first."""
        ask, deadline = self._cluster.with_retries, time.monotonic() + timeout
        while True:
            self._cluster.heartbeat()
            left = min(TURN_SECONDS, max(0.0, deadline - time.monotonic()))
            with self._naming_what_is_held():
                found = ask(partial(self._reader.poll, limit, left), "READ")
            if not found:  # the client searches for ever for a deleted topic
                for topic in sorted(ask(self._reader.doubtful)):
                    self._cluster.partitions(topic)
            if found or time.monotonic() >= deadline:
                return found

    @contextlib.contextmanager
    def _naming_what_is_held(self) -> Iterator[None]:
        """Add the offsets that the log holds to `OutOfRange`."""
        try:
            yield
        except OutOfRange as error:
            asked = getattr(error.__cause__, "args", ())
            for place, offset in asked[0].items() if asked and isinstance(asked[0], dict) else ():
                partition = Partition(*place)
                raise _not_held(partition, *self._current_extent(partition), offset) from error
            raise

    def lag(self) -> Mapping[Partition, int]:
        """Return the offsets between the records that `poll` has returned and each partition's end."""
        partitions = sorted(self._reader.partitions())
        ends = self._cluster.bounds([TopicPartition(*it) for it in partitions]) if partitions else {}
        with translated():
            read = {partition: self._reader.position(partition) for partition in partitions}
        return {partition: max(0, ends[partition] - read[partition]) for partition in partitions}

    def held_up(self, partitions: Collection[Partition]) -> Sequence[str]:
        """Return a line for each partition whose reader waits for an open transaction."""
        places = [TopicPartition(*partition) for partition in sorted(partitions)]
        stable = self._cluster.bounds(places, isolation=IsolationLevel.READ_COMMITTED)
        ends, cluster = self._cluster.bounds(places), self._cluster
        held = [
            place
            for place in places
            if stable[place] < ends[place] and self._reader.position(Partition(*place)) >= stable[place]
        ]
        found = cluster.with_retries(lambda: open_transactions(cluster.admin, held), "READ") if held else {}
        return [
            waits(place, stable[place], ends[place], found.get(place), cluster.clients.line) for place in held
        ]


def _not_held(partition: Partition, first: int, end: int, offset: int) -> OutOfRange:
    return OutOfRange(f"{partition} holds offsets {first} to {end}, not {offset}")
