"""A learner on a log whose labels come on a topic of their own: commits, recovery, snapshots, changes."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace as replace_n

import pytest
from late import (
    EVENTS,
    Stream,
    counts_of,
    effective_labels,
    late_learner,
    learned,
    random_stream,
    scores_of,
)
from msgspec.structs import replace
from service import digests, many, new_worker, read_topic
from verifying import learn, told, verified

from streamnb.adapters.snapshot_folder import SnapshotFolder
from streamnb.engine.journal.checkpoint import Checkpoint, snapshot_of
from streamnb.engine.journal.identity import Identity
from streamnb.engine.ports import NewRecord
from streamnb.engine.verification.findings import Verdict
from streamnb.errors import JournalError, SnapshotError
from streamnb.worker import Pace

TOPICS = {"events": 1, "labels": 1, "predictions": 1, "metrics": 1, "dead_letters": 1, "journal": 1}
IDENTITY = Identity(("events", "labels"), "journal", "c0ffee", {"python": "3"})


REPLAYED = "what labels teach that come apart from their events is compared with a replay alone"


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


def test_such_a_log_is_verified_and_what_is_wrong_is_found(open_log, tmp_path):
    flags = ["topics.labels=labels", "labels.window=1000d", "model.kind=naive_bayes"]
    log = open_log(**TOPICS)
    append(log, random_stream(random.Random(5), 60, 90).records)
    learn(log, tmp_path / "kept", *flags)
    outcome = verified(open_log(), tmp_path / "kept", *flags)
    assert told(outcome) == []
    assert ("recount", REPLAYED) in told(outcome, Verdict.UNCHECKED)
    folder = many(tmp_path / "kept")
    newest = folder.newest().snapshot
    table = newest.parts["model"].arrays["table"].copy()
    table[0, 0] += 1024
    spoiled = newest.parts["model"]._replace(arrays={**newest.parts["model"].arrays, "table": table})
    folder.save(replace(newest, parts={**newest.parts, "model": spoiled}))
    assert told(verified(open_log(), tmp_path / "kept", *flags))


def test_the_topic_can_be_added_to_a_running_model_and_not_taken_away(open_log, tmp_path):
    records = random_stream(random.Random(6), 60, 60, labelled=0.5).records
    log = open_log(**TOPICS)
    append(log, [record for record in records if record.partition == EVENTS])
    learn(log, tmp_path / "kept", "model.kind=naive_bayes")
    log = open_log()
    append(log, [record for record in records if record.partition != EVENTS])
    flags = ["topics.labels=labels", "model.kind=naive_bayes"]
    more = random_stream(random.Random(7), 30, 60).records
    append(log, [r._replace(value=r.value.replace(b'"id": "e', b'"id": "f')) for r in more])
    learn(log, tmp_path / "kept", *flags)
    outcome = verified(open_log(), tmp_path / "kept", *flags)
    assert told(outcome) == []
    with pytest.raises(JournalError, match=r"topics\.labels was"):
        learn(open_log(), tmp_path / "kept", "model.kind=naive_bayes")


def test_a_snapshot_writes_what_is_new_and_a_damaged_segment_is_damage(tmp_path):
    folder = many(tmp_path)
    learner = late_learner(window=1e9)
    stream = Stream()
    for i in range(9000):
        stream.event(f"e{i}", "w1 w2")
    learner.process(stream.records, 1.0)
    checkpoint = Checkpoint(3, "d", "o", {})

    def keep(n):
        before = folder.segments()
        copy = learner.copying(before)
        folder.save(snapshot_of(replace_n(checkpoint, n=n), copy.parts(), IDENTITY, copy.segments()))
        return folder.segments() - before

    # Three chunks, of each what changes and what does not, that of the first two being alike; early verdicts.
    assert len(keep(1)) == 6
    assert keep(2) == frozenset()
    stream.verdict("e5", "x")
    learner.process(stream.records[-1:], 1.0)
    (new,) = keep(3)
    (tmp_path / "segments" / new).write_bytes(b"damage")
    with pytest.raises(SnapshotError, match=r"segment .* does not match its checksum"):
        folder.load(3)
    assert folder.newest().snapshot.journal_n == 2
    (tmp_path / "segments" / new).unlink()
    narrow = SnapshotFolder(tmp_path, keep=1)
    copy = learner.copying(narrow.segments())
    narrow.save(snapshot_of(replace_n(checkpoint, n=4), copy.parts(), IDENTITY, copy.segments()))
    assert narrow.segments() == set(narrow.load(4).segments)
    shutil.rmtree(tmp_path / "segments")
    with pytest.raises(SnapshotError, match="was deleted"):
        narrow.save(snapshot_of(replace_n(checkpoint, n=5), copy.parts(), IDENTITY, {}))


def test_labels_that_are_read_before_their_events_wait_for_them(open_log, tmp_path):
    """However small the memory for them is: no label is dropped while its event is there to be read."""
    log = open_log(**TOPICS)
    log.append(
        [NewRecord("labels", None, json.dumps({"id": f"e{i}", "label": "x"}).encode()) for i in range(600)]
    )
    events = [json.dumps({"id": f"e{i}", "text": "w1"}).encode() for i in reversed(range(600))]
    log.append([NewRecord("events", None, raw) for raw in events])
    learner = late_learner(report_every=10**6, memory=8 * 100_000)
    worker = new_worker(
        log, tmp_path, learner=learner, identity=IDENTITY, pace=Pace(commit_events=50, commit_seconds=0.0)
    )
    worker.start("a learner")
    worker.run(until_end=True)
    worker.close()
    assert (learner.model.n_events, learner.late.outcomes["unknown"]) == (600, 0)
