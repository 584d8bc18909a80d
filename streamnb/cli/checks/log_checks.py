"""Checks of the log: a recovery must find all it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from streamnb.cli.checks.diagnostics import Diagnosis, Severity
from streamnb.engine.journal.journal_history import ForeignRecord
from streamnb.engine.journal.recovery_faults import RecoveryFault, events_needed, journal_fault
from streamnb.engine.ports import Log, Partition
from streamnb.formats.journal_record import JournalRecord
from streamnb.persistence.snapshot_folder import Damaged

_SOON = 24 * 3600.0  # seconds; a warning must leave a day to react


class JournalExtent(NamedTuple):
    """Offsets of one partition that matter to a recovery.

    Attributes:
        position: offset of the first record that the recovery reads.
        earliest: the earliest retained offset.
        end: offset of the next record to be written.
        written: timestamp of the record at `position`; None if it does not exist.
    """

    partition: Partition
    position: int
    earliest: int
    end: int
    written: float | None


def check_strays(strays: Sequence[ForeignRecord]) -> Iterator[Diagnosis]:
    """Warn about foreign records in the journal topic."""
    if strays:
        yield Diagnosis(
            "journal",
            Severity.WARNING,
            f"{len(strays)} records of its topic are passed over, the last at offset {strays[-1].offset}: "
            f"{strays[-1].what}",
            "allow only the learner to write to it: `streamnb topics plan` lists the ACLs",
        )


def check_snapshots(damaged: Sequence[Damaged]) -> Iterator[Diagnosis]:
    """Warn about unreadable files that are newer than the newest readable snapshot."""
    for path, reason in damaged:
        found = f"{path} cannot be read, and is passed over: {reason}"
        yield Diagnosis("snapshots", Severity.WARNING, found, "bring a good copy back, or move it away")


def check_journal(
    first: JournalRecord | None, last: JournalRecord | None, snapshot: int | None
) -> Iterator[Diagnosis]:
    """Check that the journal, from `first` to `last`, covers the record of the newest readable snapshot."""
    fault = journal_fault(first, last, snapshot)
    if fault is not None:
        yield faulty("journal", fault)
    elif first is None or last is None:
        yield Diagnosis("journal", Severity.OK, "empty: nothing has been learned yet")
    else:
        at = "no snapshot exists" if snapshot is None else f"the newest snapshot stands at {snapshot}"
        yield Diagnosis("journal", Severity.OK, f"records {first.n} to {last.n}; {at}")


def faulty(check: str, fault: RecoveryFault) -> Diagnosis:
    """Return the problem that `run` refuses with the same words."""
    return Diagnosis(check, Severity.PROBLEM, fault.found, fault.remedy)


def check_replay(
    read: Iterable[JournalRecord], start: int, held: Callable[[Partition], tuple[int, int]]
) -> Iterator[Diagnosis]:
    """Report the first record after record `start` whose events the log, by its extents, no longer holds."""
    extents: dict[Partition, tuple[int, int]] = {}
    for record in read:
        for part in record.slices if record.n > start and record.kind == "commit" else ():
            place = Partition(part.topic, part.partition)
            if place not in extents:
                extents[place] = held(place)
            first, end = extents[place]
            if part.count and not (first <= part.first and part.next <= end):
                yield faulty("recovery", events_needed(record.n, part, start))
                return


def check_recovery(
    kept: list[JournalExtent], retention: Mapping[str, float], now: float
) -> Iterator[Diagnosis]:
    """Check how long retention keeps the events of a recovery, which are all there.

    Args:
        kept: offsets of each partition.
        retention: topic -> seconds; topics without a limit are absent.
        now: seconds since the epoch.
    """
    left = [
        (part.written + retention[part.partition.topic] - now, part)
        for part in kept
        if part.written is not None and part.partition.topic in retention
    ]
    yield _left("recovery", min(left, key=lambda one: one[0], default=None))


def _left(check: str, soonest: tuple[float, JournalExtent] | None) -> Diagnosis:
    if soonest is None:
        return Diagnosis(check, Severity.OK, "finds every event that it needs")
    seconds, part = soonest
    hours = max(0.0, seconds / 3600)
    found = f"finds every event that it needs; {part.partition} keeps them for {hours:.1f} h more"
    if seconds >= _SOON:
        return Diagnosis(check, Severity.OK, found)
    do = "start the learner before then; raise the topic's retention.ms, or lower snapshots.every"
    return Diagnosis(check, Severity.WARNING, found, do)


def kept_of(log: Log, positions: Mapping[Partition, int]) -> list[JournalExtent]:
    """Return the extent of each partition from its position on."""
    return [_kept(log, partition, position) for partition, position in positions.items()]


def _kept(log: Log, partition: Partition, position: int) -> JournalExtent:
    earliest, end = log.offsets(partition)
    inside = earliest <= position < end
    first = next(iter(log.read(partition, position, 1)), None) if inside else None
    return JournalExtent(partition, position, earliest, end, None if first is None else first.timestamp)
