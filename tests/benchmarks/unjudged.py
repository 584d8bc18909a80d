"""How often the interval of accuracy without labels holds what labels show later, and NannyML's on the same windows.

Each stream is predicted in windows of 1,000 events whose labels come a window late, by a model that has learned all
before. The last window that has its labels tells how accurate the next one is: by `expected_accuracy`, and, with
``--nannyml PYTHON``, by the confidence-based estimate of NannyML in another interpreter, which has that package.

    python -m tests.benchmarks.unjudged [--shuffled] [--nannyml PYTHON] STREAM.jsonl.gz ...
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import subprocess
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np

from streamnb import BayesOptimalNB, NaiveBayes
from streamnb.engine.labels.unlabelled_accuracy import expected_accuracy
from streamnb.scoring.revisable_scores import LabelledOutcomes

WINDOW, MASS = 1000, 0.95
MODELS = {"mixture": BayesOptimalNB, "naive Bayes": NaiveBayes}
NANNYML = Path(__file__).parent / "measuring" / "nannyml_windows.py"


def events_of(path, is_shuffled):
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        events = [json.loads(line) for line in lines]
    if is_shuffled:
        random.Random(7).shuffle(events)
    texts = [{name: event[name] for name in ("subject", "text") if name in event} for event in events]
    xs = [{**event.get("features", {}), **text} for event, text in zip(events, texts, strict=True)]
    return xs, [event["label"] for event in events]


def windows(model, xs, ys):
    """Probabilities (float64[WINDOW, K]) and truths (int64[WINDOW], -1 a new class), from the third window on."""
    for first in range(0, len(xs) - WINDOW + 1, WINDOW):
        if first >= 2 * WINDOW:
            told = model.predict_then_learn_many(xs[first : first + WINDOW], [None] * WINDOW)
            number = {label: k for k, label in enumerate(told.classes)}
            yield told.probabilities, np.array([number.get(y, -1) for y in ys[first : first + WINDOW]])
        before = slice(max(0, first - WINDOW), first)
        model.learn_many(xs[before], ys[before])


def ours(judged, waiting):
    """(accuracy as estimated, lower and upper bound, whether it is in doubt) of a window, by the one before."""
    (P, truths), (Q, _) = judged, waiting
    known = LabelledOutcomes(P.max(axis=1), P.argmax(axis=1) == truths)
    found = expected_accuracy(Q.max(axis=1), known, MASS)
    return found.accuracy, found.interval.lower, found.interval.upper, bool(found.doubt)


def nannymls(python, pairs):
    """The same of each pair of windows, told by another interpreter; nan where it cannot say."""
    with tempfile.TemporaryDirectory() as folder:
        for i, ((P, truths), (Q, _)) in enumerate(pairs):
            np.savez(Path(folder) / f"{i}.npz", P=P, truths=truths, Q=Q)
        command = [python, str(NANNYML), folder, str(len(pairs))]
        quiet = os.environ | {"NML_DISABLE_USAGE_LOGGING": "1"}  # it tells its makers of each call otherwise
        told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=quiet)
    return [(*row, False) for row in json.loads(told.stdout.splitlines()[-1])]


def told(name, found, right):
    """How often the interval held the accuracy, of all windows and of those without doubt, and the mean error."""
    estimate, lower, upper, doubt = np.array(found, dtype=float).T
    says = np.isfinite(estimate)
    held, sure = (lower <= right) & (right <= upper), says & (doubt == 0)
    print(
        f"  {name:<12} held {np.sum(held & sure):4} of {np.sum(sure):4} it trusts, {np.sum(held & says):4} of all "
        f"{np.sum(says):4}; mean error {np.abs(estimate - right)[sure].mean():.4f}, width {(upper - lower)[sure].mean():.4f}",
        flush=True,
    )
    return np.array([np.sum(held & sure), np.sum(sure), np.sum(held & says), np.sum(says)])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("streams", nargs="+", type=Path)
    parser.add_argument("--nannyml", help="an interpreter that has NannyML")
    options = parser.parse_args()
    total = {}
    for path in options.streams:
        for is_shuffled in (False, True):
            xs, ys = events_of(path, is_shuffled)
            for name, make in MODELS.items():
                found = list(windows(make(), xs, ys))
                pairs = list(pairwise(found))
                right = np.array([(Q.argmax(axis=1) == truths).mean() for _, (Q, truths) in pairs])
                print(
                    f"{path.name.partition('.')[0]}{', shuffled' if is_shuffled else ''}, {name}: {len(pairs)} windows"
                )
                rows = {"streamnb": [ours(*pair) for pair in pairs]}
                if options.nannyml:
                    rows["NannyML"] = nannymls(options.nannyml, pairs)
                for who, row in rows.items():
                    total[who] = total.get(who, 0) + told(who, row, right)
    for who, (held_sure, sure, held, every) in total.items():
        print(
            f"{who}: {held_sure} of {sure} it trusts ({held_sure / sure:.1%}), {held} of all {every} ({held / every:.1%})"
        )


if __name__ == "__main__":
    main()
