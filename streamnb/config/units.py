"""Quantities as people write them: durations such as "30s" and sizes such as "512MiB".

Arithmetic is decimal, so that "0.1s" and "100ms" are the same double.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal

__all__ = ["BYTES", "SECONDS", "format_duration", "format_size", "parse_duration", "parse_size"]

SECONDS = {"d": Decimal(86400), "h": Decimal(3600), "m": Decimal(60), "s": Decimal(1), "ms": Decimal("0.001")}
"""Unit of time -> seconds, the longest first."""

BYTES = {
    "TiB": 1 << 40,
    "TB": 10**12,
    "GiB": 1 << 30,
    "GB": 10**9,
    "MiB": 1 << 20,
    "MB": 10**6,
    "KiB": 1 << 10,
    "KB": 10**3,
    "B": 1,
}
"""Unit of size -> bytes, the largest first; KB is 1000 bytes and KiB is 1024."""

_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,3})?)([A-Za-z]+)")


def parse_duration(text: str) -> float | None:
    """Seconds in `text`, such as 30.0 for "30s"; "0" needs no unit. None where it is no finite duration."""
    if text == "0":
        return 0.0
    quantity = _QUANTITY.fullmatch(text)
    if quantity is None or quantity[2] not in SECONDS:
        return None
    seconds = float(Decimal(quantity[1]) * SECONDS[quantity[2]])
    return seconds if math.isfinite(seconds) else None


def format_duration(seconds: float) -> str:
    """In the longest unit that leaves a whole number, else in seconds.

    ``parse_duration(format_duration(s)) == s`` for every finite s >= 0.
    """
    if seconds == 0:
        return "0s"
    for unit, length in SECONDS.items():
        amount = Decimal(repr(seconds)) / length
        if amount < 10**15 and amount == amount.to_integral_value():  # exact: decimals hold 28 digits
            return f"{amount:.0f}{unit}"
    return f"{seconds!r}s"


def parse_size(text: str) -> int | None:
    """Bytes in `text`, such as 65536 for "64KiB"; "0" needs no unit. None where they are not whole."""
    if text == "0":
        return 0
    quantity = _QUANTITY.fullmatch(text)
    if quantity is None or quantity[2] not in BYTES:
        return None
    size = Decimal(quantity[1]) * BYTES[quantity[2]]
    return int(size) if size == size.to_integral_value() and size < 1 << 63 else None


def format_size(size: int) -> str:
    """`size` bytes in the largest unit that leaves a whole number; `parse_size` reads it back."""
    unit = next(unit for unit, length in BYTES.items() if size % length == 0) if size else "B"
    return f"{size // BYTES[unit]}{unit}"
