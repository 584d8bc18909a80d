"""What one merge of two shards takes, and what an event costs two shards beside one learner.

    python -m tests.benchmarks.shards FILE

FILE has events as JSON lines, packed by gzip, such as the SMS Spam Collection's. Milliseconds and microseconds are of this
process's processor time, by turns, medians.
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import gzip
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from streamnb import config as configuration
from streamnb.engine.journal.checkpoint import snapshot_of
from streamnb.engine.ports import Partition, Record
from streamnb.formats.snapshot_container import SnapshotPart
from streamnb.merging.shard_states import LearnedPosition, PartitionId, ShardState, merged, of_text
from streamnb.persistence.snapshot_folder import read_file, save_file
from streamnb.runtime import factories

SETS = ["log.url=kafka://127.0.0.1:9", "model.kind=naive_bayes", "memory.budget=0", "predictions.by=scorers"]
TURNS, AT_ONCE = 5, 500


def configured(*sets):
    return configuration.load(None, {}, [*SETS, *sets])


def shard(words, number, shared=0.5):
    """A state with so many words, of which a share is in every shard, in two classes."""
    config = configured(f"model.name=s{number}", f"events.partitions=[{number}]")
    model, common = factories.model(config), int(words * shared)
    names = [f"w{i}" for i in range(common)] + [f"s{number}w{i}" for i in range(words - common)]
    texts = [" ".join(names[at : at + 100]) for at in range(0, words, 100)]
    model.learn_many(
        [{"text": text} for text in texts], ["ham" if i % 3 else "spam" for i in range(len(texts))]
    )
    return ShardState(
        config,
        model,
        {PartitionId("events", number, "id"): LearnedPosition(len(texts), f"s{number}")},
        frozenset(),
    )


def took(work):
    began = time.process_time()
    found = work()
    return 1000 * (time.process_time() - began), found


def merges(words, folder):
    """Milliseconds of each step of a merge of two shards."""
    shards = [shard(words, number) for number in range(2)]
    config, files = configured("model.name=all"), []
    for one in shards:
        file = folder / f"{one.name}-{words}.snb"
        parts = {"model": SnapshotPart(*one.model.state())}
        save_file(snapshot_of(one.checkpoint, parts, factories.identity(one.config)), file)
        files.append(file)

    def load():
        for file, one in zip(files, shards, strict=True):
            factories.model(one.config).load_state(*read_file(file).parts["model"])

    def save():
        parts = {"model": SnapshotPart(*total.model.state())}
        save_file(snapshot_of(total.checkpoint, parts, factories.identity(config)), folder / "sum.snb")

    steps = {"read": [], "add": [], "write": [], "follow": []}
    total = merged(shards, config)
    for _ in range(TURNS):
        steps["read"].append(took(load)[0])
        milliseconds, total = took(lambda: merged(shards, config))
        steps["add"].append(milliseconds)
        steps["write"].append(took(save)[0])
        steps["follow"].append(
            took(lambda: factories.model(config).load_state(*read_file(folder / "sum.snb").parts["model"]))[0]
        )
    export, text = took(total.to_text)
    back, _ = took(lambda: of_text(text))
    told = {name: round(statistics.median(times), 1) for name, times in steps.items()}
    return {"words": words, **told, "export": round(export), "import": round(back), "text_bytes": len(text)}


def microseconds(records, partitions):
    """Of the processor for each event, of one learner for each of these sets of partitions, one after the other."""
    learners = [factories.learner(configured()) for _ in partitions]
    began = time.process_time()
    for learner, numbers in zip(learners, partitions, strict=True):
        mine = [record for record in records if record.partition.number in numbers]
        for at in range(0, len(mine), AT_ONCE):
            learner.process(mine[at : at + AT_ONCE], 1_790_000_000.0)
    return 1e6 * (time.process_time() - began) / len(records)


def main(file):
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        rows = list(map(json.loads, lines))
    events = [json.dumps(rows[i % len(rows)] | {"id": f"e{i}"}).encode() for i in range(100_000)]
    records = [
        Record(Partition("events", i % 4), i // 4, None, raw, 1_790_000_000.0) for i, raw in enumerate(events)
    ]
    sets = [{0, 1, 2, 3}], [{0, 1}, {2, 3}]
    found = [[microseconds(records, of) for of in sets] for _ in range(TURNS + 1)]  # the first turn prepares
    one, two = (statistics.median(times) for times in zip(*found[1:], strict=True))
    ratio = statistics.median(b / a for a, b in found[1:])
    print(
        json.dumps(
            {"one_learner_us": round(one, 2), "two_shards_us": round(two, 2), "ratio": round(ratio, 3)}
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        merges(1000, Path(folder))
        for words in (100_000, 1_000_000):
            print(json.dumps(merges(words, Path(folder))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
