"""Conversion on each log: everything once whatever fails, one process at a time, and the registry's outages."""

from __future__ import annotations

import json
import random
import threading
import time
from contextlib import contextmanager

import pytest
from prometheus_client import CollectorRegistry

from streamnb.config import load
from streamnb.conversion.source_follower import SourceFollower
from streamnb.conversion.source_metrics import SourceMetrics
from streamnb.engine.ports import NewRecord, Partition
from streamnb.errors import Unavailable
from streamnb.serving.leased_position import LeasedPosition
from tests.conversion.stub_registry import StubRegistry, serving
from tests.support.service import read_topic
from tests.support.topics_of_logs import add_partitions, made_anew, trim

LOGS = ["sqlite", "kafka", "librdkafka"]
pytestmark = pytest.mark.thorough_for("librdkafka")
TOPICS = ("source", "events", "labels", "dead-letters")
SCHEMA = {"schema": json.dumps({"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]})}


class _Follower(SourceFollower):
    def __init__(self, opener, config, lease_seconds):
        self.said, self.registry = [], CollectorRegistry()
        super().__init__(
            config,
            config.sources[0],
            SourceMetrics(self.registry),
            self.said.append,
            lease_seconds=lease_seconds,
        )
        self.opener = opener

    def open_log(self):
        return self.opener()

    def names(self):
        return [message.event for message in self.said]

    def rest(self):
        time.sleep(0.05)


@contextmanager
def following(open_log, *, lease_seconds=30.0, registry="", label='label = "y"'):
    given = f'sources=[{{ name = "crm", topic = "source", {label} }}]'
    follower = _Follower(
        open_log, load(None, {}, ["topics.labels=labels", given, f"registry.url={registry}"]), lease_seconds
    )
    follower.start()
    try:
        yield follower
    finally:
        follower.close()


def until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.02)


def send(log, numbers, value=lambda n: json.dumps({"n": n, "y": "a"}).encode()):
    log.append([NewRecord("source", b"k-%d" % n, value(n)) for n in numbers])


def numbers(log, topic="events"):
    return sorted(json.loads(record.value)["features"]["n"] for record in read_topic(log, topic))


def test_each_record_is_converted_once_over_restarts_and_partitions(open_log):
    log = open_log(source=3, events=2, **{"dead-letters": 1})
    send(log, range(50))
    with following(open_log) as follower:
        until(lambda: len(numbers(log)) == 50)
        assert follower.names() == ["source-begins"]
    send(log, range(50, 80))
    with following(open_log) as follower:
        until(lambda: len(numbers(log)) >= 80)
        until(lambda: follower.is_at_end)
    assert numbers(log) == list(range(80))
    assert follower.totals == {"events": 30}
    assert (
        follower.registry.get_sample_value(
            "streamnb_source_records_total", {"source": "crm", "result": "events"}
        )
        == 30
    )


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_write_of_unknown_outcome_neither_loses_nor_repeats(open_log, monkeypatch, when):
    log = open_log(source=2, events=1, **{"dead-letters": 1})
    whole, draws = LeasedPosition.save, random.Random(7)

    def save(position, records=(), cursor=None):
        if not records or draws.random() < 0.6:
            return whole(position, records, cursor)
        if when == "after":
            whole(position, records, cursor)
        raise Unavailable("the connection broke")

    monkeypatch.setattr(LeasedPosition, "save", save)
    with following(open_log) as follower:
        for start in range(0, 60, 10):
            send(log, range(start, start + 10))
            until(lambda end=start + 10: len(numbers(log)) >= end)
        until(lambda: follower.is_at_end)
        assert "following-restarts" in follower.names()
    assert numbers(log) == list(range(60))


def test_one_process_converts_and_the_next_takes_over_when_it_is_silent(open_log, monkeypatch):
    log = open_log(source=1, events=1, **{"dead-letters": 1})
    send(log, range(10))
    with following(open_log, lease_seconds=1.5) as first:
        until(lambda: len(numbers(log)) == 10)
        with following(open_log, lease_seconds=1.5) as second:
            time.sleep(2.5)
            assert second.names() == []
            monkeypatch.setattr(first, "is_over", lambda: True)  # a process that dies releases nothing
            monkeypatch.setattr(LeasedPosition, "release", lambda _: None)
            first.stop()
            send(log, range(10, 20))
            until(lambda: len(numbers(log)) >= 20)
            assert second.names() == ["source-begins"]
    assert numbers(log) == list(range(20))


def test_an_outage_of_the_registry_holds_up_and_loses_nothing(open_log):
    log = open_log(source=1, events=1, **{"dead-letters": 1})
    stub = StubRegistry()
    stub.register("s", SCHEMA)
    stub.fault = 503
    with serving(stub) as url, following(open_log, registry=url, label="drop = ['z']") as follower:
        send(log, range(5), lambda n: b"\0\0\0\0\1" + bytes([2 * n]))
        until(lambda: "registry-unreachable" in follower.names())
        time.sleep(0.5)
        assert read_topic(log, "events") == read_topic(log, "dead-letters") == []
        stub.fault = 0
        until(lambda: len(numbers(log)) == 5)
        assert follower.names() == [
            "source-begins", "registry-unreachable", "source-notice", "registry-reachable",
        ]  # fmt: skip
    assert read_topic(log, "dead-letters") == []


def test_a_registry_that_forgot_its_ids_stops_the_source(open_log):
    log = open_log(source=1, events=1, **{"dead-letters": 1})
    stub = StubRegistry()
    stub.register("s", SCHEMA)
    with serving(stub) as url:
        with following(open_log, registry=url, label="drop = ['z']"):
            send(log, [1], lambda n: b"\0\0\0\0\1" + bytes([2 * n]))
            until(lambda: numbers(log) == [1])
        stub.schemas[1] = {"schema": SCHEMA["schema"].replace('"n"', '"m"')}
        with following(open_log, registry=url, label="drop = ['z']") as follower:
            send(log, [2], lambda n: b"\0\0\0\0\1" + bytes([2 * n]))
            until(lambda: "another schema" in follower.problem)
    assert numbers(log) == [1]
    assert read_topic(log, "dead-letters") == []


def test_a_record_whose_output_is_too_large_holds_nothing_up(open_log, monkeypatch):
    """Its topic would refuse it, and the transaction with it, again and again."""
    log = open_log(source=1, events=1, **{"dead-letters": 1})
    monkeypatch.setattr(type(log), "sizes", lambda _, topics: dict.fromkeys(topics, 1000))
    send(log, range(3), lambda n: json.dumps({"n": n, "y": "a", "x": "x" * 1000 * (n == 1)}).encode())
    with following(open_log) as follower:
        until(lambda: len(numbers(log)) == 2)
        until(lambda: follower.is_at_end)
        assert follower.names() == ["source-begins", "source-notice"]
    assert numbers(log) == [0, 2]
    (letter,) = read_topic(log, "dead-letters")
    assert (dict(letter.headers)["reason"], dict(letter.headers)["offset"]) == (b"oversize", b"1")


def test_many_bytes_are_written_in_several_transactions(open_log, monkeypatch):
    whole, written = LeasedPosition.save, []

    def save(position, records=(), cursor=None):
        written.append(sum(len(record.value) for record in records))
        return whole(position, records, cursor)

    monkeypatch.setattr(LeasedPosition, "save", save)
    monkeypatch.setattr("streamnb.conversion.source_follower._MOST_BYTES", 500)
    log = open_log(source=1, events=1, **{"dead-letters": 1})
    send(log, range(50))
    with following(open_log) as follower:
        until(lambda: follower.is_at_end and follower.totals["events"] == 50)
        assert follower.totals == {"events": 50}
    assert numbers(log) == list(range(50))
    assert len([size for size in written if size]) > 4
    assert max(written) < 700


def test_an_error_that_no_record_explains_ends_the_source(open_log, monkeypatch):
    """`convert` ends with its thread, so that a supervisor notices it."""
    log = open_log(source=1, events=1, **{"dead-letters": 1})
    send(log, [1])
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    monkeypatch.setattr(
        "streamnb.conversion.record_converter.json_decoded", lambda _: (_ for _ in ()).throw(OSError("full"))
    )
    with following(open_log) as follower:
        until(lambda: not follower.is_alive)
    assert numbers(log) == []


def test_records_that_are_gone_are_reported_and_passed(open_log):
    log = open_log(source=1, events=1, **{"dead-letters": 1})
    send(log, range(10))
    with following(open_log):
        until(lambda: len(numbers(log)) == 10)
    send(log, range(10, 20))
    trim(log, Partition("source", 0), 15)
    with following(open_log) as follower:
        until(lambda: len(numbers(log)) >= 15)
        assert "source-gap" in follower.names()
    assert numbers(log) == [*range(10), *range(15, 20)]


def test_a_topic_that_was_created_again_is_read_from_its_first_record(open_log):
    log = open_log(source=1, events=1, **{"dead-letters": 1})
    send(log, range(5))
    with following(open_log):
        until(lambda: len(numbers(log)) == 5)
    made_anew(open_log, "source")
    log = open_log()
    send(log, range(100, 103))
    with following(open_log) as follower:
        until(lambda: len(numbers(log)) >= 8)
        assert follower.names() == ["source-begins"]
    assert numbers(log) == [*range(5), 100, 101, 102]


def test_partitions_that_are_added_are_read_from_their_first_record(open_log):
    log = open_log(source=1, events=1, **{"dead-letters": 1})
    with following(open_log):
        send(log, range(5))
        until(lambda: len(numbers(log)) == 5)
        add_partitions(log, "source", 3)
        send(log, range(5, 40))
        until(lambda: len(numbers(log)) >= 40)
    assert numbers(log) == list(range(40))
