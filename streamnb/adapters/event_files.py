"""Files of events: JSON lines, CSV (of tabs, too), plain or compressed; Parquet; `-` is standard input.

A name says what a file holds (``events.jsonl.gz``, ``.json``, ``.csv.zst``, ``.tsv``, ``.parquet``). Where it
does not, JSON lines are expected, and compression is recognised by the first bytes. Everything is streamed:
memory holds one line or row (at most `MAX_LINE`) and the buffers.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import msgspec
import zstandard

from streamnb.adapters.parquet_file import parquet_events
from streamnb.errors import ConfigError, LogError, told_as
from streamnb.wire.event_csv import MAX_ROW, CsvColumns, Note, ignore_note, rows_to_events

MAX_LINE = MAX_ROW
"""The longest line, in bytes (of CSV: in characters). A longer one ends the reading with an error."""

FileName = str | os.PathLike[str]

_COLUMNS = CsvColumns()
_CSV = {".csv", ".tsv"}
_BUFFER = 1 << 16
_COMPRESSED_CHUNK = 1 << 10  # small, for a hostile zstandard block grows more than ten thousandfold
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_MAGIC = {".gz": _GZIP, ".zst": _ZSTD}
_DECOMPRESSORS: dict[bytes, Callable[[], Any]] = {
    _GZIP: lambda: zlib.decompressobj(wbits=zlib.MAX_WBITS | 16),  # with gzip's header and checksum
    _ZSTD: lambda: zstandard.ZstdDecompressor().decompressobj(),
}


def read_events(path: FileName, columns: CsvColumns = _COLUMNS) -> Iterator[bytes]:
    """The raw events of a file, one at a time: CSV rows, or JSON lines (blank ones skipped).

    Raises:
        LogError: a file that cannot be read, is damaged or ends too early (after what was readable has been
            yielded), or holds a line longer than `MAX_LINE`; with the name and the place.
            Also CSV without the column of labels, where `columns` says that it must be there.
        ConfigError: a CSV header that does not fit `columns` otherwise.
    """
    with open_counted(path, columns) as events:
        yield from events


def read_rows_order(path: FileName) -> list[int]:
    """The row numbers (from 0) of an order file, one a line, compressed or not. Raises `LogError`."""
    order = []
    with open_counted(path) as lines:
        for line in lines:
            if not line.strip().isdigit():
                raise LogError(f"{path}: line {lines.line}: expected a row number")
            order.append(int(line))
    return order


def open_counted(path: FileName, columns: CsvColumns = _COLUMNS, note: Note = ignore_note) -> CountedEvents:
    """Open a file of events whose reading shows its progress; use it in a ``with``.

    Args:
        path: the file, ``-`` for standard input.
        columns: what the columns are, in a file that has some.
        note: is called once for each kind of thing that may be read otherwise than it was meant.

    Raises:
        LogError: the file cannot be opened.
    """
    name = os.fspath(path)
    with told_as(LogError, name, OSError):
        source = _stdin() if name == "-" else Path(name).open("rb", buffering=0)  # noqa: SIM115  the caller closes it
    return CountedEvents(name, source, columns, note)


def has_columns(name: str) -> bool:
    """Whether a name says that a file holds rows with columns: CSV, with commas or tabs, or Parquet."""
    return _suffix(name) in {*_CSV, ".parquet"}


def _suffix(name: str) -> str:
    return Path(Path(name).name.removesuffix(_compression(name))).suffix


def _compression(name: str) -> str:
    suffix = Path(name).suffix
    return suffix if suffix in _MAGIC else ""


def _stdin() -> Any:
    """Standard input without its buffer: a thread waiting in its lock would spoil the exit."""
    return getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)


class CountedEvents:
    """The raw events of one file, to be iterated once, and how far their reading has come.

    Attributes:
        name: the file's name, as it was given.
        total: its size in bytes, None for standard input.
        line: how many lines (of CSV: lines of the file, not rows) have been read.
    """

    def __init__(self, name: str, source: Any, columns: CsvColumns, note: Note = ignore_note) -> None:
        self.name = name
        self.total = None if name == "-" else os.fstat(source.fileno()).st_size
        self.line = 0
        self._source, self._columns = source, columns
        self._note: Note = lambda text: note(f"{name}: {text}")
        self._counter = _Counter(source)

    @property
    def position(self) -> int:
        """Bytes of the (compressed) file read so far; it ends at `total`."""
        return self._counter.position

    def __iter__(self) -> Iterator[bytes]:
        with self._damage():
            suffix = _suffix(self.name)
            if suffix == ".parquet":
                yield from self._rows()
                return
            stream = self._decompressed(_compression(self.name))
            if suffix in _CSV:
                given = self._columns.delimiter or ("\t" if suffix == ".tsv" else "")
                columns = msgspec.structs.replace(self._columns, delimiter=given)
                yield from rows_to_events(self._text_lines(stream), columns)
            else:
                yield from self._json_lines(stream)

    @contextmanager
    def _damage(self) -> Iterator[None]:
        try:
            yield
        except (ConfigError, LogError) as error:
            raise type(error)(f"{self.name}: {error}") from error
        except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
            raise LogError(f"{self.name}: damaged near {self._place()}: {error}") from error

    def _decompressed(self, compression: str) -> io.BufferedReader[Any]:
        compressed = io.BufferedReader(self._counter, _BUFFER)
        start = compressed.peek(4)[:4]
        expected = _MAGIC.get(compression)
        if expected and not start.startswith(expected):
            raise LogError(f"the name says {compression}, but the content does not begin like one")
        for magic, decompressor in _DECOMPRESSORS.items():
            if start.startswith(magic):
                return io.BufferedReader(_Decompressed(compressed, decompressor), _BUFFER)
        return compressed

    def _rows(self) -> Iterator[bytes]:
        for row, share in parquet_events(self._source, self._columns, self._note):
            self.line += 1
            self._counter.position = int(share * (self.total or 0))
            yield row

    def _json_lines(self, stream: io.BufferedReader[Any]) -> Iterator[bytes]:
        while line := stream.readline(MAX_LINE + 1):
            self._count(line)
            if self.line == 1:
                line = line.removeprefix(codecs.BOM_UTF8)  # a mark of the file, not of the event
            if line.strip():
                yield line.rstrip(b"\r\n")

    def _text_lines(self, stream: io.BufferedReader[Any]) -> Iterator[str]:
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape", newline="")
        while line := text.readline(MAX_LINE + 1):
            self._count(line)
            yield line

    def _count(self, line: bytes | str) -> None:
        self.line += 1
        if len(line) > MAX_LINE:
            raise LogError(f"longer than {MAX_LINE} bytes is {self._place()}")

    def _place(self) -> str:
        return f"line {self.line}, byte {self.position} of the file"

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self.name != "-":
            self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Counter(io.RawIOBase):
    """A source of bytes that counts them."""

    def __init__(self, source: Any) -> None:
        super().__init__()
        self.position = 0
        self._source = source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count: int = self._source.readinto(buffer)  # what is there: a pipe may pause
        self.position += count
        return count


class _Decompressed(io.RawIOBase):
    """The content of gzip members or zstandard frames, one after another.

    Python's gzip loses what it has read when it meets a truncated end, and zstandard's reader does not
    notice one; this hands on all that can be read, then raises EOFError.
    """

    def __init__(self, compressed: io.BufferedReader[Any], decompressor: Callable[[], Any]) -> None:
        super().__init__()
        self._compressed, self._decompressor = compressed, decompressor
        self._member: Any = None  # the decompressor of the member being read, None between two
        self._chunk = b""
        self._content = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._content:
            self._chunk = self._chunk or self._compressed.read1(_COMPRESSED_CHUNK)
            if not self._chunk:
                if self._member is not None:
                    raise EOFError("the compressed content ends too early")
                return 0
            self._decompress()
        count = min(len(buffer), len(self._content))
        buffer[:count] = self._content[:count]
        self._content = self._content[count:]
        return count

    def _decompress(self) -> None:
        if self._member is None:
            self._member = self._decompressor()
        self._content = memoryview(self._member.decompress(self._chunk))
        self._chunk = b""
        if self._member.eof:
            self._chunk = self._member.unused_data
            self._member = None
