"""Files of events: JSON lines, CSV or TSV, plain or compressed; Parquet; `-` is standard input.

The name determines the format (``events.jsonl.gz``, ``.json``, ``.csv.zst``, ``.tsv``, ``.parquet``), in any
case. By default JSON lines are expected, and compression is recognised by the first bytes. Text is UTF-8, or
UTF-16 with a byte order mark, unless `CsvColumns.encoding` names another encoding. Everything is streamed:
memory holds one line or row (at most `MAX_LINE`), the first lines of CSV, and the buffers.
"""

from __future__ import annotations

import codecs
import io
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import msgspec
import zstandard

from streamnb.errors import ConfigError, LogError, told_as
from streamnb.formats.event_csv import (
    DELIMITERS,
    MAX_ROW,
    NO_TEXT,
    NOT_DECODED,
    CsvColumns,
    RowNote,
    ignore_note,
    rows_to_events,
)
from streamnb.values.messages import Message

MAX_LINE = MAX_ROW
"""The longest line, in bytes (of CSV: in characters). A longer one ends the reading with an error."""

FileName = str | os.PathLike[str]

_COLUMNS = CsvColumns()
_CSV, _JSON = {".csv", ".tsv"}, {".json", ".jsonl", ".ndjson"}
_BUFFER = 1 << 16
_COMPRESSED_CHUNK = 1 << 10  # small: a hostile zstandard block grows more than ten thousandfold
_GZIP = re.compile(rb"\x1f\x8b")
_ZSTD = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")  # or a skippable frame
_MAGIC = {".gz": _GZIP, ".zst": _ZSTD}
_DECOMPRESSORS: dict[re.Pattern[bytes], Callable[[], Any]] = {
    _GZIP: lambda: zlib.decompressobj(wbits=zlib.MAX_WBITS | 16),  # with gzip's header and checksum
    _ZSTD: lambda: zstandard.ZstdDecompressor().decompressobj(),
}
_UTF32 = re.compile(rb"\xff\xfe\0\0|\0\0\xfe\xff")
_OTHERS = {
    re.compile(
        rb"PK\x03\x04"
    ): "a ZIP archive, as workbooks of Excel (.xlsx) are: unpack it, or save the sheet as CSV",
    re.compile(rb"\xd0\xcf\x11\xe0"): "an old workbook of Excel (.xls): save the sheet as CSV",
    re.compile(rb"BZh[1-9]"): "compressed by bzip2: decompress it, as `bunzip2` does",
    re.compile(rb"\xfd7zXZ\x00"): "compressed by xz: decompress it, as `unxz` does",
    re.compile(rb"PAR1"): "Parquet: give it a name that ends in .parquet",
    _GZIP: "compressed twice: decompress it once, as `gunzip` does",
    _ZSTD: "compressed twice: decompress it once, as `unzstd` does",
    _UTF32: "UTF-32: --encoding utf-32 reads it",
}
"""Refused contents, by their first bytes."""
_ARRAY = re.compile(rb"\s*\[\s*(?:\{|$)")
_OBJECT = re.compile(rb"\s*\{\s*$")
_UTF8 = "utf-8-sig"  # without the mark
_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


def read_events(path: FileName, columns: CsvColumns = _COLUMNS) -> Iterator[bytes]:
    """Yield the raw events of a file: CSV rows, or JSON lines without the blank ones.

    Raises:
        LogError: a file that cannot be read, is damaged or ends too early (after its readable events were
            yielded), or holds a line longer than `MAX_LINE`; with the name and the place.
            Also CSV without a required column of labels.
        ConfigError: a CSV header that does not fit `columns` otherwise.
    """
    with open_counted(path, columns) as events:
        yield from events


def read_rows_order(path: FileName) -> list[int]:
    """Return the row numbers (from 0) of an order file, one a line, compressed or not. Raises `LogError`."""
    order = []
    with open_counted(path) as lines:
        for line in lines:
            if not line.strip().isdigit():
                raise LogError(f"{path}: line {lines.line}: expected a row number")
            order.append(int(line))
    return order


def open_counted(
    path: FileName, columns: CsvColumns = _COLUMNS, note: RowNote = ignore_note
) -> CountedEvents:
    """Open a file of events that reports its reading progress, as a context manager.

    Args:
        path: the file, ``-`` for standard input.
        columns: roles of the columns, in a file with columns.
        note: called once for each kind of input that may be read otherwise than intended.

    Raises:
        LogError: the file cannot be opened.
    """
    name = os.fspath(path)
    with told_as(LogError, name, OSError):
        source = _stdin() if name == "-" else Path(name).open("rb", buffering=0)  # noqa: SIM115  the caller closes it
    return CountedEvents(name, source, columns, note)


def has_columns(name: str) -> bool:
    """Return whether a file name stands for rows with columns: CSV, TSV or Parquet."""
    return has_cells(name) or _suffix(name) == ".parquet"


def has_cells(name: str) -> bool:
    """Return whether a file name stands for rows as text: CSV or TSV."""
    return _suffix(name) in _CSV


def _suffix(name: str) -> str:
    name = Path(name).name.lower()
    return Path(name.removesuffix(_compression(name))).suffix


def _compression(name: str) -> str:
    suffix = Path(name).suffix.lower()
    return suffix if suffix in _MAGIC else ""


def _stdin() -> Any:
    """Return standard input without its buffer, whose lock would block the exit while a thread reads."""
    if sys.stdin is None:
        raise OSError("standard input is closed")
    return getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)


class CountedEvents:
    """The raw events of one file, to be iterated once, with the reading progress.

    Attributes:
        name: the file's name as passed.
        total: its size in bytes, None for standard input.
        line: number of lines read so far (for CSV: lines of the file, not rows).
    """

    def __init__(self, name: str, source: Any, columns: CsvColumns, note: RowNote = ignore_note) -> None:
        self.name = name
        self.total = None if name == "-" else os.fstat(source.fileno()).st_size
        self.line = 0
        self._source, self._columns = source, columns
        self._note: RowNote = lambda message: note(message.reworded(f"{name}: {message}", file=name))
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
            self._refuse_other_content(stream)
            if suffix in _CSV:
                given = self._columns.delimiter or ("\t" if suffix == ".tsv" else "")
                columns = msgspec.structs.replace(self._columns, delimiter=given)
                lines = self._text_lines(stream, self._encoding(stream))
                yield from rows_to_events(lines, columns, self._note)
            else:
                yield from self._json_lines(stream)

    @contextmanager
    def _damage(self) -> Iterator[None]:
        try:
            yield
        except (ConfigError, LogError) as error:
            raise type(error)(f"{self.name}: {error}") from error
        except (OSError, EOFError, UnicodeError, zlib.error, zstandard.ZstdError) as error:
            raise LogError(f"{self.name}: damaged near {self._place()}: {error}") from error

    def _decompressed(self, compression: str) -> io.BufferedReader[Any]:
        compressed = io.BufferedReader(self._counter, _BUFFER)
        start = compressed.peek(4)[:4]
        expected = _MAGIC.get(compression)
        if expected and not expected.match(start):
            raise LogError(f"the name ends in {compression}, but the content is not of that format")
        for magic, decompressor in _DECOMPRESSORS.items():
            if magic.match(start):
                return io.BufferedReader(_Decompressed(compressed, decompressor), _BUFFER)
        return compressed

    def _refuse_other_content(self, stream: io.BufferedReader[Any]) -> None:
        start = stream.peek(8)[:8]
        for begins, what in _OTHERS.items():
            if begins.match(start) and not (begins is _UTF32 and self._columns.encoding):
                raise LogError(f"is {what}")

    def _rows(self) -> Iterator[bytes]:
        from streamnb.formats.parquet_events import parquet_events  # noqa: PLC0415  it imports numpy

        for row, share in parquet_events(self._source, self._columns, self._note):
            self.line += 1
            self._counter.position = int(share * (self.total or 0))
            yield row

    def _encoding(self, stream: io.BufferedReader[Any]) -> str:
        encoding = codecs.lookup(self._columns.encoding or _UTF8).name
        return _MARKS.get(stream.peek(2)[:2], _UTF8) if encoding in {"utf-8", _UTF8} else encoding

    def _json_lines(self, stream: io.BufferedReader[Any]) -> Iterator[bytes]:
        encoding = self._encoding(stream)
        lines = self._lines(stream) if encoding == _UTF8 else self._recoded_lines(stream, encoding)
        is_first = is_utf8 = True
        for line in lines:
            if is_first:
                is_first = not line.strip()
                self._refuse_other_json(line)
                if not is_first and _suffix(self.name) not in _JSON:
                    self._refuse_table(line, stream)
            if line.strip():
                if is_utf8 and not line.isascii() and not _is_utf8(line):
                    is_utf8 = False
                    written = self._columns.encoding or "UTF-8"
                    text = f"line {self.line} is not {written}, {NOT_DECODED}"
                    self._note(Message("encoding-wrong", text, line=self.line, encoding=written))
                yield line.rstrip(b"\r\n")

    def _lines(self, stream: io.BufferedReader[Any]) -> Iterator[bytes]:
        while line := stream.readline(MAX_LINE + 1):
            self._count(line)
            # A byte order mark belongs to the file, not to the event.
            yield line.removeprefix(codecs.BOM_UTF8) if self.line == 1 else line

    def _recoded_lines(self, stream: io.BufferedReader[Any], encoding: str) -> Iterator[bytes]:
        """Yield the lines as UTF-8; undecodable bytes stay unchanged."""
        for line in self._text_lines(stream, encoding, newline="\n"):
            yield line.encode(errors="surrogateescape")

    def _refuse_other_json(self, line: bytes) -> None:
        if b"\0" in line:
            raise LogError(NO_TEXT)
        for begins, what, program in (
            (_ARRAY, "one JSON array", "'.[]'"),
            (_OBJECT, "JSON objects of many lines", "."),
        ):
            if begins.match(line):
                raise LogError(f"{what}: write one object a line, as `jq -c {program}` does")

    def _refuse_table(self, line: bytes, stream: io.BufferedReader[Any]) -> None:
        """Raise LogError if the first two lines have the same number of a delimiter, and are not JSON."""
        delimiters = [one for one in map(str.encode, DELIMITERS) if one in line]
        if not delimiters or line.lstrip().startswith((b"{", b"[", b'"{')):
            return
        second = stream.peek(1).partition(b"\n")[0]
        if any(line.count(one) == second.count(one) for one in delimiters):
            what = "standard input" if self.name == "-" else "a file of this name"
            raise LogError(f"looks like CSV, but {what} is read as JSON lines; a name like events.csv is CSV")

    def _text_lines(self, stream: io.BufferedReader[Any], encoding: str, newline: str = "") -> Iterator[str]:
        text = io.TextIOWrapper(stream, encoding=encoding, errors="surrogateescape", newline=newline)
        while line := text.readline(MAX_LINE + 1):
            self._count(line)
            yield line.removeprefix("\ufeff") if self.line == 1 else line

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


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


class _Counter(io.RawIOBase):
    def __init__(self, source: Any) -> None:
        super().__init__()
        self.position = 0
        self._source = source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count: int = self._source.readinto(buffer)  # the available bytes: a pipe may pause
        self.position += count
        return count


class _Decompressed(io.RawIOBase):
    """The content of gzip members or zstandard frames, one after another.

    Python's gzip module loses bytes already read before a truncated end, and zstandard's reader does not
    detect one. This reader returns all readable bytes, then raises EOFError.
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
            if self._decompressor is _DECOMPRESSORS[_GZIP]:
                self._chunk = self._chunk.lstrip(b"\0")  # padding after the last member
            if not self._chunk:
                return
            self._member = self._decompressor()
        self._content = memoryview(self._member.decompress(self._chunk))
        self._chunk = b""
        if self._member.eof:
            self._chunk = self._member.unused_data
            self._member = None
