"""Retraining from the log, as if each event had carried its current label from the beginning.

The labels in force at journal record m resolve all events up to m. A new model learns these events and then
follows the journal from m + 1 on, like a replica, while the learner continues to serve.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamnb.engine.journal.checkpoint import Checkpoint, snapshot_of
from streamnb.engine.journal.job_identity import JobIdentity
from streamnb.engine.journal.journal_entries import partitions_of
from streamnb.engine.journal.journal_history import entries
from streamnb.engine.journal.recovery import JournalTail, recover, standing
from streamnb.engine.journal.snapshot_store import NoSnapshots, Snapshots
from streamnb.engine.ports import Log, Partition
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.processing.retrained_model import Offsets, RetrainedModel, offsets_of
from streamnb.engine.retraining.label_resolution import Chosen, LabelResolution, RetrainingProcessor
from streamnb.errors import JournalError
from streamnb.formats.journal_record import JournalRecord
from streamnb.formats.snapshot_container import Snapshot, SnapshotPart


def nothing(*_: object) -> bool:
    """Return False: no event is erased."""
    return False


@dataclass(frozen=True)
class RetrainingSource:
    """Input of a retraining.

    Attributes:
        log: read-only.
        snapshots: the learner's snapshots.
        learner: creates an empty learner.
        identity: the job that the state must belong to.
    """

    log: Log
    snapshots: Snapshots
    learner: Callable[[], EventProcessor]
    identity: JobIdentity


class Retraining:
    """A retrained model that follows the journal.

    Args:
        source: journal, log and snapshots.
        chosen: predicate of events to erase, in addition to those erased before.
        at: journal record whose labels are in force; default is the last.
        under: configuration of the retraining from the first event on; default is the record's.

    Attributes:
        to: the record `at`.
        events: number of predicted events up to `to`.
        learned: number of them learned with a label.
        unlabelled: number of them without a label in force, erased events excluded.
        refused: number of them whose label exceeds the memory budget.
        forgotten: number of them erased by `chosen`.

    Raises:
        JournalError: events or journal do not reach back to the beginning.
    """

    def __init__(
        self,
        source: RetrainingSource,
        chosen: Chosen = nothing,
        at: int | None = None,
        under: Mapping[str, Any] | None = None,
    ) -> None:
        self._source, identity = source, source.identity
        end = standing(source.log, source.snapshots, identity)
        if end.n < 0:
            raise JournalError("the journal is empty: nothing has been learned yet")
        at = end.n if at is None else at
        _check_beginning(source.log, identity)
        known = erased_before(source.snapshots, end.origin.floor)
        truths = LabelResolution(source.learner().settings, known)
        before = self._processed(truths, at)
        truths.finish()
        shaping = under or before.origin.config
        fresh = self._fresh(shaping)
        anew = RetrainingProcessor(fresh.settings, fresh.model, truths, known, chosen)
        self._processed(anew, at)
        self.to, self.events, self.learned = at, len(truths.offsets), anew.learned
        left_out = {p: np.array(offsets, dtype=np.int64) for p, offsets in anew.left_out.items()}
        gone = sum(map(len, left_out.values()))
        self.forgotten = gone - sum(map(len, known.values()))
        self.refused = anew.refused
        self.unlabelled = self.events - self.learned - gone - self.refused
        self._gone = truths.waiting(truths.at(left_out))
        self._learner = learner = self._fresh(shaping)
        learner.model, learner.late, learner.consumed = anew.model, truths.late, truths.consumed
        learner.forgotten = left_out
        if learner.late is not None:
            first = self._first_waiting()
            pruned = np.frombuffer(anew.prunings, dtype=np.int32)[truths.base + first :]
            learner.late.adopt(first, pruned, self._gone)
        self._following = JournalTail(source.log, learner, identity, before)

    def follow(self) -> JournalRecord | None:
        """Process the journal to its end, or to an installed model; return the last record, or None."""
        last: JournalRecord | None = None
        for record in self._following.advance():
            last = record
        return last

    @property
    def checkpoint(self) -> Checkpoint:
        """Checkpoint of the retrained model."""
        return self._following.checkpoint

    def retrained(self) -> RetrainedModel:
        """Return the current retrained model."""
        late, first = self._learner.late, self._first_waiting()
        pruned = np.zeros(0, dtype=np.int32)
        if late is not None:
            pruned = late.pending.column("pruned", np.arange(first, late.pending.next)).astype(np.int32)
        return RetrainedModel(
            SnapshotPart(*self._learner.model.state()),
            self.to,
            first,
            pruned,
            self._gone,
            self._learner.forgotten,
            self.forgotten > 0,
        )

    def snapshot(self, rebuilt: RetrainedModel) -> Snapshot:
        """Return the snapshot to save for the current model."""
        return snapshot_of(self.checkpoint, rebuilt.parts(), self._source.identity)

    def _fresh(self, shaping: Mapping[str, Any]) -> EventProcessor:
        """Return an empty learner under a configuration."""
        known = self._source.identity.configuration
        if known is None or known.semantic_config == shaping:
            return self._source.learner()
        return known.learner(shaping)

    def _first_waiting(self) -> int:
        """Return the number of the first event that may wait for a label."""
        late = self._learner.late
        return 0 if late is None else min(late.pending.blocks(), default=late.pending.next)

    def _processed(self, learner: EventProcessor, at: int) -> Checkpoint:
        """Replay the journal into a processor, whose outputs differ from the published ones."""
        identity = self._source.identity
        blind = replace(identity, fingerprint={**identity.fingerprint, "learned": "anew"})
        return recover(self._source.log, NoSnapshots(), learner, blind, at=at)


def erased_before(snapshots: Snapshots, floor: int) -> Offsets:
    """Return events erased up to record `floor`, from the newest snapshot; raise JournalError without one."""
    if floor < 0:
        return {}
    found = snapshots.newest()
    if found is None or found.snapshot.journal_n < floor:
        raise JournalError(
            f"events were forgotten at journal record {floor}, and no later snapshot lists them: start the "
            "learner, which saves a snapshot at once"
        )
    return offsets_of(found.snapshot.parts["forgotten"])


def _check_beginning(log: Log, identity: JobIdentity) -> None:
    """Raise JournalError if the log no longer has the first learned records."""
    first = next(entries(log, log.partitions(identity.journal)[0]), None)
    if first is None or first.record.n:
        begin = "is empty" if first is None else f"begins with record {first.record.n}"
        raise JournalError(f"cannot retrain: the journal {begin}, and record 0 is needed")
    earliest = {partition: log.offsets(partition)[0] for partition in partitions_of(log, identity)}
    untouched = {partition for partition, offset in earliest.items() if offset}
    ids: dict[str, str] = {}
    learned: set[str] = set()  # topics
    for entry in entries(log, log.partitions(identity.journal)[0]):
        _refuse_recreated_topics(ids, entry.record.topic_ids, learned)
        for part in entry.record.slices:
            learned.add(part.topic)
            partition = Partition(part.topic, part.partition)
            if partition in untouched and part.first < earliest[partition]:
                raise JournalError(
                    f"cannot retrain: {part.topic}/{part.partition} was learned from offset {part.first} on "
                    f"and now begins with {earliest[partition]}: retention has removed the records before"
                )
            untouched.discard(partition)
    _refuse_recreated_topics(ids, log.topic_ids([*ids]), learned)


def _refuse_recreated_topics(ids: dict[str, str], found: Mapping[str, str], learned: set[str]) -> None:
    """Raise JournalError if a `learned` topic has another id than before; record new ids."""
    recreated = sorted(topic for topic in learned if topic in found and ids.get(topic) != found[topic])
    if recreated:
        raise JournalError(
            f"cannot retrain: topic {recreated[0]!r} was deleted and recreated, and the learned records are "
            "gone; continue with the current model, or begin another model with its own journal"
        )
    ids.update(found)
