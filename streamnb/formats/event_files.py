"""Files of events: opened by name, decompressed, and read by the reader of their format.

`streamnb.formats.event_formats` lists the formats; `-` is standard input, and compression is recognised by
the first bytes. Text is UTF-8, or UTF-16 with a byte order mark, unless `CsvColumns.encoding` names another
encoding. Everything is streamed: memory holds one line or row (at most `MAX_LINE`), the first lines of CSV,
and the buffers.
"""

from __future__ import annotations

import io
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import msgspec

from streamnb.errors import ConfigError, LogError, told_as
from streamnb.formats.compressed_input import DAMAGE, compression_suffix, content_of
from streamnb.formats.event_columns import CsvColumns, RowNote, ignore_note
from streamnb.formats.event_formats import (
    JSON_LINES,
    EventFormat,
    format_named,
    format_of_name,
    read_as,
    settle_format,
)
from streamnb.formats.event_source import EventSource

FileName = str | os.PathLike[str]

FOLDER = "mails"
"""The name of the format of folders."""

_IN_MEMORY = 16 << 20  # bytes of standard input that are kept in memory, to be read again
_COLUMNS, _LINES = CsvColumns(), CsvColumns(format="jsonl")


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
    with open_counted(path, _LINES) as lines:
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
        if Path(name).is_dir():
            source: Any = io.BytesIO()
            columns = msgspec.structs.replace(columns, format=columns.format or FOLDER)
        else:
            source = _stdin() if name == "-" else Path(name).open("rb", buffering=0)  # noqa: SIM115
    return CountedEvents(name, source, columns, note)


def format_of(name: str, given: str = "") -> EventFormat:
    """Return the format of a file by an option, else by its name; JSON lines by default."""
    if not given and Path(name).is_dir():
        return format_named(FOLDER)
    return format_named(given) if given else format_of_name(name) or JSON_LINES


def _stdin() -> Any:
    copy = _stdin_copy.get()
    return _open_stdin() if copy is None else copy.reader()


def _open_stdin() -> Any:
    """Return standard input without its buffer, whose lock would block the exit while a thread reads."""
    if sys.stdin is None:
        raise OSError("standard input is closed")
    return getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)


@contextmanager
def repeated_stdin() -> Iterator[None]:
    """Let each file that is opened as ``-`` begin at the first byte of standard input again.

    What was read is kept, on disk beyond some MiB. What was not is awaited.
    """
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
        token = _stdin_copy.set(_StdinCopy(file))
        try:
            yield
        finally:
            _stdin_copy.reset(token)


class _StdinCopy:
    def __init__(self, file: Any) -> None:
        self._file = file
        self._source: Any = None

    def reader(self) -> io.RawIOBase:
        return _CopyReader(self)

    def read_into(self, buffer: Any, at: int) -> int:
        """Read from a position, of the copy or, at its end, of standard input."""
        self._file.seek(at)
        if count := self._file.readinto(buffer):
            return int(count)
        if self._source is None:
            self._source = _open_stdin()
        count = self._source.readinto(buffer)
        self._file.write(memoryview(buffer)[:count])
        return int(count)


class _CopyReader(io.RawIOBase):
    def __init__(self, copy: _StdinCopy) -> None:
        super().__init__()
        self._copy, self._at = copy, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._copy.read_into(buffer, self._at)
        self._at += count
        return count


_stdin_copy: ContextVar[_StdinCopy | None] = ContextVar("stdin_copy", default=None)


class CountedEvents:
    """The raw events of one file, to be iterated once, with the reading progress.

    Attributes:
        name: the file's name as passed.
        total: its size in bytes, None for standard input.
    """

    def __init__(self, name: str, source: Any, columns: CsvColumns, note: RowNote = ignore_note) -> None:
        self.name = name
        is_file = isinstance(source, io.FileIO) and name != "-"
        self.total = os.fstat(source.fileno()).st_size if is_file else None
        self._file, self._columns = source, columns
        self._may_pause = name == "-" or (is_file and not stat.S_ISREG(os.fstat(source.fileno()).st_mode))
        self._note: RowNote = lambda message: note(message.reworded(f"{name}: {message}", file=name))
        self._counter = _Counter(source)

    @cached_property
    def form(self) -> EventFormat:
        """The format in which the file is read."""
        with self._damage():
            return settle_format(self._source)

    @property
    def columns(self) -> CsvColumns:
        """The columns, with all that was sniffed until the first event."""
        return msgspec.structs.replace(self._source.columns, format=self.form.name)

    @property
    def line(self) -> int:
        """Number of lines read so far (for CSV: lines of the file, not rows)."""
        return self._source.line

    @property
    def position(self) -> int:
        """Bytes of the (compressed) file read so far; it ends at `total`."""
        return max(self._counter.position, int(self._source.share * (self.total or 0)))

    def __iter__(self) -> Iterator[bytes]:
        form = self.form
        with self._damage():
            yield from read_as(self._source, form)

    @cached_property
    def _source(self) -> EventSource:
        content = content_of(self._counter, compression_suffix(self.name.lower()))
        raw = self._file if self.total is not None and content.raw is self._counter else None
        return EventSource(
            self.name,
            content,
            self._columns,
            self._note,
            raw,
            lambda: self._counter.position,
            may_pause=self._may_pause,
        )

    @contextmanager
    def _damage(self) -> Iterator[None]:
        try:
            yield
        except (ConfigError, LogError) as error:
            raise type(error)(f"{self.name}: {error}") from error
        except (*DAMAGE, UnicodeError) as error:
            raise LogError(f"{self.name}: damaged near {self._source.place}: {error}") from error

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self.name != "-":
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
