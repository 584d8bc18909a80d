"""Members of a learner's consumer group, as described by its coordinator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kafka import TopicPartition
from kafka.structs import ConsumerGroupMetadata, MemberState

from streamnb.event_logs.kafka.tool_command import ToolCommand

_LEARNER = "streamnb-"


class GroupMember(NamedTuple):
    """A group member and its assigned partitions."""

    id: str
    client: str
    host: str
    has: frozenset[TopicPartition]

    def __str__(self) -> str:
        return f"{owner_of(self.client)} at {self.host}"


def nobody_in(group: str) -> ConsumerGroupMetadata:
    """Return the metadata that a consumer reports before it joins a group."""
    return ConsumerGroupMetadata(group, -1, "", None, MemberState.UNJOINED)


def client_id_of(owner: str) -> str:
    """Return the client id of a learner."""
    return _LEARNER + owner


def owner_of(client: str) -> str:
    """Return the owner's name in a client id."""
    return client.removeprefix(_LEARNER)


def is_learner(client: str) -> bool:
    """Return whether a client id belongs to a learner."""
    return client.startswith(_LEARNER)


def members_of(group: Mapping[str, Any]) -> Sequence[GroupMember]:
    """Return the members of a group described by kafka-python."""
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
    """Yield the assigned partitions; assignments of other protocols are not decoded and yield nothing."""
    if isinstance(assignment, Mapping):
        for part in assignment["assigned_partitions"]:
            yield from (TopicPartition(part["topic"], number) for number in part["partitions"])


def strangers(group: str, members: Sequence[GroupMember], line: ToolCommand) -> str:
    """Return the message that a learner's group contains other consumers, which they are, and the remedy."""
    found = ", ".join(f"client {member}" for member in members if not is_learner(member.client))
    look = line("kafka-consumer-groups.sh", "--describe", "--group", group, "--members")
    return (
        f"no learner can be elected: group {group} has a member that is none ({found or 'gone since'}); "
        f"give that another group.id, or this model another model.name; look: {look}"
    )
