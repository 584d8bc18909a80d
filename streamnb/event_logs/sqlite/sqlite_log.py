"""The embedded log: the engine's port in one SQLite file, with the guarantees of a broker.

A commit is one SQLite transaction, so it is visible as a whole or not at all, and it is on the disk when
`commit` returns (write-ahead log, ``synchronous=FULL``). The file must be on a local disk. Any number of
processes may read and append; one learner at a time commits, fenced by the epoch in the table `leader`.

Limit: a process that is stopped *inside* a write blocks every other writer until it continues or is killed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

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
    Transaction,
    WriteOutcome,
    WriteRequest,
    check_since,
)
from streamnb.engine.topic_plan import FoundTopic, FoundTopics, TopicSpec
from streamnb.errors import LogError, NotElected, UnknownTopic
from streamnb.event_logs.sqlite.sqlite_commits import SqliteCommits, SqliteLeader
from streamnb.event_logs.sqlite.sqlite_requests import SqliteRequests
from streamnb.event_logs.sqlite.sqlite_store import FETCH_BYTES, OffsetRange, SqliteStore


class _Turn(NamedTuple):
    """The position of `poll` in one partition."""

    partition_id: int
    position: int


class SqliteLog(Log):
    """A `streamnb.engine.ports.Log` in one SQLite file, which is created if missing.

    An owner is identified by its name: `acquire` under the name of the current owner counts as its restart
    and does not wait (the earlier holder is fenced all the same). Names must therefore differ between
    processes that may be alive together. Only commits write to the journal's topic, one record each. A
    commit's `n` is therefore the offset of its journal record, unless another program writes to the file.

    Args:
        path: the file; SQLite keeps two more next to it while the log is open.
        journal_topic: the topic of one partition that only `commit` writes.
        session_timeout: seconds without a heartbeat after which an owner may be deposed.
        poll_interval: seconds between two looks for new records while `poll` waits.
        clock: seconds since the epoch, for timestamps and heartbeats; all processes must agree on it.
        patience: retry policy while another process keeps the file locked.

    Raises:
        LogError: the file is not a log, is of an unknown version, or cannot be opened.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        journal_topic: str = "journal",
        session_timeout: float = 10.0,
        poll_interval: float = 0.01,
        clock: Callable[[], float] = time.time,
        patience: OutageListener | None = None,
    ) -> None:
        self._session_timeout, self._poll_interval = session_timeout, poll_interval
        self._clock = clock
        self._epoch: int | None = None
        self._turns: dict[Partition, _Turn] = {}  # in the order in which they are served next
        self._closed = False
        self._store = SqliteStore(path, patience)
        self._leader = SqliteLeader(self._store, journal_topic, clock)
        self._commits = SqliteCommits(self._store, journal_topic, clock, patience or OutageListener())
        self._requests = SqliteRequests(self._store, clock)

    # Ownership

    def acquire(self, owner: str) -> None:
        """Become the learner; see the port. Raises `NotElected` while another learner is alive."""
        with self._store.transaction("IMMEDIATE"):
            now = self._clock()
            epoch, holder, heartbeat = self._leader.row()
            age = abs(now - heartbeat)  # a heartbeat far in the future is as little credible as an old one
            if holder not in (None, owner) and epoch != self._epoch and age < self._session_timeout:
                raise NotElected(
                    f"{self._store.path}: {holder!r} is the learner, and was alive recently; {owner!r} "
                    f"takes over when it is silent for {self._session_timeout:g} s (log.session_timeout)"
                )
            update = "UPDATE leader SET epoch = ?, owner = ?, heartbeat = ?"
            self._store.db.execute(update, (epoch + 1, owner, now))
        self._epoch = epoch + 1

    def heartbeat(self) -> None:
        """Record a heartbeat. Raises `Fenced` after a takeover.

        The call reads the leader's row. It writes it a few times per session, and not during a commit, which
        writes it too.
        """
        now = self._clock()
        with self._store.errors():
            epoch, _, shown = self._leader.row()
        is_recent = self._commits.is_writing or 0.0 <= now - shown < min(1.0, self._session_timeout / 5)
        if not (is_recent and epoch == self._epoch):
            self._leader.beat(self._own_epoch())

    def owner(self) -> Owner | None:
        """Return the owner of the log, from the row that its heartbeats write."""
        with self._store.errors():
            _, name, heartbeat = self._leader.row()
        return Owner(name, max(0.0, self._clock() - heartbeat))

    def close(self) -> None:
        """Close the log and release its ownership if still held. May be called twice.

        A commit in flight is awaited: after the release another learner may write.
        """
        if self._closed:
            return
        self._closed = True
        try:
            self._commits.close()
            if self._epoch is not None:
                with self._store.transaction("IMMEDIATE"):
                    update = "UPDATE leader SET owner = NULL WHERE epoch = ?"
                    is_ours = self._store.db.execute(update, (self._epoch,)).rowcount == 1
                if is_ours:
                    self._store.checkpoint()
        finally:
            self._store.close()

    # Topics

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic; do nothing if it exists with this number of partitions.

        Raises:
            LogError: it exists with another number of partitions, or the number is invalid.
        """
        if name == self._leader.journal.topic and partitions != 1:
            raise LogError(f"{self._store.path}: the journal {name!r} needs 1 partition, not {partitions}")
        self._store.create_topic(name, partitions)

    def topics(self) -> Mapping[str, int]:
        """Return the number of partitions by topic."""
        return self._store.topics()

    def partitions(self, topic: str) -> Sequence[Partition]:
        """Return the topic's partitions in order. Raises `UnknownTopic`."""
        _, count = self._store.topic(topic)
        return [Partition(topic, number) for number in range(count)]

    def topic_id(self, topic: str) -> str:
        """Return the random UUID assigned to the topic at its creation. Raises `UnknownTopic`."""
        return self._store.topic(topic)[0]

    def topic_ids(self, topics: Sequence[str]) -> Mapping[str, str]:
        """Return the UUIDs of the topics that exist."""
        there = self.topics()
        return {topic: self.topic_id(topic) for topic in topics if topic in there}

    # Reading

    def sizes(self, topics: Iterable[str]) -> Mapping[str, int]:  # noqa: ARG002  the port's name
        """Return no limits: a record may have any size."""
        return {}

    def offsets(self, partition: Partition) -> tuple[int, int]:
        """Return the offsets of the earliest record kept and of the next record. Raises `UnknownTopic`."""
        _, earliest, end = self._store.offset_range(partition)
        return earliest, end

    def offset_ranges(self, topic: str) -> Mapping[Partition, tuple[int, int]]:
        """Return the offsets of all partitions of a topic, as `offsets` does."""
        return {partition: self.offsets(partition) for partition in self.partitions(topic)}

    def read(self, partition: Partition, offset: int, limit: int) -> Sequence[Record]:
        """Return at most `limit` records from `offset`, without waiting.

        Raises `OutOfRange`, `UnknownTopic`.
        """
        with self._store.transaction("DEFERRED"):
            return self._store.fetch(partition, self._store.offset_range(partition), offset, limit)

    def seek(self, positions: Mapping[Partition, int]) -> None:
        """Let `poll` read exactly these partitions from their positions. Raises `UnknownTopic`."""
        self._turns = {
            partition: _Turn(self._store.offset_range(partition).partition_id, position)
            for partition, position in positions.items()
        }

    def poll(self, limit: int, timeout: float) -> Sequence[Record]:
        """Return at most `limit` further records; see the port.

        All records of one call are from one moment. Raises `OutOfRange`. Raises `UnknownTopic` if a topic was
        deleted (and perhaps recreated) since `seek`; then no position advances.
        """
        deadline = time.monotonic() + timeout
        while True:
            version = self._store.version()  # before the read, so that a commit after the read changes it
            records = self._serve_turns(limit)
            if records or not self._await_change(version, deadline):
                return records

    def lag(self) -> Mapping[Partition, int]:
        """Return the number of records after the position of each polled partition, all at one moment.

        A position beyond the end lags by 0. Raises `UnknownTopic` as `poll` does.
        """
        with self._store.transaction("DEFERRED"):
            return {
                partition: max(0, self._extent(partition, turn).next - turn.position)
                for partition, turn in self._turns.items()
            }

    def held_up(self, partitions: Collection[Partition]) -> Sequence[str]:  # noqa: ARG002
        """Return no lines: a transaction is written at once."""
        return ()

    # Writing

    def begin_commit(self, transaction: Transaction) -> CommitInFlight:
        """Begin to commit in another thread, on a connection of its own; see `SqliteCommits.begin`.

        This connection reads nothing of it before it is committed.
        """
        self._leader.journal.check_topics(transaction)
        return self._commits.begin(transaction, self._own_epoch())

    def append(self, records: Sequence[NewRecord]) -> None:
        """Write records outside any learner's commit, all or none; durable on return.

        Raises:
            UnknownTopic: a record names a topic that does not exist; nothing was written.
            LogError: a record is for the journal, or the log could not be written.
        """
        self._leader.journal.refuse(records)
        with self._store.transaction("IMMEDIATE"):
            self._store.insert(records, self._clock())

    def append_requests(self, requests: Sequence[WriteRequest]) -> Sequence[WriteOutcome]:
        """Write requests and their keys in one transaction; see `Log.append_requests`."""
        for request in requests:
            self._leader.journal.refuse(request.records)
        return self._requests.append(requests)

    def forwarded(self, topic: str, by: str = HANDED_ON) -> Mapping[Partition, Forwarded]:
        """Return how far `forward` has forwarded a topic."""
        return self._store.forwarded(topic, by)

    def forward(
        self,
        records: Sequence[NewRecord],
        since: Mapping[Partition, Forwarded],
        until: Mapping[Partition, Forwarded],
        by: str = HANDED_ON,
    ) -> None:
        """Append records and save positions; see `Log.forward`."""
        self._leader.journal.refuse(records)
        with self._store.transaction("IMMEDIATE"):
            check_since(self, since, until, by)
            self._store.insert(records, self._clock())
            self._store.note_forwarded(until, by)

    # Inside

    def _own_epoch(self) -> int:
        if self._epoch is None:
            raise LogError(f"{self._store.path}: not the learner; acquire comes first")
        return self._epoch

    def _serve_turns(self, limit: int) -> list[Record]:
        """Read up to `limit` records in the order of turns, and move the served partitions to the end.

        Reading stops once the records fill `FETCH_BYTES`.
        """
        records: list[Record] = []
        served: dict[Partition, _Turn] = {}
        size = 0
        with self._store.transaction("DEFERRED"):
            for partition, turn in self._turns.items():
                if size >= FETCH_BYTES:
                    break
                extent = self._extent(partition, turn)
                batch = self._store.fetch(partition, extent, turn.position, limit - len(records))
                if batch:
                    records += batch
                    size += sum([len(record.value) for record in batch])
                    served[partition] = turn._replace(position=batch[-1].offset + 1)
        for partition, turn in served.items():
            del self._turns[partition]
            self._turns[partition] = turn
        return records

    def _extent(self, partition: Partition, turn: _Turn) -> OffsetRange:
        extent = self._store.offset_range(partition)
        if extent.partition_id != turn.partition_id:
            raise UnknownTopic(f"{self._store.path}: {partition.topic!r} was deleted and made again")
        return extent

    def _await_change(self, version: int, deadline: float) -> bool:
        """Wait outside any transaction for another process to commit; return False after the deadline."""
        while (remaining := deadline - time.monotonic()) > 0:
            if self._store.version() != version:
                return True
            time.sleep(min(self._poll_interval, remaining))
        return False


class SqliteAdmin:
    """The topics in one file. Only `create` creates the file.

    Args:
        path: the file.
        journal_topic: the topic that has one partition.
    """

    def __init__(self, path: Path, *, journal_topic: str = "journal") -> None:
        self._path, self._journal_topic = path, journal_topic

    def close(self) -> None:
        """Do nothing: no connection stays open."""

    def brokers(self) -> Mapping[int, str]:
        """Return the file in place of a broker."""
        return {0: str(self._path)}

    def topics(self, names: Iterable[str]) -> FoundTopics:
        """Return the topics that exist, without settings."""
        if not self._path.exists():
            return FoundTopics({})
        with self._open() as log:
            found = log.topics()
        return FoundTopics({name: FoundTopic(name, found[name], 1) for name in names if name in found})

    def create(self, topics: Sequence[TopicSpec]) -> frozenset[str]:
        """Create topics, and the file if missing; return the names of the new topics."""
        with self._open() as log:
            before = log.topics()
            for topic in topics:
                log.create_topic(topic.name, topic.partitions)
        return frozenset(topic.name for topic in topics if topic.name not in before)

    def _open(self) -> SqliteLog:
        return SqliteLog(self._path, journal_topic=self._journal_topic)
