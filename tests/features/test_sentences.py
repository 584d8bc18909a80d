"""A text that nothing declares teaches next to nothing, and whoever learns it in Python is told so."""

from __future__ import annotations

import warnings

import pandas as pd
import pytest

from streamnb import (
    BayesOptimalNB,
    BernoulliNB,
    CategoricalNB,
    MultinomialNB,
    NaiveBayes,
    SemiSupervisedNB,
    Text,
)
from streamnb.errors import UndeclaredTextWarning

WORDS = "I was charged twice for the same plan"
CASES = [  # a model, the name of its text, whether it warns
    (NaiveBayes(), "message", True),
    (BayesOptimalNB(), "message", True),
    (NaiveBayes(), "text", False),
    (BayesOptimalNB(), "text", False),
    (NaiveBayes({"message": Text()}), "message", False),
    (NaiveBayes({"message": "nominal"}), "message", False),
    (CategoricalNB(), "message", False),
    (MultinomialNB(), "message", False),
    (BernoulliNB(), "message", False),
]


def one_by_one(model, rows):
    for x, y in rows:
        model.learn_one(x, y)


def at_once(model, rows):
    model.learn_many([x for x, _ in rows], [y for _, y in rows])


def as_a_frame(model, rows):
    model.learn_many(pd.DataFrame([x for x, _ in rows]), pd.Series([y for _, y in rows]))


def as_the_engine_does(model, rows):
    model.predict_then_learn_many([x for x, _ in rows], [y for _, y in rows])


WAYS = [one_by_one, at_once, as_a_frame, as_the_engine_does]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("model", "name", "warns"), CASES)
def test_it_is_told_once_outside_the_engine(model, name, warns, way):
    rows = [({name: f"{WORDS} {i}", "plan": "pro      plus"}, "ab"[i % 2]) for i in range(40)]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default", UndeclaredTextWarning)
        way(model.clone(), rows)
    assert len(told) == (warns and way is not as_the_engine_does)
    for one in told:
        assert f"(attributes={{'{name}': 'text'}})" in str(one.message)
        assert one.filename == __file__


def test_the_line_is_the_users_where_one_of_our_models_teaches_another():
    for late in (False, True):
        model = SemiSupervisedNB(NaiveBayes())
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("default", UndeclaredTextWarning)
            (model.learn_late_one if late else model.learn_one)({"message": WORDS}, "a")
        assert [one.filename for one in told] == [__file__]


def test_an_event_that_is_none_is_refused_as_ever():
    for model in (NaiveBayes(), BayesOptimalNB()):
        with pytest.raises(TypeError, match="an event is a mapping"):
            model.learn_one(WORDS, "a")
