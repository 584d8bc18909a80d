"""A call that never returns ends the process, wherever it hangs; what only takes long does not."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from contextlib import suppress
from itertools import product

import pytest

from streamnb.engine.processing.counters import Counters
from streamnb.engine.sensor import Committed, WorkerState
from streamnb.telemetry.watchdog import Watchdog
from tests.brokers.cluster import Cluster
from tests.support import commands
from tests.support.program import PATIENCE, Program, until
from tests.support.service import raw_events

pytestmark = [pytest.mark.thorough, pytest.mark.early(8)]

RAWS = raw_events(120, seed=31)
IDS = [json.loads(raw)["id"] for raw in RAWS]
COMPLAINT = "streamnb: a call has not returned for "

# -- counting -----------------------------------------------------------------------------------------------

TURNING = [state for state in WorkerState if state is not WorkerState.STOPPED]
SIGNS = {
    "heartbeat": (),
    "entered": (WorkerState.RUNNING,),
    "committed": (Committed(1, 0, Counters(), 0.0, 0.0, ()),),
    "saved": (1.0, 1),
    "unsaved": ("full",),
}


def counted(state, seconds=60.0):
    """A watchdog that runs in no thread, in a state; and the exit codes that it would have ended with."""
    ends = []
    watchdog = Watchdog(seconds, ends.append)
    if state is not None:
        watchdog.entered(state)
        watchdog.tick()  # the one that notices that sign of life
    return watchdog, ends


@pytest.mark.parametrize("state", TURNING)
def test_a_silence_is_ended_in_every_state_that_has_to_turn(state, capfd):
    watchdog, ends = counted(state)
    for _ in range(59):
        watchdog.tick()
    assert ends == []
    watchdog.tick()
    assert ends == [1]
    first, *stacks = capfd.readouterr().err.splitlines()
    assert first.startswith(f"{COMPLAINT}60 s while {state}; ")
    assert any("test_a_silence_is_ended" in line for line in stacks)


@pytest.mark.parametrize("state", [None, WorkerState.STOPPED])
def test_nothing_has_to_turn_before_the_start_or_after_the_end(state):
    watchdog, ends = counted(state)
    for _ in range(1000):
        watchdog.tick()
    assert ends == []


@pytest.mark.parametrize(("state", "sign"), list(product(TURNING, SIGNS)))
def test_a_sign_of_life_lets_the_count_begin_anew(state, sign, capfd):
    watchdog, ends = counted(state)
    for _ in range(3):
        for _ in range(59):
            watchdog.tick()
        getattr(watchdog, sign)(*SIGNS[sign])
        watchdog.tick()
    assert ends == []
    for _ in range(60):
        watchdog.tick()
    assert ends == [1]
    assert COMPLAINT in capfd.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "ticks"), [(0.2, 4), (2.0, 4), (3.9, 4), (4.0, 4), (10.0, 10), (60.5, 61)]
)
def test_the_silence_is_never_shorter_than_configured(seconds, ticks, capfd):
    watchdog, ends = counted(WorkerState.RUNNING, seconds)
    for _ in range(ticks - 1):
        watchdog.tick()
    assert ends == []
    watchdog.tick()
    assert ends == [1]
    assert f"{seconds:g} s" in capfd.readouterr().err


def test_the_process_ends_even_where_nobody_reads_why(monkeypatch):
    monkeypatch.setattr("streamnb.telemetry.watchdog._TELL_SECONDS", 0.2)
    read, write = os.pipe()
    os.set_blocking(write, False)
    with suppress(BlockingIOError):
        while True:
            os.write(write, bytes(1 << 16))
    os.set_blocking(write, True)
    monkeypatch.setattr("streamnb.telemetry.watchdog._STDERR", write)
    watchdog, ends = counted(WorkerState.RUNNING, 0.2)
    for _ in range(4):
        watchdog.tick()
    assert ends == [1]
    os.close(read)  # the thread that tells ends, too
    os.close(write)


def test_the_process_ends_where_there_is_nowhere_to_tell_why(monkeypatch):
    monkeypatch.setattr("streamnb.telemetry.watchdog._STDERR", -1)
    watchdog, ends = counted(WorkerState.RUNNING, 0.2)
    for _ in range(4):
        watchdog.tick()
    assert ends == [1]


# -- processes ----------------------------------------------------------------------------------------------

HANGING = """
import sys, time
import streamnb.runtime.worker
streamnb.runtime.worker._LOOK_SECONDS = 0.1  # the lag is asked for more often, so that its turn to hang comes soon
from {module} import {kind} as kind
real, calls = kind.{name}, []
def is_within(function):
    if not function:
        return True
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != function:
        frame = frame.f_back
    return frame is not None
def called(*args, **options):
    calls.extend([1] * is_within("{within}"))
    time.sleep({pause})
    if len(calls) == {hang_at}:
        print("hanging", file=sys.stderr, flush=True)
        while True:
            time.sleep(3600)
    return real(*args, **options)
kind.{name} = called
"""
"""Makes one method take a pause at each call, and never return from one of those from within a function."""


class Driven:
    """The command line in a process, with or without a method that hangs."""

    def __init__(self, program, *arguments, method=None, hang_at=0, pause=0.0, within=""):
        self._file = program.folder / f"driven-{os.urandom(4).hex()}.err"
        first = ""
        if method:
            module, kind, name = method.split()
            first = HANGING.format(
                module=module, kind=kind, name=name, hang_at=hang_at, pause=pause, within=within
            )
        self.process = commands.begin(
            [*arguments, "--config", program.file],
            cwd=program.folder,
            out=self._file,
            err=self._file,
            first=first,
        )
        program._started.append(self)  # which kills it at the end

    def said(self):
        return self._file.read_text()

    def await_word(self, word):
        until(lambda: word in self.said() or self.process.poll() is not None)
        assert word in self.said(), self.said()  # all of it: its threads' stacks say why

    def code(self):
        return self.process.wait(PATIENCE)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.code() == 0, self.said()
        assert COMPLAINT not in self.said()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def bark(self):
        """What the watchdog said: the state, and the functions of all stacks."""
        assert self.code() == 1, self.said()
        found = re.search(rf"^{re.escape(COMPLAINT)}\d+ s while (\w+); ", self.said(), re.MULTILINE)
        assert found, self.said()
        stacks = self.said()[found.end() :]
        assert stacks.count("most recent call first") >= 2
        return found[1], set(re.findall(r"^  File .* in (\w+)$", stacks, re.MULTILINE))


SQLITE = "streamnb.event_logs.sqlite.sqlite_log SqliteLog"
KAFKA = "kafka KafkaConsumer"
LEARNER = "streamnb.engine.processing.event_processor EventProcessor"


@pytest.fixture
def embedded(tmp_path):
    """A program on an embedded log with all events in it."""
    sections = {"log": {"url": "sqlite:///log.db", "hang_timeout": "2s", "session_timeout": "3s"}}
    program = Program(tmp_path, "", commit={"events": 20}, snapshots={"every_events": 40}, **sections)
    events = tmp_path / "events.jsonl"
    events.write_bytes(b"".join(raw + b"\n" for raw in RAWS))
    program.run("replay", events)
    yield program
    program.close()


@pytest.mark.parametrize(
    ("method", "hang_at", "state"),
    [
        ("acquire", 1, "starting"),
        ("read", 1, "recovering"),
        ("poll", 3, "running"),
        ("begin_commit", 3, "running"),
        ("lag", 1, "running"),
        ("close", 1, "running"),
    ],
)
def test_a_call_of_the_embedded_log_that_hangs_ends_the_process_and_the_next_one_goes_on(
    embedded, method, hang_at, state
):
    if method == "read":
        assert Driven(embedded, "run", "--until-end").code() == 0  # so that there is a journal to read
    hung = Driven(embedded, "run", "--until-end", method=f"{SQLITE} {method}", hang_at=hang_at)
    found, functions = hung.bark()
    assert found == state
    assert {"called", "_watch"} <= functions
    assert Driven(embedded, "run", "--until-end").code() == 0
    assert embedded.ids("predictions") == IDS


def test_no_watchdog_where_none_is_wanted(embedded):
    embedded.file.write_text(embedded.file.read_text().replace('"2s"', '"0s"'))
    hung = Driven(embedded, "run", method=f"{SQLITE} poll", hang_at=2)
    hung.await_word("hanging")
    time.sleep(5.0)
    assert hung.process.poll() is None


def test_a_process_that_was_stopped_and_goes_on_is_not_taken_for_one_that_hangs(embedded):
    """The clock says so, and the session is over; but nobody has taken over."""
    embedded.file.write_text(embedded.file.read_text().replace('"2s"', '"4s"'))
    learner = Driven(embedded, "run")
    until(lambda: embedded.ids("predictions") == IDS)
    for _ in range(2):
        learner.process.send_signal(signal.SIGSTOP)
        time.sleep(8.0)
        learner.process.send_signal(signal.SIGCONT)
        time.sleep(2.0)
    embedded.run("replay", embedded.folder / "events.jsonl")
    until(lambda: embedded.ids("predictions") == IDS + IDS)
    learner.stop()


@pytest.mark.storm
def test_a_recovery_and_a_batch_that_take_long_are_left_in_peace(embedded):
    """Each step is shorter than the silence allowed, all of them together are not."""
    embedded.file.write_text(embedded.file.read_text().replace('"2s"', '"4s"'))
    slow = {"method": f"{LEARNER} _process_run", "pause": 1.0}
    batch = Driven(embedded, "run", "--until-end", **slow)  # six commits
    assert batch.code() == 0, batch.said()
    shutil.rmtree(embedded.folder / "log.db.snapshots", ignore_errors=True)
    recovery = Driven(embedded, "run", "--until-end", **slow)
    assert recovery.code() == 0, recovery.said()
    assert COMPLAINT not in batch.said() + recovery.said()
    assert float(re.search(r"recovered 120 records in ([\d.]+) s", recovery.said())[1]) > 4.0
    assert embedded.ids("predictions") == IDS


@pytest.mark.storm
def test_a_standby_is_left_in_peace_and_serves_when_the_learner_hangs(embedded):
    learner = Driven(embedded, "run", method=f"{SQLITE} poll", hang_at=150)
    until(lambda: embedded.ids("predictions") == IDS)
    standby = Driven(embedded, "run")
    standby.await_word("standing by: ")
    assert learner.bark()[0] == "running"
    embedded.run("replay", embedded.folder / "events.jsonl")
    until(lambda: embedded.ids("predictions") == IDS + IDS)
    standby.stop()


# -- on Kafka -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own(run_broker, tmp_path_factory):
    """A broker of this file, which is stopped in the middle of things."""
    yield from run_broker("own", lambda: Cluster(tmp_path_factory.mktemp("own")))


@pytest.fixture
def make(own, tmp_path):
    """Make a program on that broker whose topics are there."""
    own.start()
    (tmp_path / "events.jsonl").write_bytes(b"".join(raw + b"\n" for raw in RAWS))
    made = []

    def program(session_timeout, hang_timeout="15s"):
        log = {"hang_timeout": hang_timeout, "session_timeout": session_timeout}
        made.append(Program(tmp_path, own.address, log=log, commit={"events": 20}))
        made[-1].run("topics", "create")
        return made[-1]

    yield program
    for one in made:
        one.close()


@pytest.mark.storm
def test_a_broker_that_is_silent_is_waited_for(own, make):
    """Each request ends at its timeout, well before a hang, and each time the loop shows that it is alive."""
    program = make("3m", "10s")  # a session that outlives the silence
    events = program.folder / "events.jsonl"
    learner = Driven(program, "run")
    program.run("replay", events)
    until(lambda: program.ids("predictions") == IDS)
    own.nodes[0].pause()
    learner.await_word("waiting: ")
    time.sleep(22.0)  # twice what a call that hangs is given
    assert learner.process.poll() is None, learner.said()
    own.nodes[0].resume()
    learner.await_word("the log answers again, after ")
    program.run("replay", events)
    until(lambda: program.ids("predictions") == IDS + IDS)
    learner.stop()


@pytest.mark.storm_for("poll")
@pytest.mark.parametrize(
    ("method", "within"),
    [(f"{KAFKA} poll", "poll"), ("kafka KafkaAdminClient list_partition_offsets", "lag")],
    ids=["poll", "lag"],
)
def test_a_call_of_the_client_that_hangs_ends_the_process_and_the_next_one_goes_on(make, method, within):
    """At the third call while it runs; how many there are before depends on how long an election takes."""
    program = make("6s")
    program.run("replay", program.folder / "events.jsonl")
    found, functions = Driven(program, "run", method=method, hang_at=3, within=within).bark()
    assert found == "running"
    assert {"called", "_watch"} <= functions
    assert Driven(program, "run", "--until-end").code() == 0
    assert program.ids("predictions") == IDS
