"""Hypotheses alone, and beside others; and hypotheses without weight."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from streamnb import (
    BayesOptimalNB,
    ByteSoftmax,
    Hypothesis,
    MondrianForest,
    OneDependence,
    Pool,
    RecentGaussian,
    Softmax,
)
from streamnb.models.mixture.hypothesis_kinds import DEFAULT_HYPOTHESES
from tests.models.mixture.test_learners import ATTRIBUTES, CALIBRATED, SOME, Watched, mixed_stream

ROWS = [(x, y, w, float(t)) for t, (x, y, w) in enumerate(mixed_stream(11, 150))]
DECAYING = Hypothesis(
    "presence", m=2.0, p=0.25, prior={"a": 1.0, "b": 3.0, "c": 1.0}, half_life=40.0, calibrated=True
)
COMPANY = [
    *DEFAULT_HYPOTHESES,
    DECAYING,
    Hypothesis("bernoulli", alpha=0.5, calibrated=True, prior="uniform"),
]
OPINIONS = [
    h
    for h in COMPANY
    if isinstance(h, (Softmax, ByteSoftmax, OneDependence, MondrianForest, RecentGaussian))
    or (isinstance(h, Hypothesis) and h.calibrated)
]


def alone(h):
    """A mixture of this hypothesis alone; of a pool, with the opinions that it takes in."""
    beside = [replace(opinion, weight=0.0) for opinion in OPINIONS] if isinstance(h, Pool) else []
    return BayesOptimalNB(ATTRIBUTES, (*beside, h), switching_rate=0.0)


def answers(model, rows=ROWS):
    """The bytes of the probabilities of each event, of the classes met before it."""
    found = []
    for x, y, w, t in rows:
        answer = model.predict_then_learn_many([x], [y], [w], [t])
        found.append(answer.probabilities[0, : answer.known[0]].tobytes())
    return found


@pytest.mark.parametrize(
    "h", [h for h in COMPANY if h in OPINIONS or isinstance(h, Pool)], ids=lambda h: h.label
)
def test_a_hypothesis_alone_says_what_it_says_among_others(h):
    """Of those that are weighed one is as good as certain beforehand, so that it predicts alone."""
    model = alone(h)
    company = [replace(other, weight=1e250) if other == h else other for other in COMPANY]
    among = BayesOptimalNB(ATTRIBUTES, company, prediction="map")
    assert answers(model) == answers(among)
    assert among.posterior.map() == h.label
    assert model.posterior.probabilities[h.label] == 1.0
    assert model.posterior.losses[h.label] == pytest.approx(among.posterior.losses[h.label], rel=1e-12)
    for x, *_ in ROWS[:20]:
        assert model.joint_log_likelihoods(x)[h.label] == among.joint_log_likelihoods(x)[h.label]


# -- hypotheses without weight --------------------------------------------------------------------------------

NAIVE = [Hypothesis("multinomial"), Hypothesis("complement", alpha=0.1, weight=3.0)]
WATCHED_ONLY = [Hypothesis("presence", weight=0.0), Softmax(0.5, pairs=True, weight=0.0)]


@pytest.mark.parametrize("rate", [0.0, 0.05])
@pytest.mark.parametrize("prediction", ["mixture", "map", "gibbs"])
def test_what_has_no_weight_changes_nothing_but_is_told(rate, prediction):
    without = BayesOptimalNB(ATTRIBUTES, NAIVE, rate, prediction)
    beside = BayesOptimalNB(ATTRIBUTES, [WATCHED_ONLY[0], *NAIVE, WATCHED_ONLY[1]], rate, prediction)
    assert answers(beside) == answers(without)
    for name, p in beside.posterior.probabilities.items():
        assert p == without.posterior.probabilities.get(name, 0.0)
    assert beside.posterior.bound() == without.posterior.bound()
    assert beside.posterior.regret() == without.posterior.regret()
    for h in WATCHED_ONLY:
        loss = BayesOptimalNB(ATTRIBUTES, [replace(h, weight=1.0)], 0.0)
        answers(loss)
        assert beside.posterior.losses[h.label] == loss.posterior.losses[h.label] > 0.0
        assert beside.posterior.log_probabilities[h.label] == -math.inf


def test_it_may_be_the_best_and_is_not_what_the_regret_is_against():
    """The bound holds of those that were weighed."""
    fair, sure = Hypothesis(alpha=1e6), Hypothesis(alpha=0.01, weight=0.0)
    model = BayesOptimalNB({"text": "text"}, [fair, sure], 0.0)
    for t in range(40):
        model.learn_one({"text": "win" if t % 2 else "lunch"}, t % 2)
    losses = model.posterior.losses
    assert losses[sure.label] < losses[fair.label] - 10.0
    assert model.posterior.ml() == model.posterior.map() == fair.label
    assert 0.0 == model.posterior.regret() <= model.posterior.bound() == 0.0


@pytest.mark.parametrize("hypotheses", [SOME, CALIBRATED], ids=["softmax", "calibrated"])
@pytest.mark.parametrize("rate", [0.0, 0.01])
def test_pools_take_in_what_has_no_weight(hypotheses, rate):
    """Against the oracle, which weighs by probabilities and not by their logarithms."""
    watched = Watched([replace(h, weight=float(isinstance(h, Pool))) for h in hypotheses], rate)
    for x, y, w, _ in ROWS:
        watched.meet(x, y, w)
    pools = [h.label for h in hypotheses if isinstance(h, Pool)]
    assert [name for name, p in watched.model.posterior.probabilities.items() if p] == pools
    alone_and_weighed = BayesOptimalNB(ATTRIBUTES, hypotheses, rate)
    alone_and_weighed.learn_many(*zip(*(row[:3] for row in ROWS), strict=True))
    for array in ("learned_pool_weights", "learned_pool_covariance", "learned_pool_bias"):
        assert np.array_equal(alone_and_weighed.state()[1][array], watched.model.state()[1][array])


def test_somebody_has_to_have_weight():
    with pytest.raises(ValueError, match="at least one hypothesis must have a weight above zero"):
        BayesOptimalNB({}, [Hypothesis(weight=0.0), Softmax(weight=0.0)])
    for make in (Hypothesis, Softmax, Pool):
        with pytest.raises(ValueError, match="weight must be zero or more and finite"):
            make(weight=-1.0)


def test_evidence_is_that_of_those_with_weight():
    """Zero times an infinite score is nothing."""
    never = Hypothesis("multinomial", prior={"b": 1.0}, weight=0.0, name="never")
    one, both = (BayesOptimalNB(ATTRIBUTES, h, 0.0) for h in ([NAIVE[0]], [NAIVE[0], never]))
    for model in (one, both):
        model.learn_many(*zip(*(row[:2] for row in ROWS[:60] if row[1]), strict=True))
    for x, *_ in ROWS[:20]:
        assert both.explain_one(x) == one.explain_one(x)
