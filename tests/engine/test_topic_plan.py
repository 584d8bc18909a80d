"""The topics that a model needs: the plan as values, and the commands on either log."""

from __future__ import annotations

import json
import re
import shlex
import threading
from contextlib import closing
from pathlib import Path

import pytest

from streamnb.cli import main
from streamnb.cli.checks.kafka_tools import KafkaTools
from streamnb.cli.commands import topics
from streamnb.cli.topic_requirements import acls_of
from streamnb.config import load
from streamnb.engine.ports import Difference, NewRecord, Partition, Transaction
from streamnb.engine.topic_plan import (
    HEADER_BYTES,
    Acl,
    FoundTopic,
    differences,
    fitted_to,
    plan_acls,
    plan_topics,
    scorers_acls,
)
from streamnb.errors import LogError, NotElected, Unavailable
from streamnb.event_logs.kafka.tool_command import ToolCommand
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from tests.brokers.numbered import NUMBERS
from tests.support.program import until

pytestmark = pytest.mark.early(31)

NAMES = [
    ("events", "mails"),
    ("events", "calls"),
    ("predictions", "predictions"),
    ("metrics", "metrics"),
    ("dead_letters", "dead-letters"),
    ("journal", "journal"),
]
TOOLS = KafkaTools(ToolCommand("a:1,b:2", is_secured=True))


def plan(**values):
    asked = {"partitions": 4, "replication": 0, "retention": 7200.0, "max_bytes": 1 << 20, "brokers": 3}
    asked["largest_prediction"] = 1000 << 10
    return plan_topics(NAMES, **asked | values)


def planned(role, **values):
    return next(topic for topic in plan(**values) if topic.role == role)


def as_found(topic, **other):
    return FoundTopic(topic.name, topic.partitions, topic.replication, None, topic.settings)._replace(**other)


# -- the plan -----------------------------------------------------------------------------------------------


def test_every_topic_is_planned_under_its_name():
    assert [(topic.role, topic.name) for topic in plan()] == NAMES
    assert {topic.partitions for topic in plan() if topic.role != "journal"} == {4}


@pytest.mark.parametrize(
    ("asked", "brokers", "copies", "in_sync"),
    [(0, 1, 1, 1), (0, 2, 2, 1), (0, 3, 3, 2), (0, 9, 3, 2), (1, 3, 1, 1), (5, 9, 5, 4)],
)
def test_replicas_and_how_many_must_be_in_sync(asked, brokers, copies, in_sync):
    for topic in plan(replication=asked, brokers=brokers):
        assert topic.replication == copies
        assert topic.settings["min.insync.replicas"] == str(in_sync)


def test_the_journal_is_one_partition_kept_for_ever():
    journal = planned("journal")
    assert journal.partitions == 1
    assert journal.settings["retention.ms"] == journal.settings["retention.bytes"] == "-1"
    assert journal.settings["cleanup.policy"] == "delete"
    assert journal.settings["message.timestamp.type"] == "LogAppendTime"


def test_everything_else_is_deleted_after_its_time():
    for topic in plan():
        assert topic.settings["cleanup.policy"] == "delete"
        if topic.role != "journal":
            assert topic.settings["retention.ms"] == "7200000"


def test_what_is_said_of_tenants_is_compacted_and_kept():
    (topic,) = plan_topics(
        [("tenants", "standings")],
        partitions=4,
        replication=0,
        retention=1.0,
        max_bytes=1,
        largest_prediction=1,
        brokers=1,
    )
    assert topic.settings == {
        "cleanup.policy": "compact",
        "min.insync.replicas": "1",
        "max.message.bytes": "1048588",
    }
    assert topic.partitions == 4
    assert plan_acls([("tenants", "standings")], "g")[:2] == (
        Acl("topic", "standings", "WRITE"),
        Acl("topic", "standings", "DESCRIBE_CONFIGS"),
    )


@pytest.mark.parametrize(
    ("largest", "taken"), [(0, 1_048_588), (1000 << 10, 1_048_588), (9 << 20, (9 << 20) + 1024)]
)
def test_predictions_and_reports_fit_into_their_topics(largest, taken):
    for role in ("predictions", "metrics"):
        assert planned(role, largest_prediction=largest).settings["max.message.bytes"] == str(taken)


@pytest.mark.parametrize("max_bytes", [1000, 1 << 20, 10 << 20])
def test_the_dead_letters_take_whatever_the_events_take(max_bytes):
    events = int(planned("events", max_bytes=max_bytes).settings["max.message.bytes"])
    dead_letters = int(planned("dead_letters", max_bytes=max_bytes).settings["max.message.bytes"])
    assert events >= max(1_048_588, max_bytes + HEADER_BYTES)
    assert dead_letters >= events + HEADER_BYTES


def test_what_is_as_planned_differs_in_nothing():
    for topic in plan():
        assert differences(topic, as_found(topic)) == ()
        more = {**topic.settings, "segment.ms": "1"}  # what the plan does not speak of
        assert differences(topic, as_found(topic, settings=more)) == ()


def test_every_difference_is_told():
    for topic in plan():
        assert differences(topic, as_found(topic, partitions=9)) == (
            Difference("partitions", str(topic.partitions), "9"),
        )
        assert differences(topic, as_found(topic, replication=1)) == (Difference("replication", "3", "1"),)
        for key, value in topic.settings.items():
            other = as_found(topic, settings={**topic.settings, key: "other"})
            assert differences(topic, other) == (Difference(key, value, "other"),)


def test_settings_that_are_hidden_differ_in_nothing():
    topic = planned("journal")
    assert differences(topic, as_found(topic, settings=None)) == ()


# -- who may use them ---------------------------------------------------------------------------------------


def test_the_learner_is_allowed_what_it_does_and_no_more():
    acls = plan_acls(NAMES, "streamnb.m")
    assert [acl for acl in acls if acl.operation != "DESCRIBE_CONFIGS"] == [
        Acl("topic", "mails", "READ"),
        Acl("topic", "calls", "READ"),
        Acl("topic", "predictions", "WRITE"),
        Acl("topic", "metrics", "WRITE"),
        Acl("topic", "dead-letters", "WRITE"),
        Acl("topic", "journal", "READ"),
        Acl("topic", "journal", "WRITE"),
        Acl("group", "streamnb.m", "READ"),
        Acl("transactional-id", "streamnb.m", "WRITE"),
    ]
    assert [acl.name for acl in acls if acl.operation == "DESCRIBE_CONFIGS"] == [name for _, name in NAMES]


def test_grants_are_one_line_a_resource():
    lines = [shlex.split(line) for line in TOOLS.grants(plan_acls(NAMES, "streamnb.m"), "User:jo")]
    assert len(lines) == len(NAMES) + 2
    common = ["kafka-acls.sh", "--bootstrap-server", "a:1,b:2", "--command-config", "admin.properties", "--add",
              "--allow-principal", "User:jo"]  # fmt: skip
    assert lines[0] == [*common, "--operation", "Read", "--operation", "DescribeConfigs", "--topic", "mails"]
    assert lines[-2] == [*common, "--operation", "Read", "--group", "streamnb.m"]
    assert lines[-1] == [*common, "--operation", "Write", "--transactional-id", "streamnb.m"]


def test_scorers_may_have_any_transactional_id_that_begins_with_their_groups_name():
    acls = scorers_acls("streamnb.m.scorers", "predictions")
    topic, group, transaction = map(shlex.split, TOOLS.grants(acls, None))
    assert topic[-4:] == ["--operation", "Read", "--topic", "predictions"]
    assert group[-4:] == ["--operation", "Read", "--group", "streamnb.m.scorers"]
    prefixed = ["--resource-pattern-type", "prefixed", "--transactional-id", "streamnb.m.scorers."]
    assert transaction[-6:] == ["--operation", "Write", *prefixed]


def test_names_are_quoted_for_the_shell():
    (line,) = TOOLS.grants([Acl("group", "streamnb.a b;c", "READ")], None)
    assert shlex.split(line)[-1] == "streamnb.a b;c"
    assert "User:NAME" in line


@pytest.mark.parametrize(
    ("difference", "has"),
    [
        (Difference("retention.ms", "-1", "1000"), "kafka-configs.sh"),
        (Difference("retention.ms", "-1", "1000"), "--entity-name t --add-config retention.ms=-1"),
        (Difference("partitions", "4", "2"), "kafka-topics.sh"),
        (Difference("partitions", "4", "2"), "--alter --topic t --partitions 4"),
        (Difference("partitions", "1", "2"), "delete topic t"),
        (Difference("replication", "3", "1"), "kafka-reassign-partitions.sh"),
    ],
)
def test_what_would_change_it(difference, has):
    assert has in TOOLS.change("t", difference)


def test_a_cluster_in_the_clear_needs_no_file_to_log_in():
    (line,) = KafkaTools(ToolCommand("a:1", is_secured=False)).grants([Acl("group", "g", "READ")], "User:jo")
    assert "--command-config" not in line


# -- the embedded log ---------------------------------------------------------------------------------------


def answer(capsys, *arguments):
    """Exit code, and what the command says in JSON."""
    code = main([*map(str, arguments), "--json"])
    said = capsys.readouterr()
    return code, json.loads(said.out) if code in {0, 1} and said.out else said.err


def states(said):
    return {topic["name"]: topic["state"] for topic in said["topics"]}


def test_on_the_embedded_log(capsys, tmp_path):
    log = f"sqlite:///{tmp_path}/log.db"
    code, said = answer(capsys, "topics", "plan", "--log", log)
    assert code == 0
    assert set(states(said).values()) == {"missing"}
    assert not list(tmp_path.iterdir()), "plan creates nothing"

    code, said = answer(capsys, "topics", "create", "--log", log, "--set", "topics.partitions=2")
    assert code == 0
    assert set(states(said).values()) == {"created"}
    code, said = answer(capsys, "topics", "create", "--log", log, "--set", "topics.partitions=2")
    assert code == 0
    assert set(states(said).values()) == {"ok"}

    code, said = answer(capsys, "topics", "create", "--log", log, "--set", "topics.partitions=3")
    assert code == 0
    assert states(said) == dict.fromkeys(states(said), "differs") | {"journal": "ok"}
    code, said = answer(capsys, "topics", "plan", "--log", log, "--set", "topics.partitions=2")
    assert set(states(said).values()) == {"ok"}, "create changes nothing that exists"


def test_a_topic_of_an_embedded_log_that_exists_is_used_as_it_is(tmp_path, capsys):
    """`topics.partitions` is of topics that are created."""
    log, file = f"sqlite:///{tmp_path}/log.db", tmp_path / "events.jsonl"
    file.write_text('{"id": "1", "text": "win", "label": "spam"}\n')
    code, _ = answer(capsys, "replay", str(file), "--log", log)
    assert code == 0
    more = ["--set", "topics.partitions=3", "--set", "topics.labels=labels"]
    code, _ = answer(capsys, "replay", str(file), "--log", log, *more)
    assert code == 0
    with closing(SqliteLog(tmp_path / "log.db")) as there:
        assert there.topics() == dict.fromkeys(there.topics(), 1) | {"labels": 3}


@pytest.mark.parametrize(
    ("action", "failures", "give_up", "code"),
    [
        ("create", [LogError, LogError, Unavailable], "10m", 0),
        ("create", [Unavailable] * 5, "0", 1),
        ("create", [None], "10m", 1),  # wrong credentials: no time mends them
        ("plan", [Unavailable], "10m", 1),
    ],
)
def test_create_waits_for_a_broker_that_starts_and_for_nothing_else(
    capsys, tmp_path, monkeypatch, action, failures, give_up, code
):
    left, opened = list(failures), topics._open_admin

    def open_admin(config):
        if not left:
            return opened(config)
        kind = left.pop(0)
        cause = Unavailable("refused") if kind is LogError else None
        raise (kind or LogError)("no cluster answers") from cause

    monkeypatch.setattr(topics, "_open_admin", open_admin)
    monkeypatch.setattr(topics, "_PAUSE", 0.0)
    flags = ["--log", f"sqlite:///{tmp_path}/log.db", "--set", f"kafka.give_up_after={give_up}"]
    assert main(["topics", action, *flags]) == code
    said = capsys.readouterr()
    assert said.err.count("waiting: no cluster answers") == (code == 0)
    assert ("created" in said.out) == (code == 0)


def test_the_embedded_log_has_no_users(capsys, tmp_path):
    flags = ["--log", f"sqlite:///{tmp_path}/log.db", "--principal", "jo"]
    code, said = answer(capsys, "topics", "create", *flags)
    assert code == 2
    assert "no users" in said
    assert not list(tmp_path.iterdir())


# -- a broker -----------------------------------------------------------------------------------------------


@pytest.fixture
def flags(broker, tmp_path):
    """Flags that name topics of this test's own."""
    return configured(tmp_path, broker.address, f"topics{next(NUMBERS)}")


def configured(folder, address, name, kafka=""):
    path = folder / f"{name}.toml"
    path.write_text(
        f'log.url = "kafka://{address}"\nhttp.listen = ""\nmodel.name = "{name}"\n'
        f'snapshots.folder = "{folder}/snapshots"\n[kafka]\n{kafka}\n'
        f'[topics]\nevents = ["{name}-mails", "{name}-calls"]\npartitions = 2\n'
        + "".join(
            f'{role} = "{name}-{role}"\n' for role in ("predictions", "metrics", "dead_letters", "journal")
        )
    )
    return ["--config", str(path)]


def test_plan_create_plan(capsys, flags):
    code, said = answer(capsys, "topics", "plan", *flags)
    assert code == 0
    assert set(states(said).values()) == {"missing"}
    assert len(states(said)) == 6
    assert said["acls"] == [], "nobody is named"
    _, again = answer(capsys, "topics", "plan", *flags)
    assert again == said, "plan changes nothing"

    code, said = answer(capsys, "topics", "create", *flags)
    assert code == 0
    assert set(states(said).values()) == {"created"}
    for command in ("create", "plan"):
        code, said = answer(capsys, "topics", command, *flags)
        assert code == 0
        assert set(states(said).values()) == {"ok"}, "and it is as planned"


def test_what_exists_is_never_changed(capsys, flags):
    answer(capsys, "topics", "create", *flags)
    other = ["--set", "topics.partitions=3", "--set", "topics.retention=1h", "--set", "topics.replication=1"]
    code, said = answer(capsys, "topics", "create", *flags, *other)
    assert code == 0
    mails = said["topics"][0]
    assert mails["state"] == "differs"
    assert [(d["what"], d["planned"], d["found"]) for d in mails["differences"]] == [
        ("partitions", "3", "2"),
        ("retention.ms", "3600000", "604800000"),
    ]
    assert "--partitions 3" in mails["differences"][0]["change"]
    assert "--add-config retention.ms=3600000" in mails["differences"][1]["change"]
    assert set(states(answer(capsys, "topics", "plan", *flags)[1]).values()) == {"ok"}


def test_only_what_is_missing_is_created(capsys, broker, flags):
    from kafka import KafkaAdminClient

    answer(capsys, "topics", "create", *flags)
    name = f"{flags[1].rsplit('/', 1)[1].removesuffix('.toml')}-metrics"
    with KafkaAdminClient(bootstrap_servers=broker.address) as admin:
        admin.delete_topics([name])
        until(lambda: name not in admin.list_topics())
    _, said = answer(capsys, "topics", "create", *flags)
    assert {topic for topic, state in states(said).items() if state == "created"} == {name}


def test_a_race_of_creators_ends_well(flags):
    codes = []
    racers = [
        threading.Thread(target=lambda: codes.append(main(["topics", "create", "--json", *flags])))
        for _ in range(4)
    ]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert codes == [0] * 4


def test_the_table_marks_what_differs_and_says_what_is_missing(capsys, flags):
    main(["topics", "plan", *flags, "--principal", "jo"])
    out = capsys.readouterr().out
    assert "streamnb topics create" in out
    assert out.count("kafka-acls.sh --bootstrap-server") == 8
    answer(capsys, "topics", "create", *flags)
    assert main(["topics", "plan", *flags, "--set", "topics.retention=1d"]) == 0
    out = capsys.readouterr().out
    assert "DIFFERS" in out
    assert "retention.ms is 604800000, not 86400000" in out


def test_a_refusal_of_the_broker_is_shown(capsys, flags):
    code = main(["topics", "create", *flags, "--set", "topics.replication=3"])  # of one broker
    assert code == 1
    assert "replication factor" in capsys.readouterr().err.lower()


# -- the ACLs, on a broker that minds them ------------------------------------------------------------------


@pytest.fixture
def secured(secured_broker, tmp_path, capsys):
    """Topics of this test's own, made by the admin: what their names begin with, and the admin's flags."""
    name = f"acls{next(NUMBERS)}"
    flags = secured_flags(secured_broker, tmp_path, name, "admin")
    assert main(["topics", "create", *flags]) == 0
    capsys.readouterr()
    return name, flags


def secured_flags(secured_broker, folder, name, user):
    """A configuration of one user; the password lies in a file."""
    folder = folder / user
    folder.mkdir(exist_ok=True)
    password = folder / "password"
    password.write_text(secured_broker.client(user)["sasl_plain_password"])
    client = secured_broker.client(user)
    shared = ", ".join(
        f'{key} = "{client[key]}"' for key in ("security_protocol", "sasl_mechanism", "ssl_cafile")
    )
    kafka = f'username = "{user}"\npassword_file = "{password}"\nclient = {{ {shared} }}\n'
    return configured(folder, secured_broker.address, name, kafka)


def learn(secured_broker, name, n):
    """All that a learner does with its log, once."""
    from streamnb.event_logs.kafka.kafka_log import KafkaLog

    client, journal = secured_broker.client(), Partition(f"{name}-journal", 0)
    outputs = [f"{name}-{role}" for role in ("predictions", "metrics", "dead_letters")]
    with KafkaLog(client, model=name, journal_topic=journal.topic, session_timeout=6.0) as log:
        until(lambda: elected(log))
        inputs = [*log.partitions(f"{name}-mails"), *log.partitions(f"{name}-calls")]
        for topic in [*outputs, journal.topic]:
            log.partitions(topic)
        log.topic_id(f"{name}-mails")
        log.seek(dict.fromkeys(inputs, 0))
        until(lambda: log.poll(10, 0.5))
        log.lag()
        log.commit(
            Transaction(
                n,
                NewRecord(journal.topic, None, b'{"n":%d,"previous":"","digest":""}' % n),
                [NewRecord(topic, None, b"x") for topic in outputs],
                dict.fromkeys(inputs, 1),
            )
        )
        records = []
        while found := log.read(journal, len(records) and records[-1].offset + 1, 10):
            records += found
        assert records[-1].value == b'{"n":%d,"previous":"","digest":""}' % n


def elected(log):
    """Whether it is; an election takes the group some rounds."""
    try:
        log.acquire("me")
    except NotElected:
        return False
    return True


def produce(secured_broker, name):
    from streamnb.event_logs.kafka.kafka_log import KafkaLog

    with KafkaLog(secured_broker.client("admin"), model=f"{name}-producer") as log:
        log.append([NewRecord(f"{name}-mails", None, b"1"), NewRecord(f"{name}-calls", None, b"2")])


def granted(secured_broker, principal, acls):
    """Grant exactly these, and wait until the broker minds all of them."""
    from kafka import KafkaAdminClient
    from kafka.admin import ACLFilter, ACLOperation, ACLPermissionType, ResourcePatternFilter, ResourceType
    from kafka.admin import ACLResourcePatternType as Pattern

    for acl in acls:
        user = principal.removeprefix("User:")
        secured_broker.grant(acl.resource.replace("-", "_"), acl.name, acl.operation, user=user)
    anything = ResourcePatternFilter(ResourceType.ANY, None, Pattern.ANY)
    asked = ACLFilter(principal, None, ACLOperation.ANY, ACLPermissionType.ANY, anything)
    with KafkaAdminClient(**secured_broker.client("admin")) as admin:
        names = {acl.name for acl in acls}
        until(
            lambda: (
                sum(found.resource_pattern.resource_name in names for found in admin.describe_acls(asked)[0])
                == len(acls)
            )
        )


def all_of(name):
    """The ACLs of the learner of this name."""
    roles = [(role, f"{name}-{role}") for role in ("predictions", "metrics", "dead_letters", "journal")]
    topics = [("events", f"{name}-mails"), ("events", f"{name}-calls"), *roles]
    return plan_acls(topics, f"streamnb.{name}")


def needed(name):
    """Those without which it cannot learn."""
    return [acl for acl in all_of(name) if acl.operation != "DESCRIBE_CONFIGS"]


@pytest.mark.thorough
def test_the_adapter_works_with_exactly_the_planned_acls(secured_broker, secured):
    name, _ = secured
    produce(secured_broker, name)
    granted(secured_broker, "User:streamnb", needed(name))
    learn(secured_broker, name, 0)
    learn(secured_broker, name, 1)


@pytest.mark.thorough
@pytest.mark.parametrize("left_out", range(9))
def test_none_of_the_planned_acls_can_be_left_out(secured_broker, secured, left_out):
    name, _ = secured
    produce(secured_broker, name)
    acls = needed(name)
    assert len(acls) == 9
    del acls[left_out]
    granted(secured_broker, "User:streamnb", acls)
    with pytest.raises(LogError, match=r"permission|no topic|no such topic"):
        learn(secured_broker, name, 0)


@pytest.mark.thorough
def test_who_may_nothing_sees_nothing(capsys, secured_broker, secured, tmp_path):
    name, _ = secured
    flags = secured_flags(secured_broker, tmp_path, name, "streamnb")
    code, said = answer(capsys, "topics", "plan", *flags)
    assert code == 0
    assert set(states(said).values()) == {"hidden"}
    assert any("--transactional-id" in line and "User:streamnb" in line for line in said["acls"])
    assert main(["topics", "create", *flags]) == 1
    assert "uthori" in capsys.readouterr().err


def test_the_manual_names_the_permissions_that_are_granted_and_no_others(tmp_path):
    (tmp_path / "own.toml").write_text(
        '[topics]\nlabels = "labels"\ntenants = "tenants"\n[[monitors]]\nname = "quiet"\nkind = "no-events"\nafter = "10m"\n'
    )
    config = load(tmp_path / "own.toml", {}, [])
    page = (Path(__file__).parents[2] / "docs/operations.md").read_text()
    rows = re.findall(r"^\| (topics?|group|transactional id) (`.*?) \| (`.*?) \|", page, re.MULTILINE)
    said = [
        (
            what.rstrip("s").replace(" ", "-"),
            name.replace("<model.name>", config.model.name),
            operation.upper(),
        )
        for what, names, operations in rows
        for name in re.findall("`(.*?)`", names)
        for operation in re.findall("`(.*?)`", operations)
    ]
    granted = [(acl.resource, acl.name, acl.operation) for acl in acls_of(config)]
    assert sorted(said) == sorted(one for one in granted if one[2] != "DESCRIBE_CONFIGS")


def test_no_limit_is_lowered_and_dead_letters_take_the_largest_input():
    def limits(**there):
        found = {
            name: FoundTopic(name, 1, 1, None, {"max.message.bytes": str(n)}) for name, n in there.items()
        }
        names = [("events", "events"), ("predictions", "predictions"), ("dead_letters", "letters")]
        planned = plan_topics(
            names,
            partitions=1,
            replication=1,
            retention=1.0,
            max_bytes=1000,
            largest_prediction=1000,
            brokers=1,
        )
        made = fitted_to(planned, found)
        differing = {
            t.name
            for t in made
            if t.name in found and "max.message.bytes" in {d.what for d in differences(t, found[t.name])}
        }
        return {t.name: int(t.settings["max.message.bytes"]) for t in made}, differing

    usual = 1_048_588
    assert limits() == ({"events": usual, "predictions": usual, "letters": usual + (64 << 10)}, set())
    found, differing = limits(events=9_000_000, predictions=8_000_000, letters=2_000_000)
    assert found == {"events": 9_000_000, "predictions": 8_000_000, "letters": 9_000_000 + (64 << 10)}
    assert differing == {"letters"}
    assert limits(events=5000)[1] == {"events"}
