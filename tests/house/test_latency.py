"""How `measure.py latency` measures: its arithmetic by values, and whole runs by what they say and leave behind."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys

import pytest
from kafka.admin import KafkaAdminClient

from streamnb.engine.ports import NewRecord, Partition, Record
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.formats.codec import decode_event
from streamnb.formats.event_schema import EventSchema
from tests import ROOT
from tests.benchmarks.measuring import load
from tests.benchmarks.measuring.echo_loops import paced
from tests.benchmarks.measuring.load import Produced, Seen, Turn, events, write
from tests.benchmarks.measuring.open_loop import passages_of
from tests.benchmarks.measuring.percentiles import (
    Figures,
    Passage,
    Schedule,
    breakdown,
    latencies,
    percentile,
    ratio,
)
from tests.support import commands
from tests.support.program import until

pytestmark = [pytest.mark.storm, pytest.mark.early(19)]

PATIENCE = 120.0
MEASURE = [sys.executable, "-m", "tests.benchmarks.measure"]
ON_PATH = os.environ | {"PYTHONPATH": str(ROOT)}
STEPS = ["due -> sent", "sent -> appended", "appended -> taken", "taken -> written", "written -> visible"]
HEADER = Partition("out", 0)


# -- arithmetic -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "percent", "expected"),
    [(100, 50, 50), (100, 99, 99), (100, 100, 100), (101, 99, 100), (1000, 99, 990), (10, 90, 9), (10, 99, 10),
     (3, 50, 2), (1, 50, 1), (1, 99, 1), (2, 0, 1)],
)  # fmt: skip
def test_a_percentile_is_the_least_value_that_so_many_do_not_exceed(size, percent, expected):
    assert percentile(range(1, size + 1), percent) == expected


def test_events_are_due_at_even_distances():
    schedule = Schedule(1000.0, 4.0, 6)
    assert [schedule.at(i) for i in range(6)] == [1000.0, 1000.25, 1000.5, 1000.75, 1001.0, 1001.25]
    assert [schedule.due(0, now) for now in (999.9, 1000.0, 1000.2, 1000.25, 1001.1, 2000.0)] == [
        0,
        1,
        1,
        2,
        5,
        6,
    ]
    assert schedule.due(3, 1000.0) == 3  # those that are known to be due stay so


@pytest.mark.parametrize("rate", [3.0, 7.3, 999.0, 1000.0])
def test_an_event_is_due_at_the_very_moment(rate):
    schedule = Schedule(1_790_000_000.1, rate, 500)
    assert [schedule.due(0, schedule.at(i)) for i in range(500)] == list(range(1, 501))


class Clock:
    """Time that passes where somebody sleeps, or a log is slow."""

    def __init__(self):
        self.now = 1000.0

    def time(self):
        return self.now

    def sleep(self, seconds):
        self.now += max(seconds, 1e-6)


class Stalling:
    """A log that takes a millisecond for each append, and two seconds for one of them."""

    def __init__(self, clock, stalls_at):
        self.clock, self.stalls_at, self.taken = clock, stalls_at, []

    def append(self, records):
        self.clock.now += 2.0 if len(self.taken) == self.stalls_at else 0.001
        self.taken.append(list(records))


def test_a_slow_log_does_not_slow_the_schedule_and_lateness_counts(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(load, "time", clock)
    log = Stalling(clock, stalls_at=10)
    schedule, sent = write(log, Turn("t", "events", 10.0, 50, 200))
    assert schedule == Schedule(1000.0, 10.0, 50)
    assert [len(batch) for batch in log.taken] == [1] * 11 + [20] + [1] * 19
    assert [record.key for batch in log.taken for record in batch] == [b"t-%d" % i for i in range(50)]
    late = [at - schedule.at(i) for i, at in enumerate(sent)]
    assert late[:11] == pytest.approx([0.0] * 11, abs=1e-4)
    assert late[11:31] == pytest.approx([1.9 - i / 10 for i in range(20)], abs=1e-4)
    assert late[31:] == pytest.approx([0.0] * 19, abs=1e-4)
    passages = [Passage(schedule.at(i), at, at, at, at, at + 0.5) for i, at in enumerate(sent)]
    assert Figures.of(latencies(passages)).max == pytest.approx(2.4, abs=1e-4)


def test_each_step_has_its_figures():
    passages = [Passage(t, t + 0.001, t + 0.003, t + 0.053, t + 0.063, t + 0.083) for t in (1.0, 2.0, 3.0)]
    found = breakdown(passages)
    assert list(found) == STEPS
    assert [figures.p50 for figures in found.values()] == pytest.approx([0.001, 0.002, 0.05, 0.01, 0.02])
    assert sum(figures.p50 for figures in found.values()) == pytest.approx(latencies(passages)[0])


def test_stamps_of_another_clock_are_not_used():
    """A broker two seconds ahead; and one whose stamps are merely cut to milliseconds."""
    ahead = [Passage(1.0, 1.001, 3.003, 1.053, 3.063, 1.083)]
    found = breakdown(ahead)
    assert list(found) == ["due -> sent", "sent -> taken", "taken -> visible"]
    assert [figures.max for figures in found.values()] == pytest.approx([0.001, 0.052, 0.030])
    assert list(breakdown([Passage(1.0, 1.0015, 1.001, 1.05, 1.06, 1.08)])) == STEPS


def test_a_ratio_is_the_median_of_the_turns_in_pairs():
    def figures(p50, p99):
        return Figures(p50, 0.0, p99, 0.0)

    ours = [figures(1.0, 10.0), figures(20.0, 60.0), figures(3.0, 9.0)]  # the second turn met a busy machine
    theirs = [figures(1.0, 5.0), figures(10.0, 10.0), figures(2.0, 9.0)]
    assert ratio(ours, theirs) == (1.5, 2.0)


def seen(key, at, *, stamp=5.5, ts=5.25):
    return Seen(Record(HEADER, 0, key, b'{"ts":%f,"id":"more"}' % ts, stamp), at)


def test_an_event_is_visible_when_it_is_seen_first():
    turns = {
        "s.0": Produced(Schedule(5.0, 2.0, 2), [5.01, 5.51]),
        "s.1": Produced(Schedule(8.0, 2.0, 1), [8.0]),
    }
    appended = {b"s.0-0": 5.02, b"s.0-1": 5.52, b"s.1-0": 8.02, b"s.warm-0": 1.0}
    first, second, third = seen(b"s.0-0", 6.0), seen(b"s.0-1", 6.5), seen(b"s.1-0", 9.0)
    again, warm = seen(b"s.0-0", 7.0), seen(b"s.warm-0", 1.5)
    measured = passages_of(turns, appended, [warm, second, first, third, again])
    assert measured.turns == [
        [Passage(5.0, 5.01, 5.02, 5.25, 5.5, 6.0), Passage(5.5, 5.51, 5.52, 5.25, 5.5, 6.5)],
        [Passage(8.0, 8.0, 8.02, 5.25, 5.5, 9.0)],
    ]
    assert (measured.missing, measured.repeated) == (0, 1)
    lost = passages_of(turns, appended, [first, third])
    assert ([len(turn) for turn in lost.turns], lost.missing, lost.repeated) == ([1, 1], 1, 0)


# -- the parts ----------------------------------------------------------------------------------------------------


def test_events_have_the_size_that_was_asked_for():
    drawn = list(itertools.islice(events("s.0", 200), 500))
    assert {len(raw) for _, raw in drawn} == {200}
    assert len({key for key, _ in drawn}) == 500
    for key, raw in drawn:
        event = decode_event(raw, EventSchema())
        assert event.id.encode() == key
        assert set(event.x) == {"text", "channel", "length"}
        assert event.label in ("alert", "chat", "news")
    assert all(decode_event(raw, EventSchema()) for _, raw in itertools.islice(events("s.0", 1), 50))


def test_an_echo_commits_at_the_interval_and_never_nothing():
    clock = Clock()
    arrivals = [1000.0 + t for t in (0.7, 0.72, 0.75, 0.81, 5.0, 5.01)]

    def poll(limit, seconds):
        clock.now = min(clock.now + seconds, max(clock.now, arrivals[0] if arrivals else clock.now + seconds))
        found = [at for at in arrivals if at <= clock.now][:limit]
        del arrivals[: len(found)]
        return found

    batches = paced(poll, 3, 0.1, clock.time)
    assert [next(batches), clock.now] == [[1000.7], 1000.7]  # long after the last one: at once
    clock.now += 0.06  # what the commit takes is part of the interval
    assert [next(batches), clock.now] == [[1000.72, 1000.75], pytest.approx(1000.8)]
    assert [next(batches), clock.now] == [[1000.81], pytest.approx(1000.9)]
    assert [next(batches), clock.now] == [[1005.0], pytest.approx(1005.0)]
    arrivals += [1005.05, 1005.06, 1005.07]
    assert [next(batches), clock.now] == [[1005.01, 1005.05, 1005.06], 1005.06]  # no more than allowed


# -- whole runs ---------------------------------------------------------------------------------------------------

SHORT = ("--rate", "50", "--seconds", "2", "--warm-up", "1")


def latency(*arguments, check=True, **options):
    command = [*MEASURE, "latency", *map(str, arguments)]
    done = subprocess.run(command, env=ON_PATH, capture_output=True, text=True, check=False, **options)
    assert not check or done.returncode == 0, done.stderr
    return done


def check_answer(answer, contenders):
    assert [result["contender"] for result in answer["results"]] == contenders
    assert answer["load"] == {
        "rate": 50.0, "size": 200, "warm_up": 1.0, "seconds": 2.0, "turns": 1, "commit_interval": 0.1
    }  # fmt: skip
    assert {"log", "python", "streamnb", "processors", "busy"} <= set(answer["environment"])
    for result in answer["results"]:
        assert (result["events"], result["missing"], result["repeated"]) == (100, 0, 0)
        figures = list(result["latency"].values())
        assert figures == sorted(figures)
        assert figures[0] >= 0
        assert list(result["steps"]) == STEPS
        assert all(step["max"] >= -0.005 for step in result["steps"].values())
    assert answer["results"][0]["ratio"] == {"p50": 1.0, "p99": 1.0}


def test_on_the_embedded_log_nothing_of_the_user_is_touched(tmp_path):
    """Whatever the user's configuration says of topics, events and attributes, and though a learner is alive."""
    theirs = tmp_path / "theirs.db"
    config = tmp_path / "theirs.toml"
    config.write_text(
        '[topics]\nevents = ["clicks", "orders"]\n[events]\nid = "$.key"\n'
        f'[snapshots]\nfolder = "{tmp_path}/theirs"\n'
        '[[attributes]]\nname = "channel"\nkind = "continuous"\npath = "$.features.channel"\n'
    )
    with SqliteLog(theirs) as log:
        log.create_topic("clicks", 2)
        log.append([NewRecord("clicks", b"k", b"not to be read")])
        log.acquire("somebody")
        done = latency("--log", f"sqlite:///{theirs}", "--config", config, "--json", *SHORT)
        log.heartbeat()  # it has not been deposed
        assert log.topics() == {"clicks": 2}
        assert sum(log.offsets(partition)[1] for partition in log.partitions("clicks")) == 1
    check_answer(json.loads(done.stdout), ["streamnb", "embedded"])
    assert {path.name for path in tmp_path.iterdir()} <= {
        theirs.name,
        f"{theirs.name}-wal",
        f"{theirs.name}-shm",
        config.name,
    }


def test_on_kafka_its_own_topics_come_and_go(lone_broker, tmp_path):
    with KafkaAdminClient(bootstrap_servers=lone_broker.address) as admin:
        admin.create_topics({"streamnb-latency-mine": {"num_partitions": 1, "replication_factor": 1}})
        before = {topic for topic in admin.list_topics() if not topic.startswith("__")}
        done = latency(
            "--log",
            f"kafka://{lone_broker.address}",
            "--set",
            "topics.partitions=2",
            "--json",
            *SHORT,
            cwd=tmp_path,
        )
        answer = json.loads(done.stdout)
        check_answer(answer, ["streamnb", "kafka-python", "confluent-kafka"])
        assert answer["environment"]["log"].startswith("Apache Kafka 4")
        until(lambda: {topic for topic in admin.list_topics() if not topic.startswith("__")} == before)
        groups = {group["group_id"] for group in admin.list_groups()}
        assert not [group for group in groups if "streamnb-latency" in group]
        admin.delete_topics(["streamnb-latency-mine"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("prefix", ["a,b", "", "a b", "é", "x" * 201])
def test_a_prefix_that_would_name_other_topics_is_refused(tmp_path, prefix):
    done = commands.run(["latency", "--log", f"sqlite:///{tmp_path}/log.db", "--prefix", prefix])
    assert (done.returncode, done.stdout) == (2, "")
    assert "--prefix" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_it_takes_everything_away(tmp_path, number):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets what it runs beside it ignore it
    command = [*MEASURE, "latency", "--log", f"sqlite:///{tmp_path}/log.db"]
    with subprocess.Popen(command, env=ON_PATH, stderr=subprocess.PIPE, text=True) as running:
        until(lambda: list(tmp_path.glob("*/streamnb.out")))
        os.kill(running.pid, number)
        assert running.wait(PATIENCE) == 130
        assert "Traceback" not in running.stderr.read()
    assert list(tmp_path.iterdir()) == []
