"""Check that the journal topic is still the same and complete while a learner runs."""

from __future__ import annotations

from streamnb.engine.ports import Log, Partition
from streamnb.errors import JournalError


class JournalTopic:
    """Identity of the journal topic; create it before the journal is read.

    Args:
        log: acquired.
        partition: the journal's.
    """

    def __init__(self, log: Log, partition: Partition) -> None:
        self._log, self._partition = log, partition
        self._id = log.topic_id(partition.topic)
        self._first, _ = log.offsets(partition)

    def check(self, found: str) -> None:
        """Raise JournalError if the topic's id has changed; "" means that the topic is missing."""
        if found == self._id:
            return
        now = f"recreated with id {found}" if found else "is gone"
        raise JournalError(
            f"the journal {self._partition.topic!r}, of id {self._id}, was deleted while this learner ran, "
            f"and {now}: nothing was committed to it; bring the old one back, or begin a new log: another "
            "model.name, with a folder of snapshots of its own"
        )

    def trimmed(self) -> int | None:
        """Return the first offset if it has grown since the last call, else None."""
        known, (self._first, _) = self._first, self._log.offsets(self._partition)
        return self._first if self._first > known else None
