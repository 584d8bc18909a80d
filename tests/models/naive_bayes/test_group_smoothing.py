"""A p of each value, a smoothed class prior and one variance for all classes, against sums in plain Python."""

from __future__ import annotations

import copy
import math
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamnb import (
    BayesOptimalNB,
    CategoricalNB,
    GaussianNB,
    HiddenMarkovNB,
    Hypothesis,
    NaiveBayes,
    Nominal,
    SmoothedPrior,
    load,
    merge_all,
)
from streamnb.models.tenants.tenant_models import TenantModels
from tests.support.states import bytes_of

P = {"r": 0.6, "g": 0.3, True: 0.1}
PRIORS = {
    "values": SmoothedPrior(m=3.0, p={"a": 0.2, "b": 0.5, "c": 0.3}),
    "even": SmoothedPrior(m=3.0),
    "learned": "learned",
}
EVENT = st.fixed_dictionaries(
    {},
    optional={
        "colour": st.sampled_from(["r", "g", True, None]),
        "shape": st.sampled_from(["round", "square"]),
        "size": st.one_of(st.integers(-40, 40).map(lambda n: n / 8), st.just(math.nan)),
        "text": st.sampled_from(["win cash", "lunch now", "win", "round"]),
    },
)
LABELS = st.sampled_from(["a", "b", "c"])
WEIGHTS = st.sampled_from([1.0, 1.0, 2.5, 0.25])
ROWS = st.lists(st.tuples(EVENT, LABELS, WEIGHTS), max_size=16)
HOW = st.tuples(st.sampled_from(list(PRIORS)), st.sampled_from([2.0, 0.5]))


MET = [({"colour": c}, y, 1.0) for c, y in (("r", "a"), ("r", "a"), ("g", "b"), (True, "b"))]


def new(how, covariance="tied"):
    prior, m = how
    return NaiveBayes({"colour": Nominal(m=m, p=P)}, prior=PRIORS[prior], covariance=covariance)


def taught(rows, how=("values", 2.0)):
    model = new(how)
    for x, y, w in rows:
        model.learn_one(x, y, w)
    return model


def text_of(value):
    return "true" if value is True else value


def oracle(rows, x, how):
    """Return log P(v, x) of each class by the formulas of the lectures, from the rows themselves."""
    name, m = how
    n = Counter()
    for _, y, w in rows:
        n[y] += w
    labels = list(n)
    prior = PRIORS[name]
    added = dict.fromkeys(labels, 0.0)
    if prior != "learned":
        added = {v: prior.m * (1 / len(labels) if prior.p is None else prior.p[v]) for v in labels}
    joint = {v: math.log((n[v] + added[v]) / math.fsum([*n.values(), *added.values()])) for v in labels}
    for attribute in ("colour", "shape"):
        known = [(r[attribute], y, w) for r, y, w in rows if r.get(attribute) is not None]
        value = x.get(attribute)
        if value is None or not known or (attribute == "shape" and value not in {a for a, *_ in known}):
            continue
        k = len({a for a, *_ in known})
        s, S = (m * P[value], m) if attribute == "colour" else (1.0, float(k))
        for v in labels:
            here = math.fsum(w for a, y, w in known if y == v and a == value)
            joint[v] += math.log((here + s) / (math.fsum(w for _, y, w in known if y == v) + S))
    words = [(word, y, w) for r, y, w in rows for word in r.get("text", "").split()]
    for word in x.get("text", "").split():
        if word in {a for a, *_ in words}:
            for v in labels:
                here = math.fsum(w for a, y, w in words if y == v and a == word)
                total = math.fsum(w for _, y, w in words if y == v)
                joint[v] += math.log((here + 1) / (total + len({a for a, *_ in words})))
    return add_number(rows, x, labels, joint)


def add_number(rows, x, labels, joint):
    """Add log N(size; mean of the class, one variance within classes)."""
    of = defaultdict(list)
    for r, y, w in rows:
        if not math.isnan(r.get("size", math.nan)):
            of[y].append((r["size"], w))
    everything = [pair for own in of.values() for pair in own]
    if math.isnan(x.get("size", math.nan)) or len({value for value, _ in everything}) < 2:
        return joint
    values, weights = np.array(everything).T
    total = np.average((values - np.average(values, weights=weights)) ** 2, weights=weights)
    mean = {y: np.average(*np.array(own).T[:1], weights=np.array(own).T[1]) for y, own in of.items()}
    within = (
        math.fsum(w * (value - mean[y]) ** 2 for y, own in of.items() for value, w in own) / weights.sum()
    )
    shared = max(within, 1e-9 * total) if within > 1e-25 else total / 5
    for v in labels:
        centre = mean.get(v, np.average(values, weights=weights))
        joint[v] -= 0.5 * (math.log(2 * math.pi * shared) + (x["size"] - centre) ** 2 / shared)
    return joint


@settings(max_examples=300)
@given(ROWS, EVENT, HOW)
def test_the_score_is_that_of_the_formulas(rows, x, how):
    model, expected = taught(rows, how), oracle(rows, x, how)
    found = model.joint_log_likelihood(x)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)
    if expected:
        highest = max(expected.values())
        whole = math.fsum(math.exp(log - highest) for log in expected.values())
        shares = {v: math.exp(log - highest) / whole for v, log in expected.items()}
        assert model.predict_proba_one(x) == pytest.approx(shares, rel=1e-9, abs=1e-12)


@settings(max_examples=150)
@given(ROWS, st.lists(st.integers(1, 5), min_size=1, max_size=8), HOW)
def test_one_by_one_is_a_batch_to_the_last_bit(rows, cuts, how):
    alone, cut, expected, got, start = new(how), new(how), [], [], 0
    for x, y, w in rows:
        expected.append(alone.predict_proba_one(x))
        alone.learn_one(x, y, w)
    while start < len(rows):
        part = rows[start : start + cuts[start % len(cuts)]]
        told = cut.predict_then_learn_many(*zip(*part, strict=True))
        found = zip(told.known, told.probabilities, strict=True)
        got += [dict(zip(told.classes[:k], row.tolist(), strict=False)) for k, row in found]
        start += len(part)
    assert got == expected
    assert bytes_of(alone) == bytes_of(cut)


@given(ROWS, ROWS, EVENT, HOW)
def test_unlearning_and_merging_are_those_of_counts(rows, more, x, how):
    plain, model = taught(rows, how), taught([*rows, *more], how)
    for event, y, w in reversed(more):
        model.unlearn_one(event, y, w)
    assert model.class_weights == {**dict.fromkeys(model.class_weights, 0.0), **plain.class_weights}
    for name in ("colour", "shape"):
        counts = model.class_counts(name) if model.knows(name) else {}
        assert counts == (plain.class_counts(name) if plain.knows(name) else {})
    without = {name: value for name, value in x.items() if name != "size"}
    assert model.joint_log_likelihood(without) == pytest.approx(plain.joint_log_likelihood(without))
    merged, whole = taught(rows, how).merge(taught(more, how)), taught([*rows, *more], how)
    assert merged.joint_log_likelihood(x) == pytest.approx(whole.joint_log_likelihood(x), rel=1e-9)


@given(ROWS, EVENT, HOW)
def test_a_state_a_file_and_a_copy_hold_everything(tmp_path_factory, rows, x, how):
    model = taught(rows, how)
    path = tmp_path_factory.mktemp("saved") / "model.snb"
    model.save(path)
    for again in (load(path), copy.deepcopy(model), new(how).load_state(*model.state())):
        assert again.joint_log_likelihood(x) == model.joint_log_likelihood(x)
        again.learn_one({"colour": "g", "size": 1.0}, "b")
        assert again.predict_proba_one(x) == taught_more(model).predict_proba_one(x)
    assert load(path).prior == PRIORS[how[0]]


def taught_more(model):
    more = copy.deepcopy(model)
    more.learn_one({"colour": "g", "size": 1.0}, "b")
    return more


@example([*MET, ({"colour": "r"}, "b", 1.0)], {"colour": "r"}, ("learned", 2.0))
@given(ROWS, EVENT, HOW)
def test_items_views_and_parameters_add_up_to_the_log_odds(rows, x, how):
    model = taught(rows, how)
    joint = model.joint_log_likelihood(x)
    explanation = model.explanation_one(x)
    if explanation is not None:
        pair = explanation[:2]
        odds = joint[pair[0]] - joint[pair[1]]
        parts = explanation.prior, *(item.log_odds for item in explanation.items)
        assert math.fsum(parts) == pytest.approx(odds, rel=1e-9, abs=1e-9)
        view = model.linear_view(*pair)
        assert view.log_odds(x) == pytest.approx(odds, rel=1e-9, abs=1e-7)
        assert all(curve.square == 0.0 for curve in view.curves)
    parameters = model.parameters()
    for own in parameters.discrete.values():
        for row in own.table.values():
            assert math.fsum(row.values()) == pytest.approx(1.0)
    K = len(model.class_weights)
    assert all(parameters.n_free[name] == K + 1 for name in parameters.continuous)
    for label, log in joint.items():
        found = math.log(parameters.prior[label])
        for name, own in parameters.discrete.items():
            values = x.get(name, "").split() if name == "text" else [text_of(x.get(name))]
            found += sum(math.log(own.table[label][value]) for value in values if value in own.table[label])
        for name, own in parameters.continuous.items():
            if not math.isnan(x.get(name, math.nan)):
                away = (x[name] - own[label].mean) ** 2 / own[label].variance
                found -= 0.5 * (math.log(2 * math.pi * own[label].variance) + away)
        assert found == pytest.approx(log, rel=1e-9, abs=1e-9)


def test_partials_of_separate_processes_add_up():
    rows = [({"colour": "rg"[i % 2], "size": float(i)}, "ab"[i % 3 == 0], 1.0) for i in range(30)]
    whole, model = taught(rows), new(("values", 2.0))
    parts = []
    for first in (0, 10, 20):
        xs, ys, _ = zip(*rows[first : first + 10], strict=True)
        parts.append(model.partial(xs, ys, ranges=[("events-0", first, first + 10)])[1])
    found = merge_all(parts).model
    x = {"colour": True, "size": 3.5}
    assert found.joint_log_likelihood(x) == pytest.approx(whole.joint_log_likelihood(x), rel=1e-12)


@pytest.mark.parametrize("bounded", [False, True])
def test_rows_that_move_or_are_evicted_keep_their_own_p(bounded):
    """Words come and go before the values, by pruning or under a budget; the table stays that of the formula."""
    model = NaiveBayes({"colour": Nominal(m=2.0, p={"r": 0.9, "g": 0.1}), "text": "text"})
    for i in range(300):
        model.learn_one({"text": f"early{i}"}, "a", 0.5)
    first = model.statistics.vocabulary.size
    if bounded:
        model.keep_within(1 << 16)
    counts = Counter()
    for i in range(4000):
        colour, label = ("g" if i % 7 == 0 else "r"), "ab"[i % 2]
        model.learn_one({"colour": colour, "text": f"late{i}"}, label)
        counts[colour, label] += 1
        if i % 500 == 3:
            model.evict(2) if bounded else model.prune(min_count=2)
        if i % 400 == 0:
            n = sum(counts[c, "a"] for c in "rg")
            for c, p in (("r", 0.9), ("g", 0.1)):
                expected = (counts[c, "a"] + 2 * p) / (n + 2)
                assert model.parameters().discrete["colour"].table["a"][c] == pytest.approx(expected)
                joint = model.joint_log_likelihood({"colour": c})
                alone = model.joint_log_likelihood({})
                assert math.exp(joint["a"] - alone["a"]) == pytest.approx(expected)
    encoded = model.lookup.value_counts("colour", "r")
    assert encoded["a"] == counts["r", "a"]
    assert model.statistics.vocabulary.keys().index(b"r") < first  # the row has moved


def test_the_limit_of_no_smoothing_excludes_by_the_counts():
    model = CategoricalNB(attributes={"colour": Nominal(m=0.0, p={"r": 0.9, "g": 0.1})})
    model.learn_one({"colour": "r"}, "a")
    model.learn_one({"colour": "g"}, "b")
    assert model.predict_proba_one({"colour": "r"}) == {"a": 1.0, "b": 0.0}


def test_a_class_without_examples_has_no_prior():
    """P(v) is normalised over the classes that have examples; a label left out of p has frequency alone."""
    model = CategoricalNB(prior=SmoothedPrior(m=4, p={"a": 0.5, "b": 0.25, "c": 0.25}))
    model.learn_one({"f": "x"}, "a", 2)
    assert model.predict_proba_one({}) == {"a": 1.0}
    model.learn_one({"f": "x"}, "d", 2)
    assert model.predict_proba_one({}) == pytest.approx({"a": 4 / 6, "d": 2 / 6})
    even = CategoricalNB(prior=SmoothedPrior(m=2))
    even.learn_many([{"f": "x"}] * 3, ["a", "a", "b"])
    assert even.parameters().prior == pytest.approx({"a": 3 / 5, "b": 2 / 5})  # Laplace's rule: m = K
    even.unlearn_one({"f": "x"}, "b")
    assert even.predict_proba_one({}) == {"a": 1.0}


@pytest.mark.parametrize(
    "refused",
    [
        lambda: SmoothedPrior(m=-1),
        lambda: SmoothedPrior(m=2, p={"a": 0.5}),
        lambda: SmoothedPrior(m=2, p={"a": 1.5, "b": -0.5}),
        lambda: SmoothedPrior(m=math.nan),
        lambda: GaussianNB(covariance="full"),
        lambda: NaiveBayes(covariance="shared"),
        lambda: Hypothesis(prior=SmoothedPrior(m=2)),
        lambda: HiddenMarkovNB(prior=SmoothedPrior(m=2)),
        lambda: TenantModels(prior=SmoothedPrior(m=2)),
        lambda: TenantModels({"colour": Nominal(m=2, p={"r": 0.9, "g": 0.1})}),
        lambda: BayesOptimalNB({"colour": Nominal(m=2, p={"r": 0.9, "g": 0.1})}),
    ],
)
def test_what_is_none_or_not_read_is_refused(refused):
    with pytest.raises(ValueError, match=r"^m must|^p must|^covariance must|^prior must|takes one p"):
        refused()


def test_events_of_an_entity_take_a_p_of_each_value_too():
    spec = {"colour": Nominal(m=2.0, p={"r": 0.9, "g": 0.1})}
    chain, plain = HiddenMarkovNB(spec), CategoricalNB(attributes=spec)
    for x, y in [({"colour": "r"}, "a"), ({"colour": "r"}, "b"), ({"colour": "r"}, "b")]:
        chain.learn_one(x, y)
        plain.learn_one(x, y)
    for c in "rg":
        assert chain.predict_proba_one({"colour": c}) == pytest.approx(plain.predict_proba_one({"colour": c}))
