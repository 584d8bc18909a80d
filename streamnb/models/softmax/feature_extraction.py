"""The features of one event: words, values, bins, the previous label, and pairs of these.

    word        each distinct word of a text
    value       each nominal value, and of a continuous attribute its code or its bin in every layout in use
    label       the label that was learned last, for streams in which equal labels follow each other
    pairs       of adjacent words, and of the values of two attributes, coarse and fine `quantile_bins`; with
                more than twelve attributes only of the twelve with the highest mutual information with the
                label in the first 256 events

A feature has the value v = (1 + ln n) (ln((N + 1) / (n_f + 1/2)) + 1/20)^0.3, where n is its number of
occurrences in the event and n_f of the N events learned had it: sublinear term frequency times a damped
inverse document frequency (Manning, Raghavan and Schuetze 2008, section 6.4). Features of an attribute that
was never learned have v = 0.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from streamnb.features.encoded_batch import Batch
from streamnb.features.keyed_hash import hash_word
from streamnb.kernels.array_types import Floats, Hashes, Ints
from streamnb.kernels.intrinsics import prefetch
from streamnb.kernels.jit import allocating, inlined, kernel
from streamnb.kernels.structs import struct_type
from streamnb.kernels.vector_kernels import fill
from streamnb.models.softmax.feature_table import (
    COUNTS,
    END,
    KEY_BITS,
    LIVE,
    NO_CLASS,
    NOBODY,
    ONCE,
    OWNER,
    TOTAL,
    FeatureTableArrays,
    add_feature,
    by_place,
    class_met,
    find_slot,
    is_met_once,
    met_once,
    mixed,
    owner_in,
    promote,
    put_slot,
    row_in,
    rows_learned,
    slot_at,
)
from streamnb.models.softmax.quantile_bins import (
    CODE,
    CODES,
    LAYOUTS,
    PAIRED,
    QuantileBinArrays,
    bin_of,
    code_of,
    first_edge,
    is_in_use,
)
from streamnb.models.softmax.softmax_regression import LOG_OF_ONE, rarity
from streamnb.values.attribute_kinds import NOMINAL, STOPPED
from streamnb.values.example_weights import UNIT
from streamnb.values.state_validation import MOST, ExpectedArray, counts, whole
from streamnb.values.type_aliases import Codes

MOST_PAIRED = 12  # attributes; 66 pairs of them
_SELECTED_AFTER = 256 * UNIT
_LABEL = -1  # attribute: the previous label; others are 2 g (group g) or 2 f + 1 (continuous attribute f)
_IS_OWNER, _IS_VALUE, _IS_LABEL = np.uint64(1), np.uint64(2), np.uint64(3)
_GROUP, _FIELD, _BYTE = np.uint64(0x10), np.uint64(0x20), np.uint64(8)
_PAIR, _FINE_PAIR = np.uint64(0x30), np.uint64(0x31)
_LINE = 16  # weights that are fetched together
_OFTEN = 1.0 + np.log(np.maximum(np.arange(256), 1))  # 1 + ln n


@struct_type
class ExtractionContext(NamedTuple):
    """State, other than the event, that features depend on.

    Attributes:
        last_label: int64[1], the class learned last, or -1.
        learned: int64[1], weight of all events learned (units).
        chosen: int64[12], ascending: the attributes whose pairs are features.
        n_chosen: int64[1], their number, or -1 while there are too many and none are selected.
    """

    last_label: Ints
    learned: Ints
    chosen: Ints
    n_chosen: Ints

    @classmethod
    def empty(cls) -> ExtractionContext:
        """Return the context before any event."""
        one = np.zeros(1, dtype=np.int64)
        return cls(one - 1, one.copy(), np.zeros(MOST_PAIRED, dtype=np.int64), one.copy())


def expected_context(classes: int) -> dict[str, ExpectedArray]:
    """Return the expected arrays of a state's `ExtractionContext`."""
    return {
        "last_label": whole(1, low=-1, high=classes - 1),
        "learned": counts(1),
        "chosen": whole(MOST_PAIRED, low=-1, high=MOST),
        "n_chosen": whole(1, low=-1, high=MOST_PAIRED),
    }


@struct_type
class ExtractedFeatures(NamedTuple):
    """The features of an event: capacity for `most`. Singles come first, then pairs.

    Attributes:
        keys: uint64[most].
        hashes: uint64[most], of the keys, by which their slots are found.
        rows: int64[most], `NOBODY` if there is none, and below that `by_place` of features met once.
        values: float64[most], v.
        owners: int64[most], index of the owner.
        owner_keys: uint64[most].
        owner_rows: int64[most].
        attributes: int64[most], every attribute of the event except texts.
        attribute_keys: uint64[most], the key of its value.
        fine_keys: uint64[most], the key of its bin for pairs, if it has one, otherwise the same.
        n: int64[5], numbers of singles, features, owners, attributes and continuous values.
        squares: float64[2], sums of v^2 of singles and of pairs.
        places: int32[power of two >= 2 most], hash table of the keys.
        slots: int64[12], the index in `attributes` of the chosen attributes, or -1.
        of_value: int64[> continuous values, 5], the feature of a value's bin in each layout, and of its code
            (`quantile_bins.CODE`), or -1.
    """

    keys: Hashes
    hashes: Hashes
    rows: Ints
    values: Floats
    owners: Ints
    owner_keys: Hashes
    owner_rows: Ints
    attributes: Ints
    attribute_keys: Hashes
    fine_keys: Hashes
    n: Ints
    squares: Floats
    places: Codes
    slots: Ints
    of_value: Ints

    @classmethod
    def with_capacity(cls, most: int) -> ExtractedFeatures:
        """Return capacity for `most` features."""
        return cls(
            np.empty(most, dtype=np.uint64),
            np.empty(most, dtype=np.uint64),
            np.empty(most, dtype=np.int64),
            np.empty(most, dtype=np.float64),
            np.empty(most, dtype=np.int64),
            np.empty(most, dtype=np.uint64),
            np.empty(most, dtype=np.int64),
            np.empty(most, dtype=np.int64),
            np.empty(most, dtype=np.uint64),
            np.empty(most, dtype=np.uint64),
            np.zeros(5, dtype=np.int64),
            np.zeros(2, dtype=np.float64),
            np.empty(1 << (2 * most).bit_length(), dtype=np.int32),
            np.empty(MOST_PAIRED, dtype=np.int64),
            np.empty((most // (LAYOUTS + 1) + 1, LAYOUTS + 1), dtype=np.int64),
        )


def most_features_for(tokens: int, items: int, values: int) -> int:
    """Return an upper bound of the features, owners and attributes of an event of this size."""
    return 2 * tokens + items + (LAYOUTS + 1) * values + MOST_PAIRED * MOST_PAIRED + 8


_most_features = inlined(most_features_for)


@kernel
def most_features_of(batch: Batch, e: int) -> int:
    """Return `most_features_for` event e."""
    first, stop = batch.event_items[e], batch.event_items[e + 1]
    tokens = batch.item_rows[stop] - batch.item_rows[first]
    return _most_features(tokens, stop - first, batch.event_values[e + 1] - batch.event_values[e])


@kernel
def most_features(batch: Batch) -> int:
    """Return an upper bound of the features, owners and attributes of any event of the batch."""
    most: Any = np.int64(0)
    for e in range(batch.label.size):
        most = max(most, most_features_of(batch, e))
    return int(most)


@inlined
def _put(
    secret: Any, out: ExtractedFeatures, places: Codes, n: int, key: Any, owner: int, times: float
) -> int:
    """Add a feature, or its occurrences if it is there already; return the number of features."""
    keys, values = out.keys, out.values
    mask = np.uint64(places.size - 1)
    key &= KEY_BITS
    hashed = hash_word(secret, key)
    place = hashed & mask
    while True:
        at = places[place]
        if at < 0:
            places[place] = n
            keys[n] = key
            out.hashes[n] = hashed
            values[n] = times
            out.owners[n] = owner
            return n + 1
        if keys[at] == key:
            values[at] += times
            return n
        place = (place + np.uint64(1)) & mask


@inlined
def _put_attribute(out: ExtractedFeatures, attribute: Any, key: Any) -> None:
    a = out.n[3]
    out.attributes[a] = attribute
    out.attribute_keys[a] = key
    out.fine_keys[a] = key
    out.n[3] = a + 1


@inlined
def _put_items(batch: Batch, e: int, kinds: Any, secret: Any, places: Codes, out: ExtractedFeatures) -> None:
    owner_keys, n, m = out.owner_keys, 0, 0
    token_keys, rows = batch.keys, batch.rows
    previous = np.int64(-1)
    for item in range(batch.event_items[e], batch.event_items[e + 1]):
        g, times = np.int64(batch.item_group[item]), batch.item_amount[item] / UNIT
        if g != previous:
            owner_keys[m] = mixed(_IS_OWNER, np.uint64(g) << _BYTE | _GROUP)
            m += 1
            previous = g
        first = batch.item_rows[item]
        for j in range(first, batch.item_rows[item + 1]):
            if rows[j] != STOPPED:
                n = _put(secret, out, places, n, token_keys[j], m - 1, times)
        if kinds[g] == NOMINAL:
            _put_attribute(out, 2 * g, token_keys[first])
    out.n[0], out.n[2] = n, m


@kernel
def put_value(
    f: Any,
    value: float,
    bits: Any,
    bins: QuantileBinArrays,
    secret: Any,
    places: Codes,
    out: ExtractedFeatures,
) -> None:
    """Add a continuous value: its code, and its bin in every layout in use."""
    field, is_put, found = np.uint64(f) << _BYTE | _FIELD, False, out.of_value[out.n[4]]
    out.n[4] += 1
    for layout in range(found.size):
        found[layout] = NOBODY
    for step in range(-1, LAYOUTS):
        layout, part = step if step >= 0 else CODE, bits
        if layout != CODE:
            if not is_in_use(bins, f, layout):
                continue
            first = first_edge(bins, f, layout)
            part = np.uint64(bin_of(bins.pool, first, first + bins.n_edges[f, layout], value))
        elif bins.n_codes[f] < 0 or code_of(bins, f, value) == CODES:
            continue
        m = out.n[2]
        key = mixed(mixed(_IS_VALUE, field + np.uint64(layout)), part)
        out.owner_keys[m] = mixed(_IS_OWNER, field + np.uint64(layout))
        n = out.n[0]
        out.n[0] = _put(secret, out, places, n, key, m, 1.0)
        out.n[2] += 1
        if out.n[0] > n:
            found[layout] = n
        if not is_put:
            _put_attribute(out, 2 * f + 1, key)
            is_put = True
        if layout == PAIRED:
            out.fine_keys[out.n[3] - 1] = key


@kernel
def _put_label(last: int, secret: Any, places: Codes, out: ExtractedFeatures) -> None:
    m, key = out.n[2], mixed(_IS_LABEL, np.uint64(last))
    out.owner_keys[m] = mixed(_IS_OWNER, _IS_LABEL)
    out.n[0] = _put(secret, out, places, out.n[0], key, m, 1.0)
    out.n[2] += 1
    _put_attribute(out, _LABEL, key)


@kernel
def _put_adjacent(batch: Batch, e: int, secret: Any, places: Codes, out: ExtractedFeatures) -> None:
    """Add pairs of adjacent words; their owner is the owner of the words."""
    n, m = out.n[1], -1
    token_keys, rows = batch.keys, batch.rows
    previous = np.int64(-1)
    for item in range(batch.event_items[e], batch.event_items[e + 1]):
        g, times = np.int64(batch.item_group[item]), batch.item_amount[item] / UNIT
        m += g != previous
        previous = g
        for j in range(batch.item_rows[item], batch.item_rows[item + 1] - 1):
            if rows[j] != STOPPED and rows[j + 1] != STOPPED:
                n = _put(secret, out, places, n, mixed(token_keys[j], token_keys[j + 1]), m, times)
    out.n[1] = n


@inlined
def _put_pair(sort: Any, pair: Any, key: Any, secret: Any, places: Codes, out: ExtractedFeatures) -> None:
    m = out.n[2]
    out.owner_keys[m] = mixed(_IS_OWNER, mixed(sort, pair))
    out.n[1] = _put(secret, out, places, out.n[1], key, m, 1.0)
    out.n[2] = m + 1


@kernel
def _put_attribute_pairs(
    context: ExtractionContext, secret: Any, places: Codes, out: ExtractedFeatures
) -> None:
    """Add pairs of the values of chosen attributes, each with an owner of its own."""
    chosen = max(context.n_chosen[0], 0)
    out.slots[:chosen] = -1
    for a in range(out.n[3]):
        slot = np.searchsorted(context.chosen[:chosen], out.attributes[a])
        if slot < chosen and context.chosen[slot] == out.attributes[a]:
            out.slots[slot] = a
    for first in range(chosen):
        for second in range(first + 1, chosen):
            a, b = out.slots[first], out.slots[second]
            if a >= 0 and b >= 0:
                pair = np.uint64(out.attributes[a] + 1) << np.uint64(32) | np.uint64(out.attributes[b] + 1)
                key = mixed(out.attribute_keys[a], out.attribute_keys[b])
                fine = mixed(out.fine_keys[a], out.fine_keys[b])
                _put_pair(_PAIR, pair, key, secret, places, out)
                if fine != key:
                    _put_pair(_FINE_PAIR, pair, fine, secret, places, out)


@kernel
def _find_owners(out: ExtractedFeatures, features: FeatureTableArrays, most: int) -> None:
    """Find the row of each owner; add one if there is none and less than `most` rows are in use."""
    size = features.size
    for o in range(out.n[2]):
        key = out.owner_keys[o] & KEY_BITS
        place = find_slot(features, key, hash_word(features.secret, key))
        slot = slot_at(features, place)
        row = np.int64(NOBODY) if is_met_once(slot) else row_in(slot)
        if slot == 0 and size[LIVE] < most:
            row = add_feature(features, key, NOBODY, place)
        out.owner_rows[o] = row


@kernel
def _find_features(
    out: ExtractedFeatures,
    first: int,
    stop: int,
    features: FeatureTableArrays,
    most: int,
    most_once: int,
    label: int,
) -> None:
    """Find the row of each feature; add one if there is none and less than `most` rows are in use.

    If `most_once`, new features get only a slot, up to that many. Memory that is read next, or counted for
    `label`, is prefetched: no cache holds these tables.
    """
    slots, table, weights, size = features.slots, features.table, features.weights, features.size
    mask = np.uint64(slots.size - 1)
    stride = weights.shape[1] * weights.shape[2]
    for i in range(first, stop):
        prefetch(slots, np.int64(out.hashes[i] & mask))
    if features.former.size:
        for i in range(first, stop):
            prefetch(features.former, np.int64(out.hashes[i] & np.uint64(features.former.size - 1)))
    for i in range(first, stop):
        prefetch(table, row_in(slots[out.hashes[i] & mask]) * table.shape[1])  # harmless if met once
    for i in range(first, stop):
        key, owner = out.keys[i], out.owner_rows[out.owners[i]]
        place = find_slot(features, key, out.hashes[i])
        slot = slot_at(features, place)
        row = row_in(slot)
        if slot == 0:
            if most_once:
                if size[ONCE] < most_once:
                    put_slot(features, place, met_once(key, NO_CLASS))
                    size[ONCE] += 1
                    row = by_place(place)
            elif size[LIVE] < most:
                row = add_feature(features, key, owner, place)
        elif is_met_once(slot):
            row = promote(features, owner, place, LOG_OF_ONE) if size[LIVE] < most else by_place(place)
        else:
            for column in range(0, stride, _LINE):
                prefetch(weights, row * stride + column)
            prefetch(table, row * table.shape[1] + COUNTS + label)
        out.rows[i] = row


@inlined
def _often(times: float) -> float:
    whole = np.int64(times)
    if whole == times and whole < _OFTEN.size:
        return float(_OFTEN[whole])
    return 1.0 + math.log(times) if times > 1.0 else times


@inlined
def _weigh(out: ExtractedFeatures, features: FeatureTableArrays, learned: float) -> None:
    """Replace occurrences by v, and fill the sums of squares."""
    values, rows, owners, owner_rows = out.values, out.rows, out.owners, out.owner_rows
    table, singles, n = features.table, out.n[0], out.n[1]
    for part, first, stop in ((0, 0, singles), (1, singles, n)):
        square = 0.0
        for i in range(first, stop):
            row, owner = rows[i], owner_rows[owners[i]]
            if owner == NOBODY or table[owner, TOTAL] == 0:
                values[i] = 0.0
                continue
            having = table[row, TOTAL] / UNIT if row >= 0 else 0.0
            if row < NOBODY and class_met(slot_at(features, by_place(row))) != NO_CLASS:
                having = 1.0
            v = _often(values[i]) * rarity(learned, having)
            values[i] = v
            square += v * v
        out.squares[part] = square


@kernel
def extract(
    batch: Batch,
    e: int,
    bits: Any,
    kinds: Any,
    features: FeatureTableArrays,
    bins: QuantileBinArrays,
    context: ExtractionContext,
    pairs: bool,
    most: int,
    most_once: int,
    out: ExtractedFeatures,
) -> None:
    """Fill `out` with the features of event e; new ones are added to `features`.

    Args:
        batch: of events.
        e: index of the event.
        bits: uint64[v], the bits of ``batch.value``.
        kinds: of the groups.
        features: `FeatureTableArrays`.
        bins: `QuantileBinArrays`.
        context: `ExtractionContext`.
        pairs: whether to extract pairs.
        most: rows up to which new ones are added: 0 for an event that is not learned afterwards.
        most_once: maximum number of pairs without a row; 0 gives each a row at once.
        out: `ExtractedFeatures`.
    """
    tokens = batch.item_rows[batch.event_items[e + 1]] - batch.item_rows[batch.event_items[e]]
    values = batch.event_values[e + 1] - batch.event_values[e]
    attributes = min(batch.event_items[e + 1] - batch.event_items[e] + values + 1, MOST_PAIRED)
    there, size = 2 * tokens + (LAYOUTS + 1) * values + 1 + attributes * attributes, 64
    while size < 2 * there:
        size *= 2
    places = out.places[:size]
    fill(places, -1)
    fill(out.n, 0)
    secret = features.secret
    _put_items(batch, e, kinds, secret, places, out)
    for v in range(batch.event_values[e], batch.event_values[e + 1]):
        put_value(np.int64(batch.value_field[v]), batch.value[v], bits[v], bins, secret, places, out)
    if context.last_label[0] >= 0:
        _put_label(context.last_label[0], secret, places, out)
    out.n[1] = out.n[0]
    if pairs:
        _put_adjacent(batch, e, secret, places, out)
        _put_attribute_pairs(context, secret, places, out)
    _find_owners(out, features, most)
    none: Any = np.int64(0)  # typed: numba would compile a second version for a literal
    _find_features(out, none, out.n[0], features, most, none, batch.label[e])
    _find_features(out, out.n[0], out.n[1], features, most, most_once, batch.label[e])
    _weigh(out, features, context.learned[0] / UNIT)


@allocating
def _information(table: Ints, rows: Ints, score: Floats) -> None:
    """Add to each owner's score the mutual information (nats) of its features and the class, less its bias.

    I = sum_v sum_k n_vk / N ln(n_vk N / (n_v n_k)) - (V - 1)(K - 1) / (2 N); Miller (1955) for the bias.
    `rows` are in the order in which they were learned, so that sums are the same on every machine.
    """
    values, classes = np.zeros(score.size), np.zeros(score.size)
    for row in rows:
        owner = owner_in(table[row, OWNER])
        if owner < 0:
            for k in range(COUNTS, table.shape[1]):
                classes[row] += table[row, k] > 0
        elif table[row, TOTAL] > 0:
            values[owner] += 1.0
            for k in range(COUNTS, table.shape[1]):
                if table[row, k] > 0:
                    ratio = (table[row, k] / table[row, TOTAL]) * (table[owner, TOTAL] / table[owner, k])
                    score[owner] += table[row, k] / table[owner, TOTAL] * math.log(ratio)
    for row in rows:
        if owner_in(table[row, OWNER]) < 0 and table[row, TOTAL] > 0:
            score[row] -= (values[row] - 1.0) * (classes[row] - 1.0) / 2.0 / (table[row, TOTAL] / UNIT)


@allocating
def _select(features: FeatureTableArrays, context: ExtractionContext, out: ExtractedFeatures) -> None:
    """Choose the twelve attributes of this event with the highest score; of equals the first."""
    score = np.zeros(features.size[END])
    _information(features.table, rows_learned(features.table, features.size), score)
    n = out.n[3]
    scores = np.full(n, -np.inf)
    for a in range(n):
        key = out.attribute_keys[a] & KEY_BITS
        row = row_in(slot_at(features, find_slot(features, key, hash_word(features.secret, key))))
        if row >= 0:
            scores[a] = score[owner_in(features.table[row, OWNER])]
    chosen, attributes = context.chosen, out.attributes
    for place in range(min(n, MOST_PAIRED)):
        best = np.int64(-1)
        for a in range(n):
            is_better = best < 0 or scores[a] > scores[best]
            if scores[a] > -np.inf and (
                is_better or (scores[a] == scores[best] and attributes[a] < attributes[best])
            ):
                best = np.int64(a)
        if best < 0:
            break
        scores[best] = -np.inf
        at = place
        while at > 0 and chosen[at - 1] > attributes[best]:
            chosen[at] = chosen[at - 1]
            at -= 1
        chosen[at] = attributes[best]
        context.n_chosen[0] = place + 1


@kernel
def note_attributes(features: FeatureTableArrays, context: ExtractionContext, out: ExtractedFeatures) -> None:
    """Record the attributes of an event that was learned, and select when enough were learned."""
    if context.n_chosen[0] < 0:
        if context.learned[0] >= _SELECTED_AFTER:
            _select(features, context, out)
        return
    for a in range(out.n[3]):
        attribute, n = out.attributes[a], context.n_chosen[0]
        slot = np.searchsorted(context.chosen[:n], attribute)
        if slot < n and context.chosen[slot] == attribute:
            continue
        if n == MOST_PAIRED:
            if context.learned[0] < _SELECTED_AFTER:
                context.n_chosen[0] = -1
            return
        for i in range(n, slot, -1):
            context.chosen[i] = context.chosen[i - 1]
        context.chosen[slot] = attribute
        context.n_chosen[0] = n + 1
