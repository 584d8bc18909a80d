"""Sums of table rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamnb.kernels.array_types import Ints
from streamnb.kernels.jit import inlined, kernel


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
