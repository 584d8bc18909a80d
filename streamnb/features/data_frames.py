"""A data frame as arrays, column by column, equal to what `EventWriter` makes of its rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from streamnb.features.encoded_batch import Batch, Encoded
from streamnb.features.feature_layout import Layout
from streamnb.features.targets import Targets
from streamnb.features.tokenizer import TokenBuffer
from streamnb.features.vocabulary import Vocabulary
from streamnb.kernels.array_types import Floats, Hashes, Ints
from streamnb.kernels.jit import kernel
from streamnb.values.attribute_kinds import CONTINUOUS, NOMINAL, UNKNOWN
from streamnb.values.example_weights import UNIT
from streamnb.values.json_conversion import json_value
from streamnb.values.nominal_values import LARGEST
from streamnb.values.type_aliases import Array, Codes, Flags

Present = Flags
_JSON_TYPES = {str, bool, int, float, type(None)}


class FrameColumn(NamedTuple):
    """One attribute of n events.

    Attributes:
        kind: NOMINAL or CONTINUOUS.
        name: the attribute.
        values: float64[n], not finite if missing; of a nominal attribute int64[n], the index in `texts`, -1
            if missing.
        present: bool[n].
        texts: the distinct values in UTF-8, as `EventWriter` writes them.
    """

    kind: int
    name: Hashable
    values: Array
    present: Present
    texts: Sequence[bytes] = ()


def is_frame(xs: Any) -> bool:
    """Return whether `xs` is a data frame: rows are events, columns attributes."""
    return hasattr(xs, "to_dict") and hasattr(xs, "columns")


def rows_of(xs: Any) -> list[Any]:
    """Return events as a list; rows of a data frame as dictionaries of JSON values, see `plain_frame`.

    Raises ValueError if two columns have the same name.
    """
    return rows_of_plain(plain_frame(xs)) if is_frame(xs) else list(xs)


def rows_of_plain(frame: Any) -> list[Any]:
    """Return the rows of a `plain_frame` as dictionaries, with None for what pandas calls missing."""
    rows: list[Any] = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return rows


def plain_frame(frame: Any) -> Any:
    """Return a data frame with the values that an event from a Parquet file of it would have.

    Times, durations, decimals and bytes become strings and numbers, by `json_value`, also as categories; all
    other columns stay as they are. Raises ValueError if two columns have the same name.
    """
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(f"two columns are called {twice!r}: give each a name of its own")
    plain = frame
    for place, (_, series) in enumerate(frame.items()):
        values = _plain_values(series)
        if values is not None:
            plain = frame.copy(deep=False) if plain is frame else plain
            plain.isetitem(place, values)
    return plain


def _plain_values(series: Any) -> Array | None:
    """Return the converted values of a column; None if all are numbers, strings or booleans already."""
    dtype = series.dtype
    if dtype.name == "category":
        of_categories = series.cat.categories
        categories = _plain_values(of_categories.to_series(index=range(len(of_categories))))
        if categories is None:
            return None
        found: Array = categories.astype(object)[series.cat.codes]
        found[series.isna()] = None
        return found
    if dtype.name.startswith("datetime64[") and not isinstance(dtype, np.dtype):
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    values: Array = series.to_numpy()
    is_object = values.dtype == object
    if is_object and set(map(type, values)) <= _JSON_TYPES:
        return None
    if not is_object and values.dtype.kind not in "mM":
        return None
    # A list keeps numpy's times as times; `tolist` would make integers of them.
    pairs = zip(list(values), series.isna(), strict=True)
    plain = [None if is_none else json_value(value) for value, is_none in pairs]
    if values.dtype.kind == "m":
        return np.array(plain, dtype=np.float64)
    found = np.empty(len(plain), dtype=object)
    found[:] = plain
    return found


def columns_of(frame: Any, kind_of: Callable[[Any, Any], int]) -> list[FrameColumn] | None:
    """Return the columns of a data frame, or None if its rows must be encoded one by one.

    It is None if a value is neither a number nor a nominal string, for a lone surrogate, and if two columns
    have the same name: reading the rows then raises the error.

    `kind_of` returns the kind of an attribute by name and value.
    """
    if not frame.columns.is_unique:
        return None
    found = []
    for name, series in frame.items():
        column = _column(name, series, kind_of)
        if column is None:
            return None
        found.append(column)
    return found


def _column(name: Any, series: Any, kind_of: Callable[[Any, Any], int]) -> FrameColumn | None:
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "iuf":
        numbers = series.to_numpy(dtype=np.float64)
        is_number = kind_of(name, 0.0) == CONTINUOUS
        return FrameColumn(CONTINUOUS, name, numbers, np.isfinite(numbers)) if is_number else None
    if kind_of(name, "") != NOMINAL:
        return None
    try:
        which, values = _codes(series)
    except TypeError:  # a list, which raises an error when its row is read
        return None
    texts = values.tolist()
    if not set(map(type, texts)) <= {str}:
        return None
    try:
        encoded = list(map(str.encode, texts))
    except UnicodeEncodeError:
        return None
    return FrameColumn(NOMINAL, name, which.astype(np.int64, copy=False), which >= 0, encoded)


def _codes(series: Any) -> tuple[Any, Any]:
    held = series.array
    if series.dtype.name == "category" and len(held.categories) <= len(held):
        return held.codes, held.categories
    found: tuple[Any, Any] = series.factorize()
    return found


class FrameColumns:
    """Events as columns, to be encoded in place of an `EventWriter`.

    Args:
        columns: the attributes, in the order in which each event has them.
    """

    def __init__(self, columns: Sequence[FrameColumn]) -> None:
        self._discrete = [column for column in columns if column.kind != CONTINUOUS]
        self._continuous = [column for column in columns if column.kind == CONTINUOUS]

    def encoded(
        self, targets: Targets, classes: dict[Any, int], layout: Layout, vocabulary: Vocabulary
    ) -> Encoded:
        """Return the events encoded, with their classes, groups, fields and rows looked up or added.

        Raises TypeError, and adds nothing, for a label that cannot be hashed.
        """
        label, known, is_added = targets.columns(classes)
        discrete, groups, skipped = _numbered(
            self._discrete, is_added, lambda column, adds: layout.group((column.kind, column.name), adds=adds)
        )
        continuous, fields, more = _numbered(
            self._continuous, is_added, lambda column, adds: layout.field(column.name, adds=adds)
        )
        event_items, item_group, rows, keys = _by_value(discrete, groups, is_added, vocabulary)
        event_values, value_field, value = _values(continuous, fields, label.size)
        batch = Batch(
            event_items=event_items,
            item_group=item_group,
            item_amount=np.full(rows.size, UNIT),
            item_rows=np.arange(rows.size + 1),
            rows=rows,
            keys=keys,
            event_values=event_values,
            value_field=value_field,
            value=value,
            label=label,
            weight=targets.weights,
            time=targets.times,
        )
        return Encoded(batch, 0, skipped + more, known, None)


def _by_value(
    columns: list[FrameColumn], groups: Codes, is_added: Present, vocabulary: Vocabulary
) -> tuple[Ints, Codes, Codes, Hashes]:
    """Look up each distinct nominal value once, and add new ones in order of occurrence.

    Returns the offsets of each event's values, and the group, row and key of each value.
    """
    if not columns:
        return np.zeros(is_added.size + 1, dtype=np.int64), groups, groups, np.zeros(0, dtype=np.uint64)
    texts = [text for column in columns for text in column.texts]
    sizes = np.array([len(column.texts) for column in columns], dtype=np.int64)
    owners, everything = np.repeat(groups, sizes), np.ones(len(texts), dtype=np.bool_)
    tokens = TokenBuffer(texts, everything, owners, vocabulary.secret)
    text_rows = vocabulary.rows(tokens, owners, ~everything)
    first = np.cumsum(sizes) - sizes
    which = np.array([column.values for column in columns])
    event_items, chosen = np.zeros(is_added.size + 1, dtype=np.int64), np.empty(which.size, dtype=np.int64)
    chosen = chosen[: choose_texts(which, first, event_items, chosen)]
    rows = text_rows.take(chosen)
    unknown = rows == UNKNOWN
    if unknown.any():
        adds = unknown & np.repeat(is_added, np.diff(event_items))
        rows = _added(rows, chosen, adds, texts, owners, vocabulary) if adds.any() else rows
    return event_items, owners.take(chosen), rows, tokens.hashes.take(chosen)


@kernel
def choose_texts(which: Any, first: Any, ends: Any, chosen: Any) -> int:
    """Fill the text index of each present value, event by event, and the event ends; return their number."""
    item = 0
    for e in range(which.shape[1]):
        for c in range(which.shape[0]):
            chosen[item] = first[c] + which[c, e]
            item += which[c, e] >= 0
        ends[e + 1] = item
    return item


def _added(
    rows: Codes, chosen: Ints, adds: Present, texts: Sequence[bytes], owners: Codes, vocabulary: Vocabulary
) -> Codes:
    """Return the rows after texts that are unknown are added, in the order of the first item that `adds`."""
    items = np.flatnonzero(adds)
    begins = np.full(len(texts), rows.size)  # the item that adds each text
    np.minimum.at(begins, chosen[items], items)
    new = np.flatnonzero(begins < rows.size)
    new = new[np.argsort(begins[new])]
    everything = np.ones(len(new), dtype=np.bool_)
    text_rows = np.full(len(texts), UNKNOWN, dtype=np.int32)
    tokens = TokenBuffer([texts[text] for text in new.tolist()], everything, owners[new], vocabulary.secret)
    text_rows[new] = vocabulary.rows(tokens, owners[new], everything)
    return np.where(np.arange(rows.size) >= begins[chosen], text_rows[chosen], rows)


def _values(columns: list[FrameColumn], fields: Codes, events: int) -> tuple[Ints, Codes, Floats]:
    """Return the offsets of each event's numbers, the field of each, and the numbers."""
    numbers = np.array([column.values for column in columns]).reshape(len(columns), events)
    ends, value_field = np.zeros(events + 1, dtype=np.int64), np.empty(numbers.size, dtype=np.int32)
    value = np.empty(numbers.size)
    found = choose_numbers(numbers, fields, ends, value_field, value)
    return ends, value_field[:found], value[:found]


@kernel
def choose_numbers(numbers: Any, fields: Any, ends: Any, value_field: Any, value: Any) -> int:
    """Fill the finite numbers, event by event, their fields, and the event ends; return their number."""
    item = 0
    for e in range(numbers.shape[1]):
        for c in range(numbers.shape[0]):
            value_field[item] = fields[c]
            value[item] = min(max(numbers[c, e], -LARGEST), LARGEST)
            item += math.isfinite(numbers[c, e])
        ends[e + 1] = item
    return item


def _numbered(
    columns: list[FrameColumn], is_added: Present, number: Callable[[FrameColumn, bool], int]
) -> tuple[list[FrameColumn], Codes, int]:
    """Return the columns with a known group or field, their numbers, and the number of values in the rest.

    New ones are numbered in the order in which an event that adds meets them.
    """
    adding = [column.present & is_added for column in columns]
    first = [(int(adds.argmax()), c) for c, adds in enumerate(adding) if adds.any()]
    for _, c in sorted(first):
        number(columns[c], True)
    numbers = np.array([number(column, False) for column in columns], dtype=np.int32)
    is_known = numbers >= 0
    skipped = sum(np.count_nonzero(column.present) for column in compress(columns, ~is_known))
    return list(compress(columns, is_known)), numbers[is_known], int(skipped)
