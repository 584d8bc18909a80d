"""Find the open transactions that hold the readers of a partition back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kafka import TopicPartition, errors

from streamnb.event_logs.kafka.tool_command import ToolCommand

GRACE_SECONDS = 30.0
"""Extra time after its timeout until an open transaction counts as hanging. A broker checks for expired
transactions every 10 s and then writes the markers, which takes longer on a busy machine.
"""


class OpenedBy(NamedTuple):
    """The open transaction of a partition; its id is empty if hidden from this user."""

    transactional_id: str
    producer: int
    first: int


def open_transactions(admin: Any, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, OpenedBy]:
    """Return the first open transaction of each partition that has one."""
    found = {}
    for place, described in admin.describe_producers(places).items():
        opened = [
            (one.current_transaction_start_offset, one.producer_id)
            for one in described.active_producers
            if one.current_transaction_start_offset >= 0
        ]
        if opened:
            first, producer = min(opened)
            found[place] = OpenedBy(_name(admin, producer), producer, first)
    return found


def _name(admin: Any, producer: int) -> str:
    try:
        listed = admin.list_transactions(producer_id_filters=[producer])
    except errors.KafkaError:
        return ""  # an older broker, or hidden from this user
    names = [one.transactional_id for of_broker in listed.values() for one in of_broker]
    return names[0] if names else ""


def waits(place: TopicPartition, stable: int, end: int, opened: OpenedBy | None, line: ToolCommand) -> str:
    """Return a line: how far a partition can be read, the open transaction, and how to end it."""
    where = ("--topic", place.topic, "--partition", str(place.partition))
    name = f"{place.topic}/{place.partition} waits at offset {stable} of {end} behind an open transaction"
    look = line("kafka-transactions.sh", "find-hanging", *where)
    if opened is None:
        return f"{name}; look: {look}"
    who = f"{opened.transactional_id!r}, producer " if opened.transactional_id else ""
    end_it = abort_line(place, opened.first, line)
    return f"{name} ({who}{opened.producer}); look: {look}; where its producer is gone, end it: {end_it}"


def abort_line(place: TopicPartition, first: int, line: ToolCommand) -> str:
    """Return the command that aborts the transaction open on a partition since an offset."""
    where = ("--topic", place.topic, "--partition", str(place.partition))
    return line("kafka-transactions.sh", "abort", *where, "--start-offset", str(first))
