#!/usr/bin/env bash
# confluent-kafka 2.16.1 (librdkafka 2.16.0): `Producer.produce_batch` loses two things that `produce` does not.
#
# A message that is larger than `message.max.bytes`: `produce` raises MSG_SIZE_TOO_LARGE. `produce_batch` raises
# nothing and never calls `on_delivery` for it, so a program that counts on exceptions and delivery reports sees a
# complete batch. Only the returned number is smaller, and the dictionary of the message has a new key `_error`.
#
# Headers: `produce` sends them. `produce_batch` accepts a key `headers` and sends the message without them, although
# it refuses a key `timestamp`, which it does not support either, with NotImplementedError.
#
# Notes of its docstring tell both; nothing does at run time. Seen on the mock cluster of librdkafka (`test.mock.num.brokers`), in the process of the script.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check confluent-kafka==2.16.1
"$folder/venv/bin/python" - <<'PY'
import sys

from confluent_kafka import Consumer, KafkaException, Producer

LARGE = b"x" * 2_000_000  # message.max.bytes is 1,000,000 by default
MESSAGES = [{"value": b"a"}, {"value": LARGE}, {"value": b"bc", "headers": [("h", b"1")]}]
cluster = Producer({"test.mock.num.brokers": 1, "log_level": 0})
broker = next(iter(cluster.list_topics(timeout=10).brokers.values()))
settings = {"bootstrap.servers": f"{broker.host}:{broker.port}", "log_level": 0}


def arrived(topic):
    """The (value, headers) in a topic."""
    consumer = Consumer(settings | {"group.id": topic, "auto.offset.reset": "earliest", "enable.partition.eof": True})
    consumer.subscribe([topic])
    found = []
    for _ in range(300):
        message = consumer.poll(0.1)
        if message is not None and not message.error():
            found.append((message.value(), message.headers()))
        if len(found) == 2:
            break
    consumer.close()
    return sorted(found, key=str)


def sent(topic, send):
    """The errors raised, what delivery reports were for, and what arrived."""
    producer, raised, reports = Producer(settings), [], []
    send(producer, raised, lambda error, message: reports.append(message.value()[:2]))
    producer.flush(30)
    return raised, sorted(reports), arrived(topic)


def one_by_one(producer, raised, callback):
    for message in MESSAGES:
        try:
            producer.produce("single", on_delivery=callback, **message)
        except KafkaException as error:
            raised.append(error.args[0].name())


def at_once(producer, raised, callback):
    try:
        print("produce_batch returned", producer.produce_batch("batch", MESSAGES, on_delivery=callback))
    except KafkaException as error:
        raised.append(error.args[0].name())


single, batch = sent("single", one_by_one), sent("batch", at_once)
print("produce: raised", single[0], "reports", single[1], "arrived", single[2])
print("produce_batch: raised", batch[0], "reports", batch[1], "arrived", batch[2])
loses = single[0] == ["MSG_SIZE_TOO_LARGE"] and batch[0] == [] and batch[1] == [b"a", b"bc"]
drops = single[2] == [(b"a", None), (b"bc", [("h", b"1")])] and batch[2] == [(b"a", None), (b"bc", None)]

try:
    Producer(settings).produce_batch("batch", [{"value": b"a", "timestamp": 5}])
    refuses = False
except NotImplementedError as error:
    refuses = True
    print("timestamp by produce_batch:", error)
sys.exit(0 if loses and drops and refuses else 1)
PY
echo "as described"
