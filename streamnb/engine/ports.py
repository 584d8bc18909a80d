"""Ports of the engine to a log; adapters implement them.

A log is a set of topics, a topic a fixed list of partitions, a partition a sequence of records at offsets 0,
1, 2, ... (a real broker leaves gaps). A position is always the offset of the *next* record to read. The
journal is a topic with one partition in the same log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from streamnb.errors import Fenced, Unavailable

T = TypeVar("T", bound=tuple[Any, ...])

_VALUE = attrgetter("value")


class Partition(NamedTuple):
    """A partition of a topic, ordered by topic, then number."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.number}"


class Record(NamedTuple):
    """A record as read from the log.

    `timestamp` is the log's, in seconds since the epoch, constant across reads; 0 or less means none.
    """

    partition: Partition
    offset: int
    key: bytes | None
    value: bytes
    timestamp: float
    headers: tuple[tuple[str, bytes], ...] = ()


class NewRecord(NamedTuple):
    """A record to write; the log chooses the partition by the key's hash, and the offset.

    An empty value under a key, without headers, is a tombstone: compaction removes the key. It is read as
    empty.
    """

    topic: str
    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()


class Owner(NamedTuple):
    """Owner of a log, as other clients see it.

    Attributes:
        name: name of the learner; None if it has stopped, or none ever started.
        silent: seconds since its last heartbeat; 0 if the log itself removes a silent owner.
    """

    name: str | None
    silent: float


class Forwarded(NamedTuple):
    """Forwarding progress of a partition.

    Attributes:
        offset: all records below are forwarded, or need not be.
        note: text of the forwarder, such as further forwarded records; at most 4,096 bytes.
    """

    offset: int
    note: str = ""


HANDED_ON = "handed-on"
"""Name of the forwarder of dead letters; letters, digits, dots, underscores and hyphens."""


class Transaction(NamedTuple):
    """Everything that one commit publishes atomically.

    A reader of several partitions may see parts at different moments; after `commit` returns all is visible.

    `n` is the journal's next number. A log with another number at the journal's end raises `Fenced`: another
    learner has written.
    """

    n: int
    journal: NewRecord
    outputs: Sequence[NewRecord]
    positions: Mapping[Partition, int]


class WriteRequest(NamedTuple):
    """Records of one request of a client, written together.

    Attributes:
        records: the records, none of them for the journal.
        key: idempotency key: within `REQUEST_SECONDS` a request with this key writes once; empty for none.
        digest: digest of the request, by which another request with the same key is detected.
        note: text that is kept with the key; at most 1 MiB.
    """

    records: Sequence[NewRecord]
    key: str = ""
    digest: str = ""
    note: str = ""


class WriteOutcome(NamedTuple):
    """Outcome of a `WriteRequest`.

    Attributes:
        places: partition and offset of each record; None if the key belongs to another request, and nothing
            was written.
        note: note of the request that wrote the records.
        is_repeated: True if an earlier request with this key wrote the records.
    """

    places: Sequence[tuple[Partition, int]] | None
    note: str = ""
    is_repeated: bool = False


REQUEST_SECONDS = 86_400.0
"""Seconds for which an idempotency key is remembered."""


class CommitInFlight(NamedTuple):
    """A commit in flight.

    Attributes:
        is_over: returns whether the outcome is known, so that `await_outcome` does not block.
        await_outcome: waits until the commit is durable; returns its duration in seconds. Raises as
            `Log.commit`. Must be called once, and before the next commit.
    """

    is_over: Callable[[], bool]
    await_outcome: Callable[[], float]


class OutageListener:
    """Policy while the log is unreachable. The base class gives up at once."""

    def unreachable(self, error: Unavailable, seconds: float) -> None:  # noqa: ARG002
        """Return to keep waiting, or raise; called repeatedly, `seconds` after the first failure."""
        raise error

    def waiting(self) -> None:
        """Observe a long call: called often, as a heartbeat."""

    def reachable(self, seconds: float) -> None:
        """Observe that the log answers again, `seconds` after the first failure."""


class Difference(NamedTuple):
    """A difference from the plan in ``partitions``, ``replication`` or a setting."""

    what: str
    planned: str
    found: str


class TopicLoss(NamedTuple):
    """A setting by which a topic loses records that a learner needs.

    Attributes:
        topic: name of the topic.
        difference: the setting.
        why: the consequence.
        is_fatal: whether `run` refuses it, and `doctor` calls it a problem.
        change: the command that changes the setting; empty if unknown.
    """

    topic: str
    difference: Difference
    why: str
    is_fatal: bool
    change: str = ""

    def __str__(self) -> str:
        """Return the finding and the remedy."""
        text = f"topic {self.topic}: {self.difference.what} is {self.difference.found}: {self.why}"
        return f"{text}; change it: `{self.change}`" if self.change else text


class Log(Protocol):
    """A partitioned, durable log with transactions. An object belongs to one thread.

    A learner calls `acquire` once, reads the journal, calls `seek`, then `poll` and `commit` (or
    `begin_commit`) in turn, and `close` at the end. Only `close` may follow `close`. A pure reader may omit
    `acquire`. Any call may raise `LogError`; after `Fenced` only `close` is called.

    An unreachable remote log waits as its `OutageListener` decides, sends heartbeats meanwhile, and then
    continues the call.
    """

    def acquire(self, owner: str) -> None:
        """Become the only learner: fence earlier owners, whose next commit raises `Fenced`.

        Raises `NotElected` while another owner is alive (its heartbeat is younger than the session timeout).
        """

    def heartbeat(self) -> None:
        """Renew the ownership, if any, at least once a second; raise `Fenced` soon after a takeover."""

    def owner(self) -> Owner | None:
        """Return the current owner; None if the log does not expose it."""

    def partitions(self, topic: str) -> Sequence[Partition]:
        """Return the topic's partitions in order. Raises `UnknownTopic`."""

    def topic_id(self, topic: str) -> str:
        """Return an id that changes if a topic is deleted and recreated. Raises `UnknownTopic`."""

    def topic_ids(self, topics: Sequence[str]) -> Mapping[str, str]:
        """Return the ids of all existing topics among these in one request."""

    def sizes(self, topics: Iterable[str]) -> Mapping[str, int]:
        """Return the maximum bytes of a record with its key, for topics that have such a limit."""

    def losses(self, topics: Mapping[str, str]) -> Sequence[TopicLoss]:
        """Return the settings by which topics, each with its role, lose records that a learner needs."""
        del topics
        return ()

    def retention(self, topics: Iterable[str]) -> Mapping[str, float]:
        """Return the seconds for which topics keep records; those without such a limit are absent."""
        del topics
        return {}

    def missing(self, partition: Partition, first: int, end: int, most_bytes: int) -> tuple[int, int]:
        """Count the offsets from `first` to `end` without a record or the end of a transaction.

        Returns the count, and the offset up to which it goes: less than `end` once `most_bytes` were read.
        """
        del partition, first, most_bytes
        return 0, end

    def offsets(self, partition: Partition) -> tuple[int, int]:
        """Return the offset of the earliest record kept, and of the next record to be written."""

    def offset_ranges(self, topic: str) -> Mapping[Partition, tuple[int, int]]:
        """Return `offsets` of all partitions of a topic in one request. Raises `UnknownTopic`."""

    def read(self, partition: Partition, offset: int, limit: int) -> Sequence[Record]:
        """Return at most `limit` records of a partition from `offset` on; `poll` does not move.

        Does not wait for new records, so the result is empty at the end. Waits for a transaction that is open
        before the end, and raises `LogError` if the transaction hangs. Raises `OutOfRange` if `offset` is
        below the earliest record or beyond the end.
        """

    def seek(self, positions: Mapping[Partition, int]) -> None:
        """Set the partitions that `poll` reads, each from its position on."""

    def poll(self, limit: int, timeout: float) -> Sequence[Record]:
        """Return at most `limit` further records; wait up to `timeout` seconds for the first.

        Records of one partition are consecutive and in order; partitions alternate, so none starves. Empty
        after the timeout. Raises `OutOfRange` as `read` does.
        """

    def lag(self) -> Mapping[Partition, int]:
        """Return the offsets of each polled partition beyond the last `poll`.

        Transaction markers count until they are passed, and so may records of an open transaction.
        """

    def held_up(self, partitions: Collection[Partition]) -> Sequence[str]:
        """Describe the partitions whose records `poll` withholds because of another producer's transaction.

        A line for each: partition, position, the transaction's owner, and how to inspect and abort it.
        """

    def commit(self, transaction: Transaction) -> None:
        """Write outputs, journal record and positions in one transaction; durable on return.

        Raises `Fenced` (and writes nothing) if this learner is no longer the owner or `transaction.n` does
        not follow the journal's last number.
        """
        self.begin_commit(transaction).await_outcome()

    def begin_commit(self, transaction: Transaction) -> CommitInFlight:
        """Begin a commit; all calls but another commit may continue meanwhile. Raises as `commit`."""

    def append(self, records: Sequence[NewRecord]) -> None:
        """Write records outside any learner's commit (for producers); durable on return.

        Refuses an unknown topic before writing. After another failure some records may be written, if the log
        has no transactions for producers.
        """

    def append_requests(self, requests: Sequence[WriteRequest]) -> Sequence[WriteOutcome]:
        """Write the requests of clients, each with a key once, whichever process it asks; durable on return.

        After an error some requests may be written; a repetition with the same key writes none of them again.
        Raises LogError if a request has a key and the log has no place to keep it.
        """

    def forwarded(self, topic: str, by: str = HANDED_ON) -> Mapping[Partition, Forwarded]:
        """Return the progress of one forwarder of a topic; empty if `forward` never ran for it."""

    def forward(
        self,
        records: Sequence[NewRecord],
        since: Mapping[Partition, Forwarded],
        until: Mapping[Partition, Forwarded],
        by: str = HANDED_ON,
    ) -> None:
        """Append records and set the progress of a forwarder to `until`, atomically.

        Raises `Fenced`, and writes nothing, if the progress is not `since`.
        """

    def close(self) -> None:
        """Release all resources and the ownership, so that a successor need not wait."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def value_sizes(records: Sequence[NewRecord] | Sequence[Record]) -> Iterator[int]:
    """Return the bytes of the value of each record."""
    return map(len, map(_VALUE, records))


def bytes_of(record: NewRecord | Record) -> tuple[Any, ...]:
    """Return the content of a record: key, value and headers."""
    return record.key, record.value, tuple(map(tuple, record.headers))


def between(log: Log, partition: Partition, offset: int, end: int, at_once: int) -> Iterator[Record]:
    """Yield the records of an offset range, in reads of `at_once`."""
    while offset < end and (found := log.read(partition, offset, at_once)):
        yield from (record for record in found if record.offset < end)
        offset = found[-1].offset + 1


def check_since(
    log: Log, since: Mapping[Partition, Forwarded], until: Mapping[Partition, Forwarded], by: str
) -> None:
    """Raise `Fenced` if the progress of a forwarder differs from `since`."""
    topics = {partition.topic for partition in until}
    found = {partition: at for topic in topics for partition, at in log.forwarded(topic, by).items()}
    if found != {place: at for place, at in since.items() if place in found or at != Forwarded(0)}:
        raise Fenced("another process forwards these records, too, and has forwarded the next: start again")


def tuples(kind: type[T], rows: Iterable[tuple[Any, ...]]) -> list[T]:
    """Return a named tuple for each row of all fields; calling `kind` takes four times as long."""
    return list(map(partial(tuple.__new__, kind), rows))
