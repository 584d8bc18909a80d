"""A learner on a log whose labels come on a topic of their own: commits, recovery, snapshots, changes."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections import Counter
from dataclasses import replace as replace_n

import pytest
from msgspec.structs import replace

from streamnb.engine.journal.checkpoint import Checkpoint, snapshot_of
from streamnb.engine.journal.job_identity import JobIdentity
from streamnb.engine.labels import delayed_labels, label_application
from streamnb.engine.labels.model_updater import ModelUpdater
from streamnb.engine.labels.revoked_intervals import RevokedIntervals
from streamnb.engine.labels.source_labels import SourceLabel
from streamnb.engine.ports import NewRecord
from streamnb.engine.retraining.log_retraining import Retraining, RetrainingSource
from streamnb.errors import JournalError, SnapshotError
from streamnb.formats import codec
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.runtime import factories, label_back_pressure
from streamnb.runtime import worker as worker_module
from streamnb.runtime.worker_context import CommitPolicy
from streamnb.verification.check_results import Outcome
from tests.engine.retraining.test_log_retraining import undisturbed
from tests.support.late import (
    EVENTS,
    LABELS,
    Stream,
    counts_of,
    effective_labels,
    late_learner,
    learned,
    random_stream,
    scores_of,
)
from tests.support.service import digests, many, model_digest, new_worker, read_topic
from tests.support.topics_of_logs import add_partitions, trim
from tests.support.verifying import configured, learn, told, verified
from tests.support.verifying import new_worker as new_worker_of

pytestmark = pytest.mark.early(47)

TOPICS = {"events": 1, "labels": 1, "predictions": 1, "metrics": 1, "dead_letters": 1, "journal": 1}
IDENTITY = JobIdentity(("events", "labels"), "journal", "c0ffee", {"python": "3"})


def start(log, folder, **options):
    worker = new_worker(
        log,
        folder,
        learner=options.pop("learner", None) or late_learner(report_every=10**6),
        identity=IDENTITY,
        store=many,
        pace=CommitPolicy(
            commit_events=7, commit_seconds=0.0, snapshot_events=options.pop("snapshot_events", 30)
        ),
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
    scores, told = worker.learner.late.scoring.scores.cumulative(), scores_of(served, truths)
    assert (scores.events, scores.accuracy * scores.events) == (told["events"], told["right"])
    assert scores.log_loss * scores.events == pytest.approx(told["loss"], rel=1e-12)
    again.close()


FLAGS = ["topics.labels=labels", "labels.window=1000d", "model.kind=naive_bayes"]


def withdrawn_stream(seed):
    stream = random_stream(random.Random(seed), 60, 90)
    stream.verdict("e1", "far", "b", ts=time.time() + 7 * 86400.0)
    stream.verdict("e1", "x", "b")
    stream.retract("a")
    return stream.records


def test_such_a_log_is_verified_and_what_is_wrong_is_found(open_log, tmp_path):
    log = open_log(**TOPICS)
    append(log, withdrawn_stream(5))
    learn(log, tmp_path / "kept", *FLAGS)
    outcome = verified(open_log(), tmp_path / "kept", *FLAGS)
    assert told(outcome) == told(outcome, Outcome.UNCHECKED) == []
    assert outcome.compared.counts > 50
    assert outcome.compared.moments == 3
    taken_back = [text for check, text in told(outcome, Outcome.OK) if " taken back, as" in text]
    assert [int(text.split()[0]) > 10 for text in taken_back] == [True]
    folder = many(tmp_path / "kept")
    newest = folder.newest().snapshot
    model = newest.parts["model"]
    weights = model.arrays["class_weights"] + [1024, 0, 0]
    spoiled = model._replace(arrays={**model.arrays, "class_weights": weights})
    folder.save(replace(newest, parts={**newest.parts, "model": spoiled}))
    found = told(verified(open_log(), tmp_path / "kept", *FLAGS))
    assert {check for check, _ in found} == {"recount", "snapshots", "replay"}
    assert any("weight" in text and "counted" in text for check, text in found if check == "recount")


def by_the_alphabet(said, more):
    """What is said once more is said; of one source and time the label counts that is last in the alphabet."""
    for i, one in enumerate(said):
        if one.source == more.source:
            is_later = (more.time, more.label or "") > (one.time, one.label or "")
            return (*said[:i], more, *said[i + 1 :]) if is_later else said
    return (*said, more)


@pytest.mark.thorough_for("kafka", but="kafka-ranks")
@pytest.mark.parametrize(
    ("of", "name", "wrong"),
    [
        (ModelUpdater, "learn_each", lambda right: lambda *given: (right(*given), right(*given))),
        (ModelUpdater, "_queue", lambda right: lambda *given: given[-1] == "unlearn" or right(*given)),
        (RevokedIntervals, "cover", lambda _: lambda *_: False),
        (delayed_labels, "effective", lambda right: lambda said, _: right(said, {"b": 0, "event": 5})),
        (label_application, "merged", lambda right: lambda said, one: said or right(said, one)),
        (label_application, "merged", lambda _: by_the_alphabet),
        (SourceLabel, "order", lambda _: property(lambda one: (one.time, one.partition, -one.offset))),
        (codec, "refuse_label_ahead", lambda _: lambda *_: None),
    ],
    ids=[
        "taught twice",
        "never unlearned",
        "a withdrawn source speaks",
        "ranks",
        "the first word holds",
        "the alphabet decides",
        "the first of equal times holds",
        "a time far ahead is taken",
    ],
)
def test_what_a_replay_would_do_again_is_found_by_the_recount(
    open_log, tmp_path, monkeypatch, of, name, wrong
):
    """A learner that is wrong in the same way each time."""
    log = open_log(**TOPICS)
    append(log, withdrawn_stream(5))
    log.append([NewRecord("events", b"tie", b'{"id": "tie", "text": "free cash"}')])
    same_time = [  # on both logs; the label in force is neither the first nor the last by the alphabet
        NewRecord("labels", b"tie", json.dumps({"id": "tie", "label": label, "ts": 1.7e9}).encode())
        for label in ("ham", "spam", "news")
    ]
    log.append(same_time)
    monkeypatch.setattr(of, name, wrong(getattr(of, name)))
    learn(log, tmp_path, *FLAGS)
    found = {check for check, _ in told(verified(open_log(), tmp_path, *FLAGS))}
    letters = {"dead letters"} if name == "refuse_label_ahead" else set()
    assert found == {"recount", "snapshots"} | letters


def lines(rng, ids, ts=None):
    """Lines of a file of labels, as `streamnb label --file` writes them; several say something of each event."""
    said = [(name, label) for name in ids for label in rng.sample(["spam", "ham", "news", None], k=3)]
    rng.shuffle(said)
    values = [
        json.dumps({"id": name, "label": label} | ({} if ts is None else {"ts": ts})) for name, label in said
    ]
    return [
        NewRecord("labels", name.encode(), value.encode())
        for (name, _), value in zip(said, values, strict=True)
    ]


def last_lines(given):
    """id -> the label of its last line."""
    last = {one.key.decode(): json.loads(one.value)["label"] for one in given}
    return {name: label for name, label in last.items() if label}


def held(log):
    records = [*read_topic(log, "events"), *read_topic(log, "labels")]
    return {name: label for name, (label, _) in effective_labels(records).items()}


def test_the_last_line_of_a_file_holds_whatever_the_clock_says(open_log, tmp_path):
    """Also of lines of one time, of lines that are sent again, and after partitions were added."""
    log, rng, ids = open_log(**(TOPICS | {"labels": 3})), random.Random(4), [f"e{i}" for i in range(60)]
    append(log, random_stream(rng, 60, 0, labelled=0.0).records)
    at = time.time() + 60.0  # later than what lines without a time are said at
    for step, given in enumerate([lines(rng, ids), lines(rng, ids, at), lines(rng, ids, at)]):
        log.append(given)
        if step == 1:
            log.append(given)  # as after an answer that did not arrive
        learn(log, tmp_path / "kept", *FLAGS)
        log = open_log()
        assert held(log) == last_lines(given)
    add_partitions(log, "labels", 4)
    moved = lines(rng, ids, at)
    log.append(moved)
    learn(log, tmp_path / "kept", *FLAGS)
    truths = held(open_log())
    last, before = last_lines(moved), last_lines(given)
    assert {truths.get(name) == last.get(name) for name in ids} == {
        True,
        False,
    }  # some go to a lesser partition
    assert all(truths.get(name) in {last.get(name), before.get(name)} for name in ids)
    worker = new_worker_of(open_log(), tmp_path / "never kept one", *FLAGS)
    worker.start("another")
    labels = Counter(truths.values())
    assert {name: n for name, n in worker.learner.model.class_weights.items() if n} == labels
    worker.close()
    assert told(verified(open_log(), tmp_path / "kept", *FLAGS)) == []
    log, config = open_log(), configured(*FLAGS)
    where = RetrainingSource(
        log, many(tmp_path / "kept"), lambda: factories.learner(config), factories.identity(config)
    )
    records = [*read_topic(log, "events"), *read_topic(log, "labels")]
    expected = undisturbed(records, effective_labels(records), *FLAGS[2:])
    assert Retraining(where).retrained().digest == model_digest(expected)


@pytest.mark.thorough_for("kafka-semi_supervised")
@pytest.mark.parametrize("kind", ["hypotheses", "semi_supervised"])
def test_what_is_taught_again_is_told(open_log, tmp_path, kind):
    log = open_log(**TOPICS)
    append(log, withdrawn_stream(5))
    flags = [*FLAGS[:2], f"model.kind={kind}"] if kind != "hypotheses" else FLAGS[:2]
    learn(log, tmp_path, *flags)
    outcome = verified(open_log(), tmp_path, *flags)
    assert told(outcome) == []
    assert any(" taught again" in text for _, text in told(outcome, Outcome.UNCHECKED))
    assert (outcome.compared is None) == (kind != "hypotheses")


@pytest.mark.thorough_for("kafka")
def test_corrections_weigh_no_hypotheses(open_log, tmp_path):
    log, flags, losses = open_log(**TOPICS), FLAGS[:2], []
    events = [
        NewRecord(
            "events", None, json.dumps({"id": f"e{i}", "text": f"w{i % 3} x", "label": "abc"[i % 3]}).encode()
        )
        for i in range(30)
    ]
    for label in (None, "b", "c"):
        said = [
            NewRecord("labels", None, json.dumps({"id": f"e{i}", "label": label}).encode()) for i in range(30)
        ]
        log.append(events if label is None else said)
        worker = new_worker_of(open_log(), tmp_path / "kept", *flags)
        worker.start("a learner")
        worker.run(until_end=True)
        worker.close()
        losses.append(-worker.learner.model.posterior.log_evidence)
    assert losses[0] == losses[1] == losses[2] > 0.0
    again = new_worker_of(open_log(), tmp_path / "never kept one", *flags)
    again.start("another")
    assert digests(again.learner) == digests(worker.learner)
    again.close()
    assert told(verified(open_log(), tmp_path / "kept", *flags)) == []


@pytest.mark.thorough_for("kafka")
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
    assert outcome.compared.counts > 50
    with pytest.raises(JournalError, match=r"topics\.labels was"):
        learn(open_log(), tmp_path / "kept", "model.kind=naive_bayes")


def test_a_topic_that_is_added_is_read_from_the_first_record_that_is_kept(open_log, tmp_path):
    stream = random_stream(random.Random(8), 40, 60, labelled=0.5).records
    log = open_log(**TOPICS)
    append(log, stream)
    trim(log, LABELS, 7)
    learn(log, tmp_path / "kept", "model.kind=naive_bayes")
    learn(open_log(), tmp_path / "kept", "topics.labels=labels", "model.kind=naive_bayes")
    outcome = verified(open_log(), tmp_path / "kept", "topics.labels=labels", "model.kind=naive_bayes")
    assert told(outcome) == []


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


def test_a_withdrawal_is_replayed_step_by_step(open_log, tmp_path, monkeypatch):
    """Each commit of the journal says how many steps were made: between them events were predicted.

    Where no record comes, none is waited for.
    """
    log = open_log(**TOPICS)
    stream = Stream()
    for i in range(700):
        stream.event(f"e{i}", "w1 w2")
        stream.verdict(f"e{i}", "xy"[i % 2], "bot" if i % 3 else "a")
    stream.retract("bot")
    for i in range(30):
        stream.event(f"f{i}", "w1")
    append(log, stream.records)
    worker = start(log, tmp_path / "a", snapshot_events=10**6)
    worker.context.policy = replace_n(worker.context.policy, commit_seconds=60.0)
    waited, poll = [], log.poll

    def polled(most, seconds):
        waited.append((worker.learner.has_work, seconds > 0))
        return poll(most, seconds)

    monkeypatch.setattr(log, "poll", polled)
    worker.run(until_end=True)
    assert not worker.learner.has_work
    assert set(waited) == {(True, False), (False, True)}
    assert worker.learner.model.n_events == 234
    worker.close()
    again = start(open_log(), tmp_path / "never kept one")
    assert digests(again.learner) == digests(worker.learner)
    again.close()


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
        log,
        tmp_path,
        learner=learner,
        identity=IDENTITY,
        pace=CommitPolicy(commit_events=50, commit_seconds=0.0),
    )
    worker.start("a learner")
    worker.run(until_end=True)
    worker.close()
    assert (learner.model.n_events, learner.late.outcomes["unknown"]) == (600, 0)


@pytest.mark.thorough_for("kafka")
@pytest.mark.parametrize("ends", ["busy", "hanging", "marked"])
def test_a_stream_that_never_stands_still_does_not_starve_labels(open_log, tmp_path, monkeypatch, ends):
    """Most are of events that never come; or of one partition nothing can be read, as in a long transaction.

    Or it ends with the marker of one, which is lag for a moment, and no record.
    """
    log = open_log(**TOPICS)
    raws = [json.dumps({"id": f"never{i}", "label": "x"}).encode() for i in range(900)]
    log.append([NewRecord("labels", None, raw) for raw in raws])
    learner = late_learner(report_every=10**6, memory=8 * 100_000)
    worker = new_worker(
        log,
        tmp_path,
        learner=learner,
        identity=IDENTITY,
        pace=CommitPolicy(commit_events=50, commit_seconds=0.0),
    )
    worker.start("a learner")
    poll, lag, polls = log.poll, log.lag, []

    def poll_and_append(limit, seconds):
        polls.append(limit)
        if ends == "busy" and worker.checkpoint.positions[LABELS] < 900 and learner.consumed < 20_000:
            event = json.dumps({"id": f"e{len(polls)}", "text": "w1"}).encode()
            log.append([NewRecord("events", None, event)] * (200 - lag().get(EVENTS, 0)))
        return poll(limit, seconds)

    monkeypatch.setattr(log, "poll", poll_and_append)
    monkeypatch.setattr(worker_module, "_LOOK_SECONDS", 0.01)
    if ends == "hanging":  # from the moment on that labels would wait, else it may be known to hang by then
        monkeypatch.setattr(label_back_pressure, "_STUCK_SECONDS", 0.2)

        def hangs():
            return learner.late.fullness > 0.5 and worker.checkpoint.positions[LABELS] < 900

        monkeypatch.setattr(log, "lag", lambda: lag() | ({EVENTS: 9} if hangs() else {}))
    if ends == "marked":
        log.append([NewRecord("events", None, b'{"id": "e1", "text": "w1"}')] * 4000)
        monkeypatch.setattr(log, "lag", lambda: {place: n and n + 1 for place, n in lag().items()})
    waited = set()
    look = worker._look_around
    monkeypatch.setattr(worker, "_look_around", lambda: (waited.add(worker._back_pressure.is_paused), look()))
    worker.run(until_end=True)
    assert True in waited or ends == "marked"  # which a broker's client may read first
    assert worker.checkpoint.positions[LABELS] == 900
    assert learner.consumed < 15_000  # before the stream stood still
    worker.close()
