"""Build learner, worker and snapshot folder from the configuration; `context` builds schema and log."""

from __future__ import annotations

import gc
import math
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from streamnb.config import SHAPELESS, Config, changes, config_hash, restored, semantic_config_of
from streamnb.config.model_factory import model as model_in_memory
from streamnb.config.monitor_config import MonitorConfig
from streamnb.engine.journal.job_identity import JobIdentity
from streamnb.engine.journal.journal_history import entries, find
from streamnb.engine.journal.recovery import describe_changes, refuse_changes, standing
from streamnb.engine.journal.snapshot_store import Snapshots
from streamnb.engine.ports import Log
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.sensor import SILENT, Sensor
from streamnb.engine.settings import LabelSettings, MonitorSettings, Pruning, Settings
from streamnb.engine.topic_plan import TENANT_BYTES
from streamnb.engine.worker_states import WorkerStates
from streamnb.errors import (
    ConfigError,
    JournalError,
    LogError,
    OtherStream,
    SnapshotError,
    StreamnbError,
    UnknownTopic,
)
from streamnb.formats.dead_letter_record import USUAL_LIMIT, letter_limit
from streamnb.formats.journal_record import ConfigChange
from streamnb.formats.snapshot_container import Snapshot
from streamnb.formats.terminal_text import emit
from streamnb.kernels import kernel_cache
from streamnb.models.interface.stream_model import StreamModel
from streamnb.models.tenants.tenant_models import TenantModels
from streamnb.persistence.platform_fingerprint import fingerprint
from streamnb.persistence.snapshot_folder import Damaged, SnapshotFolder
from streamnb.persistence.snapshot_mirror import SnapshotMirror
from streamnb.runtime import context
from streamnb.runtime.mapped_memory import machine_memory, mapped_beyond
from streamnb.runtime.topic_guard import loss_message
from streamnb.runtime.warmup import rehearse
from streamnb.runtime.worker import Worker
from streamnb.runtime.worker_context import CommitPolicy
from streamnb.scoring.decision_rule import DecisionRule
from streamnb.statistics.credible_intervals import beta_intervals
from streamnb.values.messages import Message

LEARN_ONLY = "predictions.by=scorers"
"""Setting that `run --learn-only` applies."""
_MOST_BUDGET = 1 << 30  # bytes
_COLLECTED_AFTER = 20_000, 20, 10  # objects, collections of those, and of the latter
_MOST_PAUSE = 60.0  # seconds
_TURN_SECONDS = 0.05  # ten times what the interpreter begins with


def model(config: Config) -> StreamModel:
    """Return an empty model; it evicts tenants beyond its memory to a file."""
    made = model_in_memory(config)
    if isinstance(made, TenantModels):
        made.evict_within(mapped_beyond(made.memory, config.snapshot_folder))
    return made


def learner(config: Config, given: StreamModel | None = None) -> EventProcessor:
    """Return an empty learner, of the configured model or of `given`."""
    return EventProcessor(settings(config), given or model(config))


def settings(config: Config) -> Settings:
    """Return the learner's settings other than the model."""
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
    """Return the decision rule; None if none is configured."""
    return DecisionRule(**msgspec.structs.asdict(config.decision)) if config.decision.is_given else None


def _monitor(config: MonitorConfig) -> MonitorSettings:
    given = msgspec.structs.asdict(config)
    return MonitorSettings(**{name: value for name, value in given.items() if value is not None})


def _letter_bytes(config: Config) -> int:
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
        """Return the changes against a journalled configuration, without new keys that have their defaults.

        Both are normalised as a journal restores them, so 0 equals 0.0. An unset budget is the journal's
        budget.
        """
        then, now = (semantic_config_of(restored(shaping)) for shaping in (before, self.semantic_config))
        if now["memory"]["budget"] is None:
            now["memory"] = then["memory"]
        return changes(then, now)

    def learner(self, shaping: Mapping[str, Any]) -> EventProcessor:
        """Return an empty learner under a journalled configuration."""
        return learner(restored(shaping))

    def apply(self, learner: EventProcessor, shaping: Mapping[str, Any], *, counts_room: bool = True) -> None:
        """Let a learner continue under a journalled configuration."""
        then = restored(shaping)
        learner.reconfigure(settings(then), model(then), counts_room=counts_room)


def identity(config: Config) -> JobIdentity:
    """Return the identity that a journal requires to continue."""
    return JobIdentity(
        config.topics.read,
        config.topics.journal,
        config_hash(config),
        fingerprint(),
        ConfiguredJob(config),
        config.events.partitions,
    )


def commit_policy(config: Config) -> CommitPolicy:
    """Return when commits and snapshots are due."""
    commit, snapshots = config.commit, config.snapshots
    return CommitPolicy(
        commit.events, commit.interval, snapshots.every_events, snapshots.every, snapshots.max_replay
    )


def as_journalled(config: Config, shaping: Mapping[str, Any]) -> Config:
    """Return a journalled configuration, with log and durability settings of the present one."""
    return msgspec.structs.replace(restored(shaping), **{name: getattr(config, name) for name in SHAPELESS})


def snapshots(config: Config) -> SnapshotFolder:
    """Return the snapshot folder."""
    return SnapshotFolder(config.snapshot_folder, config.snapshots.keep, report_damaged_snapshot)


def mirrored_snapshots(config: Config) -> SnapshotFolder:
    """Return the snapshot folder of a learner, which copies each snapshot to the mirror, if there is one."""
    url, keep = config.snapshots.mirror, config.snapshots.keep
    if not url:
        return snapshots(config)
    mirror = SnapshotMirror(url, keep)

    def copy(snapshot: Snapshot, file: Path) -> None:
        mirror.keep = folder.keep
        try:
            mirror.upload(snapshot, file)
        except SnapshotError as error:
            text = f"the snapshot at journal record {snapshot.journal_n} was not copied: {error}"
            emit(Message("snapshot-mirror-fails", text, journal=snapshot.journal_n, error=str(error)))

    folder = SnapshotFolder(config.snapshot_folder, keep, report_damaged_snapshot, copy=copy)
    return folder


def fetch_snapshot(config: Config, log: Log) -> None:
    """Fetch the newest snapshot of the mirror if the folder has no newer one, and the journal has its digest.

    Prints what it did, also that the mirror does not answer.
    """
    if not (url := config.snapshots.mirror):
        return
    journal = log.partitions(config.topics.journal)[0]
    newest = snapshots(config).newest_record()
    try:
        mirror = SnapshotMirror(url)
        for found in reversed([one for one in mirror.list() if one.n > newest]):
            entry = find(log, journal, found.n)
            if entry is not None and entry.record.digest == found.digest:
                file = mirror.download(found, config.snapshot_folder)
                text = f"fetched the snapshot at journal record {found.n} from {url}"
                emit(Message("snapshot-fetched", text, journal=found.n, file=str(file)))
                return
    except SnapshotError as error:
        text = f"no snapshot was fetched: {error}"
        emit(Message("snapshot-mirror-fails", text, journal=None, error=str(error)))


class MirrorFetches:
    """Fetches of a process that begins again and again: at once, then after a pause that doubles.

    Args:
        config: with the mirror.
        clock: monotonic, in seconds.
    """

    def __init__(self, config: Config, clock: Callable[[], float] = time.monotonic) -> None:
        self._config, self._clock = config, clock
        self._pause, self._due = 0.0, -math.inf

    def __call__(self, log: Log) -> None:
        """Fetch the newest snapshot, if that is due."""
        if (now := self._clock()) >= self._due:
            self._pause = min(max(1.0, 2 * self._pause), _MOST_PAUSE)
            self._due = now + self._pause
            fetch_snapshot(self._config, log)

    def succeeded(self) -> None:
        """Fetch at once the next time: the process had what it needed."""
        self._pause, self._due = 0.0, -math.inf


def report_damaged_snapshot(damaged: Damaged) -> None:
    """Print that a snapshot could not be read."""
    emit(damaged.message)


def owner() -> str:
    """Return the name of a learner in this process."""
    return f"{socket.gethostname()}:{os.getpid()}"


def check_topics(
    config: Config, log: Log, *, accepts_loss: bool = False, remedy: str = "`streamnb run --accept-loss`"
) -> None:
    """Check the topics before anything is learned; warn of settings by which they lose records.

    Raises UnknownTopic if a topic or a shard's partition is missing, and LogError if records would be lost
    that were never learned, unless `accepts_loss`.
    """
    for key, name in config.topics.names:
        there = {partition.number for partition in log.partitions(name)}
        if key == "events" and (missing := sorted(set(config.events.partitions) - there)):
            raise UnknownTopic(
                f"events.partitions names {', '.join(map(str, missing))}, and topic {name!r} has "
                f"partitions 0 to {len(there) - 1}: name those that there are, or add partitions to the topic"
            )
    for loss in log.losses({name: key for key, name in config.topics.names}):
        if loss.is_fatal and not accepts_loss:
            raise LogError(f"{loss}, or continue with what it keeps: {remedy}")
        emit(loss_message(loss))


def fitted(config: Config, log: Log) -> Config:
    """Return the configuration with the topics' limit of predictions; print the limit if it changes."""
    sizes = log.sizes([name for key, name in config.topics.names if key not in {"events", "labels"}])
    letters = config.topics.dead_letters
    shortens_letters = True
    taken = [topic for topic in (config.topics.predictions, config.topics.metrics) if topic in sizes]
    if config.predictions.top and sizes.get(letters, USUAL_LIMIT) < USUAL_LIMIT:
        taken.append(letters)
        shortens_letters = False
    tenants = config.topics.tenants
    if sizes.get(tenants, TENANT_BYTES) < TENANT_BYTES:
        raise ConfigError(
            f"topic {tenants} takes records of up to {sizes[tenants]:,} bytes, and a tenant's may have "
            f"{TENANT_BYTES:,}; `streamnb doctor` shows how to raise its max.message.bytes"
        )
    most = config.predictions.max_bytes
    for topic in taken:
        if not 0 < most <= sizes[topic]:
            most = sizes[topic]
            _report_limit(topic, most, "larger predictions have fewer labels, and of dead letters")
    events = config.events
    limit = letter_limit(events.max_bytes, events.letter_bytes, sizes.get(letters))
    if shortens_letters and limit != events.letter_bytes:
        events = msgspec.structs.replace(events, letter_bytes=limit)
        _report_limit(letters, limit, "of a dead letter that is larger")
    predictions = msgspec.structs.replace(config.predictions, max_bytes=most)
    return msgspec.structs.replace(config, predictions=predictions, events=events)


def _report_limit(topic: str, most: int, cut: str) -> None:
    text = (
        f"topic {topic} takes records of up to {most:,} bytes: {cut} the beginning is kept; "
        "`streamnb doctor` shows how to raise its max.message.bytes"
    )
    emit(Message("record-limit-low", text, topic=topic, max_bytes=most))


def begun_configuration(config: Config, log: Log, kept: Snapshots | None = None) -> Config:
    """Return the configuration, with the memory budget of its journal if it sets none.

    If the beginning of the journal was deleted, the budget is read from `kept`, or the configured folder.
    """
    if config.memory.budget is not None:
        return config
    return _with_budget(config, _begun(config, log, snapshots(config) if kept is None else kept))


def _begun(config: Config, log: Log, kept: Snapshots) -> Mapping[str, Any] | None:
    """Return the configuration with which a log began, as far as known; None if it is empty."""
    first = next(entries(log, log.partitions(config.topics.journal)[0]), None)
    if first is None or first.record.n == 0:
        return None if first is None else first.record.config
    try:
        return standing(log, kept, identity(config)).origin.config
    except JournalError:  # recovery reports this error
        return {}


def _with_budget(config: Config, begun: Mapping[str, Any] | None) -> Config:
    """Return the configuration with the budget with which its journal began.

    An empty journal gets half of the available memory, up to `_MOST_BUDGET`; a shard gets no budget.
    """
    if begun is not None:
        budget = begun.get("memory", {}).get("budget")
    elif config.events.partitions:
        budget = 0
    else:
        budget = min(machine_memory() // 2, _MOST_BUDGET)
    return msgspec.structs.replace(config, memory=msgspec.structs.replace(config.memory, budget=budget))


def worker(
    config: Config,
    learner: EventProcessor,
    log: Log,
    sensor: Sensor = SILENT,
    *,
    accepts_loss: bool = False,
    refuses_changes: bool = False,
    states: WorkerStates | None = None,
) -> Worker:
    """Return a worker that is not started yet; once elected, it reads the settings left to the log.

    With `refuses_changes` it raises OtherStream then if its configuration would change the journal's.
    """

    def elected() -> JobIdentity:
        if refuses_changes:
            refuse_any_change(config, log)
        found = begun_configuration(config, log)
        if found != config:
            learner.settings, learner.model = settings(found), model(found)
        return identity(found)

    of = log, mirrored_snapshots(config), learner, identity(config), commit_policy(config)
    return Worker(*of, sensor=sensor, accepts_loss=accepts_loss, elected=elected, states=states)


def reconfigure(worker: Worker, config: Config) -> None:
    """Let a worker commit and keep snapshots by another configuration from now on."""
    worker.context.policy = commit_policy(config)
    if isinstance(folder := worker.context.snapshots, SnapshotFolder):
        folder.keep = config.snapshots.keep


def refuse_before_kernels(config: Config, log: Log) -> None:
    """Reject, before kernels are compiled, a configuration that recovery would reject after compiling."""
    if not kernel_cache.is_ready(reach(config)):
        changes_of(config, log)


def refuse_any_change(config: Config, log: Log) -> None:
    """Raise OtherStream if the configuration would change the journal's."""
    if changes := changes_of(config, log):
        raise OtherStream(
            f"this configuration would change the journal's: {describe_changes(changes)}; run with the "
            "configuration of the last learner, or without --refuse-changes: `streamnb run`"
        )


def changes_of(config: Config, log: Log) -> Sequence[ConfigChange]:
    """Return the changes that a start would make to the configuration; raise OtherStream if it refuses."""
    try:
        config = begun_configuration(config, log)
        of = identity(config)
        end = standing(log, snapshots(config), of)
    except StreamnbError:  # recovery reports this error
        return ()
    return refuse_changes(end, of) if end.n >= 0 else ()


def warm_up(
    config: Config | None = None, asks: Callable[[EventProcessor, Config], object] = lambda *_: None
) -> float:
    """Compile or load the kernels of a configuration, or all kernels; return the seconds that it took.

    `asks` receives a learner that has learned, to compile the queries of a real one.
    """
    started = time.monotonic()
    if config is None:
        from streamnb.runtime.kernel_warmup import warm  # noqa: PLC0415  it loads the toolbox

        warm()
    else:
        rehearsed = learner(config)
        rehearse(rehearsed, context.schema(config))
        asks(rehearsed, config)
        kernel_cache.note_ready(reach(config))
    beta_intervals(1.0, 1.0, 0.5)  # so that the first report does not wait for scipy to be loaded
    return time.monotonic() - started


def reach(config: Config) -> str:
    """Return a key of everything that selects the kernels."""
    return repr((semantic_config_of(config), config.predictions.evidence > 0))


def tune_interpreter() -> None:
    """Tune the interpreter for a long-running process that learns or answers.

    The garbage collector ignores existing objects (modules, kernels, the model), which are permanent.
    Otherwise it scans them every few commits while the learner waits. It also runs less often: an event makes
    a few dicts and tuples without cycles that are freed with their commit. Scanning them every few hundred
    events takes a sixth of the time of an event.

    Busy threads switch less often: learner and writer threads evict each other's caches. A thread that waits
    for the network releases the interpreter anyway.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTED_AFTER)
    sys.setswitchinterval(_TURN_SECONDS)
