"""Decisions in the stream: by what was published, scored by what was served, whenever the label comes."""

from __future__ import annotations

import json
import math
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb.features.attributes import Text
from streamnb.formats.codec import decode_event, decode_prediction, encode_prediction
from streamnb.models.naive_bayes.naive_bayes_classifier import NaiveBayes
from streamnb.scoring.decision_rule import DecisionRule
from tests.support.late import effective_labels, late_learner, random_stream
from tests.support.service import digests, new_learner, raw_events, records

FEW = settings(max_examples=8, deadline=None)  # each is a whole life
RULES = [
    DecisionRule(),
    DecisionRule({"x": {"y": 4.0}, "y": {"z": 0.25}}, 0.4),
    DecisionRule({"a": {"b": 4.0}}, 0.5, "uniform"),
    DecisionRule(priors={"a": 1.0, "b": 3.0, "x": 2.0, "y": 0.5}),
    DecisionRule(priors="windowed", window=30),
    DecisionRule({"a": {"b": 4.0}}, 0.9, "windowed", 60, 0.2),
]
CUTS = st.lists(st.integers(1, 40), min_size=1, max_size=4)
SEEDS = st.integers(0, 10**6).map(random.Random)


def telling():
    model = NaiveBayes({"text": Text(), "subject": Text(event_model="bernoulli")})
    model.tells_evidence = True
    return model


def process(learner, records, cuts=(10**6,)):
    """What is published of records that are cut so."""
    outputs, start, i = [], 0, 0
    while start < len(records):
        outputs += learner.process(records[start : start + cuts[i % len(cuts)]], 1.0)
        start, i = start + cuts[i % len(cuts)], i + 1
    return outputs


def served(outputs):
    return [json.loads(output.value) for output in outputs if output.topic == "predictions"]


def told(rule, decision, truth):
    if decision is None:
        return 1.0 if rule.reject is None else rule.reject
    return rule.costs.get(decision, {}).get(truth, float(decision != truth))


def assert_decided(rule, said, counts=None, judged=()):
    """Nothing else is expected to cost less, by what the prediction itself says."""
    p = dict(said["probabilities"])
    if rule.priors != "learned":
        if rule.priors == "windowed":
            newest, known = Counter(judged[-rule.window :]), [k for k in p if counts[k]]
            new = {k: newest[k] + len(known) * counts[k] / max(1, sum(counts[k] for k in known)) for k in p}
        else:
            new = {k: 1.0 if rule.priors == "uniform" else rule.priors.get(k, 0.0) for k in p}
        p = {k: one * new[k] / counts[k] if counts[k] else 0.0 for k, one in p.items()}
        total = sum(p.values())
        p = {k: one / total if total else 0.0 for k, one in p.items()}
    u = said["unseen"]
    costs = {
        d: u + (1 - u) * sum(one * told(rule, d, v) for v, one in p.items()) for d in p if any(p.values())
    }
    least, decision = min(costs.values(), default=None), said["decision"]
    assert ("rejected" in said) == (decision is None and rule.novelty > 0.0)
    if decision is None:
        assert said["expected_cost"] == told(rule, None, None)
    if said.get("rejected") == "novel":
        assert 0.0 < said["novelty"] <= rule.novelty
    elif decision is None:
        assert least is None or (rule.reject is not None and least > rule.reject - 1e-12)
    else:
        assert said.get("novelty", 1.0) > rule.novelty
        assert said["expected_cost"] == pytest.approx(costs[decision]) == pytest.approx(least)
        assert rule.reject is None or least <= rule.reject + 1e-12


def assert_scored(rule, scores, pairs):
    """As of these (truth, decision)."""
    decided = [(truth, one) for truth, one in pairs if one is not None]
    assert scores.events == len(pairs)
    assert scores.mean_cost == pytest.approx(sum(told(rule, d, t) for t, d in pairs) / max(1, len(pairs)))
    assert scores.coverage == pytest.approx(len(decided) / max(1, len(pairs)))
    assert scores.accuracy == (
        pytest.approx(sum(t == d for t, d in decided) / len(decided)) if decided else None
    )


@FEW
@given(rule=st.sampled_from(RULES), seed=st.integers(0, 99), cuts=CUTS)
def test_decisions_are_those_of_what_was_published_then(rule, seed, cuts):
    raws = raw_events(150, seed)
    options = {"decision": rule, "unseen": True, "window": 40, "report_every": 10**6}
    learner, whole = (new_learner(model=telling(), **options) for _ in range(2))
    outputs = process(learner, records(raws), cuts)
    assert served(outputs) == served(process(whole, records(raws)))
    assert digests(learner) == digests(whole)
    counts, pairs = Counter(), []
    for said in served(outputs):
        assert_decided(rule, said, counts, [truth for truth, _ in pairs])
        counts[said.get("truth")] += 1
        if "truth" in said:
            pairs.append((said["truth"], said["decision"]))
    report = learner.report(1.0).decisions
    assert_scored(rule, report.cumulative, pairs)
    assert_scored(rule, report.window, pairs[-40:])


@FEW
@given(rule=st.sampled_from(RULES), rng=SEEDS, cuts=CUTS, at=st.integers(0, 150))
def test_late_labels_score_what_was_served(rule, rng, cuts, at):
    """Labels that come early, late, again, and are taken back; with a restart on the way, cut in any way."""
    stream = random_stream(rng).records
    options = {"window": 1e9, "decision": rule, "unseen": True, "report_every": 10**6}
    learner, again, whole = (late_learner(telling(), **options) for _ in range(3))
    outputs = process(learner, stream[:at], cuts)
    copy = learner.copying()
    again.load(copy.parts(), copy.segments())
    outputs += process(again, stream[at:], cuts)
    process(whole, stream)
    assert digests(again) == digests(whole)
    decided = {said["id"]: said["decision"] for said in served(outputs)}
    pairs = [(label, decided[id_]) for id_, (label, _) in effective_labels(stream).items()]
    assert_scored(rule, again.report(1.0).decisions.cumulative, pairs)


def test_another_rule_begins_anew_and_passes_over_what_another_one_decided():
    rule, other = RULES[1], RULES[0]
    rng = random.Random(1)
    stream = random_stream(rng, events=80, verdicts=200, labelled=0.0).records
    learner = late_learner(window=1e9, decision=rule)
    before = served(process(learner, stream[:100]))
    for chosen in (rule, other):
        now = late_learner(window=1e9, decision=chosen)
        copy = learner.copying()
        now.load(copy.parts(), copy.segments())
        now.reconfigure(now.settings, now.model)
        after = served(process(now, stream[100:]))
        counted = after if chosen is other else before + after
        decided = {said["id"]: said["decision"] for said in counted}
        labels = effective_labels(stream)
        pairs = [(labels[id_][0], one) for id_, one in decided.items() if id_ in labels]
        assert_scored(chosen, now.report(1.0).decisions.cumulative, pairs)
        assert len(pairs) > 0


def test_without_a_rule_nothing_is_said():
    learner = new_learner()
    outputs = process(learner, records(raw_events(30)))
    assert not any(b"decision" in output.value for output in outputs)
    assert "decisions" not in learner.parts()
    assert learner.report(1.0).decisions is None


def test_a_class_called_reject_is_not_taken_for_none():
    learner = new_learner(decision=DecisionRule(reject=0.3))
    raws = [json.dumps({"id": str(i), "text": "w", "label": "reject"}).encode() for i in range(50)]
    outputs = [one for one in process(learner, records(raws)) if one.topic == "predictions"]
    said = [json.loads(one.value)["decision"] for one in outputs]
    assert (said[0], said[-1]) == (None, "reject")
    for one in (outputs[0], outputs[-1]):
        assert encode_prediction(decode_prediction(one.value)) == one.value


@pytest.mark.parametrize("rule", RULES[2:])
def test_scorers_decide_as_the_learner_does(rule):
    learner = new_learner(decision=rule, unseen=True, model=telling())
    process(learner, records(raw_events(60)))
    more = records([json.dumps(json.loads(raw) | {"label": None}).encode() for raw in raw_events(20, 7)])
    scored, taken = learner.score(more, 1.0, 5)
    assert taken == 20
    names = ("decision", "expected_cost", "rejected", "novelty")
    found = [[said.get(name) for name in names] for said in served(scored)]
    assert found == [[said.get(name) for name in names] for said in served(process(learner, more))]


@FEW
@given(seed=st.integers(0, 99), cuts=CUTS)
def test_an_event_is_as_usual_as_the_judged_ones_of_its_class_say(seed, cuts):
    """Counted one event at a time beside it."""
    raws = raw_events(200, seed)
    learner, alone = new_learner(decision=DecisionRule(novelty=0.1), model=telling()), telling()
    usual, novel = {}, 0
    for said, raw in zip(served(process(learner, records(raws), cuts)), raws, strict=True):
        event = decode_event(raw, learner.settings.schema)
        fit = alone.predict_then_learn_many([event.x], [event.label], [event.weight]).evidence[0]
        before = usual.setdefault(said["label"], [])
        if said["label"] is None or math.isnan(fit):
            assert "novelty" not in said
        else:
            share = (1 + sum(one <= fit + 0.1 for one in before)) / (1 + len(before))
            assert said["novelty"] == share
            assert (said["decision"], said.get("rejected")) == (
                (None, "novel") if share <= 0.1 else (said["label"], None)
            )
            novel += share <= 0.1
        if event.label is not None and not math.isnan(fit):
            usual.setdefault(event.label, []).append(fit)
    assert novel > 0


def _event(i, text, label=None):
    return json.dumps({"id": str(i), "text": text, "label": label}).encode()


def test_hostile_streams_are_not_rejected_for_what_they_are():
    """What is as it always was is usual: all alike, one class alone, sorted by class, or without a word."""
    rng = random.Random(1)
    words = {"a": [f"a{i}" for i in range(50)], "b": [f"b{i}" for i in range(50)]}
    text = {k: lambda k=k: " ".join(rng.choices(words[k], k=8)) for k in words}
    streams = {
        "alike": [("win cash", "a")] * 2000,
        "alike, then another class": [("win cash", "a")] * 1500
        + [(text["b"](), "b") if i % 2 else ("win cash", "a") for i in range(1500)],
        "one class": [(text["a"](), "a") for _ in range(2000)],
        "sorted": [(text[k](), k) for k in "ab" for _ in range(1500)],
        "empty": [("", "a")] * 1000,
    }
    for name, stream in streams.items():
        learner = new_learner(decision=DecisionRule(novelty=0.01), model=telling())
        said = served(process(learner, records([_event(i, *one) for i, one in enumerate(stream)])))
        rejected = sum(one.get("rejected") == "novel" for one in said)
        assert rejected <= 0.015 * len(stream) + 1, (name, rejected)


def test_what_others_bring_makes_nobody_strange():
    """Words without end of another class take probability from one whose events are all alike, little by little."""
    rng = random.Random(1)
    stream = [("win cash", "a")] * 500
    for _ in range(1000):
        stream += [("win cash", "a"), (" ".join(f"n{rng.randrange(10**9)}" for _ in range(8)), "b")]
    learner = new_learner(decision=DecisionRule(novelty=0.01), model=telling())
    said = served(process(learner, records([_event(i, *one) for i, one in enumerate(stream)])))
    assert {one["decision"] for one in said[1:] if one["truth"] == "a"} == {"a"}


def test_strangers_do_not_become_usual_by_being_many():
    """An alphabet that was never seen, without labels: each of them is rejected, and no other event is."""
    learner = new_learner(decision=DecisionRule(novelty=0.01), model=telling())
    rng = random.Random(2)
    own = [" ".join(rng.choices([f"w{i}" for i in range(60)], k=9)) for _ in range(1200)]
    process(learner, records([_event(i, text, "a") for i, text in enumerate(own[:1000])]))
    before = learner.decisions.usual.state()[1].tobytes()
    strange = [_event(i, " ".join(rng.choices("абвгд", k=1 + i % 9))) for i in range(3000)]
    said = served(process(learner, records(strange)))
    assert {(one["decision"], one["rejected"], one["expected_cost"]) for one in said} == {
        (None, "novel", 1.0)
    }
    assert learner.decisions.usual.state()[1].tobytes() == before
    said = served(process(learner, records([_event(i, text, "a") for i, text in enumerate(own[1000:])])))
    assert sum(one["decision"] == "a" for one in said) >= 196
