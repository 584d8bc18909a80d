"""History of the journal: records in order, a record by number, and the records that count.

A rollback restores the state of an earlier record, and the records in between no longer count. So the state
at a record is made by a *path* through the journal: the records up to the rollback's target, then the
rollback and what follows it.

Other programs may write to the journal topic. docs/adr/0003 defines which *foreign records* are skipped, and
which stop a reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from streamnb.engine.ports import Log, Partition, between
from streamnb.errors import ForeignRecordError, JournalError
from streamnb.formats.journal_record import JournalRecord, decode_journal

_STRAYS_SHOWN = 5  # foreign records described in a message
_OFFSETS_SHOWN = 100
_READ_AT_ONCE = 10_000
_LOOK_BACK = 100  # offsets, in the search for the last record


class ForeignRecord(NamedTuple):
    """Offset and description of a record in the journal topic that another program wrote."""

    offset: int
    what: str


class JournalEntry(NamedTuple):
    """A journal record, its offset, and the foreign records between its predecessor and it."""

    offset: int
    record: JournalRecord
    strays: tuple[ForeignRecord, ...] = ()


Decoded = tuple[int, JournalRecord | JournalError]


def decoded(
    log: Log, journal: Partition, offset: int, end: int, at_once: int = _READ_AT_ONCE
) -> Iterator[Decoded]:
    """Yield offset and record, or the error of its decoding, for an offset range."""
    for record in between(log, journal, offset, end, at_once):
        try:
            yield record.offset, decode_journal(record.value)
        except JournalError as error:
            yield record.offset, error


def entries(
    log: Log, journal: Partition, offset: int | None = None, passing: frozenset[int] = frozenset()
) -> Iterator[JournalEntry]:
    """Yield the records from an offset (default: the first kept) up to the current end.

    A foreign record is skipped if the next record follows its predecessor, and the bytes are not a journal
    record's or the journal lists its offset. `passing` are offsets of further records to skip.

    Raises JournalError if a record does not follow or cannot be read, or if nothing follows a foreign record,
    which may then be the journal's last record, damaged. Foreign records before the first record are
    harmless.
    """
    first, end = log.offsets(journal)
    before: JournalRecord | None = None
    strays: list[ForeignRecord] = []
    listed: frozenset[int] | None = None
    for at, record in decoded(log, journal, first if offset is None else offset, end):
        fault = _fault(before, record)
        if fault is None:
            assert isinstance(record, JournalRecord)  # noqa: S101  implied by no fault
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
    """Return the offsets that the journal lists as foreign."""
    found = decoded(log, journal, *log.offsets(journal))
    return frozenset(at for _, record in found if isinstance(record, JournalRecord) for at in record.strays)


def _fault(before: JournalRecord | None, record: JournalRecord | JournalError) -> str | None:
    """Return why a record is not the next of the chain, or None."""
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
    strays_before = _describe_foreign_records(strays, "before it, at")
    said = "; ".join([f"{journal} offset {offset}: {fault}", *strays_before])
    if before is not None and isinstance(record, JournalRecord) and record.n <= before.n:
        return f"{said}; if it is a copy, or another model's: `streamnb journal skip {offset}`"
    return f"{said}; bring the journal back as it was, or begin a new log"


def _unfollowed(journal: Partition, strays: Sequence[ForeignRecord], n: int) -> str:
    what = "; ".join(_describe_foreign_records(strays, str(journal)))
    offsets = " ".join(str(stray.offset) for stray in strays)
    if len(strays) > _OFFSETS_SHOWN:  # only foreign records follow the journal's last record
        offsets = f"{strays[0].offset}-{strays[-1].offset}"
    return (
        f"after journal record {n}, {what}; if another program wrote that (else record {n + 1} is damaged): "
        f"`streamnb journal skip {offsets}`"
    )


def _describe_foreign_records(strays: Sequence[ForeignRecord], where: str) -> list[str]:
    """Describe the first foreign records, and count the rest."""
    shown = [f"{where} offset {stray.offset}: {stray.what}" for stray in strays[:_STRAYS_SHOWN]]
    more = len(strays) - _STRAYS_SHOWN
    return [*shown, f"and {more:,} more, up to offset {strays[-1].offset}"] if more > 0 else shown


def find(log: Log, journal: Partition, n: int) -> JournalEntry | None:
    """Return record `n` by binary search, None if it is missing.

    All records are read if a numbered foreign record misled the search; raises JournalError as `entries`
    then.
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
    """Return the last record; foreign records and transaction markers may follow it."""
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
    """Return the first readable record of an offset range."""
    for at, record in decoded(log, journal, offset, end, 1):
        if isinstance(record, JournalRecord):
            return JournalEntry(at, record)
    return None


def path_to(n: int, rollbacks: Mapping[int, int]) -> list[range]:
    """Return the records that made the state at record `n`, ascending; the first range starts at 0.

    Args:
        n: number of a record.
        rollbacks: number of each rollback up to `n` -> its target record.
    """
    ranges = []
    while (back := max((r for r in rollbacks if r <= n), default=None)) is not None:
        ranges.append(range(back, n + 1))
        n = rollbacks[back]
    ranges.append(range(n + 1))
    return ranges[::-1]


def is_on(path: Sequence[range], n: int) -> bool:
    """Return if a path includes record `n`."""
    return any(n in part for part in path)


def with_heartbeat(found: Iterator[JournalEntry], heartbeat: Callable[[], None]) -> Iterator[JournalEntry]:
    """Yield the entries, and call `heartbeat` before each."""
    for entry in found:
        heartbeat()
        yield entry
