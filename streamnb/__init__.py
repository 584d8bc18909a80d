"""A streaming Bayesian classifier: it learns from a log of labelled events, one at a time, exactly once."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamnb.model.attributes import Continuous, Nominal, Text
    from streamnb.model.baum_welch import baum_welch
    from streamnb.model.bayes_optimal import BayesOptimalClassifier
    from streamnb.model.bayes_optimal_nb import BayesOptimalNB
    from streamnb.model.bayesian_network import BayesianNetwork
    from streamnb.model.bayesian_network_classifier import BayesianNetworkClassifier
    from streamnb.model.beta_bernoulli import BetaBernoulli
    from streamnb.model.calibrated_nb import CalibratedNB
    from streamnb.model.chow_liu_tree import ChowLiuTree
    from streamnb.model.concepts import ConceptLearner
    from streamnb.model.conjunctions import Conjunction, Conjunctions
    from streamnb.model.dirichlet_categorical import DirichletCategorical
    from streamnb.model.find_s import FindS
    from streamnb.model.hidden_markov import HiddenMarkovModel
    from streamnb.model.hidden_markov_nb import HiddenMarkovNB
    from streamnb.model.hypotheses import Hypothesis
    from streamnb.model.independence import Independence
    from streamnb.model.joint_table import JointTable
    from streamnb.model.learners import Pool, Softmax, Tree
    from streamnb.model.linear_regression import LinearRegression
    from streamnb.model.linear_unit import LinearUnit
    from streamnb.model.linear_view import LinearView
    from streamnb.model.log_opinion_pool import LogOpinionPool
    from streamnb.model.logistic_regression import LogisticRegression
    from streamnb.model.naive_bayes import NaiveBayes, Posteriors
    from streamnb.model.network_em import NetworkEM
    from streamnb.model.normal_inverse_gamma import NormalInverseGamma
    from streamnb.model.one_kind import BernoulliNB, CategoricalNB, GaussianNB, MultinomialNB
    from streamnb.model.online_em import OnlineBaumWelch
    from streamnb.model.platt_scaling import PlattScaling
    from streamnb.model.posterior import SequentialPosterior
    from streamnb.model.progressive import ProgressiveValidation
    from streamnb.model.semi_supervised import SemiSupervisedNB
    from streamnb.model.sigmoid_unit import SigmoidUnit
    from streamnb.model.softmax_regression import SoftmaxRegression
    from streamnb.model.tree_augmented_nb import TreeAugmentedNB
    from streamnb.model.version_space import VersionSpace

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
    "Text",
    "Tree",
    "TreeAugmentedNB",
    "VersionSpace",
    "baum_welch",
]

_HOMES = {
    "attributes": ("Continuous", "Nominal", "Text"),
    "baum_welch": ("baum_welch",),
    "bayes_optimal": ("BayesOptimalClassifier",),
    "bayes_optimal_nb": ("BayesOptimalNB",),
    "bayesian_network": ("BayesianNetwork",),
    "bayesian_network_classifier": ("BayesianNetworkClassifier",),
    "beta_bernoulli": ("BetaBernoulli",),
    "calibrated_nb": ("CalibratedNB",),
    "chow_liu_tree": ("ChowLiuTree",),
    "concepts": ("ConceptLearner",),
    "conjunctions": ("Conjunction", "Conjunctions"),
    "find_s": ("FindS",),
    "dirichlet_categorical": ("DirichletCategorical",),
    "hidden_markov_nb": ("HiddenMarkovNB",),
    "hidden_markov": ("HiddenMarkovModel",),
    "hypotheses": ("Hypothesis",),
    "independence": ("Independence",),
    "joint_table": ("JointTable",),
    "learners": ("Pool", "Softmax", "Tree"),
    "linear_regression": ("LinearRegression",),
    "linear_unit": ("LinearUnit",),
    "linear_view": ("LinearView",),
    "log_opinion_pool": ("LogOpinionPool",),
    "logistic_regression": ("LogisticRegression",),
    "naive_bayes": ("NaiveBayes", "Posteriors"),
    "network_em": ("NetworkEM",),
    "normal_inverse_gamma": ("NormalInverseGamma",),
    "one_kind": ("BernoulliNB", "CategoricalNB", "GaussianNB", "MultinomialNB"),
    "online_em": ("OnlineBaumWelch",),
    "platt_scaling": ("PlattScaling",),
    "posterior": ("SequentialPosterior",),
    "progressive": ("ProgressiveValidation",),
    "sigmoid_unit": ("SigmoidUnit",),
    "semi_supervised": ("SemiSupervisedNB",),
    "softmax_regression": ("SoftmaxRegression",),
    "tree_augmented_nb": ("TreeAugmentedNB",),
    "version_space": ("VersionSpace",),
}


def __getattr__(name: str) -> Any:
    """Load a public class when it is first asked for: importing the package alone stays light."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"streamnb.model.{module}"), name)
    raise AttributeError(f"module 'streamnb' has no attribute {name!r}")
