"""Warnings about columns of a file that make its scores worthless, or that teach nothing.

A sample of the rows is kept while they pass, evenly spaced over the whole file, and checked at the end:

    leak          one column decides the label: each value has one label, or thresholds part the classes
    row number    the value is the number of the row, plus a constant
    duplicate     two columns are equal in each row
    constant      one value in each row; 0, 1, "no" and "yes" are not named: rare flags and counts look so

A column of values that never repeat, such as ids, decides nothing by this rule: a value counts only if
another row with the same value has the same label.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from streamnb.evaluation.event_input import decoded
from streamnb.evaluation.holdout import Row
from streamnb.events import Event
from streamnb.features.attributes import some_of
from streamnb.formats.event_schema import EventSchema
from streamnb.models.interface.feature_importances import FeatureImportance, feature_importances, information
from streamnb.models.interface.stream_model import StreamModel
from streamnb.values.messages import Message

SAMPLE = 1000
"""Maximum number of rows that are kept."""
_LONGEST = 4096  # bytes of a row that is kept
_ENOUGH = 50  # rows, below which any property may be due to chance
_FEWEST = 10  # rows of the classes other than the largest
_WRONG = 0.001  # share of rows that may contradict a leak
_MOST_SHUFFLED, _PREDICTIONS = 8, 400
_FLAGS = frozenset({0, 1, "0", "1", "no", "yes", "n", "y", "false", "true", "f", "t", ""})


class RowSample:
    """Evenly spaced rows of a file of unknown length, at most `SAMPLE`, each of at most 4 KiB."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._every, self._n, self._due = 1, 0, 0

    def watched(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield the same rows, and keep some."""
        for row in rows:
            self.add(row)
            yield row

    def add(self, row: Row) -> None:
        """Keep the row if it is due; each time the sample is full, every second row is dropped."""
        n, self._n = self._n, self._n + 1
        if n >= self._due:
            self._due = n + self._every
            if len(row[1]) <= _LONGEST:
                self.rows.append(row)
                if len(self.rows) >= SAMPLE:
                    del self.rows[1::2]
                    self._every *= 2

    def events(self, schema: EventSchema) -> list[tuple[int, Event]]:
        """Return the labelled events of the sample, with their row numbers."""
        made = ((number, decoded(raw, schema)) for number, raw in self.rows)
        return [(number, one) for number, one in made if one is not None and one.label is not None]


def column_warnings(
    sample: Sequence[tuple[int, Event]], without: Callable[[Sequence[str]], str]
) -> Iterator[Message]:
    """Yield one message for each unintended property of columns, which names all columns that have it.

    Args:
        sample: row numbers and labelled events.
        without: returns the command that leaves columns out.
    """
    if len(sample) < _ENOUGH:
        return
    labels = [event.label for _, event in sample]
    names = list(dict.fromkeys(name for _, event in sample for name in event.x))
    columns = {name: [event.x.get(name) for _, event in sample] for name in names}
    n = f"in {len(sample):,} rows looked at"
    numbered = [name for name, values in columns.items() if _counts_rows(sample, values)]
    found = [name for name in names if name not in numbered and decides(columns[name], labels)]
    if found:
        text = (
            f"the label follows from {some_of(found)} alone, {n}: is that a copy of the label, or known only "
        )
        text += f"after it? The scores are worth nothing then. Without: {without(found)}"
        yield Message("label-leak", text, columns=found)
    if numbered:
        text = f"{some_of(numbered)} only numbers the rows, {n}. Without: {without(numbered)}"
        yield Message("row-numbers", text, columns=numbered)
    if constant := [name for name in names if _is_constant(columns[name])]:
        text = f"{some_of(constant)}: one value only, {n}, which teaches nothing"
        yield Message("constant-column", text, columns=constant)
    if pairs := _duplicates(columns):
        equal = [f"{name} = {other}" for name, other in pairs]
        text = f"{some_of(equal)}, {n}: the same evidence counts twice. Without the second: "
        text += without([other for _, other in pairs])
        yield Message("duplicate-columns", text, columns=equal)


def what_decides(
    model: StreamModel, sample: Sequence[tuple[int, Event]], n_events: int
) -> list[FeatureImportance]:
    """Return the importance of the attributes that know most about the label, if there are at least two.

    It makes at most 400 predictions, or one for 50 of all `n_events`.
    """
    events = [event for _, event in sample]
    names = list(dict.fromkeys(name for event in events for name in event.x))
    if len(names) < 2:
        return []
    labels = [event.label for event in events]
    known = {name: information([event.x.get(name) for event in events], labels) for name in names}
    names = sorted(names, key=lambda name: -known[name])[:_MOST_SHUFFLED]
    some = events[:: math.ceil(len(events) * (len(names) + 1) / max(_PREDICTIONS, n_events // 50))]
    xs, ts = [event.x for event in some], [event.ts for event in some]
    return feature_importances(model, xs, [event.label for event in some], ts, names)


def decides(values: Sequence[Any], labels: Sequence[Any]) -> bool:
    """Return whether one column decides the label of all but 0.1 % of the rows."""
    allowed, counts = _WRONG * len(labels), Counter(labels)
    # Any column decides labels that never repeat, or nearly always the same label.
    if len(labels) - max(len(counts), *counts.values(), 0) < max(_FEWEST, 10 * allowed):
        return False
    by_value: defaultdict[Any, Counter[Any]] = defaultdict(Counter)
    for value, label in zip(values, labels, strict=True):
        by_value[value][label] += 1
    # A row is decided if most other rows with its value have its label.
    wrong = 0
    for of_value in by_value.values():
        most = of_value.most_common(1)[0][1]
        wrong += of_value.total() - (most if most > 1 else 0)
    return wrong <= allowed or _thresholds_decide(by_value, allowed)


def _thresholds_decide(by_value: dict[Any, Counter[Any]], allowed: float) -> bool:
    if not all(isinstance(value, float | int) for value in by_value):
        return False
    in_order = [by_value[value] for value in sorted(by_value)]
    labels = [counts.most_common(1)[0][0] for counts in in_order]
    mixed = sum(counts.total() - max(counts.values()) for counts in in_order)
    changes = sum(label != after for label, after in pairwise(labels))
    classes = len({label for counts in in_order for label in counts})
    return len(set(labels)) == classes and mixed + max(0, changes - classes + 1) / 2 <= allowed


def _counts_rows(sample: Sequence[tuple[int, Event]], values: Sequence[Any]) -> bool:
    first = values[0]
    if isinstance(first, float):
        return all(
            isinstance(value, float) and value - number == first - sample[0][0]
            for (number, _), value in zip(sample, values, strict=True)
        )
    return False


def _is_constant(values: Sequence[Any]) -> bool:
    first = values[0]
    return (
        first is not None
        and (first.lower() if isinstance(first, str) else first) not in _FLAGS
        and all(value == first for value in values)
    )


def _duplicates(columns: dict[Any, list[Any]]) -> list[tuple[Any, Any]]:
    """Return pairs of equal columns that vary in at least ten rows."""
    seen: dict[Hashable, Any] = {}
    pairs = []
    for name, values in columns.items():
        if len(values) - max(Counter(values).values()) >= _FEWEST:
            other = seen.setdefault(tuple(values), name)
            if other != name:
                pairs.append((other, name))
    return pairs
