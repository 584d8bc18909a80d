"""A streaming Bayesian classifier: it learns from a log of labelled events, one at a time, exactly once."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamnb.model.attributes import Continuous, Nominal, Text
    from streamnb.model.naive_bayes import NaiveBayes, Posteriors
    from streamnb.model.one_kind import BernoulliNB, CategoricalNB, GaussianNB, MultinomialNB
    from streamnb.model.progressive import ProgressiveValidation

__all__ = [
    "BernoulliNB",
    "CategoricalNB",
    "Continuous",
    "GaussianNB",
    "MultinomialNB",
    "NaiveBayes",
    "Nominal",
    "Posteriors",
    "ProgressiveValidation",
    "Text",
]

_HOMES = {
    "attributes": ("Continuous", "Nominal", "Text"),
    "naive_bayes": ("NaiveBayes", "Posteriors"),
    "one_kind": ("BernoulliNB", "CategoricalNB", "GaussianNB", "MultinomialNB"),
    "progressive": ("ProgressiveValidation",),
}


def __getattr__(name: str) -> Any:
    """Load a public class when it is first asked for: importing the package alone stays light."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"streamnb.model.{module}"), name)
    raise AttributeError(f"module 'streamnb' has no attribute {name!r}")
