"""``streamnb compare``: two configurations scored on one history, in one pass."""

from __future__ import annotations

import argparse
import json
import math
import shlex
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import numpy as np

from streamnb.config import Config
from streamnb.engine.ports import Log
from streamnb.errors import ConfigError
from streamnb.evaluation.data_quality import DataQuality
from streamnb.evaluation.event_costs import Costs, PrequentialProcessor
from streamnb.evaluation.event_input import begun, columns_of, events_of, numbered, origin_of
from streamnb.evaluation.log_history import LogHistory, history_of, history_of_file, log_of, run_through
from streamnb.evaluation.prequential_evaluation import report_why_nothing_was_learned
from streamnb.formats.terminal_text import left_out
from streamnb.reports.text_columns import table
from streamnb.reports.text_tables import MOST_CLASSES
from streamnb.runtime import context, factories
from streamnb.scoring.paired_comparison import interval
from streamnb.scoring.prequential_scores import ESCAPE
from streamnb.values.parameter_checks import pluralize

_MISS = 0.05
_CHECKPOINTS = 8
_BOUNDS = {"log_loss": -math.log(ESCAPE), "accuracy": 1.0}


def run(options: argparse.Namespace) -> int:
    """Compare the configuration with that of ``--against``; return 1 if nothing is scored."""
    with ExitStack() as stack:
        present = context.load_config(options)
        other = _against(options, present)
        log = None
        if options.file is None:
            log = stack.enter_context(closing(log_of(present)))
            present, other = (factories.begun_configuration(config, log) for config in (present, other))
        past = begun(_past(options, present, log))  # errors of the input show before kernels are compiled
        for config in (present, other):
            factories.warm_up(config)
        sides = PrequentialProcessor(present), PrequentialProcessor(other)
        for part in past:
            for learner in sides:
                run_through(learner, part)
    for learner in sides:
        while learner.has_work:
            learner.work()
    costs = [learner.costs for learner in sides]
    common, *places = np.intersect1d(costs[0].place, costs[1].place, True, return_indices=True)
    if not common.size:
        what = options.file or present.log.url
        learner, config = sides[0], present
        if costs[0].place.size:
            learner, config = sides[1], other
            what = f"{what} with {', '.join(options.against)}"
        reasons = f": {', '.join(learner.tally.dead_letters)}"
        report_why_nothing_was_learned(what, config, learner.consumed, learner.dead_letters, reasons)
        return 1
    alone = sum(one.place.size - common.size for one in costs)
    present_costs, other_costs = (one.at(at) for one, at in zip(costs, places, strict=True))
    answer = _answer(present_costs, other_costs)
    answer |= {"scored_by_one_alone": alone, "left_out": sides[0].left_out}
    answer["rebuild"] = _rebuild(options) if log is not None and answer["verdict"] == "better" else None
    print(json.dumps(answer)) if options.json else _show(options, answer)
    return 0


def _against(options: argparse.Namespace, present: Config) -> Config:
    """Return the other configuration. Raises ConfigError if it reads another history."""
    try:
        other = context.load_config(options, *options.against)
    except ConfigError as error:  # the values of --set alone are valid
        raise ConfigError(str(error).replace("flag --set", "--against", 1)) from error
    if other.topics != present.topics:
        raise ConfigError("--against: topics.*: both read one history; give its topics by --set")
    for section, name in (("events", "id"), ("events", "label"), ("classes", "aliases")):
        present_says, other_says = (getattr(getattr(one, section), name) for one in (present, other))
        if other_says != present_says:
            raise ConfigError(f"--against: {section}.{name}: both answer one question; give it by --set")
    return other


def _past(options: argparse.Namespace, config: Config, log: Log | None) -> Iterator[LogHistory]:
    if log is not None:
        yield from history_of(config, log)
        return
    schema = context.schema(config)
    odd = DataQuality(
        schema,
        origin_of(options, options.file),
        expects_label=True,
        counts_refusals=True,
        repeats=config.events.repeats != "learn",
        now=time.time(),
    )
    events = events_of(options.file, columns_of(options, schema, learns=True))
    for past in history_of_file(odd.watched(numbered(events, None)), config):
        odd.report()
        yield past
    odd.report(is_over=True)


def _answer(present: Costs, other: Costs) -> dict[str, Any]:
    n = present.place.size
    differences = {"log_loss": other.loss - present.loss, "accuracy": other.right - present.right}
    found = {name: _between(name, d) for name, d in differences.items()}
    loss = found["log_loss"]
    verdict = "better" if loss["upper"] < 0.0 else "worse" if loss["lower"] > 0.0 else "cannot be told yet"
    ends = sorted({math.ceil(n * k / _CHECKPOINTS) for k in range(1, _CHECKPOINTS + 1)})
    numbers: dict[str, int] = {}  # label -> code: an array of strings takes the bytes of the longest for each
    which = np.array([numbers.setdefault(str(label), len(numbers)) for label in present.truth])
    classes = [(label, np.flatnonzero(which == k)) for label, k in sorted(numbers.items())]
    return {
        "verdict": verdict,
        "confidence": 1.0 - _MISS,
        "alike": not any(d.any() for d in differences.values()),
        "events": n,
        **{
            name: {"accuracy": float(one.right.mean()), "log_loss": float(one.loss.mean())}
            for name, one in (("configured", present), ("against", other))
        },
        "difference": found,
        "by_class": [
            {"label": label, "events": at.size}
            | {name: _between(name, d[at]) for name, d in differences.items()}
            for label, at in sorted(classes, key=lambda one: -one[1].size)
        ],
        "over_time": [
            {"events": end} | {name: _between(name, d[:end]) for name, d in differences.items()}
            for end in ends
        ],
    }


def _between(name: str, differences: Any) -> dict[str, float]:
    """Return the mean difference and its confidence sequence."""
    total, squares, n = (np.array(math.fsum(differences**k)) for k in (1, 2, 0))
    lower, upper = interval(total, squares, n, _BOUNDS[name], _MISS)
    return {"mean": float(total / n), "lower": float(lower), "upper": float(upper)}


def _rebuild(options: argparse.Namespace) -> str:
    given = [("--config", options.config), ("--log", options.log)]
    sets = [("--set", one) for one in (*options.set, *options.against)]
    words = [word for flag, value in (*given, *sets) if value is not None for word in (flag, value)]
    return shlex.join(["streamnb", "rebuild", *words])


def _show(options: argparse.Namespace, answer: dict[str, Any]) -> None:
    names = "as configured", f"with {', '.join(options.against)}"
    rows: list[tuple[object, ...]] = [
        (name, answer[side]["accuracy"], answer[side]["log_loss"])
        for name, side in zip(names, ("configured", "against"), strict=True)
    ]
    print(table(rows, (pluralize(answer["events"], "event"), "accuracy", "log loss")))
    header = ("log loss differs by", "between", "", "accuracy differs by", "between", "")
    for title, part in (("over time", answer["over_time"]), ("by class", answer["by_class"][:MOST_CLASSES])):
        rows = []
        for row in part:
            values = (value for name in _BOUNDS for value in row[name].values())
            rows.append((row.get("label", pluralize(row["events"], "event")), *values))
        print("\n" + table(rows, (title, *header)))
    alone = {"scored by only one of the two": answer["scored_by_one_alone"]}
    print("\n" + left_out(answer["left_out"] | alone), end="")
    loss = answer["difference"]["log_loss"]
    mass = f"{answer['confidence']:.0%}"
    between = f"between {loss['lower']:+.4f} and {loss['upper']:+.4f}, with {mass} confidence at any time"
    alike = "; both predict every event equally" if answer["alike"] else ""
    print(f"{answer['verdict']}: {names[1]} the log loss differs by {loss['mean']:+.4f}, {between}{alike}")
    if answer["rebuild"]:
        print(f"to install it, stop the learner, then: {answer['rebuild']}")
