"""Hidden Markov models with known states: laws of the counts, and inference against every path there is."""

from __future__ import annotations

import math
import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb import HiddenMarkovModel
from streamnb.errors import SnapshotError, UnlearnError
from streamnb.formats import snapshot_container
from streamnb.toolbox.hidden_markov.emissions import Emissions
from tests.oracles import hidden_markov_oracle as oracle
from tests.support.states import through_a_snapshot

STATES, SYMBOLS = "XYZ", "abcd"
SEQUENCES = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from([*SYMBOLS, None]), st.sampled_from([*STATES, None])), max_size=6),
        st.sampled_from([0.0, 0.25, 1.0, 3.0]),
    ),
    max_size=6,
)


def split(pairs):
    return [x for x, _ in pairs], [s for _, s in pairs]


def learned(sequences, **parameters):
    model = HiddenMarkovModel(**parameters)
    for pairs, w in sequences:
        model.learn_one(*split(pairs), w)
    return model


def stated(initial, transition, emission):
    """A model of which all is stated; states and symbols are their numbers."""
    return HiddenMarkovModel(
        {k: float(p) for k, p in enumerate(initial)},
        {k: {j: float(p) for j, p in enumerate(row)} for k, row in enumerate(transition)},
        {k: {v: float(p) for v, p in enumerate(row)} for k, row in enumerate(emission)},
    )


def counts(model):
    """All counts above zero, by name."""
    meta, tables = model.tables.state()
    names, symbols = meta["states"], meta["symbols"]
    return (
        {names[i]: n for i, n in enumerate(tables["first"].tolist()) if n},
        {
            (names[i], names[j]): n
            for i, row in enumerate(tables["next"].tolist())
            for j, n in enumerate(row)
            if n
        },
        {
            (symbols[v], names[k]): n
            for v, row in enumerate(tables["seen"].tolist())
            for k, n in enumerate(row)
            if n
        },
    )


# -- counts -----------------------------------------------------------------------------------------------


@given(SEQUENCES)
def test_counts_are_those_of_dictionaries(sequences):
    first, following, seen = Counter(), Counter(), Counter()
    for pairs, w in sequences:
        states = [s for _, s in pairs]
        if states and states[0] is not None:
            first[states[0]] += int(1024 * w)
        for pair in pairwise(states):
            if None not in pair:
                following[pair] += int(1024 * w)
        for pair in pairs:
            if None not in pair:
                seen[pair] += int(1024 * w)
    expected = tuple({key: n for key, n in found.items() if n} for found in (first, following, seen))
    assert counts(learned(sequences)) == expected


@given(SEQUENCES, SEQUENCES, st.sampled_from([0.0, 1.0]))
def test_what_is_unlearned_was_never_learned(a, b, m):
    model = learned(a + b, m=m, emission_m=m)
    for pairs, w in b:
        model.unlearn_one(*split(pairs), w)
    never = learned(a, m=m, emission_m=m)
    assert counts(model) == counts(never)
    assert sorted(model.states) == sorted(never.states)
    assert sorted(model.symbols) == sorted(never.symbols)
    assert model.log_evidence("abcdd") == pytest.approx(never.log_evidence("abcdd"), rel=1e-12)
    rows = never.transition_probabilities()
    for state, row in model.transition_probabilities().items():
        assert row == pytest.approx(rows[state])


@given(SEQUENCES, st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("XY")), min_size=1, max_size=4))
def test_what_was_never_learned_cannot_be_unlearned_and_nothing_changes(sequences, pairs):
    model = learned(sequences)
    before = counts(model)
    with pytest.raises(UnlearnError):
        model.unlearn_one(*split(pairs), 1000.0)
    with pytest.raises(UnlearnError):
        model.unlearn_one(["new"], ["X"])
    with pytest.raises(UnlearnError):
        model.unlearn_one(["a"], ["new"])
    assert counts(model) == before


@given(SEQUENCES)
def test_event_by_event_is_the_whole_sequence(sequences):
    one_by_one = HiddenMarkovModel()
    for pairs, w in sequences:
        running = one_by_one.begin()
        for x, state in pairs:
            running.learn_one(x, state, w)
    assert counts(one_by_one) == counts(learned(sequences))


def test_sequences_may_run_side_by_side():
    model, apart = HiddenMarkovModel(), HiddenMarkovModel()
    one, other = model.begin(), model.begin()
    for x, state in [("a", "X"), ("b", "Y"), ("b", "X")]:
        one.learn_one(x, state)
        other.learn_one(x, "Z")
    apart.learn_one("abb", "XYX")
    apart.learn_one("abb", "ZZZ")
    assert counts(model) == counts(apart)


@given(SEQUENCES, SEQUENCES)
def test_a_restart_is_no_restart(a, b):
    model = learned(a)
    again = HiddenMarkovModel().load_state(*through_a_snapshot(model))
    for pairs, w in b:
        model.learn_one(*split(pairs), w)
        again.learn_one(*split(pairs), w)
    assert counts(again) == counts(model)
    assert again.states == model.states
    assert again.smooth("abcd").tolist() == model.smooth("abcd").tolist()


def test_a_state_of_something_else_is_refused_and_changes_nothing():
    model = learned([([("a", "X"), ("b", "Y")], 1.0)])
    meta, arrays = model.state()
    before = counts(model)
    for bad_meta, bad_arrays in [
        ({**meta, "type": "NaiveBayes"}, arrays),
        ({**meta, "states": ["X", "X"]}, arrays),
        ({**meta, "states": ["X"]}, arrays),
        ({**meta, "symbols": ["a", None]}, arrays),
        ({**meta, "symbols": ["a", "b", "c"]}, arrays),
        (meta, {**arrays, "next": arrays["next"].astype(float)}),
        (meta, {**arrays, "next": -arrays["next"]}),
        (meta, {"first": arrays["first"]}),
    ]:
        with pytest.raises(SnapshotError):
            model.load_state(bad_meta, bad_arrays)
    assert counts(model) == before
    with pytest.raises(TypeError, match="cannot be saved"):
        learned([([(("a", 1), "X")], 1.0)]).state()


def test_nothing_is_taken_back_where_the_states_were_learned_but_not_with_these_symbols():
    model = learned([([("a", "X"), ("b", "Y")], 1.0)])
    before = counts(model)
    with pytest.raises(UnlearnError):
        model.unlearn_one("ba", "XY")
    assert counts(model) == before


def test_what_cannot_be_hashed_is_refused_and_changes_nothing():
    model = learned([([("a", "X"), ("b", "Y")], 1.0)])
    before = model.state()
    for observations, states in [(["c", []], ["Z", "Z"]), (["c", "c"], ["Z", {}])]:
        with pytest.raises(TypeError):
            model.learn_one(observations, states)
    assert model.state()[0] == before[0]
    assert snapshot_container.part_digest(*model.state()) == snapshot_container.part_digest(*before)


def test_emissions_alone_know_which_symbols_live_and_refuse_states_that_are_none():
    emissions = Emissions(declared=1)
    emissions.update(2, 1, 1024)
    assert (emissions.live, emissions.is_live(0), emissions.is_live(1), emissions.is_live(2)) == (
        2,
        True,
        False,
        True,
    )
    assert [emissions.counted(*place) for place in [(2, 1), (2, 0), (9, 9)]] == [1024, 0, 0]
    emissions.update(2, 1, -1024)
    assert (emissions.live, emissions.table.any(), emissions.totals.any()) == (1, False, False)
    meta = {"symbols": emissions.symbols, "states": emissions.states, "declared": emissions.declared}
    arrays = {"table": emissions.table.copy()}
    for bad_meta, bad_arrays in [
        ({**meta, "declared": 9}, arrays),
        ({**meta, "symbols": 1}, arrays),
        ({**meta, "states": None}, arrays),
        (meta, {}),
        (meta, {"table": arrays["table"] - 1}),
    ]:
        with pytest.raises(SnapshotError):
            Emissions.from_state(bad_meta, bad_arrays)


# -- probabilities of the formula ---------------------------------------------------------------------------


@given(SEQUENCES, st.sampled_from([0.0, 0.5, 3.0]))
def test_probabilities_are_m_estimates_and_sum_to_one(sequences, m):
    model = learned(sequences, m=m, emission_m=m)
    first, following, seen = counts(model)
    states, symbols = model.states, model.symbols

    def estimate(n_c, n, k):
        return (n_c / 1024 + m / k) / (n / 1024 + m) if n + m else 1 / k

    n = sum(first.values())
    for state, p in model.initial_probabilities().items():
        assert p == pytest.approx(estimate(first.get(state, 0), n, len(states)), rel=1e-13)
    for state, row in model.transition_probabilities().items():
        n = sum(count for (before, _), count in following.items() if before == state)
        for after, p in row.items():
            assert p == pytest.approx(estimate(following.get((state, after), 0), n, len(states)), rel=1e-13)
    for state, row in model.emission_probabilities().items():
        n = sum(count for (_, of), count in seen.items() if of == state)
        for symbol, p in row.items():
            assert p == pytest.approx(estimate(seen.get((symbol, state), 0), n, len(symbols)), rel=1e-13)


def test_what_is_stated_counts_as_m_examples():
    emission = {"X": {"a": 0.9, "b": 0.1}, "Y": {"b": 1.0}}
    model = HiddenMarkovModel(initial={"X": 0.25, "Y": 0.75}, emission=emission, m=4.0, emission_m=10.0)
    model.learn_one("ac", "XZ")
    # c and Z are new: what was stated has nothing for them, and what Z emits is uniform over a, b and c
    assert model.initial_probabilities() == pytest.approx({"X": 2 / 5, "Y": 3 / 5, "Z": 0.0})
    found = model.emission_probabilities()
    assert found["X"] == pytest.approx({"a": 10 / 11, "b": 1 / 11, "c": 0.0})
    assert found["Y"] == pytest.approx({"a": 0.0, "b": 1.0, "c": 0.0})
    assert found["Z"] == pytest.approx({"a": 10 / 33, "b": 10 / 33, "c": (1 + 10 / 3) / 11})


def test_stated_probabilities_are_rid_of_what_their_rounding_leaves():
    third = {"a": 0.3333333334, "b": 0.3333333334, "c": 0.3333333334}
    model = HiddenMarkovModel({"X": 1.0}, {"X": {"X": 1.0}}, {"X": third})
    assert model.emission_probabilities()["X"] == pytest.approx(dict.fromkeys("abc", 1 / 3), rel=1e-15)


@pytest.mark.parametrize(
    "parameters",
    [
        {"m": -1.0},
        {"m": math.nan},
        {"emission_m": math.inf},
        {"initial": {"X": 0.5}},
        {"transition": {"X": {"X": 1.5, "Y": -0.5}}},
        {"emission": {"X": {"a": math.nan}}},
        {"emission": {"X": {None: 1.0}}},
    ],
)
def test_parameters_out_of_range_are_refused(parameters):
    with pytest.raises(ValueError, match=r"must be|cannot be names"):
        HiddenMarkovModel(**parameters)


def test_as_many_states_as_observations():
    model = HiddenMarkovModel()
    with pytest.raises(ValueError, match="2 observations, but 1 states"):
        model.learn_one("ab", "X")
    with pytest.raises(ValueError, match="weight"):
        model.learn_one("a", "X", -1.0)
    assert model.states == []


# -- inference ------------------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(oracle.models_and_sequences())
def test_evidence_filter_and_smoother_are_sums_over_every_path(example):
    truth, observations = example
    model = stated(*truth)
    K, n = len(truth[0]), len(observations)
    kept = oracle.possible(*truth, observations)
    paths = oracle.joints(*truth, kept) if n else {}
    filtered, smoothed = model.filter(observations), model.smooth(observations)
    assert filtered.shape == smoothed.shape == (n, K)
    for t in range(n):
        upto = oracle.marginal(oracle.joints(*truth, kept[: t + 1]), t, K)
        assert filtered[t] == pytest.approx([float(p) for p in upto], rel=1e-12, abs=0.0)
        assert smoothed[t] == pytest.approx(
            [float(p) for p in oracle.marginal(paths, t, K)], rel=1e-12, abs=0
        )
    if kept != observations:
        assert model.log_evidence(observations) == -math.inf
    elif n:
        assert math.exp(model.log_evidence(observations)) == pytest.approx(
            float(sum(paths.values())), rel=1e-12
        )


@settings(max_examples=150)
@given(oracle.models_and_sequences())
def test_viterbi_is_the_maximum_over_every_path(example):
    truth, observations = example
    model = stated(*truth)
    states, log_probability = model.viterbi(observations)
    if not observations:
        assert (states, log_probability) == ([], 0.0)
        return
    kept = oracle.possible(*truth, observations)
    paths = oracle.joints(*truth, kept)
    best = max(paths.values())
    assert float(paths[tuple(states)]) == pytest.approx(float(best), rel=1e-12)
    if kept == observations:
        assert math.exp(log_probability) == pytest.approx(float(best), rel=1e-12)
        assert model.log_joint(observations, states) == pytest.approx(log_probability, rel=1e-12)
    else:
        assert log_probability == -math.inf


@given(oracle.models_and_sequences())
def test_event_by_event_filters_as_the_whole_sequence_does(example):
    truth, observations = example
    model = stated(*truth)
    running = model.begin()
    told = [running.observe(x) for x in observations]
    filtered = model.filter(observations)
    assert [list(found.values()) for found in told] == filtered.tolist()
    assert running.log_evidence == pytest.approx(model.log_evidence(observations), rel=1e-12)
    assert running.events == len(observations)


@given(oracle.models_and_sequences())
def test_what_comes_next_is_what_the_longer_sequence_says(example):
    truth, observations = example
    model = stated(*truth)
    running = model.begin()
    for x in observations:
        running.observe(x)
    expected = model.filter([*observations, None])[-1]
    assert list(running.next_state().values()) == pytest.approx(expected.tolist(), rel=1e-12)
    following = running.next_observation()
    assert math.fsum(following.values()) == pytest.approx(1.0, rel=1e-12)
    for x, p in following.items():
        by_paths = [
            sum(oracle.joints(*truth, [*oracle.possible(*truth, observations), y]).values())
            for y in (x, None)
        ]
        assert p == pytest.approx(float(by_paths[0] / by_paths[1]), rel=1e-12)


def test_log_joint_of_every_path_sums_to_the_evidence_of_a_learned_model():
    model = learned([([("a", "X"), ("b", "Y"), ("b", "X")], 1.0), ([("b", "Y"), ("a", "Y")], 2.0)])
    paths = [(i, j, k) for i in "XY" for j in "XY" for k in "XY"]
    total = math.fsum(math.exp(model.log_joint("aba", path)) for path in paths)
    assert math.exp(model.log_evidence("aba")) == pytest.approx(total, rel=1e-13)
    assert model.log_joint("ab", "XQ") == -math.inf
    assert model.log_joint("", "") == 0.0


def test_ties_go_to_what_was_met_first():
    states = ["late", "early"]
    model = HiddenMarkovModel(
        initial=dict.fromkeys(states, 0.5),
        transition={state: dict.fromkeys(states, 0.5) for state in states},
        emission={state: {"a": 0.5, "b": 0.5} for state in states},
    )
    assert model.viterbi("abab") == (["late"] * 4, pytest.approx(8 * math.log(0.5)))


# -- edges ------------------------------------------------------------------------------------------------------


def test_a_model_that_has_learned_nothing():
    model = HiddenMarkovModel()
    assert model.filter("ab").shape == model.smooth("ab").shape == (2, 0)
    assert model.viterbi("ab") == ([], 0.0)
    assert model.log_evidence("ab") == 0.0
    running = model.begin()
    assert running.observe("a") == running.next_state() == running.next_observation() == {}
    assert (model.initial_probabilities(), model.transition_probabilities()) == ({}, {})
    model.learn_one("", "")
    model.learn_one("a", "X", 0.0)
    model.learn_one([None, math.nan], [None, math.nan])
    assert model.states == []
    model.unlearn_one("", "")


def test_one_example():
    model = learned([([("a", "X")], 1.0)], m=0.0, emission_m=0.0)
    assert model.filter("aa").tolist() == [[1.0], [1.0]]
    assert model.log_evidence("aa") == 0.0
    assert model.viterbi("aa") == (["X", "X"], 0.0)


def test_new_and_missing_observations_drop_their_factor():
    model = learned([([("a", "X"), ("b", "Y"), ("a", "Y")], 1.0)])
    expected = model.smooth(["a", None, "b"])
    for x in ("new", math.nan, ("any", "hashable"), 17):
        assert model.smooth(["a", x, "b"]).tolist() == expected.tolist()
        assert model.log_evidence(["a", x, "b"]) == model.log_evidence(["a", None, "b"])
        assert model.viterbi(["a", x, "b"]) == model.viterbi(["a", None, "b"])


def test_an_impossible_observation_is_missing_from_then_on_and_the_evidence_is_nothing():
    model = stated([1.0, 0.0], [[0.5, 0.5], [0.5, 0.5]], [[1.0, 0.0], [0.5, 0.5]])
    running = model.begin()
    assert running.observe(1) == {0: 1.0, 1: 0.0}
    assert running.log_evidence == -math.inf
    assert running.observe(1) == {0: 0.0, 1: 1.0}
    assert running.log_evidence == -math.inf
    assert model.begin().load_state(*through_a_snapshot(running)).log_evidence == -math.inf


def test_what_is_almost_impossible_is_not_impossible():
    """A state of probability 1e-900, which underflows, is the only one that explains what comes at last."""
    tiny = 1e-300
    model = stated(
        [1.0 - tiny, tiny], [[1.0, 0.0], [0.0, 1.0]], [[1.0 - tiny, tiny, 0.0], [tiny, 1.0 - 2 * tiny, tiny]]
    )
    observations = [0, 0, 2, None, 1]
    assert model.log_evidence(observations) == pytest.approx(4 * math.log(tiny), rel=1e-12)
    assert model.smooth(observations).tolist() == [[0.0, 1.0]] * 5
    assert model.viterbi(observations) == ([1] * 5, pytest.approx(4 * math.log(tiny), rel=1e-12))


def test_what_is_below_normal_doubles_loses_no_digits():
    """Two steps of 1e-160 each: their product has three digits as a double, and all of them as a logarithm."""
    step = 1.234567890123e-160
    table = [[1.0, 0.0, 0.0], [0.0, 1.0, step], [0.0, 0.0, 1.0]]
    model = stated([1.0, step, 0.0], table, [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert model.log_evidence([0, 1]) == pytest.approx(2 * math.log(step), rel=1e-15)
    assert model.smooth([0, 1]).tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    # and backwards: two states can go on to what comes, with 1e-320 and 1.7 times that; one that cannot be, with 1
    K = 5
    table, emission = np.eye(K), np.array([[1.0, 0.0]] * K)
    table[0, 2], table[1, 3] = step, 1.7 * step
    emission[2:4] = [[1.0, step]] * 2
    emission[4] = [0.0, 1.0]
    model = stated([0.5, 0.5, 0.0, 0.0, 0.0], table.tolist(), emission.tolist())
    assert model.smooth([0, 1])[0] == pytest.approx([1 / 2.7, 1.7 / 2.7, 0.0, 0.0, 0.0], rel=1e-12)


@pytest.mark.parametrize("n", [100_000])
def test_a_long_sequence_loses_nothing(n):
    """Against logarithms of exact powers: two states that stay, told apart by every event."""
    rng = random.Random(5)
    observations = [int(rng.random() < 0.7) for _ in range(n)]
    ones = sum(observations)
    model = stated([0.5, 0.5], [[1.0, 0.0], [0.0, 1.0]], [[0.3, 0.7], [0.6, 0.4]])
    logs = [
        math.log(0.5) + (n - ones) * math.log(a) + ones * math.log(b) for a, b in ((0.3, 0.7), (0.6, 0.4))
    ]
    expected = max(logs) + math.log1p(math.exp(min(logs) - max(logs)))
    assert model.log_evidence(observations) == pytest.approx(expected, rel=1e-13)
    assert model.viterbi(observations) == ([0] * n, pytest.approx(max(logs), rel=1e-13))
    smoothed, filtered = model.smooth(observations), model.filter(observations)
    for found in (smoothed, filtered):
        assert np.abs(found.sum(axis=1) - 1.0).max() < 1e-14
    assert smoothed[0] == pytest.approx([1.0, math.exp(logs[1] - logs[0])], abs=1e-300)
    running = model.begin()
    for x in observations[:2000]:
        running.observe(x)
    assert list(running.probabilities.values()) == filtered[1999].tolist()


def test_huge_and_tiny_smoothing():
    for m in (1e300, 1.7e308, 1e-300, 5e-324):
        model = learned([([("a", "X"), ("b", "Y")], 1.0)], m=m, emission_m=m)
        for found in (model.filter("abba"), model.smooth("abba")):
            assert np.isfinite(found).all()
            assert found.sum(axis=1) == pytest.approx(1.0)


# -- a running sequence -------------------------------------------------------------------------------------------


def test_a_label_makes_the_state_known():
    model = learned([([("a", "X"), ("b", "Y"), ("a", "X")], 5.0)])
    running = model.begin()
    running.observe("a")
    running.learn_one("b", "X", 0.0)
    assert running.probabilities == {"X": 1.0, "Y": 0.0}
    assert list(running.next_state().values()) == pytest.approx(
        list(model.transition_probabilities()["X"].values())
    )


def test_log_evidence_of_a_running_sequence_with_labels_is_that_of_each_by_those_before():
    model = learned([([("a", "X"), ("b", "Y"), ("b", "X")], 2.0)])
    running = model.begin()
    expected = model.log_evidence("a")
    running.learn_one("a", "Y", 0.0)
    after = model.transition_probabilities()["Y"]
    emits = model.emission_probabilities()
    expected += math.log(sum(p * emits[state]["b"] for state, p in after.items()))
    running.observe("b")
    assert running.log_evidence == pytest.approx(expected, rel=1e-13)


def test_states_may_come_and_go_while_a_sequence_runs():
    model = learned([([("a", "X"), ("b", "Y")], 1.0)])
    running = model.begin()
    running.observe("a")
    model.learn_one("c", "Z")
    assert sum(running.observe("c").values()) == pytest.approx(1.0)
    assert set(running.probabilities) == {"X", "Y", "Z"}
    model.unlearn_one("ab", "XY")
    assert set(running.next_state()) == {"Z"}
    assert running.observe("c") == {"Z": 1.0}
    model.unlearn_one("c", "Z")
    assert running.observe("c") == {}


def test_a_sequence_that_runs_before_anything_is_learned_begins_when_there_is_something():
    model = HiddenMarkovModel(m=0.0)
    running = model.begin()
    running.learn_one("a", "X")
    running.learn_one("b", "Y")
    assert running.probabilities == {"X": 0.0, "Y": 1.0}
    assert counts(model) == ({"X": 1024}, {("X", "Y"): 1024}, {("a", "X"): 1024, ("b", "Y"): 1024})


@given(SEQUENCES, st.lists(st.sampled_from([*SYMBOLS, None]), max_size=5))
def test_a_running_sequence_survives_a_restart(sequences, observations):
    model = learned(sequences)
    running = model.begin()
    for x in observations:
        running.observe(x)
    again = model.begin().load_state(*through_a_snapshot(running))
    for here in (running, again):
        here.learn_one("a", "X", 0.0)
        here.observe("b")
    assert again.probabilities == running.probabilities
    assert (again.log_evidence, again.events) == (running.log_evidence, running.events)


@pytest.mark.parametrize("taught", [[], ["C"], ["C", "D"]])
def test_a_state_that_is_nearly_ruled_out_comes_back_whatever_other_sequences_teach(taught):
    """At 1e-339 only its logarithm is left; a state that is new there is none that it may be in."""
    emission = {"A": {"x": 0.99, "y": 0.01}, "B": {"x": 0.01, "y": 0.99}}
    stays = {"A": {"A": 1.0}, "B": {"B": 1.0}}
    model = HiddenMarkovModel({"A": 0.5, "B": 0.5}, stays, emission, m=1e9, emission_m=1e9)
    running = model.begin()
    for _ in range(170):
        running.observe("x")
    for state in taught:
        model.learn_one(["x"], [state])
        assert running.next_state().keys() >= {state}
    for _ in range(300):
        running.observe("y")
    assert running.probabilities["B"] == pytest.approx(1.0)
    expected = math.log(0.5) + 170 * math.log(0.01) + 300 * math.log(0.99)
    assert running.log_evidence == pytest.approx(expected, rel=1e-6)


def test_a_bad_state_of_a_running_sequence_is_refused():
    model = learned([([("a", "X"), ("b", "Y")], 1.0)])
    running = model.begin()
    running.observe("a")
    meta, arrays = running.state()
    for bad_meta, bad_arrays in [
        ({**meta, "events": -1}, arrays),
        ({**meta, "states": ["X"]}, arrays),
        ({**meta, "known": ["X", "Y"]}, arrays),
        ({**meta, "impossible": None}, arrays),
        ({**meta, "is_log": 1}, arrays),
        (meta, {**arrays, "now": np.zeros(2)}),
        (meta, {**arrays, "log_evidence": np.array([math.nan])}),
        (meta, {}),
    ]:
        with pytest.raises(SnapshotError):
            running.load_state(bad_meta, bad_arrays)
