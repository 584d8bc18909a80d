"""The worker on a log: the same as without one, through restarts, takeovers and kills."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import queue
import threading
import time
import zlib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb.engine.journal.journal_entries import partitions_of
from streamnb.engine.journal.recovery import recover
from streamnb.engine.journal.snapshot_store import NoSnapshots
from streamnb.engine.ports import NewRecord, Partition
from streamnb.engine.sensor import Sensor
from streamnb.errors import Fenced, JournalError, NotElected, SnapshotError
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.formats.journal_record import START, chain_outputs, crc, decode_journal, encode_journal, seal
from streamnb.formats.snapshot_container import Snapshot
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.runtime.worker import Worker
from streamnb.runtime.worker_context import CommitPolicy
from tests.support.malformed import MALFORMED, kept
from tests.support.parameters import on_logs
from tests.support.service import (
    IDENTITY,
    TOPICS,
    AtOnce,
    Ticking,
    digests,
    kill,
    model_digest,
    new_learner,
    new_worker,
    outcome_of,
    predictions,
    produce,
    raw_events,
    read_topic,
    records,
)
from tests.support.topics_of_logs import trim

pytestmark = pytest.mark.early(27)

RAWS = raw_events(500, seed=3)


def drain(log, folder, **options):
    worker = new_worker(log, folder, **options)
    worker.start("test")
    worker.run(until_end=True)
    return worker


def replayed(log):
    """A learner that knows the journal and the log, and no snapshot."""
    learner = new_learner()
    checkpoint = recover(log, NoSnapshots(), learner, IDENTITY)
    return learner, checkpoint


@pytest.mark.storm_for("kafka-64-500", "kafka-1000-500")
@pytest.mark.thorough_for("kafka", but="kafka-7-500")
@pytest.mark.parametrize(("commit_events", "events"), [(1, 120), (7, 500), (64, 500), (1000, 500)])
def test_a_log_changes_nothing(open_log, tmp_path, commit_events, events):
    """The same predictions and the same bytes as without a log, at any size of commit."""
    log, raws = open_log(**TOPICS), RAWS[:events]
    produce(log, raws)
    worker = drain(log, tmp_path / "snapshots", pace=CommitPolicy(commit_events=commit_events))
    alone = new_learner()
    expected = predictions(alone.process(records(raws), 1.0))
    assert predictions(open_log()) == expected
    assert digests(worker.learner) == digests(alone)
    assert [r.key for r in read_topic(open_log(), "predictions")] == [b"e%d" % i for i in range(events)]
    worker.close()


def test_three_partitions_equal_the_replay_of_the_journal(open_log, tmp_path):
    log = open_log(**{**TOPICS, "events": 3, "predictions": 3})
    for start in range(0, len(RAWS), 50):
        log.append(
            [NewRecord("events", b"%d" % i, raw) for i, raw in enumerate(RAWS[start : start + 50], start)]
        )
    worker = drain(log, tmp_path / "snapshots", pace=CommitPolicy(commit_events=33))
    again, checkpoint = replayed(open_log())
    assert digests(again) == digests(worker.learner)
    assert sum(checkpoint.positions.values()) == len(RAWS)
    assert sorted(p["id"] for p in predictions(open_log())) == sorted(f"e{i}" for i in range(500))
    worker.close()


@pytest.mark.thorough_for("kafka-1", "kafka-1000000000")
@pytest.mark.parametrize("snapshot_events", [1, 60, 10**9])
def test_restart_is_no_restart(open_log, tmp_path, snapshot_events):
    """Stopped and started again after every hundred events, with and without snapshots in between."""
    pace = CommitPolicy(commit_events=30, snapshot_events=snapshot_events)
    for start in range(0, 500, 100):
        log = open_log(**TOPICS)
        produce(log, RAWS[start : start + 100])
        worker = drain(log, tmp_path / "snapshots", pace=pace)
        worker.close()
    alone = new_learner()
    assert predictions(open_log()) == predictions(alone.process(records(RAWS), 1.0))
    assert digests(worker.learner) == digests(alone)


def test_a_crash_before_the_commit_loses_nothing_and_after_it_repeats_nothing(open_log, tmp_path):
    """Every commit is interrupted once before it is made, and once after it, before the learner knows."""

    class CrashError(Exception):
        pass

    class Crashing:
        def __init__(self, log, when):
            self._log, self._when = log, when

        def __getattr__(self, name):
            return getattr(self._log, name)

        def begin_commit(self, transaction):
            if self._when == "after":
                self._log.commit(transaction)
            raise CrashError

    produce(open_log(**TOPICS), RAWS)
    pace = CommitPolicy(commit_events=100)
    for when in [
        "before",
        "after",
    ] * 10:  # 5, and one more for each that held a report only: no event came in time
        worker = new_worker(Crashing(open_log(), when), tmp_path / "none", pace=pace)
        if sum(worker.start(when).positions.values()) == len(RAWS):
            break
        with pytest.raises(CrashError):
            worker.run(until_end=True)
        kill(worker)
    alone = new_learner()
    assert predictions(open_log()) == predictions(alone.process(records(RAWS), 1.0))
    again, checkpoint = replayed(open_log())
    assert digests(again) == digests(alone)
    assert checkpoint.positions == {Partition("events", 0): 500}


def test_malformed_events_arrive_as_dead_letters_with_their_bytes(open_log, tmp_path):
    log = open_log(**TOPICS)
    produce(log, [case.raw for case in MALFORMED])
    worker = drain(log, tmp_path / "snapshots")
    letters = read_topic(open_log(), "dead-letters")
    assert [letter.value for letter in letters] == [kept(case.raw) for case in MALFORMED]
    assert [dict(letter.headers)["reason"].decode() for letter in letters] == [
        case.reason for case in MALFORMED
    ]
    assert model_digest(worker.learner) == model_digest(new_learner())
    assert not read_topic(open_log(), "predictions")
    worker.close()


def test_stop_ends_the_run_after_the_commit_at_hand(open_log, tmp_path):
    log, workers = open_log(**TOPICS), queue.Queue()

    def serve():
        worker = new_worker(open_log(), tmp_path / "snapshots")
        workers.put(worker)
        worker.start("test")
        worker.run()
        worker.close()

    runner = threading.Thread(target=serve)
    runner.start()
    produce(log, RAWS[:10])
    while len(read_topic(log, "predictions")) < 10:
        time.sleep(0.01)
    workers.get().stop()
    runner.join(timeout=10)
    assert not runner.is_alive()
    snapshot = SnapshotFolder(tmp_path / "snapshots").newest().snapshot
    assert snapshot.parts["learner"].meta["consumed"] == 10


def test_a_second_learner_waits_and_a_fenced_one_publishes_nothing(open_log, tmp_path):
    log = open_log(**TOPICS)
    first = drain(log, tmp_path / "snapshots")
    second = new_worker(open_log.hurried(), tmp_path / "snapshots")
    with pytest.raises(NotElected, match=r"is the learner|is alive|is not over"):
        second.start("second")
    first.close()
    second.await_leadership("second", lambda _: None)
    produce(open_log(), RAWS[:5])
    second.run(until_end=True)
    assert len(read_topic(open_log(), "predictions")) == 5
    second.close()


def test_a_learner_that_was_taken_over_is_fenced(tmp_path):
    clock = Ticking()
    old, new = (SqliteLog(tmp_path / "log.db", session_timeout=5.0, clock=clock) for _ in range(2))
    for name, partitions in TOPICS.items():
        old.create_topic(name.replace("_", "-"), partitions)
    produce(old, RAWS[:20])
    sleeper = new_worker(old, tmp_path / "snapshots")
    sleeper.start("sleeper")
    clock.now += 60
    successor = new_worker(new, tmp_path / "snapshots")
    successor.start("successor")
    successor.run(until_end=True)
    with pytest.raises(Fenced):
        sleeper.run(until_end=True)
    assert len(read_topic(new, "predictions")) == 20
    old.close()
    successor.close()


def journalled(open_log, tmp_path, **options):
    log = open_log(**TOPICS)
    produce(log, RAWS[:90])
    worker = drain(log, tmp_path / "snapshots", pace=CommitPolicy(commit_events=30), **options)
    worker.close()


class FromMemory:
    """A log with another journal."""

    def __init__(self, log, change):
        self._log, self._change = log, change

    def __getattr__(self, name):
        return getattr(self._log, name)

    def read(self, partition, offset, limit):
        found = self._log.read(partition, offset, limit)
        return self._change(list(found)) if found and partition.topic == "journal" else found


def edited(n, **changes):
    def change(found):
        record = msgspec.structs.replace(decode_journal(found[n].value), **changes)
        found[n] = found[n]._replace(value=encode_journal(seal(record)))
        return found

    return change


def altered_byte(found):
    found[2] = found[2]._replace(value=found[2].value.replace(b'"n":2', b'"n":3'))
    return found


DISAGREEING = [
    (altered_byte, "was altered"),
    (lambda found: [*found[:2], *found[3:]], "from record 1 to 3"),
    (lambda found: [*found[:2], found[1], *found[2:]], "from record 1 to 1"),
    (edited(1, now=5.0), "digests differ"),
    (edited(1, machine="another"), "digests differ"),
    (edited(3, outputs="00" * 32), "gave other outputs"),
    (edited(0, config_hash="bad"), "digests differ"),
    (edited(0, version=2), "version 2 is unknown"),
    (edited(0, kind="commit"), "does not begin with its genesis"),
    (lambda found: [found[0]._replace(value=b"{}"), *found[1:]], "not a journal record"),
]


@on_logs("change,says", DISAGREEING, kafka=DISAGREEING[:2])
def test_a_journal_that_disagrees_is_refused(open_log, tmp_path, change, says):
    journalled(open_log, tmp_path)
    with pytest.raises(JournalError, match=says):
        recover(FromMemory(open_log(), change), NoSnapshots(), new_learner(), IDENTITY)


def test_another_configuration_is_refused_where_nothing_is_known_of_it(open_log, tmp_path):
    journalled(open_log, tmp_path)
    identity = dataclasses.replace(IDENTITY, config_hash="bad")
    with pytest.raises(JournalError, match="another configuration"):
        recover(open_log(), NoSnapshots(), new_learner(), identity)


def test_slices_that_disagree_are_refused(open_log, tmp_path):
    journalled(open_log, tmp_path)

    def other_crc(found):
        record = decode_journal(found[3].value)
        slices = tuple(msgspec.structs.replace(part, crc=part.crc ^ 1) for part in record.slices)
        return edited(3, slices=slices)(found)

    with pytest.raises(JournalError, match="other records than were learned"):
        recover(FromMemory(open_log(), other_crc), NoSnapshots(), new_learner(), IDENTITY)


def test_retention_that_has_eaten_what_is_needed_is_refused_and_a_snapshot_helps(open_log, tmp_path):
    journalled(open_log, tmp_path)
    trim(open_log(), Partition("events", 0), 45)
    with pytest.raises(JournalError, match=r"events/0 from offset 0 to 30"):
        replayed(open_log())
    worker = drain(open_log(), tmp_path / "snapshots")
    assert worker.learner.consumed == 90
    worker.close()


def test_a_snapshot_without_its_journal_is_refused(open_log, tmp_path):
    folder = SnapshotFolder(tmp_path / "snapshots")
    learner = new_learner()
    folder.save(Snapshot(5, "ab" * 32, {}, "c0ffee", {}, learner.parts()))
    log = open_log(**TOPICS)
    with pytest.raises(JournalError, match="journal is empty"):
        recover(log, folder, new_learner(), IDENTITY)
    assert log.offsets(Partition("journal", 0)) == (0, 0)


def test_a_snapshot_of_another_journal_or_beyond_the_end_is_refused(open_log, tmp_path):
    journalled(open_log, tmp_path)
    folder = SnapshotFolder(tmp_path / "snapshots")
    snapshot = folder.newest().snapshot
    for changes, says in [
        ({"digest": "ab" * 32}, "another journal"),
        ({"journal_n": 99}, "beyond the journal's end"),
    ]:
        folder.save(msgspec.structs.replace(snapshot, **changes))
        with pytest.raises(JournalError, match=says):
            recover(open_log(), folder, new_learner(), IDENTITY)


def test_damaged_is_never_empty(open_log, tmp_path):
    journalled(open_log, tmp_path)
    for path in (tmp_path / "snapshots").iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(SnapshotError, match="no snapshot can be read"):
        new_worker(open_log(), tmp_path / "snapshots").start("test")


def test_another_machine_may_differ_in_outputs_but_not_in_slices(open_log, tmp_path):
    journalled(open_log, tmp_path)
    change = edited(3, outputs="00" * 32, machine="another")
    learner = new_learner()
    checkpoint = recover(FromMemory(open_log(), change), NoSnapshots(), learner, IDENTITY)
    assert (checkpoint.n, learner.consumed) == (3, 90)


class Around:
    """A log; what differs from it is written in subclasses."""

    def __init__(self, log):
        self._log = log

    def __getattr__(self, name):
        return getattr(self._log, name)


class Kept(NoSnapshots):
    """Snapshots that were asked for, by number of their journal record."""

    def __init__(self):
        self.numbers = []

    def save_aside(self, made):
        self.numbers.append(made().journal_n)
        return outcome_of(lambda: Path(__file__))


def test_partitions_added_later_are_read_from_their_start(open_log, tmp_path):
    class Wider(Around):
        def partitions(self, topic):
            return [Partition(topic, 0), Partition(topic, 1)] if topic == "events" else [Partition(topic, 0)]

    journalled(open_log, tmp_path)
    checkpoint = recover(open_log(), NoSnapshots(), new_learner(), IDENTITY)
    checkpoint = checkpoint.with_new_partitions(partitions_of(Wider(open_log()), IDENTITY))
    assert checkpoint.positions == {Partition("events", 0): 90, Partition("events", 1): 0}


def test_learning_begins_with_the_earliest_record_kept(open_log, tmp_path):
    log = open_log(**TOPICS)
    produce(log, RAWS[:90])
    trim(log, Partition("events", 0), 45)
    worker = drain(log, tmp_path / "snapshots")
    assert [p["id"] for p in predictions(open_log())] == [f"e{i}" for i in range(45, 90)]
    again, checkpoint = replayed(open_log())
    assert digests(again) == digests(worker.learner)
    assert checkpoint.positions == {Partition("events", 0): 90}
    worker.close()


def test_a_commit_takes_several_polls_and_no_more_than_its_limit(open_log, tmp_path):
    """Its slices are in the order of processing, in which replay follows."""

    class ThreeAtOnce(Around):
        def poll(self, limit, timeout):
            return self._log.poll(min(limit, 3), timeout)

    log = open_log(**{**TOPICS, "events": 2})
    log.append([NewRecord("events", b"%d" % i, raw) for i, raw in enumerate(RAWS[:60])])
    pace = CommitPolicy(commit_events=8, commit_seconds=0.2)
    worker = drain(ThreeAtOnce(log), tmp_path / "snapshots", pace=pace)
    commits = [decode_journal(record.value).slices for record in read_topic(open_log(), "journal")][1:]
    assert [sum(part.count for part in slices) for slices in commits] == [8] * 7 + [4]
    assert len(read_topic(open_log(), "predictions")) == 60
    if isinstance(log, SqliteLog):  # a broker's client decides by itself whose turn it is
        assert [(part.partition, part.count) for part in commits[0]] in (
            [(0, 3), (1, 3), (0, 2)],
            [(1, 3), (0, 3), (1, 2)],
        )
    again, _ = replayed(open_log())
    assert digests(again) == digests(worker.learner)
    worker.close()


@pytest.mark.parametrize(
    ("events", "pace", "expected"),
    [
        (100, CommitPolicy(commit_events=10, snapshot_events=30, snapshot_seconds=1e9), [3, 6, 9, 10]),
        (90, CommitPolicy(commit_events=10, snapshot_events=30, snapshot_seconds=1e9), [3, 6, 9]),
        (50, CommitPolicy(commit_events=10, snapshot_events=10**9, snapshot_seconds=0.0), [1, 2, 3, 4, 5]),
        (50, CommitPolicy(commit_events=10, snapshot_events=10**9, snapshot_seconds=1e9), [5]),
        (50, CommitPolicy(commit_events=10, snapshot_seconds=1e9, snapshot_replay=0.0), [1, 2, 3, 4, 5]),
    ],
)
def test_snapshots_are_kept_when_due_and_at_the_end(open_log, events, pace, expected):
    log, kept = open_log(**TOPICS), Kept()
    produce(log, RAWS[:events])
    worker = Worker(log, kept, new_learner(), IDENTITY, pace, Ticking())
    worker.start("test")
    worker.run(until_end=True)
    worker.close()
    assert kept.numbers == expected


def test_a_snapshot_is_due_when_the_replay_behind_the_last_one_would_take_too_long(open_log, monkeypatch):
    """Each processed record takes three seconds, also in a recovery; polling and waiting count nothing."""
    log, kept, learner = open_log(**TOPICS), Kept(), new_learner()
    pace = CommitPolicy(commit_events=10, snapshot_seconds=1e9, snapshot_replay=90.0)
    monkeypatch.setattr("streamnb.runtime.committer.time.thread_time", lambda: 3.0 * learner.consumed)
    produce(log, RAWS[:80])
    worker = Worker(log, kept, learner, IDENTITY, pace, Ticking())
    worker.start("test")
    worker.run(until_end=True)
    assert kept.numbers == [3, 6]
    worker._writer.begin_after_recovery(learner.consumed - 20, -1, 60.0)
    produce(log, RAWS[80:100])
    worker.run(until_end=True)
    assert kept.numbers == [3, 6, 9]
    worker.close()


def test_a_snapshot_waits_for_rows_that_are_moved_only_while_events_come(open_log, monkeypatch):
    """They are moved as events come."""

    class Ending(Around):
        def poll(self, *arguments):
            found = self._log.poll(*arguments)
            waited.extend([] if found else [list(kept.numbers)])
            if kept.numbers or len(waited) == 1000:
                worker.stop()
            return found

    log, kept, waited = open_log(**TOPICS), Kept(), []
    produce(log, RAWS[:90])
    learner, pace = new_learner(), CommitPolicy(commit_events=10, snapshot_events=30, snapshot_seconds=1e9)
    monkeypatch.setattr(type(learner.model), "is_settled", False)
    worker = Worker(Ending(log), kept, learner, IDENTITY, pace, Ticking())
    worker.start("test")
    worker.run()
    assert not waited[0]
    assert kept.numbers == [worker.checkpoint.n]
    worker.close()


def test_an_idle_learner_shows_that_it_is_alive_and_keeps_no_snapshots(open_log):
    class Idle(Around):
        polls = beats = 0

        def poll(self, *_):
            self.polls += 1
            assert self.polls < 10, "not stopped"
            return []

        def heartbeat(self):
            self.beats += 1
            if self.beats == 3:
                worker.stop()

    log, kept = Idle(open_log(**TOPICS)), Kept()
    worker = Worker(log, kept, new_learner(), IDENTITY, CommitPolicy(snapshot_seconds=0.0), Ticking())
    worker.start("test")
    worker.run()
    assert (log.polls, log.beats, kept.numbers) == (3, 3, [])
    worker.close()


@pytest.mark.parametrize("report_seconds", [1.0, 7.0])
def test_a_snapshot_and_the_commits_after_it_are_the_whole(open_log, tmp_path, report_seconds):
    """A learner that is killed comes back by its last snapshot and a replay that gives the same outputs."""
    pace = CommitPolicy(commit_events=30, snapshot_events=60)
    raws = [raw for pair in zip(RAWS[:200], itertools.repeat(b"{"), strict=False) for raw in pair]
    log = open_log(**TOPICS)
    produce(log, raws)
    learner = new_learner(report_seconds=report_seconds)
    killed = drain(log, tmp_path / "snapshots", pace=pace, learner=learner, store=AtOnce)
    kill(killed)
    assert SnapshotFolder(tmp_path / "snapshots").newest().snapshot.journal_n == 12
    learner = new_learner(report_seconds=report_seconds)
    checkpoint = recover(open_log(), SnapshotFolder(tmp_path / "snapshots"), learner, IDENTITY)
    last = 14 if report_seconds == 1.0 else 15  # where the last commit was not due to report another does
    assert (checkpoint.n, learner.consumed, learner.dead_letters) == (last, 400, 200)
    assert digests(learner) == digests(killed.learner)
    assert learner.parts()["learner"].meta == killed.learner.parts()["learner"].meta


def test_a_log_may_return_less_than_it_is_asked_for(open_log, tmp_path):
    class Sparing(Around):
        def read(self, partition, offset, limit):
            return self._log.read(partition, offset, min(limit, 2))

    journalled(open_log, tmp_path)
    expected, checkpoint = replayed(open_log())
    learner = new_learner()
    assert recover(Sparing(open_log()), NoSnapshots(), learner, IDENTITY) == checkpoint
    assert digests(learner) == digests(expected)


def test_a_record_that_is_missing_is_noticed_though_it_was_empty(open_log, tmp_path):
    class Forgetful(Around):
        def read(self, partition, offset, limit):
            return [record for record in self._log.read(partition, offset, limit) if record.value]

    log = open_log(**TOPICS)
    produce(log, [RAWS[0], b"", RAWS[1]])
    drain(log, tmp_path / "snapshots").close()
    with pytest.raises(JournalError, match="other records than were learned"):
        recover(Forgetful(open_log()), NoSnapshots(), new_learner(), IDENTITY)


@given(st.lists(st.binary(max_size=5), max_size=5))
def test_the_checksum_of_a_slice_covers_every_value(values):
    assert crc(values) == zlib.crc32(b"".join(values))


@pytest.mark.parametrize("times", [1, 1000])  # outputs that are hashed together, and several times as many
def test_the_digest_of_outputs_is_the_one_that_is_written_down(times):
    """Of every output its number of parts and its parts, each after its length; see `streamnb.formats.journal_record`."""
    outputs = [
        NewRecord("predictions", b"k", b"value" * 100),
        NewRecord("predictions", None, b""),
        NewRecord("Größe", b"", b"v", (("reason", b"r"), ("é", b""))),
        NewRecord("metrics", b"default", b"{}"),
    ] * times
    expected = hashlib.sha256(bytes.fromhex(START))
    for topic, key, value, headers in outputs:
        parts = [topic.encode(), b"" if key is None else b"k" + key, value]
        parts += [part for name, content in headers for part in (name.encode(), content)]
        for part in [str(len(parts)).encode(), *parts]:
            expected.update(len(part).to_bytes(8, "little") + part)
    assert chain_outputs(START, outputs) == expected.hexdigest()
    assert chain_outputs(chain_outputs(START, outputs[:2]), []) != START


def test_outputs_that_differ_anywhere_have_other_digests():
    first = ("t", None, b"v", ())
    others = [
        ("t", b"", b"v", ()),
        ("t", b"v", b"", ()),
        ("tv", None, b"", ()),
        ("t", None, b"v", (("h", b""),)),
        ("t", None, b"v", (("h", b"x"),)),
        ("t", None, b"v", (("hx", b""),)),
        ("t", None, b"vhx", ()),
    ]
    streams = [[], [first], [first, first], *([other] for other in others), *([first, o] for o in others)]
    streams += [[other, first] for other in others]
    found = {chain_outputs(START, outputs) for outputs in streams}
    found |= {chain_outputs(chain_outputs(START, [first]), outputs) for outputs in streams}
    assert len(found) == 2 * len(streams)


def test_what_is_taken_at_once_is_bounded_in_bytes(open_log, tmp_path):
    """However fast large events come, memory holds a commit of them and no more."""
    raws = [json.dumps({"id": f"e{i}", "text": "w " * 100_000, "label": "a"}).encode() for i in range(60)]
    log = open_log(**TOPICS)
    for start in range(0, len(raws), 20):
        produce(log, raws[start : start + 20])
    worker = new_worker(
        open_log(), tmp_path / "s", pace=CommitPolicy(commit_seconds=1e9, commit_bytes=1 << 20)
    )
    worker.start("large")
    sizes = []
    while sum(len(part) for part in sizes) < len(raws):
        sizes.append([len(record.value) for record in worker._reader.read()])
    worker.close()
    at_once = 4 << 20  # what one look at the log may bring
    assert all(sum(part) < (1 << 20) + at_once + max(part) for part in sizes)
    assert all(sum(part) >= 1 << 20 for part in sizes[:-1])
    assert sum(map(sum, sizes)) > 2 * ((1 << 20) + at_once)


# -- the last report ------------------------------------------------------------------------------------------


def reported(log):
    """Of how many events each published report tells."""
    found = [msgspec.json.decode(record.value) for record in read_topic(log, "metrics")]
    return [report["events"] for report in found]


def quiet():
    """A learner of which no report is due by the time of a commit, and few by numbers."""
    return new_learner(report_every=200, report_seconds=10**9)


def test_who_is_done_or_stopped_reports_the_last_events_too(open_log, tmp_path):
    """Once: to start again without events adds nothing. A replay publishes the same."""
    log = open_log(**TOPICS)
    produce(log, RAWS[:350])
    drain(log, tmp_path / "s", learner=quiet(), clock=lambda: 5.0).close()
    assert reported(open_log()) == [200, 350]
    drain(open_log(), tmp_path / "s", learner=quiet(), clock=lambda: 6.0).close()
    assert reported(open_log()) == [200, 350]
    stopped = new_worker(open_log(), tmp_path / "s", learner=quiet(), clock=lambda: 7.0)
    produce(open_log(), RAWS[350:370])
    stopped.start("stopped")
    stopped.context.sensor.committed = lambda commit: commit.consumed and stopped.stop()
    stopped.run()
    stopped.close()
    assert reported(open_log()) == [200, 350, 370]
    again = quiet()
    recover(open_log(), NoSnapshots(), again, IDENTITY)
    assert digests(again) == digests(stopped.learner)


@pytest.mark.parametrize("jump", [0.0, -3600.0], ids=["steady", "back"])
def test_an_idle_stream_has_its_last_events_reported(open_log, tmp_path, jump):
    """They come when no report is due; soon one is, though nothing comes, and though the clock goes back."""
    made = queue.Queue()

    def live():
        learner = new_learner(report_seconds=0.5)
        made.put(
            worker := new_worker(
                open_log(**TOPICS),
                tmp_path / "s",
                learner=learner,
                clock=lambda: time.time() + (jump if learner.consumed else 0.0),
                pace=CommitPolicy(commit_seconds=0.01),
            )
        )
        worker.start("idle")
        worker.run()
        worker.close()

    running = threading.Thread(target=live)
    running.start()
    worker = made.get(timeout=60)
    try:
        for end in (20, 40):
            awaited(lambda: worker.is_restored)
            produce(open_log(), RAWS[end - 20 : end])
            awaited(lambda end=end: worker.learner.consumed == end)
        awaited(lambda: 40 in reported(open_log()))
        before = reported(open_log())
        time.sleep(1.5)
    finally:
        worker.stop()
        running.join()
    assert reported(open_log()) == before


def awaited(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def test_the_end_is_not_waited_for_beside_a_slow_pace(open_log, tmp_path):
    """Where there is nothing more to read, `until_end` commits at once, however far off the commit is due."""
    log = open_log(**TOPICS)
    produce(log, raw_events(60))
    turns = itertools.count()

    class Impatient(Sensor):
        def heartbeat(self):
            if next(turns) == 60:
                worker.stop()

    worker = new_worker(log, tmp_path, pace=CommitPolicy(commit_seconds=3600.0), sensor=Impatient())
    worker.start("test")
    turns = itertools.count()
    worker.run(until_end=True)
    assert next(turns) < 60
    assert worker.learner.consumed == 60
    worker.close()
