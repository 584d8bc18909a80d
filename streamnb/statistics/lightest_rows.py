"""Select the lightest rows of a table without an array of all row weights, if columns are few.

Such an array would take as long to fill as the table takes to read. Instead, weights are counted by size, and
where many sizes share a bin, counted again within it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamnb.kernels.array_types import Ints
from streamnb.kernels.growable_arrays import ranking
from streamnb.kernels.jit import inlined, kernel
from streamnb.values.type_aliases import Codes, Flags

_COLUMNS = 16  # with more columns, an array of row weights is small next to the table
_ROWS = 1024  # with fewer rows, ranking is faster than the bins
_BITS = 14  # places are laid out and added up each time, however few rows there are
_PLACES = 1 << _BITS
_BEYOND = 63 - _BITS  # bits: of the rest of the largest sum, no more than the bins can separate


@inlined
def row_sum(table: Any, row: Any) -> Any:
    """Return the sum of one row."""
    total = np.int64(0)
    for k in range(table.shape[1]):
        total += table[row, k]
    return total


def row_sums(table: Ints) -> Ints:
    """Return the sum of each row. Numpy's own is made for long rows."""
    sums = np.empty(len(table), dtype=np.int64)
    _fill_sums(table, sums)
    return sums


@kernel
def _fill_sums(table: Any, sums: Ints) -> None:
    for row in range(table.shape[0]):
        sums[row] = row_sum(table, row)


def drop_lightest(table: Ints, groups: Codes, stays: Flags, most: int) -> int:
    """Keep at most `most` of the rows that may stay: the heaviest, and of equal ones the last.

    Rows without a count are dropped. Rows with a negative group stay, and do not count. Return the weight of
    the dropped rows.

    Args:
        table: int64[rows, classes].
        groups: int32[>= rows].
        stays: bool[rows], which rows may stay; changed in place.
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
    ranked = np.flatnonzero(stays & counts)
    stays[ranked[ranking(weights[ranked])[most:]]] = False
    stays &= (weights > 0) | ~counts
    return int(weights[counts & ~stays].sum())


@kernel
def _count_sizes(table: Any, groups: Any, stays: Any, low: int, shift: int, found: Any) -> None:
    for row in range(stays.size):
        if stays[row] and groups[row] >= 0:
            total = row_sum(table, row)
            if total >= low:
                found[min((total - low) >> shift, found.size - 1)] += 1


@kernel
def _drop(table: Any, groups: Any, stays: Any, least: int, equals: int) -> Any:
    """Drop the rows below `least`, and the first `equals` equal to it; return the dropped weight."""
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
