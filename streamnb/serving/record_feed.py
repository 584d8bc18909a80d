"""The records of one topic for HTTP clients: pages with a cursor, and streams that continue after a break.

A cursor names the next offset of every partition, and the topic itself by its id. So a client continues at
exactly the record that it has not yet seen. Records that no longer exist are reported as a `Gap`.

`RecordFeed` keeps the newest records in memory, and wakes the streams when records arrive. Older records are
read from the log, by a separate thread with its own connection. No client delays another client or the feed.
"""

from __future__ import annotations

import asyncio
import re
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from streamnb.config import Config
from streamnb.engine.ports import Log, Partition, Record
from streamnb.errors import ConfigError, Unavailable
from streamnb.runtime.log_follower import FollowerThread, LogOnDemand
from streamnb.values.messages import Message

_KEPT_BYTES = 16 << 20
_KEPT_AT_START = 1000  # records of each partition
_AT_ONCE = 1000
_START_SECONDS, _POLL_SECONDS, _PARTITION_SECONDS = 0.05, 0.25, 5.0
_READY_SECONDS = 15.0
_CURSOR = re.compile(r"([!-9;-~]{1,100}):([0-9]{1,15}(?:,[0-9]{1,15}){0,9999})")


class Cursor(NamedTuple):
    """The position of a reader.

    Attributes:
        topic_id: id of the topic.
        offsets: next offset of each partition, by number.
    """

    topic_id: str
    offsets: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.topic_id}:{','.join(map(str, self.offsets))}"

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Return the cursor of a text. Raises ConfigError."""
        found = _CURSOR.fullmatch(text)
        if found is None:
            raise ConfigError(
                f"{text[:100]!r} is not a cursor: use `next` of an answer, or the id of an event"
            )
        return cls(found[1], tuple(map(int, found[2].split(","))))

    def after(self, records: Sequence[Record]) -> Cursor:
        """Return the cursor after some records."""
        offsets = list(self.offsets)
        for record in records:
            offsets[record.partition.number] = record.offset + 1
        return self._replace(offsets=tuple(offsets))


class Gap(NamedTuple):
    """Records that a reader cannot see.

    Attributes:
        reason: "retention" (deleted), "recreated" (a new topic of the same name), "lost" (the log ends
            before the cursor, or has no such partition) or "partitions" (a new partition, which is read from
            its first record).
        partition: its number.
        offset: the offset that the cursor names.
        continues: the offset at which the reader continues.
    """

    reason: str
    partition: int
    offset: int
    continues: int


class Page(NamedTuple):
    """Records after a cursor, in order within a partition, with the gaps before them and the next cursor."""

    records: Sequence[Record]
    gaps: Sequence[Gap]
    next: Cursor


def caught_up(
    cursor: Cursor, topic_id: str, ranges: Mapping[Partition, tuple[int, int]]
) -> tuple[Cursor, list[Gap]]:
    """Return the cursor moved to records that exist, and the gaps.

    Args:
        cursor: where the reader is.
        topic_id: of the topic that exists now.
        ranges: the offsets of each partition, earliest and end.
    """
    gaps: list[Gap] = []
    offsets: list[int] = []
    is_same = cursor.topic_id == topic_id
    for partition, (earliest, end) in sorted(ranges.items()):
        number = partition.number
        is_known = number < len(cursor.offsets)
        at = cursor.offsets[number] if is_known else 0
        if not is_same:
            reason, continues = "recreated", earliest
        elif not is_known:
            reason, continues = "partitions", earliest
        elif at < earliest:
            reason, continues = "retention", earliest
        elif at > end:
            reason, continues = "lost", end
        else:
            reason, continues = "", at
        if reason:
            gaps.append(Gap(reason, number, at, continues))
        offsets.append(continues)
    if is_same:
        missing = range(len(offsets), len(cursor.offsets))
        gaps += [Gap("lost", number, cursor.offsets[number], 0) for number in missing]
    return Cursor(topic_id, tuple(offsets)), gaps


class _Kept:
    """The newest records of one partition: all from `first` to `next`."""

    def __init__(self, first: int) -> None:
        self.first = self.next = first
        self.records: deque[Record] = deque()

    def from_offset(self, offset: int, limit: int) -> list[Record]:
        start = bisect_left(self.records, offset, key=attrgetter("offset"))
        return list(islice(self.records, start, start + limit))

    def newest(self, limit: int) -> list[Record]:
        return list(islice(reversed(self.records), limit))


class RecordFeed(FollowerThread):
    """Follows one topic from its first use on.

    Args:
        config: the learner's configuration.
        topic: the topic.
        report: callback that receives the reason for each restart.
    """

    _again = "streams over HTTP continue"
    _join_seconds = 2.0

    def __init__(self, config: Config, topic: str, report: Callable[[Message], None]) -> None:
        super().__init__(config, report)
        self.topic = topic
        self.problem = "the topic has not been read yet"
        self._topic_id = ""
        self._kept: list[_Kept] = []
        self._bytes = 0
        self._order: deque[int] = deque()  # partition of each kept record, oldest first
        self._waiters: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self._history = ThreadPoolExecutor(1, "recordhistory")
        self._log = LogOnDemand(config)  # used by that thread alone
        self._is_started = False

    def close(self) -> None:
        """Follow no more."""
        self._stopping = True
        self._wake()
        self._log.stop()
        self._history.submit(self._log.close)
        self._history.shutdown(wait=False)
        if self._is_started:
            super().close()

    async def end(self) -> Cursor:
        """Return the cursor after the newest record. Raises Unavailable if the log does not answer."""
        if not self._is_started:
            self._is_started = True
            self.start()
        deadline = time.monotonic() + _READY_SECONDS
        while self.problem and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        with self.lock:
            if self.problem:
                raise Unavailable(f"topic {self.topic}: {self.problem}")
            return self._end()

    def _end(self) -> Cursor:
        """Return the cursor after the newest record in memory. Needs the lock."""
        return Cursor(self._topic_id, tuple(kept.next for kept in self._kept))

    async def newest(self, limit: int) -> Page:
        """Return the newest records that are kept in memory, and the cursor after them."""
        await self.end()
        with self.lock:
            end = self._end()
            records = [record for kept in self._kept for record in kept.newest(limit)]
        records.sort(key=lambda record: (record.timestamp, record.partition, record.offset))
        return Page(records[-limit:], (), end)

    async def find(self, start: bytes, limit: int) -> Record | None:
        """Return the newest record whose value starts with some bytes.

        Args:
            start: the bytes.
            limit: records of each partition that are looked at, newest first.
        """
        await self.end()
        with self.lock:
            newest = [islice(reversed(kept.records), limit) for kept in self._kept]
            found = [next((one for one in each if one.value.startswith(start)), None) for each in newest]
        return max((one for one in found if one), key=attrgetter("timestamp"), default=None)

    async def after(self, cursor: Cursor, limit: int) -> Page:
        """Return at most `limit` records after a cursor: from memory, or else from the log.

        Raises LogError if the log fails.
        """
        await self.end()
        with self.lock:
            if (found := self._remembered(cursor, limit)) is not None:
                return found
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._history, self._read, cursor, limit)

    async def wait(self, cursor: Cursor, seconds: float) -> None:
        """Wait until there may be a record after a cursor, at most some seconds."""
        news = asyncio.Event()
        waiter = asyncio.get_running_loop(), news
        with self.lock:
            if self._stopping or self._end() != cursor:
                return
            self._waiters.add(waiter)
        try:
            async with asyncio.timeout(seconds):
                await news.wait()
        except TimeoutError:
            pass
        finally:
            with self.lock:
                self._waiters.discard(waiter)

    # The thread that follows

    def _follow(self, log: Log) -> None:
        topic_id, ranges = log.topic_id(self.topic), log.offset_ranges(self.topic)
        starts = {place: max(first, end - _KEPT_AT_START) for place, (first, end) in ranges.items()}
        log.seek(starts)
        with self.lock:
            self.problem = self.problem or "the topic is read again"
            self._topic_id, self._bytes = topic_id, 0
            self._kept = [_Kept(starts[place]) for place in sorted(starts)]
            self._order.clear()
        behind = {place: end for place, (_, end) in ranges.items() if starts[place] < end}
        due = time.monotonic() + _PARTITION_SECONDS
        while not self.is_over():
            records = log.poll(_AT_ONCE, _START_SECONDS if behind else _POLL_SECONDS)
            if behind:
                left = log.lag()
                behind = {place: end for place, end in behind.items() if left.get(place, 0)}
            self._add(records, is_ready=not behind)
            if time.monotonic() > due:
                due = time.monotonic() + _PARTITION_SECONDS
                if len(log.partitions(self.topic)) != len(starts) or log.topic_id(self.topic) != topic_id:
                    return

    def _add(self, records: Sequence[Record], *, is_ready: bool) -> None:
        with self.lock:
            for record in records:
                kept = self._kept[record.partition.number]
                kept.records.append(record)
                kept.next = record.offset + 1
                self._order.append(record.partition.number)
                self._bytes += len(record.value)
            while self._bytes > _KEPT_BYTES:
                oldest = self._kept[self._order.popleft()]
                gone = oldest.records.popleft()
                oldest.first = gone.offset + 1
                self._bytes -= len(gone.value)
            is_news = bool(records) or (is_ready and bool(self.problem))
            if is_ready:
                self.problem = ""
        if is_news:
            self._wake()

    def _wake(self) -> None:
        with self.lock:
            waiters, self._waiters = self._waiters, set()
        for loop, news in waiters:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(news.set)

    def _remembered(self, cursor: Cursor, limit: int) -> Page | None:
        """Return the page if memory has all of it, without a gap. Needs the lock."""
        if self.problem or cursor.topic_id != self._topic_id or len(cursor.offsets) != len(self._kept):
            return None
        pairs = list(zip(self._kept, cursor.offsets, strict=True))
        if any(not kept.first <= offset <= kept.next for kept, offset in pairs):
            return None
        records: list[Record] = []
        for kept, offset in pairs:
            records += kept.from_offset(offset, limit - len(records))
        return Page(records, (), cursor.after(records))

    # The thread that reads older records

    def _read(self, cursor: Cursor, limit: int) -> Page:
        with self._log.opened() as log:
            moved, gaps = caught_up(cursor, log.topic_id(self.topic), log.offset_ranges(self.topic))
            share = -(-limit // len(moved.offsets))  # no partition waits until another has ended
            records = [
                record
                for number, offset in enumerate(moved.offsets)
                for record in log.read(Partition(self.topic, number), offset, share)
            ][:limit]
        return Page(records, gaps, moved.after(records))
