"""Inference of attributes from the fields of events: their frequency, types and values."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn

MOST_VALUES = 1000  # distinct values kept for one field
ENOUGH = 20  # events from which a conclusion about distinct values or missing fields is drawn
A_DATE = "(a date or time)"
"""The kind of a field that is a date or time."""
RISING = "(whole numbers that only rise, as ids do)"
"""The kind of a field whose values may be ids."""

Keys = tuple[str, ...]
"""The path of names that leads to a field."""

_FEW_NUMBERS = 10
_EXACT = 2**53
_FIRST_STRINGS = 20
_DEEPEST = 8
MOST_FIELDS = 1000  # distinct paths

_NEAR = 2  # keys
_LONG = 100  # characters of a value that is kept
_WORDS = 5  # mean words of a value, if there are few values, from which they are texts
_DATE = re.compile(
    r"""(?:[^\W\d_]{2,9}[.,]*\ )?  # the day of the week
    (?: \d{4}-?\d\d-?\d\d(?=T)
      | \d{4}([-/.])\d\d?\1\d\d?
      | \d\d?([-/.])\d\d?\2\d{4}
      | \d\d?/\d\d?/\d\d | \d\d\.\d\d\.\d\d
      | \d\d?(?:st|nd|rd|th|\.)?[-\ ](?:of\ )?[^\W\d_]{3,9}[.,]?[-\ ]\d{4} | \d\d?-[^\W\d_]{3}-\d\d
      | (?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?\ \d\d?(?:st|nd|rd|th)?,?\ \d{4}
    )
    (?: [T,\ ]\ ?\d\d?[:.]?\d\d [\d:.,+\-\ ]* (?:[a-z.]{1,5}\ ?){0,2} [\d:+\-]* )?\ *""",
    re.IGNORECASE | re.VERBOSE,
)


def is_date(text: str) -> bool:
    """Return whether a text is a date or time in a common form."""
    return _DATE.fullmatch(text) is not None


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_decode = partial(json.loads, parse_constant=_refuse)


@dataclass
class FieldSummary:
    """Counts of the values at one path: number, types, words, and some of the values.

    Attributes:
        strings: number of strings.
        decided: the kind, if another source has decided it; see `kind`.
        declared: the values of a nominal field that the file declares.
        rises: whether each value is an integer above the previous one.
        values: the first distinct values and their frequencies; a long string is kept as its hash.
    """

    n: int = 0
    words: int = 0
    strings: int = 0
    rises: bool = True
    decided: str = ""
    declared: tuple[str, ...] = ()
    types: set[type] = field(default_factory=set)
    values: dict[Any, int] = field(default_factory=dict)
    _last: float = -math.inf

    def add(self, value: Any) -> None:
        """Count one value."""
        self.n += 1
        self.types.add(type(value))
        self.rises = self.rises and type(value) is int and value > self._last
        if self.rises:
            self._last = value
        if isinstance(value, str):
            self.strings += 1
            self.words += len(value.split())
            value = value if len(value) <= _LONG else (hash(value),)
        if isinstance(value, list):
            return
        is_kept = len(self.values) < MOST_VALUES or value in self.values
        # A string among many numbers may be a marker of a missing number.
        is_kept = is_kept or (isinstance(value, str) and self.strings <= _FIRST_STRINGS)
        if is_kept:
            self.values[value] = self.values.get(value, 0) + 1

    @property
    def differ(self) -> bool:
        """True if nearly every event has another value."""
        return self.n >= ENOUGH and len(self.values) > min(self.n, MOST_VALUES) / 2

    @property
    def fractions(self) -> int:
        """Number of the kept values that are numbers with a fraction."""
        return sum(n for value, n in self.values.items() if type(value) is float)

    @property
    def is_consecutive(self) -> bool:
        """True if each value is an integer, and one above the previous value."""
        return self.rises and len(self.values) == max(self.values) - min(self.values) + 1

    def is_text(self, *, is_all: bool) -> bool:
        """Return whether the values look like texts; with few values, only if `is_all` of them are known."""
        if self.n >= ENOUGH:
            return self.differ and self.kind == "text"
        is_wordy = self.strings == self.n and self.words >= _WORDS * self.n
        return is_all and is_wordy and len(self.values) == self.n

    @property
    def kind(self) -> str:
        """The kind of attribute, or, in parentheses, why it is none."""
        if self.decided or list in self.types:
            return self.decided or "(a list)"
        if self.n >= ENOUGH and (self.rises or len(self.values) == 1):
            return RISING if self.rises else "(always the same)"
        if all(isinstance(value, str) and is_date(value) for value in self.values):
            return A_DATE
        if self.types <= {int, float}:
            return self._kind_of_numbers
        if str in self.types and self.words >= (1.5 if self.differ else 3) * self.n:
            return "text"
        numbers = self.types & {int, float} and self.strings < self.n / 2
        mixed = f"a number in most events, and a string in {self.strings:,}"
        odd = mixed if numbers else "nearly every event has another value"
        return f"({odd})" if self.differ else "nominal"

    @property
    def _kind_of_numbers(self) -> str:
        if self.types == {int} and any(abs(value) > _EXACT for value in self.values):
            ids = "whole numbers beyond 2^53, of which nearly every event has another, as ids are"
            return f"({ids})" if self.differ else "nominal"  # continuous ones would be rounded
        few = self.types == {int} and len(self.values) <= _FEW_NUMBERS and self.n >= ENOUGH
        return "nominal" if few else "continuous"


def look(raw: bytes, seen: dict[Keys, FieldSummary], names: Container[str] = ()) -> bool:
    """Count the fields of an event, and return whether it is a JSON object.

    Args:
        raw: the event.
        seen: path -> summary so far, at most a thousand.
        names: last keys, in lower case, of paths near the root of which up to a thousand more are counted.
    """
    try:
        event = _decode(raw)
    except (ValueError, RecursionError):
        return False
    if not isinstance(event, dict):
        return False
    for path, value in _leaves(event, ()):
        is_named = len(path) <= _NEAR and path[-1].lower() in names
        if path in seen or len(seen) < MOST_FIELDS * (1 + is_named):
            seen.setdefault(path, FieldSummary()).add(value)
    return True


def _leaves(value: Mapping[str, Any], above: Keys) -> Iterator[tuple[Keys, Any]]:
    for name, inner in value.items():
        if isinstance(inner, dict) and len(above) < _DEEPEST:
            yield from _leaves(inner, (*above, name))
        elif inner is not None and not isinstance(inner, dict):
            yield (*above, name), inner
