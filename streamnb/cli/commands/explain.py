"""``streamnb explain``: the evidence for the label of a message, and a counterfactual, now or earlier."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from streamnb.cli.commands.predict import one_event, print_warnings
from streamnb.errors import ConfigError, SnapshotError
from streamnb.events import Event
from streamnb.formats.codec import IN_EVENT
from streamnb.formats.json_value_checks import LONGEST_NAME
from streamnb.formats.terminal_text import emit, printable
from streamnb.queries import published_prediction
from streamnb.queries.answers import PRIOR, decision_of, explained, value_name
from streamnb.queries.query_model import open_query_model
from streamnb.reports.state_diff import time_of
from streamnb.reports.text_columns import table
from streamnb.runtime import context
from streamnb.values.messages import Message

_MOST_BYTES = 1 << 20


def run(options: argparse.Namespace) -> int:
    """Explain a text or an event of the log; return 1 if a published prediction is not reproduced."""
    _check(options)
    event, description = _event_of_log(options) if options.event is None else (None, {})
    answer = description if options.as_served else description | _explained(options, event)
    if event is None and not answer["evidence"] and _may_be_id(options.event):
        text = f"this explains a text; for an event with this id: --id {options.event}"
        emit(Message("id-as-text", text, text=options.event))
    print(json.dumps(answer)) if options.json else _print(answer)
    return int(options.as_served and answer["derived"]["same"] is not True)


def _may_be_id(text: str) -> bool:
    return text != "-" and 0 < len(text) <= LONGEST_NAME and not set(text) & set(" {")


def _check(options: argparse.Namespace) -> None:
    of_log = options.id is not None or options.place is not None
    if of_log == (options.event is not None):
        raise ConfigError("expected a text, or --id or --place of an event of the log, and not both")
    if options.as_served and (not of_log or options.snapshot is not None):
        raise ConfigError("--as-served: is of an event of the log, by --id or --place, and by no --snapshot")
    if options.id is not None and not 0 < len(options.id) <= LONGEST_NAME:
        raise ConfigError(f"--id: expected 1 to {LONGEST_NAME} characters, found {len(options.id):,}")
    try:
        (options.id or "").encode()
    except UnicodeEncodeError:
        raise ConfigError("--id is not UTF-8") from None


def _event_of_log(options: argparse.Namespace) -> tuple[Event, dict[str, Any]]:
    """Return the event and its description, with the derived prediction for --as-served."""
    config = context.load_config(options)
    with closing(context.existing_log(config)) as log:
        end, read = published_prediction.reader(log, config)
        found = published_prediction.found(log, config, read, options.id, options.place, options.look_back)
        label = published_prediction.label_of(config, found)
        if options.as_served:
            text = f"deriving again what journal record {found.commit.n} published"
            emit(Message("prediction-derived", text, journal=found.commit.n))
            description = published_prediction.derived(log, config, end, found, options.against, options.top)
            return found.event, description | {"label_now": label}
        return found.event, published_prediction.described(found) | {"label_now": label}


def _explained(options: argparse.Namespace, event: Event | None) -> dict[str, Any]:
    """Explain by the newest snapshot, and by the snapshot of `--at`."""
    model = open_query_model(options)
    if event is None:
        text = _standard_input() if options.event == "-" else options.event
        event = one_event(model, text)
    answer = {**explained(model, event, options.against, options.top), "snapshot": model.told}
    model.say()
    if warning := answer.get("warning"):
        print_warnings(Counter([warning]), 1)
    if options.at is not None:
        then, pair = open_query_model(options, options.at), (answer["label"], answer["against"])
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
    if "event" in answer:
        _print_event(answer)
    if answer["evidence"] is None:
        print(f"no evidence: {printable(answer['why_none'])}")
        return
    labels, then = [answer["label"], answer["against"]], answer.get("then")
    if then is not None:
        print(f"then {_probabilities(then)}")
    print(f"{'now  ' if then else ''}{_probabilities(answer)}")
    counted = then is not None or any(one["counts"] for one in answer["evidence"])
    often = "; how often in each" if counted else ""
    print(f"\nfor {printable(labels[0])}, against {printable(labels[1])} (log odds in nats{often})")
    if then is None:
        header = ("attribute", "value", "log odds", *labels)
        shown = len(header) if counted else 3
        rows = [(*name, *cells)[:shown] for name, cells in _rows(answer, labels).items()]
        print(table(rows, header[:shown]))
    else:
        before, now = _rows(then, labels), _rows(answer, labels)
        names = dict.fromkeys([*now, *before])
        rows = [(*name, *before.get(name, _NO_CELLS), *now.get(name, _NO_CELLS)) for name in names]
        print(table(rows, ("attribute", "value", "then", *labels, "now", *labels)))
    _print_turns(answer["turns"], labels[0] if then is None else f"{labels[0]} now")


_NO_CELLS = ("", "", "")
"""Cells of a value that is not among the strongest of one of two states."""


def _print_event(answer: Mapping[str, Any]) -> None:
    event, said, derived = answer["event"], answer["served"], answer.get("derived")
    print(f"{printable(event['id'])}: {event['topic']}/{event['partition']} offset {event['offset']}", end="")
    if said is None:
        print("; no prediction of it was found")
    elif said["label"] is None:
        print(f", predicted when no class could be, {time_of(said['ts'])}")
    else:
        truth = "" if said["truth"] is None else f", its label is {printable(said['truth'])}"
        decided = f", {printable(decision_of(said))}" if "decision" in said else ""
        print(f", predicted {printable(said['label'])} {said['probability']:.4f}{decided}{truth}")
        print(
            f"{time_of(said['ts'])}, journal record {said['journal']}, "
            f"{said['topic']}/{said['partition']} offset {said['offset']}"
        )
    if (now := answer["label_now"]) is not None:
        print(_label_now(now))
    if derived is not None:
        steps = f"from the state at journal record {derived['journal']}, {derived['replayed']:,} replayed"
        outcome = {
            True: f"derived again {steps}: the same, bit for bit",
            None: f"derived again {steps}: {printable(derived['prediction'])}",
            False: f"NOT what is derived {steps}: {printable(derived['prediction'])}"
            + ("" if derived["this_machine"] else "; another kind of machine wrote it: last bits may differ"),
        }
        print(outcome[derived["same"]])
    print()


def _label_now(now: Mapping[str, Any]) -> str:
    others = [
        f"{'nothing' if one['label'] is None else one['label']} by {one['source']}" for one in now["others"]
    ]
    beside = f", in place of {', '.join(others)}" if others else ""
    held = "has no label" if now["label"] is None else f"is labelled {now['label']}"
    came = "" if now["source"] in {None, IN_EVENT} else ", which came late"
    by = "" if now["source"] is None else f" by {now['source']}{came}, {time_of(now['ts'])}"
    return printable(f"at journal record {now['journal']} it {held}{by}{beside}")


def _probabilities(answer: Mapping[str, Any]) -> str:
    said = ", ".join(f"{printable(label)} {p:.4f}" for label, p in answer["probabilities"].items())
    return f"{said}: {printable(decision_of(answer))}" if "decision" in answer else said


def _rows(answer: Mapping[str, Any], labels: Sequence[str]) -> dict[tuple[str, object], tuple[object, ...]]:
    """Return (attribute, value) -> log odds and counts with each of two labels."""
    rows: dict[tuple[str, object], tuple[object, ...]] = {(PRIOR, ""): (answer["prior"], "", "")}
    return rows | {
        (one["attribute"], value_name(one["value"])): (one["log_odds"], *_counts(one["counts"], labels))
        for one in answer["evidence"]
    }


def _print_turns(turns: Mapping[str, Any] | None, label: str) -> None:
    if turns is None:
        print(f"\nthe label stays {printable(label)} without the strongest evidence for it")
        return
    without = ", ".join(map(printable, turns["named"]))
    spared = " (none of them can be spared)" if len(turns["without"]) > 1 else ""
    print(f"\nwithout {without}: {printable(turns['label'])} {turns['probability']:.4f}{spared}")


def _counts(counts: Mapping[str, float], labels: Sequence[str]) -> list[str]:
    return [f"{counts.get(label, 0.0):,.12g}" if counts else "" for label in labels]
