"""From the configuration to what learns: the one place, with `opening`, where the config is taken apart."""

from __future__ import annotations

import gc
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from streamnb.config import SHAPELESS, Config, changes, config_hash, restored, semantic_config_of
from streamnb.config.model_factory import model as model_in_memory
from streamnb.config.monitor_config import MonitorConfig
from streamnb.engine.journal.job_identity import JobIdentity
from streamnb.engine.journal.journal_history import entries
from streamnb.engine.journal.recovery import refuse_changes, standing
from streamnb.engine.journal.snapshot_store import Snapshots
from streamnb.engine.ports import Log
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.sensor import SILENT, Sensor
from streamnb.engine.settings import LabelSettings, MonitorSettings, Pruning, Settings
from streamnb.engine.topic_plan import TENANT_BYTES
from streamnb.errors import ConfigError, JournalError, StreamnbError, UnknownTopic
from streamnb.formats.dead_letter_record import USUAL_LIMIT, largest_body
from streamnb.formats.journal_record import ConfigChange
from streamnb.formats.terminal_text import printable
from streamnb.kernels import kernel_cache
from streamnb.models.interface.stream_model import StreamModel
from streamnb.models.tenants.tenant_models import TenantModels
from streamnb.persistence.platform_fingerprint import fingerprint
from streamnb.persistence.snapshot_folder import Damaged, SnapshotFolder
from streamnb.runtime import context
from streamnb.runtime.kernel_warmup import warm
from streamnb.runtime.machine_memory import machine_memory
from streamnb.runtime.mapped_memory import mapped_beyond
from streamnb.runtime.warmup import rehearse
from streamnb.runtime.worker import CommitPolicy, Worker
from streamnb.scoring.decision_rule import DecisionRule
from streamnb.statistics.credible_intervals import beta_intervals

LEARN_ONLY = "predictions.by=scorers"
"""What `run --learn-only` sets."""
_MOST_BUDGET = 1 << 30  # bytes
_COLLECTED_AFTER = 20_000, 20, 10  # objects, collections of those, and of the latter
_BESIDE_A_BODY = 40 << 10  # bytes of a dead letter's key and headers
_TURN_SECONDS = 0.05  # ten times what the interpreter begins with


def model(config: Config) -> StreamModel:
    """A model that has learned nothing yet; what it puts away beyond its memory goes to a file."""
    made = model_in_memory(config)
    if isinstance(made, TenantModels):
        made.evict_within(mapped_beyond(made.memory, config.snapshot_folder))
    return made


def learner(config: Config, given: StreamModel | None = None) -> EventProcessor:
    """A learner that has learned nothing yet, of the configured model or of another one."""
    return EventProcessor(settings(config), given or model(config))


def settings(config: Config) -> Settings:
    """What a learner does beside learning."""
    prune = config.model.prune
    return Settings(
        schema=context.schema(config),
        predictions=config.topics.predictions,
        metrics=config.topics.metrics,
        dead_letters=config.topics.dead_letters,
        alerts=config.topics.alerts,
        tenants=config.topics.tenants,
        name=config.model.name,
        report_every=config.metrics.every_events,
        report_seconds=config.metrics.every,
        window=config.metrics.window,
        interval=config.metrics.interval,
        pruning=Pruning(prune.every, prune.min_count, prune.drop_most_frequent, prune.max_attributes or None),
        detectors=config.drift.detectors,
        monitors=tuple(map(_monitor, config.monitors)),
        letter_bytes=config.events.letter_bytes or _letter_bytes(config),
        max_classes=config.classes.max,
        min_learns=config.classes.min_learns,
        labels=_labels(config) if config.keeps_events else None,
        decision=rule(config),
        **msgspec.structs.asdict(config.predictions),
    )


def rule(config: Config) -> DecisionRule | None:
    """By which it is decided; None where it is not."""
    return DecisionRule(**msgspec.structs.asdict(config.decision)) if config.decision.is_given else None


def _monitor(config: MonitorConfig) -> MonitorSettings:
    given = msgspec.structs.asdict(config)
    return MonitorSettings(**{name: value for name, value in given.items() if value is not None})


def _letter_bytes(config: Config) -> int:
    """The limit of dead letters where topics take less than usual."""
    most = config.predictions.max_bytes
    return most if most < USUAL_LIMIT else 0


def _labels(config: Config) -> LabelSettings:
    topic, labels, repeats = config.topics.labels, config.labels, config.events.repeats
    memory = config.labels_memory
    return LabelSettings(topic, labels.window, memory, repeats, labels.ranks, labels.weights)


class ConfiguredJob:
    """A configuration as the engine sees it: a `JobConfiguration`."""

    def __init__(self, config: Config) -> None:
        self.semantic_config: Mapping[str, Any] = semantic_config_of(config)

    def changes_since(self, before: Mapping[str, Any]) -> Sequence[ConfigChange]:
        """What is different from what was journalled, newer keys apart that have their defaults.

        Both as a journal gives them back: a number is written as it was given, 0 or 0.0. A budget that is not
        given is the journal's.
        """
        then, now = (semantic_config_of(restored(shaping)) for shaping in (before, self.semantic_config))
        if now["memory"]["budget"] is None:
            now["memory"] = then["memory"]
        return changes(then, now)

    def learner(self, shaping: Mapping[str, Any]) -> EventProcessor:
        """One that has learned nothing, under a configuration that was journalled."""
        return learner(restored(shaping))

    def apply(self, learner: EventProcessor, shaping: Mapping[str, Any], *, counts_room: bool = True) -> None:
        """Let a learner go on under a configuration that was journalled."""
        then = restored(shaping)
        learner.reconfigure(settings(then), model(then), counts_room=counts_room)


def identity(config: Config) -> JobIdentity:
    """What has to stay the same for a journal to be continued."""
    return JobIdentity(
        config.topics.read,
        config.topics.journal,
        config_hash(config),
        fingerprint(),
        ConfiguredJob(config),
        config.events.partitions,
    )


def commit_policy(config: Config) -> CommitPolicy:
    """When commits and snapshots are due."""
    return CommitPolicy(
        config.commit.events, config.commit.interval, config.snapshots.every_events, config.snapshots.every
    )


def as_journalled(config: Config, shaping: Mapping[str, Any]) -> Config:
    """What a journal says of the configuration, and of log and durability what the present one says."""
    return msgspec.structs.replace(restored(shaping), **{name: getattr(config, name) for name in SHAPELESS})


def snapshots(config: Config) -> SnapshotFolder:
    """Where snapshots lie."""
    return SnapshotFolder(config.snapshot_folder, config.snapshots.keep, report_damaged_snapshot)


def report_damaged_snapshot(damaged: Damaged) -> None:
    """Say that a snapshot could not be read."""
    print(printable(f"passing over {damaged.path}: {damaged.reason}"), file=sys.stderr)


def owner() -> str:
    """What a learner of this process is called."""
    return f"{socket.gethostname()}:{os.getpid()}"


def check_topics(config: Config, log: Log) -> None:
    """Raise `UnknownTopic` where a topic or a shard's partition is missing, before anything is learned."""
    for key, name in config.topics.names:
        there = {partition.number for partition in log.partitions(name)}
        if key == "events" and (missing := sorted(set(config.events.partitions) - there)):
            raise UnknownTopic(
                f"events.partitions names {', '.join(map(str, missing))}, and topic {name!r} has "
                f"partitions 0 to {len(there) - 1}: name those that there are, or add partitions to the topic"
            )


def fitted(config: Config, log: Log) -> Config:
    """The configuration with a limit of predictions that the topics take; says so where it is another."""
    sizes = log.sizes([name for key, name in config.topics.names if key not in {"events", "labels"}])
    letters, needed = config.topics.dead_letters, largest_body(config.events.max_bytes) + _BESIDE_A_BODY
    taken = [topic for topic in (config.topics.predictions, config.topics.metrics) if topic in sizes]
    if config.predictions.top and sizes.get(letters, USUAL_LIMIT) < USUAL_LIMIT:
        taken.append(letters)
        needed = 0
    tenants = config.topics.tenants
    if sizes.get(tenants, TENANT_BYTES) < TENANT_BYTES:
        raise ConfigError(
            f"topic {tenants} takes records of up to {sizes[tenants]:,} bytes, and that of a tenant may have "
            f"{TENANT_BYTES:,}; `streamnb doctor` says how to raise its max.message.bytes"
        )
    most = config.predictions.max_bytes
    for topic in taken:
        if not 0 < most <= sizes[topic]:
            most = sizes[topic]
            _report_limit(topic, most, "larger predictions tell fewer labels, and of dead letters")
    events, takes = config.events, sizes.get(letters, needed)
    if takes < needed and not 0 < events.letter_bytes <= takes:
        events = msgspec.structs.replace(events, letter_bytes=takes)
        _report_limit(letters, takes, "of a dead letter that is larger")
    predictions = msgspec.structs.replace(config.predictions, max_bytes=most)
    return msgspec.structs.replace(config, predictions=predictions, events=events)


def _report_limit(topic: str, most: int, cut: str) -> None:
    print(
        f"topic {topic} takes records of up to {most:,} bytes: {cut} the beginning is kept; "
        "`streamnb doctor` says how to raise its max.message.bytes",
        file=sys.stderr,
    )


def begun_configuration(config: Config, log: Log, kept: Snapshots | None = None) -> Config:
    """Return the configuration with the budget that it leaves to the log.

    That of its journal holds where a configuration does not say. A journal of which the beginning is gone has
    it in snapshots: those `kept`, or those that the configuration names.
    """
    if config.memory.budget is not None:
        return config
    return _with_budget(config, _begun(config, log, snapshots(config) if kept is None else kept))


def _begun(config: Config, log: Log, kept: Snapshots) -> Mapping[str, Any] | None:
    """Under which configuration a log was begun, as far as it says so; None where it is yet to begin."""
    first = next(entries(log, log.partitions(config.topics.journal)[0]), None)
    if first is None or first.record.n == 0:
        return None if first is None else first.record.config
    try:
        return standing(log, kept, identity(config)).origin.config
    except JournalError:  # that it cannot be recovered says who recovers it
        return {}


def _with_budget(config: Config, begun: Mapping[str, Any] | None) -> Config:
    """Return the configuration with the budget with which its journal began.

    Where it is yet to begin, that is half of the memory there is, up to `_MOST_BUDGET`, but none for a shard.
    """
    if begun is not None:
        budget = begun.get("memory", {}).get("budget")
    elif config.events.partitions:
        budget = 0
    else:
        budget = min(machine_memory() // 2, _MOST_BUDGET)
    return msgspec.structs.replace(config, memory=msgspec.structs.replace(config.memory, budget=budget))


def worker(
    config: Config, learner: EventProcessor, log: Log, sensor: Sensor = SILENT, *, accepts_loss: bool = False
) -> Worker:
    """A worker on a log, not started yet. What is left to the log is looked for once it is the learner."""

    def elected() -> JobIdentity:
        found = begun_configuration(config, log)
        if found != config:
            learner.settings, learner.model = settings(found), model(found)
        return identity(found)

    of = log, snapshots(config), learner, identity(config), commit_policy(config)
    return Worker(*of, sensor=sensor, accepts_loss=accepts_loss, elected=elected)


def refuse_before_kernels(config: Config, log: Log) -> None:
    """Raise JournalError for a configuration under which a recovery would, where kernels are to be compiled.

    Where they are there already a recovery says so as soon: it need not look through the journal twice.
    """
    if not kernel_cache.is_ready(reach(config)):
        changes_of(config, log)


def changes_of(config: Config, log: Log) -> Sequence[ConfigChange]:
    """What a start would change of the journalled configuration; raises OtherStream where it would refuse."""
    try:
        config = begun_configuration(config, log)
        of = identity(config)
        end = standing(log, snapshots(config), of)
    except StreamnbError:  # that it cannot be recovered says who recovers it
        return ()
    return refuse_changes(end, of) if end.n >= 0 else ()


def warm_up(
    config: Config | None = None, asks: Callable[[EventProcessor, Config], object] = lambda *_: None
) -> float:
    """Compile, or load, the kernels that a configuration can reach, or else all; the seconds that it took.

    Args:
        config: the configuration.
        asks: is given a learner that has learned, to be asked what a real one will be.
    """
    started = time.monotonic()
    if config is None:
        warm()
    else:
        rehearsed = learner(config)
        rehearse(rehearsed, context.schema(config))
        asks(rehearsed, config)
        kernel_cache.note_ready(reach(config))
    beta_intervals(1.0, 1.0, 0.5)  # so that the first report does not wait for scipy to be loaded
    return time.monotonic() - started


def reach(config: Config) -> str:
    """What decides which kernels are needed."""
    return repr((semantic_config_of(config), config.predictions.evidence > 0))


def tune_interpreter() -> None:
    """Set the interpreter up for a process that learns or answers, and goes on doing so.

    The garbage collector passes over what is there by now, for it stays: modules, kernels, the model.
    Otherwise it looks at all of it every few commits, and the learner stands still meanwhile. And it looks
    more rarely: an event makes some dicts and tuples, which hold no cycles and go with their commit; looking
    at them after every few hundred events takes a sixth of the time that an event costs.

    Threads that are all busy take turns less often. One learns, others write what was learned before: each
    finds the caches full of what the other one needed. Who waits for the network lets go of its turn anyway.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTED_AFTER)
    sys.setswitchinterval(_TURN_SECONDS)
