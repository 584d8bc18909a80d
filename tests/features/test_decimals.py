"""A `decimal.Decimal`, as database drivers give it, is the number that is nearest."""

from __future__ import annotations

from decimal import Decimal

import pandas as pd
import pytest

from streamnb import BayesOptimalNB, CategoricalNB, GaussianNB, LogisticRegression, MultinomialNB, NaiveBayes

NUMBERS = [Decimal(i) / Decimal(3) for i in range(20)]
MISSING = ["NaN", "sNaN", "Infinity", "-Infinity", "1e5000"]


@pytest.mark.parametrize("make", [NaiveBayes, BayesOptimalNB, GaussianNB, LogisticRegression])
def test_a_decimal_is_the_double_that_is_nearest(make):
    by_decimal, by_double = make(), make()
    for i, number in enumerate(NUMBERS):
        by_decimal.learn_one({"n": number}, i % 3 == 0)
        by_double.learn_one({"n": float(number)}, i % 3 == 0)
    for number in NUMBERS:
        found = by_decimal.predict_proba_one({"n": number})
        assert found == by_double.predict_proba_one({"n": float(number)})
    for missing in MISSING:
        nothing = by_double.predict_proba_one({"n": float("nan")})
        assert by_decimal.predict_proba_one({"n": Decimal(missing)}) == nothing


def test_the_decimals_of_a_frame_are_numbers():
    frame = pd.DataFrame({"n": [*NUMBERS, None], "w": ["a"] * 21})
    labels = pd.Series([i % 2 for i in range(21)])
    by_frame, one_by_one = NaiveBayes(), NaiveBayes()
    by_frame.learn_many(frame, labels)
    for x, y in zip(frame.to_dict("records"), labels, strict=True):
        one_by_one.learn_one(x, y)
    assert by_frame.class_moments("n") == one_by_one.class_moments("n")
    assert by_frame.predict_proba_one({"n": 3.0}) == one_by_one.predict_proba_one({"n": 3.0})


def test_a_decimal_as_a_value_has_the_text_of_its_number():
    model = CategoricalNB()
    model.learn_one({"n": Decimal("3.00"), "m": Decimal("2.50")}, "a")
    assert (model.value_counts("n", 3), model.value_counts("m", "2.5")) == ({"a": 1.0}, {"a": 1.0})
    texts = MultinomialNB()
    texts.learn_one({"cash": Decimal(2), "noon": Decimal("NaN")}, "a")
    assert texts.class_counts("text") == {"cash": {"a": 2.0}}
