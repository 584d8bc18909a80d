"""``streamnb inspect``: a description of the learned model."""

from __future__ import annotations

import argparse
import json
from contextlib import closing
from typing import Any

import msgspec

from streamnb.engine.journal.recovery import recover
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.processing.metrics_reports import posterior_report
from streamnb.errors import LogError
from streamnb.events import ActionReport, PosteriorReport
from streamnb.formats.snapshot_container import part_digest
from streamnb.formats.terminal_text import printable
from streamnb.models.interface.stream_model import StreamModel
from streamnb.models.naive_bayes.counting_model import CountingModel
from streamnb.models.naive_bayes.most_informative import strongest
from streamnb.models.tenants.tenant_models import TenantModels
from streamnb.queries.query_model import readiness
from streamnb.reports.parameter_tables import described_parameters, print_parameters
from streamnb.reports.text_columns import table
from streamnb.reports.text_tables import (
    action_text,
    print_posterior,
    print_tenants,
    tenants,
    words_and_values,
)
from streamnb.runtime import context, factories
from streamnb.values.parameter_checks import pluralize


def run(options: argparse.Namespace) -> int:
    """Recover the model from snapshot and journal, without disturbing the learner, and describe it."""
    config = context.load_config(options)
    with closing(context.existing_log(config)) as log:
        config = factories.begun_configuration(config, log)
        journal = log.partitions(config.topics.journal)[0]
        if not log.read(journal, log.offsets(journal)[0], 1):
            raise LogError(f"nothing has been learned yet: the journal of {config.log.url} is empty")
        learner = factories.learner(config)
        checkpoint = recover(log, factories.snapshots(config), learner, factories.identity(config))
    digest = part_digest(*learner.parts()["model"])
    description = {"journal": checkpoint.n, "digest": digest, **describe(learner, options.top)}
    if options.details:
        description["parameters"] = described_parameters(learner.model, options.top)
    print(json.dumps(description)) if options.json else print_description(description)
    return 0


def describe(learner: EventProcessor, top: int) -> dict[str, Any]:
    """Return classes with priors and strongest attributes, and moments of continuous attributes."""
    model = learner.model
    weights = model.class_weights
    total = sum(weights.values())
    classes = [
        {
            "label": str(label),
            "events": weight,
            "prior": weight / total if total else 0.0,
            "strongest": _strongest(model, label, top),
        }
        for label, weight in weights.items()
    ]
    described = {
        "model": learner.settings.name,
        "learned": model.n_events,
        **readiness(weights, learner.settings.min_learns),
        "attributes": model.n_attributes,
        "classes": classes,
        "moments": _moments(model),
    }
    if (acted := learner.alarm_responses) is not None:
        described["actions"] = msgspec.to_builtins(acted)
    posterior = posterior_report(model)
    if posterior is not None:
        described["posterior"] = msgspec.to_builtins(posterior)
    if isinstance(model, TenantModels):
        described["tenants"] = tenants(model, top)
    return described


def _strongest(model: StreamModel, label: Any, top: int) -> list[dict[str, Any]]:
    if not isinstance(model, CountingModel):
        return []
    return [
        {"attribute": str(a), "value": value, "log_odds": odds, "weight": seen}
        for a, value, odds, seen in strongest(model.statistics, label, top)
    ]


def _moments(model: StreamModel) -> dict[str, Any]:
    if not isinstance(model, CountingModel):
        return {}
    return {
        str(name): {
            str(label): {"n": moment.n, "mean": moment.mean, "variance": moment.variance}
            for label, moment in model.class_moments(name).items()
        }
        for name in model.statistics.layout.fields
    }


def print_description(description: dict[str, Any]) -> None:
    """Print a description as text."""
    print(
        f"model {printable(description['model'])}: {pluralize(description['learned'], 'event')} learned, "
        f"{pluralize(len(description['classes']), 'class', 'classes')}"
        f"{words_and_values(description['attributes'])}"
    )
    if description["missing"]:
        print(printable(f"{description['status']}: {'; '.join(description['missing'])}"))
    if "actions" in description:
        print(f"alarms: {action_text(msgspec.convert(description['actions'], ActionReport))}")
    if "posterior" in description:
        print_posterior(msgspec.convert(description["posterior"], PosteriorReport))
    print_tenants(description.get("tenants"))
    for entry in description["classes"]:
        events = pluralize(round(entry["events"]), "event")
        print(f"\n{printable(entry['label'])}: {events}, prior {entry['prior']:.4f}")
        if entry["strongest"]:
            words = (s.values() for s in entry["strongest"])
            print(table(map(tuple, words), ("attribute", "value", "log odds", "weight")))
    for name, classes in description["moments"].items():
        print(f"\n{printable(name)}")
        rows = [(label, m["n"], m["mean"], m["variance"]) for label, m in classes.items()]
        print(table(rows, ("class", "events", "mean", "variance")))
    if "parameters" in description:
        print_parameters(description["parameters"])
