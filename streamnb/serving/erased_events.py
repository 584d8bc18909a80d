"""The ids of erased events, so that nothing about them is sent any more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby

from streamnb.engine.ports import Log, Partition, between
from streamnb.engine.processing.retrained_model import Offsets
from streamnb.errors import OutOfRange, UnknownTopic
from streamnb.events import Event
from streamnb.formats.codec import decode_events
from streamnb.formats.event_schema import EventSchema

_AT_ONCE = 1000


class ErasedEvents:
    """Reads the ids of erased events from the log, as far as it still has them.

    Args:
        schema: reads events.
        erased: returns the offsets of all erased events; None while they are not known.
    """

    def __init__(self, schema: EventSchema, erased: Callable[[], Offsets | None]) -> None:
        self._schema, self._erased = schema, erased
        self._read: dict[Partition, frozenset[int]] = {}
        self._ids: set[str] = set()

    def has(self, event_id: str, log: Log) -> bool | None:
        """Return whether an event of this id was erased; None while the erased events are not known."""
        erased = self._erased()
        if erased is None:
            return None
        for partition, offsets in erased.items():
            before = self._read.get(partition, frozenset())
            if len(offsets) == len(before):
                continue
            now = frozenset(offsets.tolist())
            self._ids.update(self._ids_at(log, partition, sorted(now - before)))
            self._read[partition] = now
        return event_id in self._ids

    def _ids_at(self, log: Log, partition: Partition, offsets: list[int]) -> Iterator[str]:
        numbered = enumerate(offsets)
        for _, run in groupby(numbered, lambda pair: pair[1] - pair[0]):  # consecutive offsets
            wanted = [offset for _, offset in run]
            try:
                earliest, _ = log.offsets(partition)
                records = list(between(log, partition, max(earliest, wanted[0]), wanted[-1] + 1, _AT_ONCE))
            except (OutOfRange, UnknownTopic):  # deleted since
                continue
            raws = [record.value for record in records]
            keys, times = [record.key for record in records], [record.timestamp for record in records]
            for event in decode_events(raws, self._schema, keys, times).events():
                if isinstance(event, Event):
                    yield event.id
