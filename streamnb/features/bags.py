"""Events as bags: the distinct rows of each discrete attribute, with their frequencies."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streamnb.features.encoded_batch import Batch
from streamnb.features.keyed_hash import hash_number, process_secret
from streamnb.kernels.array_types import Ints
from streamnb.kernels.jit import kernel
from streamnb.kernels.structs import struct_type
from streamnb.values.type_aliases import Codes


@struct_type
class Bags(NamedTuple):
    """The discrete attributes of n events. A text without known words is a bag without rows.

    Attributes:
        event_bags: int64[n + 1], the bags of event e are ``event_bags[e]`` to ``event_bags[e + 1]``.
        group: int32[b], the attribute.
        bag_rows: int64[b + 1], offsets of each bag in `rows`.
        rows: int32[u], rows in order of first occurrence, without UNKNOWN and STOPPED.
        amounts: int64[u], frequency of each, in units of 1/1024.
        most: the maximum number of rows of a bag.
    """

    event_bags: Ints
    group: Codes
    bag_rows: Ints
    rows: Codes
    amounts: Ints
    most: int


@kernel
def fill_bags(
    batch: Any,
    secret: Any,
    places: Codes,
    event_bags: Ints,
    group: Codes,
    bag_rows: Ints,
    rows: Codes,
    amounts: Ints,
) -> int:
    """Fill in the bags of a batch; return the maximum number of rows of a bag.

    `places` is scratch: int32[`places_for` the tokens of any event].
    """
    bag, used, most = 0, 0, 0
    for e in range(batch.event_items.size - 1):
        item, stop = batch.event_items[e], batch.event_items[e + 1]
        while item < stop:
            g, start = batch.item_group[item], used
            last = item + 1
            while last < stop and batch.item_group[last] == g:
                last += 1
            size = 64
            while size < 2 * (batch.item_rows[last] - batch.item_rows[item]):
                size *= 2
            places[:size] = -1
            while item < last:
                for j in range(batch.item_rows[item], batch.item_rows[item + 1]):
                    row = batch.rows[j]
                    if row < 0:
                        continue
                    place = np.int64(hash_number(secret, row)) & (size - 1)
                    while places[place] >= 0 and rows[places[place]] != row:
                        place = (place + 1) & (size - 1)
                    if places[place] < 0:
                        places[place] = used
                        rows[used] = row
                        amounts[used] = 0
                        used += 1
                    amounts[places[place]] += batch.item_amount[item]
                item += 1
            group[bag] = g
            bag += 1
            bag_rows[bag] = used
            most = max(most, used - start)
        event_bags[e + 1] = bag
    return most


def places_for(tokens: int) -> int:
    """Return the length of the scratch for events of at most this number of tokens."""
    return max(64, 1 << (2 * tokens).bit_length())


def bags_of(batch: Batch) -> Bags:
    """Return the bags of a batch."""
    n, items, tokens = batch.label.size, batch.item_group.size, batch.rows.size
    event_bags, bag_rows = np.zeros(n + 1, dtype=np.int64), np.zeros(items + 1, dtype=np.int64)
    group, rows = np.empty(items, dtype=np.int32), np.empty(tokens, dtype=np.int32)
    amounts = np.empty(tokens, dtype=np.int64)
    most_rows = int(np.diff(batch.item_rows[batch.event_items]).max(initial=0))
    places = np.empty(places_for(most_rows), dtype=np.int32)
    most = fill_bags(batch, process_secret(), places, event_bags, group, bag_rows, rows, amounts)
    b = event_bags[n]
    u = bag_rows[b]
    return Bags(event_bags, group[:b], bag_rows[: b + 1], rows[:u], amounts[:u], most)
