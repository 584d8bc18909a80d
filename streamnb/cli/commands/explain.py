"""``streamnb explain``: what speaks for the label of a message, and what would turn it, now or then."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from streamnb.cli.answers import decision_of, explained
from streamnb.cli.asked import Asked, asked
from streamnb.cli.commands.predict import one_event
from streamnb.cli.printable import printable
from streamnb.cli.reports.text_tables import table
from streamnb.errors import ConfigError, SnapshotError
from streamnb.events import Event

_MOST_BYTES = 1 << 20
_PRIOR = "(the labels alone)", ""
"""What there is before any word or value: how frequent labels are, or the prior that is configured."""


def run(options: argparse.Namespace) -> int:
    """The evidence of a text, or of an event."""
    model = asked(options)
    text = _standard_input() if options.event == "-" else options.event
    answer = _explained(options, model, one_event(model, text))
    print(json.dumps(answer)) if options.json else _print(answer)
    return 0


def _explained(options: argparse.Namespace, model: Asked, event: Event) -> dict[str, Any]:
    """What the newest snapshot says, and the one of `--at`."""
    answer = {**explained(model, event, options.against, options.top), "snapshot": model.told}
    model.say()
    if options.at is not None:
        then, pair = asked(options, options.at), (answer["label"], answer["against"])
        (said,) = then.predicted([event])
        if missing := [label for label in pair if label not in then.with_examples(said)]:
            raise SnapshotError(f"{then.told['file']}: had no example of {', '.join(missing)} then")
        answer["then"] = {**explained(then, event, pair[1], options.top, of=pair[0]), "snapshot": then.told}
        then.say()
    return answer


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
    labels, then = [answer["label"], answer["against"]], answer.get("then")
    if then is not None:
        print(f"then {_probabilities(then)}")
    print(f"{'now  ' if then else ''}{_probabilities(answer)}")
    print(
        f"\nfor {printable(labels[0])}, against {printable(labels[1])} (log odds in nats; how often in each)"
    )
    header = ("attribute", "value", "log odds", *labels)
    if then is None:
        print(table([(*name, *cells) for name, cells in _rows(answer, labels).items()], header))
    else:
        before, now = _rows(then, labels), _rows(answer, labels)
        names = dict.fromkeys([*now, *before])
        rows = [(*name, *before.get(name, _NO_CELLS), *now.get(name, _NO_CELLS)) for name in names]
        print(table(rows, ("attribute", "value", "then", *labels, "now", *labels)))
    _print_turns(answer["turns"], labels[0] if then is None else f"{labels[0]} now")


_NO_CELLS = ("", "", "")
"""Of what one of two states says nothing of, or not among the strongest."""


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


def _print_turns(turns: Mapping[str, Any] | None, label: str) -> None:
    if turns is None:
        print(f"\nit stays {printable(label)} without those that speak most for it")
        return
    without = ", ".join(map(printable, turns["named"]))
    spared = " (none of them can be spared)" if len(turns["without"]) > 1 else ""
    print(f"\nwithout {without}: {printable(turns['label'])} {turns['probability']:.4f}{spared}")


def _counts(counts: Mapping[str, float], labels: Sequence[str]) -> list[str]:
    return [f"{counts.get(label, 0.0):,.12g}" if counts else "" for label in labels]
