"""A model says which values of an event it cannot use, and Python warns of another type than was learned."""

from __future__ import annotations

import warnings

import pandas as pd
import pytest

from streamnb import BayesOptimalNB, BernoulliNB, HiddenMarkovNB, MultinomialNB, NaiveBayes
from streamnb.errors import OtherTypeWarning

EVENTS = [
    ({"text": "win cash now", "amount": 905.0, "vip": True, "plan": "Pro"}, "fraud"),
    ({"text": "lunch at noon", "amount": 3.0, "vip": False, "plan": "free"}, "ok"),
] * 3


@pytest.fixture(params=[NaiveBayes, BayesOptimalNB])
def model(request):
    model = request.param()
    for x, y in EVENTS:
        model.learn_one(x, y)
    return model


def reasons(model, x):
    return {one.attribute: one.reason for one in model.unused_values(x)}


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (EVENTS[0][0], {}),
        ({"amount": "905", "vip": "true", "plan": True}, {"amount": "type", "plan": "value"}),
        ({"vip": 1, "plan": 2.5, "amount": False}, {"vip": "type", "plan": "type", "amount": "type"}),
        ({"text": "!!!", "plan": "pro", "age": 4}, {"text": "words", "plan": "value", "age": "attribute"}),
        ({"text": "", "amount": None, "plan": float("nan")}, {"text": "words"}),
        ({"text": "win !!!", "amount": -1e9}, {}),
        ({}, {}),
    ],
)
def test_each_unused_value_has_its_reason(model, x, expected):
    assert reasons(model, x) == expected
    (posteriors,) = model.predict_posteriors([x]).used.tolist()
    given = [name for name, value in x.items() if value is not None and value == value]  # noqa: PLR0124  no NaN
    assert posteriors == (len(given) > len(expected))


def test_many_events_are_told_apart_as_each_alone(model):
    xs = [x for x, _ in EVENTS] + [{"text": "!!!"}, {}, {"amount": "905"}, {"amount": 4}, {"plan": "free"}]
    used = model.predict_posteriors(xs).used.tolist()
    assert used == [model.predict_posteriors([x]).used[0] for x in xs]
    assert used == [True] * 6 + [False, False, False, True, True]


def test_a_spelling_and_a_type_that_were_learned_are_named(model):
    (plan,) = model.unused_values({"plan": "pro"})
    assert plan.message == 'plan was never learned with the value "pro"; did you mean "Pro"?'
    model.learn_one({"plan": "TEAM"}, "ham")
    (plan,) = model.unused_values({"plan": "team"})
    assert plan.message == 'plan was never learned with the value "team"; did you mean "TEAM"?'
    (amount,) = model.unused_values({"amount": " 905 "})
    assert amount.message == 'amount is a string (" 905 "), and was learned as a number: send the number 905'
    (amount,) = model.unused_values({"amount": "much"})
    assert amount.message == 'amount is a string ("much"), and was learned as a number'


def test_a_spelling_that_was_learned_is_named_beside_values_that_are_known(model):
    xs = [
        {"amount": 905.0, "vip": "TRUE", "plan": "Pro"},
        {"plan": "other", "text": "WIN Cash"},
        {"plan": " FREE"},
    ]
    found = [[one.message for one in each] for each in model.lookup.other_spellings([*xs, {}])]
    assert found == [
        ['vip was never learned with the value "TRUE"; did you mean "true"?'],
        [],
        ['plan was never learned with the value " FREE"; did you mean "free"?'],
        [],
    ]
    assert model.lookup.other_spellings([{}]) == [[]]


def test_python_warns_once_for_each_attribute(model):
    """As it predicts by one event or by a frame; the line of the caller is named."""
    with pytest.warns(OtherTypeWarning, match="amount is a string") as caught:
        model.predict_one({"amount": "905", "plan": "Pro"})
    assert [one.filename for one in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict_proba_one({"amount": "906"})
        model.predict_proba_one({"vip": "no", "other": "x"})  # nothing of another type
    with pytest.warns(OtherTypeWarning, match="vip is a number"):
        model.predict_proba_many(pd.DataFrame({"vip": [None, 1.0], "amount": [1.0, 2.0]}))


def test_nothing_is_warned_of_what_is_learned_or_not_learned_yet():
    model = NaiveBayes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.predict_proba_one({"amount": "905"}) == {}
        model.learn_one({"amount": 905.0}, "a")
        model.learn_one({"amount": "905"}, "b")  # both types are learned: each is its own attribute
        model.predict_one({"amount": "905"})
        model.predict_one({"amount": 905.0})


def test_models_of_texts_alone_and_of_entities_say_it_too():
    for make in (MultinomialNB, BernoulliNB):
        texts = make()
        texts.learn_one("win cash", "a")
        texts.learn_one({"lunch": 2}, "b")
        assert reasons(texts, "cash !") == {}
        assert reasons(texts, "nothing known") == {"text": "words"}
    chains = HiddenMarkovNB(entity="machine")
    chains.learn_one({"machine": "m", "sound": "calm"}, "ok")
    assert reasons(chains, {"machine": "new", "sound": "calm"}) == {}
    assert reasons(chains, {"machine": "m", "sound": 3}) == {"sound": "type"}


def test_an_earlier_moment_can_be_asked():
    model = NaiveBayes()
    model.learn_one({"amount": 905.0}, "a")
    before = model.learned_types
    model.learn_one({"amount": "905"}, "b")
    assert model.lookup.other_types({"amount": "7"}) == []
    assert [one.attribute for one in model.lookup.other_types({"amount": "7"}, before)] == ["amount"]
