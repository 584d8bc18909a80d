"""Where a learner stands, and how it comes back to exactly there.

    recovery = newest readable snapshot + silent replay of the journalled slices after it

Positions come from the journal alone. Where the journal, the snapshot and the log do not fit together, the
answer is `JournalError`, never a guess.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Protocol

from streamnb.engine.learner import Learner
from streamnb.engine.ports import Log, NewRecord, Partition, Record, Transaction
from streamnb.errors import JournalError, OutOfRange
from streamnb.wire.journal import (
    START,
    VERSION,
    JournalRecord,
    Slice,
    chain_outputs,
    crc,
    decode_journal,
    encode_journal,
    seal,
)
from streamnb.wire.snapshot import Snapshot

__all__ = ["Checkpoint", "Identity", "SnapshotStore", "Snapshots", "recover", "snapshot_of"]

_READ_AT_ONCE = 10_000


class FoundSnapshot(Protocol):
    """A snapshot that a store found."""

    @property
    def snapshot(self) -> Snapshot:
        """Its values."""
        ...


class Snapshots(Protocol):
    """Where snapshots are found."""

    def newest(self) -> FoundSnapshot | None:
        """The newest that can be read; None only where there has never been one. Raises SnapshotError."""
        ...


class SnapshotStore(Snapshots, Protocol):
    """Where snapshots are kept, too."""

    def save(self, snapshot: Snapshot) -> Path:
        """Keep a snapshot, durably on return, in the file returned. Raises SnapshotError."""
        ...


@dataclass(frozen=True)
class Identity:
    """What has to stay the same for a state to be continued.

    Attributes:
        topics: the topics that are read.
        journal: the journal's topic.
        config_hash: hash of all configuration that shapes learning or outputs.
        fingerprint: what derived floats depend on.
    """

    topics: tuple[str, ...]
    journal: str
    config_hash: str
    fingerprint: Mapping[str, str]

    @property
    def machine(self) -> str:
        """The fingerprint in a few letters."""
        return hashlib.sha256(repr(sorted(self.fingerprint.items())).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Checkpoint:
    """Where the journal stands: number, digests and positions after its last record."""

    n: int
    digest: str
    outputs: str
    positions: Mapping[Partition, int]

    def commit(
        self, identity: Identity, records: Sequence[Record], outputs: Sequence[NewRecord], now: float
    ) -> tuple[Checkpoint, Transaction]:
        """The next checkpoint, and the transaction that makes it so."""
        slices = tuple(_slices(records))
        positions = dict(self.positions)
        for part in slices:
            positions[Partition(part.topic, part.partition)] = part.next
        record = seal(
            JournalRecord(
                version=VERSION,
                n=self.n + 1,
                previous=self.digest,
                kind="commit",
                now=now,
                slices=slices,
                positions=_nested(positions),
                outputs=chain_outputs(self.outputs, outputs),
                machine=identity.machine,
            )
        )
        return self.after(record), _transaction(identity.journal, record, outputs, positions)

    def after(self, record: JournalRecord) -> Checkpoint:
        """The checkpoint after the next journal record. Raises JournalError where it does not follow."""
        if record.n != self.n + 1:
            raise JournalError(f"the journal goes from record {self.n} to {record.n}")
        if record.previous != self.digest:
            raise JournalError(f"journal record {record.n} does not follow record {self.n}: digests differ")
        return Checkpoint(record.n, record.digest, record.outputs, _flat(record.positions))

    def with_new_partitions(self, partitions: Sequence[Partition]) -> Checkpoint:
        """Partitions added since start at offset 0."""
        return replace(self, positions=dict.fromkeys(partitions, 0) | dict(self.positions))


def recover(
    log: Log,
    snapshots: Snapshots,
    learner: Learner,
    identity: Identity,
    now: float,
    alive: Callable[[], None] = lambda: None,
) -> Checkpoint:
    """Bring a fresh learner to where the journal stands; the log is acquired. Begins a journal that is empty.

    1. Read the journal from its start; each record must follow the one before.
    2. Load the newest snapshot; it must stand at a journal record, with that record's digest.
    3. Process the slices of every later record again, and compare what came out.

    Outputs can be compared as long as one kind of machine wrote the whole journal so far, and is this one:
    on another they may differ in the last bit of a logarithm.

    Replay may take longer than a session: `alive` is called before each record.

    Raises:
        JournalError: journal, snapshot and log do not fit together, or belong to another configuration.
    """
    found = snapshots.newest()
    snapshot = None if found is None else found.snapshot
    partition = log.partitions(identity.journal)[0]
    loaded = -1 if snapshot is None else snapshot.journal_n
    checkpoint, comparable = _BEFORE, True
    for record in _journal(log, partition):
        alive()
        comparable = comparable and record.machine == identity.machine
        before, checkpoint = checkpoint, checkpoint.after(record)
        if record.n == 0:
            _check_identity(log, identity, record)
        if snapshot is not None and record.n == loaded:
            if record.digest != snapshot.digest:
                raise JournalError(f"the snapshot at journal record {record.n} belongs to another journal")
            learner.load(snapshot.parts)
        elif record.n > loaded:
            outputs = _replay(log, learner, record, alive)
            if comparable and chain_outputs(before.outputs, outputs) != record.outputs:
                raise JournalError(
                    f"replaying journal record {record.n} gave other outputs than it published: "
                    "the program or the configuration is not the one that wrote it"
                )
    if checkpoint.n < 0:
        if snapshot is not None:
            raise JournalError(
                f"there is a snapshot at journal record {loaded}, but the journal is empty: "
                "the log was replaced; move the snapshots away to begin anew"
            )
        return _begin(log, identity, now)
    if loaded > checkpoint.n:
        raise JournalError(
            f"the snapshot stands at journal record {loaded}, beyond the journal's end {checkpoint.n}"
        )
    partitions = [p for topic in identity.topics for p in log.partitions(topic)]
    return checkpoint.with_new_partitions(partitions)


_BEFORE = Checkpoint(-1, START, START, {})


def snapshot_of(checkpoint: Checkpoint, learner: Learner, identity: Identity) -> Snapshot:
    """The snapshot of a learner that stands at a checkpoint."""
    return Snapshot(
        journal_n=checkpoint.n,
        digest=checkpoint.digest,
        positions={(topic, number): offset for (topic, number), offset in checkpoint.positions.items()},
        config_hash=identity.config_hash,
        fingerprint=identity.fingerprint,
        parts=learner.parts(),
    )


def _begin(log: Log, identity: Identity, now: float) -> Checkpoint:
    """Write the genesis record: learning starts with the earliest records kept."""
    partitions = [p for topic in identity.topics for p in log.partitions(topic)]
    positions = {p: log.offsets(p)[0] for p in partitions}
    record = seal(
        JournalRecord(
            version=VERSION,
            n=0,
            previous=START,
            kind="genesis",
            now=now,
            slices=(),
            positions=_nested(positions),
            outputs=chain_outputs(START, ()),
            machine=identity.machine,
            config_hash=identity.config_hash,
            fingerprint=identity.fingerprint,
            topic_ids={topic: log.topic_id(topic) for topic in identity.topics},
        )
    )
    log.commit(_transaction(identity.journal, record, (), positions))
    if len(list(_journal(log, log.partitions(identity.journal)[0]))) != 1:
        raise JournalError(
            f"another model has begun to write to {identity.journal!r}, too: each needs its own"
        )
    return _BEFORE.after(record)


def _check_identity(log: Log, identity: Identity, genesis: JournalRecord) -> None:
    if genesis.kind != "genesis":
        raise JournalError("the journal does not begin with its genesis")
    if genesis.config_hash != identity.config_hash:
        raise JournalError(
            "this journal was begun with another configuration of events, attributes, model, metrics or "
            "predictions: run with that configuration, or begin a new log"
        )
    for topic in identity.topics:
        if genesis.topic_ids.get(topic) != log.topic_id(topic):
            raise JournalError(f"topic {topic!r} was deleted and made anew since the journal began")


def _journal(log: Log, partition: Partition) -> Iterator[JournalRecord]:
    offset, end = log.offsets(partition)  # its end now: a learner that is watched goes on writing
    while offset < end and (found := log.read(partition, offset, _READ_AT_ONCE)):
        for record in found:
            yield decode_journal(record.value)
        offset = found[-1].offset + 1


def _replay(
    log: Log, learner: Learner, record: JournalRecord, alive: Callable[[], None]
) -> Sequence[NewRecord]:
    """Process what a commit processed; its outputs, which are published already."""
    records = [found for part in record.slices for found in _read_slice(log, part, record.n)]
    return learner.process(records, record.now, alive)


def _read_slice(log: Log, part: Slice, n: int) -> list[Record]:
    """The records of a slice. Raises JournalError where they are gone or others than were journalled."""
    partition = Partition(part.topic, part.partition)
    records: list[Record] = []
    offset = part.first
    try:
        while offset < part.next:
            found = [r for r in log.read(partition, offset, part.next - offset) if r.offset < part.next]
            if not found:
                break
            records += found
            offset = found[-1].offset + 1
    except OutOfRange as error:
        raise JournalError(
            f"journal record {n} needs {part.topic}/{part.partition} from offset {part.first} to "
            f"{part.next}, which the log no longer holds ({error}); "
            "restore a newer snapshot, or begin a new log"
        ) from error
    if len(records) != part.count or crc(r.value for r in records) != part.crc:
        raise JournalError(
            f"journal record {n}: {part.topic}/{part.partition} from offset {part.first} to {part.next} "
            "holds other records than were learned"
        )
    return records


def _slices(records: Sequence[Record]) -> Iterator[Slice]:
    """Runs of records of one partition, in the order of processing."""
    for (topic, number), run in groupby(records, key=lambda record: record.partition):
        part = list(run)
        checksum = crc(record.value for record in part)
        yield Slice(topic, number, part[0].offset, part[-1].offset + 1, len(part), checksum)


def _transaction(
    journal: str, record: JournalRecord, outputs: Sequence[NewRecord], positions: Mapping[Partition, int]
) -> Transaction:
    return Transaction(record.n, NewRecord(journal, None, encode_journal(record)), outputs, positions)


def _nested(positions: Mapping[Partition, int]) -> dict[str, dict[str, int]]:
    nested: dict[str, dict[str, int]] = {}
    for (topic, number), offset in sorted(positions.items()):
        nested.setdefault(topic, {})[str(number)] = offset
    return nested


def _flat(nested: Mapping[str, Mapping[str, int]]) -> dict[Partition, int]:
    return {
        Partition(t, int(number)): offset
        for t, numbers in nested.items()
        for number, offset in numbers.items()
    }
