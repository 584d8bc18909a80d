"""Position of a learner in its journal, and the transaction that advances it by one record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from streamnb.engine.journal.job_identity import JobIdentity, JournalOrigin
from streamnb.engine.ports import NewRecord, Partition, Record, Transaction
from streamnb.errors import JournalError, SnapshotError
from streamnb.formats.journal_record import (
    START,
    VERSION,
    AppliedAction,
    JournalRecord,
    Kind,
    Slice,
    chain_outputs,
    crc,
    encode_journal,
    seal,
)
from streamnb.formats.snapshot_container import FLOOR, Snapshot, SnapshotPart

_PART = "journal"


@dataclass(frozen=True)
class Checkpoint:
    """Number, digests and positions after a journal record."""

    n: int
    digest: str
    outputs: str
    positions: Mapping[Partition, int]
    origin: JournalOrigin = JournalOrigin()  # noqa: RUF009  an immutable value

    def commit(
        self,
        identity: JobIdentity,
        records: Sequence[Record],
        outputs: Sequence[NewRecord],
        now: float,
        work: int = 0,
        silence: float = 0.0,
        acted: tuple[AppliedAction, ...] = (),
    ) -> tuple[Checkpoint, Transaction]:
        """Return the next checkpoint and the transaction of a commit; `acted` are responses to alarms."""
        slices = tuple(_slices(records))
        positions = dict(self.positions)
        for part in slices:
            positions[Partition(part.topic, part.partition)] = part.next
        more = {"slices": slices, "work": work, "silence": silence, "acted": acted}
        return self.next("commit", identity, now, positions=positions, outputs=outputs, **more)

    def next(
        self,
        kind: Kind,
        identity: JobIdentity,
        now: float,
        *,
        positions: Mapping[Partition, int] | None = None,
        outputs: Sequence[NewRecord] = (),
        **more: Any,
    ) -> tuple[Checkpoint, Transaction]:
        """Return the checkpoint after one more record, and its transaction; `more` are record fields."""
        positions = self.positions if positions is None else positions
        record = seal(
            JournalRecord(
                version=VERSION,
                n=self.n + 1,
                previous=self.digest,
                kind=kind,
                now=now,
                slices=more.pop("slices", ()),
                positions=_nested(positions),
                outputs=chain_outputs(self.outputs, outputs),
                machine=identity.machine,
                **more,
            )
        )
        journal = NewRecord(identity.journal, None, encode_journal(record))
        return self.after(record), Transaction(record.n, journal, outputs, positions)

    def after(self, record: JournalRecord) -> Checkpoint:
        """Return the checkpoint after the next record; raise JournalError if it does not follow."""
        if record.n != self.n + 1:
            raise JournalError(f"the journal goes from record {self.n} to {record.n}")
        if record.previous != self.digest:
            raise JournalError(f"journal record {record.n} does not follow record {self.n}: digests differ")
        return self.at(record, self.origin.after(record))

    @staticmethod
    def at(record: JournalRecord, origin: JournalOrigin) -> Checkpoint:
        """Return the checkpoint at a record."""
        return Checkpoint(record.n, record.digest, record.outputs, positions_of(record), origin)

    def with_new_partitions(self, partitions: Sequence[Partition]) -> Checkpoint:
        """Return a checkpoint in which added partitions start at offset 0."""
        return replace(self, positions=dict.fromkeys(partitions, 0) | dict(self.positions))


BEFORE = Checkpoint(-1, START, START, {})
"""Checkpoint before the first record."""


def snapshot_of(
    checkpoint: Checkpoint,
    parts: Mapping[str, SnapshotPart],
    identity: JobIdentity,
    segments: Mapping[str, bytes] = MappingProxyType({}),
) -> Snapshot:
    """Return the snapshot of a learner at a checkpoint, with the segments that are not stored yet."""
    known = checkpoint.origin
    origin = {
        "config": dict(known.config),
        "topic_ids": dict(known.topic_ids),
        "program": known.program,
        **({} if known.floor < 0 else {FLOOR: known.floor}),
    }
    return Snapshot(
        journal_n=checkpoint.n,
        digest=checkpoint.digest,
        positions={(topic, number): offset for (topic, number), offset in checkpoint.positions.items()},
        config_hash=checkpoint.origin.config_hash,
        fingerprint=identity.fingerprint,
        parts={**parts, _PART: SnapshotPart(origin, {})},
        segments=segments,
    )


def origin_of(snapshot: Snapshot) -> JournalOrigin:
    """Return the journal's origin as a snapshot holds it; raise SnapshotError if it holds none."""
    try:
        meta = snapshot.parts[_PART].meta
        known = meta["config"], meta["topic_ids"], meta["program"]
        return JournalOrigin(snapshot.config_hash, *known, meta.get(FLOOR, -1))
    except KeyError as error:
        raise SnapshotError(
            f"the snapshot at journal record {snapshot.journal_n} lacks the configuration of its model: "
            "move it away, and the model is built again from the journal"
        ) from error


def _slices(records: Sequence[Record]) -> Iterator[Slice]:
    """Yield runs of consecutive records of one partition, in processing order."""
    for (topic, number), run in groupby(records, key=attrgetter("partition")):
        part = list(run)
        checksum = crc(map(attrgetter("value"), part))
        yield Slice(topic, number, part[0].offset, part[-1].offset + 1, len(part), checksum)


def _nested(positions: Mapping[Partition, int]) -> dict[str, dict[str, int]]:
    nested: dict[str, dict[str, int]] = {}
    for (topic, number), offset in sorted(positions.items()):
        nested.setdefault(topic, {})[str(number)] = offset
    return nested


def positions_of(record: JournalRecord) -> dict[Partition, int]:
    """Return the positions of all partitions after a record."""
    return {
        Partition(topic, int(number)): offset
        for topic, numbers in record.positions.items()
        for number, offset in numbers.items()
    }
