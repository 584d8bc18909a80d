"""Where a measurement takes place: topics of its own, that are made for it and taken away again."""

from __future__ import annotations

import argparse
import contextlib
import re
import secrets
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from streamnb.cli.topic_requirements import group_of, planned_topics
from streamnb.config import Config
from streamnb.engine.topic_plan import TopicSpec
from streamnb.errors import ConfigError, StreamnbError
from streamnb.event_logs.sqlite.sqlite_log import SqliteAdmin
from streamnb.event_logs.sqlite.sqlite_store import SqliteStore
from streamnb.runtime import context

_KEPT_MS = 3_600_000  # where topics cannot be deleted, their records go after an hour
_CHARACTERS = "letters, digits, dots, underscores and hyphens"
_PREFIX = re.compile(r"[A-Za-z0-9._-]{1,200}")
_STAMPED = {"message.timestamp.type": "LogAppendTime"}  # the broker says when, not the producer


class Route(NamedTuple):
    """What a contender reads, what it writes, and its consumer group and transactional id."""

    source: str
    target: str
    group: str


class Place(NamedTuple):
    """A log with topics of our own.

    Attributes:
        config: of the learner, with its topics.
        overrides: the keys in which `config` differs from what the user gave, ``key=value``.
        folder: for files; deleted afterwards.
        routes: contender -> its topics.
        log: what the log is, such as ``Apache Kafka 4.1``.
    """

    config: Config
    overrides: tuple[str, ...]
    folder: Path
    routes: dict[str, Route]
    log: str


@contextlib.contextmanager
def place(
    options: argparse.Namespace, prefix: str, learner: str, echoes: Sequence[str], *more: str
) -> Iterator[Place]:
    """Make topics for the contenders, all named after `prefix` and a random word, and delete them afterwards.

    On the embedded log they lie in a file of their own, in the same folder as the log's. `more` overrides the
    configuration, too.

    Raises:
        ConfigError: the prefix makes no names of topics.
        LogError: a topic cannot be made.
    """
    if not _PREFIX.fullmatch(prefix):  # a comma would make two topics of one, and the first not our own
        raise ConfigError(f"--prefix: expected 1 to 200 {_CHARACTERS}, got {prefix!r}")
    name = f"{prefix}-{secrets.token_hex(6)}"
    given = context.load_config(options)
    beside = None if given.log.is_kafka else given.log.path.resolve().parent
    with tempfile.TemporaryDirectory(prefix=f"{prefix}-", dir=beside) as folder:
        overrides = (*_overrides(name, Path(folder), is_kafka=given.log.is_kafka), *more)
        config = context.load_config(options, *overrides)
        group = group_of(config)
        routes = {learner: Route(config.topics.events[0], config.topics.predictions, group)}
        for echo in echoes:
            routes[echo] = Route(f"{name}-{echo}-in", f"{name}-{echo}-out", f"{group}-{echo}")
        on = _kafka if given.log.is_kafka else _embedded
        with on(config, routes) as log:
            yield Place(config, overrides, Path(folder), routes, log)


def _overrides(name: str, folder: Path, *, is_kafka: bool) -> tuple[str, ...]:
    """What keeps the learner away from the user's topics, snapshots and port, and lets it read our events."""
    topics = ("events", "predictions", "metrics", "dead_letters", "journal")
    return (
        *(f"topics.{topic}={name}-{topic.replace('_', '-')}" for topic in topics),
        *(f"events.{field}=$.{field}" for field in ("id", "label", "ts")),
        *([] if is_kafka else [f"log.url=sqlite:///{folder / 'log.db'}"]),
        f"model.name={name}",
        f"snapshots.folder={folder / 'snapshots'}",
        "attributes=[]",
        "http.listen=",
    )


def _planned(config: Config, routes: dict[str, Route], brokers: int) -> list[TopicSpec]:
    """The learner's topics, and for each other contender copies of those that are read and written."""
    settings = {"retention.ms": str(_KEPT_MS)} | _STAMPED if config.log.is_kafka else {}
    planned = [
        topic._replace(settings={**topic.settings, **settings}) for topic in planned_topics(config, brokers)
    ]
    (events,) = (topic for topic in planned if topic.role == "events")
    ours = {topic.name for topic in planned}
    copies = [name for route in routes.values() for name in route[:2] if name not in ours]
    return [*planned, *(events._replace(name=name) for name in copies)]


@contextlib.contextmanager
def _embedded(config: Config, routes: dict[str, Route]) -> Iterator[str]:
    """The file goes with its folder."""
    admin = SqliteAdmin(config.log.path, journal_topic=config.topics.journal)
    admin.create(_planned(config, routes, 1))
    with closing(SqliteStore(config.log.path)) as store:
        (version,) = store.db.execute("SELECT sqlite_version()").fetchone()
    yield f"SQLite {version}"


@contextlib.contextmanager
def _kafka(config: Config, routes: dict[str, Route]) -> Iterator[str]:
    from streamnb.event_logs.kafka.kafka_admin import KafkaAdmin

    with closing(KafkaAdmin(config.kafka.settings(config.log))) as admin:
        brokers = admin.brokers()
        version = ".".join(map(str, admin.version(next(iter(brokers)))))
        planned = _planned(config, routes, len(brokers))
        try:
            admin.create(planned)
            yield f"Apache Kafka {version}, {len(brokers)} broker{'s' * (len(brokers) != 1)}"
        finally:
            _delete(config, planned, routes)


def _delete(config: Config, planned: Sequence[TopicSpec], routes: dict[str, Route]) -> None:
    """Delete what was made, topics and groups; what the user may not delete is named on standard error."""
    from streamnb.event_logs.kafka.error_messages import translated
    from streamnb.event_logs.kafka.kafka_clients import Clients

    groups = [route.group for route in routes.values()]
    try:
        with translated(), closing(Clients(config.kafka.settings(config.log)).admin()) as admin:
            answers = admin.delete_topics([topic.name for topic in planned], raise_errors=False)["topics"]
            admin.delete_groups(groups)
        left = [answer["name"] for answer in answers if answer["error_code"]]
    except StreamnbError as error:
        left = [f"{topic.name} ({error})" for topic in planned]
    if left:
        print(f"streamnb: could not delete {', '.join(left)}", file=sys.stderr)
