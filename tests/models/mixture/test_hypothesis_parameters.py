"""The tables of each hypothesis, multiplied by hand, are its joint likelihood."""

from __future__ import annotations

import math
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb import (
    BayesOptimalClassifier,
    BayesOptimalNB,
    CategoricalNB,
    Hypothesis,
    NaiveBayes,
    OneDependence,
)
from streamnb.models.mixture.hypothesis_kinds import DEFAULT_HYPOTHESES
from tests.models.naive_bayes.test_parameters import by_parameters

HYPOTHESES = [
    Hypothesis("multinomial", alpha=0.5),
    Hypothesis("presence", m=3.0),
    Hypothesis("bernoulli", alpha=0.25, prior="uniform"),
    Hypothesis("multinomial", prior={"a": 3.0, "b": 1.0}),
]
UNREAD = [
    Hypothesis("complement"),
    Hypothesis("multinomial", alpha=2.0, calibrated=True),
    Hypothesis("multinomial", half_life=60.0),
    Hypothesis("multinomial", alpha=3.0, density="binned"),
]
EVENT = st.fixed_dictionaries(
    {},
    optional={
        "colour": st.sampled_from("rgb"),
        "text": st.sampled_from(["win cash", "lunch now", "cash now now", ""]),
        "size": st.floats(-9, 9),
    },
)
ROWS = st.lists(st.tuples(EVENT, st.sampled_from("abc")), min_size=1, max_size=12)


def occurring(x, likelihood):
    """Each word once, as presence and Bernoulli count it."""
    if likelihood == "multinomial" or "text" not in x:
        return x
    return {**x, "text": " ".join(dict.fromkeys(x["text"].split()))}


@settings(max_examples=60)
@given(ROWS)
def test_the_product_of_its_tables_is_the_joint_likelihood_of_a_hypothesis(rows):
    model = BayesOptimalNB({"text": "text"}, [*HYPOTHESES, *UNREAD])
    for x, label in rows:
        model.learn_one(x, label)
    found = model.parameters()
    assert list(found) == [h.label for h in HYPOTHESES]
    for x, _ in rows:
        joints = model.joint_log_likelihoods(x)
        for h in HYPOTHESES:
            for label, joint in joints[h.label].items():
                expected = by_parameters(found[h.label], occurring(x, h.likelihood), label)
                assert joint == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert model.n_parameters == sum(sum(own.n_free.values()) for own in found.values())


def averaged(found, x, label):
    """Return P(label, x) of averaged one-dependence estimators of single values and of pairs."""
    alone = {name: found.discrete[name][label][value] for name, value in x.items()}
    parents = [name for name in x if found.met[name, x[name]] >= 30]
    if not parents:
        return found.prior[label] * math.prod(alone.values())
    each = [alone[b] * math.prod(found.pair(a, b)[label][x[b]][x[a]] for a in x if a != b) for b in parents]
    return found.prior[label] * math.fsum(each) / len(each)


def test_pairs_of_values_are_read_by_their_tables():
    estimator = OneDependence(prior_weight=2.0)
    model = BayesOptimalNB(hypotheses=[estimator])
    met = {}
    for i in range(120):
        x = {"a": "uv"[i % 2], "b": "xyz"[i * i % 3], "c": "pq"[i % 5 == 0]}
        model.learn_one(x, "kl"[i % 7 < 3])
        for pair in x.items():
            met[pair] = met.get(pair, 0) + 1
    found = model.parameters()[estimator.label]
    found.met = met
    for x in (
        {"a": "u", "b": "x", "c": "p"},
        {"a": "v", "b": "y", "c": "q"},
        {"b": "x", "c": "q"},
        {"c": "q"},
    ):
        joints = model.joint_log_likelihoods(x)[estimator.label]
        for label in "kl":
            assert joints[label] == pytest.approx(math.log(averaged(found, x, label)), rel=1e-12)
    assert found.paired == ["a", "b", "c"]
    values = {name: len(found.discrete[name]["k"]) for name in "abc"}
    assert found.n_free == {
        None: 1, **{name: 2 * n for name, n in values.items()},
        ("a", "b"): 2 * values["a"] * values["b"], ("a", "c"): 2 * values["a"] * 2, ("b", "c"): 2 * values["b"] * 2,
    }  # fmt: skip
    for a, b in permutations("abc", 2):
        n = {
            above: sum(1 for i in range(120) if row_of(i)[b] == above and "kl"[i % 7 < 3] == "k")
            for above in "uvxyzpq"
        }
        for above, row in found.pair(a, b)["k"].items():
            here = sum(
                1 for i in range(120)
                if row_of(i)[b] == above and row_of(i)[a] == next(iter(row)) and "kl"[i % 7 < 3] == "k"
            )  # fmt: skip
            value = next(iter(row))
            assert row[value] == pytest.approx(
                (here + 2.0 * found.discrete[a]["k"][value]) / (n[above] + 2.0)
            )
    with pytest.raises(KeyError):
        found.pair("a", "a")
    with pytest.raises(KeyError):
        found.pair("a", "late")


def row_of(i):
    return {"a": "uv"[i % 2], "b": "xyz"[i * i % 3], "c": "pq"[i % 5 == 0]}


def test_numbers_of_a_pair_are_named_by_their_bin():
    model = BayesOptimalNB(hypotheses=[OneDependence()])
    for x, label in [(1.3, "a"), (-2.0, "b"), (0.0, "b"), (5.1, "a")]:
        model.learn_one({"size": x}, label)
    (found,) = model.parameters().values()
    assert list(found.discrete["size"]["a"]) == ["1.25", "-2", "0", "5"]


def test_the_default_has_tables_of_naive_bayes_and_of_pairs():
    model = BayesOptimalNB()
    assert model.n_parameters == 0
    model.learn_many([{"text": "win", "colour": "r"}, {"text": "lunch", "colour": "g"}], ["spam", "ham"])
    named = [h.label for h in DEFAULT_HYPOTHESES if isinstance(h, Hypothesis) and not h.calibrated]
    pairs = [h.label for h in DEFAULT_HYPOTHESES if isinstance(h, OneDependence)]
    assert list(model.parameters()) == [*named, *pairs]


def test_a_mixture_of_classifiers_has_those_of_each():
    model = BayesOptimalClassifier({"mixed": NaiveBayes(), "nominal": CategoricalNB()})
    model.learn_one({"colour": "r"}, "a")
    model.learn_one({"colour": "g"}, "b")
    assert list(model.parameters()) == ["mixed", "nominal"]
    assert model.n_parameters == 2 * 3
