"""Verdicts that came before their events, as happens where one topic is read faster than another."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from streamnb.engine.labels.verdicts import MOST_SOURCES, Said, merged
from streamnb.engine.ports import Partition, Record

_OBJECTS = 200  # bytes, about, that an entry takes beside its texts


class Dropped(NamedTuple):
    """A verdict whose event did not come in time, or that had to make room; and where it lies."""

    id: str
    said: Said
    partition: Partition
    offset: int


class _Entry(NamedTuple):
    """What is said of one event; when and where the last of it was read."""

    said: tuple[Said, ...]
    time: float
    partition: Partition
    offset: int


class EarlyVerdicts:
    """What is said of events that have not come yet.

    Args:
        memory: bytes; where more come, the oldest make room.

    Attributes:
        memory: the same.
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self._entries: dict[str, _Entry] = {}
        self._bytes = 0

    @property
    def fullness(self) -> float:
        """The share of the memory that is taken."""
        return self._bytes / self.memory

    def __contains__(self, event_id: str) -> bool:
        return event_id in self._entries

    def labels(self, event_id: str) -> set[str | None]:
        """Those that are said of an event that has not come."""
        entry = self._entries.get(event_id)
        return set() if entry is None else {one.label for one in entry.said}

    def __len__(self) -> int:
        return len(self._entries)

    def add(
        self, event_id: str, said: Said, record: Record, earliest: float, *, moves: bool
    ) -> list[Dropped] | None:
        """Keep a verdict that came in `record`; what makes room, or has waited since before `earliest`.

        None where it is of a source too many. An event of which something is said again `moves` behind all
        others, as those who look only at the oldest expect.
        """
        entry = self._entries.get(event_id)
        before = () if entry is None else entry.said
        now = merged(before, said)
        if len(now) > MOST_SOURCES:
            return None
        if moves:
            self._entries.pop(event_id, None)
        self._entries[event_id] = _Entry(now, record.timestamp, record.partition, record.offset)
        self._bytes += _size(event_id, now) - (0 if entry is None else _size(event_id, before))
        return list(self._make_room(earliest))

    def take(self, event_id: str) -> tuple[tuple[Said, ...], float]:
        """What was said of an event that comes now, and when it was last heard."""
        entry = self._entries.pop(event_id, None)
        if entry is None:
            return (), math.inf
        self._bytes -= _size(event_id, entry.said)
        return entry.said, entry.time

    def _make_room(self, earliest: float) -> Iterator[Dropped]:
        while self._entries:
            event_id, entry = next(iter(self._entries.items()))
            if entry.time >= earliest and self._bytes <= self.memory:
                return
            del self._entries[event_id]
            self._bytes -= _size(event_id, entry.said)
            yield from (Dropped(event_id, one, entry.partition, entry.offset) for one in entry.said)

    def state(self) -> list[Any]:
        """Of each event its id, what is said of it, and when and where that was read."""
        return [[event_id, *entry] for event_id, entry in self._entries.items()]

    def load(self, state: Sequence[Sequence[Any]]) -> None:
        """Go on from a `state`."""
        for event_id, said, time, (topic, number), offset in state:
            heard = tuple(Said(source, float(at), label, float(w)) for source, at, label, w in said)
            self._entries[event_id] = _Entry(heard, float(time), Partition(topic, number), offset)
            self._bytes += _size(event_id, heard)


def _size(event_id: str, said: Sequence[Said]) -> int:
    """Bytes of an entry, about."""
    return _OBJECTS + len(event_id) + sum(_OBJECTS + len(one.source) + len(one.label or "") for one in said)
