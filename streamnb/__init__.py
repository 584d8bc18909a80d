"""A streaming Bayesian classifier: it learns from a log of labelled events, one at a time, exactly once."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamnb.model.attributes.attributes import Continuous as Continuous
    from streamnb.model.attributes.attributes import Nominal as Nominal
    from streamnb.model.attributes.attributes import Text as Text
    from streamnb.model.bayesian_network.classifier import (
        BayesianNetworkClassifier as BayesianNetworkClassifier,
    )
    from streamnb.model.bayesian_network.incremental_em import NetworkEM as NetworkEM
    from streamnb.model.bayesian_network.independence import Independence as Independence
    from streamnb.model.bayesian_network.joint_table import JointTable as JointTable
    from streamnb.model.bayesian_network.network import BayesianNetwork as BayesianNetwork
    from streamnb.model.bayesian_network.structure_posterior import StructurePosterior as StructurePosterior
    from streamnb.model.calibration.platt import PlattScaling as PlattScaling
    from streamnb.model.concepts.concept_learner import ConceptLearner as ConceptLearner
    from streamnb.model.concepts.conjunctions import Conjunction as Conjunction
    from streamnb.model.concepts.conjunctions import Conjunctions as Conjunctions
    from streamnb.model.concepts.find_s import FindS as FindS
    from streamnb.model.concepts.version_space import VersionSpace as VersionSpace
    from streamnb.model.evaluation.progressive import ProgressiveValidation as ProgressiveValidation
    from streamnb.model.hidden_markov.hidden_markov_model import HiddenMarkovModel as HiddenMarkovModel
    from streamnb.model.hidden_markov.hidden_markov_nb import HiddenMarkovNB as HiddenMarkovNB
    from streamnb.model.hidden_markov.online_baum_welch import OnlineBaumWelch as OnlineBaumWelch
    from streamnb.model.interface.predictions import Posteriors as Posteriors
    from streamnb.model.linear.linear_regression import LinearRegression as LinearRegression
    from streamnb.model.linear.linear_unit import LinearUnit as LinearUnit
    from streamnb.model.linear.logistic_regression import LogisticRegression as LogisticRegression
    from streamnb.model.linear.sigmoid_unit import SigmoidUnit as SigmoidUnit
    from streamnb.model.mixture.bayes_optimal import BayesOptimalClassifier as BayesOptimalClassifier
    from streamnb.model.mixture.bayes_optimal_nb import BayesOptimalNB as BayesOptimalNB
    from streamnb.model.mixture.components import ByteSoftmax as ByteSoftmax
    from streamnb.model.mixture.components import OneDependence as OneDependence
    from streamnb.model.mixture.components import Pool as Pool
    from streamnb.model.mixture.components import Softmax as Softmax
    from streamnb.model.mixture.hypotheses import Hypothesis as Hypothesis
    from streamnb.model.naive_bayes.linear_view import LinearView as LinearView
    from streamnb.model.naive_bayes.naive_bayes import NaiveBayes as NaiveBayes
    from streamnb.model.naive_bayes.partials import Partial as Partial
    from streamnb.model.naive_bayes.partials import merge_all as merge_all
    from streamnb.model.naive_bayes.semi_supervised import SemiSupervisedNB as SemiSupervisedNB
    from streamnb.model.naive_bayes.variants import BernoulliNB as BernoulliNB
    from streamnb.model.naive_bayes.variants import CategoricalNB as CategoricalNB
    from streamnb.model.naive_bayes.variants import GaussianNB as GaussianNB
    from streamnb.model.naive_bayes.variants import MultinomialNB as MultinomialNB
    from streamnb.model.posterior.beta_bernoulli import BetaBernoulli as BetaBernoulli
    from streamnb.model.posterior.dirichlet_categorical import DirichletCategorical as DirichletCategorical
    from streamnb.model.posterior.sequential import SequentialPosterior as SequentialPosterior
    from streamnb.saved import load as load

_HOMES = {
    "attributes.attributes": ("Continuous", "Nominal", "Text"),
    "bayesian_network.classifier": ("BayesianNetworkClassifier",),
    "bayesian_network.incremental_em": ("NetworkEM",),
    "bayesian_network.independence": ("Independence",),
    "bayesian_network.joint_table": ("JointTable",),
    "bayesian_network.network": ("BayesianNetwork",),
    "bayesian_network.structure_posterior": ("StructurePosterior",),
    "calibration.platt": ("PlattScaling",),
    "concepts.concept_learner": ("ConceptLearner",),
    "concepts.conjunctions": ("Conjunction", "Conjunctions"),
    "concepts.find_s": ("FindS",),
    "concepts.version_space": ("VersionSpace",),
    "evaluation.progressive": ("ProgressiveValidation",),
    "hidden_markov.hidden_markov_model": ("HiddenMarkovModel",),
    "hidden_markov.hidden_markov_nb": ("HiddenMarkovNB",),
    "hidden_markov.online_baum_welch": ("OnlineBaumWelch",),
    "interface.predictions": ("Posteriors",),
    "linear.linear_regression": ("LinearRegression",),
    "linear.linear_unit": ("LinearUnit",),
    "linear.logistic_regression": ("LogisticRegression",),
    "linear.sigmoid_unit": ("SigmoidUnit",),
    "mixture.bayes_optimal": ("BayesOptimalClassifier",),
    "mixture.bayes_optimal_nb": ("BayesOptimalNB",),
    "mixture.components": ("ByteSoftmax", "OneDependence", "Pool", "Softmax"),
    "mixture.hypotheses": ("Hypothesis",),
    "naive_bayes.linear_view": ("LinearView",),
    "naive_bayes.naive_bayes": ("NaiveBayes",),
    "naive_bayes.partials": ("Partial", "merge_all"),
    "naive_bayes.semi_supervised": ("SemiSupervisedNB",),
    "naive_bayes.variants": ("BernoulliNB", "CategoricalNB", "GaussianNB", "MultinomialNB"),
    "posterior.beta_bernoulli": ("BetaBernoulli",),
    "posterior.dirichlet_categorical": ("DirichletCategorical",),
    "posterior.sequential": ("SequentialPosterior",),
}

_PUBLIC = ["load", *(name for names in _HOMES.values() for name in names)]
if not TYPE_CHECKING:  # who checks types goes by the imports
    __all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    """Load a public class when it is first asked for: importing the package alone stays light."""
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("streamnb")
    if name == "load":
        return importlib.import_module("streamnb.saved").load
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"streamnb.model.{module}"), name)
    raise AttributeError(f"module 'streamnb' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, loaded or not, and the modules imported so far."""
    modules = [name for name in globals() if f"{__name__}.{name}" in sys.modules]
    return sorted({*_PUBLIC, *modules, *(name for name in globals() if name.startswith("__")), "__version__"})
