"""More that River's checks construct our classifiers with, after what the classes themselves provide."""

from __future__ import annotations

import itertools

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


def of_semi_supervised():
    yield {"model": NaiveBayes(event_model="bernoulli"), "unlabelled_weight": 0.25, "window": 3}


def of_concepts():
    values = [0.0, 0.5, 1.0]
    yield {
        "hypotheses": Conjunctions({"https": values, "age_of_domain": [0, 1], "ip_in_url": [0, 1]}),
        "prior": "specific",
        "noise": 0.1,
    }
    yield {"hypotheses": {"all": says_yes, "popular": says_popular}, "noise": 0.25}


def of_networks():
    yield {"attributes": {"https": "nominal", "anchor_from_other_domain": Nominal(alpha=0.5)}, "m": 2.0}


for _kind, _parameters in (
    (BayesOptimalClassifier, of_mixtures),
    (SemiSupervisedNB, of_semi_supervised),
    (ConceptLearner, of_concepts),
    (BayesianNetworkClassifier, of_networks),
    (LinearRegression, lambda: iter([{"l2": 0.1}])),
    (LogisticRegression, lambda: iter([{"C": 100.0}])),
):
    _kind._unit_test_params = staticmethod(
        lambda own=_kind._unit_test_params, more=_parameters: itertools.chain(own(), more())
    )
