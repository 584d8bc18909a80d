"""``streamnb explain``: what speaks for the label of a message, and what would turn it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from streamnb.cli.answers import explained
from streamnb.cli.asked import asked
from streamnb.cli.printable import printable
from streamnb.cli.reports.text_tables import table
from streamnb.errors import ConfigError

_MOST_BYTES = 1 << 20


def run(options: argparse.Namespace) -> int:
    """The evidence of one event, and the fewest of its leading words without which it has another label."""
    model = asked(options)
    event = model.event(_standard_input() if options.event == "-" else options.event)
    answer = {**explained(model, event, options.against, options.top), "snapshot": model.told}
    model.say()
    print(json.dumps(answer)) if options.json else _print(answer)
    return 0


def _standard_input() -> str:
    given = sys.stdin.buffer.read(_MOST_BYTES + 1)
    if len(given) > _MOST_BYTES:
        raise ConfigError(
            f"standard input has more than {_MOST_BYTES:,} bytes: `streamnb predict -` takes many events"
        )
    try:
        return given.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"standard input is not UTF-8 at byte {error.start}: convert it, with iconv for example"
        ) from None


def _print(answer: Mapping[str, Any]) -> None:
    labels = [answer["label"], answer["against"]]
    print(", ".join(f"{printable(label)} {p:.4f}" for label, p in answer["probabilities"].items()))
    print(
        f"\nfor {printable(labels[0])}, against {printable(labels[1])} (log odds in nats; how often in each)"
    )
    rows = [("(prior)", "", answer["prior"], "", "")]
    rows += [
        (one["attribute"], one["value"] or "(absent words)", one["log_odds"], *_counts(one["counts"], labels))
        for one in answer["evidence"]
    ]
    print(table(rows, ("attribute", "value", "log odds", *labels)))
    turns = answer["turns"]
    if turns is None:
        print(f"\nit stays {printable(labels[0])} without those that speak most for it")
    else:
        without = ", ".join(map(printable, turns["without"]))
        print(f"\nwithout {without}: {printable(turns['label'])} {turns['probability']:.4f}")


def _counts(counts: Mapping[str, float], labels: Sequence[str]) -> list[str]:
    return [f"{counts.get(label, 0.0):,.12g}" if counts else "" for label in labels]
