"""Where a learner stands in its journal, and the transaction that takes it one record further.

Positions come from the journal alone. Where journal, snapshot and log do not fit together, the answer is
`JournalError`, never a guess.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from streamnb.engine.learner import Learner
from streamnb.engine.ports import NewRecord, Partition, Record, Transaction
from streamnb.errors import JournalError, SnapshotError
from streamnb.wire.journal import (
    START,
    VERSION,
    JournalRecord,
    Kind,
    Slice,
    chain_outputs,
    crc,
    encode_journal,
    seal,
)
from streamnb.wire.snapshot import Part, Snapshot

__all__ = [
    "BEFORE",
    "Change",
    "Checkpoint",
    "Configuration",
    "Identity",
    "NoSnapshots",
    "Origin",
    "SnapshotStore",
    "Snapshots",
    "origin_of",
    "positions_of",
    "snapshot_of",
]

_PART = "journal"
PROGRAM = "streamnb"
"""The key of a fingerprint that holds the program's version."""


class FoundSnapshot(Protocol):
    """A snapshot that a store found."""

    @property
    def snapshot(self) -> Snapshot:
        """Its values."""
        ...


class Snapshots(Protocol):
    """Where snapshots are found."""

    def newest(
        self, at_most: int | None = None, alive: Callable[[], None] = lambda: None
    ) -> FoundSnapshot | None:
        """The newest readable one that stands at journal record `at_most` or before.

        None only where there is no such file. Raises SnapshotError where none of them can be read. Reading
        may take long: `alive` is called now and then.
        """
        ...


class NoSnapshots:
    """For a recovery that is to begin with nothing."""

    def newest(self, at_most: int | None = None, alive: Callable[[], None] = lambda: None) -> None:
        """There is none."""


class SnapshotStore(Snapshots, Protocol):
    """Where snapshots are kept, too."""

    def save_aside(self, snapshot: Snapshot) -> Future[Path]:
        """Keep a snapshot, whose arrays change no more, durably and in the background.

        The file it is in, or a SnapshotError, is the outcome. Only one is on its way at a time.
        """
        ...


class Change(NamedTuple):
    """A key of the configuration that has another value than it had.

    Attributes:
        key: its dotted path.
        before: the value that the journal knows, as text.
        after: the value now.
        allowed: whether what was learned can be continued with it.
    """

    key: str
    before: str
    after: str
    allowed: bool


class Configuration(Protocol):
    """The configuration as the engine sees it: what can be journalled, compared and applied."""

    @property
    def shaping(self) -> Mapping[str, Any]:
        """Every key that shapes what is learned or published, with its value, fit for JSON."""
        ...

    def changes_since(self, before: Mapping[str, Any]) -> Sequence[Change]:
        """What is different from a `shaping` that was journalled. Raises JournalError for an unknown one."""
        ...

    def apply(self, learner: Learner, shaping: Mapping[str, Any]) -> None:
        """Let a learner go on under a `shaping` that was journalled, or the present one."""
        ...


@dataclass(frozen=True)
class Identity:
    """What a state belongs to.

    Attributes:
        topics: the topics that are read.
        journal: the journal's topic.
        config_hash: hash of all configuration that shapes learning or outputs.
        fingerprint: what derived floats depend on.
        configuration: that configuration; without it none but the same hash is continued.
    """

    topics: tuple[str, ...]
    journal: str
    config_hash: str
    fingerprint: Mapping[str, str]
    configuration: Configuration | None = field(default=None, compare=False)

    @property
    def machine(self) -> str:
        """The fingerprint in a few letters."""
        return hashlib.sha256(repr(sorted(self.fingerprint.items())).encode()).hexdigest()[:16]

    @property
    def program(self) -> str:
        """The version of this program."""
        return self.fingerprint.get(PROGRAM, "")

    @property
    def shaping(self) -> Mapping[str, Any]:
        """What is journalled of the configuration."""
        return {} if self.configuration is None else self.configuration.shaping


@dataclass(frozen=True)
class Origin:
    """What the journal says of the state beside its numbers; snapshots hold it, so that they are enough.

    Attributes:
        config_hash: of the configuration that holds.
        config: its keys and values.
        topic_ids: topic -> id.
        program: the version of the program that goes on.
        reading: the rules by which it reads and counts events.
    """

    config_hash: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    program: str = ""
    reading: int = 1

    def after(self, record: JournalRecord) -> Origin:
        """What holds after a record."""
        changed: dict[str, Any] = {}
        if record.kind in {"genesis", "config"}:
            changed |= {"config_hash": record.config_hash, "config": record.config}
        if record.kind in {"genesis", "loss"}:
            changed |= {"topic_ids": record.topic_ids}
        if record.kind in {"genesis", "program"}:
            changed |= {"program": record.fingerprint.get(PROGRAM, ""), "reading": record.reading}
        return replace(self, **changed)


@dataclass(frozen=True)
class Checkpoint:
    """Where the journal stands: number, digests and positions after its last record."""

    n: int
    digest: str
    outputs: str
    positions: Mapping[Partition, int]
    origin: Origin = Origin()

    def commit(
        self, identity: Identity, records: Sequence[Record], outputs: Sequence[NewRecord], now: float
    ) -> tuple[Checkpoint, Transaction]:
        """The next checkpoint, where `records` were processed, and the transaction that makes it so."""
        slices = tuple(_slices(records))
        positions = dict(self.positions)
        for part in slices:
            positions[Partition(part.topic, part.partition)] = part.next
        return self.next("commit", identity, now, positions=positions, outputs=outputs, slices=slices)

    def next(
        self,
        kind: Kind,
        identity: Identity,
        now: float,
        *,
        positions: Mapping[Partition, int] | None = None,
        outputs: Sequence[NewRecord] = (),
        **more: Any,
    ) -> tuple[Checkpoint, Transaction]:
        """The checkpoint after one more record, and its transaction; `more` are fields of the record."""
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
        """The checkpoint after the next journal record. Raises JournalError where it does not follow."""
        if record.n != self.n + 1:
            raise JournalError(f"the journal goes from record {self.n} to {record.n}")
        if record.previous != self.digest:
            raise JournalError(f"journal record {record.n} does not follow record {self.n}: digests differ")
        return self.at(record, self.origin.after(record))

    @staticmethod
    def at(record: JournalRecord, origin: Origin) -> Checkpoint:
        """The checkpoint at a record."""
        return Checkpoint(record.n, record.digest, record.outputs, positions_of(record), origin)

    def with_new_partitions(self, partitions: Sequence[Partition]) -> Checkpoint:
        """Partitions added since start at offset 0."""
        return replace(self, positions=dict.fromkeys(partitions, 0) | dict(self.positions))


BEFORE = Checkpoint(-1, START, START, {})
"""Before the first record."""


def snapshot_of(checkpoint: Checkpoint, parts: Mapping[str, Part], identity: Identity) -> Snapshot:
    """The snapshot of a learner that stands at a checkpoint."""
    known = checkpoint.origin
    origin = {
        "config": dict(known.config),
        "topic_ids": dict(known.topic_ids),
        "program": known.program,
        "reading": known.reading,
    }
    return Snapshot(
        journal_n=checkpoint.n,
        digest=checkpoint.digest,
        positions={(topic, number): offset for (topic, number), offset in checkpoint.positions.items()},
        config_hash=checkpoint.origin.config_hash,
        fingerprint=identity.fingerprint,
        parts={**parts, _PART: Part(origin, {})},
    )


def origin_of(snapshot: Snapshot) -> Origin:
    """What a snapshot says of its journal. Raises SnapshotError where it does not.

    Those of version 0.1.0 do not name the program: it is the one that wrote them.
    """
    try:
        meta = snapshot.parts[_PART].meta
        program = meta.get("program", snapshot.fingerprint.get(PROGRAM, ""))
        return Origin(
            snapshot.config_hash, meta["config"], meta["topic_ids"], program, meta.get("reading", 1)
        )
    except KeyError as error:
        raise SnapshotError(
            f"the snapshot at journal record {snapshot.journal_n} does not say what it was learned under: "
            "move it away, and the model is built again from the journal"
        ) from error


def _slices(records: Sequence[Record]) -> Iterator[Slice]:
    """Runs of records of one partition, in the order of processing."""
    for (topic, number), run in groupby(records, key=attrgetter("partition")):
        part = list(run)
        checksum = crc([record.value for record in part])
        yield Slice(topic, number, part[0].offset, part[-1].offset + 1, len(part), checksum)


def _nested(positions: Mapping[Partition, int]) -> dict[str, dict[str, int]]:
    nested: dict[str, dict[str, int]] = {}
    for (topic, number), offset in sorted(positions.items()):
        nested.setdefault(topic, {})[str(number)] = offset
    return nested


def positions_of(record: JournalRecord) -> dict[Partition, int]:
    """Where every partition stands after a record."""
    return {
        Partition(topic, int(number)): offset
        for topic, numbers in record.positions.items()
        for number, offset in numbers.items()
    }
