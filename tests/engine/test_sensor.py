"""What a worker tells whoever watches it, and what it notices by itself: lag, added partitions."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import Future
from dataclasses import replace
from itertools import groupby, islice

import pytest

from streamnb.engine.journal.recovery import recover
from streamnb.engine.journal.snapshot_store import NoSnapshots
from streamnb.engine.ports import NewRecord, Partition
from streamnb.engine.sensor import Sensor, Sensors, WorkerState
from streamnb.errors import JournalError, OutOfRange, SnapshotError, UnknownTopic
from streamnb.formats.journal_record import decode_journal
from streamnb.runtime.worker_context import CommitPolicy
from tests.support.malformed import MALFORMED
from tests.support.service import (
    IDENTITY,
    TOPICS,
    digests,
    kill,
    new_learner,
    new_worker,
    predictions,
    produce,
    raw_events,
    read_topic,
    records,
)
from tests.support.topics_of_logs import add_partitions, made_anew

RAWS = raw_events(200, seed=21)


class Recording(Sensor):
    def __init__(self):
        self.told = []

    def __getattribute__(self, name):
        if name in vars(Sensor) and not name.startswith("_"):
            return lambda *arguments: self.told.append((name, arguments))
        return super().__getattribute__(name)

    def all(self, name):
        return [
            arguments[0] if len(arguments) == 1 else arguments
            for found, arguments in self.told
            if found == name
        ]


class Hasty:
    """Every turn of the loop looks around."""

    def __init__(self, monkeypatch):
        monkeypatch.setattr("streamnb.runtime.worker._LOOK_SECONDS", 0.0)
        monkeypatch.setattr("streamnb.runtime.worker._PARTITION_SECONDS", 0.0)


def watched_worker(log, folder, **options):
    sensor = Recording()
    return new_worker(log, folder, sensor=sensor, **options), sensor


def test_commits_add_up_to_what_was_published(open_log, tmp_path):
    raws = [*RAWS[:100], *(case.raw for case in MALFORMED[3:40]), *RAWS[100:]]
    produce(open_log(**TOPICS), raws)
    worker, sensor = watched_worker(open_log(), tmp_path / "s", pace=CommitPolicy(commit_events=37))
    worker.start("watched")
    worker.run(until_end=True)
    worker.close()
    commits = sensor.all("committed")
    published = predictions(open_log())
    letters = read_topic(open_log(), "dead-letters")
    assert [commit.n for commit in commits] == [*range(1, len(commits) + 1)]
    assert sum(commit.consumed for commit in commits) == len(raws)
    assert total(commit.tally.predicted for commit in commits) == Counter(p["label"] for p in published)
    labels = Counter(json.loads(raw)["label"] for raw in RAWS)
    del labels[None]
    assert total(commit.tally.learned for commit in commits) == labels
    reasons = Counter(dict(letter.headers)["reason"].decode() for letter in letters)
    assert total(commit.tally.dead_letters for commit in commits) == reasons
    assert all(len(commit.latencies) == commit.consumed for commit in commits)
    assert all(0 <= latency < 3600 for commit in commits for latency in commit.latencies)
    assert sensor.all("reported")[-1].events == len(raws)
    assert sensor.all("entered") == [
        WorkerState.RECOVERING,
        WorkerState.RUNNING,
        WorkerState.STOPPED,
    ]
    assert [name for name, _ in sensor.told].count("saved") == 1


def total(counts):
    added = Counter()
    for count in counts:
        added.update(count)
    return added


def test_what_recovery_learns_again_is_not_counted_again(open_log, tmp_path):
    produce(open_log(**TOPICS), RAWS[:50])
    first = new_worker(open_log(), tmp_path / "none", pace=CommitPolicy(commit_events=10))
    first.start("first")
    first.run(until_end=True)
    kill(first)
    produce(open_log(), RAWS[50:60])
    worker, sensor = watched_worker(open_log(), tmp_path / "none")
    worker.start("second")
    worker.run(until_end=True)
    worker.close()
    assert [events for _, events in sensor.all("recovered")] == [50]
    assert sum(commit.consumed for commit in sensor.all("committed")) == 10
    assert sum(sum(commit.tally.predicted.values()) for commit in sensor.all("committed")) == 10
    assert sensor.all("reported")[0].events == 50


def test_lag_is_right_in_between_and_nothing_at_the_end(open_log, tmp_path, monkeypatch):
    Hasty(monkeypatch)
    log = open_log(**{**TOPICS, "events": 3})
    for i, raw in enumerate(RAWS):
        log.append([NewRecord("events", b"%d" % i, raw)]) if i < 20 else None
    log.append([NewRecord("events", b"%d" % i, raw) for i, raw in enumerate(RAWS[20:])])
    worker, sensor = watched_worker(open_log(), tmp_path / "s", pace=CommitPolicy(commit_events=40))
    worker.start("watched")
    worker.run(until_end=True)
    worker.close()
    ends = {partition: open_log().offsets(partition)[1] for partition in open_log().partitions("events")}
    journalled = [
        decode_journal(record.value).positions["events"] for record in read_topic(open_log(), "journal")
    ]
    positions = [{Partition("events", int(n)): at for n, at in found.items()} for found in journalled]
    observed = [lag for lag, _ in sensor.all("observed")]
    expected = [{partition: ends[partition] - at[partition] for partition in ends} for at in positions]
    assert [sum(lag.values()) for lag in expected] == [200, 160, 120, 80, 40, 0]
    assert [lag for lag, _ in groupby(observed)][-5:] == expected[
        1:
    ]  # it may look before the first commit, too
    assert observed[0] in expected[:2]
    assert all(size > 1000 for _, size in sensor.all("observed"))


def test_several_topics_are_read(open_log, tmp_path):
    log = open_log(**TOPICS, more=2)
    identity = replace(IDENTITY, topics=("events", "more"))
    produce(log, RAWS[:60])
    log.append([NewRecord("more", b"%d" % i, raw) for i, raw in enumerate(RAWS[60:])])
    worker = new_worker(open_log(), tmp_path / "s", pace=CommitPolicy(commit_events=25), identity=identity)
    worker.start("both")
    worker.run(until_end=True)
    assert sorted(p["id"] for p in predictions(open_log())) == sorted(f"e{i}" for i in range(len(RAWS)))
    again = new_learner()
    checkpoint = recover(open_log(), NoSnapshots(), again, identity)
    assert digests(again) == digests(worker.learner)
    assert {topic for topic, _ in checkpoint.positions} == {"events", "more"}
    worker.close()


def test_partitions_added_while_it_runs_are_read_and_journalled(open_log, tmp_path, monkeypatch):
    Hasty(monkeypatch)
    log = open_log(**TOPICS)
    produce(log, RAWS[:50])
    worker = new_worker(open_log(), tmp_path / "s", pace=CommitPolicy(commit_events=20, commit_seconds=0.05))
    worker.start("grown")
    worker.run(until_end=True)
    add_partitions(log, "events", 3)
    other = open_log()  # a producer that knows them already
    other.append([NewRecord("events", b"%d" % i, raw) for i, raw in enumerate(RAWS[50:])])
    stop_when(worker, lambda: worker.learner.consumed == len(RAWS))
    worker.run()
    again = new_learner()
    checkpoint = recover(open_log(), NoSnapshots(), again, IDENTITY)
    assert digests(again) == digests(worker.learner)
    assert set(checkpoint.positions) == {Partition("events", n) for n in range(3)}
    assert all(checkpoint.positions.values())
    assert sorted(p["id"] for p in predictions(open_log())) == sorted(f"e{i}" for i in range(len(RAWS)))
    worker.close()


def stop_when(worker, done):
    class Stopping(Sensor):
        def heartbeat(self):
            if done():
                worker.stop()

    worker.context.sensor = Stopping()


def test_all_sensors_hear_everything():
    """A method of `Sensor` that `Sensors` does not pass on would be heard by nobody."""
    heard = [Recording(), Recording()]
    together = Sensors(*heard)
    for name, method in vars(Sensor).items():
        if not name.startswith("_"):
            arguments = [object()] * (method.__code__.co_argcount - 1)
            getattr(together, name)(*arguments)
            assert heard[0].told[-1] == heard[1].told[-1] == (name, tuple(arguments))


def test_a_topic_made_anew_is_noticed(open_log, tmp_path, monkeypatch):
    """Its first events would be taken for those that come after the ones that were learned."""
    Hasty(monkeypatch)
    log = open_log(**TOPICS)
    produce(log, RAWS[:50])
    worker = new_worker(open_log(), tmp_path / "s")
    worker.start("deceived")
    worker.run(until_end=True)
    made_anew(open_log, "events")
    with pytest.raises(
        (JournalError, OutOfRange, UnknownTopic), match=r"made again|recreated|no topic|are gone"
    ):
        worker.run()
    worker.close()


def test_a_snapshot_that_cannot_be_kept_stops_nothing(open_log, tmp_path):
    """It only makes recovery longer."""

    class Full(NoSnapshots):
        def save_aside(self, made):
            outcome = Future()
            outcome.set_exception(SnapshotError(f"no space left for record {made().journal_n}"))
            return outcome

    produce(open_log(**TOPICS), RAWS)
    worker, sensor = watched_worker(
        open_log(), tmp_path / "s", pace=CommitPolicy(commit_events=50, snapshot_events=50)
    )
    worker.context.snapshots = Full()
    worker.start("full")
    worker.run(until_end=True)
    worker.close()
    assert [reason.split()[-1] for reason in sensor.all("unsaved")] == ["1", "2", "3", "4", "4"]
    assert not sensor.all("saved")
    assert len(predictions(open_log())) == len(RAWS)


def test_commits_are_cut_where_their_outputs_are_large(open_log, tmp_path, monkeypatch):
    """A log takes no transaction of any size within its timeouts."""
    most, beyond = 10_000, 2_000
    monkeypatch.setattr("streamnb.engine.processing.admission._BYTES_AT_ONCE", beyond)
    produce(open_log(**TOPICS), RAWS)
    pace = CommitPolicy(commit_events=100, commit_bytes=most)
    worker, sensor = watched_worker(open_log(), tmp_path / "s", pace=pace)
    worker.start("large")
    worker.run(until_end=True)
    worker.close()
    lengths = iter([len(record.value) for record in read_topic(open_log(), "predictions")])
    commits = [sum(islice(lengths, commit.consumed)) for commit in sensor.all("committed") if commit.consumed]
    assert len(commits) > 2
    assert sum(commits) > 2 * (most + beyond), "or nothing had to be cut"
    assert max(commits) < most + beyond
    assert predictions(open_log()) == predictions(new_learner().process(records(RAWS), 1.0))


def test_a_journal_that_another_model_begins_at_the_same_time_is_refused(open_log, tmp_path):
    class Shared:
        def __init__(self, log):
            self._log, self._begun = log, False

        def __getattr__(self, name):
            return getattr(self._log, name)

        def commit(self, transaction):
            self._log.commit(transaction)
            self._begun = True

        def read(self, partition, offset, limit):
            found = self._log.read(partition, offset, limit)
            return [*found, *found] if partition.topic == "journal" and self._begun else found

    open_log(**TOPICS)
    worker = new_worker(Shared(open_log()), tmp_path / "s")
    with pytest.raises(JournalError, match="each model needs its own"):
        worker.start("second")
    worker.close()
