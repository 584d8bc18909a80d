"""Requests of clients in the embedded log: their records and keys in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streamnb.engine.ports import Partition, WriteOutcome, WriteRequest
from streamnb.event_logs.request_index import RequestIndex, by_request, stored_bytes
from streamnb.event_logs.sqlite.sqlite_store import SqliteStore


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

            def write(new: Sequence[WriteRequest]) -> list[Sequence[tuple[Partition, int]]]:
                records = [record for request in new for record in request.records]
                found = by_request(new, self._store.insert(records, now))
                for request, places in zip(new, found, strict=True):
                    if request.key:
                        self._index.put(request.key, stored_bytes(request, places, now), now)
                return found

            return self._index.write_once(requests, now, write)
