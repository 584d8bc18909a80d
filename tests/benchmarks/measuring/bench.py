"""``measure.py bench``: the learner beside others and beside tokenising alone, in turn in one run.

Given a log, it times the whole service on it instead: see `service_bench`.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from importlib.metadata import version
from itertools import islice
from operator import eq
from typing import Any

from streamnb.errors import ConfigError
from streamnb.reports.text_columns import table
from streamnb.runtime import factories
from tests.benchmarks.measuring import drawn_messages, growth, service_bench
from tests.benchmarks.measuring.contenders import OURS, contenders, count_words, labelled_texts, missing

_PACKAGES = ("numba", "numpy", "river", "vowpalwabbit")


def run(options: argparse.Namespace) -> int:
    """Time test-then-train of each text classifier, tokenising included; print ratios, and who was right.

    Or, where asked for, the service on a log; or what a token costs as attributes and classes grow.
    """
    if options.log is not None:
        return service_bench.run(options)
    if options.config is not None or options.set:
        raise ConfigError("--config and --set are of the service: expected --log beside them")
    if options.growth:
        return growth.run(options)
    texts, labels, name = _stream(options)
    factories.warm_up()
    tokens = sum(map(count_words, texts))
    everyone = contenders()
    seconds: dict[str, list[float]] = {who: [] for who in everyone}
    accuracy: dict[str, float | None] = {}
    for _ in range(options.rounds):  # in turn, so that a slow moment of the machine meets all
        for who, contender in everyone.items():
            started = time.perf_counter()
            predicted = contender(texts, labels)
            seconds[who].append(time.perf_counter() - started)
            accuracy[who] = None if predicted is None else sum(map(eq, predicted, labels)) / len(labels)
    ours = seconds[OURS]
    rows = [
        {
            "contender": who,
            "nanoseconds_per_token": statistics.median(times) / tokens * 1e9,
            "accuracy": accuracy[who],
            "ratio": statistics.median(theirs / mine for theirs, mine in zip(times, ours, strict=True)),
        }
        for who, times in seconds.items()
    ]
    _show(options, name, {"events": len(texts), "tokens": tokens, "rounds": options.rounds}, rows)
    return 0


def _stream(options: argparse.Namespace) -> tuple[list[str], list[str], str]:
    """Texts and labels of a file, or of the generated messages."""
    if options.file is None:
        drawn = list(islice(drawn_messages.messages(drawn_messages.Parameters(words=20_000)), 20_000))
        return [x["text"] for x, _ in drawn], [label for _, label in drawn], "generated messages"
    events = list(labelled_texts(options.file, options.order))
    if not any(count_words(text) for text, _ in events):
        raise ConfigError(f"{options.file}: no row has both a text with words and a label")
    return [text for text, _ in events], [label for _, label in events], options.file


def _show(options: argparse.Namespace, name: str, size: dict[str, int], rows: list[dict[str, Any]]) -> None:
    absent = missing()
    environment = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        **{package: version(package) for package in _PACKAGES if package not in absent},
    }
    if options.json:
        print(
            json.dumps(
                {"stream": name, **size, "environment": environment, "missing": absent, "results": rows}
            )
        )
        return
    print(f"{name}: {size['events']:,} events, {size['tokens']:,} tokens, {size['rounds']} rounds")
    print(", ".join(f"{key} {value}" for key, value in environment.items()))
    print()
    cells = [
        (
            row["contender"],
            f"{row['nanoseconds_per_token']:.0f}",
            f"{row['ratio']:.1f}",
            "" if row["accuracy"] is None else row["accuracy"],
        )
        for row in rows
    ]
    print(table(cells, ("predict, then learn", "ns/token", "times ours", "accuracy")))
    for package in absent:
        print(f"not timed, for it is not installed: {package}")
