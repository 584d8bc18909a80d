"""What the embedded log says beyond the port, whose sentences `test_log_contract.py` holds every log to."""

import contextlib
import multiprocessing
import os
import re
import shutil
import signal
import sqlite3
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb.engine.ports import NewRecord, OutageListener, Partition, Transaction
from streamnb.errors import Fenced, LogError, NotElected, Unavailable, UnknownTopic
from streamnb.event_logs.sqlite import sqlite_commits, sqlite_store
from streamnb.event_logs.sqlite.sqlite_commits import SqliteLeader
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.event_logs.sqlite.sqlite_store import SqliteStore, wal_reset_bug
from tests.support.topics_of_logs import add_partitions, delete_topic, noted_positions, set_on_both, trim

JOURNAL = Partition("journal", 0)
EVENTS = Partition("events", 0)
SESSION = 10.0


class Clock:
    def __init__(self):
        self.now = 1_790_000_000.0

    def __call__(self):
        return self.now


class SqliteLogs:
    """Opens any number of connections to one log, and lets its time pass."""

    def __init__(self, folder):
        self.path = folder / "log.db"
        self.clock = Clock()
        self._open = contextlib.ExitStack()

    def __call__(self, **topics):
        log = self._open.enter_context(SqliteLog(self.path, session_timeout=SESSION, clock=self.clock))
        for name, partitions in topics.items():
            log.create_topic(name, partitions)
        return log

    def pass_time(self, seconds):
        self.clock.now += seconds

    def close(self):
        self._open.close()


@pytest.fixture
def logs(tmp_path):
    with contextlib.closing(SqliteLogs(tmp_path)) as factory:
        yield factory


def new(topic, value=b"v", key=None, headers=()):
    return NewRecord(topic, key, value, headers)


def journal(n):
    """What looks like a record of the journal, as far as a log looks."""
    return b'{"n":%d,"previous":"","digest":""}' % n


def transaction(n, *outputs, positions=None):
    return Transaction(n, new("journal", journal(n)), outputs, positions or {})


def everything(log, topic):
    """All records kept of a topic, partition after partition."""
    return [
        record
        for partition in log.partitions(topic)
        for record in log.read(partition, log.offsets(partition)[0], 1_000_000)
    ]


def values(log, topic):
    return [record.value for record in everything(log, topic)]


# What it adds to the port's sentences


def test_records_without_a_key_lie_in_all_partitions(logs):
    log = logs(events=4)
    log.append([new("events", b"keyless") for _ in range(100)])
    assert [len(log.read(partition, 0, 1000)) for partition in log.partitions("events")] == [25] * 4


def test_timestamps_are_those_of_its_clock(logs):
    log = logs(journal=1, events=1)
    log.append([new("events")])
    logs.pass_time(3)
    log.acquire("a")
    log.commit(transaction(0))
    assert log.read(EVENTS, 0, 1)[0].timestamp == logs.clock.now - 3
    assert log.read(JOURNAL, 0, 1)[0].timestamp == logs.clock.now


def test_partitions_take_turns_however_long_one_backlog_is(logs):
    log = logs(long=1, b=1, c=1)
    log.append([new("long")] * 100 + [new("b")] * 3 + [new("c")] * 3)
    log.seek({Partition(topic, 0): 0 for topic in ("long", "b", "c")})
    seen = set()
    for _ in range(3):
        seen |= {record.partition.topic for record in log.poll(2, 0)}
        log.append([new("long")] * 10)
    assert seen == {"long", "b", "c"}


def test_a_poll_is_bounded_in_bytes_over_all_partitions(logs):
    log = logs(events=20)
    log.append([new("events", b"x" * (1 << 20)) for _ in range(60)])
    log.seek(dict.fromkeys(log.partitions("events"), 0))
    sizes = []
    while found := log.poll(1000, 0.0):
        sizes.append(sum(len(record.value) for record in found))
    assert sum(sizes) == 60 << 20
    assert max(sizes) < 2 * sqlite_store.FETCH_BYTES


@pytest.mark.parametrize("strays", [0, 1, 150])
def test_a_learner_goes_on_after_large_records_of_the_journal_and_strays(logs, strays):
    """More than are read at once: the last of them bears the number, or none of a hundred does."""
    log = logs(journal=1)
    log.acquire("a")
    for n in range(120):
        log.commit(Transaction(n, new("journal", journal(n) + b" " * 50_000), [], {}))
    with log._store.transaction("IMMEDIATE"):  # as whoever uses SQLite itself may
        log._store.insert([new("journal", b"x" * 50_000)] * strays, 0.0)
    log.close()
    again = logs()
    again.acquire("a")
    again.commit(transaction(120))
    with pytest.raises(Fenced, match="next is 121"):
        again.commit(transaction(122))


def test_lag_is_of_one_moment(logs, monkeypatch):
    log, learner = logs(journal=1, predictions=1), logs()
    learner.acquire("a")
    log.seek({JOURNAL: 0, Partition("predictions", 0): 0})
    extent = log._store.offset_range

    def extent_before_a_commit(partition):
        found = extent(partition)
        learner.commit(transaction(learner.offsets(JOURNAL)[1], new("predictions")))
        return found

    monkeypatch.setattr(log._store, "offset_range", extent_before_a_commit)
    assert list(log.lag().values()) == [0, 0]
    assert list(log.lag().values()) == [2, 2]


def test_lag_counts_from_the_position_and_never_below_0(logs):
    log = logs(events=1)
    log.append([new("events")] * 3)
    log.seek({EVENTS: 5})
    assert log.lag() == {EVENTS: 0}


def test_a_commit_with_a_record_without_a_value_leaves_nothing_and_can_be_followed(logs):
    log = logs(journal=1, events=1, predictions=1)
    log.acquire("a")
    with pytest.raises(LogError):
        log.commit(transaction(0, new("predictions"), new("predictions", None), positions={EVENTS: 9}))
    for view in (log, logs()):
        assert values(view, "journal") == values(view, "predictions") == []
        assert noted_positions(view) == {}
    log.commit(transaction(0, new("predictions", b"p0")))
    assert values(log, "predictions") == [b"p0"]


def test_an_owner_that_is_alive_is_not_deposed_and_named(logs):
    first, second = logs(journal=1), logs()
    first.acquire("a")
    logs.pass_time(SESSION - 2)
    first.heartbeat()
    logs.pass_time(SESSION - 3)
    with pytest.raises(NotElected, match=r"'a' is the learner.*'b' takes over.* 10 s") as once:
        second.acquire("b")
    logs.pass_time(1)
    with pytest.raises(NotElected, match=re.escape(str(once.value))):  # who stands by tells it once
        second.acquire("b")
    first.commit(transaction(0))  # a commit is a heartbeat too
    logs.pass_time(SESSION - 3)
    with pytest.raises(NotElected, match="'a' is the learner"):
        second.acquire("b")
    first.commit(transaction(1))


def test_a_silent_owner_is_told_who_has_taken_over(logs):
    first, second, third = logs(journal=1, predictions=1), logs(), logs()
    first.acquire("a")
    first.commit(transaction(0))
    logs.pass_time(SESSION)
    second.acquire("b")
    with pytest.raises(Fenced, match="'b' has taken over"):
        first.commit(transaction(1, new("predictions")))
    with pytest.raises(Fenced, match="'b' has taken over"):
        first.heartbeat()
    assert (values(second, "journal"), values(second, "predictions")) == ([journal(0)], [])
    first.close()  # must not give up what is no longer its own
    with pytest.raises(NotElected, match="'b' is the learner"):
        third.acquire("c")
    second.commit(transaction(1))


def test_a_heartbeat_of_one_that_is_no_learner_says_so(logs):
    with pytest.raises(LogError, match="acquire"):
        logs(journal=1).heartbeat()


# The laws of the embedded log

RECORDS = st.lists(
    st.builds(
        NewRecord,
        topic=st.sampled_from(["a", "b"]),
        key=st.none() | st.binary(max_size=8),
        value=st.binary(max_size=64),
        headers=st.lists(st.tuples(st.text(max_size=8), st.binary(max_size=8)), max_size=3).map(tuple),
    ),
    max_size=30,
)


def fresh(tmp_path_factory):
    log = SqliteLog(tmp_path_factory.mktemp("log") / "log.db")
    log.create_topic("a", 1)
    log.create_topic("b", 3)
    return log


def content(log):
    return [record._replace(timestamp=0.0) for topic in ("a", "b") for record in everything(log, topic)]


@given(records=RECORDS)
@settings(max_examples=40, deadline=None)
def test_any_record_comes_back_as_it_was_written(tmp_path_factory, records):
    with fresh(tmp_path_factory) as log:
        log.append(records)
        back = [NewRecord(r.partition.topic, r.key, r.value, r.headers) for r in everything(log, "a")]
        assert back == [record for record in records if record.topic == "a"]
        back = [NewRecord(r.partition.topic, r.key, r.value, r.headers) for r in everything(log, "b")]
        assert sorted(map(repr, back)) == sorted(repr(record) for record in records if record.topic == "b")
        for record in everything(log, "b"):
            assert record.key is None or record.partition.number == crc32(record.key) % 3


@given(records=RECORDS, cuts=st.lists(st.integers(1, 10), min_size=1, max_size=30))
@settings(max_examples=40, deadline=None)
def test_how_appends_and_polls_are_cut_is_unobservable(tmp_path_factory, records, cuts):
    with fresh(tmp_path_factory) as whole, fresh(tmp_path_factory) as cut:
        whole.append(records)
        rest = list(records)
        for size in [*cuts, len(records)]:
            cut.append(rest[:size])
            del rest[:size]
        assert content(cut) == content(whole)
        partitions = [*whole.partitions("a"), *whole.partitions("b")]
        whole.seek(dict.fromkeys(partitions, 0))
        polled = [record for size in [*cuts, *[30] * 5] for record in whole.poll(size, 0)]
        assert sorted(polled, key=lambda record: record.partition) == [
            record for topic in ("a", "b") for record in everything(whole, topic)
        ]


# Several processes

SPAWN = multiprocessing.get_context("spawn")


def learn_for_ever(path):
    """Commit as fast as the disk allows: for each number three outputs, a journal record, a position."""
    log = SqliteLog(path)
    log.acquire("learner")
    n = log.offsets(JOURNAL)[1]
    while True:
        outputs = [new("predictions", b"%d:%d" % (n, i)) for i in range(3)]
        log.commit(transaction(n, *outputs, positions={EVENTS: n + 1}))
        n += 1


def agreed_number(log):
    """How many commits there are, having checked that every trace of them agrees."""
    committed = log.offsets(JOURNAL)[1]
    assert values(log, "journal") == [journal(n) for n in range(committed)]
    assert values(log, "predictions") == [b"%d:%d" % (n, i) for n in range(committed) for i in range(3)]
    assert noted_positions(log) == ({EVENTS: committed} if committed else {})
    return committed


def test_kill_9_leaves_whole_commits_only(tmp_path):
    path = tmp_path / "log.db"
    with SqliteLog(path) as log:
        for topic in ("journal", "events", "predictions"):
            log.create_topic(topic, 1)
    survived = 0
    for round_number in range(5):
        child = SPAWN.Process(target=learn_for_ever, args=(path,))
        child.start()
        with SqliteLog(path) as watcher:
            while watcher.offsets(JOURNAL)[1] < survived + 40 + round_number:
                assert child.is_alive()
                time.sleep(0.001)
            os.kill(child.pid, signal.SIGKILL)
            child.join()
            assert agreed_number(watcher) > survived
        with SqliteLog(path) as log:
            survived = agreed_number(log)
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_reader_sees_whole_commits_only(logs):
    reader = logs(journal=1, predictions=2)
    enough = threading.Event()

    def learn():
        with logs() as log:
            log.acquire("learner")
            n = 0
            while not enough.is_set():
                log.commit(transaction(n, *[new("predictions")] * 5))
                n += 1
            return n

    reader.seek(dict.fromkeys([JOURNAL, *reader.partitions("predictions")], 0))
    seen = {"journal": 0, "predictions": 0}

    def look():
        for record in reader.poll(10_000, 1.0):
            seen[record.partition.topic] += 1
        assert seen["predictions"] == 5 * seen["journal"]

    with ThreadPoolExecutor(1) as pool:
        learning = pool.submit(learn)
        try:
            for _ in range(100):
                look()
        finally:
            enough.set()
        committed = learning.result()
    look()
    assert seen["journal"] == committed


def test_all_records_of_a_poll_are_of_one_moment(logs, monkeypatch):
    log, learner = logs(journal=1, predictions=1), logs()
    learner.acquire("a")
    log.seek({JOURNAL: 0, Partition("predictions", 0): 0})
    fetch = log._store.fetch

    def fetch_before_a_commit(*args):
        records = fetch(*args)
        learner.commit(transaction(learner.offsets(JOURNAL)[1], new("predictions")))
        return records

    monkeypatch.setattr(log._store, "fetch", fetch_before_a_commit)
    assert log.poll(10, 0) == []
    topics = [record.partition.topic for record in log.poll(10, 0)]
    assert sorted(topics) == ["journal"] * 2 + ["predictions"] * 2


def test_a_read_is_of_one_moment(logs, monkeypatch):
    log, other = logs(events=1), logs()
    log.append([new("events")] * 3)
    extent = log._store.offset_range

    def extent_before_a_trim(partition):
        found = extent(partition)
        trim(other, partition, 2)
        return found

    monkeypatch.setattr(log._store, "offset_range", extent_before_a_trim)
    assert len(log.read(EVENTS, 0, 3)) == 3


def test_several_processes_may_create_one_file_at_once(tmp_path):
    def create(number):
        gate.wait()
        with SqliteLog(tmp_path / f"{number // 4}.db") as log:
            log.create_topic("events", 2)
            return log.topic_id("events")

    gate = threading.Barrier(4, timeout=5)
    with ThreadPoolExecutor(4) as pool:
        ids = list(pool.map(create, range(40)))
    assert [len(set(ids[i : i + 4])) for i in range(0, 40, 4)] == [1] * 10


def test_opening_a_new_file_waits_for_another_that_writes_it(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "log.db", check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        release = threading.Timer(0.2, other.rollback)
        release.start()
        with SqliteLog(tmp_path / "log.db") as log:
            assert log.topics() == {}
        release.join()


# What only the embedded log says


def test_creating_a_topic_again_needs_the_same_number_of_partitions(logs):
    log = logs(events=3)
    log.create_topic("events", 3)
    with pytest.raises(LogError, match="'events' has 3 partitions, not 2"):
        log.create_topic("events", 2)
    assert log.topics() == {"events": 3}
    for name, partitions in (("labels", 0), ("journal", 2)):
        with pytest.raises(LogError, match=f"'{name}' needs .*1 partition, not {partitions}"):
            log.create_topic(name, partitions)


def test_topics_are_as_they_were_made(logs):
    log = logs(events=3, journal=1)
    assert log.topics() == {"events": 3, "journal": 1}
    add_partitions(log, "events", 5)
    assert log.topics() == {"events": 5, "journal": 1}
    log.create_topic("events", 5)
    delete_topic(log, "events")
    assert log.topics() == {"journal": 1}


def test_poll_does_not_mistake_a_new_topic_for_the_old(logs):
    log = logs(events=1)
    log.append([new("events", b"old")])
    log.seek({EVENTS: 0})
    delete_topic(log, "events")
    for call in (log.lag, lambda: log.poll(1, 0)):
        with pytest.raises(UnknownTopic):
            call()
    log.create_topic("events", 1)
    log.append([new("events", b"new")])
    for call in (log.lag, lambda: log.poll(1, 0)):
        with pytest.raises(UnknownTopic, match="deleted and made again"):
            call()
    log.seek({EVENTS: 0})
    assert [record.value for record in log.poll(1, 0)] == [b"new"]


def test_poll_moves_no_position_when_it_fails(logs, monkeypatch):
    log = logs(a=1, b=1)
    log.append([new("a"), new("b")])
    log.seek({Partition("a", 0): 0, Partition("b", 0): 0})
    fetch = log._store.fetch

    def fetch_all_but_b(partition, *args):
        if partition.topic == "b":
            raise LogError("b")
        return fetch(partition, *args)

    with monkeypatch.context() as patch:
        patch.setattr(log._store, "fetch", fetch_all_but_b)
        with pytest.raises(LogError):
            log.poll(5, 0)
    assert [record.partition.topic for record in log.poll(5, 0)] == ["a", "b"]


def test_only_commits_write_to_the_journal(logs):
    log = logs(journal=1, other=1)
    log.acquire("a")
    for write in (log.append, lambda records: log.forward(records, {}, {})):
        with pytest.raises(LogError, match="only a commit writes to 'journal'"):
            write([new("journal")])
    with pytest.raises(LogError, match="only a commit writes to 'journal'"):
        log.commit(transaction(0, new("journal")))
    with pytest.raises(LogError, match="the journal is topic 'journal', not 'other'"):
        log.commit(transaction(0)._replace(journal=new("other")))
    assert log.offsets(JOURNAL) == (0, 0)


def test_the_journal_can_be_named_and_trimmed(tmp_path):
    with SqliteLog(tmp_path / "log.db", journal_topic="j") as log:
        log.create_topic("j", 1)
        log.acquire("a")
        for n in range(3):
            log.commit(transaction(n)._replace(journal=new("j")))
        trim(log, Partition("j", 0), 3)
        log.commit(transaction(3)._replace(journal=new("j")))
        assert log.offsets(Partition("j", 0)) == (3, 4)


def test_an_owner_restarted_under_its_name_need_not_wait(logs):
    first, second = logs(journal=1), logs()
    first.acquire("a")
    second.acquire("a")
    with pytest.raises(Fenced):
        first.commit(transaction(0))
    second.commit(transaction(0))


def test_a_heartbeat_far_in_the_future_does_not_lock_the_log(logs):
    first, second = logs(journal=1), logs()
    first.acquire("a")
    logs.pass_time(-2 * SESSION)
    second.acquire("b")


def test_poll_holds_no_transaction_while_it_waits(logs):
    log = logs(events=1)

    def wait():
        with logs() as reader:
            reader.seek({EVENTS: 0})
            waiting.set()
            return len(reader.poll(5, 10.0))

    waiting = threading.Event()
    with ThreadPoolExecutor(1) as pool, contextlib.closing(sqlite3.connect(logs.path, timeout=2)) as db:
        polled = pool.submit(wait)
        waiting.wait()
        time.sleep(0.1)
        log.create_topic("unrelated", 1)
        time.sleep(0.1)
        blocked, _, _ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        log.append([new("events")])
        assert polled.result() == 1
    assert blocked == 0


def test_poll_misses_no_commit_between_its_look_and_its_wait(logs, monkeypatch):
    log, producer = logs(events=1), logs()
    log.seek({EVENTS: 0})
    look = log._serve_turns

    def look_just_before_an_append(limit):
        records = look(limit)
        if not records:
            producer.append([new("events")])
        return records

    monkeypatch.setattr(log, "_serve_turns", look_just_before_an_append)
    start = time.monotonic()
    assert len(log.poll(1, 60.0)) == 1
    assert time.monotonic() - start < 30.0


def test_poll_ends_in_time_though_others_write_all_the_time(logs, monkeypatch):
    log, busy = logs(events=1, other=1), logs()
    log.seek({EVENTS: 0})
    version = log._store.version

    def version_after_a_write():
        busy.append([new("other")])
        return version()

    monkeypatch.setattr(log._store, "version", version_after_a_write)
    start = time.monotonic()
    assert log.poll(1, 0.1) == []
    assert time.monotonic() - start < 30.0


@pytest.mark.parametrize(
    ("commits", "size"), [(3, sqlite_store.CHECKPOINT_BYTES), (1_000, 200_000)], ids=["commits", "bytes"]
)
def test_only_the_leader_checkpoints(logs, monkeypatch, commits, size):
    monkeypatch.setattr(sqlite_commits, "CHECKPOINT_COMMITS", commits)
    monkeypatch.setattr(sqlite_commits, "CHECKPOINT_BYTES", size)
    with logs(journal=1, events=1) as producer, logs() as leader:
        before = logs.path.stat().st_size
        for _ in range(5):
            producer.append([new("events", bytes(10_000))] * 20)
        producer.close()
        assert logs.path.stat().st_size == before
        leader.acquire("a")
        for n in range(4):
            leader.commit(transaction(n))
        assert logs.path.stat().st_size > before + 900_000
        leader.commit(transaction(4))
        with logs() as reader:
            assert len(everything(reader, "events")) == 100


def test_a_deposed_leader_does_not_checkpoint(logs, monkeypatch):
    monkeypatch.setattr(sqlite_commits, "CHECKPOINT_COMMITS", 1)
    first, second = logs(journal=1), logs()
    first.acquire("a")
    first.commit(transaction(0))
    logs.pass_time(SESSION)
    second.acquire("b")
    checkpoints = []
    monkeypatch.setattr(SqliteStore, "checkpoint", checkpoints.append)
    with pytest.raises(Fenced):
        first.commit(transaction(1))
    first.close()
    assert checkpoints == []


def test_a_commit_whose_checkpoint_fails_was_not_made(logs, monkeypatch):
    monkeypatch.setattr(sqlite_commits, "CHECKPOINT_COMMITS", 1)
    log = logs(journal=1)
    log.acquire("a")
    log.commit(transaction(0))

    def fail(_):
        raise LogError("the disk failed")

    with monkeypatch.context() as patch:
        patch.setattr(SqliteStore, "checkpoint", fail)
        with pytest.raises(LogError, match="the disk failed"):
            log.commit(transaction(1))
    log.commit(transaction(1))


def test_a_write_of_its_own_precedes_every_checkpoint(logs, monkeypatch):
    monkeypatch.setattr(sqlite_commits, "CHECKPOINT_COMMITS", 2)
    log = logs(journal=1)
    log.acquire("a")
    checkpoint, commit = SqliteStore.checkpoint, SqliteLeader.commit
    written = []

    def noted_checkpoint(store):
        written.append(store.db.total_changes - before[store])
        checkpoint(store)

    def noted_commit(leader, *arguments):
        before[leader._store] = leader._store.db.total_changes
        commit(leader, *arguments)

    before = {log._store: log._store.db.total_changes}
    monkeypatch.setattr(SqliteStore, "checkpoint", noted_checkpoint)
    monkeypatch.setattr(SqliteLeader, "commit", noted_commit)
    for n in range(5):
        log.commit(transaction(n))
    log.close()
    assert len(written) == 3
    assert min(written) >= 1


def test_the_log_is_read_while_a_commit_waits_for_the_lock(logs):
    """And nothing of the commit is visible before it ends; heartbeats wait for nothing meanwhile."""
    log = logs(journal=1, events=1, predictions=1)
    log.append([new("events")] * 3)
    log.acquire("a")
    log.seek({EVENTS: 0})
    with contextlib.closing(sqlite3.connect(logs.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        begun = log.begin_commit(transaction(0, new("predictions"), positions={EVENTS: 3}))
        logs.pass_time(SESSION)
        began = time.monotonic()
        assert len(log.poll(10, 0.0)) == 3
        log.heartbeat()
        assert not begun.is_over()
        assert (values(log, "predictions"), noted_positions(log)) == ([], {})
        assert time.monotonic() - began < sqlite_store.BUSY_TIMEOUT / 2
        other.execute("ROLLBACK")
    assert begun.await_outcome() > 0
    assert (values(log, "predictions"), noted_positions(log)) == ([b"v"], {EVENTS: 3})


def test_heartbeats_continue_after_a_commit_that_failed(logs):
    log = logs(journal=1)
    log.acquire("a")
    with pytest.raises(UnknownTopic):
        log.commit(transaction(0, new("nowhere")))
    logs.pass_time(SESSION / 2)
    log.heartbeat()
    assert log.owner() == ("a", 0.0)


def test_a_commit_in_flight_is_over_before_the_log_is_released(logs, monkeypatch):
    """Otherwise it could be written after a successor has read the journal."""
    log = logs(journal=1, predictions=1)
    log.acquire("a")
    commit, goes_on = SqliteLeader.commit, threading.Event()
    monkeypatch.setattr(SqliteLeader, "commit", lambda *args: (goes_on.wait(30), commit(*args)))
    log.begin_commit(transaction(0, new("predictions")))
    threading.Timer(0.3, goes_on.set).start()
    log.close()
    assert len(values(logs(), "journal")) == 1


def test_a_file_that_is_replaced_before_the_first_commit_is_not_written_to(logs, monkeypatch):
    log = logs(journal=1)
    log.acquire("a")
    check, checked = SqliteStore.check_in_place, []
    log._store.checkpoint()
    shutil.copy(logs.path, logs.path.with_suffix(".copy"))

    def replaced(store):
        check(store)
        checked.append(store)
        if checked == [log._store]:
            logs.path.with_suffix(".copy").replace(logs.path)

    monkeypatch.setattr(SqliteStore, "check_in_place", replaced)
    with pytest.raises(LogError, match="deleted, moved or replaced"):
        log.commit(transaction(0))


def test_the_leader_checkpoints_when_it_closes(logs):
    logs(journal=1, events=1).append([new("events", bytes(10_000))] * 20)  # stays open
    leader = logs()
    leader.acquire("a")
    before = logs.path.stat().st_size
    leader.close()
    assert logs.path.stat().st_size > before + 150_000


def test_every_connection_is_durable_and_leaves_checkpoints_alone(logs):
    for log in (logs(), logs()):
        store = log._store
        answers = [store._pragma(name) for name in ("journal_mode", "synchronous", "wal_autocheckpoint")]
        assert answers == ["wal", 2, 0]


@contextlib.contextmanager
def full_disk(log):
    set_on_both(log, f"max_page_count = {log._store._pragma('page_count')}")
    yield


@contextlib.contextmanager
def readonly(log):
    set_on_both(log, "query_only = 1")
    yield
    log._store._pragma("query_only = 0")


@contextlib.contextmanager
def locked(log):
    set_on_both(log, "busy_timeout = 20")
    with contextlib.closing(sqlite3.connect(log._store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


@pytest.mark.parametrize(
    ("sabotage", "kind", "meaning"),
    [
        (full_disk, LogError, "the disk is full"),
        (readonly, LogError, "cannot be written to"),
        (locked, Unavailable, "kept the file locked"),
    ],
    ids=["full", "readonly", "locked"],
)
def test_a_failing_disk_is_a_log_error_and_writes_nothing(logs, sabotage, kind, meaning):
    log = logs(journal=1, events=1, predictions=1)
    log.acquire("a")
    big = [new("predictions", bytes(50_000))] * 3
    with sabotage(log):
        for call in (
            lambda: log.commit(transaction(0, *big, positions={EVENTS: 1})),
            lambda: log.append(big),
        ):
            with pytest.raises(LogError, match=meaning) as caught:
                call()
            assert str(logs.path) in str(caught.value)
            assert type(caught.value) is kind
    fresh_view = logs()
    assert [values(fresh_view, topic) for topic in ("journal", "predictions")] == [[], []]
    assert noted_positions(fresh_view) == {}


@pytest.mark.parametrize("call", ["acquire", "commit", "append", "heartbeat"])
def test_a_locked_file_is_waited_for_by_whoever_has_patience(logs, call):
    """Another process that is stopped inside a write keeps all others out until it goes on."""

    class Patient(OutageListener):
        failures, answered = 0, 0

        def unreachable(self, error, seconds):
            assert "kept the file locked" in str(error)
            assert seconds >= 0
            self.failures += 1
            if self.failures == 3:
                other.execute("ROLLBACK")

        def reachable(self, _):
            self.answered += 1

    logs(journal=1, events=1, predictions=1)
    patience = Patient()
    with SqliteLog(logs.path, session_timeout=0.001, patience=patience) as log:
        set_on_both(log, "busy_timeout = 20")
        if call != "acquire":
            log.acquire("a")
            time.sleep(0.01)
        with contextlib.closing(sqlite3.connect(logs.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            if call == "acquire":
                log.acquire("a")
            elif call == "commit":
                log.commit(transaction(0, positions={EVENTS: 0}))
            elif call == "append":
                log.append([new("predictions", b"x")])
            else:
                log.heartbeat()
        assert (patience.failures, patience.answered) == (3, 1)
        assert log.offsets(Partition("journal", 0))[1] == (call == "commit")


def test_a_file_that_is_locked_as_it_is_opened_is_waited_for(tmp_path, monkeypatch):
    """Also by who only reads: whoever locks it so keeps readers out, too."""
    monkeypatch.setattr("streamnb.event_logs.sqlite.sqlite_store.BUSY_TIMEOUT", 0.02)
    SqliteLog(tmp_path / "log.db").close()
    other = sqlite3.connect(tmp_path / "log.db", isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    failures = []

    class Patient(OutageListener):
        def unreachable(self, error, _):
            failures.append(str(error))
            if len(failures) == 3:
                other.close()

    with pytest.raises(Unavailable, match="kept the file locked"):
        SqliteLog(tmp_path / "log.db")
    with SqliteLog(tmp_path / "log.db", patience=Patient()) as log:
        assert log.topics() == {}
    assert len(failures) == 3


def test_a_closed_log_says_so_without_a_raw_sqlite_error(logs):
    log = logs(events=1)
    log.close()
    for call in (
        log.topics,
        lambda: noted_positions(log),
        log.heartbeat,
        lambda: log.append([new("events")]),
        lambda: log.poll(1, 0),
        lambda: log.read(EVENTS, 0, 1),
        lambda: log.create_topic("x", 1),
        lambda: log.acquire("a"),
        lambda: log.offsets(EVENTS),
    ):
        with pytest.raises(LogError, match="closed"):
            call()


def test_a_log_used_by_another_thread_says_so(logs):
    log = logs(journal=1)
    with ThreadPoolExecutor(1) as pool:
        for call in (log.topics, log.close):
            with pytest.raises(LogError, match="thread"):
                pool.submit(call).result()
    log._store.close()


@pytest.mark.parametrize("junk", [b"short", b"id,text,label\n" * 1000], ids=["short", "long"])
def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path, junk):
    path = tmp_path / "notes.txt"
    path.write_bytes(junk)
    with pytest.raises(LogError, match=r"notes\.txt: is not a SQLite database"):
        SqliteLog(path)
    assert path.read_bytes() == junk


def test_a_database_of_something_else_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "other.db"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE t (x)")
    before = path.read_bytes()
    with pytest.raises(LogError, match=r"other\.db: is a SQLite database, but not a log"):
        SqliteLog(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("PRAGMA user_version = 2", "version 2; known is 1"),
        ("DROP TABLE forwarded", "was written by an early streamnb: begin a new log in another file"),
    ],
)  # fmt: skip
def test_a_log_of_another_version_is_refused(logs, change, said):
    logs().close()
    with contextlib.closing(sqlite3.connect(logs.path)) as db:
        db.execute(change)
    with pytest.raises(LogError, match=said):
        logs()


@pytest.mark.parametrize("path", ["", "missing/log.db"], ids=["folder", "no-folder"])
def test_a_path_that_cannot_be_opened_is_named(tmp_path, path):
    with pytest.raises(LogError, match="cannot be opened"):
        SqliteLog(tmp_path / path)


def test_a_log_in_memory_is_refused_and_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LogError, match="must be a file"):
        SqliteLog(":memory:")
    assert list(tmp_path.iterdir()) == []


def test_damage_is_never_taken_for_the_end(logs):
    with logs(events=1) as log:
        log.append([new("events", b"%d" % i) for i in range(5)])
    with contextlib.closing(sqlite3.connect(logs.path)) as db, db:
        db.execute("DELETE FROM records WHERE value IN (?, ?)", (b"2", b"4"))
    log = logs()
    log.seek({EVENTS: 0})
    for call in (lambda: log.read(EVENTS, 0, 3), lambda: log.read(EVENTS, 3, 2), lambda: log.poll(5, 0)):
        with pytest.raises(LogError, match=r"damaged: . records of events\[0\]"):
            call()
    assert [record.value for record in log.read(EVENTS, 0, 2)] == [b"0", b"1"]


def test_overwritten_pages_are_a_log_error(logs):
    with logs(events=1) as log:
        log.append([new("events", bytes(1000))] * 100)
    damaged = bytearray(logs.path.read_bytes())
    damaged[4096:] = b"\xa5" * (len(damaged) - 4096)
    logs.path.write_bytes(damaged)
    with pytest.raises(LogError, match="is damaged"):
        everything(logs(), "events")


@pytest.mark.parametrize(
    ("version", "bug"),
    [
        ((3, 40, 1), True),
        ((3, 44, 5), True),
        ((3, 44, 6), False),
        ((3, 45, 0), True),
        ((3, 50, 6), True),
        ((3, 50, 7), False),
        ((3, 51, 2), True),
        ((3, 51, 3), False),
        ((3, 53, 0), False),
        ((4, 0, 0), False),
    ],
)
def test_which_versions_have_the_wal_reset_bug(version, bug):
    assert wal_reset_bug(version) is bug


def test_it_is_fast_enough(logs):
    """A tenth of the aim, of 100,000 records a second of the processor."""
    log = logs(events=4)
    records = [new("events", bytes(110), b"%d" % i) for i in range(20_000)]
    start = time.process_time()
    log.append(records)
    log.seek(dict.fromkeys(log.partitions("events"), 0))
    polled = sum(len(log.poll(5_000, 0)) for _ in range(8))
    assert polled == 20_000
    assert 20_000 / (time.process_time() - start) > 10_000


@pytest.mark.parametrize("mask", [0, 0o022])
def test_a_log_is_its_users_and_one_that_is_there_keeps_its_mode(tmp_path, mask):
    before = os.umask(mask)
    try:
        for name, made, expected in [("new.db", None, 0o600), ("shared.db", 0o660, 0o660)]:
            if made is not None:
                (tmp_path / name).touch()
                (tmp_path / name).chmod(made)
            with SqliteLog(tmp_path / name) as log:
                log.create_topic("events", 1)
                files = sorted(tmp_path.glob(f"{name}*"))
                assert len(files) == 3
                assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {expected}
    finally:
        os.umask(before)


@pytest.mark.parametrize("value", ["'{}'", "'text'", "7", "1.5", "x'7b7d'"])
def test_what_a_stranger_wrote_by_sql_is_read_as_bytes(logs, value):
    """SQLite's columns take every type: a value of another is its text."""
    log = logs(events=1)
    log.append([NewRecord("events", b"k", b"first")])
    log._store.db.execute(f"UPDATE records SET value = {value}, key = {value}, timestamp = 'abc'")  # noqa: S608
    (record,) = log.read(EVENTS, 0, 10)
    expected = value.strip("'").encode() if value[0] != "x" else b"{}"
    assert (record.key, record.value, record.timestamp) == (expected, expected, 0.0)


@pytest.mark.parametrize("headers", ["x'ff00'", "x'0000000101610162'", "'text'", "7"])
def test_headers_that_are_none_are_an_error_that_names_the_record(logs, headers):
    log = logs(events=1)
    log.append([NewRecord("events", None, b"0"), NewRecord("events", None, b"1")])
    log._store.db.execute(f"UPDATE records SET headers = {headers} WHERE place % 16 = 1")  # noqa: S608
    assert [record.offset for record in log.read(EVENTS, 0, 1)] == [0]
    with pytest.raises(LogError, match=r"log\.db: is damaged: the headers of events\[0\] offset 1 "):
        log.read(EVENTS, 0, 10)


def test_a_log_on_a_read_only_medium_is_read_as_it_is(logs, monkeypatch):
    """Nothing is made beside it, and a write is refused; commits that only a file beside it has are not passed over."""
    read_only = os.statvfs_result((0,) * 8 + (os.ST_RDONLY, 255))
    logs(journal=1, events=1).append([new("events", b"a")])
    with monkeypatch.context() as patched:
        patched.setattr(os, "statvfs", lambda _: read_only)
        with pytest.raises(LogError, match=r"its last commits in log\.db-wal: copy both"):
            logs()
    logs.close()
    files = sorted(logs.path.parent.iterdir())
    assert files == [logs.path]
    monkeypatch.setattr(os, "statvfs", lambda _: read_only)
    log = logs()
    assert [record.value for record in everything(log, "events")] == [b"a"]
    with pytest.raises(LogError, match="cannot be written to"):
        log.append([new("events", b"b")])
    assert sorted(logs.path.parent.iterdir()) == files
