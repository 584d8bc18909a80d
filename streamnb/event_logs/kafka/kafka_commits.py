"""Become the learner and commit: election, transactional id, and the number in the journal."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from kafka import errors

from streamnb.engine.ports import CommitInFlight, Partition, Transaction
from streamnb.errors import Fenced, LogError, NotElected, Unavailable, UnknownTopic
from streamnb.event_logs.kafka.client_interface import Library
from streamnb.event_logs.kafka.error_actions import NO_SUCH_TOPIC, Action, classify
from streamnb.event_logs.kafka.error_messages import translated
from streamnb.event_logs.kafka.kafka_cluster import KafkaCluster
from streamnb.event_logs.kafka.kafka_records import KafkaRecords
from streamnb.event_logs.kafka.kafka_transactions import Attempt, Transactions
from streamnb.event_logs.kafka.leader_election import Election
from streamnb.event_logs.kafka.lost_transaction_markers import (
    LastTransaction,
    abort_by_hand,
    last_transaction,
    left_open,
)
from streamnb.formats.journal_record import last_number

_LONG_SECONDS = 3.0  # a commit that takes longer checks its topics
_LOOK_BACK = 100  # offsets, in search of the journal's last record


class KafkaCommits:
    """The commits of a learner.

    Invariant: commit n is written once, after commit n - 1, and only by the current learner.

    Args:
        cluster: answers about topics and groups.
        records: reads the journal.
        library: makes the producer.
        name: name of the group, and the transactional id.
        journal: the journal's partition.
        session_timeout, transaction_timeout, elected_within: see `KafkaLog`.

    Attributes:
        topics: the topics written to so far.
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        records: KafkaRecords,
        library: Library,
        name: str,
        journal: Partition,
        session_timeout: float,
        transaction_timeout: float,
        elected_within: float,
    ) -> None:
        self._cluster, self._records, self._library = cluster, records, library
        self._name, self._journal = name, journal
        self._session_timeout = session_timeout
        self._transaction_timeout = transaction_timeout
        self._elected_within = elected_within
        self._election: Election | None = None
        self._transactions: Transactions | None = None
        self.topics = {journal.topic}
        self._next: int | None = None  # the journal's next number; None until the journal has been asked

    def acquire(self, owner: str) -> None:
        """Become the learner. After `NotElected` it may be called again; the candidacy usually remains.

        A machine that stalls for a session may lose the election just won; it then stands again until
        `elected_within` has passed.

        1. Join the group and wait for the journal's partition: elected.
        2. `init_transactions`: fence the predecessor and end its open transaction.
        3. Have the broker confirm that this member is still elected.
        """
        self._next = None
        self._cluster.described(self._journal.topic)  # the topic and the cluster must exist
        deadline = time.monotonic() + self._elected_within
        while not self._stood(owner, deadline):
            pass

    def _stood(self, owner: str, deadline: float) -> bool:
        """Return whether a candidacy was won and kept; before the deadline a lost one may be repeated."""
        if self._election is None:
            self._election = self._cluster.with_retries(lambda: self._candidate(owner))
        self._election.win(deadline - time.monotonic())
        self._transactions = Transactions(self._library, self._name, self._transaction_timeout)
        try:
            self._cluster.with_retries(self._take_over)
        except Fenced as error:
            self.close()  # the member's view of the group may be outdated: a new member starts without one
            if time.monotonic() > deadline:
                raise NotElected(str(error)) from error
            return False
        return True

    def _candidate(self, owner: str) -> Election:
        of = self._cluster.clients, self._cluster.admin, self._name, self._journal.topic
        return Election(*of, owner, self._session_timeout, self._cluster.patience.waiting)

    def heartbeat(self) -> None:
        """Poll the group a few times per session. Raises `Fenced` if this learner is no longer elected."""
        if self._election is not None and self._transactions is not None:
            self._election.beat()

    def begin(self, transaction: Transaction) -> CommitInFlight:
        """Begin to commit in another thread, which owns the producer until the commit is settled."""
        self._learner()
        written = {record.topic for record in transaction.outputs}
        self.topics |= written
        self._cluster.check_known(transaction.positions, written)
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
        ask, patience = self._cluster.with_retries, self._cluster.patience
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
                    # Abort now, because an open transaction blocks readers until its timeout. An error of
                    # the abort is not the cause of the failed commit.
                    with contextlib.suppress(LogError):
                        ask(self._take_over)
                    raise gone or error from None
                now = time.monotonic()
                if failed_since is not None:
                    patience.unreachable(Unavailable(str(error)), now - failed_since)
                failed_since = failed_since or now
            ask(self._take_over)
            if ask(lambda: self._is_committed(transaction)):
                ended = time.monotonic()
                break
            attempt = self._attempt(transaction)
        if failed_since is not None:
            patience.reachable(time.monotonic() - failed_since)
        self._next = transaction.n + 1
        return ended - began

    def _check_number(self, transaction: Transaction) -> None:
        """Raise `Fenced` if the number does not follow the journal's, read after `acquire` or a failure."""
        if self._next is None and not self._cluster.with_retries(lambda: self._is_committed(transaction)):
            if transaction.n == 0:
                self._check_nothing_learned({partition.topic for partition in transaction.positions})
            self._next = transaction.n
        if transaction.n != self._next:
            raise self._not_next(transaction)

    def _not_next(self, transaction: Transaction) -> Fenced:
        return Fenced(f"the journal of {self._name} does not end before commit {transaction.n}")

    def _check_nothing_learned(self, topics: set[str]) -> None:
        """Raise LogError if earlier commits left positions although the journal is empty.

        The group's offsets serve only this check: brokers delete them after a week without a learner.
        """
        if not topics.isdisjoint(self._cluster.topics_with_offsets(self._name)):
            raise LogError(
                f"{self._name}: events of this log were learned already, under another journal than "
                f"{self._journal.topic!r}; to learn them again, begin a new log, or another model.name"
            )

    def _watching(self, transaction: Transaction) -> Callable[[], None]:
        """Return the heartbeat of a commit, which also checks now and then that its topics exist."""
        due = time.monotonic() + _LONG_SECONDS

        def alive() -> None:
            nonlocal due
            self._cluster.wait()
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
                described = self._cluster.admin.describe_topics(sorted(topics))
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

    def _take_over(self) -> None:
        """Fence the holder of the transactional id, after and before the broker confirms this learner."""
        (transactions, election), cluster = self._learner(), self._cluster
        election.prove()
        before = cluster.with_retries(lambda: last_transaction(cluster.admin, self._name, cluster.wait))
        transactions.begin_anew(cluster.wait)
        election.prove()
        if before is not None and self._commit_again(before, transactions):
            election.prove()

    def _commit_again(self, before: LastTransaction, transactions: Transactions) -> bool:
        """Return whether the lost markers of a commit were written again.

        Raises LogError if it may be aborted.
        """
        cluster = self._cluster
        places = cluster.with_retries(lambda: left_open(cluster.admin, before.producer, self.topics), "READ")
        if not places:
            return False
        if not before.committed:
            raise LogError(abort_by_hand(self._name, places, cluster.clients.line))
        transactions.commit_again(places, cluster.clients, cluster.wait)
        transactions.begin_anew(cluster.wait)
        return True

    def _is_committed(self, transaction: Transaction) -> bool:
        """Return whether the journal's last record is this commit's.

        Raises `Fenced` if it is another learner's.
        """
        first, end = self._cluster.offset_ranges([self._journal])[self._journal]
        values: set[bytes] = set()
        last = None
        for start in range(end, first - 1, -_LOOK_BACK):  # markers and foreign records take offsets, too
            offset = max(first, start - _LOOK_BACK)
            while found := self._records.read(self._journal, offset, 2 * _LOOK_BACK):
                values.update(record.value for record in found)
                offset = found[-1].offset + 1
            if (last := last_number(values)) is not None:
                break
        if transaction.journal.value in values:
            return True
        if transaction.n != (0 if last is None else last + 1):
            raise self._not_next(transaction)
        return False

    def close(self) -> None:
        """Drop the producer, and leave the group."""
        if self._transactions is not None:
            self._transactions.close()
        if self._election is not None:
            self._election.close()
        self._transactions = self._election = None


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
