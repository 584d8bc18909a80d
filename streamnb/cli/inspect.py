"""``streamnb inspect``: what has been learned so far."""

from __future__ import annotations

import argparse
import json
from contextlib import closing
from typing import Any

from streamnb.cli import wiring
from streamnb.cli.tables import table
from streamnb.engine.learner import Learner
from streamnb.engine.recovery import recover
from streamnb.errors import LogError
from streamnb.model.strongest import strongest
from streamnb.wire.snapshot import part_digest

__all__ = ["describe", "print_description", "run"]


def run(options: argparse.Namespace) -> int:
    """Rebuild the model from snapshot and journal, without disturbing the learner, and describe it."""
    config = wiring.load_config(options)
    learner = wiring.learner(config)
    with closing(wiring.existing_log(config)) as log:
        journal = log.partitions(config.topics.journal)[0]
        if not log.read(journal, log.offsets(journal)[0], 1):
            raise LogError(f"nothing has been learned yet: the journal of {config.log.url} is empty")
        checkpoint = recover(log, wiring.snapshots(config), learner, wiring.identity(config))
    digest = part_digest(*learner.parts()["model"])
    description = {"journal": checkpoint.n, "digest": digest, **describe(learner, options.top)}
    if options.json:
        print(json.dumps(description))
    else:
        print_description(description)
    return 0


def describe(learner: Learner, top: int) -> dict[str, Any]:
    """Classes with priors and strongest attributes, and moments of continuous attributes."""
    model = learner.model
    weights = model.class_weights
    total = sum(weights.values())
    classes = [
        {
            "label": str(label),
            "events": weight,
            "prior": weight / total,
            "strongest": [
                {"attribute": str(a), "value": value, "log_odds": odds, "weight": seen}
                for a, value, odds, seen in strongest(model.statistics, label, top)
            ],
        }
        for label, weight in weights.items()
    ]
    moments = {
        str(name): {
            str(label): {"n": moment.n, "mean": moment.mean, "variance": moment.variance}
            for label, moment in model.class_moments(name).items()
        }
        for name in model.statistics.layout.fields
    }
    return {
        "model": learner.settings.name,
        "learned": model.n_events,
        "attributes": model.n_attributes,
        "classes": classes,
        "moments": moments,
    }


def print_description(description: dict[str, Any]) -> None:
    """The description as text."""
    print(
        f"model {description['model']}: {description['learned']:,} events learned, "
        f"{len(description['classes'])} classes, {description['attributes']:,} words and values"
    )
    for entry in description["classes"]:
        print(f"\n{entry['label']}: {entry['events']:,.0f} events, prior {entry['prior']:.4f}")
        rows = [(s["attribute"], s["value"], s["log_odds"], s["weight"]) for s in entry["strongest"]]
        if rows:
            print(table(rows, ("attribute", "value", "log odds", "weight")))
    for name, classes in description["moments"].items():
        print(f"\n{name}")
        rows = [(label, m["n"], m["mean"], m["variance"]) for label, m in classes.items()]
        print(table(rows, ("class", "events", "mean", "variance")))
