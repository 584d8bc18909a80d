"""Position and lease of a webhook or a source, kept together in the log as the progress of a forwarder.

One write sets both, and only if neither has changed since they were read. So at most one sender has the
lease, and a sender that lost it cannot move the position. The note of partition 0 holds the lease:

    note                          state                           next
    none, or without an owner     free                            any sender takes it
    with an owner, and changes    held: its holder renews it      others wait
    with an owner, unchanged      its holder has died, or hangs   after the lease's seconds others take it

No clock of another machine is compared: a sender that waits measures how long the note stays the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from streamnb.engine.ports import Forwarded, Log, NewRecord, Partition
from streamnb.errors import LogError
from streamnb.serving.record_feed import Cursor, Gap, caught_up


class _Note(msgspec.Struct, frozen=True, omit_defaults=True):
    """The holder of the lease, the number of its writes, the id of the topic, and what belongs to it."""

    topic_id: str = ""
    owner: str = ""
    n: int = 0
    more: dict[str, str] = {}

    @classmethod
    def of_progress(cls, progress: Mapping[Partition, Forwarded]) -> _Note:
        first = min(progress, default=None)
        if first is None or not progress[first].note:
            return cls()
        with suppress(msgspec.MsgspecError):
            return msgspec.json.decode(progress[first].note, type=cls)
        return cls()


class Start(NamedTuple):
    """The place where a sender begins.

    Attributes:
        is_continued: False without an earlier position.
        gaps: records that cannot be read.
        cursor: the position after these.
    """

    is_continued: bool
    gaps: Sequence[Gap]
    cursor: Cursor


class LeasedPosition:
    """The position of one reader of a topic, of which one process at a time has the lease.

    Args:
        log: the log; one thread uses both.
        topic: topic of the records.
        by: name of the reader, such as ``webhook-desk``.
        owner: name of this process, which no other has.
        lease_seconds: after these seconds without a sign of the holder another process takes over.
        from_start: whether a reader without a position begins at the first record, or after the newest.

    Attributes:
        offsets: next record of each partition, by number; empty before `acquire`.
        topic_id: id of the topic.
        more: texts that are kept with the position, at most 3,900 bytes in all.
    """

    def __init__(
        self,
        log: Log,
        topic: str,
        by: str,
        owner: str,
        lease_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        *,
        from_start: bool = False,
    ) -> None:
        self._log, self._topic, self._by, self._from_start = log, topic, by, from_start
        self._owner, self._lease_seconds, self._clock = owner, lease_seconds, clock
        self._seen: tuple[_Note, float] = _Note(), clock()
        self._progress: Mapping[Partition, Forwarded] = {}
        self._saved_at = 0.0
        self._n = 0
        self.offsets: list[int] = []
        self.topic_id = ""
        self.more: dict[str, str] = {}

    def acquire(self) -> Start | None:
        """Take the lease, and return the start of this process; None while another process has the lease.

        Records that cannot be read are passed only by `move`, after they have been reported. Raises Fenced if
        another process takes the lease at the same moment.
        """
        progress = self._log.forwarded(self._topic, self._by)
        note = _Note.of_progress(progress)
        if note != self._seen[0]:
            self._seen = note, self._clock()
        if note.owner not in {"", self._owner} and self._clock() - self._seen[1] < self._lease_seconds:
            return None
        ranges, topic_id = self._log.offset_ranges(self._topic), self._log.topic_id(self._topic)
        if progress:
            known = tuple(at.offset for _, at in sorted(progress.items()))
            cursor, found = caught_up(Cursor(note.topic_id, known), topic_id, ranges)
            gaps = [gap for gap in found if gap.reason != "partitions"]  # new ones are read from the start
            self.offsets, self.topic_id = [*known, *cursor.offsets[len(known) :]], note.topic_id
            self.more = dict(note.more)
        else:
            first = tuple(at[0 if self._from_start else 1] for _, at in sorted(ranges.items()))
            cursor, gaps = Cursor(topic_id, first), []
        if not gaps:
            self.move(cursor)
        self._progress, self._n = progress, note.n
        self.save()
        return Start(bool(progress), gaps, cursor)

    def move(self, cursor: Cursor) -> None:
        """Continue at a cursor; `save` writes it."""
        self.offsets, self.topic_id = list(cursor.offsets), cursor.topic_id

    @property
    def is_due(self) -> bool:
        """True if the lease must be renewed before another request begins."""
        return self._clock() - self._saved_at > self._lease_seconds / 3

    @property
    def saved_seconds(self) -> float:
        """Seconds since the last write."""
        return self._clock() - self._saved_at

    def save(self, records: Sequence[NewRecord] = (), cursor: Cursor | None = None) -> None:
        """Write records, the position (or a later one) and the renewed lease in one transaction.

        The position moves to `cursor` only if all is written: `release` must not write a position whose
        records failed. Raises Fenced, and writes nothing, if another process has taken over.
        """
        offsets = self.offsets if cursor is None else list(cursor.offsets)
        self._n += 1
        began = self._clock()
        note = msgspec.json.encode(_Note(self.topic_id, self._owner, self._n, self.more)).decode()
        until = {
            Partition(self._topic, number): Forwarded(offset, note if number == 0 else "")
            for number, offset in enumerate(offsets)
        }
        self._log.forward(records, self._progress, until, self._by)
        self.offsets, self._progress, self._saved_at = offsets, until, began

    def release(self) -> None:
        """Write the position, and give the lease up, so that no other sender waits."""
        with suppress(LogError):
            self._owner = ""
            self.save()
