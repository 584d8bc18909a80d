"""The journal as a history: its records in order, one of them by its number, and which of them count.

A rollback takes up the state of an earlier record again. What was processed in between counts no more, so the
state at a record is made by a *path* through the journal: the records up to the rollback's target, then the
rollback and what follows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from streamnb.engine.ports import Log, Partition
from streamnb.wire.journal import JournalRecord, decode_journal

__all__ = ["Entry", "each_alive", "entries", "find", "is_on", "last", "path_to"]

_READ_AT_ONCE = 10_000


class Entry(NamedTuple):
    """A journal record and its offset in the journal's topic."""

    offset: int
    record: JournalRecord


def entries(log: Log, journal: Partition, offset: int | None = None) -> Iterator[Entry]:
    """The records from an offset on, the first kept where none is given, up to the end as it is now.

    A learner that is watched goes on writing. Raises JournalError for what is no journal record.
    """
    first, end = log.offsets(journal)
    offset = first if offset is None else offset
    while offset < end and (found := log.read(journal, offset, _READ_AT_ONCE)):
        for record in found:
            yield Entry(record.offset, decode_journal(record.value))
        offset = found[-1].offset + 1


def find(log: Log, journal: Partition, n: int) -> Entry | None:
    """Record `n`, None where it is not there: a binary search, as numbers rise with offsets."""
    low, high = log.offsets(journal)
    while low < high:
        middle = (low + high) // 2
        found = next(iter(log.read(journal, middle, 1)), None)
        record = None if found is None else decode_journal(found.value)
        if found is None or record is None or record.n > n:
            high = middle
        elif record.n == n:
            return Entry(found.offset, record)
        else:
            low = found.offset + 1
    return None


def last(log: Log, journal: Partition) -> Entry | None:
    """The last record; markers of transactions take offsets after it."""
    first, end = log.offsets(journal)
    step = 1
    while end > first:
        start = max(first, end - step)
        found = None
        offset = start
        while read := log.read(journal, offset, _READ_AT_ONCE):
            found, offset = read[-1], read[-1].offset + 1
        if found is not None:
            return Entry(found.offset, decode_journal(found.value))
        if start == first:
            break
        step *= 2
    return None


def path_to(n: int, rollbacks: Mapping[int, int]) -> list[range]:
    """The records that made the state at record `n`, rising; the first range is open below: it begins at 0.

    Args:
        n: number of a record.
        rollbacks: number of each rollback up to `n` -> the record that it takes up again.
    """
    ranges = []
    while (back := max((r for r in rollbacks if r <= n), default=None)) is not None:
        ranges.append(range(back, n + 1))
        n = rollbacks[back]
    ranges.append(range(n + 1))
    return ranges[::-1]


def is_on(path: Sequence[range], n: int) -> bool:
    """Whether a path goes through record `n`."""
    return any(n in part for part in path)


def each_alive(found: Iterator[Entry], alive: Callable[[], None]) -> Iterator[Entry]:
    """The same, with a sign of life before each."""
    for entry in found:
        alive()
        yield entry
