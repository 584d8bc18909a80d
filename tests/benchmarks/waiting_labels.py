"""What labels cost that come on a topic of their own (`make bench`).

A learner works off texts whose labels are in the events, and the same texts whose labels come a number of events later,
by turns, each in a process of its own. With `--pending` so many events wait for labels in one learner: what each takes, and what
a snapshot of them costs, the first and the next one.
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from itertools import cycle, islice
from pathlib import Path

from streamnb import config as configuration
from streamnb.engine.ports import NewRecord, Partition, Record
from streamnb.engine.sensor import Sensor
from streamnb.runtime import context, factories
from tests import ROOT
from tests.benchmarks.measuring.contenders import labelled_texts
from tests.benchmarks.measuring.topics import place
from tests.benchmarks.recovery import broker

MODELS = {"naive Bayes": "naive_bayes", "mixture": "mixture"}
COMMIT_EVENTS = 2000
BEFORE = 5000  # texts
LABELS = f"streamnb-bench-labels-{secrets.token_hex(6)}"


def texts(path, count):
    """Text and label of so many events, those of a file again and again."""
    return list(islice(cycle(list(labelled_texts(str(path), None))), count))


def event(i, text, label=None):
    return json.dumps({"id": f"e-{i}", "text": text} | ({} if label is None else {"label": label})).encode()


def verdict(i, label):
    return json.dumps({"id": f"e-{i}", "label": label}).encode()


class LastCommit(Sensor):
    """When the last commit was visible."""

    def committed(self, _):
        self.seconds, self.processor = time.perf_counter(), time.process_time()


def turn(options):
    """Seconds by the clock and of the processor in which one learner works all off, in steps of the delay.

    It has learned some texts before, which count for neither.
    """
    late, step = options.turn == "late", options.delay
    factories.warm_up()
    topic = [f"topics.labels={LABELS}"] if late else []
    flags = ("hypotheses=[]", f"model.kind={options.model}", f"commit.events={COMMIT_EVENTS}", *topic)
    rows = list(enumerate(texts(options.file, options.events)))
    with place(options, "streamnb-bench", "service", [], *flags) as found:
        topic, sensor, spent = found.config.topics.events[0], LastCommit(), []
        worker = factories.worker(
            found.config, factories.learner(found.config), context.open_log(found.config), sensor
        )
        with closing(worker), closing(context.existing_log(found.config)) as log:

            def work_off(events, verdicts=()):
                log.append([NewRecord(topic, None, raw) for raw in events])
                log.append([NewRecord(LABELS, None, raw) for raw in verdicts])
                began = time.perf_counter(), time.process_time()
                worker.run(until_end=True)
                spent.append((sensor.seconds - began[0], sensor.processor - began[1]))

            worker.await_leadership("bench", lambda _: None)
            work_off(event(f"before-{i}", *row) for i, row in rows[:BEFORE])
            factories.tune_interpreter()
            spent.clear()
            for first in range(0, options.events + (step if late else 0), step):
                some, before = rows[first : first + step], rows[max(0, first - step) : first]
                work_off(
                    [event(i, text, None if late else label) for i, (text, label) in some],
                    [verdict(i, label) for i, (_, label) in before] if late else [],
                )
        assert worker.learner.model.n_events == options.events + BEFORE
    print(json.dumps([sum(column) for column in zip(*spent, strict=True)]))


def turns(options, name, tree=None):
    """What a turn took, in a process of its own, of this program or of the one in another folder."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, filter(None, (tree, ROOT))))}
    given = ["--events", options.events, "--delay", options.delay, "--log", options.log]
    more = [str(options.file), *map(str, given), "--turn", name, "--model", options.model]
    answer = subprocess.run(
        [sys.executable, "-P", "-m", __spec__.name, *more],
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return json.loads(answer.stdout)


def compare(options):
    """Late labels, and another version without them, beside labels in their events."""
    others = ["late"] + (["old"] if options.against else [])
    print(
        f"{options.events:,} events, labels {options.delay:,} events later, {options.rounds} rounds, {options.log}"
    )
    for name, options.model in MODELS.items():
        spent = {which: [] for which in ["plain", *others]}
        for _ in range(options.rounds):
            for which, seconds in spent.items():
                seconds.append(turns(options, which, options.against if which == "old" else None))
        for which, seconds in spent.items():
            rate = options.events / statistics.median(clock for clock, _ in seconds)
            busy = statistics.median(processor for _, processor in seconds) / options.events * 1e6
            ratios = [
                statistics.median(
                    plain[k] / other[k] for plain, other in zip(spent["plain"], seconds, strict=True)
                )
                for k in (0, 1)
            ]
            print(
                f"  {name:12} {which:6} {rate:8,.0f} events/s {busy:6.1f} us of the processor an event, "
                f"{ratios[0]:.2f} and {ratios[1]:.2f} times the rate of plain",
                flush=True,
            )


def resident():
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def snapshots(options):
    """What so many events take that wait, and what snapshots of them cost."""
    from streamnb.engine.journal.checkpoint import Checkpoint, snapshot_of

    factories.warm_up()
    rows = texts(options.file, options.pending)
    flags = [
        "topics.labels=labels",
        "labels.memory=8GiB",
        "model.kind=naive_bayes",
        "log.url=sqlite:///none.db",
    ]
    config = configuration.load(None, {}, flags)
    learner, identity, done = factories.learner(config), factories.identity(config), 0

    def process(raws, topic):
        records = [Record(Partition(topic, 0), i, None, raw, 1.0) for i, raw in enumerate(raws)]
        for first in range(0, len(records), 1000):
            learner.process(records[first : first + 1000], 1.0)

    def wait(count):
        nonlocal done
        for first in range(done, done + count, 1000):
            process([event(i, rows[i % len(rows)][0]) for i in range(first, first + 1000)], "events")
        done += count

    process([event(f"before-{i}", *row) for i, row in enumerate(rows[:BEFORE])], "events")
    wait(20_000)
    before, counted = resident(), learner.late.pending.n_bytes
    wait(options.pending)
    waiting = options.pending
    print(
        f"{options.pending:,} events wait: {(learner.late.pending.n_bytes - counted) / waiting:.0f} bytes each, "
        f"{(resident() - before) / waiting:.0f} of the process"
    )
    with tempfile.TemporaryDirectory() as folder:
        store = factories.snapshots(configuration.load(None, {}, [*flags, f"snapshots.folder={folder}"]))

        def keep(n, what):
            files = set(Path(folder).rglob("*.*")) | set(Path(folder).rglob("segments/*"))
            began = time.perf_counter()
            copy = learner.copying(store.segments())
            cut = time.perf_counter() - began
            while not copy.advance(4 << 20):
                pass
            parts, segments = copy.parts(), copy.segments()
            copied = time.perf_counter() - began
            store.save(snapshot_of(Checkpoint(n, "d", "o", {}), parts, identity, segments))
            seconds = time.perf_counter() - began
            new = [path for path in Path(folder).rglob("*") if path.is_file() and path not in files]
            written = sum(path.stat().st_size for path in new)
            print(
                f"{what}: {seconds:.2f} s ({1000 * cut:.0f} ms at once, {copied:.2f} s copied), "
                f"{written / (1 << 20):.1f} MiB in {len(new)} files"
            )

        keep(1, "first snapshot")
        wait(1000)
        process([verdict(done - 10_000 + i, "ham") for i in range(1000)], "labels")
        keep(2, "after 1,000 events and 1,000 labels, 10,000 events late")
        wait(1000)
        spread = random.Random(1).sample(range(20_000, done), 1000)
        process([verdict(i, "ham") for i in spread], "labels")
        keep(3, "after 1,000 events and 1,000 labels of any events that wait")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="JSON lines with text and label")
    parser.add_argument("--log", default="sqlite:///bench.db", help="topics are made there, and deleted")
    parser.add_argument("--kafka", action="store_true", help="on a broker of its own")
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--delay", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--against", type=Path, help="the folder of another version, for turns without late labels"
    )
    parser.add_argument("--pending", type=int)
    parser.add_argument("--turn", choices=["plain", "late", "old"], help=argparse.SUPPRESS)
    parser.add_argument("--model", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.config, options.set = None, []
    if options.turn:
        turn(options)
    elif options.pending:
        snapshots(options)
    elif options.kafka:
        with tempfile.TemporaryDirectory() as folder:
            cluster = broker(Path(folder))
            if cluster is not None:
                options.log = f"kafka://{cluster.address}"
                try:
                    compare(options)
                finally:
                    cluster.stop()
    else:
        compare(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
