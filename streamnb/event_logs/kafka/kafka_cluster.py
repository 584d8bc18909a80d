"""Requests to a cluster about topics, offsets and groups, repeated while no broker answers."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from kafka import IsolationLevel, OffsetSpec, TopicPartition, errors
from kafka.admin import ConfigResource, ConfigResourceType

from streamnb.engine.ports import OutageListener, Owner, Partition
from streamnb.engine.topic_plan import BATCH_BYTES
from streamnb.errors import Unavailable, UnknownTopic
from streamnb.event_logs.kafka.consumer_group import is_learner, members_of, owner_of
from streamnb.event_logs.kafka.error_actions import NO_SUCH_TOPIC
from streamnb.event_logs.kafka.error_messages import ANY, translated
from streamnb.event_logs.kafka.kafka_clients import NO_COORDINATOR_YET, Clients, forget_coordinators
from streamnb.event_logs.kafka.missing_offsets import missing_offsets

TURN_SECONDS = 0.5
_SETTLED_STATES = {"Stable", "Empty", "Dead"}  # group states without an election in progress
_ANSWER_MS = 5_000  # timeout of a request for offsets
_LARGEST = "max.message.bytes"

T = TypeVar("T")


class KafkaCluster:
    """The answers of a cluster.

    Invariant: an answer is current (only the existence of partitions is cached), and no request fails because
    of an outage that `patience` still accepts.

    Args:
        clients: makes the administration client.
        patience: retry policy while the cluster cannot be reached.

    Attributes:
        admin: the administration client, which requests share.
        heartbeat: called while a request waits; a learner sets its own.
    """

    def __init__(self, clients: Clients, patience: OutageListener) -> None:
        self.clients = clients
        self.patience = patience
        self.heartbeat: Callable[[], None] = lambda: None
        self._known: set[Partition] = set()
        self._opened = contextlib.ExitStack()
        self.admin: Any = None
        self.admin = self.open(clients.admin)

    def open(self, make: Callable[[], Any]) -> Any:
        """Return a new client, which `close` closes."""
        client = self.with_retries(make)
        self.on_close(client.close)
        return client

    def on_close(self, act: Callable[[], Any]) -> None:
        """Let `close` call `act` before it closes clients that were opened earlier."""
        self._opened.callback(act)

    def close(self) -> None:
        """Close every client."""
        with contextlib.suppress(errors.KafkaError):
            self._opened.close()

    def with_retries(self, ask: Callable[[], T], leave: str = ANY, name: str = "") -> T:
        """Return the result of `ask`, retried while the cluster cannot be reached and patience lasts."""
        since: float | None = None
        while True:
            try:
                with translated(leave, name):
                    answer = ask()
            except Unavailable as error:
                forget_coordinators(self.admin)
                since = since or time.monotonic()
                self.patience.unreachable(error, time.monotonic() - since)
                time.sleep(TURN_SECONDS)
                self.heartbeat()
            else:
                if since is not None:
                    self.patience.reachable(time.monotonic() - since)
                return answer

    def wait(self) -> None:
        """Send heartbeats during a call that may take long."""
        self.heartbeat()
        self.patience.waiting()

    def described(self, topic: str) -> Mapping[str, Any]:
        """Return the description of a topic. Raises `UnknownTopic`."""

        def ask() -> Mapping[str, Any]:
            (found,) = self.admin.describe_topics([topic])
            if code := found["error_code"]:
                raise errors.for_code(code)(f"topic {topic!r}")
            return dict(found)

        try:
            return self.with_retries(ask)
        except UnknownTopic:
            raise UnknownTopic(f"no topic {topic!r}; `streamnb topics create` creates it") from None

    def partitions(self, topic: str) -> Sequence[Partition]:
        """Return the topic's partitions in order, including new ones."""
        numbers = [found["partition_index"] for found in self.described(topic)["partitions"]]
        return [Partition(topic, number) for number in sorted(numbers)]

    def check_known(self, partitions: Iterable[Partition], topics: Iterable[str] = ()) -> None:
        """Raise `UnknownTopic` at once: the client would wait for a missing topic.

        Ask the cluster only about topics and partitions not seen before.
        """
        topics_known = {known.topic for known in self._known}
        unknown = {partition for partition in partitions if partition not in self._known}
        for topic in {*topics} - topics_known | {partition.topic for partition in unknown}:
            self._known.update(self.partitions(topic))
        for partition in unknown - self._known:
            raise UnknownTopic(f"no partition {partition.topic}[{partition.number}]")

    def topic_ids(self, topics: Sequence[str]) -> Mapping[str, str]:
        """Return the UUIDs of the topics that exist."""

        def ask() -> Mapping[str, str]:
            found = self.admin.describe_topics(list(topics))
            for topic in found:
                kind = errors.for_code(topic["error_code"])
                if topic["error_code"] and not issubclass(kind, NO_SUCH_TOPIC):
                    raise kind(f"topic {topic['name']!r}")
            return {topic["name"]: str(topic["topic_id"]) for topic in found if not topic["error_code"]}

        return self.with_retries(ask)

    def sizes(self, topics: Sequence[str]) -> Mapping[str, int]:
        """Return the bytes available in a batch under max.message.bytes, for topics with visible settings.

        Producers made later send no larger batches, unless a single record is larger.
        """
        sizes = {
            topic: int(settings[_LARGEST]) - BATCH_BYTES
            for topic, settings in self.settings(topics).items()
            if _LARGEST in settings
        }
        self.clients.largest_batch = min(sizes.values(), default=self.clients.largest_batch)
        return sizes

    def settings(self, topics: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """Return the settings of each topic; hidden ones are absent."""
        resources = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in topics]

        def ask() -> Mapping[str, Mapping[str, Any]]:
            return dict(self.admin.describe_configs(resources, config_filter="all")["topic"])

        return {
            topic: {key: str(entry["value"]) for key, entry in found.items()}
            for topic, found in self.with_retries(ask).items()
        }

    def missing(self, partition: Partition, first: int, end: int, most_bytes: int) -> tuple[int, int]:
        """Return how many offsets are missing; see `missing_offsets`."""
        place = TopicPartition(*partition)
        return self.with_retries(lambda: missing_offsets(self.admin, place, first, end, most_bytes), "READ")

    def offset_ranges(self, partitions: Sequence[Partition]) -> Mapping[Partition, tuple[int, int]]:
        """Return the earliest offset and the high watermark, which includes open transactions."""
        places = [TopicPartition(*partition) for partition in partitions]
        firsts, ends = self.bounds(places, OffsetSpec.EARLIEST), self.bounds(places)
        found = zip(partitions, places, strict=True)
        return {partition: (firsts[place], ends[place]) for partition, place in found}

    def bounds(
        self,
        places: Sequence[TopicPartition],
        spec: OffsetSpec = OffsetSpec.LATEST,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> Any:
        """Return the ends (or beginnings) of partitions; `isolation` may exclude open transactions."""

        def ask() -> dict[TopicPartition, int]:
            wanted = dict.fromkeys(places, spec)
            found = self.admin.list_partition_offsets(wanted, isolation, timeout_ms=_ANSWER_MS)
            return {place: answer.offset for place, answer in found.items()}

        return self.with_retries(ask)

    def owner(self, group: str, prize: Partition) -> Owner | None:
        """Return the learner of `group` that has the partition; None in an election, or without permission.

        The coordinator removes a member after a session of silence, so a listed owner counts as not silent.
        """

        def ask() -> Mapping[str, Any] | None:
            try:
                return dict(self.admin.describe_groups([group])[group])
            except (errors.AuthorizationError, *NO_COORDINATOR_YET):
                return None

        found = self.with_retries(ask, "READ", group)
        if found is None or found["group_state"] not in _SETTLED_STATES:
            return None
        place = TopicPartition(*prize)
        holders = (one.client for one in members_of(found) if place in one.has and is_learner(one.client))
        return Owner(next(map(owner_of, holders), None), 0.0)

    def topics_with_offsets(self, group: str) -> set[str]:
        """Return the topics for which a group has offsets."""

        def ask() -> set[str]:
            (offsets,) = self.admin.list_group_offsets(group).values()
            return {place.topic for place in offsets}

        return self.with_retries(ask, "READ", group)
