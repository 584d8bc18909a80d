"""The journal as a history: its records in order, one of them by its number, and which of them count.

A rollback takes up the state of an earlier record again. What was processed in between counts no more, so the
state at a record is made by a *path* through the journal: the records up to the rollback's target, then the
rollback and what follows it.

Whoever may write to the journal's topic may leave *strays* there, records that are none of the chain's. Which
of them are passed over, and which stop a reader, is in docs/adr/0003.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from streamnb.engine.ports import Log, Partition, between
from streamnb.errors import ForeignRecordError, JournalError
from streamnb.formats.journal_record import JournalRecord, decode_journal

_STRAYS_TOLD = 5  # with what they are, in a message
_OFFSETS_TOLD = 100
_READ_AT_ONCE = 10_000
_LOOK_BACK = 100  # offsets, in search of the last record


class ForeignRecord(NamedTuple):
    """A record of the journal's topic that is none of the journal's: its offset, and what it is."""

    offset: int
    what: str


class JournalEntry(NamedTuple):
    """A journal record, its offset in the journal's topic, and the strays between the one before and it."""

    offset: int
    record: JournalRecord
    strays: tuple[ForeignRecord, ...] = ()


Decoded = tuple[int, JournalRecord | JournalError]


def decoded(
    log: Log, journal: Partition, offset: int, end: int, at_once: int = _READ_AT_ONCE
) -> Iterator[Decoded]:
    """Each offset and its record, or why it is none, from an offset up to another."""
    for record in between(log, journal, offset, end, at_once):
        try:
            yield record.offset, decode_journal(record.value)
        except JournalError as error:
            yield record.offset, error


def entries(
    log: Log, journal: Partition, offset: int | None = None, passing: frozenset[int] = frozenset()
) -> Iterator[JournalEntry]:
    """The records from an offset on, the first kept where none is given, up to the end as it is now.

    A learner that is watched goes on writing. Strays are passed over where the next record follows the one
    before them, and they are bytes that no learner writes, or the journal lists them. `passing` are offsets
    of others to be passed over.

    Raises JournalError where a record does not follow, cannot be read, or nothing follows a stray, which may
    then be the journal's last record, damaged. Strays before the first record of all hide nothing.
    """
    first, end = log.offsets(journal)
    before: JournalRecord | None = None
    strays: list[ForeignRecord] = []
    listed: frozenset[int] | None = None
    for at, record in decoded(log, journal, first if offset is None else offset, end):
        fault = _fault(before, record)
        if fault is None:
            assert isinstance(record, JournalRecord)  # noqa: S101  else there is a fault
            yield JournalEntry(at, record, tuple(strays))
            before, strays = record, []
            continue
        if not isinstance(record, ForeignRecordError) and at not in passing:
            listed = list_foreign_records(log, journal) if listed is None else listed
            if at not in listed:
                raise JournalError(_refused(journal, at, fault, before, record, strays))
        strays.append(ForeignRecord(at, fault))
    if before is not None and (left := [stray for stray in strays if stray.offset not in passing]):
        raise JournalError(_unfollowed(journal, left, before.n))


def list_foreign_records(log: Log, journal: Partition) -> frozenset[int]:
    """The offsets that the journal says are to be passed over."""
    found = decoded(log, journal, *log.offsets(journal))
    return frozenset(
        stray for _, record in found if isinstance(record, JournalRecord) for stray in record.strays
    )


def _fault(before: JournalRecord | None, record: JournalRecord | JournalError) -> str | None:
    """Why a record is not the next of the chain."""
    if isinstance(record, JournalError):
        return str(record)
    if before is not None and record.n != before.n + 1:
        return f"the journal goes from record {before.n} to {record.n}"
    if before is not None and record.previous != before.digest:
        return f"journal record {record.n} does not follow record {before.n}: digests differ"
    return None


def _refused(
    journal: Partition,
    offset: int,
    fault: str,
    before: JournalRecord | None,
    record: JournalRecord | JournalError,
    strays: Sequence[ForeignRecord],
) -> str:
    said = "; ".join(
        [f"{journal} offset {offset}: {fault}", *_describe_foreign_records(strays, "before it, at")]
    )
    if before is not None and isinstance(record, JournalRecord) and record.n <= before.n:
        return f"{said}; if it is a copy, or another model's: streamnb journal skip {offset}"
    return f"{said}; bring the journal back as it was, or begin a new log"


def _unfollowed(journal: Partition, strays: Sequence[ForeignRecord], n: int) -> str:
    what = "; ".join(_describe_foreign_records(strays, str(journal)))
    offsets = " ".join(str(stray.offset) for stray in strays)
    if len(strays) > _OFFSETS_TOLD:  # nothing but strays follows the journal's last record
        offsets = f"{strays[0].offset}-{strays[-1].offset}"
    return (
        f"after journal record {n}, {what}; if somebody else wrote that (else record {n + 1} is damaged): "
        f"streamnb journal skip {offsets}"
    )


def _describe_foreign_records(strays: Sequence[ForeignRecord], where: str) -> list[str]:
    """The first of them, and how many a message leaves out."""
    told = [f"{where} offset {stray.offset}: {stray.what}" for stray in strays[:_STRAYS_TOLD]]
    more = len(strays) - _STRAYS_TOLD
    return [*told, f"and {more:,} more, up to offset {strays[-1].offset}"] if more > 0 else told


def find(log: Log, journal: Partition, n: int) -> JournalEntry | None:
    """Record `n`, None where it is not there: a binary search, as numbers rise with offsets.

    Where a stray that bears a number has misled it, all records are read. Raises JournalError as `entries`
    does then.
    """
    first, end = low, high = log.offsets(journal)
    while low < high:
        middle = (low + high) // 2
        found = _first(log, journal, middle, high)
        if found is None or found.record.n > n:
            high = middle
        elif found.record.n < n:
            low = found.offset + 1
        else:
            after = _first(log, journal, found.offset + 1, end)
            if after is None or _fault(found.record, after.record) is None:
                return found
            break
    oldest, newest = _first(log, journal, first, end), last(log, journal)
    if oldest is None or newest is None or not oldest.record.n <= n <= newest.record.n:
        return None
    return next((entry for entry in entries(log, journal) if entry.record.n == n), None)


def last(log: Log, journal: Partition) -> JournalEntry | None:
    """The last record, which has the greatest number; strays and markers of transactions may lie after it."""
    first, end = log.offsets(journal)
    step = _LOOK_BACK
    while end > first:
        start = max(first, end - step)
        there = decoded(log, journal, start, log.offsets(journal)[1])
        found = [JournalEntry(at, record) for at, record in there if isinstance(record, JournalRecord)]
        if found:
            return max(found, key=lambda entry: entry.record.n)
        if start == first:
            break
        step *= 2
    return None


def _first(log: Log, journal: Partition, offset: int, end: int) -> JournalEntry | None:
    """The first record that can be read, of those from one offset up to another."""
    for at, record in decoded(log, journal, offset, end, 1):
        if isinstance(record, JournalRecord):
            return JournalEntry(at, record)
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


def each_alive(found: Iterator[JournalEntry], alive: Callable[[], None]) -> Iterator[JournalEntry]:
    """The same, with a sign of life before each."""
    for entry in found:
        alive()
        yield entry
