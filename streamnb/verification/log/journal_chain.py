"""The journal checked as a chain: numbers, digests, and positions that only its slices move.

One pass over the journal alone; what its slices hold is read by whoever needs it.
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
    """What a pass over the journal has shown.

    Attributes:
        journal: its partition.
        end_offset: where it ended when verification began; what came later is left alone.
        first: its first record, None where there is none.
        end: where its last record stands.
        commits: how many records are commits.
        rollbacks: record -> the record that it takes up again.
        path: which records made the state at the end.
        machines: which fingerprints computed outputs -> the last record of each.
        origins: config hash -> what the journal says of each configuration.
        anew: partition -> the record that accepted that what came before in it is gone for good.
        unread: the last record of which a slice can no longer be read, by what the log keeps, or at which
            events were forgotten; -1 is none.
        why: which of these.
        relearned: the last record by which events were learned anew, from the beginning, under another
            configuration than when they were learned first; -1 is none.
        program: the last record with which another version of the program went on; -1 is none.
        adopted: the last record by which a model was taken up that had been learned anew; -1 is none.
        strays: the offsets of records that are none of the journal's, and that it can do without.
        is_broken: whether a record is missing, altered, or not where it should be.
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
    anew: dict[Partition, int] = field(default_factory=dict)
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
        """Whether journal and log reach back to the genesis."""
        return self.first_n == 0 and self.unread < 0

    def machines_since(self, n: int) -> set[str]:
        """Which fingerprints computed outputs after a record."""
        return {machine for machine, last in self.machines.items() if last > n}

    def counts(self, n: int) -> bool:
        """Whether what a record learned is in the state at the end."""
        return is_on(self.path, n)

    def is_kept(self, part: Slice, n: int, earliest: Mapping[Partition, int]) -> bool:
        """Whether the log still holds a slice of record `n`, by its offsets."""
        partition = Partition(part.topic, part.partition)
        return part.first >= earliest.get(partition, part.next) and n >= self.anew.get(partition, 0)


def steps(log: Log, seen: LogScan, origins: Mapping[int, JournalOrigin]) -> Iterator[ChainEntry]:
    """The records that can be read, each number once, in order; what is wrong with them was told before."""
    before: Checkpoint | None = None
    for offset, record in decoded(log, seen.journal, log.offsets(seen.journal)[0], seen.end_offset):
        if isinstance(record, JournalError) or offset in seen.strays:
            continue
        if before is not None and record.n <= before.n:
            continue
        step = _step(before, record, origins)
        if before is not None or record.n == 0:
            yield step
        before = step.after


def _step(
    before: Checkpoint | None, record: JournalRecord, origins: Mapping[int, JournalOrigin]
) -> ChainEntry:
    """A record with what holds before and after it.

    Of what held before the first record that is there nothing is known, if it is not the genesis; a snapshot
    says more, where one stands at a record.
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
    """Check the chain; every fault is told with the record or the offset in the journal where it is.

    Args:
        log: which is only read.
        journal: its partition.
        earliest: partition -> offset of the earliest record kept, of the topics that are learned.
        origins: what snapshots say of the records at which they stand.
        findings: are told.
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
            _report_foreign_records(
                [ForeignRecord(offset, "listed by the journal as none of its own")], seen, findings
            )
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
            text = (
                f"{journal} offset {offset}: the journal goes from record {before.n} to {record.n}: repeated"
            )
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
    """Whether nothing is missing between two records: the genesis follows what comes before all."""
    if isinstance(record, JournalError):
        return False
    return (record.n, record.previous) == ((0, START) if before is None else (before.n + 1, before.digest))


def _report_foreign_records(strays: Sequence[ForeignRecord], seen: LogScan, findings: CheckResults) -> None:
    """What is none of the journal's is no fault of it."""
    for offset, what in strays:
        seen.strays.add(offset)
        findings.ok(FOREIGN, f"{seen.journal} offset {offset}: {what}", **place(seen.journal, offset))


def _report_unfollowed(foreign: Sequence[ForeignRecord], journal: Partition, findings: CheckResults) -> int:
    """Foreign bytes may be records that were damaged, where the next one does not follow; how many."""
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
    """Whether a record follows the one before, with so many between them that could not be read."""
    follows = record.n == before.n + 1
    if record.n != before.n + 1 + unreadable:
        text = (
            f"the journal goes from record {before.n} to {record.n}: "
            f"{record.n - before.n - 1 - unreadable} missing between them"
        )
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
        findings.differs(CHAIN, f"journal record {record.n} is no commit and says what one did", at)


def _check_positions(step: ChainEntry, findings: CheckResults) -> None:
    """Whether positions move by the slices of a commit, or by an accepted loss, and by nothing else."""
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
    """What was accepted as lost is no fault: it is told."""
    n, topic_ids = step.record.n, step.before.origin.topic_ids
    for partition, after in sorted(step.after.positions.items()):
        before = step.before.positions.get(partition, 0)
        topic = partition.topic
        if step.record.topic_ids.get(topic) != topic_ids.get(topic, step.record.topic_ids.get(topic)):
            told = f"its topic was made anew; it is read from offset {after}"
        elif after < before:
            told = f"it was cut short, from offset {before} to {after}"
        elif after > before:
            told = f"{after - before} offsets from {before} on were gone before they were learned"
        else:
            continue
        findings.ok("accepted loss", f"journal record {n}: {partition}: {told}", record=n)


def _note(seen: LogScan, step: ChainEntry, earliest: Mapping[Partition, int]) -> None:
    """Take down what the rest of the verification needs of a record."""
    record = step.record
    seen.first = seen.first or record
    seen.end = step.after
    seen.machines[record.machine] = record.n
    seen.commits += record.kind == "commit"
    seen.origins[step.after.origin.config_hash] = step.after.origin
    if record.kind == "rollback":
        seen.rollbacks[record.n] = record.to
    if record.kind == "program":
        seen.program = record.n
    if record.kind == "adopt":
        seen.adopted = record.n
        seen.relearned = record.n if record.config or len(seen.origins) > 1 else seen.relearned
    if record.kind == "loss":
        for partition, before in step.before.positions.items():
            topic_id = record.topic_ids.get(partition.topic)
            known = step.before.origin.topic_ids.get(partition.topic, topic_id)
            if topic_id != known or step.after.positions.get(partition, 0) < before:
                seen.anew[partition] = record.n
    if why := _why_unread(seen, step, earliest):
        seen.unread, seen.why = record.n, why


def _why_unread(seen: LogScan, step: ChainEntry, earliest: Mapping[Partition, int]) -> str:
    """Why what came up to a record cannot be counted; empty where it can."""
    record = step.record
    if record.kind == "adopt" and record.floor:
        return "some were forgotten there"
    if record.kind == "loss" and record.n in seen.anew.values():
        return "their topic was made anew, or cut short"
    if not all(seen.is_kept(part, record.n, earliest) for part in record.slices):
        return "the log no longer keeps them"
    return ""


def earliest_kept(log: Log, topics: tuple[str, ...]) -> dict[Partition, int]:
    """Partition -> offset of the earliest record kept, of the topics that there are."""
    kept = {}
    for topic in topics:
        try:
            for partition in log.partitions(topic):
                kept[partition] = log.offsets(partition)[0]
        except (UnknownTopic, OutOfRange):
            continue
    return kept
