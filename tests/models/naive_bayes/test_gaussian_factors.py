"""The variance of a number: the rule against an oracle in fractions, its bounds, and every kind of model."""

from __future__ import annotations

import copy
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb import BayesOptimalNB, GaussianNB, Hypothesis, NaiveBayes
from streamnb.models.naive_bayes.gaussian_factors import moments_of, pooled_moments
from streamnb.models.tenants.tenant_models import TenantModels
from streamnb.toolbox.hidden_markov.hidden_markov_nb import HiddenMarkovNB
from streamnb.toolbox.semi_supervised.semi_supervised_nb import SemiSupervisedNB
from tests.oracles.gaussian_oracle import gaussian_of

UNIT = 1024
CELL = st.tuples(
    st.sampled_from([0, 1, 1024, 3072, 3073, 10_240, 2**40]),
    st.floats(-1e6, 1e6),
    st.sampled_from([0.0, 1e-30, 1e-6, 0.5, 3.0, 1e9]),
)


def read(cells, worth=1.0):
    """Mean and variance of each class, or None, by the kernels."""
    n = np.array([cell[0] for cell in cells], dtype=np.int64)
    mean, M2 = (np.array([cell[i] for cell in cells]) for i in (1, 2))
    pooled = pooled_moments(n, mean, M2, worth)
    return [moments_of(n, mean, M2, k, worth, pooled) for k in range(n.size)] if pooled[1] > 0.0 else None


@settings(max_examples=300)
@given(st.lists(CELL, min_size=1, max_size=5))
def test_the_rule_is_that_of_fractions(cells):
    cells = [(n, mean, 0.0 if n / UNIT * (1e-13 * mean) ** 2 >= M2 else M2) for n, mean, M2 in cells]
    exact = {
        k: (Fraction(n, UNIT), Fraction(mean), Fraction(M2)) for k, (n, mean, M2) in enumerate(cells) if n
    }
    found = read(cells)
    expected = [gaussian_of(exact, k) for k in range(len(cells))]
    if found is None:
        assert expected[0] is None or float(expected[0][1]) == 0.0  # no number is as small as that
        return
    for (mean, variance), (of_mean, of_variance) in zip(found, expected, strict=True):
        assert mean == pytest.approx(float(of_mean), rel=1e-9, abs=1e-9)
        assert variance == pytest.approx(float(of_variance), rel=1e-9)


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 1, 1024, 5000, 2**60]),
            st.sampled_from([0.0, 5e-324, 1e-160, 1.0, -1.0, 1e140, -1e140]),
            st.sampled_from([0.0, 5e-324, 1e-300, 1.0, 1e280]),
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([1.0, 1e-3, 1e-300, 0.0]),
)
def test_variances_are_finite_and_above_zero_for_any_moments(cells, worth):
    cells = [(n, mean if n else 0.0, M2 if n else 0.0) for n, mean, M2 in cells]
    for mean, variance in read(cells, worth) or []:
        assert math.isfinite(mean)
        assert 0.0 < variance < math.inf
        assert math.isfinite(1.0 / math.sqrt(variance))


@pytest.mark.parametrize("values", [[5e-324], [1e300, -1e300], [1e-170, 3e-170, 1.0], [0.0, 1e140]])
@pytest.mark.parametrize("weight", [1 / 1024, 1.0, 1e6])
def test_probabilities_sum_to_one_whatever_was_learned(values, weight):
    model = GaussianNB()
    for i, x in enumerate(values * 2 + [2.0, 2.0]):
        model.learn_one({"x": x}, "abc"[i % 3], w=weight)
    model.unlearn_one({"x": 2.0}, "abc"[(2 * len(values) + 1) % 3], w=weight)
    for x in [*values, 0.0, 2.0, -1e300]:
        assert math.fsum(model.predict_proba_one({"x": x}).values()) == pytest.approx(1.0)


def test_the_variance_grows_with_the_spread_and_shrinks_with_examples():
    def of_first(n, M2):
        return read([(n * UNIT, 0.0, M2), (50 * UNIT, 1.0, 20.0)])[0][1]

    spreads = [of_first(20, M2) for M2 in (1e-12, 1e-6, 1e-3, 0.1, 1.0, 10.0, 1e3)]
    assert spreads == sorted(spreads)
    constant = [of_first(n, 0.0) for n in (1, 2, 5, 20, 100, 10_000)]
    assert constant == sorted(constant, reverse=True)


def flagged(n):
    """Events with a flag that equals the label, and a number that says nothing."""
    return [({"flag": float(i % 2), "same": 3.0}, "ab"[i % 2]) for i in range(n)]


def learn(model, events):
    for x, label in events:
        model.learn_one(x, label)
    return model


KINDS = {
    "gaussian": GaussianNB,
    "naive Bayes": NaiveBayes,
    "hypothesis": lambda: BayesOptimalNB(hypotheses=[Hypothesis()]),
    "default": BayesOptimalNB,
    "semi-supervised": lambda: SemiSupervisedNB(GaussianNB(), 1.0),
}


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_a_flag_that_equals_the_label_decides(make):
    model = learn(make(), flagged(200))
    for flag, label in ((0.0, "a"), (1.0, "b")):
        assert model.predict_proba_one({"flag": flag, "same": 3.0})[label] > 0.95


@pytest.mark.parametrize("shared", [False, True])
def test_a_flag_decides_for_a_tenant(shared):
    models = TenantModels(shared=shared)
    events = [({**x, "entity": "t"}, label) for x, label in flagged(200)]
    models.learn_many([x for x, _ in events], [label for _, label in events], [1.0] * 200)
    told = models.predict_posteriors([{"entity": "t", "flag": 1.0}])
    assert told.probabilities[0, told.classes.index("b")] > 0.99


def test_a_flag_decides_in_sequences():
    model = HiddenMarkovNB()
    for x, label in flagged(200):
        model.learn_one({**x, "entity": "e"}, label)
    assert model.predict_proba_one({"entity": "new", "flag": 1.0})["b"] > 0.99


def test_a_number_that_never_differs_says_nothing():
    model = learn(GaussianNB(), [({"same": 3.0}, "ab"[i % 2]) for i in range(100)])
    assert model.predict_proba_one({"same": 7.0})["a"] == pytest.approx(0.5)


def test_of_one_example_each_no_class_is_certain():
    model = learn(GaussianNB(), [({"x": 1.0}, "a"), ({"x": 2.0}, "b")])
    assert 0.6 < model.predict_proba_one({"x": 1.0})["a"] < 0.99


def test_a_rare_class_far_away_leaves_the_others_apart():
    """The mean of the variances would be 1,000 times what tells the two apart."""
    rng = np.random.default_rng(5)
    model = GaussianNB()
    for i in range(3000):
        label = "far" if i % 50 == 0 else "ab"[i % 2]
        mean, deviation = {"a": (0.0, 0.1), "b": (1.0, 0.1), "far": (1e3, 100.0)}[label]
        model.learn_one({"x": mean + deviation * rng.normal()}, label)
    assert model.predict_proba_one({"x": 0.1})["a"] > 0.99
    assert model.predict_proba_one({"x": 0.9})["b"] > 0.99


def test_batches_single_events_merges_and_takebacks_read_the_same():
    events = flagged(31) + [({"flag": 0.5 + i / 7}, "c") for i in range(5)]
    whole, parts = learn(GaussianNB(), events), [GaussianNB(), GaussianNB()]
    asked = [{"flag": q, "same": 2.0} for q in (-1.0, 0.0, 0.4, 1.0, 9.0)]
    batch, cut = GaussianNB(), GaussianNB()
    rows, labels = [x for x, _ in events], [label for _, label in events]
    at_once = batch.predict_then_learn_many(rows, labels).probabilities
    for i, (x, label) in enumerate(events):
        one = cut.predict_then_learn_many([x], [label]).probabilities[0]
        assert one.tolist() == at_once[i, : one.size].tolist()
    for i, (x, label) in enumerate(events):
        parts[i % 2].learn_one(x, label)
    parts[0].merge(parts[1])
    back = copy.deepcopy(whole)
    learn(back, events[:7])
    for x, label in events[:7]:
        back.unlearn_one(x, label)
    for x in asked:
        expected = whole.predict_proba_one(x)
        assert batch.predict_proba_one(x) == expected
        for other in (parts[0], back):
            assert other.predict_proba_one(x) == pytest.approx(expected, rel=1e-9, abs=1e-12)
