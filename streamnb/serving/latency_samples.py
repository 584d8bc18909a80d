"""Seconds from an event's time in the log to its prediction, sampled from the newest commits."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Collection
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from streamnb.engine.ports import Log, Partition, Record
from streamnb.errors import OutOfRange
from streamnb.formats.journal_record import JournalRecord, Slice

_SECONDS = 60.0  # a sample counts for this long
# A client of Kafka fetches up to 4 MB for each read at another offset.
_SLICES, _RECORDS = 3, 64  # reads for each call of `read`, and records of one read
_WAITING = 256  # slices that wait to be sampled


class _Sample(NamedTuple):
    """Latencies of some records of a slice, which stand for all of its records."""

    at: float
    seconds: list[float]
    n_events: int


class LatencySamples:
    """Latencies of events of the last minute.

    A prediction is written in the transaction of its journal record, so the journal record's time in the log
    is the prediction's. Its slices name the positions of the events. Each call of `read` reads at most 3
    slices, and at most 64 records of each, so busy streams cost no more than slow ones.

    Args:
        topics: the topics of events.
    """

    def __init__(self, topics: Collection[str]) -> None:
        self._topics = frozenset(topics)
        self._waiting: deque[tuple[float, Slice]] = deque(maxlen=_WAITING)
        self._samples: deque[_Sample] = deque()
        self._random = random.Random(0)  # noqa: S311

    def note(self, record: Record, commit: JournalRecord) -> None:
        """Remember the slices of a commit of the last minute, to be read."""
        if record.timestamp > time.time() - _SECONDS:
            self._waiting += (
                (record.timestamp, part) for part in commit.slices if part.topic in self._topics
            )

    def read(self, log: Log) -> None:
        """Read the times of some events of the commits that were noted since the last call."""
        waiting = list(self._waiting)
        self._waiting.clear()
        chosen = self._random.sample(waiting, min(_SLICES, len(waiting)))
        scale, read = len(waiting) / max(1, len(chosen)), []
        for at, part in chosen:
            first = part.first + int(self._random.random() * max(0, part.next - part.first - _RECORDS + 1))
            found: list[Record] = []
            with suppress(OutOfRange):  # retention has removed it
                found += log.read(Partition(part.topic, part.partition), first, _RECORDS)
            times = [one.timestamp for one in found if one.offset < part.next and one.timestamp > 0]
            if times:
                seconds = [max(0.0, at - each) for each in times]
                read.append(_Sample(at, seconds, round(part.count * scale)))
        since = time.time() - _SECONDS
        while self._samples and self._samples[0].at < since:
            self._samples.popleft()
        self._samples += read

    @property
    def n_events(self) -> int:
        """Number of events for which the samples stand."""
        return sum(one.n_events for one in self._newest())

    def quantiles(self) -> tuple[float, float] | None:
        """Return the median and the 99th percentile; None without events in the last minute."""
        found = self._newest()
        if not found:
            return None
        seconds = np.concatenate([one.seconds for one in found])
        weights = np.concatenate(
            [np.full(len(one.seconds), one.n_events / len(one.seconds)) for one in found]
        )
        order = np.argsort(seconds)
        share = np.cumsum(weights[order]) / weights.sum()
        p50, p99 = seconds[order][np.searchsorted(share, (0.5, 0.99)).clip(max=len(order) - 1)]
        return float(p50), float(p99)

    def _newest(self) -> list[_Sample]:
        since = time.time() - _SECONDS
        return [one for one in list(self._samples) if one.at >= since]  # another thread may add to it
