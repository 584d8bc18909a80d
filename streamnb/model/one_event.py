"""The kernel that takes one event all the way: cut, looked up, predicted or learned."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamnb.model.counts import UNIT
from streamnb.model.histograms import Histograms
from streamnb.model.jit import allocating, kernel
from streamnb.model.kernels import mark_repeats, run
from streamnb.model.moments import LARGEST
from streamnb.model.tables import Batch, Tables
from streamnb.model.tokenizer import room_for_tokens, tokenize
from streamnb.model.vocabulary import DONE, look_up

__all__ = ["run_one"]

_HEAVIEST = 1 << 20


@allocating
def _one_event(
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
    answer: Any,
) -> int:
    """See `run_one`; this one makes arrays."""
    learns = label >= 0
    m = lengths.size
    item_ends, amount = np.empty(m, dtype=np.int64), np.full(m, np.int64(UNIT))
    end = 0
    for i in range(m):
        end += lengths[i]
        item_ends[i] = end
        if times.size:
            if not 0 < times[i] <= _HEAVIEST:
                return -1 - size
            amount[i] *= times[i]
    if group.size != m:
        group, whole = np.full(m, group[0]), np.full(m, whole[0])
    most_bytes, most_tokens = room_for_tokens(text.size, m)
    item_rows = np.zeros(m + 1, dtype=np.int64)
    hashes = np.empty(most_tokens if m else 0, dtype=np.uint64)
    rows = np.empty(hashes.size, dtype=np.int32)
    if m:
        out = np.empty(most_bytes, dtype=np.uint8)
        token_ends = np.empty(most_tokens, dtype=np.int64)
        tokens = tokenize(text, item_ends, whole, group, characters, out, token_ends, hashes, item_rows)
        adds = np.full(m, learns, dtype=np.bool_)
        hashes, rows = hashes[:tokens], rows[:tokens]
        token, size = look_up(
            0,
            out,
            token_ends[:tokens],
            hashes,
            item_rows,
            group,
            adds,
            size,
            slots,
            cells,
            arena,
            arena_used,
            groups,
            rows,
        )
        if token != DONE or size > table.shape[0]:
            return -1 - size
    finite = np.empty(value.size, dtype=np.float64)
    fields = np.empty(value.size, dtype=np.int32)
    values = 0
    for v in range(value.size):
        if np.isfinite(value[v]):
            finite[values] = min(max(value[v], -LARGEST), LARGEST)
            fields[values] = field[v]
            values += 1
    batch = Batch(
        np.array([0, m], dtype=np.int64),
        group,
        amount,
        item_rows,
        rows,
        hashes,
        np.array([0, values], dtype=np.int64),
        fields[:values],
        finite[:values],
        np.array([label], dtype=np.int64),
        np.array([weight], dtype=np.int64),
        np.array([np.nan]),
    )
    histograms = Histograms(exact, occupied, counted, words, used, positive, absent, misses, stale)
    tables = Tables(
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
        prior,
        prior_mode,
    )
    most = mark_repeats(batch, kinds) if used.size else 0
    probabilities = np.empty((0 if learns else 1, K), dtype=np.float64)
    joints = np.empty((0, K), dtype=np.float64)
    if run(0, most, tables, batch, not learns, learns, probabilities, joints) == 0:
        return -1 - size
    if not learns:
        answer[K] = 0.0
        for k in range(K):
            answer[k] = probabilities[0, k]
            if classes[k] == 0:
                answer[K] += 1.0
    return size


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
    answer: Any,
) -> int:
    """Learn one event, or predict it where the label is -1; how many rows there are, or -1 - that: no room.

    Where there is no room, or an item occurs less than once, nothing was learned, but words may have got
    rows. `answer` gets the probability of every class, and behind them for how many classes nothing has been
    learned. Makes no arrays itself, so that those it is given need no counting of references.

    `text` is the UTF-8 of all items with bytes to spare, `lengths` the bytes of each; `whole` and `group` are
    of each item or of all (see `Tokens`); `times` is how often each occurs, or empty: once. Then come fields
    and their values, the `character_table`, the arrays of `Vocabulary` and of `Tables`: K classes, and a
    smoothing with the rows alpha, m and p. `answer` is float64[K + 1] where the event is to be predicted.
    """
    return _one_event(
        label,
        weight,
        text,
        lengths,
        whole,
        group,
        times,
        field,
        value,
        characters,
        size,
        slots,
        cells,
        arena,
        arena_used,
        groups,
        classes,
        K,
        table,
        totals,
        live,
        kinds,
        slot,
        exact,
        occupied,
        counted,
        words,
        used,
        positive,
        absent,
        misses,
        stale,
        n,
        mean,
        M2,
        smoothing,
        prior,
        prior_mode,
        answer,
    )
