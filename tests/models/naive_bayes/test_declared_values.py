"""Values that are declared count in smoothing before they are met, alike however the model is asked."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb import BayesianNetworkClassifier, BayesOptimalNB, CategoricalNB, Hypothesis, NaiveBayes, Nominal
from tests.oracles.oracle import log

OUTLOOKS = ("sunny", "overcast", "rainy", "foggy")
ROWS = st.lists(
    st.tuples(st.sampled_from([*OUTLOOKS, None]), st.sampled_from("ab"), st.sampled_from([1.0, 0.5, 3.0])),
    min_size=1,
    max_size=12,
)
SMOOTHINGS = st.sampled_from([(1.0, None), (0.25, None), (1e-100, None), (None, 2.0), (None, 0.5)])
DECLARED = {"values": OUTLOOKS}, {"n_values": 4}, {"n_values": 9}


def exact(rows, k, smoothing, value, label):
    """Log of (n_c + s) / (n + S) with k values."""
    alpha, m = smoothing
    s, S = (Fraction(alpha), Fraction(alpha) * k) if m is None else (Fraction(m) / k, Fraction(m))
    here = [(x, Fraction(w)) for x, y, w in rows if y == label and x is not None]
    return log((sum(w for x, w in here if x == value) + s) / (sum(w for _, w in here) + S))


def events(rows):
    return [({"outlook": x, "more": "same"}, y, w) for x, y, w in rows]


def one_by_one(spec, rows, value):
    model = NaiveBayes({"outlook": spec}, prior="uniform")
    for row in events(rows):
        model.learn_one(*row)
    joint, nothing = model.joint_log_likelihood({"outlook": value}), model.joint_log_likelihood({})
    probabilities = model.predict_proba_one({"outlook": value})
    odds = joint.get("a", 0.0) - joint.get("b", 0.0)
    if len(joint) == 2:
        assert math.log(probabilities["a"] / probabilities["b"]) == pytest.approx(odds, rel=1e-9, abs=1e-9)
        found = model.linear_view("a", "b").log_odds({"outlook": value})
        assert found == pytest.approx(odds, rel=1e-9, abs=1e-9)
    return {label: joint[label] - nothing[label] for label in joint}


def in_a_frame(spec, rows, value):
    model = CategoricalNB(prior="uniform", attributes={"outlook": spec})
    xs, ys, ws = zip(*events(rows), strict=True)
    model.learn_many(pd.DataFrame(xs), ys, ws)
    joint, nothing = model.joint_log_likelihood({"outlook": value}), model.joint_log_likelihood({})
    return {label: joint[label] - nothing[label] for label in joint}


def mixture(half_life):
    def shares(spec, rows, value):
        hypotheses = [Hypothesis(prior="uniform", half_life=half_life)]
        model = BayesOptimalNB({"outlook": spec}, hypotheses)
        for row in events(rows):
            model.learn_one(*row)
        (joint,) = model.joint_log_likelihoods({"outlook": value}).values()
        (nothing,) = model.joint_log_likelihoods({}).values()
        return {label: joint[label] - nothing[label] for label in joint}

    return shares


READERS = {
    "one by one": one_by_one,
    "in a frame": in_a_frame,
    "hypothesis": mixture(None),
    "forgetting": mixture(60.0),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@settings(max_examples=50)
@given(rows=ROWS, smoothing=SMOOTHINGS, declared=st.sampled_from(DECLARED), value=st.sampled_from(OUTLOOKS))
def test_declared_values_are_counted_whether_they_were_met_or_not(read, rows, smoothing, declared, value):
    alpha, m = smoothing
    k = declared.get("n_values", len(OUTLOOKS))
    found = read(Nominal(alpha, m, **declared), rows, value)
    met = any(x is not None for x, _, _ in rows)
    for label, share in found.items():
        expected = (
            exact(rows, k, smoothing, value, label) if met else 0
        )  # an attribute never met says nothing
        assert share == pytest.approx(float(expected), rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@settings(max_examples=25)
@given(rows=ROWS, smoothing=SMOOTHINGS, least=st.integers(1, 6), value=st.sampled_from(OUTLOOKS))
def test_a_number_of_values_is_the_least_there_are(read, rows, smoothing, least, value):
    """What is met beyond it counts as well; once that many were met, others are passed over."""
    alpha, m = smoothing
    met = {x for x, _, _ in rows if x is not None}
    found = read(Nominal(alpha, m, n_values=least), rows, value)
    for label, share in found.items():
        skipped = not met or (value not in met and len(met) >= least)
        expected = 0 if skipped else exact(rows, max(least, len(met)), smoothing, value, label)
        assert share == pytest.approx(float(expected), rel=1e-12, abs=1e-9)


def test_the_limit_of_no_smoothing_is_uniform_over_what_is_declared():
    model = CategoricalNB(alpha=0, prior="uniform", attributes={"f": Nominal(values=list("uvw"))})
    model.learn_one({"f": "u"}, "a")
    model.learn_one({"g": "u"}, "b")
    joint = model.joint_log_likelihood({"f": "u"})
    assert joint == pytest.approx({"a": math.log(1 / 2), "b": math.log(1 / 2 / 3)})
    joint = model.joint_log_likelihood({"f": "w"})
    assert joint == pytest.approx({"a": -math.inf, "b": math.log(1 / 2 / 3)})
    assert model.predict_proba_one({"f": "w"}) == {"a": 0.0, "b": 1.0}


@given(rows=ROWS, value=st.sampled_from(OUTLOOKS), w=st.sampled_from([1.0, 0.5]))
def test_learned_and_unlearned_a_declared_value_is_as_before(rows, value, w):
    model = NaiveBayes({"outlook": Nominal(values=OUTLOOKS)})
    for row in events(rows):
        model.learn_one(*row)
    before = [model.joint_log_likelihood({"outlook": outlook}) for outlook in OUTLOOKS]
    model.learn_one({"outlook": value}, rows[0][1], w)
    model.unlearn_one({"outlook": value}, rows[0][1], w)
    if any(x is not None for x, _, _ in rows):
        assert [model.joint_log_likelihood({"outlook": outlook}) for outlook in OUTLOOKS] == before


@pytest.mark.parametrize("make", [NaiveBayes, lambda a: CategoricalNB(attributes=a), BayesOptimalNB])
def test_a_value_that_is_not_listed_is_refused_and_nothing_is_learned(make):
    model = make({"size": Nominal(values=[1, 2, True])})
    model.learn_one({"size": 1.0}, "a")
    model.learn_one({"size": "true"}, "b")
    model.learn_one({"size": np.int64(2), "other": "x"}, "b")
    model.learn_one({"size": None}, "b")
    events, counts = model.n_events, model.class_counts("size")
    says = r"attribute 'size': .* is not one of its values \(1, 2, true\)"
    frame = pd.DataFrame({"size": ["1", "3"]})
    for wrong in (
        lambda: model.learn_one({"size": 3}, "a"),
        lambda: model.learn_one({"size": "false"}, "c"),
        lambda: model.predict_one({"size": "True"}),
        lambda: model.learn_many([{"size": 1}, {"size": "3"}], ["a", "a"]),
        lambda: model.learn_many(frame, ["a", "a"]),
        lambda: model.predict_then_learn_many(frame, ["a", "a"]),
    ):
        with pytest.raises(ValueError, match=says):
            wrong()
    with pytest.raises(TypeError, match="attribute 'size'"):
        model.learn_one({"size": [1]}, "a")
    assert (model.n_events, model.class_counts("size")) == (events, counts)
    assert model.classes == ["a", "b"]


def test_of_many_listed_values_a_refusal_names_some():
    model = NaiveBayes({"f": Nominal(values=range(100_000))})
    with pytest.raises(
        ValueError, match=r"'other' is not one of its values \(0, 1, 2, .* and 99,992 more\)$"
    ):
        model.learn_one({"f": "other"}, "a")


def test_values_learned_before_they_were_declared_count_beside_them():
    """A configuration may begin to declare values while the stream flows; what was met stays counted."""
    before = NaiveBayes({"f": "nominal"}, prior="uniform")
    for value, label in [("u", "a"), ("odd", "a"), ("v", "b")]:
        before.learn_one({"f": value}, label)
    model = NaiveBayes({"f": Nominal(values=list("uvwx"))}, prior="uniform").load_state(*before.state())
    shares = [model.joint_log_likelihood({"f": value})["a"] for value in "uvwx"]
    assert [math.exp(share) * 2 for share in shares] == pytest.approx([2 / 7, 1 / 7, 1 / 7, 1 / 7])  # of 5
    with pytest.raises(ValueError, match="'odd' is not one of its values"):
        model.learn_one({"f": "odd"}, "a")
    other = NaiveBayes({"f": Nominal(values=list("uvwx"))}, prior="uniform").merge(model)
    assert other.joint_log_likelihood({"f": "w"}) == model.joint_log_likelihood({"f": "w"})
    late = NaiveBayes({"f": Nominal(values=list("uvwx"))}, prior="uniform")
    late.learn_one({"f": "u"}, "a")
    late.joint_log_likelihood({"f": "w"})  # of four values: it has to hear of the fifth
    model.learn_one({"f": "u"}, "a")
    assert late.merge(other).joint_log_likelihood({"f": "w"}) == model.joint_log_likelihood({"f": "w"})


@given(rows=ROWS)
def test_as_many_values_as_were_met_change_nothing(rows):
    spec = Nominal(n_values=len({x for x, _, _ in rows if x is not None}) or 1)
    plain, declared = NaiveBayes({"outlook": "nominal"}), NaiveBayes({"outlook": spec})
    for row in events(rows):
        plain.learn_one(*row)
        declared.learn_one(*row)
    for value in (*OUTLOOKS, "never met"):
        x = {"outlook": value}
        assert declared.joint_log_likelihood(x) == plain.joint_log_likelihood(x)  # to the last bit
    for one, other in zip(declared.state()[1].values(), plain.state()[1].values(), strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize(
    "make",
    [
        lambda **how: NaiveBayes({"f": Nominal(**how)}, m=2.0, p=0.5),
        lambda **how: NaiveBayes({"f": Nominal(m=2.0, p=0.5, **how)}),
        lambda **how: CategoricalNB(m=2.0, p=0.5, attributes={"f": Nominal(**how)}),
        lambda **how: BayesOptimalNB({"f": Nominal(**how)}, [Hypothesis(m=2.0, p=0.5)]),
    ],
)
def test_a_prior_estimate_that_cannot_sum_to_one_is_refused(make):
    for how in ({"values": ["u", "v", "w"]}, {"n_values": 3}):
        with pytest.raises(
            ValueError, match=r"attribute 'f': p = 0.5 for each of 3 values sums to 1.5, not 1"
        ):
            make(**how)
    for how in ({"values": ["u", "v"]}, {"n_values": 2}, {}):
        make(**how)
    NaiveBayes({"f": Nominal(m=3.0, p=1 / 3, n_values=3)})
    NaiveBayes({"f": Nominal(alpha=1.0, n_values=3)}, m=2.0, p=0.5)  # the model's does not serve here


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"values": []}, "at least one value"),
        ({"values": "abc"}, "must be a list"),
        ({"values": ["a"], "n_values": 1}, "not both"),
        ({"n_values": 0}, "n_values must be an integer from 1 to"),
        ({"values": [1, 1.0]}, "attribute 'f': one of its values is there twice: 1, 1"),
    ],
)
def test_a_declaration_without_meaning_is_refused(wrong, says):
    with pytest.raises(ValueError, match=says):
        NaiveBayes({"f": Nominal(**wrong)})


def test_what_cannot_read_declared_values_says_so():
    with pytest.raises(ValueError, match="attribute 'f': a network does not use n_values = 3"):
        BayesianNetworkClassifier(attributes={"f": Nominal(n_values=3)})


@given(rows=ROWS, value=st.sampled_from(OUTLOOKS))
def test_a_network_counts_the_values_of_an_attribute_as_naive_bayes_does(rows, value):
    spec = {"outlook": Nominal(values=OUTLOOKS)}
    network, naive = BayesianNetworkClassifier(attributes=spec), CategoricalNB(attributes=spec)
    for x, y, w in rows:
        for model in (network, naive):
            model.learn_one({"outlook": x}, y, w)
    x = {"outlook": value}
    assert network.predict_proba_one(x) == pytest.approx(naive.predict_proba_one(x), rel=1e-12)


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([1.0, 2.5])), min_size=2, max_size=9),
    st.integers(1, 9),
    st.sampled_from([1.0, 0.1, 0.3]),
    st.sampled_from([NaiveBayes, BayesOptimalNB]),
)
def test_the_first_value_of_an_attribute_is_predicted_alike_in_a_batch_and_alone(before, n, alpha, make):
    """In a batch its group exists already, without a count."""
    rows = [({}, label, w) for label, w in before] + [({"f": "u"}, "a", 1.0)]
    spec = {"f": Nominal(values=list("uvwxyzrst")[:n], alpha=alpha)}
    alone, batch = make(spec), make(spec)
    for x, label, w in rows:
        expected = alone.predict_proba_one(x)
        alone.learn_one(x, label, w)
    told = batch.predict_then_learn_many(*zip(*rows, strict=True))
    found = dict(zip(told.classes, told.probabilities[-1].tolist(), strict=True))
    assert {label: found[label] for label in expected} == expected  # to the last bit
