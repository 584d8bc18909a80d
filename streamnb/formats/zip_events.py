"""A ZIP archive of files of events: its members one after another, each in its own format, streamed.

Members may be mails in folders. A workbook of Excel, which is a ZIP archive, is refused as what it is.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any

import msgspec

from streamnb.errors import LogError, told_as
from streamnb.formats.compressed_input import DAMAGE, compression_suffix, content_of
from streamnb.formats.event_columns import CsvColumns, RowNote, ignore_note
from streamnb.formats.event_source import PEEKED, EventSource
from streamnb.formats.file_readings import note_other_columns, refuse_other_reading
from streamnb.formats.mail_events import may_be_mail
from streamnb.formats.mail_folders import mails_of_files
from streamnb.formats.refused_content import EXCEL
from streamnb.values.messages import Message
from streamnb.values.parameter_checks import did_you_mean, pluralize

_MOST_MEMBERS = 1_000_000
_MOST_TIMES = 1100  # as much as deflate can expand a member; members that overlap expand more
_FREE = 256 << 20  # bytes that any archive may expand to
_DAMAGE = (*DAMAGE, zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, MemoryError)
Read = Callable[[EventSource], Iterator[bytes]]
_OFFICE = {
    "xl/workbook.xml": EXCEL,
    "xl/workbook.bin": EXCEL,
    "word/document.xml": "a document of Word: save its text",
    "ppt/presentation.xml": "a presentation: save its text",
    "content.xml": "a document of LibreOffice: `libreoffice --headless --convert-to csv FILE` converts it",
    "META-INF/MANIFEST.MF": "an archive of Java",
}
"""Member -> what an archive with it is."""


def zip_events(source: EventSource, read: Read) -> Iterator[bytes]:
    """Yield the events of the members, in the order of the archive.

    Args:
        source: the archive; its columns may name one `member`.
        read: settles the format of a member, and yields its events.

    Raises:
        ConfigError: a member is read otherwise than the first.
        LogError: the archive is a pipe, damaged, encrypted, a workbook, or expands too much, or a
            member cannot be read.
    """
    with _damage("the archive"), zipfile.ZipFile(source.seekable("a ZIP archive")) as archive:
        members = _members(archive, source.columns.member)
        size = source.raw.seek(0, io.SEEK_END)
        limit = ExpansionLimit(size * _MOST_TIMES + _FREE)
        if _holds_mails(archive, members, limit):
            files = ((PurePosixPath(one.filename), _opener(archive, one, limit)) for one in members)
            yield from mails_of_files(source, files)
            return
        columns = msgspec.structs.replace(source.columns, member="")
        if len(members) > 1:
            columns = msgspec.structs.replace(columns, has_content_ids=True, is_one_of_many=True)
            _settle(archive, members, columns, read, source)
        for member in members:
            with _opened(archive, member, limit, columns, source.note) as opened:
                yield from read(opened)


def _settle(
    archive: zipfile.ZipFile,
    members: list[zipfile.ZipInfo],
    columns: CsvColumns,
    read: Read,
    source: EventSource,
) -> None:
    """Read the first event of each member. Raises ConfigError if one is read otherwise than the first."""
    first: tuple[str, CsvColumns] | None = None
    limit = ExpansionLimit(_FREE + PEEKED * len(members))
    for member in members:
        with _opened(archive, member, limit, columns, ignore_note) as opened:
            if next(read(opened), None) is None:
                text = f"{member.filename} holds no event"
                source.note(Message("file-without-events", text, file=member.filename))
                continue
            one = member.filename, opened.columns
        if first is None:
            first = one
            continue
        refuse_other_reading(one, first, "--member NAME reads one file")
        note_other_columns(one, first, source.note)


@contextmanager
def _opened(
    archive: zipfile.ZipFile,
    member: zipfile.ZipInfo,
    limit: ExpansionLimit,
    columns: CsvColumns,
    note: RowNote,
) -> Iterator[EventSource]:
    """Open a member as a source. Raises LogError with its name."""
    name = member.filename
    with _damage(name), told_as(LogError, name, LogError), _opener(archive, member, limit)() as file:
        yield EventSource(name, content_of(file, compression_suffix(name.lower())), columns, note)


def _members(archive: zipfile.ZipFile, given: str) -> list[zipfile.ZipInfo]:
    """Return the members that are read. Raises LogError."""
    names = archive.namelist()
    if what := next((what for name, what in _OFFICE.items() if name in names), ""):
        raise LogError(f"is {what}")
    if given and given not in names:
        known = [name for name in names if not name.endswith("/")]
        there = f"{pluralize(len(known), 'member')}{did_you_mean(given, known)}"
        raise LogError(f"--member {given}: the archive has {there}")
    if len(names) > _MOST_MEMBERS:
        raise LogError(f"has more than {_MOST_MEMBERS} members")
    hidden = ("__MACOSX/", ".")
    found = [
        one
        for one in archive.infolist()
        if one.filename == given or (not given and not one.is_dir() and not _is_hidden(one.filename, hidden))
    ]
    if not found:
        raise LogError("is a ZIP archive without a file")
    return found


def _is_hidden(name: str, hidden: tuple[str, ...]) -> bool:
    return name.startswith(hidden[0]) or PurePosixPath(name).name.startswith(hidden[1])


def _holds_mails(archive: zipfile.ZipFile, members: list[zipfile.ZipInfo], limit: ExpansionLimit) -> bool:
    if len(members) < 2:
        return False
    with _opener(archive, members[0], limit)() as file:
        start = io.BufferedReader(file).peek(PEEKED)
    return may_be_mail(start) and PurePosixPath(members[0].filename).suffix.lower() in {"", ".eml"}


class ExpansionLimit:
    """Counts the bytes that an archive expands to, and raises LogError beyond a number."""

    def __init__(self, most: int) -> None:
        self._left = most

    def take(self, n: int) -> None:
        """Count `n` more bytes."""
        self._left -= n
        if self._left < 0:
            raise LogError(f"expands to more than {_MOST_TIMES} times its size: unpack it")


class _Member(io.RawIOBase):
    def __init__(self, file: Any, limit: ExpansionLimit) -> None:
        super().__init__()
        self._file, self._limit = file, limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self._file.read1(len(buffer))
        self._limit.take(len(part))
        buffer[: len(part)] = part
        return len(part)


def _opener(archive: zipfile.ZipFile, member: zipfile.ZipInfo, limit: ExpansionLimit) -> Callable[[], Any]:
    return lambda: _Member(archive.open(member), limit)


@contextmanager
def _damage(what: str) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        if isinstance(error, RuntimeError) and "password" in str(error):
            raise LogError(f"{what} is encrypted: unpack it with its password") from error
        raise LogError(f"{what}: damaged: {error}") from error
