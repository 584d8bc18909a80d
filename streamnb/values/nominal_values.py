"""Comparison of nominal values and of labels, and the range of numbers."""

from __future__ import annotations

import numbers
import unicodedata
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


ALIKE = "labels that differ only by case, blanks or Unicode form are classes of their own"
INVISIBLE = "a label needs a character that can be seen"


def folded(label: str) -> str:
    r"""Return the common form of labels that differ only by case, blanks or Unicode form.

    Examples:
        >>> folded(" Not  Spam"), folded("\u00e9") == folded("e\u0301")
        ('not spam', True)
    """
    if label.isascii() and label.isalnum():
        return label.lower()
    seen = "".join(char for char in label if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFKC", " ".join(seen.casefold().split()))


def is_visible(label: str) -> bool:
    """Return whether a label has a character other than blanks and invisible format characters."""
    return any(not char.isspace() and unicodedata.category(char) != "Cf" for char in label)
