"""Structural EM: its result is a fixed point of brute force, and without gaps the exact best structure."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest
from scipy.special import gammaln

from streamnb import BayesianNetwork, StructuralEM, StructurePosterior
from streamnb.errors import SnapshotError, UnlearnError
from tests.support.states import digest

NAMES = ("a", "b", "c")
VALUES = {"a": ["0", "1"], "b": ["0", "1", "2"], "c": ["0", "1"]}
COLLIDER = BayesianNetwork(
    {"a": [], "b": [], "c": ["a", "b"]},
    tables={
        "a": {"0": 0.4, "1": 0.6},
        "b": {"0": 0.3, "1": 0.3, "2": 0.4},
        "c": {
            (a, b): {"0": 0.9 if (a == "1") == (b == "1") else 0.15, "1": 0.1 if (a == "1") == (b == "1") else 0.85}
            for a in "01"
            for b in "012"
        },
    },
)  # fmt: skip


def graphs():
    """Every acyclic graph over three variables, as parents by variable: 25 of them."""
    subsets = {n: [set(s) for k in range(3) for s in combinations(set(NAMES) - {n}, k)] for n in NAMES}
    for choice in product(*(subsets[n] for n in NAMES)):
        left, graph = set(NAMES), dict(zip(NAMES, choice, strict=True))
        while free := {n for n in left if not graph[n] & left}:
            left -= free
        if not left:
            yield graph


def events(n, gap, seed=0):
    rng = np.random.default_rng(seed)
    return [
        {name: None if rng.random() < gap else value for name, value in x.items()}
        for x in COLLIDER.sample(n, seed=seed)
    ]


def taught(rows, **parameters):
    model = StructuralEM(VALUES, **parameters)
    for x in rows:
        model.learn_one(x)
    model.climb()
    return model


def filled(network, rows):
    """Expected counts of each combination of values, by the network's own queries."""
    found = dict.fromkeys(product(*VALUES.values()), 0.0)
    for x in rows:
        known = {name: value for name, value in x.items() if value is not None}
        for world in found:
            full = dict(zip(NAMES, world, strict=True))
            if all(full[name] == value for name, value in known.items()):
                found[world] += network.probability(full, given=known)
    return found


def score(found, graph, weight=1.0):
    """BDeu of expected counts."""
    total = 0.0
    for v, name in enumerate(NAMES):
        above = [i for i, other in enumerate(NAMES) if other in graph[name]]
        rows = list(product(*(VALUES[NAMES[i]] for i in above)))
        for row in rows:
            cells = [
                sum(n for w, n in found.items() if w[v] == value and tuple(w[i] for i in above) == row)
                for value in VALUES[name]
            ]
            each = weight / len(rows) / len(cells)
            total += gammaln(each * len(cells)) - gammaln(each * len(cells) + sum(cells))
            total += sum(gammaln(each + n) - gammaln(each) for n in cells)
    return total


@pytest.mark.parametrize("gap", [0.1, 0.3])
def test_no_other_structure_has_a_higher_score_of_the_expected_counts(gap):
    rows = events(150, gap)
    model = taught(rows)
    found = filled(model.network(), rows)
    scores = {tuple(map(frozenset, graph.values())): score(found, graph) for graph in graphs()}
    assert len(scores) == 25
    own = scores[tuple(frozenset(model.structure[name]) for name in NAMES)]
    assert own == pytest.approx(max(scores.values()), abs=1e-5)
    assert model.structure["c"] == ["a", "b"]
    assert own > scores[frozenset(), frozenset(), frozenset()] + 10


def test_its_tables_are_a_fixed_point_of_em():
    rows = events(150, 0.3)
    model = taught(rows)
    network = model.network()
    found = filled(network, rows)
    n = sum(w for (a, b, _), w in found.items() if (a, b) == ("1", "1"))
    yes = sum(w for (a, b, c), w in found.items() if (a, b, c) == ("1", "1", "1"))
    assert network.table("c")["1", "1"]["1"] == pytest.approx((yes + 1 / 12) / (n + 1 / 6), abs=1e-6)
    assert model.log_likelihood == pytest.approx(network.log_likelihood(rows), rel=1e-9)


def test_without_gaps_it_is_the_best_structure_of_the_counts():
    rows = events(200, 0.0)
    posterior = StructurePosterior(VALUES)
    for x in rows:
        posterior.learn_one(x)
    assert taught(rows).structure == posterior.map()


def test_gaps_cost_less_than_leaving_their_events_out():
    """Nearly all events have a gap: the rest shows no arrow, and the expected counts show all."""
    rows = events(300, 0.45, seed=3)
    whole = [x for x in rows if None not in x.values()][:12]
    some = [x for x in rows if None in x.values()]
    assert taught(whole).structure["c"] != ["a", "b"]
    assert taught(whole + some).structure["c"] == ["a", "b"]


def test_order_and_unlearning_change_nothing():
    rows, more = events(40, 0.3), events(20, 0.5, seed=9)
    one, other = StructuralEM(VALUES), StructuralEM(VALUES)
    for x in rows + more:
        one.learn_one(x)
    for x in more:
        one.unlearn_one(x)
    for x in reversed(rows):
        other.learn_one(x)
    one.climb()
    other.climb()
    assert one.structure == other.structure
    assert one.log_likelihood == pytest.approx(other.log_likelihood, rel=1e-12)
    with pytest.raises(UnlearnError, match="never learned"):
        one.unlearn_one({"a": 1, "b": 2, "c": 1}, 1e6)


def test_a_maximum_of_parents_holds():
    assert max(map(len, taught(events(300, 0.1), parents=1).structure.values())) == 1


def test_a_restored_state_continues_alike():
    model = taught(events(60, 0.3))
    again = StructuralEM(VALUES).load_state(*model.state())
    assert (again.structure, again.log_likelihood) == (model.structure, model.log_likelihood)
    for one in (model, again):
        one.learn_one({"a": 1})
        one.climb()
    assert digest(model) == digest(again)
    meta, arrays = model.state()
    cycle = np.array([2, 1, 0])
    with pytest.raises(SnapshotError, match="cycle"):
        again.load_state(meta, {**arrays, "parents": cycle})


def test_its_limits():
    for variables in ({}, {f"v{i}": [0, 1] for i in range(13)}):
        with pytest.raises(ValueError, match="from 1 to 12"):
            StructuralEM(variables)
    with pytest.raises(ValueError, match="combinations"):
        StructuralEM({f"v{i}": list(range(64)) for i in range(4)})
    model = StructuralEM({"a": [0, 1]})
    model.climb()
    assert model.network().marginal("a") == pytest.approx({"0": 0.5, "1": 0.5})
    assert math.isclose(model.log_likelihood, 0.0)
