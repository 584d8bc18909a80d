"""The embedded log: the engine's port in one SQLite file, with the guarantees of a broker.

A commit is one SQLite transaction, so it is visible as a whole or not at all, and it is on the disk when
`commit` returns (write-ahead log, ``synchronous=FULL``). The file must be on a local disk. Any number of
processes may read and append; one learner at a time commits, fenced by the epoch in the table `leader`.

Limit: a process that is stopped *inside* a write blocks every other writer until it continues or is killed.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

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
from streamnb.errors import Fenced, LogError, NotElected, UnknownTopic
from streamnb.event_logs.sqlite.sqlite_requests import SqliteRequests
from streamnb.event_logs.sqlite.sqlite_store import CHECKPOINT_BYTES, FETCH_BYTES, OffsetRange, SqliteStore
from streamnb.formats.journal_record import last_number

CHECKPOINT_COMMITS: Final = 100
_LOOK_BACK: Final = 100  # offsets, in search of the journal's last record


class _Turn(NamedTuple):
    """The position of `poll` in one partition."""

    partition_id: int
    position: int


class SqliteJournal:
    """The journal's partition.

    Invariant: commits write one record each to it, in the order of their numbers, and nothing else of
    `SqliteLog` writes to it.
    """

    def __init__(self, store: SqliteStore, partition: Partition) -> None:
        self._store, self._partition = store, partition
        self.topic = partition.topic
        self._strays: int | None = None  # foreign records; None until they have been counted

    def check_topics(self, transaction: Transaction) -> None:
        """Raise LogError unless exactly the journal record of a transaction goes to the journal."""
        topic = transaction.journal.topic
        if topic != self.topic:
            raise LogError(f"{self._store.path}: the journal is topic {self.topic!r}, not {topic!r}")
        self.refuse(transaction.outputs)

    def refuse(self, records: Sequence[NewRecord]) -> None:
        """Raise LogError if a record is for the journal."""
        if self.topic in {record.topic for record in records}:
            raise LogError(f"{self._store.path}: only a commit writes to {self.topic!r}, one record")

    def check_number(self, transaction: Transaction) -> None:
        """Raise `Fenced` if the number of a commit does not follow the journal's."""
        n = transaction.n
        extent = self._store.offset_range(self._partition)
        if self._strays is None or n != extent.next - self._strays:
            self._strays = self._count_foreign_records(extent)
        expected = extent.next - self._strays
        if n != expected:
            raise Fenced(f"{self._store.path}: commit {n} does not follow; the journal's next is {expected}")
        if n == 0 and not {partition.topic for partition in transaction.positions}.isdisjoint(
            partition.topic for partition in self._store.positions()
        ):
            raise LogError(
                f"{self._store.path}: events of this log were learned already, under another journal than "
                f"{self.topic!r}; to learn them again, begin a new log"
            )

    def _count_foreign_records(self, extent: OffsetRange) -> int:
        """Return the number of foreign records in the journal topic, from the number in its last record.

        `SqliteLog` writes only commits there, but other programs can write through SQLite.
        """
        for stop in range(extent.next, extent.earliest, -_LOOK_BACK):
            offset, values = max(extent.earliest, stop - _LOOK_BACK), []
            while offset < stop:
                found = self._store.fetch(self._partition, extent, offset, stop - offset)
                values += [record.value for record in found]
                offset = found[-1].offset + 1
            if (last := last_number(values)) is not None:
                return extent.next - 1 - last
        return 0 if extent.earliest else extent.next


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
        self._shown = -math.inf
        self._commits = 0  # since the last checkpoint
        self._turns: dict[Partition, _Turn] = {}  # in the order in which they are served next
        self._closed = False
        self._store = SqliteStore(path, patience)
        self._journal = SqliteJournal(self._store, Partition(journal_topic, 0))
        self._requests = SqliteRequests(self._store, clock)

    # Ownership

    def acquire(self, owner: str) -> None:
        """Become the learner; see the port. Raises `NotElected` while another learner is alive."""
        with self._store.transaction("IMMEDIATE"):
            now = self._clock()
            epoch, holder, heartbeat = self._leader()
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

        The call reads the leader's row, and writes it only a few times per session.
        """
        now = self._clock()
        with self._store.errors():
            epoch = self._leader()[0]
        if 0.0 <= now - self._shown < min(1.0, self._session_timeout / 5) and epoch == self._epoch:
            return
        self._beat(now)
        self._checkpoint_if_due()

    def owner(self) -> Owner | None:
        """Return the owner of the log, from the row that its heartbeats write."""
        with self._store.errors():
            _, name, heartbeat = self._leader()
        return Owner(name, max(0.0, self._clock() - heartbeat))

    def close(self) -> None:
        """Close the log and release its ownership if still held. May be called twice."""
        if self._closed:
            return
        self._closed = True
        try:
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
        if name == self._journal.topic and partitions != 1:
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
        """Commit at once: otherwise this connection could read uncommitted records.

        1. Checkpoint if due: first, because an error after step 5 would deny what is already durable.
        2. Take the write lock; check the epoch and refresh the heartbeat.
        3. Check that `transaction.n` is the journal's next offset.
        4. Insert the outputs and the journal record; save the positions.
        5. Commit, which waits for the disk.

        Raises:
            Fenced: another owner has taken over or `n` does not follow; nothing was written.
            UnknownTopic: a record or position names a topic that does not exist; nothing was written.
            LogError: the log could not be written, or the transaction breaks the journal's rules.
        """
        began = time.monotonic()
        self._journal.check_topics(transaction)
        self._checkpoint_if_due()
        with self._store.transaction("IMMEDIATE"):
            now = self._clock()
            self._show_alive(now)
            self._journal.check_number(transaction)
            self._store.insert([*transaction.outputs, transaction.journal], now)
            self._store.note_positions(transaction.positions)
        self._commits += 1
        seconds = time.monotonic() - began
        return CommitInFlight(lambda: True, lambda: seconds)

    def append(self, records: Sequence[NewRecord]) -> None:
        """Write records outside any learner's commit, all or none; durable on return.

        Raises:
            UnknownTopic: a record names a topic that does not exist; nothing was written.
            LogError: a record is for the journal, or the log could not be written.
        """
        self._journal.refuse(records)
        with self._store.transaction("IMMEDIATE"):
            self._store.insert(records, self._clock())

    def append_requests(self, requests: Sequence[WriteRequest]) -> Sequence[WriteOutcome]:
        """Write requests and their keys in one transaction; see `Log.append_requests`."""
        for request in requests:
            self._journal.refuse(request.records)
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
        self._journal.refuse(records)
        with self._store.transaction("IMMEDIATE"):
            check_since(self, since, until, by)
            self._store.insert(records, self._clock())
            self._store.note_forwarded(until, by)

    # Inside

    def _leader(self) -> tuple[int, str | None, float]:
        query = "SELECT epoch, owner, heartbeat FROM leader"
        leader: tuple[int, str | None, float] = self._store.db.execute(query).fetchone()
        return leader

    def _beat(self, now: float) -> None:
        with self._store.transaction("IMMEDIATE"):
            self._show_alive(now)

    def _show_alive(self, now: float) -> None:
        if self._epoch is None:
            raise LogError(f"{self._store.path}: not the learner; acquire comes first")
        self._store.check_in_place()
        update = "UPDATE leader SET heartbeat = ? WHERE epoch = ?"
        if self._store.db.execute(update, (now, self._epoch)).rowcount == 0:
            epoch, owner, _ = self._leader()
            successor = repr(owner) if owner is not None else "another learner, gone since,"
            raise Fenced(
                f"{self._store.path}: {successor} has taken over (epoch {epoch}, ours was {self._epoch})"
            )
        self._shown = now

    def _checkpoint_if_due(self) -> None:
        if self._commits >= CHECKPOINT_COMMITS or self._store.wal_bytes() > CHECKPOINT_BYTES:
            # Only the leader checkpoints, and always directly after its own write: the WAL-reset bug requires
            # a checkpoint that begins when the previous one has copied everything.
            self._beat(self._clock())
            self._store.checkpoint()
            self._commits = 0

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
