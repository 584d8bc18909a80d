"""Logistic regression against scikit-learn's optimum, the sequential Laplace step against scipy, and its laws."""

from __future__ import annotations

import gzip
import json
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import optimize

from streamnb import BayesOptimalClassifier, CategoricalNB, LogisticRegression
from streamnb.errors import SnapshotError
from streamnb.models.calibration.newton import optimum
from streamnb.models.calibration.sequential_laplace import LaplaceUnits, log_sigmoid, sigmoid
from tests.support.states import through_a_snapshot

pytestmark = pytest.mark.thorough

law = settings(deadline=None, max_examples=60)


def rows(X):
    return [dict(enumerate(row)) for row in np.asarray(X, dtype=float).tolist()]


def weights(model, label, d):
    """Bias and weights in the order of the columns of X."""
    bias, found = model.weights_of(label)
    return np.array([bias, *(found.get(j, 0.0) for j in range(d))])


def objective(w, X, d, C):
    """1/2 w^T w + C sum log(1 + exp(-y w^T x)), y = 2 d - 1, with the constant as first column."""
    nets = np.column_stack([np.ones(len(X)), X]) @ w
    return 0.5 * w @ w + C * np.logaddexp(0.0, np.where(d > 0, -nets, nets)).sum()


def best(X, d, C, tol=1e-12):
    """Scikit-learn's optimum of the same, the bias regularised as the other weights."""
    from sklearn.linear_model import LogisticRegression as Peer

    constant = np.column_stack([np.ones(len(X)), X])
    return Peer(C=C, fit_intercept=False, tol=tol, max_iter=100_000).fit(constant, d).coef_[0]


def table(path, n):
    """Numbers and labels of a stream's first events."""
    with gzip.open(path, "rt") as lines:
        events = [json.loads(line) for line, _ in zip(lines, range(n), strict=False)]
    labels = np.array([event["label"] for event in events])
    X = np.array([list(event["features"].values()) for event in events], dtype=float)
    return X, labels == max(set(labels))


@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
@pytest.mark.parametrize("scaled", [False, True], ids=["raw", "standardised"])
@pytest.mark.parametrize(("name", "n"), [("river_phishing", 1250), ("elec2", 3000)])
def test_one_pass_is_near_the_optimum_and_more_reach_it(streams, name, n, scaled, C):
    """Within 2 % of the minimum after one pass (measured: 1.3 %), at it after a few more."""
    X, d = table(streams / f"{name}.jsonl.gz", n)
    if scaled:
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    model = LogisticRegression(C)
    events = list(zip(rows(X), d.tolist(), strict=True))
    for x, y in events:
        model.learn_one(x, y)
    expected = best(X, d, C)
    least = objective(expected, X, d, C)
    assert 0.0 <= objective(weights(model, True, X.shape[1]), X, d, C) / least - 1.0 <= 0.02
    assert model.refine(events) <= 8
    found = weights(model, True, X.shape[1])
    assert found == pytest.approx(expected, abs=1e-6 * np.abs(expected).max())
    assert objective(found, X, d, C) <= least * (1.0 + 1e-12)


ORDERS = {
    "by class": lambda _, d: np.argsort(d, kind="stable"),
    "by class, the other first": lambda _, d: np.argsort(~d, kind="stable"),
    "by an attribute": lambda X, _: np.argsort(X[:, 0], kind="stable"),
    "shuffled": lambda _, d: np.random.default_rng(1).permutation(len(d)),
}


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("name", "n"), [("river_phishing", 1250), ("elec2", 4000)])
def test_one_pass_is_near_the_optimum_in_any_order(streams, name, n, order, C):
    """Within 10 % of the minimum; a Gaussian alone was up to 382 % above it."""
    X, d = table(streams / f"{name}.jsonl.gz", n)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    first = ORDERS[order](X, d)
    X, d = X[first], d[first]
    model = taught(zip(rows(X), d.tolist(), strict=True), C=C)
    least = objective(best(X, d, C), X, d, C)
    assert objective(weights(model, True, X.shape[1]), X, d, C) <= 1.1 * least


@law
@given(st.lists(st.tuples(st.sampled_from([-2.0, -1.0, 0.5, 3.0]), st.booleans()), max_size=30))
@example([(0.5, False)] * 21 + [(3.0, True)] * 4)  # one step for an event is .33 % above the minimum
def test_of_few_events_it_is_at_the_minimum(stream):
    """Whatever order they come in, of every beginning of a stream."""
    stream.sort()
    model = LogisticRegression(C=10.0)
    for n, (x, y) in enumerate(stream, start=1):
        model.learn_one({0: x}, y)
        if len(model.classes) == 2:
            X, d = np.array([[x] for x, _ in stream[:n]]), np.array([y for _, y in stream[:n]])
            found = objective(weights(model, True, 1), X, d, 10.0)
            # The curvature is at least 1: with at most 30 events this gradient leaves 5e-10 above the minimum.
            assert found <= (1.0 + 1e-9) * objective(best(X, d, 10.0, tol=1e-7), X, d, 10.0)


def test_events_that_are_kept_are_a_uniform_sample_and_few():
    """Of each tenth of the stream about as many; memory does not grow with the stream."""
    model = LogisticRegression(memory=500)
    for i in range(5000):
        model.learn_one({"x": float(i)}, i % 2)
        if i == 1000:
            early = model.n_bytes
    tenths = np.bincount((model._kept.rows[:, 1] // 500).astype(int), minlength=10)
    assert tenths.sum() == 500
    assert ((tenths > 25) & (tenths < 75)).all()  # 50 and 3.7 standard deviations
    assert model.n_bytes == early


def test_iris_as_it_is_stored(streams):
    """Class after class: as many are right as at the optimum, where it was two thirds."""
    with gzip.open(streams / "weka_iris.jsonl.gz", "rt") as lines:
        events = [json.loads(line) for line in lines]
    stream = [(event["features"], event["label"]) for event in events]
    model, optimal = taught(stream, C=100.0), taught(stream, C=100.0)
    optimal.refine(stream)
    right, possible = (sum(m.predict_one(x) == y for x, y in stream) for m in (model, optimal))
    assert possible >= 143
    assert right >= possible - 1


def test_far_from_the_optimum_steps_are_halved():
    """A full Newton step from there overshoots ever farther."""
    X = np.array([[1.0, 1.0], [1.0, -1.0], [1.0, 3.0]])
    targets = np.array([[1.0], [0.0], [0.0]])
    chunks = lambda: [(X, targets, np.ones(3))]  # noqa: E731
    near, far = (optimum(np.array([[start, 10.0 * start]]), chunks, 1e-3, 200) for start in (0.0, 30.0))
    assert near.converged
    assert far.converged
    assert far.passes > near.passes
    assert far.means == pytest.approx(near.means, rel=1e-6)
    assert not optimum(np.array([[30.0, 300.0]]), chunks, 1e-3, 1).converged
    with pytest.raises(ValueError, match="passes must be at least 1"):
        optimum(np.zeros((1, 2)), chunks, 1e-3, 0)


def test_after_refining_the_gaussian_is_laplace_approximation():
    """Its covariance is the inverse Hessian of the negative log posterior at the mode."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(50, 2))
    events = [(x, bool(d)) for x, d in zip(rows(X), rng.random(50) < sigmoid(0.4), strict=True)]
    model = LogisticRegression(C=2.0)
    model.refine(events)
    constant = np.column_stack([np.ones(50), X])
    w = weights(model, True, 2)
    h = 1.0 / (1.0 + np.exp(-constant @ w))
    hessian = (constant.T * h * (1.0 - h)) @ constant + np.eye(3) / 2.0
    root = model._units.roots[1]
    assert root @ root.T @ hessian == pytest.approx(np.eye(3), abs=1e-9)


# -- one event ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("weight", [0.5, 4.0])
def test_an_event_moves_the_mean_to_the_mode(target, scale, weight):
    """Against a minimum found by scipy, and the covariance against the inverse of the narrowed precision."""
    rng = np.random.default_rng(2)
    units = LaplaceUnits(1, 3.0)
    units.reserve(3)
    for _ in range(4):
        units.learn(np.arange(3), rng.normal(size=3), rng.integers(2, size=1).astype(float), 1.0)
    mean, root = units.means[0].copy(), units.roots[0].copy()
    precision = np.linalg.inv(root @ root.T)
    x = rng.normal(size=3) * scale

    def loss(w):
        away, net = w - mean, w @ x
        return away @ precision @ away / 2 + weight * (np.logaddexp(0.0, net) - target * net)

    def gradient(w):
        return precision @ (w - mean) + weight * (sigmoid(float(w @ x)) - target) * x

    mode = optimize.minimize(loss, mean, jac=gradient, method="BFGS", options={"gtol": 1e-10}).x
    units.learn(np.arange(3), x, np.array([target]), weight)
    assert units.means[0] == pytest.approx(mode, rel=1e-5, abs=1e-6)
    assert np.abs(gradient(units.means[0])).max() <= 1e-9 * max(1.0, np.abs(weight * x).max())
    h = sigmoid(float(units.means[0] @ x))
    narrowed = np.linalg.inv(precision + weight * h * (1.0 - h) * np.outer(x, x))
    assert units.roots[0] @ units.roots[0].T == pytest.approx(narrowed, rel=1e-7, abs=1e-12)


def test_a_sure_and_wrong_unit_does_not_overshoot():
    """A Newton step from h = 1 - 5e-5 would go to -20,000 and more."""
    units = LaplaceUnits(1, 100.0)
    units.reserve(1)
    one = np.ones(1)
    for _ in range(30):
        units.learn(np.zeros(1, dtype=np.int64), one, np.ones(1), 1.0)
    before = units.net(0, np.zeros(1, dtype=np.int64), one)
    units.learn(np.zeros(1, dtype=np.int64), one, np.zeros(1), 1.0)
    after = units.net(0, np.zeros(1, dtype=np.int64), one)
    assert 0.0 < after < before


def test_sigmoid_at_its_ends():
    assert [sigmoid(m) for m in (-1e300, -800.0, 0.0, 800.0, 1e300)] == [0.0, 0.0, 0.5, 1.0, 1.0]
    assert log_sigmoid(-800.0) == -800.0
    assert log_sigmoid(800.0) == 0.0
    for m in (-3.0, 0.2, 5.0):
        assert sigmoid(m) == pytest.approx(1 / (1 + math.exp(-m)), rel=1e-15)
        assert log_sigmoid(m) == pytest.approx(math.log(sigmoid(m)), rel=1e-13)


# -- classes ------------------------------------------------------------------------------------------------

event = st.tuples(
    st.dictionaries(st.sampled_from("abc"), st.floats(-3.0, 3.0) | st.none() | st.sampled_from(["u", "v"])),
    st.sampled_from(["k", "l", "m"]),
)
events = st.lists(event, max_size=15)


def taught(events, **keywords):
    model = LogisticRegression(**keywords)
    for x, y in events:
        model.learn_one(x, y)
    return model


@law
@given(events)
def test_a_class_met_late_is_as_if_known_from_the_start(stream):
    """Its unit is that of a plain two-class model that has each event as its own or not."""
    model = taught(stream)
    labels = model.classes
    if len(labels) < 2:
        assert model.predict_proba_one({}) == dict.fromkeys(labels, 1.0)
        return
    for label in labels:
        # both labels first, with no weight to speak of
        alone = LogisticRegression()
        alone._meet(False)
        alone._meet(True)
        for x, y in stream:
            alone.learn_one(x, y == label)
        bias, found = model.weights_of(label)
        assert bias == pytest.approx(alone.intercept, rel=1e-9, abs=1e-12)
        assert found == pytest.approx(alone.weights, rel=1e-9, abs=1e-12)


@law
@given(events, st.dictionaries(st.sampled_from("abcd"), st.floats() | st.sampled_from(["u", "w"])))
def test_probabilities_sum_to_one(stream, asked):
    model = taught(stream)
    found = model.predict_proba_one(asked)
    assert found.keys() == set(model.classes)
    assert not found or math.fsum(found.values()) == pytest.approx(1.0, rel=1e-12)
    assert all(0.0 <= p <= 1.0 for p in found.values())
    if len(found) == 2:
        bias, weight = model.intercept, model.weights
        net = bias + math.fsum(
            weight.get((k, v), 0.0) if isinstance(v, str) else weight.get(k, 0.0) * _read(v)
            for k, v in asked.items()
        )
        assert found[model.classes[1]] == pytest.approx(sigmoid(net), rel=1e-9, abs=1e-12)


def _read(value):
    return min(max(value, -1e140), 1e140) if math.isfinite(value) else 0.0


def test_several_classes_against_one_against_rest_of_scikit_learn():
    from sklearn.linear_model import LogisticRegression as Peer

    rng = np.random.default_rng(3)
    X = rng.normal(size=(120, 2))
    labels = np.array(["a", "b", "c"])[np.argmax(X @ [[1, -1, 0], [0, 1, -1]] + rng.gumbel(size=(120, 3)), 1)]
    model = LogisticRegression(C=3.0)
    stream = list(zip(rows(X), labels.tolist(), strict=True))
    model.refine(stream)
    constant = np.column_stack([np.ones(120), X])
    units = []
    for label in model.classes:
        peer = Peer(C=3.0, fit_intercept=False, tol=1e-12).fit(constant, labels == label)
        assert weights(model, label, 2) == pytest.approx(peer.coef_[0], abs=1e-6)
        units.append(peer.predict_proba(constant)[:, 1])
    shares = np.array(units) / np.sum(units, axis=0)
    for x, expected in zip(rows(X)[:20], shares.T, strict=False):
        found = model.predict_proba_one(x)
        assert list(found.values()) == pytest.approx(expected, abs=1e-6)


# -- events -------------------------------------------------------------------------------------------------


@law
@given(events)
def test_missing_is_zero_and_the_order_of_attributes_of_no_matter(stream):
    model = taught(stream)
    other = taught([({"z": None, **dict(reversed(x.items()))}, y) for x, y in stream])
    third = taught([({k: v for k, v in x.items() if v is not None and v != 0}, y) for x, y in stream])
    for x, _ in stream:
        expected = model.predict_proba_one(x)
        assert other.predict_proba_one(x) == pytest.approx(expected, rel=1e-9)
        assert third.predict_proba_one(x) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("label", [None, math.nan])
def test_no_label_no_learning(label):
    model = LogisticRegression()
    model.learn_one({"x": 1.0}, label)
    model.learn_one({"x": 1.0}, "a", 0.0)
    assert model.classes == []
    assert model.predict_proba_one({"x": 1.0}) == {}
    assert model.predict_one({"x": 1.0}) is None


def test_a_weight_counts_as_often():
    """At the optimum; in one pass an event of weight 2 is one step, and not two."""
    model, twice = LogisticRegression(C=1.0), LogisticRegression(C=1.0)
    for x, y in [(1.0, True), (-0.5, False), (0.3, True)]:
        model.learn_one({"x": x}, y, 2.0)
        twice.learn_one({"x": x}, y)
        twice.learn_one({"x": x}, y)
    assert model.weights["x"] == pytest.approx(twice.weights["x"], rel=0.1)
    assert model.weights["x"] != twice.weights["x"]


HUGE = [1e300, -1e300, 1e140, 10**400, 1e8, -1e8, 1e-300, 5e-324, 1.0, math.inf, None, "u", True]


@law
@given(
    st.lists(
        st.tuples(st.dictionaries(st.sampled_from("ab"), st.sampled_from(HUGE)), st.sampled_from("klm")),
        max_size=12,
    ),
    st.sampled_from([1e-12, 1.0, 1e12]),
)
def test_finite_whatever_comes(stream, C):
    model = LogisticRegression(C)
    for x, y in stream:
        model.learn_one(x, y)
        found = model.predict_proba_one(x)
        assert math.fsum(found.values()) == pytest.approx(1.0, rel=1e-12)
    assert all(np.isfinite(array).all() for array in model.state()[1].values())
    model.refine(stream, passes=5)
    assert all(np.isfinite(array).all() for array in model.state()[1].values())


def test_a_long_raw_stream_stays_sound():
    """Attributes of scale 1e6 and 1e-6 beside each other for 30,000 events: a covariance stays one."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(30_000, 3)) * [1e6, 1e-6, 1.0] + [0.0, 0.0, 1.0]
    d = X[:, 0] / 1e6 + X[:, 2] - 1.0 + rng.logistic(size=30_000) > 0.0
    model = LogisticRegression()
    loss = 0.0
    for x, y in zip(rows(X), d.tolist(), strict=True):
        loss -= math.log(max(model.predict_proba_one(x).get(y, 0.5), 1e-15))
        model.learn_one(x, y)
    found = weights(model, True, 3)
    assert found[[1, 3]] == pytest.approx([1e-6, 1.0], rel=0.1)
    truth = X[:, 0] / 1e6 + X[:, 2] - 1.0
    assert loss / 30_000 <= np.logaddexp(0.0, np.where(d, -truth, truth)).mean() * 1.01
    roots = model._units.roots
    for root in roots:
        assert (np.linalg.svd(root, compute_uv=False) > 0.0).all()


def test_separable_events_have_finite_weights():
    """Without the prior they would grow for ever; with it they are scikit-learn's."""
    X = np.array([[1.0], [2.0], [-1.0], [-2.0]])
    d = np.array([True, True, False, False])
    model = LogisticRegression(C=10.0)
    model.refine(list(zip(rows(X), d.tolist(), strict=True)))
    assert weights(model, True, 1) == pytest.approx(best(X, d, 10.0), abs=1e-6)


def test_only_so_many_columns():
    model = LogisticRegression(features=2)
    for i in range(30):
        model.learn_one({"id": f"user {i}"}, i % 2)
    assert len(model.weights) == 2


def test_refining_forgets_other_events_and_goes_on_from_there():
    stream = [({"x": float(i % 7) - 3.0}, i % 7 > i % 4) for i in range(40)]
    fresh, elsewhere = LogisticRegression(), taught([({"x": 9.0}, False), ({"x": 1.0}, True)] * 5)
    for model in (fresh, elsewhere):
        model.refine(stream)
    x = {"x": 1.5}
    assert elsewhere.predict_proba_one(x)[True] == pytest.approx(fresh.predict_proba_one(x)[True], rel=1e-9)
    for model in (fresh, elsewhere):
        model.learn_one({"x": 1.0, "new": 1.0}, True)
    assert elsewhere.predict_proba_one(x)[True] == pytest.approx(fresh.predict_proba_one(x)[True], rel=1e-9)
    with pytest.raises(TypeError, match="only once"):
        fresh.refine(iter(stream))


def test_refusals():
    model = LogisticRegression()
    with pytest.raises(TypeError, match="attribute 'x': expected a number or a string, got list"):
        model.learn_one({"new": 1.0, "x": [1]}, "a")
    with pytest.raises(ValueError, match="weight"):
        model.learn_one({"x": 1.0}, "a", -1.0)
    with pytest.raises(TypeError, match="unhashable"):
        model.learn_one({"x": 1.0}, ["a"])
    assert (model.classes, len(model._design)) == ([], 1), "nothing was learned"
    with pytest.raises(ValueError, match="0 classes, not two"):
        _ = model.weights
    with pytest.raises(ValueError, match="nothing separates 'a'"):
        model.weights_of("a")
    for keywords in ({"C": 0.0}, {"C": math.nan}, {"C": 1e13}, {"features": 0}, {"memory": -1}):
        with pytest.raises(ValueError, match="must"):
            LogisticRegression(**keywords)


# -- in company ---------------------------------------------------------------------------------------------


def test_as_a_hypothesis():
    """Labels that only together tell: naive Bayes sees nothing, the product attribute tells the other."""
    model = BayesOptimalClassifier({"bayes": CategoricalNB(), "logistic": LogisticRegression()})
    rng = np.random.default_rng(6)
    for _ in range(200):
        x = {"f": float(rng.normal())}
        model.learn_one(x, bool(x["f"] + rng.logistic() > 0.0))
    assert model.posterior.probabilities["logistic"] > 0.99
    assert model.posterior.regret() <= model.posterior.bound()


# -- state --------------------------------------------------------------------------------------------------


@law
@given(events, events, st.sampled_from([0, 3, 2048]))
def test_restart_is_no_restart(before, after, memory):
    model = taught(before, memory=memory)
    part = through_a_snapshot(model)
    restored = LogisticRegression(memory=memory).load_state(part.meta, part.arrays)
    for x, y in after:
        assert restored.predict_proba_one(x) == model.predict_proba_one(x)
        model.learn_one(x, y)
        restored.learn_one(x, y)
    assert restored.predict_proba_one({"a": 1.0}) == model.predict_proba_one({"a": 1.0})


def damaged(**changes):
    meta, arrays = taught([({"x": 1.0}, "a"), ({"x": 2.0, "c": "u"}, "b")]).state()
    for name, value in changes.items():
        (arrays if name in arrays else meta)[name] = value
    return meta, arrays


@pytest.mark.parametrize(
    "changes",
    [
        {"type": "LinearUnit"},
        {"C": 2.0},
        {"classes": ["a"]},
        {"classes": ["a", "a"]},
        {"classes": None},
        {"classes": [["a"], "b"]},
        {"columns": [["x"]]},
        {"columns": "x"},
        {"means": np.full((2, 3), np.nan)},
        {"means": np.zeros((2, 3), dtype=np.int64)},
        {"roots": np.zeros((2, 3, 2))},
        {"moved": np.zeros((1, 2))},
        {"moved": np.full((2, 2), np.inf)},
        {"memory": 7},
        {"seen": 1},
        {"seen": None},
        {"kept_columns": np.array([0, 1, 0, 3, 2])},
        {"kept_values": np.full(5, 1e141)},
        {"kept_ends": np.array([5, 5])},
        {"kept_ends": np.array([6, 5])},
        {"kept_labels": np.array([0, 2])},
        {"kept_weights": np.array([1.0, 0.0])},
    ],
    ids=repr,
)
def test_a_damaged_state_is_refused(changes):
    model = taught([({"x": 1.0}, "a"), ({"x": 2.0}, "b"), ({"x": 2.0}, "c")])
    before = model.predict_proba_one({"x": 1.5})
    with pytest.raises(SnapshotError):
        model.load_state(*damaged(**changes))
    assert model.predict_proba_one({"x": 1.5}) == before
    assert LogisticRegression().load_state(*damaged()).classes == ["a", "b"]
