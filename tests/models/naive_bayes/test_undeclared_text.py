"""What is called `text` is a text, where nothing declares it otherwise; in Python, a number is a count."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from river import feature_extraction

from streamnb import (
    BayesOptimalClassifier,
    BayesOptimalNB,
    BernoulliNB,
    CategoricalNB,
    GaussianNB,
    HiddenMarkovNB,
    LogisticRegression,
    MultinomialNB,
    NaiveBayes,
    SemiSupervisedNB,
)
from streamnb.config import load
from streamnb.runtime import factories
from tests.support.service import records
from tests.support.states import digest

KINDS = {"naive_bayes": NaiveBayes, "mixture": BayesOptimalNB, "hidden_markov": HiddenMarkovNB}
EVENTS = [
    ({"text": f"win {word} now", "colour": "rgb"[i % 3], "size": float(i)}, "ab"[i % 2])
    for i, word in enumerate(["cash", "lunch", "cash", "noon", "cash now", "noon lunch"] * 4)
]


def learned(model, events=EVENTS):
    for x, y in events:
        model.learn_one(x, y)
    return model


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
    learner = factories.learner(config)
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


MAKES = pytest.mark.parametrize("make", [NaiveBayes, BayesOptimalNB, HiddenMarkovNB])


@MAKES
def test_what_is_neither_a_text_nor_a_number_is_refused(make):
    with pytest.raises(TypeError, match="attribute 'text': expected a text"):
        make().learn_one({"text": True}, "a")
    declared = make({"text": "text"})
    for value in (5, 2.5, True):
        with pytest.raises(TypeError, match="attribute 'text': expected a text"):
            declared.learn_one({"text": value}, "a")
    bag = make()
    bag.learn_one({"text": {"cash": 2}}, "a")
    assert bag.class_counts("text") == {"cash": {"a": 2.0}}


DOCUMENTS = [("the text of the text", "a"), ("foo bar text", "b"), ("foo foo the", "a"), ("text", "b")] * 3
TAKES_BAGS = {
    **{kind.__name__: kind for kind in (NaiveBayes, MultinomialNB, BernoulliNB, CategoricalNB, GaussianNB)},
    "HiddenMarkovNB": HiddenMarkovNB,
    "BayesOptimalNB": BayesOptimalNB,
    "BayesOptimalClassifier": lambda: BayesOptimalClassifier([NaiveBayes(), GaussianNB()]),
    "SemiSupervisedNB": lambda: SemiSupervisedNB(NaiveBayes()),
    "LogisticRegression": LogisticRegression,
}


@pytest.mark.parametrize("name", TAKES_BAGS)
@pytest.mark.parametrize("transformer", [feature_extraction.BagOfWords, feature_extraction.TFIDF])
def test_a_bag_of_words_may_have_the_word_text(name, transformer):
    """It says what the same bag with another word in its place says: trees number attributes by name."""
    model, other = (transformer() | TAKES_BAGS[name]() for _ in range(2))
    for text, label in DOCUMENTS:
        renamed = text.replace("text", "texu")
        expected = other.predict_proba_one(renamed)
        assert model.predict_proba_one(text) == pytest.approx(expected, rel=1e-9)
        model.learn_one(text, label == "a")
        other.learn_one(renamed, label == "a")
    why = [next(reversed(one.steps.values())) for one in (model, other)]
    if hasattr(why[0], "explain_one"):
        told = [
            sorted(item[-1] for item in one.explain_one({word: 2, "the": 1}))
            for one, word in zip(why, ("text", "texu"), strict=True)
        ]
        assert told[0] == pytest.approx(told[1], rel=1e-9)


@MAKES
def test_a_column_of_counts_may_be_called_text(make):
    frame = pd.DataFrame([{"text": 2, "foo": 1}, {"text": 0, "foo": 3}] * 5)
    many, each, renamed = make(), make(), make()
    many.learn_many(frame, ["a", "b"] * 5)
    renamed.learn_many(frame.rename(columns={"text": "word"}), ["a", "b"] * 5)
    for row, label in zip(frame.to_dict("records"), ["a", "b"] * 5, strict=True):
        each.learn_one(row, label)
    assert digest(many) == digest(each)
    expected = renamed.predict_posteriors(frame.rename(columns={"text": "word"})).probabilities
    assert np.array_equal(many.predict_posteriors(frame).probabilities, expected)


@MAKES
def test_a_state_with_counts_called_text_goes_on_with_texts_and_counts(make):
    model = learned(make(), [({"text": 2, "foo": 1}, "a"), ({"text": "win cash"}, "b"), ({"text": 1}, "b")])
    again = make().load_state(*model.state())
    for one in (model, again):
        learned(one, [({"text": "cash"}, "b"), ({"text": 3.0}, "a")])
    assert digest(model) == digest(again)
    assert model.class_counts("text") == {"win": {"b": 1.0}, "cash": {"b": 2.0}}


def test_models_of_one_kind_of_attribute_take_it_for_that():
    assert learned(CategoricalNB()).class_counts("text")["win cash now"] == {"a": 8.0}
