"""Every check that River runs on an estimator, on every public classifier, and none skipped."""

from __future__ import annotations

from collections import Counter

import pytest
import river_parameters  # noqa: F401  what River's checks construct the classes with
from river import base, checks, compose, feature_extraction, naive_bayes

from streamnb import (
    BayesianNetworkClassifier,
    BayesOptimalClassifier,
    BayesOptimalNB,
    BernoulliNB,
    CalibratedNB,
    CategoricalNB,
    ChowLiuTree,
    ConceptLearner,
    FindS,
    GaussianNB,
    HiddenMarkovNB,
    Hypothesis,
    LinearRegression,
    LinearUnit,
    LogisticRegression,
    LogOpinionPool,
    MultinomialNB,
    NaiveBayes,
    SemiSupervisedNB,
    SoftmaxRegression,
    TreeAugmentedNB,
)

CLASSIFIERS = [
    NaiveBayes,
    MultinomialNB,
    BernoulliNB,
    CategoricalNB,
    GaussianNB,
    SoftmaxRegression,
    CalibratedNB,
    LogOpinionPool,
    HiddenMarkovNB,
    TreeAugmentedNB,
]
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


def named_checks():
    for classifier in CLASSIFIERS:
        for i, check in enumerate(checks.yield_checks(classifier())):
            yield pytest.param(classifier, check, id=f"{classifier.__name__}-{i}-{check.__name__}")


@pytest.mark.parametrize(("classifier", "check"), list(named_checks()))
def test_river_check(classifier, check):
    check(classifier().clone())


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


@pytest.mark.parametrize(
    ("i", "check"),
    [
        pytest.param(i, check, id=f"{i}-{number}-{check.__name__}")
        for i in range(len(OF_OTHERS))
        for number, check in enumerate(checks.yield_checks(mixture(i)))
    ],
)
def test_river_check_of_a_mixture(i, check):
    check(mixture(i).clone())


CONCEPTS = [*(ConceptLearner(**params) for params in ConceptLearner._unit_test_params()), FindS()]


@pytest.mark.parametrize("model", CONCEPTS, ids=["conjunctions", "noisy", "functions", "find-s"])
def test_the_checks_that_run_on_a_concept_are_these(model):
    assert isinstance(model, base.Classifier)
    assert not model._multiclass
    assert not model._unit_test_skips()
    per_dataset = [check for check in PER_DATASET if check not in MINI_BATCH]
    ran = Counter(check.__name__ for check in checks.yield_checks(model))
    assert ran == Counter(ONCE + [*per_dataset, "check_predict_proba_one_binary"] * 2)


@pytest.mark.parametrize(
    ("model", "check"),
    [
        pytest.param(model, check, id=f"{i}-{type(model).__name__}-{number}-{check.__name__}")
        for i, model in enumerate(CONCEPTS)
        for number, check in enumerate(checks.yield_checks(model))
    ],
)
def test_river_check_of_a_concept(model, check):
    check(model.clone())


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


@pytest.mark.parametrize(
    ("name", "check"),
    [
        pytest.param(name, check, id=f"{name}-{number}-{check.__name__}")
        for name in SHARED
        for number, check in enumerate(checks.yield_checks(shared(name)))
    ],
)
def test_river_check_of_native_hypotheses(name, check):
    check(shared(name).clone())


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


@pytest.mark.parametrize(
    ("model", "check"),
    [
        pytest.param(case.values[0], check, id=f"{case.id}-{i}-{check.__name__}")
        for case in LINEAR
        for i, check in enumerate(checks.yield_checks(case.values[0]))
    ],
)
def test_river_check_of_a_linear_model_or_a_network(model, check):
    check(model.clone())


def test_the_checks_that_run_on_a_density_are_these():
    assert not ChowLiuTree()._unit_test_skips()
    assert Counter(check.__name__ for check in checks.yield_checks(ChowLiuTree())) == Counter(ONCE)


@pytest.mark.parametrize("check", list(checks.yield_checks(ChowLiuTree())), ids=lambda check: check.__name__)
def test_river_check_of_a_density(check):
    check(ChowLiuTree().clone())


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
