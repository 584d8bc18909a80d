"""Many labels, and long ones: memory, commits and records stay bounded, and no event stops the learner."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from unittest.mock import patch

import pytest

from streamnb.engine.ports import Partition, Record
from streamnb.errors import Fenced, LogError
from streamnb.event_logs.kafka.leader_election import Election
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.events import UNPUBLISHED
from streamnb.formats.codec import decode_metrics, decode_prediction
from streamnb.formats.journal_record import decode_journal
from streamnb.runtime.committer import journalled_prefix
from streamnb.runtime.worker_context import CommitPolicy
from tests.brokers import prefixed
from tests.cli.test_commands import streamnb
from tests.support.service import (
    TOPICS,
    kill,
    new_learner,
    new_worker,
    predictions,
    produce,
    raw_events,
    read_topic,
    records,
)

pytestmark = pytest.mark.thorough

LABELS = 120
LONG = [
    json.dumps({"id": f"e{i}", "text": "a word", "label": f"{i % LABELS:03}" + "é" * 400}).encode()
    for i in range(2 * LABELS)
]
MIXED = [raw for i, raw in enumerate(LONG) for raw in ([b"no event", raw] if i % 7 == 0 else [raw])]
LIMIT = 50_000
COMMIT_BYTES = 200_000


@pytest.fixture
def small(monkeypatch):
    """Bounds that so few labels reach."""
    monkeypatch.setattr("streamnb.engine.processing.admission._BYTES_AT_ONCE", 60_000)


def outputs_of(learner, raws, most_bytes):
    """The outputs of each turn, of records that are handed over again until they are taken."""
    left = records(raws)
    while left:
        before = learner.consumed
        yield learner.process(left, 1.0, max_bytes=most_bytes)
        taken = learner.consumed - before
        assert taken > 0, "or it would never end"
        left = left[taken:]


def size(outputs):
    return sum(len(output.value) for output in outputs if output.topic == "predictions")


@pytest.mark.parametrize("most_bytes", [1, 100_000, 10**9])
@pytest.mark.parametrize("more", [{}, {"max_bytes": LIMIT}, {"evidence": 2}, {"report_every": 50}])
@pytest.mark.usefixtures("small")
def test_outputs_are_bounded_before_they_are_made_and_the_cut_cannot_be_seen(most_bytes, more):
    """Predictions that name labels met on the way weigh more than those before: that is known beforehand."""
    whole, learner = (new_learner(report_seconds=1e9, **more) for _ in range(2))
    turns = list(outputs_of(learner, MIXED, most_bytes))
    (expected,) = outputs_of(whole, MIXED, 10**12)
    found = [output for turn in turns for output in turn]
    for topic in ("predictions", "dead-letters"):  # reports come at the ends of commits
        of_topic = [[one for one in outputs if one.topic == topic] for outputs in (found, expected)]
        assert sorted(of_topic[0], key=str) == sorted(of_topic[1], key=str)
        assert topic == "dead-letters" or of_topic[0] == of_topic[1]
    largest = max(map(len, (output.value for output in expected)))
    assert all(size(turn) <= most_bytes + max(60_000, largest) for turn in turns)
    assert {name: part.arrays.keys() for name, part in learner.parts().items()} == {
        name: part.arrays.keys() for name, part in whole.parts().items()
    }


@pytest.mark.usefixtures("small")
def test_a_prediction_too_large_for_its_record_is_a_dead_letter_and_its_event_is_learned():
    learner, unlimited = new_learner(max_bytes=LIMIT), new_learner()
    outputs, all_of_them = (one.process(records(LONG), 7.0) for one in (learner, unlimited))
    letters = [output for output in outputs if output.topic == "dead-letters"]
    assert letters
    sizes = {
        decode_prediction(output.value).id: len(output.key) + len(output.value)
        for output in all_of_them
        if output.topic == "predictions"
    }
    too_large = {name for name, n in sizes.items() if n > LIMIT}
    assert {decode_prediction(o.value).id for o in outputs if o.topic == "predictions"} == set(
        sizes
    ) - too_large
    by_id = {}
    for letter in letters:
        headers = {name: value.decode() for name, value in letter.headers}
        by_id[headers["id"]] = headers
        assert letter.value == LONG[int(headers["offset"])]
        assert headers["reason"] == UNPUBLISHED
        assert (headers["topic"], headers["partition"]) == ("events", "0")
        assert (int(headers["size"]), int(headers["limit"])) == (sizes[headers["id"]], LIMIT)
        assert "predictions.max_bytes" in headers["remedy"]
        assert "max.message.bytes of topic predictions" in headers["remedy"]
        assert float(headers["ts"]) == 7.0
    assert set(by_id) == too_large
    assert learner.model.n_events == len(LONG)
    assert learner.dead_letters == 0, "none was refused"
    assert learner.tally.dead_letters[UNPUBLISHED] == len(letters)
    assert learner.parts()["model"].meta == unlimited.parts()["model"].meta


@pytest.mark.parametrize("top", [0, 1000])
def test_long_words_of_the_evidence_are_left_out_before_the_prediction_is(top):
    """The strongest items that fit stay, and all probabilities."""
    words = {"a": "cash " + "x" * 30_000, "b": "noon " + "y" * 60_000}
    raws = [
        json.dumps({"id": f"w{i}", "text": words["ab"[i % 2]], "label": "ab"[i % 2]}).encode()
        for i in range(6)
    ]
    both = json.dumps({"id": "q", "text": " ".join(words.values())}).encode()
    learner, unlimited = (
        new_learner(evidence=5, top=top, max_bytes=n, report_seconds=1e9) for n in (LIMIT, 1 << 20)
    )
    for one in (learner, unlimited):
        one.process(records(raws), 1.0)
    (made,), (whole,) = (one.process(records([both]), 2.0) for one in (learner, unlimited))
    assert (made.topic, whole.topic) == ("predictions", "predictions")
    found, complete = decode_prediction(made.value), decode_prediction(whole.value)
    assert len(made.key) + len(made.value) <= LIMIT < len(whole.value)
    assert [len(one.value) < 40_000 for one in complete.evidence].count(False) == 1
    assert found.evidence == tuple(one for one in complete.evidence if len(one.value) < 40_000)
    assert found.evidence[0].log_odds
    assert (found.probabilities, found.rest) == (complete.probabilities, complete.rest)
    assert learner.tally.dead_letters[UNPUBLISHED] == 0


def test_a_report_too_large_for_its_record_leaves_out_what_grows_with_the_labels():
    learner = new_learner(max_bytes=LIMIT)
    outputs = learner.process(records(LONG[:90]), 7.0)  # of up to 100 labels the confusion is told
    report = decode_metrics(outputs[-1].value)
    assert len(outputs[-1].value) <= LIMIT
    assert (report.classes, report.labels, report.confusion, report.class_rates) == (90, (), (), ())
    assert report.cumulative.events == 90


@pytest.mark.usefixtures("small")
def test_labels_and_outputs_do_not_stop_a_learner_nor_its_replay(open_log, tmp_path):
    """Every event is predicted, or is told why not; in commits that are bounded; after a kill, too."""
    produce(open_log(**TOPICS), LONG)
    letters = "dead-letters"
    for kept in (False, True):
        worker = new_worker(
            open_log(),
            tmp_path / "s",
            learner=new_learner(max_bytes=LIMIT, dead_letters=letters),
            pace=CommitPolicy(commit_bytes=COMMIT_BYTES),
        )
        worker.start("the learner")
        worker.run(until_end=True)
        assert worker.learner.consumed == len(LONG) * (1 + kept)
        worker.close() if kept else kill(worker)
        if not kept:
            produce(open_log(), LONG)
    log = open_log()
    told = [dict(letter.headers)["id"].decode() for letter in read_topic(log, letters)]
    said = [one["id"] for one in predictions(log)]
    assert sorted(told + said) == sorted(2 * [f"e{i}" for i in range(len(LONG))])
    commits = [decode_journal(record.value) for record in read_topic(log, "journal")]
    assert sum(commit.events for commit in commits) == 2 * len(LONG)
    by_time = {commit.now: 0 for commit in commits}
    for record in read_topic(log, "predictions"):
        by_time[decode_prediction(record.value).ts] += len(record.value)
    assert max(by_time.values()) <= COMMIT_BYTES + 60_000 + LIMIT
    assert len(commits) < len(LONG), "and they are not cut into single records"


@pytest.mark.usefixtures("small")
def test_what_a_commit_had_no_room_for_is_told_as_waiting_and_read_again_after_a_seek(open_log, tmp_path):
    produce(open_log(**TOPICS), LONG)
    worker = new_worker(
        open_log(), tmp_path / "s", pace=CommitPolicy(commit_events=len(LONG), commit_bytes=COMMIT_BYTES)
    )
    worker.start("the learner")
    for _ in range(50):  # a first request may come back empty
        worker._commit(worker._reader.read())
        if worker._reader.left:
            break
    worker._committer.await_commit()
    done = worker.learner.consumed
    assert 0 < done < len(LONG)
    seen = []
    with patch.object(worker.context.sensor, "observed", lambda lag, _: seen.append(dict(lag))):
        worker._looked = worker._listed = float("-inf")
        worker._look_around()
    assert seen == [{Partition(worker._reader.left[0].partition.topic, 0): len(LONG) - done}]
    with patch.object(type(worker.checkpoint), "with_new_partitions", lambda self, _: self):
        found = [*worker.checkpoint.positions, Partition("events", 7)]
        with patch("streamnb.runtime.surveillance.partitions_of", lambda *_: found):
            worker._topics.take_new_partitions()
    worker.run(until_end=True)
    worker.close()
    assert [one["id"] for one in predictions(open_log())] == [f"e{i}" for i in range(len(LONG))]


def test_a_journal_record_names_a_bounded_number_of_slices():
    both = [Record(Partition("t", i % 2), i, None, b"", 0.0) for i in range(9000)]
    first = both[: journalled_prefix(both)]
    assert sum(a.partition != b.partition for a, b in pairwise(first)) < 2000 <= len(first)
    one = [Record(Partition("t", i // 4500), i, None, b"", 0.0) for i in range(9000)]
    assert journalled_prefix(one) == 9000


def test_the_commands_take_a_dead_letter_in_place_of_a_prediction(tmp_path):
    """`verify` misses none, also beside another limit; `evaluate` tells them."""
    (tmp_path / "long.jsonl").write_bytes(b"\n".join(LONG) + b"\n")
    flags = [
        "--log",
        "sqlite:///long.db",
        "--set",
        "predictions.top=0",
        "--set",
        f"predictions.max_bytes={LIMIT}B",
        "--set",
        "http.listen=",
    ]
    streamnb("replay", "long.jsonl", *flags, cwd=tmp_path)
    streamnb("run", "--until-end", *flags, cwd=tmp_path)
    for limit in (LIMIT, 0, 10_000):
        said = streamnb("verify", *flags, "--set", f"predictions.max_bytes={limit}B", cwd=tmp_path).stdout
        assert f"{len(LONG)} of {len(LONG)} events, each once" in said
    with SqliteLog(tmp_path / "long.db") as log:
        letters = len(read_topic(log, "dead-letters"))
    said = streamnb("evaluate", "long.jsonl", *flags[2:], cwd=tmp_path).stdout
    assert letters > 0
    assert re.search(rf"{UNPUBLISHED} +\$ +{letters} ", said)


# -- where a topic takes less ---------------------------------------------------------------------------------

only_kafka = pytest.mark.parametrize("open_log", ["kafka", "librdkafka"], indirect=True)


@pytest.fixture
def narrow(monkeypatch):
    """Topics that take 20 kB at once."""
    monkeypatch.setattr(prefixed, "LARGEST", 20_000)


@only_kafka
@pytest.mark.usefixtures("narrow")
def test_a_learner_goes_by_what_its_topics_take(open_log, tmp_path):
    """Neither large predictions nor many small ones at once are refused."""
    log = open_log(**TOPICS)
    few = LONG[:60] + raw_events(3000)
    log.sizes(["events"])
    for start in range(0, len(few), 50):
        produce(log, few[start : start + 50])
    log = open_log()
    most = min(log.sizes(["predictions", "metrics", "dead-letters", "journal"]).values())
    assert 18_000 < most < 20_000
    learner = new_learner(max_bytes=most, dead_letters="dead-letters")
    worker = new_worker(log, tmp_path / "s", learner=learner)
    worker.start("narrow")
    worker.run(until_end=True)
    worker.close()
    found = [len(read_topic(open_log(), topic)) for topic in ("predictions", "dead-letters")]
    assert sum(found) == len(few)
    assert min(found) > 0


@only_kafka
@pytest.mark.usefixtures("narrow")
def test_the_true_cause_is_told_where_the_election_is_lost_meanwhile(open_log, tmp_path):
    producer = open_log(**TOPICS)
    for raw in LONG[:60]:
        produce(producer, [raw])
    worker = new_worker(open_log(), tmp_path / "s", pace=CommitPolicy(commit_seconds=2.0))
    worker.start("large")

    def lost(_):
        raise Fenced("lost the election")

    with (
        patch.object(Election, "prove", lost),
        pytest.raises(
            LogError,
            match=r"larger than its topic's max.message.bytes.* bytes for topic .*(predictions|metrics)",
        ),
    ):
        worker.run()
    worker.close()
