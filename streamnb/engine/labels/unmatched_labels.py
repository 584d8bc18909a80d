"""Verdicts that came before their events, as happens where one topic is read faster than another."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from streamnb.engine.labels.source_labels import MOST_SOURCES, SourceLabel, merged

_OBJECTS, _OBJECTS_OF_LABEL = 200, 280  # bytes, no less than an entry and a label take besides their texts
_Row = tuple[str, tuple[SourceLabel, ...], float]


class DroppedLabels(NamedTuple):
    """A verdict whose event did not come in time, or that had to make room."""

    id: str
    said: SourceLabel


class _UnmatchedLabel(NamedTuple):
    """What is said of one event; when the log recorded the last of it that was read."""

    said: tuple[SourceLabel, ...]
    time: float


class UnmatchedLabels:
    """What is said of events that have not come yet.

    Args:
        memory: bytes; where more come, the oldest make room.

    Attributes:
        memory: the same.
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self._entries: dict[str, _UnmatchedLabel] = {}
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
        self, event_id: str, said: SourceLabel, recorded: float, earliest: float
    ) -> list[DroppedLabels] | None:
        """Keep a verdict that was `recorded` then; what makes room, or has waited since before `earliest`.

        None where it is of a source too many. An event of which something is said again moves behind all
        others, as `_evict`, which looks only at the oldest, expects.
        """
        entry = self._entries.get(event_id)
        before = () if entry is None else entry.said
        now = merged(before, said)
        if len(now) > MOST_SOURCES:
            return None
        self._entries.pop(event_id, None)
        self._entries[event_id] = _UnmatchedLabel(now, recorded)
        self._bytes += _size(event_id, now) - (0 if entry is None else _size(event_id, before))
        return list(self._make_room(earliest))

    def take(self, event_id: str) -> tuple[tuple[SourceLabel, ...], float]:
        """What was said of an event that comes now, and when it was last heard."""
        entry = self._entries.pop(event_id, None)
        if entry is None:
            return (), math.inf
        self._bytes -= _size(event_id, entry.said)
        return entry.said, entry.time

    def _make_room(self, earliest: float) -> Iterator[DroppedLabels]:
        while self._entries:
            event_id, entry = next(iter(self._entries.items()))
            if entry.time >= earliest and self._bytes <= self.memory:
                return
            del self._entries[event_id]
            self._bytes -= _size(event_id, entry.said)
            yield from (DroppedLabels(event_id, one) for one in entry.said)

    def state(self) -> list[Any]:
        """Return of each event its id, what is said of it, and when the last of that was recorded."""
        return [[event_id, *entry] for event_id, entry in self._entries.items()]

    def load(self, state: bytes) -> None:
        """Go on from a `state` as msgpack. Raises msgspec.MsgspecError for another one."""
        once: dict[Any, Any] = {}  # of equal sources and partitions only one is kept
        for event_id, found, time in msgspec.msgpack.decode(state, type=list[_Row]):
            said = tuple(
                one._replace(
                    source=once.setdefault(one.source, one.source),
                    partition=once.setdefault(one.partition, one.partition),
                )
                for one in found
            )
            self._entries[event_id] = _UnmatchedLabel(said, time)
            self._bytes += _size(event_id, said)


def _size(event_id: str, said: Sequence[SourceLabel]) -> int:
    """Bytes of an entry, about."""
    texts = (len(one.source) + len(one.label or "") for one in said)
    return _OBJECTS + len(event_id) + _OBJECTS_OF_LABEL * len(said) + sum(texts)
