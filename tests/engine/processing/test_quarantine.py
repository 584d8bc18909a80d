"""classes.min_learns: a class is not predicted until it has so many examples, by the labels that hold then."""

from __future__ import annotations

import json
import math
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamnb.engine.ports import NewRecord
from streamnb.engine.processing.prediction_pipeline import PredictionPipeline
from streamnb.engine.settings import Settings
from streamnb.errors import ConfigError, SnapshotError
from streamnb.formats.event_schema import EventSchema
from streamnb.models.interface.predictions import Posteriors
from streamnb.queries.answers import explained
from streamnb.queries.query_model import QueryModel, readiness
from streamnb.scoring.decision_rule import DecisionRule
from streamnb.scoring.new_class_probability import new_class_probability, published_new_class_probability
from streamnb.scoring.prequential_scores import ESCAPE
from streamnb.scoring.ranking import OpenValidation
from tests.engine.processing.test_deciding import CUTS, FEW, SEEDS, assert_decided, process, served
from tests.support.late import EVENTS, effective_labels, examples, late_learner, random_stream, scores_of
from tests.support.service import TOPICS, digests, new_learner, raw_events, read_topic, records
from tests.support.verifying import journal_of, learn, told, verified

WANTING_W = DecisionRule({"w": {"x": 0.0, "y": 0.0, "z": 0.0}}, 0.9)
"""By which a class that may not be predicted would cost the least."""
LEAST = st.sampled_from([1, 2, 5])
RULE = st.sampled_from([None, WANTING_W, DecisionRule(priors="uniform")])


def expected(model, x, least, weights):
    """Class -> probability that may be told, by the model as it is, and what is held back."""
    said = model.predict_posteriors([x])
    row = dict(zip(said.classes, said.probabilities[0].tolist(), strict=True))
    if least == 1:
        return row, 0.0, len(row)
    kept = {label: p for label, p in row.items() if weights[label] >= least}
    total = math.fsum(kept.values())
    return {label: p / total for label, p in kept.items()}, math.fsum(row.values()) - total, len(row)


@FEW
@given(rng=SEEDS, least=LEAST, rule=RULE, cuts=CUTS, at=st.integers(0, 150), top=st.sampled_from([0, 2]))
@example(rng=random.Random(1), least=5, rule=WANTING_W, cuts=[40], at=70, top=0)
def test_no_prediction_names_a_class_of_few_examples_and_the_others_keep_their_odds(
    rng, least, rule, cuts, at, top
):
    """With labels that come early, late, again and are taken back; and a restart, cut in any way."""
    stream = random_stream(rng, classes="wxyzz").records
    options = {"window": 1e9, "unseen": True, "report_every": 10**6, "decision": rule, "top": top}
    learner = late_learner(min_learns=least, **options)
    said = []
    for i, record in enumerate(stream):
        if record.partition == EVENTS:
            x, weights = learner.event_path.decoding.decode_all([record]).xs[0], examples(stream[:i])
            probabilities, held, known = expected(learner.model, x, least, weights)
            n_events = learner.model.n_events
        (one,) = served(learner.process([record], 1.0)) or [None]
        if one is None:
            continue
        said.append(one)
        found = one["probabilities"]
        assert found.keys() <= probabilities.keys()
        assert {one["label"], one["decision"] if rule else None} <= {*probabilities, None}
        if least == 1 and not top:
            assert found == probabilities
        if rule and not top:
            assert_decided(rule, one, weights)
        if any(probabilities.values()):
            assert sum(found.values()) + one.get("rest", 0.0) == pytest.approx(1.0)
            assert found == pytest.approx({label: probabilities[label] for label in found})
            assert found[one["label"]] == one["probability"] == max(found.values())
            assert top or found.keys() == probabilities.keys()
        else:
            assert (one["label"], one["status"]) == (None, "empty")
        u = published_new_class_probability(np.array([n_events]), np.array([known]))[0]
        assert one["unseen"] == (u if held == 0.0 else pytest.approx(u + (1 - u) * held, rel=1e-3))
    once = late_learner(min_learns=least, **options)
    outputs = process(once, stream[:at], cuts)
    again, plain = late_learner(min_learns=least, **options), late_learner(**options)
    copy = once.copying()
    again.load(copy.parts(), copy.segments())
    assert served(outputs + process(again, stream[at:], cuts)) == said
    assert digests(again) == digests(learner)
    process(plain, stream)
    assert digests(plain)["model"] == digests(learner)["model"]  # what is learned does not hang on it
    scores, truths = again.late.scoring.scores.cumulative(), effective_labels(stream)
    if not top:
        scored = scores_of(said, truths)
        assert (scores.events, scores.accuracy) == (scored["events"], scored["right"] / scored["events"])
        assert scores.log_loss * scores.events == pytest.approx(scored["loss"], rel=1e-9)


def test_labels_that_come_in_events_count_within_one_batch():
    """Scorers say what the learner does, and evidence is given where it is about classes that are told."""
    raws = raw_events(120, 5)

    def made(**options):
        options |= {"min_learns": 12, "unseen": True, "report_every": 10**6}
        return new_learner(**options)

    learner = made()
    outputs = served(process(learner, records(raws), [50]))
    counts = Counter()
    for said in outputs:
        assert {*said["probabilities"]} == {label for label, n in counts.items() if n >= 12}
        counts.update([said["truth"]] if "truth" in said else [])
    assert len({len(said["probabilities"]) for said in outputs}) > 2
    # A class without a prediction is scored as one that was never met.
    likely = [max(one["probabilities"].get(one["truth"], 0.0), ESCAPE) for one in outputs if "truth" in one]
    assert learner.progressive.cumulative().log_loss == pytest.approx(-np.log(likely).mean())
    more = [json.dumps({"id": f"n{i}", "text": "odd", "label": "new"}).encode() for i in range(9)]
    process(learner, records(more))
    asks = records([json.dumps({"id": "q", "text": "odd odd odd"}).encode()])
    scored = served(learner.score(asks, 1.0, 5)[0])
    names = ("probabilities", "label", "unseen")
    assert [[one[n] for n in names] for one in scored] == [
        [one[n] for n in names] for one in served(learner.process(asks, 1.0))
    ]
    (alone,) = served(learner.process(asks, 1.0))
    assert "new" not in alone["probabilities"]
    assert alone["unseen"] > 0.1
    watching = made(evidence=3)
    assert any(one["evidence"] for one in served(process(watching, records([*raws, *more]))))
    (hidden,) = served(watching.process(asks, 1.0))
    assert hidden["evidence"] == []
    assert "prior" not in hidden


def test_where_all_others_underflow_they_are_as_frequent_as_they_were():
    rows = np.array([[0.0, 0.0, 1.0], [0.25, 0.25, 0.5], [0.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    said = Posteriors(["a", "b", "c"], rows, np.full(4, 3))
    made = said.quarantine(np.array([[6.0, 2.0, 1.0]]), 2)
    assert made.probabilities.tolist() == [[0.75, 0.25, 0], [0.5, 0.5, 0], [0, 0, 0], [0.5, 0.5, 0]]
    assert made.held.tolist() == [1.0, 0.5, 0.0, 0.0]
    assert said.quarantine(np.array([[6.0, 2.0, 2.0]]), 2) is said
    nobody = said.quarantine(np.array([[1.0, 1.0, 1.0]]), 2)
    assert nobody.labels() == [None] * 4
    assert published_new_class_probability(np.full(4, 9), np.full(4, 3), nobody.held).tolist()[0] == 1.0


def test_the_open_loss_charges_a_class_in_quarantine_its_share_of_the_unseen():
    rows, held = np.array([[1.0, 0.0], [1.0, 0.0], [0.25, 0.75]]), np.array([0.0, 0.5, 0.0])
    scores = OpenValidation()
    scores.update_many(rows[:1], np.array([0]))
    scores.update_many(rows[:1], np.array([1]))
    scores.update_many(rows[1:], np.array([1, 1]), held=held[1:])
    scores.update_many(rows[1:2], np.array([0]), held=held[1:2])
    u = new_class_probability(np.arange(5), np.array([0, 1, 2, 2, 2]))
    charged = [u[0], u[1], u[2] + (1 - u[2]) / 2, (1 - u[3]) * 0.75, (1 - u[4]) / 2]
    assert scores.open_log_loss == pytest.approx(-np.log(charged).mean())
    assert scores.one_less_auc is not None


FLAGS = ["topics.labels=labels", "labels.window=1000d", "model.kind=naive_bayes"]


def test_it_is_journalled_may_change_and_is_verified(open_log, tmp_path, monkeypatch):
    log = open_log(**TOPICS, labels=1)
    stream = random_stream(random.Random(5), 90, 140, classes="xxxxxyyyz").records
    for part, flags in (
        (stream[:100], FLAGS),
        (stream[100:180], [*FLAGS, "classes.min_learns=8"]),
        (stream[180:], FLAGS),
    ):
        log = open_log()
        log.append([NewRecord(one.partition.topic, one.key, one.value) for one in part])
        learn(log, tmp_path, *flags)
    assert [one.config["classes"]["min_learns"] for one in journal_of(open_log()) if one.config] == [
        1,
        8,
        1,
    ]
    names = [
        frozenset(json.loads(one.value)["probabilities"]) for one in read_topic(open_log(), "predictions")
    ]
    assert {frozenset("xyz"), frozenset("x")} <= {*names}
    assert told(verified(open_log(), tmp_path, *FLAGS)) == []
    monkeypatch.setattr(Posteriors, "quarantine", lambda posteriors, *_: posteriors)
    found = {check for check, _ in told(verified(open_log(), tmp_path, *FLAGS))}
    assert "predictions" in found or "outputs" in found, found


def asked(weights, least=3, **options):
    learner = new_learner(min_learns=least, **options)
    raws = [
        json.dumps({"id": f"{label}{i}", "text": f"{label} t{i % 3}", "label": label}).encode()
        for label, n in weights.items()
        for i in range(n)
    ]
    learner.process(records(raws), 1.0)
    pipeline = PredictionPipeline(Settings(EventSchema(), unseen=True, min_learns=least))
    return QueryModel(learner.model, EventSchema(), ["text"], {"file": "here"}, pipeline=pipeline)


def test_what_is_asked_and_explained_tells_no_class_in_quarantine():
    model = asked({"a": 5, "b": 4, "c": 2})
    event = model.of_text("c c t1")
    assert asked({"a": 5, "b": 4, "c": 2}, 1).predicted([event])[0].keys() == {"a", "b", "c"}
    (said,) = model.predicted([event])
    assert said.keys() == {"a", "b"}
    assert sum(said.values()) == pytest.approx(1.0)
    (unseen,) = model.predict([event]).unseen
    assert unseen > 0.8
    why = explained(model, event, None, 5)
    assert {why["label"], why["against"]} == {"a", "b"}
    assert why["turns"] is None or why["turns"]["label"] in "ab"
    with pytest.raises(ConfigError, match="against c: it has fewer than 3 examples"):
        explained(model, event, "c", 5)
    with pytest.raises(
        SnapshotError, match=r"nothing may be predicted yet .*: label a has 2 of 3 examples; "
    ):
        asked({"a": 2}).predicted([event])


@pytest.mark.parametrize(
    ("weights", "least", "status", "missing"),
    [
        ({}, 1, "empty", ["no event has a label"]),
        ({"a": 0.0}, 10, "empty", ["no event has a label"]),
        ({"a": 2.5}, 1, "warming", ["no event has a second label"]),
        ({"a": 2.5}, 3, "warming", ["label a has 2.5 of 3 examples", "no event has a second label"]),
        ({"a": 10.0, "spam": 3.0}, 10, "warming", ["label spam has 3 of 10 examples"]),
        ({"a": 10.0, "b": 0.5}, 1, "ready", []),
        ({"a": 10.0, "b": 10.0, "c": 1.0}, 10, "ready", ["label c has 1 of 10 examples"]),
        (dict.fromkeys("abcdefghijkl", 1.0), 2, "warming", ["so have 2 other labels"]),
    ],
)
def test_whether_it_tells_classes_apart_and_what_is_missing(weights, least, status, missing):
    found = readiness(weights, least)
    assert (found["status"], found["missing"][-len(missing) :] if missing else found["missing"]) == (
        status,
        missing,
    )
