"""Reading of the records of one commit, from the positions of the checkpoint on."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence

from streamnb.engine.journal.journal_entries import missing_records
from streamnb.engine.journal.recovery_faults import ACCEPT_LOSS
from streamnb.engine.ports import Partition, Record, value_sizes
from streamnb.errors import JournalError, OutOfRange
from streamnb.runtime.committer import Committer
from streamnb.runtime.worker_context import WorkerContext

_TURN_SECONDS = 0.5
_RETENTION_OVERTOOK = (
    "retention overtook the learner: let topics.retention outlast its lag "
    "(`streamnb topics plan` shows how to raise a topic's)"
)


class RecordReader:
    """Records of the log in order, each once.

    Invariant: `left` and the log's next records follow the positions of `context.checkpoint`, except that
    topics of labels are not read while `skips_labels` is set.

    Attributes:
        left: records that were read and did not fit in a commit: the outputs of others filled it.
        skips_labels: labels wait for events; call `seek` after a change.
    """

    def __init__(self, context: WorkerContext, committer: Committer) -> None:
        self._context, self._committer = context, committer
        self.left: Sequence[Record] = ()
        self.skips_labels = False

    def seek(self) -> None:
        """Read from the checkpoint on; records that are left are read again."""
        positions, late = self._context.checkpoint.positions, self._context.learner.late
        if self.skips_labels and late is not None:
            positions = {p: at for p, at in positions.items() if p.topic != late.settings.topic}
        self.left = ()
        self._context.log.seek(positions)

    def lag(self) -> Mapping[Partition, int]:
        """Return the unlearned records of each partition that is read."""
        left = Counter(record.partition for record in self.left)
        return {partition: behind + left[partition] for partition, behind in self._context.log.lag().items()}

    def read(self, *, until_end: bool = False) -> Sequence[Record]:
        """Return records for one commit: until it is due, or up to the limit; empty if none arrived.

        With `until_end` it does not wait at the end of the log. Number and bytes of the records are bounded,
        with heartbeats and checks for `stop` in between. Records left over from the last commit come first,
        without a wait. Raises JournalError if the next records are lost.
        """
        if self.left:
            self._context.heartbeat()
            waiting, self.left = self.left, ()
            self._context.polled_at = time.time()
            return waiting
        try:
            return self._gather(until_end=until_end)
        except OutOfRange as error:
            context = self._context
            missing = missing_records(context.log, context.checkpoint, context.identity)
            if not missing:
                raise
            is_trimmed = any("were deleted" in line for line in missing)
            advice = [_RETENTION_OVERTOOK, ACCEPT_LOSS] if is_trimmed else [ACCEPT_LOSS]
            raise JournalError("; ".join([*missing, *advice])) from error

    def _gather(self, *, until_end: bool) -> Sequence[Record]:
        context, policy = self._context, self._context.policy
        context.polled_at = time.time()
        records: list[Record] = []
        wait = 0.0 if context.learner.has_work else policy.commit_seconds
        due = self._committer.began + wait
        latest = max(due, time.monotonic() + wait)
        size = 0
        while len(records) < policy.commit_events and size < policy.commit_bytes and not context.is_stopping:
            context.heartbeat()
            self._committer.finish_if_over()
            left = (due if records else latest) - time.monotonic()
            found = context.log.poll(policy.commit_events - len(records), min(_TURN_SECONDS, max(0.0, left)))
            records += found
            size += sum(value_sizes(found))
            now = time.monotonic()
            if now >= latest or (now >= due and records and not found):
                break
            if until_end and not found and not any(context.log.lag().values()):
                break
        return records
