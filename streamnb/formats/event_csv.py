r"""CSV -> records of events, as a producer would have written them.

The first row names the columns; a line ``sep=;`` before it names the delimiter. A cell of a feature column is
a number if it reads as a finite one (``3``, ``007``, ``-1.5e3``), a boolean where it is ``true`` or ``false``
in the spellings of `BOOLEANS`, missing if it is empty, otherwise a string. Whole numbers beyond 2^53 are
strings, because doubles would merge neighbours. A label that is a whole number is written without a fraction
(``1.0`` is ``1``), so that a column has the same classes in a CSV and a Parquet file. Nothing is dropped: a
row that is not one cell per column, or not CSV at all, comes out as a JSON array that begins with the fault,
which no schema accepts as an event, so that it becomes a dead letter (wrong-type at ``$``) with its content.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, dropwhile, islice
from types import MappingProxyType
from typing import Any

import msgspec

from streamnb.errors import ConfigError, LogError, told_as
from streamnb.features.attributes import some_of
from streamnb.formats.json_paths import render_path
from streamnb.formats.json_value_checks import CSV_FAULT
from streamnb.values.name_suggestions import did_you_mean
from streamnb.values.parameter_checks import pluralize

MAX_ROW = 16 << 20
"""The longest row, in characters: a quote that is never closed must not take the rest of a file with it."""

DELIMITERS = ",\t;|"
"""What may stand between two cells where nothing says it."""

_LOOKED_AT = 20  # lines below the header to find the delimiter, and
_FIRST = 1000  # lines, or
_LONGEST_TOLD = 100  # characters of a cell that a note shows
_EVERY = 100  # of later rows one is looked at
_LONG = 1 << 20  # characters of them, to find out whether quotes enclose cells
_ENDS = {"\n", "\r\n", "\r"}
_SEP = re.compile(r"sep=([^\r\n])\r?\n?")  # as Excel writes it
_MOST_EXACT = 15  # digits of a whole number that is below 2^53
_INTEGER = re.compile(rf"[+-]?[0-9]{{1,{_MOST_EXACT}}}")
_DIGITS = re.compile(r"[+-]?[0-9]+")
_ZEROS = re.compile(r" *0[0-9]+ *")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HUNDREDS = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,2})")
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}\.[0-9]{3}")
_MILLIONS = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:\.[0-9]{3}){2,}")
_EXACT = 2.0**53
"""A whole number below this has a double of its own."""
_ALIKE = {" ": " \u00a0\u2009\u202f", "'": "'\u2019"}
"""Characters that are written for a separator of thousands."""

_NO_QUOTING = "--no-quoting takes quotes for characters like others"
_TWICE = 'a quote inside quotes is written twice (""), not behind a backslash'

NO_TEXT = "holds NUL characters, as UTF-16 without a byte order mark does: --encoding utf-16-le"
"""Why text that is none of its encoding is refused."""

NOT_DECODED = "and becomes a dead letter: --encoding NAME says how the file is written, such as cp1252"
"""What comes of a row or line that is not text in the encoding of its file."""

BOOLEANS = {
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
"""Cell -> the boolean that it is, as a feature or as a label."""

_WHOLE_LABEL = re.compile(r"(-?[1-9][0-9]*|-?0)\.0+")

Row = dict[Any, Any]
"""By the names of cells, or of fields; at None, which a role may be given, there is none."""

Reader = Callable[[Any], Any]
"""Gives a cell its type."""

RowNote = Callable[[str], None]
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
        missing: cells that hold no value, of every column.
        strings: feature columns whose cells are strings, whatever they look like.
        names: feature columns in which a whole number with leading zeros is a string.
        labels: those of `strings` that hold the label, where the schema reads it among the features.
        numbers: feature columns in which a whole number beyond 2^53 is a number, too, the nearest double.
        decimal: the decimal separator of numbers, one character.
        thousands: what separates thousands in numbers, one character; empty is nothing.
        quoting: whether `"` encloses cells; None is found out, see `is_quoted`.
        encoding: how text is written, by a name of Python's codecs; empty is UTF-8, or UTF-16 by its mark.
        must_have_label: whether a header without the label's column is refused, whatever its name.
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
    decimal: str = "."
    thousands: str = ""
    quoting: bool | None = None
    encoding: str = ""
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


def is_quoted(lines: Sequence[str], delimiter: str) -> bool:
    """Return whether `"` at the beginning of a cell encloses it, by the first lines of a table.

    It does unless tabs stand between cells, for tables of tabs are often written without quoting: a quote
    that is never closed would take the lines behind it into its cell. There, quotes are characters like
    others if no cell begins with one, or if more of the lines fit the header without quoting.
    """
    if delimiter != "\t" or not lines or "\t" not in lines[0] or _begins_cell(lines[0]):
        return True
    if not any(map(_begins_cell, lines)):
        return False
    n_tabs = lines[0].count("\t")
    n_plain = sum(line.count("\t") == n_tabs for line in lines)
    recorder = _Recorder(lines)
    reader = csv.reader(recorder, delimiter="\t", strict=True)
    n_quoted = 0
    while True:
        recorder.start_row()
        with suppress(csv.Error):
            row = next(reader, None)
            if row is None:
                return n_quoted >= n_plain
            n_quoted += len(recorder.taken) == 1 and len(row) == n_tabs + 1


def _begins_cell(line: str) -> bool:
    """Whether a cell between tabs begins with a quote."""
    return line.startswith('"') or '\t"' in line


def rows_to_events(lines: Iterable[str], columns: CsvColumns, note: RowNote = ignore_note) -> Iterator[bytes]:
    """One record for every row under the header; empty rows are skipped and not numbered.

    Args:
        lines: the lines with their ends. Bytes that were not UTF-8 may be there as lone surrogates (Python's
            "surrogateescape"); they come out as they were, for the decoder to refuse.
        columns: what the columns are.
        note: is called for the first row that may be several ones, and for the first that is not UTF-8.

    Raises:
        ConfigError: a header that is not CSV, that names a column twice, or lacks one that was asked for.
        LogError: it lacks the label's, which must be there.
    """
    csv.field_size_limit(max(csv.field_size_limit(), MAX_ROW))  # one limit for the process: never lower it
    rows = _Rows(iter(lines), columns)
    header = rows.header
    if not header:
        return
    check_header(header, columns)
    read, readers = _readers(columns)
    notes = _RowNotes(note, columns.encoding, rows.delimiter)
    points = _PointNotes(note, columns)
    width, taken, encode = len(header), rows.taken, msgspec.json.encode  # looked up once, not for each row
    fitting = labelled = 0
    for number, row in enumerate(rows):
        record: Row | Sequence[Any]
        if isinstance(row, csv.Error):
            record = [{CSV_FAULT: f"not CSV: {row}"}, "".join(taken)]
            notes.add_error(number, row, taken)
        elif len(row) != width:
            record = [{CSV_FAULT: f"{pluralize(len(row), 'cell')}, the header has {width}"}, *row]
        else:
            fitting += 1
            cells = dict(zip(header, row, strict=True))
            points.look(number, cells)
            record = event_of(cells, number, columns, read, readers)
            if number < _FIRST or number % _EVERY == 0:
                notes.look_at_zeros(number, cells, record, columns.numbers)
            if "label" in record:
                labelled += 1
                record["label"] = _label_name(record["label"])
        if len(taken) > 1 and not isinstance(row, csv.Error):
            notes.look_at_lines(number, taken, width, is_fitting=len(row) == width)
        try:
            raw = encode(record)
        except UnicodeEncodeError:
            notes.add_undecoded(number)
            raw = encoded(record)
        yield raw
    notes.report_zeros()
    points.report()
    if columns.must_have_label and fitting and not labelled:
        raise LogError(
            f"no event has a label: column {columns.label!r} is empty in all {pluralize(fitting, 'row')}"
        )


class _Rows:
    """The rows below the header, an error for each that is not CSV; empty ones are left out.

    A row is empty if it has no cell, or nothing but delimiters where there are several columns.

    Attributes:
        header: the names of the columns; there are none in an empty table.
        delimiter: what stands between two cells.
        taken: the lines of the row.
    """

    def __init__(self, lines: Iterator[str], columns: CsvColumns) -> None:
        first, lines = _first_lines(dropwhile(lambda line: line in _ENDS, lines))
        if first and "\0" in first[0]:
            raise LogError(NO_TEXT)
        sep = _SEP.fullmatch(first[0]) if first else None
        if sep is not None:
            del first[0]
        given = columns.delimiter or ("" if sep is None else sep[1])
        self.delimiter = given or delimiter_of("".join(first[:1]), first[1 : 1 + _LOOKED_AT])
        is_quoting = is_quoted(first, self.delimiter) if columns.quoting is None else columns.quoting
        self._recorder = _Recorder(chain(first, lines))
        self.taken = self._recorder.taken
        self._reader = csv.reader(
            self._recorder,
            delimiter=self.delimiter,
            quoting=csv.QUOTE_MINIMAL if is_quoting else csv.QUOTE_NONE,
            strict=True,
        )
        with told_as(ConfigError, "CSV header", csv.Error):
            self.header = next(filter(None, self._reader), [])

    def __iter__(self) -> Iterator[list[str] | csv.Error]:
        is_single = len(self.header) == 1  # so that a delimiter in a row is a fault of it
        while True:
            self._recorder.start_row()
            try:
                row = next(self._reader, None)
            except csv.Error as error:
                yield error
            else:
                if row is None:
                    return
                if row and (len(row) == 1 or is_single or any(row)):
                    yield row


def _first_lines(lines: Iterator[str]) -> tuple[list[str], Iterator[str]]:
    """The first lines, and those behind them; an error in reading them comes where it was."""
    first: list[str] = []
    size = 0
    try:
        for line in islice(lines, _FIRST):
            first.append(line)
            size += len(line)
            if size > _LONG:
                break
    except Exception as error:  # noqa: BLE001  of whatever the lines come from
        return first, _raising(error)
    return first, lines


def _raising(error: Exception) -> Iterator[str]:
    raise error
    yield ""


class _RowNotes:
    """What may be wrong with rows, each kind once."""

    def __init__(self, note: RowNote, encoding: str, delimiter: str) -> None:
        self._note, self._encoding, self._delimiter = note, encoding or "UTF-8", delimiter
        self._noted: set[str] = set()
        self._zeros: dict[str, str] = {}  # column -> its first cell with leading zeros

    def look_at_lines(self, number: int, lines: Sequence[str], width: int, *, is_fitting: bool) -> None:
        """Note a row of many lines that a quote may have made one.

        That is so in tabs, if each line is like a row, or if the row does not fit the header.
        """
        are_rows = width > 1 and all(line.count(self._delimiter) + 1 == width for line in lines)
        if self._delimiter == "\t" or are_rows or not is_fitting:
            self._add_quote(number, f"is {len(lines)} lines, which a quote makes one; {_NO_QUOTING}")

    def add_error(self, number: int, error: csv.Error, lines: Sequence[str]) -> None:
        """Note a row that is not CSV, and how many lines it takes."""
        takes = f" and takes {len(lines):,} lines" if len(lines) > 1 else ""
        is_escaped = bool(lines) and '\\"' in lines[0]
        remedy = _TWICE if is_escaped else _NO_QUOTING
        self._add_quote(
            number, f"is not CSV ({error}){takes}: {remedy}", "escaped" if is_escaped else "quote"
        )

    def _add_quote(self, number: int, what: str, kind: str = "quote") -> None:
        """Note a row that quotes may have spoilt."""
        if kind not in self._noted:
            self._noted.add(kind)
            self._note(f"row {number} {what}")

    def look_at_zeros(self, number: int, cells: Row, record: Row, numbers: Container[str]) -> None:
        """Remember the columns, but those of numbers, in which a cell has lost leading zeros."""
        if number == _FIRST:
            self.report_zeros()
        for column, value in record.get("features", {}).items():
            cell = cells[column]
            is_short = len(cell) <= _LONGEST_TOLD
            if type(value) is int and is_short and _ZEROS.fullmatch(cell) and column not in numbers:
                self._zeros.setdefault(column, cell.strip())

    def report_zeros(self) -> None:
        """Note the columns that were remembered and not noted yet."""
        new = {column: cell for column, cell in self._zeros.items() if f"zeros {column}" not in self._noted}
        self._noted.update(f"zeros {column}" for column in new)
        if new:
            paths = some_of([render_path(("features", column)) for column in new])
            cell = next(iter(new.values()))
            self._note(
                f"{paths}: {cell} is read as the number {int(cell)}; "
                'kind = "nominal" in [[attributes]] keeps its digits'
            )

    def add_undecoded(self, number: int) -> None:
        """Note a row that the encoding cannot be that of."""
        if "encoding" not in self._noted:
            self._noted.add("encoding")
            self._note(f"row {number} is not {self._encoding}, {NOT_DECODED}")


class _PointNotes:
    """Finds columns like 767, 6.040: the point may separate thousands if no number has another fraction."""

    def __init__(self, note: RowNote, columns: CsvColumns) -> None:
        self._note, self._missing = note, columns.missing
        roles = {columns.id, columns.label, columns.text, columns.ts}
        self._others: set[str | None] = {*roles, *columns.strings}  # columns of which nothing is to be said
        self._whole: set[str] = set()
        self._grouped: dict[str, str] = {}  # column -> its first number with a point
        self._is_done = columns.decimal != "." or columns.thousands != ""

    def look(self, number: int, cells: Row) -> None:
        """Note the cells of a row; behind the first ones, print what was found."""
        if self._is_done:
            return
        if number >= _FIRST:
            self.report()
            return
        for name, cell in cells.items():
            if name in self._others or cell in self._missing:
                continue
            if _HUNDREDS.fullmatch(cell):
                self._whole.add(name)
            elif _THOUSANDS.fullmatch(cell):
                self._grouped.setdefault(name, cell)
            elif not _MILLIONS.fullmatch(cell):
                self._others.add(name)
                self._is_done |= "." in cell and _NUMBER.fullmatch(cell.strip()) is not None

    def report(self) -> None:
        """Print the note once."""
        found = {name: cell for name, cell in self._grouped.items() if name in self._whole - self._others}
        if found and not self._is_done:
            name, cell = next(iter(found.items()))
            whole = cell.replace(".", "")
            more = f" (and {len(found) - 1} more)" * (len(found) > 1)
            told = f"{cell} is read as {float(cell)}; --decimal , --thousands . reads {whole}"
            self._note(f"column {name}{more}: {told}")
        self._is_done = True


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


def check_header(header: Sequence[str], columns: CsvColumns, where: str = "CSV header") -> None:
    """Raise ConfigError for columns that are named twice or missing, LogError for a label's."""
    hint = ""
    is_text = where == "CSV header"
    if is_text and any(_NUMBER.fullmatch(column.strip()) for column in header):
        hint += "; the first row has to name the columns, and looks like data"
    if is_text and any(one in column for column in header for one in DELIMITERS):
        hint += "; --delimiter C says what stands between two cells"
    if twice := [column for column, n in Counter(header).items() if n > 1]:
        raise ConfigError(f"{where}: column {twice[0]!r} is named twice{hint}")
    for role in ("id", "label", "text", "ts"):
        column = getattr(columns, role)
        if column not in {role, None} and column not in header:
            raise ConfigError(
                f"{where}: no column {column!r} for {role}; there are {', '.join(header)}"
                f"{did_you_mean(column, header)}{hint}"
            )
    if columns.must_have_label and columns.label not in header:
        raise LogError(
            f"no event has a label: there is no column {columns.label!r}; the columns are "
            f"{', '.join(header)}; --label-column NAME says which it is"
            f"{did_you_mean(columns.label, header)}{hint}"
        )


def _as_it_is(cell: Any) -> Any:
    return cell


def event_of(
    cells: Row,
    number: int,
    columns: CsvColumns,
    read: Reader = _as_it_is,
    readers: Mapping[str | None, Reader] = MappingProxyType({}),
) -> Row:
    """The event of a row, by the names of its cells.

    Args:
        cells: by the names of their columns; the roles are taken out of it.
        number: the row's, which is its id where there is no column of ids.
        columns: what the columns are.
        read: gives the time and the cells that are features their types.
        readers: column -> what does so in place of `read`.
    """
    missing = columns.missing
    event: Row = {"id": str(number)}
    if columns.id in cells:
        event_id = cells.pop(columns.id)
        event["id"] = "" if event_id in missing else event_id
    if (ts := cells.pop(columns.ts, "")) != "" and ts not in missing:  # a number may be 0
        event["ts"] = readers.get(columns.ts, read)(ts)
    if (text := cells.pop(columns.text, "")) and text not in missing:
        event["text"] = text
    if (label := cells.pop(columns.label, "")) in missing:
        label = ""
    reader = readers.get
    features = {name: reader(name, read)(cell) for name, cell in cells.items() if cell not in missing}
    if features or (label and "text" not in event):  # without any it would be a label record
        event["features"] = features
    if label:
        event["label"] = label
    return event


def _readers(columns: CsvColumns) -> tuple[Reader, dict[str | None, Reader]]:
    """What gives cells their types, and what does so for some columns."""
    read = number_reader(columns.decimal, columns.thousands)

    def read_time(cell: str) -> float | str | bool:
        value = read(cell)
        return _as_number(cell if value is cell else value, _NUMBER)

    def read_whole(cell: str) -> float | str | bool:
        return _as_number(read(cell), _DIGITS)

    def read_name(cell: str) -> float | str | bool:
        return cell if _ZEROS.fullmatch(cell) else read(cell)

    return read, {
        **dict.fromkeys(columns.names, read_name),
        **dict.fromkeys(columns.strings, _as_it_is),
        **dict.fromkeys(columns.labels, _label_name),
        **dict.fromkeys(columns.numbers - columns.strings, read_whole),
        columns.ts: read_time,
    }


def number_reader(decimal: str = ".", thousands: str = "") -> Callable[[str], float | str | bool]:
    """Return what makes a number of a cell in a notation, or leaves the cell as it is.

    Args:
        decimal: the decimal separator. A cell with another one is not a number.
        thousands: what separates groups of two or three digits, the last one of three; a blank or apostrophe
            stands for those of typography, too. Numbers without it are read as well. A cell that begins
            with 0 has no groups: 0.125 stays a string.

    Examples:
        >>> read = number_reader(",", ".")
        >>> read("1.010,44"), read("1010,44"), read("1.010"), read("1.5")
        (1010.44, 1010.44, 1010, '1.5')
    """
    if decimal == "." and not thousands:
        return _number_or_text
    group = f"[{re.escape(_ALIKE.get(thousands, thousands))}]" if thousands else ""
    whole = rf"(?:[0-9]+|[1-9][0-9]{{0,2}}(?:{group}[0-9]{{2,3}})*{group}[0-9]{{3}})" if group else "[0-9]+"
    point = re.escape(decimal)
    number = re.compile(rf"[+-]?(?:{whole}(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][+-]?[0-9]+)?")
    plain = str.maketrans(decimal, ".", _ALIKE.get(thousands, thousands))

    def read(cell: str) -> float | str | bool:
        stripped = cell.strip()
        if number.fullmatch(stripped) is None:
            return BOOLEANS.get(stripped, cell)
        value = _number_or_text(stripped.translate(plain))
        return value if type(value) is not str or _DIGITS.fullmatch(value) else cell

    return read


def _number_or_text(cell: str) -> float | str | bool:
    stripped = cell.strip()
    if _INTEGER.fullmatch(stripped):
        return int(stripped)
    if _NUMBER.fullmatch(stripped) and math.isfinite(number := float(stripped)):
        if len(stripped) <= _MOST_EXACT or not _DIGITS.fullmatch(stripped):
            return number
        return int(number) if abs(number) < _EXACT else stripped
    return BOOLEANS.get(stripped, cell)


def _label_name(cell: str) -> str:
    """Return the name of a label's class, the same as where a file says that it is a number or a boolean.

    A whole number has no fraction, leading zeros stay (``007``), and a boolean is ``true`` or ``false``.
    """
    if cell in BOOLEANS:
        return "true" if BOOLEANS[cell] else "false"
    whole = _WHOLE_LABEL.fullmatch(cell)
    return cell if whole is None else "0" if whole[1] == "-0" else whole[1]


def _as_number(value: float | str, form: re.Pattern[str]) -> float | str | bool:
    """The finite number of a string of this form, otherwise the value."""
    if (
        type(value) is str
        and form.fullmatch(digits := value.strip())
        and math.isfinite(number := float(digits))
    ):
        return number
    return value


def encoded(record: Row | Sequence[Any]) -> bytes:
    """The record as JSON; what was no UTF-8 in it is as it was."""
    try:
        return msgspec.json.encode(record)
    except UnicodeEncodeError:
        return json.dumps(record, ensure_ascii=False).encode(errors="surrogateescape")
