"""Requests of clients in the embedded log: their records and keys in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streamnb.engine.ports import NewRecord, Partition, WriteOutcome, WriteRequest
from streamnb.event_logs.request_index import RequestIndex, stored_bytes
from streamnb.event_logs.sqlite.sqlite_store import OFFSET_BITS, OFFSET_MASK, SqliteStore


class SqliteRequests:
    """Writes requests, each key once within its time.

    Invariant: a key is in the index exactly if the records of its request are in the log.

    Args:
        store: the file.
        clock: seconds since the epoch.
    """

    def __init__(self, store: SqliteStore, clock: Callable[[], float]) -> None:
        self._store, self._clock = store, clock
        self._index = RequestIndex(store.db)

    def append(self, requests: Sequence[WriteRequest]) -> list[WriteOutcome]:
        """Write all requests in one transaction. Raises UnknownTopic; then nothing is written."""
        with self._store.transaction("IMMEDIATE"):
            now = self._clock()
            self._index.forget(now)
            return [self._append_one(request, now) for request in requests]

    def _append_one(self, request: WriteRequest, now: float) -> WriteOutcome:
        if request.key and (known := self._index.find(request.key, now)) is not None:
            return known.outcome(request)
        places = self._insert(request.records, now)
        if request.key:
            self._index.put(request.key, stored_bytes(request, places, now), now)
        return WriteOutcome(places, request.note)

    def _insert(self, records: Sequence[NewRecord], now: float) -> list[tuple[Partition, int]]:
        """Insert records; return the partition and offset of each."""
        tails = {topic: self._store.tails(topic) for topic in {record.topic for record in records}}
        places = [tails[record.topic].place(record.key) for record in records]  # as `insert` takes them
        self._store.insert(records, now)
        return [
            (Partition(topic, tails[topic].ids.index(place >> OFFSET_BITS)), place & OFFSET_MASK)
            for (topic, *_), place in zip(records, places, strict=True)
        ]
