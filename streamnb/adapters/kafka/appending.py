"""Hand the records of a transaction over to a producer of kafka-python."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

from kafka import TopicPartition
from kafka.producer.record_accumulator import RecordAccumulator

from streamnb.engine.ports import NewRecord

__all__ = ["send", "send_all"]

_APPENDS_WITH = ("self", "tp", "timestamp_ms", "key", "value", "headers", "now", "abort_on_new_batch")
"""What kafka-python 3.0.9 to 3.0.12 need to know to append a record."""


def send(producer: Any, record: NewRecord) -> Any:
    """Hand one record over; its delivery, to be waited for."""
    topic, key, value, headers = record
    return producer.send(topic, value, key, list(headers) if headers else None)


def send_all(producer: Any, records: Sequence[NewRecord]) -> Iterator[Any]:
    """Hand records over within one transaction; their deliveries, in order.

    kafka-python 3.0.12 looks at every `send` anew at what is the same for all of a transaction: settings, the
    topic's metadata, the transaction's state, each under locks. That takes as long as to append a record to
    its batch. So a partition's first record goes by `send`, and with it the partition into the transaction;
    those after it are appended where `send` would append them. Where the transaction has failed by then,
    their deliveries do.

    What `send` has more to do for goes by it always: a record without a key, whose partition depends on the
    batches; one with headers; one larger than a batch, which may be too large to be sent. So do all records
    where a version of the client appends in another way.
    """
    append, wake_up = producer._accumulator.append, producer._sender.wakeup  # noqa: SLF001  see above
    largest = producer.config["batch_size"]
    is_known = tuple(inspect.signature(RecordAccumulator.append).parameters) == _APPENDS_WITH
    begun: dict[str, dict[int, TopicPartition]] = {}  # of topics whose metadata is there
    for record in records:
        topic, key, value, headers = record
        is_plain = is_known and key is not None and not headers and len(key) + len(value) <= largest
        number = _partition(producer, record) if is_plain and topic in begun else None
        if number is None:
            delivery = send(producer, record)
            if not delivery.failed():
                begun.setdefault(topic, {})
        elif number not in begun[topic]:
            delivery = producer.send(topic, value, key, partition=number)
            begun[topic][number] = TopicPartition(topic, number)
        else:
            delivery, is_full, is_new, _ = append(begun[topic][number], None, key, value, [])
            if is_full or is_new:
                wake_up()
        yield delivery


def _partition(producer: Any, record: NewRecord) -> int | None:
    """Where a record with a key goes; None where the topic is not known any more."""
    topic, key, value, _ = record
    cluster = producer._metadata  # noqa: SLF001  see above
    try:
        number: int = producer.config["partitioner"].partition(topic, key, key, value, value, cluster)
    except ValueError:
        return None
    return number
