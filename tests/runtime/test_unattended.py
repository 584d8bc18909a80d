"""What goes wrong while nobody looks: topics replaced in mid-stream, disks that do not answer, commits too large."""

from __future__ import annotations

import time
from concurrent.futures import Future
from itertools import islice

import pytest

from streamnb.engine.journal.recovery import recover
from streamnb.engine.journal.snapshot_store import NoSnapshots
from streamnb.engine.ports import NewRecord
from streamnb.engine.sensor import Sensor
from streamnb.errors import JournalError
from streamnb.formats.journal_record import decode_journal
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.runtime.worker_context import CommitPolicy
from tests.support.service import (
    TOPICS,
    Ticking,
    kill,
    new_learner,
    new_worker,
    predictions,
    produce,
    raw_events,
    read_topic,
)
from tests.support.verifying import learn, told, verified

pytestmark = pytest.mark.thorough

RAWS = raw_events(90, seed=61)
PACE = CommitPolicy(commit_events=30)


class Replaced:
    """A log whose topic of events is made anew at some call: from then on its id is another."""

    def __init__(self, log, at):
        self._log, self._at, self._is_new = log, at, False

    def __getattr__(self, name):
        found = getattr(self._log, name)
        if name != self._at:
            return found

        def call(*arguments):
            answer = found(*arguments)
            self._is_new = self._is_new or name != "poll" or bool(answer)
            return answer

        return call

    def topic_id(self, topic):
        return self.topic_ids([topic])[topic]

    def topic_ids(self, topics):
        return {**self._log.topic_ids(topics), **({"events": "another"} if self._is_new else {})}


def test_events_of_a_topic_made_anew_are_never_learned_at_the_old_offset(open_log, tmp_path):
    """Not even those that were read before anybody looked at the topic's id."""
    produce(open_log(**TOPICS), RAWS)
    worker = new_worker(Replaced(open_log(), "poll"), tmp_path / "s", pace=PACE)
    worker.start("first")
    with pytest.raises(JournalError, match="recreated"):
        worker.run(until_end=True)
    worker.close()
    assert predictions(open_log()) == []


@pytest.mark.parametrize("at", ["seek", "offset_ranges"])
def test_a_topic_made_anew_during_the_start_is_refused(open_log, tmp_path, at):
    produce(open_log(**TOPICS), RAWS)
    first = new_worker(open_log(), tmp_path / "s", pace=PACE)
    first.start("first")
    first.run(until_end=True)
    first.close()
    worker = new_worker(Replaced(open_log(), at), tmp_path / "s", pace=PACE)
    with pytest.raises(JournalError, match="recreated"):
        worker.start("second")
    worker.close()


class NeverWritten(SnapshotFolder):
    """On a disk that does not answer."""

    def save_aside(self, _):
        return Future()


class Heard(Sensor):
    def __init__(self):
        self.unsaid, self.alive_times = [], 0

    def unsaved(self, reason):
        self.unsaid.append(reason)

    def heartbeat(self):
        self.alive_times += 1


def test_a_snapshot_whose_write_never_returns_is_told_once_and_given_up_at_the_end(
    open_log, tmp_path, monkeypatch
):
    monkeypatch.setattr("streamnb.runtime.snapshot_writer.LONGEST_WRITE", 0.0)
    produce(open_log(**TOPICS), RAWS)
    heard = Heard()
    pace = CommitPolicy(commit_events=10, snapshot_events=10)
    worker = new_worker(open_log(), tmp_path / "s", pace=pace, store=NeverWritten, sensor=heard)
    worker.start("stuck")
    worker.run(until_end=True)
    assert len(predictions(open_log())) == len(RAWS)
    assert len(heard.unsaid) == 1
    before = heard.alive_times
    worker.close()
    assert heard.unsaid[1:]
    assert all("does the disk answer" in reason for reason in heard.unsaid)
    assert heard.alive_times > before


def test_the_first_commit_after_a_start_is_bounded_too(open_log, tmp_path):
    """Predictions of many classes are long, and a model may know many when it starts."""
    raws = [b'{"id":"e%d","text":"w","label":"%03d%s"}' % (i, i, b"x" * 600) for i in range(200)]
    open_log(**TOPICS)
    lengths = []
    for _ in range(2):
        produce(open_log(), raws)
        worker = new_worker(
            open_log(), tmp_path / "s", pace=CommitPolicy(commit_seconds=5.0, commit_events=200)
        )
        worker.start("learner")
        worker.run(until_end=True)
        worker.close()
        found = read_topic(open_log(), "predictions")
        assert len(found) == len(raws) + len(lengths)
        lengths += [len(record.value) for record in found[len(lengths) :]]
    assert sum(lengths[200:]) > 24 << 20, "or nothing had to be cut"
    journal = [decode_journal(record.value) for record in read_topic(open_log(), "journal")]
    left = iter(lengths)
    commits = [sum(islice(left, record.events)) for record in journal]
    assert max(commits) < (16 << 20) + (4 << 20), "what a commit may hold, and a last part of it"
    assert sum(commits) == sum(lengths)


class Repeating:
    """A log whose journal ends with a record that it has already."""

    def __init__(self, log, n):
        self._log, self._n, self._extra = log, n, None

    def __getattr__(self, name):
        return getattr(self._log, name)

    def offsets(self, partition):
        first, end = self._log.offsets(partition)
        return (first, end + 1) if partition.topic == "journal" else (first, end)

    def read(self, partition, offset, limit):
        if partition.topic != "journal":
            return self._log.read(partition, offset, limit)
        first, end = self._log.offsets(partition)
        if offset > end:
            return []
        found = list(self._log.read(partition, offset, limit)) if offset < end else []
        again = next(r for r in self._log.read(partition, first, 100) if b'"n":%d,' % self._n in r.value)
        return [*found, again._replace(offset=end)][:limit]


def test_a_journal_record_that_comes_twice_is_refused_after_a_snapshot_too(open_log, tmp_path):
    log = open_log(**TOPICS)
    for raws, is_killed in ((RAWS[:60], False), (RAWS[60:], True)):
        produce(log, raws)
        worker = new_worker(open_log(), tmp_path / "s", pace=PACE)
        worker.start("the learner")
        worker.run(until_end=True)
        kill(worker) if is_killed else worker.close()
    assert SnapshotFolder(tmp_path / "s").newest().snapshot.journal_n == 2
    log = Repeating(open_log(), 1)
    for snapshots in (NoSnapshots(), SnapshotFolder(tmp_path / "s")):
        with pytest.raises(JournalError, match="from record 3 to 1"):
            recover(log, snapshots, new_learner(), worker.context.identity)


class Backwards(Ticking):
    """A clock that was set right, to an earlier time."""

    def __call__(self):
        self.now -= 10.0
        return self.now


def test_predictions_published_twice_are_found_though_the_clock_went_back(open_log, tmp_path):
    log = open_log(**TOPICS)
    produce(log, RAWS)
    learn(open_log(), tmp_path / "s", clock=Backwards())
    assert told(verified(open_log(), tmp_path / "s")) == []
    found = [r for p in log.partitions("predictions") for r in log.read(p, log.offsets(p)[0], 1000)]
    log.append([NewRecord("predictions", record.key, record.value) for record in found])
    checks = {check for check, _ in told(verified(open_log(), tmp_path / "s"))}
    assert checks == {"predictions"}


class Between(Ticking):
    """A clock that shows times at which commits were made already."""

    def __call__(self):
        self.now += 0.01
        return self.now + 2.0


def test_a_learner_whose_clock_went_back_may_run_while_it_is_verified(open_log, tmp_path):
    """What it publishes meanwhile bears earlier times than what was published before."""
    log = open_log(**TOPICS)
    produce(log, RAWS)
    learn(open_log(), tmp_path / "s")
    going_on = []

    def progress(_):
        if not going_on:
            going_on.append(time.time())
            produce(log, raw_events(40, seed=62))
            learn(open_log(), tmp_path / "s", clock=Between())

    assert told(verified(open_log(), tmp_path / "s", progress=progress)) == []
    assert going_on
