"""What learning by batches on Spark costs: processor time an event, and log loss for a model that is a batch old.

    python -m tests.benchmarks.spark_batches sms_spam.jsonl.gz 20news_bydate.jsonl.gz

Of each file, shuffled: the log loss of its second half in strict order, and in batches of several sizes, naive Bayes which has
learned the first half. Of the first file, over
and over: the processor time an event of a cluster on this machine (master, two workers of a core, a driver), between two
batches in full swing, beside that of one process that learns the same events, by turns; and what one delta takes.
Without pyspark, Java or Maven the cluster is left out.
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path

import numpy as np
from confluent_kafka import Producer

from streamnb import NaiveBayes, Partial
from streamnb import config as configuration
from streamnb.engine.ports import Partition, Record
from streamnb.models.naive_bayes.partials import Tested, merge_all
from streamnb.runtime import factories
from tests.benchmarks.measuring.contenders import labelled_texts
from tests.brokers.jars import ToolMissingError

TICKS = os.sysconf("SC_CLK_TCK")
SIZES = 100, 1_000, 10_000  # the last is the whole second half, of these streams
BATCH, BATCHES, PARTITIONS = 100_000, 8, 2
AT_ONCE = 10_000  # as Spark gives them to Python
WARM = 3
"""Batches before the clock starts: JVMs compile, replicas and kernels are loaded."""


def loss(texts, size):
    """Mean log loss and accuracy where each event is predicted by what was learned before its batch; 0 is strict order."""
    model, tested, half = NaiveBayes({"text": "text"}), [], len(texts) // 2
    model.learn_many(*in_columns(texts[:half]))
    for first in range(half, len(texts), size or 1000):
        rows, ys = in_columns(texts[first : first + (size or 1000)])
        if size:
            _, partial = model.partial(rows, ys)
            model.apply(partial)
            tested.append(partial.tested)
        else:
            said = model.predict_then_learn_many(rows, ys)
            tested.append(
                Tested.of_predictions(said.probabilities, np.array([said.classes.index(y) for y in ys]))
            )
    whole = Tested(*map(sum, zip(*tested, strict=True)))
    partial = Partial(model, whole)
    return partial.log_loss, partial.accuracy


def in_columns(texts):
    return [{"text": text} for text, _ in texts], [label for _, label in texts]


def staleness(path):
    texts = list(labelled_texts(str(path), None))
    random.Random(7).shuffle(texts)
    strict = loss(texts, 0)
    print(
        f"{path.name}: {len(texts):,} events, the second half; strict order: log loss {strict[0]:.4f}, accuracy {strict[1]:.4f}"
    )
    for size in SIZES:
        found = loss(texts, size)
        print(
            f"  batches of {size:,}: log loss {found[0]:.4f} ({found[0] - strict[0]:+.4f}), accuracy {found[1]:.4f}"
        )


def records(texts, count):
    for i, (text, label) in enumerate(islice(cycle(texts), count)):
        value = json.dumps({"id": f"e{i}", "text": text, "label": label}).encode()
        yield Record(Partition("events", i % PARTITIONS), i // PARTITIONS, None, value, 1.0)


def spent(work):
    started = time.process_time()
    found = work()
    return time.process_time() - started, found


def plain(config, texts):
    """Microseconds an event: of a learner in order; of a part; and milliseconds of a delta's merge, bytes, and application."""
    given, times = list(records(texts, BATCH)), []
    parts = [[one for one in given if one.partition.number == number] for number in range(PARTITIONS)]
    learner, apart = factories.learner(config), factories.learner(config)
    for _ in range(3):
        in_order, _ = spent(lambda: learner.process(given, 1.0))
        by_parts, pieces = spent(
            lambda: [
                apart.learn_partial(part[first : first + AT_ONCE], 1.0, 0, set())[1]
                for part in parts
                for first in range(0, len(part), AT_ONCE)
            ]
        )
        half = len(pieces) // PARTITIONS
        made = [merge_all(pieces[:half]), merge_all(pieces[half:])]
        encoding, encoded = spent(lambda: [one.to_bytes() for one in made])  # noqa: B023  called at once
        merging, delta = spent(lambda: merge_all(map(Partial.from_bytes, encoded)))  # noqa: B023
        applying, _ = spent(lambda: apart.model.apply(delta))  # noqa: B023
        times.append(
            (
                in_order / BATCH * 1e6,
                by_parts / BATCH * 1e6,
                encoding * 1e3,
                merging * 1e3,
                applying * 1e3,
                len(encoded[0]),
            )
        )
    return [statistics.median(column) for column in zip(*times, strict=True)]


def descendants(roots):
    """All processes below these, and these."""
    parents = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found, more = set(roots), True
    while more:
        more = {child for child, parent in parents.items() if parent in found} - found
        found |= more
    return found


def taken(roots):
    """Processor seconds of all below: of workers' Python, of workers' JVMs, of the driver's Python, and its JVM."""
    sums = {"python": 0.0, "jvm": 0.0, "driver's python": 0.0, "driver's jvm": 0.0}
    for who, pids in roots.items():
        for pid in descendants(pids):
            try:
                name = Path(f"/proc/{pid}/comm").read_text()
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            kind = "jvm" if name.startswith("java") else "python"
            # A JVM's children are counted by themselves while they live, and those of Python's daemon when they are gone.
            seconds = sum(map(int, fields[11 : 13 if kind == "jvm" else 15])) / TICKS
            sums[f"driver's {kind}" if who == "driver" else kind] += seconds
    return sums


def on_spark(texts, folder):
    """Microseconds an event of each kind of process, in full swing."""
    from tests.brokers.cluster import Cluster
    from tests.system.storm.spark import Life
    from tests.system.storm.spark_cluster import SparkCluster

    spark, brokers = SparkCluster(folder / "spark"), Cluster(folder / "brokers").start()
    try:
        life = Life(brokers, spark, folder / "life", "bench-events", partitions=PARTITIONS)
        producer = Producer({"bootstrap.servers": brokers.address, "queue.buffering.max.messages": 1_000_000})
        for one in records(texts, BATCH * BATCHES):
            producer.produce("bench-events", one.value, partition=one.partition.number)
            producer.poll(0)
        producer.flush()
        del producer
        driver = life.start(most=BATCH)
        roots = {"driver": [driver.pid], "workers": [one.pid for one in spark.workers]}
        found = []
        for number in (WARM, BATCHES - 1):
            while not life.reached(number):
                assert driver.poll() is None, "the driver has ended"
                time.sleep(0.05)
            found.append((time.monotonic(), taken(roots)))
        (began, before), (ended, after) = found
        events = (BATCHES - 1 - WARM) * BATCH
        print(
            f"  {events / (ended - began):,.0f} events a second with two workers of a core each, on this machine"
        )
        driver.kill()
        return {name: (after[name] - before[name]) / events * 1e6 for name in after}
    finally:
        brokers.kill()
        spark.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, help="JSON lines, gzipped, with text and label")
    parser.add_argument("--rounds", type=int, default=2, help="of the cluster")
    parser.add_argument("--no-cluster", action="store_true", help="only what needs none")
    options = parser.parse_args()
    factories.warm_up()
    factories.tune_interpreter()  # as a learner does
    for path in options.files:
        staleness(path)
    texts = list(labelled_texts(str(options.files[0]), None))
    config = configuration.load(None, {}, ["log.url=kafka://127.0.0.1:9", "model.kind=naive_bayes"])
    plain(config, texts)
    for turn in range(options.rounds):
        in_order, by_parts, encoding, merging, applying, size = plain(config, texts)
        print(
            f"turn {turn + 1}, microseconds of the processor an event: a learner {in_order:.1f}, a part {by_parts:.1f}"
        )
        print(
            f"  a delta of {BATCH:,} events: encoded in {encoding:.0f} ms, merged of {PARTITIONS} in {merging:.0f} ms, applied in {applying:.0f} ms; a part of {size:,.0f} bytes"
        )
        if options.no_cluster:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                found = on_spark(texts, Path(folder))
            except ToolMissingError as error:
                print(f"no cluster: {error}")
                return
        print("  on Spark: " + ", ".join(f"{name} {value:.1f}" for name, value in found.items()))
        python = found["python"] + found["driver's python"]
        print(
            f"  Python: {python / in_order:.2f} times the learner's; all processes: {sum(found.values()) / in_order:.2f} times"
        )


if __name__ == "__main__":
    main()
