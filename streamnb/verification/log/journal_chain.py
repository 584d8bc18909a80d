"""Check the journal as a chain: numbers, digests, and positions that move only by slices.

One pass reads the journal only; the records of its slices are read by other checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from streamnb.engine.journal.checkpoint import BEFORE, Checkpoint
from streamnb.engine.journal.job_identity import JournalOrigin
from streamnb.engine.journal.journal_history import (
    ForeignRecord,
    decoded,
    is_on,
    list_foreign_records,
    path_to,
)
from streamnb.engine.ports import Log, Partition
from streamnb.errors import ForeignRecordError, JournalError, OutOfRange, UnknownTopic
from streamnb.formats.journal_record import START, JournalRecord, Slice, chain_outputs
from streamnb.values.parameter_checks import pluralize
from streamnb.verification.check_results import CheckResults, place

CHAIN, LEARNED, FOREIGN = "journal", "positions", "foreign record"


class ChainEntry(NamedTuple):
    """A journal record, and what held before it and holds after it."""

    before: Checkpoint
    record: JournalRecord
    after: Checkpoint


@dataclass
class LogScan:
    """Findings of one pass over the journal.

    Attributes:
        journal: partition of the journal.
        end_offset: its end when verification began; later records are ignored.
        first: first record, None if there is none.
        end: checkpoint of the last record.
        commits: number of commit records.
        rollbacks: record -> the record that it returns to.
        path: records that led to the state at the end.
        machines: fingerprint that computed outputs -> its last record.
        origins: config hash -> the journal's entry for each configuration.
        lost: partition -> the record that accepted the loss of everything before it.
        unread: last record with a slice that the log no longer holds, or with erased events; -1 if there is
            none.
        why: the reason for `unread`.
        relearned: last record by which events were retrained from the beginning under another configuration;
            -1 if there is none.
        program: last record with which another version of the program continued; -1 if there is none.
        adopted: last record that installed a retrained model; -1 if there is none.
        strays: offsets of foreign records between complete journal records.
        is_broken: True if a record is missing, altered or misplaced.
    """

    journal: Partition
    end_offset: int = 0
    first: JournalRecord | None = None
    end: Checkpoint = BEFORE
    commits: int = 0
    rollbacks: dict[int, int] = field(default_factory=dict)
    path: list[range] = field(default_factory=list)
    machines: dict[str, int] = field(default_factory=dict)
    origins: dict[str, JournalOrigin] = field(default_factory=dict)
    lost: dict[Partition, int] = field(default_factory=dict)
    unread: int = -1
    why: str = ""
    relearned: int = -1
    program: int = -1
    adopted: int = -1
    strays: set[int] = field(default_factory=set)
    is_broken: bool = False

    @property
    def first_n(self) -> int:
        """The number of the first record."""
        return 0 if self.first is None else self.first.n

    @property
    def is_whole(self) -> bool:
        """True if journal and log reach back to the genesis."""
        return self.first_n == 0 and self.unread < 0

    def machines_since(self, n: int) -> set[str]:
        """Return the fingerprints that computed outputs after a record."""
        return {machine for machine, last in self.machines.items() if last > n}

    def counts(self, n: int) -> bool:
        """Return True if the state at the end contains what a record learned."""
        return is_on(self.path, n)

    def is_kept(self, part: Slice, n: int, earliest: Mapping[Partition, int]) -> bool:
        """Return True if the log still holds a slice of record `n`, by its offsets."""
        partition = Partition(part.topic, part.partition)
        return part.first >= earliest.get(partition, part.next) and n >= self.lost.get(partition, 0)


def steps(log: Log, seen: LogScan, origins: Mapping[int, JournalOrigin]) -> Iterator[ChainEntry]:
    """Yield the readable records, each number once, in order; `scan_log` reports faults."""
    before: Checkpoint | None = None
    for offset, record in decoded(log, seen.journal, log.offsets(seen.journal)[0], seen.end_offset):
        if isinstance(record, JournalError) or offset in seen.strays or (before and record.n <= before.n):
            continue
        step = _step(before, record, origins)
        if before is not None or record.n == 0:
            yield step
        before = step.after


def _step(
    before: Checkpoint | None, record: JournalRecord, origins: Mapping[int, JournalOrigin]
) -> ChainEntry:
    """Return a record with the checkpoints before and after it.

    The checkpoint before the first kept record is unknown unless the record is the genesis or has a snapshot.
    """
    if before is None:
        before = BEFORE if record.n == 0 else Checkpoint(record.n - 1, record.previous, "", {})
    origin = before.origin.after(record)
    if not origin.config_hash:
        origin = origins.get(record.n, origin)
    return ChainEntry(before, record, Checkpoint.at(record, origin))


def scan_log(
    log: Log,
    journal: Partition,
    earliest: Mapping[Partition, int],
    origins: Mapping[int, JournalOrigin],
    findings: CheckResults,
) -> LogScan:
    """Check the chain, and report every fault with its record number or journal offset.

    Args:
        log: only read.
        journal: partition of the journal.
        earliest: partition -> offset of the earliest record kept, for the topics that are learned.
        origins: record number -> origin in the snapshot at that record.
        findings: receives the results.
    """
    seen = LogScan(journal, log.offsets(journal)[1])
    first = log.offsets(journal)[0]
    listed = cache(lambda: list_foreign_records(log, journal))
    before: Checkpoint | None = None
    unreadable = 0  # since the last that could be read
    foreign: list[ForeignRecord] = []  # the same
    for offset, record in decoded(log, journal, first, seen.end_offset):
        if isinstance(record, ForeignRecordError):
            foreign.append(ForeignRecord(offset, str(record)))
            continue
        if not _follows(before, record) and offset in listed():
            listing = ForeignRecord(offset, "listed by the journal as none of its own")
            _report_foreign_records([listing], seen, findings)
            continue
        if _follows(before, record):
            _report_foreign_records(foreign, seen, findings)
        else:
            unreadable += _report_unfollowed(foreign, journal, findings)
        foreign = []
        if isinstance(record, JournalError):
            findings.differs(CHAIN, f"{journal} offset {offset}: {record}", place(journal, offset))
            unreadable += 1
            continue
        at = place(journal, offset, record=record.n)
        if before is not None and record.n <= before.n:
            goes = f"the journal goes from record {before.n} to {record.n}: repeated"
            text = f"{journal} offset {offset}: {goes}"
            findings.differs(CHAIN, text, at, found=record.n, expected=before.n + 1)
            continue
        step = _step(before, record, origins)
        _check_link(step.before, unreadable, record, at, findings)
        if before is not None and record.n == before.n + 1:
            _check_positions(step, findings)
        _note(seen, step, earliest)
        before, unreadable = step.after, 0
    _report_unfollowed(foreign, journal, findings)
    seen.path = path_to(seen.end.n, seen.rollbacks)
    seen.is_broken = findings.count(CHAIN) > 0
    return seen


def _follows(before: Checkpoint | None, record: JournalRecord | JournalError) -> bool:
    follows = (0, START) if before is None else (before.n + 1, before.digest)
    return not isinstance(record, JournalError) and (record.n, record.previous) == follows


def _report_foreign_records(strays: Sequence[ForeignRecord], seen: LogScan, findings: CheckResults) -> None:
    for offset, what in strays:
        seen.strays.add(offset)
        findings.ok(FOREIGN, f"{seen.journal} offset {offset}: {what}", **place(seen.journal, offset))


def _report_unfollowed(foreign: Sequence[ForeignRecord], journal: Partition, findings: CheckResults) -> int:
    for offset, what in foreign:
        findings.differs(CHAIN, f"{journal} offset {offset}: {what}", place(journal, offset))
    return len(foreign)


def _check_link(
    before: Checkpoint,
    unreadable: int,
    record: JournalRecord,
    at: Mapping[str, str | int],
    findings: CheckResults,
) -> None:
    follows = record.n == before.n + 1
    if record.n != before.n + 1 + unreadable:
        missing = record.n - before.n - 1 - unreadable
        text = f"the journal goes from record {before.n} to {record.n}: {missing} missing between them"
        findings.differs(CHAIN, text, at, found=record.n, expected=before.n + 1 + unreadable)
    if follows and record.previous != before.digest:
        text = f"journal record {record.n} does not follow record {before.n}: digests differ"
        findings.differs(CHAIN, text, at, found=record.previous, expected=before.digest)
    if (record.n == 0) != (record.kind == "genesis"):
        findings.differs(CHAIN, f"journal record {record.n} is of kind {record.kind}", at)
    if record.kind == "rollback" and not 0 <= record.to < record.n:
        findings.differs(CHAIN, f"journal record {record.n} rolls back to record {record.to}", at)
    silent = record.kind != "commit" and follows and before.outputs
    if silent and (record.slices or record.outputs != chain_outputs(before.outputs, ())):
        findings.differs(CHAIN, f"journal record {record.n} is not a commit, but has slices or outputs", at)


def _check_positions(step: ChainEntry, findings: CheckResults) -> None:
    record = step.record
    if record.kind == "loss":
        _report_loss(step, findings)
        return
    positions = dict.fromkeys(step.after.positions, 0) | dict(step.before.positions)  # added ones begin at 0
    added = record.topic_ids.keys() - step.before.origin.topic_ids.keys()
    positions |= {p: at for p, at in step.after.positions.items() if p.topic in added}  # or what is kept
    for part in record.slices:
        partition = Partition(part.topic, part.partition)
        position = positions.get(partition, 0)
        if part.first < position:
            _differs(findings, record.n, partition, part.first, "learned again", part.first, position)
        if not 0 < part.count <= part.next - part.first:
            what = f"a slice up to {part.next} with {pluralize(part.count, 'record')}"
            _differs(findings, record.n, partition, part.first, what, part.count, part.next - part.first)
        positions[partition] = part.next
    for partition in {**positions, **step.after.positions}:
        stands, expected = step.after.positions.get(partition, -1), positions[partition]
        if stands != expected:
            _differs(findings, record.n, partition, stands, "the position jumps", stands, expected)


def _differs(
    findings: CheckResults, n: int, partition: Partition, offset: int, what: str, found: int, expected: int
) -> None:
    text = f"journal record {n}: {partition} offset {offset}: {what}: {found}, expected {expected}"
    findings.differs(LEARNED, text, place(partition, offset, record=n), found=found, expected=expected)


def _report_loss(step: ChainEntry, findings: CheckResults) -> None:
    n, topic_ids = step.record.n, step.before.origin.topic_ids
    for partition, after in sorted(step.after.positions.items()):
        before = step.before.positions.get(partition, 0)
        topic = partition.topic
        if step.record.topic_ids.get(topic) != topic_ids.get(topic, step.record.topic_ids.get(topic)):
            told = f"its topic was recreated; it is read from offset {after}"
        elif after < before:
            told = f"it was cut short, from offset {before} to {after}"
        elif after > before:
            told = f"{after - before} offsets from {before} on were gone before they were learned"
        else:
            continue
        findings.ok("accepted loss", f"journal record {n}: {partition}: {told}", record=n)


def _note(seen: LogScan, step: ChainEntry, earliest: Mapping[Partition, int]) -> None:
    record = step.record
    seen.first = seen.first or record
    seen.end = step.after
    seen.machines[record.machine] = record.n
    seen.commits += record.kind == "commit"
    seen.origins[step.after.origin.config_hash] = step.after.origin
    if record.kind == "rollback":
        seen.rollbacks[record.n] = record.to
    elif record.kind == "program":
        seen.program = record.n
    elif record.kind == "adopt":
        seen.adopted = record.n
        seen.relearned = record.n if record.config or len(seen.origins) > 1 else seen.relearned
    elif record.kind == "loss":
        for partition, before in step.before.positions.items():
            topic_id = record.topic_ids.get(partition.topic)
            known = step.before.origin.topic_ids.get(partition.topic, topic_id)
            if topic_id != known or step.after.positions.get(partition, 0) < before:
                seen.lost[partition] = record.n
    if why := _why_unread(seen, step, earliest):
        seen.unread, seen.why = record.n, why


def _why_unread(seen: LogScan, step: ChainEntry, earliest: Mapping[Partition, int]) -> str:
    """Return why slices up to a record cannot be counted; empty if they can."""
    record = step.record
    if record.kind == "adopt" and record.floor:
        return "some were forgotten there"
    if record.kind == "loss" and record.n in seen.lost.values():
        return "their topic was recreated, or truncated"
    if not all(seen.is_kept(part, record.n, earliest) for part in record.slices):
        return "the log no longer keeps them"
    return ""


def earliest_kept(log: Log, topics: tuple[str, ...]) -> dict[Partition, int]:
    """Return partition -> offset of the earliest record kept, for existing topics."""
    kept = {}
    for topic in topics:
        try:
            for partition in log.partitions(topic):
                kept[partition] = log.offsets(partition)[0]
        except (UnknownTopic, OutOfRange):
            continue
    return kept
