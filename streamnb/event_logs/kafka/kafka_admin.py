"""Administer a Kafka cluster through kafka-python: describe and create topics, groups and transactions."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from kafka import errors
from kafka.admin import (
    ConfigResource,
    ConfigResourceType,
    TransactionState,
)

from streamnb.engine.topic_plan import FoundTopic, FoundTopics, TopicSpec
from streamnb.errors import LogError
from streamnb.event_logs.blocking_call import call_blocking
from streamnb.event_logs.kafka.consumer_group import GroupMember, members_of
from streamnb.event_logs.kafka.error_messages import translate
from streamnb.event_logs.kafka.kafka_clients import NO_COORDINATOR_YET, Clients

R = TypeVar("R")

_OPEN = (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
_PAUSE = 0.2  # seconds between two requests to a coordinator that is not ready


class NotAuthorised(LogError):  # noqa: N818  as its siblings
    """The user lacks the permission for a request."""


class Group(NamedTuple):
    """A consumer group.

    `operations` are the permitted operations, or None if the broker does not list them.
    """

    state: str
    members: Sequence[GroupMember]
    operations: frozenset[str] | None


class OpenTransaction(NamedTuple):
    """A transaction that is neither committed nor aborted.

    Attributes:
        state: Kafka's name of the state.
        started: start time, in seconds since the epoch by the coordinator's clock.
        timeout: seconds after which the coordinator aborts it.
    """

    state: str
    started: float
    timeout: float


class KafkaAdmin:
    """A cluster with the permissions of one user. Every call returns or raises within a bounded time.

    Args:
        client: settings of kafka-python: bootstrap_servers, security_protocol and so on.
        timeout: seconds that each call, and the first connection, waits for the cluster.

    Raises:
        LogError: the cluster cannot be reached; the message lists the connection errors.
    """

    def __init__(self, client: Mapping[str, Any], *, timeout: float = 10.0) -> None:
        self._timeout = timeout
        bound = {"bootstrap_timeout_ms": int(timeout * 1000), "request_timeout_ms": int(timeout * 1000)}
        clients = Clients({**client, **bound})
        try:
            self._admin = call_blocking(clients.admin, seconds=timeout + 1)
        except LogError as error:
            servers = client["bootstrap_servers"]
            named = servers if isinstance(servers, str) else ", ".join(servers)
            raise LogError(f"no Kafka cluster answers at {named}: {error}") from error

    def close(self) -> None:
        """Close the connections."""
        with contextlib.suppress(LogError):
            call_blocking(self._admin.close, seconds=self._timeout)

    # -- requests -----------------------------------------------------------------------------------------

    def brokers(self) -> Mapping[int, str]:
        """Return the addresses that live brokers advertise, by broker id."""
        found = self._ask(self._admin.describe_cluster)["brokers"]
        up = [broker for broker in found if not broker.get("is_fenced", False)]
        return {broker["broker_id"]: f"{broker['host']}:{broker['port']}" for broker in up}

    def version(self, broker: int) -> tuple[int, ...]:
        """Return the broker's version, such as (4, 3), as derived from the requests it supports."""
        return tuple(self._ask(lambda: self._admin.get_broker_version_data(broker)).broker_version)

    def topics(self, names: Iterable[str]) -> FoundTopics:
        """Return the topics that exist, with their settings if the user may describe them."""
        wanted = list(dict.fromkeys(names))
        described = self._ask(lambda: self._admin.describe_topics(wanted))
        codes = {topic["name"]: errors.for_code(topic["error_code"]) for topic in described}
        there = [topic for topic in described if topic["partitions"]]
        settings = self._settings([topic["name"] for topic in there])
        topics = {topic["name"]: _topic(topic, settings[topic["name"]]) for topic in there}
        hidden = {name for name, code in codes.items() if code is errors.TopicAuthorizationFailedError}
        return FoundTopics(topics, frozenset(hidden))

    def group(self, name: str) -> Group:
        """Return a consumer group; its state is ``Dead`` if it does not exist. Raises `NotAuthorised`."""
        found = self._ask(lambda: self._admin.describe_groups([name]))[name]
        return Group(found["group_state"], members_of(found), _operations(found))

    def transaction(self, transactional_id: str) -> OpenTransaction | None:
        """Return the open transaction of this id, or None. Raises `NotAuthorised`."""
        try:
            found = self._ask(lambda: self._admin.describe_transactions([transactional_id]))
        except LogError as error:
            if isinstance(error.__cause__, errors.TransactionalIdNotFoundError):
                return None
            raise
        described = found[transactional_id]
        if described.state not in _OPEN:
            return None
        started, timeout = described.transaction_start_time_ms / 1000, described.transaction_timeout_ms / 1000
        return OpenTransaction(described.state.value, started, timeout)

    # -- changes ------------------------------------------------------------------------------------------

    def create(self, topics: Sequence[TopicSpec]) -> frozenset[str]:
        """Create topics, wait until they are usable, and return the names of the topics that are new.

        Raises:
            NotAuthorised: the user may not create one of the topics.
            LogError: the broker refused a topic, for the reason quoted; the remaining topics may exist.
        """
        if not topics:
            return frozenset()
        wanted = {
            topic.name: {
                "num_partitions": topic.partitions,
                "replication_factor": topic.replication,
                "configs": dict(topic.settings),
            }
            for topic in topics
        }
        answer = self._ask(lambda: self._admin.create_topics(wanted, raise_errors=False))
        outcomes = {topic["name"]: topic for topic in answer["topics"]}
        for name, outcome in outcomes.items():
            _refuse(name, errors.for_code(outcome["error_code"]), outcome["error_message"])
        self._ask(lambda: self._admin.wait_for_topics(list(wanted), int(self._timeout * 1000)))
        return frozenset(name for name, outcome in outcomes.items() if outcome["error_code"] == 0)

    def _settings(self, topics: Sequence[str]) -> Mapping[str, Mapping[str, str] | None]:
        """Return the settings by topic. Hidden settings are None: the client returns no entries for them."""
        if not topics:
            return {}
        resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in topics]
        found = self._ask(lambda: self._admin.describe_configs(resources, config_filter="all"))["topic"]
        return {
            name: {key: str(entry["value"]) for key, entry in found[name].items()} or None for name in topics
        }

    def _ask(self, question: Callable[[], R]) -> R:
        """Return the response, retrying until the timeout if a coordinator is not ready; translate errors."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return call_blocking(question, seconds=max(_PAUSE, deadline - time.monotonic()))
            except errors.AuthorizationError as error:
                raise NotAuthorised(str(translate(error))) from error
            except errors.KafkaError as error:
                if not isinstance(error, NO_COORDINATOR_YET) or time.monotonic() > deadline:
                    raise translate(error) from error
            time.sleep(_PAUSE)


def _topic(described: Mapping[str, Any], settings: Mapping[str, str] | None) -> FoundTopic:
    replicas = [len(partition["replica_nodes"]) for partition in described["partitions"]]
    return FoundTopic(described["name"], len(replicas), min(replicas), _operations(described), settings)


def _operations(described: Mapping[str, Any]) -> frozenset[str] | None:
    operations = described["authorized_operations"]
    return None if operations is None else frozenset(operations)


def _refuse(what: str, error: type[errors.KafkaError], said: str | None) -> None:
    """Raise the error of a broker's response about `what`; an existing topic is not an error."""
    if error in {errors.NoError, errors.TopicAlreadyExistsError}:
        return
    kind = NotAuthorised if issubclass(error, errors.AuthorizationError) else LogError
    raise kind(f"Kafka: {what}: {said or error.__name__}")
