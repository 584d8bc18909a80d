"""Numbers that stand for a missing one, such as -999, in a column of numbers.

A sentinel is a number that people and programs write for a missing one, is repeated often, and is far from
all other numbers of its column.
"""

from __future__ import annotations

import re

from streamnb.features.schema_inference import FieldSummary

_LEAST, _SHARE = 3, 0.01  # events, and their share, that a sentinel has
_FEWEST = 5  # distinct other numbers
_REPEATED = re.compile(r"([1-9])\1+")  # 99, -999, 8888
_LIMITS = frozenset({32767, 65535, 2**31 - 1, 2**32 - 1, 2**15, 2**31})  # of integers, without the sign
_HUGE = 1e20


def sentinels_of(seen: FieldSummary) -> list[float]:
    """Return the numbers of a column that probably stand for missing ones, the most frequent first."""
    if str in seen.types and 2 * seen.strings > seen.n:
        return []
    numbers = {value: n for value, n in seen.values.items() if type(value) in {int, float}}
    candidates = [value for value in numbers if _may_be_sentinel(value)]
    others = [value for value in numbers if not _may_be_sentinel(value)]
    if len(others) < _FEWEST:
        return []
    least, most = min(others), max(others)
    room = max(most - least, abs(least), abs(most))
    found = [
        value
        for value in candidates
        if numbers[value] >= max(_LEAST, _SHARE * seen.n) and (value > most + room or value < least - room)
    ]
    return sorted(found, key=lambda value: -numbers[value])


def _may_be_sentinel(value: float) -> bool:
    size = abs(value)
    if size >= _HUGE:
        return True
    if size != int(size):
        return False
    return int(size) in _LIMITS or _REPEATED.fullmatch(str(int(size))) is not None
