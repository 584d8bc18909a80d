"""Numbers of any type: whether one says anything, or lies where it should, and the double that is nearest."""

from __future__ import annotations

import math
import sys
from decimal import Decimal
from numbers import Rational, Real
from typing import Any

LARGEST_DOUBLE = sys.float_info.max
_SMALLEST = math.ulp(0.0)
_OF_PANDAS = {"NAType", "NaTType"}  # which need not be installed


def is_missing(value: Any) -> bool:
    """None, what pandas calls missing, and numbers that are not finite say nothing about an event."""
    if type(value) is float:  # the common cases first: abstract base classes are slow to ask
        return not math.isfinite(value)
    if type(value) is str or type(value) is int or type(value) is bool:
        return False
    if value is None or type(value).__name__ in _OF_PANDAS:
        return True
    if isinstance(value, Decimal):  # which is no Real; one beyond every double is missing as an integer is
        return not value.is_finite() or not _is_finite(value)
    return isinstance(value, Real) and not _is_finite(value)


def _is_finite(number: Any) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # a fraction, or an integer, beyond every double
        return True


def lies_between(least: float, number: Any, most: float) -> bool:
    """Whether least <= number <= most. A NaN does not, nor does one of a Decimal, which would raise.

    Numpy's narrower floats are compared as doubles: it would warn where `most` is beyond them. They are told
    without numpy, which reading a configuration must not load. Raises TypeError for what compares with no
    number.
    """
    is_as_given = isinstance(number, (int, float, Rational)) or not isinstance(number, Real)
    try:
        return bool(least <= (number if is_as_given else float(number)) <= most)
    except ArithmeticError:
        return False


def is_above_zero(number: Any) -> bool:
    """Whether number > 0, infinite or not; a NaN is not. Raises TypeError as `lies_between`."""
    return lies_between(_SMALLEST, number, math.inf)


def nearest_double(number: Any, largest: float) -> float:
    """A number as a double; `largest`, or less that, for an integer or a fraction beyond all of them."""
    try:
        return float(number)
    except OverflowError:
        return largest if number > 0 else -largest
