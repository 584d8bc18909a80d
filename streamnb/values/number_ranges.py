"""Numbers of any type: tests for missing values and ranges, and the nearest double."""

from __future__ import annotations

import math
import sys
from decimal import Decimal
from numbers import Rational, Real
from typing import Any

LARGEST_DOUBLE = sys.float_info.max
_SMALLEST = math.ulp(0.0)
_OF_PANDAS = {"NAType", "NaTType"}  # by name, because pandas may not be installed


def is_missing(value: Any) -> bool:
    """Return whether a value is None, missing by pandas, or a number that is not finite."""
    if type(value) is float:  # the common cases first: abstract base classes are slow to ask
        return not math.isfinite(value)
    if type(value) is str or type(value) is int or type(value) is bool:
        return False
    if value is None or type(value).__name__ in _OF_PANDAS:
        return True
    if isinstance(value, Decimal):  # not a Real; if beyond every double, treated as an integer is
        return not value.is_finite() or not _is_finite(value)
    return isinstance(value, Real) and not _is_finite(value)


def _is_finite(number: Any) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # a fraction, or an integer, beyond every double
        return True


def lies_between(least: float, number: Any, most: float) -> bool:
    """Return whether least <= number <= most; False for any NaN, also of a Decimal, whose comparison raises.

    Narrow floats of numpy are compared as doubles, because numpy warns if `most` is beyond their range. They
    are recognized without numpy, which reading a configuration must not import. Raises TypeError if the
    value cannot be compared with numbers.
    """
    is_as_given = isinstance(number, (int, float, Rational)) or not isinstance(number, Real)
    try:
        return bool(least <= (number if is_as_given else float(number)) <= most)
    except ArithmeticError:
        return False


def is_above_zero(number: Any) -> bool:
    """Return whether number > 0, infinite or not; False for a NaN. Raises TypeError as `lies_between`."""
    return lies_between(_SMALLEST, number, math.inf)


def nearest_double(number: Any, largest: float) -> float:
    """Return a number as a double; an integer or a fraction beyond every double becomes +-`largest`."""
    try:
        return float(number)
    except OverflowError:
        return largest if number > 0 else -largest
