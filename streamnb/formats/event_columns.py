"""Rows of named values -> records of events: the roles of columns, made ids, and columns of pandas' index."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import PurePath
from typing import Any

import msgspec

from streamnb.errors import ConfigError, LogError
from streamnb.formats.cell_notation import NUMBER
from streamnb.formats.table_dialect import DELIMITERS
from streamnb.values.messages import Message
from streamnb.values.parameter_checks import did_you_mean

ROLES = ("id", "label", "text", "ts")
"""Roles of columns."""

_INDEX = re.compile(r"(?:Unnamed: [0-9]+(?:\.[0-9]+)*)?")
_LEVEL = re.compile(r"__index_level_[0-9]+__")
_DIGEST = 8  # bytes
_WHOLE = re.compile(r"[0-9]+")

Row = dict[Any, Any]
"""Values by names of columns or fields; a role may be None, which is in no row."""

Reader = Callable[[Any], Any]
"""Converts a cell to its type."""

RowNote = Callable[[Message], None]
"""Takes a message about input that may be read otherwise than intended."""


def note_findings(note: RowNote, found: Sequence[str]) -> None:
    """Note what was sniffed, with the options that override it, if there is anything."""
    if found:
        note(Message("reading-sniffed", f"read with {'; '.join(found)}", findings=[*found]))


def report_no_label(note: RowNote, why: str, columns: CsvColumns) -> None:
    """Raise LogError if no event of a file has a label; note it if other files may have labels."""
    if not columns.is_one_of_many:
        raise LogError(why)
    note(Message("field-absent", why, path=columns.label))


def ignore_note(_: Message) -> None:
    """Drop a note."""


def hexadecimal_note(
    column: str, texts: Sequence[str | None], given: Sequence[bytes | None]
) -> Message | None:
    """Return the message that a column's bytes are read as hexadecimal digits; None if all are texts."""
    if "".join(filter(None, texts)).encode() == b"".join(filter(None, given)):
        return None
    pairs = zip(texts, given, strict=True)
    shown = next(text for text, raw in pairs if text and raw and text.encode() != raw)
    what = f"column {column!r} holds bytes that are not text: they become hexadecimal digits"
    return Message("bytes-as-hexadecimal", f"{what}, such as {shown!r}", column=column)


class CsvColumns(msgspec.Struct, frozen=True):
    """Roles and notation of columns; a name other than the default must be in the header.

    None is a role without a column, whose default name another role uses. What is "sniffed" is found in the
    first lines of a file, see `table_dialect` and `cell_notation`.

    Attributes:
        id: the event's id; without such a column, ids are made, see `RowIds`.
        label: the label; an empty cell is an event without a label.
        text: the text.
        ts: the time, seconds since the epoch.
        delimiter: delimiter of cells, one character, and a blank if blanks may follow; empty is sniffed.
        missing: cells that hold no value, of every column.
        strings: feature columns whose cells are always strings.
        names: feature columns in which a number that is written as a name is a string (`lost_digits`).
        labels: columns of `strings` that hold the label, if the schema reads it among the features.
        numbers: feature columns in which a whole number beyond 2^53 is a number, too, the nearest double.
        decimal: the decimal separator of numbers, one character; empty is sniffed.
        thousands: the separator of thousands in numbers, one character or empty.
        quoting: whether `quote` encloses cells; None is sniffed.
        quote: the character that may enclose cells; empty is sniffed.
        has_header: whether the first line names the columns; None is sniffed. Else they are c1, c2, ...
        skipped: number of lines above the table; None is sniffed.
        comment: the first character of lines to skip; empty is sniffed.
        markers: cells that were sniffed to mean a missing number, in columns of numbers.
        header: the columns of the file, as they were found.
        left_out: those that are not read, as they were found.
        encoding: a codec name of Python; empty is sniffed.
        format: the name of a format (`event_formats`); empty is sniffed.
        member: the file in an archive that is read; empty for all.
        finds_label: whether a format that has a usual place of the label takes it from there, if no column
            is called `label`.
        must_have_label: whether a header without the label's column is rejected, whatever its name.
        is_one_of_many: whether other files may have the labels that this one lacks.
        has_content_ids: whether made ids depend on the content of the file.
        has_weights: whether the schema reads weights of rows that a format has, as field `weight`.
        makes_ids: whether events of JSON without any id get one.
        leaves_out_dates: whether columns of dates are left out, unless they are declared.
        flat: names of fields of flat JSON objects that do not become features; None leaves all in place.
    """

    id: str | None = "id"
    label: str = "label"
    text: str | None = "text"
    ts: str | None = "ts"
    delimiter: str = ""
    missing: tuple[str, ...] = ("",)
    strings: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    decimal: str = ""
    thousands: str = ""
    quoting: bool | None = None
    quote: str = ""
    has_header: bool | None = None
    skipped: int | None = None
    comment: str = ""
    markers: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    encoding: str = ""
    format: str = ""
    member: str = ""
    finds_label: bool = True
    must_have_label: bool = False
    is_one_of_many: bool = False
    has_content_ids: bool = False
    has_weights: bool = False
    makes_ids: bool = False
    leaves_out_dates: bool = False
    flat: frozenset[str] | None = None

    @property
    def has_cell_options(self) -> bool:
        """True if an option describes cells of text."""
        given = (self.delimiter, self.decimal, self.thousands, self.quote, self.comment)
        return any(given) or {self.quoting, self.has_header, self.skipped} != {None}

    @property
    def declared(self) -> frozenset[str]:
        """The feature columns of which the schema knows."""
        return self.strings | self.names | self.labels | self.numbers

    @property
    def in_roles(self) -> frozenset[str]:
        """The columns with a role."""
        return frozenset(one for one in (self.id, self.label, self.text, self.ts) if one is not None)


class RowIds:
    """Ids for events without one: the row number, or file name, row number and a digest.

    The digest is of all rows so far, so that two files share an id only if they agree up to this row; a file
    that has grown keeps the ids of its rows.

    Args:
        name: the file's name.
        has_content: whether ids depend on it and on the rows.

    Examples:
        >>> RowIds("logs/a.csv", has_content=False)(7, b"x")
        '7'
        >>> RowIds("logs/a.csv", has_content=True)(0, b"x")
        'a.csv:0:53fd9599d7cdb571'
    """

    def __init__(self, name: str = "", *, has_content: bool = False) -> None:
        self._name = PurePath(name).name[:200] or "-"
        self._digest = blake2b(digest_size=_DIGEST) if has_content else None
        self.has_content = has_content

    def __call__(self, number: int, content: bytes | str) -> str:
        """Return the id of a row; `content` is the row itself. Call it once for each row, in order."""
        if self._digest is None:
            return str(number)
        content = content.encode(errors="surrogateescape") if isinstance(content, str) else content
        self._digest.update(b"%d:" % len(content))
        self._digest.update(content)
        return f"{self._name}:{number}:{self._digest.hexdigest()}"


def check_header(header: Sequence[str], columns: CsvColumns, where: str = "CSV header") -> None:
    """Raise ConfigError for repeated or missing columns, LogError for a missing label column."""
    hint = ""
    is_text = where == "CSV header"
    if is_text and any(NUMBER.fullmatch(column.strip()) for column in header):
        hint += "; the first row has to name the columns, and looks like data: --no-header reads it so"
    if is_text and any(delimiter in column for column in header for delimiter in DELIMITERS):
        hint += "; --delimiter C sets the delimiter of cells"
    if twice := [column for column, n in Counter(header).items() if n > 1]:
        if not twice[0]:
            n = header.count("")
            raise ConfigError(
                f"{where}: {n} columns have no name, but cells: name each in the first line{hint}"
            )
        if is_text:
            hint += f"; --no-header --skip {1 + (columns.skipped or 0)} names the columns c1, c2 and so on"
        raise ConfigError(f"{where}: column {twice[0]!r} is named twice{hint}")
    for role in ROLES:
        column = getattr(columns, role)
        if column not in {role, None} and column not in header:
            raise ConfigError(
                f"{where}: no column {column!r} for {role}; there are {', '.join(header)}"
                f"{did_you_mean(column, header)}{hint}"
            )
    if columns.must_have_label and columns.label not in header:
        raise LogError(
            f"no event has a label: there is no column {columns.label!r}; the columns are "
            f"{', '.join(header)}; --label-column NAME selects it"
            f"{did_you_mean(columns.label, header)}{hint}"
        )


def index_columns(header: Sequence[str], rows: Sequence[Sequence[Any]], columns: CsvColumns) -> list[str]:
    """Return the columns that hold the index of a data frame, as pandas writes it without a name.

    A column without a name, or that pandas names "Unnamed: 0", counts if its cells number the rows. A column
    with a role, or that is declared, does not.
    """
    found = []
    rows = [row for row in rows if len(row) == len(header)]
    for place, name in enumerate(header):
        if name in columns.in_roles or name in columns.declared:
            continue
        if _LEVEL.fullmatch(name) or (_INDEX.fullmatch(name) and _are_numbered([row[place] for row in rows])):
            found.append(name)
    return found


def are_unnamed_empty(header: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether several columns have no name, and all their cells are empty, as spreadsheets write."""
    places = [place for place, name in enumerate(header) if not name]
    return len(places) > 1 and not any(
        row[place] for row in rows if len(row) == len(header) for place in places
    )


def _are_numbered(cells: Sequence[Any]) -> bool:
    """Return whether all cells are whole numbers, and no two are equal: the index may be shuffled."""
    are_whole = all(_WHOLE.fullmatch(str(cell)) for cell in cells)
    return bool(cells) and are_whole and len(set(cells)) == len(cells)


def event_of(cells: Row, made_id: str, columns: CsvColumns) -> Row:
    """Return the event of a row of typed values.

    Args:
        cells: column name -> cell; cells with a role are removed.
        made_id: its id without a column of ids.
        columns: roles of the columns.
    """
    missing = columns.missing

    def role(name: str | None) -> Any:
        cell = cells.pop(name, "")
        return "" if cell in missing else cell

    event_id = role(columns.id) if columns.id in cells else made_id
    ts, text, label = role(columns.ts), role(columns.text), role(columns.label)
    return assembled(event_id, ts, text, label, {k: v for k, v in cells.items() if v not in missing})


def assembled(event_id: Any, ts: Any, text: Any, label: Any, features: Row) -> Row:
    """Return an event of these fields; an empty string is an absent one."""
    event: Row = {"id": event_id}
    if ts != "":  # a number may be 0
        event["ts"] = ts
    if text:
        event["text"] = text
    if features or (label and not text):  # without any it would be a label record
        event["features"] = features
    if label:
        event["label"] = label
    return event


def encoded(record: Row | Sequence[Any]) -> bytes:
    """Return the record as JSON; lone surrogates become the original bytes."""
    try:
        return msgspec.json.encode(record)
    except UnicodeEncodeError:
        return json.dumps(record, ensure_ascii=False).encode(errors="surrogateescape")
