"""The clients that a log needs, with the settings that its guarantees rest on."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, KafkaProducer, errors
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.net.sasl.oauth import AbstractTokenProvider

from streamnb.adapters.kafka.error_texts import listen, translated
from streamnb.adapters.kafka.group import client_id_of
from streamnb.adapters.kafka.partitioner import KeyPartitioner
from streamnb.adapters.kafka.tool_line import ToolLine
from streamnb.errors import LogError, Unavailable, told_as

_ANSWER_MS = 10_000  # the longest that one request waits
_BOOTSTRAP_MS = 5_000
_FOR_EVER_MS = (1 << 31) - 1
_LISTEN_SECONDS = 5.0
_LARGEST_REQUEST = 64 << 20  # the topic's max.message.bytes decides, not the client
MAX_POLL_INTERVAL = 30.0  # seconds; a learner that does not turn for so long has lost the election
NO_COORDINATOR_YET = (  # it is being found, moved or loaded
    errors.CoordinatorNotAvailableError,
    errors.NotCoordinatorError,
    errors.CoordinatorLoadInProgressError,
)


class Claim(CooperativeStickyAssignor, ConsumerRebalanceListener):  # type: ignore[misc]
    """Leaves the partition with whoever has it, so that a standby that joins changes nothing.

    In kafka-python 3.0.12 a member that was expired goes on to claim what it had when it joins again, and of
    two that claim a partition neither is given it: a learner that had stood still would depose its successor.
    This one claims nothing once it was told that what it had is lost.
    """

    def on_partitions_lost(self, lost: object) -> None:  # noqa: ARG002
        """Forget what it had."""
        self.member_assignment = None

    def on_partitions_revoked(self, revoked: object) -> None:
        """The next assignment says it, too."""

    def on_partitions_assigned(self, assigned: object) -> None:
        """The next assignment says it, too."""


class TokenFile(AbstractTokenProvider):  # type: ignore[misc]
    """The bearer token in a file, read at each log-in: whoever renews it writes it there."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = Path(path)

    def token(self) -> str:
        """The token of now. Raises OSError."""
        return self._path.read_text(encoding="utf-8").strip()


class Clients:
    """Makes clients of kafka-python from the settings that all of them share.

    Args:
        settings: bootstrap_servers, security_protocol, sasl_mechanism, ssl_cafile and so on; they stand over
            the defaults here, and below what a client's role in the protocol demands. Of
            ``sasl_oauth_token_file`` a provider of tokens is made.

    Attributes:
        settings: what all clients share, the password among it.
        largest_batch: bytes that every topic takes at once, as far as anybody has asked.
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
    def line(self) -> ToolLine:
        """Makes lines for Kafka's own tools."""
        return ToolLine.of(self.settings)

    def reader(self, wait_ms: int) -> Any:
        """A consumer without a group, that reads what is committed and resets nothing by itself."""
        return self._consumer(
            None,
            auto_offset_reset="none",
            max_partition_fetch_bytes=4 << 20,  # both bound what waits in memory
            fetch_max_bytes=16 << 20,
            fetch_max_wait_ms=wait_ms,
        )

    def member(self, group: str, owner: str, session_timeout: float, claim: Claim, **more: Any) -> Any:
        """A consumer that takes part in a group and never reads; `claim` listens to its subscription."""
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
        """A consumer that never joins a group, to be asked for its offsets.

        It waits for transactions under way; what kafka-python's administration client is told may be older.
        """
        return self._consumer(group)

    def _consumer(self, group: str | None, **role: Any) -> Any:
        shared = {"isolation_level": "read_committed", "enable_auto_commit": False}
        return self._made(KafkaConsumer, group_id=group, allow_auto_create_topics=False, **shared, **role)

    def transactional(self, transactional_id: str, timeout: float) -> Any:
        """A producer of transactions; the broker aborts one that stays open for `timeout` seconds."""
        timeout_ms = int(timeout * 1000)
        return self._made(
            KafkaProducer,
            **self._producing(),
            transactional_id=transactional_id,
            retry_backoff_ms=10,  # it sleeps so long on each transactional request that is retried
            transaction_timeout_ms=timeout_ms,
            delivery_timeout_ms=timeout_ms,
            request_timeout_ms=min(_ANSWER_MS, timeout_ms // 2),
            max_block_ms=_ANSWER_MS,
        )

    def producer(self) -> Any:
        """A producer without transactions, that delivers once and in order, however long it takes."""
        return self._made(
            KafkaProducer,
            **{**self._producing(), "linger_ms": 0},
            retry_backoff_ms=20,
            max_block_ms=_ANSWER_MS,
            delivery_timeout_ms=_FOR_EVER_MS,  # who waits for a delivery says when that is enough
        )

    def admin(self) -> Any:
        """A client that asks about topics."""
        return self._made(KafkaAdminClient)

    def _producing(self) -> dict[str, Any]:
        return {
            "acks": "all",
            "enable_idempotence": True,
            "allow_auto_create_topics": False,
            "linger_ms": 5,
            # The client sends while a commit is still being handed to it, and both want the interpreter: the
            # fewer batches the better. A topic takes 1 MiB at once by default (max.message.bytes).
            "batch_size": min(512 << 10, self.largest_batch),
            "max_request_size": _LARGEST_REQUEST,
            "partitioner": KeyPartitioner(),
        }

    def _made(self, kind: Any, **role: Any) -> Any:
        self._check_somebody_listens()
        with told_as(LogError, "kafka.client", AssertionError, TypeError, ValueError), translated():
            return kind(**{**self.settings, **role})

    def _check_somebody_listens(self) -> None:
        """Raise `Unavailable` where no server takes a connection.

        A client that cannot be made leaves its thread and its sockets behind; where it is tried again and
        again for a cluster that is down, they would pile up.
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
    """Let an admin client ask anew which broker coordinates a group.

    kafka-python 3.0.12 asks once and keeps the answer, also where that broker says that it is another now.
    """
    if admin is not None:
        admin._manager.cluster._coordinators.clear()  # noqa: SLF001  see above
