"""Damage has an answer that was decided: an older snapshot, the journal, or a refusal that says what to do."""

from __future__ import annotations

import resource
import sys

import msgspec
import pytest

from streamnb import BayesOptimalNB
from streamnb import cli as program
from streamnb.engine.journal.recovery import recover
from streamnb.engine.ports import Partition
from streamnb.engine.sensor import Sensor
from streamnb.errors import JournalError, LogError, SnapshotError
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.event_logs.sqlite.sqlite_store import SqliteStore
from streamnb.formats.journal_record import decode_journal
from streamnb.formats.snapshot_container import Snapshot
from streamnb.models.naive_bayes.naive_bayes_variants import MultinomialNB
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.runtime.worker_context import CommitPolicy
from tests.support.parameters import on_logs
from tests.support.service import (
    IDENTITY,
    TOPICS,
    AtOnce,
    digests,
    many,
    new_learner,
    new_worker,
    predictions,
    produce,
    raw_events,
    read_topic,
    records,
)
from tests.support.topics_of_logs import set_on_both, trim

pytestmark = pytest.mark.early(59)

RAWS = raw_events(200, seed=29)
JOURNAL = Partition("journal", 0)
EVENTS = Partition("events", 0)


def learned(open_log, folder, raws, *, learner=None, store=many, **options):
    """Commits of 20 events, each with its snapshot."""
    log = open_log(**TOPICS)
    produce(log, raws)
    pace = options.pop("pace", CommitPolicy(commit_events=20, snapshot_events=1))
    worker = new_worker(log, folder, learner=learner, pace=pace, store=store, **options)
    try:
        worker.start("test")
        worker.run(until_end=True)
    finally:
        worker.close()
    return worker


def recovered(open_log, folder):
    learner = new_learner()
    checkpoint = recover(open_log(), SnapshotFolder(folder), learner, IDENTITY)
    return learner, checkpoint


def newest(folder):
    return max(folder.iterdir())


def undisturbed(raws):
    learner = new_learner()
    learner.process(records(raws), 1.0)
    return digests(learner)


def flipped(i):
    def damage(whole):
        place = i % len(whole)
        return whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]

    return damage


DAMAGES = {
    "cut off": lambda whole: whole[:-1],
    "half": lambda whole: whole[: len(whole) // 2],
    "empty": lambda _: b"",
    "zeros": lambda whole: bytes(len(whole)),
    "longer": lambda whole: whole + b"\0",
    "magic": flipped(0),
    "version": flipped(8),
    "header": flipped(100),
    "middle": flipped(3000),
    "last byte": flipped(-1),
    "another's name": None,
}


@on_logs("name", DAMAGES, kafka=["cut off", "another's name"])
def test_a_damaged_snapshot_is_passed_over_and_all_damaged_are_refused(open_log, tmp_path, name):
    folder = tmp_path / "snapshots"
    learned(open_log, folder, RAWS[:60])
    older = min(folder.iterdir()).read_bytes()
    damage = DAMAGES[name] or (lambda _: older)
    paths = sorted(folder.iterdir())[1:] if name == "another's name" else sorted(folder.iterdir())
    paths[-1].write_bytes(damage(paths[-1].read_bytes()))
    learner, checkpoint = recovered(open_log, folder)
    assert (digests(learner), checkpoint.n) == (undisturbed(RAWS[:60]), 3)
    if name == "another's name":
        min(folder.iterdir()).unlink()
    for path in paths[:-1]:
        path.write_bytes(damage(path.read_bytes()))
    before = len(read_topic(open_log(), "journal"))
    with pytest.raises(SnapshotError, match="no snapshot can be read: ") as refusal:
        learned(open_log, folder, RAWS[60:80])
    for path in paths:
        assert f"{path}: " in str(refusal.value)
    assert "bring a good one back, or move these away" in str(refusal.value)
    assert len(read_topic(open_log(), "journal")) == before
    for path in paths:
        path.unlink()
    assert digests(recovered(open_log, folder)[0]) == undisturbed(RAWS[:60])


def rewritten(folder, **changes):
    """The newest snapshot with other values, whole and with all its checksums."""
    store = SnapshotFolder(folder, keep=100)
    snapshot = store.newest().snapshot
    if "parts" in changes:
        changes["parts"] = changes["parts"](snapshot.parts)
    store.save(msgspec.structs.replace(snapshot, **changes))


def other_class():
    learner = new_learner(model=MultinomialNB())
    return learner.parts()


WHOLE_AND_WRONG = {
    "of another journal": (
        {"digest": "ab" * 32},
        JournalError,
        "at journal record 3 belongs to another journal",
    ),
    "beyond the end": ({"journal_n": 99}, JournalError, "99, beyond the journal's end 3"),
    "without the journal part": (
        {"parts": lambda parts: {k: v for k, v in parts.items() if k != "journal"}},
        SnapshotError,
        "record 3 lacks the configuration of its model: move it away",
    ),
    "of another model class": (
        {"parts": lambda parts: {**parts, "model": other_class()["model"]}},
        SnapshotError,
        "at journal record 3: not a valid state of such a learner: .*the state of a MultinomialNB.*; move it away",
    ),
    "without its model": (
        {"parts": lambda parts: {k: v for k, v in parts.items() if k != "model"}},
        SnapshotError,
        "at journal record 3: not a valid state of such a learner: .*'model'.*; move it away",
    ),
}


@on_logs("name", WHOLE_AND_WRONG, kafka=["without its model"])
def test_a_snapshot_that_is_whole_and_wrong_is_refused_and_can_be_moved_away(open_log, tmp_path, name):
    changes, kind, says = WHOLE_AND_WRONG[name]
    folder = tmp_path / "snapshots"
    learned(open_log, folder, RAWS[:60])
    rewritten(folder, **changes)
    with pytest.raises(kind, match=says):
        learned(open_log, folder, [])
    newest(folder).unlink()
    learner, checkpoint = recovered(open_log, folder)
    assert (digests(learner), checkpoint.n) == (undisturbed(RAWS[:60]), 3)


def test_a_snapshot_of_a_log_that_was_replaced_is_refused(open_log, tmp_path):
    folder = tmp_path / "snapshots"
    learner = new_learner()
    SnapshotFolder(folder).save(Snapshot(5, "ab" * 32, {}, "c0ffee", {}, learner.parts()))
    with pytest.raises(JournalError, match="the log was replaced; move the snapshots away to begin again"):
        learned(open_log, folder, RAWS[:20])
    assert read_topic(open_log(), "journal") == []


def trimmed(open_log, n):
    """Nothing is kept of the journal before record `n`."""
    log = open_log()
    offsets = {decode_journal(record.value).n: record.offset for record in read_topic(log, "journal")}
    trim(log, JOURNAL, offsets[n])


def test_a_journal_trimmed_behind_the_oldest_snapshot_is_enough(open_log, tmp_path):
    """With its events: nothing before the snapshot is read."""
    folder = tmp_path / "snapshots"
    learned(open_log, folder, RAWS[:100], store=AtOnce)
    assert len(list(folder.iterdir())) == 3
    trimmed(open_log, 3)
    trim(open_log(), EVENTS, 60)
    for left in (3, 2, 1):
        assert len(list(folder.iterdir())) == left
        learner, checkpoint = recovered(open_log, folder)
        assert (digests(learner), checkpoint.n) == (undisturbed(RAWS[:100]), 5)
        newest(folder).unlink()
    with pytest.raises(JournalError, match="begins with record 3, without a snapshot to begin with"):
        recovered(open_log, folder)


def test_a_journal_trimmed_beyond_the_snapshot_is_refused(open_log, tmp_path):
    folder = tmp_path / "snapshots"
    learned(open_log, folder, RAWS[:100], store=AtOnce)
    trimmed(open_log, 4)
    for _ in range(2):
        newest(folder).unlink()
    with pytest.raises(JournalError, match="stands at journal record 3, but the journal begins with 4"):
        learned(open_log, folder, [])


# -- a disk that is full ------------------------------------------------------------------------------------


class Told(Sensor):
    def __init__(self):
        self.failures, self.kept = [], 0

    def unsaved(self, reason):
        self.failures.append(reason)

    def saved(self, seconds, size):  # noqa: ARG002
        self.kept += 1


class OnFullDisk(AtOnce):
    """The system takes no more than some bytes of a file, while `is_full`; the log writes nothing meanwhile."""

    is_full = True
    await_commit = staticmethod(lambda: None)

    def save(self, snapshot):
        self.await_commit()
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        if self.is_full:
            resource.setrlimit(resource.RLIMIT_FSIZE, (500, before[1]))
        try:
            return super().save(snapshot)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_costs_snapshots_and_nothing_else(open_log, tmp_path):
    folder, told = tmp_path / "snapshots", Told()
    store = OnFullDisk(folder)
    produce(open_log(**TOPICS), RAWS[:60])
    pace = CommitPolicy(commit_events=20, snapshot_events=1)
    worker = new_worker(open_log(), folder, pace=pace, store=lambda _: store, sensor=told)
    store.await_commit = worker._committer.await_commit
    worker.start("test")
    worker.run(until_end=True)
    assert len(told.failures) >= 2
    assert all("cannot save" in reason and "File too large" in reason for reason in told.failures)
    assert (told.kept, list(folder.iterdir())) == (0, []), "nothing half written is left"
    assert [p["id"] for p in predictions(open_log())] == [f"e{i}" for i in range(60)]
    store.is_full = False
    produce(open_log(), RAWS[60:80])
    worker.run(until_end=True)
    worker.close()
    assert told.kept >= 1
    assert SnapshotFolder(folder).newest().snapshot.journal_n == 4
    learner, checkpoint = recovered(open_log, folder)
    assert (digests(learner), checkpoint.n) == (undisturbed(RAWS[:80]), 4)


def test_a_snapshot_that_failed_is_tried_again_at_the_end(open_log, tmp_path):
    """Even where nothing was learned since it was begun."""

    class Clearing(Told):
        def unsaved(self, reason):
            super().unsaved(reason)
            store.is_full = False

    folder, told = tmp_path / "snapshots", Clearing()
    store = OnFullDisk(folder)
    produce(open_log(**TOPICS), RAWS[:20])
    pace = CommitPolicy(commit_events=20, snapshot_events=1)
    worker = new_worker(open_log(), folder, pace=pace, store=lambda _: store, sensor=told)
    store.await_commit = worker._committer.await_commit
    worker.start("test")
    worker.run(until_end=True)
    worker.close()
    assert (len(told.failures), told.kept) == (1, 1)
    assert SnapshotFolder(folder).newest().snapshot.journal_n == 1


def pages(path, more):
    """How large the log may become: its pages, and some more."""
    with SqliteLog(path) as log:
        return log._store._pragma("page_count") + more


@pytest.mark.parametrize("more", [0, 1, 2, 5, 12])
def test_a_full_log_ends_the_learner_and_all_goes_on_once_there_is_room(tmp_path, monkeypatch, capsys, more):
    """SQLite's own limit of pages gives the very error that a full disk gives."""
    monkeypatch.chdir(tmp_path)
    flags = ["--log", "sqlite:///log.db", "--set", "commit.events=20", "--set", "http.listen="]
    assert program.main(["topics", "create", *flags]) == 0
    with SqliteLog(tmp_path / "log.db") as log:
        produce(log, RAWS)
    prepare, most = SqliteStore._prepare, pages(tmp_path / "log.db", more)

    def limited(store):
        prepare(store)
        store._pragma(f"max_page_count = {most}")

    with monkeypatch.context() as limit:
        limit.setattr(SqliteStore, "_prepare", limited)
        capsys.readouterr()
        assert program.main(["run", "--until-end", *flags]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert " error command-failed " in lines[-1]
    assert "log.db: the disk is full" in lines[-1]
    with SqliteLog(tmp_path / "log.db") as log:
        commits = [decode_journal(record.value) for record in read_topic(log, "journal")]
        done = sum(part.count for commit in commits for part in commit.slices)
        assert [p["id"] for p in predictions(log)] == [f"e{i}" for i in range(done)]
        assert done < len(RAWS)
    assert program.main(["run", "--until-end", *flags]) == 0
    with SqliteLog(tmp_path / "log.db") as log:
        assert [p["id"] for p in predictions(log)] == [f"e{i}" for i in range(len(RAWS))]
        alone = new_learner(model=BayesOptimalNB({"text": "text"}, floor=True, caution=True), unseen=True)
        assert predictions(log) == predictions(alone.process(records(RAWS), 1.0))


def test_a_full_log_keeps_the_snapshot_of_what_it_holds(tmp_path):
    """In the engine: the model is ahead of the journal, and no snapshot may hold that."""
    with SqliteLog(tmp_path / "log.db") as log:
        for name, partitions in TOPICS.items():
            log.create_topic(name.replace("_", "-"), partitions)
        produce(log, RAWS)
    log, folder = SqliteLog(tmp_path / "log.db"), tmp_path / "snapshots"
    pace = CommitPolicy(commit_events=20, snapshot_events=30)
    worker = new_worker(log, folder, pace=pace, store=many)
    set_on_both(log, f"max_page_count = {log._store._pragma('page_count') + 9}")
    worker.start("first")
    with pytest.raises(LogError, match="the disk is full"):
        worker.run(until_end=True)
    log._store._pragma("max_page_count = 1073741823")
    worker.close()

    def open_log(**_):
        return SqliteLog(tmp_path / "log.db")

    with open_log() as found:
        last = decode_journal(read_topic(found, "journal")[-1].value)
    assert 0 < last.n < 10
    assert SnapshotFolder(folder).newest().snapshot.journal_n <= last.n
    again = learned(open_log, folder, [], pace=pace)
    assert digests(again.learner) == undisturbed(RAWS)
    with open_log() as found:
        assert [p["id"] for p in predictions(found)] == [f"e{i}" for i in range(len(RAWS))]


def test_a_file_system_that_is_full(tmp_path, small_disk):
    """A real one: the folder of snapshots lies on a disk with room for none."""
    told = Told()
    with SqliteLog(tmp_path / "log.db") as log:
        for name, partitions in TOPICS.items():
            log.create_topic(name.replace("_", "-"), partitions)
        produce(log, RAWS[:60])
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        fill(file)
    pace = CommitPolicy(commit_events=20, snapshot_events=1)
    worker = new_worker(
        SqliteLog(tmp_path / "log.db"), small_disk / "snapshots", pace=pace, store=AtOnce, sensor=told
    )
    worker.start("test")
    worker.run(until_end=True)
    assert told.kept == 0
    assert all("No space left on device" in reason for reason in told.failures)
    filler.unlink()
    worker.close()
    assert told.kept == 1
    learner = new_learner()
    with SqliteLog(tmp_path / "log.db") as log:
        recover(log, SnapshotFolder(small_disk / "snapshots"), learner, IDENTITY)
    assert digests(learner) == undisturbed(RAWS[:60])


def fill(file):
    while True:
        file.write(bytes(4096))


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own of 64 KiB, where this user may mount one."""
    import subprocess

    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if (
        not sys.platform.startswith("linux")
        or subprocess.run(mount, capture_output=True, check=False).returncode
    ):
        pytest.skip("this user may not mount a file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)
