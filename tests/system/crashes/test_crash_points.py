"""SIGKILL between any two steps of a commit, a snapshot, a takeover and a recovery: nothing is lost, nothing twice.

A learner is killed at one point, another goes on from what it left. Then every event's answer is visible once, the
model equals the replay of its journal without any snapshot, and with one partition all equals an undisturbed run.
"""

from __future__ import annotations

import signal

import pytest

from tests.brokers.numbered import NUMBERS
from tests.support.every_case import failures
from tests.system.crashes.points import SQL, a_few, calls, every, some
from tests.system.crashes.stages import KafkaStages, SqliteStages, Stream

pytestmark = [pytest.mark.thorough, pytest.mark.early(5)]

EVENTS = 70
KILLED = -signal.SIGKILL
AT_ONCE = {"sqlite": 3, "kafka": 16}  # most of a life on Kafka is waiting
STEPS = {
    "acquire", "recover", "find snapshot", "genesis", "read journal", "seek", "poll", "process", "commit", "close",
    "os.mkdir", "os.open", "os.write", "os.fsync", "os.rename", "os.close",
}  # fmt: skip
STEPS_OF_RECOVERY = {
    "acquire", "recover", "find snapshot", "load snapshot", "read journal", "read slice", "process", "seek",
}  # fmt: skip
STEPS_OF_TAKEOVER = {"join", "win", "prove", "begin_anew", "init_transactions"}
STEPS_ON_KAFKA = STEPS_OF_TAKEOVER | {
    "begin_transaction",
    "send_offsets_to_transaction",
    "commit_transaction",
}
STEPS_OF_WRITING = {"kafka": {"send", "send journal", "flush", "delivery"}, "librdkafka": {"deliver"}}
EARLY = {"snapshot_events": 20, "at_once": True}
"""When the third commit is made a snapshot stands at the first, whatever the threads do."""


@pytest.fixture
def sqlite_stages(nursery, tmp_path):
    return lambda partitions=1: SqliteStages(nursery, tmp_path, Stream(EVENTS, partitions))


@pytest.fixture
def kafka_stages(nursery, tmp_path, broker):
    made = []

    def make(partitions=1, kind="hypotheses", **options):
        prefix, stream = f"crash{next(NUMBERS)}-", Stream(EVENTS, partitions, kind=kind)
        made.append(KafkaStages(nursery, tmp_path, stream, broker.address, prefix, **options))
        return made[-1]

    yield make
    for stages in made:
        stages.close()


def traced(stages, **options):
    """The calls of a life that nothing befalls, but for those of single events.

    How often it looks for new records depends on when its other thread has committed: the last of these
    statements may be missing from another life, and are left out.
    """
    stage = stages.new()
    life = stage.completed(trace=True, ticks=1000 * stages.ticks, **options)
    stage.check(life)
    found = [called for called in life.trace() if called[0] != "decode"]
    certain = sum(seam == "sql" for seam, _, _ in found) * 2 // 3
    return [called for called in found if called[0] != "sql" or called[1] < certain]


def recovery(trace):
    """The part of a trace before anything new is learned."""
    seams = [seam for seam, _, _ in trace]
    return [called for called in trace[: seams.index("poll", seams.index("seek"))] if called[0] != "decode"]


def die(stage, point, **options):
    life = stage.life((*point, "KILL"), **options)
    assert life.ended() == KILLED, f"it was not reached: {life.said()}"


def dying(stages):
    """An attempt at a point: die there, live again, look whether all is well."""

    def attempt(point):
        stage = stages.new()
        die(stage, point, ticks=1000 * stages.ticks)
        stage.check(stage.completed(ticks=2000 * stages.ticks))

    return attempt


# -- on SQLite ----------------------------------------------------------------------------------------------


def test_a_death_at_any_statement_of_sqlite(sqlite_stages):
    """After one is before the next."""
    stages = sqlite_stages()
    trace = traced(stages)
    statements = {text for seam, _, text in trace if seam == "sql of commits"}
    assert {"BEGIN IMMEDIATE", "COMMIT", "PRAGMA wal_checkpoint(PASSIVE)"} <= statements
    assert any(text.startswith("INSERT INTO records") for text in statements)
    points = [point for seam in SQL for point in a_few(every(trace, seam, when=["before"]), 8)]
    assert failures(dying(stages), points, AT_ONCE["sqlite"]) == {}


def test_a_death_at_any_other_step_on_sqlite(sqlite_stages):
    """Before and after every call of the log and every touch of the snapshots' folder; inside each write of a file."""
    stages = sqlite_stages()
    trace = traced(stages)
    assert calls(trace).keys() >= STEPS
    points = every(trace, "os.write", when=["midway"]) + every(trace, *calls(trace, *SQL, "os.write"))
    points = a_few(points, 10)
    assert failures(dying(stages), points, AT_ONCE["sqlite"]) == {}


def test_a_death_in_the_midst_of_any_write_of_a_file(sqlite_stages):
    """The system ends the process where a file would grow beyond so many bytes: what it was writing is cut there."""
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


@pytest.mark.parametrize("first", ["in a commit", "after a commit"])
def test_a_death_in_the_recovery_from_a_death_on_sqlite(sqlite_stages, first):
    """Every statement and step of a second life until it polls, from what the first has left."""
    stages = sqlite_stages()
    words = [called for called in traced(stages, **EARLY) if called[2] == "COMMIT" or called[0] == "commit"]
    end = words[words.index(("commit", 2, "")) + 1]
    dead = stages.new()
    die(dead, (*end[:2], "before") if first == "in a commit" else ("commit", 2, "after"), ticks=1000, **EARLY)
    stage = stages.new(like=dead)
    life = stage.completed(ticks=2000, trace=True)
    stage.check(life)
    trace = recovery(life.trace())
    assert calls(trace).keys() >= STEPS_OF_RECOVERY

    def attempt(point):
        stage = stages.new(like=dead)
        die(stage, point, ticks=2000)
        stage.check(stage.completed(ticks=3000))

    points = every(trace, *SQL, when=["before"]) + every(trace, *calls(trace, *SQL))
    assert failures(attempt, a_few(points, 10), AT_ONCE["sqlite"]) == {}


def test_a_death_of_any_classifier_on_sqlite(nursery, tmp_path):
    """Its state goes the same way: one that unlabelled events teach, with those that it keeps."""
    stream = Stream(EVENTS, kind="semi_supervised")
    assert stream.alone.model.classifier.models["labelled and unlabelled"].n_kept == 5
    stages = SqliteStages(nursery, tmp_path, stream)
    trace = traced(stages)
    points = a_few(every(trace, *SQL, when=["before"])[::20], 2)
    points += a_few(every(trace, "os.rename", "commit", "process"), 3)
    assert failures(dying(stages), points, AT_ONCE["sqlite"]) == {}


def test_a_death_of_chains_of_entities_on_sqlite(nursery, tmp_path):
    """Which entities are kept, what is believed of them, and which label followed which."""
    stream = Stream(EVENTS, kind="hidden_markov")
    assert stream.alone.model.n_entities == 5
    assert stream.alone.model.transitions.table.any()
    stages = SqliteStages(nursery, tmp_path, stream)
    trace = traced(stages)
    points = every(trace, *SQL, when=["before"])[::40]
    points += every(trace, "os.rename", "commit", "process", when=["after"])
    assert failures(dying(stages), points, AT_ONCE["sqlite"]) == {}


def test_a_death_of_models_of_tenants_on_sqlite(nursery, tmp_path):
    """One model is at work at a time, and the others are put away, in memory that is gone with the process."""
    stream = Stream(EVENTS, kind="tenants")
    assert stream.alone.model.use(0).tenants == 4
    assert stream.alone.model.tenant().n_events
    stages = SqliteStages(nursery, tmp_path, stream)
    trace = traced(stages)
    points = every(trace, *SQL, when=["before"])[::40]
    points += every(trace, "os.rename", "commit", "process", when=["after"])
    assert failures(dying(stages), points, AT_ONCE["sqlite"]) == {}


def test_a_death_where_three_partitions_take_turns_on_sqlite(sqlite_stages):
    stages = sqlite_stages(3)
    trace = traced(stages)
    points = a_few(every(trace, *SQL, when=["before"])[::4], 4)
    points += a_few(every(trace, "os.rename", "commit", "process"), 3)
    assert failures(dying(stages), points, AT_ONCE["sqlite"]) == {}


# -- on Kafka -----------------------------------------------------------------------------------------------


def sure(points):
    """Those that every life reaches: what a broker gives at once, and so how many calls it takes, differs."""
    return [point for point in points if point[0] not in {"poll", "read journal"} or point[1] == 0]


def steps(trace):
    """Calls but for those of files, and of the reading of a slice: it happens only if no snapshot is ready in time."""
    return [called for called in trace if not called[0].startswith("os.") and called[0] != "read slice"]


@pytest.mark.storm_for("librdkafka", "kafka-3-12")
@pytest.mark.parametrize(
    ("library", "partitions", "stride"), [("kafka", 1, 6), ("kafka", 3, 12), ("librdkafka", 1, 6)]
)
def test_a_death_at_any_step_on_kafka(kafka_stages, library, partitions, stride):
    """Of what touches the snapshots, which is the same on both logs, a few points."""
    stages = kafka_stages(partitions, library=library)
    stages.prepare(1)
    trace = traced(stages)
    assert calls(trace).keys() >= STEPS | STEPS_ON_KAFKA | STEPS_OF_WRITING[library]
    points = some(steps(trace))
    points += [("os.write", 0, "midway"), ("os.rename", 0, "before"), ("os.rename", 0, "after")]
    points = a_few(sure(points), stride)
    stages.prepare(len(points))
    assert failures(dying(stages), points, AT_ONCE["kafka"]) == {}


@pytest.mark.parametrize("kind", [pytest.param("hidden_markov", marks=pytest.mark.storm), "tenants"])
def test_a_death_of_what_goes_by_keys_on_kafka(kafka_stages, kind):
    """The entity, or the tenant, is the key of a record, as a broker keeps it; one tenant's model is at work at a time."""
    stages = kafka_stages(kind=kind)
    stages.prepare(1)
    points = a_few(sure(some(steps(traced(stages)))), 8)
    stages.prepare(len(points))
    assert failures(dying(stages), points, AT_ONCE["kafka"]) == {}


def test_a_death_in_the_recovery_from_a_death_on_kafka(kafka_stages):
    """By turns the first life leaves a transaction open, and a journal beyond its snapshot."""
    stages = kafka_stages()
    stages.prepare(1)
    stage = stages.new()
    die(stage, ("commit_transaction", 3, "after"), **EARLY)
    life = stage.completed(trace=True)
    stage.check(life)
    trace = recovery(life.trace())
    assert calls(trace).keys() >= STEPS_OF_RECOVERY | STEPS_OF_TAKEOVER
    points = a_few(sure(some(trace)), 6)

    def attempt(numbered):
        number, point = numbered
        stage = stages.new()
        die(stage, ("commit_transaction", 3, "before" if number % 4 in (0, 3) else "after"), **EARLY)
        die(stage, point)
        stage.check(stage.completed())

    stages.prepare(len(points))
    assert failures(attempt, list(enumerate(points)), AT_ONCE["kafka"]) == {}
