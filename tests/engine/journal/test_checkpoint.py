"""A snapshot is made while the stream flows: it holds the moment at which it was begun, whatever happens then."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from pathlib import Path

import pytest

from streamnb import BayesOptimalNB
from streamnb.engine.journal.checkpoint import snapshot_of
from streamnb.engine.journal.recovery import recover
from streamnb.engine.journal.snapshot_store import NoSnapshots
from streamnb.engine.sensor import Sensor
from streamnb.errors import LogError, SnapshotError
from streamnb.formats.snapshot_container import encode
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.runtime import snapshot_writer as saving
from streamnb.runtime.worker_context import CommitPolicy
from tests.support.service import (
    IDENTITY,
    TOPICS,
    digests,
    kill,
    new_learner,
    new_worker,
    produce,
    raw_events,
    read_topic,
    records,
    snapshot_content,
)

pytestmark = pytest.mark.thorough

RAWS = raw_events(400, seed=31)


class Told(Sensor):
    def __init__(self):
        self.commits, self.saved_at, self.failures, self.turns = 0, [], [], 0

    def committed(self, commit):
        self.commits = commit.n

    def saved(self, seconds, size):  # noqa: ARG002
        self.saved_at.append(self.commits)

    def unsaved(self, reason):
        self.failures.append(reason)

    def heartbeat(self):
        self.turns += 1


class Noting(SnapshotFolder):
    """Says which snapshots were handed to it, and how many were on their way at once."""

    def __init__(self, path):
        super().__init__(path, keep=100)
        self.handed, self.under_way, self.most = [], 0, 0
        self._lock = threading.Lock()

    def save_aside(self, made):
        snapshot = made()
        with self._lock:
            self.handed.append(snapshot.journal_n)
            self.under_way += 1
            self.most = max(self.most, self.under_way)
        return super().save_aside(lambda: snapshot)

    def save(self, snapshot):
        try:
            return super().save(snapshot)
        finally:
            with self._lock:
                self.under_way -= 1


@pytest.fixture(params=[200, 3000], ids=["many slices", "some slices"])
def small_slices(request, monkeypatch):
    """A snapshot is copied over many commits."""
    monkeypatch.setattr(saving, "_SLICE", request.param)
    return request.param


def begun(open_log, folder, *, told=None, log=None, pace=None, store=Noting):
    """A worker with commits of 5 events, and a snapshot due after 20."""
    log = log or open_log(**TOPICS)
    pace = pace or CommitPolicy(commit_events=5, snapshot_events=20, snapshot_seconds=1e9)
    worker = new_worker(log, folder, pace=pace, store=store, sensor=told or Told())
    worker.start("test")
    return worker


def at_once(open_log, n):
    """The bytes of a snapshot that was made at a journal record, while nothing else happened."""
    learner = new_learner()
    checkpoint = recover(open_log(), NoSnapshots(), learner, IDENTITY, at=n)
    return encode(snapshot_of(checkpoint, learner.parts(), IDENTITY))


def check_files(open_log, folder, expected=None):
    """Every file that is kept is what it would have been; nothing else is there."""
    found = {int(path.stem.removeprefix("snapshot-")): path for path in folder.iterdir()}
    assert expected is None or sorted(found) == expected
    for n, path in found.items():
        assert snapshot_content(path) == at_once(open_log, n)
    return sorted(found)


def undisturbed(n):
    learner = new_learner()
    learner.process(records(RAWS[:n]), 1.0)
    return digests(learner)


@pytest.mark.usefixtures("small_slices")
def test_the_file_holds_the_moment_at_which_it_was_begun(open_log, tmp_path):
    folder, told = tmp_path / "snapshots", Told()
    produce(open_log(**TOPICS), RAWS)
    worker = begun(open_log, folder, told=told)
    worker.run(until_end=True)
    worker.close()
    kept = check_files(open_log, folder)
    assert kept[0] == 4
    assert kept[-1] == 80
    assert told.saved_at[0] > 4, "learning went on meanwhile"
    assert told.failures == []
    assert worker.context.snapshots.most == 1
    assert digests(worker.learner) == undisturbed(400)


def test_one_that_becomes_due_meanwhile_waits_for_the_one_on_its_way(open_log, tmp_path):
    """The store is done when it is told to be; commits go on, and nothing else is begun."""

    class Slow(SnapshotFolder):
        def __init__(self, path):
            super().__init__(path)
            self.waiting = []
            self.is_slow = True

        def save_aside(self, made):
            self.waiting.append((made(), Future()))
            if not self.is_slow:
                self.let_go()
            return self.waiting[-1][1]

        def let_go(self):
            snapshot, outcome = self.waiting[-1]
            outcome.set_result(self.save(snapshot))

    folder, told = tmp_path / "snapshots", Told()
    produce(open_log(**TOPICS), RAWS[:100])
    worker = begun(open_log, folder, told=told, store=Slow)
    store = worker.context.snapshots
    worker.run(until_end=True)
    assert [snapshot.journal_n for snapshot, _ in store.waiting] == [4]
    assert (told.commits, told.saved_at) == (20, [])
    store.let_go()
    produce(open_log(), RAWS[100:105])
    worker.run(until_end=True)
    assert told.saved_at in ([20], [21])  # the last commit may be under way
    store.is_slow = False
    worker.close()
    assert [snapshot.journal_n for snapshot, _ in store.waiting] == [4, 21]
    check_files(open_log, folder, [4, 21])


@pytest.mark.usefixtures("small_slices")
def test_told_to_stop_while_it_is_on_its_way(open_log, tmp_path):
    """It is finished, and another holds what came after."""

    class Stopping(Told):
        def committed(self, commit):
            super().committed(commit)
            if commit.n == 6:
                worker.stop()

    folder, told = tmp_path / "snapshots", Stopping()
    produce(open_log(**TOPICS), RAWS)
    worker = begun(open_log, folder, told=told)
    worker.run()
    worker.close()
    assert told.commits in {6, 7}  # the next one may be under way
    check_files(open_log, folder, [4, told.commits])
    again = begun(open_log, folder)
    assert again.learner.consumed == 5 * told.commits
    again.run(until_end=True)
    again.close()
    assert digests(again.learner) == undisturbed(400)


def test_a_crash_while_it_is_on_its_way_leaves_nothing(open_log, tmp_path, monkeypatch):
    monkeypatch.setattr(saving, "_SLICE", 10)
    folder = tmp_path / "snapshots"
    produce(open_log(**TOPICS), RAWS[:60])
    worker = begun(open_log, folder)
    worker.run(until_end=True)
    assert worker._writer.is_busy
    kill(worker)
    assert not folder.exists()
    again = begun(open_log, folder)
    assert digests(again.learner) == undisturbed(60)
    again.close()


def test_what_was_replayed_is_kept_before_anything_new_comes(open_log, tmp_path):
    """Or each crash would have all of it replayed again."""
    produce(open_log(**TOPICS), RAWS[:60])
    first = begun(open_log, tmp_path / "lost")
    first.run(until_end=True)
    first.close()

    class Stopping(Told):
        def saved(self, seconds, size):
            super().saved(seconds, size)
            again.stop()

    folder, told = tmp_path / "snapshots", Stopping()
    again = begun(open_log, folder, told=told)
    last = threading.Timer(30.0, again.stop)
    last.start()
    again.run()
    last.cancel()
    assert len(told.saved_at) == 1, "with nothing new"
    again.close()
    (n,) = check_files(open_log, folder)
    third = begun(open_log, folder)
    third.run(until_end=True)
    third.close()
    check_files(open_log, folder, [n])


class Failing:
    """A log whose commits fail from one on."""

    def __init__(self, log, first):
        self._log, self._first = log, first

    def __getattr__(self, name):
        return getattr(self._log, name)

    def begin_commit(self, transaction):
        if transaction.n >= self._first:
            raise LogError("the disk is full")
        return self._log.begin_commit(transaction)


@pytest.mark.usefixtures("small_slices")
def test_a_commit_that_fails_while_it_is_on_its_way(open_log, tmp_path):
    """The model is ahead of the journal then, and the snapshot, begun before, is not."""
    folder, told = tmp_path / "snapshots", Told()
    log = open_log(**TOPICS)
    produce(log, RAWS)
    worker = begun(open_log, folder, told=told, log=Failing(log, 6))
    with pytest.raises(LogError, match="disk is full"):
        worker.run(until_end=True)
    assert worker.learner.consumed == 30
    worker.close()
    check_files(open_log, folder, [4])
    again = begun(open_log, folder)
    assert again.learner.consumed == 25
    again.run(until_end=True)
    again.close()
    assert digests(again.learner) == undisturbed(400)


def test_one_that_fails_in_the_background_is_told_and_tried_again(open_log, tmp_path):
    class Refusing(SnapshotFolder):
        failures = 2

        def save(self, snapshot):
            if self.failures:
                self.failures -= 1
                raise SnapshotError("no room")
            return super().save(snapshot)

    folder, told = tmp_path / "snapshots", Told()
    produce(open_log(**TOPICS), RAWS)
    worker = begun(open_log, folder, told=told, store=lambda path: Refusing(path, keep=100))
    worker.run(until_end=True)
    worker.close()
    assert told.failures == ["no room", "no room"]
    assert digests(worker.learner) == undisturbed(400)
    assert check_files(open_log, folder)[-1] == 80


def mixture():
    return new_learner(model=BayesOptimalNB({"text": "text"}, memory=1 << 20))


def test_what_was_put_aside_is_gone_as_it_is_kept(open_log, tmp_path):
    """Though no event comes any more."""

    def still_open():
        links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        return [link for link in links if str(link.readlink()).startswith(f"{folder}/")]

    class Counting(SnapshotFolder):
        def aside(self, blocks):
            found = super().aside(blocks)
            opened.append(len(still_open()))
            return found

    folder, opened = tmp_path / "snapshots", []
    produce(open_log(**TOPICS), RAWS[:60])
    worker = new_worker(
        open_log(), folder, store=Counting, learner=mixture(), pace=CommitPolicy(commit_events=5)
    )
    worker.start("test")
    worker.run(until_end=True)
    worker.close()
    assert max(opened) > 5
    assert still_open() == []


def test_where_nothing_can_be_put_aside_for_it_learning_goes_on(open_log, tmp_path):
    class Full(SnapshotFolder):
        failures = 2

        def aside(self, blocks):
            if self.failures:
                self.failures -= 1
                raise SnapshotError("the disk is full")
            return super().aside(blocks)

    folder, told = tmp_path / "snapshots", Told()
    produce(open_log(**TOPICS), RAWS)
    pace, store = CommitPolicy(commit_events=5, snapshot_events=20), Full(folder, keep=100)
    worker = new_worker(open_log(), folder, pace=pace, store=lambda _: store, sensor=told, learner=mixture())
    worker.start("test")
    worker.run(until_end=True)
    worker.close()
    assert told.failures == ["the disk is full"] * 2
    assert worker.learner.consumed == 400
    learner = mixture()
    recover(open_log(), store, learner, IDENTITY)
    again = mixture()
    recover(open_log(), NoSnapshots(), again, IDENTITY)
    assert digests(learner) == digests(again) == digests(worker.learner)


def test_waiting_for_it_shows_that_all_is_well(open_log, tmp_path):
    """At the end there is nothing else to do, and a disk may be slow."""

    class Slow(SnapshotFolder):
        def save(self, snapshot):
            assert until_turned.wait(60)
            return super().save(snapshot)

    class Turning(Told):
        def heartbeat(self):
            super().heartbeat()
            if self.turns > before + 5:
                until_turned.set()

    until_turned, told, folder, before = threading.Event(), Turning(), tmp_path / "snapshots", 10**9
    produce(open_log(**TOPICS), RAWS[:20])
    worker = begun(open_log, folder, told=told, store=Slow, pace=CommitPolicy(commit_events=20))
    worker.run(until_end=True)
    before = told.turns
    worker.close()
    assert len(read_topic(open_log(), "journal")) == 2
    check_files(open_log, folder, [1])
