"""Commits of the embedded log's learner, and its row of the table `leader`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from streamnb.engine.ports import CommitInFlight, NewRecord, OutageListener, Partition, Transaction
from streamnb.errors import Fenced, LogError, Unavailable
from streamnb.event_logs.blocking_call import BlockingCall, SerialThread
from streamnb.event_logs.sqlite.sqlite_store import CHECKPOINT_BYTES, OffsetRange, SqliteStore
from streamnb.formats.journal_record import last_number

CHECKPOINT_COMMITS: Final = 100
_LOOK_BACK: Final = 100  # offsets, in search of the journal's last record


class SqliteJournal:
    """The journal's partition.

    Invariant: commits write one record each to it, in the order of their numbers. A log writes nothing else
    to it.
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

        A log writes only commits there, but other programs can write through SQLite.
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


class SqliteLeader:
    """Heartbeats and commits of a learner, each under its epoch, on one connection.

    Args:
        store: the connection.
        journal_topic: the journal's topic.
        clock: seconds since the epoch.

    Attributes:
        journal: the journal's partition.
    """

    def __init__(self, store: SqliteStore, journal_topic: str, clock: Callable[[], float]) -> None:
        self._store, self._clock = store, clock
        self._commits = 0  # since the last checkpoint
        self.journal = SqliteJournal(store, Partition(journal_topic, 0))

    def row(self) -> tuple[int, str | None, float]:
        """Return the epoch, the owner and the time of its last heartbeat."""
        query = "SELECT epoch, owner, heartbeat FROM leader"
        row: tuple[int, str | None, float] = self._store.db.execute(query).fetchone()
        return row

    def beat(self, epoch: int) -> None:
        """Write a heartbeat, and a checkpoint if it is due. Raises `Fenced`.

        Only the leader checkpoints, and always directly after its own write: the WAL-reset bug requires a
        checkpoint that begins when the previous one has copied everything.
        """
        with self._store.transaction("IMMEDIATE"):
            self._show_alive(epoch)
        if self._is_checkpoint_due():
            self._store.checkpoint()
            self._commits = 0

    def commit(self, transaction: Transaction, epoch: int) -> None:
        """Write a transaction.

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
        if self._is_checkpoint_due():
            self.beat(epoch)
        with self._store.transaction("IMMEDIATE"):
            now = self._show_alive(epoch)
            self.journal.check_number(transaction)
            self._store.insert([*transaction.outputs, transaction.journal], now)
            self._store.note_positions(transaction.positions)
        self._commits += 1

    def close(self) -> None:
        """Close the connection."""
        self._store.close()

    def _is_checkpoint_due(self) -> bool:
        return self._commits >= CHECKPOINT_COMMITS or self._store.wal_bytes() > CHECKPOINT_BYTES

    def _show_alive(self, epoch: int) -> float:
        """Write a heartbeat inside a transaction, and return its time."""
        self._store.check_in_place()
        now = self._clock()
        update = "UPDATE leader SET heartbeat = ? WHERE epoch = ?"
        if self._store.db.execute(update, (now, epoch)).rowcount == 0:
            latest, owner, _ = self.row()
            successor = repr(owner) if owner is not None else "another learner, gone since,"
            raise Fenced(f"{self._store.path}: {successor} has taken over (epoch {latest}, ours was {epoch})")
        return now


class SqliteCommits:
    """Commits in another thread, on a second connection, while the caller's connection reads.

    The thread waits for the disk and runs SQLite, which both let other threads of Python run.

    Args:
        store: the caller's connection.
        journal_topic, clock: see `SqliteLeader`.
        patience: retry policy while another process keeps the file locked; called in the caller's thread.

    Attributes:
        is_writing: True while a commit is being written.
    """

    def __init__(
        self, store: SqliteStore, journal_topic: str, clock: Callable[[], float], patience: OutageListener
    ) -> None:
        self._store, self._journal_topic, self._clock = store, journal_topic, clock
        self._patience = patience
        self._thread: SerialThread | None = None
        self._leader: SqliteLeader | None = None  # of the thread
        self.is_writing = False

    def begin(self, transaction: Transaction, epoch: int) -> CommitInFlight:
        """Begin a commit; the outcome raises as `SqliteLeader.commit`.

        While another process keeps the file locked, it is begun again as `patience` allows. A second write of
        one commit cannot succeed: its number would not follow.
        """
        began = time.monotonic()
        call = self._begun(transaction, epoch)
        return CommitInFlight(call.is_over, lambda: self._await_outcome(call, transaction, epoch, began))

    def close(self) -> None:
        """Wait for the commit in flight, if any, whatever its outcome; close the connection."""
        thread, self._thread = self._thread, None
        if thread is not None:
            BlockingCall(self._close_connection, thread=thread).answer()
            thread.end()

    def _begun(self, transaction: Transaction, epoch: int) -> BlockingCall[None]:
        if self._thread is None:
            self._thread = SerialThread()
        self.is_writing = True
        return BlockingCall(lambda: self._write(transaction, epoch), thread=self._thread)

    def _await_outcome(
        self, call: BlockingCall[None], transaction: Transaction, epoch: int, began: float
    ) -> float:
        """Wait for the commit, and return its duration in seconds since `began`."""
        waited = False
        while True:
            try:
                ended = call.answer(self._patience.waiting)[1]
                break
            except Unavailable as error:
                self._patience.unreachable(error, time.monotonic() - began)
                waited, call = True, self._begun(transaction, epoch)
        if waited:
            self._patience.reachable(ended - began)
        return ended - began

    def _write(self, transaction: Transaction, epoch: int) -> None:
        try:
            if self._leader is None:
                self._leader = SqliteLeader(self._store.another(), self._journal_topic, self._clock)
            self._leader.commit(transaction, epoch)
        finally:
            self.is_writing = False

    def _close_connection(self) -> None:
        leader, self._leader = self._leader, None
        if leader is not None:
            leader.close()
