"""Work that takes longer than the group allows a member to be silent does not cost the election."""

from __future__ import annotations

import threading
import time

import pytest

from streamnb.errors import NotElected
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.runtime.worker_context import CommitPolicy
from tests.brokers.numbered import NUMBERS
from tests.brokers.prefixed import PrefixedKafkaLog
from tests.support.service import TOPICS, kill, new_learner, new_worker, predictions, produce, raw_events

pytestmark = [pytest.mark.thorough, pytest.mark.early(18)]

PIECE, PIECES = 0.7, 10  # seconds, so that the whole is longer than a member may be silent
SILENT_MS = 4000
RAWS = raw_events(60, seed=2)
PACE = CommitPolicy(commit_events=6)


def slow(learner, *, pieces):
    """A learner that takes its time, and shows in between that it is alive, as for a large batch."""
    process = learner.process

    def slowly(records, now, alive=lambda: None, *most, **more):
        for _ in range(pieces):
            alive()
            time.sleep(PIECE)
        return process(records, now, alive, *most, **more)

    learner.process = slowly
    return learner


class SlowToRead(SnapshotFolder):
    def newest(self, at_most=None, alive=lambda: None):
        for _ in range(PIECES):
            alive()
            time.sleep(PIECE)
        return super().newest(at_most, alive)


class SlowToWrite(SnapshotFolder):
    def save(self, snapshot):
        time.sleep(PIECES * PIECE)
        return super().save(snapshot)


class Rival(threading.Thread):
    """Stands by, and notes whether it was elected."""

    def __init__(self, log):
        super().__init__(daemon=True)
        self._log, self._over = log, threading.Event()
        self.was_elected = self.has_stood = False

    def run(self):
        while not self._over.is_set():
            try:
                self._log.acquire("rival")
            except NotElected as error:
                self.has_stood |= "another learner is alive" in str(error)
            else:
                self.was_elected = True
                return

    def stop(self):
        self._over.set()
        self.join()


@pytest.mark.parametrize("what", ["recovery", "loading a snapshot", "batch", "writing a snapshot"])
def test_long_work_keeps_the_election(broker, tmp_path, monkeypatch, what):
    monkeypatch.setattr("streamnb.event_logs.kafka.kafka_clients.MAX_POLL_INTERVAL", SILENT_MS / 1000)
    prefix = f"long{next(NUMBERS)}-"

    def connect(elected_within=15.0):
        return PrefixedKafkaLog(broker.address, prefix, session_timeout=6.0, elected_within=elected_within)

    with connect() as log:
        log.create_topics(TOPICS)
        produce(log, RAWS)
    first = new_worker(connect(), tmp_path / "none", pace=PACE)
    first.start("first")
    if what == "recovery":
        first.run(until_end=True)
    kill(first)
    learner, store = new_learner(), SnapshotFolder
    if what == "recovery":
        learner = slow(learner, pieces=1)
    elif what == "batch":
        learner = slow(learner, pieces=PIECES)
    elif what == "loading a snapshot":
        store = SlowToRead
    else:
        store = SlowToWrite
    pace = CommitPolicy(commit_events=60, snapshot_events=6 if what == "writing a snapshot" else 1 << 30)
    worker = new_worker(connect(), tmp_path / "snapshots", pace=pace, learner=learner, store=store)
    with connect(elected_within=0.5) as other, connect() as producer:
        rival = Rival(other)
        if what in {"recovery", "loading a snapshot"}:  # a rival must not win before there is anyone to beat
            worker.context.log.acquire("second")
        else:
            worker.start("second")
        rival.start()
        began = time.monotonic()
        if what in {"recovery", "loading a snapshot"}:
            worker.start("second")
        worker.run(until_end=True)
        while what == "writing a snapshot" and time.monotonic() - began < PIECES * PIECE:
            worker.run(until_end=True)
        assert time.monotonic() - began > SILENT_MS / 1000
        rival.stop()
        assert (rival.has_stood, rival.was_elected) == (True, False)
        produce(producer, raw_events(1, seed=3))
        worker.run(until_end=True)  # still the learner
        worker.close()
        assert len(predictions(other)) == len(RAWS) + 1
