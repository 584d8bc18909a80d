"""Hidden Markov models: the compiled filter, smoother and Viterbi beside plain Python with lists (`make bench`).

The Python versions are what one writes down from Rabiner's tutorial, each event scaled to sum to one. Both read the
same drawn sequence, in turns; the clock is that of the processor, and what they find is compared. The last line is
JSON: how many times as fast, by the medians.
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import time

import numpy as np

from streamnb import HiddenMarkovModel, OnlineBaumWelch


def drawn_model(states, symbols, rng):
    def row(n):
        weights = [rng.expovariate(1.0) + 0.01 for _ in range(n)]
        return [weight / sum(weights) for weight in weights]

    return row(states), [row(states) for _ in range(states)], [row(symbols) for _ in range(states)]


def stated(initial, table, emission):
    return HiddenMarkovModel(
        dict(enumerate(initial)),
        {i: dict(enumerate(row)) for i, row in enumerate(table)},
        {i: dict(enumerate(row)) for i, row in enumerate(emission)},
    )


def filter_in_python(initial, table, emission, observations):
    states = range(len(initial))
    now, found = initial, []
    for t, x in enumerate(observations):
        if t:
            now = [sum(now[i] * table[i][j] for i in states) for j in states]
        now = [now[j] * emission[j][x] for j in states]
        total = sum(now)
        now = [p / total for p in now]
        found.append(now)
    return found


def smooth_in_python(initial, table, emission, observations):
    states = range(len(initial))
    filtered = filter_in_python(initial, table, emission, observations)
    beta, found = [1.0] * len(initial), []
    for t in range(len(observations) - 1, -1, -1):
        joint = [filtered[t][i] * beta[i] for i in states]
        total = sum(joint)
        found.append([p / total for p in joint])
        ahead = [emission[j][observations[t]] * beta[j] for j in states]
        beta = [sum(table[i][j] * ahead[j] for j in states) for i in states]
        total = sum(beta)
        beta = [b / total for b in beta]
    return found[::-1]


def viterbi_in_python(initial, table, emission, observations):
    states = range(len(initial))
    log_table = [[math.log(p) for p in row] for row in table]
    log_emission = [[math.log(p) for p in row] for row in emission]
    scores = [math.log(initial[j]) + log_emission[j][observations[0]] for j in states]
    back = []
    for x in observations[1:]:
        came = [max(states, key=lambda i: scores[i] + log_table[i][j]) for j in states]
        scores = [scores[came[j]] + log_table[came[j]][j] + log_emission[j][x] for j in states]
        back.append(came)
    path = [max(states, key=scores.__getitem__)]
    for came in reversed(back):
        path.append(came[path[-1]])
    return path[::-1]


def one_by_one(model, observations):
    running = model.begin()
    return np.array([list(running.observe(x).values()) for x in observations])


def agree(model, observations, ours, theirs):
    """Probabilities to 1e-9; paths may differ where they are as likely."""
    if isinstance(ours, list):
        own, other = (model.log_joint(observations, path) for path in (ours, theirs))
        assert own >= other - 1e-6
    else:
        assert abs(np.asarray(ours) - np.asarray(theirs)).max() < 1e-9


def measured(states, n, rounds, rng):
    """Name -> (ns an event in Python, compiled), medians."""
    parameters = drawn_model(states, 20, rng)
    observations = rng.choices(range(20), k=n)
    model = stated(*parameters)
    pairs = {
        "filter": (filter_in_python, HiddenMarkovModel.filter),
        "filter, event by event": (filter_in_python, one_by_one),
        "smoother": (smooth_in_python, HiddenMarkovModel.smooth),
        "Viterbi": (viterbi_in_python, lambda m, x: m.viterbi(x).states),
    }
    results = {}
    for name, (theirs, ours) in pairs.items():
        times = {"Python": [], "compiled": []}
        ours(model, observations[:10])
        for _ in range(rounds):
            started = time.process_time()
            expected = theirs(*parameters, observations)
            half = time.process_time()
            found = ours(model, observations)
            times["compiled"].append(time.process_time() - half)
            times["Python"].append(half - started)
            agree(model, observations, found, expected)
        results[name] = [statistics.median(seconds) / n * 1e9 for seconds in times.values()]
    return results


def learned_online(states, n, rounds, rng):
    """Ns an event of online EM, by starts."""
    observations = rng.choices(range(20), k=n)
    results = {}
    for starts in (1, 8):
        OnlineBaumWelch(states, starts=starts).learn_many(observations[:100])
        times = []
        for _ in range(rounds):
            model = OnlineBaumWelch(states, starts=starts)
            started = time.process_time()
            model.learn_many(observations)
            times.append(time.process_time() - started)
        results[starts] = statistics.median(times) / n * 1e9
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    generator, ratios = random.Random(1), {}
    print(
        f"{options.events:,} events of 20 symbols, median of {options.rounds}: ns an event, Python and compiled"
    )
    for count in (2, 4, 8):
        for task, (python, compiled) in measured(count, options.events, options.rounds, generator).items():
            ratios[f"{task}, {count} states"] = round(python / compiled, 1)
            print(
                f"  {count} states, {task:24} {python:>9,.0f} {compiled:>8,.0f}   {python / compiled:>6.1f} times"
            )
        for starts, each in learned_online(count, options.events, options.rounds, generator).items():
            print(f"  {count} states, online EM, {starts} start(s) {each:>24,.0f}")
    print(json.dumps(ratios))
