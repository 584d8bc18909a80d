"""End a transaction whose end markers a broker has lost.

When a transaction is decided, its coordinator has a marker written to each of its partitions. Apache Kafka up
to 4.3.1 skips a partition without a leader at that moment, as if it were deleted ("likely deleted already and
hence can be skipped"). A single broker that is killed within a commit and restarted has no leaders for a
moment. The transaction is then complete, but its records stay unreadable.

A producer of the same id still has the producer id under which they were written. It ends them by a
transaction without records that includes those partitions: its markers apply to everything open there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from kafka import TopicPartition, errors

from streamnb.event_logs.kafka.kafka_clients import NO_COORDINATOR_YET, forget_coordinators
from streamnb.event_logs.kafka.open_transactions import abort_line
from streamnb.event_logs.kafka.tool_command import ToolCommand

_COMMITTED = "PrepareCommit", "CompleteCommit"
_HIDDEN = (  # hidden from this user, or unknown to an older broker
    errors.UnsupportedVersionError,
    errors.IncompatibleBrokerVersion,
    errors.TransactionalIdAuthorizationFailedError,
    errors.TransactionalIdNotFoundError,
    errors.TopicAuthorizationFailedError,
    errors.UnknownTopicOrPartitionError,
)
_BEGINS_SECONDS, _TURN_SECONDS = 10.0, 0.1


class LastTransaction(NamedTuple):
    """The producer of an id, and whether its last transaction was committed.

    The coordinator forgets both when another producer of the id begins.
    """

    producer: int
    committed: bool


def last_transaction(admin: Any, transactional_id: str, alive: Callable[[], None]) -> LastTransaction | None:
    """Return the last transaction of an id; None if there was none or it is hidden.

    Wait for a coordinator that is starting: before the first request its topic does not exist.
    """
    deadline = time.monotonic() + _BEGINS_SECONDS
    while True:
        try:
            (found,) = admin.describe_transactions([transactional_id]).values()
        except _HIDDEN:
            return None
        except NO_COORDINATOR_YET:
            if time.monotonic() > deadline:
                raise
            forget_coordinators(admin)
            alive()
            time.sleep(_TURN_SECONDS)
        else:
            return LastTransaction(found.producer_id, found.state.value in _COMMITTED)


def left_open(admin: Any, producer: int, topics: Collection[str]) -> dict[TopicPartition, int]:
    """Return the partitions on which a producer has an open transaction, with its first offset.

    A transaction open among the group's offsets is ended by the next commit.
    """
    found = {}
    for topic in admin.describe_topics(sorted(topics)):
        places = [TopicPartition(topic["name"], one["partition_index"]) for one in topic["partitions"]]
        with suppress(*_HIDDEN):
            for place, described in admin.describe_producers(places).items():
                for one in described.active_producers:
                    if one.producer_id == producer and one.current_transaction_start_offset >= 0:
                        found[place] = one.current_transaction_start_offset
    return found


def commit_again(producer: Any, places: Collection[TopicPartition]) -> None:
    """Write markers to partitions, by a new kafka-python producer of the id."""
    producer.init_transactions()
    producer.begin_transaction()
    for place in places:
        # kafka-python publishes no way to add a partition without a record.
        producer._transaction_manager.maybe_add_partition_to_transaction(place)  # noqa: SLF001
    producer.commit_transaction()


def abort_by_hand(name: str, places: Mapping[TopicPartition, int], line: ToolCommand) -> str:
    """Return the message for a transaction that was aborted, or whose outcome is unknown."""
    ends = [abort_line(place, offset, line) for place, offset in sorted(places.items())]
    return (
        f"a broker has lost the end of the last transaction of {name}, and does not report that it was "
        f"committed; abort it on each of its partitions, then start again: {'; '.join(ends)}"
    )
