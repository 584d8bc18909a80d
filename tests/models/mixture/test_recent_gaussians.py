"""Gaussian naive Bayes that forgets by the number of learned events, next to its definition."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from streamnb import BayesOptimalNB, Hypothesis, MondrianForest, Pool, RecentGaussian, Softmax
from streamnb.errors import SnapshotError
from streamnb.models.mixture.recent_gaussians import MOST_FIELDS
from tests.models.mixture.test_learners import Watched

SHORT = [RecentGaussian(1), RecentGaussian(3), Softmax(), Pool()]
"""Half-lives of which 150 events are several epochs."""


def numbers(seed, n, fields=3):
    """Events of numbers whose means change, three classes, and rows without a label or without a number."""
    rng, rows = random.Random(seed), []
    for i in range(n):
        label = rng.choice("aab" if i < n // 2 else "abc")
        x = {
            f"n{f}": rng.gauss(ord(label) * (f + i // 40) % 3, 0.5)
            for f in range(fields)
            if rng.random() < 0.9
        }
        rows.append(
            (x | {"text": "some words"} if rng.random() < 0.2 else x, label if rng.random() < 0.9 else None)
        )
    return rows


@pytest.mark.parametrize("seed", range(3))
def test_each_probability_is_that_of_all_events_by_what_is_left_of_them(seed):
    watched, rng = Watched(SHORT, tolerance=1e-6), random.Random(seed)
    for x, y in numbers(seed, 150):
        watched.meet(x, y, rng.choice([1.0, 0.25, 3.0]))
    assert watched.model._learners.recent.tables.worth.max() < 2.0**32  # epochs ended


@pytest.mark.parametrize("company", [[], [MondrianForest(2)]], ids=["alone", "gated"])
def test_batches_single_events_and_a_restored_state_give_the_same_bits(company):
    rows = numbers(7, 260)
    made = [BayesOptimalNB({"text": "text"}, [*company, *SHORT]) for _ in range(3)]
    xs, ys = zip(*rows, strict=True)
    made[0].predict_then_learn_many(xs, ys)
    for at, (x, y) in enumerate(rows):
        made[1].predict_proba_one(x)
        if y is not None:
            made[1].learn_one(x, y)
        made[2].predict_then_learn_many([x], [y])
        if at % 50 == 0:
            made[2] = made[2].clone().load_state(*made[2].state())
    states = [{name: array.tobytes() for name, array in model.state()[1].items()} for model in made]
    assert states[0] == states[2]
    learned = [{name: state[name] for name in state if name.startswith("learned_recent")} for state in states]
    assert learned[0] == learned[1]


def test_the_recent_past_decides_after_the_classes_changed_places():
    model = BayesOptimalNB({}, [Hypothesis(), RecentGaussian(16)])
    rng, losses = random.Random(4), {"multinomial alpha=1": 0.0, "recent gaussian half_life_events=16": 0.0}
    for i in range(900):
        y = rng.choice("ab")
        x = {"n": rng.gauss(1.0 if (y == "a") == (i < 600) else -1.0, 0.5)}
        if i >= 700:
            for name, logs in model.joint_log_likelihoods(x).items():
                losses[name] -= logs[y] - np.logaddexp(*logs.values())
        model.learn_one(x, y)
    assert losses["recent gaussian half_life_events=16"] < 0.2 * losses["multinomial alpha=1"]


def test_a_class_of_long_ago_keeps_a_share_of_one_example():
    model = BayesOptimalNB({}, [RecentGaussian(1)])
    model.learn_many([{}] * 1501, ["rare"] + ["often"] * 1500)
    logs = model.joint_log_likelihoods({})["recent gaussian half_life_events=1"]
    often = sum(0.5**age for age in range(1, 200)) + 1500 / 1501
    power = model._learners.tables.powers[0, 0]
    odds = power * math.log((1 / 1501) / often)  # the floor of calibration is -20
    assert logs["rare"] - logs["often"] == pytest.approx(odds, rel=1e-9)


def test_numbers_beyond_the_most_are_not_read():
    model = BayesOptimalNB({}, [RecentGaussian(8), Softmax(weight=0.0)])
    wide = {f"n{i}": float(i) for i in range(MOST_FIELDS)}
    rng = random.Random(1)
    for _ in range(60):
        y = rng.choice("ab")
        model.learn_one(wide | {"late": rng.gauss(y == "a", 0.01)}, y)
    name = "recent gaussian half_life_events=8"
    said = model.joint_log_likelihoods({"late": 1.0})[name]
    assert said == model.joint_log_likelihoods({})[name]
    assert model._learners.recent.tables.n.shape[1] == MOST_FIELDS


def test_moments_stay_within_a_part_of_the_budget():
    """Labels that come later take room from the latest numbers, for good; a restored model goes on with the same bits."""
    made = BayesOptimalNB({}, SHORT, memory=1 << 20)
    made.keep_within(1 << 20)
    rows = [({f"n{f}": float(f * i % 7) for f in range(100)}, f"y{i % (2 + i // 10)}") for i in range(200)]
    fields = []
    for at, (x, y) in enumerate(rows):
        made.predict_then_learn_many([x], [y])
        tables = made._learners.recent.tables
        assert tables.n.nbytes + tables.mean.nbytes + tables.M2.nbytes <= (1 << 20) // 64
        fields.append(tables.n.shape[1])
        if at == 100:
            other = made.clone()
            other.keep_within(1 << 20)
            other.load_state(*made.state())
        elif at > 100:
            other.predict_then_learn_many([x], [y])
    assert fields[0] == 100
    assert fields == sorted(fields, reverse=True)
    assert fields[-1] == (1 << 20) // 64 // (24 * 2 * len(made.classes))
    states = [model.state()[1] for model in (made, other)]
    assert all(states[1][name].tobytes() == array.tobytes() for name, array in states[0].items())


@pytest.mark.parametrize("value", [0, 1_000_000_001, 2.5, True, None])
def test_a_half_life_that_is_no_number_of_events_is_refused(value):
    with pytest.raises(ValueError, match="half_life_events"):
        RecentGaussian(value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("worth", 0.5), ("worth", 2.0**33), ("classes", -1.0), ("n", math.nan), ("mean", math.inf)],
)
def test_a_state_that_no_stream_has_is_refused(name, value):
    model = BayesOptimalNB({}, [RecentGaussian()])
    model.learn_many([{"n": 1.0}, {"n": 2.0}], "ab")
    meta, arrays = model.state()
    arrays[f"learned_recent_{name}"].reshape(-1)[0] = value
    with pytest.raises(SnapshotError, match=f"learned_recent_{name}"):
        BayesOptimalNB({}, [RecentGaussian()]).load_state(meta, arrays)


def test_what_counts_of_others_is_refused():
    model = BayesOptimalNB({}, [RecentGaussian(5, name="recent")])
    model.learn_many([{"n": 1.0}, {"n": 2.0}], "ab")
    with pytest.raises(ValueError, match="other learners"):
        BayesOptimalNB({}, [RecentGaussian(6, name="recent")]).load_state(*model.state())
