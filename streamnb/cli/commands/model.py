"""``streamnb model``: merge, export or compare the models of several learners."""

from __future__ import annotations

import argparse
import errno
import json
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from streamnb.config import Config
from streamnb.config.shard_constraints import refuse_of_shards
from streamnb.engine.journal.checkpoint import snapshot_of
from streamnb.engine.sensor import Sensor, WorkerState
from streamnb.engine.worker_states import WorkerStates
from streamnb.errors import (
    ConfigError,
    Fenced,
    NotElected,
    SnapshotError,
    StreamnbError,
    Unavailable,
    told_as,
)
from streamnb.formats.snapshot_container import SnapshotPart
from streamnb.formats.terminal_text import emit
from streamnb.merging.merged_model_publishing import MergedModelPublisher
from streamnb.merging.shard_states import ShardState, merged, of_learner, state_of_source
from streamnb.persistence.snapshot_folder import save_file
from streamnb.reports.state_diff import StateAt, differences, n_changed, print_differences
from streamnb.runtime import context, factories
from streamnb.runtime.shutdown import Stop
from streamnb.telemetry.worker_observers import OutageReporter, watched
from streamnb.values.messages import Message
from streamnb.values.parameter_checks import pluralize

_AGAIN_SECONDS = 1.0


def run(options: argparse.Namespace) -> int:
    """Merge, export or compare; return 1 if two models differ."""
    if getattr(options, "out", None) not in {None, "-"}:
        context.refuse_overwriting("--out", options.out, (*getattr(options, "shards", ()), options.config))
    if options.action == "diff":
        return _diff(options)
    if options.action == "export":
        _write(of_learner(context.load_config(options)), options)
    else:
        _merge(options)
    return 0


def _write(state: ShardState, options: argparse.Namespace) -> None:
    """Write text, to standard output without a file name, or a snapshot if the name ends with .snb."""
    if (options.out or "").endswith(".snb"):
        parts = {"model": SnapshotPart(*state.model.state())}
        save_file(snapshot_of(state.checkpoint, parts, factories.identity(state.config)), Path(options.out))
        return
    text = state.to_text()
    if options.out in {None, "-"}:
        sys.stdout.buffer.write(text)
        return
    path = Path(options.out)
    with told_as(SnapshotError, f"{path}: cannot be written", OSError):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        temporary = path.with_name(f"{path.name}.tmp")
        temporary.write_bytes(text)
        temporary.replace(path)


def _diff(options: argparse.Namespace) -> int:
    before, after = map(_state_at, (options.before, options.after))
    answer = differences(before, after, options.top) | {"counts": n_changed(before, after)}
    for side in ("before", "after"):
        answer[side] = {key: answer[side][key] for key in ("learned", "classes", "attributes")}
    if options.json:
        print(json.dumps(answer))
    else:
        print_differences(answer, (options.before, options.after))
    found = [one for one in answer.values() if isinstance(one, list)]
    return 1 if any(found) or answer["counts"] or any((answer["attributes"] or {}).values()) else 0


def _state_at(place: str) -> StateAt:
    state = state_of_source(place)
    return StateAt(state.checkpoint, factories.learner(state.config, state.model))


def _merge(options: argparse.Namespace) -> None:
    config = context.load_config(options, "memory.budget=0")
    if config.events.partitions:
        raise ConfigError("events.partitions is set: the merged model is of all shards; leave it out")
    refuse_of_shards(config)
    if options.out is not None:
        _write(merged([state_of_source(place) for place in options.shards], config), options)
    elif not config.log.is_kafka:
        raise ConfigError(
            f"log.url is {config.log.url}: a merged model is followed on a Kafka cluster, and an embedded "
            "log has one learner; --out FILE writes the sum as text, and as a snapshot where the name ends "
            "with .snb"
        )
    else:
        stop = Stop()
        waiting = OutageReporter(config.kafka.give_up_after, stop)
        with watched(config) if options.every else nullcontext(Sensor()) as sensor:
            while not stop():
                waiting.states = WorkerStates(sensor)
                waiting.states.begin()  # probes do not see STOPPED while it begins again
                try:
                    _publish(config, options, stop, waiting)
                    break
                except Unavailable:
                    if options.every is None or not stop():
                        raise
                except Fenced as error:
                    if options.every is None:
                        raise
                    text = f"begins again: {error}"
                    sensor.noted(Message("merge-restarts", text, error=str(error)))
            waiting.states.enter(WorkerState.STOPPED)


def _publish(config: Config, options: argparse.Namespace, stop: Stop, waiting: OutageReporter) -> None:
    """Become the only writer of the merged model's journal, and publish.

    Raises Fenced if another writer took over, as after an outage.
    """
    sensor = waiting.states.sensor
    state = _first(config, options, stop, waiting)
    if state is None:
        return
    log = context.open_log(config, waiting)
    factories.check_topics(config, log)
    worker = stop.worker = factories.worker(
        config, factories.learner(config), log, sensor, states=waiting.states
    )
    try:
        identity = factories.identity(factories.begun_configuration(config, log))
        publisher = MergedModelPublisher(config, log, worker, factories.snapshots(config), identity, sensor)
        publisher.refuse(state)
        worker.await_leadership(factories.owner(), partial(_stand_by, once=options.every is None))
        if options.every is not None:
            publisher.follow(options.shards, options.every, stop, waiting)
        elif worker.is_restored:
            for line in (*publisher.undone(state), *(missing := publisher.missing(state))):
                emit(line)
            _print_progress(options, publisher.publish(state), state, missing)
    finally:
        worker.close()


def _first(
    config: Config, options: argparse.Namespace, stop: Callable[[], bool], waiting: OutageReporter
) -> ShardState | None:
    """Return the first merged state; None if stopped before the shards had one."""
    noted, sensor = "", waiting.states.sensor
    while not stop():
        try:
            shards = [state_of_source(place, sensor.heartbeat, waiting) for place in options.shards]
            return merged(shards, config)
        except ConfigError:
            raise
        except StreamnbError as error:
            if options.every is None:
                raise
            if str(error) != noted:
                sensor.noted(Message("merge-waits", f"waiting: {error}", error=str(error)))
            noted = str(error)
        sensor.heartbeat()
        time.sleep(_AGAIN_SECONDS)
    return None


def _stand_by(error: NotElected, *, once: bool) -> None:
    """Print the reason for waiting. Raises NotElected if a single merge finds another publisher."""
    if once and "is alive" in str(error):
        raise NotElected(
            f"{error}: it publishes what shards keep by itself; stop it first, or stand by (--every SECONDS)"
        )
    emit(Message("standing-by", f"standing by: {error}", reason=str(error)))


def _print_progress(options: argparse.Namespace, n: int, state: ShardState, missing: Sequence[str]) -> None:
    positions = [[*place, one.position, one.by] for place, one in sorted(state.positions.items())]
    n_events = state.model.n_events
    answer: dict[str, Any] = {"n": n, "events": n_events, "positions": positions, "missing": missing}
    learned = f"{pluralize(n_events, 'event')} of {pluralize(len(positions), 'partition')}"
    print(json.dumps(answer) if options.json else f"{learned}, installed by journal record {n}")
