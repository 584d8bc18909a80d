"""CSV -> a joint table: a column for each variable, and one with the probability of each combination."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction

from streamnb.errors import ConfigError
from streamnb.toolbox.bayesian_network.joint_table import JointTable
from streamnb.values.parameter_checks import did_you_mean

_NAMES = ("probability", "count")


def read_joint_table(
    lines: Iterable[str], *, column: str | None = None, delimiter: str = ",", normalise: bool = False
) -> JointTable:
    """Read a joint table from CSV, with a row for each combination of values; absent ones have probability 0.

    Args:
        lines: of the file, the header first.
        column: name of the column of probabilities; None is "probability" or "count", or else the last.
        delimiter: between cells, which are stripped.
        normalise: divide counts by their sum.

    Raises:
        ConfigError: if the file is invalid; the message names the row, from 1 below the header.
    """
    rows = [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=delimiter) if row]
    if len(rows) < 2:
        raise ConfigError("expected a header and a row for each combination of values")
    header, *body = rows
    at = _place(header, column)
    names = [name for i, name in enumerate(header) if i != at]
    values: dict[str, dict[str, None]] = {name: {} for name in names}
    found: dict[tuple[str, ...], float] = {}
    first: dict[tuple[str, ...], int] = {}
    for number, row in enumerate(body, start=1):
        if len(row) != len(header):
            raise ConfigError(f"row {number}: expected {len(header)} cells, found {len(row)}")
        key = tuple(cell for i, cell in enumerate(row) if i != at)
        if key in found:
            raise ConfigError(f"row {number}: the same combination as in row {first[key]}: {', '.join(key)}")
        for name, value in zip(names, key, strict=True):
            values[name].setdefault(value)
        found[key], first[key] = _number(number, header[at], row[at]), number
    made = JointTable.from_counts if normalise else JointTable
    try:
        return made({name: list(there) for name, there in values.items()}, found)
    except ValueError as error:
        hint = "; counts are divided by their sum with --counts"
        raise ConfigError(str(error).replace("; for counts use from_counts", hint)) from error


def _place(header: Sequence[str], column: str | None) -> int:
    for name, n in Counter(header).items():
        if n > 1 or not name:
            raise ConfigError(f"header: expected a name for each column, none of them twice, found {name!r}")
    if len(header) < 2:
        raise ConfigError("header: expected a column for each variable, and one of probabilities")
    if column is not None:
        if column not in header:
            known = f"there are {', '.join(header)}{did_you_mean(column, header)}"
            raise ConfigError(f"header: no column {column!r}; {known}")
        return header.index(column)
    lowered = [name.lower() for name in header]
    return next((lowered.index(name) for name in _NAMES if name in lowered), len(header) - 1)


def _number(row: int, column: str, cell: str) -> float:
    try:
        number = float(Fraction(cell) if "/" in cell else cell)
    except (ValueError, ZeroDivisionError, OverflowError):
        number = math.nan
    if not 0.0 <= number < math.inf:
        raise ConfigError(
            f"row {row}: {column} is {cell!r}; expected a number of 0 or more, such as .25 or 1/4"
        )
    return number
