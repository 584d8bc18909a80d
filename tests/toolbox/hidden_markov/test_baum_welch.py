"""Hidden states by EM: expected counts against enumeration, what was learned against the truth."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb import HiddenMarkovModel, OnlineBaumWelch
from streamnb.errors import SnapshotError
from streamnb.toolbox.hidden_markov.expected_counts import expect
from streamnb.toolbox.hidden_markov.forward_backward import ChainTables, as_logs, filter_forward
from tests.oracles import hidden_markov_oracle as oracle
from tests.support.states import digest, through_a_snapshot

STAYS = (
    [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.05, 0.15, 0.8]],
    [[0.5, 0.2, 0.1, 0.1, 0.1], [0.1, 0.5, 0.2, 0.1, 0.1], [0.1, 0.1, 0.1, 0.3, 0.4]],
)
TURNS = (
    [[0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.8, 0.1, 0.1]],
    [[0.8, 0.1, 0.1, 0.0], [0.1, 0.8, 0.05, 0.05], [0.1, 0.1, 0.4, 0.4]],
)
TWO = ([[0.95, 0.05], [0.1, 0.9]], [[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]])


def simulated(truth, n, seed):
    """Symbols by number, as Python integers."""
    table, emission = (np.cumsum(rows, axis=1) for rows in truth)
    rng = np.random.default_rng(seed)
    state, told = 0, []
    for u, v in rng.random((n, 2)):
        state = min(int(np.searchsorted(table[state], u)), len(table) - 1)
        told.append(min(int(np.searchsorted(emission[state], v)), emission.shape[1] - 1))
    return told


def truth_of(truth):
    K = len(truth[0])
    return HiddenMarkovModel(
        dict.fromkeys(range(K), 1 / K),
        {k: dict(enumerate(row)) for k, row in enumerate(truth[0])},
        {k: dict(enumerate(row)) for k, row in enumerate(truth[1])},
    )


class Expected(NamedTuple):
    first: Any
    pairs: Any
    emitted: Any
    log_evidence: float


def expected_counts(codes, begins, chain, log_rows):
    """What the kernels say of events that are all at hand."""
    symbols, K = codes.copy(), chain.log_initial.size
    filtered, is_log, work = np.empty((codes.size, K)), np.empty(codes.size, dtype=bool), np.empty((5, K))
    entry, rows = np.zeros(K), np.exp(log_rows)
    out = filtered, is_log, work
    evidence = filter_forward(symbols, begins, log_rows, rows, chain, entry, False, out)
    counts = np.zeros(K), np.zeros((K, K)), np.zeros(log_rows.shape)
    logs = as_logs(filtered, is_log)
    expect((symbols, begins, codes), codes.size, log_rows, chain, entry, logs, work, counts)
    return Expected(*counts, evidence)


# -- expected -------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    oracle.models().flatmap(
        lambda model: st.tuples(
            st.just(model),
            st.lists(
                st.lists(st.none() | st.integers(0, len(model[2][0]) - 1), min_size=1, max_size=5),
                min_size=1,
                max_size=3,
            ),
        )
    )
)
def test_expected_counts_are_sums_over_every_path(example):
    (initial, transition, emission), sequences = example
    K, V = len(initial), len(emission[0])
    first, pairs, emitted = [Fraction()] * K, np.full((K, K), Fraction()), np.full((V, K), Fraction())
    evidence = Fraction(1)
    for told in sequences:
        paths = oracle.joints(
            initial, transition, emission, oracle.possible(initial, transition, emission, told)
        )
        total = sum(paths.values())
        evidence *= sum(oracle.joints(initial, transition, emission, told).values())
        for path, joint in paths.items():
            share = joint / total
            first[path[0]] += share
            for i, j in pairwise(path):
                pairs[i, j] += share
            for x, state in zip(told, path, strict=True):
                if x is not None:
                    emitted[x, state] += share
    codes = np.array([-1 if x is None else x for told in sequences for x in told])
    begins = np.array([t == 0 for told in sequences for t in range(len(told))])
    with np.errstate(divide="ignore"):
        chain = ChainTables.from_logs(np.log(np.array(initial, float)), np.log(np.array(transition, float)))
        log_rows = np.ascontiguousarray(np.log(np.array(emission, float)).T)
    found = expected_counts(codes, begins, chain, log_rows)
    assert found.first == pytest.approx(np.array(first, float), rel=1e-12, abs=0)
    assert found.pairs == pytest.approx(pairs.astype(float), rel=1e-12, abs=0)
    assert found.emitted == pytest.approx(emitted.astype(float), rel=1e-12, abs=0)
    assert math.exp(found.log_evidence) == pytest.approx(float(evidence), rel=1e-11, abs=0)


def test_expected_counts_of_what_is_below_normal_doubles_keep_their_digits():
    """Two transitions of 1e-160 and 1.7 times that, each to a state that emits what comes with 1e-160."""
    step, table = 1.234567890123e-160, np.eye(5)
    table[0, 2], table[1, 3] = step, 1.7 * step
    emission = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, step], [1.0, step], [0.0, 1.0]])
    with np.errstate(divide="ignore"):
        chain = ChainTables.from_logs(np.log([0.5, 0.5, 0.0, 0.0, 0.0]), np.log(table))
        log_rows = np.ascontiguousarray(np.log(emission).T)
    found = expected_counts(np.array([0, 1]), np.array([True, False]), chain, log_rows)
    expected = np.zeros((5, 5))
    expected[0, 2], expected[1, 3] = 1 / 2.7, 1.7 / 2.7
    assert found.pairs == pytest.approx(expected, rel=1e-12, abs=0)
    assert found.first == pytest.approx(expected.sum(axis=1), rel=1e-12, abs=0)
    assert found.emitted == pytest.approx(
        np.stack([expected.sum(axis=1), expected.sum(axis=0)]), rel=1e-12, abs=0
    )


@pytest.mark.parametrize("truth", [STAYS, TURNS, TWO], ids=["stays", "turns", "two"])
def test_it_comes_close_to_the_truth_on_what_it_has_not_seen(truth):
    """Nats an event on 4,000 held-out events, after 20,000; the truth is no lower bound of a finite sample."""
    told, held = simulated(truth, 20_000, seed=1), simulated(truth, 4000, seed=2)
    best = truth_of(truth).log_evidence(held) / len(held)
    online = OnlineBaumWelch(len(truth[0]))
    online.learn_many(told)
    once = online.model().log_evidence(held) / len(held)
    without_states = OnlineBaumWelch(1)
    without_states.learn_many(told)
    assert best - once < 0.006
    assert best - without_states.model().log_evidence(held) / len(held) > 0.02  # what there is to learn


def test_online_em_finds_the_parameters_up_to_a_permutation():
    online = OnlineBaumWelch(2)
    online.learn_many(simulated(TWO, 20_000, seed=3))
    model = online.model()
    emission = model.emission_probabilities()
    order = sorted(model.states, key=lambda state: emission[state][2])
    for own, state in enumerate(order):
        assert [emission[state][x] for x in range(3)] == pytest.approx(TWO[1][own], abs=0.04)
        stay = model.transition_probabilities()[state][state]
        assert stay == pytest.approx(TWO[0][own][own], abs=0.03)


# -- online -----------------------------------------------------------------------------------------------------

EVENTS = st.lists(st.sampled_from(["a", "b", "c", 4, None]), max_size=60)


def learned(events, **parameters):
    model = OnlineBaumWelch(2, starts=2, block=4, lag=3, **parameters)
    model.learn_many(events)
    return model


@given(EVENTS, st.lists(st.integers(0, 60), max_size=4), st.sampled_from([0.0, 1.0]))
def test_how_events_are_cut_into_calls_is_unobservable(events, cuts, m):
    model = OnlineBaumWelch(2, starts=2, block=4, lag=3, m=m)
    edges = sorted({0, len(events), *(cut for cut in cuts if cut < len(events))})
    for first, stop in pairwise(edges):
        model.learn_many(events[first:stop])
    assert digest(model) == digest(learned(events, m=m))


@given(EVENTS, EVENTS)
def test_a_restart_is_no_restart_to_the_bit(before, after):
    model = learned(before)
    part = through_a_snapshot(model)
    again = OnlineBaumWelch(2, starts=2, block=4, lag=3).load_state(*part)
    for here in (model, again):
        here.begin()
        here.learn_many(after)
    assert digest(again) == digest(model)
    assert again.probabilities == model.probabilities
    assert again.model().emission_probabilities() == model.model().emission_probabilities()


@given(EVENTS, st.sampled_from([0.0, 0.5, 1e300]), st.sampled_from([0.51, 1.0]))
def test_probabilities_sum_to_one_on_anything(events, m, power):
    model = learned(events, m=m, power=power)
    for row in (model.probabilities, model.model().initial_probabilities()):
        assert math.fsum(row.values()) == pytest.approx(1.0)
    found = model.model()
    for rows in (found.transition_probabilities(), found.emission_probabilities()):
        assert all(math.fsum(row.values()) == pytest.approx(1.0) for row in rows.values() if row)
    assert model.log_evidence <= 0.0
    assert model.n_events == len(events)
    assert set(found.symbols) == {x for x in events if x is not None}


@given(EVENTS.filter(lambda events: any(x is not None for x in events)), st.integers(0, 5))
def test_plain_sums_of_one_block_are_the_expected_counts(events, seed):
    """power = 1 fades nothing: after one block the counts are the start and what `expected_counts` says."""
    model = OnlineBaumWelch(2, starts=1, power=1.0, block=len(events) + 1, lag=0, seed=seed)
    model.learn_many(events)
    symbols = model.symbols
    before = model.model()
    start = {name: array.copy() for name, array in model.state()[1].items()}
    model.learn_one(None)
    codes = np.array([-1 if x is None else symbols.index(x) for x in [*events, None]])
    tables = before.tables
    begins = np.arange(codes.size) == 0
    expected = expected_counts(codes, begins, tables.derived().chain, tables.log_rows(tables.codes(symbols)))
    arrays = model.state()[1]
    assert arrays["first"][0] == pytest.approx(expected.first, rel=1e-9)
    assert arrays["pairs"][0] == pytest.approx(start["pairs"][0] + expected.pairs, rel=1e-9)
    assert arrays["emitted"][:, 0] * arrays["scale"][0] == pytest.approx(
        start["emitted"][:, 0] + expected.emitted, rel=1e-9
    )
    assert arrays["totals"][0] == pytest.approx((arrays["emitted"][:, 0] * arrays["scale"][0]).sum(axis=0))


def test_each_block_has_its_share_of_the_counts():
    """gamma_b = (b + 1)^-power: what faded, and what a block brings, weigh 1 - gamma_b and gamma_b."""
    power, block = 0.75, 10
    model = OnlineBaumWelch(1, starts=1, power=power, block=block, lag=0)
    counted = model.state()[1]["pairs"].sum()
    for b in range(1, 300):
        model.learn_many(["x"] * block)
        gamma, before = (b + 1) ** -power, b**-power
        counted = counted * before * (1 / gamma - 1) + block - (b == 1)  # the first event follows none
        assert model.state()[1]["pairs"].sum() == pytest.approx(counted, rel=1e-12)
    assert block / counted == pytest.approx(gamma, rel=0.01)


def test_counts_that_have_faded_are_rewritten_before_they_underflow():
    model = OnlineBaumWelch(2, starts=2, power=0.51, block=1, lag=0)
    told = simulated(TWO, 40_000, seed=4)
    model.learn_many(told)
    arrays = model.state()[1]
    assert 1e-100 <= arrays["scale"][0] <= 1.0
    emitted = (arrays["emitted"] * arrays["scale"][0]).sum(axis=0)
    assert emitted == pytest.approx(arrays["totals"], rel=1e-9)
    assert 0.4 * 40_000**0.51 < emitted[0].sum() < 4 * 40_000**0.51


def test_sequences_begin_where_they_are_said_to():
    """Each begins with a; what begins is learned, and what follows the end of one is no transition."""
    model = OnlineBaumWelch(2)
    for _ in range(300):
        model.begin()
        model.learn_many("abbb")
    found = model.model()
    first = found.initial_probabilities()
    at = max(first, key=first.get)
    emission = found.emission_probabilities()
    assert first[at] > 0.95
    assert emission[at]["a"] > 0.9
    assert emission[1 - at]["b"] > 0.98
    assert found.transition_probabilities()[1 - at][1 - at] > 0.95
    assert found.viterbi("abbb").states == [at] + [1 - at] * 3


def test_log_evidence_is_that_of_each_event_by_the_best_model_before_it():
    model, told = OnlineBaumWelch(3, starts=4, block=8, lag=8), simulated(TURNS, 700, seed=5)
    model.learn_many(told[:500])
    for x in told[500:]:
        before, now = model.log_evidence, list(model.probabilities.values())
        found = model.model()
        table = [list(row.values()) for row in found.transition_probabilities().values()]
        emits = [row[x] for row in found.emission_probabilities().values()]
        model.learn_one(x)
        expected = math.log(np.array(now) @ np.array(table) @ np.array(emits))
        assert model.log_evidence - before == pytest.approx(expected, abs=1e-9)


def test_the_best_of_several_starts_is_no_worse_than_any():
    told = simulated(TURNS, 6000, seed=6)
    model = OnlineBaumWelch(3, starts=4)
    model.learn_many(told)
    recent = model.state()[1]["recent"]
    assert model.best == int(np.argmax(recent))
    assert recent.max() - recent.min() > 20.0  # they are not all alike


def test_a_million_events_stay_sound():
    """Twenty thousand, fifty times over."""
    told = simulated(TWO, 20_000, seed=7)
    model = OnlineBaumWelch(2, starts=1, seed=1)
    for _ in range(50):
        model.learn_many(told)
    assert model.n_events == 1_000_000
    assert model.log_evidence / 1e6 == pytest.approx(truth_of(TWO).log_evidence(told) / 20_000, abs=0.005)


@pytest.mark.parametrize(
    "parameters",
    [
        {"states": 0},
        {"starts": 0},
        {"power": 0.5},
        {"power": 1.1},
        {"power": math.nan},
        {"block": 0},
        {"lag": -1},
        {"m": -1.0},
        {"m": math.inf},
        {"seed": -1},
    ],
)
def test_parameters_out_of_range_are_refused(parameters):
    with pytest.raises(ValueError, match=r"must be"):
        OnlineBaumWelch(**parameters)


def test_a_bad_symbol_is_refused_and_changes_nothing():
    model = learned(["a", "b"])
    before = digest(model)
    with pytest.raises(TypeError):
        model.learn_many(["c", []])
    assert digest(model) == before


def test_an_impossible_event_leaves_a_state_that_can_be_loaded():
    def new():
        return OnlineBaumWelch(m=0, block=1, lag=0, power=0.51, starts=1)

    model = new()
    for x in ("a", "b" * 400_000, "a", "bb"):
        model.learn_many(x)
    assert model.log_evidence == -math.inf
    assert (
        new().load_state(*model.state()).state()[1]["evidence"].tolist()
        == model.state()[1]["evidence"].tolist()
    )


def test_a_state_of_another_model_is_refused_and_changes_nothing():
    model = learned(["a", "b"] * 10)
    meta, arrays = model.state()
    before = digest(model)
    for bad_meta, bad_arrays in [
        ({**meta, "power": 0.9}, arrays),
        ({**meta, "symbols": ["a"]}, arrays),
        ({**meta, "symbols": ["a", "a"]}, arrays),
        ({**meta, "begins": 0}, arrays),
        (meta, {**arrays, "pairs": -arrays["pairs"]}),
        (meta, {**arrays, "log_now": arrays["log_now"] + 1.0}),
        (meta, {**arrays, "held": arrays["held"] + 7}),
        (meta, {**arrays, "numbers": arrays["numbers"] + 100}),
        (meta, {**arrays, "recent": arrays["recent"] * np.nan}),
        (meta, {**arrays, "first": arrays["first"][:1]}),
        (meta, {"first": arrays["first"]}),
    ]:
        with pytest.raises(SnapshotError):
            model.load_state(bad_meta, bad_arrays)
    assert digest(model) == before
