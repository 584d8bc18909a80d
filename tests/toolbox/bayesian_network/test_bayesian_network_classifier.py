"""The classifying network: naive Bayes as one, exact posteriors of any structure, and what batches must not show."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb import BayesianNetwork, BayesianNetworkClassifier, CategoricalNB, Nominal
from streamnb.errors import SnapshotError, UnlearnError
from tests.oracles.network_oracle import SMOOTHING, Enumerated, structures
from tests.support.states import digest, through_a_snapshot

NAMES = ("a", "b", "c")
TREE = {"a": ["label"], "b": ["label", "a"], "c": ["a", "b"]}
NAIVE = {name: ["label"] for name in NAMES}
VALUES = {"a": ["x", "y", True, 3, 3.5], "b": ["u", "v"], "c": ["p", "q", "r"]}
LABELS = st.sampled_from(["no", "yes", "maybe", None])
PRIORS = st.sampled_from(["learned", "uniform", {"no": 3.0, "yes": 1.0}])


@st.composite
def streams(draw, labels=LABELS, most=14):
    """(x, y, w) with attributes missing, labels missing and weights of all sizes."""
    one = st.fixed_dictionaries(
        {name: st.none() | st.sampled_from(values) for name, values in VALUES.items()}
    )
    events = draw(st.lists(st.tuples(one, labels, st.sampled_from([1.0, 0.5, 2.0, 0.0])), max_size=most))
    return [({k: v for k, v in x.items() if v is not None or k == "b"}, y, w) for x, y, w in events]


def close(found, expected):
    assert found.keys() == expected.keys()
    for label, p in expected.items():
        assert found[label] == pytest.approx(p, rel=1e-12, abs=1e-14)


# -- naive Bayes is one -----------------------------------------------------------------------------------


@given(streams(), SMOOTHING, PRIORS)
@settings(max_examples=120)
def test_with_the_label_as_only_parent_it_is_naive_bayes(stream, smoothing, prior):
    naive = CategoricalNB(**smoothing, prior=prior)
    model = BayesianNetworkClassifier(NAIVE, prior=prior, **smoothing)
    for x, y, w in stream:
        close(model.predict_proba_one(x), naive.predict_proba_one(x))
        for each in (naive, model):
            if y is not None:
                each.learn_one(x, y, w)
    for x in [{}, {"a": "never met", "b": "u"}, {"b": "v", "c": None}]:
        close(model.predict_proba_one(x), naive.predict_proba_one(x))
    assert model.class_weights == naive.class_weights
    assert (model.n_events, model.n_attributes) == (naive.n_events, naive.n_attributes)


def test_a_given_prior_is_that_of_the_network():
    model = BayesianNetworkClassifier({"a": ["label"]}, prior={"no": 0.3, "yes": 0.1})
    for label in ("yes", "no", "no", "no"):
        model.learn_one({"a": "x"}, label)
    assert model.network.probability({"label": "yes"}) == pytest.approx(0.25, rel=1e-14)
    assert model.network.marginal("label") == pytest.approx({"yes": 0.25, "no": 0.75}, rel=1e-14)
    assert model.network.probability({"label": "yes", "a": "x"}) == pytest.approx(0.25, rel=1e-14)
    assert model.predict_proba_one({}) == pytest.approx({"yes": 0.25, "no": 0.75}, rel=1e-14)
    tree = BayesianNetworkClassifier(TREE, prior={"no": 1.0})
    tree.learn_one({"a": "x", "b": "u"}, "yes")
    tree.learn_one({"a": "x", "b": "v"}, "maybe")  # a prior was given for neither: they are alike
    assert tree.predict_proba_one({"b": "u"}) == pytest.approx({"yes": 2 / 3, "maybe": 1 / 3}, rel=1e-12)
    assert tree.predict_proba_one({"a": "x"}) == pytest.approx({"yes": 0.5, "maybe": 0.5}, rel=1e-12)


@given(streams(labels=st.sampled_from(["no", "yes"])), SMOOTHING)
@settings(max_examples=80)
def test_naive_bayes_as_a_plain_network_answers_by_elimination_what_naive_bayes_does(stream, smoothing):
    naive = CategoricalNB(**smoothing)
    network = BayesianNetwork({"label": [], **NAIVE}, attributes={"label": Nominal(alpha=0)}, **smoothing)
    for x, y, w in stream:
        seen = {name: value for name, value in x.items() if value is not None}
        known = {
            n: value
            for n, value in seen.items()
            if {True: "true"}.get(value, str(value)) in network.values[n]  # noqa: PD011  of a network
        }
        close(network.marginal("label", given=known), naive.predict_proba_one(x))
        naive.learn_one(x, y, w)
        network.learn_one({**x, "label": y}, w)


@given(streams(labels=st.sampled_from(["no", "yes", "maybe"])))
@settings(max_examples=40)
def test_evidence_of_naive_bayes_is_that_of_naive_bayes(stream):
    naive, model = CategoricalNB(), BayesianNetworkClassifier(NAIVE)
    for x, y, w in stream:
        expected = {item.attribute: item for item in naive.explain_one(x) if abs(item.log_odds) > 1e-9}
        found = {item.attribute: item for item in model.explain_one(x) if abs(item.log_odds) > 1e-9}
        ties = sorted(naive.predict_proba_one(x).values(), reverse=True)
        if len(ties) > 1 and min(a - b for a, b in pairwise(ties)) > 1e-9:  # of equals either is a runner-up
            assert found.keys() == expected.keys()
            for name, item in expected.items():
                assert found[name].log_odds == pytest.approx(item.log_odds, rel=1e-9, abs=1e-10)
        for each in (naive, model):
            each.learn_one(x, y, w)


def test_evidence_is_what_the_answer_would_be_without():
    model = BayesianNetworkClassifier({"first": ["light"], "second": ["light", "first"]}, target="light")
    assert model.explain_one({"first": "up"}) == []
    for first, second, light in [("up", "up", "off"), ("up", "down", "on"), ("down", "up", "on")]:
        model.learn_one({"first": first, "second": second}, light, w=4)
    x = {"first": "up", "second": "down"}
    whole, without = model.predict_proba_one(x), model.predict_proba_one({"first": "up"})
    second, first = model.explain_one(x)
    assert (second.attribute, second.value, first.attribute) == ("second", "down", "first")
    expected = math.log(whole["on"] / whole["off"]) - math.log(without["on"] / without["off"])
    assert second.log_odds == pytest.approx(expected, rel=1e-12)
    assert model.explain_one(x, top=1) == [second]
    assert model.explain_one({"first": "never met"}) == []


# -- any structure ----------------------------------------------------------------------------------------


@st.composite
def structured(draw):
    """Parents of variables, one of which is the label; complete and incomplete events."""
    parents = draw(structures(5))
    target = draw(st.sampled_from(sorted(parents)))
    if len(parents) == 1:
        parents["other"] = [target]
    cards = {name: draw(st.integers(1, 3)) for name in parents}
    values = {name: st.sampled_from([f"x{i}" for i in range(cards[name])]) for name in parents}
    gappy = {n: value if n == target else st.just(None) | value for n, value in values.items()}
    events = [draw(st.fixed_dictionaries(values))]
    events += draw(st.lists(st.fixed_dictionaries(gappy), max_size=8))
    return parents, target, events


@given(structured(), SMOOTHING)
@settings(max_examples=120)
def test_posteriors_are_those_of_the_whole_joint_table(case, smoothing):
    parents, target, events = case
    model = BayesianNetworkClassifier(parents, target=target, **smoothing)
    for x in events:
        model.learn_one({n: v for n, v in x.items() if n != target}, x[target])
    unsmoothed = () if parents[target] else (target,)
    oracle = Enumerated(parents, [(x, 1) for x in events], unsmoothed=unsmoothed, **smoothing)
    for x in events:
        seen = {n: v for n, v in x.items() if n != target and v is not None}
        exact = oracle.distribution([target], seen)
        found = model.predict_proba_one(seen)
        assert found == pytest.approx({key: float(p) for (key,), p in exact.items()}, rel=1e-11, abs=1e-14)
        assert math.fsum(found.values()) == pytest.approx(1.0, abs=1e-12)
        network = model.network.marginal(target, given=seen)
        assert network == pytest.approx(found, rel=1e-11, abs=1e-14)


@given(streams(), st.lists(st.integers(0, 14), max_size=4), SMOOTHING)
@settings(max_examples=80)
def test_batches_cannot_be_observed(stream, cuts, smoothing):
    one, many = (BayesianNetworkClassifier(TREE, **smoothing) for _ in range(2))
    single = []
    for x, y, w in stream:
        single.append(one.predict_proba_one(x))
        one.learn_one(x, y, w)
    ends = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    found = []
    for first, last in pairwise(ends):
        part = stream[first:last]
        posteriors = many.predict_then_learn_many(
            [x for x, _, _ in part], [y for _, y, _ in part], [w for _, _, w in part]
        )
        found += [
            dict(zip(posteriors.classes[:known], row.tolist(), strict=False))
            for row, known in zip(posteriors.probabilities, posteriors.known.tolist(), strict=True)
        ]
    assert [{k: p for k, p in row.items() if p} for row in found] == [
        {k: p for k, p in row.items() if p} for row in single
    ]
    assert digest(many) == digest(one)


@pytest.mark.parametrize("seed", range(5))
def test_what_comes_later_in_a_batch_does_not_change_a_bit(seed):
    """A sum over the many values that a missing attribute had then, and over those that it will have."""
    rng = np.random.default_rng(seed)
    events = [{"a": f"a{rng.integers(19)}", "b": f"b{rng.integers(5)}"} for _ in range(400)]
    labels = [f"y{rng.integers(3)}" for _ in events]
    later = [{"b": f"b{i}"} for i in range(5)] + [{"a": f"new {i}", "b": "b1"} for i in range(30)]
    told = [*["y0"] * 5, *["y1"] * 30]
    one, many = (BayesianNetworkClassifier({"a": ["label"], "b": ["label", "a"]}) for _ in range(2))
    for model in (one, many):
        model.learn_many(events, labels)
    single = []
    for x, y in zip(later, told, strict=True):
        single.append(list(one.predict_proba_one(x).values()))
        one.learn_one(x, y)
    assert many.predict_then_learn_many(later, told).probabilities.tolist() == single


@given(streams())
@settings(max_examples=40)
def test_data_frames_are_read_as_their_rows(stream):
    frame = pd.DataFrame([x for x, _, _ in stream], columns=list(NAMES), dtype=object)
    labels = [y for _, y, _ in stream]
    first, second = BayesianNetworkClassifier(TREE), BayesianNetworkClassifier(TREE)
    by_frame = first.predict_then_learn_many(frame, pd.Series(labels, dtype=object))
    by_rows = second.predict_then_learn_many([x for x, _, _ in stream], labels)
    assert by_frame.classes == by_rows.classes
    assert np.array_equal(by_frame.probabilities, by_rows.probabilities)
    assert by_frame.known.tolist() == by_rows.known.tolist()
    assert digest(first) == digest(second)


def test_an_attribute_that_others_hang_on_is_summed_out_and_not_dropped():
    """Where naive Bayes drops a factor, a network sums over what it might have been."""
    model = BayesianNetworkClassifier(
        {"first": ["light"], "second": ["light", "first"]}, target="light", alpha=0
    )
    for first, second, light, times in [
        ("up", "up", "off", 3),
        ("up", "down", "on", 5),
        ("down", "up", "on", 1),
        ("down", "down", "off", 1),
    ]:
        model.learn_one({"first": first, "second": second}, light, times)
    # P(on, down) = .6 (5/6 1 + 1/6 0) = .5, P(off, down) = .4 (3/4 0 + 1/4 1) = .1
    assert model.predict_proba_one({"second": "down"})["on"] == pytest.approx(5 / 6, rel=1e-14)
    assert model.predict_proba_one({"first": None, "second": "down"})["on"] == pytest.approx(5 / 6, rel=1e-14)
    assert model.predict_proba_one({"first": "never met", "second": "down"})["on"] == pytest.approx(5 / 6)
    assert model.predict_proba_one({"first": "down"})["on"] == pytest.approx(0.6 / 6 / (0.6 / 6 + 0.4 / 4))
    best, _ = model.network.most_probable(given={"light": "on"})
    assert best == {"first": "up", "second": "down"}
    assert model.network.d_separated("first", "light") is False


# -- the laws of counting ---------------------------------------------------------------------------------


def taught(stream, **parameters):
    model = BayesianNetworkClassifier(TREE, **parameters)
    for x, y, w in stream:
        model.learn_one(x, y, w)
    return model


def counted(model):
    return (
        {name: model.network.counts(name) for name in model.network.parents},
        {label: w for label, w in model.class_weights.items() if w},
        model.n_events,
        model.n_attributes,
    )


@given(streams(), st.integers(0, 14))
@settings(max_examples=40)
def test_unlearning_is_the_inverse(stream, gone):
    model = taught(stream)
    for x, y, w in stream[:gone]:
        if y is not None:
            model.unlearn_one(x, y, w)
    assert counted(model) == counted(taught(stream[gone:]))
    for x, _, _ in stream:
        close(model.predict_proba_one(x), taught(stream[gone:]).predict_proba_one(x))


def test_a_class_that_was_left_out_is_not_unlearned():
    model = BayesianNetworkClassifier(NAIVE, cells=4)
    for a, y in [("x", "one"), ("y", "two"), ("x", "three")]:
        model.learn_one({"a": a, "b": "u"}, y)
    assert model.classes == ["one", "two"]
    before = digest(model)
    with pytest.raises(UnlearnError, match="'three'"):
        model.unlearn_one({"a": "x", "b": "u"}, "three")
    assert digest(model) == before


@pytest.mark.parametrize("kind", [Counter, lambda x: defaultdict(int, x)])
def test_what_a_mapping_makes_up_for_absent_keys_is_no_value(kind):
    one, many = (BayesianNetworkClassifier(NAIVE) for _ in range(2))
    for x in ({"a": 1}, {"b": 2}):
        one.learn_one(x, "yes")
    many.learn_many([kind({"a": 1}), kind({"b": 2})], ["yes", "yes"])
    assert digest(many) == digest(one)


@given(streams(), st.integers(0, 14), SMOOTHING)
@settings(max_examples=40)
def test_restart_is_no_restart(stream, cut, smoothing):
    model = taught(stream[:cut], **smoothing)
    part = through_a_snapshot(model)
    again = BayesianNetworkClassifier(TREE, **smoothing).load_state(part.meta, part.arrays)
    for x, y, w in stream[cut:]:
        assert again.predict_proba_one(x) == model.predict_proba_one(x)
        again.learn_one(x, y, w)
        model.learn_one(x, y, w)
    assert digest(again) == digest(model)


def test_states_of_others_are_refused():
    model = taught([({"a": "x"}, "yes", 1.0)])
    meta, arrays = model.state()
    with pytest.raises(SnapshotError):
        model.load_state({**meta, "type": "BayesianNetwork"}, arrays)
    with pytest.raises(SnapshotError):
        BayesianNetworkClassifier({"a": ["label"]}).load_state(meta, arrays)
    assert model.predict_proba_one({}) == {"yes": 1.0}


# -- edges ------------------------------------------------------------------------------------------------


def test_labels_are_what_they_were():
    model = BayesianNetworkClassifier({"a": ["label"]})
    for label in (True, 3, "true", 2.5):
        model.learn_one({"a": str(label)}, label)
    assert model.classes == [True, 3, "true", 2.5]
    assert model.predict_one({"a": "3"}) == 3
    again = BayesianNetworkClassifier({"a": ["label"]}).load_state(*model.state())
    assert again.classes == [True, 3, "true", 2.5]
    assert again.classes[0] is True


def test_nothing_learned_one_class_and_a_class_that_is_gone():
    model = BayesianNetworkClassifier(TREE)
    assert model.predict_proba_one({"a": "x"}) == {}
    assert model.predict_one({"a": "x"}) is None
    assert model.predict_then_learn_many([], []).probabilities.shape == (0, 0)
    model.learn_one({"a": "x", "b": "u"}, "yes")
    assert model.predict_proba_one({"b": "u"}) == {"yes": 1.0}
    model.learn_one({"a": "x"}, "no")
    model.unlearn_one({"a": "x"}, "no")
    assert model.predict_proba_one({"b": "u"}) == {"yes": 1.0}
    for x, y, w in [({"a": "x"}, "no", 1.0), ({"a": "z"}, "yes", 1.0), ({}, None, 1.0), ({}, "other", 1.0)]:
        with pytest.raises(UnlearnError):
            model.unlearn_one(x, y, w)


def test_an_event_that_cannot_be_read_teaches_nothing():
    model = BayesianNetworkClassifier(TREE)
    model.learn_one({"a": "x"}, "yes")
    before = digest(model)
    for xs, ys, ws in [
        ([{"a": "new"}, {"a": ["x"]}], ["no", "yes"], None),
        ([{"a": "new"}], [["yes"]], None),
        ([{"a": "new"}], ["yes"], [-1.0]),
        ([{"a": "new"}], ["yes", "no"], None),
    ]:
        with pytest.raises((TypeError, ValueError)):
            model.predict_then_learn_many(xs, ys, ws)
        assert digest(model) == before
    with pytest.raises(TypeError):
        model.learn_one({"a": "new"}, ["yes"])
    with pytest.raises(TypeError):
        model.predict_proba_one({"a": {"x": 1}})
    assert digest(model) == before


def test_tables_that_are_full_leave_values_and_classes_out():
    model = BayesianNetworkClassifier({"a": ["label"]}, cells=6)
    posteriors = model.predict_then_learn_many(
        [{"a": f"x{i}"} for i in range(9)], [f"y{i}" for i in range(9)]
    )
    assert model.classes == ["y0", "y1", "y2"]
    assert model.network.values["a"] == ["x0", "x1"]  # noqa: PD011
    assert posteriors.known.tolist() == [0, 1, 2, *[3] * 6]
    one = BayesianNetworkClassifier({"a": ["label"]}, cells=6)
    for i in range(9):
        one.learn_one({"a": f"x{i}"}, f"y{i}")
    assert one.n_events == model.n_events == 3
    assert digest(one) == digest(model)


def test_a_hundred_attributes_of_tiny_probability_do_not_underflow():
    names = [f"v{i}" for i in range(400)]
    model = BayesianNetworkClassifier({name: ["label"] for name in names}, alpha=1e-9)
    for label in ("no", "yes"):
        for _ in range(50):
            model.learn_one(dict.fromkeys(names, label), label)
    model.learn_one({**dict.fromkeys(names, "no"), "v0": "yes"}, "no")
    found = model.predict_proba_one({**dict.fromkeys(names[:200], "no"), **dict.fromkeys(names[200:], "yes")})
    assert math.fsum(found.values()) == pytest.approx(1.0)
    assert min(found.values()) > 0.0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "needs at least one attribute"),
        ({"parents": {"label": []}}, "needs at least one attribute"),
        ({"parents": {"a": ["b"]}}, "'b' is not a variable"),
        ({"parents": {"a": ["b"], "b": ["a"]}}, "form a cycle"),
        ({"parents": {"a": ["label"], "label": ["a"]}}, "form a cycle"),
        ({"attributes": {"label": "nominal"}}, "is the target"),
        ({"attributes": {"a": "continuous"}}, "reads only nominal values"),
        ({"parents": {"label": ["a"], "a": []}, "prior": "uniform"}, "has parents"),
        ({"parents": {"a": ["label"]}, "prior": "other"}, "prior must be"),
        ({"parents": {"a": ["label"]}, "alpha": -1.0}, "alpha must be"),
    ],
)
def test_what_is_no_classifier_is_refused(arguments, said):
    with pytest.raises(ValueError, match=said):
        BayesianNetworkClassifier(**arguments)


def test_weights_are_exact():
    model = BayesianNetworkClassifier({"a": ["label"]}, alpha=0.5)
    model.learn_one({"a": "x"}, "yes", 2.0**20)
    model.learn_one({"a": "y"}, "yes", 1 / 1024)
    model.learn_one({"a": "y"}, "no", 3)
    n = Fraction(2**20) + Fraction(1, 1024)
    yes, no = n * (Fraction(1, 1024) + Fraction(1, 2)) / (n + 1), 3 * Fraction(7, 2) / 4
    assert model.predict_proba_one({"a": "y"})["yes"] == pytest.approx(float(yes / (yes + no)), rel=1e-13)
