"""What scorers cost: processor time an event of two beside that of one, on a backlog that was written before.

The learner has learned and stopped; then one scorer works off the backlog, and two work off another like it, by turns.
Told is what the processes took from their first partition on, and what they took altogether, with their start.
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from contextlib import closing
from itertools import cycle, islice
from pathlib import Path

from kafka import KafkaAdminClient, OffsetSpec, TopicPartition

from tests.benchmarks.measuring.contenders import labelled_texts
from tests.brokers.cluster import Cluster
from tests.support import commands
from tests.support.program import Program

PARTITIONS = 8
LEARNED = 5000
TICKS = os.sysconf("SC_CLK_TCK")


def seconds_of(command):
    """Processor time that a process has taken so far."""
    fields = Path(f"/proc/{command.process.pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / TICKS


def events(texts, first, count):
    for i, (text, label) in enumerate(islice(cycle(texts), count), first):
        yield json.dumps({"id": f"e{i}", "text": text, "label": label}).encode()


def feed(program, raws):
    file = program.folder / "events.jsonl"
    file.write_bytes(b"\n".join(raws) + b"\n")
    program.run("replay", str(file))


def lag(admin, program):
    """Offsets that no scorer is past yet; None before one has a partition."""
    places = [TopicPartition(program.topics["events"], number) for number in range(PARTITIONS)]
    group = f"streamnb.{program.model}.scorers"
    noted = admin.list_group_offsets(group)[group]
    if not all(place in noted for place in places):
        return None
    ends = admin.list_partition_offsets(dict.fromkeys(places, OffsetSpec.LATEST))
    return sum(ends[place].offset - noted[place].offset for place in places)


def worked_off(folder, address, texts, options, scorers):
    """Microseconds of processor time an event of so many scorers: from their first partition on, and altogether."""
    folder.mkdir()
    program = Program(
        folder,
        address,
        begin=commands.spawn,
        model_keys={"kind": options.model},
        topics={"partitions": PARTITIONS},
        log={"client": options.client},
        snapshots={"folder": str(folder / "snapshots")},
    )
    with closing(program), closing(KafkaAdminClient(bootstrap_servers=address)) as admin:
        program.run("topics", "create")
        feed(program, events(texts, 0, LEARNED))
        program.run("run", "--until-end", "--learn-only")
        feed(program, events(texts, LEARNED, options.events))
        begun = [program.start("score") for _ in range(scorers)]
        since = [0.0] * scorers
        while lag(admin, program) != 0:
            for place, command in enumerate(begun):
                if not since[place] and "predicts" in command.said():
                    since[place] = seconds_of(command)
            time.sleep(0.05)
        taken = [seconds_of(command) for command in begun]
        for command in begun:
            command.stop()
    count = options.events + LEARNED
    working = sum(all_of_it - start for all_of_it, start in zip(taken, since, strict=True) if start)
    return working / count * 1e6, sum(taken) / count * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", help="labelled texts, as JSON lines")
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--model", default="naive_bayes")
    parser.add_argument("--client", default="kafka-python")
    options = parser.parse_args()
    texts = list(labelled_texts(options.file, None))
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder) / "kafka").start()
        try:
            found = {1: [], 2: []}
            for turn in range(options.turns):
                for scorers, rows in found.items():
                    place = Path(folder) / f"{turn}-{scorers}"
                    rows.append(worked_off(place, cluster.address, texts, options, scorers))
                    print(
                        f"{scorers} scorers: {rows[-1][0]:.1f} us, {rows[-1][1]:.1f} with the start",
                        flush=True,
                    )
        finally:
            cluster.kill()
    for which, name in enumerate(("from the first partition on", "with the start")):
        one, two = (statistics.median(row[which] for row in found[n]) for n in (1, 2))
        print(f"{name}: one {one:.1f} us an event, two {two:.1f}: {two / one:.3f}")


if __name__ == "__main__":
    main()
