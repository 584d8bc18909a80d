"""No transaction is committed of which a record was not delivered, whatever the client says of the others."""

from __future__ import annotations

import pytest
from kafka import TopicPartition, errors
from kafka.producer.future import FutureProduceResult, FutureRecordMetadata

from streamnb.adapters.kafka_commit import Transactions
from streamnb.adapters.kafka_python import _TransactionalProducer
from streamnb.engine.ports import NewRecord, Partition, Transaction
from streamnb.errors import LogError

TRANSACTION = Transaction(
    7, NewRecord("journal", None, b"{}"), [NewRecord("out", b"k", b"v")] * 3, {Partition("in", 0): 4}
)


class Producer:
    """Delivers what it is sent, apart from one record."""

    def __init__(self, spared, error):
        self.calls = []
        self._spared, self._error = spared, error

    def send(self, topic, *rest):
        delivery = FutureRecordMetadata(FutureProduceResult(TopicPartition(topic, 0)), 0, 0, None, 1, 1, -1)
        assert rest[1:] == ((None, None) if topic == "journal" else (b"k", None))  # key, headers
        if len(self.calls) - 1 != self._spared:
            delivery.success(None)
        elif self._error is not None:
            delivery.failure(self._error)
        self.calls.append("send")
        return delivery

    def __getattr__(self, name):
        return lambda *_, **__: self.calls.append(name)


def attempt(producer):
    transactions = Transactions(None, "streamnb.default", 0.2)
    transactions._producer = _TransactionalProducer(producer, 0.2)
    transactions.begin(TRANSACTION, None).settle(lambda: None)


SENT = ["begin_transaction", *["send"] * 4, "flush"]


def test_what_was_delivered_is_committed():
    producer = Producer(None, None)
    attempt(producer)
    assert producer.calls == [*SENT, "send_offsets_to_transaction", "commit_transaction"]


@pytest.mark.parametrize("spared", range(4))
@pytest.mark.parametrize(
    "error", [None, errors.KafkaTimeoutError("expired"), errors.MessageSizeTooLargeError("x")]
)
def test_what_was_not_delivered_is_not_committed(spared, error):
    """An error of None: nothing has been heard of the record, after the flush."""
    producer = Producer(spared, error)
    with pytest.raises(LogError):
        attempt(producer)
    assert producer.calls == SENT
