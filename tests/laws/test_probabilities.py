"""Whatever predicts: no probability is above 1 or below 0, and they sum to 1, to their last digit."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb import (
    BayesianNetworkClassifier,
    BayesOptimalClassifier,
    BayesOptimalNB,
    BernoulliNB,
    CategoricalNB,
    ConceptLearner,
    Conjunctions,
    GaussianNB,
    HiddenMarkovModel,
    HiddenMarkovNB,
    Hypothesis,
    JointTable,
    LogisticRegression,
    MultinomialNB,
    NaiveBayes,
    PlattScaling,
    Pool,
    SemiSupervisedNB,
    SequentialPosterior,
    Softmax,
)
from streamnb.formats.codec import decode_prediction
from tests.support.service import new_learner, records

TEXT = {"text": "text"}
ULP = 2.0**-52
NOMINAL = {"colour": "nominal", "flag": "nominal"}
PLAIN = {"colour", "flag"}


def hypotheses(n):
    return [Hypothesis("multinomial", alpha=0.5 + i, name=f"h{i}") for i in range(n)]


def mixture(n, **parameters):
    return BayesOptimalNB(TEXT, hypotheses(n), **parameters)


MIXTURES = {
    "mixture": mixture,
    "mixture that switches": lambda n: mixture(n, switching_rate=0.01),
    "map": lambda n: mixture(n, prediction="map"),
    "any classifiers": lambda n: BayesOptimalClassifier({f"h{i}": NaiveBayes(TEXT, alpha=0.5 + i) for i in range(n)}),
}  # fmt: skip
OTHERS = {
    "default mixture": lambda: BayesOptimalNB(TEXT),
    "naive Bayes": lambda: NaiveBayes(TEXT),
    "presence": lambda: NaiveBayes(TEXT, event_model="bernoulli"),
    "pool": lambda: BayesOptimalNB(
        TEXT, [Hypothesis("presence", calibrated=True, weight=0.0), Softmax(weight=0.0), Pool()]
    ),
    "calibrated": lambda: BayesOptimalNB(TEXT, [Hypothesis("presence", calibrated=True)]),
    "softmax": lambda: BayesOptimalNB(TEXT, [Softmax()]),
    "logistic": LogisticRegression,
    "entities": lambda: HiddenMarkovNB(TEXT),
    "semi-supervised": lambda: SemiSupervisedNB(NaiveBayes(TEXT)),
    "network": lambda: BayesianNetworkClassifier({"flag": ["colour", "label"]}, NOMINAL),
    "categorical": CategoricalNB,
}


def events(seed, classes, n):
    rng = random.Random(seed)
    for _ in range(n):
        x = {"colour": rng.choice("rgb"), "flag": rng.random() < 0.4, "size": rng.gauss(0.0, 1e3)}
        yield (
            x | {"text": " ".join(rng.choices("abcdefg", k=rng.randrange(6)))},
            f"c{rng.randrange(classes)}",
        )


def check(probabilities):
    given_to = list(probabilities.values()) if isinstance(probabilities, dict) else list(probabilities)
    assert all(0.0 <= p <= 1.0 for p in given_to), given_to
    assert abs(math.fsum(given_to) - 1.0) <= len(given_to) * ULP, given_to


def check_all(model, seed, classes, n=20, only=None):
    """One by one, and all at once."""
    stream = [
        ({a: v for a, v in x.items() if only is None or a in only}, y) for x, y in events(seed, classes, n)
    ]
    again = model.clone()
    for i, (x, y) in enumerate(stream):
        if i:
            check(model.predict_proba_one(x))
            check(model.predict_proba_one({}))
        if hasattr(model, "posterior"):
            check(model.posterior.probabilities)
        model.learn_one(x, y)
    if hasattr(again, "predict_then_learn_many"):
        found = again.predict_then_learn_many(*zip(*stream, strict=True))
        for row in found.probabilities[1:]:
            check(row)
        for row in () if found.hypotheses is None else found.hypotheses:
            check(row)


@pytest.mark.parametrize("classes", [1, 2, 3, 9])
@pytest.mark.parametrize("kind", MIXTURES)
@settings(max_examples=12, deadline=None)
@given(st.integers(1, 20), st.integers(0, 1000))
def test_of_a_mixture(kind, classes, n, seed):
    check_all(MIXTURES[kind](n), seed, classes)


@pytest.mark.parametrize("n", range(1, 21))
def test_of_a_single_class_it_is_1(n):
    model = mixture(n)
    for x, y in events(n, 1, 20):
        model.learn_one(x, y)
        assert model.predict_proba_one(x) == {"c0": 1.0}


@pytest.mark.parametrize("classes", [1, 2, 3, 9])
@pytest.mark.parametrize("kind", OTHERS)
def test_of_any_other_classifier(kind, classes):
    for seed in range(3):
        check_all(OTHERS[kind](), seed, classes, only=PLAIN if kind in {"network", "categorical"} else None)


@pytest.mark.parametrize("classes", [1, 2, 9])
def test_of_one_kind_of_attribute(classes):
    for x, y in events(0, classes, 30):
        for model, asked in (
            (MultinomialNB(), x["text"]),
            (BernoulliNB(), x["text"]),
            (GaussianNB(), {"size": x["size"]}),
        ):
            model.learn_one(asked, y)
            check(model.predict_proba_one(asked))


def test_of_what_is_no_classifier_of_events():
    posterior, platt = SequentialPosterior(range(7)), PlattScaling()
    chain = HiddenMarkovModel(m=1.0)
    concept = ConceptLearner(Conjunctions({"colour": "rgb", "flag": [True, False]}), noise=0.1)
    rng = random.Random(5)
    for x, y in events(1, 2, 40):
        posterior.update_log([math.log(rng.random()) for _ in range(7)])
        check(posterior.probabilities)
        for rows in ([[0.25, 0.75]] * 7, [[1.0, 0.0]] * 7):
            check(posterior.predict(rows))
        platt.learn_one(x["size"], y == "c0")
        check(platt.predict_proba_one(x["size"]))
        chain.learn_one([x["colour"], str(x["flag"])], [y, "rest"])
        for found in (chain.filter("rgbgrgb"), chain.smooth("rgbgrgb")):
            for row in found:
                check(row)
        plain = {a: x[a] for a in PLAIN}
        concept.learn_one(plain, rng.random() < 0.7)
        check(concept.predict_proba_one(plain))
        check(concept.probabilities)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 4), min_size=2, max_size=4))
def test_of_a_joint_table(seed, shape):
    """A value that is the only one of its variable is certain, however the others are summed."""
    names = [f"v{axis}" for axis in range(len(shape))]
    weights = np.random.default_rng(seed).random(shape)
    table = JointTable.from_counts({name: range(n) for name, n in zip(names, shape, strict=True)}, weights)
    for name in names:
        check(table.marginal(name))
        for other in set(names) - {name}:
            check(table.conditional(name, given={other: 0}))
            assert table.most_probable(name, given={other: 0}).probability <= 1.0


@pytest.mark.parametrize("n", [6, 7, 8, 13])
def test_what_is_published(n):
    learner = new_learner(model=mixture(n))
    raws = [b'{"id":"%d","text":"a b c%d","label":"only"}' % (i, i % 3) for i in range(30)]
    for record in learner.process(records(raws), 1.0):
        if record.topic == "predictions":
            found = decode_prediction(record.value)
            if found.status == "ready":
                assert found.probability == 1.0
                check(found.probabilities)
