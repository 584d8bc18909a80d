r"""CSV -> records of events, as a producer would have written them.

The first row names the columns; a line ``sep=;`` before it names the delimiter. A cell of a feature column is
a number if it reads as a finite one (``3``, ``007``, ``-1.5e3``), a boolean if it is ``true`` or ``false``
in the spellings of `BOOLEANS`, missing if it is empty, otherwise a string. Whole numbers beyond 2^53 are
strings, because doubles would merge neighbours. A label that is a whole number is written without a fraction
(``1.0`` is ``1``), so that a column has the same classes in a CSV and a Parquet file. Nothing is dropped: a
row that is not one cell per column, or not CSV at all, becomes a JSON array that begins with the fault,
which no schema accepts as an event, so that it becomes a dead letter (wrong-type at ``$``) with its content.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, dropwhile, islice
from types import MappingProxyType
from typing import Any

import msgspec

from streamnb.errors import ConfigError, LogError, told_as
from streamnb.formats.json_value_checks import CSV_FAULT
from streamnb.formats.lost_digits import LostDigits, is_spelled_as_name
from streamnb.values.messages import Message
from streamnb.values.parameter_checks import did_you_mean, pluralize

MAX_ROW = 16 << 20
"""The longest row, in characters: an unclosed quote must not read the rest of a file into one cell."""

DELIMITERS = ",\t;|"  # candidates for detection

_LOOKED_AT = 20  # lines below the header to find the delimiter, and
_FIRST = 1000  # lines, or
_LONG = 1 << 20  # characters of them, to find out whether quotes enclose cells
_EVERY = 100  # each hundredth of the later rows is checked
_ENDS = {"\n", "\r\n", "\r"}
_SEP = re.compile(r"sep=([^\r\n])\r?\n?")  # as Excel writes it
_MOST_EXACT = 15  # digits of a whole number that is below 2^53
_INTEGER = re.compile(rf"[+-]?[0-9]{{1,{_MOST_EXACT}}}")
_DIGITS = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HUNDREDS = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,2})")
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}\.[0-9]{3}")
_MILLIONS = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:\.[0-9]{3}){2,}")
_EXACT = 2.0**53  # each smaller integer has its own double
_ALIKE = {" ": " \u00a0\u2009\u202f", "'": "'\u2019"}
"""Separator of thousands -> characters that are written for it."""

_NO_QUOTING = "--no-quoting reads quotes as ordinary characters"
_TWICE = 'a quote inside quotes is written twice (""), not behind a backslash'

NO_TEXT = "holds NUL characters, as UTF-16 without a byte order mark does: --encoding utf-16-le"
"""Why text with NUL characters is rejected."""

NOT_DECODED = "and becomes a dead letter: --encoding NAME sets the encoding of the file, such as cp1252"
"""Consequence for a row or line that is not text in the encoding of its file."""

BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
"""Cell -> its boolean, as a feature or as a label."""

_WHOLE_LABEL = re.compile(r"(-?[1-9][0-9]*|-?0)\.0+")

Row = dict[Any, Any]
"""Values by names of columns or fields; a role may be None, which is in no row."""

Reader = Callable[[Any], Any]
"""Converts a cell to its type."""

RowNote = Callable[[Message], None]
"""Takes a message about input that may be read otherwise than intended."""


def ignore_note(_: Message) -> None:
    """Drop a note."""


class CsvColumns(msgspec.Struct, frozen=True):
    """Roles and notation of columns; a name other than the default must be in the header.

    None is a role without a column, whose default name another role uses.

    Attributes:
        id: the event's id; without such a column, the row number (from 0) is the id.
        label: the label; an empty cell is an event without a label.
        text: the text.
        ts: the time, seconds since the epoch.
        delimiter: delimiter of cells, one character; empty is detected, see `delimiter_of`.
        missing: cells that hold no value, of every column.
        strings: feature columns whose cells are always strings.
        names: feature columns in which a number that is written as a name is a string (`lost_digits`).
        labels: columns of `strings` that hold the label, if the schema reads it among the features.
        numbers: feature columns in which a whole number beyond 2^53 is a number, too, the nearest double.
        decimal: the decimal separator of numbers, one character.
        thousands: the separator of thousands in numbers, one character or empty.
        quoting: whether `quote` encloses cells; None is detected, see `is_quoted`.
        quote: the character that may enclose cells; empty is detected, see `quote_of`.
        encoding: a codec name of Python; empty is UTF-8, or UTF-16 by its byte order mark.
        format: the name of a format, in place of the file name's (`event_formats`); empty for none.
        finds_label: whether a format that has a usual place of the label takes it from there, if no column
            is called `label`.
        must_have_label: whether a header without the label's column is rejected, whatever its name.
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
    quote: str = ""
    encoding: str = ""
    format: str = ""
    finds_label: bool = True
    must_have_label: bool = False


def delimiter_of(header: str, more: Iterable[str] = ()) -> str:
    """Return the delimiter of cells, a comma, tab, semicolon or bar, detected in the first lines.

    Among the candidates in the header it is the delimiter with which the most rows have as many cells as the
    header; then with the most cells. `more`, the lines below, is read only for several candidates.
    """
    found = [delimiter for delimiter in DELIMITERS if delimiter in header]
    if len(found) < 2:
        return next(iter(found), ",")
    lines = [header, *more]
    return max(found, key=lambda delimiter: _fitting(lines, delimiter))


def _fitting(lines: Iterable[str], delimiter: str) -> tuple[int, int]:
    """Return how many rows have as many cells as the header, and that number; (-1, 1) for a single cell."""
    with suppress(csv.Error):
        header, *rows = (len(row) for row in csv.reader(lines, delimiter=delimiter))
        return (rows.count(header), header) if header > 1 else (-1, 1)
    return -1, 0


def quote_of(lines: Sequence[str], delimiter: str) -> str:
    """Return the character that encloses cells, by the first lines of a table: `"`, or an apostrophe.

    It is an apostrophe if no cell begins with `"`, and each line below the header has a cell between
    apostrophes, or each name of the header is between them.
    """
    lines = [stripped for line in lines if (stripped := line.rstrip("\r\n"))]
    if not lines or any(line.startswith('"') or f'{delimiter}"' in line for line in lines):
        return '"'
    edge, cell = re.escape(delimiter), "'(?:[^']|'')*'"
    has_enclosed = re.compile(f"(?:^|{edge}){cell}(?={edge}|$)")
    is_header = re.fullmatch(f"{cell}(?:{edge}{cell})*", lines[0])
    is_enclosed = is_header or (len(lines) > 1 and all(map(has_enclosed.search, lines[1:])))
    return "'" if is_enclosed else '"'


def is_quoted(lines: Sequence[str], delimiter: str) -> bool:
    """Return whether `"` at the beginning of a cell encloses it, by the first lines of a table.

    It does with any delimiter but a tab. Tables with tabs are often written without quoting, and an unclosed
    quote would take the following lines into its cell. With tabs, quotes are ordinary characters if no cell
    begins with one, or if more of the lines fit the header without quoting.
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
    return line.startswith('"') or '\t"' in line


def rows_to_events(lines: Iterable[str], columns: CsvColumns, note: RowNote = ignore_note) -> Iterator[bytes]:
    """Yield one record for every row under the header; empty rows are skipped and not numbered.

    Args:
        lines: the lines with their ends. Bytes that were not UTF-8 may be lone surrogates (Python's
            "surrogateescape"); they are written unchanged, and the decoder rejects them.
        columns: roles of the columns.
        note: called for the first row that may be several rows, and for the first that is not UTF-8.

    Raises:
        ConfigError: a header that is not CSV, repeats a column, or lacks a configured one.
        LogError: the header lacks a required label column.
    """
    csv.field_size_limit(max(csv.field_size_limit(), MAX_ROW))  # of the whole process: never lower it
    rows = _Rows(iter(lines), columns)
    header = rows.header
    if not header:
        return
    rows.report_width(note)
    check_header(header, columns)
    read, readers = _readers(columns)
    notes = _RowNotes(note, columns.encoding, rows.delimiter)
    lost = LostDigits(note, columns.decimal, columns.numbers | columns.names)
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
            record = event_of(cells, str(number), columns, read, readers)
            if number < _FIRST or number % _EVERY == 0:
                lost.look(number, cells, record.get("features", {}))
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
    lost.report()
    points.report()
    if columns.must_have_label and fitting and not labelled:
        raise LogError(
            f"no event has a label: column {columns.label!r} is empty in all {pluralize(fitting, 'row')}"
        )


class _Rows:
    """The rows below the header, or an error for each that is not CSV; empty rows are skipped.

    A row is empty if it has no cell, or only delimiters in a table of several columns.

    Attributes:
        header: the names of the columns; empty for an empty table.
        delimiter: delimiter of cells.
        taken: the lines of the current row.
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
        quote = columns.quote or quote_of(first, self.delimiter)
        is_quoting = columns.quoting
        if is_quoting is None:
            is_quoting = quote != '"' or columns.quote != "" or is_quoted(first, self.delimiter)
        self._recorder = _Recorder(chain(first, lines))
        self.taken = self._recorder.taken
        form: dict[str, Any] = {
            "delimiter": self.delimiter,
            "quotechar": quote,
            "quoting": csv.QUOTE_MINIMAL if is_quoting else csv.QUOTE_NONE,
        }
        self._reader = csv.reader(self._recorder, **form, strict=True)
        self._usual_width = _usual_width(first, form)
        with told_as(ConfigError, "CSV header", csv.Error):
            self.header = next(filter(None, self._reader), [])

    def report_width(self, note: RowNote) -> None:
        """Note a header that has not as many cells as most of the first rows."""
        if self._usual_width:
            text = (
                f"the header has {pluralize(len(self.header), 'cell')}, and most of the first rows have "
                f"{self._usual_width}: the first line must name each column, and nothing may stand above it"
            )
            note(Message("header-odd", text, cells=len(self.header), usual=self._usual_width))

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


def _usual_width(first: Sequence[str], form: Mapping[str, Any]) -> int:
    """Return the number of cells of most of the first rows, if the header has another; otherwise 0.

    It counts only if it is above 1, as in a table; `form` are arguments of `csv.reader`.
    """
    with suppress(csv.Error):
        widths = [len(row) for row in csv.reader(first[: 1 + _LOOKED_AT], **form, strict=True) if row]
        for width, n in Counter(widths[1:]).most_common(1):
            return width if width not in {1, widths[0]} and 2 * n >= len(widths) else 0
    return 0


def _first_lines(lines: Iterator[str]) -> tuple[list[str], Iterator[str]]:
    """Return the first lines, and an iterator of the rest, which raises an error of reading in its place."""
    first: list[str] = []
    size = 0
    try:
        for line in islice(lines, _FIRST):
            first.append(line)
            size += len(line)
            if size > _LONG:
                break
    except Exception as error:  # noqa: BLE001  any error of the source of lines
        return first, _raising(error)
    return first, lines


def _raising(error: Exception) -> Iterator[str]:
    raise error
    yield ""


class _RowNotes:
    def __init__(self, note: RowNote, encoding: str, delimiter: str) -> None:
        self._note, self._encoding, self._delimiter = note, encoding or "UTF-8", delimiter
        self._noted: set[str] = set()

    def look_at_lines(self, number: int, lines: Sequence[str], width: int, *, is_fitting: bool) -> None:
        """Note a row of several lines that a quote may have joined.

        It is suspicious in a table with tabs, if each line looks like a row, or if the row does not fit the
        header.
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
        if kind not in self._noted:
            self._noted.add(kind)
            self._note(Message("row-quoting-odd", f"row {number} {what}", row=number))

    def add_undecoded(self, number: int) -> None:
        """Note a row that is not text in the configured encoding."""
        if "encoding" not in self._noted:
            self._noted.add("encoding")
            text = f"row {number} is not {self._encoding}, {NOT_DECODED}"
            self._note(Message("encoding-wrong", text, line=number, encoding=self._encoding))


class _PointNotes:
    """Detects columns like 767, 6.040: the point may separate thousands if no number has another fraction."""

    def __init__(self, note: RowNote, columns: CsvColumns) -> None:
        self._note, self._missing = note, columns.missing
        roles = {columns.id, columns.label, columns.text, columns.ts}
        self._others: set[str | None] = {*roles, *columns.strings}  # columns that are not checked
        self._whole: set[str] = set()
        self._grouped: dict[str, str] = {}  # column -> its first number with a point
        self._is_done = columns.decimal != "." or columns.thousands != ""

    def look(self, number: int, cells: Row) -> None:
        """Check the cells of a row; after the first thousand rows, print the findings."""
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
            reading = f"{cell} is read as {float(cell)}; --decimal , --thousands . reads {whole}"
            text = f"column {name}{more}: {reading}"
            self._note(Message("decimal-point-ambiguous", text, columns=list(found), cell=cell))
        self._is_done = True


class _Recorder:
    """An iterator that keeps the lines of the current row, and ends a row beyond `MAX_ROW` with an error."""

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
    """Raise ConfigError for repeated or missing columns, LogError for a missing label column."""
    hint = ""
    is_text = where == "CSV header"
    if is_text and any(_NUMBER.fullmatch(column.strip()) for column in header):
        hint += "; the first row has to name the columns, and looks like data"
    if is_text and any(delimiter in column for column in header for delimiter in DELIMITERS):
        hint += "; --delimiter C sets the delimiter of cells"
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
            f"{', '.join(header)}; --label-column NAME selects it"
            f"{did_you_mean(columns.label, header)}{hint}"
        )


def _as_it_is(cell: Any) -> Any:
    return cell


def event_of(
    cells: Row,
    made_id: str,
    columns: CsvColumns,
    read: Reader = _as_it_is,
    readers: Mapping[str | None, Reader] = MappingProxyType({}),
) -> Row:
    """Return the event of a row.

    Args:
        cells: column name -> cell; cells with a role are removed.
        made_id: its id without a column of ids.
        columns: roles of the columns.
        read: converts the time and feature cells to their types.
        readers: column -> converter in place of `read`.
    """
    missing = columns.missing
    event: Row = {"id": made_id}
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
    read = number_reader(columns.decimal, columns.thousands)

    def read_time(cell: str) -> float | str | bool:
        value = read(cell)
        return _as_number(cell if value is cell else value, _NUMBER)

    def read_whole(cell: str) -> float | str | bool:
        return _as_number(read(cell), _DIGITS)

    def read_name(cell: str) -> float | str | bool:
        return cell if is_spelled_as_name(cell, columns.decimal) else read(cell)

    return read, {
        **dict.fromkeys(columns.names, read_name),
        **dict.fromkeys(columns.strings, _as_it_is),
        **dict.fromkeys(columns.labels, _label_name),
        **dict.fromkeys(columns.numbers - columns.strings, read_whole),
        columns.ts: read_time,
    }


def number_reader(decimal: str = ".", thousands: str = "") -> Callable[[str], float | str | bool]:
    """Return a function that converts a cell in a notation to a number, or returns the cell unchanged.

    Args:
        decimal: the decimal separator. A cell with a different separator is not a number.
        thousands: separator of groups of two or three digits, the last one of three; a blank or apostrophe
            also matches its typographic variants. Numbers without it are read as well. A cell that begins
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
    """Return the name of a label's class, as in a file with typed numbers and booleans.

    A whole number has no fraction, leading zeros stay (``007``), and a boolean is ``true`` or ``false``.
    """
    if cell in BOOLEANS:
        return "true" if BOOLEANS[cell] else "false"
    whole = _WHOLE_LABEL.fullmatch(cell)
    return cell if whole is None else "0" if whole[1] == "-0" else whole[1]


def _as_number(value: float | str, form: re.Pattern[str]) -> float | str | bool:
    """Return the finite number of a string of this form, otherwise the value."""
    if (
        type(value) is str
        and form.fullmatch(digits := value.strip())
        and math.isfinite(number := float(digits))
    ):
        return number
    return value


def encoded(record: Row | Sequence[Any]) -> bytes:
    """Return the record as JSON; lone surrogates become the original bytes."""
    try:
        return msgspec.json.encode(record)
    except UnicodeEncodeError:
        return json.dumps(record, ensure_ascii=False).encode(errors="surrogateescape")
