"""Load for half an hour on a broker of its own (`make soak`): does the learner's memory stay flat?

It begins with a backlog, so that input comes faster than it can be learned; then events come at a steady rate, and
once a minute the broker stands still for some seconds. The words are of a fixed vocabulary, so that the model stops
growing soon: whatever grows after that is a leak.
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from cluster import Cluster
from confluent_kafka import Producer

WORDS = 20_000
LABELS = ("ham", "spam", "news")
SAMPLE_SECONDS = 5.0
STILL_EVERY, STILL_SECONDS = 60.0, 3.0
CONFIG = """\
[log]
url = "kafka://{address}"
[topics]
partitions = 3
[snapshots]
every = "20s"
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


def main(arguments=None):
    options = parsed(arguments)
    with tempfile.TemporaryDirectory() as folder:
        print("starting Apache Kafka ...", file=sys.stderr, flush=True)
        cluster = Cluster(Path(folder) / "broker").start()
        try:
            report = soak(cluster, Path(folder), options)
        finally:
            cluster.stop()
    print(json.dumps(report, indent=1))
    return 0 if report["grown_by"] <= options.most and report["exit"] == 0 else 1


def parsed(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rate", type=float, default=1000.0, help="events a second (default: %(default)g)")
    parser.add_argument("--backlog", type=int, default=200_000, help="events before it starts")
    parser.add_argument(
        "--most",
        type=float,
        default=1.05,
        help="the last third's memory against the middle third's (default: %(default)g)",
    )
    return parser.parse_args(arguments)


def soak(cluster, folder, options):
    config = folder / "streamnb.toml"
    config.write_text(CONFIG.format(address=cluster.address))
    command = [sys.executable, "-m", "streamnb"]
    subprocess.run([*command, "topics", "create", "--config", config], check=True, stdout=subprocess.DEVNULL)
    messages, producer = (
        Messages(),
        Producer({"bootstrap.servers": cluster.address, "linger.ms": 5, "message.timeout.ms": 0}),
    )
    send(producer, (messages() for _ in range(options.backlog)))
    producer.flush()
    with (folder / "said").open("wb") as said:
        learner = subprocess.Popen(
            [*command, "run", "--config", config], cwd=folder, stdout=said, stderr=said
        )
    samples = list(load(cluster, learner, producer, messages, options))
    producer.flush()
    learner.send_signal(signal.SIGTERM)
    code = learner.wait(120)
    peak = max(mib for _, mib in samples)
    third = len(samples) // 3
    middle, end = (
        np.array([mib for _, mib in part]) for part in (samples[third : 2 * third], samples[2 * third :])
    )
    return {
        "minutes": options.minutes,
        "rate": options.rate,
        "exit": code,
        "said": (folder / "said").read_text().splitlines()[-4:],
        "peak_mib": round(peak, 1),
        "median_mib_of_middle_third": round(float(np.median(middle)), 1),
        "median_mib_of_last_third": round(float(np.median(end)), 1),
        "grown_by": round(float(np.median(end) / np.median(middle)), 4),
        "every_minute_mib": [round(mib, 1) for _, mib in samples[:: int(60 / SAMPLE_SECONDS)]],
    }


def load(cluster, learner, producer, messages, options):
    """Produces for so long; now and then (seconds since it began, MiB that the learner holds)."""
    began, sent, sampled, still = time.monotonic(), 0, 0.0, STILL_EVERY
    (node,) = cluster.nodes
    while (now := time.monotonic() - began) < options.minutes * 60 and learner.poll() is None:
        due = int(now * options.rate) - sent
        send(producer, (messages() for _ in range(min(due, 1000))))
        sent += min(due, 1000)
        producer.poll(0.02)
        if now >= still:
            still += STILL_EVERY
            node.pause()
            time.sleep(STILL_SECONDS)
            node.resume()
        if now - sampled >= SAMPLE_SECONDS:
            sampled = now
            yield now, resident(learner.pid)


def send(producer, events):
    for event in events:
        while True:
            try:
                producer.produce("events", event)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)


def resident(pid):
    """MiB of memory that a process holds."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024


if __name__ == "__main__":
    sys.exit(main())
