"""What doctor finds: each check by values, and each fault made for real."""

from __future__ import annotations

import json
import shlex
import socket
import time
from contextlib import closing
from pathlib import Path

import pytest
from kafka import TopicPartition
from msgspec import structs

from streamnb.cli import main
from streamnb.cli.checks.cluster_checks import (
    SeenCluster,
    check_brokers,
    check_group,
    check_permissions,
    check_topics,
    check_transaction,
)
from streamnb.cli.checks.diagnostics import Diagnosis, Severity, finding_of
from streamnb.cli.checks.kafka_tools import KafkaTools
from streamnb.cli.checks.log_checks import JournalExtent, check_journal, check_recovery
from streamnb.cli.checks.machine_checks import DiskSpace, check_disk_space, check_sqlite, disk_space
from streamnb.engine.journal.journal_history import find, last
from streamnb.engine.journal.recovery_faults import REMEDIES
from streamnb.engine.ports import NewRecord, Partition, Transaction
from streamnb.engine.topic_plan import (
    BATCH_BYTES,
    TENANT_BYTES,
    FoundTopic,
    FoundTopics,
    plan_acls,
    plan_topics,
)
from streamnb.errors import LogError
from streamnb.event_logs.blocking_call import call_blocking
from streamnb.event_logs.kafka.consumer_group import GroupMember, client_id_of
from streamnb.event_logs.kafka.kafka_admin import Group, KafkaAdmin, OpenTransaction
from streamnb.event_logs.kafka.tool_command import ToolCommand
from streamnb.event_logs.sqlite.sqlite_store import OFFSET_BITS
from streamnb.formats.journal_record import JournalRecord, encode_journal, seal
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.runtime import context
from streamnb.runtime.next_commands import commands_in
from tests.brokers.numbered import NUMBERS
from tests.engine.test_topic_plan import all_of, configured, elected, granted, needed, secured_flags, until
from tests.support.topics_of_logs import trim

pytestmark = pytest.mark.early(54)

OK, WARNING, PROBLEM, UNKNOWN = Severity.OK, Severity.WARNING, Severity.PROBLEM, Severity.UNKNOWN
TOOLS = KafkaTools(ToolCommand("a:1", is_secured=False))
ROLES = ("events", "predictions", "metrics", "dead_letters", "journal")
NAMES = [(role, role) for role in ROLES]
PLAN = plan_topics(
    NAMES,
    partitions=2,
    replication=0,
    retention=1e5,
    max_bytes=1 << 20,
    largest_prediction=1000 << 10,
    brokers=3,
)
ALL = frozenset({"READ", "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS"})
MIB = 1 << 20


def as_planned(**other):
    """Role -> the topic as a broker would describe it, were it made as planned."""
    found = {t.name: FoundTopic(t.name, t.partitions, t.replication, ALL, t.settings) for t in PLAN}
    return found | other


def topic(role, settings=None, **other):
    found = as_planned()[role]
    return found._replace(settings=None if settings is None else {**found.settings, **settings}, **other)


def of_topics(found, brokers=3):
    return list(check_topics(PLAN, FoundTopics(found), brokers, TOOLS))


def summary(findings):
    return [(finding.check, finding.state) for finding in findings if finding.state is not OK]


# -- brokers ------------------------------------------------------------------------------------------------


def test_brokers_of_an_age_that_will_do():
    assert summary(check_brokers({1: "a:1", 2: "b:1"}, {1: (2, 7), 2: (4, 3)})) == []


def test_a_broker_that_is_too_old_is_named():
    (finding,) = [f for f in check_brokers({1: "a:1", 2: "b:1"}, {1: (2, 6), 2: (4, 3)}) if f.state is not OK]
    assert finding.state is PROBLEM
    assert finding.found == "broker 1 is of version 2.6"


# -- topics -------------------------------------------------------------------------------------------------


def test_topics_as_planned_are_well():
    assert {finding.state for finding in of_topics(as_planned())} == {OK}
    assert len(of_topics(as_planned())) == len(ROLES)


@pytest.mark.parametrize("role", ROLES)
def test_a_topic_that_is_missing(role):
    found = as_planned()
    del found[role]
    (finding,) = [finding for finding in of_topics(found) if finding.state is not OK]
    assert (finding.check, finding.state) == (f"topic {role}", PROBLEM)
    assert finding.do == "`streamnb topics create`"


def test_a_topic_that_is_hidden():
    found = as_planned()
    del found["journal"]
    findings = list(check_topics(PLAN, FoundTopics(found, frozenset({"journal"})), 3, TOOLS))
    assert summary(findings) == [("topic journal", PROBLEM)]
    assert "hidden" in findings[-1].found


HARM = [
    ("journal", {}, {"partitions": 2}, PROBLEM, "partitions is 2"),
    ("journal", {}, {"replication": 1, "settings": {"min.insync.replicas": "1"}}, WARNING, "replication is 1"),
    ("events", {}, {"replication": 2, "settings": {"min.insync.replicas": "1"}}, WARNING, "replication is 2"),
    ("journal", {"min.insync.replicas": "1"}, {}, WARNING, "min.insync.replicas is 1"),
    ("metrics", {"min.insync.replicas": "3"}, {}, WARNING, "while one broker is down"),
    ("metrics", {"min.insync.replicas": "4"}, {}, PROBLEM, "nothing can be written"),
    ("events", {"cleanup.policy": "compact"}, {}, PROBLEM, "cleanup.policy is compact"),
    ("events", {"cleanup.policy": "compact,delete"}, {}, PROBLEM, "cleanup.policy is compact,delete"),
    ("predictions", {"cleanup.policy": "compact"}, {}, PROBLEM, "cleanup.policy is compact"),
    ("journal", {"retention.ms": "604800000"}, {}, WARNING, "retention.ms is 604800000"),
    ("journal", {"retention.bytes": "1000000"}, {}, WARNING, "retention.bytes is 1000000"),
    ("journal", {"unclean.leader.election.enable": "true"}, {}, WARNING, "unclean.leader.election"),
    ("predictions", {"max.message.bytes": "20000"}, {}, WARNING, "max.message.bytes is 20000"),
    ("metrics", {"max.message.bytes": "20000"}, {}, WARNING, "max.message.bytes is 20000"),
    ("dead_letters", {"max.message.bytes": "1114112"}, {}, PROBLEM, "max.message.bytes is 1114112"),
]  # fmt: skip


@pytest.mark.parametrize(("role", "settings", "shape", "state", "said"), HARM)
def test_a_topic_that_loses_something(role, settings, shape, state, said):
    found = topic(role, {**settings, **shape.pop("settings", {})}, **shape)
    (finding,) = [finding for finding in of_topics(as_planned(**{role: found})) if finding.state is not OK]
    assert (finding.check, finding.state) == (f"topic {role}", state)
    assert said in finding.found
    assert role in finding.do, "it says what would change it"


def test_what_is_said_of_tenants_has_to_be_compacted_and_finds_room():
    (planned,) = plan_topics(
        [("tenants", "tenants")],
        partitions=1,
        replication=1,
        retention=1.0,
        max_bytes=1,
        largest_prediction=1,
        brokers=1,
    )
    most = "max.message.bytes"
    for key, value, state in (
        ("cleanup.policy", "compact", OK),
        ("cleanup.policy", "delete", WARNING),
        ("cleanup.policy", "compact,delete", WARNING),
        (most, str(TENANT_BYTES + BATCH_BYTES - 1), PROBLEM),
        (most, str(TENANT_BYTES + BATCH_BYTES), OK),
    ):
        settings = {**planned.settings, key: value}
        there = FoundTopic("tenants", 1, 1, None, settings)
        (finding,) = check_topics([planned], FoundTopics({"tenants": there}), 1, TOOLS)
        assert finding.state is state, (key, value)


def test_larger_events_need_more_room_among_the_dead_letters():
    found = as_planned(events=topic("events", {"max.message.bytes": str(9 * MIB)}))
    assert summary(of_topics(found)) == [("topic dead_letters", PROBLEM)]


def test_what_does_no_harm_is_no_finding():
    """More partitions, another retention, and one replica where there is one broker."""
    found = as_planned(
        events=topic("events", {"retention.ms": "1", "min.insync.replicas": "1"}, partitions=9, replication=1)
    )
    assert summary(of_topics(found, brokers=1)) == []


def test_settings_that_cannot_be_seen_are_unknown():
    found = as_planned(journal=topic("journal", None))
    assert summary(of_topics(found)) == [("topic journal", UNKNOWN)]


# -- permissions --------------------------------------------------------------------------------------------


def seen(**other):
    everything = SeenCluster(FoundTopics(as_planned()), Group("Stable", (), ALL), transaction=True)
    return everything._replace(**other)


def of_permissions(shown):
    return list(check_permissions(plan_acls(NAMES, "streamnb.m"), shown, TOOLS, "User:jo"))


def test_permissions_that_suffice():
    (finding,) = of_permissions(seen())
    assert finding.state is OK
    silent = {name: found._replace(operations=None) for name, found in as_planned().items()}
    (finding,) = of_permissions(seen(topics=FoundTopics(silent), group=Group("Dead", (), None)))
    assert finding.state is OK, "an old broker tells nothing"


@pytest.mark.parametrize("acl", [acl for acl in plan_acls(NAMES, "streamnb.m") if acl.resource == "topic"])
def test_each_permission_that_a_topic_lacks_is_named(acl):
    lacking = topic(acl.name, {}, operations=ALL - {acl.operation})
    (finding,) = of_permissions(seen(topics=FoundTopics(as_planned(**{acl.name: lacking}))))
    assert finding.state is (WARNING if acl.operation == "DESCRIBE_CONFIGS" else PROBLEM)
    assert f"{acl.operation} on topic {acl.name}" in finding.found
    assert finding.do.startswith("kafka-acls.sh")
    assert f"--topic {acl.name}" in finding.do
    assert "User:jo" in finding.do


@pytest.mark.parametrize(
    ("shown", "named"),
    [
        (seen(group=None), "READ on group streamnb.m"),
        (seen(group=Group("Stable", (), frozenset({"DESCRIBE"}))), "READ on group streamnb.m"),
        (seen(transaction=False), "WRITE on transactional-id streamnb.m"),
    ],
)
def test_permissions_on_group_and_transactional_id(shown, named):
    (finding,) = of_permissions(shown)
    assert finding.state is PROBLEM
    assert named in finding.found


def test_a_hidden_topic_lacks_all():
    found = as_planned()
    del found["journal"]
    findings = of_permissions(seen(topics=FoundTopics(found, frozenset({"journal"}))))
    assert [f.found.split()[1] for f in findings] == ["READ", "WRITE", "DESCRIBE_CONFIGS"]


# -- the learner and its transaction ------------------------------------------------------------------------

LEARNER = GroupMember("m-1", client_id_of("host:1"), "10.0.0.1", frozenset({TopicPartition("journal", 0)}))
STANDBY = GroupMember("m-2", client_id_of("host:2"), "10.0.0.2", frozenset())


@pytest.mark.parametrize(
    ("group", "state", "said"),
    [
        (Group("Stable", (STANDBY, LEARNER), None), OK, "host:1 at 10.0.0.1; 1 more standing by"),
        (Group("Stable", (LEARNER,), None), OK, "host:1 at 10.0.0.1"),
        (
            Group("Stable", (LEARNER, GroupMember("m-3", "rdkafka", "10.0.0.9", frozenset())), None),
            PROBLEM,
            "its group has a member that is none: client rdkafka at 10.0.0.9",
        ),
        (Group("Stable", (STANDBY,), None), WARNING, "none of them elected"),
        (Group("PreparingRebalance", (STANDBY, LEARNER), None), WARNING, "PreparingRebalance"),
        (Group("Empty", (), None), WARNING, "none is running"),
        (Group("Dead", (), None), WARNING, "none is running"),
    ],
)
def test_who_the_learner_is(group, state, said):
    finding = check_group(group, "journal")
    assert finding.state is state
    assert said in finding.found


def test_a_transaction_may_be_open_until_its_time_is_up():
    open_ = OpenTransaction("Ongoing", 1000.0, 15.0)
    assert check_transaction(None, 1000.0).state is OK
    assert check_transaction(open_, 1001.0).state is OK
    assert check_transaction(open_, 1044.9).state is OK
    hanging = check_transaction(open_, 1045.1)
    assert hanging.state is PROBLEM
    assert "find-hanging" in hanging.do


# -- the stream ---------------------------------------------------------------------------------------------


def journal_record(n, now=1000.0, positions=None, previous=""):
    return seal(JournalRecord(1, n, previous, "commit", now, (), positions or {}, "", "m"))


def journal_records(number):
    """So many, each of which follows the one before."""
    records = [journal_record(0)]
    for n in range(1, number):
        records.append(journal_record(n, previous=records[-1].digest))
    return records


def test_a_journal_that_is_whole():
    (finding,) = check_journal(journal_record(0), journal_record(7), 5)
    assert finding.state is OK
    (finding,) = check_journal(journal_record(0), journal_record(7), None)
    assert finding.state is OK


def test_a_journal_that_has_lost_its_beginning():
    assert summary(check_journal(journal_record(3), journal_record(7), 2)) == [("journal", PROBLEM)]
    assert summary(check_journal(journal_record(3), journal_record(7), None)) == [("journal", PROBLEM)]


@pytest.mark.parametrize("snapshot", [3, 5])
def test_a_journal_that_was_trimmed_behind_a_snapshot(snapshot):
    (finding,) = check_journal(journal_record(3), journal_record(7), snapshot)
    assert finding.state is OK
    assert "records 3 to 7" in finding.found


def test_a_snapshot_beyond_the_journal():
    (finding,) = check_journal(journal_record(0), journal_record(7), 8)
    assert finding.state is PROBLEM
    assert "another journal's" in finding.do


HOUR = 3600.0
EVENTS = Partition("events", 0)


@pytest.mark.parametrize(
    ("kept", "retention", "state", "said"),
    [
        (JournalExtent(EVENTS, 5, 0, 9, 0.0), {"events": 48 * HOUR}, OK, "for 48.0 h more"),
        (JournalExtent(EVENTS, 5, 0, 9, 0.0), {"events": 12 * HOUR}, WARNING, "for 12.0 h more"),
        (JournalExtent(EVENTS, 5, 0, 9, -90 * HOUR), {"events": 12 * HOUR}, WARNING, "for 0.0 h more"),
        (JournalExtent(EVENTS, 5, 0, 9, 0.0), {}, OK, "every event"),
        (JournalExtent(EVENTS, 5, 5, 5, None), {"events": 1.0}, OK, "every event"),
    ],
)
def test_what_a_recovery_finds(kept, retention, state, said):
    (finding,) = check_recovery([kept], retention, 0.0)
    assert finding.state is state
    assert said in finding.found


def test_the_partition_that_is_worst_off_counts():
    other = Partition("other", 0)
    parts = [JournalExtent(other, 5, 0, 9, 0.0), JournalExtent(EVENTS, 5, 0, 9, 0.0)]
    (finding,) = check_recovery(parts, {"events": 30 * HOUR, "other": 90 * HOUR}, 0.0)
    assert "events/0 keeps them for 30.0 h" in finding.found


# -- this machine -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("free", "needed_", "state"),
    [(9000, 100, OK), (9000, 0, OK), (390, 100, WARNING), (200, 1, WARNING), (99, 100, PROBLEM)],
)
def test_room_on_the_disk(free, needed_, state):
    place = DiskSpace(Path("/somewhere"), free * MIB, is_writable=True)
    assert check_disk_space("snapshots", place, needed_ * MIB).state is state


def test_a_folder_that_cannot_be_written():
    assert (
        check_disk_space("snapshots", DiskSpace(Path("/x"), 1 << 50, is_writable=False), 0).state is PROBLEM
    )


def test_room_is_that_of_the_nearest_folder_there_is(tmp_path):
    found = disk_space(tmp_path / "not" / "yet")
    assert found.folder == tmp_path
    assert found.is_writable
    assert found.free > 0


def test_sqlite():
    assert check_sqlite(has_bug=False).state is OK
    assert check_sqlite(has_bug=True).state is WARNING


def test_a_question_that_fails_is_a_finding():
    def fails():
        raise LogError("the disk is on fire")

    assert finding_of("log", fails) == [Diagnosis("log", UNKNOWN, "the disk is on fire")]
    assert finding_of("log", fails, PROBLEM)[0].state is PROBLEM


def test_what_does_not_answer_is_left_behind():
    hangs, hung = socket.socketpair()
    with hangs, hung:
        with pytest.raises(LogError, match="no answer"):
            call_blocking(lambda: hangs.recv(1), seconds=0.01)
        assert call_blocking(lambda: 7, seconds=60.0) == 7
        with pytest.raises(KeyError):
            call_blocking(lambda: {}["x"], seconds=60.0)
        hung.send(b"x")  # so that the thread ends


# -- the commands -------------------------------------------------------------------------------------------


def doctor(capsys, *arguments):
    """Exit code, and check -> findings."""
    code = main(["doctor", "--json", *map(str, arguments)])
    said = json.loads(capsys.readouterr().out)
    findings = [Diagnosis(**{**entry, "state": Severity(entry["state"])}) for entry in said["findings"]]
    assert said["problems"] == sum(finding.state is PROBLEM for finding in findings)
    assert code == (1 if said["problems"] else 0)
    return code, {
        check: [f for f in findings if f.check == check] for check in {finding.check for finding in findings}
    }


def events_file(tmp_path, n=30):
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps({"id": str(i), "text": "a b", "label": "x"}) + "\n" for i in range(n)))
    return path


def learn(capsys, tmp_path, *flags):
    """Stream some events, for real, with a snapshot at the end."""
    for name in topics_of(flags)[0]:
        assert main(["replay", str(events_file(tmp_path)), "--topic", name, *flags]) == 0
    assert main(["run", "--until-end", *flags]) == 0
    capsys.readouterr()


def topics_of(flags):
    """The events' topics, and the journal's."""
    config = config_of(flags)
    return config.topics.events, config.topics.journal


def config_of(flags):
    from streamnb.cli import build_parser

    return context.load_config(build_parser().parse_args(["doctor", *flags]))


def test_the_embedded_log(capsys, tmp_path):
    flags = ("--log", f"sqlite:///{tmp_path}/log.db", "--set", "http.listen=")
    code, found = doctor(capsys, *flags)
    assert code == 0
    assert found["log"][0].state is WARNING
    assert not list(tmp_path.iterdir()), "it creates nothing"
    learn(capsys, tmp_path, *flags)
    code, found = doctor(capsys, *flags)
    assert code == 0
    assert found["journal"][0].state is OK
    assert found["recovery"][0].state is OK
    assert {"sqlite", "disk of the log", "disk of snapshots"} <= set(found)
    assert found["configuration"][0][1:3] == (OK, "that of the journal")
    found = doctor(capsys, *flags, "--set", "predictions.evidence=2")[1]
    assert found["configuration"][0].found == "other from the next run on: predictions.evidence: 0 -> 2"
    code, found = doctor(capsys, *flags, "--set", "metrics.window=500")
    assert (code, found["configuration"][0].state) == (1, PROBLEM)
    assert "metrics.window was 1000 and is 500" in found["configuration"][0].found


def test_the_embedded_log_lost_what_a_recovery_needs(capsys, tmp_path):
    from streamnb.event_logs.sqlite.sqlite_log import SqliteLog

    flags = ("--log", f"sqlite:///{tmp_path}/log.db", "--set", "http.listen=")
    learn(capsys, tmp_path, *flags)
    for snapshot in (tmp_path / "log.db.snapshots").iterdir():
        snapshot.unlink()
    with SqliteLog(tmp_path / "log.db") as log:
        trim(log, Partition("events", 0), 10)
    code, found = doctor(capsys, *flags)
    assert code == 1
    assert "needs events/0 from offset 0 to 30, which the log no longer holds" in found["recovery"][0].found


def test_a_damaged_end_of_the_journal_is_named_before_the_snapshot_beyond_it(capsys, tmp_path):
    """By each command, with the next one in full; and going on without the snapshot is a way out."""
    from streamnb.event_logs.sqlite.sqlite_log import SqliteLog

    flags = ("--log", f"sqlite:///{tmp_path}/log.db", "--set", "http.listen=")
    learn(capsys, tmp_path, *flags)
    with SqliteLog(tmp_path / "log.db") as log:
        place = log._store.offset_range(Partition("journal", 0)).partition_id << OFFSET_BITS | 1
        log._store.db.execute("UPDATE records SET value = 'damaged' WHERE place = ?", (place,))
    for command in (["run", "--until-end"], ["doctor"], ["verify"]):
        assert main([*command, *flags]) == 1
        said = "".join(capsys.readouterr())
        assert "journal/0 offset 1: 7 bytes that are not a journal record" in said
        assert command == ["verify"] or "beyond" not in said
        assert f"streamnb journal skip {' '.join(flags)} 1" in said
    assert main(["journal", "skip", "1", *flags]) == 1
    assert "record 1, beyond the journal's end 0" in capsys.readouterr().err
    for snapshot in (tmp_path / "log.db.snapshots").iterdir():
        snapshot.unlink()
    assert main(["journal", "skip", "1", *flags]) == main(["run", "--until-end", *flags]) == 0


def test_a_snapshot_that_cannot_be_read_is_named_and_not_believed(capsys, tmp_path):
    flags = ("--log", f"sqlite:///{tmp_path}/log.db", "--set", "http.listen=")
    learn(capsys, tmp_path, *flags)
    folder = SnapshotFolder(config_of(flags).snapshot_folder)
    n = folder.newest().snapshot.journal_n
    damaged = folder.path / f"snapshot-{n + 10**6:020d}.snb"
    damaged.write_bytes(b"")
    code, found = doctor(capsys, *flags)
    assert code == 0
    assert f"stands at {n}" in found["journal"][0].found
    (finding,) = found["snapshots"]
    assert (finding.state, finding.found.split(" ")[0]) == (WARNING, str(damaged))


def test_snapshots_none_of_which_can_be_read(capsys, tmp_path):
    flags = ("--log", f"sqlite:///{tmp_path}/log.db", "--set", "http.listen=")
    learn(capsys, tmp_path, *flags)
    paths = list(config_of(flags).snapshot_folder.iterdir())
    for path in paths:
        path.write_bytes(b"")
    code, found = doctor(capsys, *flags)
    assert code == 1
    (finding,) = found["snapshots"]
    assert finding.state is PROBLEM
    assert all(f"{path}: the file is empty" in finding.found for path in paths)


def test_a_file_that_is_no_log(capsys, tmp_path):
    (tmp_path / "log.db").write_text("x" * 5000)
    code, found = doctor(capsys, "--log", f"sqlite:///{tmp_path}/log.db")
    assert code == 1
    assert found["log"][0].state is PROBLEM


def test_the_table(capsys, tmp_path):
    assert main(["doctor", "--log", f"sqlite:///{tmp_path}/log.db"]) == 0
    out = capsys.readouterr().out
    assert "warning" in out
    assert f"`streamnb topics create --log sqlite:///{tmp_path}/log.db`" in out


def test_a_cluster_that_does_not_answer(capsys):
    """It listens and says nothing; and nobody listens."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        code, found = doctor(
            capsys, "--log", f"kafka://127.0.0.1:{silent.getsockname()[1]}", "--timeout", "0.5"
        )
    assert code == 1
    assert "no Kafka cluster answers at 127.0.0.1" in found["broker"][0].found
    assert "disk of snapshots" in found, "what else can be found out is found out"
    code, found = doctor(capsys, "--log", "kafka://127.0.0.1:1", "--timeout", "0.5")
    assert code == 1
    assert "Connection refused" in found["broker"][0].found


# -- a real broker ------------------------------------------------------------------------------------------


@pytest.fixture
def flags(broker, tmp_path, capsys):
    """Topics as planned, of this test's own."""
    made = configured(tmp_path, broker.address, f"doctor{next(NUMBERS)}")
    assert main(["topics", "create", *made]) == 0
    capsys.readouterr()
    return made


@pytest.fixture
def admin(broker):
    from kafka import KafkaAdminClient

    with KafkaAdminClient(bootstrap_servers=broker.address) as made:
        yield made


def change(admin, topic_, **settings):
    from kafka.admin import ConfigResource

    names = {name.replace("_", "."): value for name, value in settings.items()}
    admin.alter_configs([ConfigResource("TOPIC", topic_, names)])

    def changed():
        (found,) = admin.describe_configs([ConfigResource("TOPIC", topic_)], config_filter="all").values()
        return all(found[topic_][name]["value"] == value for name, value in names.items())

    until(changed)


def test_a_new_cluster_is_well(capsys, flags):
    code, found = doctor(capsys, *flags)
    assert code == 0
    assert [(f.check, f.found) for of in found.values() for f in of if f.state not in {OK, WARNING}] == []
    assert found["learner"][0].state is WARNING
    assert found["permissions"][0].state is OK
    assert sum(check.startswith("topic ") for check in found) == 6


def test_after_learning(capsys, tmp_path, flags):
    learn(capsys, tmp_path, *flags)
    code, found = doctor(capsys, *flags)
    assert code == 0
    assert found["journal"][0].state is OK
    assert found["recovery"][0].state is OK
    assert found["transaction"][0].state is OK


@pytest.mark.parametrize(
    ("role", "settings", "state"),
    [
        ("mails", {"cleanup_policy": "compact"}, PROBLEM),
        ("journal", {"retention_ms": "3600000"}, WARNING),
        ("dead_letters", {"max_message_bytes": "1048588"}, PROBLEM),
        ("journal", {"unclean_leader_election_enable": "true"}, WARNING),
    ],
)
def test_a_setting_that_loses_something(capsys, flags, admin, role, settings, state):
    name = f"{config_of(flags).model.name}-{role}"
    change(admin, name, **settings)
    _, found = doctor(capsys, *flags)
    (finding,) = found[f"topic {name}"]
    assert finding.state is state
    (key,) = settings
    assert key.replace("_", ".") in finding.found
    assert "--add-config" in finding.do


def test_a_journal_of_two_partitions(capsys, flags, admin):
    _, journal = topics_of(flags)
    admin.create_partitions({journal: 2})
    until(lambda: len(admin.describe_topics([journal])[0]["partitions"]) == 2)
    code, found = doctor(capsys, *flags)
    assert code == 1
    assert "partitions is 2" in found[f"topic {journal}"][0].found


def test_a_topic_was_deleted(capsys, flags, admin):
    (mails, _), _ = topics_of(flags)
    admin.delete_topics([mails])
    until(lambda: mails not in admin.list_topics())
    code, found = doctor(capsys, *flags)
    assert code == 1
    assert found[f"topic {mails}"] == [
        Diagnosis(f"topic {mails}", PROBLEM, "not there", "`streamnb topics create`")
    ]


def test_the_learner_is_named(capsys, flags):
    with closing(context.open_log(config_of(flags))) as log:
        until(lambda: elected(log))
        _, found = doctor(capsys, *flags)
    assert found["learner"][0].state is OK
    assert "me at 127.0.0.1" in found["learner"][0].found


def test_an_open_transaction_is_seen(capsys, broker, flags):
    from kafka import KafkaProducer

    name = f"streamnb.{config_of(flags).model.name}"
    producer = KafkaProducer(
        bootstrap_servers=broker.address, transactional_id=name, transaction_timeout_ms=60_000
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topics_of(flags)[0][0], value=b"x").get(timeout=60)
    with closing(KafkaAdmin({"bootstrap_servers": broker.address})) as admin_:
        found = admin_.transaction(name)
        assert found.timeout == 60.0
        assert abs(found.started - time.time()) < 60.0, "the broker's clock is this machine's"
        _, findings = doctor(capsys, *flags)
        assert "one is open" in findings["transaction"][0].found
        producer.abort_transaction()
        until(lambda: admin_.transaction(name) is None)
    producer.close()


def test_retention_has_taken_what_a_recovery_needs(capsys, tmp_path, flags, admin):
    from kafka import TopicPartition

    learn(capsys, tmp_path, *flags)
    for snapshot in config_of(flags).snapshot_folder.iterdir():
        snapshot.unlink()
    mails = topics_of(flags)[0][0]
    with closing(context.open_log(config_of(flags))) as log:
        partition = max(log.partitions(mails), key=lambda place: log.offsets(place)[1])
    admin.delete_records({TopicPartition(*partition): 3})
    code, found = doctor(capsys, *flags)
    assert code == 1
    assert f"needs {mails}/{partition.number} from offset 0 to " in found["recovery"][0].found


def test_a_recovery_that_must_not_wait_long(capsys, tmp_path, flags, admin):
    learn(capsys, tmp_path, *flags)
    for snapshot in config_of(flags).snapshot_folder.iterdir():
        snapshot.unlink()
    for name in topics_of(flags)[0]:
        change(admin, name, retention_ms=str(3 * 3600 * 1000))
    code, found = doctor(capsys, *flags)
    assert code == 0
    assert found["recovery"][0].state is WARNING
    assert "keeps them for" in found["recovery"][0].found


def test_snapshots_of_another_log(capsys, tmp_path, flags):
    learn(capsys, tmp_path, *flags)
    folder = SnapshotFolder(config_of(flags).snapshot_folder)
    folder.save(structs.replace(folder.newest().snapshot, journal_n=10**6))
    code, found = doctor(capsys, *flags)
    assert code == 1
    assert "1000000" in found["journal"][0].found


class Faults:
    """Ways to damage what a recovery needs, by the names in the table of faults."""

    def __init__(self, flags, admin, capsys, tmp_path):
        self._flags, self._admin, self._capsys, self._tmp_path = flags, admin, capsys, tmp_path
        self._config = config_of(flags)
        self._topics, self._journal = topics_of(flags)

    def make(self, fault):
        learn(self._capsys, self._tmp_path, *self._flags)
        {
            "journal-empty": self._recreate_journal,
            "journal-cut-short": self._bring_another_snapshot,
            "journal-trimmed": lambda: (self._learn_more(), self._trim_journal()),
            "snapshot-missing": lambda: (self._trim_journal(), self._remove_snapshots()),
            "events-needed": lambda: (self._remove_snapshots(), self._lose_learned_events()),
            "events-needed after a snapshot": lambda: (self._learn_more(), self._lose_learned_events()),
            "events-unlearned": self._lose_unlearned_events,
        }[fault]()

    def _remove_snapshots(self):
        for path in self._config.snapshot_folder.iterdir():
            path.unlink()

    def _recreate_journal(self):
        self._admin.delete_topics([self._journal])
        until(lambda: self._journal not in self._admin.list_topics())
        assert main(["topics", "create", *self._flags]) == 0

    def _bring_another_snapshot(self):
        folder = SnapshotFolder(self._config.snapshot_folder)
        folder.save(structs.replace(folder.newest().snapshot, journal_n=10**6))

    def _learn_more(self):
        """Learn more events, and remove the snapshot of them: the oldest one stays."""
        folder = SnapshotFolder(self._config.snapshot_folder)
        oldest = folder.list()[0].n
        assert (
            main(["replay", str(events_file(self._tmp_path)), "--topic", self._topics[0], *self._flags]) == 0
        )
        assert main(["run", "--until-end", *self._flags]) == 0
        for entry in folder.list():
            if entry.n > oldest:
                entry.path.unlink()

    def _trim_journal(self):
        """Delete its records but the last ones."""
        with closing(context.open_log(self._config)) as log:
            [journal] = log.partitions(self._journal)
            end = log.offsets(journal)[1]
            self._admin.delete_records({TopicPartition(*journal): end - 2})
            until(lambda: log.offsets(journal)[0] == end - 2)

    def _lose_learned_events(self):
        for topic in self._topics:
            self._delete_all(topic)

    def _lose_unlearned_events(self):
        for topic in self._topics:
            assert main(["replay", str(events_file(self._tmp_path)), "--topic", topic, *self._flags]) == 0
            self._delete_all(topic)

    def _delete_all(self, topic):
        with closing(context.open_log(self._config)) as log:
            ends = {partition: log.offsets(partition)[1] for partition in log.partitions(topic)}
            self._admin.delete_records({TopicPartition(*partition): end for partition, end in ends.items()})


@pytest.mark.thorough
@pytest.mark.parametrize("fault", [*REMEDIES, "events-needed after a snapshot"])
def test_run_refuses_each_fault_of_a_recovery_as_doctor_reports_it(capsys, tmp_path, flags, admin, fault):
    """The same words and the same remedy; a command in it runs as printed."""
    Faults(flags, admin, capsys, tmp_path).make(fault)
    capsys.readouterr()
    code, found = doctor(capsys, *flags)
    assert code == 1
    problems = [one for of in found.values() for one in of if one.state is PROBLEM]
    assert len(problems) == 1, problems
    assert main(["run", "--until-end", *flags]) in {1, 2}
    refused = capsys.readouterr().err
    remedy = problems[0].do
    assert problems[0].found in refused
    assert remedy.partition("`")[0].rstrip(": ") in refused
    commands = commands_in(refused)
    for command in commands:
        assert main(shlex.split(command)[1:] + ["--until-end"] * (" run " in command)) == 0, command
    assert bool(commands) == (fault in {"events-unlearned", "events-needed after a snapshot"})
    if commands:
        assert main(["run", "--until-end", *flags]) == 0


def test_records_are_found_without_gaps(tmp_path):
    from streamnb.event_logs.sqlite.sqlite_log import SqliteLog

    journal, chained = Partition("journal", 0), journal_records(7)
    with SqliteLog(tmp_path / "log.db") as log:
        log.create_topic("journal", 1)
        log.acquire("me")
        for n, record in enumerate(chained):
            value = encode_journal(record)
            log.commit(Transaction(n, NewRecord("journal", None, value), [], {}))
            assert encode_journal(last(log, journal).record) == value
        for n, record in enumerate(chained):
            assert find(log, journal, n).record == record
        assert find(log, journal, 7) is None


def test_records_are_found_among_the_gaps(flags):
    """Markers of transactions take offsets of their own."""
    journal, mails = Partition(topics_of(flags)[1], 0), Partition(topics_of(flags)[0][0], 0)
    chained = journal_records(7)
    with closing(context.open_log(config_of(flags))) as log:
        until(lambda: elected(log))
        assert last(log, journal) is None
        assert find(log, journal, 0) is None
        for n, record in enumerate(chained):
            value = encode_journal(record)
            log.commit(Transaction(n, NewRecord(journal.topic, None, value), [], {mails: 0}))
            assert encode_journal(last(log, journal).record) == value
        for n, record in enumerate(chained):
            assert find(log, journal, n).record == record
        assert find(log, journal, 7) is None


# -- a broker that minds ACLs -------------------------------------------------------------------------------


@pytest.mark.thorough
def test_what_the_user_lacks_is_named(capsys, secured_broker, tmp_path):
    name = f"doctored{next(NUMBERS)}"
    admins = secured_flags(secured_broker, tmp_path, name, "admin")
    assert main(["topics", "create", *admins]) == 0
    capsys.readouterr()
    learners = secured_flags(secured_broker, tmp_path, name, "streamnb")

    code, found = doctor(capsys, *learners)
    assert code == 1
    lacking = [finding for finding in found["permissions"] if finding.state is PROBLEM]
    assert len(lacking) == len(needed(name))
    assert found[f"topic {name}-journal"][0].state is PROBLEM

    granted(secured_broker, "User:streamnb", [acl for acl in needed(name) if acl.operation == "READ"])
    code, found = doctor(capsys, *learners)
    lacking = {finding.found for finding in found["permissions"] if finding.state is PROBLEM}
    assert f"no WRITE on topic {name}-journal" in lacking
    assert f"no READ on topic {name}-journal" not in lacking
    assert found[f"topic {name}-journal"][0].state is UNKNOWN, "DESCRIBE_CONFIGS is missing"

    granted(secured_broker, "User:streamnb", all_of(name))
    until(lambda: doctor(capsys, *learners)[0] == 0)
    _, found = doctor(capsys, *learners)
    assert [finding.state for finding in found["permissions"]] == [OK]


@pytest.mark.thorough
def test_a_wrong_password_is_said(capsys, secured_broker, tmp_path):
    flags_ = secured_flags(secured_broker, tmp_path, "whoever", "streamnb")
    (tmp_path / "streamnb" / "password").write_text("wrong")
    code, found = doctor(capsys, *flags_, "--timeout", "3")
    assert code == 1
    assert "the broker refuses the log-in" in found["broker"][0].found
