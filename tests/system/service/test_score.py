"""Scorers beside a learner, on a real broker: whatever befalls them, each event is predicted once, by a model near enough.

What they published is counted again by a stranger, who reads what is committed; and predicted again by a model that
is brought to the journal record which each prediction names.
"""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from bisect import bisect_right
from collections import Counter
from contextlib import closing
from itertools import chain

import pytest
from kafka import KafkaAdminClient, TopicPartition

from streamnb import config as configuration
from streamnb.engine.journal.recovery import JournalTail, recover
from streamnb.engine.journal.snapshot_store import NoSnapshots
from streamnb.formats.codec import decode_event
from streamnb.runtime import context, factories
from tests.support.program import Program, until
from tests.support.service import raw_events
from tests.system.storm.reading import read

pytestmark = pytest.mark.early(30)

SESSION = 2.0
STEPS = ("deliver", "send_offsets_to_transaction", "commit_transaction")
"""Of a transaction; before each a process may stand still."""
AT = """
import os, pathlib, signal
from streamnb.event_logs.kafka.kafka_python_client import _KafkaPythonTransactionalProducer
from streamnb.event_logs.kafka.librdkafka_client import _LibrdkafkaTransactionalProducer
def armed(kind):
    deliver, call = kind.deliver, getattr(kind, {step!r})
    def note(self, records):
        self.is_full = bool(records)
        return (at if {step!r} == "deliver" else deliver)(self, records)
    def at(self, *given):
        flag = pathlib.Path({flag!r})
        if getattr(self, "is_full", False) and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.{signal})
        return call(self, *given)
    setattr(kind, {step!r}, at)
    kind.deliver = note
armed(_KafkaPythonTransactionalProducer)
armed(_LibrdkafkaTransactionalProducer)
"""
"""Strikes a process once, at a step of a transaction that publishes something."""
NOBODY = """
from kafka.structs import ConsumerGroupMetadata, MemberState
from streamnb.event_logs.kafka.kafka_transactions import Transactions
send = Transactions.send
def bare(self, records, positions, membership, what):
    return send(self, records, positions, ConsumerGroupMetadata(membership.group_id, -1, "", None, MemberState.UNJOINED), what)
Transactions.send = bare
"""
"""Offsets that come without the membership."""
APART = """
import os, signal
from streamnb.event_logs.kafka.kafka_python_client import _KafkaPythonTransactionalProducer
from streamnb.event_logs.kafka.librdkafka_client import _LibrdkafkaTransactionalProducer
from streamnb.event_logs.kafka.partition_sharing import GroupShare
def without(kind):
    deliver, send = kind.deliver, kind.send_offsets_to_transaction
    def note(self, records):
        self.is_full = bool(records)
        return deliver(self, records)
    kind.deliver = note
    kind.send_offsets_to_transaction = lambda self, *given: None if self.is_full else send(self, *given)
without(_KafkaPythonTransactionalProducer)
without(_LibrdkafkaTransactionalProducer)
commit = GroupShare.commit
def apart(self, outputs, records):
    done = commit(self, outputs, records)
    if outputs:
        os.kill(os.getpid(), signal.SIGKILL)
    return done
GroupShare.commit = apart
"""
"""Offsets that would be noted after the transaction, and a process that dies in between."""
SLOW = """
import pathlib, time
from streamnb.engine.journal.recovery import JournalTail
advance = JournalTail.advance
def slowly(self):
    for record in advance(self):
        yield record
        while pathlib.Path({flag!r}).exists():
            time.sleep(0.05)
JournalTail.advance = slowly
"""
"""A replica that stands where it comes to next, while there is a file."""
BESIDE = """
import time
from streamnb.event_logs.kafka.partition_sharing import GroupShare
from streamnb.serving.scorer import Scorer
resume, published, met = GroupShare.resume, Scorer._published, []
def beside(self, *given, **named):
    while not met and len((self._standing() or [(), (1, 2, 3)])[1]) == 3:
        self._poll(100)
    met.append(True)  # once: the other may end first, and leave all partitions to this one
    return resume(self, *given, **named)
def behind(self):
    ends = lambda: sum(end for _, end in self._log.offset_ranges(self._config.topics.predictions).values())
    while {waits} and not ends():
        time.sleep(0.05)
    return published(self)
GroupShare.resume, Scorer._published = beside, behind
"""
"""A scorer that takes no part before there is another; one that waits looks at predictions once there are some."""
LOST = """
from streamnb.engine.journal.recovery import JournalTail
advance = JournalTail.advance
def lost(self):
    for record in advance(self):
        raise MemoryError
        yield record
JournalTail.advance = lost
"""
"""A replica that has no memory for what comes next."""
BLIND = """
from streamnb.serving import scorer
scorer._behind = lambda *_: 0
"""
"""A scorer that takes its replica for one that is near."""


def made(tmp_path, broker, client="kafka-python", **sections):
    """A program whose topics are there; its learner commits often."""
    given = {
        "log": {"session_timeout": f"{SESSION:g}s", "client": client},
        "topics": {"partitions": 3},
        "model_keys": {"kind": "naive_bayes"},
        "commit": {"interval": "50ms", "events": 100},
        "snapshots": {"folder": str(tmp_path / "snapshots")},
    }
    program = Program(tmp_path, broker.address, **given | sections)
    program.address = broker.address
    program.run("topics", "create")
    return program


@pytest.fixture
def program(tmp_path, broker, request):
    program = made(tmp_path, broker, **getattr(request, "param", {}))
    yield program
    program.close()


def feed(program, raws):
    file = program.folder / f"events-{time.monotonic_ns()}.jsonl"
    file.write_bytes(b"\n".join(raws) + b"\n")
    program.run("replay", str(file))


def learned(program, raws):
    """Events that a learner has learned, which publishes no predictions."""
    feed(program, raws)
    program.run("run", "--until-end", "--learn-only")


def published(program):
    return [json.loads(one.value) for one in read(program.address, program.topics["predictions"])]


def later(raws, prefix="later-"):
    """The same under other ids."""
    return [raw.replace(b'"id": "', b'"id": "' + prefix.encode()) for raw in raws]


def ids_of(raws):
    return Counter(json.loads(raw)["id"] for raw in raws)


def await_all(program, raws, least=0):
    """Until so many of the events have a prediction, all if nothing is said, whichever they are."""
    until(lambda: len(published(program)) >= (least or len(raws)))
    time.sleep(1.0)  # for what should not come


def stopped(commands):
    """They end by SIGTERM, well."""
    for command in commands:
        command.process.send_signal(signal.SIGTERM)
    for command in commands:
        command.finish()
        assert command.process.returncode == 0, command.said()
        assert "Traceback" not in command.said()


def otherwise(program, predictions):
    """Predictions that the model at the journal record which they name does not give."""
    events = {}
    config = configuration.load(program.file, {}, [factories.LEARN_ONLY])
    schema = context.schema(config)
    for one in read(program.address, program.topics["events"]):
        event = decode_event(one.value, schema, recorded=one.at)
        events[event.id] = event
    with closing(context.existing_log(config)) as log:
        config = factories.begun_configuration(config, log)
        identity, learner = factories.identity(config), factories.learner(config)
        begun = recover(log, NoSnapshots(), learner, identity, at=0)
        following = JournalTail(log, learner, identity, begun)
        left = {}
        for one in predictions:
            left.setdefault(one["model"]["journal"], []).append(one)
        for n in chain([0], (record.n for record in following.advance())):
            for said in left.pop(n, ()):
                event = events[said["id"]]
                found = learner.model.predict_posteriors([event.x], [event.ts])
                row = dict(zip(found.classes, found.probabilities[0].tolist(), strict=True))
                if (row, learner.model.n_events) != (said["probabilities"], said["model"]["events"]):
                    yield said
    yield from (one for many in left.values() for one in many)


def too_old(program, predictions, behind):
    """Predictions by a model that more journal records were ahead of, at the time that they bear."""
    times = [one.at for one in read(program.address, program.topics["journal"])]
    for one in predictions:
        ahead = bisect_right(times, one["ts"] - 0.001) - 1  # the last one may not have been committed yet
        if ahead - one["model"]["journal"] > behind + 1:
            yield one


# -- where a process stands still, or dies ----------------------------------------------------------------------------


@pytest.mark.thorough_for("program1", "program0-deliver", "program0-send_offsets_to_transaction")
@pytest.mark.storm_for("program1", but="program1-send_offsets_to_transaction")
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("program", [{"client": "kafka-python"}, {"client": "librdkafka"}], indirect=True)
def test_a_scorer_that_stood_still_publishes_nothing_of_what_is_anothers(program, step):
    """Also where it stood between its offsets and the end of its transaction: then others wait for that."""
    first, raws = raw_events(200, seed=1), later(raw_events(300, seed=2))
    learned(program, first)
    flag = str(program.folder / "stood")
    zombie = program.start("score", first=AT.format(step=step, flag=flag, signal="SIGSTOP"))
    until((program.folder / "stood").exists)
    successor = program.start("score")
    if step == "commit_transaction":
        time.sleep(3 * SESSION)
    else:
        await_all(program, first)
    zombie.process.send_signal(signal.SIGCONT)
    feed(program, raws)
    await_all(program, first + raws)
    if step != "commit_transaction":
        zombie.await_word("a commit was not made")
    stopped([zombie, successor])
    predictions = published(program)
    assert Counter(one["id"] for one in predictions) == ids_of(first + raws)
    assert list(otherwise(program, predictions)) == []


@pytest.mark.thorough
def test_without_the_membership_a_zombie_predicts_once_more(program):
    """Negative control of the test before."""
    raws = raw_events(200, seed=1)
    learned(program, raws)
    flag = str(program.folder / "stood")
    zombie = program.start("score", first=NOBODY + AT.format(step="deliver", flag=flag, signal="SIGSTOP"))
    until((program.folder / "stood").exists)
    program.start("score")
    await_all(program, raws)
    zombie.process.send_signal(signal.SIGCONT)
    until(lambda: len(published(program)) > len(raws))
    assert 2 in Counter(one["id"] for one in published(program)).values()


@pytest.mark.thorough
@pytest.mark.parametrize("step", STEPS)
def test_a_scorer_that_dies_within_a_transaction_is_followed_by_another(program, step):
    raws = raw_events(200, seed=3)
    learned(program, raws)
    first = AT.format(step=step, flag=str(program.folder / "died"), signal="SIGKILL")
    program.start("score", first=first).finish()
    successor = program.start("score")
    await_all(program, raws)
    stopped([successor])
    assert Counter(one["id"] for one in published(program)) == ids_of(raws)


@pytest.mark.thorough
def test_with_offsets_beside_the_transaction_one_that_dies_is_repeated(program):
    """Negative control of the test before."""
    raws = raw_events(200, seed=3)
    learned(program, raws)
    program.start("score", first=APART).finish()
    await_all(program, raws, least=1)
    program.start("score")
    until(lambda: len(published(program)) > len(raws))
    assert 2 in Counter(one["id"] for one in published(program)).values()


# -- a storm ----------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("program", [{"scorers": {"behind": 20}}], indirect=True)
def test_three_scorers_predict_each_event_once_through_kills_freezes_and_rebalances(program):
    rng, raws = random.Random(4), raw_events(4000, seed=4)
    learner = program.start("run", "--learn-only")
    seats = [program.start("score") for _ in range(3)]
    fed = threading.Thread(target=lambda: [feed(program, raws[at : at + 200]) for at in range(0, 4000, 200)])
    fed.start()
    struck = Counter()
    ended = []
    while fed.is_alive() or sum(struck.values()) < 12:
        seat = rng.randrange(3)
        what = ("kill", "leave", "freeze", "learner")[min(3, sum(struck.values()) % 5)]
        struck[what] += 1
        if what == "learner":
            learner.kill()
            learner = program.start("run", "--learn-only")
        elif what == "freeze":
            seats[seat].process.send_signal(signal.SIGSTOP)
            time.sleep(rng.uniform(1.5, 3.0) * SESSION)
            seats[seat].process.send_signal(signal.SIGCONT)
        else:
            (seats[seat].kill if what == "kill" else seats[seat].stop)()
            ended += [seats[seat]] if what == "leave" else []
            seats[seat] = program.start("score")
        time.sleep(rng.uniform(0.5, 3.0))
    fed.join()
    await_all(program, raws)
    stopped([*seats, learner])
    assert [command.process.returncode for command in ended] == [0] * len(ended)
    predictions = published(program)
    assert Counter(one["id"] for one in predictions) == ids_of(raws)
    assert len({one["model"]["journal"] for one in predictions}) > 4
    assert list(otherwise(program, predictions)) == []
    assert list(too_old(program, predictions, 20)) == []


# -- when it waits, begins, and refuses ---------------------------------------------------------------------------------


def lagging(program, first=""):
    """A scorer that stood still until the learner was 30 records ahead, while its replica does; and what it then says."""
    learned(program, raw_events(50, seed=5))
    held = program.folder / "held"
    held.touch()
    scorer = program.start("score", first=first + SLOW.format(flag=str(held)))
    until(lambda: len(published(program)) == 50)
    scorer.process.send_signal(signal.SIGSTOP)
    feed(program, later(raw_events(3000, seed=6)))
    program.run("run", "--until-end", "--learn-only")
    scorer.process.send_signal(signal.SIGCONT)
    if not first:
        scorer.await_word("and scorers.behind is 10")
        assert len(published(program)) == 50
        held.unlink()
    until(lambda: len(published(program)) == 3050)
    stopped([scorer])
    return published(program)


@pytest.mark.thorough
@pytest.mark.parametrize("program", [{"scorers": {"behind": 10}}], indirect=True)
def test_a_replica_too_far_behind_is_waited_for(program):
    predictions = lagging(program)
    assert list(too_old(program, predictions, 10)) == []
    assert list(otherwise(program, predictions)) == []


@pytest.mark.thorough
@pytest.mark.parametrize("program", [{"scorers": {"behind": 10}}], indirect=True)
def test_a_replica_that_is_not_waited_for_is_found(program):
    """Negative control of the test before."""
    assert list(too_old(program, lagging(program, BLIND), 10))


def test_scorers_begin_where_the_learner_left_off_and_wait_until_it_does(program):
    """What it has predicted is not predicted again; a topic that grows is read on; one that is malformed is the learner's."""
    before, after, at_last = (later(raw_events(100, seed=n), f"{n}-") for n in (7, 8, 9))
    feed(program, before)
    program.run("run", "--until-end")
    scorer = program.start("score")
    scorer.await_word('waiting: the learner has not taken up predictions.by = "scorers" yet')
    program.run("run", "--until-end", "--learn-only")
    feed(program, [*after, b"no event"])
    until(lambda: len(published(program)) == 200)
    with closing(KafkaAdminClient(bootstrap_servers=program.address)) as admin:
        admin.create_partitions({program.topics["events"]: 5})
    feed(program, at_last)
    until(lambda: len(published(program)) == 300)
    program.run("run", "--until-end", "--learn-only")
    stopped([scorer])
    assert Counter(one["id"] for one in published(program)) == ids_of(before + after + at_last)
    assert {one["id"] for one in published(program) if "journal" not in one["model"]} == set(ids_of(before))
    assert len(list(read(program.address, program.topics["dead_letters"]))) == 1
    assert "by the model after journal record" in program.fail("explain", "--id", "8-e5", "--as-served")
    assert "scorers publish predictions outside commits" in program.run(
        "verify", "--set", factories.LEARN_ONLY
    )
    assert 'predictions.by was "scorers" and is "learner"' in program.fail("run", "--until-end", code=2)


@pytest.mark.thorough
def test_a_broker_that_goes_away_is_waited_for(tmp_path, lone_broker):
    """It ends in the middle of a backlog, without an answer to whatever is under way, and comes back."""
    program = made(tmp_path, lone_broker)
    raws = raw_events(3000, seed=12)
    learned(program, raws)
    scorers = [program.start("score") for _ in range(2)]
    until(lambda: len(published(program)) > 100)
    (node,) = lone_broker.nodes
    node.kill()
    time.sleep(5.0)
    node.start()
    await_all(program, raws)
    assert any("the log answers again" in scorer.said() for scorer in scorers)
    stopped(scorers)
    assert Counter(one["id"] for one in published(program)) == ids_of(raws)


@pytest.mark.thorough
def test_a_prediction_that_is_too_large_is_a_dead_letter_of_the_scorer(tmp_path, broker):
    program = made(tmp_path, broker, predictions={"top": 0, "max_bytes": "200B"})
    raws = raw_events(50, seed=13)
    learned(program, raws)
    scorer = program.start("score")
    until(
        lambda: (
            len(list(read(program.address, program.topics["dead_letters"]))) + len(published(program)) == 50
        )
    )
    stopped([scorer])
    assert list(read(program.address, program.topics["dead_letters"]))
    program.run("verify", "--set", factories.LEARN_ONLY)


@pytest.mark.thorough
def test_scorers_that_begin_together_are_not_told_that_offsets_are_gone(program):
    """The one looks where its group stands, then the other begins, then the one looks whether any has predicted."""
    raws = raw_events(300, seed=15)
    learned(program, raws)
    seats = [program.start("score", first=BESIDE.format(waits=waits)) for waits in (False, True)]
    until(lambda: len(published(program)) >= len(raws) or not all(one.is_going() for one in seats))
    stopped(seats)
    assert Counter(one["id"] for one in published(program)) == ids_of(raws)


def test_offsets_that_were_forgotten_are_not_made_up(program):
    raws = raw_events(50, seed=10)
    learned(program, raws)
    scorer = program.start("score")
    await_all(program, raws)
    stopped([scorer])
    with closing(KafkaAdminClient(bootstrap_servers=program.address)) as admin:
        admin.delete_groups([f"streamnb.{program.model}.scorers"])
    line, _ = program.start("score").complaint()
    assert "scorers have predicted" in line
    assert "kafka-consumer-groups.sh" in line
    assert len(published(program)) == 50


def test_a_scorer_under_another_name_predicts_nothing_again(program):
    """Its group would be another one, of which the offsets begin where the learner left off."""
    raws = raw_events(50, seed=15)
    learned(program, raws)
    scorer = program.start("score")
    await_all(program, raws)
    stranger = program.start("score", "--set", "model.name=another")
    until(lambda: not stranger.is_going() or "predicts " in stranger.said())
    stranger.stop()
    assert stranger.process.returncode == 2, stranger.said()
    assert f'model.name is "another", and the learner of this journal is "{program.model}"' in stranger.said()
    stopped([scorer])
    assert Counter(one["id"] for one in published(program)) == ids_of(raws)


@pytest.mark.thorough
def test_events_that_are_gone_are_told_and_passed_over_where_that_is_wanted(program):
    learned(program, raw_events(50, seed=11))
    with closing(KafkaAdminClient(bootstrap_servers=program.address)) as admin:
        admin.delete_records({TopicPartition(program.topics["events"], n): 5 for n in range(3)})
    line, _ = program.start("score").complaint()
    assert "events are gone that were not predicted" in line
    assert "them: `streamnb score --config" in line
    assert line.endswith(" --accept-loss`")
    scorer = program.start("score", "--accept-loss")
    await_all(program, [], 35)
    stopped([scorer])
    assert len(published(program)) == 35


@pytest.mark.thorough
def test_a_journal_that_is_gone_ends_a_scorer(program):
    raws = raw_events(50, seed=14)
    learned(program, raws)
    scorer = program.start("score")
    await_all(program, raws)
    with closing(KafkaAdminClient(bootstrap_servers=program.address)) as admin:
        admin.delete_topics([program.topics["journal"]])
    assert program.topics["journal"] in scorer.complaint()[0]


def test_a_scorer_whose_replica_has_ended_ends_too(program):
    """For want of memory, say: it would predict by a model that stands still, and keep its partitions."""
    raws = raw_events(50, seed=15)
    learned(program, raws)
    scorer = program.start("score", first=LOST)
    await_all(program, raws)
    feed(program, later(raws))
    program.run("run", "--until-end", "--learn-only")
    scorer.finish()
    assert (scorer.process.returncode, scorer.said().count("MemoryError")) == (1, 1)
    assert "the thread that follows the journal ended with the error above" in scorer.said().splitlines()[-1]


@pytest.mark.thorough
def test_predictions_that_are_gone_end_a_scorer_and_are_named(program):
    raws = raw_events(50, seed=16)
    learned(program, raws)
    scorer = program.start("score")
    await_all(program, raws)
    with closing(KafkaAdminClient(bootstrap_servers=program.address)) as admin:
        admin.delete_topics([program.topics["predictions"]])
    line, _ = scorer.complaint()
    gone = f"streamnb: there is no topic {program.topics['predictions']!r} any more; `streamnb topics create --config"
    assert (line[: len(gone)], line[-10:]) == (gone, "` makes it")


def test_what_cannot_be_is_refused_in_one_line(tmp_path, broker):
    embedded = Program(tmp_path, "sqlite:///log.db")
    for command in (("score",), ("run", "--learn-only")):
        begun = embedded.start(*command).finish()
        assert begun.process.returncode == 2
        assert "Kafka cluster" in begun.said()
    without = Program(tmp_path, broker.address)
    assert "streamnb topics create" in without.fail("score")
