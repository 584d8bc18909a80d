"""Bayesian networks over nominal tables, test then train, beside a straightforward Python version (`make bench`).

The Python version keeps its counts in dictionaries and multiplies smoothed shares, class by class, as a textbook has
it; both predict every event before they learn it. The network gives each attribute the label and the attribute before
it as parents. All is in memory before the clock starts, which is that of the processor: others may use the machine.
Answers are compared, so that what is timed is known to be the same.
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
import statistics
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd

from streamnb import BayesianNetworkClassifier, CategoricalNB

AT_ONCE = 5000
WARM_UP = 1000
"""So many events are learned before the clock starts: values are met then, one after another."""


class Plain:
    """A network of dictionaries, over events that have all attributes.

    A value of a parent that was never met has a row of its own here; a network sums over what it might have been.
    """

    def __init__(self, parents, alpha=1.0):
        self.parents = {name: [p for p in above if p != "label"] for name, above in parents.items()}
        self.alpha = alpha
        self.classes = defaultdict(int)
        self.cells, self.rows = defaultdict(int), defaultdict(int)
        self.values = {name: set() for name in parents}

    def predict_proba_one(self, x):
        logs, n = {}, sum(self.classes.values())
        for label, count in self.classes.items():
            log = math.log(count / n)
            for name, above in self.parents.items():
                if x[name] in self.values[name]:
                    row = (name, label, *(x[parent] for parent in above))
                    k = len(self.values[name])
                    log += math.log(self.cells[(*row, x[name])] + self.alpha)
                    log -= math.log(self.rows[row] + self.alpha * k)
            logs[label] = log
        top = max(logs.values(), default=0.0)
        shares = {label: math.exp(log - top) for label, log in logs.items()}
        total = sum(shares.values())
        return {label: share / total for label, share in shares.items()}

    def learn_one(self, x, y):
        self.classes[y] += 1
        for name, above in self.parents.items():
            row = (name, y, *(x[parent] for parent in above))
            self.cells[(*row, x[name])] += 1
            self.rows[row] += 1
            self.values[name].add(x[name])


def generated(n, attributes, values, classes):
    rng = random.Random(1)
    labels = [f"class {rng.randrange(classes)}" for _ in range(n)]
    rows = []
    for label in labels:
        shift = hash(label[-1]) % values if rng.random() < 0.3 else 0
        rows.append({f"a{i}": f"v{(rng.randrange(values) + shift) % values}" for i in range(attributes)})
    return rows, labels


def rows_of(path):
    """The nominal attributes of those events that have all of them, with their labels."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        events = [json.loads(line) for line in lines]
    names = [name for name, value in events[0]["features"].items() if isinstance(value, str)]
    whole = [e for e in events if all(isinstance(e["features"].get(name), str) for name in names)]
    return [{name: e["features"][name] for name in names} for e in whole], [e["label"] for e in whole]


def one_by_one(make):
    def run(rows, labels):
        model, found = make(), []
        for x, y in zip(rows[:WARM_UP], labels[:WARM_UP], strict=True):
            model.learn_one(x, y)
        started = time.process_time()
        for x, y in zip(rows[WARM_UP:], labels[WARM_UP:], strict=True):
            found.append(model.predict_proba_one(x))
            model.learn_one(x, y)
        return time.process_time() - started, found

    return run


def in_batches(make, *, as_frame):
    def run(rows, labels):
        events, model, found = pd.DataFrame(rows) if as_frame else rows, make(), []
        model.learn_many(events[:WARM_UP], labels[:WARM_UP])
        started = time.process_time()
        for first in range(WARM_UP, len(labels), AT_ONCE):
            last = first + AT_ONCE
            found.append(model.predict_then_learn_many(events[first:last], labels[first:last]))
        seconds = time.process_time() - started
        return seconds, [
            dict(zip(posteriors.classes, row, strict=True))
            for posteriors in found
            for row in posteriors.probabilities.tolist()
        ]

    return run


def differing(found, expected):
    """Of how many events one answer is not the other's: such as have a parent with a value never met."""
    return sum(
        any(abs(one.get(label, 0.0) - p) > 1e-9 for label, p in other.items())
        for one, other in zip(found, expected, strict=True)
    )


def measured(name, rows, labels, rounds):
    names = list(rows[0])
    parents = {own: ["label", *names[i - 1 : i]] if i else ["label"] for i, own in enumerate(names)}
    contenders = {
        "network, plain Python, one by one": one_by_one(lambda: Plain(parents)),
        "BayesianNetworkClassifier, one by one": one_by_one(lambda: BayesianNetworkClassifier(parents)),
        "BayesianNetworkClassifier, dictionaries": in_batches(
            lambda: BayesianNetworkClassifier(parents), as_frame=False
        ),
        "BayesianNetworkClassifier, data frames": in_batches(
            lambda: BayesianNetworkClassifier(parents), as_frame=True
        ),
        "CategoricalNB, dictionaries": in_batches(CategoricalNB, as_frame=False),
    }
    times = {contender: [] for contender in contenders}
    answers = {}
    for _ in range(rounds):
        for contender, run in contenders.items():
            seconds, answers[contender] = run(rows, labels)
            times[contender].append(seconds)
    base = next(iter(contenders))
    ratios = {c: np.array(times[base]) / np.array(times[c]) for c in contenders}
    print(
        f"{name}: {len(labels):,} events, {len(names)} attributes, {len(set(labels))} classes, {rounds} rounds (median)"
    )
    for contender, seconds in times.items():
        rate, ratio = (
            (len(labels) - WARM_UP) / statistics.median(seconds),
            statistics.median(ratios[contender]),
        )
        others = 0 if "CategoricalNB" in contender else differing(answers[contender], answers[base])
        same = f", {others} answers differ" if others else ""
        print(f"  {contender:42} {rate:>10,.0f} events/s, {ratio:>6.1f} times plain Python{same}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="JSON lines, gzipped, with features and label")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    measured("generated", *generated(20_000, 10, 4, 2), options.rounds)
    measured("generated", *generated(20_000, 10, 4, 8), options.rounds)
    for file in options.files:
        measured(str(file), *rows_of(file), options.rounds)
