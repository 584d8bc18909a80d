"""Whose open transaction the readers of a partition wait behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kafka import TopicPartition, errors

from streamnb.adapters.kafka.tool_line import ToolLine

GRACE_SECONDS = 30.0
"""Beyond its timeout an open transaction is a hanging one. A broker looks every 10 s for those to abort, and
writes the markers after that: one that gets little processor takes its time."""


class OpenedBy(NamedTuple):
    """Who has a transaction open on a partition: the id is empty where this user may not see it."""

    transactional_id: str
    producer: int
    first: int


def open_transactions(admin: Any, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, OpenedBy]:
    """The first open transaction on each of the partitions that has one."""
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


def waits(place: TopicPartition, stable: int, end: int, opened: OpenedBy | None, line: ToolLine) -> str:
    """Up to which offset of `end` a partition can be read, who is the cause, and how to look and end it."""
    where = ("--topic", place.topic, "--partition", str(place.partition))
    name = f"{place.topic}/{place.partition} waits at offset {stable} of {end} behind an open transaction"
    look = line("kafka-transactions.sh", "find-hanging", *where)
    if opened is None:
        return f"{name}; look: {look}"
    who = f"{opened.transactional_id!r}, producer " if opened.transactional_id else ""
    end_it = abort_line(place, opened.first, line)
    return f"{name} ({who}{opened.producer}); look: {look}; where its producer is gone, end it: {end_it}"


def abort_line(place: TopicPartition, first: int, line: ToolLine) -> str:
    """The line that aborts, on one partition, what is open there since an offset."""
    where = ("--topic", place.topic, "--partition", str(place.partition))
    return line("kafka-transactions.sh", "abort", *where, "--start-offset", str(first))
