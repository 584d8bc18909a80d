"""Events as rows of a design matrix: one column for each number, and for each value of a string.

    {"height": 1.8, "colour": "red"}  ->  columns "height": 1.8 and ("colour", "red"): 1

Columns are added when attributes and values first appear. A number (a boolean is 0 or 1) has one column, a
string has one for each of its values. Missing values (absent, None, NaN, infinite) are read as 0, so they add
nothing to a weighted sum. An attribute is also 0 in all events before its first appearance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from streamnb.errors import SnapshotError
from streamnb.kernels.array_types import Floats, Ints
from streamnb.values.nominal_values import LARGEST, as_event, value_text
from streamnb.values.number_ranges import nearest_double
from streamnb.values.state_validation import plain_attribute

_PLAIN = (str, bool, int, float, type(None))
"""Types that a saved name or label may have."""
Row = tuple[Ints, Floats]
"""The columns of an event and their values: no column occurs twice, and only column 0 may be 0."""


class Design:
    """Columns in the order of their appearance, after column 0, which belongs to the model.

    Args:
        limit: maximum number of columns without column 0; later ones are ignored.
    """

    def __init__(self, limit: int) -> None:
        self._numbers: dict[Any, int] = {}
        self._values: dict[tuple[Any, str], int] = {}
        self._limit = limit

    def __len__(self) -> int:
        """Return the number of columns, column 0 included."""
        return 1 + len(self._numbers) + len(self._values)

    @property
    def columns(self) -> list[Any]:
        """Names of the columns without column 0: a number's name, or (name, value) of a nominal attribute."""
        return [key for key, _ in self._ordered()]

    def row(self, x: Mapping[Any, Any], first: float = 1.0, *, adds: bool) -> Row:
        """Return the event as a row with `first` in column 0; new columns are added if `adds`.

        Values are clipped to +-1e140, whose squares still sum within a double. Raises TypeError for a value
        that is not a number, boolean, string or None, and ValueError for half a surrogate pair; then no
        column is added.
        """
        found = {0: first}
        fresh: list[tuple[dict[Any, int], Any, float]] = []
        columns: dict[Any, int]
        for name, value in as_event(x).items():
            if type(value) is float and -LARGEST <= value <= LARGEST:  # the common case first
                columns, key, number = self._numbers, name, value
            elif isinstance(value, str):
                columns, key, number = self._values, (name, value_text(value)), 1.0
            else:
                columns, key, number = self._numbers, name, real(name, value)
            if number != 0.0:
                column = columns.get(key)
                if column is not None:
                    found[column] = number
                elif adds:
                    fresh.append((columns, key, number))
        for columns, key, number in fresh[: 1 + self._limit - len(self)] if fresh else ():
            column = columns[key] = len(self)
            found[column] = number
        return np.array(list(found)), np.array(list(found.values()))

    def unknown(self, x: Mapping[Any, Any]) -> list[Any]:
        """Return the attributes of an event that have no column and are neither missing nor 0."""
        return [
            name
            for name, value in x.items()
            if (
                (name, value) not in self._values
                if isinstance(value, str)
                else name not in self._numbers and real(name, value) != 0.0
            )
        ]

    def dense(self, row: Row) -> Floats:
        """Return a row as a dense vector with a value for every column."""
        vector = np.zeros(len(self))
        vector[row[0]] = row[1]
        return vector

    def named(self, values: Floats) -> dict[Any, float]:
        """Return the values of a vector by column name, without column 0."""
        return dict(zip(self.columns, values[1:].tolist(), strict=True))

    def described(self) -> list[list[Any]]:
        """Return the columns, [name] or [name, value]. Raises TypeError for names not in JSON."""
        return [
            [plain_attribute(key[0]), str(key[1])] if nominal else [plain_attribute(key)]
            for key, nominal in self._ordered()
        ]

    @classmethod
    def from_description(cls, columns: Any, limit: int) -> Design:
        """Restore a design from its description. Raises SnapshotError if it is invalid."""
        if not isinstance(columns, list) or not all(map(_is_column, columns)):
            raise SnapshotError(f"expected a list of columns, [name] or [name, value], found {columns!r}")
        if len(columns) > limit:
            raise SnapshotError(f"{len(columns)} columns, but only {limit} are allowed")
        design = cls(limit)
        for index, column in enumerate(columns, start=1):
            if len(column) == 1:
                design._numbers[column[0]] = index
            else:
                design._values[column[0], column[1]] = index
        if len(design) <= len(columns):
            raise SnapshotError("a column occurs twice")
        return design

    def _ordered(self) -> list[tuple[Any, bool]]:
        places = [(place, key, False) for key, place in self._numbers.items()]
        places += [(place, key, True) for key, place in self._values.items()]
        return [(key, nominal) for _, key, nominal in sorted(places, key=lambda column: column[0])]


def _is_column(column: Any) -> bool:
    if not isinstance(column, list) or len(column) not in {1, 2}:
        return False
    return isinstance(column[0], _PLAIN) and all(isinstance(value, str) for value in column[1:])


def real(name: Any, value: Any) -> float:
    """Return a number clipped to +-1e140, or 0 if it is missing or not finite. Raises TypeError."""
    if type(value) is not float:
        if value is None:
            return 0.0
        if isinstance(value, Decimal):  # float() raises for a signalling NaN
            value = float(value) if value.is_finite() else math.nan
        if not isinstance(value, (Real, np.bool_)):
            kind = type(value).__name__
            expected = (
                "a number" if isinstance(value, str) else "a number or a string"
            )  # strings: targets only
            raise TypeError(f"attribute {name!r}: expected {expected}, got {kind}")
        value = nearest_double(value, LARGEST)
    number: float = value
    if not math.isfinite(number):
        return 0.0
    return min(max(number, -LARGEST), LARGEST)


def is_no_target(y: Any) -> bool:
    """Return True if a number to be learned is missing: None, NaN or infinite."""
    return y is None or (isinstance(y, (float, np.floating)) and not math.isfinite(y))
