"""``streamnb convert``: records of other topics become events and labels, exactly once."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from itertools import islice

from prometheus_client import CollectorRegistry, make_wsgi_app

from streamnb.config import Config, SourceConfig
from streamnb.conversion.record_converter import RecordConverter
from streamnb.conversion.schema_registry import SchemaRegistry
from streamnb.conversion.source_follower import NOTICES, SourceFollower, predictions_source
from streamnb.conversion.source_metrics import SourceMetrics
from streamnb.engine.ports import Log, Record, between
from streamnb.engine.sensor import WorkerState
from streamnb.errors import ConfigError, LogError, StreamnbError, UnknownTopic
from streamnb.formats.terminal_text import emit, printable
from streamnb.runtime import context
from streamnb.runtime.shutdown import Stop
from streamnb.telemetry.http_endpoints import Health
from streamnb.telemetry.worker_observers import OutageReporter, served_health
from streamnb.values.messages import Message

_TURN_SECONDS = 0.2
_AT_ONCE = 100


def run(options: argparse.Namespace) -> int:
    """Convert until SIGTERM, SIGINT or SIGHUP, or until the end of all sources."""
    config = context.load_config(options)
    _check(config)
    with closing(context.existing_log(config, OutageReporter(config.kafka.give_up_after))) as log:
        _check_topics(config, log)
        if options.dry_run is not None:
            for source in config.sources:
                _print_outputs(config, source, log, options.dry_run)
            return 0
    stop, registry = Stop(), CollectorRegistry()
    metrics = SourceMetrics(registry)
    sources = [*config.sources, *([predictions_source(config)] if config.registry.predictions else [])]
    followers = [SourceFollower(config, source, metrics, emit) for source in sources]
    with ExitStack() as stack:
        app = make_wsgi_app(registry)
        health = served_health(config, stack, app, is_brief=options.until_end) or Health()
        for follower in followers:
            stack.callback(follower.close)
            follower.start()
        health.entered(WorkerState.RUNNING)
        while not stop() and not (options.until_end and all(one.is_at_end for one in followers)):
            for source, follower in zip(sources, followers, strict=True):
                _check_follower(source.name, follower, is_brief=options.until_end)
            health.heartbeat()
            time.sleep(_TURN_SECONDS)
        for follower in followers:
            follower.stop()
    for source, follower in zip(sources, followers, strict=True):
        found = ", ".join(f"{follower.totals[result]:,} {result}" for result in follower.results)
        text = f"source {source.name}: stopped: {found}"
        emit(Message("source-stopped", text, source=source.name, **_fields(follower)))
    return 0


def _check_follower(name: str, follower: SourceFollower, *, is_brief: bool) -> None:
    """Raise StreamnbError if a source ended, or cannot reach its end because only a person can help."""
    error = follower.error
    if not follower.is_alive or (is_brief and error is not None and not isinstance(error, LogError)):
        text = f"{type(error).__name__}: {error}" if not isinstance(error, StreamnbError) else str(error)
        raise StreamnbError(f"source {name} was ended: {text}") from error


def _fields(follower: SourceFollower) -> dict[str, int]:
    return {result.replace("-", "_"): follower.totals[result] for result in follower.results}


def _check(config: Config) -> None:
    """Raise ConfigError for sources that cannot be converted as they are declared."""
    copied = config.registry.predictions
    if not (config.sources or copied):
        raise ConfigError("no [[sources]] are declared: docs/sources.md shows one")
    used = {name: f"topics.{key}" for key, name in config.topics.names}
    if copied and (copied in used or not config.registry.url):
        why = "registry.url is not set" if copied not in used else f"that is {used[copied]}"
        raise ConfigError(f"registry.predictions is {copied!r}, but {why}")
    used[copied] = "registry.predictions"
    for i, source in enumerate(config.sources):
        if source.topic in used:
            raise ConfigError(f"sources[{i}].topic is {source.topic!r}, which is {used[source.topic]}")
        used[source.topic] = f"sources[{i}].topic, too: each of its rows would be learned twice"
        if source.envelope != "debezium":
            continue
        if not config.topics.labels:
            raise ConfigError(f'sources[{i}].envelope is "debezium", which writes labels: set topics.labels')
        if config.events.repeats == "learn":
            raise ConfigError(
                f'sources[{i}].envelope is "debezium", and events.repeats is "learn": a connector repeats '
                'rows after a restart, which would be events of their own. Set events.repeats = "skip"'
            )


def _check_topics(config: Config, log: Log) -> None:
    """Raise UnknownTopic for a topic that does not exist."""
    topics = config.topics
    written = [topics.events[0], topics.dead_letters, *([topics.labels] if topics.labels else [])]
    written += [topics.predictions, config.registry.predictions] if config.registry.predictions else []
    for topic in [*(source.topic for source in config.sources), *written]:
        if not log.partitions(topic):
            raise UnknownTopic(
                f"topic {topic!r} does not exist: `streamnb topics create` creates topics of streamnb"
            )


def _print_outputs(config: Config, source: SourceConfig, log: Log, n: int) -> None:
    """Print what the first records of a source become."""
    registry = SchemaRegistry(config.registry) if config.registry.url else None
    notices: dict[tuple[str, str], str] = {}

    def notice(name: str, reason: str) -> None:
        notices[name, reason] = NOTICES[reason].format(name=name)

    converter = RecordConverter(source, config, registry, notice)
    for record in _first(log, source.topic, n):
        print(f"{source.topic}/{record.partition.number} offset {record.offset}")
        outputs = converter.outputs(record)
        if not outputs:
            print("  nothing")
        for output in outputs:
            headers = {name: content.decode(errors="replace") for name, content in output.headers}
            is_letter = "reason" in headers
            text = f"{headers['reason']}: {headers['detail']}" if is_letter else output.value.decode()
            print(f"  {output.topic}: {printable(text)}")
    for text in notices.values():
        print(f"source {source.name}: {text}")


def _first(log: Log, topic: str, n: int) -> Sequence[Record]:
    """Return the first records of a topic, of all partitions."""
    found: list[Record] = []
    for partition, (earliest, end) in sorted(log.offset_ranges(topic).items()):
        found += islice(between(log, partition, earliest, end, _AT_ONCE), n - len(found))
    return found
