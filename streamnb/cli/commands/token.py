"""``streamnb token``: counts and weights of one word or value."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

from streamnb.formats.terminal_text import printable
from streamnb.queries.answers import known_of
from streamnb.queries.query_model import open_query_model
from streamnb.reports.text_columns import table


def run(options: argparse.Namespace) -> int:
    """Print counts and weights in every attribute that has the value; return 1 if none has."""
    model = open_query_model(options)
    answer = {**known_of(model, options.word), "snapshot": model.told}
    model.say()
    print(json.dumps(answer)) if options.json else _print(answer)
    return 0 if answer["found"] else 1


def _print(answer: Mapping[str, Any]) -> None:
    for entry in answer["found"]:
        place = f"{printable(entry['value'])}, of {printable(entry['attribute'])}"
        if entry["is_stop_word"]:
            print(f"{place}: a stop word without effect (model.prune.drop_most_frequent)")
            continue
        print(f"{place} (log odds that it adds alone, in nats)")
        rows = [
            (label, f"{entry['counts'].get(label, 0.0):,.12g}", weight)
            for label, weight in entry["weights"].items()
        ]
        print(table(rows, ("label", "learned", "log odds")))
    if not answer["found"]:
        print(f"{printable(answer['word'])} was never learned")
