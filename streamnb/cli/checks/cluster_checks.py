"""Checks of a Kafka cluster: brokers, topics, permissions, the learner's group and its transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from streamnb.cli.checks.diagnostics import Diagnosis, Severity
from streamnb.cli.checks.kafka_tools import KafkaTools
from streamnb.engine.ports import REQUEST_SECONDS, Difference
from streamnb.engine.topic_plan import (
    BATCH_BYTES,
    HEADER_BYTES,
    TENANT_BYTES,
    Acl,
    FoundTopic,
    FoundTopics,
    TopicSpec,
    fitted_to,
    losses,
)
from streamnb.event_logs.kafka.consumer_group import is_learner
from streamnb.event_logs.kafka.kafka_admin import Group, OpenTransaction
from streamnb.event_logs.kafka.open_transactions import GRACE_SECONDS

_OLDEST = (2, 7)  # first with group metadata in transactions and non-fatal errors for stale epochs


def check_brokers(brokers: Mapping[int, str], versions: Mapping[int, tuple[int, ...]]) -> Iterator[Diagnosis]:
    """Check that brokers are up and recent enough."""
    shown = ", ".join(brokers.values())
    yield Diagnosis("broker", Severity.OK, f"{len(brokers)} up: {shown}")
    for number, version in versions.items():
        if version < _OLDEST:
            found = f"broker {number} is of version {_dotted(version)}"
            yield Diagnosis("version", Severity.PROBLEM, found, f"upgrade it to {_dotted(_OLDEST)} or later")
    if versions and min(versions.values()) >= _OLDEST:
        yield Diagnosis("version", Severity.OK, f"{_dotted(min(versions.values()))} or later")


def check_topics(
    planned: Sequence[TopicSpec], found: FoundTopics, brokers: int, tools: KafkaTools
) -> Iterator[Diagnosis]:
    """Check that each topic exists and loses no records; `topics plan` shows harmless differences, too."""
    planned = fitted_to(planned, found.topics)
    inputs = [found.topics.get(topic.name) for topic in planned if topic.role in {"events", "labels"}]
    largest = max((_number(topic, "max.message.bytes") or 0 for topic in inputs if topic), default=0)
    for topic in planned:
        check = f"topic {topic.name}"
        there = found.topics.get(topic.name)
        if there is None:
            hidden = topic.name in found.hidden
            missing = "not there, or hidden from this user: see permissions" if hidden else "not there"
            yield Diagnosis(check, Severity.PROBLEM, missing, "" if hidden else "`streamnb topics create`")
            continue
        harm = [*_shape_harm(topic, there, brokers), *_settings_harm(topic, there)]
        harm += _size_harm(topic, there, largest)
        for state, difference, why in harm:
            value = f"{difference.what} is {difference.found}"
            yield Diagnosis(check, state, f"{value}: {why}", tools.change(topic.name, difference))
        if not harm:
            yield _unharmed(check, there)


class SeenCluster(NamedTuple):
    """The cluster as visible to the current user; a hidden group is None, a hidden transaction False."""

    topics: FoundTopics
    group: Group | None
    transaction: bool


def check_permissions(
    acls: Iterable[Acl], seen: SeenCluster, tools: KafkaTools, principal: str | None
) -> Iterator[Diagnosis]:
    """Check the visible ACLs of the current user; `tools` prints the missing grants of `principal`."""
    missing = [acl for acl in acls if _may(acl, seen) is False]
    for acl in missing:
        state, found = Severity.PROBLEM, f"no {acl.operation} on {acl.resource} {acl.name}"
        if acl.operation == "DESCRIBE_CONFIGS":  # the learner itself does not need it
            state, found = Severity.WARNING, f"{found}: its settings cannot be checked"
        yield Diagnosis("permissions", state, found, next(tools.grants([acl], principal)))
    if not missing:
        found = "all that Kafka reveals (not WRITE on the transactional id, which only its use shows)"
        yield Diagnosis("permissions", Severity.OK, found)


def check_group(group: Group, journal: str) -> Diagnosis:
    """Check that the learner's group has an elected member and no foreign client."""
    check = "learner"
    strangers = [member for member in group.members if not is_learner(member.client)]
    if strangers:
        found = ", ".join(f"client {member}" for member in strangers)
        do = "give that another group.id, or this model another model.name"
        return Diagnosis(check, Severity.PROBLEM, f"its group has a member that is none: {found}", do)
    owners = [member for member in group.members if any(place.topic == journal for place in member.has)]
    if group.state == "Stable" and owners:
        others = len(group.members) - len(owners)
        waiting = f"; {others} more standing by" if others else ""
        return Diagnosis(check, Severity.OK, f"{owners[0]}{waiting}")
    if group.members:
        found = f"{len(group.members)} members and none of them elected: the group is {group.state}"
        return Diagnosis(check, Severity.WARNING, found, "an election takes some seconds: ask again")
    return Diagnosis(check, Severity.WARNING, "none is running", "start one: `streamnb run`")


def check_transaction(transaction: OpenTransaction | None, now: float) -> Diagnosis:
    """Check that no transaction hangs; `now` is the local clock, the start the coordinator's."""
    check = "transaction"
    if transaction is None:
        return Diagnosis(check, Severity.OK, "none is open")
    age = now - transaction.started
    if age <= transaction.timeout + GRACE_SECONDS:
        return Diagnosis(check, Severity.OK, f"one is open for {max(0.0, age):.1f} s: a commit is under way")
    found = (
        f"one is open ({transaction.state}) for {age:.0f} s, though it times out after "
        f"{transaction.timeout:g} s: readers of what is committed wait behind it"
    )
    do = "find it with kafka-transactions.sh find-hanging, and end it with kafka-transactions.sh abort"
    return Diagnosis(check, Severity.PROBLEM, found, do)


_Harm = tuple[Severity, Difference, str]


def _shape_harm(topic: TopicSpec, there: FoundTopic, brokers: int) -> Iterator[_Harm]:
    if topic.role == "journal" and there.partitions != 1:
        difference = Difference("partitions", "1", str(there.partitions))
        yield Severity.PROBLEM, difference, "the order of commits needs a single one"
    copies = min(3, brokers)
    if there.replication < copies:
        lost = "all that was learned" if topic.role == "journal" else "its records"
        difference = Difference("replication", str(copies), str(there.replication))
        yield Severity.WARNING, difference, f"{there.replication} broken brokers can take {lost} along"
    in_sync = _number(there, "min.insync.replicas")
    if in_sync is None:
        return
    difference = Difference("min.insync.replicas", str(max(1, there.replication - 1)), str(in_sync))
    if in_sync > there.replication:
        yield Severity.PROBLEM, difference, f"with {there.replication} replicas nothing can be written"
    elif in_sync == there.replication > 1:
        yield Severity.WARNING, difference, "nothing can be written while one broker is down"
    elif in_sync < there.replication - 1:
        yield (
            Severity.WARNING,
            difference,
            "a record on a single broker may be acknowledged, and lost with the broker",
        )


def _settings_harm(topic: TopicSpec, there: FoundTopic) -> Iterator[_Harm]:
    settings = there.settings or {}
    policy = settings.get("cleanup.policy", "delete")
    if topic.role == "tenants":
        if policy != "compact":
            difference = Difference("cleanup.policy", "compact", policy)
            yield Severity.WARNING, difference, "retention deletes records of tenants without new events"
    elif topic.role == "requests":
        yield from _requests_harm(topic, there, policy)
    for loss in losses(topic.role, topic.name, settings):
        yield Severity.PROBLEM if loss.is_fatal else Severity.WARNING, loss.difference, loss.why
    if settings.get("unclean.leader.election.enable") == "true":
        difference = Difference("unclean.leader.election.enable", "false", "true")
        yield Severity.WARNING, difference, "an election may drop acknowledged records"


def _requests_harm(topic: TopicSpec, there: FoundTopic, policy: str) -> Iterator[_Harm]:
    if "compact" not in policy:
        difference = Difference("cleanup.policy", "compact,delete", policy)
        yield Severity.WARNING, difference, "the topic keeps every key as often as it was written"
    kept = _number(there, "retention.ms")
    if "delete" in policy and kept is not None and 0 <= kept < REQUEST_SECONDS * 1000:
        difference = Difference("retention.ms", topic.settings["retention.ms"], str(kept))
        yield Severity.PROBLEM, difference, "a request that is repeated within a day may be written twice"


def _size_harm(topic: TopicSpec, there: FoundTopic, largest: int) -> Iterator[_Harm]:
    limit = _number(there, "max.message.bytes")
    wanted = int(topic.settings.get("max.message.bytes", "0"))
    if topic.role in {"predictions", "metrics"} and limit is not None and limit < wanted:
        difference = Difference("max.message.bytes", str(wanted), str(limit))
        why = "larger predictions are published with fewer labels, and larger reports not at all"
        yield Severity.WARNING, difference, why
    if topic.role == "tenants" and limit is not None and limit < TENANT_BYTES + BATCH_BYTES:
        difference = Difference("max.message.bytes", str(wanted), str(limit))
        yield Severity.PROBLEM, difference, "the record of a tenant may be larger, and stops the learner"
    if topic.role == "dead_letters" and limit is not None and limit < largest + HEADER_BYTES:
        difference = Difference("max.message.bytes", str(wanted), str(limit))
        yield Severity.PROBLEM, difference, f"an event may have {largest} bytes; a bad one stops the learner"


def _unharmed(check: str, there: FoundTopic) -> Diagnosis:
    shape = f"partitions {there.partitions}, replicas {there.replication}"
    if there.settings is None:
        return Diagnosis(check, Severity.UNKNOWN, f"{shape}; its settings cannot be seen: see permissions")
    return Diagnosis(check, Severity.OK, shape)


def _may(acl: Acl, seen: SeenCluster) -> bool | None:
    """Return whether the current user has this permission; None if Kafka does not reveal it."""
    if acl.resource == "transactional-id":
        return None if seen.transaction else False
    if acl.resource == "group":
        return False if seen.group is None else _among(acl.operation, seen.group.operations)
    if acl.name in seen.topics.hidden:
        return False
    topic = seen.topics.topics.get(acl.name)
    return None if topic is None else _among(acl.operation, topic.operations)


def _among(operation: str, operations: frozenset[str] | None) -> bool | None:
    return None if operations is None else operation in operations


def _number(topic: FoundTopic, key: str) -> int | None:
    value = (topic.settings or {}).get(key)
    return None if value is None else int(value)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
