"""Context of every command: configuration and log, but no model, which is slow to import."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamnb import config as configuration
from streamnb.config import Config
from streamnb.config.shard_constraints import refuse_of_shards
from streamnb.engine.ports import Log, OutageListener
from streamnb.errors import ConfigError, LogError
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.formats.event_schema import AttributeSpec, EventSchema
from streamnb.telemetry.log_output import OUTPUT
from streamnb.telemetry.worker_observers import OutageReporter

if TYPE_CHECKING:
    from streamnb.event_logs.kafka.kafka_python_client import KafkaPython
    from streamnb.event_logs.kafka.librdkafka_client import Librdkafka

_LOG_FLAGS = ("format", "level")
_ELECTED_WITHIN = 1.0  # seconds of one attempt: a standby does other work in between
_CALM = 40.0  # seconds; four times what a request waits by itself
_SQLITE = b"SQLite format 3\0"


def load_config(options: argparse.Namespace, *more: str) -> Config:
    """Load the configuration of a command, and write messages in the form that it sets."""
    config = read_config(options, *more)
    OUTPUT.configure(config.log_output)
    return config


def read_config(options: argparse.Namespace, *more: str) -> Config:
    """Return the configuration of a command: file, environment, flags; `--log` is a flag for log.url.

    Raises ConfigError, as `streamnb.config.load`, for pruning that would never run (a journal may hold it
    from before the check), and for a shard whose model cannot be added.
    """
    config = configuration.load(*layers(options, *more))
    unread = config.model.prune.unread
    if unread and getattr(options, "holdout", None) is None:
        raise ConfigError(
            f"model.prune.{unread} selects words to remove, but model.prune.every is 0, which is never: "
            "set model.prune.every too, the events between two prunings, such as 10000"
        )
    if config.events.partitions:
        if not config.log.is_kafka:
            raise ConfigError(
                f"events.partitions is set, and log.url is {config.log.url}: an embedded log has one "
                "learner, which reads all of it; leave the key out, or give learners logs of their own"
            )
        refuse_of_shards(config)
    return config


def layers(options: argparse.Namespace, *more: str) -> tuple[Path | None, Mapping[str, str], list[str]]:
    """Return the file, environment and flags of a command, as `streamnb.config.load` takes them."""
    path = None if options.config is None else Path(options.config)
    url = getattr(options, "log", None)
    flags = {
        "log.url": url,
        **{f"log_output.{one}": getattr(options, f"log_{one}", None) for one in _LOG_FLAGS},
    }
    given = [f"{key}={value}" for key, value in flags.items() if value is not None]
    return path, os.environ, [*options.set, *given, *more]


def schema(config: Config) -> EventSchema:
    """Return the schema of events."""
    return EventSchema(
        attributes=tuple(
            AttributeSpec(a.name, a.kind, a.path, a.values, a.min, a.max, a.part or "")
            for a in config.attributes
        ),
        id_path=config.events.id,
        label_path=config.events.label,
        ts_path=config.events.ts or None,
        weight_path=config.events.weight or None,
        max_bytes=config.events.max_bytes,
        entity_path=(config.events.entity or "") if config.model.reads_entity else None,
        clock=config.events.clock,
        aliases=config.classes.aliases,
    )


def open_log(config: Config, patience: OutageListener | None = None) -> Log:
    """Open the log: create an embedded log with its topics, or connect to a Kafka cluster.

    `patience` limits the wait for a cluster or a locked file. The default waits for a cluster as configured,
    and not for a file.
    """
    if not config.log.is_kafka:
        log = _embedded_log(config, patience)
        there = log.topics()  # these keep their partitions; a journal has to have one
        for key, name in config.topics.names:
            partitions = 1 if key == "journal" else there.get(name, config.topics.partitions)
            log.create_topic(name, partitions)
        return log
    from streamnb.event_logs.kafka.kafka_log import KafkaLog  # noqa: PLC0415  only Kafka needs it

    return KafkaLog(
        _answering(config.log.hang_timeout) | config.kafka.settings(config.log),
        model=config.model.name,
        journal_topic=config.topics.journal,
        requests_topic=config.topics.requests,
        session_timeout=config.log.session_timeout,
        transaction_timeout=config.kafka.transaction_timeout,
        elected_within=_ELECTED_WITHIN,
        patience=patience or OutageReporter(config.kafka.give_up_after),
        library=library(config),
    )


def _answering(hang_timeout: float) -> dict[str, Any]:
    """Return a request timeout below the hang timeout, if that is short."""
    return {"request_timeout_ms": max(1_000, int(hang_timeout * 250))} if 0 < hang_timeout < _CALM else {}


def library(config: Config) -> type[KafkaPython | Librdkafka]:
    """Return the Kafka client class; raise LogError if it is not installed."""
    if config.log.client == "kafka-python":
        from streamnb.event_logs.kafka.kafka_python_client import KafkaPython  # noqa: PLC0415  only its users need it

        return KafkaPython
    try:
        from streamnb.event_logs.kafka.librdkafka_client import Librdkafka  # noqa: PLC0415  an extra
    except ImportError as error:
        raise LogError(
            f'log.client = "librdkafka" needs confluent-kafka ({error}); '
            "pip install 'streamnb[librdkafka]', or set log.client = \"kafka-python\""
        ) from error
    return Librdkafka


def existing_log(config: Config, patience: OutageListener | None = None) -> Log:
    """Open an existing log without creating anything; raise LogError if there is none."""
    if config.log.is_kafka:
        return open_log(config, patience)
    if missing := no_log(config):
        raise LogError(missing)
    return _embedded_log(config, patience)


def no_log(config: Config) -> str:
    """Return an error message if the embedded log does not exist; else empty."""
    if config.log.is_kafka or config.log.path.exists():
        return ""
    return f"there is no log at {config.log.path}: `streamnb topics create` makes one"


def _embedded_log(config: Config, patience: OutageListener | None = None) -> SqliteLog:
    return SqliteLog(
        config.log.path,
        journal_topic=config.topics.journal,
        session_timeout=config.log.session_timeout,
        patience=patience,
    )


def refuse_overwriting(flag: str, given: str, used: Iterable[str | None], how: str = "is read") -> None:
    """Raise ConfigError for a file to be written that is a log, or is used; any device or pipe will do."""
    out, is_log = Path(given), False
    if out.is_file():
        with out.open("rb") as file:
            is_log = file.read(len(_SQLITE)) == _SQLITE
    elif out.exists():
        return
    if is_log or any(_is_same(Path(one), out) for one in used if one):
        how = "is a log" if is_log else how
        raise ConfigError(f"{flag} {given}: {how}, and would be overwritten: name another file")


def _is_same(one: Path, other: Path) -> bool:
    return one.samefile(other) if one.exists() and other.exists() else one.resolve() == other.resolve()
