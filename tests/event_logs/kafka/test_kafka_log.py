"""What only a broker can do to a learner: elections, unknown outcomes, transactions that it aborts."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import patch

import pytest
from confluent_kafka import Consumer, Producer
from kafka import errors
from kafka.admin import ConfigResource, ConfigResourceType, MemberToRemove

from streamnb.engine.ports import NewRecord, OutageListener, Partition
from streamnb.engine.sensor import Sensor
from streamnb.errors import Fenced, LogError, NotElected, Unavailable, UnknownTopic
from streamnb.event_logs.kafka import kafka_records
from streamnb.event_logs.kafka.kafka_log import KafkaLog
from streamnb.event_logs.kafka.kafka_transactions import Transactions
from streamnb.runtime.worker_context import CommitPolicy
from tests.brokers.prefixed import LIBRARIES, PrefixedKafkaLog
from tests.support.service import (
    TOPICS,
    digests,
    new_learner,
    new_worker,
    predictions,
    produce,
    raw_events,
    read_topic,
    records,
)

pytestmark = [pytest.mark.thorough, pytest.mark.early(21)]

RAWS = raw_events(120, seed=11)
PACE = CommitPolicy(commit_events=20)
SESSION = 6.0


@pytest.fixture
def connect(broker, request):
    """Open the log of this test once more, with options of its own; closed at the end."""
    yield from connecting(broker, request)


def connecting(broker, request):
    opened, library = [], LIBRARIES[getattr(request, "param", "kafka")]
    prefix = f"{abs(hash(request.node.name)):x}-"

    def opener(**options):
        settings = {"session_timeout": SESSION, "elected_within": 20.0, "transaction_timeout": 5.0, **options}
        settings["library"] = library
        opened.append(PrefixedKafkaLog(broker.address, prefix, **settings))
        if len(opened) == 1:
            opened[0].create_topics({name.replace("_", "-"): n for name, n in TOPICS.items()})
        return opened[-1]

    yield opener
    for log in opened:
        log.close()


both = pytest.mark.parametrize("connect", LIBRARIES, indirect=True)
"""Where the library that reads and writes has a part in it."""


def undisturbed(raws):
    learner = new_learner()
    return learner, predictions(learner.process(records(raws), 1.0))


@contextlib.contextmanager
def beating(log):
    """Let a learner take part in the group, in a thread of its own: two in one thread wait for each other."""
    done = threading.Event()

    def beat():
        while not done.wait(0.1):
            log.heartbeat()

    with ThreadPoolExecutor(1) as pool:
        told = pool.submit(beat)
        try:
            yield
        finally:
            done.set()
        told.result()


def awaited(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


# Elections


def test_a_group_that_has_settled_stays_so(connect):
    """The client rejoins without end where its polls do not wait for the join to be done."""
    log = connect()
    log.acquire("only")
    election = log._commits._election
    settled = election.membership
    for _ in range(20):
        election._turned = 0.0  # beat in earnest each time
        log.heartbeat()
        time.sleep(0.1)
    assert election.membership == settled


def test_candidates_that_come_and_go_disturb_no_learner(connect, tmp_path):
    produce(connect(), RAWS)
    worker = new_worker(connect(), tmp_path / "s", pace=PACE)
    worker.start("learner")
    election = worker.context.log._commits._election
    first = election.membership
    told, done = [], threading.Event()

    def compete(name):
        rival = new_worker(connect(elected_within=0.5), tmp_path / "s", pace=PACE)

        def waiting(reason):
            told.append(str(reason))
            if "is alive" in told[-1]:
                rival.stop()

        rival.await_leadership(name, waiting)
        rival.close()

    rivals = [threading.Thread(target=compete, args=(f"rival-{i}",)) for i in range(2)]
    for rival in rivals:
        rival.start()
    threading.Thread(target=lambda: ([rival.join() for rival in rivals], done.set())).start()
    awaited(lambda: worker.context.log.heartbeat() or done.is_set())
    worker.run(until_end=True)
    assert election.membership.generation_id > first.generation_id
    assert election.membership.member_id == first.member_id
    assert sum("is alive" in reason for reason in told) == 2
    learner, expected = undisturbed(RAWS)
    assert predictions(connect()) == expected
    assert digests(worker.learner) == digests(learner)
    worker.close()


@pytest.mark.storm_for("librdkafka")
@both
def test_a_standby_takes_over_from_one_that_leaves_and_from_one_that_falls_silent(connect, tmp_path):
    def stand_by(name):
        worker = new_worker(connect(elected_within=0.5), tmp_path / "s", pace=PACE)
        threading.Thread(target=worker.await_leadership, args=(name, lambda _: None), daemon=True).start()
        return worker

    produce(connect(), RAWS[:40])
    first = new_worker(connect(), tmp_path / "s", pace=PACE)
    first.start("first")
    first.run(until_end=True)
    second = stand_by("second")
    awaited(lambda: first.context.log.heartbeat() or second.context.log._commits._election is not None)
    first.close()
    awaited(lambda: second.is_restored)
    produce(connect(), RAWS[40:80])
    second.run(until_end=True)
    third = stand_by("third")
    awaited(lambda: third.is_restored)  # the second does not turn, and loses its session's grace
    produce(connect(), RAWS[80:])
    third.run(until_end=True)
    with pytest.raises(
        Fenced, match=r"lost the election: third at \S+ has taken over; |other has taken over"
    ):
        second.run(until_end=True)
    assert predictions(connect()) == undisturbed(RAWS)[1]
    second.close()
    third.close()


def test_an_election_that_is_lost_before_it_is_used_is_stood_for_again(connect, tmp_path, monkeypatch):
    """A machine that stands still for a session is expired by the broker; nobody else may be there."""
    produce(connect(), RAWS)
    begin, calls = Transactions.begin_anew, []

    def expelled_once(transactions, alive):
        begin(transactions, alive)
        calls.append(worker.context.log._commits._election)
        if len(calls) == 1:
            calls[0]._member.unsubscribe()  # out of the group, as one that has missed its heartbeats

    monkeypatch.setattr(Transactions, "begin_anew", expelled_once)
    worker = new_worker(connect(), tmp_path / "s", pace=PACE)
    worker.start("stubborn")
    worker.run(until_end=True)
    worker.close()
    assert len(calls) == 2
    assert calls[0] is not calls[1]
    assert predictions(connect()) == undisturbed(RAWS)[1]


def test_one_that_was_expelled_and_joins_again_deposes_nobody(connect):
    """Its client would claim the partition that it had; of two that claim one, neither would be given it."""
    first, second = connect(), connect()
    first.acquire("first")
    expelled = first._commits._election
    member = MemberToRemove(member_id=expelled.membership.member_id)
    expelled._admin.remove_group_members(expelled._group, [member])
    second.acquire("second")
    serving = second._commits._election.membership
    with beating(second):
        deadline = time.monotonic() + 20 * SESSION
        is_settled = False
        while not is_settled and time.monotonic() < deadline:
            expelled._turn(100)  # as one that goes on, and has not yet been told
            is_settled = expelled.membership.generation_id > serving.generation_id and bool(expelled._seen())
        assert expelled.membership.member_id not in {member.member_id, ""}
        assert expelled.membership.generation_id > serving.generation_id
        with pytest.raises(Fenced, match=r"second at .* has taken over"):
            expelled._beat()
    second.heartbeat()
    assert second._commits._election.membership.member_id == serving.member_id


# Others in the group


@pytest.fixture
def stranger(connect):
    """A consumer that is no learner, in the learners' group, once it has joined."""
    over, joined, threads = threading.Event(), threading.Event(), []

    def consume(settings, topic):
        consumer = Consumer(settings)
        consumer.subscribe([topic])
        while not over.is_set():
            consumer.poll(0.1)
            if consumer.assignment():
                joined.set()
        consumer.close()

    def join(topic, strategy):
        log = connect()
        settings = {
            "bootstrap.servers": log._address,
            "group.id": log.transactional_id,
            "client.id": "nosy",
            "partition.assignment.strategy": strategy,
        }
        threads.append(threading.Thread(target=consume, args=(settings, f"{log._prefix}{topic}")))
        threads[0].start()
        assert joined.wait(60)
        return leave

    def leave():
        over.set()
        for thread in threads:
            thread.join()

    yield join
    leave()


def test_a_stranger_that_is_elected_is_not_taken_for_a_learner(connect, stranger):
    leave = stranger("journal", "cooperative-sticky")
    log = connect(elected_within=1.0)
    told = []

    def is_elected():
        try:
            log.acquire("learner")
        except NotElected as error:
            told.append(str(error))
            if re.search(is_none(log), told[-1]):
                leave()
            return False
        return True

    awaited(is_elected)
    assert any(re.search(is_none(log), line) for line in told)
    assert not any("another learner" in line for line in told)


@pytest.mark.parametrize(
    ("topic", "strategy"), [("journal", "range"), ("events", "range"), ("events", "cooperative-sticky")]
)
def test_a_stranger_in_the_group_is_named(connect, stranger, topic, strategy):
    stranger(topic, strategy)
    log = connect()
    with pytest.raises(LogError, match=is_none(log)):
        log.acquire("learner")


def is_none(log):
    group = log.transactional_id
    return (
        rf"no learner can be elected: group {group} has a member that is none \(client nosy at 127.0.0.1\); "
        r"give that another group.id, or this model another model.name; look: kafka-consumer-groups.sh "
        rf"--bootstrap-server {log._address} --describe --group {group} --members$"
    )


# Transactions of others


@both
def test_what_waits_behind_a_transaction_of_somebody_is_told_and_read_when_that_is_over(connect, tmp_path):
    """Until the end is when the transaction has ended, too."""

    class Told(Sensor):
        def __init__(self):
            self.notes = []

        def noted(self, text):
            self.notes.append(text)
            opened.commit()

    told, log = Told(), connect()
    produce(log, RAWS[:30])
    opened = log.begin([NewRecord("events", None, RAWS[30])], transactional_id=f"{log._prefix}stranger")
    worker = new_worker(connect(), tmp_path / "s", sensor=told)
    worker.start("patient")
    worker.run(until_end=True)
    worker.close()
    assert worker.learner.consumed == 31
    (note,) = told.notes
    where = f"--topic {log._prefix}events --partition 0"
    tool = f"kafka-transactions.sh --bootstrap-server {log._address}"
    assert re.search(
        rf"^waiting for \d+ s: {log._prefix}events/0 waits at offset 30 of 31 behind an open transaction "
        rf"\('{log._prefix}stranger', producer \d+\); look: {tool} find-hanging {where}; "
        rf"where its producer is gone, end it: {tool} abort {where} --start-offset 30$",
        note,
    )


def test_a_long_stretch_of_aborted_records_is_no_transaction_that_hangs(connect, monkeypatch):
    """A reader that passes over them returns nothing for longer than any transaction may last."""
    log = connect(transaction_timeout=0.5)
    produce(log, RAWS[:30])
    monkeypatch.setattr(kafka_records, "GRACE_SECONDS", 0.0)
    seeker, polls = log._log._records._seeker, []

    class Passing:
        """Advances by one offset in a fifth of a second, and stands still from the 20th on where it `sticks`."""

        def __getattr__(self, name):
            return getattr(seeker, name)

        def poll(self, limit, _):
            polls.append(limit)
            time.sleep(0.2)
            return seeker.poll(limit, 1.0) if len(polls) == 6 else []

        def position(self, _):
            return min(len(polls), 6 if not sticks else 2)

    log._log._records._seeker, sticks = Passing(), False
    assert [record.value for record in log.read(Partition("events", 0), 0, 30)] != []
    polls.clear()
    log._log._records._seeking, sticks = None, True
    with pytest.raises(LogError, match="it hangs"):
        log.read(Partition("events", 0), 0, 30)


# Commits whose outcome is unknown


def run_with(connect, tmp_path, monkeypatch, misfortune, n=3, **options):
    """A worker one of whose commits meets with misfortune: write(producer) is what would have been done."""
    produce(connect(), RAWS)
    commits = []
    write = Transactions._write

    def unlucky(self, transaction, membership):
        commits.append(transaction.n)
        if commits.count(n) == 1 and transaction.n == n:
            return misfortune(self, lambda: write(self, transaction, membership), transaction, membership)
        return write(self, transaction, membership)

    monkeypatch.setattr(Transactions, "_write", unlucky)
    worker = new_worker(connect(**options), tmp_path / "s", pace=PACE)
    worker.start("unlucky")
    worker.run(until_end=True)
    learner, expected = undisturbed(RAWS)
    assert predictions(connect()) == expected
    assert digests(worker.learner) == digests(learner)
    assert [r.key for r in read_topic(connect(), "predictions")] == [b"e%d" % i for i in range(len(RAWS))]
    worker.close()
    return commits


def fail_before(_self, _write, _transaction, _membership):
    raise errors.KafkaTimeoutError("before")


def fail_after(_self, write, _transaction, _membership):
    write()
    raise errors.KafkaTimeoutError("after")


def fail_within(self, _write, transaction, _membership):
    self._producer.begin_transaction()
    self._producer.deliver((*transaction.outputs, transaction.journal))
    raise errors.KafkaTimeoutError("within")


def lose_the_generation(_self, _write, _transaction, _membership):
    raise errors.IllegalGenerationError


def lose_the_id_to_nobody(self, write, _transaction, _membership):
    """As the broker does to a producer that it has not seen for longer than the transaction timeout."""
    stranger = self._library.transactional(self._id, self._timeout)
    stranger.init_transactions()
    stranger.abandon()
    return write()


@both
@pytest.mark.parametrize(
    ("misfortune", "times"),
    [
        (fail_before, 2),
        (fail_after, 1),
        (fail_within, 2),
        (lose_the_generation, 2),
        (lose_the_id_to_nobody, 2),
    ],
)
def test_a_commit_whose_outcome_is_unknown_is_settled(connect, tmp_path, monkeypatch, misfortune, times):
    commits = run_with(connect, tmp_path, monkeypatch, misfortune)
    assert commits.count(3) == times
    assert [n for n in commits if n != 3] == [0, 1, 2, 4, 5, 6]


@both
def test_a_commit_that_is_never_answered_is_settled_by_another_producer(connect, tmp_path, monkeypatch):
    """Calls of the client may block without a timeout; meanwhile the election is kept."""
    release = threading.Event()

    def hang(_self, _write, _transaction, _membership):
        release.wait()

    commits = run_with(connect, tmp_path, monkeypatch, hang, transaction_timeout=3.0)
    release.set()
    assert commits.count(3) == 2


@both
def test_a_takeover_that_is_never_answered_is_given_up_and_tried_again(connect, tmp_path, monkeypatch):
    """Meanwhile the election is kept, and whoever watches sees that the learner is alive."""

    class Listening(OutageListener):
        def __init__(self):
            self.heard = []

        def unreachable(self, error, _seconds):
            self.heard.append(str(error))

        def waiting(self):
            self.heard.append("waits")

    release, calls, patience = threading.Event(), [], Listening()
    kind = connect().transactional_producer
    begin = kind.init_transactions

    def hang(producer):
        calls.append(threading.current_thread() is threading.main_thread())
        if len(calls) == 1:
            release.wait()
        return begin(producer)

    monkeypatch.setattr(kind, "init_transactions", hang)
    produce(connect(), RAWS)
    worker = new_worker(connect(transaction_timeout=3.0, patience=patience), tmp_path / "s", pace=PACE)
    worker.start("hung")
    assert patience.heard.index("no answer within 9 s") > 9  # signs of life before
    worker.run(until_end=True)
    assert calls == [False, False]
    assert predictions(connect()) == undisturbed(RAWS)[1]
    worker.close()
    release.set()


@both
def test_a_transaction_that_the_broker_aborts_is_sent_again(connect, tmp_path, monkeypatch):
    """The broker aborts one that is open for too long, and takes the id away from who opened it."""

    def dawdle(self, _write, transaction, _membership):
        self._producer.begin_transaction()
        self._producer.deliver([transaction.journal])
        time.sleep(16.0)  # the broker looks every ten seconds
        self._producer.commit_transaction()

    commits = run_with(connect, tmp_path, monkeypatch, dawdle, transaction_timeout=6.0)
    assert commits.count(3) == 2


def test_a_commit_that_fails_again_and_again_ends_as_patience_says(connect, tmp_path, monkeypatch):
    produce(connect(), RAWS)
    worker = new_worker(connect(), tmp_path / "s", pace=PACE)
    worker.start("unlucky")
    monkeypatch.setattr(Transactions, "_write", fail_before_always)
    with pytest.raises(Unavailable, match="always"):
        worker.run(until_end=True)
    worker.close()
    assert not read_topic(connect(), "predictions")


def fail_before_always(_self, _transaction, _membership):
    raise errors.KafkaTimeoutError("always")


@both
def test_what_cannot_succeed_is_not_tried_again(connect, tmp_path):
    """A record larger than its topic allows."""
    log = connect()
    log.acquire("large")
    worker = new_worker(log, tmp_path / "s")
    tried = []
    begin = Transactions.begin

    def counted(self, *arguments):
        tried.append(1)
        return begin(self, *arguments)

    checkpoint = worker.start("large")
    outputs = [NewRecord("predictions", b"k", b"x" * (5 << 20))]
    _, transaction = checkpoint.commit(worker.context.identity, [], outputs, 1.0)
    with (
        patch.object(Transactions, "begin", counted),
        pytest.raises(LogError, match="larger than its topic"),
    ):
        log.commit(transaction)
    assert tried == [1]
    worker.close()


@both
@pytest.mark.parametrize("topic", ["predictions", "metrics", "dead-letters"])
def test_an_output_topic_that_is_deleted_is_named_with_what_to_do(connect, tmp_path, topic):
    """The client would look for it until its timeouts, which tell nothing; after it is made all goes on."""
    worker = new_worker(connect(), tmp_path / "s", pace=PACE)
    worker.start("first")
    produce(connect(), [*RAWS[:40], b"no event"])
    worker.run(until_end=True)
    connect().delete_topic(topic)
    produce(connect(), [*RAWS[40:], b"no event"])
    with pytest.raises(UnknownTopic) as refusal:
        worker.run(until_end=True)
    worker.close()
    told = str(refusal.value)
    assert f"{topic}' was deleted while the learner ran" in told
    assert told.endswith("nothing of it was published; `streamnb topics create` makes it, then start again")
    connect().create_topic(topic, 1)
    again = new_worker(connect(), tmp_path / "s", pace=PACE)
    again.start("second")
    again.run(until_end=True)
    again.close()
    assert again.learner.consumed == len(RAWS) + 2
    if topic != "predictions":
        assert predictions(connect()) == undisturbed(RAWS)[1]


@both
@pytest.mark.parametrize("events", [1, 40])
def test_a_clock_that_a_topic_does_not_take_is_named_as_the_cause(connect, tmp_path, events):
    """As after a jump. To the broker, whose topic takes no record that is older than a millisecond."""
    log = connect()
    topic = ConfigResource(
        ConfigResourceType.TOPIC, f"{log._prefix}predictions", {"message.timestamp.before.max.ms": "1"}
    )
    with log._admin() as admin:
        admin.alter_configs([topic])
    produce(log, RAWS[:events])
    worker = new_worker(connect(), tmp_path / "s")
    worker.start("late")
    with pytest.raises(LogError) as refusal:
        worker.run(until_end=True)
    worker.close()
    told = str(refusal.value)
    assert "topic" in told
    assert f"{log._prefix}predictions" in told
    assert "clock" in told
    assert "timedatectl" in told
    assert "compact" not in told


def test_the_waiting_for_a_commit_ends_with_it(connect, tmp_path, monkeypatch):
    """Or whoever watches would take a learner that learns for one that waits."""

    class Listening(OutageListener):
        def __init__(self):
            self.heard = []

        def unreachable(self, *_):
            self.heard.append("unreachable")

        def reachable(self, *_):
            self.heard.append("reachable")

    failures = iter([True, True, True])

    def unlucky(self, transaction, membership):
        if transaction.n == 3 and next(failures, False):
            raise errors.KafkaTimeoutError("thrice")
        return write(self, transaction, membership)

    write, patience = Transactions._write, Listening()
    monkeypatch.setattr(Transactions, "_write", unlucky)
    produce(connect(), RAWS)
    worker = new_worker(connect(patience=patience), tmp_path / "s", pace=PACE)
    worker.start("unlucky")
    worker.run(until_end=True)
    assert patience.heard == ["unreachable", "unreachable", "reachable"]
    assert predictions(connect()) == undisturbed(RAWS)[1]
    worker.close()


def test_learners_of_two_journals_cannot_share_a_name(connect):
    """They would take the transactional id from each other without end."""
    log = connect()
    log.create_topic("other", 1)
    log.acquire("first")
    namesake = KafkaLog(
        log._client, model=log._prefix, journal_topic=f"{log._prefix}other", session_timeout=SESSION
    )
    done = threading.Event()
    beating = threading.Thread(target=lambda: awaited(lambda: log.heartbeat() or done.is_set()))
    beating.start()
    with (
        contextlib.closing(namesake),
        pytest.raises(LogError, match=r"also the name of a learner of journal"),
    ):
        namesake.acquire("second")
    done.set()
    beating.join()
    log.heartbeat()


@both
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_events_are_read_however_their_producer_compressed_them(connect, codec):
    log = connect()
    producer = Producer({"bootstrap.servers": log._address, "compression.type": codec, "linger.ms": 50})
    for raw in RAWS:
        producer.produce(f"{log._prefix}events", raw)
    producer.flush(30)
    assert [record.value for record in read_topic(log, "events")] == RAWS
