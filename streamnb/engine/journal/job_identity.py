"""Identity of a job: model name, topics and the configuration that changes what is learned."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from streamnb.engine.ports import Partition
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.formats.journal_record import ConfigChange, JournalRecord

PROGRAM = "streamnb"
"""Key of the program version in a fingerprint."""


class JobConfiguration(Protocol):
    """The configuration as the engine uses it: journalled, compared and applied."""

    @property
    def semantic_config(self) -> Mapping[str, Any]:
        """Keys and JSON values of all settings that change what is learned or published."""

    def changes_since(self, before: Mapping[str, Any]) -> Sequence[ConfigChange]:
        """Return the changes since a journalled `semantic_config`; raise JournalError if unknown."""

    def learner(self, shaping: Mapping[str, Any]) -> EventProcessor:
        """Return an empty learner with a journalled or the current `semantic_config`."""

    def apply(self, learner: EventProcessor, shaping: Mapping[str, Any], *, counts_room: bool = True) -> None:
        """Apply a `semantic_config` to a learner; count a capacity change only if `counts_room`."""


@dataclass(frozen=True)
class JobIdentity:
    """Identity that a state belongs to.

    Attributes:
        topics: topics of events and labels.
        journal: the journal's topic.
        config_hash: hash of the semantic configuration.
        fingerprint: versions and hardware on which floating-point results depend.
        configuration: the configuration; None accepts only an equal hash.
        partitions: partition numbers that are read of each topic; empty means all.
    """

    topics: tuple[str, ...]
    journal: str
    config_hash: str
    fingerprint: Mapping[str, str]
    configuration: JobConfiguration | None = field(default=None, compare=False)
    partitions: tuple[int, ...] = ()

    def reads(self, partition: Partition) -> bool:
        """Return if a partition of its topics is read."""
        return not self.partitions or partition.number in self.partitions

    @property
    def machine(self) -> str:
        """Short hash of the fingerprint."""
        return hashlib.sha256(repr(sorted(self.fingerprint.items())).encode()).hexdigest()[:16]

    @property
    def program(self) -> str:
        """Version of this program."""
        return self.fingerprint.get(PROGRAM, "")

    @property
    def semantic_config(self) -> Mapping[str, Any]:
        """Journalled part of the configuration."""
        return {} if self.configuration is None else self.configuration.semantic_config


@dataclass(frozen=True)
class JournalOrigin:
    """Provenance of a journal's state, stored in snapshots so that they suffice.

    Attributes:
        config_hash: hash of the configuration in force.
        config: its keys and values.
        topic_ids: topic -> id.
        program: version of the program in force.
        floor: the last record that erased events, below which no state may return; -1 for none.
    """

    config_hash: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    program: str = ""
    floor: int = -1

    def after(self, record: JournalRecord) -> JournalOrigin:
        """Return the origin after a record."""
        changed: dict[str, Any] = {}
        if record.kind in {"genesis", "config"} or record.config_hash:
            changed |= {"config_hash": record.config_hash, "config": record.config}
        if record.kind in {"genesis", "loss"}:
            changed |= {"topic_ids": record.topic_ids}
        if record.kind == "config" and record.topic_ids:
            changed |= {"topic_ids": {**self.topic_ids, **record.topic_ids}}
        if record.kind in {"genesis", "program"}:
            changed |= {"program": record.fingerprint.get(PROGRAM, "")}
        if record.kind == "adopt" and record.floor:
            changed |= {"floor": record.n}
        return replace(self, **changed)
