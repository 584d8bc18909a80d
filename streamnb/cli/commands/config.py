"""``streamnb config check|lint|show``."""

from __future__ import annotations

import argparse
import json
import tomllib

from streamnb.config import Config, config_hash, given, show, without_effect
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.processing.monitors import delays
from streamnb.formats.terminal_text import printable
from streamnb.runtime import context, factories
from streamnb.values.example_weights import is_below_unit

_LATER = 1_000_000  # observations before a change


def run(options: argparse.Namespace) -> int:
    """Load and check the configuration without a log; `show` prints it.

    `lint` also reads the files it names and reports delays of monitors, keys without effect and weights below
    the unit; it returns 1 for either of the last two.
    """
    config = context.load_config(options)
    learner = factories.learner(config)
    idle: list[str] = []
    small: list[str] = []
    if options.action == "lint":
        if config.log.is_kafka:
            config.kafka.settings(config.log)
            context.library(config)
        idle = without_effect(config, given(*context.layers(options)))
        small = _small_weights(config)
    text = show(config)
    digest = config_hash(config)
    if options.json:
        answer = {"valid": True, "hash": digest}
        answer |= {"config": tomllib.loads(text)} if options.action == "show" else {}
        more = {"without_effect": idle, "small_weights": small, "delays": _delays(learner)}
        print(json.dumps(answer | (more if options.action == "lint" else {})))
    elif options.action == "show":
        print(text)
    else:
        lines = [
            f"monitor {printable(monitor)}, {direction}: {first:,} observations after a change at the "
            f"beginning, and {later:,} after one behind a million"
            for monitor, delays in (_delays(learner) if options.action == "lint" else {}).items()
            for direction, (first, later) in delays.items()
        ]
        print("\n".join([*lines, *idle, *small, f"valid (hash {digest[:16]})"]))
    return 1 if idle or small else 0


def _small_weights(config: Config) -> list[str]:
    """Return a line for each weight between 0 and the unit, which counts more than configured."""
    weights = {f"labels.weights: {source}": weight for source, weight in config.labels.weights.items()}
    weights["model.unlabelled_weight"] = config.model.unlabelled_weight or 0.0
    return [
        f"{printable(key)} = {weight:g} counts 1/1024 example, the least there is: "
        "give 1/1024 (0.0009765625) or more, or 0, with which nothing is learned"
        for key, weight in weights.items()
        if is_below_unit(weight)
    ]


def _delays(learner: EventProcessor) -> dict[str, dict[str, tuple[int, int]]]:
    """Return monitor -> direction -> observations from a change to its alarm, early and late."""
    found = {}
    for monitor in learner.settings.monitors:
        first, later = delays(monitor, 0), delays(monitor, _LATER)
        found[monitor.name] = {direction: (first[direction], later[direction]) for direction in first}
    return found
