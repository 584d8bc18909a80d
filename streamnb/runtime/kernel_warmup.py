"""Compile every kernel that a service needs, before it takes on work: once a machine, then from the cache."""

from __future__ import annotations

import numpy as np

from streamnb.features.attributes import Text
from streamnb.models.mixture.bayes_optimal_nb import BayesOptimalNB
from streamnb.models.mixture.hypotheses import Hypothesis
from streamnb.models.mixture.hypothesis_kinds import (
    AnyHypothesis,
    ByteSoftmax,
    MondrianForest,
    OneDependence,
    Pool,
    RecentGaussian,
    Softmax,
)
from streamnb.models.naive_bayes.naive_bayes_classifier import NaiveBayes
from streamnb.models.tenants.tenant_models import TenantModels
from streamnb.scoring.change_test import ChangeObservations, ChangeTest
from streamnb.scoring.prequential_scores import ProgressiveValidation
from streamnb.statistics.sequential_posterior import SequentialPosterior
from streamnb.toolbox.bayesian_network.bayesian_network_classifier import BayesianNetworkClassifier
from streamnb.toolbox.bayesian_network.incremental_em import NetworkEM
from streamnb.toolbox.bayesian_network.network import BayesianNetwork
from streamnb.toolbox.hidden_markov.hidden_markov_model import HiddenMarkovModel
from streamnb.toolbox.hidden_markov.hidden_markov_nb import HiddenMarkovNB
from streamnb.toolbox.hidden_markov.online_baum_welch import OnlineBaumWelch
from streamnb.toolbox.linear.linear_regression import LinearRegression
from streamnb.toolbox.linear.logistic_regression import LogisticRegression


def warm() -> None:
    """Send a few events through all that learns, predicts, unlearns, prunes, loads and scores."""
    model = NaiveBayes({"text": "text", "subject": Text(event_model="bernoulli")})
    x = {"text": "one two", "subject": "three", "colour": "red", "height": 1.5}
    scores = ProgressiveValidation(2)
    for label in ("a", "b", "c"):
        posteriors = model.predict_then_learn_many([x, x], [label, None])
        scores.update_many(posteriors.probabilities, np.array([0, -1], dtype=np.int64))
    heard = ChangeObservations(np.arange(1), np.ones(1, np.bool_), np.full(1, 0.1), np.full(1, 0.5))
    next(ChangeTest(0.5).observe(heard, np.ones(1)), None)
    ChangeTest(0.5).bayes_factor  # noqa: B018  it is what is compiled
    model.predict_proba_one(x)
    copy = model.copying()
    model.learn_one(x, "c")
    copy.state()
    model.explain_one(x)
    model.linear_view("a", "b")
    model.unlearn_one(x, "c")
    model.apply(model.partial([x], ["a"])[1])
    model.prune(min_count=1)
    small = model.clone()
    small.learn_one(x, "a")
    small.keep_within(1)
    small.evict(1)
    model.load_state(*model.state())
    hypotheses: list[AnyHypothesis] = [
        Hypothesis(),
        Hypothesis("bernoulli"),
        Hypothesis("presence", half_life=60.0),
        Hypothesis("presence", calibrated=True),
        Softmax(pairs=True),
        ByteSoftmax(),
        Pool(),
        Pool(calibrated=True),
        OneDependence(),
        MondrianForest(),
        RecentGaussian(),
    ]
    many = BayesOptimalNB({"text": "text"}, hypotheses, switching_rate=0.1, prediction="gibbs")
    for label in ("a", "b", "c"):
        many.predict_then_learn_many([x, x], [label, None], ts=[1.0, 2.0])
    many.predict_proba_one(x)
    many.explain_one(x)
    many.learn_late_many([x], ["a"], ts=[1.0])
    many.unlearn_many([x], ["a"])
    many.load_state(*many.state())
    scores.window()
    SequentialPosterior(("one", "other")).update_log_many(np.zeros((1, 2)))
    _warm_chains(x)
    _warm_tenants(x, shared=False)
    _warm_tenants(x, shared=True)
    _warm_linear_models()
    _warm_network()
    _warm_hidden_markov_models()


def _warm_network() -> None:
    network = BayesianNetworkClassifier({"colour": ["label"]})
    network.learn_one({"colour": "red"}, "a")
    network.predict_proba_one({"colour": "red"})
    network.unlearn_one({"colour": "red"}, "a")
    with_gaps = NetworkEM(BayesianNetwork({"label": [], "colour": ["label"]}))
    for x in ({"colour": "red", "label": "a"}, {"colour": "red"}):
        with_gaps.learn_one(x)


def _warm_chains(x: dict[str, object]) -> None:
    chains = HiddenMarkovNB({"text": "text"})
    for label in ("a", "b", "c"):
        chains.predict_then_learn_many([{**x, "entity": 1}] * 2, [label, None], ts=[1.0, None])
    chains.explain_one({**x, "entity": 1})


def _warm_tenants(x: dict[str, object], *, shared: bool) -> None:
    models = TenantModels({"text": "text"}, memory=1, shared=shared)
    for label in ("a", "b", "c"):
        models.predict_then_learn_many([{**x, "entity": "one"}, {**x, "entity": "other"}], [label, None])
    models.unlearn_many([{**x, "entity": "one"}], ["a"])
    models.load_state(*models.state())
    models.explain_one({**x, "entity": "one"})


def _warm_linear_models() -> None:
    table = [({"height": height, "colour": "red"}, height) for height in (1.0, 2.0, 4.0)]
    line, logistic = LinearRegression(), LogisticRegression()
    for x, y in table:
        line.learn_one(x, y)
        logistic.learn_one(x, y > 1.0)
    line.unlearn_one(*table[0])
    line.predict_one(table[0][0])
    logistic.predict_proba_one(table[0][0])


def _warm_hidden_markov_models() -> None:
    model = HiddenMarkovModel()
    model.learn_one("ab", "xy")
    model.begin().observe("a")
    model.smooth("ab")
    model.viterbi("ab")
    online = OnlineBaumWelch(starts=1, block=1, lag=1)
    online.learn_many("abab")
    online.model()
