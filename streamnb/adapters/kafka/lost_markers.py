"""Ending a transaction whose end a broker has lost.

When a transaction is decided, its coordinator has a marker written to each of its partitions. Apache Kafka up
to 4.3.1 leaves out one that has no leader at that moment, as if it were deleted ("likely deleted already and
hence can be skipped"). A broker that is alone, is killed within a commit and starts again has no leaders for
an instant. Then the transaction is over, and its records can be read by nobody.

A producer of the same id still has the producer id under which they were written. It ends them by a
transaction without records, to which those partitions belong: its markers hold for all that is open there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from kafka import TopicPartition, errors

from streamnb.adapters.kafka.clients import NO_COORDINATOR_YET, forget_coordinators
from streamnb.adapters.kafka.open_transactions import abort_line
from streamnb.adapters.kafka.tool_line import ToolLine

_COMMITTED = "PrepareCommit", "CompleteCommit"
_HIDDEN = (  # from this user, or an older broker cannot say it
    errors.UnsupportedVersionError,
    errors.IncompatibleBrokerVersion,
    errors.TransactionalIdAuthorizationFailedError,
    errors.TransactionalIdNotFoundError,
    errors.TopicAuthorizationFailedError,
    errors.UnknownTopicOrPartitionError,
)
_BEGINS_SECONDS, _TURN_SECONDS = 10.0, 0.1


class Last(NamedTuple):
    """What the coordinator says of an id: its producer, and whether its last transaction was committed.

    Of that it knows nothing any more once another producer of the id has begun.
    """

    producer: int
    committed: bool


def last_transaction(admin: Any, transactional_id: str, alive: Callable[[], None]) -> Last | None:
    """Of an id; None where there was none, or nobody says it.

    A coordinator that is about to begin is waited for: where nobody has asked yet, it has no topic.
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
            return Last(found.producer_id, found.state.value in _COMMITTED)


def left_open(admin: Any, producer: int, topics: Collection[str]) -> dict[TopicPartition, int]:
    """The partitions of some topics on which a producer has something open, and since which offset.

    What is open among the group's offsets the next commit ends.
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
    """Have markers written to partitions, by a new kafka-python producer of the id."""
    producer.init_transactions()
    producer.begin_transaction()
    for place in places:
        # kafka-python publishes no way to add a partition without a record.
        producer._transaction_manager.maybe_add_partition_to_transaction(place)  # noqa: SLF001
    producer.commit_transaction()


def abort_by_hand(name: str, places: Mapping[TopicPartition, int], line: ToolLine) -> str:
    """What is left to do where it was aborted, or nobody knows how it ended."""
    ends = [abort_line(place, offset, line) for place, offset in sorted(places.items())]
    return (
        f"a broker has lost the end of the last transaction of {name}, and does not say that it was "
        f"committed; abort it on each of its partitions, then start again: {'; '.join(ends)}"
    )
