"""SIGKILL between any two steps of a commit, a snapshot, a takeover and a recovery: nothing is lost, nothing twice.

A learner is killed at one point, another goes on from what it left. Then every event's answer is visible once, the
model equals the replay of its journal without any snapshot, and with one partition all equals an undisturbed run.
"""

from __future__ import annotations

import signal
from itertools import count

import pytest
from crashes.nursery import Nursery
from crashes.points import calls, every, failures, some
from crashes.stages import KafkaStages, SqliteStages, Stream

NUMBERS = count()
EVENTS = 70
KILLED = -signal.SIGKILL
AT_ONCE = {"sqlite": 3, "kafka": 16}
STEPS = {
    "acquire", "recover", "find snapshot", "genesis", "read journal", "seek", "poll", "process", "decode", "commit",
    "close", "os.mkdir", "os.open", "os.write", "os.fsync", "os.rename", "os.close",
}  # fmt: skip
STEPS_ON_KAFKA = {
    "join", "win", "prove", "begin_anew", "init_transactions", "begin_transaction", "send", "send journal", "flush",
    "delivery", "send_offsets_to_transaction", "commit_transaction",
}  # fmt: skip
STEPS_OF_RECOVERY = {
    "acquire",
    "recover",
    "find snapshot",
    "read journal",
    "load snapshot",
    "read slice",
    "process",
    "seek",
}


@pytest.fixture(scope="module")
def nursery():
    made = Nursery()
    yield made
    made.close()


@pytest.fixture
def sqlite_stages(nursery, tmp_path):
    return lambda partitions=1: SqliteStages(nursery, tmp_path, Stream(EVENTS, partitions))


@pytest.fixture
def kafka_stages(nursery, tmp_path, broker):
    made = []

    def make(partitions=1):
        prefix = f"crash{next(NUMBERS)}-"
        made.append(KafkaStages(nursery, tmp_path, Stream(EVENTS, partitions), broker.address, prefix))
        return made[-1]

    yield make
    for stages in made:
        stages.close()


def die(stage, point, **options):
    life = stage.life((*point, "KILL"), **options)
    assert life.ended() == KILLED, f"it was not reached: {life.said()}"


def dying(stages, **options):
    """An attempt at a point: die there, live again, look whether all is well."""

    def attempt(point):
        stage = stages.new()
        die(stage, point, ticks=stages.ticks * 1000, **options)
        stage.check(stage.completed(ticks=stages.ticks * 2000, **options))

    return attempt


# -- one death ----------------------------------------------------------------------------------------------


def traced(stages, **options):
    """The calls of a life that nothing befalls."""
    stage = stages.new()
    life = stage.completed(trace=True, ticks=stages.ticks * 1000, **options)
    stage.check(life)
    return life.trace()


@pytest.mark.parametrize("part", range(3))
def test_a_death_at_any_statement_of_sqlite(sqlite_stages, part):
    """Each row of an insert is a statement here."""
    stages = sqlite_stages()
    trace = traced(stages)
    assert {text.split()[0] for seam, _, text in trace if seam == "sql"} == {
        "BEGIN", "SELECT", "INSERT", "UPDATE", "PRAGMA", "COMMIT",
    }  # fmt: skip
    assert any(text == "PRAGMA wal_checkpoint(PASSIVE)" for _, _, text in trace)
    points = every(trace, "sql", when=["before"])
    assert failures(dying(stages), points[part::3], AT_ONCE["sqlite"]) == {}


def test_a_death_at_any_other_step_on_sqlite(sqlite_stages):
    """Every call that touches the snapshots, in the midst of the writing too; learning, and the port of the log."""
    stages = sqlite_stages()
    trace = [called for called in traced(stages) if called[0] not in ("sql", "decode")]
    assert STEPS - {"decode"} <= calls(trace).keys()
    written = every(trace, "os.write", when=["midway"])
    others = every(trace, *calls(trace, "os.write"))
    assert failures(dying(stages), written + others, AT_ONCE["sqlite"]) == {}


def test_a_death_in_the_midst_of_any_write_of_a_file(sqlite_stages):
    """The system ends the process where a file would grow beyond so many bytes: what it writes then is cut there."""
    stages = sqlite_stages()
    stage = stages.new()
    die(stage, ("close", 0, "before"))
    size = (stage.folder / "log.db-wal").stat().st_size

    def attempt(largest):
        stage = stages.new()
        life = stage.life(largest=largest)
        assert life.ended() == -signal.SIGXFSZ, life.said()
        stage.check(stage.completed())

    assert failures(attempt, range(500, size, 2999), AT_ONCE["sqlite"]) == {}


@pytest.mark.parametrize(
    "first", [("sql", -1, "before"), ("commit", 2, "after")], ids=["in a commit", "after a commit"]
)
def test_a_death_in_the_recovery_from_a_death_on_sqlite(sqlite_stages, first):
    """Every statement and step of the second life until it polls, from what the first has left."""
    stages = sqlite_stages()
    if first[1] < 0:
        commits = [number for seam, number, text in traced(stages) if text == "COMMIT"]
        first = ("sql", commits[-3], "before")
    dead = stages.new()
    die(dead, first, ticks=1000)
    stage = stages.new(like=dead)
    life = stage.completed(ticks=2000, trace=True)
    stage.check(life)
    names = [seam for seam, _, _ in life.trace()]
    trace = [
        called
        for called in life.trace()[: names.index("process", names.index("seek"))]
        if called[0] != "decode"
    ]
    assert calls(trace).keys() >= STEPS_OF_RECOVERY

    def attempt(point):
        stage = stages.new(like=dead)
        die(stage, point, ticks=2000)
        stage.check(stage.completed(ticks=3000))

    points = every(trace, "sql", when=["before"]) + every(trace, *calls(trace, "sql"))
    assert failures(attempt, points, AT_ONCE["sqlite"]) == {}


@pytest.mark.parametrize("partitions", [3])
def test_a_death_where_partitions_take_turns_on_sqlite(sqlite_stages, partitions):
    stages = sqlite_stages(partitions)
    trace = traced(stages)
    points = every(trace, "sql", when=["before"])[::4]
    points += some(
        [called for called in trace if called[0] in ("os.write", "os.rename", "commit", "process")]
    )
    assert failures(dying(stages), points, AT_ONCE["sqlite"]) == {}


# -- on Kafka -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_death_at_any_step_on_kafka(kafka_stages, partitions):
    stages = kafka_stages(partitions)
    stages.prepare(1)
    trace = traced(stages)
    assert calls(trace).keys() >= STEPS | STEPS_ON_KAFKA
    points = some(trace)
    if partitions > 1:
        points = points[::4]
    stages.prepare(len(points))
    assert failures(dying(stages), points, AT_ONCE["kafka"]) == {}


def test_a_death_in_the_recovery_from_a_death_on_kafka(kafka_stages):
    """By turns the first life leaves a transaction open, and a journal beyond its snapshot."""
    stages = kafka_stages()
    firsts = [("commit_transaction", 3, "before"), ("commit_transaction", 3, "after")]
    stages.prepare(1)
    stage = stages.new()
    die(stage, firsts[1])
    life = stage.completed(trace=True)
    stage.check(life)
    names = [seam for seam, _, _ in life.trace()]
    trace = life.trace()[: names.index("process", names.index("seek"))]
    assert (
        STEPS_OF_RECOVERY | {"join", "win", "prove", "begin_anew", "init_transactions"} <= calls(trace).keys()
    )

    def attempt(numbered):
        first, point = numbered
        stage = stages.new()
        die(stage, first)
        die(stage, point)
        stage.check(stage.completed())

    in_both = [point for point in some(trace) if point[0] not in ("read slice", "decode", "process")]
    points = [(firsts[number % 2], point) for number, point in enumerate(in_both)]
    points += [(firsts[1], point) for point in some(trace) if point not in in_both]
    stages.prepare(len(points))
    assert failures(attempt, points, AT_ONCE["kafka"]) == {}
