"""Attribute bytes -> row, exactly and in order of insertion.

An open-addressing table of 64-bit slots over an arena that holds every key's bytes one after the other. A
slot is the upper 24 bits of the hash as a tag, eight bits of the group, and the row + 1. A tag only saves
comparisons: bytes decide, so two keys never share a row. The group is in the slot so that nobody has to look
it up elsewhere; `_BESIDE` stands for a larger one, and for that of a stopped row. No view of an array may
outlive the call that made it: it may move as it grows.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from streamnb.model.growing import empty_slots, grown, with_room
from streamnb.model.jit import inlined, kernel
from streamnb.model.memory import load8, prefetch, store8
from streamnb.model.tokenizer import Tokens, hash_bytes

__all__ = ["DONE", "STOPPED", "UNKNOWN", "Vocabulary", "look_up"]

UNKNOWN, STOPPED = -1, -2  # in place of a row
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_TAG = np.uint64(40)
_GROUP = np.uint64(8)
_BESIDE = 255  # the group is in `groups` alone
_ONE = np.uint64(1)
DONE = -1
"""In place of the next token."""
_MAX_LOAD = 0.75
_NEAR = 1 << 15  # slots that the caches hold


@inlined
def place_of(mixed: Any, slots: Any) -> Any:
    """Where the chain of a hash begins: its lower half, scaled to the number of slots."""
    return np.int64((mixed & _LOW) * np.uint64(slots.size) >> _HALF)


@inlined
def _equal(a: Any, begin: int, b: Any, start: int, length: int) -> bool:
    """Whether two runs of bytes are equal; both arrays have eight bytes to spare behind them."""
    i = 0
    while i + 8 <= length:
        if load8(a, begin + i) != load8(b, start + i):
            return False
        i += 8
    rest = (_ONE << np.uint64(8 * (length - i))) - _ONE
    return bool((load8(a, begin + i) ^ load8(b, start + i)) & rest == 0)


@inlined
def _head(mixed: Any, group: Any) -> Any:
    """The upper half of the slot of a key: its tag, and its group where eight bits hold it."""
    return mixed >> _TAG << _GROUP | np.uint64(group if 0 <= group < _BESIDE else _BESIDE)


@inlined
def _find(
    buffer: Any,
    start: int,
    stop: int,
    mixed: Any,
    group: Any,
    slots: Any,
    arena: Any,
    ends: Any,
    groups: Any,
) -> Any:
    """(Row of a key, STOPPED or UNKNOWN; place of its slot, or of the free one that ends its chain)."""
    head, beside = _head(mixed, group), _head(mixed, _BESIDE)
    place = place_of(mixed, slots)
    while True:
        slot = slots[place]
        if slot == 0:
            return np.int64(UNKNOWN), place
        found = slot >> _HALF
        if found == head or found == beside:  # noqa: PLR1714, SIM109  two comparisons, and no tuple
            row = np.int64(slot & _LOW) - 1
            owner = np.int64(groups[row] if found == beside else group)
            begin = ends[row]
            if (
                (owner if owner >= 0 else ~owner) == group
                and ends[row + 1] - begin == stop - start
                and _equal(arena, begin, buffer, start, stop - start)
            ):
                return (row if owner >= 0 else np.int64(STOPPED)), place
        place = place + 1 if place + 1 < slots.size else 0


@inlined
def _likely(mixed: Any, slots: Any) -> Any:
    """The row of the first slot in the chain of a hash that has its tag, or UNKNOWN: bytes have to decide."""
    place = place_of(mixed, slots)
    slot = slots[place]
    while slot != 0 and slot >> _TAG != mixed >> _TAG:
        place = place + 1 if place + 1 < slots.size else 0
        slot = slots[place]
    return np.int64(slot & _LOW) - 1


@inlined
def _fetch_ahead(first: int, token: int, hashes: Any, slots: Any, arena: Any, ends: Any, rows: Any) -> None:
    """Bring what tokens further on will ask for into the cache, step by step: slot, row, bytes.

    Each step needs what the one before it fetched; so that the steps of many tokens wait for memory together.
    Leaves the likely row of each token from `first` on in `rows`, until the token's turn comes.
    """
    if token + 48 < hashes.size:
        prefetch(slots, place_of(hashes[token + 48], slots))
    ahead = token + 32
    if first <= ahead < hashes.size:
        rows[ahead] = _likely(hashes[ahead], slots)
        if rows[ahead] >= 0:
            prefetch(ends, np.int64(rows[ahead]))
    ahead = token + 16
    if first <= ahead < hashes.size and rows[ahead] >= 0:
        prefetch(arena, ends[rows[ahead]])


@kernel
def look_up(
    first: int,
    buffer: Any,
    token_ends: Any,
    hashes: Any,
    item_tokens: Any,
    item_group: Any,
    item_adds: Any,
    size: int,
    slots: Any,
    arena: Any,
    ends: Any,
    groups: Any,
    rows: Any,
) -> tuple[int, int]:
    """Rows of the tokens from `first` on; (next token or DONE, size). Stops where an array is full."""
    item = np.searchsorted(item_tokens, first, side="right") - 1
    limit = np.int64(slots.size * _MAX_LOAD)
    is_far = slots.size > _NEAR
    for token in range(first - 48 if is_far else first, token_ends.size):
        if is_far:
            _fetch_ahead(first, token, hashes, slots, arena, ends, rows)
            if token < first:
                continue
        while token >= item_tokens[item + 1]:
            item += 1
        start = token_ends[token - 1] if token > 0 else 0
        stop = token_ends[token]
        group = np.int64(item_group[item])
        row, place = _find(buffer, start, stop, hashes[token], group, slots, arena, ends, groups)
        if row == UNKNOWN and item_adds[item]:
            begin = ends[size]
            if size + 1 >= ends.size or begin + stop - start + 8 > arena.size or size >= limit:
                return token, size
            for i in range(0, stop - start, 8):
                store8(arena, begin + i, load8(buffer, start + i))
            ends[size + 1] = begin + stop - start
            groups[size] = group
            slots[place] = _head(hashes[token], group) << _HALF | np.uint64(size + 1)
            row = np.int64(size)
            size += 1
        rows[token] = row
    return DONE, size


@kernel
def _fill_slots(size: int, slots: Any, arena: Any, ends: Any, groups: Any) -> None:
    """Enter the first `size` rows into empty `slots`."""
    for row in range(size):
        group = groups[row] if groups[row] >= 0 else ~groups[row]
        mixed = hash_bytes(arena, ends[row], ends[row + 1], group)
        place = place_of(mixed, slots)
        while slots[place] != 0:
            place = place + 1 if place + 1 < slots.size else 0
        slots[place] = _head(mixed, groups[row]) << _HALF | np.uint64(row + 1)


class Vocabulary:
    """Keys of attributes and their rows.

    A key is a group (a text attribute, or one nominal field) with bytes (a token, or a value). A *stopped*
    row keeps its key and is never found again: its group is stored as its complement.

    Attributes:
        size: how many rows there are, stopped ones included.
        arena: uint8, the bytes of all keys in the order of their rows, and at least eight more.
        ends: int64[>= size + 1], row r's bytes are ``arena[ends[r]:ends[r + 1]]``.
        groups: int32[>= size], the group of each row, or its complement where the row is stopped.
        slots: uint64, the open-addressing table; never in a state.
    """

    def __init__(self) -> None:
        self.size = 0
        self.arena = np.zeros(256, dtype=np.uint8)
        self.ends = np.zeros(33, dtype=np.int64)
        self.groups = np.zeros(32, dtype=np.int32)
        self.slots = np.zeros(64, dtype=np.uint64)

    def rows(
        self, tokens: Tokens, item_group: npt.NDArray[np.int32], item_adds: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.int32]:
        """The row of each token, UNKNOWN or STOPPED; unknown tokens of items that add get a new row.

        Shape (number of tokens,).
        """
        rows = np.empty(tokens.ends.size, dtype=np.int32)
        token = 0
        while token != DONE:
            token, self.size = look_up(
                token,
                tokens.bytes,
                tokens.ends,
                tokens.hashes,
                tokens.item_tokens,
                item_group,
                item_adds,
                self.size,
                self.slots,
                self.arena,
                self.ends,
                self.groups,
                rows,
            )
            if token != DONE:
                start = int(tokens.ends[token - 1]) if token else 0
                self._grow(int(tokens.ends[token]) - start)
        return rows

    def adopt(self, other: Vocabulary, group: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Add the keys of `other`, whose group g is ``group[g]`` here; each key's row here."""
        owners = other.groups[: other.size]
        owners = group[np.where(owners < 0, ~owners, owners)] if other.size else owners
        everything = np.ones(other.size, dtype=np.bool_)
        return self.rows(Tokens(other.keys(), everything, owners), owners, everything)

    def stopped(self) -> set[tuple[int, bytes]]:
        """(group, key) of every stopped row."""
        rows = np.flatnonzero(self.groups[: self.size] < 0)
        return {(int(~self.groups[row]), self.key(row)) for row in rows}

    def stop(self, rows: npt.NDArray[Any]) -> None:
        """Let these rows never be found again."""
        self.groups[rows] = ~self.groups[rows]
        self._rehash()

    def key(self, row: int | np.integer[Any]) -> bytes:
        """The bytes of one row."""
        return self.arena[self.ends[row] : self.ends[row + 1]].tobytes()

    def keys(self) -> list[bytes]:
        """The bytes of every row, in order."""
        arena = self.arena[: self.ends[self.size]].tobytes()
        ends = self.ends[: self.size + 1].tolist()
        return [arena[start:stop] for start, stop in pairwise(ends)]

    @classmethod
    def from_state(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Vocabulary:
        """The vocabulary of a state; the slots are made anew."""
        vocabulary = cls()
        vocabulary.size = arrays["groups"].size
        vocabulary.arena = np.zeros(arrays["arena"].size + 8, dtype=np.uint8)
        vocabulary.arena[:-8] = arrays["arena"]
        vocabulary.ends = np.array(arrays["ends"], dtype=np.int64)
        vocabulary.groups = np.array(arrays["groups"], dtype=np.int32)
        vocabulary._rehash()
        return vocabulary

    def select(self, rows: npt.NDArray[np.int64]) -> Vocabulary:
        """A vocabulary of these rows only, in the order given."""
        lengths = np.diff(self.ends[: self.size + 1])[rows]
        ends = np.zeros(rows.size + 1, dtype=np.int64)
        np.cumsum(lengths, out=ends[1:])
        # Byte b of the new arena comes from its row's old start plus its offset within the row.
        shift = np.repeat(self.ends[rows] - ends[:-1], lengths)
        arena = self.arena[np.arange(ends[-1], dtype=np.int64) + shift]
        return self.from_state({"arena": arena, "ends": ends, "groups": self.groups[rows]})

    def _grow(self, length: int) -> None:
        """Room for one more key of `length` bytes."""
        if self.ends[self.size] + length + 8 > self.arena.size:
            self.arena = grown(self.arena, (with_room(self.arena.size) + length,))
        if self.size + 2 > self.ends.size:
            self.groups = grown(self.groups, (with_room(self.size),))
            self.ends = grown(self.ends, (self.groups.size + 1,))
        if self.size + 1 > int(self.slots.size * _MAX_LOAD):
            self._rehash()

    def _rehash(self) -> None:
        """Half as many slots again as these rows need, filled from the rows.

        The old ones go first, so that the two are never held at once.
        """
        self.slots = np.zeros(0, dtype=np.uint64)
        self.slots = empty_slots(max(64, int(1.5 * (self.size + 1) / _MAX_LOAD)))
        _fill_slots(self.size, self.slots, self.arena, self.ends, self.groups)
