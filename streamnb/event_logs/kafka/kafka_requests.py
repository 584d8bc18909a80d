"""Requests of clients on Kafka, each with an idempotency key once.

The requests are kept in a compacted topic of one partition, keyed by the idempotency key. One transaction
writes the records of some requests and their keys. All processes share one transactional id:

1. `init_transactions` fences the process that wrote last, and ends its transaction.
2. Read the topic to its end. No request can be added there any more, except by this process.
3. Write the requests whose keys are not in the topic.

A process that was fenced begins again with step 1, and so does one whose commit has an unknown outcome. So a
request is written once, whichever processes it asks, and whatever is killed in between. Before a process
fences back it waits for longer than a turn takes, so that several processes take turns. The requests that
arrive meanwhile are written together.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Sequence

from kafka import errors

from streamnb.engine.ports import NewRecord, Partition, Record, WriteOutcome, WriteRequest
from streamnb.errors import ConfigError, LogError, Unavailable, told_as
from streamnb.event_logs.kafka.client_interface import Library
from streamnb.event_logs.kafka.error_actions import Action, classify
from streamnb.event_logs.kafka.kafka_cluster import KafkaCluster
from streamnb.event_logs.kafka.kafka_records import KafkaRecords
from streamnb.event_logs.kafka.kafka_transactions import Transactions
from streamnb.event_logs.request_index import SCHEMA, RequestIndex, by_request, stored_bytes, stored_time

_AT_ONCE = 1000
_PAUSE_SECONDS = 0.05
_FENCED_SECONDS = 60.0  # until a process that is fenced again and again gives up
_FENCED = (errors.ProducerFencedError, errors.InvalidProducerEpochError)


class KafkaRequests:
    """Requests with idempotency keys. An object belongs to one thread.

    Args:
        cluster, records, library: parts of the log.
        name: of the model; the transactional id is derived from it.
        topic: topic of requests; empty if none is configured.
        timeout: seconds after which the broker aborts a transaction that was left open.
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        records: KafkaRecords,
        library: Library,
        name: str,
        topic: str,
        timeout: float,
    ) -> None:
        self._cluster, self._records = cluster, records
        self._partition = Partition(topic, 0)
        self._transactions = Transactions(library, f"{name}.requests", timeout, is_placed=True)
        self._is_holder = False  # until another process fences this one
        self._position = 0  # in the topic
        self._turn_seconds = 0.0  # of the last take-over and write
        self._db: sqlite3.Connection | None = None
        self._index: RequestIndex | None = None

    def append(self, requests: Sequence[WriteRequest]) -> Sequence[WriteOutcome]:
        """Write requests; see the module.

        Raises ConfigError if no topic is configured, LogError if a record is refused.
        """
        self._check_topic()
        began = time.monotonic()
        failed_since: float | None = None
        while True:
            try:
                with told_as(LogError, "the temporary file of requests", sqlite3.Error):
                    if not self._is_holder:
                        self._take_over()
                    found = self._append(requests)
                break
            except LogError as error:
                self._is_holder = False
                if classify(error, committing=True) is not Action.RESEND:
                    self._transactions.close()
                    raise
                now = time.monotonic()
                if not _is_fenced(error) or now - began > _FENCED_SECONDS:
                    if failed_since is not None:
                        self._cluster.patience.unreachable(Unavailable(str(error)), now - failed_since)
                    failed_since = failed_since or now
            self._yield_turn(time.monotonic() - began)
        if failed_since is not None:
            self._cluster.patience.reachable(time.monotonic() - failed_since)
        return found

    def _yield_turn(self, seconds: float) -> None:
        """Wait for so long that the process that took over can write, and several processes take turns."""
        longest = _PAUSE_SECONDS + 3.0 * self._turn_seconds + 0.1 * seconds
        deadline = time.monotonic() + random.uniform(0.3, 1.0) * longest  # noqa: S311  no secret
        while (left := deadline - time.monotonic()) > 0:
            self._cluster.wait()
            time.sleep(min(left, _PAUSE_SECONDS))

    def _check_topic(self) -> None:
        if not self._partition.topic:
            raise ConfigError(
                'topics.requests is not set: it keeps the keys; set it, such as "requests", and run '
                "`streamnb topics create`; or send the events without a key"
            )
        self._cluster.check_known((), {self._partition.topic})

    def _take_over(self) -> None:
        """Fence the process that wrote last, and read what it wrote."""
        began = time.monotonic()
        self._cluster.with_retries(lambda: self._transactions.begin_anew(self._cluster.wait))
        first, _ = self._cluster.offset_ranges([self._partition])[self._partition]
        self._position = max(self._position, first)
        while found := self._records.read(self._partition, self._position, _AT_ONCE):
            for record in found:
                self._add(record)
            self._position = found[-1].offset + 1
        self._requests().forget(time.time())
        self._is_holder = True
        self._turn_seconds = time.monotonic() - began

    def _requests(self) -> RequestIndex:
        """Return the index: a temporary file, which SQLite deletes at the end."""
        if self._index is None:
            self._db = sqlite3.connect("", isolation_level=None, check_same_thread=False)
            for statement in SCHEMA:
                self._db.execute(statement)
            self._index = RequestIndex(self._db)
        return self._index

    def _add(self, record: Record) -> None:
        ts = stored_time(record.value)
        if record.key is not None and ts is not None:  # otherwise not written by streamnb, or a tombstone
            self._requests().put(record.key.decode(errors="replace"), record.value, ts)

    def _append(self, requests: Sequence[WriteRequest]) -> list[WriteOutcome]:
        """Write the requests that are new, in one transaction."""
        now, index = time.time(), self._requests()

        def write(new: Sequence[WriteRequest]) -> list[Sequence[tuple[Partition, int]]]:
            found: list[Sequence[tuple[Partition, int]]] = []
            stored: list[tuple[str, bytes]] = []

            def keys(places: Sequence[tuple[Partition, int]]) -> list[NewRecord]:
                found.extend(by_request(new, places))
                pairs = zip(new, found, strict=True)
                stored.extend((one.key, stored_bytes(one, own, now)) for one, own in pairs if one.key)
                return [NewRecord(self._partition.topic, key.encode(), value) for key, value in stored]

            records = [record for request in new for record in request.records]
            self._cluster.check_known((), {record.topic for record in records})
            self._transactions.send_placed(records, keys, self._partition, "requests").await_outcome(
                self._cluster.wait
            )
            for key, value in stored:
                index.put(key, value, now)
            return found

        return index.write_once(requests, now, write)

    def close(self) -> None:
        """Drop the producer and the temporary file."""
        self._transactions.close()
        if self._db is not None:
            self._db.close()


def _is_fenced(error: LogError) -> bool:
    """Return whether another process has fenced this one, which a call after the refused one wraps."""
    cause = error.__cause__
    found = (cause, *getattr(cause, "args", ()))
    return any(isinstance(one, _FENCED) for one in found)
