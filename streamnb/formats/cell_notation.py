"""Cells of text -> numbers and booleans, and the notation of numbers, sniffed in the first rows of a table.

A notation holds for a whole file: the decimal separator, and the separator of thousands. It is sniffed only
if no column then loses numbers; `streamnb.features.number_notation` judges each column. A marker of missing
numbers, such as NA, is missing only in columns whose other cells are numbers: elsewhere it may be a value.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from math import isfinite

import msgspec

from streamnb.features.attributes import some_of
from streamnb.features.number_notation import (
    COMMA_AND_POINTS,
    QUOTED,
    Notation,
    dates_of,
    is_grouped,
    known_markers_of,
    notation_of,
    spoilt,
)
from streamnb.features.schema_inference import A_DATE, FieldSummary, Keys

BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
"""Cell -> its boolean, as a feature or as a label."""

NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
"""A number with a decimal point."""
DIGITS = re.compile(r"[+-]?[0-9]+")
"""A whole number."""

_DIGIT = re.compile(r"\d")
_NUMBERS = re.compile(
    r"(?:[+-]?(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+\n)*+"
)  # lines that are numbers
_MOST_EXACT = 15  # digits of a whole number that is below 2^53
_EXACT = 2.0**53  # each smaller integer has its own double
_ALIKE = {" ": " \u00a0\u2009\u202f", "'": "'\u2019"}
"""Separator of thousands -> characters that are written for it."""
_MOST_CELLS = 30_000  # of the sample


class CellNotation(msgspec.Struct, frozen=True):
    """The notation of the cells of one file.

    Attributes:
        decimal: the decimal separator.
        thousands: the separator of thousands, or empty.
        markers: column -> cells that mean a missing number in it.
        dates: columns of dates or times.
        findings: what differs from plain numbers, with the options that override it, for a message.
    """

    decimal: str = "."
    thousands: str = ""
    markers: Mapping[str, frozenset[str]] = {}
    dates: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()


def sniff_notation(
    table: Sequence[Sequence[str]],
    given: CellNotation | None,
    others: Collection[str],
    missing: Collection[str],
) -> CellNotation:
    """Return the notation of the cells of a table.

    Args:
        table: the header, and the first rows.
        given: the notation that options name; None is sniffed.
        others: columns that are not read as numbers.
        missing: cells that hold no value, of every column; others than "" replace the sniffed markers.
    """
    header, *rows = table
    rows = [row for row in rows[: _MOST_CELLS // max(1, len(header))] if len(row) == len(header)]
    columns = {
        name: [cell for row in rows if (cell := row[place]) not in missing]
        for place, name in enumerate(header)
        if name not in others
    }
    columns = {name: cells for name, cells in columns.items() if _may_have_notation(cells)}
    decimal, thousands, findings = ".", "", []
    seen = {name: _summary(cells, _number_or_text) for name, cells in columns.items()}
    if given is not None:
        decimal, thousands = given.decimal, given.thousands
    elif (sniffed := _notation_of_all(seen, header, rows, others)) is not None:
        notation, paths = sniffed
        decimal, thousands = notation.decimal, notation.thousands
        findings.append(f"numbers {notation.what} in {some_of(paths)} ({notation.options})")
    read = number_reader(decimal, thousands)
    if read is not _number_or_text:
        seen = {name: _summary(cells, read) for name, cells in columns.items()}
    found = {} if any(missing) else {name: known_markers_of(one, decimal) for name, one in seen.items()}
    markers = {name: frozenset(marks) for name, marks in found.items() if marks}
    if markers:
        cells = ",".join(dict.fromkeys(cell for marks in markers.values() for cell in sorted(marks)))
        findings.append(f"{shlex.quote(cells)} for missing numbers in {some_of(list(markers))} (--missing)")
    dates = tuple(name for name, one in seen.items() if one.kind == A_DATE and dates_of(one))
    return CellNotation(decimal, thousands, markers, dates, tuple(findings))


def _may_have_notation(cells: Sequence[str]) -> bool:
    """Return whether a column has digits, and not only plain numbers."""
    text = "\n".join([*cells, ""])
    are_numbers = _NUMBERS.fullmatch(text) is not None and text.count("\n") == len(cells)
    return not are_numbers and _DIGIT.search(text) is not None


def _summary(cells: Sequence[str], read: Callable[[str], float | str | bool]) -> FieldSummary:
    summary = FieldSummary()
    for cell in cells:
        summary.add(read(cell))
    return summary


def _notation_of_all(
    seen: Mapping[str, FieldSummary],
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    others: Collection[str],
) -> tuple[Notation, list[str]] | None:
    """Return the most frequent notation and its columns; None if plain numbers or no options fit them all."""
    notations = {
        name: notation
        for name, one in seen.items()
        if (notation := notation_of(one)) and not notation.written and notation is not QUOTED
    }
    if not notations:
        return None
    most, _ = Counter(notations.values()).most_common(1)[0]
    # Columns of plain numbers alone, which another decimal separator would make strings.
    plain = {
        name: [row[place] for row in rows if row[place]]
        for place, name in enumerate(header)
        if name not in notations and name not in others
    }
    summaries: dict[Keys, FieldSummary] = {
        (name,): _summary(cells, _number_or_text) for name, cells in plain.items()
    }
    fixed = [name for name, *_ in spoilt(summaries, most, ".")]
    if fixed and most.decimal == "," and most.thousands in {"", "."}:
        read = number_reader(",")
        if all(is_grouped(_summary(plain[name], read)) for name in fixed):
            return COMMA_AND_POINTS, [*notations, *fixed]
    paths = [name for name, notation in notations.items() if notation == most]
    return None if fixed else (most, paths)


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
        return value if type(value) is not str or DIGITS.fullmatch(value) else cell

    return read


def _number_or_text(cell: str) -> float | str | bool:
    value: float | str
    if cell.count(".") == 1 and cell < ":" and cell.isascii() and "_" not in cell:
        try:
            value = number = float(cell)  # float accepts these cells if `NUMBER` matches
        except ValueError:
            return cell
    else:
        stripped = cell.strip()
        if stripped > ":":  # a word
            return BOOLEANS.get(stripped, cell)
        if stripped.isdigit() and len(stripped) <= _MOST_EXACT and stripped.isascii():
            return int(stripped)
        if not NUMBER.fullmatch(stripped):
            return cell
        value = number = float(stripped)
        if DIGITS.fullmatch(stripped):
            value = int(number) if abs(number) < _EXACT else stripped
    return value if isfinite(number) else cell


def as_number(value: float | str, form: re.Pattern[str]) -> float | str | bool:
    """Return the finite number of a string of this form, otherwise the value."""
    if type(value) is str and form.fullmatch(digits := value.strip()) and isfinite(number := float(digits)):
        return number
    return value
