"""What River's checks construct our classifiers with, by the hook that River's own classes have.

`check_init_has_default_params_for_tests` asks each class for it; those that need no parameters have River's.
"""

from __future__ import annotations

from river import linear_model, naive_bayes, tree

from streamnb import (
    BayesianNetworkClassifier,
    BayesOptimalClassifier,
    ConceptLearner,
    Conjunctions,
    LinearRegression,
    LogisticRegression,
    NaiveBayes,
    Nominal,
    SemiSupervisedNB,
)


def says_yes(_):  # functions, which a pickle can hold
    return True


def says_popular(x):
    return x["is_popular"] >= 0.5 if "is_popular" in x else None


def of_mixtures():
    gaussian = naive_bayes.GaussianNB
    yield {"models": [gaussian(), tree.HoeffdingTreeClassifier()]}
    yield {
        "models": {"logistic": linear_model.LogisticRegression(), "bayes": gaussian()},
        "prior": {"logistic": 2.0, "bayes": 1.0},
        "switching_rate": 0.01,
        "prediction": "gibbs",
    }
    yield {"models": [NaiveBayes(), gaussian()], "prediction": "map"}


def of_semi_supervised():
    yield {"model": NaiveBayes()}
    yield {"model": NaiveBayes(event_model="bernoulli"), "unlabelled_weight": 0.25, "window": 3}


def of_concepts():
    values = [0.0, 0.5, 1.0]
    yield {"hypotheses": Conjunctions(dict.fromkeys(("https", "is_popular", "long_url"), values))}
    yield {
        "hypotheses": Conjunctions({"https": values, "age_of_domain": [0, 1], "ip_in_url": [0, 1]}),
        "prior": "specific",
        "noise": 0.1,
    }
    yield {"hypotheses": {"all": says_yes, "popular": says_popular}, "noise": 0.25}


def of_networks():
    yield {
        "parents": {
            "popup_window": ["label"],
            "https": ["label", "popup_window"],
            "is_popular": ["label", "https"],
            "ordinal_date": ["label"],
            "4": ["label"],
        }
    }
    yield {"attributes": {"https": "nominal", "anchor_from_other_domain": Nominal(alpha=0.5)}, "m": 2.0}


for _kind, _parameters in (
    (BayesOptimalClassifier, of_mixtures),
    (SemiSupervisedNB, of_semi_supervised),
    (ConceptLearner, of_concepts),
    (BayesianNetworkClassifier, of_networks),
    (LinearRegression, lambda: iter([{}, {"l2": 0.1}])),
    (LogisticRegression, lambda: iter([{}, {"C": 100.0}])),
):
    _kind._unit_test_params = staticmethod(_parameters)
