"""The journal's topic as a learner knows it while it runs: whether it is still the same, and still whole."""

from __future__ import annotations

from streamnb.engine.ports import Log, Partition
from streamnb.errors import JournalError


class JournalTopic:
    """Remembers the topic as it is now; to be made before the journal is read.

    Args:
        log: acquired.
        partition: the journal's.
    """

    def __init__(self, log: Log, partition: Partition) -> None:
        self._log, self._partition = log, partition
        self._id = log.topic_id(partition.topic)
        self._first, _ = log.offsets(partition)

    def check(self, found: str) -> None:
        """Raises JournalError where the id found ("" where the topic is gone) is not the one recovered from.

        To go on in another one would begin a journal that nobody can read: its first record follows nothing.
        """
        if found == self._id:
            return
        now = f"made anew, with id {found}" if found else "is gone"
        raise JournalError(
            f"the journal {self._partition.topic!r}, of id {self._id}, was deleted while this learner ran, "
            f"and {now}: nothing was committed to it; bring the old one back, or begin a new log: another "
            "model.name, with a folder of snapshots of its own"
        )

    def trimmed(self) -> int | None:
        """The offset with which it begins, where that has grown since this was asked; else None."""
        known, (self._first, _) = self._first, self._log.offsets(self._partition)
        return self._first if self._first > known else None
