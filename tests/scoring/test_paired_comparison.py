"""Intervals of mean differences hold at every time of a stream at once, and are no wider than they need be."""

from __future__ import annotations

import numpy as np
import pytest

from streamnb.scoring import paired_comparison
from streamnb.scoring.paired_comparison import interval

STREAMS, EVENTS, MISS = 1500, 800, 0.1
BOUND = 34.6


def signs(rng):
    """Accuracy: most events say nothing; the rest follow a mean that drifts, and turns."""
    mean = 0.15 * np.sin(np.arange(EVENTS) / 60.0)
    drawn = rng.random((STREAMS, EVENTS))
    return np.select([drawn < 0.2 + mean, drawn < 0.4], [1.0, -1.0]), 2 * (0.2 + mean) - 0.4, 1.0


def rare(rng):
    """Log loss: small differences, and now and then one as large as can be, against what all others say."""
    surprise = rng.random((STREAMS, EVENTS)) < 0.002
    d = np.where(surprise, BOUND, rng.normal(-0.05, 0.2, (STREAMS, EVENTS)))
    return d, np.full(EVENTS, 0.002 * BOUND - 0.998 * 0.05), BOUND


def dependent(rng):
    """The scale of each event hangs on what came before."""
    d = np.zeros((STREAMS, EVENTS))
    for i in range(EVENTS):
        scale = np.where(d[:, max(i - 1, 0)] > 0, 3.0, 0.3)
        d[:, i] = scale * rng.choice([-1.0, 1.0], STREAMS)
    return d, np.zeros(EVENTS), BOUND


KINDS = [signs, rare, dependent]


def missed(kind, made=interval):
    """The share of streams in which the mean that was expected was outside at any time."""
    d, mean, bound = kind(np.random.default_rng(7))
    n = np.arange(1, EVENTS + 1)
    low, high = made(d.cumsum(axis=1), (d * d).cumsum(axis=1), n, bound, MISS)
    expected = mean.cumsum() / n
    return ((expected < low) | (expected > high)).any(axis=1).mean()


def of_a_fixed_time(total, squares, n, bound, miss):
    """What textbooks give for one time that was chosen before: 1.645 standard errors."""
    assert miss == MISS
    reach = 1.645 * np.sqrt(np.maximum(squares / n - (total / n) ** 2, 1e-12) / n)
    return np.maximum(total / n - reach, -bound), np.minimum(total / n + reach, bound)


@pytest.mark.parametrize("kind", KINDS)
def test_at_no_time_is_it_left_more_often_than_it_says(kind):
    assert missed(kind) <= MISS


@pytest.mark.parametrize("kind", KINDS)
def test_an_interval_for_one_time_does_not_pass_for_one(kind):
    assert missed(kind, of_a_fixed_time) > 3 * MISS


def test_it_narrows_as_the_root_of_the_events_and_says_nothing_at_first():
    assert interval(np.float64(1.0), np.float64(1.0), np.float64(1.0), 1.0, 0.05) == (-1.0, 1.0)
    n = np.array([1e4, 1e6, 1e8])
    low, high = interval(0.0 * n, 0.1 * n, n, 1.0, 0.05)
    best = np.sqrt(2 * np.log(2 / 0.05) * 0.1 / n)  # of one time that was chosen before
    assert (high < 1.6 * best).all()
    assert (low == -high).all()


def test_rates_bound_what_they_have_to():
    """The inequality that all rests on, at every rate, for every difference from the bound on."""
    xi = np.concatenate((np.linspace(-1.0, 3.0, 4001), [50.0]))
    left = paired_comparison._RATES[:, np.newaxis] * xi - paired_comparison._PSI[:, np.newaxis] * xi * xi
    assert (np.exp(left) <= (1.0 + paired_comparison._RATES[:, np.newaxis] * xi) * (1 + 1e-12)).all()
