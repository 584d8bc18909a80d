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
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import Any

import msgspec

from streamnb.errors import ConfigError, LogError, told_as
from streamnb.features.attributes import some_of
from streamnb.formats.cell_notation import (
    BOOLEANS,
    DIGITS,
    NUMBER,
    CellNotation,
    as_number,
    number_reader,
    sniff_notation,
)
from streamnb.formats.event_columns import (
    CsvColumns,
    Reader,
    Row,
    RowIds,
    RowNote,
    are_unnamed_empty,
    assembled,
    check_header,
    encoded,
    ignore_note,
    index_columns,
    note_findings,
    report_no_label,
)
from streamnb.formats.json_value_checks import CSV_FAULT
from streamnb.formats.lost_digits import LostDigits, is_spelled_as_name
from streamnb.formats.table_dialect import (
    MAX_ROW,
    GivenDialect,
    LineRecorder,
    TableDialect,
    is_second_header,
    sniff_dialect,
    usual_width,
)
from streamnb.values.messages import Message
from streamnb.values.parameter_checks import pluralize

_FIRST = 1000  # lines, or
_LONG = 1 << 20  # characters of them, in which the dialect is sniffed
_FEW = 201  # rows in which the header is sniffed
_EVERY = 10  # each tenth of the later rows is checked
_BLOCK = 1 << 20  # characters of rows whose cells are checked together
_HUNDREDS = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,2})")
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}\.[0-9]{3}")
_MILLIONS = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:\.[0-9]{3}){2,}")

_NO_QUOTING = "--no-quoting reads quotes as ordinary characters"
_TWICE = 'a quote inside quotes is written twice (""), not behind a backslash'

NO_TEXT = "holds NUL characters, as UTF-16 without a byte order mark does: --encoding utf-16-le"
"""Why text with NUL characters is rejected."""

NOT_DECODED = "and becomes a dead letter: --encoding NAME sets the encoding of the file, such as cp1252"
"""Consequence for a row or line that is not text in the encoding of its file."""

TIME_PARTS = "`streamnb init` shows which parts can be read"
"""The remedy for dates, for messages."""

_TOTALS = frozenset(
    "total totals sum subtotal summe gesamt gesamtsumme insgesamt totale somme suma soma totaal".split()
) | {"grand total", "sum total"}
_WHOLE_LABEL = re.compile(r"(-?[1-9][0-9]*|-?0)\.0+")


def rows_to_events(lines: Iterable[str], columns: CsvColumns, note: RowNote = ignore_note) -> Iterator[bytes]:
    """Yield one record for every row of a table; see `TableEvents`."""
    return iter(TableEvents(lines, columns, note))


class TableEvents:
    """The records of the rows of a table, to be iterated once; empty rows are skipped and not numbered.

    Args:
        lines: the lines with their ends. Bytes that were not UTF-8 may be lone surrogates (Python's
            "surrogateescape"); they are written unchanged, and the decoder rejects them.
        columns: roles and notation of the columns.
        note: called with what was sniffed, for the first row that may be several rows, and for the first that
            is not UTF-8.
        findings: what was sniffed before, for the message.
        ids: makes ids for a table without a column of ids.

    Attributes:
        columns: the columns with all that was sniffed.

    Raises:
        ConfigError: a header that is not CSV, repeats a column, or lacks a configured one.
        LogError: the header lacks a required label column.
    """

    def __init__(
        self,
        lines: Iterable[str],
        columns: CsvColumns,
        note: RowNote = ignore_note,
        findings: Sequence[str] = (),
        ids: RowIds | None = None,
    ) -> None:
        csv.field_size_limit(max(csv.field_size_limit(), MAX_ROW))  # of the whole process: never lower it
        self._rows = _Rows(iter(lines), columns)
        self._note, self._ids = note, ids or RowIds()
        header, sample = self._rows.header, self._rows.sample
        given = _given_notation(columns) if columns.decimal or columns.thousands else None
        others = {*columns.in_roles, *columns.strings, *columns.names}
        notation = (
            sniff_notation([header, *sample], given, others, columns.missing) if header else CellNotation()
        )
        self._notation = notation
        dialect = self._rows.dialect
        self.columns = msgspec.structs.replace(
            columns,
            delimiter=dialect.delimiter + " " * dialect.skips_blanks,
            quote=dialect.quote,
            quoting=dialect.is_quoting,
            has_header=dialect.has_header,
            skipped=dialect.skipped,
            comment=dialect.comment,
            decimal=notation.decimal,
            thousands=notation.thousands,
            markers=tuple(sorted({cell for marks in notation.markers.values() for cell in marks})),
        )
        self._left_out = index_columns(header, sample, columns)
        found = [*findings, *self._rows.findings, *notation.findings]
        if self._left_out:
            index = some_of([one or "a column without a name" for one in self._left_out])
            found.append(f"{index} left out, which numbers the rows (--id-column)")
        if are_unnamed_empty(header, sample):
            self._left_out.append("")
            found.append(f"{header.count('')} empty columns without a name left out")
        if columns.leaves_out_dates and (
            dates := [one for one in notation.dates if one not in columns.declared]
        ):
            self._left_out += dates
            found.append(f"dates in {some_of(dates)} left out ({TIME_PARTS})")
        self.columns = msgspec.structs.replace(
            self.columns, header=tuple(header), left_out=tuple(self._left_out)
        )
        note_findings(note, found)

    def __iter__(self) -> Iterator[bytes]:
        header, note, columns = self._rows.header, self._note, self.columns
        if not header:
            return
        self._rows.report_width(note)
        check_header([one for one in header if one or "" not in self._left_out], columns)
        notes = _RowNotes(note, columns.encoding, self._rows.dialect.delimiter)
        event, encode = (
            _RowReader(header, columns, self._notation, self._left_out, self._ids, note),
            msgspec.json.encode,
        )
        width, taken, number = len(header), self._rows.recorder.taken, 0
        for row in self._rows:
            record: Row | Sequence[Any]
            if isinstance(row, csv.Error):
                record = [{CSV_FAULT: f"not CSV: {row}"}, "".join(taken)]
                notes.add_error(number, row, taken)
            elif row == header or (row[0][:1] == "\ufeff" and [row[0][1:], *row[1:]] == header):
                notes.add_header(number)
                continue
            elif len(row) == width:
                record = event.read(number, row, self._rows.recorder.size)
            elif self._rows.is_comment(row):
                continue
            else:
                record = [{CSV_FAULT: f"{pluralize(len(row), 'cell')}, the header has {width}"}, *row]
            if len(taken) > 1 and not isinstance(row, csv.Error):
                notes.look_at_lines(number, taken, width, is_fitting=len(row) == width)
            try:
                raw = encode(record)
            except UnicodeEncodeError:
                notes.add_undecoded(number)
                raw = encoded(record)
            number += 1
            yield raw
        event.report()


class _RowReader:
    """Makes events of the rows that fit the header, and looks at their cells on the way."""

    def __init__(
        self,
        header: list[str],
        columns: CsvColumns,
        notation: CellNotation,
        left_out: Sequence[str],
        ids: RowIds,
        note: RowNote,
    ) -> None:
        self._ids, self._header, self._columns, self._note = ids, header, columns, note
        read, readers = _readers(columns, notation)
        roles = (columns.id, columns.ts, columns.text, columns.label)
        self._roles = [header.index(name) if name in header else None for name in roles]
        self._read_time = readers[columns.ts]
        self._features = [
            (at, name, readers.get(name, read))
            for at, name in enumerate(header)
            if name not in {*roles, *left_out}
        ]
        self._lost = LostDigits(note, columns.decimal, columns)
        self._points = _PointNotes(note, columns)
        self._block: list[str] = []  # cells of rows that are not checked yet
        self._block_size = 0
        self._has_markers = bool(notation.markers)
        self._fitting = self._labelled = 0
        self._last: list[str] = []

    def read(self, number: int, row: list[str], size: int) -> Row:
        """Return the event of a row with this number of characters."""
        self._fitting += 1
        self._last = row
        if number < _FIRST or number % _EVERY == 0:
            self._block += row
            self._block_size += size
            if len(self._block) == _FIRST * len(row) or self._block_size > _BLOCK:
                self._look_at_block()
        missing = self._columns.missing
        id_at, ts_at, text_at, label_at = self._roles
        ts = "" if ts_at is None or (cell := row[ts_at]) in missing else cell
        text = "" if text_at is None or (cell := row[text_at]) in missing else cell
        label = "" if label_at is None or (cell := row[label_at]) in missing else cell
        if id_at is None:
            event_id = self._ids(number, encoded(row) if self._ids.has_content else b"")
        else:
            event_id = "" if (cell := row[id_at]) in missing else cell
        features: Row = {
            name: read(cell) for at, name, read in self._features if (cell := row[at]) not in missing
        }
        record = assembled(event_id, self._read_time(ts) if ts else "", text, label, features)
        if self._has_markers and features:
            record["features"] = {k: v for k, v in features.items() if v is not None}
        if label:
            self._labelled += 1
            record["label"] = label_name(label)
        return record

    def _look_at_block(self) -> None:
        width = len(self._header)
        columns = [self._block[at::width] for at in range(width)]
        n = len(self._block) // width
        self._points.look(n, [(name, columns[at]) for at, name, _ in self._features])
        self._lost.look(n, [(name, columns[at], read) for at, name, read in self._features])
        self._block, self._block_size = [], 0

    def report(self) -> None:
        """Report the findings of all rows. Raises LogError if a label is required and no row has one."""
        if self._block:
            self._look_at_block()
        self._lost.report()
        self._points.report()
        if self._fitting > 1 and _is_total(self._last):
            text = f"row {self._fitting - 1}, the last, looks like a row of totals, and is read as an event"
            self._note(Message("totals-row", text, row=self._fitting - 1))
        if self._columns.must_have_label and self._fitting and not self._labelled:
            rows = pluralize(self._fitting, "row")
            why = f"no event has a label: column {self._columns.label!r} is empty in all {rows}"
            report_no_label(self._note, why, self._columns)


def _given_notation(columns: CsvColumns) -> CellNotation:
    return CellNotation(columns.decimal or ".", columns.thousands)


class _Rows:
    """The rows below the header, or an error for each that is not CSV; empty rows are skipped.

    A row is empty if it has no cell, or only delimiters in a table of several columns.

    Attributes:
        header: the names of the columns; empty for an empty table.
        dialect: how the lines are split.
        sample: the first rows, and fewer of them if each column has a role.
        findings: what was sniffed and differs from plain CSV, with options, for a message.
        recorder: holds the lines of the current row.
    """

    def __init__(self, lines: Iterator[str], columns: CsvColumns) -> None:
        first, lines = _first_lines(lines)
        if first and "\0" in first[0]:
            raise LogError(NO_TEXT)
        given = GivenDialect(
            columns.delimiter,
            columns.quote,
            columns.quoting,
            columns.skipped,
            columns.has_header,
            columns.comment,
            columns.in_roles | columns.declared,
        )
        self.dialect = dialect = sniff_dialect(first, given)
        table = first[dialect.skipped :]
        rest: Iterator[str] = chain(table, lines)
        if columns.comment:
            rest = (line for line in rest if not line.startswith(columns.comment))
        self.recorder = LineRecorder(rest, is_trimmed=dialect.delimiter == " ")
        self._reader = csv.reader(self.recorder, **dialect.form, strict=True)
        more = dialect.rows(
            line for line in table if not (columns.comment and line.startswith(columns.comment))
        )
        rows = [*islice(more, _FEW)]
        self._usual_width = usual_width(rows)
        self.sample = rows[dialect.has_header :]
        self._is_padded = False
        if dialect.has_header:
            with told_as(ConfigError, "CSV header", csv.Error):
                self.header = next(filter(None, self._reader), [])
            self._unmark_header(columns)
            self._trim_header(columns)
        else:
            self.header = [
                f"c{place + 1}" for place in range(self._usual_width or len(rows[0] if rows else ()))
            ]
        if not columns.in_roles.issuperset(self.header):
            self.sample += map(_without_blanks, more) if self._is_padded else more
        self.findings = _dialect_findings(dialect, given, first, self.header)
        if self._is_padded:
            self.findings.append("blanks around names and cells left out")
        if dialect.has_header and given.has_header is None and is_second_header(self.sample):
            skipped = some_of(list(filter(None, self.sample.pop(0))))
            next(filter(None, self._reader))
            self.findings.append(
                f"{skipped} skipped, a second line of the header (--header reads it as a row)"
            )

    def _unmark_header(self, columns: CsvColumns) -> None:
        """Remove the mark of a comment before the first name, if that is then a role: ``#id``."""
        name = self.header[0] if self.header else ""
        if name.startswith(("#", "%")) and (role := name.lstrip("#% ")) in columns.in_roles:
            self.header[0] = role

    def _trim_header(self, columns: CsvColumns) -> None:
        """Remove blanks around names and cells, if a name has some and no option or schema names it so."""
        named = columns.in_roles | columns.declared
        trimmed = [name if name in named else name.strip() for name in self.header]
        if trimmed != self.header and len({*trimmed}) == len({*self.header}):
            self.header, self._is_padded = trimmed, True
            self.sample = list(map(_without_blanks, self.sample))

    def is_comment(self, row: Sequence[str]) -> bool:
        """Return whether a row that does not fit the header is a comment."""
        return self.dialect.comment != "" and row[0].startswith(self.dialect.comment)

    def report_width(self, note: RowNote) -> None:
        """Note a header that has not as many cells as most of the first rows."""
        if self._usual_width and self.dialect.has_header:
            n = self._usual_width
            remedy = "the first line must name each column; --skip N skips lines above it"
            if n == len(self.header) + 1 and not any(row[-1] for row in self.sample if len(row) == n):
                remedy = f"remove the delimiter at the end of rows: sed 's/{self.dialect.delimiter}$//'"
            text = (
                f"the header has {pluralize(len(self.header), 'cell')}, and most of the first rows have "
                f"{n}: {remedy}"
            )
            note(Message("header-odd", text, cells=len(self.header), usual=self._usual_width))

    def __iter__(self) -> Iterator[list[str] | csv.Error]:
        is_single = len(self.header) == 1  # so that a delimiter in a row is a fault of it
        reader, taken = self._reader, self.recorder.taken
        while True:
            taken.clear()
            try:
                row = next(reader, None)
            except csv.Error as error:
                yield error
            else:
                if row is None:
                    return
                row = _without_blanks(row) if self._is_padded else row
                if row and (len(row) == 1 or is_single or any(row)):
                    yield row


def _dialect_findings(
    dialect: TableDialect, given: GivenDialect, first: Sequence[str], header: Sequence[str]
) -> list[str]:
    """Return what was sniffed of a dialect and is not plain CSV, with the options that override it."""
    found = []
    delimiter = _shown(dialect.delimiter + " " * dialect.skips_blanks)
    if dialect.others:
        found.append(f"delimiter {delimiter}, while {_shown(dialect.others[0])} fits as well (--delimiter)")
    elif not given.delimiter and delimiter != "','":
        found.append(f"delimiter {delimiter} (--delimiter)")
    if not given.quote and dialect.quote != '"':
        found.append(f"cells in {dialect.quote} (--quote)")
    table = first[dialect.skipped :]
    if given.is_quoting is None and not dialect.is_quoting and any('"' in line for line in table):
        found.append("quotes as ordinary characters (--quoting)")
    above = [line for line in first[: dialect.skipped] if line.strip() and not line.startswith("sep=")]
    if given.skipped is None and above:
        found.append(f"{pluralize(len(above), 'line')} skipped above the table (--skip)")
    if not given.comment and dialect.comment:
        found.append(f"lines skipped that begin with {dialect.comment} (--comment)")
    if given.has_header is None and not dialect.has_header:
        found.append(f"no header, but columns c1 to c{len(header)} (--header)")
    return found


def _without_blanks(row: Sequence[str]) -> list[str]:
    return list(map(str.strip, row))


def _shown(delimiter: str) -> str:
    return {"\t": "tab", " ": "blanks"}.get(delimiter, f"'{delimiter}'")


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

    def add_header(self, number: int) -> None:
        """Note a row that repeats the header, as where files were joined."""
        if "header" not in self._noted:
            self._noted.add("header")
            text = f"row {number} repeats the header, and is skipped, as each such row is"
            self._note(Message("header-repeated", text, row=number))

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
        self._n = 0
        self._whole: set[str] = set()
        self._grouped: dict[str, str] = {}  # column -> its first number with a point
        self._is_done = columns.decimal != "." or columns.thousands != ""

    def look(self, n: int, columns: Iterable[tuple[str, Sequence[str]]]) -> None:
        """Check the cells of the next rows, n of them; after the first thousand, print the findings."""
        if self._is_done:
            return
        for name, cells in columns:
            if name not in self._others:
                self._look_at_column(name, dict.fromkeys(cells))
        self._n += n
        if self._n >= _FIRST:
            self.report()

    def _look_at_column(self, name: str, cells: Iterable[str]) -> None:
        for cell in cells:
            if cell in self._missing:
                continue
            if _HUNDREDS.fullmatch(cell):
                self._whole.add(name)
            elif _THOUSANDS.fullmatch(cell):
                self._grouped.setdefault(name, cell)
            elif not _MILLIONS.fullmatch(cell):
                self._others.add(name)
                self._is_done |= "." in cell and NUMBER.fullmatch(cell.strip()) is not None
                return

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


def _is_total(row: Sequence[str]) -> bool:
    """Return whether a row has an empty cell, and its first word is one for a sum."""
    words = [word for cell in row if (word := cell.strip(" :.\t").lower())]
    return len(words) < len(row) and words[:1] != [] and words[0] in _TOTALS


def _as_it_is(cell: Any) -> Any:
    return cell


def _readers(columns: CsvColumns, notation: CellNotation) -> tuple[Reader, dict[str | None, Reader]]:
    read = number_reader(columns.decimal, columns.thousands)

    def read_time(cell: str) -> float | str | bool:
        value = read(cell)
        return as_number(cell if value is cell else value, NUMBER)

    def read_whole(cell: str) -> float | str | bool:
        return as_number(read(cell), DIGITS)

    def read_name(cell: str) -> float | str | bool:
        return cell if is_spelled_as_name(cell, columns.decimal) else read(cell)

    def read_marked(name: str) -> Reader:
        marks, read_other = notation.markers[name], read_whole if name in columns.numbers else read
        return lambda cell: None if cell in marks else read_other(cell)

    return read, {
        **dict.fromkeys(columns.names, read_name),
        **dict.fromkeys(columns.strings, _as_it_is),
        **dict.fromkeys(columns.labels, label_name),
        **dict.fromkeys(columns.numbers - columns.strings, read_whole),
        **{name: read_marked(name) for name in notation.markers},
        columns.ts: read_time,
    }


@lru_cache(1024)
def label_name(cell: str) -> str:
    """Return the name of a label's class, as in a file with typed numbers and booleans.

    A whole number has no fraction, leading zeros stay (``007``), and a boolean is ``true`` or ``false``.
    """
    if cell in BOOLEANS:
        return "true" if BOOLEANS[cell] else "false"
    whole = _WHOLE_LABEL.fullmatch(cell)
    return cell if whole is None else "0" if whole[1] == "-0" else whole[1]
