"""Costs by threshold equal a recount of every decision, also with equal scores."""

from __future__ import annotations

import numpy as np
import pytest

from streamnb.scoring.threshold_costs import by_expected_cost, by_probability, costs_of, least_cost

COSTS = np.array([[0.0, 5.0], [1.0, 0.1]])  # decision, truth


def drawn(seed, n=300, digits=1):
    rng = np.random.default_rng(seed)
    return np.round(rng.normal(0.0, 2.0, n), digits), rng.integers(0, 2, n), rng


@pytest.mark.parametrize("digits", [0, 1, 9])
def test_a_threshold_of_the_probability_costs_what_its_decisions_cost(digits):
    odds, truths, _ = drawn(1, digits=digits)
    odds[:20], odds[20:40] = -np.inf, np.inf
    p = 1.0 / (1.0 + np.exp(-odds))
    found = by_probability(odds, truths, lambda d, v: COSTS[d, v])
    assert [one.threshold for one in found] == sorted(one.threshold for one in found)
    for one in found:
        decided = (p >= one.threshold).astype(int)
        assert one.mean_cost == pytest.approx(COSTS[decided, truths].mean(), rel=1e-12)
        assert one.accuracy == pytest.approx((decided == truths).mean(), rel=1e-12)
        assert one.coverage == 1.0
    every = [COSTS[(p >= t).astype(int), truths].mean() for t in [*np.unique(p), 1.1]]
    assert least_cost(found).mean_cost == pytest.approx(min(every), rel=1e-12)


def test_one_class_has_no_threshold_of_its_probability():
    assert by_probability(np.zeros(3), np.zeros(3, dtype=np.int64), lambda *_: 1.0) == []
    assert by_probability(np.zeros(0), np.zeros(0, dtype=np.int64), lambda *_: 1.0) == []
    assert least_cost([]) is None


@pytest.mark.parametrize("digits", [1, 9])
def test_a_threshold_of_the_expected_cost_decides_what_costs_no_more(digits):
    expected, right, rng = drawn(2, digits=digits)
    expected = np.abs(expected)
    costs = np.where(right, 0.0, rng.choice([1.0, 7.0], right.size))
    expected[::50] = np.inf  # nothing can be decided
    found = by_expected_cost(expected, costs, right == 1, undecided=0.4, given=0.25)
    assert 0.25 in [one.threshold for one in found]
    assert (found[-1].coverage, len(found)) == (0.98, len({one.threshold for one in found}))
    for one in found:
        is_decided = expected <= one.threshold
        assert one.coverage == is_decided.mean()
        assert one.mean_cost == pytest.approx(np.where(is_decided, costs, 0.4).mean(), rel=1e-12)
        told = right[is_decided].mean() if is_decided.any() else None
        assert one.accuracy == (None if told is None else pytest.approx(told, rel=1e-12))
    assert by_expected_cost(np.zeros(0), np.zeros(0), np.zeros(0, dtype=bool), 1.0, 0.5) == []


def test_decisions_cost_what_the_rule_says():
    costs, is_right = costs_of(
        ["a", None, "b"], ["a", "a", "c"], lambda d, v: {None: 0.3}.get(d, float(d != v))
    )
    assert costs.tolist() == [0.0, 0.3, 1.0]
    assert is_right.tolist() == [True, False, False]
