"""A streaming Bayesian classifier: it learns from a log of labelled events, one at a time, exactly once."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamnb.model.attributes.attributes import Continuous, Nominal, Text
    from streamnb.model.bayesian_network.classifier import BayesianNetworkClassifier
    from streamnb.model.bayesian_network.incremental_em import NetworkEM
    from streamnb.model.bayesian_network.independence import Independence
    from streamnb.model.bayesian_network.joint_table import JointTable
    from streamnb.model.bayesian_network.network import BayesianNetwork
    from streamnb.model.bayesian_network.structure_posterior import StructurePosterior
    from streamnb.model.calibration.platt import PlattScaling
    from streamnb.model.concepts.concept_learner import ConceptLearner
    from streamnb.model.concepts.conjunctions import Conjunction, Conjunctions
    from streamnb.model.concepts.find_s import FindS
    from streamnb.model.concepts.version_space import VersionSpace
    from streamnb.model.evaluation.progressive import ProgressiveValidation
    from streamnb.model.hidden_markov.baum_welch import baum_welch
    from streamnb.model.hidden_markov.hidden_markov_model import HiddenMarkovModel
    from streamnb.model.hidden_markov.hidden_markov_nb import HiddenMarkovNB
    from streamnb.model.hidden_markov.online_baum_welch import OnlineBaumWelch
    from streamnb.model.interface.predictions import Posteriors
    from streamnb.model.linear.linear_regression import LinearRegression
    from streamnb.model.linear.linear_unit import LinearUnit
    from streamnb.model.linear.logistic_regression import LogisticRegression
    from streamnb.model.linear.sigmoid_unit import SigmoidUnit
    from streamnb.model.mixture.bayes_optimal import BayesOptimalClassifier
    from streamnb.model.mixture.bayes_optimal_nb import BayesOptimalNB
    from streamnb.model.mixture.components import Pool, Softmax, Tree
    from streamnb.model.mixture.hypotheses import Hypothesis
    from streamnb.model.mixture.single_members import CalibratedNB, LogOpinionPool, SoftmaxRegression
    from streamnb.model.naive_bayes.linear_view import LinearView
    from streamnb.model.naive_bayes.naive_bayes import NaiveBayes
    from streamnb.model.naive_bayes.semi_supervised import SemiSupervisedNB
    from streamnb.model.naive_bayes.variants import BernoulliNB, CategoricalNB, GaussianNB, MultinomialNB
    from streamnb.model.posterior.beta_bernoulli import BetaBernoulli
    from streamnb.model.posterior.dirichlet_categorical import DirichletCategorical
    from streamnb.model.posterior.normal_inverse_gamma import NormalInverseGamma
    from streamnb.model.posterior.sequential import SequentialPosterior
    from streamnb.model.trees.chow_liu import ChowLiuTree
    from streamnb.model.trees.tree_augmented_nb import TreeAugmentedNB
    from streamnb.saved import load

__all__ = [
    "BayesOptimalClassifier",
    "BayesOptimalNB",
    "BayesianNetwork",
    "BayesianNetworkClassifier",
    "BernoulliNB",
    "BetaBernoulli",
    "CalibratedNB",
    "CategoricalNB",
    "ChowLiuTree",
    "ConceptLearner",
    "Conjunction",
    "Conjunctions",
    "Continuous",
    "DirichletCategorical",
    "FindS",
    "GaussianNB",
    "HiddenMarkovModel",
    "HiddenMarkovNB",
    "Hypothesis",
    "Independence",
    "JointTable",
    "LinearRegression",
    "LinearUnit",
    "LinearView",
    "LogOpinionPool",
    "LogisticRegression",
    "MultinomialNB",
    "NaiveBayes",
    "NetworkEM",
    "Nominal",
    "NormalInverseGamma",
    "OnlineBaumWelch",
    "PlattScaling",
    "Pool",
    "Posteriors",
    "ProgressiveValidation",
    "SemiSupervisedNB",
    "SequentialPosterior",
    "SigmoidUnit",
    "Softmax",
    "SoftmaxRegression",
    "StructurePosterior",
    "Text",
    "Tree",
    "TreeAugmentedNB",
    "VersionSpace",
    "baum_welch",
    "load",
]

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
    "hidden_markov.baum_welch": ("baum_welch",),
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
    "mixture.components": ("Pool", "Softmax", "Tree"),
    "mixture.hypotheses": ("Hypothesis",),
    "mixture.single_members": ("CalibratedNB", "LogOpinionPool", "SoftmaxRegression"),
    "naive_bayes.linear_view": ("LinearView",),
    "naive_bayes.naive_bayes": ("NaiveBayes",),
    "naive_bayes.semi_supervised": ("SemiSupervisedNB",),
    "naive_bayes.variants": ("BernoulliNB", "CategoricalNB", "GaussianNB", "MultinomialNB"),
    "posterior.beta_bernoulli": ("BetaBernoulli",),
    "posterior.dirichlet_categorical": ("DirichletCategorical",),
    "posterior.normal_inverse_gamma": ("NormalInverseGamma",),
    "posterior.sequential": ("SequentialPosterior",),
    "trees.chow_liu": ("ChowLiuTree",),
    "trees.tree_augmented_nb": ("TreeAugmentedNB",),
}


def __getattr__(name: str) -> Any:
    """Load a public class when it is first asked for: importing the package alone stays light."""
    if name == "load":
        return importlib.import_module("streamnb.saved").load
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"streamnb.model.{module}"), name)
    raise AttributeError(f"module 'streamnb' has no attribute {name!r}")
