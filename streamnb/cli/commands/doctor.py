"""``streamnb doctor``: diagnose log, topics, permissions and this machine, without changes."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from importlib.metadata import version

from streamnb.cli.checks.cluster_checks import (
    SeenCluster,
    check_brokers,
    check_group,
    check_permissions,
    check_topics,
    check_transaction,
)
from streamnb.cli.checks.diagnostics import Diagnosis, Severity, finding_of
from streamnb.cli.checks.kafka_tools import KafkaTools, principal_of
from streamnb.cli.checks.log_checks import (
    check_journal,
    check_recovery,
    check_replay,
    check_snapshots,
    check_strays,
    faulty,
    kept_of,
)
from streamnb.cli.checks.machine_checks import check_disk_space, check_sqlite, disk_space
from streamnb.cli.topic_requirements import acls_of, group_of, planned_topics
from streamnb.config import Config
from streamnb.engine.journal.checkpoint import positions_of
from streamnb.engine.journal.journal_entries import missing_records
from streamnb.engine.journal.journal_history import ForeignRecord, JournalEntry, entries, find, last
from streamnb.engine.journal.recovery import describe_changes, standing
from streamnb.engine.journal.recovery_faults import events_unlearned
from streamnb.engine.ports import Log, OutageListener, Partition
from streamnb.engine.topic_plan import FoundTopics
from streamnb.errors import JournalError, LogError, SnapshotError
from streamnb.event_logs.blocking_call import call_blocking
from streamnb.event_logs.kafka.kafka_admin import KafkaAdmin, NotAuthorised
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.event_logs.sqlite.sqlite_store import wal_reset_bug
from streamnb.formats.journal_record import JournalRecord
from streamnb.formats.terminal_text import printable
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.runtime import context, factories
from streamnb.runtime.next_commands import repeated
from streamnb.values.parameter_checks import pluralize

_WAL_BYTES = 64 << 20  # size of the write-ahead log before a checkpoint
_PACKAGES = {"kafka-python": "kafka-python", "librdkafka": "confluent-kafka"}
_READ_TIMES = 4  # reading takes many requests to the log


def run(options: argparse.Namespace) -> int:
    """Run the checks and print the findings; return 1 if there is a problem."""
    config = context.load_config(options)
    on_log = _kafka if config.log.is_kafka else _embedded
    findings = list(on_log(config, options.timeout))
    findings += finding_of("disk of snapshots", lambda: [_snapshot_space(config)])
    problems = sum(finding.state is Severity.PROBLEM for finding in findings)
    answer = {"problems": problems, "findings": [finding._asdict() for finding in findings]}
    print(json.dumps(answer)) if options.json else _print(findings, options)
    return 1 if problems else 0


def _print(findings: Sequence[Diagnosis], options: argparse.Namespace) -> None:
    states = max(len(finding.state) for finding in findings)
    checks = max(len(finding.check) for finding in findings)
    for finding in findings:
        found, do = (printable(repeated(text, options)) for text in (finding.found, finding.do))
        print(f"{finding.state:{states}}  {finding.check:{checks}}  {found}")
        if do:
            print(f"{'':{states}}  {'':{checks}}    {do}")


def _snapshot_space(config: Config) -> Diagnosis:
    folder = SnapshotFolder(config.snapshot_folder)
    newest = max((entry.size for entry in folder.list()[-1:]), default=0)
    return check_disk_space("snapshots", disk_space(folder.path), newest)


def _embedded(config: Config, timeout: float) -> Iterator[Diagnosis]:
    yield check_sqlite(has_bug=wal_reset_bug())
    yield from finding_of(
        "disk of the log",
        lambda: [check_disk_space("the log", disk_space(config.log.path.parent), _WAL_BYTES)],
    )
    if not config.log.path.exists():
        do = "`streamnb topics create`, or `streamnb replay FILE`"
        yield Diagnosis("log", Severity.WARNING, f"the file {config.log.path} does not exist yet", do)
        yield from finding_of("snapshots", lambda: _left_snapshots(config), Severity.PROBLEM)
        return

    def look() -> list[Diagnosis]:
        with SqliteLog(config.log.path, journal_topic=config.topics.journal) as log:
            missing = [name for _, name in config.topics.names if name not in log.topics()]
            if missing:
                found = f"{config.log.path} has no topic {', '.join(missing)}"
                made = Diagnosis("log", Severity.WARNING, found, "`streamnb topics create`")
                return [made, *(_left_snapshots(config) if config.topics.journal in missing else ())]
            findings = [
                Diagnosis("log", Severity.OK, f"{config.log.path}, {pluralize(len(log.topics()), 'topic')}")
            ]
            return findings + list(_stream(config, log, {}))

    yield from finding_of("log", lambda: call_blocking(look, seconds=timeout * _READ_TIMES), Severity.PROBLEM)


def _left_snapshots(config: Config) -> Iterator[Diagnosis]:
    """Report snapshots without a journal."""
    newest = SnapshotFolder(config.snapshot_folder).newest()
    if newest is not None:
        yield from check_journal(None, None, newest.snapshot.journal_n)


def _library(config: Config) -> Diagnosis:
    """Return the Kafka client and its version. Raises LogError if it is not installed."""
    context.library(config)
    package = _PACKAGES[config.log.client]
    return Diagnosis("client", Severity.OK, f"{config.log.client}, of {package} {version(package)}")


def _kafka(config: Config, timeout: float) -> Iterator[Diagnosis]:
    yield from finding_of("client", lambda: [_library(config)], Severity.PROBLEM)
    try:
        admin = KafkaAdmin(config.kafka.settings(config.log), timeout=timeout)
    except LogError as error:
        do = "see log.url and [kafka], and whether the cluster is up; the log cannot be checked further"
        yield Diagnosis("broker", Severity.PROBLEM, str(error), do)
        return
    with closing(admin):
        yield from _cluster(config, admin, timeout)


def _cluster(config: Config, admin: KafkaAdmin, timeout: float) -> Iterator[Diagnosis]:
    try:
        brokers = admin.brokers()
        found = admin.topics(name for _, name in config.topics.names)
    except LogError as error:
        yield Diagnosis("broker", Severity.PROBLEM, str(error))
        return
    tools = KafkaTools.from_config(config)
    yield from finding_of("broker", lambda: check_brokers(brokers, {n: admin.version(n) for n in brokers}))
    yield from check_topics(planned_topics(config, len(brokers)), found, len(brokers), tools)
    yield from finding_of("coordinator", lambda: _coordinated(config, admin, found, tools), Severity.PROBLEM)
    if config.topics.journal in found.topics:
        yield from finding_of(
            "journal", lambda: call_blocking(lambda: _read(config, found), seconds=timeout * _READ_TIMES)
        )


def _coordinated(
    config: Config, admin: KafkaAdmin, found: FoundTopics, tools: KafkaTools
) -> Iterator[Diagnosis]:
    name, group, shown = group_of(config), None, True
    try:
        group = admin.group(name)
        yield check_group(group, config.topics.journal)
    except NotAuthorised:
        hidden = f"group {name} is hidden from this user: see permissions"
        yield Diagnosis("learner", Severity.UNKNOWN, hidden)
    try:
        yield check_transaction(admin.transaction(name), time.time())
    except NotAuthorised:
        shown = False
        yield Diagnosis("transaction", Severity.UNKNOWN, f"{name} is hidden from this user: see permissions")
    seen = SeenCluster(found, group, shown)
    yield from check_permissions(acls_of(config), seen, tools, principal_of(config))


def _read(config: Config, found: FoundTopics) -> list[Diagnosis]:
    retention = {
        name: int(topic.settings["retention.ms"]) / 1000
        for name, topic in found.topics.items()
        if topic.settings and int(topic.settings["retention.ms"]) >= 0
    }
    with closing(context.open_log(config, OutageListener())) as log:
        return list(_stream(config, log, retention))


def _stream(config: Config, log: Log, retention: Mapping[str, float]) -> Iterator[Diagnosis]:
    """Check what a start would do, in its order, up to the first fault that it would refuse."""
    partition = log.partitions(config.topics.journal)[0]
    end = last(log, partition)
    if end is not None:
        yield _configuration(config, log)
    folder = SnapshotFolder(config.snapshot_folder)
    try:
        newest = folder.newest()
    except SnapshotError as error:
        yield Diagnosis("snapshots", Severity.PROBLEM, str(error))
        return
    n = None if newest is None else newest.snapshot.journal_n
    yield from check_snapshots(() if newest is None else newest.damaged)
    if end is None:
        yield from check_journal(None, None, n)
        return
    first = next(entries(log, partition))
    start = first if n is None else find(log, partition, n)
    strays: list[ForeignRecord] = []
    read = _read_journal(log, partition, None if start is None else start.offset, strays)
    faults = list(check_replay(read, -1 if n is None else n, log.offsets))
    (journal,) = check_journal(first.record, end.record, n)
    yield journal
    if start is None or journal.state is Severity.PROBLEM:
        return
    yield from check_strays(strays)
    yield from faults or _unlearned(config, log, start, retention)


def _read_journal(
    log: Log, journal: Partition, offset: int | None, strays: list[ForeignRecord]
) -> Iterator[JournalRecord]:
    for entry in entries(log, journal, offset):
        strays += entry.strays
        yield entry.record


def _unlearned(
    config: Config, log: Log, start: JournalEntry, retention: Mapping[str, float]
) -> Iterator[Diagnosis]:
    try:
        identity = factories.identity(config)
        missing = missing_records(log, standing(log, factories.snapshots(config), identity), identity)
    except JournalError as error:
        yield Diagnosis("recovery", Severity.PROBLEM, str(error))
        return
    if missing:
        yield faulty("recovery", events_unlearned(missing))
    else:
        yield from check_recovery(kept_of(log, positions_of(start.record)), retention, time.time())


def _configuration(config: Config, log: Log) -> Diagnosis:
    try:
        changes = describe_changes(factories.changes_of(config, log))
    except JournalError as error:
        return Diagnosis("configuration", Severity.PROBLEM, str(error))
    found = f"other from the next run on: {changes}" if changes else "that of the journal"
    return Diagnosis("configuration", Severity.OK, found)
