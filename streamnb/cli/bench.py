"""``streamnb bench``: the learner against River and against tokenising alone, side by side in one run."""

from __future__ import annotations

import argparse
import json
import platform
import re
import statistics
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from itertools import islice
from typing import Any

from river import compose, feature_extraction, naive_bayes

from streamnb.adapters.files import MAX_LINE, read_events
from streamnb.cli import wiring
from streamnb.cli.files import numbered
from streamnb.cli.tables import table
from streamnb.errors import ConfigError, MalformedEvent
from streamnb.model import generated
from streamnb.model.bayes_optimal_nb import BayesOptimalNB
from streamnb.model.default_hypotheses import NAIVE_HYPOTHESES
from streamnb.model.naive_bayes import NaiveBayes
from streamnb.model.one_kind import MultinomialNB
from streamnb.wire.codec import decode_event
from streamnb.wire.schema import EventSchema

__all__ = ["run"]

_AT_ONCE = 500
_SCHEMA = EventSchema(max_bytes=MAX_LINE)
_WORD = re.compile(r"\w+")


def run(options: argparse.Namespace) -> int:
    """Time test-then-train of one text classifier each, tokenising included, and print ratios."""
    texts, labels, name = _stream(options)
    wiring.warm_up()
    tokens = sum(len(_WORD.findall(text.lower())) for text in texts)
    contenders: dict[str, Callable[[Sequence[str], Sequence[str]], object]] = {
        "streamnb MultinomialNB": _streamnb,
        "streamnb BayesOptimalNB, 12 hypotheses": _hypotheses,
        "River BagOfWords | MultinomialNB": _river,
        "re tokenising alone": _tokenise,
    }
    seconds: dict[str, list[float]] = {who: [] for who in contenders}
    for _ in range(options.rounds):  # in turn, so that a slow moment of the machine meets all
        for who, contender in contenders.items():
            started = time.perf_counter()
            contender(texts, labels)
            seconds[who].append(time.perf_counter() - started)
    ours = seconds["streamnb MultinomialNB"]
    rows = [
        {
            "contender": who,
            "nanoseconds_per_token": statistics.median(times) / tokens * 1e9,
            "ratio": statistics.median(theirs / mine for theirs, mine in zip(times, ours, strict=True)),
        }
        for who, times in seconds.items()
    ]
    _show(options, name, {"events": len(texts), "tokens": tokens, "rounds": options.rounds}, rows)
    return 0


def _stream(options: argparse.Namespace) -> tuple[list[str], list[str], str]:
    """Texts and labels of a file, or of the generated messages."""
    if options.file is None:
        drawn = list(islice(generated.messages(generated.Parameters(words=20_000)), 20_000))
        return [x["text"] for x, _ in drawn], [label for _, label in drawn], "generated messages"
    rows = numbered(read_events(options.file), options.order)
    events = [event for event in (_decoded(raw) for _, raw in rows) if event is not None]
    if not any(_WORD.search(text) for text, _ in events):
        raise ConfigError(f"{options.file}: no row has both a text with words and a label")
    return [text for text, _ in events], [label for _, label in events], options.file


def _decoded(raw: bytes) -> tuple[str, str] | None:
    """Text and label; None of a row that is no event or lacks one of them."""
    try:
        event = decode_event(raw, _SCHEMA)
    except MalformedEvent:
        return None
    text = event.x.get("text")
    return (text, event.label) if isinstance(text, str) and event.label is not None else None


def _streamnb(texts: Sequence[str], labels: Sequence[str]) -> object:
    return _progressive(MultinomialNB(), texts, labels)


def _hypotheses(texts: Sequence[str], labels: Sequence[str]) -> object:
    return _progressive(
        BayesOptimalNB({"text": "text"}, NAIVE_HYPOTHESES), [{"text": text} for text in texts], labels
    )


def _progressive(model: NaiveBayes, texts: Sequence[Any], labels: Sequence[str]) -> NaiveBayes:
    for start in range(0, len(texts), _AT_ONCE):
        stop = start + _AT_ONCE
        model.predict_then_learn_many(texts[start:stop], labels[start:stop]).labels()
    return model


def _river(texts: Sequence[str], labels: Sequence[str]) -> object:
    model = compose.Pipeline(feature_extraction.BagOfWords(), naive_bayes.MultinomialNB())
    for text, label in zip(texts, labels, strict=True):
        model.predict_one(text)
        model.learn_one(text, label)
    return model


def _tokenise(texts: Sequence[str], _labels: Sequence[str]) -> object:
    return sum(len(_WORD.findall(text.lower())) for text in texts)


def _show(options: argparse.Namespace, name: str, size: dict[str, int], rows: list[dict[str, Any]]) -> None:
    environment = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        **{package: version(package) for package in ("numba", "numpy", "river")},
    }
    if options.json:
        print(json.dumps({"stream": name, **size, "environment": environment, "results": rows}))
        return
    print(f"{name}: {size['events']:,} events, {size['tokens']:,} tokens, {size['rounds']} rounds")
    print(", ".join(f"{key} {value}" for key, value in environment.items()))
    print()
    cells = [(row["contender"], f"{row['nanoseconds_per_token']:.0f}", f"{row['ratio']:.1f}") for row in rows]
    print(table(cells, ("predict, then learn", "ns/token", "times ours")))
