"""``streamnb explain``: what speaks for the label of a message."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from streamnb.cli.answers import decision_of, explained
from streamnb.cli.asked import asked
from streamnb.cli.commands.predict import one_event
from streamnb.cli.printable import printable
from streamnb.cli.reports.text_tables import table
from streamnb.errors import ConfigError

_MOST_BYTES = 1 << 20
_PRIOR = "(the labels alone)", ""
"""What there is before any word or value: how frequent labels are, or the prior that is configured."""


def run(options: argparse.Namespace) -> int:
    """The evidence of a text, or of an event."""
    model = asked(options)
    event = one_event(model, _standard_input() if options.event == "-" else options.event)
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
    print(_probabilities(answer))
    print(
        f"\nfor {printable(labels[0])}, against {printable(labels[1])} (log odds in nats; how often in each)"
    )
    rows = [(*name, *cells) for name, cells in _rows(answer, labels).items()]
    print(table(rows, ("attribute", "value", "log odds", *labels)))


def _probabilities(answer: Mapping[str, Any]) -> str:
    said = ", ".join(f"{printable(label)} {p:.4f}" for label, p in answer["probabilities"].items())
    return f"{said}: {printable(decision_of(answer))}" if "decision" in answer else said


def _rows(answer: Mapping[str, Any], labels: Sequence[str]) -> dict[tuple[str, object], tuple[object, ...]]:
    """(attribute, value) -> log odds, and how often it was learned with each of two labels."""
    rows: dict[tuple[str, object], tuple[object, ...]] = {_PRIOR: (answer["prior"], "", "")}
    return rows | {
        (one["attribute"], one["value"] if one["value"] != "" else "(absent words)"): (
            one["log_odds"],
            *_counts(one["counts"], labels),
        )
        for one in answer["evidence"]
    }


def _counts(counts: Mapping[str, float], labels: Sequence[str]) -> list[str]:
    return [f"{counts.get(label, 0.0):,.12g}" if counts else "" for label in labels]
