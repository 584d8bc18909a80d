"""Columns side by side -> arrays event by event."""

from __future__ import annotations

import math
from typing import Any

from streamnb.model.compiled.jit import kernel
from streamnb.model.encoding.vocabulary import UNKNOWN

__all__ = ["fill_items", "fill_values"]


@kernel
def fill_items(
    which: Any,
    first: Any,
    groups: Any,
    text_rows: Any,
    text_keys: Any,
    event_items: Any,
    item_group: Any,
    rows: Any,
    keys: Any,
) -> tuple[int, int]:
    """The rows and keys of the nominal values of n events; (how many there are, how many are unknown).

    Args:
        which: int64[columns, n], the number of each value among the texts of its column; -1 is missing.
        first: int64[columns], where the texts of each column begin.
        groups: int32[columns], the group of each.
        text_rows: int32[texts], the row of each text, or UNKNOWN.
        text_keys: uint64[texts], its hash.
        event_items: int64[n + 1], gets where the values of each event begin.
        item_group: int32, gets the group of each value; as long as there may be values, like the next two.
        rows: int32, gets their rows.
        keys: uint64, gets their hashes.
    """
    item, unknown = 0, 0
    event_items[0] = 0
    for e in range(which.shape[1]):
        for c in range(which.shape[0]):
            if which[c, e] >= 0:
                text = first[c] + which[c, e]
                item_group[item], rows[item], keys[item] = groups[c], text_rows[text], text_keys[text]
                unknown += text_rows[text] == UNKNOWN
                item += 1
        event_items[e + 1] = item
    return item, unknown


@kernel
def fill_values(
    columns: Any, fields: Any, largest: float, event_values: Any, value_field: Any, value: Any
) -> int:
    """The numbers of n events that are finite, none beyond `largest`; how many there are.

    Args:
        columns: float64[fields, n].
        fields: int32[fields], the number of each.
        largest: above zero.
        event_values: int64[n + 1], gets where the numbers of each event begin.
        value_field: int32[fields n], gets the field of each number.
        value: float64[fields n], gets the numbers.
    """
    at = 0
    event_values[0] = 0
    for e in range(columns.shape[1]):
        for f in range(columns.shape[0]):
            if math.isfinite(columns[f, e]):
                value_field[at] = fields[f]
                value[at] = min(max(columns[f, e], -largest), largest)
                at += 1
        event_values[e + 1] = at
    return at
