"""Settings that are excluded if several processes learn separately and their results are added."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec.structs import replace

from streamnb.config.config_schema import Config
from streamnb.errors import ConfigError

_REMEDY = (
    'set model.kind = "naive_bayes" and leave the other keys out, or learn in one process: `streamnb run` '
    'with any number of `streamnb score` next to it, or model.kind = "tenants" (docs/scale.md)'
)
_FORGETS = (
    "pruning depends on the order, and without a budget a learner begins with one of its "
    'own; one that begins with "memory.budget = 0" has none'
)


def refuse_in_parts(config: Config, what: str, more: Mapping[str, str] = MappingProxyType({})) -> None:
    """Raise ConfigError, naming the key, if what learners learn depends on the order of events.

    `what` names their way of learning. `more` holds the reason to refuse a key, or "" to allow it.
    """
    kind = "mixture" if config.weighs else config.model.kind
    unfit = {
        "model.kind": "" if kind == "naive_bayes" else f'"{kind}" learns events strictly in order',
        "topics.labels": "labels that come late have to wait in one place" if config.topics.labels else "",
        "events.repeats": "" if config.events.repeats == "learn" else "ids are remembered in one place",
        "model.prune.every": "pruning depends on the order" if config.model.prune.every else "",
        "memory.budget": _FORGETS if config.memory.budget else "",
        **more,
    }
    for key, why in unfit.items():
        if why:
            raise ConfigError(f"{key} does not go with {what}: {why}; {_REMEDY}")


def refuse_of_shards(config: Config, *, adds: bool = True) -> None:
    """Do the same for learners that read some partitions each, and for the sum of their models.

    A model that is only read, and not added, may have been learned within a budget of memory, with late
    labels, or with what else depends on the order.
    """
    of_late = config.decision.priors == "windowed"
    acts = any(monitor.action for monitor in config.monitors)
    more = {
        "monitors": "what an alarm does depends on the order of events" if acts else "",
        "decision.priors": "recent ones are those of one learner" if of_late else "",
        "decision.novelty": "typicality is learned in order" if config.decision.novelty else "",
    }
    if not adds:
        config = replace(
            config,
            memory=replace(config.memory, budget=0),
            topics=replace(config.topics, labels=""),
            events=replace(config.events, repeats="learn"),
        )
        more = {}
    refuse_in_parts(config, "shards", more)
