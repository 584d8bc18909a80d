"""Reading and processing of journalled slices for a replay.

Slices of several partitions alternate in the journal. Each partition is read ahead, so that a log behind a
network is called seldom.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from streamnb.engine.journal.recovery_faults import events_needed
from streamnb.engine.ports import Log, NewRecord, Partition, Record
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.errors import JournalError, OutOfRange
from streamnb.formats.journal_record import JournalRecord, Slice, crc

_AHEAD = 10_000  # records
_AHEAD_BYTES = 8 << 20  # of all partitions together


def processed(
    learner: EventProcessor, record: JournalRecord, records: Sequence[Record], heartbeat: Callable[[], None]
) -> Sequence[NewRecord]:
    """Process the records of a commit; return the outputs, published before. Other kinds have none."""
    if record.kind != "commit":
        return []
    return learner.process(
        records, record.now, heartbeat, work=record.work, silence=record.silence, acted=record.acted
    )


class SliceReader:
    """Reader of slices in journal order; offsets rise in each partition.

    Args:
        log: the log of the slices.

    Attributes:
        start: journal record of the state with which the replay begins, -1 for none; errors name it.
    """

    def __init__(self, log: Log) -> None:
        self._log, self.start = log, -1
        self._ahead: dict[Partition, deque[Record]] = {}

    def of(self, record: JournalRecord) -> list[Record]:
        """Return all records that a commit processed; raise JournalError as `read` does."""
        parts = record.slices if record.kind == "commit" else ()
        return [found for part in parts for found in self.read(part, record.n)]

    def read(self, part: Slice, n: int) -> list[Record]:
        """Return the records of a slice of record `n`; raise JournalError if they are gone or differ."""
        partition = Partition(part.topic, part.partition)
        ahead = self._ahead.setdefault(partition, deque())
        try:
            records = self._take(partition, ahead, part)
        except OutOfRange as error:
            raise JournalError(str(events_needed(n, part, self.start))) from error
        if len(records) != part.count or crc(r.value for r in records) != part.crc:
            raise JournalError(
                f"journal record {n}: {part.topic}/{part.partition} from offset {part.first} to {part.next} "
                "holds other records than were learned"
            )
        return records

    def _take(self, partition: Partition, ahead: deque[Record], part: Slice) -> list[Record]:
        while ahead and ahead[0].offset < part.first:  # rolled back
            ahead.popleft()
        records: list[Record] = []
        offset = part.first
        while offset < part.next:
            if not ahead:
                ahead.extend(self._log.read(partition, offset, self._limit(part, records)))
            if not ahead or ahead[0].offset >= part.next:
                break
            records.append(ahead.popleft())
            offset = records[-1].offset + 1
        return records

    def _limit(self, part: Slice, records: Sequence[Record]) -> int:
        """Return the read size: a slice did fit in memory before, further records must be few."""
        mean = max(256, sum(len(record.value) for record in records) // max(1, len(records)))
        return max(part.next - part.first, min(_AHEAD, _AHEAD_BYTES // len(self._ahead) // mean))
