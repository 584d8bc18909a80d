"""Least squares against exact fractions and `lstsq`, its laws, and what rounding leaves of a long stream."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import preprocessing

from streamnb import LinearRegression
from streamnb.errors import SnapshotError, UnlearnError
from streamnb.toolbox.linear.comoments import SecondMoments
from tests.support.states import through_a_snapshot

law = settings(deadline=None, max_examples=60)


def rows(X):
    return [{f"x{j}": value for j, value in enumerate(row)} for row in np.asarray(X, dtype=float).tolist()]


def learned(X, y, **keywords):
    model = LinearRegression(**keywords)
    for x, d in zip(rows(X), np.asarray(y, dtype=float).tolist(), strict=True):
        model.learn_one(x, d)
    return model


def weights(model, d):
    """In the order of the columns of X; 0 of what was never met."""
    found = model.weights
    return np.array([found.get(f"x{j}", 0.0) for j in range(d)])


def batch(X, y):
    """The batch solution, of attributes centred and scaled: weights, predictions."""
    centred = X - X.mean(axis=0)
    scale = centred.std(axis=0)
    w = np.linalg.lstsq(centred / scale, y - y.mean(), rcond=None)[0] / scale
    return w, centred @ w + y.mean()


def exact(X, y):
    """Weights by Gauss-Jordan elimination of the normal equations in fractions; of full rank."""
    A = [[Fraction(v) for v in (1.0, *row)] for row in X.tolist()]
    d = len(A[0])
    targets = [Fraction(v) for v in y.tolist()]
    M = [[sum(a[i] * a[j] for a in A) for j in range(d)] for i in range(d)]
    M = [[*row, sum(a[i] * t for a, t in zip(A, targets, strict=True))] for i, row in enumerate(M)]
    for k in range(d):
        pivot = next(i for i in range(k, d) if M[i][k])
        M[k], M[pivot] = M[pivot], [v / M[pivot][k] for v in M[pivot]]
        for i in range(d):
            if i != k and M[i][k]:
                M[i] = [a - M[i][k] * b for a, b in zip(M[i], M[k], strict=True)]
    return np.array([float(row[-1]) for row in M])


SCALES = np.array([1e6, 1e-6, 1.0, 1e3, 1e-3])
OFFSETS = np.array([1e8, 1e-3, 1e5, 0.0, 5.0])


@pytest.mark.parametrize("scale", [np.ones(5), SCALES], ids=["alike", "ill-scaled"])
@pytest.mark.parametrize("offset", [np.zeros(5), OFFSETS], ids=["centred", "far away"])
def test_equals_the_batch_solution(scale, offset):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 5)) * scale + offset
    y = (X - offset) / scale @ np.arange(1.0, 6.0) + rng.normal(size=300) + 7.0
    model = learned(X, y)
    w, predictions = batch(X - offset, y)  # near zero, where its means lose nothing
    assert weights(model, 5) == pytest.approx(w, rel=1e-9)
    assert [model.predict_one(x) for x in rows(X)] == pytest.approx(predictions.tolist(), rel=1e-9)
    assert model.intercept == pytest.approx(y.mean() - X.mean(axis=0) @ w, rel=1e-9)
    assert model.noise_variance == pytest.approx(np.square(y - predictions).mean(), rel=1e-9)
    assert model.rank == 5


def test_near_collinear_attributes_cost_no_digits():
    """Powers of t: the condition number is 3e5, which the normal equations square; `lstsq` is off by 1e-11."""
    t = np.linspace(0.0, 1.0, 60)
    X = np.stack([t**k for k in range(1, 9)], axis=1)
    y = np.sin(3.0 * t) + np.random.default_rng(2).normal(size=60) * 0.01
    expected = exact(X, y)
    model = learned(X, y)
    assert weights(model, 8) == pytest.approx(expected[1:], rel=1e-14)
    assert model.intercept == pytest.approx(expected[0], rel=1e-12)


def test_many_events_far_from_zero():
    """An offset of 1e8 with a spread of 1: sums of doubles would have no digit left of the spread."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(20_000, 3)) + 1e8
    near = X - 1e8  # exact
    y = near @ [1.0, -2.0, 0.5] + rng.normal(size=20_000)
    w, predictions = batch(near, y)
    model = learned(X, y)
    assert weights(model, 3) == pytest.approx(w, rel=1e-12)
    assert model.noise_variance == pytest.approx(np.square(y - predictions).mean(), rel=1e-12)
    for x, d in zip(rows(X[100:]), y[100:].tolist(), strict=True):
        model.unlearn_one(x, d)
    assert model.n == 100
    assert weights(model, 3) == pytest.approx(batch(near[:100], y[:100])[0], rel=1e-7)


def test_a_perfect_fit_leaves_no_noise():
    X = np.arange(12.0).reshape(6, 2) ** 2
    model = learned(X, X @ [2.0, -3.0] + 5.0)
    assert model.noise_variance <= 1e-28
    assert model.predict_one({"x0": 10.0, "x1": 1.0}) == pytest.approx(22.0, rel=1e-13)


# -- not of full rank ---------------------------------------------------------------------------------------


def least_norm(X, y):
    centred = X - X.mean(axis=0)
    return np.linalg.lstsq(centred, y - y.mean(), rcond=1e-10)[0]


@pytest.mark.parametrize("events", [1, 2, 3, 5, 40])
def test_of_many_solutions_the_least(events):
    """Doubled attributes, a sum, a constant that no double is, and at first more attributes than events."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(events, 3))
    X = np.column_stack([X, 2.0 * X[:, 0], X[:, 1] + X[:, 2], np.full(events, 0.1)])
    y = rng.normal(size=events)
    model = learned(X, y)
    assert weights(model, 6) == pytest.approx(least_norm(X, y), abs=1e-12)
    assert model.rank == np.linalg.matrix_rank(X - X.mean(axis=0), tol=1e-9)


def test_all_values_of_a_string_are_a_combination():
    """One column for each value, which sum to 1: the group means, and weights that sum to 0."""
    model = LinearRegression()
    for colour, d in [("red", 1.0), ("red", 3.0), ("green", 7.0), ("blue", 4.0), ("blue", 6.0)]:
        model.learn_one({"colour": colour}, d)
    assert [model.predict_one({"colour": c}) for c in ("red", "green", "blue")] == pytest.approx([2, 7, 5])
    assert math.fsum(model.weights.values()) == pytest.approx(0.0, abs=1e-12)
    assert model.weights.keys() == {("colour", "red"), ("colour", "green"), ("colour", "blue")}
    assert model.predict_one({"colour": "mauve"}) == pytest.approx(model.intercept)


# -- ridge --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("l2", [1e-6, 0.5, 100.0])
def test_ridge(l2):
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(5)
    X = rng.normal(size=(40, 4)) + 3.0
    X = np.column_stack([X, X[:, 0]])
    y = rng.normal(size=40) + X @ np.arange(5.0)
    model, peer = learned(X, y, l2=l2), Ridge(alpha=l2, solver="svd").fit(X, y)
    assert weights(model, 5) == pytest.approx(peer.coef_, rel=1e-7)
    assert model.intercept == pytest.approx(peer.intercept_, rel=1e-9)
    assert model.noise_variance == pytest.approx(np.square(y - peer.predict(X)).mean(), rel=1e-8)
    assert weights(model, 5)[0] == pytest.approx(weights(model, 5)[4], rel=1e-12)


# -- laws ---------------------------------------------------------------------------------------------------

number = st.integers(-1000, 1000).map(lambda i: i / 8)
event = st.tuples(
    st.dictionaries(st.sampled_from("abc"), number | st.none() | st.sampled_from(["u", "v"]), max_size=3),
    number,
    st.sampled_from([0.5, 1.0, 1.0, 3.0]),
)
events = st.lists(event, max_size=12)


def taught(events):
    model = LinearRegression()
    for x, y, w in events:
        model.learn_one(x, y, w)
    return model


def agree(model, other, rel=1e-9):
    names = model.weights.keys() | other.weights.keys()
    assert model.n == other.n
    for name in names:
        assert model.weights.get(name, 0.0) == pytest.approx(other.weights.get(name, 0.0), rel=rel, abs=1e-9)
    assert model.intercept == pytest.approx(other.intercept, rel=rel, abs=1e-7)
    assert model.noise_variance == pytest.approx(other.noise_variance, rel=rel, abs=1e-9)


@law
@given(events, st.randoms())
def test_order_is_of_no_matter(stream, random):
    shuffled = list(stream)
    random.shuffle(shuffled)
    agree(taught(stream), taught(shuffled))


@law
@given(events, events)
def test_unlearn_is_the_inverse(kept, undone):
    model = taught(kept + undone)
    for x, y, w in undone:
        model.unlearn_one(x, y, w)
    agree(model, taught(kept))
    if not kept:
        assert model.weights == dict.fromkeys(model.weights, 0.0)
        assert (model.intercept, model.noise_variance) == (0.0, 0.0)


@law
@given(events, events)
def test_restart_is_no_restart(before, after):
    model = taught(before)
    part = through_a_snapshot(model)
    restored = LinearRegression().load_state(part.meta, part.arrays)
    for x, y, w in after:
        for each in (model, restored):
            each.learn_one(x, y, w)
    assert restored.weights == model.weights
    assert restored.intercept == model.intercept


@law
@given(events)
def test_a_weight_is_as_many_events(stream):
    whole = [(x, y, 2.0 * w) for x, y, w in stream]
    agree(taught(whole), taught(stream + stream))


@law
@given(events.filter(len))
def test_no_other_weights_fit_better(stream):
    """The gradient of the sum of squares is zero: residuals are orthogonal to every attribute and to 1."""
    model = taught(stream)
    residuals = [(x, w * (y - model.predict_one(x)), w * max(1.0, abs(y))) for x, y, w in stream]
    size = max(s for _, _, s in residuals)
    assert abs(math.fsum(r for _, r, _ in residuals)) <= 1e-9 * size
    for name in model.weights:
        terms = [
            r * (x.get(name[0]) == name[1] if isinstance(name, tuple) else _number(x.get(name)))
            for x, r, _ in residuals
        ]
        assert abs(math.fsum(terms)) <= 1e-7 * size


def _number(value):
    return value if isinstance(value, float) else 0.0


def test_sums_are_exact_to_their_last_bits():
    """Against fractions: 53 bits of each sum of products and most of 53 more."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(200, 2)) * [1e8, 1e-8] + [1e9, 1.0]
    moments = SecondMoments()
    moments.reserve(2)
    for x in X:
        moments.update(np.arange(2), x)
    truth = sum(Fraction(a) * Fraction(b) for a, b in X.tolist())
    high, low = moments.arrays(2)["products"][:, 1, 0].tolist()
    assert abs(Fraction(high) + Fraction(low) - truth) <= abs(truth) * Fraction(2) ** -98
    assert high == float(truth)


# -- degenerate events --------------------------------------------------------------------------------------


def test_missing_is_zero():
    full, sparse = LinearRegression(), LinearRegression()
    missing = [None, math.nan, math.inf]
    for i in range(9):
        y = float(i * i % 7)
        x = {"a": float(i % 4), "b": float(i % 3)}
        full.learn_one(x, y)
        sparse.learn_one({k: v or missing[i % 3] for k, v in x.items()} if i % 2 else _present(x), y)
    assert sparse.weights == full.weights
    assert full.predict_one({"a": 1.0}) == full.predict_one({"a": 1.0, "b": 0.0, "c": 5.0})


def _present(x):
    return {k: v for k, v in x.items() if v}


@pytest.mark.parametrize("y", [None, math.nan, math.inf, np.float32("nan")])
def test_no_target_no_learning(y):
    model = LinearRegression()
    model.learn_one({"x": 1.0}, y)
    model.unlearn_one({"x": 1.0}, y)
    assert (model.n, model.weights) == (0.0, {})


HUGE = [1e300, -1e300, 10**400, 1e-300, 5e-324, 1e140, -1.0, 0.0, None]


@law
@given(
    st.lists(
        st.tuples(st.dictionaries(st.sampled_from("ab"), st.sampled_from(HUGE)), st.sampled_from(HUGE[:-1])),
        min_size=1,
        max_size=6,
    )
)
def test_predictions_are_finite_whatever_comes(stream):
    model = LinearRegression()
    for x, y in stream:
        model.learn_one(x, y)
        assert math.isfinite(model.predict_one(x))
        assert 0.0 <= model.noise_variance < math.inf


def test_only_so_many_columns():
    model = LinearRegression(features=2)
    for i in range(6):
        model.learn_one({"a": float(i), "b": float(i % 2), "c": float(i % 3)}, float(i))
    assert list(model.weights) == ["a", "b"] or len(model.weights) == 2
    model.unlearn_one({"a": 5.0, "b": 1.0, "c": 2.0}, 5.0)
    assert model.n == 5
    assert len(model.weights) == 2


def _with_column(name):
    model = LinearRegression(features=2)
    model.learn_one({name: 1.0}, 1.0)
    return model


@pytest.mark.parametrize(
    ("x", "y"),
    [({"x": 1.0}, 2.0), ({"other": 1.0}, 1.0), ({"x": 3.0}, 1.0)],
    ids=["another target", "an attribute never met", "more than was learned"],
)
def test_what_was_never_learned_is_not_unlearned(x, y):
    model = _with_column("x")
    before = model.state()
    with pytest.raises(UnlearnError):
        model.unlearn_one(x, y, 1.0 if y == 1.0 else 2.0)
    after = model.state()
    assert after[0] == before[0]
    assert all(np.array_equal(after[1][name], before[1][name]) for name in before[1])


def test_refusals():
    model = LinearRegression()
    with pytest.raises(TypeError, match="attribute 'x': expected a number or a string, got list"):
        model.learn_one({"new": 1.0, "x": [1]}, 1.0)
    with pytest.raises(TypeError, match="'target'"):
        model.learn_one({"x": 1.0}, "high")
    with pytest.raises(ValueError, match="weight"):
        model.learn_one({"x": 1.0}, 1.0, -1.0)
    assert (model.weights, model.n) == ({}, 0.0), "nothing was learned"
    for keywords in ({"l2": -1.0}, {"l2": math.nan}, {"features": 0}):
        with pytest.raises(ValueError, match="must"):
            LinearRegression(**keywords)


def damaged(**changes):
    meta, arrays = learned([[1.0, 2.0], [2.0, 1.0]], [1.0, 2.0]).state()
    for name, value in changes.items():
        (arrays if name in arrays else meta)[name] = value
    return meta, arrays


@pytest.mark.parametrize(
    "changes",
    [
        {"type": "LinearUnit"},
        {"units": -1},
        {"units": "2"},
        {"columns": [["x0"]]},
        {"columns": [["x0"], ["x0"]]},
        {"columns": [["x0"], "x1"]},
        {"columns": [["x0"], [["x1"]]]},
        {"columns": [["x0"], ["x1", 2]]},
        {"columns": None},
        {"sums": np.zeros((2, 2))},
        {"sums": np.full((2, 3), np.nan)},
        {"sums": np.zeros((2, 3), dtype=np.int64)},
        {"products": np.full((2, 3, 3), -1.0)},
    ],
    ids=repr,
)
def test_a_damaged_state_is_refused(changes):
    model = learned([[5.0, 1.0]], [2.0])
    with pytest.raises(SnapshotError):
        model.load_state(*damaged(**changes))
    assert model.n == 1.0, "it goes on as it was"


def test_a_state_of_more_columns_than_allowed_is_refused():
    with pytest.raises(SnapshotError, match="2 columns, but only 1"):
        LinearRegression(features=1).load_state(*damaged())


def test_states_without_arrays_are_refused():
    meta, _ = damaged()
    with pytest.raises(SnapshotError):
        LinearRegression().load_state(meta, {})


def test_in_a_pipeline_of_river():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(200, 2)) * [100.0, 1.0]
    y = X @ [0.01, 2.0] + 1.0
    pipeline = preprocessing.StandardScaler() | LinearRegression(l2=1e-9)
    for x, d in zip(rows(X), y.tolist(), strict=True):
        pipeline.learn_one(x, d)
    assert pipeline.predict_one({"x0": 0.0, "x1": 0.0}) == pytest.approx(1.0, abs=0.2)


@pytest.mark.parametrize(("size", "is_seen"), [(1e-138, True), (1e-150, False)])
def test_an_attribute_below_the_stated_bound_counts_as_never_varied(size, is_seen):
    model = LinearRegression()
    for i in range(20):
        model.learn_one({"x": i * size}, 2.0 * i)
    assert model.rank == int(is_seen)
    assert model.predict_one({"x": 30 * size}) == pytest.approx(60.0 if is_seen else 19.0)
