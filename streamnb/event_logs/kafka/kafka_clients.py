"""Clients of kafka-python with the settings on which the log's guarantees depend."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, KafkaProducer, errors
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.partitioner import DefaultPartitioner

from streamnb.errors import LogError, Unavailable, told_as
from streamnb.event_logs.kafka.consumer_group import client_id_of
from streamnb.event_logs.kafka.error_messages import listen, translated
from streamnb.event_logs.kafka.tool_command import ToolCommand

_ANSWER_MS = 10_000  # timeout of one request
_BOOTSTRAP_MS = 5_000
_FOR_EVER_MS = (1 << 31) - 1
_LISTEN_SECONDS = 5.0
_LARGEST_REQUEST = 64 << 20  # so that the topic's max.message.bytes is the limit
MAX_POLL_INTERVAL = 30.0  # seconds; a learner that does not poll for this long loses the election
NO_COORDINATOR_YET = (  # the coordinator is being elected, moved or loaded
    errors.CoordinatorNotAvailableError,
    errors.NotCoordinatorError,
    errors.CoordinatorLoadInProgressError,
)


class Claim(CooperativeStickyAssignor, ConsumerRebalanceListener):  # type: ignore[misc]
    """Assignor that leaves the partition with its current owner, so that a joining standby changes nothing.

    In kafka-python 3.0.12 an expired member still claims its former partitions when it joins again, and a
    partition with two claimants is assigned to neither: a learner that had stalled would depose its
    successor. This assignor claims nothing after it was notified that its partitions are lost.
    """

    def on_partitions_lost(self, lost: object) -> None:  # noqa: ARG002
        """Drop the previous assignment."""
        self.member_assignment = None

    def on_partitions_revoked(self, revoked: object) -> None:
        """Ignore the event: the next assignment replaces this one."""

    def on_partitions_assigned(self, assigned: object) -> None:
        """Ignore the event: the next assignment contains these partitions."""


class TokenFile(AbstractTokenProvider):  # type: ignore[misc]
    """Bearer token in a file, read at each log-in, so that an external program can renew it."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = Path(path)

    def token(self) -> str:
        """Return the current token. Raises OSError."""
        return self._path.read_text(encoding="utf-8").strip()


class Clients:
    """Factory of kafka-python clients with shared settings.

    Args:
        settings: bootstrap_servers, security_protocol, sasl_mechanism, ssl_cafile and so on. They override
            the defaults here; the settings that a client's role requires override them.
            ``sasl_oauth_token_file`` becomes a token provider.

    Attributes:
        settings: the shared settings, including the password.
        largest_batch: size in bytes of the largest batch that every topic described so far accepts.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        listen()
        self.settings: dict[str, Any] = {
            "request_timeout_ms": _ANSWER_MS,
            "bootstrap_timeout_ms": _BOOTSTRAP_MS,
            "reconnect_backoff_max_ms": 1_000,
            **settings,
        }
        if file := self.settings.pop("sasl_oauth_token_file", None):
            self.settings["sasl_oauth_token_provider"] = TokenFile(file)
        self.largest_batch = _LARGEST_REQUEST

    @property
    def line(self) -> ToolCommand:
        """Builder of command lines for Kafka's own tools."""
        return ToolCommand.from_settings(self.settings)

    def reader(self, wait_ms: int) -> Any:
        """Return a consumer without a group that reads committed records and never resets offsets itself."""
        return self._consumer(
            None,
            auto_offset_reset="none",
            max_partition_fetch_bytes=4 << 20,  # both limit the memory of fetched records
            fetch_max_bytes=16 << 20,
            fetch_max_wait_ms=wait_ms,
        )

    def member(self, group: str, owner: str, session_timeout: float, claim: Claim, **more: Any) -> Any:
        """Return a consumer that joins a group and reads nothing; `claim` is its assignor."""
        session_ms = int(session_timeout * 1000)
        return self._consumer(
            group,
            client_id=client_id_of(owner),
            auto_offset_reset="latest",
            partition_assignment_strategy=[claim],
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=max(100, session_ms // 5),
            max_poll_interval_ms=int(MAX_POLL_INTERVAL * 1000),
            **more,
        )

    def noted(self, group: str) -> Any:
        """Return a consumer that reads a group's offsets without joining the group.

        It waits for transactions in flight; kafka-python's administration client may return older offsets.
        """
        return self._consumer(group)

    def _consumer(self, group: str | None, **role: Any) -> Any:
        shared = {"isolation_level": "read_committed", "enable_auto_commit": False}
        return self._made(KafkaConsumer, group_id=group, allow_auto_create_topics=False, **shared, **role)

    def transactional(self, transactional_id: str, timeout: float) -> Any:
        """Return a transactional producer, whose transactions the broker aborts after `timeout` seconds."""
        timeout_ms = int(timeout * 1000)
        return self._made(
            KafkaProducer,
            **self._producing(),
            transactional_id=transactional_id,
            retry_backoff_ms=2,  # pause while the markers of the last transaction are not yet written
            transaction_timeout_ms=timeout_ms,
            delivery_timeout_ms=timeout_ms,
            request_timeout_ms=min(_ANSWER_MS, timeout_ms // 2),
            max_block_ms=_ANSWER_MS,
        )

    def producer(self) -> Any:
        """Return an idempotent producer without transactions, which retries until a record is delivered."""
        return self._made(
            KafkaProducer,
            **{**self._producing(), "linger_ms": 0},
            retry_backoff_ms=20,
            max_block_ms=_ANSWER_MS,
            delivery_timeout_ms=_FOR_EVER_MS,  # the caller limits how long it waits for a delivery
        )

    def admin(self) -> Any:
        """Return an administration client."""
        return self._made(KafkaAdminClient)

    def _producing(self) -> dict[str, Any]:
        return {
            "acks": "all",
            "enable_idempotence": True,
            "allow_auto_create_topics": False,
            "linger_ms": 5,
            # The client sends while it is still being given a commit, and both need the interpreter lock:
            # fewer batches are faster. A topic accepts 1 MiB at once by default (max.message.bytes).
            "batch_size": min(512 << 10, self.largest_batch),
            "max_request_size": _LARGEST_REQUEST,
            "partitioner": KeyPartitioner(),
        }

    def _made(self, kind: Any, **role: Any) -> Any:
        self._check_somebody_listens()
        with told_as(LogError, "kafka.client", AssertionError, TypeError, ValueError), translated():
            return kind(**{**self.settings, **role})

    def _check_somebody_listens(self) -> None:
        """Raise `Unavailable` if no server accepts a connection.

        A client whose construction fails leaks its thread and its sockets. Without this check, retries
        against a stopped cluster would accumulate them.
        """
        if self.settings.get("proxy_url"):
            return
        given, refusals = self.settings.get("bootstrap_servers", []), []
        for server in given.split(",") if isinstance(given, str) else given:
            host, _, port = server.rpartition(":")
            try:
                socket.create_connection((host.strip("[]"), int(port)), _LISTEN_SECONDS).close()
            except (OSError, ValueError) as error:
                refusals.append(f"{server}: {error}")
            else:
                return
        if refusals:
            raise Unavailable(f"no Kafka broker can be reached ({'; '.join(refusals)})")


def forget_coordinators(admin: Any) -> None:
    """Make an admin client look up the coordinators of groups again.

    kafka-python 3.0.12 caches the coordinator even after that broker has stopped coordinating the group.
    """
    if admin is not None:
        admin._manager.cluster._coordinators.clear()  # noqa: SLF001  see above


class KeyPartitioner(DefaultPartitioner):  # type: ignore[misc]  # kafka-python is untyped here
    """kafka-python's default partitioner, except that with a single partition keys are not hashed."""

    def partition(
        self,
        topic: str,
        key: Any,
        serialized_key: bytes | None,
        value: Any,
        serialized_value: Any,
        cluster: Any,
    ) -> Any:
        """Return the partition of one record; arguments and errors as in kafka-python's `Partitioner`."""
        partitions = cluster.partitions_for_topic(topic)
        if partitions and len(partitions) == 1:
            return next(iter(partitions))
        return super().partition(topic, key, serialized_key, value, serialized_value, cluster)
