"""Administer the topics of an embedded log, which has no brokers, settings or users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from streamnb.engine.topic_plan import FoundTopic, FoundTopics, TopicSpec
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog


class SqliteAdmin:
    """The topics in one file. Only `create` creates the file.

    Args:
        path: the file.
        journal_topic: the topic that has one partition.
    """

    def __init__(self, path: Path, *, journal_topic: str = "journal") -> None:
        self._path, self._journal_topic = path, journal_topic

    def close(self) -> None:
        """Do nothing: no connection stays open."""

    def brokers(self) -> Mapping[int, str]:
        """Return the file in place of a broker."""
        return {0: str(self._path)}

    def topics(self, names: Iterable[str]) -> FoundTopics:
        """Return the topics that exist, without settings."""
        if not self._path.exists():
            return FoundTopics({})
        with self._open() as log:
            found = log.topics()
        return FoundTopics({name: FoundTopic(name, found[name], 1) for name in names if name in found})

    def create(self, topics: Sequence[TopicSpec]) -> frozenset[str]:
        """Create topics, and the file if missing; return the names of the new topics."""
        with self._open() as log:
            before = log.topics()
            for topic in topics:
                log.create_topic(topic.name, topic.partitions)
        return frozenset(topic.name for topic in topics if topic.name not in before)

    def _open(self) -> SqliteLog:
        return SqliteLog(self._path, journal_topic=self._journal_topic)
