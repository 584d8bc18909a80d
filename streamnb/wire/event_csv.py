r"""CSV -> records of events, as a producer would have written them.

The first row names the columns. A cell of a feature column is a number where it reads as a finite one
(``3``, ``007``, ``-1.5e3``), a boolean where it is ``true`` or ``false`` in the spellings of `BOOLEANS`,
missing where it is empty, otherwise a string. A label that is a whole number is written without a fraction
(``1.0`` is ``1``), so that a column has the same classes in a CSV and a Parquet file. Nothing is dropped:
a row that is not one cell per column, or not CSV at all, comes out as a JSON array, which no schema accepts
as an event, so that it becomes a dead letter (wrong-type at ``$``) with its content.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Any

import msgspec

from streamnb.errors import ConfigError, LogError, told_as
from streamnb.model.attributes.nearest import did_you_mean
from streamnb.model.attributes.parameters import of

MAX_ROW = 16 << 20
"""The longest row, in characters: a quote that is never closed must not take the rest of a file with it."""

DELIMITERS = ",\t;|"
"""What may stand between two cells where nothing says it."""

_LOOKED_AT = 20  # lines below the header, and
_LONG = 1 << 16  # characters of them, to tell what stands between two cells
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

BOOLEANS = {
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
"""Cell of a feature column -> the boolean that it is."""

_WHOLE_LABEL = re.compile(r"(-?[1-9][0-9]*|-?0)\.0+")

Row = dict[Any, Any]
"""By the names of cells, or of fields; at None, which a role may be given, there is none."""

Note = Callable[[str], None]
"""Takes a sentence about what may be read otherwise than it was meant."""


def ignore_note(_: str) -> None:
    """Drop a note."""


class CsvColumns(msgspec.Struct, frozen=True):
    """Which columns are no features; a name other than the default must be in the header.

    None is a column that the file does not have, for a role whose usual name another role was given.

    Attributes:
        id: the event's id; where the file has no such column, the row number (from 0) is the id.
        label: the label; an empty cell is an event without a label.
        text: the text.
        ts: the time, seconds since the epoch.
        delimiter: what stands between two cells, one character; empty is found out, see `delimiter_of`.
        missing: cells of feature columns that hold no value.
        strings: feature columns whose cells are strings, whatever they look like.
        labels: those of them that hold the label, where the schema reads it among the features.
        must_have_label: whether a header without the label's column is refused, whatever its name.
    """

    id: str | None = "id"
    label: str = "label"
    text: str | None = "text"
    ts: str | None = "ts"
    delimiter: str = ""
    missing: tuple[str, ...] = ("",)
    strings: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()
    must_have_label: bool = False


def delimiter_of(header: str, more: Iterable[str] = ()) -> str:
    """What stands between two cells: a comma, tab, semicolon or bar, by the first lines.

    Of those in the header it is the one by which the most rows have as many cells as the header; of equals,
    that by which it has the most cells. `more`, the lines below, is read where the header has several.
    """
    found = [one for one in DELIMITERS if one in header]
    if len(found) < 2:
        return next(iter(found), ",")
    lines = [header, *more]
    return max(found, key=lambda one: _fitting(lines, one))


def _fitting(lines: Iterable[str], delimiter: str) -> tuple[int, int]:
    """How many rows have as many cells as the header, and how many these are; nothing where it has one."""
    with suppress(csv.Error):
        header, *rows = (len(row) for row in csv.reader(lines, delimiter=delimiter))
        return (rows.count(header), header) if header > 1 else (-1, 1)
    return -1, 0


def rows_to_events(lines: Iterable[str], columns: CsvColumns) -> Iterator[bytes]:
    """One record for every row under the header; rows without any cell are skipped and not numbered.

    Args:
        lines: the lines with their ends. Bytes that were not UTF-8 may be there as lone surrogates (Python's
            "surrogateescape"); they come out as they were, for the decoder to refuse.
        columns: what the columns are.

    Raises:
        ConfigError: a header that is not CSV, that names a column twice, or lacks one that was asked for.
        LogError: it lacks the label's, which must be there.
    """
    csv.field_size_limit(max(csv.field_size_limit(), MAX_ROW))  # one limit for the process: never lower it
    lines = iter(lines)
    first = list(islice(lines, 1))
    delimiter = columns.delimiter or delimiter_of("".join(first), _kept(islice(lines, _LOOKED_AT), first))
    recorder = _Recorder(chain(first, lines))
    reader = csv.reader(recorder, delimiter=delimiter, strict=True)
    with told_as(ConfigError, "CSV header", csv.Error):
        header = next(reader, None)
    if header is None:
        return
    check_header(header, columns)
    number = fitting = labelled = 0
    labels = {columns.label, *columns.labels}
    while True:
        recorder.start_row()
        try:
            row = next(reader, None)
        except csv.Error:
            yield encoded(["".join(recorder.taken)])
        else:
            if row is None:
                break
            if not row:
                continue
            fits = len(row) == len(header)
            cells = dict(zip(header, row, strict=True)) if fits else {}
            fitting += fits
            for name in labels & cells.keys():
                cells[name] = _label_name(cells[name])
            labelled += bool(cells.get(columns.label))
            yield encoded(event_of(cells, number, columns, _number_or_text) if fits else row)
        number += 1
    if columns.must_have_label and fitting and not labelled:
        raise LogError(f"no event has a label: column {columns.label!r} is empty in all {of(fitting, 'row')}")


def _kept(lines: Iterable[str], kept: list[str]) -> Iterator[str]:
    """The same lines, each of which is added to `kept`; no more of them when these are long."""
    size = 0
    for line in lines:
        kept.append(line)
        size += len(line)
        yield line
        if size > _LONG:
            return


class _Recorder:
    """Hands lines on and keeps those of the current row, which it ends with an error beyond `MAX_ROW`."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.taken: list[str] = []
        self._size = 0
        self._lines = iter(lines)

    def start_row(self) -> None:
        self.taken.clear()
        self._size = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.taken.append(line)
        self._size += len(line)
        if self._size > MAX_ROW:
            raise csv.Error("the row is too long")
        return line


def check_header(header: Sequence[str], columns: CsvColumns) -> None:
    """Raise ConfigError for columns that are named twice or missing, LogError for a label's."""
    hint = ""
    if any(_NUMBER.fullmatch(column.strip()) for column in header):
        hint += "; the first row has to name the columns, and looks like data"
    if any(one in column for column in header for one in DELIMITERS):
        hint += "; --delimiter C says what stands between two cells"
    if twice := [column for column, n in Counter(header).items() if n > 1]:
        raise ConfigError(f"CSV header: column {twice[0]!r} is named twice{hint}")
    for role in ("id", "label", "text", "ts"):
        column = getattr(columns, role)
        if column not in {role, None} and column not in header:
            raise ConfigError(
                f"CSV header: no column {column!r} for {role}; there are {', '.join(header)}"
                f"{did_you_mean(column, header)}{hint}"
            )
    if columns.must_have_label and columns.label not in header:
        raise LogError(
            f"no event has a label: there is no column {columns.label!r}; the columns are "
            f"{', '.join(header)}; --label-column NAME says which it is"
            f"{did_you_mean(columns.label, header)}{hint}"
        )


def event_of(
    cells: Row, number: int, columns: CsvColumns, read: Callable[[Any], Any] = lambda cell: cell
) -> Row:
    """The event of a row, by the names of its cells; `read` gives those that are features their types."""
    event: Row = {"id": cells.pop(columns.id, str(number))}
    if (ts := cells.pop(columns.ts, "")) != "":  # a number may be 0
        event["ts"] = read(ts)
    if text := cells.pop(columns.text, ""):
        event["text"] = text
    label = cells.pop(columns.label, "")
    features = {
        name: cell if name in columns.strings else read(cell)
        for name, cell in cells.items()
        if cell not in columns.missing
    }
    if features or (label and not text):  # without any it would be a label record
        event["features"] = features
    if label:
        event["label"] = label
    return event


def _number_or_text(cell: str) -> float | str | bool:
    stripped = cell.strip(" ")
    if _INTEGER.fullmatch(stripped):
        return int(stripped)
    if _NUMBER.fullmatch(stripped) and math.isfinite(number := float(stripped)):
        return number
    return BOOLEANS.get(stripped, cell)


def _label_name(cell: str) -> str:
    """Return the name of a label's class: a whole number has no fraction; leading zeros stay (``007``)."""
    whole = _WHOLE_LABEL.fullmatch(cell)
    return cell if whole is None else "0" if whole[1] == "-0" else whole[1]


def encoded(record: Row | Sequence[str]) -> bytes:
    """The record as JSON; what was no UTF-8 in it is as it was."""
    try:
        return msgspec.json.encode(record)
    except UnicodeEncodeError:
        return json.dumps(record, ensure_ascii=False).encode(errors="surrogateescape")
