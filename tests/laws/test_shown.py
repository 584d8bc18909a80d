"""Whatever shows itself in a notebook is whole HTML, says what it knows, and is no larger for it."""

from __future__ import annotations

import math
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd
import pytest

import streamnb
from streamnb import BayesianNetworkClassifier, BayesOptimalNB, MultinomialNB, NaiveBayes, Text
from streamnb.models.interface.feature_importances import feature_importances
from tests.laws.test_saved import SAVABLE
from tests.system.hostile.mutated_states import ROWS

EVIL = "</style></title><script>alert(1)</script>\"'&\u202e\x07"


def seen(value):
    """The text of what a notebook shows, which is well-formed, and runs and loads nothing."""
    made = value._repr_html_()
    tree = ET.fromstring(made)  # noqa: S314  it is well-formed
    tags = {element.tag for element in tree.iter()}
    assert not tags & {"script", "img", "iframe", "link"}
    assert not any(name in element.attrib for element in tree.iter() for name in ("src", "href", "onclick"))
    assert "\u202e" not in made
    assert len(made) < 300_000
    return " ".join(tree.itertext())


def learned(kind, n=60, labels=("a", "b"), name="text"):
    model = kind({name: Text()})
    for i in range(n):
        model.learn_one({name: f"w{i % 7} {labels[i % len(labels)]}"}, labels[i % len(labels)])
    return model


@pytest.mark.parametrize("name", SAVABLE)
def test_every_classifier_shows_itself_before_and_after_it_has_learned(name):
    kind = SAVABLE[name]
    for made in (kind.make(), kind.learned(ROWS)):
        assert type(made).__name__ in repr(made)
        assert " object at 0x" not in repr(made)
        assert type(made).__name__ in seen(made)


@pytest.mark.parametrize("kind", [NaiveBayes, BayesOptimalNB])
def test_a_classifier_shows_classes_and_words_as_text_whatever_they_are(kind):
    model = learned(kind, labels=(f"a{EVIL}", "b"), name=f"text{EVIL}")
    text = seen(model)
    assert "<script>alert(1)</script>" in text
    assert "Classes learned" in text
    assert ("Hypotheses" in text) == (kind is BayesOptimalNB)
    assert "<script>alert(1)</script>" in seen(model.explain_one({f"text{EVIL}": f"w1 {EVIL}"}))


def test_many_classes_and_words_make_no_large_picture():
    model = MultinomialNB()
    for i in range(2000):
        model.learn_one(" ".join(f"{'x' * 500}{i}w{j}" for j in range(10)), f"{'y' * 900}{i}")
    assert "8 of 2,000" in seen(model)


def test_evidence_and_linear_views_show_the_numbers_that_they_have():
    model = learned(NaiveBayes)
    event = {"text": "a w1"}
    found, whole, view = model.explain_one(event), model.explanation_one(event), model.linear_view("a")
    assert found == whole.items
    assert f"{found[0].log_odds:.3g}" in seen(found)
    assert f"{whole.log_odds:.3f}" in seen(whole)
    assert f"bias {view.bias:.3f}" in seen(view)
    weight = view.top(1)["a"][0]
    assert f"{weight.attribute}: {weight.value}" in seen(view)
    assert "against 'b'" in repr(view)
    assert "and 80 weaker ones" in seen(type(found)(found[:1] * 100))
    assert math.isfinite(view.bias)
    ruled_out = NaiveBayes({"text": Text()}, alpha=0.0)
    for text, label in (("x", "a"), ("y", "b")):
        ruled_out.learn_one({"text": text}, label)
    seen(ruled_out.linear_view("a"))
    seen(ruled_out.explain_one({"text": "x"}))


def test_scores_show_themselves():
    scores = streamnb.ProgressiveValidation()
    seen(scores)
    scores.update_many(np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]), np.array([0, 1, 1]))
    assert (
        repr(scores)
        == f"ProgressiveValidation(3 events, accuracy 0.6667, log loss {scores.cumulative().log_loss:.4f})"
    )
    assert "66.7 %" in seen(scores)


def test_evidence_that_is_empty_says_why():
    """Of a model that was never taught, of one class alone, and of an event that says nothing."""
    makers = [lambda: NaiveBayes({"a": "nominal"}), lambda: BayesianNetworkClassifier({"a": ["label"]})]
    for make in makers:
        model = make()
        assert (model.explain_one({"a": "x"}), repr(model.explain_one({"a": "x"}))) == (
            [],
            "[] (nothing was learned yet)",
        )
        model.learn_one({"a": "x"}, "u")
        assert "only one class" in repr(model.explain_one({"a": "x"}))
        model.learn_one({"a": "y"}, "v")
        assert repr(model.explain_one({"b": "z"})) == "[] (no value of this event changes the log odds)"
        assert "changes the log odds" in model.explain_one({"b": "z"})._repr_html_()
        assert "(" not in repr(model.explain_one({"a": "x"}))[:2]


def test_a_short_repr_names_changed_parameters_and_what_was_learned():
    assert repr(BayesOptimalNB()) == "BayesOptimalNB(): nothing learned"
    model = NaiveBayes({"x": "nominal"}, alpha=0.5)
    model.learn_many([{"x": "l"}, {"x": "r"}, {"x": "r"}], ["a", "b", "b"])
    assert (
        repr(model) == "NaiveBayes(attributes={'x': 'nominal'}, alpha=0.5): "
        "3 events learned, 2 classes, 2 words and values"
    )
    assert "\n" not in repr(learned(BayesOptimalNB))


def test_predictions_and_importances_of_a_frame_keep_its_names():
    frame = pd.DataFrame({"x": ["l", "r"] * 20, "noise": np.arange(40) % 5}, index=range(100, 140))
    model = NaiveBayes()
    model.learn_many(frame, ["a", "b"] * 20)
    made = model.predict_posteriors(frame).to_frame(frame.index)
    assert made.index.tolist() == frame.index.tolist()
    pd.testing.assert_frame_equal(made, model.predict_proba_many(frame), check_column_type=False)
    assert model.predict_posteriors(frame).to_frame().index.tolist() == [*range(40)]
    found = model.feature_importances(frame, ["a", "b"] * 20)
    assert [one.attribute for one in found] == ["x", "noise"]
    assert found == feature_importances(model, frame.to_dict("records"), ["a", "b"] * 20)
