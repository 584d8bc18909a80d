"""Count offsets that hold neither a record nor the end of a transaction.

A reader of committed records sees a gap at each end of a transaction, in place of aborted records, and where
compaction has removed records. Only the headers of record batches distinguish them: a control batch is the
end of a transaction, and a compacted batch spans more offsets than it has records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafka import TopicPartition, errors
from kafka.protocol.consumer import FetchRequest
from kafka.record import MemoryRecords

_READ_UNCOMMITTED = 0  # with aborted records
_WAIT_MS = 100
_TOPIC_NAMES = 12  # the last version of a request by name instead of id


def missing_offsets(
    admin: Any, place: TopicPartition, first: int, end: int, most_bytes: int
) -> tuple[int, int]:
    """Return how many offsets from `first` on are missing, and the offset up to which they were counted.

    It is `end`, or less if `most_bytes` were fetched before.
    """
    missing, size, begin = 0, 0, first
    while begin < end and size < most_bytes:
        records = bytes(_fetched(admin, place, begin, most_bytes))
        size += len(records)
        reached = begin
        for batch in _batches(records):
            if batch.base_offset >= end:
                return missing + end - reached, end
            if batch.next_offset > reached:
                missing += max(0, batch.base_offset - reached)
                missing += _missing_in(batch, max(reached, batch.base_offset), min(end, batch.next_offset))
                reached = min(end, batch.next_offset)
        if reached == begin:  # nothing else is held
            return missing + end - reached, end
        begin = reached
    return missing, min(begin, end)


def _batches(records: bytes) -> Iterator[Any]:
    found = MemoryRecords(records)
    while found.has_next():
        yield found.next_batch()


def _missing_in(batch: Any, first: int, end: int) -> int:
    """Return how many offsets of a part of a batch have no record."""
    if batch.is_control_batch:
        return 0
    if (first, end) == (batch.base_offset, batch.next_offset):
        return int(end - first - batch.records_count)
    return end - first - sum(1 for record in batch if first <= record.offset < end)


def _fetched(admin: Any, place: TopicPartition, offset: int, most_bytes: int) -> Any:
    """Return the batches from an offset on; kafka-python publishes no way to read them."""
    manager = admin._manager  # noqa: SLF001

    async def ask() -> Any:
        (leader,) = await admin._async_get_leader_for_partitions([place])  # noqa: SLF001
        part = FetchRequest.FetchTopic.FetchPartition(
            partition=place.partition,
            current_leader_epoch=-1,
            fetch_offset=offset,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=most_bytes,
        )
        request = FetchRequest(
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_bytes=most_bytes,
            isolation_level=_READ_UNCOMMITTED,
            session_id=0,
            session_epoch=-1,
            topics=[FetchRequest.FetchTopic(topic=place.topic, partitions=[part])],
            forgotten_topics_data=[],
            rack_id="",
            max_version=_TOPIC_NAMES,
        )
        return await manager.send(request, node_id=leader)

    response = manager.run(ask)
    ((found,),) = ([*topic.partitions] for topic in response.responses)
    if found.error_code:
        raise errors.for_code(found.error_code)(str(place))
    return found.records or b""
