"""The board ranks models by their costs on common events, and its intervals hold for all pairs together."""

from __future__ import annotations

import math
import tracemalloc
from itertools import combinations

import numpy as np
import pytest

from streamnb.evaluation import leader_board as board_of
from streamnb.evaluation.comparison_tables import verdict
from streamnb.evaluation.event_costs import Costs
from streamnb.evaluation.leader_board import CONFIDENCE, leader_board
from streamnb.scoring.paired_comparison import interval

LABELS = np.array(["a", "b", "a", "c"] * 250, dtype=object)
N = LABELS.size


def costs(loss, right=None, place=None):
    loss = np.asarray(loss, dtype=float)
    place = np.arange(loss.size) if place is None else place
    right = np.ones(loss.size, dtype=np.int64) if right is None else right
    return Costs(place, LABELS[: loss.size], loss, right)


def test_models_come_by_log_loss_with_differences_to_the_leader_and_of_all_pairs():
    rng = np.random.default_rng(1)
    losses = {"far": rng.random(N) + 1.0, "near": rng.random(N), "best": np.full(N, 0.3)}
    right = {name: rng.integers(0, 2, N) for name in losses}
    board = leader_board([*losses], [costs(loss, right[name]) for name, loss in losses.items()])
    assert [one.name for one in board.standings] == ["best", "near", "far"]
    assert [(one.other, one.name) for one in board.pairs] == [*combinations(["best", "near", "far"], 2)]
    for pair in board.pairs:
        each = losses[pair.name] - losses[pair.other]
        miss = (1 - CONFIDENCE) / 6  # of three models: three pairs, two scores each
        found = interval(each.sum(), (each**2).sum(), np.float64(N), 15 * math.log(10), miss)
        told = pair.differences.log_loss
        assert (told.lower, told.upper) == pytest.approx(tuple(map(float, found)), rel=1e-12)
    far = board.standings[2]
    assert far.to_leader == board.pairs[1].differences
    assert far.over_time[N] == far.to_leader
    assert [(label, n) for label, n, _ in far.by_class] == [("a", 500), ("b", 250), ("c", 250)]
    each = (losses["far"] - losses["best"])[LABELS == "b"]
    assert far.by_class[1][2].log_loss.mean == pytest.approx(each.mean(), rel=1e-12)
    assert board.baselines.same_as_before == 0.0


def test_only_common_events_count():
    some = np.flatnonzero(np.arange(40) % 4 != 1)
    whole, part = costs(np.arange(40.0)), costs(np.zeros(some.size), place=some)
    board = leader_board(["whole", "part"], [whole, part])
    assert (board.events, board.by_some_only) == (30, 10)
    assert board.standings[1].log_loss == some.mean()
    assert leader_board(["a", "b"], [costs([]), whole]) is None


def test_a_tie_is_called_a_tie_and_equal_models_are_called_equal():
    rng = np.random.default_rng(2)
    noise, right = rng.normal(0.0, 0.1, N), rng.integers(0, 2, N)
    names = ["a", "b", "c", "d"]
    losses = [0.5 + noise, 0.5 + noise, 0.5001 - noise, 0.5001 - noise]
    board = leader_board(names, [costs(loss, right) for loss in losses])
    assert board.equal == [["a", "b"], ["c", "d"]]
    assert (board.leader.name, set(board.tied)) == ("a", {"b", "c", "d"})
    lines = verdict(board).splitlines()
    assert lines[:2] == ["a and b predict every event equally", "c and d predict every event equally"]
    assert lines[2] == "by log loss: tied so far are a, b, c and d"
    worse = leader_board(["a", "far"], [costs(0.5 + noise, right), costs(np.full(N, 3.0), right)])
    lines = verdict(worse).splitlines()
    assert lines[:2] == ["by log loss: a is better than far", "by accuracy: tied so far are a and far"]


def first_failure(rng, models, events):
    """Whether, at any time, any pair's interval excludes the mean of its expected difference, which is 0."""
    losses = rng.exponential(1.0, (models, events))
    miss = (1 - board_of.CONFIDENCE) / (models * (models - 1))
    n = np.arange(1, events + 1)
    for a, b in combinations(losses, 2):
        each = a - b
        low, high = interval(each.cumsum(), (each * each).cumsum(), n, 8.0, miss)
        if ((low > 0.0) | (high < 0.0)).any():
            return True
    return False


def test_all_pairs_hold_at_once_at_any_time():
    rng = np.random.default_rng(3)
    assert np.mean([first_failure(rng, 5, 400) for _ in range(200)]) <= 1 - CONFIDENCE


def test_a_long_label_takes_its_memory_once():
    """And classes come by events, classes of equally many events by name."""
    long, n = "l" * 1000, 20_000
    labels = np.array(["b", long, "a", 7] * (n // 4), dtype=object)
    one = Costs(np.arange(n), labels, np.ones(n), np.ones(n))
    tracemalloc.start()
    told = leader_board(["x", "y"], [one, one]).standings[1].by_class
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [(label, events) for label, events, _ in told] == [(k, n // 4) for k in ("7", "a", "b", long)]
    assert most < 250 * n
