"""Which rows of a table are the lightest, without an array of what all of them weigh where columns are few.

That would take as long to lay out as the table to go through. Weights are counted by size in place of it, and
where many sizes share a place, counted again within it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamnb.model.attributes.signatures import Codes, Flags
from streamnb.model.compiled.arrays import Ints
from streamnb.model.compiled.growable import ranking
from streamnb.model.compiled.jit import kernel
from streamnb.model.stats.row_sums import row_sum, row_sums

_COLUMNS = 16  # of more, an array of what rows weigh takes little beside the table
_ROWS = 1024  # of fewer, ranking takes less time than the places
_BITS = 14  # places are laid out and added up each time, however few rows there are
_PLACES = 1 << _BITS
_BEYOND = 63 - _BITS  # bits: of what is left of the largest sum, no more than the places tell apart


def drop_lightest(table: Ints, groups: Codes, stays: Flags, most: int) -> int:
    """Let at most so many rows of those stay that may: the heaviest, and of equals the last.

    Rows without a count go. Those of groups below zero stay, and do not count. What went weighs so much.

    Args:
        table: int64[rows, classes].
        groups: int32[>= rows].
        stays: bool[rows], which may stay; changed in place.
        most: at least 0.
    """
    if table.shape[1] > _COLUMNS:
        table = row_sums(table[: stays.size])[:, np.newaxis]
    if stays.size <= _ROWS:
        return _drop_ranked(row_sums(table[: stays.size]), groups[: stays.size] >= 0, stays, most)
    low, shift = 1, 0
    while True:
        found = np.zeros(_PLACES + 1, dtype=np.int64)  # and those beyond
        _count_sizes(table, groups, stays, low, shift, found)
        at_least = np.cumsum(found[::-1])[::-1]
        place = int(np.count_nonzero(at_least > most)) - 1  # the last of which not all may stay
        if place == _PLACES:
            low, shift = low + _PLACES, _BEYOND
        elif place < 0 or shift == 0:
            return int(_drop(table, groups, stays, low + place, at_least[place] - most if place >= 0 else 0))
        else:
            low, shift = low + (place << shift), max(0, shift - _BITS)


def _drop_ranked(weights: Ints, counts: Flags, stays: Flags, most: int) -> int:
    """As `drop_lightest`, of rows that weigh so much and may count."""
    ranked = np.flatnonzero(stays & counts)
    stays[ranked[ranking(weights[ranked])[most:]]] = False
    stays &= (weights > 0) | ~counts
    return int(weights[counts & ~stays].sum())


@kernel
def _count_sizes(table: Any, groups: Any, stays: Any, low: int, shift: int, found: Any) -> None:
    """How many rows that may stay weigh `low` and so many times two to the `shift` more."""
    for row in range(stays.size):
        if stays[row] and groups[row] >= 0:
            total = row_sum(table, row)
            if total >= low:
                found[min((total - low) >> shift, found.size - 1)] += 1


@kernel
def _drop(table: Any, groups: Any, stays: Any, least: int, equals: int) -> Any:
    """Let those below the `least` go, and the first so many of its equals; what all that go weigh."""
    lost = np.int64(0)
    for row in range(stays.size):
        if groups[row] >= 0:
            total = row_sum(table, row)
            if total == least and equals > 0 and stays[row]:
                equals -= 1
                stays[row] = False
            elif total < least or total == 0:
                stays[row] = False
            if not stays[row]:
                lost += total
    return lost
