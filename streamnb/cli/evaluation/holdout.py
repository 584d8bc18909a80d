"""Learning one part of a file, and scoring the rest: how the rows are divided."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import msgspec

from streamnb.errors import ConfigError

Row = tuple[int, bytes]
"""A row's 0-based number in its file, and the raw event."""


def share_of(text: str) -> Fraction | None:
    """The share of rows that ``--holdout`` says to learn; None where each row says it (``split``).

    Raises:
        ConfigError: it is neither.
    """
    if text == "split":
        return None
    try:
        share = Fraction(text)
    except (ValueError, ZeroDivisionError):
        share = Fraction(-1)
    if not 0 < share < 1:
        raise ConfigError(
            f"--holdout: expected `split` or a share between 0 and 1, such as 2/3, got {text!r}"
        )
    return share


def divide(rows: Sequence[Row], share: Fraction | None) -> tuple[list[Row], list[Row]]:
    """Training rows, then test rows, both in order.

    A row that is no JSON object can say nothing: it goes with the test rows, and becomes a dead letter there.

    Raises:
        ConfigError: by `split`, an object says neither train nor test, or no row says one of the two.
    """
    if share is not None:
        first = math.ceil(share * len(rows))
        return list(rows[:first]), list(rows[first:])
    said = [_split(number, raw) for number, raw in rows]
    for part in ("train", "test"):
        if part not in said:
            raise ConfigError(f"--holdout split: no row has a `split` that says {part}")
    train = [row for row, part in zip(rows, said, strict=True) if part == "train"]
    test = [row for row, part in zip(rows, said, strict=True) if part != "train"]
    return train, test


def _split(number: int, raw: bytes) -> str | None:
    """What the row says, at its top or (as rows of CSV do) among the features; None where it is no object."""
    try:
        row = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(row, dict):
        return None
    features = row.get("features")
    said = row.get("split", features.get("split") if isinstance(features, dict) else None)
    if said not in ("train", "test"):
        raise ConfigError(f"--holdout split: row {number} has a `split` that says neither train nor test")
    return str(said)
