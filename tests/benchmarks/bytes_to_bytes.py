"""Processor time of an event from bytes to bytes, without a log: this version and other checkouts, by turns.

python -m tests.benchmarks.bytes_to_bytes FILE [CHECKOUT ...] [--events 50000] [--rounds 9]

Each checkout and model has a process. In its turn, a fresh learner commits the texts and labels of the file,
repeated with new ids: decode, predict, learn, encode, and the journal record. A ratio below 1 means that
this version takes less. The digest of all outputs shows whether two versions publish the same bytes.
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
MODELS = ("naive_bayes", "mixture")
_NOW = 1_790_000_000.0


def work(path, model, events, size):
    """Answer each line of standard input with the seconds of one turn, and the digest of its outputs."""
    import time

    from streamnb.config import load
    from streamnb.engine.journal.checkpoint import BEFORE
    from streamnb.engine.ports import Partition, Record

    try:
        from streamnb.runtime import factories
        from streamnb.runtime.factories import tune_interpreter
    except ImportError:  # an older checkout
        from streamnb.cli.wiring import settle as tune_interpreter

        from streamnb.cli import wiring as factories

    import gzip
    from itertools import cycle, islice

    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    place = Partition("events", 0)
    records = [
        Record(place, i, b"e-%d" % i, json.dumps({**row, "id": f"e-{i}"}, ensure_ascii=False).encode(), _NOW)
        for i, row in enumerate(islice(cycle(rows), events))
    ]
    config = load(None, {}, [f"model.kind={model}"])
    identity = factories.identity(config)
    tune_interpreter()

    def commit_all():
        learner, checkpoint = factories.learner(config), BEFORE
        began = time.process_time()
        for start in range(0, events, size):
            part = records[start : start + size]
            outputs = learner.process(part, _NOW)
            checkpoint, _ = checkpoint.commit(identity, part, outputs, _NOW)
        return time.process_time() - began, checkpoint.outputs

    commit_all()  # compiles what is missing
    print(flush=True)
    for _ in sys.stdin:
        print(json.dumps(commit_all()), flush=True)


def started(tree, *arguments):
    """Start the process of a checkout; return it when its kernels are compiled."""
    python = tree / ".venv" / "bin" / "python"
    process = subprocess.Popen(
        [python if python.exists() else sys.executable, __file__, "--work", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(tree)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    process.stdout.readline()
    return process


def asked(process):
    """Let a process take its turn; return its (seconds, digest)."""
    process.stdin.write("\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def main(arguments=None):
    """Print a line for each model and checkout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("others", nargs="*", type=Path, metavar="CHECKOUT")
    parser.add_argument("--events", type=int, default=50_000)
    parser.add_argument("--commit", type=int, default=5_000, help="events of a commit (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--models", nargs="+", default=MODELS)
    options = parser.parse_args(arguments)
    trees = [HERE, *(other.absolute() for other in options.others)]
    print(f"{'model':14}{'checkout':24}{'us an event':>12}{'ratio of this':>15}{'range':>18}  outputs")
    for model in options.models:
        with ExitStack() as stack:
            path = options.file.absolute()
            children = [started(tree, path, model, options.events, options.commit) for tree in trees]
            for child in children:
                stack.callback(child.wait)
                stack.callback(child.stdin.close)
            report(
                model, trees, [[asked(child) for child in children] for _ in range(options.rounds)], options
            )


def report(model, trees, rounds, options):
    for tree, turns in zip(trees, zip(*rounds, strict=True), strict=True):
        ratios = sorted(mine[0] / turn[0] for (mine, *_), turn in zip(rounds, turns, strict=True))
        spent = statistics.median(seconds for seconds, _ in turns) / options.events * 1e6
        print(
            f"{model:14}{tree.name:24}{spent:12.2f}{statistics.median(ratios):15.3f}"
            f"{ratios[0]:10.3f} to {ratios[-1]:.3f}  {turns[-1][1][:12]}",
            flush=True,
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(*sys.argv[2:4], *map(int, sys.argv[4:]))
    else:
        main()
