"""What is decided is expected to cost least, counted with fractions; scores are those of what was served."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamnb.errors import SnapshotError
from streamnb.models.interface.predictions import Posteriors
from streamnb.scoring.decision_rule import DecisionBatch, DecisionRule, weights_before
from streamnb.scoring.decision_scores import ServedDecisions

NAMES = "abcd"
COST = st.sampled_from([0.0, 0.125, 0.5, 1.0, 2.0, 10.0, 1e6])
COSTS = st.dictionaries(st.sampled_from("abcde"), st.dictionaries(st.sampled_from("abcde"), COST))
REJECT = st.none() | st.sampled_from([0.0, 0.01, 0.2, 0.5, 1.0, 3.0])
PRIORS = st.sampled_from(["learned", "uniform", "windowed"]) | st.dictionaries(
    st.sampled_from("abcde"), st.integers(0, 5).map(float)
).filter(lambda given: sum(given.values()) > 0.0)


@st.composite
def said(draw, most=6):
    """What a model says of some events, each with the classes known by then, in whole 64ths; and u of each."""
    n, K = draw(st.integers(1, most)), draw(st.integers(0, 4))
    known = sorted(draw(st.lists(st.integers(0, K), min_size=n, max_size=n)))
    rows = np.zeros((n, K))
    for row, k in zip(rows, known, strict=True):
        cuts = sorted(draw(st.lists(st.integers(0, 64), min_size=max(0, k - 1), max_size=max(0, k - 1))))
        row[:k] = np.diff([0, *cuts, 64])[:k] / 64.0 if k else 0.0
    unseen = np.array(draw(st.lists(st.sampled_from([0.0, 0.001, 0.25, 1.0]), min_size=n, max_size=n)))
    return Posteriors([*NAMES[:K]], rows, np.array(known)), unseen


def weights_of(draw_from, n, K):
    return np.array(draw_from, dtype=np.float64).reshape(n, K)


def oracle(rule, probabilities, unseen, weights, newest):
    """Decision -> what it is expected to cost, with fractions; label -> probability."""
    p = {label: Fraction(one) for label, one in probabilities.items()}
    if rule.priors != "learned":
        new = dict.fromkeys(p, Fraction(1))
        if rule.priors == "windowed":
            n, total = sum(newest.values()), Fraction(sum(weights.values())) or 1
            K = sum(weight > 0 for weight in weights.values())
            new = {k: (newest[k] + K * Fraction(weights[k]) / total) / (n + K or 1) for k in p}
        elif rule.priors != "uniform":
            new = {label: Fraction(rule.priors.get(label, 0.0)) for label in p}
        p = {k: one * new[k] / Fraction(weights[k]) if weights[k] else Fraction(0) for k, one in p.items()}
        total = sum(p.values())
        p = {k: one / total if total else Fraction(0) for k, one in p.items()}
    u = Fraction(unseen)
    costs = {
        d: u
        + (1 - u) * sum(one * Fraction(rule.costs.get(d, {}).get(v, float(d != v))) for v, one in p.items())
        for d in p
    }
    return (costs if any(p.values()) else {}), p


def close(found, expected):
    return abs(Fraction(found) - expected) <= Fraction(1, 10**9) * (1 + abs(expected))


@given(said(), COSTS, REJECT, PRIORS, st.lists(st.integers(0, 9), min_size=24, max_size=24))
def test_no_decision_is_expected_to_cost_less(of, costs, reject, priors, learned):
    posteriors, unseen = of
    n, K = posteriors.probabilities.shape
    weights = np.array(learned[: n * K], dtype=np.float64).reshape(n, K)
    rule = DecisionRule(costs, reject, priors)
    newest = weights[::-1, ::-1].copy() * (np.arange(K) < posteriors.known[:, np.newaxis])
    given = (weights, newest if rule.window_size else None) if rule.is_weighing else ()
    weights *= np.arange(K) < posteriors.known[:, np.newaxis]
    found = rule.decide(posteriors, unseen, *given)
    assert len(found.labels) == len(found.costs) == n
    for i, (decision, cost) in enumerate(zip(found.labels, found.costs, strict=True)):
        known = NAMES[: posteriors.known[i]]
        row = dict(zip(known, posteriors.probabilities[i].tolist(), strict=False))
        by_class = [dict(zip(known, one[i].tolist(), strict=False)) for one in (weights, newest)]
        expected, p = oracle(rule, row, unseen[i], *by_class)
        least = min(expected.values(), default=None)
        none = 1.0 if reject is None else reject
        if decision is None:
            assert cost == none
            assert least is None or (reject is not None and (least > reject or close(reject, least)))
        else:
            assert close(cost, expected[decision])
            assert close(cost, least)
            assert reject is None or cost <= reject
            same = [d for d in expected if expected[d] == expected[decision]]
            if not costs and priors == "learned":  # then nothing is rounded
                assert p[decision] == max(p.values())
                assert decision == max(same, key=lambda d: p[d])


@given(said(), COSTS, REJECT, st.sampled_from([0.25, 2.0, 1024.0]))
def test_scaling_all_costs_changes_no_decision(of, costs, reject, times):
    """All: also those of mistakes that nobody gives, and of what was never seen."""
    posteriors, _ = of
    known = np.zeros(len(posteriors.known))
    full = {d: {v: costs.get(d, {}).get(v, float(d != v)) for v in NAMES} for d in NAMES}
    scaled = {d: {v: cost * times for v, cost in row.items()} for d, row in full.items()}
    one = DecisionRule(full, reject).decide(posteriors, known)
    many = DecisionRule(scaled, None if reject is None else reject * times).decide(posteriors, known)
    for i, pair in enumerate(zip(one.labels, many.labels, strict=True)):
        if pair[0] != pair[1]:  # a tie but for rounding
            here = [one.costs[i] * times, many.costs[i]]
            assert here[0] == pytest.approx(here[1], rel=1e-9, abs=1e-9)


@given(said())
def test_without_costs_the_most_probable_class_is_decided(of):
    posteriors, unseen = of
    assert DecisionRule().decide(posteriors, unseen).labels == posteriors.labels()


@given(said(), COSTS)
def test_who_may_reject_for_nothing_decides_what_is_certain(of, costs):
    """A decision that may cost something is never made."""
    posteriors, unseen = of
    found = DecisionRule(costs, 0.0).decide(posteriors, unseen)
    for decision, row, u in zip(found.labels, posteriors.probabilities, unseen, strict=True):
        p = dict(zip(posteriors.classes, row.tolist(), strict=True))
        if decision is not None:
            assert u == 0.0
            assert all(
                one == 0.0 or costs.get(decision, {}).get(v, float(v != decision)) == 0.0
                for v, one in p.items()
            )
        elif not costs and u == 0.0:
            assert 1.0 not in p.values()


@given(said(), COSTS, REJECT, PRIORS, st.integers(0, 6))
def test_cuts_and_later_classes_change_no_bit(of, costs, reject, priors, cut):
    posteriors, unseen = of
    n, K = posteriors.probabilities.shape
    rule = DecisionRule(costs, reject, priors)
    weights = np.where(np.arange(K) < posteriors.known[:, np.newaxis], 3.0, 0.0)
    newest = np.where(weights > 0.0, np.arange(n * K).reshape(n, K), 0.0)
    given = (weights, newest if rule.window_size else None) if rule.is_weighing else (None, None)
    whole = rule.decide(posteriors, unseen, *given)
    parts = []
    for some in (slice(0, cut), slice(cut, n)):
        known = posteriors.known[some]
        columns = max(known, default=0)
        part = Posteriors(posteriors.classes[:columns], posteriors.probabilities[some, :columns], known)
        own = [None if one is None else one[some, :columns] for one in given]
        parts.append(rule.decide(part, unseen[some], *own))
    assert parts[0].labels + parts[1].labels == whole.labels
    assert parts[0].costs + parts[1].costs == whole.costs


@given(st.lists(st.tuples(st.sampled_from([None, "a", "b", "c"]), st.sampled_from([0.0, 0.3, 1.0, 2.5]))))
def test_weights_before_are_those_of_a_loop(taught):
    learned, rows = {"a": 2.0, "b": 0.5}, []
    for label, weight in taught:
        rows.append([learned.get(k, 0.0) for k in "abc"])
        if label is not None:
            learned[label] = learned.get(label, 0.0) + round(weight * 1024) / 1024
    found = (
        weights_before("abc", {"a": 2.0, "b": 0.5}, *map(list, zip(*taught, strict=True))) if taught else None
    )
    assert found is None or found.tolist() == rows
    assert weights_before("abc", learned).shape == (1, 3)


def test_priors_correct_what_a_balanced_model_says():
    """By Bayes: the likelihood ratio stays, odds are those of the new prior times it."""
    said_of = Posteriors(["ham", "spam"], np.array([[0.4, 0.6]]), np.array([2]))
    rule = DecisionRule(priors={"spam": 0.1, "ham": 0.9})
    found = rule.decide(said_of, np.zeros(1), np.array([[50.0, 50.0]]))
    assert found.labels == ["ham"]
    assert found.costs == [pytest.approx(0.06 / (0.06 + 0.36))]


def assert_usual(usual, judged):
    """As of these events: number -> (label, evidence)."""
    for label in "ab":
        fits = [fit for one, fit in judged.values() if one == label and np.isfinite(fit)]
        for fit in (-9.0, -4.0, -2.95, 0.0):
            below = sum(one <= fit + 0.1 for one in fits)
            assert usual.share(label, fit) == (1 + below) / (1 + len(fits))


STEP = st.tuples(st.integers(0, 30), st.none() | st.sampled_from("ab"))


@given(
    st.lists(st.none() | st.sampled_from("ab"), max_size=12),
    st.lists(STEP, max_size=40),
    st.integers(1, 5),
    st.integers(0, 12),
)
def test_scores_are_those_of_the_labels_that_hold(decisions, steps, window, begins):
    """Beside a plain list of what was decided, and a dict of the labels that hold; restarts change nothing."""
    rule = DecisionRule({"a": {"b": 5.0}}, 0.25, novelty=0.01)
    scores = ServedDecisions(rule, window)
    scores.begin(begins)
    fits = np.array([np.inf if i % 4 == 3 else -i for i in range(len(decisions))], dtype=np.float32)
    scores.serve(DecisionBatch(decisions, [], [], fits, 0.01))
    holds, firsts = {}, []
    for place, label in steps:
        number = place + begins
        if place >= len(decisions):
            scores.replace(place - 31, "a", label)  # an event of before
        elif number in holds:
            scores.replace(number, holds[number], label)
            holds[number] = label
        elif label is not None:
            scores.judge([number], [label])
            holds[number] = label
            firsts.append(number)
        scores = ServedDecisions.from_state(*scores.state())
    assert_usual(scores.usual, {n: (label, fits[n - begins]) for n, label in holds.items()})
    for report, numbers in zip(
        (scores.report().cumulative, scores.report().window), (firsts, firsts[-window:]), strict=True
    ):
        pairs = [(holds[n], decisions[n - begins]) for n in numbers if holds[n] is not None]
        told = [(truth, one) for truth, one in pairs if one is not None]
        costs = [0.25 if one is None else 0.0 if one == t else 5.0 if one == "a" else 1.0 for t, one in pairs]
        assert report.events == len(pairs)
        if pairs:
            assert report.mean_cost == pytest.approx(sum(costs) / len(costs))
            assert report.coverage == len(told) / len(pairs)
            assert report.accuracy == (sum(t == one for t, one in told) / len(told) if told else None)


@given(st.sampled_from(["rule", "first", "names", "cells", "window", "window_size", "served"]))
def test_what_is_no_state_is_refused(name):
    scores = ServedDecisions(DecisionRule(), 3)
    scores.serve(DecisionBatch(["a", None, "b"], [], [], np.zeros(0)))
    scores.judge([0, 1], ["a", "b"])
    meta, arrays = scores.state()
    broken = {"rule": {"reject": "x"}, "cells": [["a", "b", 0]], "window_size": 0}
    if name == "served":
        arrays = {"served": np.array([7], dtype=np.int32)}
    else:
        meta = {**meta, name: broken.get(name, [["x"]])}
    assume(ServedDecisions.from_state(*scores.state()).state()[0] == scores.state()[0])
    with pytest.raises(SnapshotError):
        ServedDecisions.from_state(meta, arrays)


def test_what_holds_novelty_is_refused_where_it_is_damaged():
    scores = ServedDecisions(DecisionRule(novelty=0.01), 3)
    scores.add(DecisionBatch(["a"] * 3, [], [], np.float32([-1.0, np.inf, -2.0]), 0.01), ["a", "a", None])
    meta, arrays = scores.state()
    assert ServedDecisions.from_state(meta, arrays).usual.share("a", -1.5) == 0.5
    for name, value in (("usual", [["a", 2]]), ("usual", [["a", 1], ["b", 0]])):
        with pytest.raises(SnapshotError):
            ServedDecisions.from_state({**meta, name: value}, arrays)
    for name in ("usual", "evidence"):
        with pytest.raises(SnapshotError):
            ServedDecisions.from_state(meta, {**arrays, name: np.float32([np.nan])})


def test_a_state_without_new_keys_is_what_it_was():
    meta, arrays = ServedDecisions(DecisionRule(reject=0.5), 3).state()
    assert meta["rule"] == {"costs": {}, "reject": 0.5, "priors": "learned"}
    assert list(arrays) == ["served"]
