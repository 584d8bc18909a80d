"""Checks of the log: a recovery must find all it needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from streamnb.cli.checks.diagnostics import Diagnosis, Severity
from streamnb.engine.journal.journal_history import ForeignRecord
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


def check_journal(first: JournalRecord, last: JournalRecord, snapshot: int | None) -> Iterator[Diagnosis]:
    """Check that the journal, from `first` to `last`, covers the record of the newest readable snapshot."""
    at = "no snapshot exists" if snapshot is None else f"the newest snapshot stands at {snapshot}"
    if first.n > (0 if snapshot is None else snapshot):
        yield Diagnosis(
            "journal",
            Severity.PROBLEM,
            f"begins with record {first.n}, and {at}: retention has taken what a recovery needs",
            "bring a newer snapshot back, or begin a new log; and keep the journal (retention.ms=-1, "
            "retention.bytes=-1)",
        )
    elif snapshot is not None and snapshot > last.n:
        found = f"ends with record {last.n}, but the newest snapshot stands at record {snapshot}"
        do = "this folder of snapshots belongs to another log: move it away, or set snapshots.folder"
        yield Diagnosis("journal", Severity.PROBLEM, found, do)
    else:
        yield Diagnosis("journal", Severity.OK, f"records {first.n} to {last.n}; {at}")


def check_recovery(
    kept: list[JournalExtent], retention: Mapping[str, float], now: float
) -> Iterator[Diagnosis]:
    """Check that the events of a recovery exist, and how long retention keeps them.

    Args:
        kept: offsets of each partition.
        retention: topic -> seconds; topics without a limit are absent.
        now: seconds since the epoch.
    """
    check = "recovery"
    for part in kept:
        if part.position < part.earliest:
            found = f"needs {part.partition} from offset {part.position}; kept are {part.earliest} and later"
            yield Diagnosis(check, Severity.PROBLEM, found, "begin a new log, or restore a newer snapshot")
        elif part.position > part.end:
            found = (
                f"needs {part.partition} from offset {part.position}; it ends at {part.end}: is it another?"
            )
            yield Diagnosis(check, Severity.PROBLEM, found, "begin a new log, or bring the topic back")
    lost = any(not part.earliest <= part.position <= part.end for part in kept)
    left = [
        (part.written + retention[part.partition.topic] - now, part)
        for part in kept
        if part.written is not None and part.partition.topic in retention
    ]
    if not lost:
        yield _left(check, min(left, key=lambda one: one[0], default=None))


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
