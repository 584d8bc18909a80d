"""Planned topics and ACLs of a model, and their differences from a broker.

All functions are pure: none calls a broker. Settings and operations have Kafka's own names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

from streamnb.engine.ports import REQUEST_SECONDS, Difference, TopicLoss

HEADER_BYTES = 64 << 10
"""Bytes of a record other than its value: key, headers of a dead letter, Kafka's own."""

BATCH_BYTES = 1 << 10
"""Overhead of Kafka for a record and its batch."""

TENANT_BYTES = 32 << 10
"""Maximum bytes of a tenant's record with its key: names of 1,000 characters leave space for some labels."""

SIZE_LIMIT = "max.message.bytes"
_DEFAULT_MESSAGE_BYTES = 1_048_588  # a broker's default
_MOST_REPLICAS = 3


class TopicSpec(NamedTuple):
    """A topic as planned.

    Attributes:
        role: configuration key, such as ``events`` or ``journal``.
        name: name of the topic.
        partitions: number of partitions.
        replication: replicas of each partition.
        settings: Kafka's name -> value, as text.
    """

    role: str
    name: str
    partitions: int
    replication: int
    settings: Mapping[str, str]


class FoundTopic(NamedTuple):
    """A topic as a broker describes it.

    Attributes:
        name: name of the topic.
        partitions: number of partitions.
        replication: minimum number of replicas of a partition.
        operations: operations permitted to the user; None if the broker does not report them.
        settings: Kafka's name -> value; None if the user may not read them.
    """

    name: str
    partitions: int
    replication: int
    operations: frozenset[str] | None = None
    settings: Mapping[str, str] | None = None


class FoundTopics(NamedTuple):
    """Existing topics among the requested, and topics that the user may not describe."""

    topics: Mapping[str, FoundTopic]
    hidden: frozenset[str] = frozenset()


class Acl(NamedTuple):
    """Permission for an operation on a resource, by literal name or prefix."""

    resource: Literal["topic", "group", "transactional-id"]
    name: str
    operation: str
    is_prefix: bool = False


class TopicAdmin(Protocol):
    """Client that describes and creates topics."""

    def brokers(self) -> Mapping[int, str]:
        """Return the live brokers: number -> address."""

    def topics(self, names: Iterable[str]) -> FoundTopics:
        """Return the existing topics among these."""

    def create(self, topics: Sequence[TopicSpec]) -> frozenset[str]:
        """Create topics; return the names of new ones. Raises LogError."""

    def close(self) -> None:
        """Release all resources."""


def plan_topics(
    names: Sequence[tuple[str, str]],
    *,
    partitions: int,
    replication: int,
    retention: float,
    max_bytes: int,
    largest_prediction: int,
    brokers: int,
) -> tuple[TopicSpec, ...]:
    """Plan the topics of one model.

    Journal and requests have one partition. The journal has infinite retention: it alone holds what was
    learned. Its timestamps are the broker's: the learner's clock is in the record (`now`), so the two clocks
    can be compared. The dead-letter topic takes the largest event and headers, because an oversized record is
    stored completely.

    Args:
        names: (role, name) of every topic.
        partitions: number of partitions of every topic but the journal and the requests.
        replication: replicas; 0 means three, or the number of brokers if smaller.
        retention: seconds of retention, except the journal's.
        max_bytes: maximum bytes of an event.
        largest_prediction: maximum bytes of a prediction or report; 0 is unlimited.
        brokers: number of brokers.
    """
    copies = replication or min(_MOST_REPLICAS, brokers)
    largest = max(_DEFAULT_MESSAGE_BYTES, max_bytes + HEADER_BYTES)
    shared = {"cleanup.policy": "delete", "min.insync.replicas": str(max(1, copies - 1))}
    kept = {"retention.ms": str(round(retention * 1000))}
    published = max(_DEFAULT_MESSAGE_BYTES, largest_prediction + BATCH_BYTES)
    own = {
        "predictions": kept | {SIZE_LIMIT: str(published)},
        "metrics": kept | {SIZE_LIMIT: str(published)},
        "events": kept | {SIZE_LIMIT: str(largest)},
        "labels": kept | {SIZE_LIMIT: str(largest)},
        "dead_letters": kept | {SIZE_LIMIT: str(largest + HEADER_BYTES)},
        "tenants": {"cleanup.policy": "compact", SIZE_LIMIT: str(_DEFAULT_MESSAGE_BYTES)},
        "requests": {
            "cleanup.policy": "compact,delete",
            "retention.ms": str(round(2 * REQUEST_SECONDS * 1000)),
            "segment.ms": str(round(REQUEST_SECONDS * 1000)),
            SIZE_LIMIT: str(_DEFAULT_MESSAGE_BYTES),
        },
        "journal": {"retention.ms": "-1", "retention.bytes": "-1", "message.timestamp.type": "LogAppendTime"},
    }
    return tuple(
        TopicSpec(
            role,
            name,
            1 if role in {"journal", "requests"} else partitions,
            copies,
            shared | own.get(role, kept),
        )
        for role, name in names
    )


def fitted_to(planned: Sequence[TopicSpec], found: Mapping[str, FoundTopic]) -> tuple[TopicSpec, ...]:
    """Return the plan with the size limits of existing topics: none is lowered.

    Dead letters take the largest record that a topic of events or labels takes, with its headers.
    """
    limits = {
        name: int(topic.settings[SIZE_LIMIT])
        for name, topic in found.items()
        if topic.settings is not None and SIZE_LIMIT in topic.settings
    }
    inputs = [limits.get(topic.name, 0) for topic in planned if topic.role in {"events", "labels"}]
    needed = max(inputs, default=0) + HEADER_BYTES

    def fitted(topic: TopicSpec) -> TopicSpec:
        if SIZE_LIMIT not in topic.settings:
            return topic
        least = needed if topic.role == "dead_letters" else 0
        limit = max(int(topic.settings[SIZE_LIMIT]), limits.get(topic.name, 0), least)
        return topic._replace(settings={**topic.settings, SIZE_LIMIT: str(limit)})

    return tuple(map(fitted, planned))


def plan_acls(names: Sequence[tuple[str, str]], group: str) -> tuple[Acl, ...]:
    """Return the minimum ACLs of the learner's user.

    In Kafka READ or WRITE implies DESCRIBE. DESCRIBE_CONFIGS is for `doctor` and `topics plan` only: a
    learner works without it.

    Args:
        names: (role, name) of every topic.
        group: the consumer group, which also names the transactional id.
    """
    operations = {"events": ("READ",), "labels": ("READ",), "journal": ("READ", "WRITE")}
    topics = [
        Acl("topic", name, operation)
        for role, name in names
        for operation in (*operations.get(role, ("WRITE",)), "DESCRIBE_CONFIGS")
    ]
    return (*topics, Acl("group", group, "READ"), Acl("transactional-id", group, "WRITE"))


def scorers_acls(group: str, predictions: str) -> tuple[Acl, ...]:
    """Return the ACLs of scorers in addition to the learner's; each has its own transactional id."""
    return (
        Acl("topic", predictions, "READ"),
        Acl("group", group, "READ"),
        Acl("transactional-id", f"{group}.", "WRITE", is_prefix=True),
    )


def differences(planned: TopicSpec, found: FoundTopic) -> tuple[Difference, ...]:
    """Return the differences from the plan; unreadable settings count as equal."""
    pairs = [
        ("partitions", str(planned.partitions), str(found.partitions)),
        ("replication", str(planned.replication), str(found.replication)),
    ]
    if found.settings is not None:
        pairs += [(key, value, found.settings.get(key, "")) for key, value in planned.settings.items()]
    return tuple(Difference(what, wanted, is_) for what, wanted, is_ in pairs if wanted != is_)


def losses(role: str, topic: str, settings: Mapping[str, str]) -> Iterator[TopicLoss]:
    """Yield the settings by which a topic loses records; `doctor` and `run` report the same."""
    policy = settings.get("cleanup.policy", "delete")
    if role not in {"tenants", "requests"} and "compact" in policy:
        why = "compaction removes records, and refuses those without a key"
        difference = Difference("cleanup.policy", "delete", policy)
        yield TopicLoss(topic, difference, why, is_fatal=True)
    for key in ("retention.ms", "retention.bytes") if role == "journal" else ():
        if settings.get(key, "-1") != "-1":
            why = "a recovery needs the journal from its first record on, or a snapshot"
            yield TopicLoss(topic, Difference(key, "-1", settings[key]), why, is_fatal=False)
