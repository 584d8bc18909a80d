"""Weights and counts, in units of 1/1024 example."""

from __future__ import annotations

from streamnb.model.attributes.ranges import is_above_zero, lies_between

HEAVIEST = 2**20  # in units 2^30, so that a count times a weight still fits 64 bits
UNIT = 1024


def units(weight: float) -> int:
    """A weight in units of 1/1024 example.

    Raises ValueError where it is negative, nan or beyond 2^20, TypeError where it is no number.
    """
    try:
        fits = lies_between(0.0, weight, HEAVIEST)
    except TypeError:
        raise TypeError(f"a weight or count is a number, not {type(weight).__name__}") from None
    if not fits:
        raise ValueError(f"a weight or count must lie between 0 and 2^20, not {weight!r}")
    if getattr(weight, "shape", None) == ():  # numpy's small ones have no room for it
        weight = weight.item()  # type: ignore[attr-defined]
    return round(weight * UNIT)


def has_weight(weight: float) -> bool:
    """Whether a weight is above zero, however little. Raises as `units` for what is no weight."""
    units(weight)
    return is_above_zero(weight)
