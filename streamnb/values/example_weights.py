"""Weights and counts, in units of 1/1024 example; none above zero is less than one unit."""

from __future__ import annotations

from streamnb.errors import SmallWeightWarning
from streamnb.values.messages import Message, warn_user
from streamnb.values.number_ranges import lies_between

HEAVIEST = 2**20  # in units 2^30, so that a count times a weight still fits 64 bits
UNIT = 1024


def units(weight: float) -> int:
    """Return a weight in units of 1/1024 example: rounded, but at least 1 if it is above zero.

    Warns (`SmallWeightWarning`) for a weight above zero and below a unit, which counts as a whole unit.
    Raises ValueError if it is negative, NaN or beyond 2^20, and TypeError if it is not a number.
    """
    try:
        fits = lies_between(0.0, weight, HEAVIEST)
    except TypeError:
        raise TypeError(f"a weight or count is a number, not {type(weight).__name__}") from None
    if not fits:
        raise ValueError(f"a weight or count must lie between 0 and 2^20, not {weight!r}")
    if getattr(weight, "shape", None) == ():  # numpy's narrow types would overflow
        weight = weight.item()  # type: ignore[attr-defined]
    found = weight * UNIT
    if found >= 1.0 or not found:
        return round(found)
    warn_of_small_weight()
    return 1


def has_weight(weight: float) -> bool:
    """Return whether a weight is above zero, however little. Raises as `units`."""
    return units(weight) > 0


def is_below_unit(weight: float) -> bool:
    """Return whether a weight is above zero and below a unit, so that it counts more than its value."""
    return 0.0 < weight < 1.0 / UNIT


def warn_of_small_weight() -> None:
    """Warn the caller of the package that a weight below a unit counts as a whole unit."""
    text = (
        "a weight or count above 0 and below 1/1024 counts 1/1024, the least there is: multiply all weights, "
        "and alpha or m, by one number that makes the least weight 1/1024 or more"
    )
    warn_user(Message("weight-below-unit", text), SmallWeightWarning)
