"""How long a recovery takes, and what a snapshot costs the commits beside it (`make bench`).

A learner meets as many different words as the model is to have, on an embedded log or on a broker of its own. Then
it is timed: recovery by its snapshot; recovery by replay from nothing, beside learning the same records without any log;
and the cycle of a commit (from one acknowledged commit to the next, while there is always more to read) with and
without a snapshot on its way.
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from streamnb import config as configuration
from streamnb.engine.journal.recovery import recover
from streamnb.engine.journal.snapshot_store import NoSnapshots
from streamnb.engine.ports import NewRecord, Record
from streamnb.engine.sensor import Sensor
from streamnb.runtime import context, factories
from streamnb.runtime.worker_context import CommitPolicy

WORDS_AN_EVENT = 50
COMMITS_A_SNAPSHOT = 40
LABELS = ("a", "b")


class Cycles(Sensor):
    """Seconds from each commit to the next, by whether a snapshot was on its way."""

    def __init__(self):
        self.worker = None
        self.seconds = {False: [], True: []}
        self.kept = []
        self._last = None

    def committed(self, _):
        now, saving = time.perf_counter(), self.worker._writer.is_busy
        if self._last is not None and self._last[1] == saving:
            self.seconds[saving].append(now - self._last[0])
        self._last = now, saving

    def saved(self, seconds, size):
        self.kept.append((seconds, size))


def events(first, count, attributes):
    """Events whose words are new until there are `attributes` of them, and then come round again."""
    for i in range(first, first + count):
        words = ((i * WORDS_AN_EVENT + k) * 7919 % attributes for k in range(WORDS_AN_EVENT))
        yield json.dumps(
            {"id": f"e{i}", "text": " ".join(f"w{w}" for w in words), "label": LABELS[i % 2]}
        ).encode()


def produce(log, topic, raws):
    batch = []
    for raw in raws:
        batch.append(NewRecord(topic, None, raw))
        if len(batch) == 1000:
            log.append(batch)
            batch = []
    log.append(batch)


def worked(config, pace, sensor=None):
    """A worker that has learned all there is, closed."""
    learner = factories.learner(config)
    log = context.open_log(config)
    made = factories.worker(config, learner, log, sensor or Sensor())
    made.context.policy = pace
    if sensor is not None:
        sensor.worker = made
    made.await_leadership("bench", lambda _: None)
    began = time.perf_counter()
    made.run(until_end=True)
    seconds = time.perf_counter() - began
    made.close()
    return learner, seconds


def timed(work):
    began = time.perf_counter()
    found = work()
    return found, time.perf_counter() - began


def recovered(config, snapshots):
    log = context.open_log(config)
    try:
        config = factories.begun_configuration(config, log)
        learner = factories.learner(config)
        _, seconds = timed(lambda: recover(log, snapshots, learner, factories.identity(config)))
        return learner, seconds
    finally:
        log.close()


def measure(config, attributes):
    factories.warm_up()
    topic = config.topics.events[0]
    count = attributes // WORDS_AN_EVENT
    raws = list(events(0, count, attributes))
    log = context.open_log(config)
    produce(log, topic, raws)
    log.close()
    rare = CommitPolicy(snapshot_events=1 << 60, snapshot_seconds=1e9, snapshot_replay=1e9)
    learned, running = worked(config, rare)
    loaded, by_snapshot = recovered(config, factories.snapshots(config))
    again, by_replay = recovered(config, NoSnapshots())
    alone = factories.learner(config)
    records = [Record(None, i, None, raw, 0.0) for i, raw in enumerate(raws)]
    _, in_memory = timed(lambda: [alone.process(records[i : i + 1000], 0.0) for i in range(0, count, 1000)])
    assert loaded.model.n_attributes == again.model.n_attributes == learned.model.n_attributes == attributes
    size = max(entry.size for entry in factories.snapshots(config).list())

    log = context.open_log(config)
    produce(log, topic, events(count, 3 * count, attributes))
    log.close()
    cycles = Cycles()
    often = CommitPolicy(commit_events=max(1, count // COMMITS_A_SNAPSHOT), snapshot_events=count)
    worked(config, often, cycles)
    normal, beside = (sorted(cycles.seconds[saving]) for saving in (False, True))
    return {
        "log": config.log.url.partition(":")[0],
        "attributes": attributes,
        "events": count,
        "snapshot_mib": round(size / (1 << 20), 1),
        "recovery_by_snapshot_seconds": round(by_snapshot, 3),
        "recovery_by_replay_seconds": round(by_replay, 3),
        "replayed_events_a_second": round(count / by_replay),
        "learned_events_a_second": round(count / running),
        "without_a_log_events_a_second": round(count / in_memory),
        "replay_to_learning": round(running / by_replay, 2),
        "snapshots": len(cycles.kept),
        "snapshot_seconds": round(at(0.5, sorted(seconds for seconds, _ in cycles.kept)), 3),
        "commits": [len(normal), len(beside)],
        "commit_ms": round(1000 * at(0.5, normal), 2),
        "commit_beside_a_snapshot_ms": round(1000 * at(0.5, beside), 2),
        "beside_to_normal": round(at(0.5, beside) / at(0.5, normal), 2),
        "beside_to_normal_p95": round(at(0.95, beside) / at(0.95, normal), 2),
    }


def at(share, ascending):
    """The value at a share of the values, nan of none: a small model is saved within one commit."""
    return ascending[int(len(ascending) * share)] if ascending else math.nan


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--attributes", type=int, default=1_000_000)
    parser.add_argument("--kafka", action="store_true", help="on a broker of its own, not on an embedded log")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        url = f"sqlite:///{folder}/log.db"
        if options.kafka:
            cluster = broker(Path(folder))
            if cluster is None:
                return 0
            stack.callback(cluster.stop)
            url = f"kafka://{cluster.address}"
            subprocess.run(
                [sys.executable, "-m", "streamnb", "topics", "create", "--log", url],
                check=True,
                stdout=subprocess.DEVNULL,
            )
        flags = [f"log.url={url}", "http.listen=", f"snapshots.folder={folder}/snapshots", "metrics.every=1h"]
        print(json.dumps(measure(configuration.load(None, {}, flags), options.attributes), indent=1))
    return 0


def broker(folder):
    """One that was started, or None where this machine lacks what it needs."""
    from tests.brokers.cluster import Cluster
    from tests.brokers.jars import ToolMissingError

    try:
        return Cluster(folder / "broker").start()
    except ToolMissingError as error:
        print(f"left out: Apache Kafka: {error}", file=sys.stderr)
        return None


if __name__ == "__main__":
    sys.exit(main())
