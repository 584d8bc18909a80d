"""JSON lines: one event a line, as bytes. What is JSON of another shape, or a table, is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator

from streamnb.errors import LogError
from streamnb.formats.event_csv import DELIMITERS, NO_TEXT, NOT_DECODED
from streamnb.formats.event_source import EventSource, format_suffix
from streamnb.values.messages import Message

SUFFIXES = (".json", ".jsonl", ".ndjson")
"""Suffixes of files of JSON lines."""

_ARRAY = re.compile(rb"\s*\[\s*(?:\{|$)")
_OBJECT = re.compile(rb"\s*\{\s*$")


def json_line_events(source: EventSource) -> Iterator[bytes]:
    """Yield the lines that are not blank, without their ends.

    Raises:
        LogError: the content is a JSON array, has objects of several lines, or looks like a table.
    """
    is_first = is_utf8 = True
    for line in source.byte_lines():
        if is_first:
            is_first = not line.strip()
            _refuse_other_json(line)
            if not is_first and format_suffix(source.name) not in SUFFIXES:
                _refuse_table(line, source)
        if line.strip():
            if is_utf8 and not line.isascii() and not _is_utf8(line):
                is_utf8 = False
                written = source.columns.encoding or "UTF-8"
                text = f"line {source.line} is not {written}, {NOT_DECODED}"
                source.note(Message("encoding-wrong", text, line=source.line, encoding=written))
            yield line.rstrip(b"\r\n")


def _refuse_other_json(line: bytes) -> None:
    if b"\0" in line:
        raise LogError(NO_TEXT)
    for begins, what, program in (
        (_ARRAY, "one JSON array", "'.[]'"),
        (_OBJECT, "JSON objects of many lines", "."),
    ):
        if begins.match(line):
            raise LogError(f"{what}: write one object a line, as `jq -c {program}` does")


def _refuse_table(line: bytes, source: EventSource) -> None:
    """Raise LogError if the first two lines have the same number of a delimiter, and are not JSON."""
    delimiters = [one for one in map(str.encode, DELIMITERS) if one in line]
    if not delimiters or line.lstrip().startswith((b"{", b"[", b'"{')):
        return
    second = source.content.peek(1).partition(b"\n")[0]
    if any(line.count(one) == second.count(one) for one in delimiters):
        what = "standard input" if source.name == "-" else "a file of this name"
        raise LogError(f"looks like CSV, but {what} is read as JSON lines; a name like events.csv is CSV")


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
