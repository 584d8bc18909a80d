"""``streamnb topics plan|create``: topics and ACLs of a model."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from streamnb.cli.checks.kafka_tools import KafkaTools, principal_of
from streamnb.cli.topic_requirements import _MEANINGS, acls_of_all, planned_topics
from streamnb.config import Config
from streamnb.engine.ports import Difference
from streamnb.engine.topic_plan import FoundTopics, TopicAdmin, TopicSpec, differences, fitted_to
from streamnb.errors import ConfigError, LogError, Unavailable
from streamnb.reports.text_columns import table
from streamnb.runtime import context
from streamnb.telemetry.worker_observers import OutageReporter

_STARTING_SECONDS = 60.0
"""Time that `create` waits for a starting cluster."""
_PAUSE = 0.5


class TopicRow(NamedTuple):
    """One topic of the plan.

    Attributes:
        topic: as it should be.
        state: ``ok``, ``differs``, ``missing``, ``hidden`` from the current user, or ``created``.
        differences: differences from the plan.
        is_seen: False if the settings are hidden from the current user.
    """

    topic: TopicSpec
    state: str
    differences: tuple[Difference, ...] = ()
    is_seen: bool = True


def run(options: argparse.Namespace) -> int:
    """Show the plan, or create missing topics; existing ones are never changed."""
    config = context.load_config(options)
    creates = options.action == "create"
    principal, acls = _principal(options, config), acls_of_all(config)

    def ask(admin: TopicAdmin) -> list[TopicRow]:
        brokers = len(admin.brokers())
        if creates and not brokers:
            raise Unavailable(f"no broker of {config.log.url} is up")
        planned = planned_topics(config, brokers)
        return _create(admin, planned) if creates else _look(admin, planned)

    rows = _answer(config, ask, _STARTING_SECONDS if creates else 0.0)
    tools = KafkaTools.from_config(config) if config.log.is_kafka else None
    lines = list(tools.grants(acls, principal)) if tools and principal else []
    if options.json:
        print(json.dumps({"topics": [_as_json(row, tools) for row in rows], "acls": lines}))
        return 0
    _print_rows(rows, tools)
    if lines:
        print(f"\nwhat {principal} needs to be allowed", *lines, sep="\n")
    return 0


def _answer(config: Config, ask: Callable[[TopicAdmin], list[TopicRow]], seconds: float) -> list[TopicRow]:
    """Ask a log, again while it is unreachable, such as a starting broker.

    Raises LogError after `seconds`, or `kafka.give_up_after` if that is shorter.
    """
    waiting, began = OutageReporter(min(seconds, config.kafka.give_up_after)), time.monotonic()
    while True:
        try:
            with closing(_open_admin(config)) as admin:
                return ask(admin)
        except LogError as error:
            if not isinstance(error, Unavailable) and not isinstance(error.__cause__, Unavailable):
                raise
            waiting.unreachable(Unavailable(str(error)), time.monotonic() - began)
            time.sleep(_PAUSE)


def _row(topic: TopicSpec, found: FoundTopics) -> TopicRow:
    there = found.topics.get(topic.name)
    if there is None:
        return TopicRow(topic, "hidden" if topic.name in found.hidden else "missing")
    differing = differences(topic, there)
    is_seen = bool(there.settings or not topic.settings)
    return TopicRow(topic, "differs" if differing else "ok", differing, is_seen)


def _look(admin: TopicAdmin, planned: Sequence[TopicSpec]) -> list[TopicRow]:
    found = admin.topics([topic.name for topic in planned])
    return [_row(topic, found) for topic in fitted_to(planned, found.topics)]


def _create(admin: TopicAdmin, planned: Sequence[TopicSpec]) -> list[TopicRow]:
    """Create missing topics and look again; a topic created concurrently is accepted."""
    missing = [row.topic for row in _look(admin, planned) if row.state in _MEANINGS]
    created = admin.create(missing)
    return [
        row._replace(state="created") if row.topic.name in created and row.state == "ok" else row
        for row in _look(admin, planned)
    ]


def _principal(options: argparse.Namespace, config: Config) -> str | None:
    """Return the principal of the ACLs. Raises ConfigError for one on an embedded log."""
    if config.log.is_kafka:
        return principal_of(config, options.principal)
    if options.principal:
        raise ConfigError("an embedded log has no users: --principal is for Kafka")
    return None


def _open_admin(config: Config) -> TopicAdmin:
    """Open the admin client of the log; only the needed client is imported."""
    if config.log.is_kafka:
        from streamnb.event_logs.kafka.kafka_admin import KafkaAdmin  # noqa: PLC0415

        return KafkaAdmin(config.kafka.settings(config.log))
    from streamnb.event_logs.sqlite.sqlite_log import SqliteAdmin  # noqa: PLC0415

    return SqliteAdmin(config.log.path, journal_topic=config.topics.journal)


def _as_json(row: TopicRow, tools: KafkaTools | None) -> dict[str, Any]:
    differing = [
        {**difference._asdict(), "change": tools.change(row.topic.name, difference) if tools else None}
        for difference in row.differences
    ]
    return {**row.topic._asdict(), "state": row.state, "differences": differing, "seen": row.is_seen}


def _print_rows(rows: Sequence[TopicRow], tools: KafkaTools | None) -> None:
    cells = [
        (
            row.topic.name,
            row.state.upper() if row.state == "differs" else row.state,
            row.topic.partitions,
            row.topic.replication,
            " ".join(f"{key}={value}" for key, value in sorted(row.topic.settings.items())),
        )
        for row in rows
    ]
    print(table(cells, ("topic", "state", "partitions", "replication", "settings")))
    for state, meaning in _MEANINGS.items():
        if names := [row.topic.name for row in rows if row.state == state]:
            print(f"\n{', '.join(names)}: {meaning}")
    if names := [row.topic.name for row in rows if not row.is_seen]:
        print(f"\n{', '.join(names)}: the user may not see the settings, which needs DESCRIBE_CONFIGS")
    for row in rows:
        for difference in row.differences:
            print(f"\n{row.topic.name}: {difference.what} is {difference.found}, not {difference.planned}")
            if tools:
                print(f"  {tools.change(row.topic.name, difference)}")
