"""Importance of attributes: shuffled values cost what the model knew by them."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from sklearn.metrics import mutual_info_score

from streamnb import BayesOptimalNB, NaiveBayes
from streamnb.models.interface.feature_importances import feature_importances, information

pytestmark = pytest.mark.early(20)


def rows(n, seed=1):
    rng = random.Random(seed)
    for _ in range(n):
        label = rng.choice("ab")
        yes = label == "a"
        yield (
            {
                "noise": rng.random(),
                "number": rng.gauss(2.0 * yes, 1.0),
                "colour": rng.choice("rrg" if yes else "rgg"),
                "text": rng.choice(["free cash", "cash now"] if yes else ["lunch at noon", "free at noon"]),
            },
            label,
        )


@pytest.mark.parametrize("kind", [NaiveBayes, BayesOptimalNB])
def test_numbers_names_and_texts_are_ranked_by_what_they_tell(kind):
    model = kind({"number": "continuous", "noise": "continuous", "colour": "nominal", "text": "text"})
    xs, ys = zip(*rows(600), strict=True)
    model.learn_many(list(xs), list(ys))
    before = model.digest()
    xs, ys = zip(*rows(300, seed=2), strict=True)
    found = feature_importances(model, xs, ys)
    assert [one.attribute for one in found] == ["text", "number", "colour", "noise"]
    assert sum(one.share for one in found) == pytest.approx(1.0)
    assert found[-1].share < 0.02
    assert model.digest() == before
    assert [one.share for one in feature_importances(model, xs, ys)] == [one.share for one in found]


def test_the_rise_is_that_of_the_log_loss_with_the_values_of_other_events():
    model = NaiveBayes({"x": "nominal"}, alpha=0.0)
    model.learn_many([{"x": "l"}, {"x": "l"}, {"x": "r"}, {"x": "r"}, {"x": "r"}, {"x": "l"}], [*"aabbab"])
    (one,) = feature_importances(model, [{"x": "l"}, {"x": "r"}], ["a", "b"])
    assert one.nats == pytest.approx(math.log(2 / 3) - math.log(1 / 3))  # the two events exchange values
    assert one.share == 1.0


def test_a_missing_value_moves_too_and_unknown_labels_are_left_out():
    model = NaiveBayes({"x": "nominal"})
    model.learn_many([{"x": "l"}] * 5 + [{}] * 5, ["a"] * 5 + ["b"] * 5)
    (one,) = feature_importances(model, [{"x": "l"}, {}, {"x": "l"}], ["a", "b", "never seen"])
    assert one.attribute == "x"
    assert feature_importances(model, [{"x": "l"}], ["never seen"])[0].nats == 0.0
    assert feature_importances(model, [], []) == []


def test_information_is_that_of_scikit_learn_less_what_chance_gives():
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 3, 900)
    names = [f"v{(label + rng.integers(0, 2)) % 3}" for label in labels]
    expected = mutual_info_score(labels, names) - 2 * 2 / 1800
    assert information(names, labels.tolist()) == pytest.approx(expected, abs=1e-12)
    numbers = rng.normal(size=900)
    assert abs(information(numbers.tolist(), labels.tolist())) < 0.01
    assert information((labels + numbers / 10).tolist(), labels.tolist()) > 0.8 * math.log(3)
    assert information([None, *names[1:]], labels.tolist()) > 0.2
    assert information([7.0] * 900, labels.tolist()) == 0.0
