"""A model learned anew from the log: history as if the truth had always been known.

The labels that hold at a journal record m are those of all events up to there; the model is learned anew with
them, and then follows the journal from m + 1 on as every learner does. So it may take long, and the learner
that serves goes on meanwhile.
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
    """No event is to be forgotten."""
    return False


@dataclass(frozen=True)
class RetrainingSource:
    """What a model is learned anew from.

    Attributes:
        log: which is only read.
        snapshots: where the learner's are found.
        learner: makes one that has learned nothing.
        identity: what the state has to belong to.
    """

    log: Log
    snapshots: Snapshots
    learner: Callable[[], EventProcessor]
    identity: JobIdentity


class Retraining:
    """A model that was learned anew, and follows the journal.

    Args:
        source: what it is learned from.
        chosen: events that are to be forgotten, beside those that were before.
        at: the journal record whose labels hold; the last as it is now, where none is given.
        under: the configuration with which the model is learned, from the first event on; that which held at
            the record, where none is given.

    Attributes:
        to: that record.
        events: how many events it has met there.
        learned: how many of them have a label, and taught something.
        unlabelled: how many have no label that counts, of those that were not forgotten now or before.
        refused: how many have a label one too many for the budget of memory.
        forgotten: how many events were chosen, and had not been forgotten before.

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
        known = evicted_before(source.snapshots, end.origin.floor)
        truths = LabelResolution(source.learner().settings, known)
        before = self._processed(truths, at)
        truths.finish()
        shaping = under or before.origin.config
        fresh = self._fresh(shaping)
        anew = RetrainingProcessor(fresh.settings, fresh.model, truths, known, chosen)
        self._processed(anew, at)
        self.to, self.events, self.learned = at, len(truths.offsets), anew.learned
        left_out: Offsets = {
            partition: np.array(offsets, dtype=np.int64) for partition, offsets in anew.left_out.items()
        }
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
        """Go on to the journal's end; the last record that came, None where none did.

        It stops before a record by which a model is taken up.
        """
        last: JournalRecord | None = None
        for record in self._following.advance():
            last = record
        return last

    @property
    def checkpoint(self) -> Checkpoint:
        """Where it stands."""
        return self._following.checkpoint

    def retrained(self) -> RetrainedModel:
        """The model as it stands."""
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
        """What a file holds of the model as it stands."""
        return snapshot_of(self.checkpoint, rebuilt.parts(), self._source.identity)

    def _fresh(self, shaping: Mapping[str, Any]) -> EventProcessor:
        """A learner that has learned nothing, under a configuration."""
        known = self._source.identity.configuration
        return (
            self._source.learner()
            if known is None or known.semantic_config == shaping
            else known.learner(shaping)
        )

    def _first_waiting(self) -> int:
        """The number of the first event that may wait for a label."""
        late = self._learner.late
        return 0 if late is None else min(late.pending.blocks(), default=late.pending.next)

    def _processed(self, learner: EventProcessor, at: int) -> Checkpoint:
        """Let a learner process all that the journal did; what comes out is not what was published."""
        identity = self._source.identity
        blind = replace(identity, fingerprint={**identity.fingerprint, "learned": "anew"})
        return recover(self._source.log, NoSnapshots(), learner, blind, at=at)


def evicted_before(snapshots: Snapshots, floor: int) -> Offsets:
    """What was forgotten before, as the newest snapshot knows. Raises JournalError where it may not."""
    if floor < 0:
        return {}
    found = snapshots.newest()
    if found is None or found.snapshot.journal_n < floor:
        raise JournalError(
            f"events were forgotten at journal record {floor}, and no snapshot from there on says which: let "
            "the learner run, and it keeps one at once"
        )
    return offsets_of(found.snapshot.parts["forgotten"])


def _check_beginning(log: Log, identity: JobIdentity) -> None:
    """Raises JournalError where events of the beginning are gone."""
    first = next(entries(log, log.partitions(identity.journal)[0]), None)
    if first is None or first.record.n:
        begin = "is empty" if first is None else f"begins with record {first.record.n}"
        raise JournalError(f"nothing can be learned anew: the journal {begin}, and record 0 is needed")
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
                    f"nothing can be learned anew: {part.topic}/{part.partition} was learned from offset "
                    f"{part.first} on, and begins with {earliest[partition]} by now: retention has taken "
                    "what was before"
                )
            untouched.discard(partition)
    _refuse_recreated_topics(ids, log.topic_ids([*ids]), learned)


def _refuse_recreated_topics(ids: dict[str, str], found: Mapping[str, str], learned: set[str]) -> None:
    """Raises JournalError where topics that were `learned` have other ids than before; notes new ones."""
    anew = sorted(topic for topic in learned if topic in found and ids.get(topic) != found[topic])
    if anew:
        raise JournalError(
            f"nothing can be learned anew: topic {anew[0]!r} was deleted and made anew, and what was learned "
            "of it before is gone; go on with the model as it is, or begin another model, with a journal of "
            "its own"
        )
    ids.update(found)
