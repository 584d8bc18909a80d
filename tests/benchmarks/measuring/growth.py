"""What a token costs, and an attribute holds, as attributes and classes grow: ``measure.py bench --growth``.

Text is generated: words are numbers, drawn from a Zipf distribution (P(word i) ~ 1 / i) over as many as the
model is to know; their rows stand in an order that has nothing to do with how frequent they are.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamnb.models.naive_bayes.naive_bayes_variants import BernoulliNB, MultinomialNB
from streamnb.reports.text_columns import table
from streamnb.runtime import factories

CLASSES = (2, 20, 200)
_MODELS = {model.__name__: model for model in (MultinomialNB, BernoulliNB)}
_EVENT = 100  # tokens
_AT_ONCE = 500  # events
_TOKENS = 2_000_000
_FEWEST = 500_000  # attributes that outweigh what a batch needs
_STATUS = Path("/proc/self/status")


def run(options: argparse.Namespace) -> int:
    """Measure both text models with up to `options.growth` attributes, and one with more classes."""
    factories.warm_up()
    most = options.growth
    sizes = [size for size in (10_000, 100_000, 1_000_000, 10_000_000) if size < most] + [most]
    plan = [(model, size, 2) for model in _MODELS for size in sizes]
    plan += [("MultinomialNB", min(100_000, most), classes) for classes in CLASSES]
    seconds = start_up()
    # In turn, so that a slow moment of the machine meets all.
    rounds = [[measured(*one, min(_TOKENS, 100 * one[1])) for one in plan] for _ in range(options.rounds)]
    rows = _compared(rounds, len(sizes))
    if options.json:
        results = [one._asdict() for one in rows]
        print(json.dumps({"start_up_seconds": seconds, "rounds": options.rounds, "results": results}))
        return 0
    print(", ".join(f"{what}: {time_:.2f} s" for what, time_ in seconds.items()))
    print(f"{options.rounds} rounds; how many times as long as the first of its kind, and as MultinomialNB")
    print()
    cells = [
        (
            one.model,
            f"{one.attributes:,}",
            str(one.classes),
            f"{one.nanoseconds_per_token:.0f}",
            f"{one.times_first:.1f}",
            "" if one.times_multinomial is None else f"{one.times_multinomial:.1f}",
            "" if one.bytes_per_attribute is None else f"{one.bytes_per_attribute:.0f}",
        )
        for one in rows
    ]
    heads = ("model", "attributes", "classes", "ns/token", "times first", "MultinomialNB", "bytes/attribute")
    print(table(cells, heads))
    return 0


class Growth(NamedTuple):
    """What was measured of one model, with so many attributes and classes.

    Attributes:
        model: its name.
        attributes: how many words it knows.
        classes: how many classes.
        nanoseconds_per_token: processor time of predicting, then learning, tokenising included.
        bytes_per_attribute: by which the peak of the process's memory rose while the words were learned; None
            where the system does not tell, and where they are too few to tell them from the rest.
    """

    model: str
    attributes: int
    classes: int
    nanoseconds_per_token: float
    bytes_per_attribute: float | None


class ComparedGrowth(NamedTuple):
    """Medians of several rounds; what else is as in `Growth`.

    Attributes:
        times_first: as many times as long as the first of its kind takes: the same model with the fewest
            attributes, or with the fewest classes; the median of the rounds' ratios.
        times_multinomial: as many times as long as `MultinomialNB` takes with as many attributes.
    """

    model: str
    attributes: int
    classes: int
    nanoseconds_per_token: float
    bytes_per_attribute: float | None
    times_first: float
    times_multinomial: float | None


def _compared(rounds: Sequence[Sequence[Growth]], sizes: int) -> list[ComparedGrowth]:
    """Rounds of `MultinomialNB`, then `BernoulliNB`, of so many sizes, and then of numbers of classes."""
    first = [0] * sizes + [sizes] * sizes + [2 * sizes] * len(CLASSES)
    rows = []
    for i, turns in enumerate(zip(*rounds, strict=True)):
        model, attributes, classes, *_ = turns[0]
        held = [one.bytes_per_attribute for one in turns if one.bytes_per_attribute is not None]
        rows.append(
            ComparedGrowth(
                model,
                attributes,
                classes,
                median(one.nanoseconds_per_token for one in turns),
                median(held) if held else None,
                _times(rounds, i, first[i]),
                _times(rounds, i, i - sizes) if first[i] == sizes else None,
            )
        )
    return rows


def _times(rounds: Sequence[Sequence[Growth]], i: int, j: int) -> float:
    """The median over rounds of how many times as long as the j-th the i-th takes."""
    return median(turn[i].nanoseconds_per_token / turn[j].nanoseconds_per_token for turn in rounds)


def measured(model: str, attributes: int, classes: int, tokens: int = _TOKENS) -> Growth:
    """Measure one model in a process of its own, whose memory nothing else has used."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_measure, model, attributes, classes, tokens).result()


def start_up() -> dict[str, float]:
    """Seconds from starting Python to the imported package, and to a prediction by kernels from the cache."""
    imports = "from streamnb import MultinomialNB"
    first = f"{imports}; m = MultinomialNB(); m.learn_one('a b', 'x'); m.predict_proba_one('a')"
    return {"import": _seconds(imports), "first prediction": _seconds(first)}


def _seconds(code: str) -> float:
    best = float("inf")
    for _ in range(3):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        best = min(best, time.perf_counter() - started)
    return best


def _measure(name: str, attributes: int, classes: int, tokens: int) -> Growth:
    rng = np.random.default_rng(attributes + classes)
    labels = [f"c{k}" for k in range(classes)]
    _MODELS[name]().predict_then_learn_many(["a b", "c"], labels[:2])  # loads the kernels
    model = _MODELS[name]()
    places = rng.permutation(
        attributes
    )  # of the words, most frequent first, in the order in which they are met
    batches = _texts(np.arange(attributes))
    _learn(model, next(batches), labels)  # classes and scratch memory are no attributes
    before = _peak()
    for texts in batches:
        _learn(model, texts, labels)
    after, seconds = _peak(), 0.0
    ranks = np.minimum(np.exp(rng.random(tokens) * np.log1p(attributes)), attributes).astype(np.int64) - 1
    for texts in _texts(places[ranks]):
        seconds += _learn(model, texts, labels)
    tells = before is not None and after is not None and attributes >= _FEWEST
    held = (after - before) / (attributes - _EVENT * _AT_ONCE) if tells else None  # type: ignore[operator]
    return Growth(name, attributes, classes, seconds / tokens * 1e9, held)


def _texts(words: npt.NDArray[np.int64]) -> Iterator[list[str]]:
    """Texts of these words, `_AT_ONCE` at a time."""
    for start in range(0, words.size, _EVENT * _AT_ONCE):
        names = [f"{word:08x}" for word in words[start : start + _EVENT * _AT_ONCE].tolist()]
        yield [" ".join(names[i : i + _EVENT]) for i in range(0, len(names), _EVENT)]


def _learn(model: MultinomialNB | BernoulliNB, texts: list[str], labels: Sequence[str]) -> float:
    """Predict and learn; seconds of the processor, for others may use the machine."""
    classes = [labels[i % len(labels)] for i in range(len(texts))]
    started = time.process_time()
    model.predict_then_learn_many(texts, classes)
    return time.process_time() - started


def _peak() -> int | None:
    """The most memory that this process has had, bytes."""
    if not _STATUS.exists():
        return None
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
