"""What every classifier says of an event that is none."""

from __future__ import annotations

import inspect

import pytest

import streamnb
from tests.laws.test_constructors import NEEDED
from tests.support.every_case import failures

TAKE_TEXTS = {"MultinomialNB", "BernoulliNB"}
OF_NO_EVENTS = {"ConceptLearner", "PlattScaling"}
"""The one of whatever its predicates take, the other of scores."""

CALLS = {
    "learn_one": lambda model, x: model.learn_one(x, True),
    "predict_one": lambda model, x: model.predict_one(x),
    "predict_proba_one": lambda model, x: model.predict_proba_one(x),
}


def classifiers():
    for name in streamnb.__all__:
        made = getattr(streamnb, name)
        if inspect.isclass(made) and hasattr(made, "predict_proba_one") and name not in OF_NO_EVENTS:
            yield name, made


def takes_text(case):
    name, made, call = case
    model = made(**NEEDED.get(name, {}))
    if name in TAKE_TEXTS:
        call(model, "win cash")
        return
    with pytest.raises(TypeError, match=r"such as \{'text': 'win cash'\}, not str"):
        call(model, "win cash")


def test_a_text_is_an_event_of_models_of_one_text_and_all_others_say_what_is():
    cases = [(*one, call) for one in classifiers() for call in CALLS.values()]
    assert len(cases) > 30
    assert failures(takes_text, cases) == {}
