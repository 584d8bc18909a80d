"""The learner: predict, then learn; dead letters; reports; pruning; evidence; and no cut can be observed."""

from __future__ import annotations

import json
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb import BayesOptimalNB, MultinomialNB, NaiveBayes, Text
from streamnb.engine.ports import Partition, Record
from streamnb.engine.settings import Pruning
from streamnb.formats.codec import decode_metrics
from streamnb.formats.event_schema import AttributeSpec, EventSchema
from streamnb.scoring.new_class_probability import published_new_class_probability
from tests.support.malformed import MALFORMED, kept
from tests.support.service import digests, model_digest, new_learner, predictions, raw_events, records

pytestmark = pytest.mark.early(62)

RAWS = raw_events(300)


def process_in_parts(learner, rows, cuts, now=1.0):
    outputs, start, i = [], 0, 0
    while start < len(rows):
        stop = start + cuts[i % len(cuts)]
        outputs += learner.process(rows[start:stop], now)
        start, i = stop, i + 1
    return outputs


@pytest.fixture(
    scope="module",
    params=[
        {},
        pytest.param({"evidence": 3}, marks=pytest.mark.thorough),
        {"pruning": Pruning(every=40, min_count=2, drop_most_frequent=1, max_attributes=60)},
        {"report_every": 7, "window": 11},
    ],
    ids=["plain", "evidence", "pruning", "reports"],
)
def uncut(request):
    """Options, what a learner publishes that gets all at once, and its state."""
    whole = new_learner(**request.param)
    return request.param, whole.process(records(RAWS), 1.0), digests(whole)


@settings(max_examples=10)
@given(cuts=st.lists(st.integers(1, 120), min_size=1, max_size=10))
def test_how_records_are_cut_is_unobservable(uncut, cuts):
    options, expected, state = uncut
    parts = new_learner(**options)
    got = process_in_parts(parts, records(RAWS), cuts)
    assert predictions(got) == predictions(expected)
    every = options.get("report_every", 1000)
    reports = [
        [decode_metrics(o.value) for o in outputs if o.topic == "metrics"] for outputs in (expected, got)
    ]
    due = [[report for report in some if report.events % every == 0] for some in reports]
    assert due[0] == due[1]
    assert digests(parts) == state


def test_an_event_is_predicted_by_what_came_before_it_alone():
    learner = new_learner(unseen=True)
    reference = NaiveBayes({"text": Text(), "subject": Text(event_model="bernoulli")})
    for prediction, raw in zip(predictions(learner.process(records(RAWS), 1.0)), RAWS, strict=True):
        event = json.loads(raw)
        x = {"text": event["text"], **event["features"]}
        expected = reference.predict_proba_one(x)
        assert prediction["probabilities"] == expected
        assert prediction["label"] == (max(expected, key=expected.get) if expected else None)
        assert prediction["status"] == ("ready" if expected else "empty")
        assert prediction["truth"] == event["label"]
        assert prediction["model"].events == reference.n_events
        counted = np.array([reference.n_events]), np.array([len(expected)])
        assert prediction["unseen"] == published_new_class_probability(*counted)[0]
        if event["label"] is not None:
            reference.learn_one(x, event["label"])


def test_a_hundred_kinds_of_malformed_events_are_dead_letters_and_change_nothing():
    assert len({case.name for case in MALFORMED}) >= 100
    learner = new_learner()
    learner.process(records(RAWS), 1.0)
    before, consumed = model_digest(learner), learner.consumed
    outputs = learner.process(records([case.raw for case in MALFORMED]), 2.0)
    letters = [output for output in outputs if output.topic == "dead-letters"]
    assert [letter.value for letter in letters] == [kept(case.raw) for case in MALFORMED]
    for i, (letter, case) in enumerate(zip(letters, MALFORMED, strict=True)):
        headers = {name: value.decode() for name, value in letter.headers}
        expected = {
            "reason": case.reason,
            "path": case.path,
            "topic": "events",
            "partition": "0",
            "offset": str(i),
        }
        if len(case.raw) > len(letter.value):
            expected["truncated"] = str(len(case.raw))
        assert headers == expected
    assert not predictions(outputs)
    assert model_digest(learner) == before
    assert (learner.consumed, learner.dead_letters) == (consumed + len(MALFORMED), len(MALFORMED))


def test_good_events_between_bad_ones_are_learned():
    good, mixed = raw_events(len(MALFORMED), seed=5), []
    for raw, case in zip(good, MALFORMED, strict=True):
        mixed += [case.raw, raw]
    alone, between = new_learner(), new_learner()
    expected = predictions(alone.process(records(good), 1.0))
    assert predictions(between.process(records(mixed), 1.0)) == expected
    assert model_digest(alone) == model_digest(between)


def test_reports_count_and_score():
    learner = new_learner(report_every=100, window=50)
    outputs = learner.process(records([*RAWS, b"{"]), 5.0)
    reports = [decode_metrics(output.value) for output in outputs if output.topic == "metrics"]
    assert [report.events for report in reports] == [100, 200, 300]
    last = learner.report(6.0)
    assert (last.events, last.dead_letters, last.ts) == (301, 1, 6.0)
    assert last.learned == last.cumulative.events == sum(json.loads(raw)["label"] is not None for raw in RAWS)
    assert last.window.events == 50
    assert sum(map(sum, last.confusion)) == last.cumulative.events
    assert [len(row) for row in last.confusion] == [len(last.labels) + 1] * len(last.labels)


def test_a_quiet_stream_is_reported_by_time():
    learner = new_learner(report_every=1000, report_seconds=10.0)
    times = {1.0: 1, 5.0: 0, 11.0: 1, 12.0: 0, 20.9: 0, 21.0: 1}
    for i, (now, due) in enumerate(times.items()):
        outputs = learner.process(records([RAWS[i]]), now)
        assert sum(output.topic == "metrics" for output in outputs) == due, now
    assert [output.topic for output in learner.process([], 21.5)] == ["metrics"]  # asked for
    learner.process(records([RAWS[6]]), 22.0)
    assert learner.has_pending_report


def test_a_label_never_seen_costs_the_escape_mass():
    learner = new_learner()
    rows = [
        b'{"id":"1","text":"a","label":"x"}',
        b'{"id":"2","text":"a","label":"x"}',
        b'{"id":"3","text":"a","label":"y"}',
    ]
    learner.process(records(rows), 1.0)
    # The first meets an empty model, the third brings a new label: 34.5 each; the second costs nothing.
    assert learner.report(1.0).cumulative.log_loss == pytest.approx(2 * 34.538776394910684 / 3)


def test_evidence_adds_up_to_the_odds():
    learner = new_learner(evidence=100)
    for prediction in predictions(learner.process(records(RAWS), 1.0))[50:]:
        probabilities = prediction["probabilities"]
        assert all(item.log_odds != 0 for item in prediction["evidence"])
        assert len(probabilities) == 3
        first, second, _ = sorted(probabilities.values(), reverse=True)
        told = prediction["prior"] + math.fsum(item.log_odds for item in prediction["evidence"])
        assert told == pytest.approx(math.log(first / second), rel=1e-9, abs=1e-9)
    model = learner.model
    x = {"text": "w1 w2 w2 zebra", "subject": "w3", "colour": "r", "x": 0.5}
    items = model.explain_one(x)
    joint, prior = model.joint_log_likelihood(x), model.joint_log_likelihood({})
    first, second = sorted(joint, key=joint.get, reverse=True)[:2]
    total = sum(item.log_odds for item in items) + prior[first] - prior[second]
    assert total == pytest.approx(joint[first] - joint[second], rel=1e-9)
    assert {(item.attribute, item.value) for item in items} == {
        ("text", "w1"), ("text", "w2"), ("subject", ""), ("subject", "w3"), ("colour", "r"), ("x", 0.5),
    }  # fmt: skip
    assert [abs(item.log_odds) for item in items] == sorted(
        (abs(item.log_odds) for item in items), reverse=True
    )
    assert model.explain_one(x, top=2) == items[:2]


def test_evidence_is_that_of_the_model_that_predicted():
    learner = new_learner(evidence=3)
    reference = NaiveBayes({"text": Text(), "subject": Text(event_model="bernoulli")})
    for prediction, raw in zip(predictions(learner.process(records(RAWS[:60]), 1.0)), RAWS, strict=False):
        event = json.loads(raw)
        x = {"text": event["text"], **event["features"]}
        expected = [(item.attribute, item.value, item.log_odds) for item in reference.explain_one(x, 3)]
        assert [(item.attribute, item.value, item.log_odds) for item in prediction["evidence"]] == expected
        if event["label"] is not None:
            reference.learn_one(x, event["label"])


@pytest.mark.parametrize("is_text_only", [True, False])
def test_evidence_within_a_batch_is_that_of_each_event_before_it_was_learned(is_text_only):
    """Also if the default model counts pairs of values; classes, words and attributes come in the batch."""
    rows = [json.loads(raw) for raw in RAWS[:60]]
    if is_text_only:
        rows = [{**row, "features": {"subject": row["features"]["subject"]}} for row in rows]
    raws = [json.dumps(row).encode() for row in rows]
    learner, alone, reference = (BayesOptimalNB({"text": "text", "subject": "text"}) for _ in range(3))
    together, each = new_learner(evidence=4, model=learner), new_learner(evidence=4, model=alone)
    found = predictions(together.process(records(raws), 1.0))
    assert found == [output for row in records(raws) for output in predictions(each.process([row], 1.0))]
    for row, prediction in zip(rows, found, strict=True):
        x, evidence = {"text": row["text"], **row["features"]}, prediction["evidence"]
        expected = reference.explain_one(x, 4)
        assert [(item.attribute, item.value) for item in evidence] == [item[:2] for item in expected]
        assert [item.log_odds for item in evidence] == pytest.approx([item[2] for item in expected], rel=1e-9)
        full = reference.explanation_one(x)
        assert expected.prior == (None if full is None else full.prior)
        if full is None:
            assert prediction["prior"] is None
        else:
            assert prediction["prior"] == pytest.approx(full.prior, rel=1e-9, abs=1e-12)
        reference.predict_then_learn_many([x], [row["label"]])
    assert sum(len(prediction["evidence"]) for prediction in found) > 150


def test_a_dead_letter_keeps_its_key():
    record = Record(Partition("events", 4), 17, b"key", b"{", 0.0)
    letter = new_learner().process([record], 1.0)[0]
    headers = dict(letter.headers)
    assert (letter.key, letter.value) == (b"key", b"{")
    assert (headers["topic"], headers["partition"], headers["offset"]) == (b"events", b"4", b"17")


def test_evidence_of_a_word_covers_all_its_occurrences():
    model = MultinomialNB()
    model.learn_one("win cash", "spam")
    model.learn_one("lunch", "ham")
    (once,) = model.explain_one("cash")
    (item,) = model.explain_one({"text": "Cash", "cash": 2})
    assert (item.value, item.log_odds) == ("cash", pytest.approx(3 * once.log_odds))


def test_evidence_of_a_class_that_alpha_zero_rules_out_is_finite():
    model = MultinomialNB(alpha=0)
    model.learn_one("win cash", "spam")
    model.learn_one("lunch", "ham")
    (item,) = model.explain_one("cash")
    assert (item.value, item.log_odds) == ("cash", 1e6)
    assert model.explain_one({"cash": 2})[0].value == "cash"
    assert MultinomialNB().explain_one("cash") == []


def test_pruning_falls_at_its_event_and_nowhere_else():
    pruned = new_learner(pruning=Pruning(every=10, min_count=1e9))
    labelled = [raw for raw in RAWS if json.loads(raw)["label"]]
    pruned.process(records(labelled[:19]), 1.0)
    assert pruned.model.class_counts("text")
    pruned.process(records(labelled[19:20]), 1.0)
    assert not pruned.model.class_counts("text")
    assert pruned.model.class_counts("colour")


def test_events_without_labels_prune_nothing():
    learner = new_learner(pruning=Pruning(every=10, drop_most_frequent=1))
    labelled = [raw for raw in RAWS if json.loads(raw)["label"]]
    learner.process(records(labelled[:10]), 1.0)
    before = model_digest(learner)
    for raw in RAWS:
        if json.loads(raw)["label"] is None:
            learner.process(records([raw]), 1.0)
    assert model_digest(learner) == before


def test_a_report_of_many_classes_stays_small():
    """The square of the classes would not fit into a record, and nothing could be committed any more."""
    raws = [b'{"id":"%d","text":"a","label":"c%d"}' % (i, i) for i in range(101)]
    learner = new_learner()
    learner.process(records(raws[:100]), 1.0)
    report = learner.report(1.0)
    assert (report.classes, len(report.labels), len(report.confusion)) == (100, 100, 100)
    learner.process(records(raws[100:]), 1.0)
    report = learner.report(1.0)
    assert (report.classes, report.labels, report.confusion) == (101, (), ())
    assert report.cumulative.events == 101


def test_one_value_far_outside_ruins_naive_bayes_unless_ends_are_declared():
    def right(*ends):
        rng = random.Random(1)
        schema = EventSchema((AttributeSpec("v", "continuous", "$.features.v", None, *ends),))
        learner = new_learner(schema=schema, model=NaiveBayes({"v": "continuous"}))
        stream = [("ab"[i % 2], rng.gauss(3.0 * (i % 2), 1.0)) for i in range(1000)]
        stream[500] = ("a", 1e12)
        events = [{"id": f"{i}", "label": y, "features": {"v": v}} for i, (y, v) in enumerate(stream)]
        made = predictions(learner.process(records([json.dumps(event).encode() for event in events]), 1.0))
        return sum(one["label"] == one["truth"] for one in made[501:]) / 499

    assert right() < 0.6
    assert right(0.0, 100.0) > 0.9


@pytest.mark.parametrize(
    "options", [{}, {"evidence": 3}, {"hypotheses": True, "model": "mixture"}, {"top": 2}], ids=str
)
def test_a_score_is_what_the_learner_would_say_next_and_teaches_nothing(options):
    """Whatever is cut where; what is no event is passed over, and counted by nobody."""
    given = {**options, "model": BayesOptimalNB({"text": Text()})} if "model" in options else options
    learner = new_learner(detectors=("ddm",), unseen=True, **given)
    raws = RAWS[: 24 if "model" in options else 200]  # a digest of a mixture takes its time
    rows = records([*raws[:20], b"no event", *raws[20:]])
    for row in rows:
        before = learner.consumed, learner.dead_letters, digests(learner)
        made, taken = learner.score([row], 1.0, 7)
        assert (taken, before) == (1, (learner.consumed, learner.dead_letters, digests(learner)))
        said = [json.loads(one.value) for one in learner.process([row], 1.0) if one.topic == "predictions"]
        for one in said:
            one["model"]["journal"] = 7
        assert [json.loads(one.value) for one in made] == said
    whole, taken = learner.score(rows, 1.0, 7)
    assert (len(whole), taken) == (len(raws), len(rows))
    parts, left = [], rows
    while left:
        made, taken = learner.score(left, 1.0, 7, max_bytes=1)
        parts, left = parts + made, left[taken:]
    assert parts == whole


def test_who_only_learns_publishes_no_prediction_and_is_otherwise_the_same():
    served, alone = new_learner(detectors=("ddm",)), new_learner(detectors=("ddm",), by="scorers")
    said, silent = (learner.process(records(RAWS), 1.0) for learner in (served, alone))
    assert digests(served) == digests(alone)
    assert predictions(silent) == []
    rest = [one for one in said if one.topic != "predictions"]
    assert [one.value.replace(b',"served_by":"scorers"', b"") for one in silent] == [
        one.value for one in rest
    ]
