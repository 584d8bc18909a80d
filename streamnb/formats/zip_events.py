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

from streamnb.errors import LogError
from streamnb.formats.compressed_input import DAMAGE, compression_suffix, content_of
from streamnb.formats.event_source import PEEKED, EventSource
from streamnb.formats.mail_events import may_be_mail
from streamnb.formats.mail_folders import mails_of_files
from streamnb.formats.refused_content import EXCEL
from streamnb.values.parameter_checks import did_you_mean, pluralize

_MOST_MEMBERS = 1_000_000
_MOST_TIMES = 1100  # as much as deflate can expand a member; members that overlap expand more
_FREE = 256 << 20  # bytes that any archive may expand to
_DAMAGE = (*DAMAGE, zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, MemoryError)
_OFFICE = {
    "xl/workbook.xml": EXCEL,
    "xl/workbook.bin": EXCEL,
    "word/document.xml": "a document of Word: save its text",
    "ppt/presentation.xml": "a presentation: save its text",
    "content.xml": "a document of LibreOffice: `libreoffice --headless --convert-to csv FILE` converts it",
    "META-INF/MANIFEST.MF": "an archive of Java",
}
"""Member -> what an archive with it is."""


def zip_events(source: EventSource, read: Callable[[EventSource], Iterator[bytes]]) -> Iterator[bytes]:
    """Yield the events of the members, in the order of the archive.

    Args:
        source: the archive; its columns may name one `member`.
        read: yields the events of a member, in its format.

    Raises:
        LogError: the archive is a pipe, damaged, encrypted, a workbook, or expands too much, or a
            member cannot be read.
    """
    if source.raw is None:
        raise LogError("is a ZIP archive, which is read from an uncompressed file, not from a pipe")
    with _damage("the archive"), zipfile.ZipFile(source.raw) as archive:
        members = _members(archive, source.columns.member)
        size = source.raw.seek(0, io.SEEK_END)
        limit = ExpansionLimit(size * _MOST_TIMES + _FREE)
        if _holds_mails(archive, members, limit):
            files = ((PurePosixPath(one.filename), _opener(archive, one, limit)) for one in members)
            yield from mails_of_files(source, files)
            return
        for member in members:
            with _damage(member.filename), _opener(archive, member, limit)() as file:
                inner = _inner(source, member.filename, file, are_many=len(members) > 1)
                try:
                    yield from read(inner)
                except LogError as error:
                    raise LogError(f"{member.filename}: {error}") from error


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


def _inner(source: EventSource, name: str, file: Any, *, are_many: bool) -> EventSource:
    """Return a member as a source; if there are several, ids that are made differ between them."""
    columns = source.columns
    has_content_ids = columns.has_content_ids or are_many
    columns = msgspec.structs.replace(columns, member="", has_content_ids=has_content_ids)
    return EventSource(name, content_of(file, compression_suffix(name.lower())), columns, source.note)


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
