"""One rule in Python and on the wire: what is called `text` is a text, where nothing declares it otherwise."""

from __future__ import annotations

import pytest
from service import records

from streamnb import (
    BayesOptimalNB,
    CategoricalNB,
    HiddenMarkovNB,
    NaiveBayes,
)
from streamnb.cli import wiring
from streamnb.config import load
from streamnb.wire.snapshot import part_digest

KINDS = {
    "naive_bayes": NaiveBayes,
    "mixture": BayesOptimalNB,
    "hidden_markov": HiddenMarkovNB,
}
EVENTS = [
    ({"text": f"win {word} now", "colour": "rgb"[i % 3], "size": float(i)}, "ab"[i % 2])
    for i, word in enumerate(["cash", "lunch", "cash", "noon", "cash now", "noon lunch"] * 4)
]


def learned(model, events=EVENTS):
    for x, y in events:
        model.learn_one(x, y)
    return model


def digest(model):
    return part_digest(*model.state())


@pytest.mark.parametrize("make", KINDS.values(), ids=lambda make: make.__name__)
def test_undeclared_it_is_a_text_as_if_it_were_declared_so(make):
    assert digest(learned(make())) == digest(learned(make({"text": "text"})))
    assert digest(learned(make({"colour": "nominal"}))) == digest(
        learned(make({"text": "text", "colour": "nominal"}))
    )
    assert digest(learned(make())) != digest(learned(make({"text": "nominal"})))


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_wire_teaches_is_what_python_teaches(kind):
    config = load(None, {}, [f"model.kind={kind}"])
    learner = wiring.learner(config)
    raws = [
        b'{"id":"%d","text":"%s","features":{"colour":"%s","size":%f},"label":"%s"}'
        % (i, x["text"].encode(), x["colour"].encode(), x["size"], y.encode())
        for i, (x, y) in enumerate(EVENTS)
    ]
    learner.process(records(raws), 1.0)
    for x, _ in EVENTS:
        posteriors = learner.model.predict_posteriors([x])
        alone = learned(KINDS[kind]()).predict_proba_one(x)
        if kind != "mixture":  # whose default switches in a service
            assert dict(zip(posteriors.classes, posteriors.probabilities[0].tolist(), strict=True)) == alone


@pytest.mark.parametrize("make", [NaiveBayes, BayesOptimalNB, HiddenMarkovNB])
def test_a_text_that_is_none_is_refused_as_on_the_wire(make):
    for value in (5, 2.5, True):
        model = make()
        with pytest.raises(TypeError, match="attribute 'text': expected a text"):
            model.learn_one({"text": value}, "a")
    bag = make()
    bag.learn_one({"text": {"cash": 2}}, "a")
    assert bag.class_counts("text") == {"cash": {"a": 2.0}}


@pytest.mark.parametrize("make", [NaiveBayes, BayesOptimalNB, HiddenMarkovNB])
@pytest.mark.parametrize("kind", ["nominal", "continuous"])
def test_a_state_in_which_it_is_a_value_keeps_it_one(make, kind):
    """Such states were written before there was this rule."""
    events = [({**x, "text": x["text"] if kind == "nominal" else x["size"]}, y) for x, y in EVENTS]
    before = learned(make({"text": kind}), events[:12])
    goes_on = make().load_state(*before.state())
    assert digest(learned(goes_on, events[12:])) == digest(learned(before, events[12:]))
    assert digest(learned(goes_on.load_state(*make().state()))) == digest(learned(make()))


def test_models_of_one_kind_of_attribute_take_it_for_that():
    assert learned(CategoricalNB()).class_counts("text")["win cash now"] == {"a": 8.0}
