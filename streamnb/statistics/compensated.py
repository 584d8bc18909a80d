"""Neumaier's compensated summation, which keeps what rounding would lose."""

from __future__ import annotations

import math
from typing import Any

from streamnb.kernels.jit import inlined


@inlined
def added(sums: Any, term: float) -> Any:
    """Return a sum and its compensation after one more finite term."""
    old, lost = sums
    new = old + term
    lost += (old - new) + term if abs(old) >= abs(term) else (term - new) + old
    return new, lost


@inlined
def add(sums: Any, row: int, term: float) -> None:
    """Add `term` to sums[row]: what the sum (first column) loses to rounding goes to the second column.

    An infinite sum stays infinite, with nothing to compensate. Reference: Neumaier (1974), ZAMM 54(1).
    """
    new, lost = added((sums[row, 0], sums[row, 1]), term)
    sums[row, 0], sums[row, 1] = new, 0.0 if math.isinf(new) else lost
