"""Attribute bytes -> row, exactly and in order of insertion.

An open-addressing table of 64-bit slots over the keys by row. A slot is the upper 24 bits of the hash as a
tag, eight bits of the group, and the row + 1. A tag only saves comparisons: bytes decide, so two keys never
share a row. The group is in the slot to save a memory access; `_BESIDE` marks a larger group, and a stopped
row. The hash has a secret, so that a sender cannot bring many keys into one chain. States have no slots, and
nothing else depends on the secret.

Growth and eviction do not rebuild the table at once: the former table stays until, some rows at a time, the
kept rows have been compacted and entered in the new table. Until then a key is searched in both, and evicted
rows are holes between the kept rows.

A key of up to 15 bytes, as most words are, is stored in the cell of its row: 16 bytes, which one cache line
holds and two comparisons identify. The cell of a longer key has its position in the arena. No view of an
array may outlive the call that made it: growing may move the array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamnb.errors import SnapshotError
from streamnb.features.keyed_hash import begun, hash_after, process_secret
from streamnb.features.tokenizer import TokenBuffer
from streamnb.kernels.array_types import Hashes, Ints
from streamnb.kernels.growable_arrays import Growable, capacity_for, empty_slots, grown
from streamnb.kernels.intrinsics import load8, prefetch, store8
from streamnb.kernels.jit import inlined, kernel
from streamnb.kernels.structs import struct_type
from streamnb.values.attribute_kinds import STOPPED, UNKNOWN
from streamnb.values.state_validation import reject
from streamnb.values.type_aliases import Array, Codes, Flags

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_TAG = np.uint64(40)
_GROUP = np.uint64(8)
_BESIDE = 255  # the group is in `groups` alone
_ONE = np.uint64(1)
DONE = -1
"""Returned in place of the next token."""
_MAX_LOAD = 0.75
_NEAR = 1 << 15  # slots that the caches hold
_CELL = 16  # bytes
_SHORT = 15  # bytes that a cell holds; the last byte is their number
# The last byte of a cell whose key is in the arena: its position, then its length in seven bytes.
_LONG = 255
_LENGTH = np.uint64(0x00FFFFFFFFFFFFFF)
_LAST = np.uint64(56)
_ANY = 1 << 62
_HAND, _TO, _BYTES = 0, 1, 2  # indices of `at`
_AHEAD = 64  # rows whose slots are fetched together
_FEW = 1 << 14  # rows that are entered at once
_SWEPT, _SWEPT_FOR_EACH = 1024, 8  # rows moved with each batch, and for each of its tokens


@inlined
def place_of(mixed: Any, slots: Any) -> Any:
    """Return the first slot of the chain of a hash: its lower half, scaled to the number of slots."""
    return np.int64((mixed & _LOW) * np.uint64(slots.size) >> _HALF)


@inlined
def _equal(a: Any, begin: int, b: Any, start: int, length: int) -> bool:
    i = 0
    while i + 8 <= length:
        if load8(a, begin + i) != load8(b, start + i):
            return False
        i += 8
    rest = (_ONE << np.uint64(8 * (length - i))) - _ONE
    return bool((load8(a, begin + i) ^ load8(b, start + i)) & rest == 0)


@inlined
def _head(mixed: Any, group: Any) -> Any:
    """Return the upper half of the slot of a key: its tag, and its group if eight bits hold it."""
    return mixed >> _TAG << _GROUP | np.uint64(group if 0 <= group < _BESIDE else _BESIDE)


@inlined
def _cell_of(buffer: Any, start: int, length: int) -> tuple[Any, Any]:
    """Return the two words of the cell of a key of up to 15 bytes, which has eight spare bytes after it."""
    first = load8(buffer, start)
    if length < 8:
        return first & ((_ONE << np.uint64(8 * length)) - _ONE), np.uint64(length) << _LAST
    second = load8(buffer, start + 8) if length > 8 else np.uint64(0)
    second &= (_ONE << np.uint64(8 * (length - 8))) - _ONE
    return first, second | np.uint64(length) << _LAST


@inlined
def _is_key(buffer: Any, start: int, length: int, low: Any, high: Any, row: int, keys: Any) -> bool:
    at, behind = load8(keys.cells, _CELL * row), load8(keys.cells, _CELL * row + 8)
    if length <= _SHORT:
        return bool((at ^ low) | (behind ^ high) == 0)
    if behind != np.uint64(length) | np.uint64(_LONG) << _LAST:
        return False
    return _equal(keys.arena, np.int64(at), buffer, start, length)  # type: ignore[arg-type]


@inlined
def _find(
    buffer: Any, start: int, stop: int, mixed: Any, group: Any, slots: Any, keys: Any, first: int
) -> Any:
    """Return (row of a key, STOPPED or UNKNOWN; its slot, or the free slot at the end of its chain).

    Rows before `first` are ignored: they have moved, so their cells no longer match the former slots.
    """
    head, beside = _head(mixed, group), _head(mixed, _BESIDE)
    place, length = place_of(mixed, slots), stop - start
    low, high = _cell_of(buffer, start, min(length, _SHORT))
    while True:
        slot = slots[place]
        if slot == 0:
            return np.int64(UNKNOWN), place
        found = slot >> _HALF
        if found == head or found == beside:  # noqa: PLR1714, SIM109  two comparisons, and no tuple
            row: Any = np.int64(slot & _LOW) - 1
            owner = np.int64(keys.groups[row] if found == beside else group)
            if (
                (owner if owner >= 0 else ~owner) == group
                and row >= first
                and _is_key(buffer, start, length, low, high, row, keys)
            ):
                return (row if owner >= 0 else np.int64(STOPPED)), place
        place = place + 1 if place + 1 < slots.size else 0


@inlined
def _has_capacity_for_key(length: int, size: int, cells: Any, arena: Any, used: Any) -> bool:
    if _CELL * (size + 1) > cells.size:
        return False
    return bool(length <= _SHORT or used[0] + length + 8 <= arena.size)


@inlined
def _add_key(buffer: Any, start: int, length: int, row: int, cells: Any, arena: Any, used: Any) -> None:
    low, high = _cell_of(buffer, start, min(length, _SHORT))
    if length > _SHORT:
        low, high = np.uint64(used[0]), np.uint64(length) | np.uint64(_LONG) << _LAST
        for i in range(0, length, 8):
            store8(arena, used[0] + i, load8(buffer, start + i))
        used[0] += length
    store8(cells, _CELL * row, low)
    store8(cells, _CELL * row + 8, high)


@inlined
def _likely(mixed: Any, slots: Any) -> Any:
    """Return the row of the first slot in the chain of a hash that has its tag, or UNKNOWN."""
    place = place_of(mixed, slots)
    slot = slots[place]
    while slot != 0 and slot >> _TAG != mixed >> _TAG:
        place = place + 1 if place + 1 < slots.size else 0
        slot = slots[place]
    return np.int64(slot & _LOW) - 1


@inlined
def _fetch_ahead(first: int, token: int, hashes: Any, slots: Any, cells: Any, arena: Any, rows: Any) -> None:
    """Prefetch for later tokens in three steps: slot, cell, and the bytes of a long key.

    Each step needs the result of the previous step, so the steps of many tokens overlap their memory waits.
    Leaves the likely row of each token from `first` on in `rows`, until that token is looked up.
    """
    if token + 48 < hashes.size:
        prefetch(slots, place_of(hashes[token + 48], slots))
    ahead = token + 32
    if first <= ahead < hashes.size:
        rows[ahead] = _likely(hashes[ahead], slots)
        if rows[ahead] >= 0:
            prefetch(cells, np.int64(rows[ahead]) * _CELL)
    ahead = token + 16
    if first <= ahead < hashes.size and rows[ahead] >= 0:
        cell = np.int64(rows[ahead]) * _CELL
        if cells[cell + _SHORT] == _LONG:
            prefetch(arena, np.int64(load8(cells, cell)))


@struct_type
class KeyArrays(NamedTuple):
    """The arrays of a `Vocabulary`, valid until it grows."""

    slots: Hashes
    cells: npt.NDArray[np.uint8]
    arena: npt.NDArray[np.uint8]
    used: Ints
    groups: Codes
    former: Hashes
    stays: Flags
    at: Ints


@kernel
def look_up(first: int, words: Any, size: int, keys: Any, rows: Any) -> tuple[int, int]:
    """Fill the rows of the tokens from `first` on; return (next token or DONE, size). Stops at a full array.

    `words` has the tokens' bytes, ends and hashes, the tokens of each item, its group, and whether it adds.
    """
    buffer, token_ends, hashes, item_tokens, item_group, item_adds = words
    slots, cells, arena, used, groups = keys.slots, keys.cells, keys.arena, keys.used, keys.groups
    former, stays, at = keys.former, keys.stays, keys.at
    item = 0
    limit = np.int64(slots.size * _MAX_LOAD)
    is_far = slots.size > _NEAR
    for token in range(first - 48 if is_far else first, token_ends.size):
        if is_far:
            _fetch_ahead(first, token, hashes, slots, cells, arena, rows)
            if token < first:
                continue
        while token >= item_tokens[item + 1]:
            item += 1
        start = token_ends[token - 1] if token > 0 else 0
        stop = token_ends[token]
        group = np.int64(item_group[item])
        row, place = _find(buffer, start, stop, hashes[token], group, slots, keys, 0)
        if row == UNKNOWN and former.size > 0:
            row, _ = _find(buffer, start, stop, hashes[token], group, former, keys, at[_HAND])
            if row >= 0 and not stays[row]:
                row = np.int64(UNKNOWN)
        if row == UNKNOWN and item_adds[item]:
            length = stop - start
            if size >= used[1] or (length > _SHORT and used[0] + length > used[2]):  # the memory budget
                rows[token] = UNKNOWN
                continue
            if size >= limit or not _has_capacity_for_key(length, size, cells, arena, used):
                return token, size
            _add_key(buffer, start, length, size, cells, arena, used)
            groups[size] = group
            slots[place] = _head(hashes[token], group) << _HALF | np.uint64(size + 1)
            row = np.int64(size)
            size += 1
        rows[token] = row
    return DONE, size


@inlined
def _hash_of(row: int, secret: Any, cells: Any, arena: Any, groups: Any) -> Any:
    state = begun(secret, np.int64(groups[row] if groups[row] >= 0 else ~groups[row]))
    cell = _CELL * row
    length = np.int64(cells[cell + _SHORT])
    if length == _LONG:
        begin, length = np.int64(load8(cells, cell)), np.int64(load8(cells, cell + 8) & _LENGTH)
        return hash_after(state, arena, begin, begin + length)  # type: ignore[arg-type]
    return hash_after(state, cells, cell, cell + length)  # type: ignore[arg-type]


@inlined
def _move(row: int, to: int, at: Any, cells: Any, arena: Any, groups: Any) -> None:
    """Move a row to `to`, and the bytes of a long key to at[_BYTES]; unmoved rows stay as they are."""
    low, high = load8(cells, _CELL * row), load8(cells, _CELL * row + 8)
    if high >> _LAST == _LONG:
        begin, length = np.int64(low), np.int64(high & _LENGTH)
        if to == row:
            at[_BYTES] = begin
        for i in range(length if at[_BYTES] < begin else 0):
            arena[at[_BYTES] + i] = arena[begin + i]
        low = np.uint64(at[_BYTES])
        at[_BYTES] += length
    store8(cells, _CELL * to, low)
    store8(cells, _CELL * to + 8, high)
    groups[to] = groups[row]


@kernel
def _rehash_step(stop: int, secret: Any, keys: Any, hashes: Any, moved: Any) -> int:
    """Compact the kept rows up to `stop`, record them in `moved`, enter them in `slots`; return their number.

    Rows after the last of `stays` have a slot already. `hashes` is scratch for the hashes of some rows.
    """
    slots, cells, arena, groups = keys.slots, keys.cells, keys.arena, keys.groups
    stays, at = keys.stays, keys.at
    found = 0
    for first in range(at[_HAND], stop, hashes.size):
        last = min(first + hashes.size, stop)
        for row in range(first, last):
            if row >= stays.size or stays[row]:
                hashes[row - first] = _hash_of(row, secret, cells, arena, groups)
                prefetch(slots, place_of(hashes[row - first], slots))
        for row in range(first, last):
            is_new = row < stays.size
            if is_new and not stays[row]:
                continue
            to, place = at[_TO], place_of(hashes[row - first], slots)
            _move(row, to, at, cells, arena, groups)
            before = np.uint64(0 if is_new else row + 1)
            while slots[place] & _LOW != before:
                place = place + 1 if place + 1 < slots.size else 0
            slots[place] = _head(hashes[row - first], groups[to]) << _HALF | np.uint64(to + 1)
            moved[found] = row
            found += 1
            at[_TO] += 1
    at[_HAND] = stop
    return found


class _Keys(NamedTuple):
    """The keys of another vocabulary, as a `TokenBuffer` of one item each."""

    bytes: npt.NDArray[np.uint8]
    ends: Ints
    places: Hashes
    item_tokens: Ints


@kernel
def _spell(cells: Any, arena: Any, owners: Any, secret: Any, out: Any, ends: Any, places: Any) -> None:
    """Write the keys one after the other, the end of each, and its hash by its owner."""
    end: Any = np.int64(0)
    for row in range(ends.size):
        begin: Any = np.int64(_CELL * row)
        length, buffer = np.int64(cells[begin + _SHORT]), cells
        if length == _LONG:
            length, buffer = np.int64(load8(cells, begin + 8) & _LENGTH), arena
            begin = np.int64(load8(cells, begin))
        for i in range(0, length, 8):
            store8(out, end + i, load8(buffer, begin + i))
        places[row] = hash_after(begun(secret, owners[row]), out, end, end + length)
        end += length
        ends[row] = end


def packed(keys: Sequence[bytes]) -> dict[str, Array]:
    """Return the cells and the arena of a state with these keys, by row."""
    begins = accumulate((len(key) if len(key) > _SHORT else 0 for key in keys), initial=0)
    cells = [
        key.ljust(_SHORT, b"\0") + bytes([len(key)])
        if len(key) <= _SHORT
        else begin.to_bytes(8, "little") + len(key).to_bytes(7, "little") + bytes([_LONG])
        for key, begin in zip(keys, begins, strict=False)
    ]
    long = (key for key in keys if len(key) > _SHORT)
    arrays = {"cells": b"".join(cells), "arena": b"".join(long)}
    return {name: np.frombuffer(raw, dtype=np.uint8) for name, raw in arrays.items()}


class Vocabulary(Growable):
    """Keys of attributes and their rows.

    A key is a group (a text attribute, or one nominal field) with bytes (a token, or a value). A *stopped*
    row keeps its key and is never found again: its group is stored as its complement.

    Attributes:
        size: number of rows, stopped ones and holes included.
        holes: number of evicted rows that still lie between the others.
        hole_bytes: number of their bytes in the arena.
        moves: how often rows were moved.
        cells: uint8[>= 16 size], for row r at 16 r: a key of up to 15 bytes, zeros, and in the last byte its
            length; or, for a longer key, its position in the arena (uint64), its length (seven bytes) and
            255.
        arena: uint8, the bytes of long keys in the order of their rows, and at least eight more.
        used: int64[3], the bytes of the arena in use, the maximum number of rows, and the maximum number of
            bytes; a key beyond them is not added, and is UNKNOWN.
        groups: int32[>= size], the group of each row, or its complement if the row is stopped.
        slots: uint64, the open-addressing table; never in a state.
        former: uint64, the previous table, for rows that are not in `slots` yet; empty if all are.
        stays: bool, which rows of `former` are kept.
        at: int64[3], the first row that is not in `slots` yet, its new number and position of its bytes.
        secret: uint64[2], the key of the hash; never in a state.
    """

    def __init__(self) -> None:
        self.secret = process_secret()
        self.size = 0
        self.cells = np.zeros(32 * _CELL, dtype=np.uint8)
        self.arena = np.zeros(256, dtype=np.uint8)
        self.used = np.array([0, _ANY, _ANY], dtype=np.int64)
        self.groups = np.zeros(32, dtype=np.int32)
        self.slots = np.zeros(64, dtype=np.uint64)
        self.former, self.stays = _NO_SLOTS, _NO_FLAGS
        self.at = np.zeros(3, dtype=np.int64)
        self.holes = self.hole_bytes = self.moves = 0

    def __getstate__(self) -> dict[str, Any]:
        self.compact(self.size)
        return {name: held for name, held in vars(self).items() if name not in {"secret", "slots"}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, secret=process_secret())  # it may have been pickled in another process
        self._rehash()

    @property
    def arrays(self) -> KeyArrays:
        """The current arrays."""
        own = self.slots, self.cells, self.arena, self.used, self.groups
        return KeyArrays(*own, self.former, self.stays, self.at)

    def rows(self, tokens: TokenBuffer | _Keys, item_group: Codes, item_adds: Flags) -> Codes:
        """Return the row of each token, UNKNOWN or STOPPED; unknown tokens of items that add get a row."""
        rows = np.empty(tokens.ends.size, dtype=np.int32)
        words = tokens.bytes, tokens.ends, tokens.places, tokens.item_tokens, item_group, item_adds
        token = 0
        while token != DONE:
            if self.former.size and not self.holes:
                self.compact(_SWEPT + _SWEPT_FOR_EACH * (rows.size - token))
            token, self.size = look_up(token, words, self.size, self.arrays, rows)
            if token != DONE:
                start = int(tokens.ends[token - 1]) if token else 0
                self.reserve(1, int(tokens.ends[token]) - start)
        return rows

    def merge_keys(self, other: Vocabulary, group: Codes, *, adds: bool = True) -> Codes:
        """Look up, or add, the keys of `other`, and return their rows; its group g is ``group[g]`` here.

        A group that does not exist here (-1) has no rows, and gets none.
        """
        owners = other.groups[: other.size]
        owners = group[np.where(owners < 0, ~owners, owners)] if other.size else owners
        ends, places = np.empty(other.size, dtype=np.int64), np.empty(other.size, dtype=np.uint64)
        buffer = np.empty(_CELL * (other.size + 1) + int(other.used[0]), dtype=np.uint8)
        _spell(other.cells, other.arena, owners, self.secret, buffer, ends, places)
        keys = _Keys(buffer, ends, places, np.arange(other.size + 1))
        return self.rows(keys, owners, np.full(other.size, adds))

    def stopped(self) -> set[tuple[int, bytes]]:
        """Return (group, key) of every stopped row."""
        rows = np.flatnonzero(self.groups[: self.size] < 0)
        return {(int(~self.groups[row]), self.key(row)) for row in rows}

    def stop(self, rows: Array) -> None:
        """Stop these rows: they are never found again."""
        self.compact(self.size)
        self.groups[rows] = ~self.groups[rows]
        self._rehash()

    def key(self, row: int | np.integer[Any]) -> bytes:
        """Return the bytes of the key of one row."""
        cell = self.cells[_CELL * row : _CELL * (row + 1)]
        if cell[_SHORT] != _LONG:
            return cell[: cell[_SHORT]].tobytes()
        begin, length = (int(word & _LENGTH) for word in cell.view(np.uint64))
        return self.arena[begin : begin + length].tobytes()

    def keys(self) -> list[bytes]:
        """Return the bytes of every key, by row."""
        lengths = self._cells()[:, _SHORT].tolist()
        cells = self.cells[: _CELL * self.size].tobytes()
        return [
            cells[_CELL * row : _CELL * row + length] if length != _LONG else self.key(row)
            for row, length in enumerate(lengths)
        ]

    def _cells(self) -> npt.NDArray[np.uint8]:
        # Shape (size, 16).
        return self.cells[: _CELL * self.size].reshape(-1, _CELL)

    @classmethod
    def from_state(cls, arrays: Mapping[str, Array]) -> Vocabulary:
        """Return the vocabulary of a state, with new slots.

        Raises SnapshotError for cells that do not fit the groups, or are not text: kernels check no bounds.
        """
        vocabulary = cls()
        cells, arena, groups = (arrays[name] for name in ("cells", "arena", "groups"))
        vocabulary.size = groups.size
        vocabulary.cells = np.array(cells, dtype=np.uint8).reshape(-1)
        vocabulary.arena = np.append(np.asarray(arena, dtype=np.uint8), np.zeros(8, dtype=np.uint8))
        vocabulary.used[0] = arena.size
        vocabulary.groups = np.array(groups, dtype=np.int32)
        vocabulary._check()
        vocabulary._rehash()
        return vocabulary

    def _check(self) -> None:
        """Check that long keys fill the arena in order, and that all keys are text. Raises SnapshotError."""
        if self.cells.size != _CELL * self.size:
            raise SnapshotError(f"cells: {self.cells.size} bytes are not those of {self.size} keys")
        cells = self._cells()
        long = cells[:, _SHORT] == _LONG
        begin, length = cells.view(np.uint64)[long].T
        length, used = length & _LENGTH, np.uint64(self.used[0])
        reject("cells", cells[~long, _SHORT] > _SHORT, "a key is longer than its cell")
        reject("cells", (length <= _SHORT) | (length > used), "a key is not as long as it is kept")
        ends = np.cumsum(length)
        if (begin + length != ends).any() or length.sum() != used:
            raise SnapshotError(f"arena: its {used} bytes are not the long keys one after the other")
        # After a short key there are zeros and its length, each a character: all keys are text if and only
        # if the concatenated cells are.
        reject("arena", self.arena[begin.astype(np.int64)] & 0xC0 == 0x80, "a key begins within a character")
        for name, keys in (("cells", cells[~long]), ("arena", self.arena[: int(used)])):
            try:
                keys.tobytes().decode()
            except UnicodeDecodeError as error:
                raise SnapshotError(f"{name}: a key is not text: {error.reason}") from None

    def keep(self, stays: Flags) -> None:
        """Evict all but these rows. Rows keep their numbers until `compact` moves them."""
        self.compact(self.size)
        evicted = np.flatnonzero(~stays)
        self.holes = evicted.size
        self.hole_bytes = int(self.long_bytes(evicted).sum()) if self.used[0] else 0
        self.used[1:] += self.holes, self.hole_bytes
        self._begin(0, stays)

    def compact(self, rows: int) -> tuple[Ints, int, int]:
        """Process this number of further rows: move kept rows to the front, and enter them in the slots.

        Returns the kept rows in order, the new number of the first of them, and the first row that is not
        processed. When all are processed, there are no holes any more.
        """
        first, to = self.at[:2].tolist()
        end = self.size if self.holes else self.stays.size
        stop = min(end, first + rows)
        if not self.former.size:
            return _NO_ROWS, 0, 0
        moved = self._enter(stop, self.at, self.stays, self.slots)
        self.moves += self.holes > 0
        if stop == end:
            self.former, self.stays = _NO_SLOTS, _NO_FLAGS
            if self.holes:
                self.size, self.used[0] = int(self.at[_TO]), self.at[_BYTES]
                self.used[1:] -= self.holes, self.hole_bytes
            self.holes = self.hole_bytes = 0
        return moved, to, stop

    def _enter(self, stop: int, at: Ints, stays: Flags, slots: Hashes) -> Ints:
        moved = np.empty(stop - at[_HAND], dtype=np.int64)
        keys = self.arrays._replace(at=at, stays=stays, slots=slots)
        hashes = np.empty(_AHEAD, dtype=np.uint64)
        return moved[: _rehash_step(stop, self.secret, keys, hashes, moved)]

    def enter(self, size: int) -> None:
        """Enter the rows up to `size`, which were appended to the arrays, into the slots."""
        first, self.size = self.size, size
        self._enter(size, np.array([first, first, 0]), np.ones(size, dtype=np.bool_), self.slots)

    def empty(self) -> None:
        """Evict all rows at once, and keep the reserved memory."""
        self.size, self.used[0], self.former, self.stays = 0, 0, _NO_SLOTS, _NO_FLAGS
        self.slots[:] = 0
        self.at[:] = 0

    def allow(self, rows: int, n_bytes: int) -> None:
        """Limit the number of rows and the bytes of long keys; holes do not count."""
        self.used[1:] = rows + self.holes, n_bytes + self.hole_bytes

    @property
    def live(self) -> int:
        """The number of rows, without holes."""
        return self.size - self.holes

    def live_rows(self) -> Ints:
        """Return the rows that are not holes."""
        is_live = np.ones(self.size, dtype=np.bool_)
        if self.holes:
            hand = int(self.at[_HAND])
            is_live[int(self.at[_TO]) : hand] = False
            is_live[hand : self.stays.size] = self.stays[hand:]
        return np.flatnonzero(is_live)

    @property
    def live_bytes(self) -> int:
        """The number of bytes in the arena, without holes."""
        return int(self.used[0]) - self.hole_bytes

    def long_bytes(self, rows: Ints) -> Ints:
        """Return for each of these rows its number of bytes in the arena."""
        cells = self._cells()[rows]
        lengths = (cells.view(np.uint64)[:, 1] & _LENGTH).astype(np.int64)
        return np.where(cells[:, _SHORT] == _LONG, lengths, 0)

    def reserve(self, keys: int, n_bytes: int) -> None:
        """Reserve memory for this number of further keys with `n_bytes` in total."""
        if n_bytes > _SHORT and self.used[0] + n_bytes + 8 > self.arena.size:
            self.arena = grown(self.arena, (capacity_for(self.arena.size) + n_bytes,))
        if _CELL * (self.size + keys) > self.cells.size:
            self.groups = grown(self.groups, (capacity_for(self.size + keys - 1, int(self.used[1])),))
            self.cells = grown(self.cells, (self.groups.size * _CELL,))
        if self.size + keys > int(self.slots.size * _MAX_LOAD):
            self._widen(keys)

    def _widen(self, keys: int) -> None:
        """Allocate slots for further keys. No row is moved: some may just have been looked up.

        Once half of the allowed rows exist, slots are allocated for all of them, because an eviction waits
        while a table is being filled.
        """
        if not self.holes:
            self.compact(self.size)
            if 2 * self.size >= (most := int(self.used[1])):
                keys = max(keys, 2 * most // 3 - self.size)
            if self.size < _FEW:
                self._rehash(keys)
            else:
                self._begin(keys, np.ones(self.size, dtype=np.bool_))
            return
        slots, everything = _slots_for(self.size + keys), np.ones(self.size, dtype=np.bool_)
        for first, stop in ((0, int(self.at[_TO])), (self.stays.size, self.size)):
            self._enter(stop, np.array([first, first, 0]), everything, slots)
        self.slots = slots

    def _begin(self, keys: int, stays: Flags) -> None:
        self.former, self.stays, self.slots = self.slots, stays, _slots_for(self.size + keys)
        self.at[:] = 0

    def _rehash(self, keys: int = 1) -> None:
        self.slots = _slots_for(self.size + keys)
        if self.size:  # an empty vocabulary compiles no kernel
            everything = np.ones(self.size, dtype=np.bool_)
            self._enter(self.size, np.zeros(3, dtype=np.int64), everything, self.slots)


def _slots_for(keys: int) -> Hashes:
    return empty_slots(max(64, int(1.5 * keys / _MAX_LOAD)))


_NO_SLOTS, _NO_FLAGS = np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.bool_)
_NO_ROWS = np.zeros(0, dtype=np.int64)
