"""Detection of topics that are deleted, recreated or about to lose records while a worker runs."""

from __future__ import annotations

from collections.abc import Mapping

from streamnb.engine.journal.checkpoint import Checkpoint
from streamnb.engine.journal.journal_topic import JournalTopic
from streamnb.engine.ports import TopicLoss
from streamnb.errors import JournalError, UnknownTopic
from streamnb.runtime.worker_context import WorkerContext
from streamnb.values.messages import Message


class TopicGuard:
    """Ids of the topics that the journal refers to, and the journal's own topic.

    Invariant: an offset is learned only from the topic for which the journal recorded it. An id is never
    reused, so a check between reading and learning suffices.
    """

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._topic_ids: Mapping[str, str] = {}
        self._journal: JournalTopic | None = None

    def find_journal(self) -> None:
        """Note the id and the extent of the journal's topic, before it is read."""
        log, name = self._context.log, self._context.identity.journal
        self._journal = JournalTopic(log, log.partitions(name)[0])

    def expect(self, checkpoint: Checkpoint) -> None:
        """Take the topic ids of the journal's origin, and check them."""
        self._topic_ids = checkpoint.origin.topic_ids
        self.check()

    def check(self) -> None:
        """Raise JournalError if a topic was deleted or recreated.

        A client may continue at the old offset of a recreated topic.
        """
        journal = self._context.identity.journal
        found = self._context.log.topic_ids([*self._topic_ids, journal])
        for topic, known in self._topic_ids.items():
            if topic not in found:
                raise UnknownTopic(f"topic {topic!r} was deleted while this learner ran")
            if found[topic] != known:
                raise JournalError(
                    f"topic {topic!r} was deleted and recreated: offsets in the journal do not apply to it"
                )
        if self._journal is not None:
            self._journal.check(found.get(journal, ""))

    def trimmed(self) -> int | None:
        """Return the journal's first offset if records before it were deleted since the last call."""
        return None if self._journal is None else self._journal.trimmed()


def loss_message(loss: TopicLoss) -> Message:
    """Return the warning of a setting by which a topic loses records."""
    what, _, found = loss.difference
    fields = {"topic": loss.topic, "setting": what, "value": found, "command": loss.change}
    return Message("topic-loses-records", str(loss), **fields)
