"""Profile of the columns of a file: kinds, missing and odd values, and ranges, in a sample of its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean, median
from typing import Any, NamedTuple

from streamnb.charts import number, percent
from streamnb.features.attributes import TEXT
from streamnb.formats.event_schema import EventSchema
from streamnb.values.parameter_checks import cut, pluralize

_LONGEST = 40  # characters of a value


class ColumnProfile(NamedTuple):
    """Values of a column, as the learner reads them.

    Attributes:
        name: of the column.
        kind: text, name or number.
        missing: share of the rows without a value.
        distinct: number of distinct values.
        summary: range, most frequent value, or length.
        odd: values of another kind, with an example; empty without any.
    """

    name: str
    kind: str
    missing: float
    distinct: int
    summary: str
    odd: str


def profile(rows: Sequence[dict[str, Any]], schema: EventSchema) -> list[ColumnProfile]:
    """Return the profile of each column, in the order of its first value.

    Args:
        rows: attributes of events, as decoded: a missing value is absent.
        schema: how they were read.
    """
    texts = {place.name for place in schema.places if place.kind == "text"} or {TEXT}
    values: dict[str, list[Any]] = {}
    for x in rows:
        for name, value in x.items():
            values.setdefault(str(name), []).append(value)
    return [_of_column(name, found, len(rows), is_text=name in texts) for name, found in values.items()]


def _of_column(name: str, values: Sequence[Any], n_rows: int, *, is_text: bool) -> ColumnProfile:
    numbers = [value for value in values if isinstance(value, float)]
    others = [str(value) for value in values if not isinstance(value, float)]
    is_number = 2 * len(numbers) > len(values)
    odd = others if is_number else [number(value) for value in numbers]
    such_as = f"{pluralize(len(odd), 'value')}, such as {cut(odd[0], _LONGEST)}" if odd else ""
    kind = "number" if is_number else "text" if is_text else "name"
    missing = 1.0 - len(values) / n_rows
    summary = _range(numbers) if is_number else _length(others) if is_text else _most_frequent(others)
    return ColumnProfile(name, kind, missing, len(set(values)), summary, such_as)


def _range(numbers: Sequence[float]) -> str:
    if min(numbers) == max(numbers):
        return f"always {number(numbers[0])}"
    return f"{number(min(numbers))} to {number(max(numbers))}, median {number(median(numbers))}"


def _most_frequent(values: Sequence[str]) -> str:
    ((value, n),) = Counter(values).most_common(1)
    return f"{cut(value, _LONGEST)}: {percent(n / len(values))}"


def _length(texts: Sequence[str]) -> str:
    words = [len(text.split()) for text in texts]
    if min(words) == max(words):
        return f"always {pluralize(words[0], 'word')}"
    return f"{min(words):,} to {pluralize(max(words), 'word')}, {fmean(words):.0f} on average"
