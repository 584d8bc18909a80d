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
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from kafka import IsolationLevel, OffsetSpec, TopicPartition, errors
from kafka.admin import ConfigResource, ConfigResourceType

from streamnb.engine.ports import (
    CommitInFlight,
    Forwarded,
    Log,
    NewRecord,
    OutageListener,
    Owner,
    Partition,
    Record,
    Transaction,
    check_since,
)
from streamnb.engine.topic_plan import BATCH_BYTES
from streamnb.errors import Fenced, LogError, NotElected, OutOfRange, Unavailable, UnknownTopic
from streamnb.event_logs.kafka.client_interface import Library, Producer, Reader
from streamnb.event_logs.kafka.consumer_group import is_learner, members_of, nobody_in, owner_of
from streamnb.event_logs.kafka.error_actions import NO_SUCH_TOPIC, Action, classify
from streamnb.event_logs.kafka.error_messages import ANY, translated
from streamnb.event_logs.kafka.kafka_clients import NO_COORDINATOR_YET, Clients, forget_coordinators
from streamnb.event_logs.kafka.kafka_python_client import KafkaPython
from streamnb.event_logs.kafka.kafka_transactions import Attempt, Transactions
from streamnb.event_logs.kafka.leader_election import Election
from streamnb.event_logs.kafka.lost_transaction_markers import (
    LastTransaction,
    abort_by_hand,
    last_transaction,
    left_open,
)
from streamnb.event_logs.kafka.open_transactions import GRACE_SECONDS, OpenedBy, open_transactions, waits
from streamnb.event_logs.kafka.partition_sharing import GroupShare
from streamnb.event_logs.kafka.tool_command import ToolCommand
from streamnb.formats.journal_record import last_number

_SETTLED_STATES = {"Stable", "Empty", "Dead"}  # group states without an election in progress
_POLL_SECONDS = 0.05
_SEEK_MS = 10
_TURN_SECONDS = 0.5
_ANSWER_MS = 5_000  # timeout of a request for offsets
_LARGEST = "max.message.bytes"
_LONG_SECONDS = 3.0  # a commit that takes longer checks its topics
_LOOK_BACK = 100  # offsets, in search of the journal's last record

T = TypeVar("T")


class KafkaLog(Log):
    """A log on a Kafka cluster.

    Args:
        client: settings of kafka-python that all clients share: bootstrap_servers, security_protocol,
            sasl_mechanism, ssl_cafile and so on.
        model: name of the model: group and transactional id are ``streamnb.<model>``.
        journal_topic: the journal's topic.
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
        session_timeout: float = 10.0,
        transaction_timeout: float = 15.0,
        elected_within: float = 30.0,
        patience: OutageListener | None = None,
        library: Callable[[Clients, str], Library] = KafkaPython,
    ) -> None:
        self._clients = Clients(client)
        self._name = f"streamnb.{model}"
        self._library = library(self._clients, self._name)
        self._journal = Partition(journal_topic, 0)
        self._session_timeout = session_timeout
        self._transaction_timeout = transaction_timeout
        self._elected_within = elected_within
        self._patience = patience or OutageListener()
        self._election: Election | None = None
        self._transactions: Transactions | None = None
        self._plain: Producer | None = None
        self._known: set[Partition] = set()
        self._topics = {journal_topic}  # the topics written to so far
        self._extents: dict[Partition, tuple[int, int]] = {}  # as of the last request: ends only grow
        self._seeking: tuple[Partition, int] | None = None  # position of the seeker
        self._next: int | None = None  # the journal's next number; None until the journal has been asked
        self._opened = contextlib.ExitStack()
        self._admin: Any = None
        try:
            self._admin = self._with_retries(lambda: self._open(self._clients.admin()))
            self._reader: Reader = self._with_retries(lambda: self._open(self._library.reader()))
            self._seeker: Reader = self._with_retries(lambda: self._open(self._library.reader(_SEEK_MS)))
        except BaseException:
            self.close()
            raise

    # -- for the learner --------------------------------------------------------------------------------

    def acquire(self, owner: str) -> None:
        """Become the learner. After `NotElected` it may be called again; the candidacy usually remains.

        A machine that stalls for a session may lose the election just won; it then stands again until
        `elected_within` has passed.

        1. Join the group and wait for the journal's partition: elected.
        2. `init_transactions`: fence the predecessor and end its open transaction.
        3. Have the broker confirm that this member is still elected.
        """
        self._next = None
        self._described(self._journal.topic)  # the topic and the cluster must exist
        deadline = time.monotonic() + self._elected_within
        while not self._stood(owner, deadline):
            pass

    def _stood(self, owner: str, deadline: float) -> bool:
        """Return whether a candidacy was won and kept; before the deadline a lost one may be repeated."""
        if self._election is None:
            self._election = self._with_retries(lambda: self._candidate(owner))
        self._election.win(deadline - time.monotonic())
        self._transactions = Transactions(self._library, self._name, self._transaction_timeout)
        try:
            self._with_retries(self._take_over)
        except Fenced as error:
            self._transactions.close()
            self._transactions = None
            # The member's view of the group may be outdated: a new member starts without one.
            self._election.close()
            self._election = None
            if time.monotonic() > deadline:
                raise NotElected(str(error)) from error
            return False
        return True

    def heartbeat(self) -> None:
        """Poll the group a few times per session. Raises `Fenced` if this learner is no longer elected."""
        if self._election is not None and self._transactions is not None:
            self._election.beat()

    def owner(self) -> Owner | None:
        """Return the learner that the group has elected; None during an election or without permission.

        The coordinator removes a member after a session of silence, so a listed owner counts as not silent.
        """

        def ask() -> Mapping[str, Any] | None:
            try:
                return dict(self._admin.describe_groups([self._name])[self._name])
            except (errors.AuthorizationError, *NO_COORDINATOR_YET):
                return None

        group = self._with_retries(ask, "READ", self._name)
        if group is None or group["group_state"] not in _SETTLED_STATES:
            return None
        prize = TopicPartition(*self._journal)
        holders = (one.client for one in members_of(group) if prize in one.has and is_learner(one.client))
        return Owner(next(map(owner_of, holders), None), 0.0)

    def begin_commit(self, transaction: Transaction) -> CommitInFlight:
        """Begin to commit in another thread, which owns the producer until the commit is settled."""
        self._learner()
        written = {record.topic for record in transaction.outputs}
        self._topics |= written
        self._check_known(transaction.positions, written)
        self._check_number(transaction)
        self._next = None  # unknown until this commit is confirmed
        began = time.monotonic()
        attempt = self._attempt(transaction)
        return CommitInFlight(attempt.is_over, lambda: self._await_commit(transaction, attempt, began))

    def _attempt(self, transaction: Transaction) -> Attempt:
        self.heartbeat()
        transactions, election = self._learner()
        return transactions.begin(transaction, election.membership)

    def _await_commit(self, transaction: Transaction, attempt: Attempt, began: float) -> float:
        """Wait for the commit, and return its duration in seconds since `began`.

        If the outcome of an attempt is unknown and this learner is still elected, fence and end the
        transaction with a new producer, then read the journal's end. Either the commit is there, or the same
        bytes are sent again, or another learner has written: `Fenced`. The loss of the transactional id needs
        no other treatment: the broker also takes it from a learner that was unreachable for longer than the
        timeout.
        """
        failed_since: float | None = None
        while True:
            try:
                ended = attempt.await_outcome(self._watching(transaction))
                break
            except LogError as error:
                action = classify(error, committing=True)
                if action is Action.DEPOSED:
                    raise
                gone = self._deleted(transaction)
                if gone or action is not Action.RESEND:
                    with contextlib.suppress(LogError):  # its error is not the cause of the failed commit
                        self._with_retries(
                            self._take_over
                        )  # abort now: an open transaction blocks readers until its timeout
                    raise gone or error from None
                now = time.monotonic()
                if failed_since is not None:
                    self._patience.unreachable(Unavailable(str(error)), now - failed_since)
                failed_since = failed_since or now
            self._with_retries(self._take_over)
            if self._with_retries(lambda: self._is_committed(transaction)):
                ended = time.monotonic()
                break
            attempt = self._attempt(transaction)
        if failed_since is not None:
            self._patience.reachable(time.monotonic() - failed_since)
        self._next = transaction.n + 1
        return ended - began

    def _check_number(self, transaction: Transaction) -> None:
        """Raise `Fenced` if the number does not follow the journal's, read after `acquire` or a failure."""
        if self._next is None and not self._with_retries(lambda: self._is_committed(transaction)):
            if transaction.n == 0:
                self._check_nothing_learned({partition.topic for partition in transaction.positions})
            self._next = transaction.n
        if transaction.n != self._next:
            raise Fenced(f"the journal of {self._name} does not end before commit {transaction.n}")

    def _check_nothing_learned(self, topics: set[str]) -> None:
        """Raise LogError if earlier commits left positions although the journal is empty.

        The group's offsets serve only this check: brokers delete them after a week without a learner.
        """

        def ask() -> set[str]:
            (offsets,) = self._admin.list_group_offsets(self._name).values()
            return {place.topic for place in offsets}

        if not topics.isdisjoint(self._with_retries(ask, "READ", self._name)):
            raise LogError(
                f"{self._name}: events of this log were learned already, under another journal than "
                f"{self._journal.topic!r}; to learn them again, begin a new log, or another model.name"
            )

    def _heartbeat(self) -> None:
        """Send heartbeats during a call that may take long."""
        self.heartbeat()
        self._patience.waiting()

    def _watching(self, transaction: Transaction) -> Callable[[], None]:
        """Return the heartbeat of a commit, which also checks now and then that its topics exist."""
        due = time.monotonic() + _LONG_SECONDS

        def alive() -> None:
            nonlocal due
            self._heartbeat()
            if time.monotonic() >= due:
                gone, due = self._deleted(transaction), time.monotonic() + _LONG_SECONDS
                if gone:
                    raise gone

        return alive

    def _deleted(self, transaction: Transaction) -> UnknownTopic | None:
        """Return the error if a topic of a commit was deleted, for which the client would search for long."""
        topics = {partition.topic for partition in transaction.positions}
        topics |= {transaction.journal.topic, *(record.topic for record in transaction.outputs)}
        try:
            with translated():
                described = self._admin.describe_topics(sorted(topics))
        except LogError:
            return None  # the error of the commit itself is more specific
        for topic in described:
            if errors.for_code(topic["error_code"]) in NO_SUCH_TOPIC:
                return UnknownTopic(_deletion(topic["name"], transaction))
        return None

    def _learner(self) -> tuple[Transactions, Election]:
        if self._transactions is None or self._election is None:
            raise LogError("acquire comes before commit")
        return self._transactions, self._election

    def _candidate(self, owner: str) -> Election:
        of, journal = (self._clients, self._admin, self._name), self._journal.topic
        return Election(*of, journal, owner, self._session_timeout, self._patience.waiting)

    def _take_over(self) -> None:
        """Fence the holder of the transactional id, after and before the broker confirms this learner."""
        transactions, election = self._learner()
        election.prove()
        before = self._with_retries(lambda: last_transaction(self._admin, self._name, self._heartbeat))
        transactions.begin_anew(self._heartbeat)
        election.prove()
        if before is not None and self._commit_again(before, transactions):
            election.prove()

    def _commit_again(self, before: LastTransaction, transactions: Transactions) -> bool:
        """Return whether the lost markers of a commit were written again.

        Raises LogError if it may be aborted.
        """
        places = self._with_retries(lambda: left_open(self._admin, before.producer, self._topics), "READ")
        if not places:
            return False
        if not before.committed:
            raise LogError(abort_by_hand(self._name, places, self._clients.line))
        transactions.commit_again(places, self._clients, self._heartbeat)
        transactions.begin_anew(self._heartbeat)
        return True

    def _is_committed(self, transaction: Transaction) -> bool:
        """Return whether the journal's last record is this commit's.

        Raises `Fenced` if it is another learner's.
        """
        first, end = self.offsets(self._journal)
        values: set[bytes] = set()
        last = None
        for start in range(end, first - 1, -_LOOK_BACK):  # markers and foreign records take offsets, too
            offset = max(first, start - _LOOK_BACK)
            while found := self.read(self._journal, offset, 2 * _LOOK_BACK):
                values.update(record.value for record in found)
                offset = found[-1].offset + 1
            if (last := last_number(values)) is not None:
                break
        if transaction.journal.value in values:
            return True
        if transaction.n != (0 if last is None else last + 1):
            raise Fenced(f"the journal of {self._name} does not end before commit {transaction.n}")
        return False

    # -- for all clients ----------------------------------------------------------------------------------

    def partitions(self, topic: str) -> Sequence[Partition]:
        """Return the topic's partitions in order, including new ones."""
        numbers = [found["partition_index"] for found in self._described(topic)["partitions"]]
        return [Partition(topic, number) for number in sorted(numbers)]

    def topic_id(self, topic: str) -> str:
        """Return the topic's UUID."""
        return str(self._described(topic)["topic_id"])

    def topic_ids(self, topics: Sequence[str]) -> Mapping[str, str]:
        """Return the UUIDs of the topics that exist."""

        def ask() -> Mapping[str, str]:
            found = self._admin.describe_topics(list(topics))
            for topic in found:
                kind = errors.for_code(topic["error_code"])
                if topic["error_code"] and not issubclass(kind, NO_SUCH_TOPIC):
                    raise kind(f"topic {topic['name']!r}")
            return {topic["name"]: str(topic["topic_id"]) for topic in found if not topic["error_code"]}

        return self._with_retries(ask)

    def sizes(self, topics: Iterable[str]) -> Mapping[str, int]:
        """Return the bytes available in a batch under max.message.bytes, for topics with visible settings.

        Producers made later send no larger batches, unless a single record is larger.
        """
        topics = list(topics)
        self._topics.update(topics)
        resources = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in topics]

        def ask() -> Mapping[str, Mapping[str, Any]]:
            found = self._admin.describe_configs(resources, config_filter="all")["topic"]
            return dict(found)

        sizes = {
            topic: int(settings[_LARGEST]["value"]) - BATCH_BYTES
            for topic, settings in self._with_retries(ask).items()
            if _LARGEST in settings
        }
        self._clients.largest_batch = min(sizes.values(), default=self._clients.largest_batch)
        return sizes

    def offsets(self, partition: Partition) -> tuple[int, int]:
        """Return the earliest offset and the high watermark, which includes open transactions."""
        return self._offset_ranges_of([partition])[partition]

    def offset_ranges(self, topic: str) -> Mapping[Partition, tuple[int, int]]:
        """Return the offsets of all partitions of a topic, as `offsets` does."""
        return self._offset_ranges_of(self.partitions(topic))

    def _offset_ranges_of(self, partitions: Sequence[Partition]) -> Mapping[Partition, tuple[int, int]]:
        places = [TopicPartition(*partition) for partition in partitions]
        firsts, ends = self._bounds(places, OffsetSpec.EARLIEST), self._bounds(places)
        found = zip(partitions, places, strict=True)
        return {partition: (firsts[place], ends[place]) for partition, place in found}

    def read(self, partition: Partition, offset: int, limit: int) -> Sequence[Record]:
        """Return at most `limit` committed records from `offset` on; none if the end is reached.

        Raises LogError if an open transaction blocks the end for longer than its timeout.
        """
        first, end = self._extents.get(partition, (0, 0))
        with self._naming_what_is_held():
            if first <= offset < end and (
                found := self._with_retries(lambda: self._fetch(partition, offset, end, limit), "READ")
            ):
                return found
            # Up to the cached end there may be only aborted records: use the current end.
            first, end = self._extents[partition] = self.offsets(partition)
            if not first <= offset <= end:
                raise _not_held(partition, first, end, offset)
            return self._with_retries(lambda: self._fetch(partition, offset, end, limit), "READ")

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
            self._heartbeat()
            if time.monotonic() > deadline:
                self._admin.describe_cluster()  # raises if the cluster does not answer
                raise LogError(self._hanging(TopicPartition(*partition), end))
        return []

    def _hanging(self, place: TopicPartition, end: int) -> str:
        """Describe the transaction that blocks the readers of a partition."""
        found: Mapping[TopicPartition, OpenedBy] = {}
        with contextlib.suppress(LogError), translated():
            found = open_transactions(self._admin, [place])
        position = self._seeker.position(Partition(*place))
        return f"{waits(place, position, end, found.get(place), self._clients.line)}; it hangs"

    def seek(self, positions: Mapping[Partition, int]) -> None:
        """Let `poll` read exactly these partitions from their positions."""
        self._check_known(positions)
        with translated():
            self._reader.seek(positions)
            self._seeker.seek({})  # stop its prefetching
        self._seeking = None

    def poll(self, limit: int, timeout: float) -> Sequence[Record]:
        """Return at most `limit` committed records; wait up to `timeout` seconds for the first."""
        deadline = time.monotonic() + timeout
        while True:
            self.heartbeat()
            left = min(_TURN_SECONDS, max(0.0, deadline - time.monotonic()))
            with self._naming_what_is_held():
                found = self._with_retries(partial(self._reader.poll, limit, left), "READ")
            if not found:  # the client searches for ever for a deleted topic
                for topic in sorted(self._with_retries(self._reader.doubtful)):
                    self.partitions(topic)
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
                self._extents[partition] = first, end = self.offsets(partition)
                raise _not_held(partition, first, end, offset) from error
            raise

    def lag(self) -> Mapping[Partition, int]:
        """Return the offsets between the records that `poll` has returned and each partition's end."""
        partitions = sorted(self._reader.partitions())
        ends = self._bounds([TopicPartition(*partition) for partition in partitions]) if partitions else {}
        with translated():
            read = {partition: self._reader.position(partition) for partition in partitions}
        return {partition: max(0, ends[partition] - read[partition]) for partition in partitions}

    def held_up(self, partitions: Collection[Partition]) -> Sequence[str]:
        """Return a line for each partition whose reader waits for an open transaction."""
        places = [TopicPartition(*partition) for partition in sorted(partitions)]
        stable = self._bounds(places, isolation=IsolationLevel.READ_COMMITTED)
        ends = self._bounds(places)
        held = [
            place
            for place in places
            if stable[place] < ends[place] and self._reader.position(Partition(*place)) >= stable[place]
        ]
        found = self._with_retries(lambda: open_transactions(self._admin, held), "READ") if held else {}
        return [
            waits(place, stable[place], ends[place], found.get(place), self._clients.line) for place in held
        ]

    def append(self, records: Sequence[NewRecord]) -> None:
        """Write records for producers; durable on return. After an error some may have been written."""
        self._check_known((), {record.topic for record in records})
        if self._plain is None:
            self._plain = self._with_retries(self._library.producer)
            self._opened.callback(self._plain.abandon)  # all records of finished `append` calls are delivered
        self._plain.deliver(records, self._with_retries)

    def forwarded(self, topic: str) -> Mapping[Partition, Forwarded]:
        """Return how far `forward` has forwarded a topic, from the offsets of a group without members."""
        partitions = self.partitions(topic)
        with contextlib.closing(self._clients.noted(self._handing_group)) as member:

            def ask() -> Mapping[Partition, Any]:
                return {
                    place: member.committed(TopicPartition(*place), metadata=True) for place in partitions
                }

            found = self._with_retries(ask, "READ", self._handing_group)
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
    ) -> None:
        """Append records and commit positions in one transaction; see `Log.forward`.

        First fence any concurrent call and end its open transaction: the positions noted then remain valid
        until this transaction commits. Raises `Unavailable` if the outcome is unknown; a restarted caller
        reads it from the positions.
        """
        self._check_known(until, {record.topic for record in records})
        transactions = Transactions(self._library, self._handing_group, self._transaction_timeout)
        try:
            self._with_retries(lambda: transactions.begin_anew(self._heartbeat))
            check_since(self, since, until)
            nobody = nobody_in(self._handing_group)
            positions = {place: at.offset for place, at in until.items()}
            notes = {place: at.note for place, at in until.items()}
            transactions.send(records, positions, nobody, "handing on", notes).await_outcome(self._heartbeat)
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
        return self._clients.line

    def share(self, group: str, topics: Sequence[str], owner: str) -> GroupShare:
        """Join a group whose members share the partitions of topics.

        Only `GroupShare` may call `seek` then.
        """
        timeouts = self._session_timeout, self._transaction_timeout
        clients = self._clients, self._library
        return GroupShare(self, *clients, group, topics, owner, timeouts, self._patience, self._with_retries)

    @property
    def _handing_group(self) -> str:
        return f"{self._name}.handed-on"

    def close(self) -> None:
        """Leave the group and close every client."""
        if self._transactions is not None:
            self._transactions.close()
        if self._election is not None:
            self._election.close()
        self._transactions = self._election = None
        with contextlib.suppress(errors.KafkaError):
            self._opened.close()

    def _check_known(self, partitions: Iterable[Partition], topics: Iterable[str] = ()) -> None:
        """Raise `UnknownTopic` at once: the client would wait for a missing topic.

        Ask the cluster only about topics and partitions not seen before.
        """
        topics_known = {known.topic for known in self._known}
        unknown = {partition for partition in partitions if partition not in self._known}
        for topic in {*topics} - topics_known | {partition.topic for partition in unknown}:
            self._known.update(self.partitions(topic))
        for partition in unknown - self._known:
            raise UnknownTopic(f"no partition {partition.topic}[{partition.number}]")

    def _described(self, topic: str) -> Mapping[str, Any]:
        def ask() -> Mapping[str, Any]:
            (found,) = self._admin.describe_topics([topic])
            if code := found["error_code"]:
                raise errors.for_code(code)(f"topic {topic!r}")
            return dict(found)

        try:
            return self._with_retries(ask)
        except UnknownTopic:
            raise UnknownTopic(f"no topic {topic!r}; `streamnb topics create` creates it") from None

    def _bounds(
        self,
        places: Sequence[TopicPartition],
        spec: OffsetSpec = OffsetSpec.LATEST,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> Any:
        """Return the ends (or beginnings) of partitions; `isolation` may exclude open transactions."""

        def ask() -> dict[TopicPartition, int]:
            wanted = dict.fromkeys(places, spec)
            found = self._admin.list_partition_offsets(wanted, isolation, timeout_ms=_ANSWER_MS)
            return {place: answer.offset for place, answer in found.items()}

        return self._with_retries(ask)

    def _with_retries(self, ask: Callable[[], T], leave: str = ANY, name: str = "") -> T:
        """Return the result of `ask`, retried while the cluster cannot be reached and patience lasts."""
        since: float | None = None
        while True:
            try:
                with translated(leave, name):
                    answer = ask()
            except Unavailable as error:
                forget_coordinators(self._admin)
                since = since or time.monotonic()
                self._patience.unreachable(error, time.monotonic() - since)
                time.sleep(_TURN_SECONDS)
                self.heartbeat()
            else:
                if since is not None:
                    self._patience.reachable(time.monotonic() - since)
                return answer

    def _open(self, client: Any) -> Any:
        self._opened.callback(client.close)
        return client


def _deletion(topic: str, transaction: Transaction) -> str:
    """Return the message for a deleted topic of a commit."""
    gone = f"topic {topic!r} was deleted while the learner ran: commit {transaction.n} cannot be made"
    if topic == transaction.journal.topic:
        return (
            f"{gone}, and the journal's records are lost; to relearn all events, move the snapshots "
            "away, `streamnb topics create`, and set another model.name"
        )
    if topic in {partition.topic for partition in transaction.positions}:
        return (
            f"{gone}; `streamnb topics create` creates it, and `streamnb run --accept-loss` continues with it"
        )
    return f"{gone}, and nothing of it was published; `streamnb topics create` makes it, then start again"


def _not_held(partition: Partition, first: int, end: int, offset: int) -> OutOfRange:
    return OutOfRange(f"{partition} holds offsets {first} to {end}, not {offset}")
