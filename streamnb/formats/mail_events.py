"""Mails as event records: one mail, an mbox, a Maildir or another folder of mails, an index of TREC.

The text of an event is the subject and the body; the feature ``sender`` is the address of the sender. Roles
may name other columns: ``subject``, ``body``, ``sender``, ``date``, ``raw`` (the whole mail), ``folder``,
``file`` (the path in the folder), or any header.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import PurePath, PurePosixPath
from typing import Any

import msgspec

from streamnb.formats.event_columns import report_no_label
from streamnb.formats.event_source import EventSource
from streamnb.formats.mail_message import MAX_MAIL, MailText
from streamnb.values.messages import Message

_DAYS = rb"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_DATED = re.compile(rb"From [^\r\n]*\b" + _DAYS + rb"\b[^\r\n]*\d\d?:\d\d")
_QUOTED = re.compile(rb">+From ")
_HEADER = re.compile(rb"[!-9;-~]+[ \t]*:")
_KNOWN = re.compile(
    rb"(?:Received|Return-Path|Delivered-To|From|To|Subject|Date|Message-ID|MIME-Version|Content-Type|Reply-To|"
    rb"Envelope-To|DKIM-Signature|Authentication-Results|ARC-[A-Za-z-]+|X-[A-Za-z0-9-]+)[ \t]*:",
    re.IGNORECASE,
)
_SUBFOLDERS = {"cur", "new", "tmp"}
_CHUNK = 1 << 16  # bytes of a line that are read at once
_LONGEST_SEPARATOR = 1000  # bytes; many weekdays in a longer line would take long


def is_mbox(start: bytes) -> bool:
    """Return whether content begins with a line that separates mails: ``From``, an address and a date."""
    return _DATED.match(start, 0, _LONGEST_SEPARATOR) is not None


def is_mail(start: bytes) -> bool:
    """Return whether content begins with a usual header of a mail."""
    return _KNOWN.match(start) is not None


def may_be_mail(start: bytes) -> bool:
    """Return whether content begins with any header, as a mail in a folder of mails does."""
    return start.startswith(b"From ") or _HEADER.match(start) is not None


def mbox_events(source: EventSource) -> Iterator[bytes]:
    """Yield the event of each mail of an mbox."""
    reader = MailEvents(source)
    for raw in split_mbox(source.content):
        yield reader.event(raw, PurePath(source.name).stem, "")
    reader.check_label()


def mail_file_events(source: EventSource) -> Iterator[bytes]:
    """Yield the event of a file that is one mail."""
    raw, reader = source.content.read(MAX_MAIL + 1), MailEvents(source)
    if raw:
        yield reader.event(raw.removeprefix(b"\xef\xbb\xbf"), PurePath(source.name).stem, "")
    reader.check_label()


def split_mbox(content: io.BufferedReader[Any]) -> Iterator[bytes]:
    """Yield the mails of an mbox without their separators; of a mail at most a byte beyond `MAX_MAIL`.

    A line that begins with ``From`` separates mails: with a date, if the first line has one. ``>From`` at the
    beginning of a line is read as ``From``, which programs quote so.
    """
    kept: list[bytes] = []
    size, is_dated, is_first, is_begin = 0, True, True, True
    while line := content.readline(_CHUNK):
        first = line[:1] if is_begin else b""
        if first == b"F" and line.startswith(b"From ") and (is_first or not is_dated or is_mbox(line)):
            if is_first:
                is_dated = is_mbox(line)
            else:
                yield b"".join(kept)
            kept, size, is_first = [], 0, False
        elif not is_first or line.strip():
            is_first = False
            if first == b">" and _QUOTED.match(line):
                line = line[1:]
            kept.append(line[: MAX_MAIL + 1 - size])
            size += len(line)
        is_begin = line.endswith(b"\n")
    if not is_first:
        yield b"".join(kept)


class MailEvents:
    """Converter of mails to events.

    Args:
        source: the open file or folder.
        usual_label: a column with the label, if the roles name none; "" for none.
    """

    def __init__(self, source: EventSource, usual_label: str = "") -> None:
        columns = source.columns
        self._source, self._given = source, columns
        label = usual_label if columns.label == "label" and columns.finds_label else columns.label
        self._label = label
        self._is_noted, self._has_label = not usual_label or label != usual_label, False
        text = columns.text or ""
        self._text = text
        self._features = {"sender", *(columns.strings - {"text"})}  # the declared ones
        if text in {"subject", "body"}:
            self._features |= {"subject", "body"}
        roles: dict[str | None, str] = {columns.id: "id", columns.ts: "ts", text: "text"}
        self._roles = {name: role for name, role in roles.items() if name is not None and name != role}
        self._features -= self._roles.keys()
        self._columns = msgspec.structs.replace(
            columns, id="id", label="label", text="text", ts="ts", missing=()
        )

    def event(self, raw: bytes, file: str, folder: str, label: str = "", **more: object) -> bytes:
        """Return the event of a mail.

        Args:
            raw: its bytes.
            file: its file's path.
            folder: its folder's name.
            label: its label if an index names it.
            more: further fields of the event.
        """
        if len(raw) > MAX_MAIL:
            return self._source.faulty("mail", f"longer than {MAX_MAIL} bytes", raw[:1000])
        try:
            mail = MailText(raw)
            cells = {name: self._value(name, mail, raw, file, folder) for name in sorted(self._features)}
            found = {role: self._value(name, mail, raw, file, folder) for name, role in self._roles.items()}
            found.setdefault("text", mail.text)
            label = label or (self._value(self._label, mail, raw, file, folder) if self._label else "")
        except ValueError as error:
            return self._source.faulty("mail", error, raw[:1000])
        cells |= {name: value for name, value in found.items() if value or name == "id"}
        if label:
            self._note_label(label)
            cells["label"] = label
        cells = {name: value for name, value in cells.items() if value}
        return self._source.event(cells, raw, self._columns, **more)

    def check_label(self) -> None:
        """Raise LogError if labels are needed, and no mail had one."""
        if self._given.must_have_label and not self._has_label:
            why = "no mail has a label: --label-column NAME selects folder, file or a header"
            report_no_label(self._source.note, why, self._given)

    def _value(self, name: str, mail: MailText, raw: bytes, file: str, folder: str) -> str:
        if name == "raw":
            return raw.decode(errors="replace")
        if name == "folder":
            return folder
        if name == "file":
            return file
        found = {"body": "body", "sender": "sender", "date": "date", "text": "text"}.get(name)
        return getattr(mail, found) if found else mail.header(name)

    def _note_label(self, label: str) -> None:
        self._has_label = True
        if not self._is_noted:
            self._is_noted = True
            text = f"the label of a mail is its {self._label}, such as {label!r}; --label-column NAME takes "
            text += "another: file, or a header"
            self._source.note(Message("label-chosen", text, column=self._label))


def folder_of(path: PurePosixPath) -> str:
    """Return the folder of a path's mails: ``spam`` of ``spam/cur/1.eml``, and of ``.spam`` of a Maildir."""
    parts = [part for part in path.parent.parts if part not in _SUBFOLDERS]
    return parts[-1].lstrip(".") if parts else ""
