"""Members of a group share the partitions of topics, and publish exactly once what they make of them.

A *member* of the group is told which partitions are its own; it reads nothing. The log's reader does, from
the group's offsets on, and these move in the transaction that publishes what was made of the records
(KIP-447):

* The broker refuses offsets that come with a membership which the group has gone beyond: a member that stood
  still publishes nothing of what is another's by now.
* Where a member falls silent after that check, its offsets are pending, and whoever has the partition next is
  told none until its transaction is settled: by itself, or by the broker after the timeout.

So a transaction of which the outcome is unknown needs no answer: a new producer of its id settles it, and the
group's offsets say where to go on.
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

from streamnb.adapters.blocking_call import call_blocking
from streamnb.adapters.kafka.clients import Claim, Clients
from streamnb.adapters.kafka.error_actions import meant
from streamnb.adapters.kafka.error_texts import translated
from streamnb.adapters.kafka.library import Library, Patiently
from streamnb.adapters.kafka.open_transactions import GRACE_SECONDS
from streamnb.adapters.kafka.transactions import Transactions
from streamnb.engine.ports import Log, NewRecord, Partition, Patience, Record
from streamnb.errors import LogError, OutOfRange, Unavailable

_TURN_MS = 100
_TOPICS_MS = 5_000  # after which partitions that were added are known
_BEYOND = (
    errors.CommitFailedError,
    errors.IllegalGenerationError,
    errors.UnknownMemberIdError,
    errors.ProducerFencedError,
    errors.InvalidProducerEpochError,
)
"""The group, or the broker, has gone on without this member; nothing was published."""


class Sharing:
    """One member; it joins when it is made, and leaves by `close`.

    Args:
        log: reads; nobody else seeks or polls it.
        clients, library: make the member, and the producer.
        group: its name; the transactional id is that of a new producer, and begins so.
        topics: whose partitions are shared.
        owner: who this is, for people who list the group.
        timeouts: of a session and of a transaction, seconds.
        patience: what to do while the cluster cannot be reached.
        patiently: asks by it.

    Attributes:
        positions: the partitions that are its own, and where each goes on.
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
        patience: Patience,
        patiently: Patiently,
    ) -> None:
        self._log, self._group, self._topics = log, group, topics
        self._patience, self._patiently = patience, patiently
        self._session, self._timeout = timeouts
        self._often, self._turned = min(1.0, self._session / 5), -self._session
        self._stands: tuple[Any, ...] = ()  # the membership, and the partitions that came with it
        self._failing: float | None = None
        self.positions: dict[Partition, int] = {}
        claim = Claim()
        soon = {"metadata_max_age_ms": _TOPICS_MS}
        member = partial(clients.member, group, owner, self._session, claim, **soon)
        self._member = patiently(member, "READ", group)
        self._transactions = Transactions(library, f"{group}.{uuid4().hex}", self._timeout)
        try:
            self._member.subscribe(list(topics), listener=claim)
            # A leader that learns of a topic later may never settle: see Election.
            known = partial(call_blocking, self._member.topics, patience.waits, self._session)
            patiently(known, "READ", group)
            self._begin_anew()
        except BaseException:
            self.close()
            raise

    def turn(self) -> bool:
        """Take part in the group's life; whether its partitions may be others now: then `resume` comes next.

        Several times a session: the client heartbeats by itself, and joins again only here. Where topics have
        grown a leader of kafka-python 3.0.12 joins again, and forgets that it does in a poll that ends before
        it has joined: it never heartbeats again. So it is reminded.
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
        """Go on where the group stands in each partition that is this member's by now.

        Where it has no offset of one, the first is noted before anything is published: from then on each has.

        Args:
            begins: where partitions begin of which the group has no offset; others do with their earliest.
            published: what to say where members have published, and the group has no offset at all; or
                nothing, as of a group that is new.
            accepts_loss: go on where records are gone.

        Raises:
            OutOfRange: records are gone.
            LogError: the broker does not say where the group stands.
        """
        stands = self._standing()
        self._stands = ()
        found = {partition: self._committed(partition) for partition in (stands[1] if stands else ())}
        first: Mapping[Partition, int] = {}
        if None in found.values():
            why = published()  # asked before the offsets, for others begin meanwhile, and note theirs first
            everywhere = [p for topic in self._topics for p in self._log.partitions(topic)]
            if why and all(self._committed(partition) is None for partition in everywhere):
                raise LogError(why)
            first = begins()
        extents = {p: at for topic in {p.topic for p in found} for p, at in self._log.extents(topic).items()}
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
        """Publish what was made of some records, and be past them: both or neither; the seconds that it took.

        None where that failed, or nobody knows: then `turn` says so, and `resume` finds out.

        Raises LogError where it would fail again, and Unavailable where patience is at its end.
        """
        began = time.monotonic()
        after = {**self.positions, **{record.partition: record.offset + 1 for record in records}}
        try:
            attempt = self._transactions.send(outputs, after, self._stands[0], "predictions")
            ended = attempt.settle(self._patience.waits)
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
        """Leave the group, so that others need not wait."""
        with contextlib.suppress(errors.KafkaError):
            self._member.close()
        self._transactions.close()

    def _begin_anew(self) -> None:
        """Settle the transaction that may be open, and be ready for the next."""
        begin = self._transactions.begin_anew
        self._patiently(lambda: begin(self._patience.waits), "WRITE", self._group)

    def _standing(self) -> tuple[Any, ...]:
        """As whom it takes part, and with which partitions; empty while the group has not settled."""
        membership = self._member.group_metadata()
        if membership.state != MemberState.STABLE or not membership.member_id:
            return ()
        return membership, frozenset(Partition(*place) for place in self._member.assignment())

    def _poll(self, wait_ms: int) -> None:
        """A turn of the client, which is to read nothing. Where nobody answers others see to the waiting."""
        with contextlib.suppress(Unavailable), translated("READ", self._group):
            self._member.poll(timeout_ms=wait_ms)
        if unpaused := self._member.assignment() - self._member.paused():
            self._member.pause(*unpaused)
        self._patience.waits()

    def _committed(self, partition: Partition) -> int | None:
        """The group's offset; waits for a transaction that is open, of a member that is gone."""
        place, seconds = TopicPartition(*partition), self._timeout + GRACE_SECONDS

        def ask() -> Any:
            return self._member.committed(place, timeout_ms=int(seconds * 1000))

        question = partial(call_blocking, ask, self._patience.waits)
        found: int | None = self._patiently(question, "READ", self._group)
        return found
