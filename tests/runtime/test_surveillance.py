"""How long the log keeps what a recovery needs, by the offsets and timestamps of a real log."""

from __future__ import annotations

import math
from contextlib import closing

import pytest

from streamnb.engine.ports import Partition
from streamnb.engine.sensor import Sensor
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.runtime.surveillance import RecoverySurveillance
from tests.support.service import TOPICS, kill, new_worker, produce, raw_events
from tests.support.topics_of_logs import trim

RETENTION = 3600.0
RAWS = raw_events(40)
EVENTS = Partition("events", 0)


class Heard(Sensor):
    def __init__(self):
        self.margins = []

    def recoverable(self, seconds, retention):
        self.margins.append((seconds, retention))


@pytest.fixture
def started(tmp_path, monkeypatch):
    """A worker that learned 20 records, saved, and learned 20 more; and what observes it."""
    monkeypatch.setattr(SqliteLog, "retention", lambda _, topics: dict.fromkeys(topics, RETENTION))

    def open_log():
        return SqliteLog(tmp_path / "log.db")

    with closing(open_log()) as log:
        for topic, n in TOPICS.items():
            log.create_topic(topic.replace("_", "-"), n)
        produce(log, RAWS[:20])
        first = new_worker(open_log(), tmp_path / "s")
        first.start("first")
        first.run(until_end=True)
        first.close()  # saves
        produce(log, RAWS[20:])
        worker = new_worker(open_log(), tmp_path / "s")
        worker.start("second")
        now = [0.0]
        surveillance, heard = RecoverySurveillance(worker.context, lambda: now[0]), Heard()
        worker.context.sensor = heard
        [needed] = log.read(EVENTS, 20, 1)

        def margin(after=0.0):
            now[0] = needed.timestamp + after
            surveillance.observe()
            return heard.margins[-1]

        yield worker, log, margin
        kill(worker)


def test_the_margin_is_the_time_until_retention_reaches_the_first_needed_record(started):
    worker, _, margin = started
    assert margin(after=100.0) == (math.inf, RETENTION)  # nothing was learned after the snapshot
    worker.run(until_end=True)
    assert margin(after=100.0) == (RETENTION - 100, RETENTION)
    assert margin(after=RETENTION - 1) == (1.0, RETENTION)
    assert margin(after=RETENTION + 50) == (0.0, RETENTION)


def test_a_new_snapshot_needs_later_records(started):
    worker, _, margin = started
    worker.run(until_end=True)
    assert margin(after=100.0)[0] == RETENTION - 100
    worker._writer.begin(worker.checkpoint)
    worker._writer.finish(lambda: None)
    assert margin(after=100.0)[0] == math.inf


def test_a_record_that_is_gone_leaves_no_time(started):
    worker, log, margin = started
    worker.run(until_end=True)
    assert margin() == (RETENTION, RETENTION)
    trim(log, EVENTS, 21)
    assert margin() == (0.0, RETENTION)


def test_a_log_without_retention_has_no_margin(started, monkeypatch):
    worker, _, margin = started
    monkeypatch.setattr(SqliteLog, "retention", lambda *_: {})
    worker.run(until_end=True)
    assert margin() == (math.inf, math.inf)
