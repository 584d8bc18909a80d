"""Averaged one-dependence estimators as a hypothesis: what they say is what an oracle says, of any events."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamnb import BayesOptimalNB, Hypothesis, OneDependence, Pool, Softmax
from streamnb.config import load
from streamnb.errors import UnlearnError
from streamnb.models.mixture import one_dependence_hypotheses
from streamnb.runtime import factories
from tests.models.one_dependence.test_one_dependence_among_others import (
    CONFIGURED,
    digest,
    stream,
)
from tests.oracles.pair_oracle import Oracle
from tests.support.service import raw_events
from tests.support.states import through_a_snapshot
from tests.support.two_runs import run_stopped_run_again_and_verified

LABEL = "one-dependence prior_weight=5"
COUNTS = ("class_weights", "totals", "values", "pairs")


def mixture(*beside, **options):
    return BayesOptimalNB({"text": "text"}, [OneDependence(), *beside], switching_rate=1e-3, **options)


def assert_is_said(model, oracle, x):
    """The joint probability of each class with examples is the oracle's; the others have none."""
    bare = {name: value for name, value in x.items() if name != "text"}
    found = model.joint_log_likelihoods(x)[LABEL]
    for y, joint in found.items():
        expected = oracle.averaged(bare, y) if oracle.classes.get(y) else -math.inf
        assert joint == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert set(oracle.classes) <= set(found)


VALUE = {
    "colour": st.sampled_from("rgb"),
    "shape": st.integers(0, 300).map(str),
    "flag": st.booleans(),
    "size": st.sampled_from([None, 0.0, 1.0, 1.2, -3.0, 1e9]),
    "depth": st.floats(-10, 10),
    "text": st.sampled_from(["one", "two three"]),
}
EVENTS = st.tuples(
    st.fixed_dictionaries({}, optional=VALUE), st.sampled_from("abc"), st.sampled_from([1.0, 0.5, 40.0])
)
STEPS = st.lists(st.lists(EVENTS, min_size=1, max_size=12) | st.integers(0, 99), min_size=1, max_size=8)


@settings(max_examples=40, deadline=None)
@given(steps=STEPS, asked=st.lists(EVENTS, max_size=3))
@example([[({}, "a", 1.0), ({"depth": 0.0}, "a", 1.0)]], [({"depth": 2e-313}, "a", 1.0)])
@example([[({}, "a", 1.0), ({"depth": 0.0}, "a", 1.0)]], [({"depth": -2e-313}, "a", 1.0)])
@example([[({}, "a", 1.0), ({"depth": 6e-309}, "a", 1.0)]], [({"depth": 1e-308}, "a", 1.0)])
def test_what_is_said_is_the_mean_over_all_parents(steps, asked):
    """Of any events: attributes that are missing, numbers, new values and classes, and events taken out."""
    model, oracle, live = mixture(Hypothesis("presence")), Oracle(), []
    for step in steps:
        if isinstance(step, list):
            model.learn_late_many(*zip(*step, strict=True))
            live += step
            for x, y, w in step:
                oracle.learn({name: value for name, value in x.items() if name != "text"}, y, w)
        elif live:
            x, y, w = live.pop(step % len(live))
            model.unlearn_many([x], [y], [w])
            oracle.unlearn({name: value for name, value in x.items() if name != "text"}, y, w)
        for x, *_ in [*asked, *live[-2:]]:
            assert_is_said(model, oracle, x)


def test_what_would_leave_more_values_than_events_was_never_learned():
    """Values of an attribute are as many as the events that had it: more would be refused of a state."""
    model = mixture()
    model.learn_many([{"shape": "a"}, {"shape": "b", "depth": 1.0}, {}], ["a", "b", "a"])
    before = digest(model)
    with pytest.raises(UnlearnError, match="never learned as 'b'"):
        model.unlearn_many([{}], ["b"])
    assert digest(model) == before
    model.unlearn_many([{}], ["a"])
    with pytest.raises(UnlearnError, match="never learned as 'a'"):
        model.unlearn_many([{}], ["a"])
    assert digest(mixture().load_state(*model.state())) == digest(model)


def test_a_wide_event_does_not_underflow():
    """150 attributes: in the class that has none of these values the products are below the least double."""
    model, oracle, rng = mixture(), Oracle(), np.random.default_rng(3)
    for i in range(40):
        x = {f"a{j}": str(rng.integers(0, 2 if i % 2 else 7)) for j in range(150)}
        model.learn_one(x, "ab"[i % 2], 16.0)
        oracle.learn(x, "ab"[i % 2], 16.0)
    x = {f"a{j}": str(2 + j % 5) for j in range(150)}
    x |= {f"a{j}": "0" for j in range(5)}
    assert oracle.averaged(x, "b") < -750.0
    assert_is_said(model, oracle, x)
    assert sum(model.predict_proba_one(x).values()) == pytest.approx(1.0, abs=1e-12)


def test_a_parent_is_a_value_that_thirty_examples_had():
    """With 29.5 it is naive Bayes, whatever the pairs say; with 30 they are read."""
    model, oracle = mixture(), Oracle()
    for y, x in (("a", {"p": "1", "q": "1"}), ("b", {"p": "1", "q": "2"})):
        model.learn_one(x, y, 14.75)
        oracle.learn(x, y, 14.75)
    naive = mixture_says(model, {"p": "1", "q": "1"})
    assert naive == pytest.approx(math.log(15.75 / 1.0) - math.log(1.0), rel=1e-9)
    model.learn_one({"p": "1"}, "a", 0.5)
    oracle.learn({"p": "1"}, "a", 0.5)
    assert mixture_says(model, {"p": "1", "q": "1"}) > naive + 0.5
    assert_is_said(model, oracle, {"p": "1", "q": "1"})


def mixture_says(model, x):
    joints = model.joint_log_likelihoods(x)[LABEL]
    return joints["a"] - joints["b"]


def test_without_memory_for_pairs_it_is_naive_bayes_and_what_was_dropped_stays_dropped():
    model = BayesOptimalNB({"text": "text"}, [OneDependence(memory=0), Hypothesis("presence")])
    model.learn_many(*zip(*stream(1), strict=True))
    oracle = Oracle()
    for x, y, w in stream(1):
        if y is not None and w:
            oracle.learn({name: value for name, value in x.items() if name != "text"}, y, w)
    oracle.pairs.clear()
    x = stream(2)[-1][0]
    keys = oracle.keys({name: value for name, value in x.items() if name != "text"})
    for y, joint in model.joint_log_likelihoods(x)[LABEL].items():
        expected = math.log(oracle.classes[y] / sum(oracle.classes.values()))
        for a, v in keys.items():
            if v in oracle.known(a):
                spread = oracle.classes[y] + len(oracle.known(a))
                expected += math.log((oracle.values[a, v, y] + 1.0) / spread)
        assert joint == pytest.approx(expected, rel=1e-9)


POOLED = (OneDependence(), OneDependence(prior_weight=2.0, name="eager"), Softmax(), Pool())


@pytest.mark.parametrize("hypotheses", [POOLED, (OneDependence(), Hypothesis(calibrated=True), Pool())])
def test_how_a_stream_is_cut_changes_nothing_nor_does_a_restart(hypotheses):
    whole, parts = (BayesOptimalNB({"text": "text"}, hypotheses) for _ in range(2))
    events = stream(2)
    expected = whole.predict_then_learn_many(*zip(*events, strict=True))
    for first, last in ((0, 1), (1, 2), (2, 33), (33, 90), (90, 140), (140, 300)):
        found = parts.predict_then_learn_many(*zip(*events[first:last], strict=True))
        K = len(found.classes)
        np.testing.assert_array_equal(found.probabilities, expected.probabilities[first:last, :K])
        parts = BayesOptimalNB({"text": "text"}, hypotheses).load_state(*through_a_snapshot(parts))
    assert digest(parts) == digest(whole)
    assert whole.posterior.regret() <= whole.posterior.bound()
    np.testing.assert_allclose(expected.probabilities[10:].sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("chosen", range(len(POOLED)))
def test_what_speaks_for_a_prediction_adds_up(chosen):
    model = BayesOptimalNB({"text": "text"}, POOLED, prediction="map")
    model.learn_many(*zip(*stream(7), strict=True))
    model.posterior.weights.log_posterior[:] = -1e3
    model.posterior.weights.log_posterior[chosen] = 0.0
    for x in [*(x for x, *_ in stream(7)[::40]), {"colour": "never seen"}, {}]:
        found = model.predict_proba_one(x)
        first, second = sorted(found, key=found.get, reverse=True)[:2]
        told = math.log(found[first] / found[second])
        assert model.explanation_one(x).log_odds == pytest.approx(told, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("cut", [40, 300])
def test_a_batch_explains_each_event_before_it_is_learned(cut, monkeypatch):
    """Also if so much is kept of the events that a batch is explained in parts."""
    monkeypatch.setattr(one_dependence_hypotheses, "MOST_KEPT", 6000 if cut == 40 else 1 << 20)
    together, alone = mixture(Hypothesis()), mixture(Hypothesis())
    events, items, found = stream(4), [], []
    for i in range(0, len(events), cut):
        posteriors, explained = together.explain_then_learn_many(
            *zip(*events[i : i + cut], strict=True), top=3
        )
        items += explained
        found += posteriors.labels()
    for x, *rest in events:
        assert items.pop(0) == alone.explain_one(x, 3)
        assert found.pop(0) == alone.predict_then_learn_many([x], *([value] for value in rest)).labels()[0]


@pytest.mark.thorough
def test_it_is_run_stopped_run_again_and_verified(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    config = load(None, {}, CONFIGURED)
    given = [word for flag in CONFIGURED for word in ("--set", flag)]
    assert factories.model(config).hypotheses[0] == OneDependence()
    run_stopped_run_again_and_verified(config, given, raw_events(200), capsys)
