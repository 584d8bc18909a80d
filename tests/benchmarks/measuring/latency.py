"""``measure.py latency``: how long an event takes from produced to visible, beside loops that learn nothing."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from streamnb.reports.text_columns import table
from streamnb.runtime import context, factories
from tests.benchmarks.measuring.environment import environment
from tests.benchmarks.measuring.open_loop import LEARNER, Load, Measured, echoes_for, measure
from tests.benchmarks.measuring.percentiles import Figures, breakdown, latencies, ratio
from tests.benchmarks.measuring.topics import place


def run(options: argparse.Namespace) -> int:
    """Measure, and take everything away again; 1 where an event was not seen exactly once."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was made is taken away then, too
    config = context.load_config(options)
    load = Load(options.rate, options.bytes, options.warm_up, options.seconds)
    echoes, absent = echoes_for(config)
    for reason in absent:
        print(f"streamnb: left out: {reason}", file=sys.stderr)
    with place(options, options.prefix, LEARNER, echoes) as found:
        factories.warm_up()
        busy = [os.getloadavg()[0]]
        _say_how_long(load, 1 + len(echoes))
        measured = measure(found, load, _arguments(options, found.overrides))
        log = found.log
    busy.append(os.getloadavg()[0])
    results = [_result(name, one, measured[LEARNER]) for name, one in measured.items()]
    answer = {
        "load": {**load._asdict(), "turns": load.turns, "commit_interval": config.commit.interval},
        "environment": {"log": log, **environment(), "busy": busy},
        "results": results,
    }
    if options.json:
        print(json.dumps(answer))
    else:
        _show(answer)
    return 1 if any(result["missing"] or result["repeated"] for result in results) else 0


def _arguments(options: argparse.Namespace, overrides: Sequence[str]) -> list[str]:
    """Those of ``streamnb run`` with the user's configuration and what this place changes of it."""
    config = [] if options.config is None else ["--config", options.config]
    log = [] if options.log is None else [f"log.url={options.log}"]
    return [*config, *chain.from_iterable(("--set", value) for value in (*options.set, *log, *overrides))]


def _say_how_long(load: Load, contenders: int) -> None:
    seconds = contenders * (load.warm_up + load.seconds)
    print(f"streamnb: this takes {seconds:.0f} s, and some to start", file=sys.stderr)


def _result(name: str, measured: Measured, learner: Measured) -> dict[str, Any]:
    """All times in seconds; the ratio is the learner's p50 and p99 over this contender's."""
    passages = list(chain.from_iterable(measured.turns))
    ours, theirs = ([Figures.of(latencies(turn)) for turn in one.turns] for one in (learner, measured))
    p50, p99 = ratio(ours, theirs)
    return {
        "contender": name,
        "events": len(passages),
        "missing": measured.missing,
        "repeated": measured.repeated,
        "latency": Figures.of(latencies(passages))._asdict(),
        "steps": {step: figures._asdict() for step, figures in breakdown(passages).items()},
        "ratio": {"p50": p50, "p99": p99},
    }


def _show(answer: Mapping[str, Any]) -> None:
    load, where, results = answer["load"], dict(answer["environment"]), answer["results"]
    print(
        f"{load['rate']:,.0f} events/s of {load['size']} bytes, a commit every "
        f"{load['commit_interval'] * 1000:.0f} ms; {load['seconds']:g} s each in {load['turns']} turns"
    )
    before, after = where.pop("busy")
    print(", ".join(f"{key} {value}" for key, value in where.items()))
    print(f"load average {before:.2f} before, {after:.2f} after")
    header = ("ms from produced to visible", "events", *Figures._fields, "ratio p50", "ratio p99")
    print(f"\n{table(map(_line, results), header)}\n")
    steps = [row for result in results for row in _steps(result)]
    print(table(steps, ("step", "", *Figures._fields)))
    for result in results:
        if result["missing"] or result["repeated"]:
            print(
                f"\n{result['contender']}: {result['missing']:,} events were never visible, "
                f"{result['repeated']:,} visible again"
            )


def _line(result: Mapping[str, Any]) -> list[object]:
    ratios = (f"{value:.2f}" for value in result["ratio"].values())
    return [result["contender"], result["events"], *_milliseconds(result["latency"]), *ratios]


def _steps(result: Mapping[str, Any]) -> Iterator[list[object]]:
    for step, figures in result["steps"].items():
        yield [step, result["contender"], *_milliseconds(figures)]


def _milliseconds(figures: Mapping[str, float]) -> Iterator[str]:
    return (f"{value * 1000:.1f}" for value in figures.values())
