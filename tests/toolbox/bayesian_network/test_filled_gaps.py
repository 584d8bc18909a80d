"""Gibbs sampling and variational Bayes over gaps, against enumeration and a mean field written out."""

from __future__ import annotations

import math
import re
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.special import digamma, gammaln

import streamnb
from streamnb import BayesianNetwork, NetworkEM, NetworkMCMC, NetworkVariationalBayes
from streamnb.toolbox.bayesian_network import gibbs_sampling
from tests.oracles.network_oracle import networks
from tests.support.states import digest

PAIR = {"smart": [], "prepared": ["smart"]}
EVENTS = [("yes", "yes")] * 6 + [("yes", "no")] * 2 + [("no", "yes")] + [("no", "no")] * 4
EVENTS += [(None, "yes")] * 4 + [(None, "no")] * 2 + [("yes", None)]
ASKED = {"prepared": "yes"}, {"smart": "yes"}
WAYS = [NetworkEM, NetworkMCMC, NetworkVariationalBayes]


def pairs():
    return [{"smart": s, "prepared": p} for s, p in EVENTS]


def taught(way, events, network=None, **parameters):
    model = way(network or BayesianNetwork(PAIR), window=100, **parameters)
    for x in events:
        model.learn_one(x)
    return model


def enumerated(parents, values, events, asked, alpha=1.0):
    """The Bayesian prediction P(asked | given), by a sum over all ways to fill all gaps."""
    names = list(parents)
    ways = [
        [
            dict(zip(names, world, strict=True))
            for world in product(*(values[n] for n in names))
            if all(x.get(n) in {None, w} for n, w in zip(names, world, strict=True))
        ]
        for x in events
    ]
    logs, answers = [], []
    for filled in product(*ways):
        log, tables = 0.0, {}
        for n in names:
            k = len(values[n])
            for above in product(*(values[u] for u in parents[n])):
                row = [x[n] for x in filled if all(x[u] == a for u, a in zip(parents[n], above, strict=True))]
                counts = [row.count(value) for value in values[n]]
                log += gammaln(k * alpha) - gammaln(k * alpha + len(row))
                log += sum(gammaln(alpha + c) - gammaln(alpha) for c in counts)
                tables[n, above] = {
                    value: (c + alpha) / (len(row) + k * alpha)
                    for value, c in zip(values[n], counts, strict=True)
                }
        logs.append(log)
        answers.append(tables[asked][ASKED[0]["prepared"]])
    weights = np.exp(np.array(logs) - max(logs))
    return float(weights @ answers / weights.sum())


EXACT = enumerated(PAIR, {"smart": ["yes", "no"], "prepared": ["yes", "no"]}, pairs(), ("prepared", ("yes",)))


@pytest.mark.parametrize(("worlds", "sweeps"), [(1 << 12, 1000), (0, 100)])
def test_the_chain_of_draws_has_the_exact_posterior_mean(worlds, sweeps, monkeypatch):
    """By enumeration, and by elimination."""
    monkeypatch.setattr(gibbs_sampling, "MOST_WORLDS", worlds)
    model = taught(NetworkMCMC, pairs(), seed=3)
    found = model.posterior_mean(lambda network: network.probability(*ASKED), sweeps=sweeps)
    assert found.error < 0.15 / math.sqrt(sweeps)
    assert abs(found.mean - EXACT) < 4 * found.error
    left_out = (6 + 1) / (8 + 2)  # of complete events alone
    assert worlds == 0 or abs(found.mean - left_out) > 4 * found.error


def test_a_latent_variable_is_drawn_given_the_others():
    """A child of two parents, of which one is never seen with it: blocks of two gaps at once."""
    parents, values = (
        {"a": [], "b": ["a"], "prepared": ["a", "b"]},
        {n: ["yes", "no"] for n in ("a", "b", "prepared")},
    )
    events = [dict(zip(parents, one, strict=True)) for one in [("yes", "yes", "yes"), ("no", "yes", "no"),
              ("no", "no", "no"), (None, None, "yes"), (None, "yes", "no"), ("yes", None, None), (None, None, "yes")]]  # fmt: skip
    exact = enumerated(parents, values, events, ("prepared", ("yes", "yes")), alpha=0.5)
    model = taught(NetworkMCMC, events, BayesianNetwork(parents, values=values, alpha=0.5))
    asked = {"prepared": "yes"}, {"a": "yes", "b": "yes"}
    found = model.posterior_mean(lambda network: network.probability(*asked), sweeps=800)
    assert found.error < 0.01
    assert abs(found.mean - exact) < 4 * found.error


def mean_field(events, alpha):
    """The fixed point of q(gaps) q(tables) for a pair, and its evidence lower bound at each step."""
    values, q, bounds = ["yes", "no"], [], []
    for s, p in events:
        worlds = [w for w in product(values, values) if s in {None, w[0]} and p in {None, w[1]}]
        q.append({w: 1 / len(worlds) for w in worlds})
    for _ in range(300):
        n = {w: sum(one.get(w, 0.0) for one in q) + 0.0 for w in product(values, values)}
        top = {s: n[s, "yes"] + n[s, "no"] for s in values}
        log_s = {s: digamma(top[s] + alpha) - digamma(sum(top.values()) + 2 * alpha) for s in values}
        log_p = {(s, p): digamma(n[s, p] + alpha) - digamma(top[s] + 2 * alpha) for s, p in n}
        entropy = -sum(share * math.log(share) for one in q for share in one.values() if share > 0)
        rows = [[top[s] for s in values], *([n[s, p] for p in values] for s in values)]
        bounds.append(entropy + sum(
            gammaln(2 * alpha) - gammaln(sum(row) + 2 * alpha) + sum(gammaln(c + alpha) - gammaln(alpha) for c in row)
            for row in rows
        ))  # fmt: skip
        for one in q:
            weights = {(s, p): math.exp(log_s[s] + log_p[s, p]) for s, p in one}
            for w, weight in weights.items():
                one[w] = weight / sum(weights.values())
    return (n["yes", "yes"] + alpha) / (top["yes"] + 2 * alpha), bounds


@pytest.mark.parametrize("alpha", [0.3, 1.0, 4.0])
def test_variational_bayes_is_the_mean_field(alpha):
    model = taught(NetworkVariationalBayes, pairs(), BayesianNetwork(PAIR, alpha=alpha))
    while model.revisit():
        pass
    expected, bounds = mean_field(EVENTS, alpha)
    assert all(after >= before - 1e-12 for before, after in pairwise(bounds))
    assert model.network.probability(*ASKED) == pytest.approx(expected, abs=1e-7)
    em = taught(NetworkEM, pairs(), BayesianNetwork(PAIR, alpha=alpha))
    while em.revisit():
        pass
    assert abs(em.network.probability(*ASKED) - expected) > 1e-4


@pytest.mark.parametrize("way", [NetworkMCMC, NetworkVariationalBayes])
@given(networks(most=4))
@settings(max_examples=30)
def test_each_event_is_counted_once_and_can_be_unlearned(way, case):
    parents, events = case
    whole = [x for x, _ in events if None not in x.values()]
    model = way(BayesianNetwork(parents), window=100)
    for x, _ in events:
        model.learn_one(x)
    model.revisit()
    for name in parents:
        counted = math.fsum(model.network.counts(name).values())
        assert counted <= len(events) + 1e-6
    for x, _ in events:
        if x not in whole:
            model.unlearn_one(x)
    plain = BayesianNetwork(parents)
    for x in whole:
        plain.learn_one(x)
    for name in parents:
        assert model.network.counts(name) == pytest.approx(plain.counts(name))


@pytest.mark.parametrize("way", WAYS)
def test_a_restored_state_continues_alike(way):
    first, again = taught(way, pairs()[:12] + pairs()[13:18]), way(BayesianNetwork(PAIR), window=100)
    again.load_state(*first.state())
    for model in (first, again):
        model.revisit(2)
        model.learn_one({"prepared": "no"})
    assert digest(first) == digest(again)


def test_equal_seeds_draw_alike_and_other_seeds_do_not():
    counts = [taught(NetworkMCMC, pairs(), seed=seed).network.counts("smart") for seed in (1, 1, 2, 3, 4)]
    assert counts[0] == counts[1]
    assert any(one != counts[0] for one in counts[2:])


@pytest.mark.parametrize("way", [NetworkMCMC, NetworkVariationalBayes])
@pytest.mark.parametrize("prior", [{"alpha": 0}, {"m": 0}])
def test_tables_without_a_prior_are_refused(way, prior):
    with pytest.raises(ValueError, match="need a prior"):
        way(BayesianNetwork(PAIR, **prior))


def test_copies_of_an_event_are_drawn_one_by_one():
    with pytest.raises(ValueError, match="learn it 2"):
        NetworkMCMC(BayesianNetwork(PAIR)).learn_one({"smart": "yes"}, 2.0)


@pytest.mark.parametrize("way", WAYS)
def test_an_event_that_given_tables_exclude_is_not_counted(way):
    given = {
        "smart": {"yes": 1.0, "no": 0.0},
        "prepared": {"yes": {"yes": 1, "no": 0}, "no": {"yes": 1, "no": 0}},
    }
    model = way(BayesianNetwork(PAIR, tables=given))
    model.learn_one({"prepared": "no"})
    assert model.network.counts("prepared") == {}


def test_the_table_of_the_page_is_what_the_three_ways_answer():
    page = (Path(streamnb.__file__).parents[1] / "docs" / "networks.md").read_text()
    events = [x for x in pairs() if x["prepared"] is not None]
    values = {"smart": ["yes", "no"], "prepared": ["yes", "no"]}
    exact = enumerated(PAIR, values, events, ("prepared", ("yes",)))
    printed = {
        name: float(p) for name, p in re.findall(r"^\| `(Network\w+)` .*?(\.\d{4}) \|", page, re.MULTILINE)
    }
    assert (
        float(re.search(r"exact (\.\d+)", page)[1])
        == printed["NetworkMCMC"]
        == pytest.approx(exact, abs=5e-5)
    )
    for way in (NetworkEM, NetworkVariationalBayes):
        model = taught(way, events)
        while model.revisit():
            pass
        assert model.network.probability(*ASKED) == pytest.approx(printed[way.__name__], abs=5e-5)


def test_a_draw_does_not_depend_on_the_draw_before_it():
    """The event is set aside: with one gap, whose values are equally probable, half of the draws differ."""
    values = {"smart": ["yes", "no"], "prepared": ["yes", "no"]}
    events = [{"smart": s, "prepared": p} for s, p in (("yes", "yes"), ("no", "yes"), (None, "yes"))]
    model = taught(NetworkMCMC, events, BayesianNetwork(PAIR, values=values, alpha=0.1))
    drawn = []
    for _ in range(400):
        model.revisit()
        drawn.append(model.network.counts("smart")[("yes",)])
    assert set(drawn) == {1.0, 2.0}
    assert abs(sum(a != b for a, b in pairwise(drawn)) - 200) < 50
