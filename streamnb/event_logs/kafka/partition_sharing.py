"""Members of a group share the partitions of topics, and publish exactly once.

A *member* of the group is assigned partitions; it reads nothing. The log's reader starts at the group's
offsets, and these are committed in the transaction that publishes the outputs of the records (KIP-447):

* The broker refuses offsets with an outdated membership: a stalled member publishes nothing for partitions
  that were reassigned.
* If a member falls silent after that check, its offsets are pending. The next owner of the partition cannot
  read them until the transaction ends, by the member or by the broker's timeout.

A transaction with an unknown outcome therefore needs no inquiry: a new producer of its id ends it, and the
group's offsets are the positions to continue from.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

from kafka import TopicPartition, errors
from kafka.structs import MemberState

from streamnb.engine.ports import Log, NewRecord, OutageListener, Partition, Record
from streamnb.errors import LogError, OutOfRange, Unavailable
from streamnb.event_logs.blocking_call import call_blocking
from streamnb.event_logs.kafka.client_interface import Library, Patiently
from streamnb.event_logs.kafka.error_actions import meant
from streamnb.event_logs.kafka.error_messages import translated
from streamnb.event_logs.kafka.kafka_clients import Claim, Clients
from streamnb.event_logs.kafka.kafka_transactions import Transactions
from streamnb.event_logs.kafka.open_transactions import GRACE_SECONDS

_TURN_MS = 100
_TOPICS_MS = 5_000  # interval at which new partitions are discovered
_BEYOND = (
    errors.CommitFailedError,
    errors.IllegalGenerationError,
    errors.UnknownMemberIdError,
    errors.ProducerFencedError,
    errors.InvalidProducerEpochError,
)
"""The group or the broker has removed this member; nothing was published."""


class GroupShare:
    """One member; it joins on construction and leaves by `close`.

    Args:
        log: the log to read; only this object may seek or poll it.
        clients, library: make the member, and the producer.
        group: the group's name and the prefix of the new producer's transactional id.
        topics: the topics whose partitions are shared.
        owner: name of this member in listings of the group.
        timeouts: of a session and of a transaction, seconds.
        patience: retry policy while the cluster cannot be reached.
        patiently: calls a function under that policy.

    Attributes:
        positions: the member's partitions, with the next offset of each.
    """

    def __init__(
        self,
        log: Log,
        clients: Clients,
        library: Library,
        group: str,
        topics: Sequence[str],
        owner: str,
        timeouts: tuple[float, float],
        patience: OutageListener,
        patiently: Patiently,
    ) -> None:
        self._log, self._group, self._topics = log, group, topics
        self._patience, self._patiently = patience, patiently
        self._session, self._timeout = timeouts
        self._often, self._turned = min(1.0, self._session / 5), -self._session
        self._stands: tuple[Any, ...] = ()  # the membership and its partitions
        self._failing: float | None = None
        self.positions: dict[Partition, int] = {}
        claim = Claim()
        soon = {"metadata_max_age_ms": _TOPICS_MS}
        member = partial(clients.member, group, owner, self._session, claim, **soon)
        self._member = patiently(member, "READ", group)
        self._transactions = Transactions(library, f"{group}.{uuid4().hex}", self._timeout)
        try:
            self._member.subscribe(list(topics), listener=claim)
            # A leader that discovers a topic later may never stabilize: see Election.
            known = partial(call_blocking, self._member.topics, patience.waiting, self._session)
            patiently(known, "READ", group)
            self._begin_anew()
        except BaseException:
            self.close()
            raise

    def turn(self) -> bool:
        """Poll the group; return whether the partitions may have changed, so that `resume` must follow.

        Call it several times per session: the client sends heartbeats by itself, but rejoins only here. When
        topics have grown, a leader of kafka-python 3.0.12 rejoins. It forgets this in a poll that ends before
        it has joined, and then never sends heartbeats again. Therefore the rejoin is requested again.
        """
        if time.monotonic() - self._turned >= self._often:
            self._poll(0)
            deadline = time.monotonic() + self._session
            while not self._standing() and time.monotonic() < deadline:
                self._member._coordinator.request_rejoin()  # noqa: SLF001  see above
                self._poll(_TURN_MS)
            self._turned = time.monotonic()
        return self._standing() != self._stands

    def resume(
        self,
        begins: Callable[[], Mapping[Partition, int]],
        published: Callable[[], str],
        *,
        accepts_loss: bool,
    ) -> None:
        """Continue at the group's offset in each partition that this member currently owns.

        If the group has no offset for a partition, its first position is committed before any output is
        published.

        Args:
            begins: returns the first positions for partitions without an offset; the default is the earliest.
            published: returns the error message if members have published although the group has no offset
                at all; empty for a new group.
            accepts_loss: continue although records are gone.

        Raises:
            OutOfRange: records are gone.
            LogError: the broker does not return the group's offsets.
        """
        stands = self._standing()
        self._stands = ()
        found = {partition: self._committed(partition) for partition in (stands[1] if stands else ())}
        first: Mapping[Partition, int] = {}
        if None in found.values():
            # Read before the offsets: a concurrent member commits its offsets before it publishes.
            why = published()
            everywhere = [p for topic in self._topics for p in self._log.partitions(topic)]
            if why and all(self._committed(partition) is None for partition in everywhere):
                raise LogError(why)
            first = begins()
        extents = {
            p: at for topic in {p.topic for p in found} for p, at in self._log.offset_ranges(topic).items()
        }
        self.positions = {}
        for partition, noted in found.items():
            earliest, end = extents[partition]
            at = first.get(partition, earliest) if noted is None else noted
            if not earliest <= at <= end:
                if not accepts_loss:
                    raise OutOfRange(f"{partition} holds offsets {earliest} to {end}, not {at}")
                at = earliest
            self.positions[partition] = at
        self._log.seek(self.positions)
        self._stands = stands
        if None in found.values():
            self.commit([], [])

    def commit(self, outputs: Sequence[NewRecord], records: Sequence[Record]) -> float | None:
        """Publish outputs and commit positions atomically; return the seconds that it took.

        Return None if it failed or the outcome is unknown: then `turn` returns True, and `resume` continues.

        Raises LogError if a retry would fail again, and Unavailable if patience is exhausted.
        """
        began = time.monotonic()
        after = {**self.positions, **{record.partition: record.offset + 1 for record in records}}
        try:
            attempt = self._transactions.send(outputs, after, self._stands[0], "predictions")
            ended = attempt.await_outcome(self._patience.waiting)
        except Unavailable as error:
            self._stands, self.positions = (), {}
            if not isinstance(error.__cause__ and meant(error.__cause__), _BEYOND):
                self._failing = self._failing or began
                self._patience.unreachable(error, time.monotonic() - self._failing)
            self._begin_anew()
            return None
        if self._failing is not None:
            self._patience.reachable(ended - self._failing)
        self.positions, self._failing = after, None
        return ended - began

    def close(self) -> None:
        """Leave the group, so that the other members need not wait for the session to expire."""
        with contextlib.suppress(errors.KafkaError):
            self._member.close()
        self._transactions.close()

    def _begin_anew(self) -> None:
        """End the transaction that may be open, and prepare for the next."""
        begin = self._transactions.begin_anew
        self._patiently(lambda: begin(self._patience.waiting), "WRITE", self._group)

    def _standing(self) -> tuple[Any, ...]:
        """Return the membership and its partitions; empty while the group is not stable."""
        membership = self._member.group_metadata()
        if membership.state != MemberState.STABLE or not membership.member_id:
            return ()
        return membership, frozenset(Partition(*place) for place in self._member.assignment())

    def _poll(self, wait_ms: int) -> None:
        """Poll the client, which must read nothing; if no broker answers, other calls enforce the timeout."""
        with contextlib.suppress(Unavailable), translated("READ", self._group):
            self._member.poll(timeout_ms=wait_ms)
        if unpaused := self._member.assignment() - self._member.paused():
            self._member.pause(*unpaused)
        self._patience.waiting()

    def _committed(self, partition: Partition) -> int | None:
        """Return the group's offset, after an open transaction of a departed member has ended."""
        place, seconds = TopicPartition(*partition), self._timeout + GRACE_SECONDS

        def ask() -> Any:
            return self._member.committed(place, timeout_ms=int(seconds * 1000))

        question = partial(call_blocking, ask, self._patience.waiting)
        found: int | None = self._patiently(question, "READ", self._group)
        return found
