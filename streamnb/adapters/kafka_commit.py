"""The producer behind a learner's commits: one transactional id for all learners of a model."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from kafka import TopicPartition, errors
from kafka.structs import OffsetAndMetadata

from streamnb.adapters.kafka_clients import Clients
from streamnb.adapters.kafka_errors import translate, translated
from streamnb.adapters.kafka_failures import Action, classify, meant
from streamnb.adapters.meanwhile import meanwhile
from streamnb.engine.ports import NewRecord, Transaction
from streamnb.errors import LogError, Unavailable

__all__ = ["Transactions", "abandon", "send"]

_TURN_SECONDS = 0.2
_GIVEN_UP_AFTER = 3  # transaction timeouts


class Transactions:
    """Commits, each an attempt whose outcome may stay unknown.

    Calls of the client may block for as long as no broker answers, so they run in a thread of their own; the
    caller's thread calls `alive` meanwhile, which keeps the election, and may raise. A call that has not been
    answered for some transaction timeouts is given up: `Unavailable`.

    Args:
        clients: makes the producer.
        transactional_id: the model's.
        timeout: seconds after which the broker aborts a transaction that was left open.
    """

    def __init__(self, clients: Clients, transactional_id: str, timeout: float) -> None:
        self._clients = clients
        self._id = transactional_id
        self._timeout = timeout
        self._producer: Any = None

    def begin_anew(self, alive: Callable[[], None]) -> None:
        """Fence every earlier producer of this id and settle its transaction.

        After it, what the earlier producer had open is committed or aborted, and nothing of it is in flight.
        """
        self.close()
        producer = self._clients.transactional(self._id, self._timeout)
        try:
            with translated("WRITE", self._id):
                self._answered(producer.init_transactions, alive)
        except BaseException:
            abandon(producer)
            raise
        self._producer = producer

    def attempt(self, transaction: Transaction, membership: Any, alive: Callable[[], None]) -> None:
        """Write one transaction; returns where it is committed.

        After any error this producer must not be used again: `begin_anew`.

        Raises:
            Unavailable: the outcome is unknown; the transaction may be committed, or not.
            LogError: it is not committed, and would not be if it were sent again.
        """
        try:
            self._answered(lambda: self._write(transaction, membership), alive)
        except Unavailable as error:
            raise Unavailable(f"commit {transaction.n}: {error}") from error
        except errors.KafkaError as error:
            raise _meaning(meant(error), transaction.n) from error

    def _answered(self, work: Callable[[], None], alive: Callable[[], None]) -> None:
        meanwhile(work, alive, _GIVEN_UP_AFTER * self._timeout)

    def close(self) -> None:
        """Let the producer go; a transaction of its that is open stays so until it is fenced or times out."""
        producer, self._producer = self._producer, None
        if producer is not None:
            abandon(producer)

    def _write(self, transaction: Transaction, membership: Any) -> None:
        """1. Begin. 2. Send everything. 3. Look at every delivery. 4. Send the offsets. 5. Commit.

        The client would commit without a batch that expired inside the transaction, hence 3. The offsets are
        for tools that show lag; the broker refuses them where `membership` is out of date.
        """
        producer = self._producer
        producer.begin_transaction()
        sent: list[tuple[NewRecord, Any]] = []
        try:
            for record in (*transaction.outputs, transaction.journal):
                sent.append((record, send(producer, record)))  # noqa: PERF401  kept where one fails
            producer.flush(timeout=self._timeout)
            for _, delivery in sent:
                delivery.get(timeout=self._timeout)
        except errors.KafkaError:
            for record, delivery in sent:  # after a failure the client refuses every call: this says why
                if delivery.failed():
                    raise _of_record(delivery.exception, record) from None
            raise
        offsets = {
            TopicPartition(*partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in transaction.positions.items()
        }
        producer.send_offsets_to_transaction(offsets, membership)
        producer.commit_transaction()


def _of_record(error: errors.KafkaError, record: NewRecord) -> errors.KafkaError:
    """The error of a delivery; of one that is too large, which record it was."""
    if isinstance(error, errors.MessageSizeTooLargeError | errors.RecordListTooLargeError):
        return type(error)(f"{len(record.value):,} bytes for topic {record.topic}")
    return error


def abandon(producer: Any) -> None:
    """Let a producer go, whatever it has still to deliver.

    Its `close` would first wait for all deliveries, and where that fails it closes nothing: the thread would
    go on sending. Only the thread can be told to drop them.
    """
    sender = producer._sender  # noqa: SLF001  see above
    sender.force_close()
    sender.join(_TURN_SECONDS)
    with contextlib.suppress(errors.KafkaError):
        producer.close(timeout=0)


def _meaning(error: BaseException, n: int) -> LogError:
    meaning = translate(error, "WRITE")
    unknown = classify(error, committing=True) is Action.RESEND
    return Unavailable(f"commit {n}: {meaning}") if unknown else meaning


def send(producer: Any, record: NewRecord) -> Any:
    """Hand a record to a producer; its delivery, to be waited for."""
    return producer.send(record.topic, value=record.value, key=record.key, headers=list(record.headers))
