"""The kernel that takes one event all the way: cut, looked up, predicted or learned."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamnb.compiler.bundles import bundled
from streamnb.model.attributes.values import LARGEST
from streamnb.model.attributes.weights import UNIT
from streamnb.model.compiled.jit import inlined, kernel
from streamnb.model.encoding.batch import Batch
from streamnb.model.encoding.repeats import mark_repeats_within
from streamnb.model.encoding.tokenizer import room_for_tokens, tokenize
from streamnb.model.encoding.vocabulary import DONE, look_up
from streamnb.model.naive_bayes.kernels import run_within
from streamnb.model.naive_bayes.tables import Tables
from streamnb.model.stats.histograms import Histograms

__all__ = ["room_for_one", "run_one"]

_HEAVIEST = 1 << 20


def room_for_one(n_bytes: int, items: int, values: int, classes: int) -> int:
    """As many words of eight bytes as `run_one` needs at most, and some more."""
    return 3 * n_bytes + 11 * items + 2 * values + 5 * classes + 64


@inlined
def _take(words: Any, at: int, length: int) -> Any:
    """The next `length` words from `at` on, and where those after them begin."""
    return words[at : at + length], at + length


@inlined
def _fill_items(
    lengths: Any, whole: Any, group: Any, times: Any, ends: Any, wholes: Any, groups: Any, amount: Any
) -> bool:
    """Write what the kernels take of each item; False where one occurs less than once, or too often."""
    end = 0
    for i in range(lengths.size):
        end += lengths[i]
        ends[i] = end
        amount[i] = UNIT
        if times.size:
            if not 0 < times[i] <= _HEAVIEST:
                return False
            amount[i] *= times[i]
        of = i if group.size == lengths.size else 0
        wholes[i], groups[i] = whole[of], group[of]
    return True


@inlined
def _fill_values(field: Any, value: Any, fields: Any, finite: Any) -> int:
    """Write those values that are numbers, and of which field each is; how many they are."""
    values = 0
    for v in range(value.size):
        if np.isfinite(value[v]):
            finite[values] = min(max(value[v], -LARGEST), LARGEST)
            fields[values] = field[v]
            values += 1
    return values


@kernel
def run_one(
    label: int,
    weight: int,
    text: Any,
    lengths: Any,
    whole: Any,
    group: Any,
    times: Any,
    field: Any,
    value: Any,
    characters: Any,
    size: int,
    slots: Any,
    cells: Any,
    arena: Any,
    arena_used: Any,
    groups: Any,
    secret: Any,
    classes: Any,
    K: int,
    table: Any,
    totals: Any,
    live: Any,
    kinds: Any,
    slot: Any,
    exact: Any,
    occupied: Any,
    counted: Any,
    words: Any,
    used: Any,
    positive: Any,
    absent: Any,
    misses: Any,
    stale: Any,
    n: Any,
    mean: Any,
    M2: Any,
    smoothing: Any,
    prior: Any,
    prior_mode: int,
    room: Any,
) -> int:
    """Learn one event, or predict it where the label is -1.

    Returns how many rows there are; after a prediction of how many classes nothing has been learned; and
    -1 - rows where there is no room, or an item occurs less than once: then nothing was learned, but words
    may have got rows.

    Makes no arrays, so that nobody need count who refers to those it is given: that costs more than an event.

    `text` is the UTF-8 of all items with bytes to spare, `lengths` the bytes of each; `whole` and `group` are
    of each item or of all (see `Tokens`); `times` is how often each occurs, or empty: once. Then come fields
    and their values, the `character_table`, the arrays of `Vocabulary` and of `Tables`: K classes, and a
    smoothing with the rows alpha, m, p and declared.

    `room` is float64[`room_for_one`] to work in; after a prediction it begins with the probability of every
    class.
    """
    learns = label >= 0
    m = lengths.size
    most_bytes, most_tokens = room_for_tokens(text.size, m)
    integers = room.view(np.int64)
    at = K
    item_ends, at = _take(integers, at, m)
    amount, at = _take(integers, at, m)
    item_rows, at = _take(integers, at, m + 1)
    item_group, at = _take(integers, at, (m + 1) // 2)
    item_whole, at = _take(integers, at, (m + 7) // 8)
    item_adds, at = _take(integers, at, (m + 7) // 8)
    lowered, at = _take(integers, at, (text.size + 7) // 8)
    out, at = _take(integers, at, (most_bytes + 7) // 8)
    token_ends, at = _take(integers, at, most_tokens)
    places, at = _take(integers, at, most_tokens)
    rows, at = _take(integers, at, (most_tokens + 1) // 2)
    event, at = _take(integers, at, 6)
    time, at = _take(room, at, 1)
    finite, at = _take(room, at, value.size)
    fields, at = _take(integers, at, (value.size + 1) // 2)
    joint, at = _take(room, at, K)
    product, at = _take(room, at, K)
    missed, at = _take(integers, at, K)
    exponent, at = _take(integers, at, K)
    if at + 2 * most_tokens > room.size:
        return -1 - size

    owners = item_group.view(np.int32)[:m]
    wholes, adds = item_whole.view(np.bool_)[:m], item_adds.view(np.bool_)[:m]
    if not _fill_items(lengths, whole, group, times, item_ends, wholes, owners, amount):
        return -1 - size
    adds[:] = learns
    item_rows[0] = 0
    tokens = 0
    buffer, hashed, found = out.view(np.uint8), places.view(np.uint64), rows.view(np.int32)
    if m:
        tokens = tokenize(
            text,
            item_ends,
            wholes,
            owners,
            secret,
            characters,
            lowered.view(np.uint8),
            buffer,
            token_ends,
            hashed,
            item_rows,
        )
        token, size = look_up(
            0,
            buffer,
            token_ends[:tokens],
            hashed[:tokens],
            item_rows,
            owners,
            adds,
            size,
            slots,
            cells,
            arena,
            arena_used,
            groups,
            found[:tokens],
        )
        if token != DONE or size > table.shape[0]:
            return -1 - size
    values = _fill_values(field, value, fields.view(np.int32), finite)
    event[0], event[1], event[2], event[3], event[4], event[5] = 0, m, 0, values, label, weight
    time[0] = np.nan
    batch = bundled(
        Batch(
            event[0:2],
            owners,
            amount,
            item_rows,
            found[:tokens],
            hashed[:0],  # nobody asks for features
            event[2:4],
            fields.view(np.int32)[:values],
            finite[:values],
            event[4:5],
            event[5:6],
            time,
        )
    )
    histograms = Histograms(exact, occupied, counted, words, used, positive, absent, misses, stale)
    tables = bundled(
        Tables(
            classes[:K],
            table,
            totals,
            live,
            kinds,
            slot,
            histograms,
            n,
            mean,
            M2,
            smoothing[0],
            smoothing[1],
            smoothing[2],
            smoothing[3],
            prior,
            prior_mode,
        )
    )
    most = mark_repeats_within(batch, kinds, secret, integers[at:].view(np.int32)) if used.size else 0
    answers, joints = room[:K].reshape(1, K), room[:0].reshape(0, K)
    learned = run_within(
        0, most, tables, batch, not learns, learns, answers, joints, joint, missed, product, exponent
    )
    if learned == 0:
        return -1 - size
    if learns:
        return size
    empty = 0
    for k in range(K):
        empty += classes[k] == 0
    return empty
