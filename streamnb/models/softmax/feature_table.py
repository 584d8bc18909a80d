"""Table of features (words, values and their pairs) for the gradient learners, found by a 48-bit key.

A feature's key is a hash of its content, so that a pair of words needs no name; two of n features share a
key with probability about n^2 / 2^49. Keys are stored in states, and are the same in every process. The slot
of a key is found by another hash, with a secret: otherwise keys could be chosen to collide in one chain. Each
feature belongs to an *owner*, the feature "its attribute is present": the owner's counts are the class totals
for the feature's counts.

Most pairs are met once and never again. Until its second event a pair has no row, only a slot, which holds
its key and the class of that event: eight bytes in place of hundreds.

Rows of evicted features are reused by later features, from the first one on. No row moves, so eviction is
fast. In states rows are in the order in which they were learned: each row stores its age, the number of
evictions before it.

Growth of the slots and eviction rehash incrementally: the former slots stay until they are moved, some with
each batch, and until then a key is looked up in both. Evicted features are not moved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamnb.errors import SnapshotError
from streamnb.features.keyed_hash import hash_word, process_secret
from streamnb.kernels.array_types import Hashes, Ints
from streamnb.kernels.growable_arrays import (
    Growable,
    blocks,
    capacity_for,
    empty_slots,
    grown,
    keep_rows,
    widened,
)
from streamnb.kernels.intrinsics import prefetch
from streamnb.kernels.jit import allocating, inlined, kernel
from streamnb.kernels.structs import struct_type
from streamnb.statistics.lightest_rows import drop_lightest
from streamnb.statistics.memory_budget import MemoryComponent
from streamnb.values.example_weights import UNIT
from streamnb.values.state_validation import MOST, ExpectedArray, real, whole
from streamnb.values.type_aliases import Array, Aside, Codes

KEY, OWNER, TOTAL, COUNTS = 0, 1, 2, 3  # columns of the table; a column by class from COUNTS on
NOBODY = -1  # in place of a row
LIVE, ONCE, END, FREE, MOVED, VOID, AGE = range(7)  # indices of `size`
NO_CLASS = 0x7FFF  # class of a feature whose first event is being learned
KEY_BITS = np.uint64(0xFFFF_FFFF_FFFF)
_LOW, _HALF, _ONE, _NONE = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(1), np.uint64(0)
_TAG = np.uint64(17)  # a slot holds the upper 31 of the 48 bits of its key, and the row
_CLASS, _MET_ONCE = np.uint64(48), np.uint64(1 << 63)
_SLICE = 1 << 17  # slots that are moved with each batch
_NO_SLOTS = np.zeros(0, dtype=np.uint64)
_AGE, _OWNER = np.int64(32), np.int64(0xFFFFFFFF)  # shift and mask in the column of owners
_DIGIT, _DIGITS = np.int64(8), np.int64(0xFF)  # radix sort of ages
_ENTRY_BYTES = 27  # bytes of a slot at half the maximum load: slots are a power of two
_MULTIPLY, _FINISH = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_MAX_LOAD = 0.6
_AHEAD = 64  # slots that are fetched before they are filled
_HEAVIEST = 1e37  # maximum weight: one more event does not overflow a float32


@struct_type
class FeatureTableArrays(NamedTuple):
    """R rows for C >= K classes and M gradient learners, as the kernels take them.

    Attributes:
        slots: uint64[power of two], the upper bits of a key and row + 1; or, with the highest bit set, the
            class of the only event so far and the key.
        table: int64[>= R, 3 + C], key, owner's row or `NOBODY` (`owners_in`) with the age of the row, total
            weight and weight by class (units). The key of a free row is `by_place` of the next free one; its
            other columns are stale.
        weights: float32[>= R, 1 + M, 1 + C]. First ln(1 + 2 n) of the weight n in each class (examples), from
            column 1 on; then of each learner the sum of squared gradients and its weights by class.
        size: int64[7], number of rows in use, number of features met once, R, the first free row or `NOBODY`,
            number of former slots that were moved, 1 if former slots of features met once are void, and
            number of evictions: the age of new rows.
        memory: int64[1], the budget, bytes.
        secret: uint64[2], of the hash by which slots are found.
        former: the former `slots`; empty once all are moved. Their places follow the places of `slots`.
    """

    slots: Hashes
    table: Ints
    weights: npt.NDArray[np.float32]
    size: Ints
    memory: Ints
    secret: Hashes
    former: Hashes


@inlined
def mixed(a: Any, b: Any) -> Any:
    """Return a key of two keys, in this order (uint64)."""
    key = (a ^ (b * _MULTIPLY + (a << np.uint64(6)) + (a >> np.uint64(2)))) * _FINISH
    key ^= key >> _HALF
    key *= _MULTIPLY
    return key ^ (key >> np.uint64(29))


@inlined
def _is_of(slot: Any, table: Ints, key: Any) -> bool:
    if slot & _MET_ONCE:
        return bool(slot & KEY_BITS == key)
    return bool(slot >> _HALF == key >> _TAG and np.uint64(table[row_in(slot), KEY]) == key)


@kernel
def _find_former(features: FeatureTableArrays, key: Any, hashed: Any) -> int:
    """Return the place of a key among the former slots, after the places of `slots`; or `NOBODY`."""
    former, size = features.former, features.size
    mask = np.uint64(former.size - 1)
    place = hashed & mask
    while former[place] != _NONE:
        slot = former[place]
        if _is_of(slot, features.table, key):
            return NOBODY if size[VOID] and slot & _MET_ONCE else int(features.slots.size + np.int64(place))
        place = (place + _ONE) & mask
    return NOBODY


@inlined
def find_slot(features: FeatureTableArrays, key: Any, hashed: Any) -> Any:
    """Return the place of a key's slot, or of the free slot that ends its chain; `hashed`: its hash."""
    slots = features.slots
    mask = np.uint64(slots.size - 1)
    place = hashed & mask
    while slots[place] != _NONE:
        if _is_of(slots[place], features.table, key):
            return np.int64(place)
        place = (place + _ONE) & mask
    if features.former.size:
        former = _find_former(features, key, hashed)
        if former != NOBODY:
            return np.int64(former)
    return np.int64(place)


@inlined
def slot_at(features: FeatureTableArrays, place: Any) -> Any:
    """Return the slot at a place from `find_slot`."""
    slots = features.slots
    return slots[place] if place < slots.size else features.former[place - slots.size]


@inlined
def put_slot(features: FeatureTableArrays, place: Any, slot: Any) -> None:
    """Set the slot at a place from `find_slot`."""
    slots = features.slots
    if place < slots.size:
        slots[place] = slot
    else:
        features.former[place - slots.size] = slot


def slots_of(keys: Any, rows: Any) -> Any:
    """Return the slots of keys that have these rows; all are uint64."""
    return (keys >> _TAG) << _HALF | (rows + _ONE)


_slot_of = inlined(slots_of)


@inlined
def row_in(slot: Any) -> Any:
    """Return the row of a slot; `NOBODY` if the slot is free."""
    return np.int64(slot & _LOW) - 1


@inlined
def by_place(number: Any) -> Any:
    """Encode the place of a slot as a row number, for a feature without a row; or decode it."""
    return -2 - number


@inlined
def is_met_once(slot: Any) -> bool:
    """Return True if a slot belongs to a feature without a row."""
    return bool(slot & _MET_ONCE)


@inlined
def class_met(slot: Any) -> Any:
    """Return the class of the only event of a feature without a row, or NO_CLASS."""
    return np.int64((slot & ~_MET_ONCE) >> _CLASS)


@inlined
def met_once(key: Any, k: int) -> Any:
    """Return the slot of a feature that was met in one event, of class k and weight one."""
    return _MET_ONCE | np.uint64(k) << _CLASS | key


def owners_in(cells: Any) -> Any:
    """Return the owners' rows, or `NOBODY`, from the column of owners."""
    return cells << _AGE >> _AGE


owner_in = inlined(owners_in)


@kernel
def _empty(features: FeatureTableArrays, row: int) -> None:
    features.table[row] = 0
    features.weights[row] = 0


@inlined
def add_feature(features: FeatureTableArrays, key: Any, owner: Any, place: Any) -> int:
    """Return the new row of a key whose slot is at `place`; the table must have capacity."""
    table, size = features.table, features.size
    row = size[FREE]
    if row == NOBODY:
        row = size[END]
        size[END] += 1
    else:
        size[FREE] = by_place(table[row, KEY])
        _empty(features, row)
    size[LIVE] += 1
    table[row, KEY] = np.int64(key)
    table[row, OWNER] = size[AGE] << _AGE | (owner & _OWNER)
    put_slot(features, place, _slot_of(key, np.uint64(row)))
    return int(row)


@inlined
def promote(features: FeatureTableArrays, owner: Any, place: Any, log_of_one: float) -> int:
    """Return the new row of a feature that was met once; `log_of_one` is its log likelihood in that class."""
    slot = slot_at(features, place)
    k = class_met(slot)
    row = add_feature(features, slot & KEY_BITS, owner, place)
    features.size[ONCE] -= 1
    features.table[row, TOTAL] = UNIT
    features.table[row, COUNTS + k] = UNIT
    features.weights[row, 0, 1 + k] = log_of_one
    return row


def row_bytes(learners: Any, classes: Any) -> Any:
    """Return the bytes of one feature with its slot, for M learners and one for logarithms of counts."""
    return 8 * (COUNTS + classes) + 4 * learners * (1 + classes) + _ENTRY_BYTES


_row_bytes = inlined(row_bytes)


@kernel
def most_rows(features: FeatureTableArrays, classes: Any) -> int:
    """Return the maximum number of rows in use with this number of classes; existing rows may stay.

    Capacity for later classes, or for classes that are later in the same batch, does not count: the set of
    features must depend only on the events before.
    """
    left = features.memory[0] - _ENTRY_BYTES * features.size[ONCE]
    return int(max(features.size[LIVE], left // _row_bytes(features.weights.shape[1], classes)))


@kernel
def most_met_once(features: FeatureTableArrays, classes: Any) -> int:
    """Return the maximum number of features without a row; see `most_rows`."""
    left = features.memory[0] - _row_bytes(features.weights.shape[1], classes) * features.size[LIVE]
    return int(max(features.size[ONCE], left // _ENTRY_BYTES))


@inlined
def _ask(slots: Hashes, secret: Any, key: Any, slot: Any, asked: Hashes, n: int) -> int:
    """Record the slot to write for a key as the n-th (n < 64), and prefetch its place."""
    asked[0, n], asked[1, n] = slot, hash_word(secret, key) & np.uint64(slots.size - 1)
    prefetch(slots, np.int64(asked[1, n]))
    return n + 1


@inlined
def _enter(slots: Hashes, asked: Hashes, n: int) -> None:
    mask = np.uint64(slots.size - 1)
    for i in range(n):
        place = asked[1, i]
        while slots[place] != _NONE and slots[place] != asked[0, i]:
            place = (place + _ONE) & mask
        slots[place] = asked[0, i]


@kernel
def _move(features: FeatureTableArrays, stop: int, asked: Hashes) -> None:
    """Move former slots up to `stop` that are not void or reused; `asked` uint64[2, 64] is scratch."""
    slots, former, table, size = features.slots, features.former, features.table, features.size
    for first in range(size[MOVED], stop, asked.shape[1]):
        last, n = min(first + asked.shape[1], stop), 0
        for place in range(first, last):
            prefetch(table, row_in(former[place]) * table.shape[1])  # harmless if met once
        for place in range(first, last):
            slot = former[place]
            if slot & _MET_ONCE:
                if not size[VOID]:
                    n = _ask(slots, features.secret, slot & KEY_BITS, slot, asked, n)
            elif slot != _NONE:
                key = table[row_in(slot), KEY]
                if key >= 0 and np.uint64(key) >> _TAG == slot >> _HALF:
                    n = _ask(slots, features.secret, np.uint64(key), slot, asked, n)
        _enter(slots, asked, n)
    size[MOVED] = stop


@allocating
def rows_learned(table: Ints, size: Ints) -> Ints:
    """Return the rows in use, in the order in which they were learned: by age, then by number."""
    rows, n = np.empty(size[END], dtype=np.int64), 0
    for i in range(rows.size):
        if table[i, KEY] >= 0:
            rows[n] = i
            n += 1
    rows, sorted_rows = rows[:n], np.empty(n, dtype=np.int64)
    for digit in range(_AGE, 2 * _AGE, _DIGIT):
        if size[AGE] << _AGE >> digit:
            places = np.zeros(1 << _DIGIT, dtype=np.int64)
            for row in rows:
                places[table[row, OWNER] >> digit & _DIGITS] += 1
            places = np.cumsum(places) - places
            for row in rows:
                age = table[row, OWNER] >> digit & _DIGITS
                sorted_rows[places[age]] = row
                places[age] += 1
            rows, sorted_rows = sorted_rows, rows
    return rows


@allocating
def _weighed(features: FeatureTableArrays) -> tuple[Ints, Codes]:
    """Return the weights of rows, int64[R, 1], and their owners, int32[R], or `NOBODY`."""
    table, end = features.table, features.size[END]
    weights, owners = np.empty((end, 1), dtype=np.int64), np.empty(end, dtype=np.int32)
    for row in range(end):
        weights[row, 0] = table[row, TOTAL]
        owners[row] = owner_in(table[row, OWNER]) if table[row, KEY] >= 0 else NOBODY
    return weights, owners


@kernel
def _forget(rows: Ints, features: FeatureTableArrays) -> None:
    """Free these rows, in ascending order, and void all features that were met once."""
    table, size = features.table, features.size
    last = np.int64(NOBODY)
    for row in rows:
        free = size[FREE] if last == NOBODY else by_place(table[last, KEY])
        while free != NOBODY and free < row:
            last, free = free, by_place(table[free, KEY])
        table[row, KEY] = by_place(free)
        if last == NOBODY:
            size[FREE] = row
        else:
            table[last, KEY] = by_place(row)
        last = row
    size[LIVE] -= rows.size
    size[ONCE] = 0
    size[AGE] += 1


class FeatureTable(Growable):
    """The features of M gradient learners, within a memory budget.

    Once the budget is spent, new features are not added; existing features continue to learn.

    Args:
        learners: M.
        memory: of the tables, bytes.
    """

    def __init__(self, learners: int, memory: int) -> None:
        self._size = np.array([0, 0, 0, NOBODY, 0, 0, 0], dtype=np.int64)
        self._memory = np.array([memory], dtype=np.int64)
        self._secret = process_secret()
        self._slots, self._former = np.zeros(64, dtype=np.uint64), _NO_SLOTS
        self.table = np.zeros((32, COUNTS + 2), dtype=np.int64)
        self.weights = np.zeros((32, 1 + learners, 1 + 2), dtype=np.float32)

    def __getstate__(self) -> dict[str, Any]:
        return {name: held for name, held in vars(self).items() if name != "_secret"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state["_size"].size != AGE + 1:
            raise SnapshotError(
                "another version of streamnb pickled this; use `save`, whose files later versions read"
            )
        # It may come from another process, and mapped memory is read-only.
        vars(self).update(state, _secret=process_secret(), _size=state["_size"].copy())
        self._enter_all()

    @property
    def size(self) -> int:
        """Number of features that have a row, owners included."""
        return int(self._size[LIVE])

    @property
    def is_moving(self) -> bool:
        """True if some former slots are not yet moved."""
        return self._former.size > 0

    @property
    def n_bytes(self) -> int:
        """Memory of the tables, bytes, spare capacity included."""
        slots = self._slots.nbytes + self._former.nbytes
        return slots + self.table.nbytes + self.weights.nbytes

    @property
    def tables(self) -> FeatureTableArrays:
        """The arrays that the kernels take."""
        held = self._slots, self.table, self.weights, self._size, self._memory, self._secret, self._former
        return FeatureTableArrays(*held)

    def reserve(self, classes: int, known: int, features: int) -> None:
        """Grow to `classes` columns and by `features` rows within the budget; move some former slots."""
        self._rehash_step(_SLICE + features)
        have = self.weights.shape[2] - 1
        if classes > have:
            more = max(classes, have + have // 8) - have
            self._close_holes()
            self.table = widened(self.table[: self.size], self.table.shape[1] + more)
            self.weights = widened(self.weights[: self.size], 1 + have + more)
        most = int(most_rows(self.tables, known))
        need, entries = min(self.size + features, most), self.size + int(self._size[ONCE])
        if need > len(self.table):
            is_ample = 4 * need <= most
            rows = capacity_for(need, most) if is_ample else max(need, min(need + need // 2, most))
            self.table = grown(self.table, (rows, self.table.shape[1]))
            self.weights = grown(self.weights, (rows, *self.weights.shape[1:]))
            if is_ample:  # slots for as many: a batch is interrupted each time that either is short
                features = max(features, (rows - self.size) * entries // max(self.size, 1))
        if entries + features > self._slots.size * _MAX_LOAD:
            self.finish_copy()
            self._lay_out(self._slots, features)
            self._rehash_step(_SLICE)

    def is_short(self, classes: int, more: int = 0) -> bool:
        """Return True if another feature, after `more` new ones, would exceed the budget."""
        taken, most = self.memory(classes, more + 1)
        return taken > most

    def memory(self, classes: int, more: int = 0) -> MemoryComponent:
        """Return the memory use of the features, and `more` more, with this number of classes."""
        row = row_bytes(self.weights.shape[1], classes)
        return MemoryComponent(
            row * (self.size + more) + _ENTRY_BYTES * int(self._size[ONCE]), int(self._memory[0])
        )

    def evict(self, classes: int) -> None:
        """Evict features down to seven eighths of the budget, if one more would exceed it.

        Features met once go first, then by ascending weight, and of equals the first met. Owners stay: they
        hold the totals of all their features.
        """
        if not self.is_short(classes):
            return
        weights, owners = _weighed(self.tables)
        stays, counts = np.ones(owners.size, dtype=np.bool_), owners >= 0
        most = int(self._memory[0]) * 7 // 8 // row_bytes(self.weights.shape[1], classes)
        drop_lightest(weights, owners, stays, max(0, most - self.size + np.count_nonzero(counts)))
        # Among equals of the heaviest evicted weight, age decides: row numbers are in no order.
        heaviest = weights[:, 0].max(where=~stays, initial=0)
        equals = np.flatnonzero(counts & (weights[:, 0] == heaviest))
        ages, stay = self.table[equals, OWNER, np.newaxis] >> _AGE, np.ones(equals.size, dtype=np.bool_)
        drop_lightest(ages + 1, owners[equals], stay, int(np.count_nonzero(stays[equals])))
        stays[equals] = stay
        self.finish_copy()
        self._lay_out(self._slots, 0, forgets=True)
        _forget(np.flatnonzero(~stays), self.tables)

    def _close_holes(self) -> None:
        """Move the rows in use together, if some are free."""
        end = int(self._size[END])
        if self.size == end:
            return
        is_live = self.table[:end, KEY] >= 0
        rows, numbers = np.flatnonzero(is_live), np.append(np.cumsum(is_live) - 1, NOBODY)
        keep_rows(self.table, rows, end)
        keep_rows(self.weights, rows, end)
        cells = self.table[: rows.size, OWNER]
        cells[:] = cells & ~_OWNER | numbers[owners_in(cells)] & _OWNER  # -1 takes the last
        self._size[[END, FREE]] = rows.size, NOBODY
        self._enter_all()

    def _enter_all(self) -> None:
        rows = np.flatnonzero(self.table[: self._size[END], KEY] >= 0).astype(np.uint64)
        slots = slots_of(self.table[rows, KEY].astype(np.uint64), rows)
        self._lay_out(np.append(slots, self._met_once()), 0)
        self.finish_copy()

    def _met_once(self) -> Hashes:
        left = self._former[self._size[MOVED] :] if not self._size[VOID] else _NO_SLOTS
        return np.concatenate([slots[slots >= _MET_ONCE] for slots in (self._slots, left)])

    def _lay_out(self, former: Hashes, more: int, *, forgets: bool = False) -> None:
        """Begin to rehash, with capacity for `more` features; see `_forget` for what it `forgets`."""
        entries = self.size + int(self._size[ONCE]) + more
        self._slots = empty_slots(max(64, 1 << int(entries / _MAX_LOAD).bit_length()))
        self._former = former
        self._size[[MOVED, VOID]] = 0, forgets

    def _rehash_step(self, slots: int) -> None:
        if self._former.size:
            stop = min(int(self._size[MOVED]) + slots, self._former.size)
            _move(self.tables, stop, np.empty((2, _AHEAD), dtype=np.uint64))
            if stop == self._former.size:
                self._former = _NO_SLOTS

    def finish_copy(self) -> None:
        """Move all remaining former slots."""
        self._rehash_step(self._former.size)

    def copying(self, classes: int, aside: Aside, *, is_later: bool) -> Callable[[], dict[str, Array]]:
        """Return a callable, for any thread, that builds the current state from copies.

        Copies are put `aside` now, or, if `is_later`, when the state is built: in a large table, reading rows
        out of order takes longer.
        """
        tables, end, once = self.tables, int(self._size[END]), self._met_once()
        if not is_later:
            state = _state_of(tables, once, classes, aside)
            return lambda: state
        copied = tables._replace(
            table=tables.table[:end].copy(), weights=tables.weights[:end].copy(), size=tables.size.copy()
        )
        return lambda: _state_of(copied, once, classes, aside)

    def expected(self, arrays: Mapping[str, Array], classes: int) -> dict[str, ExpectedArray]:
        """Return the expected arrays of a state."""
        lowest, highest = np.zeros(COUNTS + classes, dtype=np.int64), np.full(COUNTS + classes, MOST)
        highest[KEY] = KEY_BITS
        lowest[OWNER], highest[OWNER] = NOBODY, max(0, np.size(arrays["features"], 0) - 1)
        low = np.full(1 + classes, -_HEAVIEST)
        low[0] = 0.0  # a sum of squares
        once, latest = 1 << 63, min(classes, NO_CLASS)
        return {
            "features": whole("features", COUNTS + classes, low=lowest, high=highest),
            "feature_weights": real(
                self.weights.shape[1] - 1, "features", low.size, low=low, high=_HEAVIEST, dtype=np.float32
            ),
            "features_met_once": whole(
                "features met once", low=once, high=once + (latest << 48) - 1, dtype=np.uint64
            ),
        }

    def load(self, arrays: Mapping[str, Array], classes: int) -> None:
        """Replace everything by a state that is as `expected`; the logarithms of counts are not in it."""
        table, weights, once = (arrays[name] for name in ("features", "feature_weights", "features_met_once"))
        self._size[:] = 0, 0, 0, NOBODY, 0, 0, 0
        self.reserve(classes, classes, 0)
        if len(table) > len(self.table):
            self.table = grown(self.table, (len(table), self.table.shape[1]))
            self.weights = grown(self.weights, (len(table), *self.weights.shape[1:]))
        self.table[: len(table), : COUNTS + classes] = table
        self.table[: len(table), OWNER] &= _OWNER
        self.weights[: len(table), 0] = 0.0
        self.weights[: len(table), 1:, : 1 + classes] = weights.transpose(1, 0, 2)
        self._size[[LIVE, ONCE, END]] = len(table), len(once), len(table)
        self._slots, self._former = once, _NO_SLOTS
        self._enter_all()


def _state_of(tables: FeatureTableArrays, once: Hashes, classes: int, aside: Aside) -> dict[str, Array]:
    """Return copies of all arrays for `classes` classes, and of the slots of features met once.

    The logarithms of counts follow from the counts, see `softmax_regression.fill_logs`.
    """
    rows = rows_learned(tables.table, tables.size)
    numbers = np.full(int(tables.size[END]) + 1, NOBODY)  # the last stands for -1
    numbers[rows] = np.arange(rows.size)
    parts = [rows[part] for part in blocks(rows.size, tables.table[:1].nbytes + tables.weights[:1].nbytes)]

    def table(part: Ints) -> Ints:
        found = tables.table.take(part, axis=0)
        found[:, OWNER] = numbers[owners_in(found[:, OWNER])]
        return found[:, : COUNTS + classes]

    learners, nothing = tables.weights.shape[1] - 1, tables.weights[:0, 0, : 1 + classes]
    weights = (tables.weights[part, 1 + m, : 1 + classes] for m in range(learners) for part in parts)
    return {
        "features": aside(map(table, parts)),
        "features_met_once": aside([np.sort(once)]),
        "feature_weights": aside(chain([nothing], weights)).reshape(learners, rows.size, 1 + classes),
    }
