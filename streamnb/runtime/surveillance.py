"""Periodic checks of a running worker: partitions, settings and gaps of topics, the journal, and memory."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from streamnb.engine.journal.checkpoint import positions_of
from streamnb.engine.journal.journal_entries import partitions_of, restate
from streamnb.engine.journal.journal_history import find
from streamnb.engine.ports import Partition, TopicLoss
from streamnb.engine.processing.metrics_reports import why_nothing_is_evicted
from streamnb.engine.sensor import MOST_TENANTS
from streamnb.errors import OutOfRange
from streamnb.models.tenants.tenant_models import TenantModels
from streamnb.runtime.committer import Committer
from streamnb.runtime.record_reader import RecordReader
from streamnb.runtime.snapshot_writer import SnapshotWriter
from streamnb.runtime.topic_guard import TopicGuard, loss_message
from streamnb.runtime.worker_context import WorkerContext
from streamnb.statistics.memory_budget import MemoryUse
from streamnb.values.messages import Message

_SHORT_OF_MEMORY = 0.8
_MOST_BYTES = 1 << 20  # of batches that are fetched again
_WHEN_FULL = {
    "words": "beyond that the rarest are forgotten",
    "long_words": "beyond that the rarest are forgotten",
    "features": "beyond that the lightest are forgotten",
    "forests": "beyond that no tree is split, until one of them starts again",
    "pairs": "beyond that the attributes that came last lose theirs",
    "waiting": "beyond that the oldest events wait no longer",
}
_RAISED = {"waiting": ("labels.memory", ", up to an eighth of memory.budget")}


class TopicSurveillance:
    """Topics that change while the worker runs.

    Invariants:

    * A partition that is added is read from its first record on.
    * The record of the newest snapshot stays in the journal, however the journal is trimmed.
    """

    def __init__(
        self,
        context: WorkerContext,
        topics: TopicGuard,
        committer: Committer,
        reader: RecordReader,
        writer: SnapshotWriter,
    ) -> None:
        self._context, self._topics, self._committer = context, topics, committer
        self._reader, self._writer = reader, writer

    def take_new_partitions(self) -> None:
        """Read new partitions from their beginning; the next commit journals them."""
        self._topics.check()
        context = self._context
        found = partitions_of(context.log, context.identity)
        if not set(found) <= set(context.checkpoint.positions):
            context.checkpoint = context.checkpoint.with_new_partitions(found)
            self._reader.seek()

    def survive_trimming(self) -> None:
        """Write a current record and a snapshot if the beginning of the journal was deleted.

        Otherwise the record of the newest snapshot may be lost, and nothing could recover the state after
        this learner ends.
        """
        first, context = self._topics.trimmed(), self._context
        if first is None:
            return
        self._committer.await_commit()
        self._writer.finish(context.heartbeat)
        text = f"the journal was trimmed up to offset {first}: a snapshot follows at once"
        context.sensor.noted(Message("journal-trimmed", text, offset=first))
        context.checkpoint = restate(context.log, context.checkpoint, context.identity, context.clock())
        self._writer.begin(context.checkpoint)


class LossSurveillance:
    """Records that topics lose, or are about to lose.

    Invariants:

    * A setting that removes records is reported when it appears; the start reports those that it finds.
    * Offsets that were passed without a record are counted, unless ends of transactions explain them. Gaps
      are examined only if fewer records were consumed than offsets passed: all of a compacted topic, and of
      other topics one partition each time. A look fetches at most `_MOST_BYTES` of a partition.
    """

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._known: set[TopicLoss] | None = None
        self._positions: Mapping[Partition, int] | None = None
        self._consumed = self._missing = self._turn = 0

    def report_settings(self) -> None:
        """Log each setting that is new."""
        identity = self._context.identity
        found = set(
            self._context.log.losses(
                {**dict.fromkeys(identity.topics, "events"), identity.journal: "journal"}
            )
        )
        for loss in sorted(found - self._known) if self._known is not None else ():
            self._context.sensor.noted(loss_message(loss))
        self._known = found

    def report_gaps(self) -> None:
        """Log how many offsets are missing among those that were passed since the last call."""
        positions, consumed = self._context.checkpoint.positions, self._context.learner.consumed
        before, self._positions = self._positions, positions
        n, self._consumed = consumed - self._consumed, consumed
        if before is None:
            return
        passed = {p: (first, positions[p]) for p, first in before.items() if positions.get(p, first) > first}
        if sum(end - first for first, end in passed.values()) <= n:
            return
        compacted = {loss.topic for loss in self._known or () if loss.is_fatal}
        self._turn += 1
        for number, (partition, (first, end)) in enumerate(passed.items()):
            if partition.topic not in compacted and number != self._turn % len(passed):
                continue
            missing, until = self._context.log.missing(partition, first, end, _MOST_BYTES)
            if missing:
                self._report(partition, first, until, missing)

    def _report(self, partition: Partition, first: int, end: int, missing: int) -> None:
        self._missing += missing
        self._context.sensor.missed(missing)
        text = (
            f"{partition}: {missing:,} of offsets {first} to {end - 1} have no record, and no end of a "
            f"transaction explains it ({self._missing:,} so far): compaction has removed them; "
            "`streamnb doctor` shows the setting"
        )
        where = {"partition": str(partition), "first": first, "end": end}
        fields = {**where, "missing": missing, "total": self._missing, "command": "streamnb doctor"}
        self._context.sensor.noted(Message("records-missing", text, **fields))


class RecoverySurveillance:
    """Time for which the log keeps what a recovery from the newest snapshot reads.

    Only records that this learner has read are looked up, because a read waits for an open transaction.
    """

    def __init__(self, context: WorkerContext, clock: Callable[[], float] = time.time) -> None:
        self._context, self._clock = context, clock  # the worker's is read once a commit
        self._saved_n = -2
        self._positions: Mapping[Partition, int] = {}
        self._written: dict[tuple[Partition, int], float] = {}

    def observe(self) -> None:
        """Report the time that is left, and the retention."""
        context, seconds = self._context, math.inf
        topics = context.identity.topics
        retention = context.log.retention(topics)
        self._find_positions()
        now, written = self._clock(), self._written
        self._written = {}
        for topic in topics:
            for partition, (first, _) in context.log.offset_ranges(topic).items():
                position = self._positions.get(partition, first)
                if position < first:
                    seconds = 0.0
                elif topic in retention and position < context.checkpoint.positions.get(partition, 0):
                    at = partition, position
                    self._written[at] = written[at] if at in written else self._timestamp(*at)
                    seconds = min(seconds, max(0.0, self._written[at] + retention[topic] - now))
        context.sensor.recoverable(seconds, min(retention.values(), default=math.inf))

    def _find_positions(self) -> None:
        """Find the positions of the newest snapshot, or of the beginning of the journal without one."""
        n = max(0, self._context.snapshots.newest_record())
        if n == self._saved_n:
            return
        log, journal = self._context.log, self._context.identity.journal
        entry = find(log, log.partitions(journal)[0], n)
        self._saved_n, self._positions = n, {} if entry is None else positions_of(entry.record)

    def _timestamp(self, partition: Partition, position: int) -> float:
        """Return when the record was written; now if it has gone meanwhile."""
        with suppress(OutOfRange):
            for record in self._context.log.read(partition, position, 1):
                return record.timestamp
        return self._clock()


class MemorySurveillance:
    """Memory of the learner, as sensors and the operator see it.

    Invariant: the operator is warned once for each part of memory, however often it fills.
    """

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._warned: set[str] = set()  # parts of memory that were reported as nearly full
        self._evicts = True  # as far as reported

    def observe(self, lag: Mapping[Partition, int]) -> None:
        """Report lag and use of memory to the sensors, and warn if a part is nearly full."""
        learner, sensor = self._context.learner, self._context.sensor
        sensor.observed(lag, learner.n_bytes)
        memory = learner.memory_use
        sensor.remembered(memory)
        if isinstance(learner.model, TenantModels):
            sensor.shared_out(learner.model.use(MOST_TENANTS))
        self.warn_if_short(memory)

    def warn_if_nothing_is_evicted(self) -> None:
        """Log once that a limit by time evicts nothing, and why."""
        reason = why_nothing_is_evicted(self._context.learner.model) if self._evicts else ""
        if reason:
            self._evicts = False
            text = f'{reason}; events.clock = "log" goes by when the log recorded each'
            self._context.sensor.noted(Message("nothing-evicted", text, reason=reason))

    def warn_if_short(self, memory: MemoryUse) -> None:
        """Log once for each part of memory that it is nearly full, and the consequence."""
        for name, part in memory.parts.items():
            if part.share > _SHORT_OF_MEMORY and name not in self._warned:
                self._warned.add(name)
                left = int((1.0 / part.share - 1.0) * self._context.learner.consumed)
                pace = f", at this pace in about {left:,} events" if left > 0 else ""
                key, most = _RAISED.get(name, ("memory.budget", ""))
                use = f"{name.replace('_', ' ')} take {part.share:.0%} of their {part.most / 1e6:.1f} MB"
                text = f"{key}: {use}; {_WHEN_FULL[name]}{pace}; {key} may be raised{most}"
                fields = {"part": name, "share": part.share, "most": part.most, "events_left": left}
                self._context.sensor.noted(Message("memory-nearly-full", text, **fields))
