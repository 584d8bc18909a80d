"""Structures: Bayes factors, the search by tests, and the posterior over candidates, each against an oracle."""

from __future__ import annotations

import math
import random
from itertools import combinations, permutations, product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamnb import BayesianNetwork, JointTable, Nominal, StructurePosterior
from streamnb.errors import UnlearnError
from streamnb.toolbox.bayesian_network.constraint_search import search
from streamnb.toolbox.bayesian_network.dag import Dag

COINS = {"a": ["H", "T"], "b": ["H", "T"], "c": ["H", "T"]}


@st.composite
def structures(draw, most=5):
    """Variable -> parents, of up to `most` variables in any order."""
    names = draw(st.permutations([f"v{i}" for i in range(draw(st.integers(1, most)))]))
    arrows = draw(st.sets(st.sampled_from([*combinations(names, 2)] or [()])))
    return {name: [a for a, b in sorted(filter(None, arrows)) if b == name] for name in sorted(names)}


def joined(parents):
    return {frozenset((a, b)) for b, above in parents.items() for a in above}


def colliders(parents):
    """Each a -> c <- b with a and b apart, by which and the edges equivalent structures are known (Verma, Pearl)."""
    edges = joined(parents)
    pairs = ((c, pair) for c, above in parents.items() for pair in combinations(sorted(above), 2))
    return {(c, pair) for c, pair in pairs if frozenset(pair) not in edges}


def equivalent(one, other):
    return (joined(one), colliders(one)) == (joined(other), colliders(other))


@given(structures())
@example({"a": [], "b": [], "c": ["a", "b"], "d": ["c"]})  # by Meek's first rule
@example({"a": [], "b": ["a"], "c": ["a"], "d": ["a", "b", "c"]})  # by his third
def test_from_what_arrows_say_of_independence_the_search_finds_all_structures_that_say_so(parents):
    dag = Dag(parents)
    found = search(tuple(parents), lambda a, b, c: dag.d_separated([a], [b], c), len(parents))
    assert {*map(frozenset, found.arrows), *map(frozenset, found.lines)} == joined(parents)
    assert equivalent(found.parents(), parents)
    arrows = [(a, b) for a, b in combinations(parents, 2) if frozenset((a, b)) in joined(parents)]
    turned = [[(a, b), (b, a)] for a, b in arrows]
    ways = [{name: [a for a, b in way if b == name] for name in parents} for way in product(*turned)]
    alike = [way for way in ways if is_acyclic(way) and equivalent(way, parents)]
    always = {(a, b) for pair in turned for a, b in pair if all(a in way[b] for way in alike)}
    assert set(found.arrows) == always


def is_acyclic(parents):
    try:
        Dag(parents)
    except ValueError:
        return False
    return True


def test_tests_that_contradict_each_other_still_end_in_a_structure():
    for seed in range(200):
        chance = random.Random(seed)
        names = tuple("abcde")
        found = search(names, lambda *_, chance=chance: chance.random() < 0.3, 3)
        assert joined(found.parents()) == {*map(frozenset, found.arrows), *map(frozenset, found.lines)}
        Dag(found.parents())


@st.composite
def streams(draw):
    cards = draw(st.lists(st.integers(1, 3), min_size=2, max_size=4))
    variables = {f"v{i}": [f"x{j}" for j in range(n)] for i, n in enumerate(cards)}
    one = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in variables.items()})
    return variables, draw(st.lists(one, min_size=1, max_size=25))


@given(streams(), structures(4), st.sampled_from([0.5, 1.0, 4.0]))
def test_a_score_is_the_sum_of_the_log_predictives(stream, parents, weight):
    """Of a network whose tables are smoothed by m = s / rows, each event asked for before it is learned."""
    variables, xs = stream
    parents = {name: [p for p in parents.get(name, []) if p in variables] for name in variables}
    rows = {name: math.prod(len(variables[p]) for p in above) for name, above in parents.items()}
    smoothing = {name: Nominal(m=weight / rows[name]) for name in variables}
    network = BayesianNetwork(parents, values=variables, attributes=smoothing)
    table, log = JointTable(variables), 0.0
    for x in xs:
        log += math.log(network.joint().probability(x))
        network.learn_one(x)
        table.learn_one(x)
    score = math.fsum(table.family_score(name, above, weight) for name, above in parents.items())
    assert score == pytest.approx(log, rel=1e-9, abs=1e-9)
    for a, b in permutations(variables, 2):
        edge = table.family_score(b, [a], weight) - table.family_score(b, [], weight)
        assert table.log_bayes_factor(a, b, weight=weight) == pytest.approx(edge, abs=1e-9)
        assert table.log_bayes_factor(b, a, weight=weight) == pytest.approx(edge, abs=1e-9)  # either way


def test_independent_coins_are_not_called_dependent_for_what_chance_did():
    called, apart = 0, 0
    for seed in range(200):
        chance = random.Random(seed)
        table, noisy = JointTable({"a": "HT", "b": "HT"}), JointTable({"a": "HT", "b": "HT"})
        for _ in range(1000):
            a, b = chance.choice("HT"), chance.choice("HT")
            table.learn_one({"a": a, "b": b})
            noisy.learn_one({"a": a, "b": a if chance.random() < 0.2 else b})
        assert not table.independent("a", "b")  # to the last digit they never are
        called += table.log_bayes_factor("a", "b") > 0.0
        apart += noisy.log_bayes_factor("a", "b") <= 0.0
    assert (called, apart) == (1, 0)  # P(a chi squared of 1 exceeds ln 1000 and a little) is about .005


def rain(seed, n):
    chance = random.Random(seed)
    for _ in range(n):
        a, b = chance.random() < 0.3, chance.random() < 0.4
        c = chance.random() < (0.95 if a or b else 0.05)
        d = chance.random() < (0.8 if c else 0.1)
        yield {"rain": a, "sprinkler": b, "wet": c, "slippery": d}


RAIN = {name: [True, False] for name in ("rain", "sprinkler", "wet", "slippery")}
TRUE = {"rain": [], "sprinkler": [], "wet": ["rain", "sprinkler"], "slippery": ["wet"]}


def test_a_stream_leads_to_the_structure_that_made_it():
    posterior = StructurePosterior(RAIN)
    for x in rain(3, 2000):
        posterior.learn_one(x)
    best, p = posterior.probabilities[0]
    assert best == posterior.map() == TRUE
    assert posterior.probability(TRUE) == p > 0.9
    assert sum(p for _, p in posterior.probabilities) == pytest.approx(1.0)
    assert posterior.table.structure().parents() == TRUE
    network = posterior.network()
    assert network.n_parameters == {"rain": 1, "sprinkler": 1, "wet": 4, "slippery": 2}
    assert network.probability({"wet": True}, given={"rain": True}) == pytest.approx(0.95, abs=0.02)


def test_an_exclusive_or_is_found_though_no_single_variable_says_anything():
    posterior = StructurePosterior({"a": [0, 1], "b": [0, 1], "c": [0, 1]}, first=8)
    for i in range(64):
        posterior.learn_one({"a": i % 2, "b": i // 2 % 2, "c": (i + i // 2) % 2})
    assert sorted(map(len, posterior.map().values())) == [0, 0, 2]
    assert posterior.table.structure().lines == frozenset()  # the tests of pairs find nothing


def test_the_posterior_is_that_of_all_structures_where_all_are_candidates():
    """Three coins have 25 structures; what is proposed is weighed as enumeration weighs it."""
    chance = random.Random(5)
    posterior = StructurePosterior(COINS, candidates=25, first=10)
    for _ in range(200):
        a = chance.choice("HT")
        posterior.learn_one(
            {"a": a, "b": a if chance.random() < 0.4 else chance.choice("HT"), "c": chance.choice("HT")}
        )
    every = [dict(zip("abc", above, strict=True)) for above in product(*([*subsets(name)] for name in "abc"))]
    every = [one for one in every if is_acyclic(one)]
    assert len(every) == 25
    table = posterior.table
    logs = [sum(table.family_score(name, above) for name, above in one.items()) for one in every]
    best = every[logs.index(max(logs))]
    assert equivalent(best, posterior.map())
    kept = [one for one, _ in posterior.probabilities]
    shares = [math.exp(logs[every.index(one)] - max(logs)) for one in kept]
    expected = [share / sum(shares) for share in shares]
    assert [p for _, p in posterior.probabilities] == pytest.approx(expected, rel=1e-9)


def subsets(name):
    others = [other for other in "abc" if other != name]
    return ([*some] for size in range(3) for some in combinations(others, size))


def test_a_network_has_tables_of_more_examples_than_are_learned_at_once():
    posterior = StructurePosterior({"a": ["H", "T"], "b": ["H", "T"]})
    for side, n in (("H", 3), ("T", 1)):
        for _ in range(n):
            posterior.learn_one({"a": side, "b": side}, 2**20)
    posterior.learn_one({"a": "H", "b": "H"}, 0.5)
    assert posterior.network().probability({"a": "H"}) == pytest.approx(0.75, abs=1e-6)


def test_what_is_taken_back_was_never_learned_and_order_changes_nothing():
    one, other = StructurePosterior(RAIN, first=1000), StructurePosterior(RAIN, first=1000)
    xs = [*rain(7, 300)]
    for x in xs:
        one.learn_one(x)
    for x in reversed(xs):
        other.learn_one(x)
    extra = {"rain": True, "sprinkler": False, "wet": False, "slippery": True}
    one.learn_one(extra, 5.0)
    one.unlearn_one(extra, 5.0)
    one.propose()
    other.propose()
    assert one.probabilities == other.probabilities
    with pytest.raises(UnlearnError):
        one.unlearn_one(extra, 1000.0)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: StructurePosterior(COINS, candidates=0), "candidates"),
        (lambda: StructurePosterior(COINS, weight=0.0), "weight"),
        (lambda: StructurePosterior(COINS).propose(), "learned no examples"),
        (lambda: JointTable(COINS).log_bayes_factor("a", "b"), "learned no examples"),
        (
            lambda: JointTable(COINS, dict.fromkeys(product("HT", "HT", "HT"), 0.125)).structure(),
            "learned no",
        ),
        (lambda: JointTable.from_counts({"a": "HT"}, [1, 1]).log_bayes_factor("a", []), "two variables"),
        (lambda: JointTable.from_counts({"a": "HT"}, [1, 1]).log_bayes_factor("a", "a"), "named twice"),
        (lambda: StructurePosterior(COINS).probability({"a": [], "b": []}), "expected the parents of"),
    ],
)
def test_what_cannot_be_is_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        wrong()
