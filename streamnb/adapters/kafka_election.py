"""Which learner may try: the consumer group gives the journal's one partition to one of its members.

The election is for liveness alone. That two learners which both think they are elected do no harm is the
transactional id's affair.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kafka import TopicPartition, errors
from kafka.structs import MemberState

from streamnb.adapters.kafka_clients import Clients
from streamnb.adapters.kafka_errors import translated
from streamnb.errors import Fenced, LogError, NotElected, Unavailable

__all__ = ["Election"]

_POLL_MS = 100
_MOST_PATIENT = 40.0  # seconds: a member that hangs holds an election up for its max_poll_interval, 30 s
_SETTLED = "Stable"


class Election:
    """One member of the group; it joins when it is made, and leaves by `close`.

    Args:
        clients: makes the member.
        admin: a client that can ask the broker about the group.
        group: the group's name.
        topic: the journal's topic; the group subscribes to it.
        owner: who this is, for people who list the group.
        session_timeout: seconds of silence after which the broker gives the partition to another.
        alive: called at every turn: an election may take longer than anybody would take for a sign of life.
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
        self._admin = admin
        self._group = group
        self._prize = TopicPartition(topic, 0)
        self._patience = session_timeout
        self._alive = alive
        self._often = min(1.0, session_timeout / 5)
        self._member = clients.member(group, owner, session_timeout)
        self._member.subscribe([topic])
        # Know the topic before joining: a leader that learns of it later joins again, and where the poll at
        # hand is at its end the client never takes note of that, nor heartbeats any more.
        with translated():
            self._member.topics()
        self._won_as = ""  # the member id that was elected
        self._turned = 0.0
        self._settled = time.monotonic()
        self.membership: Any = None
        """Of the last turn; it goes with every commit, and the broker refuses one that is out of date."""

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
                joined = self._state() == MemberState.STABLE
                why = "another learner is alive" if joined else "the election is not over yet"
                raise NotElected(f"{self._group}: {why}")
            self._turn(_POLL_MS)
        self._won_as = self.membership.member_id

    def beat(self) -> None:
        """Take part in the group's life, a few times a session. Raises `Fenced` where the election is lost.

        The client heartbeats by itself, but joins again only in `poll`; and it takes note of having joined
        only in the poll that was waiting for it: polls that do not wait would join again and again, and keep
        the whole group from settling. So a turn goes on until the group is stable.
        """
        if time.monotonic() - self._turned < self._often:
            return
        self._turn(0)
        deadline = time.monotonic() + self._patience
        while self._state() != MemberState.STABLE and time.monotonic() < deadline:
            if not self._is_elected():
                break
            self._turn(_POLL_MS)
        if not self._is_elected() or self.membership.member_id != self._won_as:
            raise Fenced(f"this learner of {self._group} lost the election")

    def prove(self) -> None:
        """Let the broker confirm who is elected, for what this member knows may be old.

        Raises:
            Fenced: it is another, or the group has not settled within a session.
            Unavailable: the broker cannot say now.
        """
        deadline = time.monotonic() + self._patience
        while True:
            self._turned = 0.0
            self.beat()
            with translated():
                group = self._admin.describe_groups([self._group])[self._group]
            if group["error"] is not None:
                raise Unavailable(f"group {self._group}: {group['error']}")
            self._refuse_namesakes(group)
            if group["group_state"] == _SETTLED and self._holder(group) == self._won_as:
                return
            if group["group_state"] == _SETTLED or time.monotonic() > deadline:
                raise Fenced(f"this learner of {self._group} lost the election")
            time.sleep(_POLL_MS / 1000)

    def _refuse_namesakes(self, group: Mapping[str, Any]) -> None:
        """Raises LogError where a learner of another journal has this name: they would fence each other."""
        for place, member in _assigned(group):
            if place.topic != self._prize.topic:
                raise LogError(
                    f"{self._group} is also the name of a learner of journal {place.topic} "
                    f"({member['client_id']}): give each model of a cluster a model.name of its own"
                )

    def _holder(self, group: Mapping[str, Any]) -> str | None:
        """The member id of whoever has the journal's partition."""
        return next((member["member_id"] for place, member in _assigned(group) if place == self._prize), None)

    def close(self) -> None:
        """Leave the group, so that a successor need not wait."""
        with contextlib.suppress(errors.KafkaError):
            self._member.close()

    def _stand_again(self) -> None:
        """Leave and join anew, where an election takes longer than any member may hold it up."""
        self._settled = time.monotonic()
        topics = self._member.subscription()
        self._member.unsubscribe()
        self._member.subscribe(topics)

    def _turn(self, wait_ms: int) -> None:
        # While nobody answers nobody is elected either; those who read and commit see to the waiting.
        with contextlib.suppress(Unavailable), translated("READ"):
            self._member.poll(timeout_ms=wait_ms)
        self._turned = time.monotonic()
        self._alive()
        if assigned := self._member.assignment() - self._member.paused():
            self._member.pause(*assigned)
        self.membership = self._member.group_metadata()

    def _is_elected(self) -> bool:
        return self._prize in self._member.assignment() and bool(
            self.membership and self.membership.member_id
        )

    def _state(self) -> str:
        return str(self._member.group_metadata().state)


def _assigned(group: Mapping[str, Any]) -> Iterator[tuple[TopicPartition, Mapping[str, Any]]]:
    """Each partition that a described group has given out, and the member that has it."""
    for member in group["members"]:
        for part in (member["member_assignment"] or {}).get("assigned_partitions", ()):
            for number in part["partitions"]:
                yield TopicPartition(part["topic"], number), member
