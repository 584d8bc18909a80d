"""Warnings about columns of a data frame, and labels, that are probably not meant as they are read."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import numpy as np

from streamnb.errors import OddValuesWarning, UndeclaredTextWarning
from streamnb.features.event_reader import EventReader
from streamnb.features.number_notation import QUOTED, Notation, notation_of, odd_cells, units_of
from streamnb.features.schema_inference import ENOUGH, FieldSummary
from streamnb.values.messages import Message, warn_user
from streamnb.values.similar_labels import ALIKE, folded

_FIRST = 1000  # rows of a data frame that are checked


def warn_of_columns(frame: Any, declared: Container[Any], warned: set[Any]) -> None:
    """Warn once of each column that looks like numbers, and whose strings are read as nominal values.

    `declared` attributes are not checked; `warned` has the columns of earlier warnings, and grows.
    """
    for name, series in frame.items():
        if name in declared or name in warned or (seen := _seen(series)) is None:
            continue
        if found := _finding(name, seen):
            warned.add(name)
            kind = "'nominal' in the attributes of the model reads values"
            text = f"column {name!r}: {found}; {kind} without this warning"
            warn_user(Message("numbers-as-values", text, paths=[str(name)]), OddValuesWarning)


def warn_of_labels(labels: Iterable[Any], warned: set[Any]) -> None:
    """Warn of labels that differ only by case, blanks, zeros or Unicode form.

    `warned` grows. A group is named again if it gets a third label, then as its size doubles.
    """
    groups: dict[str, list[str]] = {}
    for label in dict.fromkeys(labels):
        if isinstance(label, str):
            groups.setdefault(folded(label), []).append(label)
    found = {
        (ALIKE, form, len(group) > 2, len(group).bit_length()): group
        for form, group in groups.items()
        if len(group) > 1
    }
    if new := [group for key, group in found.items() if key not in warned]:
        warned.update(found)
        named = ", ".join(map(repr, new[0]))
        more = f" and {len(new) - 1:,} more groups" if len(new) > 1 else ""
        remedy = "y.str.strip().str.casefold() makes them one class"
        text = f"{ALIKE}: {named}{more}; {remedy}"
        warn_user(Message("labels-alike", text, labels=new[0], groups=len(new)), OddValuesWarning)


def warn_of_frame(reader: EventReader, frame: Any, labels: Iterable[Any]) -> None:
    """Warn of the columns of a data frame and of labels, each once for this reader."""
    warn_of_columns(frame, reader.declared, reader.told_odd)
    warn_of_labels(labels, reader.told_odd)


def warn_of_sentences(reader: EventReader, x: Any, model: str) -> None:
    """Warn of texts. Python shows a warning once per line of user code, whatever line here raises it."""
    for name in reader.sentences(x):
        text = (
            f"attribute {name!r} looks like a text, and is taken for one value: "
            f"{model}(attributes={{{name!r}: 'text'}}) reads its words, 'nominal' keeps it as one value"
        )
        warn_user(Message("text-as-value", text, paths=[str(name)]), UndeclaredTextWarning)


def _seen(series: Any) -> FieldSummary | None:
    if isinstance(series.dtype, np.dtype) and series.dtype.kind not in "OU":
        return None
    seen = FieldSummary()
    for value in series.head(_FIRST).dropna().tolist():
        if isinstance(value, (str, int, float)):
            seen.add(value)
    return seen if seen.strings and seen.n >= ENOUGH else None


def _finding(name: Any, seen: FieldSummary) -> str:
    if (notation := notation_of(seen)) is not None:
        what = "in strings" if notation is QUOTED else notation.what
        return f"looks like numbers {what}, and each is taken for one value: {_remedy(name, notation)}"
    if units := units_of(seen):
        return f"looks like numbers with {units}, and each is taken for one value: write the numbers alone"
    if found := odd_cells(seen, what="value"):
        return f"numbers, but for {found}, each taken for one value: replace these by NaN"
    return ""


def _remedy(name: Any, notation: Notation) -> str:
    if notation.written:
        return notation.written
    if notation is QUOTED:
        return f"X[{name!r}].astype(float) reads them"
    given = {"decimal": notation.decimal.strip("."), "thousands": notation.thousands}
    arguments = ", ".join(f"{key}={value!r}" for key, value in given.items() if value)
    return f"pandas.read_csv(..., {arguments}) reads them"
