"""Topics, partitions and records in one SQLite file: what the embedded log stands on.

Every statement goes through `transaction` or `errors`, so that no error of SQLite's own leaves this module.
"""

from __future__ import annotations

import os
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeVar
from zlib import crc32

import msgspec

from streamnb.engine.ports import HandedOn, NewRecord, Partition, Patience, Record, tuples
from streamnb.errors import LogError, OutOfRange, Unavailable, UnknownTopic

T = TypeVar("T")

APPLICATION_ID: Final = 0x736E_626C  # "snbl": tells a log from any other SQLite database
SCHEMA_VERSION: Final = 1
BUSY_TIMEOUT: Final = 5.0  # seconds for which a writer waits for another
FETCH_BYTES: Final = 4 << 20  # of records that are read at once
CHECKPOINT_BYTES: Final = 64 << 20  # the size beyond which the write-ahead log should be checkpointed

# A record's place in its table is its partition's number in the file followed by its offset: one integer, so
# that a partition is one run of a B-tree that keeps its rows in the leaves. Tried against the same table with
# a key of two columns (WITHOUT ROWID): equal at 110 bytes a value; at 2 kB twice as fast, half the bytes.
OFFSET_BITS: Final = 44
OFFSET_MASK: Final = (1 << OFFSET_BITS) - 1

SCHEMA: Final = (
    "CREATE TABLE topics (name TEXT PRIMARY KEY, uuid TEXT NOT NULL, partitions INTEGER NOT NULL)",
    # Neither a partition's number in the file nor an offset is ever used twice, whatever has been deleted.
    f"""CREATE TABLE partitions (
        partition_id INTEGER PRIMARY KEY AUTOINCREMENT,
        topic TEXT NOT NULL,
        number INTEGER NOT NULL,
        earliest INTEGER NOT NULL DEFAULT 0,
        next INTEGER NOT NULL DEFAULT 0 CHECK (next BETWEEN earliest AND {OFFSET_MASK}),
        position INTEGER,
        note TEXT NOT NULL DEFAULT '',
        UNIQUE (topic, number))""",
    """CREATE TABLE records (
        place INTEGER PRIMARY KEY,
        timestamp REAL NOT NULL,
        key BLOB,
        value BLOB NOT NULL,
        headers BLOB)""",
    "CREATE TABLE leader (epoch INTEGER NOT NULL, owner TEXT, heartbeat REAL NOT NULL)",
    "INSERT INTO leader VALUES (0, NULL, 0.0)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)

# SQLite keeps a value of any type in any column: what others wrote is made what the column declares.
_FETCH: Final = """
    SELECT place, CAST(timestamp AS REAL), CAST(key AS BLOB), CAST(value AS BLOB), CAST(headers AS BLOB)
    FROM records WHERE place >= ? AND place < ? ORDER BY place"""

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
    """Whether this SQLite has the WAL-reset bug, which can damage a file that several processes write.

    Fixed in 3.51.3 and, for older branches, in 3.50.7 and 3.44.6 (https://sqlite.org/wal.html#walresetbug).
    """
    return not (version >= (3, 51, 3) or (3, 50, 7) <= version < (3, 51) or (3, 44, 6) <= version < (3, 45))


def _primary_code(error: sqlite3.Error) -> int:
    """SQLite's result code without its extension; the module's own errors have none."""
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF


class Extent(NamedTuple):
    """Where a partition lies in the file, and the half-open range of offsets that it keeps."""

    partition_id: int
    earliest: int
    next: int


class _Tails:
    """The growing ends of one topic's partitions during one write."""

    def __init__(self, ends: Sequence[tuple[int, int]]) -> None:
        self.ids = [partition_id for partition_id, _ in ends]
        self.ends = [end for _, end in ends]

    def place(self, key: bytes | None) -> int:
        """Take the next place in the key's partition; without a key, in the one whose end is lowest."""
        number = self.ends.index(min(self.ends)) if key is None else crc32(key) % len(self.ends)
        offset = self.ends[number]
        self.ends[number] = offset + 1
        return self.ids[number] << OFFSET_BITS | offset


class SqliteStore:
    """One connection to the file. Opening it creates the file and the schema where there are none.

    A file that is created is its user's alone; SQLite gives those beside it the mode that it has.

    Args:
        path: the file; SQLite keeps two more beside it while it is open.
        patience: what to do while another process keeps the file locked.

    Raises:
        LogError: the file is not a log, is of an unknown version, or cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str], patience: Patience | None = None) -> None:
        self.path = Path(path)
        self._patience = patience or Patience()
        self._wal = Path(f"{self.path}-wal")
        if str(self.path) == ":memory:":  # to SQLite that is no file, and none is to be left
            raise LogError(
                f"{self.path}: a log must be a file on a local disk; give it a name such as streamnb.db"
            )
        with suppress(OSError):  # it is there, or SQLite says why it cannot be
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        self._is_constant = self._is_on_read_only_medium()
        place = f"{self.path.absolute().as_uri()}?immutable={int(self._is_constant)}"
        with self.errors():
            self.db = sqlite3.connect(place, timeout=BUSY_TIMEOUT, isolation_level=None, uri=True)
        try:
            self._prepare()
            self._file = self._identity()
        except BaseException:
            self.db.close()
            raise

    def _is_on_read_only_medium(self) -> bool:
        """Whether nobody can write to the file, so that it is read as it is: SQLite makes no file beside it.

        Raises LogError where there are commits beside it, which SQLite would pass over.
        """
        told = os.statvfs(self.path) if hasattr(os, "statvfs") and self.path.exists() else None
        if told is None or not told.f_flag & os.ST_RDONLY:
            return False
        if self._wal.exists() and self._wal.stat().st_size:
            raise LogError(
                f"{self.path}: is on a read-only medium, and its last commits are in {self._wal.name}: copy "
                "both to where they can be written"
            )
        return True

    def check_in_place(self) -> None:
        """Raises LogError where the path has another file by now, or none.

        What is written would be lost, and what is read is of a log that nobody writes to.
        """
        if self._identity() != self._file:
            raise LogError(
                f"{self.path}: the file was deleted, moved or replaced while it was open; nothing more is "
                "read from it, or written to it. Bring it back, or move the snapshots away to begin anew"
            )

    def _identity(self) -> tuple[int, int] | None:
        """What tells a file from another that has its name."""
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
        """Turn SQLite's errors into `LogError` with the path and what it means."""
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
        """Do it; a file that another process keeps locked is waited for, as `patience` says."""
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
        """A number that changes whenever another connection has committed."""
        with self.errors():
            return int(self._pragma("data_version"))

    def checkpoint(self) -> None:
        """Copy what no reader still needs from the write-ahead log into the file, without waiting."""
        with self.errors():
            self._pragma("wal_checkpoint(PASSIVE)")

    def wal_bytes(self) -> int:
        """The size of the write-ahead log."""
        return self._wal.stat().st_size if self._wal.exists() else 0

    # Topics

    def topics(self) -> dict[str, int]:
        """Every topic's name -> number of partitions."""
        with self.errors():
            return dict(self.db.execute("SELECT name, partitions FROM topics ORDER BY name").fetchall())

    def topic(self, name: str) -> tuple[str, int]:
        """The topic's UUID and number of partitions. Raises `UnknownTopic`."""
        with self.errors():
            query = "SELECT uuid, partitions FROM topics WHERE name = ?"
            row: tuple[str, int] | None = self.db.execute(query, (name,)).fetchone()
        if row is None:
            raise UnknownTopic(f"{self.path}: there is no topic {name!r}")
        return row

    def create_topic(self, name: str, partitions: int) -> None:
        """Make a topic, or find that it is there already. Raises `LogError` where the numbers differ."""
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

    def extent(self, partition: Partition) -> Extent:
        """Where the partition lies and what it keeps. Raises `UnknownTopic`."""
        self.check_in_place()
        with self.errors():
            query = "SELECT partition_id, earliest, next FROM partitions WHERE topic = ? AND number = ?"
            row = self.db.execute(query, partition).fetchone()
        if row is None:
            raise UnknownTopic(f"{self.path}: there is no partition {partition.topic}[{partition.number}]")
        return Extent(*row)

    def fetch(self, partition: Partition, extent: Extent, offset: int, limit: int) -> list[Record]:
        """Inside a transaction: at most `limit` records from `offset` on, as many as fill `FETCH_BYTES`.

        Raises:
            OutOfRange: `offset` lies below the earliest record kept or beyond the end.
            LogError: records are missing that should be there.
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
        """Raises LogError where they are none."""
        try:
            return _unpack_headers(packed)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise LogError(
                f"{self.path}: is damaged: the headers of {partition.topic}[{partition.number}] "
                f"offset {place & OFFSET_MASK} cannot be read: {error}"
            ) from error

    def insert(self, records: Sequence[NewRecord], now: float) -> None:
        """Inside a transaction: give each record its place and move the ends. Raises `UnknownTopic`."""
        tails = {topic: self._tails(topic) for topic in {record.topic for record in records}}
        self.db.executemany(
            "INSERT INTO records VALUES (?, ?, ?, ?, ?)",
            [
                (tails[topic].place(key), now, key, value, _pack_headers(headers) if headers else None)
                for topic, key, value, headers in records
            ],
        )
        self.db.executemany(
            "UPDATE partitions SET next = ? WHERE partition_id = ?",
            [end for tail in tails.values() for end in zip(tail.ends, tail.ids, strict=True)],
        )

    # Positions

    def positions(self) -> dict[Partition, int]:
        """The positions noted last."""
        with self.errors():
            query = "SELECT topic, number, position FROM partitions WHERE position IS NOT NULL ORDER BY 1, 2"
            rows = self.db.execute(query).fetchall()
        return {Partition(topic, number): position for topic, number, position in rows}

    def note_positions(self, positions: Mapping[Partition, int]) -> None:
        """Inside a transaction: keep these positions. Raises `UnknownTopic`."""
        rows = [(position, self.extent(partition).partition_id) for partition, position in positions.items()]
        self.db.executemany("UPDATE partitions SET position = ? WHERE partition_id = ?", rows)

    def handed_on(self, topic: str) -> dict[Partition, HandedOn]:
        """The positions of a topic that were noted last, with their notes."""
        with self.errors():
            query = "SELECT number, position, note FROM partitions WHERE topic = ? AND position IS NOT NULL"
            rows = self.db.execute(query, (topic,)).fetchall()
        return {Partition(topic, number): HandedOn(position, note) for number, position, note in rows}

    def note_handed_on(self, until: Mapping[Partition, HandedOn]) -> None:
        """Inside a transaction: keep these positions and notes. Raises `UnknownTopic`."""
        rows = [(*at, self.extent(partition).partition_id) for partition, at in until.items()]
        self.db.executemany("UPDATE partitions SET position = ?, note = ? WHERE partition_id = ?", rows)

    # Inside

    def _prepare(self) -> None:
        if not self._patiently(self._look):
            self._create_schema()

    def _look(self) -> bool:
        """Look before touching: a file that is not a log is left as it was; whether one was made there."""
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
        """Switch to the write-ahead log and answer the mode that now holds.

        Where two connections switch a new file at once SQLite gives way at once, to avoid a deadlock, in
        place of waiting: so this waits.
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
            if not self._has_schema():  # another process may have been faster
                for statement in SCHEMA:
                    self.db.execute(statement)

    def _has_schema(self) -> bool:
        """True for a log of this version, False for an empty file; anything else raises `LogError`."""
        application, version = self._pragma("application_id"), self._pragma("user_version")
        (tables,) = self.db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if (application, version, tables) == (0, 0, 0):
            return False
        if application != APPLICATION_ID:
            raise LogError(f"{self.path}: is a SQLite database, but not a log")
        if version != SCHEMA_VERSION:
            raise LogError(f"{self.path}: is a log of version {version}; known is {SCHEMA_VERSION}")
        return True

    def _pragma(self, pragma: str) -> int | str:
        """The first value that a pragma answers, or an empty text."""
        rows: list[tuple[int | str, ...]] = self.db.execute(f"PRAGMA {pragma}").fetchall()
        return rows[0][0] if rows else ""

    def _insert_partitions(self, topic: str, numbers: Iterable[int]) -> None:
        rows = ((topic, number) for number in numbers)
        self.db.executemany("INSERT INTO partitions (topic, number) VALUES (?, ?)", rows)

    def _tails(self, topic: str) -> _Tails:
        query = "SELECT partition_id, next FROM partitions WHERE topic = ? ORDER BY number"
        ends = self.db.execute(query, (topic,)).fetchall()
        if not ends:
            raise UnknownTopic(f"{self.path}: there is no topic {topic!r}")
        return _Tails(ends)
