"""A streaming Bayesian classifier: it learns from a log of labelled events, one at a time, exactly once."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from streamnb.values.hooks import register

if TYPE_CHECKING:
    from streamnb.features.attributes import Continuous as Continuous
    from streamnb.features.attributes import Nominal as Nominal
    from streamnb.features.attributes import Text as Text
    from streamnb.models.calibration.platt_scaling import PlattScaling as PlattScaling
    from streamnb.models.interface.predictions import Posteriors as Posteriors
    from streamnb.models.mixture.bayes_optimal_classifier import (
        BayesOptimalClassifier as BayesOptimalClassifier,
    )
    from streamnb.models.mixture.bayes_optimal_nb import BayesOptimalNB as BayesOptimalNB
    from streamnb.models.mixture.hypotheses import Hypothesis as Hypothesis
    from streamnb.models.mixture.hypothesis_kinds import ByteSoftmax as ByteSoftmax
    from streamnb.models.mixture.hypothesis_kinds import MondrianForest as MondrianForest
    from streamnb.models.mixture.hypothesis_kinds import OneDependence as OneDependence
    from streamnb.models.mixture.hypothesis_kinds import Pool as Pool
    from streamnb.models.mixture.hypothesis_kinds import RecentGaussian as RecentGaussian
    from streamnb.models.mixture.hypothesis_kinds import Softmax as Softmax
    from streamnb.models.naive_bayes.linear_view import LinearView as LinearView
    from streamnb.models.naive_bayes.naive_bayes_classifier import NaiveBayes as NaiveBayes
    from streamnb.models.naive_bayes.naive_bayes_variants import BernoulliNB as BernoulliNB
    from streamnb.models.naive_bayes.naive_bayes_variants import CategoricalNB as CategoricalNB
    from streamnb.models.naive_bayes.naive_bayes_variants import GaussianNB as GaussianNB
    from streamnb.models.naive_bayes.naive_bayes_variants import MultinomialNB as MultinomialNB
    from streamnb.models.naive_bayes.partials import Partial as Partial
    from streamnb.models.naive_bayes.partials import merge_all as merge_all
    from streamnb.persistence.model_files import load as load
    from streamnb.scoring.prequential_scores import ProgressiveValidation as ProgressiveValidation
    from streamnb.statistics.class_priors import SmoothedPrior as SmoothedPrior
    from streamnb.statistics.sequential_posterior import SequentialPosterior as SequentialPosterior
    from streamnb.toolbox.bayesian_network.bayesian_network_classifier import (
        BayesianNetworkClassifier as BayesianNetworkClassifier,
    )
    from streamnb.toolbox.bayesian_network.gibbs_sampling import NetworkMCMC as NetworkMCMC
    from streamnb.toolbox.bayesian_network.incremental_em import NetworkEM as NetworkEM
    from streamnb.toolbox.bayesian_network.independence import Independence as Independence
    from streamnb.toolbox.bayesian_network.joint_table import JointTable as JointTable
    from streamnb.toolbox.bayesian_network.network import BayesianNetwork as BayesianNetwork
    from streamnb.toolbox.bayesian_network.structural_em import StructuralEM as StructuralEM
    from streamnb.toolbox.bayesian_network.structure_posterior import StructurePosterior as StructurePosterior
    from streamnb.toolbox.bayesian_network.variational_bayes import (
        NetworkVariationalBayes as NetworkVariationalBayes,
    )
    from streamnb.toolbox.concepts.concept_learner import ConceptLearner as ConceptLearner
    from streamnb.toolbox.concepts.conjunctions import Conjunction as Conjunction
    from streamnb.toolbox.concepts.conjunctions import Conjunctions as Conjunctions
    from streamnb.toolbox.concepts.find_s import FindS as FindS
    from streamnb.toolbox.concepts.version_space import VersionSpace as VersionSpace
    from streamnb.toolbox.hidden_markov.hidden_markov_model import HiddenMarkovModel as HiddenMarkovModel
    from streamnb.toolbox.hidden_markov.hidden_markov_nb import HiddenMarkovNB as HiddenMarkovNB
    from streamnb.toolbox.hidden_markov.online_baum_welch import OnlineBaumWelch as OnlineBaumWelch
    from streamnb.toolbox.hidden_markov.structured_perceptron import (
        StructuredPerceptron as StructuredPerceptron,
    )
    from streamnb.toolbox.linear.linear_regression import LinearRegression as LinearRegression
    from streamnb.toolbox.linear.linear_unit import LinearUnit as LinearUnit
    from streamnb.toolbox.linear.logistic_regression import LogisticRegression as LogisticRegression
    from streamnb.toolbox.linear.sigmoid_unit import SigmoidUnit as SigmoidUnit
    from streamnb.toolbox.posterior.beta_bernoulli import BetaBernoulli as BetaBernoulli
    from streamnb.toolbox.posterior.dirichlet_categorical import DirichletCategorical as DirichletCategorical
    from streamnb.toolbox.posterior.multinomial import log_binomial_pmf as log_binomial_pmf
    from streamnb.toolbox.posterior.multinomial import log_multinomial_pmf as log_multinomial_pmf
    from streamnb.toolbox.semi_supervised.mixture_model import MixtureModel as MixtureModel
    from streamnb.toolbox.semi_supervised.semi_supervised_nb import SemiSupervisedNB as SemiSupervisedNB
    from streamnb.values.time_parts import time_attributes as time_attributes

_HOMES = {
    "features.attributes": ("Continuous", "Nominal", "Text"),
    "toolbox.bayesian_network.bayesian_network_classifier": ("BayesianNetworkClassifier",),
    "toolbox.bayesian_network.incremental_em": ("NetworkEM",),
    "toolbox.bayesian_network.independence": ("Independence",),
    "toolbox.bayesian_network.gibbs_sampling": ("NetworkMCMC",),
    "toolbox.bayesian_network.joint_table": ("JointTable",),
    "toolbox.bayesian_network.network": ("BayesianNetwork",),
    "toolbox.bayesian_network.structural_em": ("StructuralEM",),
    "toolbox.bayesian_network.structure_posterior": ("StructurePosterior",),
    "toolbox.bayesian_network.variational_bayes": ("NetworkVariationalBayes",),
    "models.calibration.platt_scaling": ("PlattScaling",),
    "toolbox.concepts.concept_learner": ("ConceptLearner",),
    "toolbox.concepts.conjunctions": ("Conjunction", "Conjunctions"),
    "toolbox.concepts.find_s": ("FindS",),
    "toolbox.concepts.version_space": ("VersionSpace",),
    "scoring.prequential_scores": ("ProgressiveValidation",),
    "toolbox.hidden_markov.hidden_markov_model": ("HiddenMarkovModel",),
    "toolbox.hidden_markov.hidden_markov_nb": ("HiddenMarkovNB",),
    "toolbox.hidden_markov.online_baum_welch": ("OnlineBaumWelch",),
    "models.interface.predictions": ("Posteriors",),
    "toolbox.hidden_markov.structured_perceptron": ("StructuredPerceptron",),
    "toolbox.linear.linear_regression": ("LinearRegression",),
    "toolbox.linear.linear_unit": ("LinearUnit",),
    "toolbox.linear.logistic_regression": ("LogisticRegression",),
    "toolbox.linear.sigmoid_unit": ("SigmoidUnit",),
    "models.mixture.bayes_optimal_classifier": ("BayesOptimalClassifier",),
    "models.mixture.bayes_optimal_nb": ("BayesOptimalNB",),
    "models.mixture.hypothesis_kinds": (
        "ByteSoftmax",
        "MondrianForest",
        "OneDependence",
        "Pool",
        "RecentGaussian",
        "Softmax",
    ),
    "models.mixture.hypotheses": ("Hypothesis",),
    "models.naive_bayes.linear_view": ("LinearView",),
    "models.naive_bayes.naive_bayes_classifier": ("NaiveBayes",),
    "models.naive_bayes.partials": ("Partial", "merge_all"),
    "toolbox.semi_supervised.mixture_model": ("MixtureModel",),
    "toolbox.semi_supervised.semi_supervised_nb": ("SemiSupervisedNB",),
    "models.naive_bayes.naive_bayes_variants": (
        "BernoulliNB",
        "CategoricalNB",
        "GaussianNB",
        "MultinomialNB",
    ),
    "toolbox.posterior.beta_bernoulli": ("BetaBernoulli",),
    "toolbox.posterior.dirichlet_categorical": ("DirichletCategorical",),
    "toolbox.posterior.multinomial": ("log_binomial_pmf", "log_multinomial_pmf"),
    "statistics.class_priors": ("SmoothedPrior",),
    "statistics.sequential_posterior": ("SequentialPosterior",),
    "values.time_parts": ("time_attributes",),
}

_PUBLIC = ["load", *(name for names in _HOMES.values() for name in names)]
if not TYPE_CHECKING:  # type checkers read the imports above
    __all__ = list(_PUBLIC)


def _model_files() -> Any:
    return importlib.import_module("streamnb.persistence.model_files")


def _html(value: object) -> str:
    html: str = importlib.import_module("streamnb.notebook").html(value)
    return html


def _public(name: str) -> Any:
    """Return the public definition of a name, or None if there is none."""
    return getattr(sys.modules[__name__], name) if name in _PUBLIC else None


register(_model_files, _html, _public)


def __getattr__(name: str) -> Any:
    """Load a public class when it is first asked for: importing the package alone stays light."""
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("streamnb")
    if name == "load":
        return _model_files().load
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"streamnb.{module}"), name)
    raise AttributeError(f"module 'streamnb' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, loaded or not, and the modules imported so far."""
    hooks = "values"  # imported with the package, to register functions
    modules = [name for name in globals() if f"{__name__}.{name}" in sys.modules and name != hooks]
    return sorted({*_PUBLIC, *modules, *(name for name in globals() if name.startswith("__")), "__version__"})
