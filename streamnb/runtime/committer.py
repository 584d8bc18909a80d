"""The commit: learn a batch of records, and publish its outputs and its journal record in one transaction."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from streamnb.engine.ports import CommitInFlight, Record
from streamnb.engine.processing.counters import Counters
from streamnb.engine.sensor import Committed
from streamnb.runtime.topic_guard import TopicGuard
from streamnb.runtime.worker_context import WorkerContext

_MAX_RUNS = 2000  # runs of one partition's records, each at most 400 bytes in a journal record
_WORK = 4  # steps in a commit of what takes longer than one


class _CommitBegun(NamedTuple):
    commit: CommitInFlight
    n: int
    at: float
    records: Sequence[Record]
    tally: Counters
    polled_at: float
    processed_at: float


class Committer:
    """Commits, one after another; a commit in flight overlaps with the processing of the next batch.

    Invariants:

    * At most one commit is in flight, and its outcome is awaited before the next one begins.
    * If a commit fails, `context.is_ahead` stays set: the process must end, and recovery repeats the work.
    * The clock is read once a commit, and journalled. Nothing learned or published depends on another clock.

    Attributes:
        began: when the last commit began, by the monotonic clock.
        processing_seconds: processor time of this thread for all commits, which a replay would take again.
    """

    def __init__(self, context: WorkerContext, topics: TopicGuard) -> None:
        self._context, self._topics = context, topics
        self._in_flight: _CommitBegun | None = None
        self.began = -math.inf
        self.processing_seconds = 0.0
        self._reported = -math.inf  # when a commit last held a report

    @property
    def is_consistent(self) -> bool:
        """True if the learner equals the journal: no commit is in flight, and none has failed."""
        return self._in_flight is None and not self._context.is_ahead

    def commit(self, records: Sequence[Record]) -> Sequence[Record]:
        """Commit as many of the records as outputs and journal record can hold; return the rest.

        Without records, commit a report.

        1. Check that the journal still refers to the topics of the records.
        2. Read the clock. The silences that monitors evaluate are journalled, too.
        3. Predict and learn the records in order, and encode the outputs. If outputs are large, as for many
           classes, leave the rest for the next commit: batching changes nothing else.
        4. Make the journal record of the processed records.
        5. Wait until the last commit is durable.
        6. Begin to write outputs, journal record and positions in one transaction. Meanwhile, read and learn
           the next records.

        A crash before the end of the transaction loses nothing: the records are read again. A crash after it
        repeats nothing: the journal lists the processed records, and recovery learns them without output.
        """
        context, learner = self._context, self._context.learner
        self.began = time.monotonic()
        self._topics.check()  # 1
        now, polled_at, processed_at = context.clock(), context.polled_at, time.time()  # 2
        silence = self.silence(now)
        context.is_ahead = True  # 3
        before = learner.consumed
        work = _WORK if learner.has_work else 0
        first = records[: journalled_prefix(records)]
        started = time.thread_time()
        outputs = learner.process(first, now, context.heartbeat, context.policy.commit_bytes, work, silence)
        self.processing_seconds += time.thread_time() - started
        taken = learner.consumed - before
        tally, learner.tally = learner.tally, Counters()
        if tally.report is not None:
            self._reported = self.began
        acted = learner.actions.acted(taken)
        checkpoint, transaction = context.checkpoint.commit(  # 4
            context.identity, records[:taken], outputs, now, work, silence, acted
        )
        self.await_commit()  # 5
        at = time.time()
        in_flight = context.log.begin_commit(transaction)  # 6
        begun = in_flight, checkpoint.n, at, records[:taken], tally, polled_at, processed_at
        self._in_flight = _CommitBegun(*begun)
        context.checkpoint, context.is_ahead = checkpoint, False
        return records[taken:]

    def silence(self, now: float) -> float:
        """Return the longest silence in seconds that monitors must evaluate now; 0 if there is none.

        With unread records only silences since the start of this learner count: it may have just started, and
        not have read the records of a longer silence.
        """
        overdue = self._context.learner.monitors.overdue(now)
        if overdue and any(self._context.log.lag().values()):
            seen = time.monotonic() - self._context.running_since
            overdue = [seconds for seconds in overdue if seconds <= seen]
        return max(overdue, default=0.0)

    def is_report_due(self, seconds: float) -> bool:
        """Return True if events were not reported for `seconds`, by the monotonic clock."""
        is_old = time.monotonic() - self._reported >= seconds
        return is_old and self._context.is_restored and self._context.learner.has_pending_report

    def finish_if_over(self) -> None:
        """Report the commit in flight if its outcome is known."""
        if self._in_flight is not None and self._in_flight.commit.is_over():
            self.await_commit()

    def await_commit(self) -> None:
        """Wait for the commit in flight, if any; if it fails, the model is ahead of the journal."""
        begun, self._in_flight = self._in_flight, None
        if begun is None:
            return
        is_ahead, self._context.is_ahead = self._context.is_ahead, True
        seconds = begun.commit.await_outcome()
        self._context.is_ahead = is_ahead
        at, records, sensor = begun.at + seconds, begun.records, self._context.sensor
        if begun.tally.report is not None:
            sensor.reported(begun.tally.report)
        latencies = [at - record.timestamp for record in records]
        times = begun.polled_at, begun.processed_at
        sensor.committed(
            Committed(begun.n, len(records), begun.tally, seconds, at, latencies, records, *times)
        )


def journalled_prefix(records: Sequence[Record]) -> int:
    """Return how many records fit in one journal record, which lists runs of one partition."""
    runs = 0
    for number, (before, record) in enumerate(pairwise(records), 1) if len(records) > _MAX_RUNS else ():
        runs += before.partition != record.partition
        if runs == _MAX_RUNS:
            return number
    return len(records)
