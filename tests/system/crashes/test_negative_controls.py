"""Protocols that are wrong, each beside the right one in the same interleaving: the checks tell them apart.

A check that finds nothing after a storm says something only if it finds what is there to be found. What looks
here is what looks at the end of a storm: the ids that came out, a plain recount of what was learned, the journal.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import sys
import time
from functools import partial
from typing import NamedTuple
from unittest.mock import patch

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import NewTopic
from kafka.structs import OffsetAndMetadata

from streamnb import NaiveBayes, Text
from streamnb.engine.journal.job_identity import JobIdentity
from streamnb.engine.journal.recovery import recover
from streamnb.engine.journal.snapshot_store import NoSnapshots
from streamnb.engine.ports import NewRecord, Partition
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.errors import JournalError, LogError
from streamnb.event_logs.kafka import kafka_commits
from streamnb.event_logs.kafka.kafka_log import KafkaLog
from streamnb.event_logs.kafka.kafka_python_client import send_all
from streamnb.event_logs.kafka.kafka_transactions import Transactions
from streamnb.runtime.worker_context import CommitPolicy
from tests.brokers.numbered import NUMBERS
from tests.support.service import TOPICS, AtOnce, new_learner, new_worker
from tests.system.storm.account import account
from tests.system.storm.reading import ends, read
from tests.system.storm.recount import counted, differences, recount
from tests.system.storm.stream import events, is_malformed
from tests.system.storm.verdict import journal_faults

pytestmark = [pytest.mark.thorough, pytest.mark.early(11)]

SPAWN = multiprocessing.get_context("spawn")
STREAM = list(events(5, 200))
COMMIT = 25
FATAL = 3  # the commit in which something happens; 0 is the genesis
EACH_COMMIT = CommitPolicy(commit_events=COMMIT)
SNAPSHOTS = CommitPolicy(commit_events=COMMIT, snapshot_events=3 * COMMIT)
SLICE = slice((FATAL - 1) * COMMIT, FATAL * COMMIT)  # of the stream, that this commit processes
AT_STAKE = [event.id for event in STREAM[SLICE]]
SESSION = 6.0


class KilledError(BaseException):
    """What follows of it is what follows of SIGKILL: nothing is tidied up."""


# -- the stage --------------------------------------------------------------------------------------------


class Damage(NamedTuple):
    """What the checks report; all of it is empty where all is well.

    Attributes:
        lost: ids of events that are not visible.
        repeated: ids of events that are visible more than once.
        miscounted: what a recount says that differs from the model of the journal.
        journal: what is wrong with the journal's records.
        refusal: why no model can be had of the journal.
    """

    lost: list[str]
    repeated: list[str]
    miscounted: list[str]
    journal: list[str]
    refusal: str


NONE = Damage([], [], [], [], "")


class Stage:
    """One model with topics of its own on a broker; it can be sent to another process."""

    def __init__(self, address, folder):
        self.address, self.folder = address, folder
        self.name = f"control-{next(NUMBERS)}"
        self.topics = {role: f"{self.name}-{role}" for role in TOPICS}
        self.identity = JobIdentity(
            (self.topics["events"],), self.topics["journal"], "c0ffee", {"python": "3"}
        )
        with self.admin() as admin:
            admin.create_topics([NewTopic(name, 1, 1) for name in self.topics.values()])
            admin.wait_for_topics(list(self.topics.values()))

    @contextlib.contextmanager
    def admin(self):
        with contextlib.closing(KafkaAdminClient(bootstrap_servers=self.address)) as admin:
            yield admin

    def log(self, kind=KafkaLog, **options):
        return kind(
            {"bootstrap_servers": self.address},
            **{"model": self.name, "journal_topic": self.topics["journal"], "session_timeout": SESSION}
            | {"transaction_timeout": 6.0}
            | options,
        )

    def learner(self, kind=EventProcessor):
        outputs = {role: self.topics[role] for role in ("predictions", "metrics", "dead_letters")}
        learner = new_learner(model=NaiveBayes({"text": Text()}), **outputs)
        return kind(learner.settings, learner.model)

    def worker(self, log):
        return new_worker(log, self.folder, learner=self.learner(), identity=self.identity, pace=EACH_COMMIT)

    def produce(self):
        with self.log() as log:
            log.append([NewRecord(self.topics["events"], event.id.encode(), event.raw) for event in STREAM])

    def serve(self, kind, **options):
        """A learner's life: to the end of the log, and then it leaves in order."""
        worker = self.worker(self.log(kind, **options))
        worker.start(f"learner-{os.getpid()}")
        worker.run(until_end=True)
        worker.close()

    def die(self, kind, **options):
        """A learner's life that ends in the fatal commit."""
        log = self.log(kind, **options)
        worker = self.worker(log)
        worker.start("first")
        with pytest.raises(KilledError):
            worker.run(until_end=True)
        log.close()  # so that its successor need not wait for the end of its session

    def damage(self):
        topics = self.topics
        out = account(
            (event.id for event in STREAM),
            [
                *(json.loads(found.value)["id"] for found in read(self.address, topics["predictions"])),
                *(found.key for found in read(self.address, topics["dead_letters"])),
            ],
        )
        assert not out.strange
        journal = list(read(self.address, topics["journal"]))
        faults = list(journal_faults(journal, {topics["events"]: ends(self.address, topics["events"])}))
        learner, refusal = self.learner(), ""
        with self.log() as log:
            try:
                recover(log, NoSnapshots(), learner, self.identity)
            except JournalError as error:
                refusal = str(error)
        expected = recount(event.raw for event in STREAM if not is_malformed(event.id))
        wrong = [] if refusal else differences(counted(learner.model), expected)
        return Damage(out.lost, out.repeated, wrong, faults, refusal)


@pytest.fixture
def stage(broker, tmp_path):
    stage = Stage(broker.address, tmp_path / "snapshots")
    stage.produce()
    return stage


class Fated(KafkaLog):
    """A log whose transactions are of another kind, to which `fate` is told."""

    transactions = Transactions

    def __init__(self, *arguments, fate="", **options):
        self._fate = fate
        super().__init__(*arguments, **options)

    def acquire(self, owner):
        with patch.object(kafka_commits, "Transactions", partial(self.transactions, fate=self._fate)):
            super().acquire(owner)


class Mortal(Transactions):
    """They are made by who dies before or after its fatal transaction, as `fate` says."""

    def __init__(self, *arguments, fate=""):
        super().__init__(*arguments)
        self._fate = fate

    def _write(self, transaction, membership):
        if transaction.n == FATAL and self._fate == "before":
            raise KilledError
        super()._write(transaction, membership)
        if transaction.n == FATAL and self._fate == "after":
            raise KilledError


class Right(Fated):
    """The protocol as it is."""

    transactions = Mortal


# -- a transactional id for each process, and the journal read before anyone is fenced ---------------------


class Stopping(Mortal):
    """Stops as by SIGSTOP where its group has been checked and only the commit is left, which is its last.

    Whether it would begin another one hangs on when its client hears that it was expired.
    """

    def _write(self, transaction, membership):
        if transaction.n == FATAL and self._fate == "stop":
            commit = self._producer.commit_transaction

            def stop_first():
                os.kill(os.getpid(), signal.SIGSTOP)
                commit()
                raise KilledError

            self._producer.commit_transaction = stop_first
        super()._write(transaction, membership)


class OneForEach(Stopping):
    """The id is the process's own."""

    def __init__(self, library, transactional_id, timeout, **options):
        super().__init__(library, f"{transactional_id}.{os.getpid()}", timeout, **options)

    def begin(self, transaction, membership):
        """As a plain program does, in its one thread."""
        self._write(transaction, membership)
        return Settled()


class Settled:
    """An attempt that is over."""

    def is_over(self):
        return True

    def await_outcome(self, _alive):
        return time.monotonic()


class RightWithStop(Fated):
    transactions = Stopping


class ReadsBeforeFencing(Fated):
    """The journal ends where nothing is open any more, as it does for any read_committed consumer."""

    transactions = OneForEach

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self._cluster.offset_ranges = self._readable_ranges

    def _readable_ranges(self, partitions):
        places, seeker = [TopicPartition(*it) for it in partitions], self._records._seeker._consumer
        firsts, ends = seeker.beginning_offsets(places), seeker.end_offsets(places)
        return {it: (firsts[place], ends[place]) for it, place in zip(partitions, places, strict=True)}


def serve(stage, kind, path):
    """In a process of its own."""
    sys.path[:] = path
    stage.serve(kind, fate="stop", transaction_timeout=120.0)


def stopped(process):
    """Wait until it is, by its own hand."""
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    return os.WIFSTOPPED(status)


@pytest.mark.parametrize("kind", [RightWithStop, pytest.param(ReadsBeforeFencing, marks=pytest.mark.storm)])
def test_a_zombie_that_passed_the_check_and_commits_when_its_slice_was_learned_again(stage, kind):
    zombie = SPAWN.Process(target=serve, args=(stage, kind, sys.path))
    zombie.start()
    try:
        assert stopped(zombie)
        stage.serve(kind)
        os.kill(zombie.pid, signal.SIGCONT)
        zombie.join(60)
    finally:
        zombie.kill()
        zombie.join()
    found = stage.damage()
    if kind is RightWithStop:
        assert found == NONE
        return
    assert found.repeated == sorted(AT_STAKE)
    assert found.journal
    assert found.refusal


# -- the journal outside the transaction ------------------------------------------------------------------


class JournalApart(Mortal):
    def _send_apart(self, record):
        producer = self._library.producer()
        producer.deliver([record], lambda ask, *_: ask())
        producer.abandon()

    def _write_outputs(self, transaction, membership):
        """The transaction without its journal record, in whose place the last output goes."""
        *others, last = transaction.outputs
        super()._write(transaction._replace(outputs=others, journal=last), membership)


class JournalFirst(JournalApart):
    def _write(self, transaction, membership):
        if not transaction.outputs:
            super()._write(transaction, membership)
            return
        self._send_apart(transaction.journal)
        self._write_outputs(transaction, membership)


class JournalLast(JournalApart):
    def _write(self, transaction, membership):
        if not transaction.outputs:
            super()._write(transaction, membership)
            return
        self._write_outputs(transaction, membership)
        self._send_apart(transaction.journal)


class WithJournalFirst(Fated):
    transactions = JournalFirst


class WithJournalLast(Fated):
    transactions = JournalLast


@pytest.mark.parametrize(
    ("kind", "fate", "lost", "repeated"),
    [
        (Right, "before", [], []),
        (WithJournalFirst, "before", AT_STAKE, []),
        (Right, "after", [], []),
        (WithJournalLast, "after", [], AT_STAKE),
    ],
)
def test_a_journal_record_outside_the_transaction(stage, kind, fate, lost, repeated):
    stage.die(kind, fate=fate)
    stage.serve(kind)
    assert stage.damage() == NONE._replace(lost=sorted(lost), repeated=sorted(repeated))


# -- positions of the group, outside the transaction ------------------------------------------------------


class WithoutOffsets(Mortal):
    def _write(self, transaction, membership):
        super()._write(transaction._replace(positions={}), membership)


class GroupPositions(Fated):
    """Begins where the group's offsets say, as a consumer does that keeps none of its own."""

    transactions = WithoutOffsets

    def seek(self, positions):
        noted = self._cluster.admin.list_group_offsets(self._name)[self._name]
        places = {Partition(*place): found.offset for place, found in noted.items()}
        super().seek({partition: places.get(partition, at) for partition, at in positions.items()})

    def _note(self, transaction):
        if transaction.n:
            noted = {
                TopicPartition(*partition): OffsetAndMetadata(offset, "", -1)
                for partition, offset in transaction.positions.items()
            }
            self._commits._election._member.commit(noted)


class OffsetsFirst(GroupPositions):
    def begin_commit(self, transaction):
        self._note(transaction)
        return super().begin_commit(transaction)


class OffsetsLast(GroupPositions):
    def begin_commit(self, transaction):
        under_way = super().begin_commit(transaction)

        def settle():
            seconds = under_way.await_outcome()
            self._note(transaction)
            return seconds

        return under_way._replace(await_outcome=settle)


@pytest.mark.parametrize(
    ("kind", "fate", "lost", "repeated", "reported"),
    [
        (Right, "before", [], [], set()),
        (OffsetsFirst, "before", AT_STAKE, [], {"lost", "miscounted", "journal"}),
        (Right, "after", [], [], set()),
        (OffsetsLast, "after", [], AT_STAKE, {"repeated", "journal", "refusal"}),
    ],
)
def test_positions_of_the_group_committed_outside_the_transaction(
    stage, kind, fate, lost, repeated, reported
):
    stage.die(kind, fate=fate)
    stage.serve(kind)
    found = stage.damage()
    assert (found.lost, found.repeated) == (sorted(lost), sorted(repeated))
    assert {name for name, what in found._asdict().items() if what} == reported


# -- a delivery error ignored -----------------------------------------------------------------------------


class Late(Mortal):
    """The fatal commit's predictions do not leave the client until their batch expires.

    So it is where the partition's leader is not known for as long. `fate` names the topic; it happens once.
    """

    def _write(self, transaction, membership):
        if transaction.n == FATAL and self._fate not in HELD:
            HELD.append(self._fate)
            self._producer._producer._accumulator.muted.add(TopicPartition(self._fate, 0))
        self._commit(transaction, membership)

    def _commit(self, transaction, membership):
        super()._write(transaction, membership)


class LateAndUnchecked(Late):
    def _commit(self, transaction, membership):
        producer = self._producer
        producer.begin_transaction()
        list(send_all(producer._producer, (*transaction.outputs, transaction.journal)))
        producer._producer.flush()
        producer.send_offsets_to_transaction({}, membership)
        producer.commit_transaction()


HELD = []  # topics whose batch was held back


class RightButLate(Fated):
    transactions = Late


class Unchecked(Fated):
    transactions = LateAndUnchecked


@pytest.mark.parametrize("kind", [RightButLate, Unchecked])
def test_an_expired_batch_whose_error_nobody_looks_at(stage, kind):
    stage.serve(kind, fate=stage.topics["predictions"], transaction_timeout=3.0)
    assert stage.topics["predictions"] in HELD
    lost = [] if kind is RightButLate else [name for name in AT_STAKE if not is_malformed(name)]
    assert stage.damage() == NONE._replace(lost=sorted(lost))


# -- a snapshot applied twice -----------------------------------------------------------------------------


class Merging(EventProcessor):
    """Adds what a snapshot holds to what it knows, in place of which it should come."""

    def load(self, parts, *more):
        known = self.model
        self.model = NaiveBayes({"text": Text()})
        super().load(parts, *more)
        self.model.merge(known)


class Interrupted:
    """A log that fails at the first event that a recovery asks for: its snapshot is loaded by then."""

    def __init__(self, log):
        self._log = log
        self._failed = False

    def __getattr__(self, name):
        return getattr(self._log, name)

    def read(self, partition, offset, limit):
        if partition.topic == "events" and not self._failed:
            self._failed = True
            raise LogError("the log fails once")
        return self._log.read(partition, offset, limit)


def plain_learner(kind=EventProcessor):
    learner = new_learner(model=NaiveBayes({"text": Text()}))
    return kind(learner.settings, learner.model)


def learned_with_snapshots(log, folder, *, at_the_end):
    """All of the stream; the last snapshot stands where it ends, or before that."""
    log.append([NewRecord("events", event.id.encode(), event.raw) for event in STREAM])
    worker = new_worker(log, folder, learner=plain_learner(), pace=SNAPSHOTS, store=AtOnce)
    worker.start("first")
    worker.run(until_end=True)
    (worker if at_the_end else log).close()


def miscounted(learner):
    expected = recount(event.raw for event in STREAM if not is_malformed(event.id))
    return differences(counted(learner.model), expected)


@pytest.mark.storm_for("kafka")
@pytest.mark.parametrize("kind", [EventProcessor, Merging])
def test_a_snapshot_applied_twice_with_nothing_after_it(open_log, tmp_path, kind):
    folder = tmp_path / "snapshots"
    learned_with_snapshots(open_log(**TOPICS), folder, at_the_end=True)
    learner = plain_learner(kind)
    for _ in range(2):
        log = open_log()
        worker = new_worker(log, folder, learner=learner)
        worker.start("again")
        log.close()
    assert (miscounted(learner) == []) == (kind is EventProcessor)


@pytest.mark.storm_for("kafka")
@pytest.mark.parametrize("kind", [EventProcessor, Merging])
def test_a_snapshot_applied_twice_with_events_after_it(open_log, tmp_path, kind):
    folder = tmp_path / "snapshots"
    learned_with_snapshots(open_log(**TOPICS), folder, at_the_end=False)
    learner = plain_learner(kind)
    log = Interrupted(open_log())
    worker = new_worker(log, folder, learner=learner)
    with pytest.raises(LogError, match="fails once"):
        worker.start("again")
    if kind is EventProcessor:
        worker.start("again")
        assert miscounted(learner) == []
    else:
        with pytest.raises(JournalError, match="gave other outputs"):
            worker.start("again")
    log.close()
