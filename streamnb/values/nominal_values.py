"""Values of attributes: comparison of nominal values, and the range of numbers."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np

from streamnb.values.number_ranges import is_missing
from streamnb.values.parameter_checks import brief

LARGEST = 1e140
"""Continuous values beyond +-LARGEST are read as +-LARGEST, whose squares still sum within a double."""


def value_text(value: Any) -> str:
    """Return the text that compares nominal values: 3, 3.0 and Decimal("3.00") are "3", True is "true".

    Raises TypeError for anything but strings, booleans and numbers, and ValueError for half a surrogate pair,
    which no UTF-8 holds, and for a fraction beyond every double.
    """
    if isinstance(value, str):
        if not value.isascii():
            value.encode()
        return value if type(value) is str else str.__str__(value)
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, (numbers.Real, Decimal)):
        try:
            number = float(value)
        except OverflowError as error:
            raise ValueError("no finite double holds this number") from error
        return str(int(number)) if number.is_integer() else repr(number)
    raise TypeError(f"expected a string, a boolean or a number, got {type(value).__name__}")


def as_event(x: Any) -> Any:
    """Return the event. Raise TypeError if it is not a mapping of attributes."""
    if not hasattr(x, "items"):
        example = f"{{'text': {brief(repr(x))}}}" if isinstance(x, str) else "{'text': ...}"
        raise TypeError(f"an event is a mapping of attributes, such as {example}, not {type(x).__name__}")
    return x


def declared_texts(values: Iterable[Any]) -> list[str]:
    """Return the texts of declared values. Raises as `value_text`, and ValueError for a NaN."""
    texts = []
    for value in values:
        texts.append(value_text(value))
        if is_missing(value):
            raise ValueError(f"a value must be a string, a boolean or a finite number, not {value!r}")
    return texts
