"""Which topics a model needs on a broker, what it must be allowed to do there, and what differs from that.

Values in, values out: nothing here talks to a broker. Settings and operations bear Kafka's own names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

HEADER_BYTES = 64 << 10
"""Room for what a record holds beside its value: its key, the headers of a dead letter, Kafka's own bytes."""

BATCH_BYTES = 1 << 10
"""Room for what Kafka adds to a record, and to the batch that it comes in."""

TENANT_BYTES = 32 << 10
"""The most that the record of a tenant has, its key included: names of a thousand characters leave room for
some labels."""

_DEFAULT_MESSAGE_BYTES = 1_048_588  # of a broker that was not told otherwise
_MOST_REPLICAS = 3


class TopicSpec(NamedTuple):
    """A topic as it should be.

    Attributes:
        role: key of the configuration, such as ``events`` or ``journal``.
        name: the topic's name.
        partitions: how many.
        replication: copies of each partition.
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
        name: the topic's name.
        partitions: how many.
        replication: copies of the partition that has the fewest.
        operations: what the asking user may do with it; None where the broker does not say.
        settings: Kafka's name -> value; None where the asking user may not see them.
    """

    name: str
    partitions: int
    replication: int
    operations: frozenset[str] | None = None
    settings: Mapping[str, str] | None = None


class FoundTopics(NamedTuple):
    """Topics that were asked for: those that are there, and those that the asking user may not even see."""

    topics: Mapping[str, FoundTopic]
    hidden: frozenset[str] = frozenset()


class Difference(NamedTuple):
    """What is not as planned; `what` is ``partitions``, ``replication`` or the name of a setting."""

    what: str
    planned: str
    found: str


class Acl(NamedTuple):
    """Leave to do one operation on one resource, whose name is meant literally, or begins with it."""

    resource: Literal["topic", "group", "transactional-id"]
    name: str
    operation: str
    is_prefix: bool = False


class TopicAdmin(Protocol):
    """Whoever can look at the topics of a log, and create some."""

    def brokers(self) -> Mapping[int, str]:
        """The brokers that are up: number -> address."""

    def topics(self, names: Iterable[str]) -> FoundTopics:
        """Those of the topics that exist."""

    def create(self, topics: Sequence[TopicSpec]) -> frozenset[str]:
        """Create topics; the names of those that were not there before. Raises LogError."""

    def close(self) -> None:
        """Release everything held."""


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
    """The topics of one model.

    The journal has one partition and is kept for ever: it alone says what has been learned. Its timestamps
    are the broker's, since nobody needs the learner's twice (`now` stands in the record), and so the two
    clocks can be compared. The dead letters take whatever the events' topics take, and headers: a record too
    large to be learned is put there whole.

    Args:
        names: (role, name) of every topic.
        partitions: of every topic but the journal.
        replication: copies; 0 is three, or as many as there are brokers.
        retention: seconds for which records are kept, the journal's apart.
        max_bytes: of the largest event.
        largest_prediction: bytes of the largest prediction, or report; 0 where they are not limited.
        brokers: how many there are.
    """
    copies = replication or min(_MOST_REPLICAS, brokers)
    largest = max(_DEFAULT_MESSAGE_BYTES, max_bytes + HEADER_BYTES)
    shared = {"cleanup.policy": "delete", "min.insync.replicas": str(max(1, copies - 1))}
    kept = {"retention.ms": str(round(retention * 1000))}
    published = max(_DEFAULT_MESSAGE_BYTES, largest_prediction + BATCH_BYTES)
    own = {
        "predictions": kept | {"max.message.bytes": str(published)},
        "metrics": kept | {"max.message.bytes": str(published)},
        "events": kept | {"max.message.bytes": str(largest)},
        "labels": kept | {"max.message.bytes": str(largest)},
        "dead_letters": kept | {"max.message.bytes": str(largest + HEADER_BYTES)},
        "tenants": {"cleanup.policy": "compact", "max.message.bytes": str(_DEFAULT_MESSAGE_BYTES)},
        "journal": {"retention.ms": "-1", "retention.bytes": "-1", "message.timestamp.type": "LogAppendTime"},
    }
    return tuple(
        TopicSpec(role, name, 1 if role == "journal" else partitions, copies, shared | own.get(role, kept))
        for role, name in names
    )


def plan_acls(names: Sequence[tuple[str, str]], group: str) -> tuple[Acl, ...]:
    """What the learner's user must be allowed to do, and no more.

    Kafka lets whoever may READ or WRITE also DESCRIBE. DESCRIBE_CONFIGS is for `doctor` and `topics plan`
    alone: a learner works without it.

    Args:
        names: (role, name) of every topic.
        group: the consumer group, whose name is the transactional id's too.
    """
    operations = {"events": ("READ",), "labels": ("READ",), "journal": ("READ", "WRITE")}
    topics = [
        Acl("topic", name, operation)
        for role, name in names
        for operation in (*operations.get(role, ("WRITE",)), "DESCRIBE_CONFIGS")
    ]
    return (*topics, Acl("group", group, "READ"), Acl("transactional-id", group, "WRITE"))


def scorers_acls(group: str, predictions: str) -> tuple[Acl, ...]:
    """What scorers must be allowed beside all that the learner is; each has a transactional id of its own."""
    return (
        Acl("topic", predictions, "READ"),
        Acl("group", group, "READ"),
        Acl("transactional-id", f"{group}.", "WRITE", is_prefix=True),
    )


def differences(planned: TopicSpec, found: FoundTopic) -> tuple[Difference, ...]:
    """What is not as planned. Settings that could not be seen differ in nothing."""
    pairs = [
        ("partitions", str(planned.partitions), str(found.partitions)),
        ("replication", str(planned.replication), str(found.replication)),
    ]
    if found.settings is not None:
        pairs += [(key, value, found.settings.get(key, "")) for key, value in planned.settings.items()]
    return tuple(Difference(what, wanted, is_) for what, wanted, is_ in pairs if wanted != is_)
