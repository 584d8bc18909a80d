"""The content of an open file of events, as the readers of formats take it: bytes, lines, text, progress."""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import PurePath
from typing import Any, AnyStr

import msgspec

from streamnb.errors import LogError
from streamnb.formats.compressed_input import DAMAGE, compression_suffix
from streamnb.formats.encoding_sniffing import UTF8, sniff_encoding
from streamnb.formats.event_columns import CsvColumns, Row, RowIds, RowNote, encoded, event_of, note_findings
from streamnb.formats.event_csv import NOT_DECODED
from streamnb.formats.table_dialect import MAX_ROW
from streamnb.values.messages import Message

MAX_LINE = MAX_ROW
"""The longest line, in bytes (of text: in characters). A longer one ends the reading with an error."""

PEEKED = 1 << 16
"""First bytes of a file by which its format, encoding and shape are sniffed, at most."""


class EventSource:
    """The decompressed content of one file, to be read once.

    Args:
        name: the file's name.
        content: its decompressed bytes.
        columns: roles and notation of columns.
        note: called once for each kind of input that may be read otherwise than intended.
        raw: the file itself, if its format needs to seek; None if it is a pipe or compressed.
        position: returns how many bytes of the compressed file were read.
        may_pause: whether it is a pipe, of which no more than the first line is awaited.

    Attributes:
        start: the first bytes, at most `PEEKED`.
        encoding: the codec of its text, without a byte order mark.
        ids: makes ids for its events without one.
        findings: what was sniffed and is not plain, with the options that override it.
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
        *,
        may_pause: bool = False,
    ) -> None:
        self.name, self.columns, self.note, self.raw = name, columns, note, raw
        begun = _ReadAgain(content, may_pause=may_pause)
        self.start = begun.start
        self.content = io.BufferedReader(begun, PEEKED)
        self.findings: list[str] = []
        self.encoding = codecs.lookup(columns.encoding).name if columns.encoding else UTF8
        if self.encoding in {"utf-8", UTF8}:
            sniffed, is_guess = sniff_encoding(self.start)
            self.encoding = UTF8 if is_guess and columns.encoding else sniffed
            if is_guess and not columns.encoding:
                self.findings.append(f"encoding {self.encoding} (--encoding)")
                self.columns = msgspec.structs.replace(columns, encoding=self.encoding)
        self.line, self.share = 0, 0.0
        self._position, self._has_undecoded, self._rows = position, False, 0
        self._has_weights = False
        self.ids = RowIds(name, has_content=columns.has_content_ids)

    @property
    def start_text(self) -> str:
        """The first bytes as text; undecodable bytes are lone surrogates."""
        decoder = codecs.getincrementaldecoder(self.encoding)("surrogateescape")
        return decoder.decode(self.start).removeprefix("\ufeff")

    def seekable(self, what: str) -> Any:
        """Return the file itself. Raises LogError, with a description of the format, if it cannot seek."""
        if self.raw is None:
            remedy = (
                "write standard input to a file, and name that"
                if self.name == "-"
                else "decompress the file, or write the pipe to one"
            )
            raise LogError(f"is {what}, whose reader must seek: {remedy}")
        return self.raw

    def report_findings(self, more: Sequence[str] = ()) -> None:
        """Note what was sniffed, if there is anything, with the options that override it."""
        note_findings(self.note, [*self.findings, *more])

    @property
    def place(self) -> str:
        """The position of the reader, for messages."""
        return f"line {self.line}, byte {self._position()}"

    def byte_lines(self) -> Iterator[bytes]:
        """Return the lines as UTF-8, without byte order marks; undecodable bytes stay unchanged.

        Raises LogError if the lines end with carriage returns alone.
        """
        self._refuse_carriage_returns()
        if self.encoding != UTF8:
            return (text.encode(errors="surrogateescape") for text in self.text_lines("\n"))
        blocks = _whole_lines(iter(partial(self.content.read1, PEEKED), b""), (b"\n",))
        mark = codecs.BOM_UTF8  # also of files that were joined
        first = mark[:1]  # a search for one byte is much faster, and it is rare
        blocks = (
            one.removeprefix(mark).replace(b"\n" + mark, b"\n") if first in one else one for one in blocks
        )
        return self._lines(blocks, mark, io.BytesIO)

    def text_lines(self, newline: str = "") -> Iterator[str]:
        """Return the lines as text, with their ends; undecodable bytes are lone surrogates.

        Raises LogError if `newline` is given, and the lines end with carriage returns alone.
        """
        blocks = _whole_lines(self._text_parts(), ("\n",) if newline else ("\n", "\r"))
        if newline:  # else cells may hold line ends
            self._refuse_carriage_returns()
            blocks = (
                one.removeprefix("\ufeff").replace("\n\ufeff", "\n") if "\ufeff" in one else one
                for one in blocks
            )
        return self._lines(blocks, "\ufeff", partial(io.StringIO, newline=newline))

    def _refuse_carriage_returns(self) -> None:
        if b"\r" not in self.start:
            return
        start = self.start_text
        if "\r" in start.rstrip() and "\n" not in start:
            raise LogError("has lines that end with a carriage return alone; convert them: tr '\\r' '\\n'")

    def _text_parts(self) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder(self.encoding)("surrogateescape")
        while part := self.content.read1(PEEKED):
            yield decoder.decode(part)
        yield decoder.decode(b"", final=True)

    def _lines(
        self, blocks: Iterable[AnyStr], mark: AnyStr, split: Callable[[AnyStr], Iterable[AnyStr]]
    ) -> Iterator[AnyStr]:
        for block in blocks:
            may_be_long = len(block) > MAX_LINE
            for line in split(block.removeprefix(mark) if self.line == 0 else block):
                self.line += 1
                if may_be_long and len(line) > MAX_LINE:
                    raise LogError(f"longer than {MAX_LINE} bytes is {self.place}")
                yield line

    def settle_header(self, names: Iterable[str]) -> None:
        """Keep the names of columns that were found."""
        self.columns = msgspec.structs.replace(self.columns, header=tuple(names))

    def next_id(self, content: bytes | str) -> str:
        """Return the id of the next row, which has none of its own; call it once for each row, in order."""
        self._rows += 1
        return self.ids(self._rows - 1, content)

    def event(self, cells: Row, content: bytes | str, columns: CsvColumns, **more: object) -> bytes:
        """Return the event of the next row.

        Args:
            cells: typed values by column, without missing ones.
            content: the row as it is in the file.
            columns: roles of the columns; its `missing` must be empty.
            more: further fields of the event, outside its features.
        """
        return self.encoded(event_of(cells, self.next_id(content), columns) | more)

    def note_weight(self, text: str, weight: float) -> None:
        """Note the first weight of a row other than 1, if the schema reads none."""
        if weight != 1.0 and not self._has_weights and not self.columns.has_weights:
            self._has_weights = True
            what = f"weights of rows, such as {text}, are not read, and each event counts once: "
            what += "--set events.weight=$.weight reads them"
            self.note(Message("weights-not-read", what, line=self.line))

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


def _whole_lines(parts: Iterable[AnyStr], ends: tuple[AnyStr, ...]) -> Iterator[AnyStr]:
    r"""Yield content in parts that end with a line, except the last, and one beyond `MAX_LINE`.

    Args:
        parts: the content.
        ends: the characters that end a line. ``\r`` at the end of a part waits, because ``\n`` may follow.
    """
    kept: list[AnyStr] = []
    held: AnyStr | None = None
    size = 0
    for part in parts:
        text = part if held is None else held + part
        held = text[-1:] if ends[1:] and text.endswith(ends[1:]) else None
        text = text if held is None else text[:-1]
        end = 1 + max(map(text.rfind, ends))
        if end or size > MAX_LINE:
            kept.append(text[:end])
            yield text[:0].join(kept)
            kept, size = [], 0
        kept.append(text[end:])
        size += len(text) - end
    if held is not None:
        kept.append(held)
    if kept:
        yield kept[0][:0].join(kept)


class _ReadAgain(io.RawIOBase):
    """Content whose first bytes are read at once, to be looked at, and are then read again.

    Attributes:
        start: the first bytes.
    """

    def __init__(self, content: io.BufferedReader[Any], *, may_pause: bool) -> None:
        super().__init__()
        self.start, self._rest = b"", content
        self._error: Exception | None = None  # an error of reading, which is raised in its place
        try:
            while len(self.start) < PEEKED and not (may_pause and b"\n" in self.start):
                part = content.read1(PEEKED - len(self.start))
                if not part:
                    break
                self.start += part
        except (*DAMAGE, LogError) as error:
            self._error = error
        self._left = memoryview(self.start)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._left:
            if self._error is not None:
                raise self._error
            return self._rest.readinto1(buffer)
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        return count


def format_suffix(name: str) -> str:
    """Return the suffix of a file name that names its format, in lower case: ``.csv`` of ``A.CSV.gz``."""
    name = PurePath(name).name.lower()
    return PurePath(name.removesuffix(compression_suffix(name))).suffix
