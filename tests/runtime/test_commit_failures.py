"""A commit that fails, in any way and at any moment, is neither lost nor repeated."""

from __future__ import annotations

import pytest

from streamnb.errors import LogError
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.runtime.worker_context import CommitPolicy
from tests.support.service import (
    TOPICS,
    digests,
    kill,
    model_digest,
    new_learner,
    new_worker,
    predictions,
    produce,
    raw_events,
    records,
)

RAWS = raw_events(200, seed=9)


class Failing:
    """A log whose commits fail from the second on: before the write, or after it."""

    def __init__(self, log, *, written):
        self._log, self._written, self._commits = log, written, 0

    def __getattr__(self, name):
        return getattr(self._log, name)

    def begin_commit(self, transaction):
        self._commits += 1
        if self._commits > 1:
            if self._written:
                self._log.commit(transaction)
            raise LogError("the disk is full")
        return self._log.begin_commit(transaction)


@pytest.mark.parametrize("written", [False, True])
def test_no_snapshot_holds_what_the_journal_does_not_say(open_log, tmp_path, written):
    produce(open_log(**TOPICS), RAWS)
    folder = tmp_path / "snapshots"
    worker = new_worker(Failing(open_log(), written=written), folder, pace=CommitPolicy(commit_events=40))
    worker.start("first")
    with pytest.raises(LogError, match="disk is full"):
        worker.run(until_end=True)
    ahead = model_digest(worker.learner)
    worker.close()
    assert SnapshotFolder(folder).newest() is None
    again = new_worker(open_log(), folder, pace=CommitPolicy(commit_events=40))
    again.start("second")
    assert (model_digest(again.learner) == ahead) == written
    again.run(until_end=True)
    alone = new_learner()
    assert predictions(open_log()) == predictions(alone.process(records(RAWS), 1.0))
    assert digests(again.learner) == digests(alone)
    again.close()


def test_recovery_shows_that_it_is_alive(open_log, tmp_path):
    """Replay may take longer than a session."""
    produce(open_log(**TOPICS), RAWS)
    worker = new_worker(open_log(), tmp_path / "none", pace=CommitPolicy(commit_events=10))
    worker.start("first")
    worker.run(until_end=True)
    kill(worker)
    beats = []

    class Listening(Failing):
        def heartbeat(self):
            beats.append(1)
            self._log.heartbeat()

    again = new_worker(Listening(open_log(), written=True), tmp_path / "none")
    again.start("second")
    assert len(beats) >= 20
    again.close()


def test_a_damaged_snapshot_that_is_passed_over_is_told(open_log, tmp_path):
    produce(open_log(**TOPICS), RAWS)
    worker = new_worker(
        open_log(), tmp_path / "snapshots", pace=CommitPolicy(commit_events=50, snapshot_events=50)
    )
    worker.start("first")
    worker.run(until_end=True)
    worker.close()
    newest = max((tmp_path / "snapshots").iterdir())
    newest.write_bytes(newest.read_bytes()[:-1])
    told = []
    found = SnapshotFolder(tmp_path / "snapshots", report=told.append).newest()
    assert [damaged.path for damaged in told] == [newest]
    assert found.path != newest
