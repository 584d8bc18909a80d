"""Events as arrays, the input of the kernels of every model."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streamnb.features.keyed_hash import hash_number
from streamnb.features.tokenizer import TokenBuffer
from streamnb.kernels.array_types import Floats, Hashes, Ints
from streamnb.kernels.jit import inlined, kernel
from streamnb.kernels.structs import struct_type
from streamnb.values.attribute_kinds import BERNOULLI, STOPPED, UNKNOWN
from streamnb.values.type_aliases import Codes


@struct_type
class Batch(NamedTuple):
    """Events as arrays. An event is a run of items (discrete) and a run of values (continuous).

    Items of one group adjoin within an event. A present Bernoulli text without words is an item without rows.

    Attributes:
        event_items: int64[n + 1], the items of event e are ``event_items[e]`` to ``event_items[e + 1]``.
        item_group: int32[m].
        item_amount: int64[m], count of each row of the item, in units.
        item_rows: int64[m + 1], offsets of each item's rows.
        rows: int32[t], a row, or UNKNOWN, or STOPPED for a stopped row or a repetition.
        keys: uint64[t], a hash of the word or value and its group, also without a row; see
            `Encoded.with_keys`.
        event_values: int64[n + 1], offsets of each event's values.
        value_field: int32[v], the continuous attribute.
        value: float64[v], finite.
        label: int64[n], class index, or -1: do not learn.
        weight: int64[n], units, above zero if there is a label.
        time: float64[n], event time in seconds, nan if unknown.
    """

    event_items: Ints
    item_group: Codes
    item_amount: Ints
    item_rows: Ints
    rows: Codes
    keys: Hashes
    event_values: Ints
    value_field: Codes
    value: Floats
    label: Ints
    weight: Ints
    time: Floats

    def renumbered(self, groups: Codes, fields: Codes, rows: Codes) -> Batch:
        """Return the batch with other numbers of groups, fields and rows, without items of number -1."""
        group, field, lengths = groups[self.item_group], fields[self.value_field], np.diff(self.item_rows)
        own = self.rows[np.repeat(group >= 0, lengths)]
        return self._replace(
            event_items=ends_of_kept(self.event_items, group),
            item_group=group[group >= 0],
            item_amount=self.item_amount[group >= 0],
            item_rows=np.append(0, np.cumsum(lengths[group >= 0])),
            rows=np.append(rows, np.array([STOPPED, UNKNOWN], dtype=np.int32))[
                own
            ],  # codes < 0: from the end
            event_values=ends_of_kept(self.event_values, field),
            value_field=field[field >= 0],
            value=self.value[field >= 0],
        )


class Encoded(NamedTuple):
    """Events as arrays, ready for the kernels.

    Attributes:
        batch: the arrays.
        most: the maximum number of words of a Bernoulli text in it.
        skipped: number of values that were left out, because their group or field is unknown.
        known: int64[n], how many classes were known before each event.
        tokens: the words and values themselves; None if there are none.
    """

    batch: Batch
    most: int
    skipped: int
    known: Ints
    tokens: TokenBuffer | None

    def with_keys(self) -> Encoded:
        """Return the events with the hashes of their tokens as keys of features; without tokens, the same."""
        if self.tokens is None:  # no tokens, or keys made value by value
            return self
        return self._replace(batch=self.batch._replace(keys=self.tokens.hashes))


def ends_of_kept(ends: Ints, numbers: Codes) -> Ints:
    """Return the end of each event's known items; `ends` itself if all items are known."""
    known = numbers >= 0
    if known.all():
        return ends
    kept = np.zeros(numbers.size + 1, dtype=np.int64)
    np.cumsum(known, out=kept[1:])
    return kept[ends]


@kernel
def mark_repeats(batch: Any, kinds: Any, secret: Any, scratch: Any) -> int:
    """Keep the first of equal rows within each Bernoulli text; return the maximum rows of a text.

    The hash has a `secret`, because a sender may choose the rows of an event. `scratch` has at least four
    entries for each row of any event.
    """
    most = 0
    for e in range(batch.event_items.size - 1):
        first, stop = batch.event_items[e], batch.event_items[e + 1]
        while first < stop:
            last = first + 1
            while last < stop and batch.item_group[last] == batch.item_group[first]:
                last += 1
            start, end = batch.item_rows[first], batch.item_rows[last]
            if kinds[batch.item_group[first]] == BERNOULLI and end > start:
                most = max(most, end - start)
                _keep_first(batch.rows, start, end, secret, scratch)
            first = last
    return most


@inlined
def _keep_first(rows: Any, start: int, end: int, secret: Any, scratch: Any) -> None:
    size = 2
    while size < 2 * (end - start):
        size *= 2
    for place in range(size):
        scratch[place] = -1
    for j in range(start, end):
        row = rows[j]
        if row < 0:
            continue
        at: Any = np.int64(hash_number(secret, row)) & (size - 1)
        while scratch[at] >= 0 and scratch[at] != row:
            at = (at + 1) & (size - 1)
        if scratch[at] == row:
            rows[j] = STOPPED
        scratch[at] = row
