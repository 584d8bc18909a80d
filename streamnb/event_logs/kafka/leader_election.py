"""Leader election: the consumer group assigns the journal's one partition to one of its members.

The election serves liveness only. Safety between two learners that both consider themselves elected comes
from the transactional id.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from kafka import TopicPartition, errors
from kafka.structs import MemberState

from streamnb.errors import Fenced, LogError, NotElected, Unavailable
from streamnb.event_logs.blocking_call import call_blocking
from streamnb.event_logs.kafka.consumer_group import GroupMember, is_learner, members_of, strangers
from streamnb.event_logs.kafka.error_messages import translated
from streamnb.event_logs.kafka.kafka_clients import MAX_POLL_INTERVAL, Claim, Clients

_POLL_MS = 100
_MOST_PATIENT = 40.0  # seconds: a hanging member delays an election by its max_poll_interval, 30 s
_LATELY = 60.0  # seconds within which a stalled member learns that it was expired
_SETTLED = "Stable"


class Election:
    """One member of the group; it joins on construction and leaves by `close`.

    Args:
        clients: makes the member.
        admin: admin client, to describe the group.
        group: the group's name.
        topic: the journal's topic, to which the group subscribes.
        owner: name of this learner in listings of the group.
        session_timeout: seconds of silence after which the broker reassigns the partition.
        alive: heartbeat callback, called at every poll because an election may last long.
    """

    def __init__(
        self,
        clients: Clients,
        admin: Any,
        group: str,
        topic: str,
        owner: str,
        session_timeout: float,
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        self._admin, self._group = admin, group
        self._prize = TopicPartition(topic, 0)
        self._patience = session_timeout
        self._alive = alive
        self._often = min(1.0, session_timeout / 5)
        self._line = clients.line
        self._claim = Claim()
        self._member = clients.member(group, owner, session_timeout, self._claim)
        try:
            self._stand()
        except BaseException:
            self.close()
            raise
        self._won_as = ""  # the member id that was elected
        self._turned = self._settled = time.monotonic()
        self._still = 0.0, -math.inf  # length of the last stall of at least half a session, and its end
        self.membership: Any = None
        """Group metadata of the last poll. Each commit sends it, and the broker refuses outdated metadata."""

    def win(self, within: float) -> None:
        """Wait to be elected for at most `within` seconds. Raises `NotElected`."""
        deadline = time.monotonic() + within
        while not self._is_elected():
            now = time.monotonic()
            if self._state() != MemberState.REBALANCING:
                self._settled = now
            elif now - self._settled > _MOST_PATIENT:
                self._stand_again()
            if now > deadline:
                raise NotElected(f"{self._group}: {self._obstacle()}")
            self._turn(_POLL_MS)
        self._won_as = self.membership.member_id

    def beat(self) -> None:
        """Poll the group a few times per session. Raises `Fenced` if the election is lost.

        The client sends heartbeats by itself, but rejoins only in `poll`, and completes a join only in the
        poll that waited for it: polls that do not wait would rejoin again and again and keep the group from
        stabilizing. Therefore a beat lasts until the group is stable.
        """
        if time.monotonic() - self._turned >= self._often:
            self._beat()

    def _beat(self) -> None:
        self._turn(0)
        deadline = time.monotonic() + self._patience
        while self._state() != MemberState.STABLE and time.monotonic() < deadline:
            if not self._is_elected():
                break
            self._turn(_POLL_MS)
        if not self._is_elected() or self.membership.member_id != self._won_as:
            raise self._lost()

    def prove(self) -> None:
        """Confirm with the broker that this member is elected, because its own view may be outdated.

        Raises:
            Fenced: another member is elected, or the group has not stabilized within a session.
            Unavailable: the broker cannot answer now.
        """
        deadline = time.monotonic() + self._patience
        while True:
            self._beat()
            is_settled, members = self._described()
            self._refuse_namesakes(members)
            holder = self._holder(members)
            if is_settled and holder is not None and holder.id == self._won_as:
                return
            if is_settled or time.monotonic() > deadline:
                raise self._lost()
            time.sleep(_POLL_MS / 1000)

    def _described(self) -> tuple[bool, Sequence[GroupMember]]:
        """Return whether the group is stable, and its members, from the broker. Raises `Unavailable`."""
        with translated("READ", self._group):
            group = self._admin.describe_groups([self._group])[self._group]
        if group["error"] is not None:
            raise Unavailable(f"group {self._group}: {group['error']}")
        return group["group_state"] == _SETTLED, members_of(group)

    def _refuse_namesakes(self, members: Sequence[GroupMember]) -> None:
        """Raise LogError if a learner of another journal uses this name: the two would fence each other."""
        for member in members:
            for other in sorted({place.topic for place in member.has} - {self._prize.topic}):
                if not is_learner(member.client):
                    raise LogError(strangers(self._group, members, self._line))
                raise LogError(
                    f"{self._group} is also the name of a learner of journal {other} "
                    f"({member}): give each model of a cluster a model.name of its own"
                )

    def _holder(self, members: Sequence[GroupMember]) -> GroupMember | None:
        return next((member for member in members if self._prize in member.has), None)

    def _seen(self) -> Sequence[GroupMember] | None:
        """Return the members for messages; None while the group is unstable or cannot be described."""
        with contextlib.suppress(LogError):
            is_settled, members = call_blocking(self._described, self._alive, self._patience)
            return members if is_settled or not members else None
        return None

    def _obstacle(self) -> str:
        members = self._seen() if self._state() == MemberState.STABLE else None
        holder = self._holder(members or ())
        if members is None or holder is None:
            return "the election is not over yet"
        if not is_learner(holder.client):
            return strangers(self._group, members, self._line)
        return f"another learner is alive ({holder})"

    def _lost(self) -> Fenced:
        members = self._seen()
        holder = self._holder(members or ())
        other = holder is not None and holder.id not in {
            self._won_as,
            self._member.group_metadata().member_id,
        }
        unsettled = "no other member was elected" if members is not None else "the election is not settled"
        end = f"{holder} has taken over" if other else unsettled
        return Fenced(f"this learner of {self._group} lost the election: {end}; {self._cause(members)}")

    def _cause(self, members: Sequence[GroupMember] | None) -> str:
        """Return the probable cause and the remedy; a current member was not expired by the broker."""
        still, until = self._still
        if time.monotonic() - until < _LATELY:
            why = f"this process stood still for {still:.1f} s, and a session lasts {self._patience:g} s"
        elif members is None:
            why = "it was removed from the group, or no broker answers"
        elif any(member.id == self._won_as for member in members):
            look = self._line("kafka-consumer-groups.sh", "--describe", "--group", self._group, "--members")
            return (
                "its heartbeats arrived, but the members of the group claimed the journal again; "
                f"start it again; if that happens often, list the members that join and leave: {look}"
            )
        else:
            why = (
                f"no heartbeat reached a broker for {self._patience:g} s: it was cut off, or the broker was "
                "silent, or an operator removed it from the group"
            )
        return f"{why}; start it again, and raise log.session_timeout if that happens often"

    def close(self) -> None:
        """Leave the group, so that a successor need not wait."""
        with contextlib.suppress(errors.KafkaError):
            self._member.close()

    def _stand(self) -> None:
        """Subscribe; the next poll joins.

        The topic must be known first. A leader that discovers it later rejoins, and if the current poll has
        timed out, the client never completes that join and stops sending heartbeats.
        """
        self._member.subscribe([self._prize.topic], listener=self._claim)
        with translated():  # waits as long as needed
            call_blocking(self._member.topics, self._alive, self._patience)

    def _stand_again(self) -> None:
        """Leave and rejoin after an election that lasts longer than any single member may delay it."""
        self._settled = time.monotonic()
        with contextlib.suppress(Unavailable), translated():
            self._member.unsubscribe()
            self._stand()

    def _turn(self, wait_ms: int) -> None:
        if (still := time.monotonic() - self._turned) > min(self._patience, MAX_POLL_INTERVAL) / 2:
            self._still = still, time.monotonic()
        # Without a reachable broker no election takes place; the readers and the committer enforce the
        # timeout.
        with contextlib.suppress(Unavailable), translated("READ"):
            self._poll(wait_ms)
        self._turned = time.monotonic()
        self._alive()
        if assigned := self._member.assignment() - self._member.paused():
            self._member.pause(*assigned)
        self.membership = self._member.group_metadata()

    def _poll(self, wait_ms: int) -> None:
        try:
            self._member.poll(timeout_ms=wait_ms)
        except (
            errors.InconsistentGroupProtocolError
        ) as error:  # from consumers with another assignment protocol
            _, members = self._described()
            raise LogError(strangers(self._group, members, self._line)) from error

    def _is_elected(self) -> bool:
        return self._prize in self._member.assignment() and bool(
            self.membership and self.membership.member_id
        )

    def _state(self) -> str:
        return str(self._member.group_metadata().state)
