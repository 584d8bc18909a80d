"""Structures: Bayes factors, the search by tests, and the posterior over candidates, each against an oracle."""

from __future__ import annotations

import math
import random
from collections import Counter
from itertools import combinations, permutations, product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamnb import BayesianNetwork, JointTable, Nominal, StructurePosterior
from streamnb.errors import UnlearnError
from streamnb.toolbox.bayesian_network.constraint_search import search
from streamnb.toolbox.bayesian_network.dag import Dag
from streamnb.toolbox.bayesian_network.markov_equivalence import all_graphs
from tests.oracles import structure_oracle

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
    assert posterior.probability(TRUE) == pytest.approx(p, rel=1e-9)
    assert p > 0.5
    assert sum(p for _, p in posterior.probabilities) == pytest.approx(1.0)
    assert posterior.table.structure().parents() == TRUE
    network = posterior.network()
    assert network.parameters().n_free == {"rain": 1, "sprinkler": 1, "wet": 4, "slippery": 2}
    assert network.probability({"wet": True}, given={"rain": True}) == pytest.approx(0.95, abs=0.02)


def test_an_exclusive_or_is_found_though_no_single_variable_says_anything():
    posterior = StructurePosterior({"a": [0, 1], "b": [0, 1], "c": [0, 1]})
    for i in range(64):
        posterior.learn_one({"a": i % 2, "b": i // 2 % 2, "c": (i + i // 2) % 2})
    assert sorted(map(len, posterior.map().values())) == [0, 0, 2]
    shares = [one.probability for one in posterior.classes()]
    assert shares[:3] == pytest.approx([shares[0]] * 3)
    assert sum(shares[:4]) == pytest.approx(1.0, abs=1e-6)  # the fourth class joins all three
    assert posterior.table.structure().lines == frozenset()  # the tests of pairs find nothing


def test_two_variables_that_agree_have_either_arrow():
    """No data can direct the edge: each direction has half of the probability."""
    chance = random.Random(1)
    posterior = StructurePosterior({"a": "HT", "b": "HT"})
    for _ in range(300):
        a = chance.choice("HT")
        posterior.learn_one({"a": a, "b": a if chance.random() < 0.6 else chance.choice("HT")})
    assert posterior.edges() == pytest.approx({("a", "b"): 0.5, ("b", "a"): 0.5}, abs=1e-9)
    assert posterior.probability({"a": ["b"], "b": []}) == pytest.approx(0.5, abs=1e-9)
    first = posterior.classes()[0]
    assert (first.lines, first.arrows, first.error) == ({("a", "b")}, frozenset(), 0.0)
    assert first.probability == pytest.approx(1.0, abs=1e-9)


def stream(chance, cards, n):
    """Events of variables that depend on some of those before them."""
    variables = {f"v{i}": [f"x{j}" for j in range(k)] for i, k in enumerate(cards)}
    links = [chance.random() * 0.8 for _ in cards]
    for _ in range(n):
        x = {}
        for (name, values), link in zip(variables.items(), links, strict=True):
            place = sum(variables[other].index(value) for other, value in x.items())
            x[name] = values[place % len(values)] if x and chance.random() < link else chance.choice(values)
        yield x


@pytest.mark.parametrize("seed", range(12))
def test_the_posterior_is_that_of_an_enumeration_of_all_structures(seed):
    chance = random.Random(seed)
    cards = [chance.randint(1, 3) for _ in range(1 + seed % 4)]
    most = None if seed % 3 else 1
    events = [*stream(chance, cards, chance.choice([0, 7, 60]))]
    variables = {f"v{i}": [f"x{j}" for j in range(k)] for i, k in enumerate(cards)}
    weight = chance.choice([0.5, 1.0, 6.0])
    posterior = StructurePosterior(variables, most, weight)
    for x in events:
        posterior.learn_one(x)
    expected = structure_oracle.posterior(variables, [(x, 1) for x in events], weight, most)
    found = posterior.probabilities
    shares = [(p, posterior.probability(one)) for one, p in expected]
    assert [own for _, own in shares] == pytest.approx([p for p, _ in shares], rel=1e-9, abs=1e-13)
    assert [p for _, p in found] == sorted((p for _, p in found), reverse=True)
    assert {str(one): p for one, p in found if p} == pytest.approx(
        {str(one): p for one, p in expected if p}, rel=1e-9, abs=1e-13
    )
    assert posterior.probability(posterior.map()) == pytest.approx(max(p for _, p in expected), rel=1e-9)
    edges = structure_oracle.edges(expected)
    for pair, p in posterior.edges().items():
        assert p == pytest.approx(edges[pair], rel=1e-9, abs=1e-12)
    classes = posterior.classes()
    assert sum(one.probability for one in classes) == pytest.approx(1.0)
    for one in classes[:5]:
        members = [(other, p) for other, p in expected if equivalent(other, one.structure)]
        assert one.probability == pytest.approx(sum(p for _, p in members), rel=1e-9, abs=1e-13)
        if most is None:
            pairs = {(a, b) for other, _ in members for b, above in other.items() for a in above}
            always = {(a, b) for a, b in pairs if all(a in other[b] for other, _ in members)}
            assert one.arrows == always
            assert {frozenset(pair) for pair in (*one.arrows, *one.lines)} == joined(one.structure)


def test_five_variables_have_all_structures():
    names = "abcde"
    posterior = StructurePosterior(dict.fromkeys(names, "HT"))
    assert [len(all_graphs(n)) for n in range(1, 6)] == [1, 3, 25, 543, 29281]
    assert posterior._sums().log_total == pytest.approx(math.log(29281), rel=1e-12)
    assert len(posterior.classes()) == 8782
    assert posterior.edges()["a", "b"] == pytest.approx(
        sum(int(mask) & 1 for mask in all_graphs(5)[:, 1]) / 29281, rel=1e-12
    )


def six(n):
    """A chain of four and a collider, over six variables."""
    chance = random.Random(2)
    for _ in range(n):
        a = chance.random() < 0.5
        b = a if chance.random() < 0.6 else chance.random() < 0.5
        c = b if chance.random() < 0.5 else chance.random() < 0.5
        d, e = chance.random() < 0.5, chance.random() < 0.4
        f = d != e if chance.random() < 0.8 else chance.random() < 0.5
        yield dict(zip("abcdef", map(int, (a, b, c, d, e, f)), strict=True))


@pytest.mark.thorough
def test_above_five_variables_edges_are_exact_and_draws_agree_with_them():
    """Against a list of the 16,807 graphs whose variables have at most one parent."""
    variables = {name: [0, 1] for name in "abcdef"}
    events = [*six(120)]
    posterior = StructurePosterior(variables, parents=1)
    for x in events:
        posterior.learn_one(x)
    keyed = [(x, 1) for x in events]
    forests = structure_oracle.posterior(variables, keyed, 1.0, 1)
    assert len(forests) == 16807  # rooted forests of six labelled nodes: 7^5
    edges = structure_oracle.edges(forests)
    assert posterior.edges() == pytest.approx({pair: edges[pair] for pair in posterior.edges()}, abs=1e-12)
    assert posterior.probability(posterior.map()) == pytest.approx(max(p for _, p in forests), rel=1e-9)
    n = 2000
    drawn = Counter(str(posterior.draw(counter)) for counter in range(n))
    for one, p in sorted(forests, key=lambda pair: -pair[1])[:20]:
        assert abs(drawn[str(one)] / n - p) < 5 * math.sqrt(p * (1 - p) / n)
    for one in posterior.classes(draws=n)[:5]:
        exact = sum(p for other, p in forests if equivalent(other, one.structure))
        assert abs(one.probability - exact) < 5 * one.error
    with pytest.raises(ValueError, match="too many to list"):
        posterior.probabilities  # noqa: B018


def test_a_network_has_tables_of_more_examples_than_are_learned_at_once():
    posterior = StructurePosterior({"a": ["H", "T"], "b": ["H", "T"]})
    for side, n in (("H", 3), ("T", 1)):
        for _ in range(n):
            posterior.learn_one({"a": side, "b": side}, 2**20)
    posterior.learn_one({"a": "H", "b": "H"}, 0.5)
    assert posterior.network().probability({"a": "H"}) == pytest.approx(0.75, abs=1e-6)


def test_what_is_taken_back_was_never_learned_and_order_changes_nothing():
    one, other = StructurePosterior(RAIN), StructurePosterior(RAIN)
    xs = [*rain(7, 300)]
    for x in xs:
        one.learn_one(x)
    for x in reversed(xs):
        other.learn_one(x)
    extra = {"rain": True, "sprinkler": False, "wet": False, "slippery": True}
    one.learn_one(extra, 5.0)
    one.unlearn_one(extra, 5.0)
    assert one.probabilities == other.probabilities
    with pytest.raises(UnlearnError):
        one.unlearn_one(extra, 1000.0)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: StructurePosterior(COINS, parents=-1), "parents"),
        (lambda: StructurePosterior({str(i): "HT" for i in range(13)}), "exceed the 12"),
        (lambda: StructurePosterior({}), "at least one"),
        (lambda: StructurePosterior(COINS, weight=0.0), "weight"),
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
