"""The filter over entities: events a second of the kernel, and of the same written out in Python, one by one.

Both get the emissions ready made, so that what is compared is the filter alone; and then the whole model.
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import argparse
import math
import random
import time

import numpy as np

from streamnb import HiddenMarkovNB
from streamnb.toolbox.hidden_markov.entities import Entities
from streamnb.toolbox.hidden_markov.entity_filter_kernels import EntityChains, EntitySteps, filter_batch


def stream(n, entities, K, seed=1):
    """Names, labels of which half are missing, and log P(s, x) under equal priors."""
    rng = np.random.default_rng(seed)
    names = [f"e{i}" for i in rng.integers(0, entities, n)]
    labels = np.where(rng.random(n) < 0.5, rng.integers(0, K, n), -1)
    return names, labels, rng.normal(size=(n, K))


def by_kernel(names, labels, joints, K):
    kept = Entities(100_000)
    counts = np.zeros(K, np.int64), np.zeros((K, K), np.int64), np.zeros(K, np.int64)
    first, table, weights = counts
    probabilities = np.empty_like(joints)
    for start in range(0, len(names), 1000):
        part = slice(start, start + 1000)
        row, begins = kept.meet(names[part], K)
        n = row.size
        chains = EntityChains(
            weights, np.ones(K), 0, first, table, 1.0, kept.beliefs, kept.last, kept.seen, 0.0
        )
        usual = np.full((n, K), 1.0 / K)
        steps = EntitySteps(
            row, begins, labels[part], np.full(n, 1024), np.full(n, np.nan), joints[part], usual
        )
        filter_batch(chains, steps, True, np.empty(K), np.empty(K), probabilities[part], np.empty((0, 0)))
    return probabilities


def ahead_of(chain, first, table, prior):
    """P(s) of an event, by its chain: its last label, what is believed of it; None where it begins."""
    last, belief = (-1, None) if chain is None else chain
    if last >= 0:
        return estimate(table[last], prior)
    if belief is None or sum(belief) == 0.0:
        return estimate(first, prior)
    ahead = [0.0] * len(prior)
    for j, share in enumerate(belief):
        if share > 0.0:
            for k, p in enumerate(estimate(table[j], prior)):
                ahead[k] += share * p
    return ahead


def estimate(counts, prior):
    n = sum(counts)
    return [(count + p) / (n + 1) for count, p in zip(counts, prior, strict=True)]


def by_hand(names, labels, joints, K):
    """The same, as one would write it: lists, no numpy for so few numbers."""
    first, table, weights = [0] * K, [[0] * K for _ in range(K)], [0] * K
    chains, answers = {}, []
    for name, label, joint in zip(names, labels.tolist(), joints.tolist(), strict=True):
        chain, total = chains.get(name), sum(weights)
        ahead = ahead_of(chain, first, table, [w / total if total else 0.0 for w in weights])
        scores = [math.log(a) + j if a > 0.0 else -math.inf for a, j in zip(ahead, joint, strict=True)]
        top = max(scores)
        powers = [math.exp(score - top) if top > -math.inf else 1.0 for score in scores]
        probabilities = [power / sum(powers) for power in powers]
        answers.append(probabilities)
        if label >= 0:
            if chain is None:
                first[label] += 1
            elif chain[0] >= 0:
                table[chain[0]][label] += 1
            weights[label] += 1
        chains[name] = (label, None if label >= 0 else probabilities)
    return np.array(answers)


def whole_model(n, entities):
    rng = random.Random(2)
    xs = [
        {"entity": f"e{rng.randrange(entities)}", "colour": rng.choice("abcd"), "height": rng.random()}
        for _ in range(n)
    ]
    ys = [rng.choice(["x", "y", "z", None]) for _ in range(n)]
    model = HiddenMarkovNB()
    model.predict_then_learn_many(xs[:10], ys[:10])
    started = time.process_time()
    for start in range(0, n, 1000):
        model.predict_then_learn_many(xs[start : start + 1000], ys[start : start + 1000])
    return n / (time.process_time() - started)


def rate(filter_all, n, *arguments):
    started = time.process_time()
    answers = filter_all(*arguments)
    return n / (time.process_time() - started), answers


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--entities", type=int, default=10_000)
    options = parser.parse_args()
    by_kernel(*stream(10, 2, 2), 2)
    for K in (2, 5, 20):
        given = stream(options.events, options.entities, K)
        fast, answers = rate(by_kernel, options.events, *given, K)
        slow, expected = rate(by_hand, options.events, *given, K)
        assert np.allclose(answers, expected, atol=1e-9)
        print(f"{K} classes: {fast:,.0f} events/s, {slow:,.0f} in Python: {fast / slow:.0f} times")
    print(f"the whole model, two attributes: {whole_model(options.events, options.entities):,.0f} events/s")


if __name__ == "__main__":
    main()
