"""What the broker says of a model's transaction, and which node it hangs on."""

from __future__ import annotations

import threading
from typing import Any

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

OPEN = "Ongoing"
COORDINATING = "__transaction_state"


class Transactions:
    """The transactions of one id.

    Args:
        address: of the cluster.
        name: the transactional id.
        journal: the topic that every transaction writes to.
    """

    are_told = True

    def __init__(self, address: str, name: str, journal: str) -> None:
        self._address = address.split(",")
        self._name = name
        self._journal = journal
        self._lock = threading.Lock()
        self._admin: Any = None

    def state(self) -> str:
        """As the broker calls it: `OPEN`, "Empty", "CompleteCommit" and so on; "unknown" where none answers."""
        try:
            return str(self._ask("describe_transactions", [self._name])[self._name].state.value)
        except KafkaError:
            return "unknown"

    def leader(self, *, coordinating: bool) -> int:
        """The node that coordinates the transactions, or that leads the journal. Raises KafkaError."""
        topic = COORDINATING if coordinating else self._journal
        (found,) = self._ask("describe_topics", [topic])
        parts = {part["partition_index"]: part["leader_id"] for part in found["partitions"]}
        return parts[_java_hash(self._name) % len(parts) if coordinating else 0]

    def close(self) -> None:
        with self._lock:
            if self._admin is not None:
                self._admin.close()
                self._admin = None

    def _ask(self, question: str, *arguments: Any) -> Any:
        with self._lock:
            if self._admin is None:
                self._admin = KafkaAdminClient(
                    bootstrap_servers=self._address, request_timeout_ms=3000, bootstrap_timeout_ms=3000
                )
            try:
                return getattr(self._admin, question)(*arguments)
            except KafkaError:
                self._admin.close()
                self._admin = None
                raise


def _java_hash(text: str) -> int:
    """`Utils.abs(text.hashCode())`, by which the broker chooses the partition of a transactional id."""
    code = 0
    for letter in text:
        code = (31 * code + ord(letter)) & 0xFFFFFFFF
    return code & 0x7FFFFFFF
