"""The producer behind a learner's commits: one transactional id for all learners of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka import errors

from streamnb.adapters.kafka_errors import translate, translated
from streamnb.adapters.kafka_failures import Action, classify, meant
from streamnb.adapters.kafka_library import Library, TransactionalProducer
from streamnb.adapters.meanwhile import meanwhile
from streamnb.engine.ports import Transaction
from streamnb.errors import LogError, Unavailable

__all__ = ["Transactions"]

_GIVEN_UP_AFTER = 3  # transaction timeouts


class Transactions:
    """Commits, each an attempt whose outcome may stay unknown.

    Calls of the client may block for as long as no broker answers, so they run in a thread of their own; the
    caller's thread calls `alive` meanwhile, which keeps the election, and may raise. A call that has not been
    answered for some transaction timeouts is given up: `Unavailable`.

    Args:
        library: makes the producer.
        transactional_id: the model's.
        timeout: seconds after which the broker aborts a transaction that was left open.
    """

    def __init__(self, library: Library, transactional_id: str, timeout: float) -> None:
        self._library = library
        self._id = transactional_id
        self._timeout = timeout
        self._producer: TransactionalProducer | None = None

    def begin_anew(self, alive: Callable[[], None]) -> None:
        """Fence every earlier producer of this id and settle its transaction.

        After it, what the earlier producer had open is committed or aborted, and nothing of it is in flight.
        """
        self.close()
        producer = self._library.transactional(self._id, self._timeout)
        try:
            with translated("WRITE", self._id):
                self._answered(producer.init_transactions, alive)
        except BaseException:
            producer.abandon()
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
            producer.abandon()

    def _write(self, transaction: Transaction, membership: Any) -> None:
        """1. Begin. 2. Send everything. 3. Look at every delivery. 4. Send the offsets. 5. Commit.

        The offsets are for tools that show lag; the broker refuses them where `membership` is out of date.
        """
        producer = self._producer
        if producer is None:
            raise LogError("begin_anew comes before attempt")
        producer.begin_transaction()
        producer.deliver((*transaction.outputs, transaction.journal))
        producer.send_offsets_to_transaction(transaction.positions, membership)
        producer.commit_transaction()


def _meaning(error: BaseException, n: int) -> LogError:
    meaning = translate(error, "WRITE")
    unknown = classify(error, committing=True) is Action.RESEND
    return Unavailable(f"commit {n}: {meaning}") if unknown else meaning
