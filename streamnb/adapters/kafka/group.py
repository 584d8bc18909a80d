"""Who is in a learner's consumer group, as its coordinator describes it, and how that is told."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kafka import TopicPartition
from kafka.structs import ConsumerGroupMetadata, MemberState

from streamnb.adapters.kafka.tool_line import ToolLine

_LEARNER = "streamnb-"
_FORMER = re.compile(r"\S+:\d+")  # HOST:PID, as learners called themselves before they said what they are


class GroupMember(NamedTuple):
    """A member of a group, and the partitions that it was given."""

    id: str
    client: str
    host: str
    has: frozenset[TopicPartition]

    def __str__(self) -> str:
        return f"{owner_of(self.client)} at {self.host}"


def nobody_in(group: str) -> ConsumerGroupMetadata:
    """What a consumer says of a group that it has not joined."""
    return ConsumerGroupMetadata(group, -1, "", None, MemberState.UNJOINED)


def client_id_of(owner: str) -> str:
    """What a learner calls itself before a cluster."""
    return _LEARNER + owner


def owner_of(client: str) -> str:
    """Who calls itself so, as people know it."""
    return client.removeprefix(_LEARNER)


def is_learner(client: str) -> bool:
    """Whether a member that calls itself so is a learner."""
    return client.startswith(_LEARNER) or _FORMER.fullmatch(client) is not None


def members_of(group: Mapping[str, Any]) -> Sequence[GroupMember]:
    """The members of a group that kafka-python has described."""
    return [
        GroupMember(
            member["member_id"],
            member["client_id"],
            member["client_host"].removeprefix("/"),
            frozenset(_given(member["member_assignment"])),
        )
        for member in group["members"]
    ]


def _given(assignment: Any) -> Iterator[TopicPartition]:
    """What a member of another protocol was given stays undecoded."""
    if isinstance(assignment, Mapping):
        for part in assignment["assigned_partitions"]:
            yield from (TopicPartition(part["topic"], number) for number in part["partitions"])


def strangers(group: str, members: Sequence[GroupMember], line: ToolLine) -> str:
    """That consumers which are no learners are in the group of one, who they are, and what to do."""
    found = ", ".join(f"client {member}" for member in members if not is_learner(member.client))
    look = line("kafka-consumer-groups.sh", "--describe", "--group", group, "--members")
    return (
        f"no learner can be elected: group {group} has a member that is none ({found or 'gone since'}); "
        f"give that another group.id, or this model another model.name; look: {look}"
    )
