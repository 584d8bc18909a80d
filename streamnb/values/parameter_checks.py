"""Checks of constructor arguments, and how messages show their values."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from numbers import Integral
from typing import Any

_SHOWN = 200  # characters of a value in a message


def brief(value: str) -> str:
    """Return a value for a message: the first 200 characters, and its length if it is longer."""
    return value if len(value) <= _SHOWN else f"{value[:_SHOWN]}... ({len(value):,} characters)"


def cut(text: str, most: int) -> str:
    """Return the text, with an ellipsis in place of what exceeds `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def pluralize(n: int, what: str, plural: str = "") -> str:
    """Return a number with its noun, for a message; the plural is the noun with -s unless it is given."""
    return f"{n:,} {what if n == 1 else plural or f'{what}s'}"


def check_whole(name: str, number: Any, least: int, most: float = math.inf) -> None:
    """Raise ValueError unless the parameter is an integer from `least` to `most`, and not a boolean."""
    is_whole = isinstance(number, Integral) and not isinstance(number, bool)
    if not (is_whole and least <= number <= most):
        allowed = f"of {least} or more" if most == math.inf else f"from {least} to {most}"
        raise ValueError(f"{name} must be an integer {allowed}, not {brief(repr(number))}")


def check_amount(name: str, number: float) -> None:
    """Raise ValueError for a number that is negative, infinite or NaN."""
    if not 0.0 <= number <= sys.float_info.max:
        raise ValueError(f"{name} must be finite and not negative, not {number!r}")


def check_mapping(name: str, given: Any, example: str) -> None:
    """Raise ValueError unless the parameter is a mapping, or None."""
    if given is not None and not isinstance(given, Mapping):
        raise ValueError(f"{name} must be a mapping such as {example}, not {brief(repr(given))}")


def check_capacity(max_values: int, memory: int) -> None:
    """Raise ValueError for limits without meaning."""
    check_whole("max_values", max_values, 1, 1 << 20)
    check_whole("memory", memory, 0)


_LONGEST = 200  # characters of a name that is compared


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is nearest to `name`, ignoring case, or None if none is near."""
    spellings = {spelling.lower(): spelling for spelling in known}
    near = get_close_matches(name.lower(), spellings, n=1) if len(name) <= _LONGEST else []
    return spellings[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message about an unknown `name`: a suggestion, or "" if none is near."""
    near = nearest(name, known)
    if not near:
        return ""
    return f"; did you mean {near if near == near.strip() else repr(near)}?"
