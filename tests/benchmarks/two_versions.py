"""Processor time of this version and of another checkout, end to end, by turns in one run.

python -m tests.benchmarks.two_versions OTHER_CHECKOUT FILE... [--rounds 5] [--log kafka://HOST:PORT]

Each turn is a process: `evaluate`, and `run --until-end` with labels inside events, and with labels that arrive
separately; with naive Bayes and the default model. A ratio below 1 means that this version takes less.
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
MODELS = ("naive_bayes", "mixture")
_names = count()


def timed(tree, folder, *arguments):
    """Run streamnb of a checkout; return its (processor, wall clock) seconds."""
    command = [sys.executable, "-m", "streamnb", *arguments]
    began = time.perf_counter()
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(tree)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{tree}: {' '.join(arguments)} failed with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - began


def apart(path, folder):
    """Write the events of a file without labels, and the labels; return the names of both."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    events, labels = folder / "events.jsonl", folder / "labels.jsonl"
    events.write_text("".join(f"{json.dumps({**row, 'label': None})}\n" for row in rows))
    labels.write_text("".join(f"{json.dumps({'id': row['id'], 'label': row['label']})}\n" for row in rows))
    return events, labels


def turn(tree, folder, log, case, path):
    """Prepare one turn, and time its last command."""
    name, model, is_late = case
    settings = ["--set", f"model.kind={model}"]
    if name == "evaluate":
        return timed(tree, folder, "evaluate", str(path), *settings)
    number = f"{os.getpid()}-{next(_names)}"
    url = log or f"sqlite:///{folder}/{number}.db"
    topics = {
        key: f"two-{number}-{key}" for key in ("events", "predictions", "metrics", "dead_letters", "journal")
    }
    common = ["--log", url, *(f"--set=topics.{key}={topic}" for key, topic in topics.items())]
    common += [f"--set=snapshots.folder={folder}/{number}", "--set=http.listen="]
    common += [f"--set=topics.labels=two-{number}-labels"] if is_late else []
    if log:
        timed(tree, folder, "topics", "create", *common)
    events, labels = apart(path, folder) if is_late else (path, None)
    timed(tree, folder, "replay", str(events), *common)
    if labels:
        timed(tree, folder, "label", "--file", str(labels), *common)
    return timed(tree, folder, "run", "--until-end", *common, *settings)


def main(arguments=None):
    """Print a table of ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("other", type=Path)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--log", default="", help="URL of a broker (default: embedded logs)")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    options = parser.parse_args(arguments)
    cases = [("evaluate", model, False) for model in MODELS] if not options.log else []
    cases += [("run", model, is_late) for model in MODELS for is_late in (False, True)]
    print(
        f"{'file':24} {'case':32} {'this':>8} {'other':>8} {'ratio':>7} {'range of ratios':>17} {'wall':>7}"
    )
    with tempfile.TemporaryDirectory() as name:
        for path in map(Path.absolute, options.files):
            for case in cases:
                told = f"{case[0]} {case[1]}{' labels apart' * case[2]}"
                if options.only in told:
                    report(Path(name), options, case, path, told)


def report(folder, options, case, path, told):
    trees = (HERE, options.other.absolute())
    for tree in trees:
        turn(tree, folder, options.log, case, path)  # compiles what is missing
    found = {tree: [] for tree in trees}
    for number in range(options.rounds):
        for tree in trees if number % 2 else trees[::-1]:
            found[tree].append(turn(tree, folder, options.log, case, path))
    this, other = (found[tree] for tree in trees)
    ratios = [a[0] / b[0] for a, b in zip(this, other, strict=True)]
    walls = [a[1] / b[1] for a, b in zip(this, other, strict=True)]
    of_this, of_other = (statistics.median(one for one, _ in each) for each in (this, other))
    between = f"{min(ratios):.3f} to {max(ratios):.3f}"
    print(
        f"{path.name[:24]:24} {told:32} {of_this:8.2f} {of_other:8.2f} {statistics.median(ratios):7.3f} "
        f"{between:>17} {statistics.median(walls):7.3f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
