"""The content of an open file of events, as the readers of formats take it: bytes, lines, text, progress."""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any

import msgspec

from streamnb.errors import LogError
from streamnb.formats.compressed_input import compression_suffix
from streamnb.formats.event_csv import MAX_ROW, NOT_DECODED, CsvColumns, Row, RowNote, encoded, event_of
from streamnb.values.messages import Message

MAX_LINE = MAX_ROW
"""The longest line, in bytes (of text: in characters). A longer one ends the reading with an error."""

PEEKED = 1 << 16
"""First bytes of a file by which its format is recognised, at most."""

_UTF8 = "utf-8-sig"  # without the mark
_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


class EventSource:
    """The decompressed content of one file, to be read once.

    Args:
        name: the file's name.
        content: its decompressed bytes.
        columns: roles and notation of columns.
        note: called once for each kind of input that may be read otherwise than intended.
        raw: the file itself, if its format needs to seek; None if it is a pipe or compressed.
        position: returns how many bytes of the compressed file were read.

    Attributes:
        line: number of lines read so far.
        share: the share of `raw` that was read, for formats that seek.
    """

    def __init__(
        self,
        name: str,
        content: io.BufferedReader[Any],
        columns: CsvColumns,
        note: RowNote,
        raw: Any = None,
        position: Callable[[], int] = int,
    ) -> None:
        self.name, self.content, self.columns, self.note, self.raw = name, content, columns, note, raw
        self.line, self.share = 0, 0.0
        self._position, self._has_undecoded, self._rows = position, False, 0

    @property
    def start(self) -> bytes:
        """The first bytes, at most `PEEKED`; fewer if a pipe pauses."""
        return self.content.peek(PEEKED)[:PEEKED]

    @property
    def encoding(self) -> str:
        """The codec of its text, without a byte order mark."""
        encoding = codecs.lookup(self.columns.encoding or _UTF8).name
        return _MARKS.get(self.start[:2], _UTF8) if encoding in {"utf-8", _UTF8} else encoding

    @property
    def place(self) -> str:
        """The position of the reader, for messages."""
        return f"line {self.line}, byte {self._position()}"

    def byte_lines(self) -> Iterator[bytes]:
        """Yield the lines as UTF-8, without a byte order mark; undecodable bytes stay unchanged."""
        if self.encoding != _UTF8:
            for text in self.text_lines("\n"):
                yield text.encode(errors="surrogateescape")
            return
        while line := self.content.readline(MAX_LINE + 1):
            self._count(line)
            # A byte order mark belongs to the file, not to the event.
            yield line.removeprefix(codecs.BOM_UTF8) if self.line == 1 else line

    def text_lines(self, newline: str = "") -> Iterator[str]:
        """Yield the lines as text, with their ends; undecodable bytes are lone surrogates."""
        text = io.TextIOWrapper(
            self.content, encoding=self.encoding, errors="surrogateescape", newline=newline
        )
        while line := text.readline(MAX_LINE + 1):
            self._count(line)
            yield line.removeprefix("\ufeff") if self.line == 1 else line

    def next_id(self, content: bytes | str) -> str:
        """Return the id of the next row, which has none of its own; call it once for each row, in order."""
        del content
        self._rows += 1
        return str(self._rows - 1)

    def event(self, cells: Row, content: bytes | str, columns: CsvColumns, **more: object) -> bytes:
        """Return the event of the next row.

        Args:
            cells: typed values by column, without missing ones.
            content: the row as it is in the file.
            columns: roles of the columns; its `missing` must be empty.
            more: further fields of the event, outside its features.
        """
        return self.encoded(event_of(cells, self.next_id(content), columns) | more)

    def faulty(self, kind: str, why: object, content: bytes | str) -> bytes:
        """Return what stands for the next row if it is not an event: a dead letter with the reason."""
        self.next_id(content)
        text = content.decode(errors="surrogateescape") if isinstance(content, bytes) else content
        return self.encoded([{kind: str(why)}, text])

    def encoded(self, record: Any) -> bytes:
        """Return a record as JSON; bytes that are not text stay unchanged, and the first are noted."""
        try:
            return msgspec.json.encode(record)
        except UnicodeEncodeError:
            if not self._has_undecoded:
                self._has_undecoded = True
                written = self.columns.encoding or "UTF-8"
                text = f"line {self.line} is not {written}, {NOT_DECODED}"
                self.note(Message("encoding-wrong", text, line=self.line, encoding=written))
            return encoded(record)

    def _count(self, line: bytes | str) -> None:
        self.line += 1
        if len(line) > MAX_LINE:
            raise LogError(f"longer than {MAX_LINE} bytes is {self.place}")


def format_suffix(name: str) -> str:
    """Return the suffix of a file name that names its format, in lower case: ``.csv`` of ``A.CSV.gz``."""
    name = PurePath(name).name.lower()
    return PurePath(name.removesuffix(compression_suffix(name))).suffix
