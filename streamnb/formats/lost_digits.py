"""Cells of text files that look like names but are read as numbers, and so lose characters.

cell      is read as   noted
00501     501          always
05E3      5000         always
12E5      1200000      always
1E5       100000       if the column has names of letters and digits, such as 0A1F
+4930123  4930123      always
1.10      1.1          if the column has 1.1, too
1.9       1.9          if the column has names such as 1.10.1
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import chain

from streamnb.features.attributes import some_of
from streamnb.formats.event_columns import CsvColumns, Reader
from streamnb.formats.json_paths import render_path
from streamnb.values.messages import Message

_FIRST = 1000  # rows before the first report, of which each is checked for all that is noted
_EVERY = 10  # each tenth of the later rows is, once a column has a fraction that ends with 0
_LONGEST = 100  # characters of a cell that may be noted
_MOST = 1000  # remembered numbers of one column
_FORMS = (
    r"(?P<zeros>0[0-9]+(?:{point}[0-9]*)?(?:[eE][0-9]+)?)|(?P<phone>\+[0-9]{{7,}})"
    r"|(?P<exponent>[0-9]+[eE][0-9]+)|(?P<fraction>[0-9]+{point}[0-9]+)"
)
_NAME = re.compile(r"(?=[0-9]*[A-Za-z])(?=[A-Za-z]*[0-9])[0-9A-Za-z]+")
_VERSION = re.compile(r"(?![0-9]{1,3}(?:\.[0-9]{3})+$)[0-9]+(?:\.[0-9]+){2}(?:\.[0-9A-Za-z]+)*")
"""At least three numbers, unless points separate thousands."""


_MAY_BE_NAME = re.compile(r"\n *+(?:0[0-9]|\+[0-9]{7}|[0-9]++(?:[eE][0-9]|\.[0-9]++\.[0-9]))")
"""A cell behind a line end with such zeros, sign or exponent, or a version."""
_MAY_BE_FRACTION = re.compile(r"\n *+[0-9]++[^0-9\n][0-9]++(?<=0) *+(?=\n|\Z)")
"""A cell behind a line end that may be a fraction which ends with 0, whatever the decimal separator is."""


@cache
def _forms(decimal: str) -> re.Pattern[str]:
    return re.compile(f" *(?:{_FORMS.format(point=re.escape(decimal))}) *")


def _without_zeros(cell: str, decimal: str) -> str:
    """Return a fraction without trailing zeros; unchanged if it is a whole number."""
    short = cell.rstrip("0")
    return cell if short.endswith(decimal) else short


def is_spelled_as_name(cell: str, decimal: str) -> bool:
    """Return whether a number is written as only names are, with such zeros, signs or exponents."""
    found = _forms(decimal).fullmatch(cell)
    if found is None or found.lastgroup != "fraction":
        return found is not None
    return _without_zeros(found["fraction"], decimal) != found["fraction"]


class LostDigits:
    """Finds the columns of one file in which names are read as numbers.

    Args:
        note: called with the message.
        decimal: the decimal separator.
        columns: which columns are declared as numbers or names, and which cells hold no value.
    """

    def __init__(self, note: Callable[[Message], None], decimal: str, columns: CsvColumns) -> None:
        self._note, self._decimal = note, decimal
        self._declared, self._missing = columns.numbers | columns.names, columns.missing
        self._n = 0
        self._suspected: set[str] = set()  # columns in which something was found
        self._first: dict[str, list[Iterable[str]]] = {}  # cells of the first rows of the other columns
        self._found: dict[str, tuple[str, float, str]] = {}  # column -> cell, number, and what is next to it
        self._noted: set[str] = set()
        self._exponents: dict[str, tuple[str, float]] = {}
        self._fractions: dict[str, tuple[str, float]] = {}
        self._names: dict[str, str] = {}
        self._versions: dict[str, str] = {}
        self._spelled: dict[str, dict[str, str]] = {}  # column -> number without trailing zeros -> cell

    def look(self, n: int, columns: Iterable[tuple[str, Sequence[str], Reader]]) -> None:
        """Check the next rows, n of them: the name, the cells and the reader of each column."""
        for column, cells, read in columns:
            if column not in self._noted and column not in self._declared:
                self._look_at_column(column, cells, read)
        is_first, self._n = self._n < _FIRST, self._n + n
        if is_first and self._n >= _FIRST:
            self.report()

    def _look_at_column(self, column: str, cells: Sequence[str], read: Reader) -> None:
        distinct = dict.fromkeys(cells)
        text = "\n" + "\n".join(distinct)
        has_names = _MAY_BE_NAME.search(text)
        if column in self._suspected:
            is_sampled = self._n >= _FIRST and not has_names
            self._look_at_cells(column, dict.fromkeys(cells[::_EVERY]) if is_sampled else distinct, read)
        elif has_names or _MAY_BE_FRACTION.search(text):
            self._suspected.add(column)
            self._look_at_cells(column, chain(*self._first.pop(column, ()), distinct), read)
        elif self._n < _FIRST:
            self._first.setdefault(column, []).append(distinct)

    def _look_at_cells(self, column: str, cells: Iterable[str], read: Reader) -> None:
        for cell in cells:
            if cell in self._missing or len(cell) > _LONGEST:
                continue
            value = read(cell)
            if type(value) is str:
                self._look_at_name(column, cell)
            elif type(value) in {int, float}:
                self._look_at_number(column, cell.strip(), value)

    def _look_at_name(self, column: str, cell: str) -> None:
        if _VERSION.fullmatch(cell):
            self._versions.setdefault(column, cell)
        elif _NAME.fullmatch(cell):
            self._names.setdefault(column, cell)

    def _look_at_number(self, column: str, cell: str, value: float) -> None:
        if (cell.isdigit() and cell[0] != "0") or (found := _forms(self._decimal).fullmatch(cell)) is None:
            return
        if found["fraction"]:
            self._fractions.setdefault(column, (cell, value))
            self._look_at_spelling(column, cell, value)
        elif found["exponent"] and cell[1] in "eE":
            self._exponents.setdefault(column, (cell, value))
        else:
            self._found.setdefault(column, (cell, value, ""))

    def _look_at_spelling(self, column: str, cell: str, value: float) -> None:
        short = _without_zeros(cell, self._decimal)
        spelled = self._spelled.setdefault(column, {})
        other = spelled.get(short, cell)
        if len(other) != len(cell):
            longer, shorter = sorted((cell, other), key=len, reverse=True)
            self._found.setdefault(column, (longer, value, f", as {shorter} is"))
        elif len(spelled) < _MOST:
            spelled[short] = cell

    def report(self) -> None:
        """Note the columns that were not noted before."""
        for numbers, others in ((self._exponents, self._names), (self._fractions, self._versions)):
            for column in numbers.keys() & others.keys():
                self._found.setdefault(column, (*numbers[column], f", next to {others[column]}"))
        new = {column: found for column, found in self._found.items() if column not in self._noted}
        self._noted.update(new)
        if new:
            paths = some_of([render_path(("features", column)) for column in new])
            cell, value, more = next(iter(new.values()))
            text = (
                f"{paths}: {cell} is read as the number {value:.15g}{more}; "
                'kind = "nominal" in [[attributes]] keeps what is written'
            )
            self._note(Message("digits-lost", text, columns=list(new), cell=cell))
