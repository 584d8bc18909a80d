"""Repeated words of a text: Bernoulli texts and presence counts use only the first."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamnb.features.keyed_hash import hash_number
from streamnb.features.row_codes import STOPPED
from streamnb.kernels.jit import inlined, kernel
from streamnb.values.attribute_kinds import BERNOULLI


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
