"""The live page next to long topics: first answers, memory, and the time of each view by the number of records.

A learner learns some events, and goes. Records like its own are then appended, until there are so many of each:

python -m tests.benchmarks.long_topics kafka [RECORDS]          on a broker of its own; 10,000,000
python -m tests.benchmarks.long_topics sqlite [RECORDS ...]     on embedded logs; 10,000 and 10,000,000, with ratios
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import http.client
import json
import os
import re
import sqlite3
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from itertools import islice
from pathlib import Path

from confluent_kafka import Producer

from streamnb.event_logs.sqlite.sqlite_store import OFFSET_BITS
from streamnb.serving.live_views import TITLES
from streamnb.serving.review_queue import QUEUES
from tests.brokers.cluster import Cluster
from tests.support.fed import Programs, until_ready, write_events

LEARNED = 5_000
PATIENCE = 120
SETTINGS = [
    *("--set", "topics.partitions=1"),
    *("--set", "topics.replication=1"),
    *("--set", "topics.labels=labels"),
    *("--set", "predictions.evidence=3"),
]
QUEUED = {"queue.buffering.max.messages": 500_000, "linger.ms": 50, "compression.type": "lz4", "acks": 1}
SPAN = 7 * 86_400.0
"""Seconds over which the appended records are spread, up to the start of this program."""


class OnKafka(Programs):
    """Programs whose log is a cluster."""

    def __init__(self, folder, address):
        super().__init__(folder)
        kept = f"snapshots.folder={folder / 'snapshots'}"
        self.flags = ["--log", f"kafka://{address}", "--set", "http.listen=", "--set", kept, *SETTINGS]


def fill(address, topic, records):
    """Append records as fast as the broker takes them."""
    producer, began, n = Producer(QUEUED | {"bootstrap.servers": address}), time.monotonic(), 0
    for value, _ in records:
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.1)
        n += 1
    producer.flush()
    print(f"{topic}: {n:,} more in {time.monotonic() - began:.0f} s", flush=True)


def like(record, name, numbers, until):
    """Records that differ from one by a value and by their times, which end at `until`, and these times."""
    holes = {name: "a hole"} | ({"ts": 0.125} if "ts" in record else {})
    parts = json.dumps(record | holes).replace('"a hole"', '"%d"' if isinstance(record[name], str) else "%d")
    form, n = parts.replace("%", "%%").replace("%%d", "%d").replace("0.125", "%.3f").encode(), len(numbers)
    for at, number in enumerate(numbers):
        ts = until - SPAN * (n - at) / n
        yield (form % (number, ts) if "ts" in record else form % number), ts


def memory(program, what):
    """MiB that a process has, or had at most."""
    status = Path(f"/proc/{program.pid}/status").read_text()
    return int(re.search(rf"{what}:\s+(\d+) kB", status)[1]) >> 10


def fill_file(path, topic, records):
    """Append records to the only partition of a topic in an embedded log that nothing else uses."""
    began = time.monotonic()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = OFF")
        db.execute("PRAGMA synchronous = OFF")
        found = "SELECT partition_id, next FROM partitions WHERE topic = ?"
        ((partition, first),) = db.execute(found, (topic,))
        place, n = partition << OFFSET_BITS | first, 0
        while some := list(islice(records, 100_000)):
            rows = ((place + n + at, ts, None, value, None) for at, (value, ts) in enumerate(some))
            db.execute("BEGIN")
            db.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?)", rows)
            n += len(some)
            db.execute("UPDATE partitions SET next = ? WHERE partition_id = ?", (first + n, partition))
            db.execute("COMMIT")
        db.execute("PRAGMA journal_mode = WAL")
    print(f"{topic}: {n:,} more in {time.monotonic() - began:.0f} s", flush=True)


def learn(programs):
    """Learn some events; return a record of each topic, with the field that numbers it."""
    path = programs.folder / "events.jsonl"
    programs.run("topics", "create")
    write_events(path, LEARNED)
    programs.run("replay", str(path))
    programs.run("run", "--until-end")
    last = {name: programs.run("read", name).stdout.splitlines()[-1] for name in ("predictions", "metrics")}
    event = json.loads(path.read_text().splitlines()[-1])
    return {
        "events": (event, "id"),
        "predictions": (json.loads(last["predictions"]), "id"),
        "metrics": (json.loads(last["metrics"]), "events"),
        "labels": ({"id": "", "label": "spam", "source": "desk"}, "id"),
        "dead-letters": ({"id": ""}, "id"),
    }


class WatchedPage:
    """A page next to one log.

    Args:
        programs: its log.
        name: of the log.
    """

    def __init__(self, programs, name):
        began = time.monotonic()
        self.name = name
        self.program, self.port = programs.answering("dashboard", path="/page/page.css")
        until_ready(self.port, "/page/page.css")
        self.report(f"answers after {time.monotonic() - began:.1f} s, {memory(self.program, 'VmRSS')} MiB")
        self.until("overview", lambda made: "Accuracy" in made, "the overview shows the newest report")
        self.until("events", lambda made: "The newest of" in made, "predictions are shown")
        self.until("overview", lambda made: "Reading the newest" not in made, "all that it keeps is read")
        self.until("overview", lambda made: "are being read" not in made, "older reports are read")
        self.until("try", lambda made: "The model has learned" in made, "the model is loaded")

    def report(self, what):
        print(f"{self.name}: {what}; load {os.getloadavg()[0]:.1f}", flush=True)

    def shown(self, view):
        """What a view shows, and the seconds until then."""
        began = time.monotonic()
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)) as connection:
            connection.request("GET", f"/page/{view}" if "?" in view else f"/page/{view}/live")
            made = connection.getresponse().read().decode()
        return made, time.monotonic() - began

    def until(self, view, is_there, what):
        first = time.monotonic()
        while not is_there(made := self.shown(view)[0]):
            assert time.monotonic() < first + PATIENCE, made
            time.sleep(0.05)
        self.report(f"{what}: {time.monotonic() - first:.2f} s")


VIEWS = [f"{name or 'overview'}/live?range=all" for name in TITLES] + [
    *(f"review?queue={queue}" for queue in QUEUES),
    "events/live?q=no-such-id",
]
TURNS = 15


def compare(pages):
    """Print the median time of each view by turns, and its ratio to the first page's."""
    for page in pages:
        for view in VIEWS:
            page.report(f"{view}: first {page.shown(view)[1] * 1e3:.0f} ms")
    for view in VIEWS:
        took = {page.name: [] for page in pages}
        for _ in range(TURNS):
            for page in pages:
                took[page.name].append(page.shown(view)[1])
        medians = {name: 1e3 * statistics.median(found) for name, found in took.items()}
        told = ", ".join(f"{name} {found:.1f} ms" for name, found in medians.items())
        of_first = next(iter(medians.values()))
        print(f"{view}: {told}; ratio {max(medians.values()) / of_first:.2f}", flush=True)
    for page in pages:
        page.report(f"{memory(page.program, 'VmRSS')} MiB, {memory(page.program, 'VmHWM')} MiB at most")


def on_kafka(folder, n):
    cluster = Cluster(folder / "cluster").start()
    try:
        with closing(OnKafka(folder, cluster.address)) as programs:
            for topic, (record, name) in learn(programs).items():
                more = range(LEARNED * (topic not in {"labels", "dead-letters"}), n)
                fill(cluster.address, topic, like(record, name, more, time.time()))
            compare([WatchedPage(programs, f"{n:,}")])
    finally:
        cluster.stop()


def on_files(folder, sizes):
    with ExitStack() as stack:
        pages = []
        for n in sizes:
            own = folder / str(n)
            own.mkdir()
            programs = stack.enter_context(closing(Programs(own, *SETTINGS)))
            for topic, (record, name) in learn(programs).items():
                more = range(LEARNED * (topic not in {"labels", "dead-letters"}), n)
                fill_file(own / "log.db", topic, like(record, name, more, time.time()))
            pages.append(WatchedPage(programs, f"{n:,}"))
        compare(pages)


def main():
    log, sizes = sys.argv[1], [int(one) for one in sys.argv[2:]]
    with tempfile.TemporaryDirectory() as scratch:
        if log == "kafka":
            on_kafka(Path(scratch), *(sizes or [10_000_000]))
        else:
            on_files(Path(scratch), sizes or [10_000, 10_000_000])


if __name__ == "__main__":
    main()
