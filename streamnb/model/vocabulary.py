"""Attribute bytes -> row, exactly and in order of insertion.

An open-addressing table of 64-bit slots (the upper half of the hash as a tag, the row + 1 below it) over an
arena that holds every key's bytes one after the other. A tag only saves comparisons: bytes decide, so two
keys never share a row. Arrays grow by `numpy.ndarray.resize`, which reallocates in place where the system
can (large blocks on Linux are remapped, not copied); no view of them may outlive the call that made it.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from streamnb.model.jit import inlined, kernel
from streamnb.model.memory import load8, prefetch, store8
from streamnb.model.tokenizer import Tokens, hash_bytes

__all__ = ["DONE", "STOPPED", "UNKNOWN", "Vocabulary", "grown", "look_up", "with_room"]

UNKNOWN, STOPPED = -1, -2  # in place of a row
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
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
def _find(
    buffer: Any,
    start: int,
    stop: int,
    mixed: Any,
    group: int,
    slots: Any,
    arena: Any,
    ends: Any,
    groups: Any,
) -> Any:
    """The row of a key, or -1 - (the free slot that ends its chain)."""
    tag = mixed >> _HALF
    place = place_of(mixed, slots)
    while True:
        slot = slots[place]
        if slot == 0:
            return -1 - place
        if slot >> _HALF == tag:
            row = np.int64(slot & _LOW) - 1
            owner = groups[row]
            begin = ends[row]
            if (
                (owner if owner >= 0 else ~owner) == group
                and ends[row + 1] - begin == stop - start
                and _equal(arena, begin, buffer, start, stop - start)
            ):
                return row
        place = place + 1 if place + 1 < slots.size else 0


@inlined
def _fetch_ahead(token: int, hashes: Any, slots: Any, arena: Any, ends: Any, groups: Any) -> None:
    """Bring what tokens further on will ask for into the cache, step by step: slot, row, bytes.

    Each step needs what the one before it fetched; so that the steps of many tokens wait for memory together.
    A slot may be of another key: what is fetched for it is not used.
    """
    last = hashes.size - 1
    prefetch(slots, place_of(hashes[min(token + 48, last)], slots))
    slot = slots[place_of(hashes[min(token + 32, last)], slots)]
    if slot != 0:
        row = np.int64(slot & _LOW) - 1
        prefetch(ends, row)
        prefetch(groups, row)
    slot = slots[place_of(hashes[min(token + 16, last)], slots)]
    if slot != 0:
        prefetch(arena, ends[np.int64(slot & _LOW) - 1])


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
    for token in range(first, token_ends.size):
        if is_far:
            _fetch_ahead(token, hashes, slots, arena, ends, groups)
        while token >= item_tokens[item + 1]:
            item += 1
        start = token_ends[token - 1] if token > 0 else 0
        stop = token_ends[token]
        found = _find(buffer, start, stop, hashes[token], item_group[item], slots, arena, ends, groups)
        if found < 0 and item_adds[item]:
            begin = ends[size]
            if size + 1 >= ends.size or begin + stop - start + 8 > arena.size or size >= limit:
                return token, size
            for i in range(0, stop - start, 8):
                store8(arena, begin + i, load8(buffer, start + i))
            ends[size + 1] = begin + stop - start
            groups[size] = item_group[item]
            slots[-1 - found] = (hashes[token] >> _HALF) << _HALF | np.uint64(size + 1)
            rows[token] = size
            size += 1
        elif found < 0:
            rows[token] = UNKNOWN
        else:
            rows[token] = found if groups[found] >= 0 else STOPPED
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
        slots[place] = (mixed >> _HALF) << _HALF | np.uint64(row + 1)


def with_room(rows: int) -> int:
    """So many rows and as many again, or an eighth of many: large memory is remapped, not copied."""
    return rows + max(rows // 8, min(rows, 8192)) + 32


def grown(array: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """The array with zeros after its last element, in place where it owns its memory.

    An unpickled array may not. No view of it may be alive: its memory moves.
    """
    if not array.flags.owndata:
        array = array.copy()
    array.resize(shape, refcheck=False)
    return array


def _empty_slots(count: int) -> npt.NDArray[np.uint64]:
    """Memory of the system where they are many: what `malloc` gets back, it takes for what grows later.

    That would not be remapped but copied when it grows, and be held twice.
    """
    if count < _NEAR:
        return np.zeros(count, dtype=np.uint64)
    memory = mmap.mmap(-1, 8 * count)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without large pages
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype=np.uint64)


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
        self.slots = _empty_slots(max(64, int(1.5 * (self.size + 1) / _MAX_LOAD)))
        _fill_slots(self.size, self.slots, self.arena, self.ends, self.groups)
