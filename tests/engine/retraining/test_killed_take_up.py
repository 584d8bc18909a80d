"""A learner is killed at any step while it takes up a model that was learned anew: what follows has the one or the other."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from contextlib import closing

import pytest

from streamnb.cli.commands.rebuild import is_installed
from streamnb.engine.retraining.log_retraining import Retraining
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.runtime import factories
from tests.engine.retraining.test_log_retraining import LATE, append, forgotten, serving, source
from tests.support.every_case import failures
from tests.support.late import random_stream
from tests.support.service import AtOnce, model_digest
from tests.support.verifying import configured, journal_of, new_worker, told, verified
from tests.system.crashes.points import a_few, calls, every
from tests.system.crashes.seams import Seams

pytestmark = [pytest.mark.thorough, pytest.mark.early(61)]

KIND = "model.kind=naive_bayes"
TOPICS = ["events", "labels", "predictions", "metrics", "dead-letters", "journal"]


def take_up(folder, point, becomes, trace=None):
    """In a process of its own, which is killed at the point; how it ended."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        seams = Seams(
            point and dict(zip(("seam", "call", "when", "does"), (*point, "KILL"), strict=True)), trace
        )
        seams.of_snapshots(folder / "snapshots")
        seams.of_sqlite()
        worker = serving(SqliteLog(folder / "log.db", session_timeout=0.0), folder / "snapshots", KIND)
        seams.begins("adopt")
        identity = None if becomes == KIND else factories.identity(configured(*LATE, becomes))
        worker.install_model(worker._handover.offered(), identity)
        worker.close()
    finally:
        os._exit(0)


@pytest.mark.parametrize(
    "becomes",
    [
        pytest.param(KIND, id="as before"),
        pytest.param("posterior.seed=3", id="another kind", marks=pytest.mark.storm),
    ],
)
def test_a_learner_that_is_killed_at_any_step_of_a_take_up_leaves_one_model_or_the_other(tmp_path, becomes):
    first = tmp_path / "first"
    first.mkdir()
    records = random_stream(random.Random(8), 60, 90).records
    with SqliteLog(first / "log.db") as log:
        for topic in TOPICS:
            log.create_topic(topic, 1)
        append(log, records[:100])
    with closing(serving(SqliteLog(first / "log.db"), first / "snapshots", KIND)) as worker:
        worker.run(until_end=True)
    with (
        SqliteLog(first / "log.db") as log,
        closing(serving(SqliteLog(first / "log.db"), first / "snapshots", KIND)) as worker,
    ):
        before = model_digest(worker.learner)
        under = factories.identity(configured(*LATE, becomes)).semantic_config
        of = source(log, first / "snapshots", KIND)
        rebuilding = Retraining(of, forgotten({"e3", "e4"}), under=under)
        rebuilt = rebuilding.retrained().digest
        worker.context.snapshots.offer(rebuilding.snapshot(rebuilding.retrained()))
    assert before != rebuilt
    trace = tmp_path / "trace"
    shutil.copytree(first, tmp_path / "traced")
    assert take_up(tmp_path / "traced", None, becomes, trace) == 0
    called = [tuple(json.loads(line)) for line in trace.read_text().splitlines()]
    begun = [seam for seam, _, _ in called].index("adopt")
    points = every(called, *calls(called, "adopt"))
    later = {(seam, call) for seam, call, _ in called[begun + 1 :]}
    points = [point for point in points if point[:2] in later and (point[0] != "sql" or point[2] == "before")]
    assert {"sql", "os.rename", "os.fsync", "os.write"} <= {point[0] for point in points}
    met = set()

    def check(point):
        folder = tmp_path / "-".join(map(str, point))
        shutil.copytree(first, folder)
        assert take_up(folder, point, becomes) == -signal.SIGKILL, "it was not reached"
        with SqliteLog(folder / "log.db") as log:
            is_taken_up = journal_of(log)[-1].kind == "adopt"
        met.add(is_taken_up)
        kind = becomes if is_taken_up else KIND
        with closing(
            serving(SqliteLog(folder / "log.db", session_timeout=0.0), folder / "snapshots", kind)
        ) as worker:
            assert model_digest(worker.learner) == (rebuilt if is_taken_up else before)
            append(worker.context.log, records[100:])
            worker.run(until_end=True)
        with SqliteLog(folder / "log.db") as log:
            assert told(verified(log, folder / "snapshots", *LATE, kind)) == []
            other = new_worker(
                SqliteLog(folder / "log.db", session_timeout=0.0), folder / "snapshots", *LATE, kind
            )
            with closing(other):
                again = Retraining(source(log, folder / "snapshots", kind), forgotten({"e5"}))
                is_installed(again, AtOnce(folder / "snapshots", 100), other)
            assert again.forgotten == 1
        shutil.rmtree(folder)

    assert failures(check, a_few(points, 4)) == {}
    assert met == {True, False}
