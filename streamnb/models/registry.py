"""The definitions that a configuration names, by kind, as strings: a kind is imported only if it is used.

`load` returns a definition. A path is ``module:name`` with a module below ``streamnb``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

NAIVE_BAYES = "models.naive_bayes.naive_bayes_classifier:NaiveBayes"
MIXTURE = "models.mixture.bayes_optimal_nb:BayesOptimalNB"
LABEL_COUNTS = "models.naive_bayes.naive_bayes_variants:LabelCounts"
DEFAULT_HYPOTHESES = "models.mixture.hypothesis_kinds:DEFAULT_HYPOTHESES"
HYPOTHESES = {
    "naive_bayes": "models.mixture.hypotheses:Hypothesis",
    "softmax": "models.mixture.hypothesis_kinds:Softmax",
    "byte_softmax": "models.mixture.hypothesis_kinds:ByteSoftmax",
    "pool": "models.mixture.hypothesis_kinds:Pool",
    "one_dependence": "models.mixture.hypothesis_kinds:OneDependence",
    "mondrian_forest": "models.mixture.hypothesis_kinds:MondrianForest",
    "recent_gaussian": "models.mixture.hypothesis_kinds:RecentGaussian",
}
"""Kind of a hypothesis -> its class."""


def load(path: str) -> Any:
    """Return the definition of a path such as ``models.mixture.hypotheses:Hypothesis``."""
    module, name = path.split(":")
    return getattr(import_module(f"streamnb.{module}"), name)
