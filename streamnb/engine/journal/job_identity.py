"""Who a learner is: its model's name, the log it learns and the configuration that shapes what it learns."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from streamnb.engine.ports import Partition
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.formats.journal_record import ConfigChange, JournalRecord

PROGRAM = "streamnb"
"""The key of a fingerprint that holds the program's version."""


class JobConfiguration(Protocol):
    """The configuration as the engine sees it: what can be journalled, compared and applied."""

    @property
    def semantic_config(self) -> Mapping[str, Any]:
        """Every key that shapes what is learned or published, with its value, fit for JSON."""

    def changes_since(self, before: Mapping[str, Any]) -> Sequence[ConfigChange]:
        """What is different from a `shaping` that was journalled. Raises JournalError for an unknown one."""

    def learner(self, shaping: Mapping[str, Any]) -> EventProcessor:
        """One that has learned nothing, under a `shaping` that was journalled, or the present one."""

    def apply(self, learner: EventProcessor, shaping: Mapping[str, Any], *, counts_room: bool = True) -> None:
        """Let a learner go on under one of these; its state counts another room only if `counts_room`."""


@dataclass(frozen=True)
class JobIdentity:
    """What a state belongs to.

    Attributes:
        topics: the topics that are read.
        journal: the journal's topic.
        config_hash: hash of all configuration that shapes learning or outputs.
        fingerprint: what derived floats depend on.
        configuration: that configuration; without it none but the same hash is continued.
        partitions: the numbers of those that are read, of each topic; empty is all.
    """

    topics: tuple[str, ...]
    journal: str
    config_hash: str
    fingerprint: Mapping[str, str]
    configuration: JobConfiguration | None = field(default=None, compare=False)
    partitions: tuple[int, ...] = ()

    def reads(self, partition: Partition) -> bool:
        """Whether a partition of one of its topics is read."""
        return not self.partitions or partition.number in self.partitions

    @property
    def machine(self) -> str:
        """The fingerprint in a few letters."""
        return hashlib.sha256(repr(sorted(self.fingerprint.items())).encode()).hexdigest()[:16]

    @property
    def program(self) -> str:
        """The version of this program."""
        return self.fingerprint.get(PROGRAM, "")

    @property
    def semantic_config(self) -> Mapping[str, Any]:
        """What is journalled of the configuration."""
        return {} if self.configuration is None else self.configuration.semantic_config


@dataclass(frozen=True)
class JournalOrigin:
    """What the journal says of the state beside its numbers; snapshots hold it, so that they are enough.

    Attributes:
        config_hash: of the configuration that holds.
        config: its keys and values.
        topic_ids: topic -> id.
        program: the version of the program that goes on.
        floor: the last record at which events were forgotten: no state before it comes back; -1 for none.
    """

    config_hash: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    program: str = ""
    floor: int = -1

    def after(self, record: JournalRecord) -> JournalOrigin:
        """What holds after a record."""
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
