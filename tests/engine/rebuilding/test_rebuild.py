"""History as if the truth had always been known: a model learned anew, taken up, and what then comes of it."""

from __future__ import annotations

import json
import random
from contextlib import closing

import pytest
from late import EVENTS, Stream, effective_labels, random_stream
from service import AtOnce, digests, model_digest, read_topic
from verifying import configured, new_worker, told, verified

from streamnb.cli import wiring
from streamnb.engine.journal.recovery import recover
from streamnb.engine.learner import Learner
from streamnb.engine.ports import NewRecord
from streamnb.engine.rebuilding.rebuild import Rebuilding, Source
from streamnb.errors import JournalError
from streamnb.worker import Pace

TOPICS = {"events": 1, "labels": 1, "predictions": 1, "metrics": 1, "dead_letters": 1, "journal": 1}
LATE = ["topics.labels=labels", "labels.window=1000d"]
MODELS = {
    "naive_bayes": ["model.kind=naive_bayes"],
    "mixture": [],
    "pruned": [
        "model.kind=naive_bayes",
        "model.prune.every=13",
        "model.prune.min_count=2",
        "attributes=[{name='text', kind='text'}]",
    ],
}
PACE = Pace(commit_events=7, commit_seconds=0.0, snapshot_events=30)


def append(log, records):
    log.append([NewRecord(record.partition.topic, record.key, record.value) for record in records])


def serving(log, folder, *sets):
    worker = new_worker(log, folder, *LATE, *sets, pace=PACE)
    worker.start("a learner")
    return worker


def source(log, folder, *sets):
    config = configured(*LATE, *sets)
    return Source(log, AtOnce(folder, 100), lambda: wiring.learner(config), wiring.identity(config))


def undisturbed(records, truths, *sets, without=()):
    """A learner of events that carried the labels that hold in the end."""
    config = configured(*sets)
    learner = wiring.learner(config)
    labelled = []
    for record in records:
        value = json.loads(record.value)
        if record.partition == EVENTS and value["id"] not in without:
            label, weight = truths.get(value["id"], (None, 1.0))
            value["label"] = label if weight else None
            labelled.append(record._replace(value=json.dumps(value).encode()))
    learner.process(labelled, 1.0)
    return learner


def processed(log):
    return [*read_topic(log, "events"), *read_topic(log, "labels")]


@pytest.mark.parametrize("kind", MODELS)
def test_it_is_the_model_of_a_run_whose_events_carried_their_labels(open_log, tmp_path, kind):
    log = open_log(**TOPICS)
    append(log, random_stream(random.Random(2), 90, 150, weights=(None, 0)).records)
    with closing(serving(log, tmp_path, *MODELS[kind])) as worker:
        worker.run(until_end=True)
    log = open_log()
    rebuilding = Rebuilding(source(log, tmp_path, *MODELS[kind]))
    records = processed(log)
    expected = undisturbed(records, effective_labels(records), *MODELS[kind])
    assert rebuilding.rebuilt().digest == model_digest(expected)
    assert (rebuilding.events, rebuilding.learned) == (90, expected.model.n_events)
    if kind == "mixture":
        assert model_digest(expected) != model_digest(worker.learner)


@pytest.mark.parametrize("kind", MODELS)
def test_it_follows_the_journal_and_is_taken_up(open_log, tmp_path, kind):
    sets = MODELS[kind]
    log = open_log(**TOPICS)
    stream = random_stream(random.Random(4), 120, 200).records
    append(log, stream[:160])
    worker = serving(log, tmp_path, *sets)
    worker.run(until_end=True)
    other = open_log()
    rebuilding = Rebuilding(source(other, tmp_path, *sets))
    fixed = rebuilding.to
    append(log, stream[160:240])
    worker.run(until_end=True)
    rebuilding.follow()
    assert rebuilding.checkpoint.n == worker.checkpoint.n > fixed
    scores = worker.learner.late.scores.cumulative()
    rebuilt = rebuilding.rebuilt()
    worker._snapshots.offer(rebuilding.snapshot())
    taken = worker.adopt(rebuilt)
    assert model_digest(worker.learner) == rebuilt.digest
    assert worker.learner.late.scores.cumulative() == scores
    append(log, stream[240:])
    worker.run(until_end=True)
    worker.close()
    log = open_log()
    for folder in (tmp_path, tmp_path / "older"):
        again = wiring.learner(configured(*LATE, *sets))
        recover(log, AtOnce(folder, 100), again, wiring.identity(configured(*LATE, *sets)))
        assert digests(again) == digests(worker.learner)
        (tmp_path / "older").mkdir(exist_ok=True)
        for path in tmp_path.glob("*.snb"):
            if path.name.startswith("adopt") or int(path.name[9:-4]) < taken.n:
                (tmp_path / "older" / path.name).write_bytes(path.read_bytes())
        if not (tmp_path / "older" / "segments").exists():
            (tmp_path / "older" / "segments").symlink_to(tmp_path / "segments")
    assert told(verified(log, tmp_path, *LATE, *sets)) == []
