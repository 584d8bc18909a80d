"""Learning anew and forgetting where logs have several partitions, have lost their beginning, or the disk is full."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import threading
from contextlib import closing

import pytest

from streamnb.cli.commands.forget import _chosen
from streamnb.cli.commands.rebuild import is_installed
from streamnb.cli.parser import build_parser
from streamnb.engine.ports import NewRecord, Partition
from streamnb.engine.retraining.log_retraining import Retraining, RetrainingSource
from streamnb.engine.sensor import Sensor
from streamnb.errors import JournalError
from streamnb.runtime import factories
from streamnb.runtime.worker_context import CommitPolicy
from streamnb.verification.check_results import CheckResults
from streamnb.verification.log.retrained_model_check import check_rebuilt
from tests.support.service import AtOnce, digests, kill, model_digest, read_topic
from tests.support.topics_of_logs import made_anew, trim
from tests.support.verifying import configured, new_worker, told, verified

pytestmark = [pytest.mark.slow, pytest.mark.early(56)]

OUTPUTS = {"predictions": 1, "metrics": 1, "dead_letters": 1, "journal": 1}
SETS = ["model.kind=naive_bayes"]
LATE = [*SETS, "topics.labels=labels", "labels.window=1000d"]
PACE = CommitPolicy(commit_events=7, commit_seconds=0.0, snapshot_events=30)


def event(i, label=None):
    return NewRecord(
        "events",
        f"k{i % 5}".encode(),
        json.dumps({"id": f"e{i}", "text": f"word{i % 7} of k{i % 5}", "label": label}).encode(),
    )


def verdict(i):
    value = {"id": f"e{i}", "label": "ab"[i % 2], "source": "s", "ts": float(i)}
    return NewRecord("labels", f"e{i}".encode(), json.dumps(value).encode())


def serving(log, folder, sets, **options):
    worker = new_worker(log, folder, *sets, pace=PACE, **options)
    worker.start("a learner")
    return worker


def source(log, folder, sets):
    config = configured(*sets)
    return RetrainingSource(
        log, AtOnce(folder, 100), lambda: factories.learner(config), factories.identity(config)
    )


def handed_over(open_log, folder, sets, chosen):
    """Have a model taken up by a worker of its own, as no learner runs; the model, and the journal record."""
    rebuilding = Retraining(source(open_log(), folder, sets), chosen)
    with closing(new_worker(open_log(), folder, *sets, pace=PACE)) as other:
        return rebuilding, is_installed(rebuilding, AtOnce(folder, 100), other)


def of_key(key):
    return _chosen(build_parser().parse_args(["forget", "--key", key]))


@pytest.mark.thorough_for("kafka")
def test_a_key_is_forgotten_in_all_partitions(open_log, tmp_path):
    """Events of three partitions, labels of two: nothing of the key is left, and verify says so."""
    log = open_log(events=3, labels=2, **OUTPUTS)
    log.append([event(i) for i in range(60)])
    log.append([verdict(i) for i in range(60)])
    with closing(serving(log, tmp_path, LATE)) as worker:
        worker.run(until_end=True)
    rebuilding, n = handed_over(open_log, tmp_path, LATE, of_key("k1"))
    assert (rebuilding.forgotten, rebuilding.learned, rebuilding.events) == (12, 48, 60)
    log = open_log()
    log.append([event(i) for i in range(60, 90)])
    with closing(serving(log, tmp_path, LATE)) as worker:
        assert worker.learner.model.class_weights == {"a": 24.0, "b": 24.0}
        worker.run(until_end=True)
    other = open_log()
    findings = CheckResults()
    check_rebuilt(source(other, tmp_path, LATE), n, findings, of_key("k1"))
    assert findings.is_clean
    assert told(verified(other, tmp_path, *LATE)) == []
    assert len(read_topic(other, "predictions")) == 90


def test_events_that_were_lost_before_they_were_learned_are_not_missed(open_log, tmp_path):
    """Retention took them before the learner came to them, which was accepted: the rest is learned anew."""
    log = open_log(events=1, **OUTPUTS)
    serving(log, tmp_path, SETS).close()
    log = open_log()
    log.append([event(i, "ab"[i % 2]) for i in range(50)])
    trim(log, Partition("events", 0), 20)
    with closing(serving(log, tmp_path, SETS, accepts_loss=True)) as worker:
        worker.run(until_end=True)
    rebuilding, _ = handed_over(open_log, tmp_path, SETS, of_key("k1"))
    assert (rebuilding.forgotten, rebuilding.learned) == (6, 24)


def test_what_was_learned_and_is_gone_cannot_be_learned_anew(open_log, tmp_path):
    """Refused with the offsets, and nothing is changed: the learner goes on, beyond a loss too."""
    log = open_log(events=1, **OUTPUTS)
    log.append([event(i, "ab"[i % 2]) for i in range(30)])
    with closing(serving(log, tmp_path, SETS)) as worker:
        worker.run(until_end=True)
    log = open_log()
    log.append([event(i, "ab"[i % 2]) for i in range(30, 60)])
    trim(log, Partition("events", 0), 40)
    with closing(serving(log, tmp_path, SETS, accepts_loss=True)) as worker:
        worker.run(until_end=True)
        before = digests(worker.learner)
    for chosen in (of_key("k1"), lambda *_: False):
        with pytest.raises(
            JournalError, match=r"events/0 was learned from offset 0 on and now begins with 40"
        ):
            handed_over(open_log, tmp_path, SETS, chosen)
    with closing(serving(open_log(), tmp_path, SETS)) as again:
        assert digests(again.learner) == before


def _full():
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, resource.RLIM_INFINITY))


@pytest.mark.parametrize("open_log", ["sqlite"], indirect=True)
def test_where_a_topic_was_made_anew_it_says_that_and_what_to_do(open_log, tmp_path):
    """Before a learner accepts that, and after."""
    log = open_log(events=1, labels=1, **OUTPUTS)
    log.append([event(i) for i in range(20)])
    log.append([verdict(i) for i in range(20)])
    with closing(serving(log, tmp_path, LATE)) as worker:
        worker.run(until_end=True)
    made_anew(open_log, "labels")
    for _ in range(2):
        with pytest.raises(
            JournalError, match=r"topic 'labels' was deleted and recreated.* begin another model"
        ):
            Retraining(source(open_log(), tmp_path, LATE))
        serving(open_log(), tmp_path, LATE, accepts_loss=True).close()


@pytest.mark.thorough
@pytest.mark.parametrize("open_log", ["sqlite"], indirect=True)
def test_on_a_full_disk_the_learner_goes_on_and_the_command_says_why(open_log, tmp_path):
    """The process that hands a model over cannot write its file: nothing of it is left, and it can be repeated."""
    log = open_log(events=1, **OUTPUTS)
    words = [" ".join(f"word{i}x{j}" for j in range(40)) for i in range(60)]
    raws = [json.dumps({"id": f"e{i}", "text": text, "label": "ab"[i % 2]}) for i, text in enumerate(words)]
    log.append([NewRecord("events", None, raw.encode()) for raw in raws[:50]])
    worker = serving(log, tmp_path, SETS)
    worker.run(until_end=True)
    sets = [*SETS, f"log.url=sqlite:///{tmp_path}/log.db", f"snapshots.folder={tmp_path}"]
    command = [sys.executable, "-m", "streamnb", "rebuild", *(f"--set={one}" for one in sets)]
    said = []

    def hand_over():
        try:
            for before in (_full, None):
                said.append(
                    subprocess.run(command, check=False, capture_output=True, text=True, preexec_fn=before)
                )
                with closing(open_log()) as producer:
                    producer.append([NewRecord("events", None, raw.encode()) for raw in raws[50:55]])
        finally:
            worker.stop()

    thread = threading.Thread(target=hand_over)
    thread.start()
    worker.run()
    thread.join()
    full, again = said
    assert (full.returncode, full.stderr.count("\n")) == (1, 1), full.stderr
    assert "adopt-" in full.stderr
    assert "File too large" in full.stderr
    assert (again.returncode, "installed by record" in again.stdout) == (0, True), again.stderr
    assert len([*tmp_path.glob("adopt-*")]) == 1
    assert not [*tmp_path.glob("*.tmp")]
    worker.context.is_stopping = False
    worker.run(until_end=True)
    worker.close()
    assert worker.learner.consumed == 60
    assert told(verified(open_log(), tmp_path, *SETS)) == []


@pytest.mark.parametrize("open_log", ["sqlite"], indirect=True)
def test_what_was_forgotten_leaves_the_snapshots_once_the_disk_has_room_again(open_log, tmp_path):
    """The learner takes the model up, and tells that its snapshot does not fit; the next start keeps it."""
    log = open_log(events=1, **OUTPUTS)
    log.append([event(i, "ab"[i % 2]) for i in range(60)])
    worker = serving(log, tmp_path, SETS)
    worker.run(until_end=True)
    rebuilding = Retraining(source(open_log(), tmp_path, SETS), of_key("k1"))
    rebuilt, folder = rebuilding.retrained(), AtOnce(tmp_path, 100)
    folder.offer(rebuilding.snapshot(rebuilt))
    unsaved = []
    worker.context.sensor = type("Heard", (Sensor,), {"unsaved": lambda _, text: unsaved.append(text)})()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    worker.context.log._store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    full = worker._writer.begin

    def begin(checkpoint):
        resource.setrlimit(resource.RLIMIT_FSIZE, (500, limits[1]))
        full(checkpoint)

    worker._writer.begin = begin
    try:
        taken = worker.install_model(rebuilt)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert len(unsaved) == 1
    assert "File too large" in unsaved[0]
    assert model_digest(worker.learner) == rebuilt.digest
    kill(worker)
    serving(open_log(), tmp_path, SETS).close()
    assert min(file.n for file in folder.list()) >= taken.n
