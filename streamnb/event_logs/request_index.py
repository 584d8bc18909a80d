"""The requests with an idempotency key that were written, in a table of a SQLite database.

The embedded log keeps the table in its own file, and writes it in the transaction of the records. A Kafka
log keeps the requests in a compacted topic. The table is then a temporary file, read from the topic, so that
a day of keys takes no memory.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

import msgspec

from streamnb.engine.ports import REQUEST_SECONDS, Partition, WriteOutcome, WriteRequest
from streamnb.errors import LogError

SCHEMA = (
    """CREATE TABLE requests (
        key TEXT PRIMARY KEY,
        written BLOB NOT NULL,
        timestamp REAL NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX requests_by_time ON requests (timestamp)",
)
_FORGOTTEN_AT_ONCE = 1000


class StoredRequest(msgspec.Struct, frozen=True):
    """The stored part of a written request.

    Attributes:
        digest, note: from the `WriteRequest`.
        places: (topic, partition, offset) of each record.
        ts: when it was written, in seconds since the epoch.
    """

    digest: str
    note: str
    places: tuple[tuple[str, int, int], ...]
    ts: float

    def outcome(self, request: WriteRequest) -> WriteOutcome:
        """Return the outcome of a repetition, or of another request with the same key."""
        if request.digest != self.digest:
            return WriteOutcome(None)
        return WriteOutcome(placed(self.places), self.note, is_repeated=True)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(StoredRequest).decode


def placed(places: Sequence[tuple[str, int, int]]) -> list[tuple[Partition, int]]:
    """Return places as pairs of partition and offset."""
    return [(Partition(topic, number), offset) for topic, number, offset in places]


def by_request(
    requests: Sequence[WriteRequest], places: Iterable[tuple[Partition, int]]
) -> list[Sequence[tuple[Partition, int]]]:
    """Return the places of the records of all requests, divided by request."""
    rest = iter(places)
    return [list(islice(rest, len(request.records))) for request in requests]


def stored_bytes(request: WriteRequest, places: Sequence[tuple[Partition, int]], now: float) -> bytes:
    """Return a written request as JSON."""
    flat = tuple((partition.topic, partition.number, offset) for partition, offset in places)
    return _encode(StoredRequest(request.digest, request.note, flat, now))


def stored_time(written: bytes) -> float | None:
    """Return when a request was written; None if the bytes are not a written request."""
    try:
        return _decode(written).ts
    except msgspec.MsgspecError:
        return None


class RequestIndex:
    """The requests of the last `REQUEST_SECONDS`.

    Args:
        db: connection to the database with the tables of `SCHEMA`. The caller translates its errors.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def find(self, key: str, now: float) -> StoredRequest | None:
        """Return the request with a key; None if there is none, or it is too old.

        Raises LogError if what is stored is damaged.
        """
        row = self._db.execute("SELECT written FROM requests WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        try:
            found = _decode(row[0])
        except msgspec.MsgspecError as error:
            raise LogError("a request with this Idempotency-Key is damaged in the log") from error
        return found if now - found.ts < REQUEST_SECONDS else None

    def write_once(
        self,
        requests: Sequence[WriteRequest],
        now: float,
        write: Callable[[Sequence[WriteRequest]], Sequence[Sequence[tuple[Partition, int]]]],
    ) -> list[WriteOutcome]:
        """Write the requests without a key, and the first one of each key that is not in the index.

        Args:
            requests: new and repeated requests.
            now: seconds since the epoch.
            write: writes requests, puts their keys, and returns the places of the records of each.
        """
        new: list[int] = []
        keys: set[str] = set()
        for i, request in enumerate(requests):
            if not request.key or (request.key not in keys and self.find(request.key, now) is None):
                keys.add(request.key)
                new.append(i)
        places = dict(zip(new, write([requests[i] for i in new]) if new else [], strict=True))
        outcomes = []
        for i, request in enumerate(requests):
            if i in places:
                outcomes.append(WriteOutcome(places[i], request.note))
            else:
                known = self.find(request.key, now)
                assert known is not None  # noqa: S101  it was there, or has just been written
                outcomes.append(known.outcome(request))
        return outcomes

    def put(self, key: str, written: bytes, ts: float) -> None:
        """Keep a request, in place of an older one with its key."""
        self._db.execute("INSERT OR REPLACE INTO requests VALUES (?, ?, ?)", (key, written, ts))

    def forget(self, now: float) -> None:
        """Delete some of the requests that are too old, at least as many as one call of `put` adds."""
        query = """DELETE FROM requests WHERE key IN
            (SELECT key FROM requests WHERE timestamp < ? ORDER BY timestamp LIMIT ?)"""
        self._db.execute(query, (now - REQUEST_SECONDS, _FORGOTTEN_AT_ONCE))
