"""While a commit is under way the next records are learned: nothing shows it, and a failure loses nothing."""

from __future__ import annotations

import time

import pytest

from streamnb.engine.journal.recovery import recover
from streamnb.engine.journal.snapshot_store import NoSnapshots
from streamnb.engine.ports import CommitInFlight
from streamnb.engine.sensor import Sensor
from streamnb.errors import LogError
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.runtime.worker_context import CommitPolicy
from tests.support.service import (
    TOPICS,
    digests,
    many,
    model_digest,
    new_learner,
    new_worker,
    predictions,
    produce,
    raw_events,
    read_topic,
    records,
)

pytestmark = pytest.mark.thorough

RAWS = raw_events(200, seed=12)
PACE = CommitPolicy(commit_events=20, commit_seconds=1.0)
PACE_AND_SNAPSHOTS = CommitPolicy(commit_events=20, commit_seconds=1.0, snapshot_events=50)
SECONDS = 1e-4


class Late:
    """A log that commits no sooner than somebody waits for it, and notes what is done meanwhile.

    Args:
        log: what is written to in the end.
        fails: the number of the commit that does not come to pass.
    """

    def __init__(self, log, fails=None):
        self._log, self._fails = log, fails
        self.story, self.begun = [], {}  # number of a commit -> when
        self.is_over = False

    def __getattr__(self, name):
        return getattr(self._log, name)

    def begin_commit(self, transaction):
        self.story.append(("begin", transaction.n))
        self.begun[transaction.n] = time.time()

        def settle():
            self.story.append(("settle", transaction.n))
            if transaction.n == self._fails:
                raise LogError("the disk is full")
            self._log.commit(transaction)
            return SECONDS

        return CommitInFlight(lambda: self.is_over, settle)


def late_worker(open_log, folder, *, fails=None, **options):
    """A worker that has begun on a log that holds the events, and tells the story what it processes."""
    log = Late(open_log(**TOPICS), fails)
    produce(log, RAWS)
    worker = new_worker(log, folder, **{"pace": PACE} | options)
    worker.start("late")
    process = worker.learner.process

    def noted(*arguments):
        log.story.append("process")
        return process(*arguments)

    worker.learner.process = noted
    return worker, log


def undisturbed():
    alone = new_learner()
    return predictions(alone.process(records(RAWS), 1.0)), digests(alone)


def test_the_next_records_are_learned_before_a_commit_is_waited_for(open_log, tmp_path):
    worker, log = late_worker(open_log, tmp_path / "snapshots")
    worker.run(until_end=True)
    expected = ["process", ("begin", 1)]
    for n in range(2, 11):
        expected += ["process", ("settle", n - 1), ("begin", n)]
    assert log.story == [*expected, ("settle", 10)]
    assert (predictions(open_log()), digests(worker.learner)) == undisturbed()
    worker.close()


def test_a_commit_that_is_over_is_settled_before_more_is_learned(open_log, tmp_path):
    """Then what watches hears of it soon, however long the next records take to come."""
    worker, log = late_worker(open_log, tmp_path / "snapshots")
    log.is_over = True
    worker.run(until_end=True)
    expected = [step for n in range(1, 11) for step in ("process", ("begin", n), ("settle", n))]
    assert log.story == expected
    worker.close()


def test_a_snapshot_holds_only_what_is_committed(open_log, tmp_path):
    """It is begun where nothing is under way; each equals the replay of the journal up to it."""
    worker, log = late_worker(open_log, tmp_path / "snapshots", pace=PACE_AND_SNAPSHOTS, store=many)
    worker.run(until_end=True)
    worker._writer.finish(lambda: None)
    log._log.close()  # the process dies
    found = sorted(int(path.stem.removeprefix("snapshot-")) for path in (tmp_path / "snapshots").iterdir())
    assert found == [3, 6, 9]
    for n in found:
        learner = new_learner()
        recover(open_log(), NoSnapshots(), learner, worker.context.identity, at=n)
        assert learner.consumed == 20 * n
        kept = SnapshotFolder(tmp_path / "snapshots").newest(n).snapshot
        assert kept.journal_n == n
        again = new_learner()
        again.load(kept.parts)
        assert digests(again) == digests(learner)


@pytest.mark.parametrize("fails", [1, 4, 10])
def test_a_commit_that_fails_when_more_was_learned(open_log, tmp_path, fails):
    """The model is ahead by two commits then: no snapshot is kept, and both are learned again."""
    worker, log = late_worker(open_log, tmp_path / "snapshots", fails=fails)
    with pytest.raises(LogError, match="disk is full"):
        worker.run(until_end=True)
    assert worker.learner.consumed == min(20 * (fails + 1), len(RAWS))
    assert ("begin", fails + 1) not in log.story
    worker.close()
    assert SnapshotFolder(tmp_path / "snapshots").newest() is None
    again = new_worker(open_log(), tmp_path / "snapshots", pace=PACE)
    assert again.start("again").n == fails - 1
    again.run(until_end=True)
    assert (predictions(open_log()), digests(again.learner)) == undisturbed()
    again.close()


def test_no_snapshot_of_a_commit_that_fails(open_log, tmp_path):
    """One would be due right after it; a journal that ends before a snapshot is refused."""
    worker, _ = late_worker(open_log, tmp_path / "snapshots", fails=3, pace=PACE_AND_SNAPSHOTS)
    with pytest.raises(LogError, match="disk is full"):
        worker.run(until_end=True)
    worker.close()
    assert SnapshotFolder(tmp_path / "snapshots").newest() is None
    again = new_worker(open_log(), tmp_path / "snapshots", pace=PACE)
    assert again.start("again").n == 2
    again.run(until_end=True)
    assert (predictions(open_log()), digests(again.learner)) == undisturbed()
    again.close()


def test_a_death_with_a_commit_under_way(open_log, tmp_path):
    """What was learned beside it is learned again."""
    worker, log = late_worker(open_log, tmp_path / "snapshots")
    settled = Stopping(log, at=5)
    worker.context.sensor = settled
    with pytest.raises(KeyboardInterrupt):
        worker.run(until_end=True)
    assert worker.learner.consumed > 20 * 5
    log._log.close()
    again = new_worker(open_log(), tmp_path / "snapshots", pace=PACE)
    assert again.start("again").n == 5
    again.run(until_end=True)
    assert (predictions(open_log()), digests(again.learner)) == undisturbed()
    again.close()


class Stopping(Sensor):
    """Ends the process, as far as it can, once a commit has been told, and lets no other come to pass."""

    def __init__(self, log, at):
        self._log, self._at = log, at

    def committed(self, commit):
        if commit.n == self._at:
            self._log._fails = self._at + 1
            raise KeyboardInterrupt


def test_what_was_processed_is_committed_though_the_next_records_cannot_be(open_log, tmp_path):
    """Or a record that stops the learner would hold back for ever what came before it."""
    worker, _ = late_worker(open_log, tmp_path / "snapshots")
    process, calls = worker.learner.process, []

    def breaking(*arguments):
        calls.append(1)
        if len(calls) == 4:
            raise ZeroDivisionError("the fourth")
        return process(*arguments)

    worker.learner.process = breaking
    with pytest.raises(ZeroDivisionError, match="the fourth"):
        worker.run(until_end=True)
    worker.close()
    assert len(predictions(open_log())) == 60
    assert SnapshotFolder(tmp_path / "snapshots").newest() is None  # the model may know part of the fourth
    learner = new_learner()
    checkpoint = recover(open_log(), NoSnapshots(), learner, worker.context.identity)
    assert (checkpoint.n, learner.consumed) == (3, 60)
    alone = new_learner()
    alone.process(records(RAWS[:60]), 1.0)
    assert model_digest(learner) == model_digest(alone)


def test_what_is_told_of_a_commit_is_its_own(open_log, tmp_path):
    """Not what was learned beside it; and when it was visible, not when somebody looked."""
    told = []

    class Telling(Sensor):
        def committed(self, commit):
            told.append(commit)

    worker, log = late_worker(open_log, tmp_path / "snapshots", sensor=Telling())
    worker.run(until_end=True)
    worker.close()
    alone, stamped = new_learner(), read_topic(open_log(), "events")
    assert [commit.n for commit in told] == list(range(1, 11))
    for commit in told:
        alone.tally = type(alone.tally)()
        alone.process(records(RAWS)[20 * (commit.n - 1) : 20 * commit.n], 1.0)
        assert (commit.consumed, commit.seconds) == (20, SECONDS)
        assert commit.tally.learned == alone.tally.learned
        assert commit.tally.predicted == alone.tally.predicted
        part = stamped[20 * (commit.n - 1) : 20 * commit.n]
        assert commit.latencies == [commit.at - record.timestamp for record in part]
        assert commit.at - SECONDS <= log.begun[commit.n]
        assert commit.n == 1 or commit.at > log.begun[commit.n - 1]
