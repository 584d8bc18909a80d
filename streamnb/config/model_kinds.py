"""Kinds of models that a table makes: what each is made by, and which keys it takes.

To add one, add its name and its line here, and to `ModelConfig` the keys that no other kind has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

ModelKind = Literal[
    "naive_bayes",
    "mixture",
    "semi_supervised",
    "logistic_regression",
    "hidden_markov",
    "bayesian_network",
    "tenants",
]


class ClassifierKind(NamedTuple):
    """One kind; `river_stream_model.RiverStreamModel` describes its interface, if it needs that.

    Attributes:
        constructor: ``module:name`` of what makes the classifier, below ``streamnb``.
        own: the keys of ``[model]`` that other kinds do not have, with their defaults; they are arguments of
            the constructor by the same names.
        shared: the arguments among ``alpha``, ``m``, ``p``, ``prior`` and ``event_model``.
        takes_attributes: whether the declared attributes are an argument (`streamnb.features.attributes`).
        prunes: whether it has a vocabulary that ``[model.prune]`` can cut.
        reads_numbers: whether a number is more to it than one value of many.
        reads_texts: whether a text is more to it than one value; otherwise attributes must be declared.
        counts: whether it is a `CountingModel`, whose counts can be read under other smoothing.
        reads_entity: whether it uses the entity of an event.
        learns_batches: whether it is a `stream_model.StreamModel` itself, and takes many events at once.
    """

    constructor: str
    own: Mapping[str, Any] = {}
    shared: tuple[str, ...] = ()
    takes_attributes: bool = False
    prunes: bool = False
    reads_numbers: bool = True
    reads_texts: bool = True
    counts: bool = False
    reads_entity: bool = False
    learns_batches: bool = False

    @property
    def has_prior(self) -> bool:
        """True if it has a class prior that is the same for each event, as in a model without entities."""
        return "prior" in self.shared and not self.reads_entity


CLASSIFIERS: dict[str, ClassifierKind] = {
    "semi_supervised": ClassifierKind(
        "toolbox.semi_supervised.semi_supervised_nb:labelled_and_both",
        own={"unlabelled_weight": 0.1, "unlabelled_window": 200, "revisits": 1},
        shared=("alpha", "m", "p", "prior", "event_model"),
        takes_attributes=True,
        prunes=True,
    ),
    "logistic_regression": ClassifierKind(
        "toolbox.linear.logistic_regression:LogisticRegression",
        own={"C": 1.0, "features": 512},
        reads_texts=False,
    ),
    "hidden_markov": ClassifierKind(
        "toolbox.hidden_markov.hidden_markov_nb:HiddenMarkovNB",
        own={"transition_m": 1.0, "entities": 100_000, "time_to_live": 0},
        shared=("alpha", "m", "p", "prior", "event_model"),
        takes_attributes=True,
        prunes=True,
        learns_batches=True,
        counts=True,
        reads_entity=True,
    ),
    "bayesian_network": ClassifierKind(
        "toolbox.bayesian_network.bayesian_network_classifier:BayesianNetworkClassifier",
        own={"parents": {}, "cells": 1 << 20},
        shared=("alpha", "m", "prior"),
        takes_attributes=True,
        reads_numbers=False,
        reads_texts=False,
    ),
    "tenants": ClassifierKind(
        "models.tenants.tenant_models:TenantModels",
        own={"tenants": 100_000, "memory": 64 << 20, "shared": False},
        shared=("alpha", "m", "p", "prior", "event_model"),
        takes_attributes=True,
        learns_batches=True,
        reads_entity=True,
    ),
}


def is_classifier(shaping: Mapping[str, Any]) -> bool:
    """Return True if a configuration in a journal declares a classifier other than counts."""
    model = shaping.get("model")
    kind = CLASSIFIERS.get(model.get("kind", "")) if isinstance(model, Mapping) else None
    return kind is not None and not kind.counts
