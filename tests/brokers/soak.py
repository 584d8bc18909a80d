"""Load for half an hour on a broker of its own, or on the embedded log: do memory, files and threads stay flat?

It begins with a backlog, so that input comes faster than it can be learned; then events come at a steady rate, and
once a minute the broker stands still for some seconds. The words are of a fixed vocabulary, so that the model stops
growing soon: whatever grows after that is a leak.
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import argparse
import contextlib
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from confluent_kafka import Producer

from streamnb.engine.ports import NewRecord
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from tests.brokers.cluster import Cluster

WORDS = 20_000
LABELS = ("ham", "spam", "news")
SAMPLE_SECONDS = 5.0
STILL_EVERY, STILL_SECONDS = 60.0, 3.0
CONFIG = """\
[log]
url = "{url}"
[topics]
partitions = 3
[snapshots]
every = "20s"
[posterior]
memory = "{memory}"
[http]
listen = ""
"""


class Messages:
    """Events whose words are drawn by Zipf's law from a fixed vocabulary."""

    def __init__(self, seed=0):
        self._random = random.Random(seed)
        self._rng = np.random.default_rng(seed)
        weights = 1.0 / np.arange(1, WORDS + 1)
        self._cumulated = np.cumsum(weights / weights.sum())
        self._made = 0

    def __call__(self):
        drawn = np.minimum(np.searchsorted(self._cumulated, self._rng.random(20)), WORDS - 1)
        event = {
            "id": f"e{self._made}",
            "text": " ".join(f"w{word}" for word in drawn),
            "label": self._random.choice(LABELS),
        }
        self._made += 1
        return json.dumps(event).encode()


class OnKafka:
    """A broker of its own, which can stand still."""

    def __init__(self, folder):
        print("starting Apache Kafka ...", file=sys.stderr, flush=True)
        self._cluster = Cluster(folder / "broker").start()
        self.url, self.written_ahead = f"kafka://{self._cluster.address}", folder / "none"
        self._producer = Producer(
            {"bootstrap.servers": self._cluster.address, "linger.ms": 5, "message.timeout.ms": 0}
        )

    def send(self, events):
        for event in events:
            while True:
                try:
                    self._producer.produce("events", event)
                    break
                except BufferError:
                    self._producer.poll(0.1)
        self._producer.poll(0.02)

    def stand_still(self):
        (node,) = self._cluster.nodes
        node.pause()
        time.sleep(STILL_SECONDS)
        node.resume()

    def flush(self):
        self._producer.flush()

    def close(self):
        self._cluster.stop()


class Embedded:
    """One file, which cannot stand still; `written_ahead` is what SQLite keeps beside it."""

    def __init__(self, folder):
        self.url, self.written_ahead = f"sqlite:///{folder / 'log.db'}", folder / "log.db-wal"
        self._log = None

    def send(self, events):
        self._log = self._log or SqliteLog(self.url.removeprefix("sqlite:///"))
        if records := [NewRecord("events", None, event) for event in events]:
            self._log.append(records)
        time.sleep(0.02)

    def stand_still(self):
        pass

    def flush(self):
        pass

    def close(self):
        self._log.close()


def main(arguments=None):
    options = parsed(arguments)
    kind = Embedded if options.embedded else OnKafka
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(kind(Path(folder))) as log:
        report = soak(log, Path(folder), options)
    print(json.dumps(report, indent=1))
    flat = all(report[name]["grown_by"] <= options.most for name in ("mib", "descriptors", "threads"))
    return 0 if flat and report["exit"] == 0 else 1


def parsed(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--embedded", action="store_true", help="on the embedded log")
    parser.add_argument("--memory", default="256MiB", help="posterior.memory (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rate", type=float, default=1000.0, help="events a second (default: %(default)g)")
    parser.add_argument("--backlog", type=int, default=200_000, help="events before it starts")
    parser.add_argument(
        "--most",
        type=float,
        default=1.05,
        help="memory, descriptors and threads of the last third against the middle third's (default: %(default)g)",
    )
    return parser.parse_args(arguments)


def soak(log, folder, options):
    config = folder / "streamnb.toml"
    config.write_text(CONFIG.format(url=log.url, memory=options.memory))
    command = [sys.executable, "-m", "streamnb"]
    subprocess.run([*command, "topics", "create", "--config", config], check=True, stdout=subprocess.DEVNULL)
    messages = Messages()
    for _ in range(0, options.backlog, 1000):
        log.send([messages() for _ in range(1000)])
    log.flush()
    with (folder / "said").open("wb") as said:
        learner = subprocess.Popen(
            [*command, "run", "--config", config], cwd=folder, stdout=said, stderr=said
        )
    samples = list(load(log, learner, messages, options))
    log.flush()
    learner.send_signal(signal.SIGTERM)
    code = learner.wait(120)
    return {
        "minutes": options.minutes,
        "rate": options.rate,
        "exit": code,
        "said": (folder / "said").read_text().splitlines()[-4:],
        **{name: course([getattr(sample, name) for sample in samples]) for name in Sample._fields},
    }


class Sample(NamedTuple):
    """What a learner holds at a moment."""

    mib: float
    descriptors: int
    threads: int
    mib_written_ahead: float


def course(values):
    """How one of them went."""
    third = len(values) // 3
    middle, end = np.median(values[third : 2 * third]), np.median(values[2 * third :])
    return {
        "most": round(max(values), 1),
        "of_middle_third": round(float(middle), 1),
        "of_last_third": round(float(end), 1),
        "grown_by": round(float(end / (middle or 1)), 4),
        "each_minute": [round(value, 1) for value in values[:: int(60 / SAMPLE_SECONDS)]],
    }


def load(log, learner, messages, options):
    """Produces for so long; now and then what the learner holds."""
    began, sent, sampled, still = time.monotonic(), 0, 0.0, STILL_EVERY
    while (now := time.monotonic() - began) < options.minutes * 60 and learner.poll() is None:
        due = min(int(now * options.rate) - sent, 1000)
        log.send([messages() for _ in range(due)])
        sent += due
        if now >= still:
            still += STILL_EVERY
            log.stand_still()
        if now - sampled >= SAMPLE_SECONDS:
            sampled = now
            yield held(Path("/proc") / str(learner.pid), log.written_ahead)


def held(process, written_ahead):
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    ahead = written_ahead.stat().st_size if written_ahead.exists() else 0
    return Sample(
        int(status["VmRSS"].split()[0]) / 1024,
        len(list((process / "fd").iterdir())),
        int(status["Threads"]),
        ahead / (1 << 20),
    )


if __name__ == "__main__":
    sys.exit(main())
