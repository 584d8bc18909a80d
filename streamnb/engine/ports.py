"""What the engine asks of the outside world, as sentences. Adapters implement; the engine only calls.

A log is a set of topics; a topic is a fixed list of partitions; a partition is a sequence of records at
offsets 0, 1, 2, ... (a real broker leaves gaps). The offset of a position is always that of the *next*
record to read. The journal is a topic of one partition in the same log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from streamnb.errors import Fenced, Unavailable

T = TypeVar("T", bound=tuple[Any, ...])


class Partition(NamedTuple):
    """One partition of one topic. Ordered by topic, then number."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.number}"


class Record(NamedTuple):
    """One record as it was read.

    Its `timestamp` is seconds since the epoch, as the log recorded it: the same at every reading; 0 or less
    is none.
    """

    partition: Partition
    offset: int
    key: bytes | None
    value: bytes
    timestamp: float
    headers: tuple[tuple[str, bytes], ...] = ()


class NewRecord(NamedTuple):
    """One record to be written; the log chooses partition (by the key's hash) and the offset.

    An empty value under a key, without headers, is a tombstone: a compacted topic forgets the key. It is read
    as empty.
    """

    topic: str
    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()


class Owner(NamedTuple):
    """Who owns a log, as others see it.

    Attributes:
        name: of the learner; None when there is none, or it has stopped.
        silent: seconds since its last heartbeat; 0 where the log itself removes an owner that is silent.
    """

    name: str | None
    silent: float


class Forwarded(NamedTuple):
    """Which records of a partition were handed on.

    Attributes:
        offset: those below it were, or need not be.
        note: text of whoever hands them on, such as which ones beyond; at most 4,096 bytes.
    """

    offset: int
    note: str = ""


class Transaction(NamedTuple):
    """All that one commit publishes: as a whole or never.

    A reader of several partitions may see its parts moments apart; whoever reads after `commit` has returned
    sees all of it.

    `n` is the journal's next number. A log that finds another number at the journal's end refuses with
    `Fenced`: someone else has written.
    """

    n: int
    journal: NewRecord
    outputs: Sequence[NewRecord]
    positions: Mapping[Partition, int]


class CommitInFlight(NamedTuple):
    """A commit that was begun.

    Attributes:
        is_over: tells whether there is an outcome, so that `settle` need not wait for one.
        settle: waits until it is durable; how many seconds after its beginning it was. Raises as `Log.commit`
            does. To be called once, and before anything else is committed.
    """

    is_over: Callable[[], bool]
    await_outcome: Callable[[], float]


class OutageListener:
    """What to do while the log cannot be reached. This one has none: it gives up at once."""

    def unreachable(self, error: Unavailable, seconds: float) -> None:  # noqa: ARG002
        """Called again and again, `seconds` after the first failure; returns to go on waiting, or raises."""
        raise error

    def waiting(self) -> None:
        """Called every moment while a call takes long, for whoever watches that all is alive."""

    def reachable(self, seconds: float) -> None:
        """The log answers again, `seconds` after it stopped."""


class Log(Protocol):
    """A partitioned, durable log with transactions. One object serves one thread.

    Order of calls of a learner: `acquire` once, read the journal, `seek`, then `poll` and `commit` (or
    `begin_commit`) in turn, `close` at the end. Nothing is called after `close`; `close` may be called twice.
    A reader that never commits may leave out `acquire`. Any call may raise `LogError`; after `Fenced` only
    `close` is called.

    A log that is reached over a network waits where it cannot be reached, as its `OutageListener` says:
    heartbeats
    go on meanwhile, and the call then goes on where it was.
    """

    def acquire(self, owner: str) -> None:
        """Become the one learner: fence every earlier owner, whose next commit raises `Fenced`.

        Raises `NotElected` while another owner is alive (its heartbeat is younger than the session timeout).
        """

    def heartbeat(self) -> None:
        """Show that the owner is alive; called at least once a second, cheap when called more often.

        Raises `Fenced` soon after a takeover, in `commit` at the latest. Does nothing where nothing is owned.
        """

    def owner(self) -> Owner | None:
        """Return who owns the log now, for any reader; None when the log does not say, or may not."""

    def partitions(self, topic: str) -> Sequence[Partition]:
        """The topic's partitions in order. Raises `UnknownTopic`."""

    def topic_id(self, topic: str) -> str:
        """What changes when a topic is deleted and made again. Raises `UnknownTopic`."""

    def topic_ids(self, topics: Sequence[str]) -> Mapping[str, str]:
        """The same of those of the topics that there are, asked for at once."""

    def sizes(self, topics: Iterable[str]) -> Mapping[str, int]:
        """The most bytes that a record may have, with its key, of those of the topics that have such a limit.

        A learner asks before `acquire` about the topics that it writes: what is sent at once goes by it.
        """

    def offsets(self, partition: Partition) -> tuple[int, int]:
        """The offset of the earliest record kept, and of the next record to be written."""

    def offset_ranges(self, topic: str) -> Mapping[Partition, tuple[int, int]]:
        """The same of all partitions of a topic, asked for at once. Raises `UnknownTopic`."""

    def read(self, partition: Partition, offset: int, limit: int) -> Sequence[Record]:
        """At most `limit` records of one partition from `offset` on; `poll` does not move.

        It does not wait for new records. Where a transaction is open before the end, it waits for that to be
        settled, and raises `LogError` where it hangs.

        Empty at the end of the partition. Raises `OutOfRange` where `offset` is below the earliest record
        kept or beyond the end.
        """

    def seek(self, positions: Mapping[Partition, int]) -> None:
        """Let `poll` read exactly these partitions, each from its position on."""

    def poll(self, limit: int, timeout: float) -> Sequence[Record]:
        """At most `limit` records past the last ones returned; waits up to `timeout` seconds for the first.

        Records of one partition come in order and adjoin; partitions take turns, so that none starves.
        Empty after the timeout. Raises `OutOfRange` as `read` does.
        """

    def lag(self) -> Mapping[Partition, int]:
        """Of each polled partition, how much it holds past what `poll` has returned; 0 where that is all.

        Counted in offsets: a transaction's markers count until they have been passed, and so may records of a
        transaction that is open.
        """

    def held_up(self, partitions: Collection[Partition]) -> Sequence[str]:
        """Which of these hold records that `poll` does not return, for a transaction of a producer's is open.

        A line for each: partition, how far it is read, whose transaction it is, how to look and to end it.
        """

    def commit(self, transaction: Transaction) -> None:
        """Write outputs, journal record and positions in one transaction; durable on return.

        Raises `Fenced` (and writes nothing) where this learner is no longer the owner or `transaction.n`
        does not follow the journal's last number.
        """
        self.begin_commit(transaction).await_outcome()

    def begin_commit(self, transaction: Transaction) -> CommitInFlight:
        """Begin what `commit` does; until it is settled nothing else is committed, and the rest goes on.

        May raise as `commit` does; a log that has nothing to wait for commits at once.
        """

    def append(self, records: Sequence[NewRecord]) -> None:
        """Write records outside any learner's commit (for producers); durable on return.

        A topic that is unknown is refused before anything is written; where it fails otherwise, some records
        may have been written on a log without transactions for producers.
        """

    def forwarded(self, topic: str) -> Mapping[Partition, Forwarded]:
        """Up to where `forward` has handed on the records of a topic; none where it never did."""

    def forward(
        self,
        records: Sequence[NewRecord],
        since: Mapping[Partition, Forwarded],
        until: Mapping[Partition, Forwarded],
    ) -> None:
        """Append records, and note that those of some partitions are handed on `until`: both or neither.

        Raises `Fenced` where others are handed on by now than `since` says: somebody else did.
        """

    def close(self) -> None:
        """Release everything held. The ownership is given up, so that a successor need not wait."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def bytes_of(record: NewRecord | Record) -> tuple[Any, ...]:
    """What readers see of a record, wherever it lies."""
    return record.key, record.value, tuple(map(tuple, record.headers))


def between(log: Log, partition: Partition, offset: int, end: int, at_once: int) -> Iterator[Record]:
    """The records of a partition from an offset up to another, read so many at once."""
    while offset < end and (found := log.read(partition, offset, at_once)):
        yield from (record for record in found if record.offset < end)
        offset = found[-1].offset + 1


def check_since(log: Log, since: Mapping[Partition, Forwarded], until: Mapping[Partition, Forwarded]) -> None:
    """Raises `Fenced` where other records of topics are handed on than were."""
    topics = {partition.topic for partition in until}
    found = {partition: at for topic in topics for partition, at in log.forwarded(topic).items()}
    if found != {place: at for place, at in since.items() if place in found or at != Forwarded(0)}:
        raise Fenced(
            "somebody else hands these records on, too, and came first with those that are next: start again"
        )


def tuples(kind: type[T], rows: Iterable[tuple[Any, ...]]) -> list[T]:
    """Named tuples of a kind, each of a row of all its fields; to call `kind` takes four times as long."""
    return list(map(partial(tuple.__new__, kind), rows))
