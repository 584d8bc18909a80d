"""Verification of what is right: every kind of life of a model is found to be as it should be."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb.engine.journal.journal_entries import roll_back
from streamnb.engine.ports import NewRecord, Partition
from streamnb.errors import LogError
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.runtime import factories
from streamnb.runtime.worker_context import CommitPolicy
from streamnb.verification.check_results import Outcome
from tests.cli.test_commands import answer, streamnb
from tests.support.malformed import MALFORMED
from tests.support.service import TOPICS, produce, raw_events, read_topic
from tests.support.topics_of_logs import delete_topic, trim
from tests.support.verifying import PACE, configured, learn, new_worker, told, verified

pytestmark = pytest.mark.thorough

RAWS = raw_events(300, seed=5)
EVENTS, JOURNAL, PREDICTIONS = (Partition(name, 0) for name in ("events", "journal", "predictions"))

DECLARED = """
[model]
kind = "naive_bayes"

[[attributes]]
name = "text"
kind = "text"
path = "$.text"

[[attributes]]
name = "subject"
kind = "text"
path = "$.features.subject"
event_model = "bernoulli"

[[attributes]]
name = "colour"
kind = "nominal"
path = "$.features.colour"

[[attributes]]
name = "x"
kind = "continuous"
path = "$.features.x"
"""


def batched(items, n):
    return (items[i : i + n] for i in range(0, len(items), n))


def assert_clean(outcome, events, commits=None):
    assert told(outcome) == []
    assert outcome.findings.is_clean
    assert outcome.events == events
    assert commits in {None, outcome.commits}
    assert outcome.compared.counts > 0
    assert outcome.compared.moments > 0


def unchecked(outcome):
    return [check for check, _ in told(outcome, Outcome.UNCHECKED)]


def test_a_stream_of_mixed_and_malformed_events_is_clean(open_log, tmp_path):
    """Three partitions each, and snapshots on the way, each of which is compared."""
    log = open_log(**{**TOPICS, "events": 3, "predictions": 3, "dead_letters": 2})
    raws = RAWS + [case.raw for case in MALFORMED[:20]]
    log.append([NewRecord("events", b"%d" % i, raw) for i, raw in enumerate(raws)])
    file = tmp_path / "declared.toml"
    file.write_text(DECLARED)
    learn(log, tmp_path / "snapshots", file=file)
    outcome = verified(open_log(), tmp_path / "snapshots", file=file)
    assert_clean(outcome, 320)
    assert unchecked(outcome) == []
    fine = told(outcome, Outcome.OK)
    assert sum(check == "snapshots" for check, _ in fine) >= 3
    assert ("predictions", "300 of 300 events, each once") in fine
    assert ("dead letters", "20 of 20 refused records, each once") in fine


def test_pruning_is_followed(open_log, tmp_path):
    log = open_log(**TOPICS)
    produce(log, RAWS)
    flags = ("model.prune.every=50", "model.prune.min_count=2.0", "model.prune.drop_most_frequent=1")
    flags += ("model.prune.max_attributes=20",)
    learn(log, tmp_path / "snapshots", *flags)
    worker = new_worker(open_log(), tmp_path / "snapshots", *flags)
    worker.start("test")
    learned = worker.learner.model
    assert len(learned.statistics.stop_words()) == learned.n_events // 50
    worker.close()
    assert_clean(verified(open_log(), tmp_path / "snapshots", *flags), 300)


def test_a_configuration_that_changes_applies_from_there_on(open_log, tmp_path):
    """Another field is the id, smaller events are refused, words are pruned, predictions go elsewhere."""
    log = open_log(**TOPICS, answers=1)
    renamed = [json.dumps({"name": f"n{i}", **json.loads(raw)}).encode() for i, raw in enumerate(RAWS)]
    produce(log, renamed[:150])
    single = "model.kind=naive_bayes"
    learn(log, tmp_path / "snapshots", single)
    limit = sorted(map(len, renamed))[240]
    changed = (single, "events.id=$.name", f"events.max_bytes={limit}B", "topics.predictions=answers")
    changed += ("model.prune.every=20", "model.prune.drop_most_frequent=1", "model.alpha=0.5")
    produce(open_log(), renamed[150:])
    learn(open_log(), tmp_path / "snapshots", *changed)
    assert read_topic(open_log(), "answers")
    assert read_topic(open_log(), "dead-letters")
    assert_clean(verified(open_log(), tmp_path / "snapshots", *changed), 300)
    early = verified(open_log(), tmp_path / "snapshots", single)  # by the journal, not by what is said today
    assert_clean(early, 300)
    assert any("model.alpha" in text for check, text in told(early, Outcome.OK) if check == "configuration")


def test_what_was_rolled_back_is_not_counted_and_its_outputs_are(open_log, tmp_path):
    log = open_log(**TOPICS)
    produce(log, RAWS[:150])
    worker = new_worker(log, tmp_path / "snapshots")
    worker.start("test")
    worker.run(until_end=True)
    roll_back(log, worker.checkpoint, 4, worker.context.identity, 1_790_009_000.0)
    worker.close()  # with a snapshot of what was rolled back
    produce(open_log(), RAWS[150:])
    learn(open_log(), tmp_path / "snapshots")
    outcome = verified(open_log(), tmp_path / "snapshots")
    assert_clean(outcome, 120 + 150)  # records 1 to 4 of the first run, and all of the second
    rolled_back = ("snapshots", "the snapshot at journal record 5: what it holds was rolled back")
    not_replayed = (
        "outputs",
        "31 records in addition to a replay: commits that were rolled back are not replayed",
    )
    assert told(outcome, Outcome.UNCHECKED) == [rolled_back, not_replayed]
    assert ("predictions", "300 of 300 events, each once") in told(outcome, Outcome.OK)


def test_an_accepted_loss_is_told_and_is_no_fault(open_log, tmp_path):
    log = open_log(**TOPICS)
    produce(log, RAWS[:90])
    learn(log, tmp_path / "snapshots")
    produce(open_log(), RAWS[90:200])
    earliest = open_log().offsets(EVENTS)[1]
    produce(open_log(), RAWS[200:])
    trim(open_log(), EVENTS, earliest)
    learn(open_log(), tmp_path / "snapshots", accepts_loss=True)
    outcome = verified(open_log(), tmp_path / "snapshots")
    assert_clean(outcome, 100)
    losses = [text for check, text in told(outcome, Outcome.OK) if check == "accepted loss"]
    assert len(losses) == 1
    assert "events/0: 110 offsets from 90 on were gone" in losses[0]
    assert set(unchecked(outcome)) >= {"recount", "slices", "replay"}


def test_a_topic_made_anew_is_told_and_is_no_fault(tmp_path):
    with SqliteLog(tmp_path / "log.db", session_timeout=5.0) as log:
        for name, partitions in TOPICS.items():
            log.create_topic(name.replace("_", "-"), partitions)
        produce(log, RAWS[:90])
        learn(log, tmp_path / "snapshots")
    with SqliteLog(tmp_path / "log.db", session_timeout=5.0) as log:
        delete_topic(log, "events")
        log.create_topic("events", 1)
        produce(log, RAWS[90:])
        learn(log, tmp_path / "snapshots", accepts_loss=True)
    with SqliteLog(tmp_path / "log.db", session_timeout=5.0) as log:
        outcome = verified(log, tmp_path / "snapshots")
        assert_clean(outcome, 210)
        assert any(
            "recreated" in text for check, text in told(outcome, Outcome.OK) if check == "accepted loss"
        )


@pytest.mark.parametrize("trimmed", ["events", "journal", "journal to a snapshot", "predictions", "all"])
def test_what_retention_took_is_said_to_be_unchecked(open_log, tmp_path, trimmed):
    log = open_log(**TOPICS)
    produce(log, RAWS)
    learn(log, tmp_path / "snapshots")
    log = open_log()
    journal = {record_n: r.offset for record_n, r in enumerate(read_topic(log, "journal"))}
    cuts = {
        "events": (EVENTS, read_topic(log, "events")[150].offset),
        "journal": (JOURNAL, journal[4]),  # of record 5 nothing says how it was read
        "journal to a snapshot": (JOURNAL, journal[6]),
        "predictions": (PREDICTIONS, read_topic(log, "predictions")[100].offset),
    }
    for name, (partition, before) in cuts.items():
        if trimmed == name or (trimmed == "all" and name != "journal to a snapshot"):
            trim(log, partition, before)
    outcome = verified(open_log(), tmp_path / "snapshots")
    begins = 0 if trimmed == "predictions" else 180
    assert_clean(outcome, 300 - begins)
    expected = {
        "events": {"recount", "slices", "replay", "predictions", "dead letters", "outputs"},
        "predictions": {"predictions", "outputs"},
    }.get(trimmed, {"journal", "recount", "replay", "predictions", "dead letters", "outputs"})
    assert set(unchecked(outcome)) - {"snapshots", "slices"} == expected - {"slices"}
    compared = {"predictions": 180, "journal to a snapshot": 120}.get(trimmed, 150)
    found = [text for check, text in told(outcome, Outcome.OK) if check == "predictions"]
    assert found == [f"{compared} of {compared} events, each once"]


def test_a_learner_may_run_meanwhile(open_log, tmp_path):
    """It commits, keeps snapshots and refuses records while all is being read."""
    log = open_log(**TOPICS)
    produce(log, RAWS[:100])
    worker = new_worker(log, tmp_path / "snapshots", pace=CommitPolicy(commit_events=10, snapshot_events=20))
    worker.start("test")
    worker.run(until_end=True)
    producer, rest = open_log(), list(batched(RAWS[100:], 10))

    class Meanwhile:
        """Before each read of the verification, the journal's too, the learner commits, while there are events."""

        def __init__(self, log):
            self._log = log

        def __getattr__(self, name):
            return getattr(self._log, name)

        def read(self, partition, offset, limit):
            if rest:
                produce(producer, [b"{", *rest.pop()])
                worker.run(until_end=True)
            return self._log.read(partition, offset, limit)

    outcome = verified(Meanwhile(open_log()), tmp_path / "snapshots")
    assert_clean(outcome, 111, 12)  # what was committed while it read how the log was begun is in it
    assert unchecked(outcome) == []
    assert worker.learner.consumed > 130
    worker.close()
    assert_clean(verified(open_log(), tmp_path / "snapshots"), worker.learner.consumed)


def test_nothing_is_written_and_nothing_acquired(open_log, tmp_path):
    class Reading:
        def __init__(self, log):
            self._log = log

        def __getattr__(self, name):
            assert name in {"read", "offsets", "offset_ranges", "partitions", "topic_id"}
            return getattr(self._log, name)

    log = open_log(**TOPICS)
    produce(log, RAWS[:50])
    learn(log, tmp_path / "snapshots")
    assert_clean(verified(Reading(open_log()), tmp_path / "snapshots"), 50)


def test_other_models_predictions_do_not_count(open_log, tmp_path):
    log = open_log(**TOPICS)
    produce(log, RAWS[:50])
    learn(log, tmp_path / "snapshots")
    other = read_topic(open_log(), "predictions")[3]
    value = other.value.replace(b'"name":"default"', b'"name":"other"')
    open_log().append([NewRecord("predictions", other.key, value)])
    assert_clean(verified(open_log(), tmp_path / "snapshots"), 50)


STREAM = st.lists(st.one_of(st.sampled_from(RAWS), st.sampled_from([b"{", b"[]", b""])), max_size=40)


@settings(max_examples=25)
@given(
    STREAM,
    st.integers(1, 9),
    st.integers(1, 30),
    st.sampled_from([0, 3, 7]),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_random_streams_are_clean(raws, commit, snapshot, prune, partitions, lives):
    flags = (f"model.prune.every={prune}", "model.prune.min_count=2.0", "model.prune.drop_most_frequent=1")
    with tempfile.TemporaryDirectory() as folder:
        snapshots = Path(folder) / "snapshots"
        for life in range(lives):
            with SqliteLog(Path(folder) / "log.db", session_timeout=5.0) as log:
                for name, count in {**TOPICS, "events": partitions}.items():
                    log.create_topic(name.replace("_", "-"), count)
                part = raws[life::lives]
                log.append([NewRecord("events", b"%d" % i, raw) for i, raw in enumerate(part)])
                learn(
                    log, snapshots, *flags, pace=CommitPolicy(commit_events=commit, snapshot_events=snapshot)
                )
        with SqliteLog(Path(folder) / "log.db", session_timeout=5.0) as log:
            outcome = verified(log, snapshots, *flags)
            assert told(outcome) == []
            assert told(outcome, Outcome.UNCHECKED) == []
            assert outcome.events == len(raws)


def test_the_command_says_what_it_verified(streams, tmp_path):
    flags = ["--log", "sqlite:///sms.db", "--set", "metrics.every=0s", "--set", "http.listen="]
    streamnb("replay", streams / "sms_spam.jsonl.gz", *flags, cwd=tmp_path)
    streamnb("run", "--until-end", "--set", "commit.events=1000", *flags, cwd=tmp_path)
    done = streamnb("verify", *flags, cwd=tmp_path)
    assert done.stderr == ""
    said = answer("verify", *flags, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == (
        "verified: 5,574 events in 6 commits, counted once each; 19,684 counts and 0 moments equal"
    )
    assert {key: said[key] for key in ("verified", "journal", "events", "commits", "counts", "moments")} == {
        "verified": True,
        "journal": 6,
        "events": 5574,
        "commits": 6,
        "counts": 19684,
        "moments": 0,
    }
    assert {finding["verdict"] for finding in said["findings"]} == {"ok"}


def test_the_command_says_what_differs_and_where(tmp_path):
    with gzip.open(tmp_path / "events.jsonl.gz", "wb") as lines:
        lines.writelines(raw + b"\n" for raw in RAWS)
    flags = ["--log", "sqlite:///log.db", "--set", "commit.events=100", "--set", "http.listen="]
    streamnb("replay", "events.jsonl.gz", *flags, cwd=tmp_path)
    streamnb("run", "--until-end", *flags, cwd=tmp_path)
    import sqlite3

    db = sqlite3.connect(tmp_path / "log.db")
    (place,) = db.execute("SELECT place FROM records WHERE value = ?", (RAWS[150],)).fetchone()
    db.execute("UPDATE records SET value = ? WHERE place = ?", (RAWS[151], place))
    db.commit()
    db.close()
    done = streamnb("verify", *flags, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert "journal record 2: events/0 from offset 100 to 200 holds other records" in done.stdout
    assert "'e150' is missing" not in done.stdout  # its prediction is there; the event is not
    assert "'e150' is there 1 times more than processed" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("differs: ")
    said = answer_of_failed(flags, tmp_path)
    (found,) = [f for f in said["findings"] if f["check"] == "slices"]
    assert found["place"] == {"record": 2, "topic": "events", "partition": 0, "offset": 100}
    assert not said["verified"]


def answer_of_failed(flags, tmp_path):
    return json.loads(streamnb("verify", "--json", *flags, check=False, cwd=tmp_path).stdout)


@pytest.mark.parametrize("what", ["no log", "an empty log", "a damaged snapshot", "no journal left"])
def test_what_cannot_be_read_is_said_without_a_traceback(tmp_path, what):
    flags = ["--log", "sqlite:///log.db", "--set", "http.listen="]
    if what != "no log":
        (tmp_path / "events.jsonl").write_bytes(b"\n".join(RAWS[:50]))
        streamnb("replay", "events.jsonl", *flags, cwd=tmp_path)
    if what in {"a damaged snapshot", "no journal left"}:
        streamnb("run", "--until-end", *flags, cwd=tmp_path)
    if what == "a damaged snapshot":
        (path,) = (path for path in tmp_path.rglob("*.snb"))
        path.write_bytes(path.read_bytes()[:-1])
    if what == "no journal left":
        with SqliteLog(tmp_path / "log.db") as log:
            trim(log, JOURNAL, log.offsets(JOURNAL)[1])
    done = streamnb("verify", *flags, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    said = {
        "no log": "there is no log",
        "an empty log": "nothing has been learned yet",
        "a damaged snapshot": "no snapshot can be read",
        "no journal left": "the journal is empty",
    }
    assert said[what] in done.stdout + done.stderr


def test_a_damaged_snapshot_behind_which_is_a_good_one_is_told(tmp_path):
    (tmp_path / "events.jsonl").write_bytes(b"\n".join(RAWS))
    keys = ("commit.events=50", "snapshots.every_events=100", "http.listen=")
    flags = ["--log", "sqlite:///log.db", *(word for key in keys for word in ("--set", key))]
    streamnb("replay", "events.jsonl", *flags, cwd=tmp_path)
    streamnb("run", "--until-end", *flags, cwd=tmp_path)
    path = max(tmp_path.rglob("*.snb"))
    path.write_bytes(path.read_bytes()[:-1])
    said = answer_of_failed(flags, tmp_path)
    (found,) = [f for f in said["findings"] if f["verdict"] == "differs"]
    assert path.name in found["text"]
    assert said["events"] == 300


def test_a_log_without_its_topics_is_refused(tmp_path):
    with SqliteLog(tmp_path / "log.db") as log, pytest.raises(LogError, match="journal"):
        verified(log, tmp_path / "snapshots")


def test_another_configuration_is_told(open_log, tmp_path):
    log = open_log(**TOPICS)
    produce(log, RAWS[:50])
    single = "model.kind=naive_bayes"
    learn(log, tmp_path / "snapshots", single)
    outcome = verified(open_log(), tmp_path / "snapshots", single, "model.event_model=bernoulli")
    assert [check for check, _ in told(outcome)] == ["configuration"]
    assert "model.event_model was" in told(outcome)[0][1]
    assert outcome.compared.counts > 0


def test_without_snapshots_it_is_the_journals_own_replay(open_log, tmp_path):
    log = open_log(**TOPICS)
    produce(log, RAWS[:50])
    learn(log, tmp_path / "snapshots", pace=PACE)
    outcome = verified(open_log(), tmp_path / "none")
    assert_clean(outcome, 50)
    assert factories.identity(configured()).config_hash
