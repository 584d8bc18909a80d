"""The linear unit and the sigmoid unit: the rules as they are written, and what becomes of odd events."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb import LinearRegression, LinearUnit, SigmoidUnit
from streamnb.errors import SnapshotError
from tests.support.states import through_a_snapshot

law = settings(deadline=None, max_examples=60)
UNITS = pytest.mark.parametrize("unit", [LinearUnit, SigmoidUnit])


def rows(X):
    return [dict(enumerate(row)) for row in np.asarray(X, dtype=float).tolist()]


def test_delta_rule():
    """Two steps by hand, in numpy."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(50, 3)), rng.normal(size=50)
    unit, w = LinearUnit(rate=0.05), np.zeros(4)
    for x, row, d in zip(rows(X), np.column_stack([np.ones(50), X]), y.tolist(), strict=True):
        unit.learn_one(x, d)
        w += 0.05 * (d - w @ row) * row
    assert [unit.intercept, *unit.weights.values()] == pytest.approx(w, rel=1e-12)
    assert unit.predict_one(rows(X)[3]) == pytest.approx(w[0] + X[3] @ w[1:], rel=1e-12)


def test_delta_rule_comes_near_least_squares():
    rng = np.random.default_rng(2)
    unit, exact = LinearUnit(rate=0.001), LinearRegression()
    for row in rng.normal(size=(20_000, 2)).tolist():
        x, d = dict(enumerate(row)), 3.0 * row[0] - row[1] + 2.0 + float(rng.normal())
        unit.learn_one(x, d)
        exact.learn_one(x, d)
    assert [unit.intercept, *unit.weights.values()] == pytest.approx(
        [exact.intercept, *exact.weights.values()], abs=0.1
    )


@law
@given(st.lists(st.tuples(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300)), max_size=30))
def test_a_step_goes_to_the_target_at_most(stream):
    """However large the rate and the attributes: the error after the step is none of the other sign."""
    unit = LinearUnit(rate=10.0)
    for x, d in stream:
        before = d - unit.predict_one({"x": x})
        unit.learn_one({"x": x}, d)
        after = d - unit.predict_one({"x": x})
        assert math.isfinite(after)
        if abs(x) <= 1e100 and abs(d) <= 1e100:
            assert abs(after) <= 1e-12 * max(abs(d), abs(d - before)) + abs(before) * (1 + 1e-12)


def test_raw_attributes_do_not_diverge():
    """The delta rule as it is written would be beyond every double after a hundred events."""
    rng = np.random.default_rng(3)
    unit = LinearUnit()
    for _ in range(5000):
        x = {"a": 1e6 + float(rng.normal()), "b": float(rng.normal())}
        unit.learn_one(x, 5.0 + x["b"])
    assert abs(unit.predict_one({"a": 1e6, "b": 0.0}) - 5.0) < 5.0


def test_sigmoid_rule():
    rng = np.random.default_rng(4)
    X, d = rng.normal(size=(50, 3)), rng.random(50)
    unit, w, cross_entropy = SigmoidUnit(rate=0.3), np.zeros(4), 0.0
    for x, row, t in zip(rows(X), np.column_stack([np.ones(50), X]), d.tolist(), strict=True):
        h = 1.0 / (1.0 + math.exp(-w @ row))
        assert unit.predict_one(x) == pytest.approx(h, rel=1e-12)
        cross_entropy -= t * math.log(h) + (1.0 - t) * math.log(1.0 - h)
        unit.learn_one(x, t)
        w += 0.3 * (t - h) * row
    assert [unit.intercept, *unit.weights.values()] == pytest.approx(w, rel=1e-12)
    assert unit.cross_entropy == pytest.approx(cross_entropy, rel=1e-12)
    assert unit.n == 50


def test_learn_many_is_one_step_by_the_sum():
    """Predicted by the same weights: not the same as one event after the other."""
    stream = [({"x": 1.0}, 1.0), ({"x": 2.0}, 0.0), ({"x": -1.0}, 0.25)]
    unit, single = SigmoidUnit(rate=0.1), SigmoidUnit(rate=0.1)
    unit.learn_many(stream)
    for x, d in stream:
        single.learn_one(x, d)
    assert unit.intercept == pytest.approx(0.1 * (0.5 - 0.5 - 0.25), rel=1e-12)
    assert unit.weights["x"] == pytest.approx(0.1 * (0.5 - 1.0 + 0.25), rel=1e-12)
    assert unit.cross_entropy == pytest.approx(3.0 * math.log(2.0), rel=1e-12)
    assert single.weights["x"] != pytest.approx(unit.weights["x"], rel=1e-3)


def test_a_sure_unit_keeps_its_cross_entropy():
    unit = SigmoidUnit(rate=1e6)
    for _ in range(3):
        unit.learn_one({"x": 1.0}, 1.0)
    assert unit.predict_one({"x": 1.0}) == 1.0
    assert unit.log_likelihood([({"x": 1.0}, 0.0)]) == pytest.approx(-1e6, rel=1e-3)
    assert unit.log_likelihood([({"x": 1.0}, 1.0), ({"x": 1.0}, None)]) == 0.0


HUGE = [1e300, -1e300, 1e140, 10**400, 1e-300, 1.0, math.inf, math.nan, None, "u", True]


@law
@given(
    st.lists(
        st.tuples(st.dictionaries(st.sampled_from("ab"), st.sampled_from(HUGE)), st.floats(0.0, 1.0)),
        max_size=10,
    ),
    st.sampled_from([1e-3, 1.0, 1e12]),
)
def test_finite_whatever_comes(stream, rate):
    linear, sigmoid = LinearUnit(rate), SigmoidUnit(rate)
    for x, d in stream:
        linear.learn_one(x, d)
        sigmoid.learn_one(x, d)
        assert math.isfinite(linear.predict_one(x))
        assert 0.0 <= sigmoid.predict_one(x) <= 1.0
    assert math.isfinite(sigmoid.cross_entropy)


@UNITS
@pytest.mark.parametrize("target", [None, math.nan, math.inf])
def test_no_target_no_learning(unit, target):
    learner = unit()
    learner.learn_one({"x": 1.0}, target)
    assert (learner.intercept, learner.weights) == (0.0, {})


@UNITS
def test_strings_and_missing_attributes(unit):
    learner = unit(rate=0.1)
    learner.learn_one({"c": "red", "on": True, "off": False, "gone": None}, 1.0)
    step = learner.intercept
    assert learner.weights == {("c", "red"): step, "on": step}
    assert learner.predict_one({"c": "blue", "on": None}) == learner.predict_one({})


@UNITS
def test_refusals(unit):
    learner = unit()
    with pytest.raises(TypeError, match="expected a number or a string, got list"):
        learner.learn_one({"new": 1.0, "x": [1]}, 1.0)
    with pytest.raises(TypeError, match="'target'"):
        learner.learn_one({"x": 1.0}, "high")
    assert learner.weights == {}
    for keywords in ({"rate": 0.0}, {"rate": math.nan}, {"features": 0}):
        with pytest.raises(ValueError, match="must"):
            unit(**keywords)


@pytest.mark.parametrize("d", [-0.1, 1.1])
def test_a_target_of_the_sigmoid_unit_is_a_probability(d):
    unit = SigmoidUnit()
    with pytest.raises(ValueError, match="between 0 and 1"):
        unit.learn_many([({"x": 1.0}, 0.5), ({"x": 1.0}, d)])
    assert (unit.n, unit.cross_entropy, unit.weights) == (0, 0.0, {})


@UNITS
def test_only_so_many_columns(unit):
    learner = unit(features=2)
    for i in range(5):
        learner.learn_one({"id": f"user {i}"}, 1.0)
    assert list(learner.weights) == [("id", "user 0"), ("id", "user 1")]


@UNITS
@law
@given(stream=st.lists(st.tuples(st.dictionaries(st.sampled_from("abc"), st.floats(-3, 3)), st.floats(0, 1))))
def test_restart_is_no_restart(unit, stream):
    half = len(stream) // 2
    learner = unit()
    for x, d in stream[:half]:
        learner.learn_one(x, d)
    part = through_a_snapshot(learner)
    restored = unit().load_state(part.meta, part.arrays)
    for x, d in stream[half:]:
        learner.learn_one(x, d)
        restored.learn_one(x, d)
    assert (restored.intercept, restored.weights) == (learner.intercept, learner.weights)
    assert restored.state()[0] == learner.state()[0]
    if unit is SigmoidUnit:
        assert restored.cross_entropy == learner.cross_entropy


@UNITS
@pytest.mark.parametrize(
    "changes",
    [
        {"type": "LogisticRegression"},
        {"columns": [["x"], ["y"]]},
        {"columns": 3},
        {"weights": np.array([1.0, np.nan])},
        {"weights": np.array([1, 2])},
    ],
    ids=repr,
)
def test_a_damaged_state_is_refused(unit, changes):
    learner = unit()
    learner.learn_one({"x": 1.0}, 1.0)
    meta, arrays = learner.state()
    for name, value in changes.items():
        (arrays if name in arrays else meta)[name] = value
    with pytest.raises(SnapshotError):
        unit().load_state(meta, arrays)


@pytest.mark.parametrize("changes", [{"n": -1}, {"n": "1"}, {"cross_entropy": np.array([-1.0])}], ids=repr)
def test_a_damaged_cross_entropy_is_refused(changes):
    meta, arrays = SigmoidUnit().state()
    for name, value in changes.items():
        (arrays if name in arrays else meta)[name] = value
    with pytest.raises(SnapshotError):
        SigmoidUnit().load_state(meta, arrays)


LOSSES = {
    "squared": lambda h, d: (d - h) ** 2 / 2,
    "hinge": lambda h, d: max(0.0, 1 - d * h),
    "squared_hinge": lambda h, d: max(0.0, 1 - d * h) ** 2,
    "exponential": lambda h, d: math.exp(-d * h),
    "perceptron": lambda h, d: max(0.0, -d * h),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_step_of_each_loss_follows_its_gradient(loss):
    """Deck 004's losses: the change of the weights is -eta dL/dw, with the derivative taken numerically."""
    rng, e = np.random.default_rng(3), 1e-6
    unit = LinearUnit(rate=1e-3, loss=loss)
    moved = 0
    for _ in range(200):
        x, d = rng.normal(size=2), float(rng.choice([-1.0, 1.0]))
        event = {"a": x[0], "b": x[1]}
        h, before = unit.predict_one(event), unit.intercept
        slope = (LOSSES[loss](h + e, d) - LOSSES[loss](h - e, d)) / (2 * e)
        unit.learn_one(event, d)
        if abs(1 - d * h) > 2 * e and abs(h) > 2 * e:  # no kink
            assert unit.intercept - before == pytest.approx(-1e-3 * slope, abs=1e-8)
            assert unit.predict_one(event) - h == pytest.approx(-1e-3 * slope * (1 + x @ x), abs=1e-7)
            moved += unit.intercept != before
    assert moved > 50


@pytest.mark.parametrize("loss", LOSSES)
def test_each_loss_separates_what_is_separable_and_stays_finite(loss):
    rng = np.random.default_rng(4)
    unit = LinearUnit(
        rate=0.002 if loss == "squared" else 0.5, loss=loss, l2=1e-4
    )  # least squares follow every point
    margins = [(x, x[0] - 2 * x[1] + 0.5) for x in (rng.normal(size=(2000, 2)) * 3.0).tolist()]
    events = [({"a": x[0], "b": x[1]}, 1 if margin > 0 else -1) for x, margin in margins if abs(margin) > 1]
    for x, d in events:
        unit.learn_one(x, d)
    right = sum((unit.predict_one(x) > 0) == (d > 0) for x, d in events)
    assert right / len(events) > 0.97
    unit.learn_one({"a": 1e140, "b": -1e140}, 1)
    assert math.isfinite(unit.predict_one({"a": 1.0}))


def test_l2_shrinks_the_weights_but_not_the_intercept():
    plain, shrunk = LinearUnit(loss="hinge"), LinearUnit(loss="hinge", l2=10.0)
    for unit in (plain, shrunk):
        unit.learn_one({"x": 1.0}, 1)
        unit.learn_one({"x": 1.0}, 1)
    assert shrunk.weights["x"] == pytest.approx(0.05 * 0.5 + 0.05)
    assert shrunk.intercept == plain.intercept == pytest.approx(0.1)


@pytest.mark.parametrize("loss", [*LOSSES][1:])
@pytest.mark.parametrize("target", [0, 0.5, True - 1, 2])
def test_targets_that_are_no_signs_are_refused(loss, target):
    unit = LinearUnit(loss=loss)
    with pytest.raises(ValueError, match="takes the targets 1 and -1"):
        unit.learn_one({"x": 1.0}, target)


def test_a_loss_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="loss must be one of squared, hinge"):
        LinearUnit(loss="logistic")
    with pytest.raises(ValueError, match="l2"):
        LinearUnit(rate=0.5, l2=2.0)


def disjunction(n, size, rng):
    """Events of `size` booleans, of which the first three decide: 1 if one of them is true."""
    for _ in range(n):
        row = rng.random(size) < 0.5
        row[:3] &= rng.random() < 0.5
        yield dict.fromkeys(np.flatnonzero(row).tolist(), 1.0), 1 if row[:3].any() else -1


def mistakes(unit, stream):
    found = 0
    for x, d in stream:
        found += (unit.predict_one(x) > 0) != (d > 0)
        unit.learn_one(x, d)
    return found


def test_winnow_multiplies_both_parts_of_a_weight():
    """Balanced Winnow with two vectors of positive weights, as Littlestone has it."""
    X = np.random.default_rng(6).normal(size=(300, 8))  # real numbers, because rounding decides ties
    unit = LinearUnit(rate=0.3, loss="winnow")
    up, down, mistakes = np.ones(9), np.ones(9), 0
    for x, row in zip(rows(X), np.column_stack([np.ones(300), X]), strict=True):
        d = 1 if row[1] - row[2] + 0.5 > 0.0 else -1
        net = (up - down) @ row
        assert unit.predict_one(x) == pytest.approx(net, rel=1e-9)
        if d * net <= 0.0:
            up, down, mistakes = up * np.exp(0.3 * d * row), down * np.exp(-0.3 * d * row), mistakes + 1
        unit.learn_one(x, d)
    assert [unit.intercept, *unit.weights.values()] == pytest.approx(up - down)
    assert mistakes > 10


def test_winnow_bears_irrelevant_attributes():
    """Littlestone: mistakes grow with the logarithm of their number, the perceptron's with the number."""
    found = {}
    for size in (50, 800):
        for loss, rate in (("winnow", 0.1), ("perceptron", 1.0)):
            stream = disjunction(1500, size, np.random.default_rng(7))
            found[loss, size] = mistakes(LinearUnit(rate=rate, loss=loss), stream)
    assert found["winnow", 800] < 0.5 * found["perceptron", 800]
    assert (
        found["winnow", 800] / found["winnow", 50] < 0.7 * found["perceptron", 800] / found["perceptron", 50]
    )


@pytest.mark.parametrize("x", [1e140, 1e-300, 5.0])
def test_winnow_stays_finite(x):
    unit = LinearUnit(rate=1e6, loss="winnow")
    for d in (1, -1, 1):
        unit.learn_one({"x": x, "y": x}, d)
        assert math.isfinite(unit.predict_one({"x": x, "y": x}))
    again = LinearUnit(rate=1e6, loss="winnow").load_state(*unit.state())
    assert again.weights == unit.weights
