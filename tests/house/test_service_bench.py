"""`measure.py bench --log`: who works off what, that all of it is done, and that nothing of the user is touched."""

from __future__ import annotations

import argparse
import json
from contextlib import closing
from itertools import islice

import pytest
from kafka.admin import KafkaAdminClient

from streamnb.engine.ports import NewRecord
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.formats.codec import decode_event
from streamnb.formats.event_schema import EventSchema
from streamnb.runtime import context
from tests.benchmarks.measuring import backlog
from tests.benchmarks.measuring.backlog import Spent
from tests.benchmarks.measuring.bare_clients import CLIENTS, Bare
from tests.benchmarks.measuring.open_loop import LEARNER
from tests.benchmarks.measuring.service_bench import Contender, backlog_of, result_of
from tests.benchmarks.measuring.topics import place
from tests.cli.test_commands import streamnb as measure
from tests.cli.test_commands import write_lines

pytestmark = [pytest.mark.storm, pytest.mark.early(20)]

ROWS = [{"id": "same", "text": f"word{i} it's", "label": "spam" if i % 3 else "ham"} for i in range(50)]
EVENTS = [(f"e-{i}".encode(), json.dumps({**ROWS[i % 50], "id": f"e-{i}"}).encode()) for i in range(700)]


def options(log, *overrides, file=None, events=100, order=None):
    return argparse.Namespace(
        log=log, config=None, set=list(overrides), file=file, events=events, order=order
    )


class Orders:
    """The learner's end of a pipe, to begin at once."""

    def __init__(self):
        self.answers = []

    def send(self, answer):
        self.answers.append(answer)

    def recv(self):
        return None


def written(config, topic):
    with closing(context.existing_log(config)) as log:
        return [
            record
            for partition in log.partitions(topic)
            for record in log.read(partition, log.offsets(partition)[0], 10_000)
        ]


# -- arithmetic -------------------------------------------------------------------------------------------------


def test_rates_are_medians_and_the_share_is_of_pairs_in_the_same_round():
    service, alone, other = (
        Contender("s", "c", "mixture"),
        Contender("c alone", "c"),
        Contender("d alone", "d"),
    )
    spent = {
        "s": [Spent(2.0, 1.0, 3), Spent(40.0, 2.0, 3), Spent(4.0, 6.0, 5)],  # the second met a busy machine
        "c alone": [Spent(1.0, 0.5, 2), Spent(30.0, 1.0, 2), Spent(1.0, 1.0, 2)],
        "d alone": [Spent(9.0, 9.0, 9)] * 3,
    }
    everyone = [service, alone, other]
    found = result_of(service, everyone, spent, 100)
    assert found["events_per_second"] == 25.0
    assert found["processor_microseconds"] == 20_000.0
    assert found["commits"] == 3
    assert found["share"] == 0.5
    assert found["share_lower_quartile"] == 0.375
    assert [turn["seconds"] for turn in found["rounds"]] == [2.0, 40.0, 4.0]
    assert result_of(alone, everyone, spent, 100)["share"] == 1.0
    assert result_of(other, everyone, spent, 100)["share"] == 1.0


def test_a_file_is_repeated_under_ids_of_its_own(tmp_path):
    rows = [*ROWS, {"id": "no label", "text": "x"}, {"id": "no text", "label": "spam"}, {"no": "event"}]
    found = backlog_of(options("x", file=write_lines(tmp_path / "e.jsonl", rows), events=120))
    events = [decode_event(raw, EventSchema()) for _, raw in found]
    assert [event.id.encode() for event in events] == [key for key, _ in found]
    assert len({key for key, _ in found}) == 120
    expected = islice(ROWS * 3, 120)
    assert [(event.x, event.label) for event in events] == [
        ({"text": r["text"]}, r["label"]) for r in expected
    ]


# -- what is timed ------------------------------------------------------------------------------------------------


def check_service(log, partitions):
    at = options(log, "commit.events=100", f"topics.partitions={partitions}")
    with place(at, "streamnb-bench", LEARNER, [], "model.kind=naive_bayes", "hypotheses=[]") as found:
        backlog.fill(found.config, EVENTS)
        orders = Orders()
        backlog.serve(orders, found.config, len(EVENTS))
        predictions = written(found.config, found.config.topics.predictions)
        size = backlog.output_size(found.config, EVENTS)
        reports = written(found.config, found.config.topics.metrics)
    ready, spent = orders.answers
    assert ready is None
    assert sorted(record.key for record in predictions) == sorted(key for key, _ in EVENTS)
    assert spent.commits >= 7
    assert spent.processor > 0
    assert spent.seconds > 0
    taken = sum(len(record.key) + len(record.value) for record in (*predictions, *reports)) / len(EVENTS)
    assert size == pytest.approx(taken, rel=0.05)  # reports fall with the clock


def check_loop(log, client, partitions):
    at = options(log, "commit.events=100", f"topics.partitions={partitions}")
    with place(at, "streamnb-bench", LEARNER, []) as found:
        topics = found.config.topics
        backlog.fill(found.config, EVENTS)
        orders = Orders()
        bare = Bare(found.config, "loop", topics.events[0], topics.predictions)
        backlog.copy(orders, client, bare, len(EVENTS), 210)
        copies = written(found.config, topics.predictions)
    ready, spent = orders.answers
    assert ready is None
    assert sorted(record.key for record in copies) == sorted(key for key, _ in EVENTS)
    assert {len(record.key) + len(record.value) for record in copies} == {210}
    assert spent.commits >= 7
    assert spent.seconds > 0


def test_the_service_works_off_all_of_the_backlog(tmp_path):
    check_service(f"sqlite:///{tmp_path}/log.db", 2)


def test_the_service_works_off_all_of_the_backlog_on_kafka(broker):
    check_service(f"kafka://{broker.address}", 2)


def test_the_loop_copies_all_of_the_backlog(tmp_path):
    check_loop(f"sqlite:///{tmp_path}/log.db", "embedded", 2)


@pytest.mark.parametrize("client", [name for name in CLIENTS if name != "embedded"])
def test_the_loop_copies_all_of_the_backlog_on_kafka(broker, client):
    check_loop(f"kafka://{broker.address}", client, 2)


# -- whole runs ---------------------------------------------------------------------------------------------------

SHORT = ("--events", "300", "--rounds", "2", "--json")


def check_answer(done, contenders, events=300):
    told = json.loads(done.stdout)
    assert [result["contender"] for result in told["results"]] == contenders
    assert (told["load"]["events"], told["load"]["rounds"]) == (events, 2)
    assert {"log", "python", "msgspec", "processor", "processors", "busy"} <= set(told["environment"])
    for result in told["results"]:
        assert len(result["rounds"]) == 2
        assert result["share"] > 0
        assert result["events_per_second"] > 0
    assert told["results"][2]["share"] == 1.0


SERVICES = ["streamnb, naive_bayes", "streamnb, mixture"]


def test_on_the_embedded_log_nothing_of_the_user_is_touched(tmp_path):
    theirs = tmp_path / "theirs.db"
    with SqliteLog(theirs) as log:
        log.create_topic("events", 1)
        log.append([NewRecord("events", b"k", b"not to be read")])
        log.acquire("somebody")
        file = write_lines(tmp_path / "e.jsonl", ROWS)
        done = measure("bench", file, "--log", f"sqlite:///{theirs}", *SHORT)
        log.heartbeat()  # it has not been deposed
        assert log.topics() == {"events": 1}
    check_answer(done, [*SERVICES, "embedded alone"])
    assert {path.name for path in tmp_path.iterdir()} <= {
        "theirs.db", "theirs.db-wal", "theirs.db-shm", "e.jsonl"
    }  # fmt: skip


def test_on_kafka_its_own_topics_come_and_go(lone_broker, tmp_path):
    with KafkaAdminClient(bootstrap_servers=lone_broker.address) as admin:
        before = {topic for topic in admin.list_topics() if not topic.startswith("__")}
        done = measure("bench", "--log", f"kafka://{lone_broker.address}", *SHORT, cwd=tmp_path)
        check_answer(done, [*SERVICES, "kafka-python alone", "confluent-kafka alone"])
        assert {topic for topic in admin.list_topics() if not topic.startswith("__")} <= before
        assert not [group for group in admin.list_groups() if "streamnb-bench" in group["group_id"]]
    assert list(tmp_path.iterdir()) == []
