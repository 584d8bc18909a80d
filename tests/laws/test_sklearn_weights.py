"""Weights of `StreamClassifier` that are too small to be counted as they are: `fit` scales, nothing else does."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import AdaBoostClassifier

from streamnb import (
    BayesOptimalNB,
    CategoricalNB,
    GaussianNB,
    HiddenMarkovNB,
    Hypothesis,
    NaiveBayes,
    Nominal,
)
from streamnb.errors import SmallWeightWarning
from streamnb.models.mixture.scaled_smoothing import scale_of, scaled_parameters
from streamnb.sklearn import StreamClassifier

COLOURS = np.array(["red", "red", "blue", "blue", "red", "green"] * 20)
SIZES = np.array(["s", "l", "l", "s", "s", "l"] * 20)
FRAME = pd.DataFrame({"colour": COLOURS, "size": SIZES})
LABELS = np.array([0, 0, 1, 1, 0, 1] * 20)
WEIGHTS = np.random.default_rng(3).uniform(0.2, 3.0, LABELS.size) / 20_000


def reference(weights, alpha):
    """P(class 1 | row) by the formula, in doubles, with the weights as they are."""
    joint = np.zeros((LABELS.size, 2))
    for k in (0, 1):
        of = weights * (k == LABELS)
        joint[:, k] = np.log(of.sum() / weights.sum())
        for column in (COLOURS, SIZES):
            values = np.unique(column)
            of_value = {value: of[column == value].sum() for value in values}
            share = {v: (n + alpha) / (of.sum() + alpha * values.size) for v, n in of_value.items()}
            joint[:, k] += np.log([share[value] for value in column])
    odds = joint[:, 1] - joint[:, 0]
    return 1.0 / (1.0 + np.exp(-odds))


@pytest.mark.parametrize(
    "model",
    [None, NaiveBayes(), CategoricalNB(), HiddenMarkovNB(), NaiveBayes({"colour": Nominal(alpha=1.0)})],
)
def test_fit_is_the_model_of_the_weights_given(model):
    made = StreamClassifier(model).fit(FRAME, LABELS, sample_weight=WEIGHTS)
    assert made.weight_scale_ == 2.0 ** np.ceil(-np.log2(WEIGHTS.max()))
    assert made.predict_proba(FRAME)[:, 1] == pytest.approx(reference(WEIGHTS, 1.0), rel=2e-3)
    plain = StreamClassifier(model).fit(FRAME, LABELS)
    assert plain.weight_scale_ == 1.0
    assert plain.predict_proba(FRAME)[:, 1] == pytest.approx(reference(np.ones(LABELS.size), 1.0), rel=1e-12)


def test_partial_fit_keeps_the_scale_of_fit():
    first, rest = slice(0, 60), slice(60, 120)
    made = StreamClassifier().fit(FRAME[first], LABELS[first], sample_weight=WEIGHTS[first])
    scale = made.weight_scale_
    made.partial_fit(FRAME[rest], LABELS[rest], sample_weight=WEIGHTS[rest])
    assert made.weight_scale_ == scale > 1.0
    assert made.predict_proba(FRAME)[:, 1] == pytest.approx(reference(WEIGHTS, 1.0), rel=2e-3)
    whole = np.append(WEIGHTS[first], np.ones(60))
    made = StreamClassifier().fit(FRAME[first], LABELS[first], sample_weight=WEIGHTS[first])
    made.partial_fit(FRAME[rest], LABELS[rest])  # of weight 1
    assert made.predict_proba(FRAME)[:, 1] == pytest.approx(reference(whole, 1.0), rel=2e-3)


def test_partial_fit_alone_never_scales_and_says_so():
    made = StreamClassifier()
    with pytest.warns(SmallWeightWarning):
        made.partial_fit(FRAME, LABELS, sample_weight=WEIGHTS)
    assert made.weight_scale_ == 1.0
    assert sum(made.model_.class_weights.values()) == np.maximum(np.rint(WEIGHTS * 1024), 1).sum() / 1024


@pytest.mark.parametrize("weights", [[1 / 1024, 2.0], [0.0, 1.0], [0.0, 0.0], [3.0, 0.001]])
def test_weights_of_a_unit_or_more_are_not_scaled(weights):
    assert scale_of(np.array(weights)) == 1.0


@pytest.mark.parametrize(
    ("weights", "scale"),
    [
        ([1 / 1025], 2.0**11),
        ([0.0, 2.0**-20, 5.0], 2.0**17),  # the greatest weight stays within 2^20
        ([1e-9, 2.0**20], 1.0),
        ([2.0**-30] * 4, 2.0**30),
        ([1e-300, 1e-290], 2.0**60),
        ([1e-320, 1e-320], 2.0**60),  # 2^1064 is no double
        ([2.0**20 + 1.0, 1.0], 0.5),
        ([0.0, 5e5, 2e6], 0.5),
        ([2.0**80, 1.0], 2.0**-60),
        ([2.0**81, 1.0], 1.0),
        ([1e308] * 4, 1.0),  # their sum is no double
        ([1e-5, 2.0**21], 0.5),
        ([0.5], 2.0),
        ([0.25, 0.75], 2.0),
        ([0.999, 0.0], 2.0),
        ([np.nextafter(1.0, 0.0)], 2.0),
        ([2.0**-10 * 0.4, 0.5], 2.0**12),  # twice the least is below a unit, too
    ],
)
def test_the_scale_makes_the_least_weight_an_example_as_far_as_all_fit(weights, scale):
    assert scale_of(np.array(weights)) == scale


@given(
    seed=st.integers(0, 10**6),
    steps=st.integers(0, 40),
    low=st.sampled_from([1.0, 1e-3, 1e-6]),
    model=st.sampled_from([None, GaussianNB()]),
)
@settings(max_examples=30, deadline=None)
def test_means_and_variances_do_not_depend_on_a_common_factor(seed, steps, low, model):
    """Weights of 1/n give the variances of n examples, for few rows as for many."""
    rng = np.random.default_rng(seed)
    y = np.append([0, 1, 2], rng.integers(0, 3, 30))
    X = rng.normal(size=(y.size, 2)) * (1.0 + y)[:, None]
    weights = np.exp(rng.uniform(np.log(low), np.log(1.99), y.size))
    weights[rng.random(y.size) < 0.1] = 0.0
    weights[:3] = rng.uniform(1.0, 1.99, 3)
    fits = [StreamClassifier(model).fit(X, y, sample_weight=w) for w in (weights, weights * 2.0**-steps)]
    assert fits[1].weight_scale_ == fits[0].weight_scale_ * 2.0**steps
    assert np.array_equal(fits[0].predict_proba(X), fits[1].predict_proba(X))


@pytest.mark.parametrize("n", [100, 1000, 3000])
def test_weights_that_sum_to_one_learn_a_difference_of_variances(n):
    """With 1/n taken for 1/n example, every class would have the variance of all."""
    rng = np.random.default_rng(n)
    y = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 2)) * np.where(y == 1, 4.0, 1.0)[:, None]
    plain = StreamClassifier().fit(X, y)
    weighted = StreamClassifier().fit(X, y, sample_weight=np.full(n, 2.0**-11))
    assert np.array_equal(weighted.predict_proba(X), plain.predict_proba(X))
    shares = StreamClassifier().fit(X, y, sample_weight=np.full(n, 1 / n))
    assert shares.score(X, y) == pytest.approx(plain.score(X, y), abs=0.02)
    assert plain.score(X, y) > 0.8


@pytest.mark.parametrize("factor", [1e6, 1e12])
def test_a_common_factor_of_weights_is_taken_out(factor):
    weights = WEIGHTS * 20_000
    made = StreamClassifier(NaiveBayes(alpha=factor)).fit(FRAME, LABELS, sample_weight=weights * factor)
    assert made.weight_scale_ < 1.0
    assert made.predict_proba(FRAME)[:, 1] == pytest.approx(reference(weights, 1.0), rel=2e-3)


def test_weights_that_no_scale_brings_near_one():
    with pytest.warns(SmallWeightWarning):
        made = StreamClassifier().fit(FRAME, LABELS, sample_weight=np.full(LABELS.size, 1e-320))
    assert np.isfinite(made.predict_proba(FRAME)).all()
    with pytest.raises(ValueError, match=r"between 0 and 2\^20, not .*1e\+300"):
        StreamClassifier().fit(FRAME, LABELS, sample_weight=np.full(LABELS.size, 1e300))


def test_what_does_not_fit_counts_a_unit_and_is_told():
    weights = np.where(np.arange(LABELS.size) == 7, 2.0**20, 1e-9)
    with pytest.warns(SmallWeightWarning):
        made = StreamClassifier().fit(FRAME, LABELS, sample_weight=weights)
    assert made.model_.class_weights[1] < 2.0**20 + 1.0
    assert np.isfinite(made.predict_proba(FRAME)).all()


def test_smoothing_is_scaled_wherever_it_stands_and_names_of_hypotheses_stay():
    model = BayesOptimalNB(
        {"a": Nominal(m=2.0, p=0.5), "b": "text"}, [Hypothesis(), Hypothesis("bernoulli", m=3.0)]
    )
    found = scaled_parameters(model._get_params(), 4.0)
    assert found["attributes"] == {"a": Nominal(m=8.0, p=0.5), "b": "text"}
    assert [(h.alpha, h.m, h.label) for h in found["hypotheses"]] == [
        (4.0, None, "multinomial alpha=1"),
        (None, 12.0, "bernoulli m=3"),
    ]
    assert scaled_parameters(HiddenMarkovNB(transition_m=0.5)._get_params(), 4.0)["transition_m"] == 2.0


@pytest.mark.parametrize("n", [3000, 10_000])
def test_adaboost_learns_from_weights_that_sum_to_one(n):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0.0, "up", "down")
    made = AdaBoostClassifier(StreamClassifier(), n_estimators=3).fit(X, y)
    assert made.score(X, y) > 0.85
    assert made.predict_proba(X[:100]).sum(axis=1) == pytest.approx(1.0, rel=1e-12)
    assert all(one.weight_scale_ > 1.0 for one in made.estimators_)


def test_a_mixture_learns_from_small_weights():
    weights = np.full(LABELS.size, 1.0 / 50_000)
    made = StreamClassifier(BayesOptimalNB()).fit(FRAME, LABELS, sample_weight=weights)
    assert made.score(FRAME, LABELS) > 0.9
    assert made.predict_proba(FRAME).sum(axis=1) == pytest.approx(1.0, rel=1e-12)
