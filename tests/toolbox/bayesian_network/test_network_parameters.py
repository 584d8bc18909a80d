"""The tables of a network, multiplied by hand, are its posterior; deck 001's numbers of parameters."""

from __future__ import annotations

import math

import pytest

from streamnb import BayesianNetworkClassifier, CategoricalNB
from tests.laws.test_lectures import NAMES, PLAY_TENNIS, QUERY


def learned(model):
    for *values, label in PLAY_TENNIS:
        model.learn_one(dict(zip(NAMES, values, strict=True)), label)
    return model


def test_without_further_parents_they_are_those_of_naive_bayes():
    model, plain = (
        learned(BayesianNetworkClassifier({name: ["label"] for name in NAMES})),
        learned(CategoricalNB()),
    )
    found, expected = model.parameters(), plain.parameters()
    assert found.tables["label"][()] == pytest.approx(expected.prior)
    for name in NAMES:
        for label, row in expected.discrete[name].table.items():
            assert found.tables[name][label,] == pytest.approx(row)
    assert list(found.n_free.values()) == [1, 4, 4, 2, 2]
    assert model.n_parameters == plain.n_parameters == 13


def test_the_product_of_the_tables_is_the_posterior():
    parents = {
        "outlook": ["label"],
        "temperature": ["label", "outlook"],
        "humidity": ["label"],
        "wind": ["humidity"],
    }
    assert set(parents) == set(NAMES)
    model = learned(BayesianNetworkClassifier(parents, prior="uniform"))
    found = model.parameters()
    joint = {
        label: found.tables["label"][()][label]
        * math.prod(
            found.tables[name][tuple({**QUERY, "label": label}[u] for u in found.parents[name])][QUERY[name]]
            for name in NAMES
        )
        for label in ("yes", "no")
    }
    assert found.tables["label"][()] == pytest.approx({"yes": 0.5, "no": 0.5})
    expected = {label: one / sum(joint.values()) for label, one in joint.items()}
    assert model.predict_proba_one(QUERY) == pytest.approx(expected)
    assert found.n_free == {"label": 1, "outlook": 4, "temperature": 12, "humidity": 2, "wind": 2}
    assert model.n_parameters == 21


def test_a_network_that_learned_nothing_has_none():
    assert BayesianNetworkClassifier({"a": ["label"]}).n_parameters == 0
