"""What a learner takes under a budget of memory, how long it forgets at a stretch, and what of its pace is left.

Each stream brings more of one thing than there is room for. Each run is a process of its own, which takes ten
copies for a snapshot; resident memory is sampled every 100 ms.
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from streamnb.config import load
from streamnb.engine.ports import Partition, Record
from streamnb.formats.snapshot_container import part_digest
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.runtime import context, factories
from streamnb.runtime.warmup import rehearse


def together(i):
    """Words, attributes and values that never come again; every other event has a label of its own instead."""
    if i % 2:
        return {"text": f"word{i}", "label": f"label{i}"}
    features = {f"f{i}": i / 7, **{f"entity{j}": f"entity{i}x{j}" for j in range(10)}}
    return {
        "text": " ".join(f"w{i}x{j}" for j in range(100)),
        "features": features,
        "label": "ab"[i // 2 % 2],
    }


STREAMS = {
    "words": (
        10_000,
        10,
        lambda i: {"text": " ".join(f"w{i}x{j}" for j in range(1000)), "label": "ab"[i % 2]},
    ),
    "labels": (100_000, 200, lambda i: {"text": f"word{i}", "label": f"label{i}"}),
    "attributes": (
        100_000,
        200,
        lambda i: {"features": {f"f{i}": i / 7, f"n{i}": "x"}, "label": "ab"[i % 2]},
    ),
    "values": (1_000_000, 200, lambda i: {"features": {"entity": f"entity{i}"}, "label": "ab"[i % 2]}),
    "together": (200_000, 50, together),
}
COPIES = 10
MODELS = {"naive Bayes": ["model.kind=naive_bayes"], "default": []}


def resident():
    """Bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) << 12


class Sampled(threading.Thread):
    """The most memory that was seen."""

    def __init__(self):
        super().__init__(daemon=True)
        self.most = 0

    def run(self):
        while True:
            self.most = max(self.most, resident())
            time.sleep(0.1)


class Timed:
    """How long what is done for memory's sake takes at a stretch, and in what each call of `process` does."""

    def __init__(self, learner):
        self.longest, self.depth, self.taken = 0.0, 0, 0.0
        model = learner.model
        statistics = model._statistics
        for owner, name in (
            (model, "evict"),
            (statistics, "_close_holes"),
            (statistics, "finish_copy"),
            (statistics.vocabulary, "_widen"),
            *([(model._learners.features, "reserve")] if hasattr(model, "_learners") else []),
        ):
            setattr(owner, name, self.timed(getattr(owner, name)))

    def timed(self, done):
        """The same, timed."""

        def during(*arguments):
            self.depth += 1
            started = time.thread_time()
            done(*arguments)
            took = time.thread_time() - started
            self.depth -= 1
            if not self.depth:
                self.longest = max(self.longest, took)
                self.taken += took

        return during


def learned(name, model, budget, n):
    """One run, in this process."""
    config = load(None, {}, [*MODELS[model], f"memory.budget={budget}"])
    learner = factories.learner(config)
    rehearse(learner, context.schema(config))
    learner = factories.learner(config)
    folder = TemporaryDirectory()
    timed, waits, aside = Timed(learner), [], SnapshotFolder(folder.name).aside
    before, sampled, started = resident(), Sampled(), time.process_time()
    sampled.start()
    partition, at, copied = Partition("events", 0), 0, 0
    _, at_once, event = STREAMS[name]
    while at < n:
        made = [{"id": f"{i}"} | event(i) for i in range(at, min(n, at + at_once))]
        records = [
            Record(partition, at + k, None, json.dumps(one).encode(), 1.0) for k, one in enumerate(made)
        ]
        begun = timed.taken
        learner.process(records, 1.0, max_bytes=16 << 20)
        waits.append(timed.taken - begun)
        at = learner.consumed
        if at >= copied + n // COPIES and learner.model.is_settled:
            for part in learner.copying((), aside).parts().values():
                part_digest(*part)  # which reads all of it, as a snapshot that is written does
            copied = at
    return {
        "seconds": time.process_time() - started,
        "before": before >> 20,
        "most": max(sampled.most, resident()) >> 20,
        "counted": learner.n_bytes >> 20,
        "pause": 1e3 * timed.longest,
        "wait": 1e3 * sorted(waits)[len(waits) * 999 // 1000],
        "forgotten": learner.memory_use.words,
    }


def run(*arguments):
    """One run, in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--one", *map(str, arguments)], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs=4)
    parser.add_argument("--budget", default="64MiB")
    parser.add_argument("--streams", nargs="*", default=list(STREAMS))
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    parser.add_argument(
        "--compared", type=float, default=0.1, help="share of the events that run unbounded, too"
    )
    options = parser.parse_args()
    if options.one:
        *which, n = options.one
        print(json.dumps(learned(*which, int(n))))
        return
    print(
        "| stream | model | memory before, most (MiB) | at a stretch, 99.9 of 100 batches (ms) | words forgotten | pace |"
    )
    print("|---|---|---|---|---|---|")
    for name in options.streams:
        for model in options.models:
            n, few = STREAMS[name][0], int(STREAMS[name][0] * options.compared)
            whole = run(name, model, options.budget, n)
            pace = min(run(name, model, "0B", few)["seconds"] for _ in range(2)) if few else 0.0
            pace /= min(run(name, model, options.budget, few)["seconds"] for _ in range(2)) if few else 1.0
            print(
                f"| {n:,} {name} | {model} | {whole['before']}, {whole['most']} "
                f"| {whole['pause']:.1f}, {whole['wait']:.1f} | {whole['forgotten']:,} | {pace:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
