"""Attribute bytes -> row, exactly and in order of insertion.

An open-addressing table of 64-bit slots (the upper half of the hash as a tag, the row + 1 below it) over an
arena that holds every key's bytes one after the other. A tag only saves comparisons: bytes decide, so two
keys never share a row. Arrays grow by `numpy.ndarray.resize`, which reallocates in place where the system
can (large blocks on Linux are remapped, not copied); no view of them may outlive the call that made it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from streamnb.model.jit import kernel
from streamnb.model.tokenizer import Tokens, hash_bytes

__all__ = ["STOPPED", "UNKNOWN", "Vocabulary", "grown"]

UNKNOWN, STOPPED = -1, -2  # in place of a row
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_DONE = -1
_MAX_LOAD = 0.6


@kernel
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
    mask = np.uint64(slots.size - 1)
    tag = mixed >> _HALF
    place = mixed & mask
    while True:
        slot = slots[place]
        if slot == 0:
            return -1 - np.int64(place)
        if slot >> _HALF == tag:
            row = np.int64(slot & _LOW) - 1
            owner = groups[row]
            begin = ends[row]
            if (owner if owner >= 0 else ~owner) == group and ends[row + 1] - begin == stop - start:
                same = True
                for i in range(stop - start):
                    if arena[begin + i] != buffer[start + i]:
                        same = False
                        break
                if same:
                    return row
        place = (place + np.uint64(1)) & mask


@kernel
def _look_up(
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
    """Rows of the tokens from `first` on; (next token or _DONE, size). Stops where an array is full."""
    item = np.searchsorted(item_tokens, first, side="right") - 1
    limit = np.int64(slots.size * _MAX_LOAD)
    for token in range(first, token_ends.size):
        while token >= item_tokens[item + 1]:
            item += 1
        start = token_ends[token - 1] if token > 0 else 0
        stop = token_ends[token]
        found = _find(buffer, start, stop, hashes[token], item_group[item], slots, arena, ends, groups)
        if found < 0 and item_adds[item]:
            begin = ends[size]
            if size + 1 >= ends.size or begin + stop - start > arena.size or size >= limit:
                return token, size
            for i in range(stop - start):
                arena[begin + i] = buffer[start + i]
            ends[size + 1] = begin + stop - start
            groups[size] = item_group[item]
            slots[-1 - found] = (hashes[token] >> _HALF) << _HALF | np.uint64(size + 1)
            rows[token] = size
            size += 1
        elif found < 0:
            rows[token] = UNKNOWN
        else:
            rows[token] = found if groups[found] >= 0 else STOPPED
    return _DONE, size


@kernel
def _fill_slots(size: int, slots: Any, arena: Any, ends: Any, groups: Any) -> None:
    """Enter the first `size` rows into empty `slots`."""
    mask = np.uint64(slots.size - 1)
    for row in range(size):
        group = groups[row] if groups[row] >= 0 else ~groups[row]
        mixed = hash_bytes(arena, ends[row], ends[row + 1], group)
        place = mixed & mask
        while slots[place] != 0:
            place = (place + np.uint64(1)) & mask
        slots[place] = (mixed >> _HALF) << _HALF | np.uint64(row + 1)


def grown(array: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """The array with zeros after its last element, in place where it owns its memory.

    An unpickled array may not. No view of it may be alive: its memory moves.
    """
    if not array.flags.owndata:
        array = array.copy()
    array.resize(shape, refcheck=False)
    return array


class Vocabulary:
    """Keys of attributes and their rows.

    A key is a group (a text attribute, or one nominal field) with bytes (a token, or a value). A *stopped*
    row keeps its key and is never found again: its group is stored as its complement.

    Attributes:
        size: how many rows there are, stopped ones included.
        arena: uint8, the bytes of all keys in the order of their rows.
        ends: int64[>= size + 1], row r's bytes are ``arena[ends[r]:ends[r + 1]]``.
        groups: int32[>= size], the group of each row, or its complement where the row is stopped.
    """

    def __init__(self) -> None:
        self.size = 0
        self.arena = np.zeros(256, dtype=np.uint8)
        self.ends = np.zeros(33, dtype=np.int64)
        self.groups = np.zeros(32, dtype=np.int32)
        self._slots = np.zeros(64, dtype=np.uint64)

    def rows(
        self, tokens: Tokens, item_group: npt.NDArray[np.int32], item_adds: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.int32]:
        """The row of each token, UNKNOWN or STOPPED; unknown tokens of items that add get a new row.

        Shape (number of tokens,).
        """
        rows = np.empty(tokens.ends.size, dtype=np.int32)
        token = 0
        while token != _DONE:
            token, self.size = _look_up(
                token,
                tokens.bytes,
                tokens.ends,
                tokens.hashes,
                tokens.item_tokens,
                item_group,
                item_adds,
                self.size,
                self._slots,
                self.arena,
                self.ends,
                self.groups,
                rows,
            )
            if token != _DONE:
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
        vocabulary.arena = np.array(arrays["arena"], dtype=np.uint8)
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
        if self.ends[self.size] + length > self.arena.size:
            self.arena = grown(self.arena, (self.arena.size + self.arena.size // 2 + length,))
        if self.size + 2 > self.ends.size:
            self.groups = grown(self.groups, (self.size + self.size // 2 + 32,))
            self.ends = grown(self.ends, (self.groups.size + 1,))
        if self.size + 1 > int(self._slots.size * _MAX_LOAD):
            self._rehash()

    def _rehash(self) -> None:
        """Slots of the next power of two that leaves room, filled from the rows."""
        need = int((self.size + 1) / _MAX_LOAD) + 1
        self._slots = np.zeros(max(64, 1 << need.bit_length()), dtype=np.uint64)
        _fill_slots(self.size, self._slots, self.arena, self.ends, self.groups)
