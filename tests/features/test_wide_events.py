"""Wide events of plain numbers and strings, written at once, leave what one attribute after another leaves."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from streamnb import BayesOptimalNB, GaussianNB, MultinomialNB, NaiveBayes
from streamnb.features import event_reader

NAMES = [f"c{k}" for k in range(60)]
MODELS = {
    "default": BayesOptimalNB,
    "declared": lambda: BayesOptimalNB({"c1": "nominal", "c3": "text"}),
    "naive Bayes": NaiveBayes,
    "numbers": GaussianNB,
    "a word each": MultinomialNB,
}


def wide_event(rng, texts):
    x = {}
    for k, name in enumerate(NAMES):
        number = rng.choice(
            [rng.gauss(0, 1), rng.gauss(0, 1), rng.gauss(0, 1e307), 0.0, float("nan"), float("inf")]
        )
        x[name] = rng.choice(["red", "green"]) if texts and k % 7 == 3 else abs(number)
    for name in rng.sample(NAMES, 5):
        del x[name]
    return dict(rng.sample(list(x.items()), len(x)))


def learned(make, xs, ys):
    model = make()
    probabilities = model.predict_then_learn_many(xs, ys).probabilities
    meta, arrays = model.state()
    return (
        repr(meta),
        probabilities.tobytes(),
        {name: np.asarray(array).tobytes() for name, array in arrays.items()},
    )


@pytest.mark.parametrize("name", MODELS)
def test_the_state_and_predictions_are_equal_to_the_bit(name, monkeypatch):
    rng = random.Random(3)
    xs = [wide_event(rng, name in {"default", "declared", "naive Bayes"}) for _ in range(80)]
    if name == "a word each":
        xs = [{key: float(min(value, 9.0)) for key, value in x.items() if not math.isnan(value)} for x in xs]
    ys = [rng.choice("abc") for _ in xs]
    found = learned(MODELS[name], xs, ys)
    monkeypatch.setattr(event_reader, "_WIDE", 10**9)
    assert learned(MODELS[name], xs, ys) == found


def test_a_number_where_a_text_is_declared_is_refused_by_name():
    x = dict.fromkeys(NAMES, 1.0)
    with pytest.raises(TypeError, match="attribute 'c5': expected a text or a bag of words, got float"):
        NaiveBayes({"c5": "text"}).learn_one(x, "a")
