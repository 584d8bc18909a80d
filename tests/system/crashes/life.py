"""One life of a learner, in a process of its own: it learns a log to its end, or as far as it comes."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from concurrent.futures import Future
from pathlib import Path

# Imported before the fork, so that no life waits for it.
import kafka  # noqa: F401
import scipy.special  # noqa: F401
from msgspec.structs import replace

from streamnb import BayesOptimalNB, Hypothesis
from streamnb.config import load
from streamnb.engine.ports import OutageListener
from streamnb.engine.processing import alarm_responses
from streamnb.engine.sensor import Sensor
from streamnb.engine.settings import MonitorSettings
from streamnb.errors import SnapshotError, StreamnbError
from streamnb.event_logs.sqlite import sqlite_commits, sqlite_store
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.runtime import context, factories
from streamnb.runtime.worker_context import CommitPolicy
from streamnb.scoring.decision_rule import DecisionRule
from tests.brokers.prefixed import LIBRARIES, PrefixedKafkaLog
from tests.support.service import Ticking, digests, new_learner, new_worker
from tests.system.crashes.seams import Seams

REPORT_EVERY = 30
alarm_responses.BEGINNING, alarm_responses.EVERY = 0, 10
_PAUSE = {"action": "pause", "pause_records": 20}
MONITORS = (
    MonitorSettings("a", "class-rate", (0.02,), (0.3,), label="a", of="labels", false_alarm=0.2, **_PAUSE),
    MonitorSettings("new", "new-class", action="renew"),
)
"""A third of the labels are a: the first raises its alarm after a few, and the second finds three classes.

The first pauses learning for a while, and the second lets what the model forgets begin anew.
"""
DECISION = DecisionRule({}, 0.6, "windowed", 20, 0.2)
OF_ENTITIES = {
    "hidden_markov": ["model.entities=5", "model.time_to_live=2h"],
    "tenants": ["model.tenants=4", "model.memory=1B", "model.shared=true", "topics.tenants=tenants"],
}
TURN = 0.001
PATIENCE = 20  # seconds


def live(order):
    """Do what the order says; the exit code, 1 where the learner gave up. What came of it lies in NAME.json.

    Order:
        folder, name: of its files. Snapshots lie in the folder, too.
        log: {"sqlite": path} or {"kafka": address, "prefix"}, and options of it; "library" by its name in `prefixed`.
        owner, pace, until_end: of the worker.
        kind: of the model; see `fresh_learner`.
        ticks: where time begins that goes on only as it is looked at, so that each run does the same; 0 is none.
        largest: bytes; writing on beyond them in any file ends the process, in the midst of the write. 0 is no limit.
        at_once: whether the first snapshot is kept before the next commit, and no other one, so that it is known
            where it lies.
        point, trace: see `Seams`.
    """
    folder = Path(order["folder"])
    seams = Seams(order["point"], order["trace"] and folder / f"{order['name']}.trace")
    clock = _time_ticks(order["ticks"]) if order["ticks"] else time.time
    if order["largest"]:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (order["largest"], resource.RLIM_INFINITY))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    seams.of_snapshots(folder / "snapshots")
    if order["at_once"]:
        SnapshotFolder.save_aside = _save_at_once
    seams.of_the_engine()
    came = {}
    try:
        _serve(order, folder, seams, clock, came)
    except StreamnbError as error:
        came |= {"error": type(error).__name__, "says": str(error)}
        sys.stderr.write(f"streamnb: {error}\n")
    (folder / f"{order['name']}.json").write_text(json.dumps(came))
    return 1 if "error" in came else 0


def fresh_learner(kind="hypotheses"):
    """One whose state depends on the order of events: it weighs hypotheses, draws among them, and forgets.

    What it sees raises an alarm, which renews the model and pauses learning; of the kind "never paused" it does
    not pause, so that the order of events does not say which of them are counted.

    Or one of any classifier: two naive Bayes models, of which one learns from events without a label, too.
    Or one of chains of entities, of which there are more than are kept. Or models of tenants, of which there are
    more than may have one, and of which each is put away as soon as another one is at work.
    """
    if kind in OF_ENTITIES:
        sets = [f"model.kind={kind}", *OF_ENTITIES[kind]]
        config = load(None, {}, sets)
        settings = {"report_every": REPORT_EVERY, "report_seconds": 1e9, "schema": context.schema(config)}
        settings["tenants"] = config.topics.tenants
        return new_learner(model=factories.model(config), **settings)
    if kind == "semi_supervised":
        config = load(None, {}, ["model.kind=semi_supervised", "model.unlabelled_window=5"])
        return new_learner(model=factories.model(config), report_every=REPORT_EVERY, report_seconds=1e9)
    hypotheses = [
        Hypothesis("multinomial", alpha=0.1),
        Hypothesis("bernoulli"),
        Hypothesis("presence", half_life=3600.0),
    ]
    model = BayesOptimalNB({"text": "text"}, hypotheses, switching_rate=0.01, prediction="gibbs", seed=7)
    monitors = MONITORS if kind == "hypotheses" else (replace(MONITORS[0], action="tell"), *MONITORS[1:])
    model.tells_evidence = True
    return new_learner(
        model=model, report_every=REPORT_EVERY, report_seconds=1e9, monitors=monitors, decision=DECISION
    )


def _serve(order, folder, seams, clock, came):
    log = _open(order["log"], seams, clock)
    seams.of_the_log(log)
    progress = Progress(folder / f"{order['name']}.progress")
    worker = new_worker(
        log,
        folder / "snapshots",
        learner=fresh_learner(order.get("kind", "hypotheses")),
        pace=CommitPolicy(**order["pace"]),
        clock=Ticking(),
        sensor=progress,
    )
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    try:
        worker.await_leadership(order["owner"], progress.stands_by)
        worker.run(until_end=order["until_end"])
        came |= {"digests": digests(worker.learner), "consumed": worker.learner.consumed}
    finally:
        worker.close()


def _open(log, seams, clock):
    options = {name: value for name, value in log.items() if name not in ("sqlite", "kafka", "prefix")}
    if "sqlite" in log:
        sqlite_store.BUSY_TIMEOUT = options.pop("busy_timeout", sqlite_store.BUSY_TIMEOUT)
        checkpoints = options.pop("checkpoint_commits", sqlite_commits.CHECKPOINT_COMMITS)
        sqlite_commits.CHECKPOINT_COMMITS = checkpoints
        seams.of_sqlite()
        return SqliteLog(log["sqlite"], clock=clock, **options)
    options["library"] = LIBRARIES[options.get("library", "kafka")]
    seams.of_kafka(options["library"])
    return PrefixedKafkaLog(log["kafka"], log["prefix"], patience=Patient(), **options)


def _time_ticks(start):
    """Time goes on by a tick at each look, and by sleeping."""
    now = start

    def look():
        nonlocal now
        now += TURN
        return now

    def sleep(seconds):
        nonlocal now
        now += seconds

    time.monotonic, time.sleep = look, sleep
    return look


def _save_at_once(folder, made):
    outcome = Future()
    if not getattr(folder, "has_one", False):
        outcome.set_result(folder.save(made()))
        folder.has_one = True
    else:
        outcome.set_exception(SnapshotError("one is enough"))
    return outcome


class Patient(OutageListener):
    """As the command line has it: an attempt at a commit may fail more than once while the group settles."""

    def unreachable(self, error, seconds):
        if seconds > PATIENCE:
            raise error


class Progress(Sensor):
    """A file that says where a learner stands, for those who wait for it: a line for each state and commit."""

    def __init__(self, path):
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self._consumed = 0

    def entered(self, state):
        self._say(str(state))

    def stands_by(self, _):
        self._say("stands by")

    def recovered(self, _, events):
        self._says_consumed(events)

    def committed(self, commit):
        self._says_consumed(commit.consumed)

    def _says_consumed(self, more):
        self._consumed += more
        self._say(f"consumed {self._consumed}")

    def _say(self, line):
        os.write(self._file, f"{line}\n".encode())
