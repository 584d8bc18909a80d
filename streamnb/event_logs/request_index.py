"""The requests with an idempotency key that were written, in a table of a SQLite database.

The embedded log keeps the table in its own file, and writes it in the transaction of the records. A Kafka
log keeps the requests in a compacted topic. The table is then a temporary file, read from the topic, so that
a day of keys takes no memory.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

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
            raise LogError(f"the request with the key {key!r} is damaged in the log: {error}") from error
        return found if now - found.ts < REQUEST_SECONDS else None

    def put(self, key: str, written: bytes, ts: float) -> None:
        """Keep a request, in place of an older one with its key."""
        self._db.execute("INSERT OR REPLACE INTO requests VALUES (?, ?, ?)", (key, written, ts))

    def forget(self, now: float) -> None:
        """Delete some of the requests that are too old, at least as many as one call of `put` adds."""
        query = """DELETE FROM requests WHERE key IN
            (SELECT key FROM requests WHERE timestamp < ? ORDER BY timestamp LIMIT ?)"""
        self._db.execute(query, (now - REQUEST_SECONDS, _FORGOTTEN_AT_ONCE))
