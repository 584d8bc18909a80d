"""Labels that arrive before their events, as happens if one topic is read faster than another."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from streamnb.engine.labels.source_labels import SourceLabel, has_too_many, merged

_OBJECTS, _OBJECTS_OF_LABEL = 200, 280  # bytes of an entry and of a label without their texts, at least
_Row = tuple[str, tuple[SourceLabel, ...], float]


class DroppedLabels(NamedTuple):
    """A label whose event did not arrive in time, or that was evicted."""

    id: str
    said: SourceLabel


class _UnmatchedLabel(NamedTuple):
    """Source labels of one event, and the log timestamp of the last."""

    said: tuple[SourceLabel, ...]
    time: float


class UnmatchedLabels:
    """Source labels of events that have not arrived.

    Args:
        memory: bytes; beyond, the oldest entries are evicted.
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self._entries: dict[str, _UnmatchedLabel] = {}
        self._bytes = 0

    @property
    def fullness(self) -> float:
        """Used share of the memory."""
        return self._bytes / self.memory

    def __contains__(self, event_id: str) -> bool:
        return event_id in self._entries

    def labels_of(self, event_id: str) -> tuple[SourceLabel, ...]:
        """Return the source labels of an event that has not arrived."""
        entry = self._entries.get(event_id)
        return () if entry is None else entry.said

    def __len__(self) -> int:
        return len(self._entries)

    def add(
        self, event_id: str, said: SourceLabel, recorded: float, earliest: float
    ) -> list[DroppedLabels] | None:
        """Keep a label; return the labels that are evicted or were recorded before `earliest`.

        None if its source exceeds the maximum. A further label moves its event to the end, as `_make_room`
        looks only at the oldest entry.
        """
        entry = self._entries.get(event_id)
        before = () if entry is None else entry.said
        now = merged(before, said)
        if has_too_many(now):
            return None
        self._entries.pop(event_id, None)
        self._entries[event_id] = _UnmatchedLabel(now, recorded)
        self._bytes += _size(event_id, now) - (0 if entry is None else _size(event_id, before))
        return list(self._make_room(earliest))

    def take(self, event_id: str) -> tuple[tuple[SourceLabel, ...], float]:
        """Remove and return the labels of an arriving event, and the log timestamp of the last."""
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
        """Return id, source labels and last log timestamp of each event."""
        return [[event_id, *entry] for event_id, entry in self._entries.items()]

    def load(self, state: bytes) -> None:
        """Restore from a `state` as msgpack; raise msgspec.MsgspecError if it is invalid."""
        once: dict[Any, Any] = {}  # equal sources and partitions share one object
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
    """Return the approximate bytes of an entry."""
    texts = (len(one.source) + len(one.label or "") for one in said)
    return _OBJECTS + len(event_id) + _OBJECTS_OF_LABEL * len(said) + sum(texts)
