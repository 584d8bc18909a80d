"""JSON: one event a line, as bytes; also values of several lines, or in an array, by their sniffed shape."""

from __future__ import annotations

import codecs
import io
import json
import re
from collections.abc import Iterator

from streamnb.errors import LogError
from streamnb.formats import event_source
from streamnb.formats.encoding_sniffing import UTF8
from streamnb.formats.event_csv import NO_TEXT, NOT_DECODED
from streamnb.formats.event_source import EventSource
from streamnb.formats.json_shapes import Reshaper, json_values, sniff_shape
from streamnb.values.messages import Message

SUFFIXES = (".json", ".jsonl", ".ndjson")
"""Suffixes of files of JSON lines."""

_DOCUMENT = re.compile(rb'\[\s*(?:\{|$)|\{\s*$|\{\s*\n\s*"|\{\s*"(?:[^"\\\n]|\\.)*"\s*:\s*\[\s*(?:\{|$)')
_OBJECT = re.compile(rb'\{\s*"(?:[^"\\\n]|\\.)*"\s*:')
_LINES = 5
_FRAMES = {
    "split": re.compile(rb'\{"columns":\['),
    "index": re.compile(rb'\{"0":\{'),
    "columns": re.compile(rb'\{"(?!features")(?:[^"\\\n]|\\.)*":\{"0":'),
    "values": re.compile(rb"\[\["),
}
"""Layouts of a data frame that pandas writes, other than by records, and their first bytes."""


def is_json(start: bytes) -> bool:
    """Return whether content begins with JSON objects, or with an array of them."""
    head = start.removeprefix(codecs.BOM_UTF8).lstrip()
    if _DOCUMENT.match(head):
        return True
    lines = head.split(b"\n", _LINES)
    return any(map(_is_object, lines[:_LINES])) or (not any(lines[1:]) and _OBJECT.match(head) is not None)


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def json_line_events(source: EventSource) -> Iterator[bytes]:
    """Return the lines that are not blank, without their ends, or the other values; see `json_shapes`.

    Raises:
        LogError: content with NUL bytes, a data frame that is not written by records, or a document that
            is not JSON.
    """
    start = source.start
    if source.encoding != UTF8:
        start = source.start_text.encode(errors="surrogateescape")
    start = start.removeprefix(codecs.BOM_UTF8)
    if b"\0" in start.partition(b"\n")[0]:
        raise LogError(NO_TEXT)
    if b"\n" not in start.rstrip():
        layout = next((name for name, form in _FRAMES.items() if form.match(start)), None)
        if layout is not None:
            raise LogError(
                f"is a table that is not written by rows, as pandas does with orient={layout!r}: "
                "DataFrame.to_json(FILE, orient='records', lines=True) writes rows"
            )
    shape = sniff_shape(start, source.columns)
    source.report_findings(shape.findings)
    reshaper = Reshaper(shape, source.columns, source.ids, source.note)
    return reshaper.events(_lines(source) if shape.is_lines else _values(source, shape.member))


def _lines(source: EventSource) -> Iterator[bytes]:
    is_utf8 = True
    for line in source.byte_lines():
        if not line.isspace():
            if is_utf8 and not line.isascii() and not _is_utf8(line):
                is_utf8 = False
                written = source.columns.encoding or "UTF-8"
                text = f"line {source.line} is not {written}, {NOT_DECODED}"
                source.note(Message("encoding-wrong", text, line=source.line, encoding=written))
            yield line.rstrip(b"\r\n")


def _values(source: EventSource, member: str) -> Iterator[bytes]:
    text = io.TextIOWrapper(source.content, encoding=source.encoding, errors="surrogateescape", newline="")

    def read(n: int) -> str:
        part = text.read(n)
        if source.line == 0:
            part = part.removeprefix("\ufeff")
        source.line += part.count("\n")
        return part

    try:
        for value in json_values(read, event_source.MAX_LINE, member):
            yield value.encode(errors="surrogateescape")
    except LogError as error:
        raise LogError(f"{error}, at or above {source.place}") from error


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
