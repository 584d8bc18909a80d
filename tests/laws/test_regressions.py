"""Traps that a close reading found: each was wrong once."""

from __future__ import annotations

import math
import pickle

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamnb import BernoulliNB, GaussianNB, HiddenMarkovNB, MultinomialNB, NaiveBayes, Text
from streamnb.engine.journal.recovery import recover
from streamnb.errors import LogError, NotElected
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.formats.codec import decode_metrics
from streamnb.models.naive_bayes.most_informative import strongest
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.runtime.worker_context import CommitPolicy
from tests.support.service import (
    IDENTITY,
    TOPICS,
    kill,
    new_learner,
    new_worker,
    produce,
    raw_events,
    records,
)

RAWS = raw_events(300, seed=21)
NUMBERS = st.floats(-1e6, 1e6).map(lambda x: round(x, 6))


@example(passing=[9.0, 1.0, 0.0], stays=0.0)
@given(st.lists(NUMBERS, min_size=1, max_size=5), NUMBERS)
def test_what_unlearning_leaves_of_one_value_is_no_variance(passing, stays):
    """Rounding noise read as a variance made the one value certain and every other impossible.

    What may be left is bounded; it is seen for what it is where the value that goes last is no smaller than
    2^-10 of it: of what values before that were like nothing is known.
    """
    model = GaussianNB()
    for x in (1.0, 2.0, 3.0):
        model.learn_one({"v": x}, "wide")
    model.learn_one({"v": stays}, "single")
    before = model.predict_proba_one({"v": stays + 0.5})
    for x in passing:
        model.learn_one({"v": x}, "single")
    for x in passing:
        model.unlearn_one({"v": x}, "single")
    largest, n = max(map(abs, [*passing, stays])), len(passing) + 1
    bound = 32 * n**3 * 2.0**-52 * largest**2  # see model.stats.moments
    left = model.class_moments("v")["single"].variance
    assert left <= bound
    if bound >= (max(abs(passing[-1]), abs(stays)) * 2.0**-10) ** 2:
        return
    assert left == 0.0
    assert model.predict_proba_one({"v": stays + 0.5}) == pytest.approx(before, rel=1e-3, abs=1e-9)


@given(NUMBERS, NUMBERS, st.integers(2, 9))
def test_what_unlearning_leaves_of_equal_values_is_no_variance(passes, stays, times):
    model = GaussianNB()
    for _ in range(times):
        model.learn_one({"v": stays}, "equal")
    model.learn_one({"v": passes}, "equal")
    model.unlearn_one({"v": passes}, "equal")
    assert model.class_moments("v")["equal"].variance == 0.0


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickled_model_goes_on_learning(protocol):
    model, reference = NaiveBayes({"text": Text()}), NaiveBayes({"text": Text()})
    for i in range(50):
        for each in (model, reference):
            each.learn_one({"text": f"a{i} b"}, i % 3)
    model = pickle.loads(pickle.dumps(model, protocol=protocol))  # noqa: S301  our own bytes
    for i in range(500):
        for each in (model, reference):
            each.learn_one({"text": f"c{i} b", "new": str(i)}, i % 9)
    assert model.joint_log_likelihood({"text": "a1 c9 b"}) == reference.joint_log_likelihood(
        {"text": "a1 c9 b"}
    )


def test_strongest_speaks_of_texts_where_the_model_counts_texts():
    """A Bernoulli word is present or absent: its odds are those of the model."""
    model = BernoulliNB(alpha=1.0, prior="uniform")
    for i in range(100):
        model.learn_one("offer extra words" if i < 54 else "other", "spam")
    for i in range(900):
        model.learn_one("offer" if i < 526 else "lunch", "ham")
    odds = {
        item.value: item.log_odds for label in ("spam", "ham") for item in strongest(model.statistics, label)
    }
    present = {"spam": (54 + 1) / 102, "ham": (526 + 1) / 902}
    assert odds["offer"] == pytest.approx(math.log(present["ham"] / present["spam"]))
    assert abs(odds["offer"]) < 0.1


@pytest.mark.parametrize("value", [1e306, 5e-324, 1e-101, 1e101, -1.0, math.inf, math.nan])
def test_smoothing_beyond_what_a_double_can_multiply_is_refused(value):
    for model in (MultinomialNB, BernoulliNB):
        with pytest.raises(ValueError, match="must be 0 or lie between"):
            model(alpha=value)
        with pytest.raises(ValueError, match="must be 0 or lie between"):
            model(m=value)


@pytest.mark.parametrize("value", [1e-100, 1e100])
@pytest.mark.parametrize("kind", [MultinomialNB, BernoulliNB])
def test_smoothing_at_its_bounds_gives_probabilities(kind, value):
    model = kind(alpha=value)
    for text, label in [("a b", "x"), ("c d e", "y"), ("a", "y")]:
        model.learn_one(text, label)
    for text in ("a b c d e " * 200, "a", ""):
        assert sum(model.predict_proba_one(text).values()) == pytest.approx(1.0)


def test_evidence_passes_over_what_is_missing():
    model = NaiveBayes({"text": Text()})
    model.learn_one({"text": "a", "n": 1.0}, "x")
    model.learn_one({"text": "b", "n": 2.0}, "y")
    assert model.explain_one({"text": None, "n": math.nan, "m": None}) == []


def test_integers_beyond_a_double_are_as_large_as_can_be():
    model = GaussianNB()
    for x, y in [(10**400, "x"), (-(10**400), "y"), (0, "y")]:
        model.learn_one({"v": x}, y)
    assert model.predict_one({"v": 10**500}) == "x"


def test_a_label_that_cannot_be_a_label():
    model = NaiveBayes()
    with pytest.raises(TypeError, match="unhashable"):
        model.learn_many([{"f": "a"}, {"f": "b"}], ["a", ["b"]])
    assert (model.classes, model.n_events) == ([], 0)
    model.learn_one({"f": "a"}, math.nan)  # a data frame's missing label
    assert (model.classes, model.n_events) == ([], 0)


def test_a_commit_reports_once_where_both_reasons_meet():
    learner = new_learner(report_every=100, report_seconds=0.0)
    outputs = learner.process(records(RAWS[:100]), 1.0)
    assert [decode_metrics(o.value).events for o in outputs if o.topic == "metrics"] == [100]


def test_labels_that_were_scored_and_not_learned_leave_the_confusion_square():
    learner = new_learner()
    learner.process(records(RAWS), 1.0)
    learner.progressive.update_many(
        learner.model.predict_posteriors([{}]).probabilities, __import__("numpy").array([7])
    )
    report = learner.report(2.0)
    assert [len(row) for row in report.confusion] == [4, 4, 4]


class Around:
    def __init__(self, log):
        self._log = log

    def __getattr__(self, name):
        return getattr(self._log, name)


def test_a_long_wait_and_a_long_commit_show_that_the_learner_is_alive(open_log, tmp_path):
    beats = []

    class Listening(Around):
        def heartbeat(self):
            beats.append(1)
            if len(beats) > 40:
                worker.stop()
            self._log.heartbeat()

        def poll(self, limit, timeout):
            assert timeout <= 0.5
            return self._log.poll(min(limit, 10), min(timeout, 0.05))

    produce(open_log(**TOPICS), RAWS)
    worker = new_worker(
        Listening(open_log()), tmp_path / "s", pace=CommitPolicy(commit_events=10**6, commit_seconds=3600.0)
    )
    worker.start("patient")
    worker.run()  # ends at once when told to, though the commit has an hour
    assert worker.learner.consumed == len(RAWS)
    worker.close()
    chains = HiddenMarkovNB({"text": "text", "subject": "text"}, entity="sender")
    for model, at_once in ((chains, 50), (NaiveBayes({"text": "text", "subject": "text"}), len(RAWS))):
        learner, calls = new_learner(evidence=1, model=model), []
        learner.process(records(RAWS), 1.0, lambda: calls.append(1))  # noqa: B023  it is called here
        assert len(calls) == len(RAWS) / at_once  # events that are explained one by one take longer


def test_an_idle_learner_leaves_the_log_alone(tmp_path):
    """A heartbeat looks; it writes a few times a session, and the write-ahead log does not grow for ever."""
    now = [1000.0]
    log = SqliteLog(tmp_path / "log.db", session_timeout=10.0, clock=lambda: now[0])
    log.create_topic("journal", 1)
    log.acquire("idle")
    reader = SqliteLog(tmp_path / "log.db", clock=lambda: now[0])
    before = reader._store.version()
    log.heartbeat()
    first = reader._store.version()
    for _ in range(100):
        now[0] += 0.001
        log.heartbeat()
    assert reader._store.version() == first
    assert before <= first
    now[0] += 1.0
    log.heartbeat()
    assert reader._store.version() != first
    now[0] += 60.0
    reader.acquire("successor")
    with pytest.raises(LogError, match="taken over"):
        log.heartbeat()
    log.close()
    reader.close()


def test_standing_by_ends_when_the_other_falls_silent_or_on_stop(tmp_path):
    now = [1000.0]
    logs = [SqliteLog(tmp_path / "log.db", session_timeout=5.0, clock=lambda: now[0]) for _ in range(2)]
    for name, partitions in TOPICS.items():
        logs[0].create_topic(name.replace("_", "-"), partitions)
    first, second = (new_worker(log, tmp_path / "s") for log in logs)
    first.start("first")
    told = []

    def waiting(reason):
        told.append(reason)
        now[0] += 60.0

    second.await_leadership("second", waiting)
    assert isinstance(told[0], NotElected)
    assert "first" in str(told[0])
    third = new_worker(
        SqliteLog(tmp_path / "log.db", session_timeout=5.0, clock=lambda: now[0]), tmp_path / "s"
    )
    third.await_leadership("third", lambda _: third.stop())
    third.run()
    third.close()
    assert third.learner.consumed == 0
    for log in logs:
        log.close()


def test_a_recovery_ends_when_it_is_told_to_stop(open_log, tmp_path):
    produce(open_log(**TOPICS), RAWS)
    first = new_worker(open_log(), tmp_path / "none", pace=CommitPolicy(commit_events=10))
    first.start("first")
    first.run(until_end=True)
    kill(first)

    class Stopping(Around):
        def heartbeat(self):
            worker.stop()

    worker = new_worker(Stopping(open_log()), tmp_path / "s")
    worker.await_leadership("second", lambda _: None)
    worker.run()
    worker.close()
    assert worker.learner.consumed < len(RAWS)
    assert not (tmp_path / "s").exists()


def test_another_journal_on_a_log_that_was_learned_is_refused(tmp_path):
    """It would publish everything again."""
    log = SqliteLog(tmp_path / "log.db")
    for name, partitions in {**TOPICS, "second": 1}.items():
        log.create_topic(name.replace("_", "-"), partitions)
    produce(log, RAWS)
    worker = new_worker(log, tmp_path / "s")
    worker.start("one")
    worker.run(until_end=True)
    worker.close()
    other = SqliteLog(tmp_path / "log.db", journal_topic="second")
    identity = IDENTITY.__class__(("events",), "second", "c0ffee", {"python": "3"})
    with pytest.raises(LogError, match="under another journal"):
        new_worker(other, tmp_path / "none", identity=identity).start("two")
    other.close()


def test_outputs_are_compared_only_while_one_kind_of_machine_wrote_the_journal(open_log, tmp_path):
    """What machine B published rests on sums that machine A began: B cannot repeat it from nothing."""
    produce(open_log(**TOPICS), RAWS)
    identity_b = IDENTITY.__class__(
        IDENTITY.topics, IDENTITY.journal, IDENTITY.config_hash, {"python": "other"}
    )
    pace = CommitPolicy(commit_events=100)
    first = new_worker(open_log(), tmp_path / "s", pace=pace)
    first.start("a")
    while not (records := first._reader.read()):  # a broker may let us wait for the first
        pass
    first._commit(records)
    first._committer.await_commit()
    first.close()
    found = SnapshotFolder(tmp_path / "s").newest().snapshot
    parts = dict(found.parts)
    sums = parts["progressive"].arrays["sums"]
    sums[0, 0] += 1e-9  # as another machine's logarithm might
    SnapshotFolder(tmp_path / "s").save(msgspec.structs.replace(found, parts=parts))
    second = new_worker(open_log(), tmp_path / "s", pace=pace, identity=identity_b)
    second.start("b")
    second.run(until_end=True)
    kill(second)
    again = new_learner()
    recover(open_log(), SnapshotFolder(tmp_path / "none"), again, identity_b)
    assert again.consumed == len(RAWS)
