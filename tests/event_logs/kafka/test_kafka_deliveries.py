"""No transaction is committed of which a record was not delivered, whatever the client says of the others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import ClassVar

import pytest
from kafka import TopicPartition, errors
from kafka.producer.future import FutureProduceResult, FutureRecordMetadata
from kafka.producer.record_accumulator import RecordAccumulator

from streamnb.engine.ports import NewRecord, Partition, Transaction
from streamnb.errors import LogError
from streamnb.event_logs.kafka.kafka_clients import KeyPartitioner
from streamnb.event_logs.kafka.kafka_python_client import _KafkaPythonTransactionalProducer, send_all
from streamnb.event_logs.kafka.kafka_transactions import Transactions

TRANSACTION = Transaction(
    7, NewRecord("journal", None, b"{}"), [NewRecord("out", b"k", b"v")] * 3, {Partition("in", 0): 4}
)


class Producer:
    """Delivers what it is sent, apart from one record; of its topics each has some partitions."""

    config: ClassVar = {"partitioner": KeyPartitioner(), "batch_size": 100}

    def __init__(self, spared=None, error=None, partitions=1):
        self.calls = []
        self.handed = []  # topic, partition where one was asked for, key, value, headers
        self.topics = {"out": set(range(partitions)), "journal": {0}}
        self._spared, self._error = spared, error
        self._metadata = SimpleNamespace(
            topics=lambda: self.topics,
            partitions_for_topic=self.topics.get,
            available_partitions_for_topic=self.topics.get,
        )
        self._accumulator = SimpleNamespace(append=self._append)
        self._sender = SimpleNamespace(wakeup=lambda: self.calls.append("wake up"))

    def send(self, topic, value, key=None, headers=None, partition=None):
        self.calls.append("send")
        return self._delivered(topic, partition, key, value, headers)

    def _append(self, place, timestamp, key, value, headers):
        assert (timestamp, headers) == (None, [])
        self.calls.append("append")
        is_full, is_new = value == b"last of its batch", value == b"first of its batch"
        return self._delivered(*place, key, value, None), is_full, is_new, False

    def _delivered(self, topic, partition, key, value, headers):
        delivery = FutureRecordMetadata(FutureProduceResult(TopicPartition(topic, 0)), 0, 0, None, 1, 1, -1)
        if len(self.handed) != self._spared:
            delivery.success(None)
        elif self._error is not None:
            delivery.failure(self._error)
        self.handed.append((topic, partition, key, value, headers))
        return delivery

    def __getattr__(self, name):
        return lambda *_, **__: self.calls.append(name)


def attempt(producer):
    transactions = Transactions(None, "streamnb.default", 0.2)
    transactions._producer = _KafkaPythonTransactionalProducer(producer, 0.2)
    transactions.begin(TRANSACTION, None).await_outcome(lambda: None)


def test_what_was_delivered_is_committed():
    producer = Producer()
    attempt(producer)
    handing = ["send", "send", "append", "send"]
    ending = ["flush", "send_offsets_to_transaction", "commit_transaction"]
    assert producer.calls == ["begin_transaction", *handing, *ending]


@pytest.mark.parametrize("spared", range(4))
@pytest.mark.parametrize(
    "error", [None, errors.KafkaTimeoutError("expired"), errors.MessageSizeTooLargeError("x")]
)
def test_what_was_not_delivered_is_not_committed(spared, error):
    """An error of None: nothing has been heard of the record, after the flush."""
    producer = Producer(spared, error)
    with pytest.raises(LogError):
        attempt(producer)
    assert (producer.calls[0], producer.calls[-1]) == ("begin_transaction", "flush")
    assert set(producer.calls[1:-1]) <= {"send", "append"}
    assert [value for *_, value, _ in producer.handed] == [b"v", b"v", b"v", b"{}"]


@pytest.mark.parametrize("error", [None, errors.MessageSizeTooLargeError("x")])
def test_where_a_batch_is_split_each_delivery_is_waited_for(error):
    """kafka-python's flush then ends at once with an error of its own."""
    producer = Producer(2 if error else None, error)

    def flush(**_):
        producer.calls.append("flush")
        raise errors.UnknownError("Future not done")

    producer.flush = flush
    if error is None:
        attempt(producer)
        assert producer.calls[-1] == "commit_transaction"
        return
    with pytest.raises(LogError, match="larger than its topic's"):
        attempt(producer)
    assert producer.calls[-1] == "flush"


def test_a_record_is_appended_once_its_partition_is_in_the_transaction():
    """Each is handed over in its turn, by whichever way, and where the client itself would bring it."""
    producer = Producer(partitions=3)
    records = [NewRecord("out", b"%d" % (i % 5), b"%d" % i) for i in range(40)]
    assert all(delivery.succeeded() for delivery in send_all(producer, records))
    assert [(*record[:3], None) for record in records] == [(t, *rest) for t, _, *rest in producer.handed]
    homes = {
        key: KeyPartitioner().partition("out", key, key, b"", b"", producer._metadata)
        for _, key, _, _ in records
    }
    assert len(set(homes.values())) == 3
    assert [place for _, place, *_ in producer.handed] == [None, *[homes[r.key] for r in records[1:]]]
    sent = [i for i, call in enumerate(producer.calls) if call == "send"]
    firsts = [next(i for i in range(1, 40) if homes[records[i].key] == place) for place in range(3)]
    assert sent == [0, *sorted(firsts)]


@pytest.mark.parametrize(
    "special",
    [
        NewRecord("out", None, b"v"),
        NewRecord("out", b"k", b"v", (("name", b"value"),)),
        NewRecord("out", b"k", b"v" * 100),
        NewRecord("out", b"k" * 100, b"v"),
        NewRecord("out", b"k", b""),
    ],
    ids=["no key", "headers", "a long value", "a long key", "a tombstone"],
)
def test_what_the_client_has_to_look_at_goes_its_way(special):
    producer = Producer()
    records = [NewRecord("out", b"k", b"v")] * 3
    assert len(list(send_all(producer, [*records, special, records[0]]))) == 5
    assert producer.handed[3] == (
        "out",
        None,
        special.key,
        special.value or None,
        list(special.headers) or None,
    )
    assert producer.calls == ["send", "send", "append", "send", "append"]


def test_the_client_is_woken_where_a_batch_is_full_or_new():
    producer = Producer()
    values = [b"v", b"v", b"first of its batch", b"v", b"last of its batch", b"v"]
    list(send_all(producer, [NewRecord("out", b"k", value) for value in values]))
    appended = ["append", "wake up", "append", "append", "wake up", "append"]
    assert producer.calls == ["send", "send", *appended]


def test_a_topic_whose_metadata_cannot_be_had_is_left_to_the_client():
    producer = Producer(0, errors.UnknownTopicOrPartitionError())
    found = list(send_all(producer, [NewRecord("out", b"k", b"v")] * 4))
    assert [delivery.failed() for delivery in found] == [True, False, False, False]
    assert producer.calls == ["send", "send", "send", "append"]


def test_a_topic_that_goes_away_meanwhile_is_left_to_the_client():
    producer = Producer()
    handing = send_all(producer, [NewRecord("out", b"k", b"v")] * 5)
    for _ in range(3):
        next(handing)
    del producer.topics["out"]
    list(handing)
    assert producer.calls == ["send", "send", "append", "send", "send"]


def test_a_client_that_appends_in_another_way_is_left_to_send(monkeypatch):
    monkeypatch.setattr(RecordAccumulator, "append", lambda _self, _place, _record: None)
    producer = Producer()
    records = [NewRecord("out", b"k", b"%d" % i) for i in range(4)]
    assert len(list(send_all(producer, records))) == 4
    assert producer.calls == ["send"] * 4
    assert [value for *_, value, _ in producer.handed] == [record.value for record in records]
