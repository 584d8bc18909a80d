"""``streamnb explain``: what speaks for the label of a message, and what would turn it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from streamnb.cli.asked import Asked, asked, log_odds
from streamnb.cli.printable import printable
from streamnb.cli.reports.text_tables import table
from streamnb.errors import ConfigError
from streamnb.events import Event
from streamnb.model.encoding.tokenizer import words
from streamnb.model.interface.evidence import Explanation, Item
from streamnb.model.naive_bayes.counting_model import CountingModel

__all__ = ["run"]

_MOST_LEFT_OUT = 100
_MOST_BYTES = 1 << 20


def run(options: argparse.Namespace) -> int:
    """The evidence of one event, and the fewest of its leading words without which it has another label."""
    model = asked(options)
    event = model.event(_standard_input() if options.event == "-" else options.event)
    said = model.predicted([event])[0]
    found = _explanation(model, event, said, options.against)
    speaking = [item for item in found.items if item.log_odds > 0 and item.value != ""]
    answer = {
        "label": str(found.predicted),
        "against": str(found.runner_up),
        "probabilities": said,
        "prior": found.prior,
        "evidence": [_described(model.model, item) for item in found.items[: options.top]],
        "turns": _turning(model, event, speaking[:_MOST_LEFT_OUT], next(iter(said))),
        "snapshot": model.told,
    }
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


def _explanation(model: Asked, event: Event, said: Mapping[str, float], against: str | None) -> Explanation:
    """What the model says for its label. Raises ConfigError where it cannot say anything."""
    if against is not None and against not in said:
        raise ConfigError(f"--against {against}: no such label; the model has {', '.join(said)}")
    first, *others = said
    if not others:
        raise ConfigError(f"the model knows one label, {first}: there is nothing to tell it from")
    other = others[0] if against in {None, first} else against
    if isinstance(model.model, CountingModel):
        labels = {str(label): label for label in model.model.classes}
        found = model.model.explanation_one(event.x, event.ts, labels[other])
        assert found is not None  # noqa: S101  there are two
        return found
    items = model.model.explain_one(event.x)
    if against is not None:
        raise ConfigError("--against: this kind of model compares with the next label alone")
    if not items:
        raise ConfigError(
            "there is no evidence: no value of the event is known, or this kind of model gives none; "
            "model.kind=mixture and naive_bayes do"
        )
    (before,) = model.predicted([Event("-", {})])
    return Explanation(first, other, log_odds(before[first], before[other]), items)


def _described(model: Any, item: Item) -> dict[str, Any]:
    counts = (
        model.value_counts(item.attribute, item.value)
        if isinstance(model, CountingModel) and isinstance(item.value, str | bool) and item.value != ""
        else {}
    )
    return {
        "attribute": str(item.attribute),
        "value": item.value,
        "log_odds": item.log_odds,
        "counts": {str(label): count for label, count in counts.items()},
    }


def _turning(model: Asked, event: Event, leading: Sequence[Item], label: str) -> dict[str, Any] | None:
    """The fewest of the leading words and values without which the label is another one; None of no such."""
    without = [_without(event, leading[: n + 1], model.texts) for n in range(len(leading))]
    for n, said in enumerate(model.predicted(without) if without else ()):
        first = next(iter(said))
        if first != label:
            values = [item.value for item in leading[: n + 1]]
            return {"without": values, "label": first, "probability": said[first]}
    return None


def _without(event: Event, items: Sequence[Item], texts: Sequence[str]) -> Event:
    """The event without some of its words and values; the order of the other words stays."""
    x: dict[Any, Any] = dict(event.x)
    for name in {item.attribute for item in items}:
        gone = {item.value for item in items if item.attribute == name}
        if name in texts:
            x[name] = " ".join(word for word in words(str(x[name])) if word not in gone)
        else:
            x.pop(name, None)
    return Event(event.id, x, ts=event.ts)


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
