"""Events of predictions under review, read from the log on demand."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress

from streamnb.config import Config
from streamnb.engine.ports import Log, Partition
from streamnb.errors import StreamnbError
from streamnb.events import Event
from streamnb.formats.codec import decode_events
from streamnb.formats.event_schema import ENTITY
from streamnb.queries.published_prediction import found, reader
from streamnb.runtime import context
from streamnb.runtime.log_follower import LogThread

_NEWEST = 2000  # events of each partition that are read, at most
_KEPT, _KEPT_BYTES = 5000, 32 << 20
_LOCATED_AT_ONCE = 4  # older events that one request looks for
_LOOK_BACK = 20_000  # predictions
_AGAIN_SECONDS = 30.0  # until an event that was not found is looked for again
_ANSWER_SECONDS = 5.0
_AT_ONCE = 1000


class RecentEvents:
    """The newest events by id, and older ones that were looked for.

    Invariant: one thread uses the log. Nothing is read unless `find` is called.

    Args:
        config: the learner's configuration.
    """

    def __init__(self, config: Config) -> None:
        self._config, self._schema = config, context.schema(config)
        self._log = LogThread(config, "recentevents", _ANSWER_SECONDS)
        self._next: dict[Partition, int] = {}
        self._events: OrderedDict[str, tuple[Event, int]] = OrderedDict()  # id -> event, bytes
        self._bytes = 0
        self._absent: dict[str, float] = {}  # id -> when it was looked for

    def find(self, ids: Sequence[str]) -> dict[str, Event]:
        """Return the events of ids, as far as they are found within some seconds."""
        try:
            return self._log.answer(lambda log: self._find(log, ids))
        except StreamnbError:
            return {}

    def matching(self, text: str, entity: str | None) -> frozenset[str] | None:
        """Return the ids of the newest events that contain a text, of one entity if it is given.

        None if the log does not answer within some seconds.
        """
        try:
            return self._log.answer(lambda log: self._matching(log, text.casefold(), entity))
        except StreamnbError:
            return None

    def close(self) -> None:
        """Read no more."""
        self._log.close()

    def _find(self, log: Log, ids: Sequence[str]) -> dict[str, Event]:
        self._read_new(log)
        self._locate(log, ids)
        return {id_: self._events[id_][0] for id_ in ids if id_ in self._events}

    def _matching(self, log: Log, text: str, entity: str | None) -> frozenset[str]:
        self._read_new(log)
        events = (event for event, _ in self._events.values())
        found = (one for one in events if entity is None or str(one.x.get(ENTITY, "")) == entity)
        return frozenset(
            one.id
            for one in found
            if not text or any(text in str(value).casefold() for value in one.x.values())
        )

    def _read_new(self, log: Log) -> None:
        for topic in self._config.topics.events:
            for partition, (first, end) in log.offset_ranges(topic).items():
                at = max(first, end - _NEWEST, self._next.get(partition, 0))
                while at < end and (records := log.read(partition, at, _AT_ONCE)):
                    raws = [record.value for record in records]
                    keys = [record.key for record in records]
                    times = [record.timestamp for record in records]
                    events = decode_events(raws, self._schema, keys, times).events()
                    for event, raw in zip(events, raws, strict=True):
                        if isinstance(event, Event):
                            self._keep(event, len(raw))
                    at = records[-1].offset + 1
                self._next[partition] = max(at, end)

    def _keep(self, event: Event, size: int) -> None:
        if event.id in self._events:
            self._bytes -= self._events.pop(event.id)[1]
        self._events[event.id] = event, size
        self._bytes += size
        self._absent.pop(event.id, None)
        while len(self._events) > _KEPT or self._bytes > _KEPT_BYTES:
            self._bytes -= self._events.popitem(last=False)[1][1]

    def _locate(self, log: Log, ids: Sequence[str]) -> None:
        """Look for some older events by their predictions and the journal."""
        now = time.monotonic()
        self._absent = {id_: at for id_, at in self._absent.items() if now - at < _AGAIN_SECONDS}
        missing = [id_ for id_ in ids if id_ not in self._events and id_ not in self._absent]
        read = None
        for id_ in missing[:_LOCATED_AT_ONCE]:
            self._absent[id_] = now
            with suppress(StreamnbError):
                read = read or reader(log, self._config)[1]
                place = found(log, self._config, read, id_, None, _LOOK_BACK)
                self._keep(place.event, len(place.record.value))
