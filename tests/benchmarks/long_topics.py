"""The live page beside topics of ten million records each, on a broker of its own: first answers, and memory.

A learner learns some events, and goes. Events, predictions and reports like its own are then appended, as bytes that
are ready, until there are so many of each: python -m tests.benchmarks.long_topics [EVENTS]
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import http.client
import json
import os
import re
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from confluent_kafka import Producer

from streamnb.serving.live_views import TITLES
from tests.brokers.cluster import Cluster
from tests.support.fed import Programs, until_ready, write_events

LEARNED = 20_000
PATIENCE = 120
SETTINGS = ["--set", "topics.partitions=1", "--set", "topics.replication=1"]
QUEUED = {"queue.buffering.max.messages": 500_000, "linger.ms": 50, "compression.type": "lz4", "acks": 1}


class OnKafka(Programs):
    """Programs whose log is a cluster."""

    def __init__(self, folder, address):
        super().__init__(folder)
        kept = f"snapshots.folder={folder / 'snapshots'}"
        self.flags = ["--log", f"kafka://{address}", "--set", "http.listen=", "--set", kept, *SETTINGS]

    def last(self, topic):
        """The last record of a topic with one partition, as JSON."""
        return json.loads(self.run("read", topic).stdout.splitlines()[-1])


SETTINGS = [
    "--set",
    "topics.partitions=1",
    "--set",
    "topics.replication=1",
    "--set",
    "predictions.evidence=3",
]


def fill(address, topic, records):
    """Append records as fast as the broker takes them."""
    producer, began, n = Producer(QUEUED | {"bootstrap.servers": address}), time.monotonic(), 0
    for value in records:
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.1)
        n += 1
    producer.flush()
    print(f"{topic}: {n:,} more in {time.monotonic() - began:.0f} s", flush=True)


def like(record, name, numbers):
    """Records that differ from one by a single value."""
    hole = "a hole"
    head, tail = json.dumps(record | {name: hole}).encode().split(json.dumps(hole).encode())
    quote = b'"' if isinstance(record[name], str) else b""
    return (b"%s%s%d%s%s" % (head, quote, n, quote, tail) for n in numbers)


def memory(program, what):
    """MiB that a process has, or had at most."""
    status = Path(f"/proc/{program.pid}/status").read_text()
    return int(re.search(rf"{what}:\s+(\d+) kB", status)[1]) >> 10


def watch(programs):
    """Seconds from the start of a page, or of a view, to what it shows."""
    began = time.monotonic()
    page, port = programs.answering("dashboard", path="/page/page.css")
    until_ready(port, "/page/page.css")
    print(f"the page answers after {time.monotonic() - began:.1f} s, {memory(page, 'VmRSS')} MiB")

    def shown(path):
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
            connection.request("GET", path)
            return connection.getresponse().read().decode()

    def until(path, is_there, what):
        first = time.monotonic()
        while not is_there(made := shown(path)):
            assert time.monotonic() < first + PATIENCE, made
            time.sleep(0.05)
        print(f"{what}: {time.monotonic() - first:.2f} s", flush=True)

    until("/page/overview/live", lambda made: "Accuracy" in made, "the overview shows the newest report")
    until("/page/events/live", lambda made: "The newest of" in made, "predictions are shown")
    until("/page/overview/live", lambda made: "Reading the newest" not in made, "all that it keeps is read")
    print(re.search(r"The newest of [\d,]+", shown("/page/events/live"))[0], f"{memory(page, 'VmRSS')} MiB")
    for name in TITLES:
        path = f"/page/{name or 'overview'}/live"
        took = []
        for _ in range(5):
            began = time.monotonic()
            shown(path)
            took.append(time.monotonic() - began)
        print(f"{path}: first {took[0] * 1e3:.0f} ms, then {min(took[1:]) * 1e3:.0f} ms")
    until("/page/try/live", lambda made: "The model has learned" in made, "the model is loaded")
    began = time.monotonic()
    assert "No such prediction" in shown("/page/events/live?q=no-such-id")
    print(f"a search that finds nothing: {(time.monotonic() - began) * 1e3:.0f} ms")
    print(
        f"memory: {memory(page, 'VmRSS')} MiB, {memory(page, 'VmHWM')} MiB at most; load {os.getloadavg()[0]:.1f}"
    )


def main():
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        cluster = Cluster(folder / "cluster").start()
        try:
            with closing(OnKafka(folder, cluster.address)) as programs:
                programs.run("topics", "create")
                write_events(folder / "events.jsonl", LEARNED)
                programs.run("replay", str(folder / "events.jsonl"))
                programs.run("run", "--until-end")
                prediction, report = programs.last("predictions"), programs.last("metrics")
                event = json.loads((folder / "events.jsonl").read_text().splitlines()[-1])
                more = range(LEARNED, events)
                fill(cluster.address, "predictions", like(prediction, "id", more))
                fill(cluster.address, "metrics", like(report, "events", more))
                fill(cluster.address, "events", like(event, "id", more))
                watch(programs)
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
