"""Learning apart (`Partial`): what a partial weighs, and what making and applying one takes.

    python -m tests.benchmarks.partials 20news_bydate.jsonl.gz

Of a file of texts: the second half of the events, 1,000 in each partial, by a model that has learned the first; beside
`learn_many` of the same events, by turns. And 1,000 words in 100 texts, a tenth of them new, applied to models of ten
thousand and of a million words, by turns. The clock is the processor's; medians.
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import argparse
import gzip
import json
import random
import statistics
import time
from collections import defaultdict
from pathlib import Path

from streamnb import MultinomialNB, Partial
from streamnb.runtime import factories

AT_ONCE = 1000
SIZES = 10_000, 1_000_000


def spent(work):
    started = time.process_time()
    found = work()
    return (time.process_time() - started) * 1e3, found


def of_file(path, rounds):
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        events = [json.loads(line) for line in lines]
    random.Random(7).shuffle(events)
    texts, labels = [event["text"] for event in events], [event["label"] for event in events]
    model, half = MultinomialNB(), len(texts) // 2
    model.learn_many(texts[:half], labels[:half])
    sizes, raw, times = [], [], defaultdict(list)
    for first in range(half, len(texts) - AT_ONCE, AT_ONCE):
        part = texts[first : first + AT_ONCE], labels[first : first + AT_ONCE]
        for _ in range(rounds):
            others = [model.clone().load_state(*model.state()) for _ in range(3)]
            taken, (_, partial) = spent(lambda: model.partial(*part))  # noqa: B023
            encoded = partial.to_bytes()
            times["partial"].append(taken)
            times["read from bytes"].append(spent(lambda: Partial.from_bytes(encoded))[0])  # noqa: B023  at once
            times["apply"].append(spent(lambda: others[0].apply(partial))[0])  # noqa: B023
            times["learn_many"].append(spent(lambda: others[1].learn_many(*part))[0])  # noqa: B023
            times["predict_then_learn_many"].append(
                spent(lambda: others[2].predict_then_learn_many(*part))[0]  # noqa: B023
            )
        sizes.append(len(encoded))
        raw.append(sum(len(text.encode()) for text in part[0]))
    print(f"{path.name}, {len(sizes)} partials of {AT_ONCE:,} events, {len(model.classes)} classes:")
    print(f"  bytes: {statistics.mean(sizes):,.0f}, of {statistics.mean(raw):,.0f} of texts")
    print("  ms:", ", ".join(f"{name} {statistics.median(found):.1f}" for name, found in times.items()))


def of_words(rounds):
    models, times = {}, {size: [] for size in SIZES}
    for size in SIZES:
        learned = MultinomialNB()
        learned.learn_many([f"w{i}" for i in range(size)], ["a", "b"] * (size // 2))
        models[size] = MultinomialNB().load_state(*learned.state())
    for turn in range(rounds):
        for size in SIZES if turn % 2 else SIZES[::-1]:
            known = [f"w{(turn + i * 7919) % size}" for i in range(900)]  # from everywhere in the table
            words = known + [f"n{turn}x{i}" for i in range(100)]
            texts = [" ".join(words[i::100]) for i in range(100)]
            partial = MultinomialNB().partial(texts, ["a", "b"] * 50)[1]
            times[size].append(spent(lambda: models[size].apply(partial))[0])  # noqa: B023  called at once
    few, many = (statistics.median(times[size]) for size in SIZES)
    ratio = statistics.median(m / f for f, m in zip(*times.values(), strict=True))
    print(
        f"1,000 words applied, {rounds} times: into {SIZES[0]:,} words {few:.2f} ms, {SIZES[1]:,} {many:.2f} ms"
    )
    print(f"  median of the ratios: {ratio:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="JSON lines, gzipped, with text and label")
    parser.add_argument(
        "--rounds", type=int, default=3, help="of each partial; a hundred times as many are applied"
    )
    options = parser.parse_args()
    factories.warm_up()
    for file in options.files:
        of_file(file, options.rounds)
    of_words(100 * options.rounds)
