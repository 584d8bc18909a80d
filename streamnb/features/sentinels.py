"""Numbers that mark missing values, such as -999, in a column of numbers.

A sentinel is a number that people and programs write for a missing value, that occurs often, and that is far
from all other numbers of its column.
"""

from __future__ import annotations

import re
import shlex

from streamnb.features.schema_inference import FieldSummary
from streamnb.values.number_ranges import LARGEST_DOUBLE
from streamnb.values.parameter_checks import pluralize

_LEAST, _SHARE = 3, 0.01  # events, and their share, that a sentinel has
_FEWEST = 5  # distinct other numbers
_REPEATED = re.compile(r"([1-9])\1+")  # 99, -999, 8888
_LIMITS = frozenset(
    {32767, 65535, 2**31 - 1, 2**32 - 1, 2**15, 2**31}
)  # limits of integers, without the sign
_HUGE = 1e20


def sentinel_remedy(seen: FieldSummary, *, has_cells: bool) -> str:
    """Return the sentinels of a column and how to remove them, for a message; empty if it has none.

    Args:
        seen: the column.
        has_cells: whether options of text files describe its cells.
    """
    found = sentinels_of(seen)
    if not found:
        return ""
    count, names = sum(found.values()), ",".join(f"{value:.15g}" for value in found)
    remedy = f"--missing={shlex.quote(names)} takes them as missing" if has_cells else "leave these out"
    what = f"{pluralize(count, 'number')} far from all others, {names}"
    return f"{what}, as is written for a missing value: {remedy}"


def sentinels_of(seen: FieldSummary) -> dict[float, int]:
    """Return the numbers of a column that probably mark missing values, the most frequent first.

    Each has its number of occurrences. Infinity and NaN are missing values already.
    """
    if str in seen.types and 2 * seen.strings > seen.n:
        return {}
    numbers = {
        float(value): n
        for value, n in seen.values.items()
        if type(value) in {int, float} and abs(value) <= LARGEST_DOUBLE
    }
    others = [value for value in numbers if not _may_be_sentinel(value)]
    if len(others) < _FEWEST:
        return {}
    least, most = min(others), max(others)
    room = max(most - least, abs(least), abs(most))
    found = [
        (value, n)
        for value, n in numbers.items()
        if _may_be_sentinel(value)
        and n >= max(_LEAST, _SHARE * seen.n)
        and (value > most + room or value < least - room)
    ]
    return dict(sorted(found, key=lambda one: -one[1]))


def _may_be_sentinel(value: float) -> bool:
    size = abs(value)
    if size >= _HUGE:
        return True
    if size != int(size):
        return False
    return int(size) in _LIMITS or _REPEATED.fullmatch(str(int(size))) is not None
