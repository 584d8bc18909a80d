"""A learner on a log whose labels come on a topic of their own: commits, recovery, snapshots, changes."""

from __future__ import annotations

import json
import random

import pytest
from late import EVENTS, counts_of, effective_labels, late_learner, learned, random_stream, scores_of
from service import digests, many, new_worker, read_topic

from streamnb.engine.journal.identity import Identity
from streamnb.engine.ports import NewRecord
from streamnb.worker import Pace

TOPICS = {"events": 1, "labels": 1, "predictions": 1, "metrics": 1, "dead_letters": 1, "journal": 1}
IDENTITY = Identity(("events", "labels"), "journal", "c0ffee", {"python": "3"})


def start(log, folder, **options):
    worker = new_worker(
        log,
        folder,
        learner=late_learner(report_every=10**6),
        identity=IDENTITY,
        store=many,
        pace=Pace(commit_events=7, commit_seconds=0.0, snapshot_events=options.pop("snapshot_events", 30)),
    )
    worker.start("a learner")
    return worker


def append(log, records):
    """As they come: the log gives them times of its own."""
    log.append([NewRecord(record.partition.topic, record.key, record.value) for record in records])


def test_a_learner_that_ends_anywhere_goes_on_as_if_it_had_not(open_log, tmp_path):
    log = open_log(**TOPICS)
    records = random_stream(random.Random(3), 80, 120).records
    done = 0
    for stop in (50, 90, 160, len(records)):
        append(log, records[done:stop])
        done = stop
        worker = start(log, tmp_path / "a")
        worker.run(until_end=True)
        if stop % 20:
            worker.close()
        log.close()  # or it dies so, and the last snapshot is older
        log = open_log()
    again = start(log, tmp_path / "never kept one")
    assert digests(again.learner) == digests(worker.learner)
    processed = [one for part in (read_topic(log, "events"), read_topic(log, "labels")) for one in part]
    truths = effective_labels(processed)
    assert counts_of(worker.learner.model) == counts_of(learned(processed, truths))
    served = [json.loads(record.value) for record in read_topic(log, "predictions")]
    assert len(served) == sum(record.partition == EVENTS for record in records)
    scores, told = worker.learner.late.scores.cumulative(), scores_of(served, truths)
    assert (scores.events, scores.accuracy * scores.events) == (told["events"], told["right"])
    assert scores.log_loss * scores.events == pytest.approx(told["loss"], rel=1e-12)
    again.close()
