"""The live page next to long topics: first answers, memory, and the time of each view by the number of records.

A learner learns some events, and goes. That many records like its own are then appended to each topic. The newest
10,000 have the same content in each log: every second prediction has the label of its event, and every third one a
separate label.

python -m tests.benchmarks.long_topics kafka [RECORDS ...]      on brokers of their own
python -m tests.benchmarks.long_topics sqlite [RECORDS ...]     on embedded logs; 10,000 and 10,000,000
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
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path

from confluent_kafka import Producer

from streamnb.event_logs.sqlite.sqlite_store import OFFSET_BITS
from streamnb.serving.live_views import TITLES
from streamnb.serving.review_queue import QUEUES
from tests.brokers.cluster import Cluster
from tests.support.fed import Programs, until_ready, write_events

LEARNED = 5_000
TEMPLATES = 20
MOST_REPORTS = 1_000_000
PATIENCE = 600
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
        self.flags = ["--log", f"kafka://{address}", "--set", kept, *SETTINGS]


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


def form_of(record, name):
    """Return a record as bytes to format with a number and a time."""
    holes = {name: "a hole"} | ({"ts": 0.125} if "ts" in record else {})
    parts = json.dumps(record | holes).replace('"a hole"', '"%d"' if isinstance(record[name], str) else "%d")
    return parts.replace("%", "%%").replace("%%d", "%d").replace("0.125", "%.3f").encode()


def like(records, name, numbers, until):
    """Records that differ from some by a value and by their times, which end at `until`, and these times."""
    forms, n = [(form_of(one, name), "ts" in one) for one in records], len(numbers)
    for at, number in enumerate(numbers):
        ts, (form, has_time) = until - SPAN * (n - at) / n, forms[number % len(forms)]
        yield (form % (number, ts) if has_time else form % number), ts


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
    """Learn some events; return records of each topic, with the field that numbers them."""
    path = programs.folder / "events.jsonl"
    programs.run("topics", "create")
    write_events(path, LEARNED)
    programs.run("replay", str(path))
    programs.run("run", "--until-end")

    def newest(topic, n):
        return [json.loads(one) for one in programs.run("read", topic).stdout.splitlines()[-n:]]

    predictions = newest("predictions", TEMPLATES)
    for one in predictions[1::2]:
        del one["truth"]
    return {
        "events": ([json.loads(one) for one in path.read_text().splitlines()[-TEMPLATES:]], "id"),
        "predictions": (predictions, "id"),
        "metrics": (newest("metrics", 1), "events"),
        "labels": ([{"id": "", "label": "spam", "source": "desk"}], "id"),
        "dead-letters": ([{"id": ""}], "id"),
    }


def lengthen(programs, fill, n):
    """Learn, and append records to each topic."""
    end = LEARNED + n
    for topic, (records, name) in learn(programs).items():
        numbers = range(LEARNED, end, max(1, n // MOST_REPORTS) if topic == "metrics" else 1)
        if topic == "labels":
            numbers = range(end - 3 * n, end, 3)
        fill(topic, like(records, name, numbers, time.time()))


class WatchedPage:
    """A page next to one log.

    Args:
        programs: its log.
        n: records that were appended to each of its topics.
    """

    def __init__(self, programs, n):
        began = time.monotonic()
        self.name, self.last = f"{n:,}", LEARNED + n - 1
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
        view = view.replace("LAST", str(self.last))
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


EVENT = "events/live?id=LAST"
VIEWS = [f"{name or 'overview'}/live?range=all" for name in TITLES] + [
    *(f"review?queue={queue}" for queue in QUEUES),
    "events/live?q=no-such-id",
    "events/live?text=no-such-word",
    EVENT,
    "classes/live?class=spam",
]
TURNS = 41


def compare(pages):
    """Print the median time of each view by turns, and the ratio of the last page's to the first one's."""
    for page in pages:
        for view in VIEWS:
            page.report(f"{view}: first {page.shown(view)[1] * 1e3:.0f} ms")
        page.until(EVENT, lambda made: "are searched for it" not in made, "an event's labels are found")
    for view in VIEWS:
        took = {page.name: [] for page in pages}
        for turn in range(TURNS):
            for page in pages if turn % 2 else pages[::-1]:
                took[page.name].append(page.shown(view)[1])
        medians = {name: 1e3 * statistics.median(found) for name, found in took.items()}
        told = ", ".join(f"{name} {found:.1f} ms" for name, found in medians.items())
        print(f"{view}: {told}; ratio {medians[pages[-1].name] / medians[pages[0].name]:.2f}", flush=True)
    for page in pages:
        page.report(f"{memory(page.program, 'VmRSS')} MiB, {memory(page.program, 'VmHWM')} MiB at most")


@contextmanager
def on_kafka(folder):
    """Programs on a broker of their own, and the function that appends to a topic."""
    cluster = Cluster(folder / "cluster").start()
    try:
        with closing(OnKafka(folder, cluster.address)) as programs:
            yield programs, partial(fill, cluster.address)
    finally:
        cluster.stop()


@contextmanager
def on_file(folder):
    """Programs on an embedded log of their own, and the function that appends to a topic."""
    with closing(Programs(folder, *SETTINGS)) as programs:
        yield programs, partial(fill_file, folder / "log.db")


def main():
    log, sizes = sys.argv[1], [int(one) for one in sys.argv[2:]] or [10_000, 10_000_000]
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        pages = []
        for n in sizes:
            folder = Path(scratch) / str(n)
            folder.mkdir()
            opened = on_kafka(folder) if log == "kafka" else on_file(folder)
            programs, fill_topic = stack.enter_context(opened)
            lengthen(programs, fill_topic, n)
            pages.append(WatchedPage(programs, n))
        compare(pages)


if __name__ == "__main__":
    main()
