"""Writes a stream to its topics at a steady rate, each record once, however often brokers die meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from confluent_kafka import KafkaException, Producer

from tests.system.storm.reading import ID
from tests.system.storm.stream import Made

TURN_SECONDS = 0.02
SETTINGS = {
    "acks": "all",
    "enable.idempotence": True,  # a batch that is sent again is written once
    "message.timeout.ms": 0,  # there is no giving up
    "linger.ms": 5,
    "reconnect.backoff.max.ms": 500,
    "queue.buffering.max.messages": 1_000_000,
    "log_level": 0,  # that brokers die is what this is about
}


class Source(threading.Thread):
    """Begins when it is started and ends when the last record is acknowledged.

    Attributes:
        acknowledged: records whose delivery was confirmed.
        complaints: of deliveries that failed: the storm proves nothing where there is one.
    """

    def __init__(self, address: str, topics: dict[str, str], stream: Iterable[Made], rate: float) -> None:
        super().__init__(name="source", daemon=True)
        self._producer = Producer({"bootstrap.servers": address, **SETTINGS})
        self._topics = topics
        self._stream = iter(stream)
        self._rate = rate
        self.acknowledged = 0
        self.complaints: list[str] = []

    def run(self) -> None:
        began = time.monotonic()
        for sent, made in enumerate(self._stream):
            while sent > (time.monotonic() - began) * self._rate:
                self._producer.poll(TURN_SECONDS)
            self._producer.produce(
                self._topics[made.role],
                made.raw,
                made.key.encode(),
                headers=[(ID, made.id.encode())],
                on_delivery=self._note,
            )
        while self._producer.flush(1.0) and not self.complaints:
            pass

    def _note(self, error: KafkaException | None, _: object) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.complaints.append(str(error))
