"""Points of curves equal those of scikit-learn on the same predictions, exactly and on the grid."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from streamnb.scoring.ranking import OpenValidation
from streamnb.scoring.threshold_counts import MOST_CLASSES, STEPS, Prices, ThresholdGrid, counts_of


def drawn(seed, n=600, *, ties=False):
    rng = np.random.default_rng(seed)
    truths = (rng.random(n) < 0.3).astype(np.int64)
    odds = rng.normal(2.0 * truths - 1.0, 2.0)
    odds = np.round(odds) if ties else odds
    odds[:6] = [np.inf, np.inf, -np.inf, -np.inf, 0.0, 0.0]
    return odds, truths


@pytest.mark.parametrize("positive", [0, 1])
@pytest.mark.parametrize("ties", [False, True])
def test_exact_points_are_those_of_scikit_learn(positive, ties):
    odds, truths = drawn(3, ties=ties)
    counts = counts_of(odds, truths, positive)
    is_positive = truths == positive
    ranks = np.unique(odds if positive else -odds, return_inverse=True)[1]
    fpr, tpr, _ = metrics.roc_curve(is_positive, ranks, drop_intermediate=False)
    assert np.array_equal(counts.false_positive_rate, fpr)
    assert np.array_equal(counts.recall, tpr)
    precision, recall, _ = metrics.precision_recall_curve(is_positive, ranks)
    assert np.array_equal(counts.precision[::-1], precision)
    assert np.array_equal(counts.recall[::-1], recall)
    assert counts.area == pytest.approx(metrics.roc_auc_score(is_positive, ranks), abs=1e-12)
    expected = metrics.average_precision_score(is_positive, ranks)
    assert counts.average_precision == pytest.approx(expected, abs=1e-12)


def test_the_odds_that_the_auc_keeps_are_the_ones_that_are_ranked():
    rng = np.random.default_rng(4)
    scores, p = OpenValidation(), rng.random(400)
    truths = (rng.random(400) < p).astype(np.int64)
    scores.update_many(np.stack((1.0 - p, p), axis=1), truths)
    assert counts_of(*scores.ranked, 1).area == pytest.approx(1.0 - scores.one_less_auc, abs=1e-12)
    scores.update_many(np.array([[0.2, 0.3, 0.5]]), np.array([2]))
    assert scores.ranked is None


@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 60))
def test_each_point_of_the_grid_is_exact_however_the_stream_is_cut(seed, n_classes, size):
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(n_classes, 0.2), 150)
    rows[rng.random(rows.shape) < 0.1] = rng.choice([0.0, 0.5, 1.0])
    truths = rng.integers(-1, n_classes, 150)
    grid = ThresholdGrid()
    for start in range(0, 150, size):
        part = slice(start, start + size)
        grid.add(rows[part, : max(1, n_classes - (start == 0))], truths[part])
    rows[: min(size, 150), max(1, n_classes - 1) :] = 0.0  # not known yet
    rows, truths = rows[truths >= 0], truths[truths >= 0]
    for k in range(n_classes):
        counts = grid.counts(k)
        for threshold, hits, alarms in zip(*counts, strict=True):
            called = rows[:, k] >= threshold
            assert hits == (called & (truths == k)).sum()
            assert alarms == (called & (truths != k)).sum()


def test_the_cost_at_each_step_is_the_mean_over_events():
    odds, truths = drawn(9)
    p, prices = 1.0 / (1.0 + np.exp(-odds)), Prices(0.5, 7.0, 2.0, 0.25)
    grid = ThresholdGrid()
    grid.add(np.stack((1.0 - p, p), axis=1), truths)
    price = np.array([[prices.passed, prices.alarm], [prices.miss, prices.hit]])
    expected = [price[truths, (p >= t).astype(int)].mean() for t in STEPS]
    for counts in (counts_of(odds, truths, 1), grid.counts(1)):
        assert counts.mean_costs(STEPS, prices) == pytest.approx(expected, abs=1e-12)


def test_a_class_that_a_batch_lacks_has_no_probability_in_it():
    grid = ThresholdGrid()
    grid.add(np.array([[0.2, 0.3, 0.5]]), np.array([2]))
    grid.add(np.array([[0.4, 0.6]]), np.array([1]))
    assert [grid.counts(2).positives, grid.counts(2).negatives] == [1, 1]


def test_a_grid_is_bounded_and_a_thinned_curve_keeps_its_ends():
    grid = ThresholdGrid()
    grid.add(np.full((3, MOST_CLASSES), 1.0 / MOST_CLASSES), np.arange(3))
    assert grid.counts(MOST_CLASSES - 1).negatives == 3
    grid.add(np.full((1, MOST_CLASSES + 1), 0.0), np.array([0]))
    assert grid.counts(0) is None
    counts = counts_of(*drawn(5, 20_000), 1)
    xs, ys = counts.thinned(counts.false_positive_rate, counts.recall)
    points = set(zip(counts.false_positive_rate.tolist(), counts.recall.tolist(), strict=True))
    assert len(xs) <= 302
    assert {(0.0, 0.0), (1.0, 1.0)} <= set(zip(xs, ys, strict=True)) <= points
