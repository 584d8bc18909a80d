"""Where the models that are not at work are kept: one long array of words, each model in a run of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from streamnb.kernels.array_types import Ints
from streamnb.kernels.growable_arrays import roomier
from streamnb.models.tenants.eviction_kernels import WORDS, TenantBuffers, words_of

Memory = Callable[[int], Ints]
"""What makes an array of so many words, all zero: in memory, or in a file that is mapped."""
_STEP = 64  # words: a run has room for a multiple of it, so that it may grow where it is


def in_memory(n: int) -> Ints:
    """An array of so many words, all zero."""
    return np.zeros(n, dtype=np.int64)


class ColdStore:
    """Runs of words by number, of any length.

    A run that has outgrown its place goes behind the others; what such places take is less than all else.

    Args:
        memory: what makes its array.

    Attributes:
        memory: as given; what it makes larger arrays by.
        words: all of it.
        at: int64[n], where the run of each number begins; -1: there is none.
    """

    def __init__(self, memory: Memory = in_memory) -> None:
        self.memory = memory
        self.words: TenantBuffers = words_of(memory(1 << 16))
        self.at = np.full(16, -1, dtype=np.int64)
        self._room = np.zeros(16, dtype=np.int64)
        self._end = self._left = 0  # words in use, and of these in places that were left
        self._copy: ColdStoreCopy | None = None

    @property
    def n_bytes(self) -> int:
        """Of all places."""
        return 8 * self._end

    def count(self, n: int) -> None:
        """Let there be numbers up to n."""
        self.at = roomier(self.at, n, fill=-1)
        self._room = roomier(self._room, n)

    def place(self, numbers: Ints, sizes: Ints) -> Ints:
        """Where to write runs of so many words; what was there of them is lost.

        Those that have outgrown their places go behind all others. Where that would take a larger array, and
        half of this one has been left, all are moved together first.
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
        """Let this be the run of a number."""
        (place,) = self.place(np.array([number]), np.array([run.size])).tolist()
        self.words.whole[place : place + run.size] = run

    def load(self, runs: Ints, ends: Ints) -> None:
        """Take over runs that stand one after the other, and end at `ends`, int64[n + 1]; nothing is here."""
        self.count(ends.size - 1)
        sizes = np.diff(ends)
        some = np.flatnonzero(sizes)
        for number, place in zip(some.tolist(), self.place(some, sizes[some]).tolist(), strict=True):
            run = runs[ends[number] : ends[number + 1]]
            self.words.whole[place : place + run.size] = run

    def copying(self, n: int) -> ColdStoreCopy:
        """The first n runs as they are now, to be copied before they change."""
        self.finish_copy()
        self._copy = ColdStoreCopy(self.words.whole, self.at[:n].copy(), self.memory)
        return self._copy

    def finish_copy(self) -> None:
        """Say that runs are about to change: first a copy is finished."""
        if self._copy is not None:
            self._copy.finish()
            self._copy = None


class ColdStoreCopy:
    """Runs one after the other, copied a few at a time.

    Attributes:
        runs: int64, all of them.
        ends: int64[n + 1], where each ends; one that is not there takes no words.
    """

    def __init__(
        self, words: Ints, at: Ints, memory: Memory, rooms: Ints | None = None, n: int | None = None
    ) -> None:
        """Where `rooms` are given they are copied whole, to memory of n words."""
        self._words, self._at, self._next = words, at.tolist(), 0
        self.ends = np.zeros(at.size + 1, dtype=np.int64)
        np.cumsum(np.where(at >= 0, words[at + WORDS], 0) if rooms is None else rooms, out=self.ends[1:])
        self.runs = memory(int(self.ends[-1]) if n is None else n)

    def advance(self, n_bytes: int) -> bool:
        """Copy about so many bytes more; whether that is all."""
        stop = self.ends[self._next] + n_bytes // 8
        while self._next < len(self._at) and self.ends[self._next] <= stop:
            begin, end = self.ends[self._next : self._next + 2].tolist()
            place = self._at[self._next]
            self.runs[begin:end] = self._words[place : place + end - begin]
            self._next += 1
        return self._next == len(self._at)

    def finish(self) -> None:
        """Copy what is left."""
        self.advance(8 * int(self.ends[-1]) + 8)
