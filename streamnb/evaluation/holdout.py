"""Learning one part of a file, and scoring the rest: how the rows are divided."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from streamnb.errors import ConfigError

Row = tuple[int, bytes]
"""A row's 0-based number in its file, and the raw event."""


def share_of(text: str) -> Fraction:
    """Return the share of rows to learn, from ``--holdout``. Raises ConfigError if it is invalid."""
    try:
        share = Fraction(text if "/" in text or 0 < float(text) < 1 else -1)  # 1e-999999999 takes for ever
    except (ValueError, ZeroDivisionError):
        share = Fraction(-1)
    if not 0 < share < 1:
        raise ConfigError(f"--holdout: expected a share between 0 and 1, such as 2/3, got {text!r}")
    return share


def divide(rows: Sequence[Row], share: Fraction) -> tuple[Sequence[Row], Sequence[Row]]:
    """Return the training rows and the test rows, both in order."""
    first = math.ceil(share * len(rows))
    return rows[:first], rows[first:]
