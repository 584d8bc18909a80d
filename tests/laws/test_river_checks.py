"""Every check that River runs on an estimator, on every public classifier, and none skipped."""

from __future__ import annotations

from collections import Counter

import pytest
from river import base, checks, compose, feature_extraction, naive_bayes

from streamnb import (
    BayesianNetworkClassifier,
    BayesOptimalClassifier,
    BayesOptimalNB,
    BernoulliNB,
    CategoricalNB,
    ConceptLearner,
    FindS,
    GaussianNB,
    HiddenMarkovNB,
    Hypothesis,
    LinearRegression,
    LinearUnit,
    LogisticRegression,
    MultinomialNB,
    NaiveBayes,
    SemiSupervisedNB,
)
from tests.support import river_parameters  # noqa: F401  what River's checks construct the classes with
from tests.support.every_case import failures

pytestmark = [pytest.mark.thorough, pytest.mark.early(13)]

CLASSIFIERS = [NaiveBayes, MultinomialNB, BernoulliNB, CategoricalNB, GaussianNB, HiddenMarkovNB]
ONCE = """check_repr check_str check_tags check_clone_same_class check_clone_is_idempotent
check_init_has_default_params_for_tests check_init_default_params_are_not_mutable check_doc
check_clone_changes_memory_addresses check_mutate_can_be_idempotent check_pickling_supports_roundtrip
check_repr_roundtrips_clone check_clone_with_new_params_applies check_get_params_matches_signature""".split()
PER_DATASET = """check_learn_one check_pickling check_shuffle_features_no_impact check_emerging_features
check_disappearing_features check_radically_disappearing_features check_predict_one_pure
check_predict_one_before_any_learn check_no_state_aliasing_with_input check_clone_is_independent
check_predict_many_matches_predict_one check_learn_many_matches_learn_one
check_predict_proba_many_matches_predict_proba_one check_predict_proba_one check_classifier_tracks_seen_labels
check_bounded_memory_growth""".split()


def failed_checks(model):
    """Name of a check of River -> what it says against a clone of the model; each has a clone of its own."""
    found = {f"{i} {check.__name__}": check for i, check in enumerate(checks.yield_checks(model))}
    return failures(lambda name: found[name](model.clone()), found)


def datasets(classifier):
    """River gives two binary streams, and a third of several classes to models that take negative numbers."""
    return 2 if base.tags.POSITIVE_INPUT in classifier()._tags else 3


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_the_checks_that_run_are_these(classifier):
    model = classifier()
    assert isinstance(model, base.MiniBatchClassifier)
    assert not model._unit_test_skips()
    ran = Counter(check.__name__ for check in checks.yield_checks(model))
    assert ran == Counter(ONCE + PER_DATASET * datasets(classifier))


@pytest.mark.storm_for("BernoulliNB", "CategoricalNB", "HiddenMarkovNB")
@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_river_checks(classifier):
    assert failed_checks(classifier()) == {}


OF_OTHERS = [
    (classifier, parameters)
    for classifier in (BayesOptimalClassifier, SemiSupervisedNB)
    for parameters in classifier._unit_test_params()
]
MINI_BATCH = [check for check in PER_DATASET if "_many_" in check]


def mixture(i):
    """Of other classifiers: mixtures of them, for many classes and for two, and EM over naive Bayes."""
    classifier, parameters = OF_OTHERS[i]
    return classifier(**parameters)


@pytest.mark.parametrize("i", range(len(OF_OTHERS)))
def test_the_checks_that_run_on_a_mixture_are_these(i):
    model = mixture(i)
    assert isinstance(model, base.Classifier)
    assert not model._unit_test_skips()
    per_dataset = [check for check in PER_DATASET if check not in MINI_BATCH]
    if not model._multiclass:
        per_dataset.append("check_predict_proba_one_binary")
    ran = Counter(check.__name__ for check in checks.yield_checks(model))
    assert ran == Counter(ONCE + per_dataset * (3 if model._multiclass else 2))


@pytest.mark.storm_for("1", "2")
@pytest.mark.parametrize("i", range(len(OF_OTHERS)))
def test_river_checks_of_a_mixture(i):
    assert failed_checks(mixture(i)) == {}


CONCEPTS = [*(ConceptLearner(**params) for params in ConceptLearner._unit_test_params()), FindS()]
each_concept = pytest.mark.parametrize(
    "model", CONCEPTS, ids=["conjunctions", "noisy", "functions", "find-s"]
)


@each_concept
def test_the_checks_that_run_on_a_concept_are_these(model):
    assert isinstance(model, base.Classifier)
    assert not model._multiclass
    assert not model._unit_test_skips()
    per_dataset = [check for check in PER_DATASET if check not in MINI_BATCH]
    ran = Counter(check.__name__ for check in checks.yield_checks(model))
    assert ran == Counter(ONCE + [*per_dataset, "check_predict_proba_one_binary"] * 2)


@each_concept
def test_river_checks_of_a_concept(model):
    assert failed_checks(model) == {}


DECAYING = (Hypothesis(), Hypothesis("presence", half_life=60.0), Hypothesis("bernoulli"))
SHARED = {
    "mixture": {},
    "map, forgetting": {"prediction": "map", "hypotheses": DECAYING},
    "gibbs, forgetting and switching": {
        "prediction": "gibbs",
        "hypotheses": DECAYING,
        "switching_rate": 0.01,
    },
}


def shared(name):
    """Native hypotheses over one set of counts."""
    return BayesOptimalNB(**SHARED[name])


def test_the_checks_that_run_on_native_hypotheses_are_these():
    assert isinstance(BayesOptimalNB(), base.MiniBatchClassifier)
    assert not BayesOptimalNB()._unit_test_skips()
    ran = Counter(check.__name__ for check in checks.yield_checks(BayesOptimalNB()))
    assert ran == Counter(ONCE + PER_DATASET * 3)


@pytest.mark.storm_for("map, forgetting")
@pytest.mark.parametrize("name", SHARED)
def test_river_checks_of_native_hypotheses(name):
    assert failed_checks(shared(name)) == {}


ONE_AT_A_TIME = [check for check in PER_DATASET if check not in MINI_BATCH]
REGRESSOR = [check for check in ONE_AT_A_TIME if "proba" not in check and "classifier" not in check]
LINEAR = [
    pytest.param(kind(**params), Counter(wanted), id=f"{kind.__name__}-{i}")
    for kind, wanted in (
        (LinearRegression, ONCE + REGRESSOR),
        (LinearUnit, ONCE + REGRESSOR),
        (LogisticRegression, ONCE + ONE_AT_A_TIME * 3),
        (BayesianNetworkClassifier, ONCE + ONE_AT_A_TIME * 3),
    )
    for i, params in enumerate(kind._unit_test_params())
]


@pytest.mark.parametrize(("model", "wanted"), LINEAR)
def test_the_checks_that_run_on_a_linear_model_or_a_network_are_these(model, wanted):
    assert not model._unit_test_skips()
    assert Counter(check.__name__ for check in checks.yield_checks(model)) == wanted


@pytest.mark.parametrize("model", [pytest.param(case.values[0], id=case.id) for case in LINEAR])
def test_river_checks_of_a_linear_model_or_a_network(model):
    assert failed_checks(model) == {}


def test_a_pipeline_of_river_gives_the_same_as_texts():
    """BagOfWords feeds counts; our own tokenizer makes the same of these texts."""
    ours, bag = MultinomialNB(), compose.Pipeline(feature_extraction.BagOfWords(), MultinomialNB())
    peer = compose.Pipeline(feature_extraction.BagOfWords(), naive_bayes.MultinomialNB())
    texts = [("one two two", "a"), ("two three", "b"), ("one one four", "a"), ("four three two", "b")]
    for text, label in texts:
        for model in (ours, bag, peer):
            model.learn_one(text, label)
    for text, _ in texts:
        expected = peer.predict_proba_one(text)
        for model in (ours, bag):
            assert model.predict_proba_one(text) == pytest.approx(expected, rel=1e-12)
