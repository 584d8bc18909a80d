"""``measure.py bench --log URL``: the whole service on a log, beside loops of a client that only copy."""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import cycle, islice
from typing import Any, NamedTuple

import msgspec

from streamnb.cli.topic_requirements import group_of
from streamnb.config import Config
from streamnb.errors import ConfigError
from streamnb.reports.text_columns import table
from streamnb.runtime import context, factories
from tests.benchmarks.measuring import backlog, load
from tests.benchmarks.measuring.backlog import Spent
from tests.benchmarks.measuring.bare_clients import Bare, Pair
from tests.benchmarks.measuring.contenders import labelled_texts
from tests.benchmarks.measuring.environment import environment
from tests.benchmarks.measuring.open_loop import echoes_for
from tests.benchmarks.measuring.processes import AnsweringActor
from tests.benchmarks.measuring.topics import Place, place

_PREFIX = "streamnb-bench"
_MODELS = ("naive_bayes", "mixture")
_START_SECONDS = 300.0  # kernels may have to be compiled, and a learner has to be elected
_LEAST_RATE = 100.0  # events a second; below that it is no result
_GENERATED_BYTES = 150


class Contender(NamedTuple):
    """Who works the backlog off.

    Attributes:
        name: what it is called in the table.
        client: which client it reads and writes with, one of `measuring.bare_clients`.
        model: the kind of the service's model; empty is a loop that only copies.
    """

    name: str
    client: str
    model: str = ""


def run(options: argparse.Namespace) -> int:
    """Let everyone work off the same backlog in turn; print rates, processor time and ratios of pairs."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was made is taken away then, too
    config = context.load_config(options)
    everyone, absent = contenders_for(config)
    for reason in absent:
        print(f"streamnb: left out: {reason}", file=sys.stderr)
    with place(options, _PREFIX, "service", []):  # the log is there, and lets topics be made
        events = backlog_of(options)
        factories.warm_up()
    busy = [os.getloadavg()[0]]
    spent: dict[str, list[Spent]] = {contender.name: [] for contender in everyone}
    size, log = 0, ""
    for _ in range(options.rounds):  # in turn, so that a slow moment of the machine meets all
        for contender in everyone:
            model = contender.model or _MODELS[0]
            with place(options, _PREFIX, "service", [], f"model.kind={model}", "hypotheses=[]") as found:
                log = found.log
                size = size or backlog.output_size(found.config, events)
                backlog.fill(found.config, events)
                spent[contender.name].append(_turn(found, contender, len(events), size))
    busy.append(os.getloadavg()[0])
    answer = {
        "stream": options.file or "generated messages",
        "load": {
            "events": len(events),
            "event_bytes": sum(len(value) for _, value in events) // len(events),
            "output_bytes": size,
            "rounds": options.rounds,
            "commit_events": config.commit.events,
            "commit_interval": config.commit.interval,
        },
        "environment": {"log": log, **environment(), "busy": busy},
        "results": [result_of(contender, everyone, spent, len(events)) for contender in everyone],
    }
    if options.json:
        print(json.dumps(answer))
    else:
        _show(answer)
    return 0


def contenders_for(config: Config) -> tuple[list[Contender], list[str]]:
    """The service with either model, and the loops that this log can have; and why others are missing."""
    clients, absent = echoes_for(config)
    client = clients[0]  # the one that the service uses
    services = [Contender(f"streamnb, {model}", client, model) for model in _MODELS]
    return [*services, *(Contender(f"{client} alone", client) for client in clients)], absent


def backlog_of(options: argparse.Namespace) -> list[Pair]:
    """Id and bytes of each event: the texts and labels of a file again and again, or generated messages."""
    if options.file is None:
        return list(islice(load.events("e", _GENERATED_BYTES), options.events))
    rows = cycle(labelled_texts(options.file, options.order))
    events: list[Pair] = [
        (f"e-{i}".encode(), msgspec.json.encode({"id": f"e-{i}", "text": text, "label": label}))
        for i, (text, label) in enumerate(islice(rows, options.events))
    ]
    if not events:
        raise ConfigError(f"{options.file}: no row has both a text with words and a label")
    return events


def _turn(found: Place, contender: Contender, events: int, size: int) -> Spent:
    """Let one contender work off what lies in the events' topic."""
    config = found.config
    if contender.model:
        actor = AnsweringActor("service", found.folder, backlog.serve, config, events)
    else:
        topics = config.topics
        bare = Bare(config, group_of(config), topics.events[0], topics.predictions)
        actor = AnsweringActor("loop", found.folder, backlog.copy, contender.client, bare, events, size)
    with closing(actor):
        actor.answer(_START_SECONDS)
        spent: Spent = actor.ask(None, _START_SECONDS + events / _LEAST_RATE)
    return spent


def result_of(
    contender: Contender, everyone: Sequence[Contender], spent: Mapping[str, Sequence[Spent]], events: int
) -> dict[str, Any]:
    """Medians over the rounds; `share` is of the rate of the loop with the same client, in the same round."""
    (alone,) = (other for other in everyone if not other.model and other.client == contender.client)
    mine, theirs = spent[contender.name], spent[alone.name]
    shares = [b.seconds / a.seconds for a, b in zip(mine, theirs, strict=True)]
    quartiles = statistics.quantiles(shares, n=4, method="inclusive") if len(shares) > 1 else shares
    return {
        "contender": contender.name,
        "client": contender.client,
        "events_per_second": statistics.median(events / turn.seconds for turn in mine),
        "processor_microseconds": statistics.median(turn.processor / events * 1e6 for turn in mine),
        "commits": statistics.median(turn.commits for turn in mine),
        "share": statistics.median(shares),
        "share_lower_quartile": quartiles[0],
        "rounds": [turn._asdict() for turn in mine],
    }


def _show(answer: Mapping[str, Any]) -> None:
    size, where = answer["load"], dict(answer["environment"])
    print(
        f"{answer['stream']}: {size['events']:,} events of {size['event_bytes']} bytes, "
        f"{size['output_bytes']} bytes written for each, {size['rounds']} rounds"
    )
    print(
        f"a commit at {size['commit_events']:,} events or after {size['commit_interval'] * 1000:.0f} ms, "
        "whichever comes first"
    )
    before, after = where.pop("busy")
    print(", ".join(f"{key} {value}" for key, value in where.items()))
    print(f"load average {before:.2f} before, {after:.2f} after\n")
    header = (
        "from the log to committed",
        "events/s",
        "processor us/event",
        "commits",
        "share of the loop's rate",
        "lower quartile",
    )
    print(table(map(_line, answer["results"]), header))


def _line(result: Mapping[str, Any]) -> Sequence[object]:
    return (
        result["contender"],
        f"{result['events_per_second']:,.0f}",
        f"{result['processor_microseconds']:.1f}",
        f"{result['commits']:.0f}",
        f"{result['share']:.2f}",
        f"{result['share_lower_quartile']:.2f}",
    )
