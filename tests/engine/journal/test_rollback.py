"""A rollback takes up an earlier state exactly, and what follows goes on as if the rest had never been learned."""

from __future__ import annotations

import random
from functools import cache
from itertools import chain, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb.engine.journal.checkpoint import snapshot_of
from streamnb.engine.journal.journal_entries import roll_back
from streamnb.engine.journal.journal_history import path_to
from streamnb.engine.journal.recovery import recover
from streamnb.engine.journal.snapshot_store import NoSnapshots
from streamnb.engine.ports import Partition
from streamnb.errors import JournalError, SnapshotError
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.formats.journal_record import decode_journal
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.runtime.worker_context import CommitPolicy
from tests.support.parameters import on_logs
from tests.support.service import (
    IDENTITY,
    TOPICS,
    AtOnce,
    digests,
    kill,
    many,
    new_learner,
    new_worker,
    predictions,
    produce,
    raw_events,
    read_topic,
    records,
)
from tests.support.topics_of_logs import trim

pytestmark = [pytest.mark.thorough, pytest.mark.early(15)]

RAWS = raw_events(700, seed=21)
EVENTS = Partition("events", 0)
JOURNAL = Partition("journal", 0)
NOW = 1_790_000_500.0


def undisturbed(numbers):
    """A learner without a log that was given these events."""
    learner = new_learner()
    learner.process(records([RAWS[i] for i in numbers]), 1.0)
    return learner


def learned(open_log, folder, n, *, every=10**9, store=many, pace_events=30):
    """The next `n` events are produced and learned in commits of 30; the worker is closed."""
    log = open_log(**TOPICS)
    start = log.offsets(EVENTS)[1]
    produce(log, RAWS[start : start + n])
    pace = CommitPolicy(commit_events=pace_events, snapshot_events=every, snapshot_seconds=1e9)
    worker = new_worker(log, folder, pace=pace, store=store)
    worker.start("test")
    worker.run(until_end=True)
    worker.close()
    return worker


def rolled_back(open_log, folder, to, *, keeps=True):
    """What the command does; without `keeps` it dies before its snapshot is kept."""
    log = open_log()
    learner = new_learner()
    try:
        log.acquire("operator")
        end = recover(log, SnapshotFolder(folder), new_learner(), IDENTITY)
        recover(log, SnapshotFolder(folder), learner, IDENTITY, at=to)
    except SnapshotError:
        log.close()
        raise
    checkpoint = roll_back(log, end, to, IDENTITY, NOW)
    if keeps:
        SnapshotFolder(folder, keep=100).save(snapshot_of(checkpoint, learner.parts(), IDENTITY))
    log.close()
    return checkpoint


def state(open_log, snapshots=None, at=None):
    """The digests of what recovery gives, and where the journal stands."""
    learner = new_learner()
    checkpoint = recover(open_log(), snapshots or NoSnapshots(), learner, IDENTITY, at=at)
    return digests(learner), checkpoint


def damage(path):
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


AFTERWARDS = ["kept", "never written", "deleted", "damaged"]


@pytest.mark.storm_for("kafka", but="kafka-90-deleted")
@on_logs("every,afterwards", product([30, 90, 10**9], AFTERWARDS), kafka=product([90], AFTERWARDS))
def test_the_state_is_that_of_the_target_and_goes_on_from_there(open_log, tmp_path, every, afterwards):
    """Records 1 to 10 commit 30 events each; what follows record 4 is undone; then come a hundred more."""
    folder = tmp_path / "snapshots"
    learned(open_log, folder, 300, every=every)
    target, _ = state(open_log, at=4)
    checkpoint = rolled_back(open_log, folder, 4, keeps=afterwards != "never written")
    newest = max(folder.iterdir())
    if afterwards == "deleted":
        newest.unlink()
    elif afterwards == "damaged":
        damage(newest)
    for snapshots in (SnapshotFolder(folder), NoSnapshots()):
        found, stands = state(open_log, snapshots)
        assert found == target == digests(undisturbed(range(120)))
        assert stands == checkpoint
    assert checkpoint.n == 11
    assert checkpoint.positions == {EVENTS: 300}
    worker = learned(open_log, folder, 100)
    alone = undisturbed([*range(120), *range(300, 400)])
    assert digests(worker.learner) == digests(alone)
    assert state(open_log)[0] == digests(alone)
    published = predictions(open_log())
    assert [p["id"] for p in published] == [f"e{i}" for i in range(400)], (
        "what was undone stays visible, once"
    )
    again = undisturbed(range(120))
    expected = again.process(records(RAWS[300:400]), 1.0)
    assert published[300:] == predictions(expected)


def test_a_rollback_is_undone_by_another(open_log, tmp_path):
    folder = tmp_path / "snapshots"
    learned(open_log, folder, 200)
    before, end = state(open_log)
    rolled_back(open_log, folder, 2)
    learned(open_log, folder, 50)
    assert state(open_log)[0] == digests(undisturbed([*range(60), *range(200, 250)]))
    checkpoint = rolled_back(open_log, folder, end.n)
    found, stands = state(open_log, SnapshotFolder(folder))
    assert found == state(open_log)[0] == before
    assert stands == checkpoint
    assert checkpoint.positions == {EVENTS: 250}
    worker = learned(open_log, folder, 30)
    assert digests(worker.learner) == digests(undisturbed([*range(200), *range(250, 280)]))


def test_back_to_the_beginning_and_to_a_rollback(open_log, tmp_path):
    folder = tmp_path / "snapshots"
    learned(open_log, folder, 60)
    first = rolled_back(open_log, folder, 0)
    assert state(open_log)[0] == digests(new_learner())
    learned(open_log, folder, 60)
    rolled_back(open_log, folder, first.n)
    assert state(open_log)[0] == state(open_log, SnapshotFolder(folder))[0] == digests(new_learner())


def test_a_snapshot_on_the_path_is_enough_where_the_events_before_it_are_gone(open_log, tmp_path):
    """Snapshots at 3, 6, 9, 10; record 4 is made from the one at 3 and the events of one commit."""
    folder = tmp_path / "snapshots"
    learned(open_log, folder, 300, every=90)
    rolled_back(open_log, folder, 4, keeps=False)
    log = open_log()
    trim(log, EVENTS, 90)
    trim(log, JOURNAL, next(r.offset for r in read_topic(log, "journal") if decode_journal(r.value).n == 3))
    alone = digests(undisturbed(range(120)))
    assert state(open_log, SnapshotFolder(folder))[0] == alone
    next(path for path in folder.iterdir() if "03.snb" in path.name).unlink()
    with pytest.raises(JournalError, match=r"begins with record 3, without a snapshot to begin with"):
        state(open_log, SnapshotFolder(folder))


def test_damage_on_the_path_is_not_the_beginning(open_log, tmp_path):
    folder = tmp_path / "snapshots"
    learned(open_log, folder, 300, every=90)
    rolled_back(open_log, folder, 4, keeps=False)
    damage(next(path for path in folder.iterdir() if "03.snb" in path.name))
    with pytest.raises(SnapshotError, match="no snapshot can be read"):
        state(open_log, SnapshotFolder(folder))


@pytest.mark.storm_for("kafka", but="kafka-4")
@pytest.mark.parametrize("to", [-1, 3, 4, 99])
def test_only_to_an_earlier_record(open_log, tmp_path, to):
    learned(open_log, tmp_path / "snapshots", 90)
    log = open_log()
    log.acquire("operator")
    end = recover(log, NoSnapshots(), new_learner(), IDENTITY)
    with pytest.raises(JournalError, match=f"cannot roll back from journal record 3 to {to}"):
        roll_back(log, end, to, IDENTITY, NOW)
    assert state(open_log)[1].n == 3


def test_a_record_that_is_not_there_has_no_state(open_log, tmp_path):
    learned(open_log, tmp_path / "snapshots", 90)
    with pytest.raises(JournalError, match="there is no journal record 4: the last is 3"):
        state(open_log, at=4)


@st.composite
def rollbacks(draw):
    """A journal of some records, of which some roll back."""
    length = draw(st.integers(1, 30))
    return length, {n: draw(st.integers(0, n - 1)) for n in range(1, length) if draw(st.integers(0, 3)) == 0}


@given(rollbacks(), st.integers(0, 29))
def test_a_path_is_what_a_list_that_is_cut_back_holds(journal, least):
    """And where only rollbacks from `least` on are known, the path is right from there on."""
    length, found = journal
    held = {}
    for n in range(length):
        held[n] = [*held[found[n] if n in found else n - 1], n] if n else [0]
    for n in range(length):
        path = path_to(n, {r: to for r, to in found.items() if r <= n})
        assert [k for part in path for k in part] == held[n]
        since = path_to(n, {r: to for r, to in found.items() if least <= r <= n})
        assert [k for part in since for k in part if k >= least] == [k for k in held[n] if k >= least]


class Life:
    """A model's life by chance, beside a plain list of what each journal record's state has learned."""

    def __init__(self, open_log, folder, seed):
        self.open_log, self.folder = open_log, folder
        self.rng = random.Random(seed)
        self.history = [()]  # of the genesis
        self.read = 0
        self.worker = None

    def heeding(self, work):
        """Where no snapshot can be read, those named are moved away, as the message says."""
        try:
            return work()
        except SnapshotError as error:
            said = str(error)
        torn = [path for path in self.folder.iterdir() if str(path) in said]
        assert torn
        assert "move these away" in said
        for path in torn:
            path.unlink()
        return work()

    def start(self):
        pace = CommitPolicy(
            commit_events=self.rng.choice([3, 8, 20]),
            snapshot_events=self.rng.choice([5, 25, 10**9]),
            snapshot_seconds=1e9,
        )

        def begin():
            log = self.open_log(**TOPICS)
            self.worker = new_worker(log, self.folder, pace=pace, store=lambda path: AtOnce(path, keep=4))
            try:
                self.worker.start("test")
            except SnapshotError:
                log.close()
                raise

        self.heeding(begin)
        self.look(self.worker.learner, len(self.history) - 1)

    def commit(self):
        n = self.rng.randrange(1, 25)
        produce(self.open_log(), RAWS[self.read : self.read + n])
        self.worker.run(until_end=True)
        for record in read_topic(self.open_log(), "journal")[len(self.history) :]:
            learned = [range(part.first, part.next) for part in decode_journal(record.value).slices]
            self.history.append((*self.history[-1], *chain.from_iterable(learned)))  # none by a last report
        self.read += n

    def stop(self):
        self.worker.close()
        self.worker = None

    def crash(self):
        """No last snapshot; perhaps the newest file is lost or torn."""
        kill(self.worker)
        self.worker = None
        found = sorted(self.folder.iterdir()) if self.folder.is_dir() else []
        if len(found) > 1 and self.rng.random() < 0.5:
            self.rng.choice([damage, lambda path: path.unlink()])(found[-1])

    def roll_back(self):
        if len(self.history) > 1:
            to = self.rng.randrange(len(self.history) - 1)
            keeps = self.rng.random() < 0.5
            self.heeding(lambda: rolled_back(self.open_log, self.folder, to, keeps=keeps))
            self.history.append(self.history[to])

    def look(self, learner, n):
        assert digests(learner) == expected(self.history[n])

    def step(self):
        if self.worker is None:
            self.rng.choice([self.start, self.start, self.roll_back])()
        else:
            self.rng.choice([self.commit, self.commit, self.commit, self.stop, self.crash])()


@cache
def expected(numbers):
    return digests(undisturbed(numbers))


@pytest.mark.storm_for("sqlite-3", "sqlite-4", "sqlite-5", "kafka-1", "kafka-2")
@on_logs("seed", range(6), kafka=range(3))
def test_any_life_is_the_list_of_what_was_learned(open_log, tmp_path, seed):
    log = open_log(**TOPICS)
    life = Life(open_log, tmp_path / "snapshots", seed)
    life.start()
    for _ in range(60 if isinstance(log, SqliteLog) else 25):
        life.step()
    if life.worker is not None:
        life.crash()
    assert len(read_topic(log, "journal")) == len(life.history)
    assert any(decode_journal(record.value).kind == "rollback" for record in read_topic(log, "journal"))
    n = life.rng.randrange(len(life.history))
    for at in (None, n):
        for snapshots in (NoSnapshots(), SnapshotFolder(tmp_path / "snapshots")):
            learner = new_learner()
            life.heeding(lambda: recover(log, snapshots, learner, IDENTITY, at=at))  # noqa: B023
            life.look(learner, -1 if at is None else n)
    assert [p["id"] for p in predictions(log)] == [f"e{i}" for i in range(life.read)]
