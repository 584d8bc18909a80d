"""The store of models that are not active: one long array of words, with a block for each model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from streamnb.kernels.array_types import Ints
from streamnb.kernels.growable_arrays import roomier
from streamnb.models.tenants.eviction_kernels import WORDS, TenantBuffers, words_of

Memory = Callable[[int], Ints]
"""Allocator of n zeroed words, in memory or in a mapped file."""
_STEP = 64  # words: capacities are multiples of it, so that a block can grow in place


def in_memory(n: int) -> Ints:
    """Return n zeroed words."""
    return np.zeros(n, dtype=np.int64)


class ColdStore:
    """Blocks of words by number, of any length.

    A block that outgrows its capacity moves to the end. Abandoned capacity is at most half of the array.

    Args:
        memory: allocator of the array.

    Attributes:
        memory: the allocator, also for larger arrays.
        words: the array.
        at: int64[n], offset of the block of each number, or -1.
    """

    def __init__(self, memory: Memory = in_memory) -> None:
        self.memory = memory
        self.words: TenantBuffers = words_of(memory(1 << 16))
        self.at = np.full(16, -1, dtype=np.int64)
        self._room = np.zeros(16, dtype=np.int64)
        self._end = self._left = 0  # words in use, including `_left` abandoned ones
        self._copy: ColdStoreCopy | None = None

    @property
    def n_bytes(self) -> int:
        """Memory of all blocks, in bytes."""
        return 8 * self._end

    def count(self, n: int) -> None:
        """Reserve numbers up to n."""
        self.at = roomier(self.at, n, fill=-1)
        self._room = roomier(self._room, n)

    def place(self, numbers: Ints, sizes: Ints) -> Ints:
        """Return offsets for blocks of these sizes; their old content is lost.

        Blocks that outgrow their capacity move to the end. If the array is full and half of it is abandoned,
        it is compacted first; otherwise it grows.
        """
        self.finish_copy()
        moved = self._room[numbers] < sizes
        rooms = -(-sizes[moved] // _STEP) * _STEP
        self._left += int(self._room[numbers[moved]].sum())
        self.at[numbers[moved]], self._room[numbers[moved]] = -1, 0
        more = int(rooms.sum())
        if self._end + more >= self.words.whole.size:
            self._evict(more)
        self.at[numbers[moved]] = self._end + np.cumsum(rooms) - rooms
        self._room[numbers[moved]] = rooms
        self._end += more
        return self.at[numbers]

    def _evict(self, more: int) -> None:
        live = self._end - self._left
        if 2 * self._left < self._end:
            larger = self.memory(max(self._end + more + 1, self._end * 3 // 2))
            larger[: self._end] = self.words.whole[: self._end]
            self.words = words_of(larger)
            return
        moved = ColdStoreCopy(self.words.whole, self.at, self.memory, self._room, 2 * live + more + 1)
        moved.finish()
        self.words = words_of(moved.runs)
        self.at = np.where(self._room > 0, moved.ends[:-1], -1)
        self._end, self._left = int(moved.ends[-1]), 0

    def write(self, number: int, run: Ints) -> None:
        """Store the block of a number."""
        (place,) = self.place(np.array([number]), np.array([run.size])).tolist()
        self.words.whole[place : place + run.size] = run

    def load(self, runs: Ints, ends: Ints) -> None:
        """Store contiguous blocks that end at `ends`, int64[n + 1], in an empty store."""
        self.count(ends.size - 1)
        sizes = np.diff(ends)
        some = np.flatnonzero(sizes)
        for number, place in zip(some.tolist(), self.place(some, sizes[some]).tolist(), strict=True):
            run = runs[ends[number] : ends[number + 1]]
            self.words.whole[place : place + run.size] = run

    def copying(self, n: int) -> ColdStoreCopy:
        """Begin to copy the first n blocks as they are now."""
        self.finish_copy()
        self._copy = ColdStoreCopy(self.words.whole, self.at[:n].copy(), self.memory)
        return self._copy

    def finish_copy(self) -> None:
        """Finish a copy, before blocks change."""
        if self._copy is not None:
            self._copy.finish()
            self._copy = None


class ColdStoreCopy:
    """A copy of contiguous blocks, made in slices.

    Attributes:
        runs: int64, all blocks.
        ends: int64[n + 1], end of each block; a missing block takes no words.
    """

    def __init__(
        self, words: Ints, at: Ints, memory: Memory, rooms: Ints | None = None, n: int | None = None
    ) -> None:
        """Copy blocks without spare capacity; with `rooms`, copy whole capacities, to memory of n words."""
        self._words, self._at, self._next = words, at.tolist(), 0
        self.ends = np.zeros(at.size + 1, dtype=np.int64)
        np.cumsum(np.where(at >= 0, words[at + WORDS], 0) if rooms is None else rooms, out=self.ends[1:])
        self.runs = memory(int(self.ends[-1]) if n is None else n)

    def advance(self, n_bytes: int) -> bool:
        """Copy about `n_bytes` more; return whether the copy is complete."""
        stop = self.ends[self._next] + n_bytes // 8
        while self._next < len(self._at) and self.ends[self._next] <= stop:
            begin, end = self.ends[self._next : self._next + 2].tolist()
            place = self._at[self._next]
            self.runs[begin:end] = self._words[place : place + end - begin]
            self._next += 1
        return self._next == len(self._at)

    def finish(self) -> None:
        """Copy the remainder."""
        self.advance(8 * int(self.ends[-1]) + 8)
