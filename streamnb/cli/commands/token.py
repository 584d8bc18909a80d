"""``streamnb token``: what the model knows of one word or value."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from streamnb.cli.asked import Asked, asked, log_odds
from streamnb.cli.printable import printable
from streamnb.cli.reports.text_tables import table
from streamnb.errors import ConfigError
from streamnb.events import Event
from streamnb.model.attributes.kinds import NOMINAL
from streamnb.model.encoding.tokenizer import words
from streamnb.model.interface.evidence import LIMIT
from streamnb.model.naive_bayes.counting_model import CountingModel

__all__ = ["run"]

_NEAREST = 5


def run(options: argparse.Namespace) -> int:
    """Counts and weights in every attribute that has it; 1 and what comes near where none has."""
    model = asked(options)
    if not isinstance(model.model, CountingModel):
        raise ConfigError(
            "this kind of model keeps no counts of words: model.kind=mixture and naive_bayes do"
        )
    model.predicted([Event("-", {})])  # refuses a model that has learned nothing
    entries = list(_entries(model, model.model, options.word))
    answer: dict[str, Any] = {"word": options.word, "found": entries, "snapshot": model.told}
    if not entries:
        answer |= _near(model.model, options.word)
    model.say()
    print(json.dumps(answer)) if options.json else _print(answer)
    return 0 if entries else 1


def _groups(model: CountingModel) -> Iterator[tuple[Any, bool]]:
    """Each attribute of words or values, and whether they are words."""
    for kind, name in model.statistics.layout.groups:
        yield name, kind != NOMINAL


def _entries(asked_of: Asked, model: CountingModel, word: str) -> Iterator[dict[str, Any]]:
    """What is known of the word in each attribute that has it."""
    tokens = list(dict.fromkeys(words(word)))
    stopped = model.statistics.stop_words()
    for name, is_text in _groups(model):
        for value in tokens if is_text else [word]:
            counts = model.value_counts(name, value)
            if counts or (name, value.encode()) in stopped:
                yield {
                    "attribute": str(name),
                    "value": value,
                    "counts": {str(label): count for label, count in counts.items()},
                    "weights": _weights(asked_of, name, value, is_text=is_text) if counts else {},
                    "is_stop_word": not counts,
                }


def _weights(model: Asked, name: Any, value: str, *, is_text: bool) -> dict[str, float]:
    """What it adds, alone, to the log odds of each label against all others (nats)."""
    base: dict[Any, Any] = {name: ""} if is_text else {}
    with_it, without = model.predicted([Event("-", {name: value}), Event("-", base)])
    odds = {v: log_odds(p, 1.0 - p) - log_odds(without[v], 1.0 - without[v]) for v, p in with_it.items()}
    return {label: max(-LIMIT, min(LIMIT, one)) for label, one in odds.items()}


def _near(model: CountingModel, word: str) -> dict[str, Any]:
    """What may have been meant: values that differ in case or a letter, and attributes of that name."""
    known = {value: name for name, _ in _groups(model) for value in model.class_counts(name)}
    folded = [value for value in known if value.casefold() == word.casefold()]
    alike = [value for value in known if value[:1].casefold() == word[:1].casefold()]
    near = dict.fromkeys([*folded, *get_close_matches(word.lower(), alike, _NEAREST)])
    names = [*(name for name, _ in _groups(model)), *model.statistics.layout.fields]
    return {
        "near": [{"attribute": str(known[value]), "value": value} for value in near],
        "attributes": [str(name) for name in names if str(name).casefold() == word.casefold()],
    }


def _print(answer: Mapping[str, Any]) -> None:
    for entry in answer["found"]:
        place = f"{printable(entry['value'])}, of {printable(entry['attribute'])}"
        if entry["is_stop_word"]:
            print(f"{place}: a stop word, which says nothing (model.prune.drop_most_frequent)")
            continue
        print(f"{place} (log odds that it adds alone, in nats)")
        rows = [
            (label, f"{entry['counts'].get(label, 0.0):,.12g}", weight)
            for label, weight in entry["weights"].items()
        ]
        print(table(rows, ("label", "learned", "log odds")))
    if answer["found"]:
        return
    print(f"{printable(answer['word'])} was never learned")
    for near in answer["near"]:
        print(f"there is {printable(near['value'])}, of {printable(near['attribute'])}")
    for name in answer["attributes"]:
        print(f"there is an attribute {printable(name)}: `streamnb inspect` shows its values")
