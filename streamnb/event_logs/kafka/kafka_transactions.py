"""The producer behind a learner's commits: one transactional id for all learners of a model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from typing import Any

from kafka import TopicPartition, errors

from streamnb.engine.ports import NewRecord, Partition, Transaction
from streamnb.errors import LogError, Unavailable
from streamnb.event_logs.blocking_call import BlockingCall, SerialThread, call_blocking
from streamnb.event_logs.kafka.client_interface import NO_NOTES, Library, TransactionalProducer
from streamnb.event_logs.kafka.error_actions import Action, classify, meant
from streamnb.event_logs.kafka.error_messages import translate, translated
from streamnb.event_logs.kafka.kafka_clients import Clients
from streamnb.event_logs.kafka.kafka_python_client import of_record
from streamnb.event_logs.kafka.lost_transaction_markers import commit_again

_TOO_LARGE = (errors.MessageSizeTooLargeError, errors.RecordListTooLargeError)
_GIVEN_UP_AFTER = 3  # transaction timeouts


class Attempt:
    """A transaction in flight."""

    def __init__(self, work: BlockingCall[None], what: str) -> None:
        self._work, self._what = work, what

    def is_over(self) -> bool:
        """Return whether its outcome is known."""
        return self._work.is_over()

    def await_outcome(self, alive: Callable[[], None]) -> float:
        """Wait for the commit, and return its time by the monotonic clock.

        Raises:
            Unavailable: the outcome is unknown; the transaction may or may not be committed.
            LogError: it is not committed, and a retry would fail again.
        """
        try:
            return self._work.answer(alive)[1]
        except Unavailable as error:
            raise Unavailable(f"{self._what}: {error}") from error
        except errors.KafkaError as error:
            raise _meaning(meant(error), self._what) from error


class Transactions:
    """Commits, each an attempt whose outcome may stay unknown.

    Calls of the client may block while no broker answers, so they run in a separate thread. While the caller
    waits, it calls `alive`, which keeps the election and may raise. A call that has not returned after some
    transaction timeouts is given up: `Unavailable`.

    Args:
        library: makes the producer.
        transactional_id: the model's.
        timeout: seconds after which the broker aborts a transaction that was left open.
        is_placed: whether `send_placed` is used.
    """

    def __init__(
        self, library: Library, transactional_id: str, timeout: float, *, is_placed: bool = False
    ) -> None:
        self._library = library
        self._id = transactional_id
        self._timeout, self._is_placed = timeout, is_placed
        self._producer: TransactionalProducer | None = None
        self._thread: SerialThread | None = None  # the producer's own

    def begin_anew(self, alive: Callable[[], None]) -> None:
        """Fence every earlier producer of this id and end its transaction.

        Afterwards the earlier transaction is committed or aborted, and none of its records is in flight.
        """
        self.close()
        producer = self._library.transactional(self._id, self._timeout, is_placed=self._is_placed)
        try:
            with translated("WRITE", self._id):
                call_blocking(producer.init_transactions, alive, self._patience)
        except BaseException:
            producer.abandon()
            raise
        self._producer, self._thread = producer, SerialThread()

    def commit_again(
        self, places: Collection[TopicPartition], clients: Clients, alive: Callable[[], None]
    ) -> None:
        """Commit on partitions what earlier producers left open there; call `begin_anew` next."""
        self.close()
        with (
            closing(clients.transactional(self._id, self._timeout)) as producer,
            translated("WRITE", self._id),
        ):
            call_blocking(lambda: commit_again(producer, places), alive, self._patience)

    def begin(self, transaction: Transaction, membership: Any) -> Attempt:
        """Begin to write one transaction.

        After a failed attempt this producer must not be used again; call `begin_anew` first.
        """
        work = BlockingCall(lambda: self._write(transaction, membership), self._patience, self._thread)
        return Attempt(work, f"commit {transaction.n}")

    def send(
        self,
        records: Sequence[NewRecord],
        positions: Mapping[Partition, int],
        membership: Any,
        what: str,
        notes: Mapping[Partition, str] = NO_NOTES,
    ) -> Attempt:
        """Begin to write records, positions and notes in one transaction; `what` names it in errors."""
        work = BlockingCall(
            lambda: self._send(records, positions, membership, notes), self._patience, self._thread
        )
        return Attempt(work, what)

    def send_placed(
        self,
        records: Sequence[NewRecord],
        more: Callable[[Sequence[tuple[Partition, int]]], Sequence[NewRecord]],
        partition: Partition,
        what: str,
    ) -> Attempt:
        """Begin to write records in one transaction.

        `more` returns records of `partition` that depend on the places of `records`.
        """

        def write() -> None:
            producer = self._begun()
            try:
                producer.announce(partition)
                producer.deliver(more(producer.deliver_placed(records)))
                producer.commit_transaction()
            except _TOO_LARGE as error:
                raise _naming(error, records) from error

        return Attempt(BlockingCall(write, self._patience, self._thread), what)

    @property
    def _patience(self) -> float:
        """Seconds after which a call is given up."""
        return _GIVEN_UP_AFTER * self._timeout

    def close(self) -> None:
        """Drop the producer; its open transaction stays open until it is fenced or times out."""
        producer, self._producer = self._producer, None
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.end()
        if producer is not None:
            producer.abandon()

    def _begun(self) -> TransactionalProducer:
        """Return the producer, with a new transaction."""
        if self._producer is None:
            raise LogError("begin_anew comes before attempt")
        self._producer.begin_transaction()
        return self._producer

    def _write(self, transaction: Transaction, membership: Any) -> None:
        self._send((*transaction.outputs, transaction.journal), transaction.positions, membership)

    def _send(
        self,
        records: Sequence[NewRecord],
        positions: Mapping[Partition, int],
        membership: Any,
        notes: Mapping[Partition, str] = NO_NOTES,
    ) -> None:
        """Write one transaction: begin, send and check all records, send the offsets, commit.

        The offsets serve tools that show lag; the broker refuses them if `membership` is outdated.
        """
        producer = self._begun()
        try:
            producer.deliver(records)
            producer.send_offsets_to_transaction(positions, membership, notes)
            producer.commit_transaction()
        except _TOO_LARGE as error:
            raise _naming(error, records) from error


def _naming(error: errors.KafkaError, records: Sequence[NewRecord]) -> errors.KafkaError:
    """Return the error with the largest record of its topic; of any topic if it names none."""
    named = [record for record in records if record.topic in str(error)] or records
    largest = max(named, key=lambda record: len(record.value))
    return of_record(error, largest.topic, len(largest.value))


def _meaning(error: BaseException, what: str) -> LogError:
    meaning = translate(error, "WRITE")
    unknown = classify(error, committing=True) is Action.RESEND
    return Unavailable(f"{what}: {meaning}") if unknown else meaning
