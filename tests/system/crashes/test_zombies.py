"""SIGSTOP of a learner for longer than its session, at any step, then SIGCONT: fenced, nothing repeated.

While it is stopped another takes over and serves, and goes on serving afterwards. The zombie publishes nothing, says
why, and ends with exit code 1; one that was stopped before it was the learner stands by, and is the next.
"""

from __future__ import annotations

import signal
import sqlite3
import time
from contextlib import closing

import pytest
from kafka import KafkaAdminClient

from tests.brokers.numbered import NUMBERS
from tests.event_logs.kafka.test_kafka_outage import prove_exactly_once
from tests.support.every_case import failures
from tests.support.program import Program, until
from tests.support.service import raw_events
from tests.system.crashes.points import SQL, a_few, calls, some
from tests.system.crashes.stages import KafkaStages, SqliteStages, Stream

pytestmark = [pytest.mark.thorough, pytest.mark.early(6)]

EVENTS, HELD = 70, 10
AT_ONCE = 8  # nearly all of it is waiting
SESSION = 1.5  # seconds, on SQLite
EARLY = {"snapshot_events": 20, "at_once": True}
LOCKED = "kept the file locked"
TAKEOVER = {"acquire", "join", "win", "begin_anew", "init_transactions", "prove"}
ELECTED = {("acquire", 0, "after"), ("prove", 1, "after")}
"""The points at the end of a takeover, from which on it is the learner."""
SNAPSHOT = ["os.mkdir", "os.open", "os.fsync", "os.rename", "os.close"]
COMMIT_ON_KAFKA = {
    "commit", "begin_transaction", "send", "send journal", "flush", "delivery", "send_offsets_to_transaction",
    "commit_transaction",
}  # fmt: skip


@pytest.fixture
def sqlite_stages(nursery, tmp_path):
    # In the product a writer waits 5 s for another; here a standby is to find out sooner.
    return SqliteStages(
        nursery, tmp_path, Stream(EVENTS, held=HELD), session_timeout=SESSION, busy_timeout=0.3
    )


@pytest.fixture
def kafka_stages(nursery, tmp_path, broker):
    stages = KafkaStages(
        nursery, tmp_path, Stream(EVENTS, held=HELD), broker.address, f"zombie{next(NUMBERS)}-"
    )
    yield stages
    stages.close()


# -- what is done with a zombie -----------------------------------------------------------------------------


def stopped(stage, point, **options):
    zombie = stage.life((*point, "STOP"), owner="zombie", trace=True, until_end=False, **options)
    assert zombie.stopped(), f"it was not reached: {zombie.said()}"
    return zombie


def successor(stage):
    """Another, that has taken over and learned all there is."""
    standby = stage.life(owner="standby", until_end=False)
    assert standby.told(f"consumed {EVENTS - HELD}"), standby.said()
    return standby


def serve_the_rest(stage, learner):
    stage.produce_held()
    assert learner.told(f"consumed {EVENTS}"), learner.said()


def end(stage, learner):
    learner.stop()
    assert learner.ended() == 0, learner.said()
    stage.check(learner)


def fenced(stage, zombie):
    """A learner was stopped: its successor serves, before it goes on and after."""
    standby = successor(stage)
    zombie.go_on()
    assert zombie.ended() == 1, zombie.said()
    assert zombie.came()["error"] == "Fenced", zombie.said()
    assert len(zombie.said().splitlines()) == 1
    serve_the_rest(stage, standby)
    end(stage, standby)


def next_in_turn(stage, zombie):
    """It was not the learner yet: another is, and the zombie when that one ends."""
    standby = successor(stage)
    zombie.go_on()
    serve_the_rest(stage, standby)
    assert "recovering" not in zombie.progress()
    standby.stop()
    assert standby.ended() == 0, standby.said()
    assert zombie.told("running"), zombie.said()
    end(stage, zombie)
    stage.check(standby)


def locked_out(stage, zombie, *, killed):
    """It was stopped while it held the lock of the file: nobody gets in until it goes on, or is killed."""
    standby = stage.life(owner="standby", until_end=False)
    if standby.told("standby"):
        time.sleep(SESSION)
        assert "recovering" not in standby.progress()
        standby.kill()
    else:
        assert standby.ended() == 1
        assert LOCKED in standby.came()["says"]
    if killed:
        zombie.kill()
        zombie = successor(stage)
    else:
        zombie.go_on()
    serve_the_rest(stage, zombie)
    end(stage, zombie)


# -- on SQLite ----------------------------------------------------------------------------------------------


def is_the_learner(trace):
    """Whether all but the last statement of a trace acquired the log."""
    words = [text or seam for seam, _, text in trace[:-1]]
    return "acquire" in words and "COMMIT" in words[words.index("acquire") :]


def is_locked(stage):
    """Whether the process that was stopped holds the lock of the file; its thread of commits may, too."""
    with closing(sqlite3.connect(stage.folder / "log.db", timeout=0.0, isolation_level=None)) as other:
        try:
            other.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
    return False


def statements(trace):
    """Those up to the end of the second commit, and of a run of the same ones the first."""
    end = next(number for number, called in enumerate(trace) if called[:2] == ("commit", 2))
    found = [called for called in trace[:end] if called[0] in SQL]
    return [
        (seam, call, "before")
        for (_, _, before), (seam, call, text) in zip([("", 0, ""), *found], found, strict=False)
        if text[:24] != before[:24]
    ]


def test_a_zombie_at_any_statement_of_sqlite(sqlite_stages):
    stage = sqlite_stages.new()
    stage.produce_held()
    points = statements(stage.completed(trace=True).trace())
    seen = []

    def attempt(point):
        stage = sqlite_stages.new()
        zombie = stopped(stage, point)
        if is_locked(stage):
            seen.append("locked")
            locked_out(stage, zombie, killed=point[1] % 2 == 0)
        elif is_the_learner(zombie.trace()):
            seen.append("learner")
            fenced(stage, zombie)
        else:
            seen.append("candidate")
            next_in_turn(stage, zombie)

    assert failures(attempt, points, AT_ONCE) == {}
    assert {name: seen.count(name) >= 10 for name in ("locked", "learner", "candidate")} == {
        "locked": True, "learner": True, "candidate": True,
    }  # fmt: skip


def test_a_zombie_at_any_other_step_on_sqlite(sqlite_stages):
    """In the midst of processing, between the steps of a commit, inside the writing of a snapshot, in recovery."""
    stage = sqlite_stages.new()
    stage.produce_held()
    trace = stage.completed(trace=True).trace()
    points = some(
        [called for called in trace if not called[0].startswith("os.")], *SQL, "acquire", "poll", "close"
    )
    points += [(seam, 0, when) for seam in SNAPSHOT for when in ("before", "after")] + [
        ("os.write", 0, "midway")
    ]
    dead = sqlite_stages.new()
    life = dead.life(("commit", 2, "after", "KILL"), owner="zombie", **EARLY)
    assert life.ended() == -signal.SIGKILL
    recovery = ["recover", "find snapshot", "load snapshot", "read journal", "read slice", "process", "seek"]

    def attempt(where):
        before, point = where
        stage = sqlite_stages.new(like=before)
        zombie = stopped(stage, point)
        if is_locked(stage):  # its thread of commits was in the midst of one
            locked_out(stage, zombie, killed=False)
        else:
            fenced(stage, zombie)

    points = [(None, point) for point in points]
    points += [(dead, (seam, 0, when)) for seam in recovery for when in ("before", "after")]
    assert failures(attempt, points, AT_ONCE) == {}


def test_a_zombie_that_was_about_to_end_does_no_harm_on_sqlite(sqlite_stages):
    about_to_end(sqlite_stages, "os.rename", "close")


def about_to_end(stages, *seams):
    """All it had to publish was published, so that there is nothing to fence."""
    points = [(seam, 0, when) for seam in seams for when in ("before", "after")]

    def attempt(point):
        stage = stages.new()
        zombie = stage.life((*point, "STOP"), owner="zombie", snapshot_events=10**9)
        assert zombie.stopped(), zombie.said()
        standby = successor(stage)
        zombie.go_on()
        assert zombie.ended() == 0, zombie.said()
        serve_the_rest(stage, standby)
        end(stage, standby)

    assert failures(attempt, points, AT_ONCE) == {}


# -- on Kafka -----------------------------------------------------------------------------------------------


def test_a_zombie_at_any_step_on_kafka(kafka_stages):
    kafka_stages.prepare(1)
    stage = kafka_stages.new()
    stage.produce_held()
    trace = [called for called in stage.completed(trace=True).trace() if not called[0].startswith("os.")]
    assert calls(trace).keys() >= TAKEOVER | COMMIT_ON_KAFKA
    points = a_few(some(trace, "close", "poll", first=False), 2)
    points += [("prove", 0, when) for when in ("before", "after")]
    points += [("os.write", 0, "midway"), ("os.rename", 0, "before"), ("os.rename", 0, "after")]
    kafka_stages.prepare(len(points))

    def attempt(point):
        stage = kafka_stages.new()
        zombie = stopped(stage, point)
        if point[0] in TAKEOVER and point not in ELECTED:
            next_in_turn(stage, zombie)
        else:
            fenced(stage, zombie)

    assert failures(attempt, points, AT_ONCE) == {}


@pytest.mark.storm
def test_a_zombie_that_recovers_is_fenced_on_kafka(kafka_stages):
    seams = ["recover", "find snapshot", "load snapshot", "read journal", "read slice", "process", "seek"]
    points = a_few([(seam, 0, when) for seam in seams for when in ("before", "after")], 2)
    kafka_stages.prepare(len(points))

    def attempt(point):
        stage = kafka_stages.new()
        dead = stage.life(("commit_transaction", 3, "after", "KILL"), **EARLY)
        assert dead.ended() == -signal.SIGKILL, dead.said()
        fenced(stage, stopped(stage, point))

    assert failures(attempt, points, AT_ONCE) == {}


@pytest.mark.storm
def test_a_zombie_that_was_about_to_end_does_no_harm_on_kafka(kafka_stages):
    kafka_stages.prepare(4)
    about_to_end(kafka_stages, "os.rename", "close")


# -- the command line ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("kafka", marks=pytest.mark.broker)])
def test_the_first_of_two_commands_is_stopped_and_fenced(request, tmp_path, kind):
    raws = raw_events(80, seed=31)
    for name, part in (("early", raws[:40]), ("late", raws[40:])):
        (tmp_path / name).with_suffix(".jsonl").write_bytes(b"".join(raw + b"\n" for raw in part))
    address, log = "", {"url": f"sqlite:///{tmp_path / 'log.db'}"}
    if kind == "kafka":
        address, log = request.getfixturevalue("broker").address, {}
    program = Program(tmp_path, address, log={**log, "session_timeout": "3s"}, topics={"partitions": 1})
    try:
        program.run("topics", "create")
        program.run("replay", tmp_path / "early.jsonl")
        first = program.start("run")
        until(lambda: len(program.ids("predictions")) == 40)
        first.process.send_signal(signal.SIGSTOP)
        program.run("replay", tmp_path / "late.jsonl")
        second = program.start("run")
        until(lambda: len(program.ids("predictions")) == 80)
        first.process.send_signal(signal.SIGCONT)
        line, _ = first.complaint()
        assert "taken over" in line or "lost the election" in line
        assert second.is_going()
        second.stop().output()
        prove_exactly_once(program, raws)
    finally:
        program.close()


def test_a_learner_that_stood_still_and_was_not_replaced_says_so(tmp_path, broker):
    """Its session is over, and nobody is there who could have taken over."""
    program = Program(tmp_path, broker.address, log={"session_timeout": "2s"})
    group = f"streamnb.{program.model}"
    try:
        program.run("topics", "create")
        learner = program.start("run")
        with KafkaAdminClient(bootstrap_servers=broker.address) as admin:

            def members():
                return len(admin.describe_groups([group])[group]["members"])

            (tmp_path / "one.jsonl").write_bytes(raw_events(1)[0])
            program.run("replay", tmp_path / "one.jsonl")
            until(lambda: len(program.ids("predictions")) == 1)
            assert members() == 1
            learner.process.send_signal(signal.SIGSTOP)
            until(lambda: members() == 0)
        learner.process.send_signal(signal.SIGCONT)
        line, _ = learner.complaint()
    finally:
        program.close()
    assert "lost the election: no other member was elected; this process stood still for " in line
    assert line.endswith(
        "and a session lasts 2 s; start it again, and raise log.session_timeout if that happens often"
    )
