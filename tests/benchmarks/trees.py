"""Tree-augmented naive Bayes, test then train, beside the same model in plain Python (`make bench`): events a second.

The plain one keeps its counts in dictionaries, codes every event once, makes its tree at the same moments, and says the
same to 1e-9; it is given a part of the events, for it is slow. All is in memory before the clock starts, which is that
of the processor: others may use the machine.
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import argparse
import gzip
import json
import math
import statistics
import time
from collections import defaultdict
from pathlib import Path

import pandas as pd

from streamnb import TreeAugmentedNB
from streamnb.model.trees.tree_counts import moments

AT_ONCE = 5000
UNIT = 1024


def rows_of(path):
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        events = [json.loads(line) for line in lines]
    return [event["features"] for event in events], [event["label"] for event in events]


class Plain:
    """The straightforward program: dictionaries of counts."""

    def __init__(self):
        self.classes = defaultdict(int)
        self.attributes, self.totals, self.parents, self.events = {}, defaultdict(int), {}, 0
        self.values, self.known = defaultdict(int), defaultdict(set)
        self.pairs, self.given = defaultdict(lambda: defaultdict(int)), defaultdict(int)

    def keys(self, x):
        return [(a, v if isinstance(v, str) else magnitude(v)) for a, v in x.items() if v is not None]

    def predict_one(self, x):
        keys = self.keys(x)
        values, best, total = dict(keys), {}, sum(self.classes.values())
        for y, n in self.classes.items():
            joint = math.log(n / total)
            for a, v in keys:
                if v not in self.known[a]:
                    continue
                p = (self.values[a, v, y] + 1) / (self.totals[a, y] + len(self.known[a]))
                parent = self.parents.get(a)
                if parent is not None and parent in values:
                    u = values[parent]
                    if self.attributes[parent] < self.attributes[a]:
                        both = self.pairs[parent, a][u, v, y]
                    else:
                        both = self.pairs[a, parent][v, u, y]
                    p = (both + 20 * p) / (self.given[a, u, y] + 20)
                joint += math.log(p)
            best[y] = joint
        top = max(best.values(), default=0.0)
        shares = {y: math.exp(joint - top) for y, joint in best.items()}
        whole = sum(shares.values())
        return {y: share / whole for y, share in shares.items()}

    def learn_one(self, x, y):
        keys = self.keys(x)
        self.classes[y] += 1
        for a, _ in sorted(keys, key=lambda key: repr(key[0])):
            self.attributes.setdefault(a, len(self.attributes))
        for a, v in keys:
            self.known[a].add(v)
            self.values[a, v, y] += 1
            self.totals[a, y] += 1
        values = dict(keys)
        for child, parent in self.parents.items():
            if child in values and parent in values:
                self.given[child, values[parent], y] += 1
        keys.sort(key=lambda key: self.attributes[key[0]])
        for i, (a, v) in enumerate(keys):
            for b, u in keys[i + 1 :]:
                self.pairs[a, b][v, u, y] += 1
        self.events += 1
        if self.events == moments(self.events - 1):
            self.grow()

    def grow(self):
        """Prim's algorithm over conditional mutual information."""
        names, weights = list(self.attributes), {}
        for (a, b), cells in self.pairs.items():
            by_a, by_b, by_class = defaultdict(int), defaultdict(int), defaultdict(int)
            for (v, u, y), n in cells.items():
                by_a[v, y] += n
                by_b[u, y] += n
                by_class[y] += n
            told = sum(
                n * math.log(n / by_a[v, y] * (by_class[y] / by_b[u, y]))
                for (v, u, y), n in cells.items()
                if n
            )
            weights[a, b] = weights[b, a] = told
        inside, outside, self.parents = [names[0]], names[1:], {}
        while outside:
            edges = (
                (round(weights.get((p, c), 0.0), 6), -self.attributes[c], -i, p, c)
                for i, p in enumerate(inside)
                for c in outside
            )
            *_, parent, child = max(edges, key=lambda edge: edge[:3])
            self.parents[child] = parent
            inside.append(child)
            outside.remove(child)
        self.given = defaultdict(int)
        for child, parent in self.parents.items():
            turned = self.attributes[parent] > self.attributes[child]
            for (v, u, y), n in self.pairs[(child, parent) if turned else (parent, child)].items():
                self.given[child, u if turned else v, y] += n


def magnitude(value):
    if value == 0:
        return 0
    fraction, power = math.frexp(abs(value))
    return math.copysign(1.0, value), power, int(fraction * 8)


def run_plain(rows, labels):
    model, loss = Plain(), 0.0
    started = time.process_time()
    for x, y in zip(rows, labels, strict=True):
        loss -= math.log(max(model.predict_one(x).get(y, 0.0), 2.0**-52))
        model.learn_one(x, y)
    return time.process_time() - started, loss


def run_ours(rows, labels, at_once=AT_ONCE):
    model, loss = TreeAugmentedNB(), 0.0
    started = time.process_time()
    for first in range(0, len(labels), at_once):
        part = labels[first : first + at_once]
        found = model.predict_then_learn_many(rows[first : first + at_once], part)
        column = {label: k for k, label in enumerate(found.classes)}
        told = found.probabilities[range(len(part)), [column[label] for label in part]].tolist()
        loss -= sum(math.log(max(p, 2.0**-52)) for p in told)
    return time.process_time() - started, loss


def measured(path, rounds, plain):
    rows, labels = rows_of(path)
    run_ours(rows[:2000], labels[:2000])  # compiles
    few = rows[:plain], labels[:plain]
    frame = pd.DataFrame(rows)
    contenders = {
        "plain Python": (lambda: run_plain(*few), few),
        "streamnb, one by one": (lambda: run_ours(*few, at_once=1), few),
        "streamnb, dictionaries": (lambda: run_ours(rows, labels), (rows, labels)),
        "streamnb, data frame": (lambda: run_ours(frame, labels), (rows, labels)),
    }
    print(f"{path}: {len(labels):,} events of {len(frame.columns)} attributes, {rounds} rounds (median)")
    spent = {}
    for name, (run, (_, of)) in contenders.items():
        found = [run() for _ in range(rounds)]
        spent[name] = statistics.median(seconds for seconds, _ in found) / len(of) * 1e6
        times = spent["plain Python"] / spent[name]
        print(
            f"  {name:24} {spent[name]:8.1f} us an event, {times:5.1f} times, log loss {found[0][1] / len(of):.4f}"
        )
    same = run_ours(*few)[1]
    assert math.isclose(same, run_plain(*few)[1], rel_tol=1e-9), "the two say different things"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, help="JSON lines, gzipped, with features and label")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--plain", type=int, default=10_000, help="events that the plain program gets")
    options = parser.parse_args()
    for file in options.files:
        measured(file, options.rounds, options.plain)
