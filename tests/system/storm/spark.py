"""A storm on Apache Spark: drivers, an executor, a worker and the broker are killed; then all is counted again.

    python -m tests.system.storm.spark [--seed N] [--folder FOLDER]

Needs pyspark, Java and Maven; where one is missing it says so, and fails.
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from confluent_kafka import Producer

from streamnb.spark.deltas import Deltas
from tests.brokers.cluster import Cluster
from tests.brokers.jars import CannotStartError
from tests.support import commands
from tests.support.program import Program
from tests.system.storm.reading import read
from tests.system.storm.recount import counted, differences, recount
from tests.system.storm.source import SETTINGS
from tests.system.storm.spark_cluster import SparkCluster
from tests.system.storm.stream import events, is_malformed

DRIVER = Path(__file__).parent / "spark_driver.py"
EVENTS, MOST, PARTITIONS = 9_000, 1_200, 3
PATIENCE = 900.0
STARTS = 10
DEATHS = ["unwritten:1", "written:3"]
"""How the first drivers die: what they do before and behind the write of a delta, and before Spark knows of it."""


class Life:
    """One folder of deltas and its output topics, on one cluster."""

    def __init__(self, brokers, spark, folder, events_topic, partitions=PARTITIONS):
        self.folder = folder
        folder.mkdir()
        self.program = Program(
            folder, brokers.address, begin=commands.spawn, model_keys={"kind": "naive_bayes"}, snapshots={"folder": str(folder / "deltas"), "every_events": 3000}
        )  # fmt: skip
        self.program.file.write_text(
            self.program.file.read_text().replace(f'"{self.program.topics["events"]}"', f'"{events_topic}"')
        )
        self.deltas = Deltas(folder / "deltas")
        self.program.run("topics", "create", "--set", f"topics.partitions={partitions}")
        self._spark = spark

    def start(self, most=MOST, **environment):
        arguments = "--config", self.program.file, "--most", most, "--once"
        return self._spark.driver(DRIVER, *arguments, environment=environment)

    def reached(self, number):
        return any(int(path.stem[6:]) >= number for path in self.deltas.path.glob("delta-*.snb"))

    def predictions(self, address):
        """Key -> what was said under it, without when."""
        found = defaultdict(set)
        for one in read(address, self.program.topics["predictions"]):
            told = json.loads(one.value)
            told.pop("ts"), told["model"].pop("name")
            found[one.key].add(json.dumps(told))
        return found


def until_done(life, deaths=(), meanwhile=lambda _: None, **environment):
    """Drivers until one of them has learned all; how many were begun."""
    for start in range(STARTS):
        dies = {"DIES": deaths[start]} if start < len(deaths) else {}
        driver, deadline = life.start(**dies, **environment), time.monotonic() + PATIENCE
        while driver.poll() is None:
            if not dies:
                meanwhile(life)
            if time.monotonic() > deadline:
                driver.kill()
                raise AssertionError("a driver neither ends nor dies")
            time.sleep(0.2)
        tell(
            f"driver {start} of {life.folder.name} ended with {driver.returncode}, {dies or environment or 'undisturbed'}"
        )
        if driver.returncode == 0:
            return start + 1
    raise AssertionError(f"{STARTS} drivers did not end")


class Misfortunes:
    """An executor, a worker and the broker, each once, at a batch of its own."""

    def __init__(self, brokers, spark):
        self._left = [
            (4, "an executor", spark.kill_executor),
            (5, "a worker", lambda: spark.kill_worker(0) or True),
            (6, "the broker", lambda: brokers.kill() or brokers.start()),
        ]
        self.struck = []

    def __call__(self, life):
        if self._left and life.reached(self._left[0][0]):
            number, what, strike = self._left[0]
            if strike():
                self._left.pop(0)
                self.struck.append(what)
                tell(f"killed {what} after batch {number}")


def storm(folder, seed):
    """The faults that were found; empty where all is as it should be."""
    spark = SparkCluster(folder / "spark")
    brokers = Cluster(folder / "brokers").start()
    try:
        made = list(events(seed, EVENTS))
        truth = recount(one.raw for one in made if not is_malformed(one.id))
        calm = Life(brokers, spark, folder / "calm", "storm-events")
        write(brokers.address, made)
        until_done(calm)
        struck, misfortunes = (
            Life(brokers, spark, folder / "struck", "storm-events"),
            Misfortunes(brokers, spark),
        )
        begun = until_done(struck, DEATHS, misfortunes)
        control = Life(brokers, spark, folder / "control", "storm-events")
        until_done(control, DEATHS, NUMBERS="ignored")
        return judged(
            brokers.address, made, truth, calm, struck, control, [*misfortunes.struck, f"{begun} drivers"]
        )
    finally:
        brokers.kill()
        spark.close()


def judged(address, made, truth, calm, struck, control, told):
    states = {life: life.deltas.state() for life in (calm, struck, control)}
    faults = [
        f"{life.folder.name}: {line}"
        for life in (calm, struck)
        for line in differences(counted(states[life].model), truth)
    ]
    if states[calm].model.digest() != states[struck].model.digest():
        faults.append("the state of the undisturbed run is another one")
    wrong = differences(counted(states[control].model), truth)
    if not wrong:
        faults.append("without numbers of batches nothing was counted twice: the storm proves nothing")
    if told[:-1] != ["an executor", "a worker", "the broker"]:
        faults.append(f"only {told} were struck")
    said, expected = struck.predictions(address), calm.predictions(address)
    if said != expected:
        faults.append(
            f"predictions differ under {sum(said[key] != expected[key] for key in said | expected):,} keys"
        )
    if len(said) != sum(not is_malformed(one.id) for one in made):
        faults.append(f"{len(said):,} events were predicted")
    letters = {one.id for one in read(address, struck.program.topics["dead_letters"])}
    if len(letters) != sum(is_malformed(one.id) for one in made):
        faults.append(f"{len(letters):,} dead letters")
    tell(f"{len(truth):,} counts; killed {', '.join(told)}; without numbers {len(wrong):,} counts are wrong")
    return faults


def write(address, made):
    """All of it, before anything runs: so two lives have the same batches."""
    producer = Producer({"bootstrap.servers": address, **SETTINGS})
    for one in made:
        producer.produce("storm-events", one.raw, one.key.encode(), headers=[("id", one.id.encode())])
    producer.flush()


def tell(line):
    print(f"{time.strftime('%H:%M:%S')}  {line}", file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(prog="storm.spark", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="of the events; else any")
    parser.add_argument("--folder", type=Path, default=None, help="keep everything there")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    tell(f"seed {seed}")
    with tempfile.TemporaryDirectory() as scratch:
        try:
            faults = storm(options.folder or Path(scratch), seed)
        except CannotStartError as error:
            print(f"no storm on Spark: {error}", file=sys.stderr)
            return 2
    for fault in faults[:20]:
        print(f"FAULT {fault}", file=sys.stderr)
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
