"""The laws of late labels, of a learner that reads them from a log, dies now and then, and is begun again."""

from __future__ import annotations

import json
import random
import time
from contextlib import closing
from itertools import count, pairwise

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from river import evaluate, metrics

from streamnb import NaiveBayes
from streamnb.engine.ports import Partition
from streamnb.engine.retraining.log_retraining import Retraining
from tests.engine.labels.test_labels_on_logs import TOPICS, append, start
from tests.engine.retraining.test_log_retraining import (
    MODELS,
    forgotten,
    processed,
    serving,
    source,
    undisturbed,
)
from tests.support.late import (
    EVENTS,
    Stream,
    counts_of,
    effective_labels,
    late_learner,
    learned,
    random_stream,
    scores_of,
)
from tests.support.service import digests, model_digest, new_learner, predictions, read_topic
from tests.support.verifying import journal_of

pytestmark = pytest.mark.early(44)

ON_LOGS = settings(  # an example takes seconds, so that none is made smaller
    max_examples=4,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
SEEDS = st.integers(0, 10**6).map(random.Random)
FOLDERS = count()


def lived(log_of, folder, parts, **options):
    """A learner that read parts of a stream, and died after each but the last; and its log."""
    log, learner = log_of(**TOPICS), late_learner(window=1e9, report_every=10**6, **options)
    for number, records in enumerate(parts):
        if number:
            log.close()  # the worker is not: its last snapshot is older than what it learned
            log, learner = log_of(), late_learner(window=1e9, report_every=10**6, **options)
        append(log, records)
        worker = start(log, folder, learner=learner)
        worker.run(until_end=True)
    return worker, log


def journalled(log):
    """The records of each commit as they were processed, and how many steps of work followed."""
    read = {(r.partition, r.offset): r for topic in ("events", "labels") for r in read_topic(log, topic)}
    for entry in journal_of(log):
        places = [
            (Partition(s.topic, s.partition), at) for s in entry.slices for at in range(s.first, s.next)
        ]
        yield [read[place] for place in places if place in read], entry.work


def without_repeats(records):
    """The records without events that came again."""
    met = set()
    for record in records:
        one = json.loads(record.value).get("id") if record.partition == EVENTS else None
        if one is None or one not in met:
            yield record
        met.add(one)


def assert_scored(learner, served, truths):
    """As a plain recount of what was served and what holds."""
    scores, told = learner.late.scoring.scores, scores_of(served, truths)
    found, n = scores.cumulative(), told["events"]
    assert (found.events, round(found.accuracy * n)) == (n, told["right"])
    assert (found.log_loss * n, found.brier * n) == pytest.approx((told["loss"], told["brier"]), rel=1e-13)
    names = sorted({name for pair in told["confusion"] for name in pair if name is not None})
    matrix = scores.confusion(learner.late.scoring.columns_of(names)).tolist()
    assert told["confusion"] == {
        (truth, predicted): n
        for truth, row in zip(names, matrix, strict=True)
        for predicted, n in zip([*names, None], row, strict=True)
        if n
    }


@ON_LOGS
@given(rng=SEEDS, cuts=st.lists(st.integers(0, 166), max_size=2))
def test_any_history_ends_in_what_a_plain_recount_finds(open_log, tmp_path, rng, cuts):
    """Verdicts in any order, again, changed, withdrawn; events again; a source withdrawn; learners that die."""
    stream = random_stream(rng, 60, 90, labelled=0.0)
    stream.retract("a")
    records = [*stream.records, *rng.choices(stream.records, k=15)]
    rng.shuffle(records)
    parts = [records[first:stop] for first, stop in pairwise([0, *sorted(cuts), len(records)])]
    worker, log = lived(open_log.other(), tmp_path / str(next(FOLDERS)), parts, repeats="skip")
    learner, served = worker.learner, [json.loads(one.value) for one in read_topic(log, "predictions")]
    # Each event was predicted once, whoever died.
    assert sorted(one["id"] for one in served) == sorted(f"e{i}" for i in range(60))
    commits = list(journalled(log))
    read = [record for part, _ in commits for record in part]
    assert len(read) == len(records)
    # The labels that hold, what was learned, and the scores are those of a plain recount.
    truths = effective_labels(read)
    assert counts_of(learner.model) == counts_of(learned(without_repeats(read), truths))
    assert_scored(learner, served, truths)
    # The same order in other commits ends in the same state.
    again = late_learner(window=1e9, report_every=10**6, repeats="skip")
    for part, work in commits:
        for record in part:
            again.process([record], 1.0)
        for _ in range(work):
            again.work()
    assert digests(again) == digests(learner)
    # What is taken back was never learned.
    null, now = Stream(), time.time()
    for number in range(60):
        for source_of in ("a", "b", None):
            null.verdict(f"e{number}", None, source_of, ts=now + 3600.0)
    append(log, null.records)
    worker.run(until_end=True)
    assert not any(counts_of(learner.model).values())
    assert learner.late.scoring.scores.events == 0


@pytest.mark.thorough_for("kafka")
@pytest.mark.parametrize("labelled", [0.0, 0.7])
@settings(ON_LOGS, max_examples=2)
@given(rng=SEEDS)
def test_labels_inside_events_are_as_without_the_topic_and_none_teach_nothing(
    open_log, tmp_path, labelled, rng
):
    records = random_stream(rng, 60, 0, labelled=labelled).records
    worker, log = lived(open_log.other(), tmp_path / str(next(FOLDERS)), [records[:40], records[40:]])
    plain = new_learner(report_every=10**6)
    expected = plain.process(records, 1.0)
    assert predictions(log) == predictions(expected)
    assert model_digest(worker.learner) == model_digest(plain)
    assert labelled or worker.learner.model.n_events == 0


@pytest.mark.thorough_for("kafka")
@ON_LOGS
@given(rng=SEEDS, kind=st.sampled_from(sorted(MODELS)), gone=st.sets(st.integers(0, 59), max_size=20))
def test_a_model_learned_anew_is_the_one_of_an_undisturbed_run(open_log, tmp_path, rng, kind, gone):
    """With the labels that hold in the end; and without events that are forgotten."""
    log_of, folder, ids = open_log.other(), tmp_path / str(next(FOLDERS)), {f"e{i}" for i in gone}
    log = log_of(**TOPICS)
    append(log, random_stream(rng, 60, 90, weights=(None, 0)).records)
    with closing(serving(log, folder, *MODELS[kind])) as worker:
        worker.run(until_end=True)
    log = log_of()
    rebuilding = Retraining(source(log, folder, *MODELS[kind]), forgotten(ids))
    records = processed(log)
    expected = undisturbed(records, effective_labels(records), *MODELS[kind], without=ids)
    assert (rebuilding.retrained().digest, rebuilding.forgotten) == (model_digest(expected), len(ids))


@pytest.mark.thorough_for("kafka")
@ON_LOGS
@given(rng=SEEDS, delay=st.integers(1, 15))
def test_a_delay_in_events_is_scored_as_by_river(open_log, tmp_path, rng, delay):
    """A label comes before the event that is `delay` later, as in `progressive_val_score(delay=)`."""
    pairs = [({"text": " ".join(rng.choices("pqrs", k=3))}, rng.choice("xy")) for _ in range(12)]
    worker, log = lived(open_log.other(), tmp_path / str(next(FOLDERS)), [[]])

    def come(**what):
        stream = Stream()
        for kind, said in what.items():
            getattr(stream, kind)(*said)
        append(log, stream.records)
        worker.run(until_end=True)

    for i in range(12 + delay):
        if 0 <= i - delay < 12:
            come(verdict=(f"e{i - delay}", pairs[i - delay][1]))
        if i < 12:
            come(event=(f"e{i}", pairs[i][0]["text"]))
    metric = evaluate.progressive_val_score(
        pairs, NaiveBayes({"text": "text"}), metrics.Accuracy(), delay=delay
    )
    found = worker.learner.late.scoring.scores.cumulative()
    right = round(metric.get() * metric.cm.total_weight)  # River leaves out what an empty model was asked
    assert (found.events, round(found.accuracy * found.events)) == (12, right)
