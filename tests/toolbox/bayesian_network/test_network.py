"""Bayesian networks: every question against a sum over the whole joint table, and the laws of counting."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb import BayesianNetwork, Nominal
from streamnb.errors import SnapshotError, UnlearnError
from streamnb.toolbox.bayesian_network.dag import Dag
from streamnb.toolbox.bayesian_network.factors import Factor, product
from streamnb.toolbox.bayesian_network.variable_elimination import sum_of_products
from tests.oracles.network_oracle import SMOOTHING, Enumerated, networks, structures
from tests.support.states import through_a_snapshot


def taught(parents, events, **parameters):
    network = BayesianNetwork(parents, **parameters)
    for x, w in events:
        network.learn_one(x, float(w))
    return network


def described(network):
    """All that was counted, whatever the order in which values were met."""
    return (
        {name: network.counts(name) for name in network.parents},
        {name: sorted(values) for name, values in network.values.items()},
        network.n_events,
    )


@st.composite
def questions(draw):
    """A network, its smoothing, and which variables are asked for and given."""
    parents, events = draw(networks())
    sides = {name: draw(st.sampled_from(["asked", "given", "left out"])) for name in parents}
    x = draw(st.sampled_from(events))[0]
    asked = [name for name, side in sides.items() if side == "asked"]
    return (
        parents,
        events,
        draw(SMOOTHING),
        asked,
        {n: x[n] for n, side in sides.items() if side == "given" and x[n] is not None},
    )


# -- questions against the whole joint table --------------------------------------------------------------


@given(questions())
@settings(max_examples=100)
def test_marginals_and_conditionals_are_those_of_the_joint_table(question):
    parents, events, smoothing, asked, evidence = question
    network, oracle = taught(parents, events, **smoothing), Enumerated(parents, events, **smoothing)
    exact = oracle.distribution(asked, evidence)
    found = network.marginal(*asked, given=evidence)
    keys = {key[0] if len(asked) == 1 else key: p for key, p in exact.items()}
    assert found == pytest.approx({key: float(p) for key, p in keys.items()}, rel=1e-11, abs=1e-30)
    assert math.fsum(found.values()) == pytest.approx(1.0, abs=1e-12)
    for key, p in exact.items():
        event = dict(zip(asked, key, strict=True))
        assert network.probability(event, given=evidence) == pytest.approx(float(p), rel=1e-11, abs=1e-30)


@given(questions())
@settings(max_examples=100)
def test_the_most_probable_values_are_those_of_the_joint_table(question):
    parents, events, smoothing, asked, evidence = question
    network, oracle = taught(parents, events, **smoothing), Enumerated(parents, events, **smoothing)
    names = asked or [name for name in parents if name not in evidence]
    exact = oracle.distribution(names, evidence)
    found = network.most_probable(*asked, given=evidence)
    assert list(found.values) == names
    assert found.probability == pytest.approx(float(max(exact.values())), rel=1e-11)
    assert float(exact[tuple(found.values.values())]) == pytest.approx(found.probability, rel=1e-11)


@given(networks())
@settings(max_examples=60)
def test_the_evidence_of_an_event_is_its_sum_over_what_is_missing(case):
    parents, events = case
    network, oracle = taught(parents, events), Enumerated(parents, events)
    for x, _ in events:
        seen = {name: value for name, value in x.items() if value is not None}
        exact = oracle.probability(seen)
        assert network.log_evidence(x) == pytest.approx(math.log(exact), rel=1e-11, abs=1e-12)
        unknown = {name: x[name] or "never met" for name in parents} | {"no variable": "x"}
        assert network.log_evidence(unknown) == network.log_evidence(x)
    total = network.log_likelihood(x for x, _ in events)
    assert total == pytest.approx(math.fsum(network.log_evidence(x) for x, _ in events))


@given(networks())
@settings(max_examples=60)
def test_the_tables_and_the_joint_are_the_formula(case):
    parents, events = case
    network, oracle = taught(parents, events, m=2), Enumerated(parents, events, m=2)
    for name, above in parents.items():
        for key, row in network.table(name).items():
            assert len(key) == len(above)
            assert row == pytest.approx({v: float(oracle.share(name, key, v)) for v in oracle.values[name]})
    table = network.joint()
    assert list(table.variables) == list(parents)
    for x, p in oracle.worlds({}):
        assert table.probability(x) == pytest.approx(float(p), rel=1e-11)


@given(structures(), st.data())
@settings(max_examples=60)
def test_what_arrows_separate_is_independent_and_what_they_do_not_is_not(parents, data):
    """For numbers drawn at random a dependence that arrows allow is there, almost surely."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    values = {name: ["0", "1"] for name in parents}
    tables = {}
    for name, above in parents.items():
        rows = [tuple(map(str, bits)) for bits in np.ndindex(*[2] * len(above))]
        drawn = [float(p) for p in rng.uniform(0.1, 0.9, len(rows))]
        read = {key: {"0": p, "1": 1.0 - p} for key, p in zip(rows, drawn, strict=True)}
        tables[name] = read if above else read[()]
    network = BayesianNetwork(parents, values, tables)
    for a, b in list(combinations(parents, 2))[:6]:
        others = [name for name in parents if name not in {a, b}]
        seen = data.draw(st.lists(st.sampled_from(others), unique=True)) if others else []
        answer = network.independent(a, b, seen, tolerance=1e-12)
        assert network.d_separated(a, b, seen) == network.d_separated(b, a, seen)
        if network.d_separated(a, b, seen):
            assert answer, answer.largest
        else:
            assert abs(answer.largest.difference) > 1e-12


@given(structures(), st.data())
def test_separation_is_that_of_the_moral_graph_of_ancestors(parents, data):
    """Lauritzen et al. (1990): cut in the undirected graph of ancestors, whose parents are married."""
    names = list(parents)
    if len(names) < 2:
        return
    a, b, *rest = data.draw(st.permutations(names))
    seen = set(data.draw(st.lists(st.sampled_from(rest), unique=True)) if rest else [])
    above, todo = set(), [a, b, *seen]
    while todo:
        name = todo.pop()
        above.add(name)
        todo += [p for p in parents[name] if p not in above]
    edges = {frozenset((name, p)) for name in above for p in parents[name]}
    edges |= {frozenset(pair) for name in above for pair in combinations(parents[name], 2)}
    reached, todo = set(), [a]
    while todo:
        name = todo.pop()
        reached.add(name)
        todo += [o for o in above - reached - seen if frozenset((name, o)) in edges]
    assert Dag(parents).d_separated([a], [b], seen) == (b not in reached)


# -- factors ----------------------------------------------------------------------------------------------


def test_probabilities_far_below_a_double_survive():
    """A chain of 200 links of 1e-5: P is 1e-1000, and shares of such are shares."""
    names = [f"v{i}" for i in range(200)]
    parents = {name: names[i - 1 : i] if i else [] for i, name in enumerate(names)}
    row = {"rare": 1e-5, "often": 1 - 1e-5}
    tables = {name: {"rare": row, "often": row} if parents[name] else row for name in names}
    network = BayesianNetwork(parents, tables=tables)
    rare = dict.fromkeys(names, "rare")
    assert network.log_evidence(rare) == pytest.approx(200 * math.log(1e-5), rel=1e-13)
    assert network.marginal("v7", given=dict.fromkeys([*names[:7], *names[8:]], "rare"))[
        "rare"
    ] == pytest.approx(1e-5)
    assert network.probability(rare) == 0.0  # as a double it is
    assert network.most_probable("v3", given=dict.fromkeys(names[4:], "rare")).values == {"v3": "often"}


def test_small_numbers_are_not_lost_beside_large_ones():
    """A row that is smaller by e^1000 than another is what is left once the other is ruled out."""
    first = Factor((0,), np.array([0.0, -1000.0]))
    second = Factor((0, 1), np.array([[-np.inf, -np.inf], [-1.0, -np.inf]]))
    assert sum_of_products([first, second], (1,)).logs.tolist() == [-1001.0, -np.inf]


def test_a_query_that_needs_too_large_a_table_says_so():
    factors = [Factor((i,), np.zeros(2**10)) for i in range(4)]
    with pytest.raises(ValueError, match="needs a table of 1,099,511,627,776 cells over 4 variables"):
        product(factors)


def test_elimination_does_not_make_the_whole_table():
    """A chain of 60 variables of 4 values: its joint table has 4^60 cells."""
    parents = {f"v{i}": [f"v{i - 1}"] if i else [] for i in range(60)}
    network = BayesianNetwork(parents, values={name: list("abcd") for name in parents})
    network.learn_one(dict.fromkeys(parents, "b"))
    assert math.fsum(network.marginal("v59").values()) == pytest.approx(1.0)
    transition = np.full((4, 4), 0.25)
    transition[1] = [0.2, 0.4, 0.2, 0.2]
    row = np.array([0.2, 0.4, 0.2, 0.2])
    for _ in range(59):
        row = row @ transition
    assert list(network.marginal("v59").values()) == pytest.approx(row.tolist(), rel=1e-12)


# -- the laws of counting ---------------------------------------------------------------------------------


@given(networks(), SMOOTHING)
@settings(max_examples=80)
def test_counts_are_a_recount(case, smoothing):
    parents, events = case
    network, oracle = taught(parents, events, **smoothing), Enumerated(parents, events, **smoothing)
    for name in parents:
        exact = {(*above, value): float(n) for (above, value), n in oracle.cells[name].items() if n}
        assert network.counts(name) == exact
        assert sorted(network.values[name]) == sorted(oracle.values[name])


@given(networks(), st.data())
@settings(max_examples=60)
def test_unlearning_is_the_inverse(case, data):
    parents, events = case
    gone = data.draw(st.integers(0, len(events)))
    network = taught(parents, events)
    for x, w in data.draw(st.permutations(events[:gone])):
        network.unlearn_one(x, float(w))
    left = taught(parents, events[gone:])
    assert described(network) == described(left)
    for name in parents:
        assert network.marginal(name) == pytest.approx(left.marginal(name), rel=1e-12)


def test_a_value_that_is_unlearned_is_no_value_any_more():
    network = taught({"a": [], "b": ["a"]}, [({"a": a, "b": b}, 1) for a, b in ["xu", "xv", "zv", "qu"]])
    network.unlearn_one({"a": "q", "b": "u"})
    left = taught({"a": [], "b": ["a"]}, [({"a": a, "b": b}, 1) for a, b in ["xu", "xv", "zv"]])
    assert network.marginal("a", "b") == pytest.approx(left.marginal("a", "b"), rel=1e-14)
    assert network.log_evidence({"b": "v"}) == pytest.approx(left.log_evidence({"b": "v"}), rel=1e-14)
    assert network.log_evidence({"a": "q", "b": "v"}) == network.log_evidence({"b": "v"})
    with pytest.raises(KeyError, match="'q' is not a value of 'a'"):
        network.probability({"a": "q"})
    assert network.table("b").keys() == {("x",), ("z",)}


def test_what_was_never_learned_cannot_be_unlearned():
    network = taught({"a": [], "b": ["a"]}, [({"a": "x", "b": "y"}, 1), ({"a": "z", "b": "y"}, 1)])
    before = described(network)
    for x, w in [({"a": "x", "b": "q"}, 1), ({"a": "x", "b": "y"}, 1.5), ({"a": "q"}, 1), ({"b": "y"}, 3)]:
        with pytest.raises(UnlearnError):
            network.unlearn_one(x, w)
        assert described(network) == before
    network.unlearn_one({"a": "x", "b": "y"}, 0)
    assert described(network) == before


@given(networks(), SMOOTHING)
@settings(max_examples=40)
def test_a_state_goes_through_a_snapshot_and_restart_is_no_restart(case, smoothing):
    parents, events = case
    network = taught(parents, events[:6], **smoothing)
    part = through_a_snapshot(network)
    again = BayesianNetwork(parents, **smoothing).load_state(part.meta, part.arrays)
    for x, w in events[6:]:
        network.learn_one(x, float(w))
        again.learn_one(x, float(w))
    assert described(again) == described(network)
    meta, arrays = network.state()
    meta_again, arrays_again = again.state()
    assert meta_again == meta
    assert all(np.array_equal(arrays_again[name], array) for name, array in arrays.items())
    for name in parents:
        assert again.marginal(name) == network.marginal(name)


STATE = taught({"a": [], "b": ["a"]}, [({"a": "x", "b": "y"}, 1)]).state()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda meta, _: meta.pop("variables"),
        lambda meta, _: meta.update(events=-1),
        lambda meta, _: meta.update(type="Other"),
        lambda meta, _: meta["variables"].pop(),
        lambda meta, _: meta["variables"].reverse(),
        lambda meta, _: meta["variables"][0].update(values=["x", "x"]),
        lambda meta, _: meta["variables"][0].update(values=["x", "y"]),
        lambda meta, _: meta["variables"][0].update(values=[None]),
        lambda meta, _: meta["variables"][1].update(parents=[]),
        lambda _, arrays: arrays.pop("met"),
        lambda _, arrays: arrays.update(counts=-arrays["counts"]),
        lambda _, arrays: arrays.update(counts=arrays["counts"][1:]),
        lambda _, arrays: arrays.update(met=arrays["met"].astype(np.int32)),
    ],
)
def test_a_bad_state_is_refused_and_changes_nothing(spoil):
    meta = {**STATE[0], "variables": [dict(one) for one in STATE[0]["variables"]]}
    arrays = {name: array.copy() for name, array in STATE[1].items()}
    network = taught({"a": [], "b": ["a"]}, [({"a": "q", "b": "r"}, 2)])
    before = described(network)
    spoil(meta, arrays)
    with pytest.raises(SnapshotError):
        network.load_state(meta, arrays)
    assert described(network) == before


# -- edges ------------------------------------------------------------------------------------------------


def test_a_network_of_nothing_and_a_network_that_met_nothing():
    empty = BayesianNetwork({})
    assert empty.marginal() == {(): 1.0}
    assert empty.log_evidence({}) == 0.0
    fresh = BayesianNetwork({"a": [], "b": ["a"]})
    assert fresh.marginal("b") == {}
    assert fresh.table("b") == {}
    assert fresh.log_evidence({"a": "x", "b": "y"}) == 0.0  # neither was ever met
    with pytest.raises(ValueError, match="no value yet"):
        fresh.joint()
    fresh.learn_one({"b": "y"})  # its parent is missing, and was always missing
    assert fresh.marginal("b") == {"y": 1.0}
    assert fresh.probability({"b": "y"}) == 1.0


def test_missing_is_absent_none_nan_and_infinite():
    network = BayesianNetwork({"a": [], "b": ["a"]})
    for gap in ({}, {"a": None}, {"a": math.nan}, {"a": math.inf}, {"a": np.float32("nan")}):
        network.learn_one({**gap, "b": "y"})
    assert network.values == {"a": [], "b": ["y"]}
    assert network.counts("b") == {}
    network.learn_one({"a": True, "b": 3.0})
    assert network.counts("b") == {("true", "3"): 1.0}
    assert network.probability({"b": 3}, given={"a": True}) > 0.4
    with pytest.raises(TypeError):
        network.learn_one({"a": "new", "b": [1]})
    assert network.values["a"] == ["true"]


def test_declared_values_are_all_there_are():
    network = BayesianNetwork({"a": [], "b": ["a"]}, values={"a": ["x", "y"]})
    network.learn_one({"a": "other", "b": "q"})
    assert network.values == {"a": ["x", "y"], "b": ["q"]}
    assert network.marginal("a") == {"x": 0.5, "y": 0.5}
    network.learn_one({"a": "x", "b": "q"})
    assert network.marginal("a") == pytest.approx({"x": 2 / 3, "y": 1 / 3})


def test_a_given_table_is_a_prior_that_stands_for_examples():
    tables = {"a": {True: 0.9, False: 0.1}, "b": {True: {"u": 1.0, "v": 0.0}, False: {"u": 0.25, "v": 0.75}}}
    network = BayesianNetwork({"b": ["a"], "a": []}, tables=tables, weight=3)
    assert network.marginal("a") == pytest.approx({"true": 0.9, "false": 0.1})
    assert network.probability({"a": True, "b": "v"}) == 0.0
    assert network.log_evidence({"a": True, "b": "v"}) == -math.inf
    with pytest.raises(ValueError, match="has probability 0"):
        network.marginal("b", given={"a": True, "b": "v"} and {"a": True}) and network.probability(
            {"a": True}, given={"a": True, "b": "v"}
        )
    network.learn_one({"a": True, "b": "v"})
    assert network.marginal("a")["true"] == pytest.approx((1 + 3 * 0.9) / (1 + 3))
    assert network.table("b")["true",] == pytest.approx({"u": 3 / 4, "v": 1 / 4})


def test_smoothing_of_one_variable():
    parents = {"a": [], "b": ["a"]}
    network = BayesianNetwork(parents, attributes={"a": Nominal(alpha=0), "b": Nominal(m=4)})
    for x in ({"a": "x", "b": "u"}, {"a": "x", "b": "v"}, {"a": "z", "b": "u"}):
        network.learn_one(x)
    assert network.marginal("a") == pytest.approx({"x": 2 / 3, "z": 1 / 3})
    assert network.table("b")["z",] == pytest.approx({"u": (1 + 2) / (1 + 4), "v": 2 / 5})


def test_a_table_that_would_grow_too_large_leaves_new_values_out():
    network = BayesianNetwork({"a": [], "b": ["a"]}, cells=6)
    for i in range(5):
        network.learn_one({"a": f"a{i}", "b": f"b{i}"})
    assert network.values == {"a": ["a0", "a1", "a2"], "b": ["b0", "b1"]}
    assert network.counts("b") == {("a0", "b0"): 1.0, ("a1", "b1"): 1.0}


def test_long_streams_and_the_heaviest_weights_stay_exact():
    network = BayesianNetwork({"a": [], "b": ["a"]})
    for _ in range(1000):
        network.learn_one({"a": "x", "b": "y"}, 2.0**20)
    network.learn_one({"a": "x", "b": "z"}, 1 / 1024)
    assert network.counts("b") == {("x", "y"): 1000 * 2.0**20, ("x", "z"): 1 / 1024}
    assert network.probability({"b": "z"}, given={"a": "x"}) == pytest.approx(
        (1 / 1024 + 1) / (1000 * 2**20 + 1 / 1024 + 2)
    )
    for bad in (-1.0, math.nan, 2.0**21):
        with pytest.raises(ValueError, match="weight"):
            network.learn_one({"a": "x"}, bad)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"parents": {"a": ["b"], "b": ["a"]}}, "form a cycle: 'a' <- 'b' <- 'a'|'b' <- 'a' <- 'b'"),
        ({"parents": {"a": ["a"]}}, "form a cycle: 'a' <- 'a'"),
        ({"parents": {"a": ["c"], "b": []}}, "parents of 'a': 'c' is not a variable; the variables are 'a', 'b'"),
        ({"parents": {"a": [0, 1], "b": [0, 1]}}, "Parents are variable -> list of its parents"),  # its values
        ({"parents": {"a": [], "b": ["a", "a"]}}, "named twice"),
        ({"parents": {"a": [], "b": "a"}}, "expected a list of names, not 'a'"),
        ({"parents": {"a": []}, "alpha": -1}, "alpha must be 0 or lie between"),
        ({"parents": {"a": []}, "m": math.nan}, "m must be 0 or lie between"),
        ({"parents": {"a": []}, "weight": 0}, "greater than 0, not 0"),
        ({"parents": {"a": []}, "values": {"b": ["x"]}}, "'b' is not a variable"),
        ({"parents": {"a": []}, "values": {"a": []}}, "expected one or more, all different"),
        ({"parents": {"a": []}, "values": {"a": ["1", 1]}}, "expected one or more, all different"),
        ({"parents": {"a": []}, "values": {"a": ["x", "y"]}, "cells": 1}, "has 2 cells, more than 1"),
        ({"parents": {"a": []}, "attributes": {"a": Nominal(m=2, p=0.3)}}, "does not sum to 1"),
        ({"parents": {"a": []}, "attributes": {"a": "continuous"}}, "reads only nominal values"),
        ({"parents": {"a": []}, "tables": {"a": {"x": 0.5, "y": 0.4}}}, "sum to 1"),
        ({"parents": {"a": []}, "tables": {"a": {"x": 1.5, "y": -0.5}}}, "sum to 1"),
        ({"parents": {"a": []}, "tables": {"a": [0.5, 0.5]}}, "expected a mapping"),
        ({"parents": {"a": [], "b": ["a"]}, "tables": {"b": {"x": {"u": 1}}}}, "its parent 'a' has no table"),
        (
            {"parents": {"a": [], "b": ["a"]}, "values": {"a": ["x", "y"]}, "tables": {"b": {"x": {"u": 1}}}},
            r"the row \('y',\) is missing",
        ),
        (
            {"parents": {"a": [], "b": ["a"]}, "values": {"a": ["x"]}, "tables": {"b": {"x": {"u": 1}, "y": {"u": 1}}}},
            r"the row \('y',\) has a value",
        ),
        ({"parents": {"a": [], "b": ["a"]}, "tables": {"a": {"x": 1}, "b": {"u": 1}}}, "expected the values of its 1"),
        ({"parents": {"a": []}, "values": {"a": ["x"]}, "tables": {"a": {"y": 1}}}, r"expected \['x'\], got \['y'\]"),
    ],
)  # fmt: skip
def test_what_is_no_network_is_refused(arguments, said):
    with pytest.raises(ValueError, match=said):
        BayesianNetwork(**arguments)


def test_questions_that_have_no_answer():
    network = taught({"a": [], "b": ["a"]}, [({"a": "x", "b": "y"}, 1)])
    for ask in (
        lambda: network.marginal("c"),
        lambda: network.probability({"a": "never met"}),
        lambda: network.probability({"c": "x"}),
        lambda: network.d_separated("a", "c"),
        lambda: network.table("c"),
    ):
        with pytest.raises(KeyError):
            ask()
    for ask in (
        lambda: network.marginal("a", "a"),
        lambda: network.marginal("a", given={"a": "x"}),
        lambda: network.d_separated("a", "b", ["a"]),
        lambda: network.independent("a", "a"),
    ):
        with pytest.raises(ValueError):  # noqa: PT011  each says something else
            ask()
    assert network.probability({"a": "x"}, given={"a": "x"}) == 1.0
