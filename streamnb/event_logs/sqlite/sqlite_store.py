"""Topics, partitions and records in one SQLite file: the storage of the embedded log.

Every statement goes through `transaction` or `errors`, so that no error of SQLite's own leaves this module.
"""

from __future__ import annotations

import os
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate, repeat
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeVar
from zlib import crc32

import msgspec

from streamnb.engine.ports import Forwarded, NewRecord, OutageListener, Partition, Record, tuples
from streamnb.errors import LogError, OutOfRange, Unavailable, UnknownTopic
from streamnb.event_logs import request_index

T = TypeVar("T")

APPLICATION_ID: Final = 0x736E_626C  # "snbl": distinguishes a log from any other SQLite database
SCHEMA_VERSION: Final = 1
BUSY_TIMEOUT: Final = 5.0  # seconds for which a writer waits for another
FETCH_BYTES: Final = 4 << 20  # limit of one read
CHECKPOINT_BYTES: Final = 64 << 20  # the size beyond which the write-ahead log should be checkpointed

# A record's place in its table is its partition's number in the file followed by its offset: one integer, so
# that a partition is one range of a B-tree that keeps its rows in the leaves. Compared with a table with a
# key of two columns (WITHOUT ROWID): equal at 110 bytes a value; at 2 kB twice as fast, half the bytes.
OFFSET_BITS: Final = 44
OFFSET_MASK: Final = (1 << OFFSET_BITS) - 1

SCHEMA: Final = (
    "CREATE TABLE topics (name TEXT PRIMARY KEY, uuid TEXT NOT NULL, partitions INTEGER NOT NULL)",
    # Neither a partition's number in the file nor an offset is ever reused, whatever has been deleted.
    f"""CREATE TABLE partitions (
        partition_id INTEGER PRIMARY KEY AUTOINCREMENT,
        topic TEXT NOT NULL,
        number INTEGER NOT NULL,
        earliest INTEGER NOT NULL DEFAULT 0,
        next INTEGER NOT NULL DEFAULT 0 CHECK (next BETWEEN earliest AND {OFFSET_MASK}),
        position INTEGER,
        UNIQUE (topic, number))""",
    """CREATE TABLE forwarded (
        forwarder TEXT NOT NULL,
        partition_id INTEGER NOT NULL,
        position INTEGER NOT NULL,
        note TEXT NOT NULL,
        PRIMARY KEY (forwarder, partition_id)) WITHOUT ROWID""",
    """CREATE TABLE records (
        place INTEGER PRIMARY KEY,
        timestamp REAL NOT NULL,
        key BLOB,
        value BLOB NOT NULL,
        headers BLOB)""",
    "CREATE TABLE leader (epoch INTEGER NOT NULL, owner TEXT, heartbeat REAL NOT NULL)",
    "INSERT INTO leader VALUES (0, NULL, 0.0)",
    *request_index.SCHEMA,
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)

# SQLite keeps a value of any type in any column: cast values of other programs to the declared types.
_FETCH: Final = """
    SELECT place, CAST(timestamp AS REAL), CAST(key AS BLOB), CAST(value AS BLOB), CAST(headers AS BLOB)
    FROM records WHERE place >= ? AND place < ? ORDER BY place"""

_INSERT: Final = """
    INSERT INTO records
    SELECT place, ?1,
        CASE WHEN n_key >= 0 THEN substr(?2, start, n_key) END,
        CASE WHEN n_value >= 0 THEN substr(?2, start + max(0, n_key), n_value) END,
        CASE WHEN n_headers >= 0 THEN substr(?2, start + max(0, n_key) + max(0, n_value), n_headers) END
    FROM (SELECT json_extract(value, '$[0]') AS place, json_extract(value, '$[1]') AS start,
        json_extract(value, '$[2]') AS n_key, json_extract(value, '$[3]') AS n_value,
        json_extract(value, '$[4]') AS n_headers FROM json_each(?3) LIMIT -1)"""

MEANINGS: Final = {
    sqlite3.SQLITE_BUSY: f"another process has kept the file locked for more than {BUSY_TIMEOUT:g} s",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; is it a file, in a folder that exists and may be written to?",
    sqlite3.SQLITE_CORRUPT: "is damaged",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk failed, or is full",
    sqlite3.SQLITE_NOTADB: "is not a SQLite database",
    sqlite3.SQLITE_PERM: "permission denied",
    sqlite3.SQLITE_READONLY: "cannot be written to",
}

_pack_headers = msgspec.msgpack.Encoder().encode
_unpack_headers = msgspec.msgpack.Decoder(tuple[tuple[str, bytes], ...]).decode


def wal_reset_bug(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> bool:
    """Return whether this SQLite has the WAL-reset bug, which can damage a file with several writers.

    Fixed in 3.51.3 and, for older branches, in 3.50.7 and 3.44.6 (https://sqlite.org/wal.html#walresetbug).
    """
    return not (version >= (3, 51, 3) or (3, 50, 7) <= version < (3, 51) or (3, 44, 6) <= version < (3, 45))


def _primary_code(error: sqlite3.Error) -> int:
    """Return SQLite's result code without its extension; the module's own errors have none."""
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF


class OffsetRange(NamedTuple):
    """A partition's id in the file, and the half-open range of offsets that it keeps."""

    partition_id: int
    earliest: int
    next: int


class _Tails:
    """The ends of one topic's partitions during one write."""

    def __init__(self, topic: str, ends: Sequence[tuple[int, int]]) -> None:
        self.ids = [partition_id for partition_id, _ in ends]
        self.ends = [end for _, end in ends]
        self._partitions = [Partition(topic, number) for number in range(len(ends))]

    def place(self, key: bytes | None) -> tuple[int, Partition, int]:
        """Take the next place in the key's partition, or in the shortest one; return it with its offset."""
        number = self.ends.index(min(self.ends)) if key is None else crc32(key) % len(self.ends)
        offset = self.ends[number]
        self.ends[number] = offset + 1
        return self.ids[number] << OFFSET_BITS | offset, self._partitions[number], offset


def _is_on_read_only_medium(path: Path, wal: Path) -> bool:
    """Return whether the medium is read-only, so that SQLite must read the file without creating others.

    Raises LogError if the write-ahead log holds commits, which SQLite would ignore.
    """
    told = os.statvfs(path) if hasattr(os, "statvfs") and path.exists() else None
    if told is None or not told.f_flag & os.ST_RDONLY:
        return False
    if wal.exists() and wal.stat().st_size:
        raise LogError(
            f"{path}: on a read-only medium, with its last commits in {wal.name}: copy "
            "both to a writable folder"
        )
    return True


def _insert_rows(
    db: sqlite3.Connection, places: Sequence[int], records: Sequence[NewRecord], now: float
) -> None:
    """Insert records by one statement: a thread that runs many lets others wait for each."""
    pieces = [
        piece
        for _, key, value, headers in records
        for piece in (key, value, _pack_headers(headers) if headers else None)
    ]
    sizes = [-1 if piece is None else len(piece) for piece in pieces]
    # SQLite counts from 1, and takes pieces of an empty value for NULL: begin after a byte of our own.
    starts = list(accumulate(map(max, repeat(0), sizes), initial=2))
    rows = list(zip(places, starts[::3], sizes[::3], sizes[1::3], sizes[2::3], strict=False))
    joined = b" " + b"".join(filter(None, pieces))
    db.execute(_INSERT, (now, joined, msgspec.json.encode(rows).decode()))


class SqliteStore:
    """One connection to the file. The file and the schema are created if missing.

    A new file is readable and writable by its user alone; SQLite gives its two additional files the same
    mode.

    Args:
        path: the file; SQLite keeps two more next to it while it is open.
        patience: retry policy while another process keeps the file locked.

    Raises:
        LogError: the file is not a log, is of an unknown version, or cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str], patience: OutageListener | None = None) -> None:
        self.path = Path(path)
        self._patience = patience or OutageListener()
        self._wal = Path(f"{self.path}-wal")
        if str(self.path) == ":memory:":  # SQLite would not create a file of this name
            raise LogError(
                f"{self.path}: a log must be a file on a local disk; give it a name such as streamnb.db"
            )
        with suppress(OSError):  # it exists, or SQLite reports why it cannot be created
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        self._is_constant = _is_on_read_only_medium(self.path, self._wal)
        place = f"{self.path.absolute().as_uri()}?immutable={int(self._is_constant)}"
        with self.errors():
            self.db = sqlite3.connect(place, timeout=BUSY_TIMEOUT, isolation_level=None, uri=True)
        try:
            self._prepare()
            self._file = self._identity()
        except BaseException:
            self.db.close()
            raise

    def another(self) -> SqliteStore:
        """Return another connection to the opened file. Raises LogError if the path no longer leads to it."""
        self.check_in_place()
        other = SqliteStore(self.path)
        if other._identity() != self._file:
            other.close()
            self.check_in_place()
        return other

    def check_in_place(self) -> None:
        """Raise LogError if the path no longer leads to the opened file.

        Writes would be lost, and reads would return the records of an abandoned log.
        """
        if self._identity() != self._file:
            raise LogError(
                f"{self.path}: the file was deleted, moved or replaced while it was open; the log was not "
                "used any further. Restore the file, or move the snapshots away to begin a new model"
            )

    def _identity(self) -> tuple[int, int] | None:
        """Return the device and inode of the file, or None if the file is missing."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def close(self) -> None:
        """Close the connection."""
        with self.errors():
            self.db.close()

    # Transactions

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Translate SQLite's errors into `LogError` with the path and their meaning."""
        try:
            yield
        except sqlite3.Error as error:
            code = _primary_code(error)
            kind = Unavailable if code == sqlite3.SQLITE_BUSY else LogError
            raise kind(f"{self.path}: {MEANINGS.get(code, 'SQLite refused')} ({error})") from error

    @contextmanager
    def transaction(self, mode: Literal["DEFERRED", "IMMEDIATE"]) -> Iterator[None]:
        """Run the body in one transaction; if it raises, nothing of it is written.

        Args:
            mode: DEFERRED to read at one moment, IMMEDIATE to hold the write lock from the start.
        """
        self._patiently(lambda: self.db.execute(f"BEGIN {mode}"))
        with self.errors():
            try:
                yield
                self.db.execute("COMMIT")
            except BaseException:
                if self.db.in_transaction:
                    self.db.execute("ROLLBACK")
                raise

    def _patiently(self, act: Callable[[], T]) -> T:
        """Run `act`; retry as `patience` allows while another process keeps the file locked."""
        since = time.monotonic()
        waited = False
        while True:
            try:
                with self.errors():
                    done = act()
            except Unavailable as error:
                self._patience.unreachable(error, time.monotonic() - since)
                waited = True
            else:
                break
        if waited:
            self._patience.reachable(time.monotonic() - since)
        return done

    def version(self) -> int:
        """Return a number that changes whenever another connection has committed."""
        with self.errors():
            return int(self._pragma("data_version"))

    def checkpoint(self) -> None:
        """Copy the frames that no reader needs from the write-ahead log into the file, without waiting."""
        with self.errors():
            self._pragma("wal_checkpoint(PASSIVE)")

    def wal_bytes(self) -> int:
        """Return the size of the write-ahead log in bytes."""
        return self._wal.stat().st_size if self._wal.exists() else 0

    # Topics

    def topics(self) -> dict[str, int]:
        """Return the number of partitions by topic."""
        with self.errors():
            return dict(self.db.execute("SELECT name, partitions FROM topics ORDER BY name").fetchall())

    def topic(self, name: str) -> tuple[str, int]:
        """Return the topic's UUID and number of partitions. Raises `UnknownTopic`."""
        with self.errors():
            query = "SELECT uuid, partitions FROM topics WHERE name = ?"
            row: tuple[str, int] | None = self.db.execute(query, (name,)).fetchone()
        if row is None:
            raise UnknownTopic(f"{self.path}: no topic {name!r}")
        return row

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic if it is missing. Raises `LogError` if it has another number of partitions."""
        if partitions < 1:
            raise LogError(f"{self.path}: topic {name!r} needs at least 1 partition, not {partitions}")
        with self.transaction("IMMEDIATE"):
            present = self.topics().get(name)
            if present is None:
                self.db.execute("INSERT INTO topics VALUES (?, ?, ?)", (name, str(uuid.uuid4()), partitions))
                self._insert_partitions(name, range(partitions))
            elif present != partitions:
                raise LogError(f"{self.path}: topic {name!r} has {present} partitions, not {partitions}")

    # Partitions and their records

    def offset_range(self, partition: Partition) -> OffsetRange:
        """Return the partition's id and range of offsets. Raises `UnknownTopic`."""
        self.check_in_place()
        with self.errors():
            query = "SELECT partition_id, earliest, next FROM partitions WHERE topic = ? AND number = ?"
            row = self.db.execute(query, partition).fetchone()
        if row is None:
            raise UnknownTopic(f"{self.path}: no partition {partition.topic}[{partition.number}]")
        return OffsetRange(*row)

    def fetch(self, partition: Partition, extent: OffsetRange, offset: int, limit: int) -> list[Record]:
        """Return at most `limit` records from `offset`, up to `FETCH_BYTES`, inside a transaction.

        Raises:
            OutOfRange: `offset` lies below the earliest record kept or beyond the end.
            LogError: records are missing from the range.
        """
        if not extent.earliest <= offset <= extent.next:
            raise OutOfRange(
                f"{self.path}: offset {offset} of {partition.topic}[{partition.number}] was asked for; "
                f"kept are {extent.earliest} up to, not including, {extent.next}"
            )
        first = extent.partition_id << OFFSET_BITS | offset
        count = max(0, min(limit, extent.next - offset))
        found = self.db.execute(_FETCH, (first, first + count))
        rows, bytes_left = [], FETCH_BYTES
        while bytes_left > 0 and (row := found.fetchone()) is not None:
            rows.append(row)
            bytes_left -= len(row[3])
        found.close()
        if bytes_left > 0 and len(rows) != count:
            raise LogError(
                f"{self.path}: is damaged: {count} records of {partition.topic}[{partition.number}] "
                f"should lie from offset {offset} on, {len(rows)} do"
            )
        records = [
            (
                partition,
                at & OFFSET_MASK,
                key,
                value,
                ts,
                self._headers(partition, at, packed) if packed else (),
            )
            for at, ts, key, value, packed in rows
        ]
        return tuples(Record, records)

    def _headers(self, partition: Partition, place: int, packed: bytes) -> tuple[tuple[str, bytes], ...]:
        """Decode headers. Raises LogError if they are damaged."""
        try:
            return _unpack_headers(packed)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise LogError(
                f"{self.path}: is damaged: the headers of {partition.topic}[{partition.number}] "
                f"offset {place & OFFSET_MASK} cannot be read: {error}"
            ) from error

    def insert(self, records: Sequence[NewRecord], now: float) -> list[tuple[Partition, int]]:
        """Insert records and advance the ends, inside a transaction; return partition and offset of each.

        Raises `UnknownTopic`.
        """
        tails = {topic: self._tails(topic) for topic in {record.topic for record in records}}
        taken = [tails[record.topic].place(record.key) for record in records]
        _insert_rows(self.db, [place for place, _, _ in taken], records, now)
        self.db.executemany(
            "UPDATE partitions SET next = ? WHERE partition_id = ?",
            [end for tail in tails.values() for end in zip(tail.ends, tail.ids, strict=True)],
        )
        return [(partition, offset) for _, partition, offset in taken]

    # Positions

    def positions(self) -> dict[Partition, int]:
        """Return the positions saved last."""
        with self.errors():
            query = "SELECT topic, number, position FROM partitions WHERE position IS NOT NULL ORDER BY 1, 2"
            rows = self.db.execute(query).fetchall()
        return {Partition(topic, number): position for topic, number, position in rows}

    def note_positions(self, positions: Mapping[Partition, int]) -> None:
        """Save these positions, inside a transaction. Raises `UnknownTopic`."""
        rows = [
            (position, self.offset_range(partition).partition_id) for partition, position in positions.items()
        ]
        self.db.executemany("UPDATE partitions SET position = ? WHERE partition_id = ?", rows)

    def forwarded(self, topic: str, by: str) -> dict[Partition, Forwarded]:
        """Return the positions of one forwarder of a topic that were saved last, with their notes."""
        with self.errors():
            query = """SELECT number, forwarded.position, note FROM forwarded
                JOIN partitions USING (partition_id) WHERE topic = ? AND forwarder = ?"""
            rows = self.db.execute(query, (topic, by)).fetchall()
        return {Partition(topic, number): Forwarded(position, note) for number, position, note in rows}

    def note_forwarded(self, until: Mapping[Partition, Forwarded], by: str) -> None:
        """Save positions and notes of one forwarder, inside a transaction. Raises `UnknownTopic`."""
        rows = [(by, self.offset_range(partition).partition_id, *at) for partition, at in until.items()]
        self.db.executemany("INSERT OR REPLACE INTO forwarded VALUES (?, ?, ?, ?)", rows)

    # Inside

    def _prepare(self) -> None:
        if not self._patiently(self._look):
            self._create_schema()

    def _look(self) -> bool:
        """Return whether the schema exists; check it first, so that a foreign file stays unchanged."""
        with self.transaction("DEFERRED"):
            made = self._has_schema()
        if self._is_constant:
            return made
        with self.errors():
            mode = self._enter_wal()
            if mode != "wal":
                raise LogError(f"{self.path}: a log must be a file on a local disk (journal mode {mode!r})")
            self._pragma("synchronous = FULL")
            self._pragma("wal_autocheckpoint = 0")
            self._pragma(f"journal_size_limit = {CHECKPOINT_BYTES}")
        return made

    def _enter_wal(self) -> int | str:
        """Switch to the write-ahead log and return the resulting mode.

        If two connections switch a new file at the same time, SQLite fails at once to avoid a deadlock,
        instead of waiting. Therefore this method retries.
        """
        deadline = time.monotonic() + BUSY_TIMEOUT
        while True:
            try:
                return self._pragma("journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if _primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
            time.sleep(0.01)

    def _create_schema(self) -> None:
        with self.transaction("IMMEDIATE"):
            if not self._has_schema():  # another process may have created it
                for statement in SCHEMA:
                    self.db.execute(statement)

    def _has_schema(self) -> bool:
        """Return True for a log of this version, False for an empty file; else raise `LogError`."""
        application, version = self._pragma("application_id"), self._pragma("user_version")
        (tables,) = self.db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if (application, version, tables) == (0, 0, 0):
            return False
        if application != APPLICATION_ID:
            raise LogError(f"{self.path}: is a SQLite database, but not a log")
        if version != SCHEMA_VERSION:
            raise LogError(f"{self.path}: is a log of version {version}; known is {SCHEMA_VERSION}")
        if not self.db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'forwarded'").fetchone()[0]:
            raise LogError(f"{self.path}: was written by an early streamnb: begin a new log in another file")
        return True

    def _pragma(self, pragma: str) -> int | str:
        """Return the first value of a pragma, or an empty string."""
        rows: list[tuple[int | str, ...]] = self.db.execute(f"PRAGMA {pragma}").fetchall()
        return rows[0][0] if rows else ""

    def _insert_partitions(self, topic: str, numbers: Iterable[int]) -> None:
        rows = ((topic, number) for number in numbers)
        self.db.executemany("INSERT INTO partitions (topic, number) VALUES (?, ?)", rows)

    def _tails(self, topic: str) -> _Tails:
        """Return the ends of a topic's partitions, for one write. Raises `UnknownTopic`."""
        query = "SELECT partition_id, next FROM partitions WHERE topic = ? ORDER BY number"
        ends = self.db.execute(query, (topic,)).fetchall()
        if not ends:
            raise UnknownTopic(f"{self.path}: no topic {topic!r}")
        return _Tails(topic, ends)
