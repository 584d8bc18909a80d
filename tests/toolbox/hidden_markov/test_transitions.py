"""Counts of a Markov chain: laws of the statistic, and the m-estimate against fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb.errors import SnapshotError
from streamnb.formats import snapshot_container
from streamnb.toolbox.hidden_markov.transitions import Transitions, log_m_estimate

MOVES = st.lists(
    st.tuples(st.none() | st.integers(0, 5), st.integers(0, 5), st.integers(0, 5000)), max_size=30
)


def learned(moves):
    chain = Transitions()
    for move in moves:
        chain.update(*move)
    return chain


def counted(chain):
    pairs = [(i, j) for i in (None, *range(chain.states)) for j in range(chain.states)]
    return {pair: n for pair in pairs if (n := chain.counted(*pair))}


@given(MOVES, st.randoms(use_true_random=False))
def test_order_does_not_matter(moves, rng):
    assert counted(learned(rng.sample(moves, len(moves)))) == counted(learned(moves))


@given(MOVES, MOVES)
def test_a_negative_weight_takes_back(a, b):
    chain = learned(a + b)
    for previous, state, weight in b:
        chain.update(previous, state, -weight)
    assert counted(chain) == counted(learned(a))


@given(MOVES, st.sampled_from([0.0, 0.5, 1.0, 6.0]))
def test_probabilities_are_those_of_the_formula(moves, m):
    chain = learned(moves)
    K = chain.states
    rows = [chain.first.tolist(), *chain.table.tolist()]
    found = [chain.log_initial(m), *chain.log_table(m)]
    for counts, logs in zip(rows, found, strict=True):
        n = Fraction(sum(counts), 1024)
        for count, log in zip(counts, logs.tolist(), strict=True):
            exact = (Fraction(count, 1024) + Fraction(m) / K) / (n + Fraction(m)) if n + m else Fraction(1, K)
            assert np.exp(log) == pytest.approx(float(exact), rel=1e-14)


@pytest.mark.parametrize("m", [0.0, 5e-324, 1e-300, 1.0, 1e300, 1.7e308])
def test_rows_sum_to_one_however_small_or_large_m_is(m):
    counts = np.array([[0, 0, 0], [1, 0, 0], [2**53, 1, 0]])
    chances = np.exp(log_m_estimate(counts, m))
    assert np.allclose(chances.sum(axis=1), 1.0, rtol=0, atol=1e-15)
    assert chances[0] == pytest.approx([1 / 3] * 3)
    assert np.isfinite(chances).all()


def test_p_may_be_given_for_all_rows_or_for_each():
    chain = learned([(0, 1, 1024), (None, 0, 1024)])
    assert np.exp(chain.log_table(1.0, [0.25, 0.75])) == pytest.approx(
        np.array([[0.125, 0.875], [0.25, 0.75]])
    )
    each = [[1.0, 0.0], [0.25, 0.75]]
    assert np.exp(chain.log_table(1.0, each)) == pytest.approx(np.array([[0.5, 0.5], [0.25, 0.75]]))
    assert np.exp(chain.log_initial(0.0, [0.5, 0.5])).tolist() == [1.0, 0.0]


def test_there_may_be_no_states():
    chain = Transitions()
    assert chain.log_initial(1.0).shape == (0,)
    assert chain.log_table(1.0).shape == (0, 0)


@given(MOVES, MOVES)
def test_a_restart_is_no_restart(before, after):
    chain = learned(before)
    written = snapshot_container.Snapshot(
        1, "", {}, "", {}, {"chain": snapshot_container.SnapshotPart(*chain.state())}
    )
    again = Transitions.from_state(
        *snapshot_container.decode(snapshot_container.encode(written)).parts["chain"]
    )
    for move in after:
        chain.update(*move)
        again.update(*move)
    assert counted(again) == counted(chain)
    assert again.states == chain.states


@pytest.mark.parametrize(
    ("meta", "arrays"),
    [
        ({}, {"first": np.zeros(1, np.int64), "table": np.zeros((1, 1), np.int64)}),
        ({"states": 1}, {"first": np.zeros(1, np.int64)}),
        ({"states": 1}, {"first": np.zeros(2, np.int64), "table": np.zeros((1, 1), np.int64)}),
        ({"states": 1}, {"first": np.zeros(1), "table": np.zeros((1, 1), np.int64)}),
        ({"states": 1}, {"first": np.full(1, -1), "table": np.zeros((1, 1), np.int64)}),
        ({"states": 1}, {"first": np.zeros(1, np.int64), "table": np.full((1, 1), -1)}),
    ],
)
def test_a_bad_state_is_refused(meta, arrays):
    with pytest.raises(SnapshotError):
        Transitions.from_state(meta, arrays)


def test_memory_is_that_of_the_room():
    chain = Transitions(3)
    assert chain.n_bytes == 8 * (4 + 4 * 4)
    chain.grow(4)
    assert chain.n_bytes == 8 * (4 + 4 * 4)
