"""Sums that lose nothing to rounding: Neumaier's compensated summation."""

from __future__ import annotations

import math
from typing import Any

from streamnb.model.compiled.jit import inlined


@inlined
def add(sums: Any, row: int, term: float) -> None:
    """Add `term` to sums[row]: what the sum (first column) loses to rounding goes to the second column.

    An infinite sum stays infinite, with nothing to compensate. Reference: Neumaier (1974), ZAMM 54(1).
    """
    old = sums[row, 0]
    new = old + term
    sums[row, 0] = new
    if math.isinf(new):
        sums[row, 1] = 0.0
    elif abs(old) >= abs(term):
        sums[row, 1] += (old - new) + term
    else:
        sums[row, 1] += (term - new) + old
