"""Parts of the default mixture as classes of their own; and hypotheses without weight, on which they stand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from test_learners import ATTRIBUTES, CALIBRATED, SOME, Watched, bytes_of, mixed_stream

from streamnb import (
    BayesOptimalNB,
    ByteSoftmax,
    CalibratedNB,
    Hypothesis,
    LogOpinionPool,
    OneDependence,
    Pool,
    Softmax,
    SoftmaxRegression,
)
from streamnb.errors import UnlearnError
from streamnb.model.mixture.default_hypotheses import DEFAULT_HYPOTHESES

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
    if isinstance(h, (Softmax, ByteSoftmax, OneDependence)) or (isinstance(h, Hypothesis) and h.calibrated)
]


def alone(h):
    """The class that is this hypothesis."""
    if isinstance(h, Softmax):
        return SoftmaxRegression(ATTRIBUTES, h.rate, h.pairs)
    if isinstance(h, Pool):
        return LogOpinionPool(ATTRIBUTES, OPINIONS, h.variance, calibrated=h.calibrated)
    if isinstance(h, (ByteSoftmax, OneDependence)):
        return BayesOptimalNB(ATTRIBUTES, (h,), switching_rate=0.0)
    smoothing = {"m": h.m, "p": h.p} if h.alpha is None else {"alpha": h.alpha}
    return CalibratedNB(
        ATTRIBUTES, h.likelihood, prior=h.prior, half_life=h.half_life, density=h.density, **smoothing
    )


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
def test_a_class_says_what_the_hypothesis_says_among_others(h):
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


@pytest.mark.parametrize("make", [SoftmaxRegression, CalibratedNB, LogOpinionPool])
def test_a_state_goes_on_and_is_of_its_class_alone(make):
    model = make(ATTRIBUTES)
    answers(model, ROWS[:80])
    other = make(ATTRIBUTES).load_state(*model.state())
    assert bytes_of(other) == bytes_of(model)
    assert answers(other, ROWS[80:]) == answers(model, ROWS[80:])
    for wrong in {SoftmaxRegression, CalibratedNB, LogOpinionPool, BayesOptimalNB} - {make}:
        with pytest.raises(ValueError, match=f"the state of a {make.__name__}"):
            wrong(ATTRIBUTES).load_state(*model.state())
    with pytest.raises(UnlearnError, match="by gradient"):
        model.unlearn_one(*ROWS[0][:2])
    with pytest.raises(ValueError, match="cannot be merged"):
        model.merge(other)


@pytest.mark.parametrize(
    ("model", "other"),
    [
        (SoftmaxRegression(rate=0.5), SoftmaxRegression(rate=0.6)),
        (SoftmaxRegression(pairs=True), SoftmaxRegression()),
        (CalibratedNB(alpha=0.5), CalibratedNB()),
        (LogOpinionPool(variance=0.5), LogOpinionPool()),
        (LogOpinionPool(opinions=[Softmax()]), LogOpinionPool()),
    ],
)
def test_a_state_of_other_parameters_is_refused(model, other):
    with pytest.raises(ValueError, match="a state of other"):
        other.load_state(*model.state())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SoftmaxRegression(rate=0.0), "rate must be above zero"),
        (lambda: CalibratedNB(likelihood="gaussian"), "likelihood must be one of"),
        (lambda: CalibratedNB(alpha=0.0), "alpha of a hypothesis must be above zero"),
        (lambda: LogOpinionPool(variance=0.0), "variance must be above zero"),
        (lambda: LogOpinionPool(opinions=[]), "a pool needs hypotheses"),
        (
            lambda: LogOpinionPool(opinions=[Hypothesis()]),
            "an opinion is calibrated, a softmax regression or a tree",
        ),
        (
            lambda: LogOpinionPool(opinions=[Softmax(), Pool()]),
            "an opinion is calibrated, a softmax regression or a tree",
        ),
        (lambda: LogOpinionPool(opinions=[Softmax(), Softmax()]), "two hypotheses are called"),
    ],
)
def test_what_has_no_meaning_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


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
