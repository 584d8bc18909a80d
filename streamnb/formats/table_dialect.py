r"""The dialect of a table of text, sniffed in its first lines: delimiter, quotes, title lines, header.

An option always wins; what no option names is found in this order:

    1. lines above the table: a line ``sep=;``, and titles or comments above the first line of a table
    2. the delimiter: each candidate splits the first lines; the best one makes the most lines have as many
       cells as the first, then the most cells, then the most numbers
    3. the character that encloses cells, and whether it does
    4. the header: the first line is data if it has a number above numbers, or a value that occurs again below
       it, unless it has a name that is expected, or a word above numbers

Several delimiters that fit equally are all returned, so that the caller can report them.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import msgspec

DELIMITERS = ",\t;|"
"""Candidates for detection; blanks are tried last."""

MAX_ROW = 16 << 20
"""The longest row, in characters: an unclosed quote must not read the rest of a file into one cell."""

_BLANK = " "
_LOOKED_AT = 20  # lines below the header to find the delimiter, or above it to find the header
_ROWS = 200  # rows below the header to find out whether it is one
_LEAST = 3  # lines of a table whose delimiter is a blank
_SEP = re.compile(r"sep=([^\r\n])\r?\n?")  # as Excel writes it
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:[.,' ][0-9]{3})*(?:[.,][0-9]*)?|[.,][0-9]+)(?:[eE][+-]?[0-9]+)?")
_MARKERS = frozenset(("", "na", "n/a", "nan", "null", "none", "?", "-", "."))
_COMMENTS = "#%"
_ENDS = "\r\n"


class TableDialect(msgspec.Struct, frozen=True):
    """Delimiter, quotes, and the beginning of a table.

    Attributes:
        delimiter: the character between cells; a blank stands for one or more.
        quote: the character that may enclose cells.
        is_quoting: whether it does.
        skipped: number of lines above the header, or above the first row without one.
        has_header: whether the first line names the columns.
        comment: the first character of lines to skip; empty for none.
        others: other delimiters that fit as well.
        skips_blanks: whether blanks behind a delimiter are part of it.
    """

    delimiter: str = ","
    quote: str = '"'
    is_quoting: bool = True
    skipped: int = 0
    has_header: bool = True
    comment: str = ""
    others: str = ""
    skips_blanks: bool = False

    @property
    def form(self) -> dict[str, Any]:
        """The arguments of `csv.reader`."""
        return {
            "delimiter": self.delimiter,
            "quotechar": self.quote,
            "quoting": csv.QUOTE_MINIMAL if self.is_quoting else csv.QUOTE_NONE,
            "skipinitialspace": self.skips_blanks or self.delimiter == _BLANK,
        }

    def rows(self, lines: Iterable[str]) -> Iterator[list[str]]:
        """Yield the rows of lines that are not empty, as far as they are CSV."""
        lines = _trimmed(lines) if self.delimiter == _BLANK else lines
        with suppress(csv.Error):
            yield from filter(None, csv.reader(lines, **self.form, strict=True))


class GivenDialect(msgspec.Struct, frozen=True):
    """Options of a dialect; an empty string and None are sniffed.

    Attributes:
        names: names that mark a line as the header.
    """

    delimiter: str = ""
    quote: str = ""
    is_quoting: bool | None = None
    skipped: int | None = None
    has_header: bool | None = None
    comment: str = ""
    names: frozenset[str] = frozenset()


def sniff_dialect(lines: Sequence[str], given: GivenDialect) -> TableDialect:
    """Return the dialect of a table by its first lines, which may begin with empty ones."""
    start = _first_line(lines, 0) if given.skipped is None else given.skipped
    sep = _SEP.fullmatch(lines[start]) if start < len(lines) and given.skipped is None else None
    if sep is not None:
        start = _first_line(lines, start + 1)
    delimiter = given.delimiter or ("" if sep is None else sep[1])
    if not delimiter and start < len(lines) and lines[start].strip(_ENDS + '"') in given.names:
        delimiter = ","  # of a single column, in which blanks are words
    elif given.skipped is None and sep is None:
        start = _start_of_table(lines, start, delimiter, given)
    table = [line for line in lines[start:] if not (given.comment and line.startswith(given.comment))]
    others, skips_blanks = "", len(delimiter) > 1
    delimiter = delimiter[:1]
    if not delimiter:
        delimiter, others = _delimiters(table)
        skips_blanks = _are_blanks_behind(table, delimiter)
    quote = given.quote or quote_of(table, delimiter)
    is_quoting = given.is_quoting
    if is_quoting is None:
        is_quoting = quote != '"' or given.quote != "" or is_quoted(table, delimiter)
    dialect = TableDialect(
        delimiter, quote, is_quoting, start, comment=given.comment, others=others, skips_blanks=skips_blanks
    )
    rows = list(islice(dialect.rows(table), 1 + _ROWS))
    comment = given.comment or _comment_of(rows)
    has_header = _is_header(rows, given.names) if given.has_header is None else given.has_header
    return msgspec.structs.replace(dialect, comment=comment, has_header=has_header)


def is_table(text: str) -> bool:
    """Return whether the first lines of a text look like a table of several columns; the last may be cut."""
    lines = text.splitlines(keepends=True)
    lines = lines[:-1] if len(lines) > _LEAST else lines
    dialect = sniff_dialect(lines, GivenDialect())
    return _is_table(lines[dialect.skipped :], dialect.delimiter)


def _first_line(lines: Sequence[str], start: int) -> int:
    """Return the index of the first line from `start` that is not empty."""
    return next((n for n in range(start, len(lines)) if lines[n].strip(_ENDS)), len(lines))


def _start_of_table(lines: Sequence[str], start: int, delimiter: str, given: GivenDialect) -> int:
    """Return the index of the first line of the table, below titles and comments.

    A title is a line of at most one cell that is not empty. A line of several cells may stand above a table
    only if the table's header is one for sure.
    """
    if _is_table(lines[start:], delimiter[:1]):
        return start
    for n in range(start + 1, min(len(lines), start + _LOOKED_AT)):
        if not lines[n].strip(_ENDS) or not _is_table(lines[n:], delimiter[:1]):
            continue
        dialect = TableDialect(delimiter[:1] or _delimiters(lines[n:])[0])
        above = list(dialect.rows(lines[start:n]))
        rows = list(islice(dialect.rows(lines[n:]), 1 + _ROWS))
        are_titles = all(sum(map(bool, map(str.strip, row))) <= 1 for row in above)
        are_comments = all(line.startswith(tuple(_COMMENTS)) for line in lines[start:n] if line.strip())
        names_columns = _is_header(rows, given.names, is_sure=True)
        is_apart = not lines[n - 1].strip(_ENDS) or len(rows) > _LEAST
        if names_columns or are_comments or (are_titles and is_apart):
            return n
        return start
    return start


def _is_table(lines: Sequence[str], delimiter: str) -> bool:
    """Return whether nearly all of the next lines have as many cells as the first, which has several.

    The first line must have no empty cell behind its first one, as a title in a table of cells has.
    """
    lines = lines[: 1 + _LOOKED_AT]
    delimiter = delimiter or _delimiters(lines)[0]
    rows = list(TableDialect(delimiter, quote_of(lines, delimiter)).rows(lines))
    if len(rows) < 2 or len(rows[0]) < 2 or not any(rows[0][1:]):
        return False
    n_fitting = sum(len(row) == len(rows[0]) for row in rows[1:])
    n_comments = sum(len(row) != len(rows[0]) and row[0].startswith(tuple(_COMMENTS)) for row in rows[1:])
    return n_fitting >= 0.8 * (len(rows) - 1 - n_comments) and n_fitting > 0


def _delimiters(lines: Sequence[str]) -> tuple[str, str]:
    """Return the delimiter of cells by the first lines, and all others that fit as well."""
    header, more = lines[0] if lines else "", lines[1 : 1 + _LOOKED_AT]
    found = [delimiter for delimiter in DELIMITERS if delimiter in header]
    if not found:
        return (_BLANK if _are_blanks_between(lines[: 1 + _LOOKED_AT]) else ","), ""
    if len(found) == 1:
        return found[0], ""
    fits = {delimiter: _fitting([header, *more], delimiter) for delimiter in found}
    best = max(found, key=fits.__getitem__)
    is_tie = fits[best][0] > 0
    others = [one for one in found if one != best and is_tie and fits[one] == fits[best]]
    return best, "".join(others)


def _fitting(lines: Sequence[str], delimiter: str) -> tuple[int, bool, int, int]:
    """Return how well a delimiter fits: better is larger.

    The rows with as many cells as the first, before one that is not CSV; whether apostrophes enclose cells;
    the number of cells; and the number of numbers. It is (-1, False, 1, 0) for a single cell.
    """
    quote = quote_of(lines, delimiter)
    header, *rows = [*TableDialect(delimiter, quote).rows(lines)] or [[]]
    if len(header) < 2:
        return -1, False, len(header), 0
    n_numbers = sum(_NUMBER.fullmatch(cell) is not None for row in rows for cell in row)
    return sum(len(row) == len(header) for row in rows), quote == "'", len(header), n_numbers


def _are_blanks_behind(lines: Sequence[str], delimiter: str) -> bool:
    """Return whether each delimiter is followed by a blank: ``a, b, c``."""
    are_behind = all(line.count(delimiter) == line.count(delimiter + _BLANK) for line in lines)
    return are_behind and any(delimiter in line for line in lines)


def _are_blanks_between(lines: Sequence[str]) -> bool:
    """Return whether each line has the same number of words, as in a table of columns in line."""
    rows = list(TableDialect(_BLANK).rows(lines))
    return len(rows) >= _LEAST and len(rows[0]) > 1 and all(len(row) == len(rows[0]) for row in rows)


def quote_of(lines: Sequence[str], delimiter: str) -> str:
    """Return the character that encloses cells, by the first lines of a table: `"`, or an apostrophe.

    It is an apostrophe if no cell begins with `"`, and each line below the header has a cell between
    apostrophes, or each name of the header is between them.
    """
    if not any("'" in line for line in lines):
        return '"'
    lines = [stripped for line in lines if (stripped := line.rstrip(_ENDS))]
    if any(line.startswith('"') or f'{delimiter}"' in line for line in lines):
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
    recorder = LineRecorder(lines)
    reader = csv.reader(recorder, delimiter="\t", strict=True)
    n_quoted = 0
    while True:
        recorder.taken.clear()
        with suppress(csv.Error):
            row = next(reader, None)
            if row is None:
                return n_quoted >= n_plain
            n_quoted += len(recorder.taken) == 1 and len(row) == n_tabs + 1


def _begins_cell(line: str) -> bool:
    return line.startswith('"') or '\t"' in line


def _comment_of(rows: Sequence[Sequence[str]]) -> str:
    """Return the first character of lines between the rows that have another width; empty for none."""
    width = len(rows[0]) if rows else 0
    starts = {row[0][0] for row in rows[1:] if len(row) != width and row[0] and row[0][0] in _COMMENTS}
    return starts.pop() if len(starts) == 1 and width > 1 else ""


def _is_header(rows: Sequence[Sequence[str]], names: frozenset[str], *, is_sure: bool = False) -> bool:
    """Return whether the first row names the columns; without evidence it does, unless it `is_sure`."""
    if not rows:
        return not is_sure
    first = [cell.strip() for cell in rows[0]]
    if not names.isdisjoint(first) or not names.isdisjoint(map(str.lower, first)):
        return True
    below = [row for row in rows[1:] if len(row) == len(first) and row != rows[0]]
    repeats = False
    for cell, *column in zip(first, *below, strict=True):
        cells = [stripped for one in column if (stripped := one.strip()).lower() not in _MARKERS]
        are_numbers = _are_numbers(cells)
        is_number = _is_number(cell)
        if are_numbers and not is_number and cell.lower() not in _MARKERS:
            return True
        repeats |= (are_numbers and is_number) or (cell != "" and not are_numbers and cell in cells)
    return not repeats and not is_sure


def is_second_header(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row below the header names the columns again, as with units.

    It has a word in each column of numbers, at least one, and in no column a cell that occurs again.
    """
    first, *below = [list(map(str.strip, row)) for row in rows[: 1 + _ROWS]] or [[]]
    below = [row for row in below if len(row) == len(first)]
    n_numeric = 0
    for cell, *column in zip(first, *below, strict=True) if len(below) >= _LEAST else ():
        cells = [one for one in column if one.lower() not in _MARKERS]
        if _are_numbers(cells):
            if _is_number(cell) or (cell and cell.lower() in _MARKERS):
                return False
            n_numeric += cell != ""
        elif cell and cell in cells:
            return False
    return n_numeric > 0


def _are_numbers(cells: Sequence[str]) -> bool:
    """Return whether nine tenths of the cells are numbers; False for no cells."""
    if not any(map(_is_number, cells[: 1 + len(cells) // 10])):
        return False
    return 10 * sum(map(_is_number, cells)) >= 9 * len(cells)


def _is_number(cell: str) -> bool:
    return _NUMBER.fullmatch(cell) is not None


def usual_width(rows: Sequence[Sequence[str]]) -> int:
    """Return the number of cells of most rows below the first, if the first has another number; otherwise 0.

    It counts only if it is above 1, as in a table.
    """
    widths = list(map(len, rows[: 1 + _LOOKED_AT]))
    for width, n in Counter(widths[1:]).most_common(1):
        return width if width not in {1, widths[0]} and 2 * n >= len(widths) else 0
    return 0


def _trimmed(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield line.rstrip() + "\n" * line.endswith(tuple(_ENDS))


class LineRecorder:
    """An iterator that keeps the lines of the current row, and ends a row beyond `MAX_ROW` with an error.

    Args:
        lines: the lines.
        is_trimmed: whether blanks at the end of a line are removed, as between columns of blanks.

    Attributes:
        taken: the lines of the row; clear it before the next row.
        size: the characters of the row.
    """

    def __init__(self, lines: Iterable[str], *, is_trimmed: bool = False) -> None:
        self.taken: list[str] = []
        self.size = 0
        self._lines = _trimmed(lines) if is_trimmed else iter(lines)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.size = self.size + len(line) if self.taken else len(line)
        self.taken.append(line)
        if self.size > MAX_ROW:
            raise csv.Error("the row is too long")
        return line
