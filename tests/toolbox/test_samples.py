"""Models learned from samples converge to the models that drew them, and no cut changes a sample."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import pytest

from streamnb import (
    BayesianNetwork,
    BayesianNetworkClassifier,
    ConceptLearner,
    Conjunctions,
    GaussianNB,
    HiddenMarkovModel,
    HiddenMarkovNB,
    JointTable,
    MixtureModel,
    SemiSupervisedNB,
)
from streamnb.statistics.counter_rng import pick

ALARM = {
    "burglary": {"yes": 0.1, "no": 0.9},
    "earthquake": {"yes": 0.3, "no": 0.7},
    "alarm": {
        ("yes", "yes"): {"yes": 0.95, "no": 0.05},
        ("yes", "no"): {"yes": 0.8, "no": 0.2},
        ("no", "yes"): {"yes": 0.29, "no": 0.71},
        ("no", "no"): {"yes": 0.05, "no": 0.95},
    },
}
PARENTS = {"alarm": ["burglary", "earthquake"], "burglary": [], "earthquake": []}


def near(found, p, n):
    return abs(found - p) < 5 * math.sqrt(p * (1 - p) / n) + 1e-12


def test_a_network_learned_from_samples_converges():
    n = 20_000
    network, learned = BayesianNetwork(PARENTS, tables=ALARM), BayesianNetwork(PARENTS)
    for x in network.sample(n, seed=2):
        learned.learn_one(x)
    assert list(network.sample(1)[0]) == list(PARENTS), "variables have the order of the declaration"
    for name, parents in PARENTS.items():
        for above, row in network.table(name).items():
            size = n * network.probability(dict(zip(parents, above, strict=True)))
            for value, p in row.items():
                assert near(learned.table(name)[above][value], p, size)


def test_a_classifier_reaches_the_bayes_rate_on_its_samples():
    model = BayesianNetworkClassifier({"a": ["label"], "b": ["label", "a"]})
    for a, b, label in [("x", "x", 0), ("x", "y", 1), ("y", "y", 0), ("y", "x", 1), ("x", "x", 0)]:
        model.learn_one({"a": a, "b": b}, label)
    joints = [
        [model.network.joint("a", "b", model.target).probabilities[i, j, k] for k in range(2)]
        for i, j in product(range(2), repeat=2)
    ]
    best, n = sum(map(max, joints)), 10_000
    learner = model.clone()
    for x, label in model.sample(n):
        learner.learn_one(x, label)
    right = sum(learner.predict_one(x) == label for x, label in model.sample(n, first=n))
    assert near(right / n, best, n)


CHUNKS = HiddenMarkovModel(
    initial={"B": 1.0},
    transition={"B": {"B": 0.8, "I": 0.2}, "I": {"B": 0.5, "I": 0.5}},
    emission={
        "B": {"a": 0.25, "b": 0.10, "c": 0.65},
        "I": {"a": 0.25, "b": 0.0, "c": 0.75},
    },
)


def test_row_19_a_chain_learned_from_samples_converges_to_the_chunker():
    drawn = CHUNKS.sample(2000, length=10, seed=4)
    learned = HiddenMarkovModel(m=0, emission_m=0)
    for observations, states in drawn:
        learned.learn_one(observations, states)
    visits = Counter(state for _, states in drawn for state in states)
    for told, found in (
        (CHUNKS.transition_probabilities(), learned.transition_probabilities()),
        (CHUNKS.emission_probabilities(), learned.emission_probabilities()),
    ):
        for state, row in told.items():
            assert all(near(found[state][key], p, 0.9 * visits[state]) for key, p in row.items())
    assert learned.initial_probabilities() == {"B": 1.0, "I": 0.0}


SEEN = ["well"] * 6 + ["ill"] * 6 + ["well"] * 6 + ["ill"] * 3


def sticky(**parameters):
    model = HiddenMarkovNB(**parameters)
    for i, label in enumerate(SEEN):
        model.learn_one(
            {"entity": "e", "sound": "loud" if (label == "ill") != (i % 5 == 0) else "calm"}, label
        )
    return model


def test_chains_learned_from_the_events_of_drawn_entities_converge():
    model = sticky(transition_m=2.0)
    n, length = 400, 20
    learned, drawn = model.clone(), model.sample(n, length, seed=3)
    for x, label in drawn:
        learned.learn_one(x, label)
    assert learned.n_entities == n
    found = learned.transitions.table / learned.transitions.table.sum(axis=1, keepdims=True)
    order = [learned.classes.index(label) for label in model.classes]
    prior = [model.class_weights[label] / 21 for label in model.classes]
    expected = [[(c + 2.0 * p) / (sum(row) + 2.0) for c, p in zip(row, prior, strict=True)]
                for row in (model.transitions.table / 1024).tolist()]  # fmt: skip
    for i, j in product(range(2), repeat=2):
        assert near(found[order[i], order[j]], expected[i][j], n * length / 3)
    loud = Counter(label for x, label in drawn if x["sound"] == "loud")
    total = Counter(label for _, label in drawn)
    for label in "well", "ill":
        own = [i for i, other in enumerate(SEEN) if other == label]
        times = sum((label == "ill") != (i % 5 == 0) for i in own)
        assert near(loud[label] / total[label], (times + 1) / (len(own) + 2), total[label])
    assert model.sample(1, length, seed=3, first=7) == drawn[7 * length : 8 * length]


def test_draws_of_a_joint_table_have_its_probabilities():
    table = JointTable({"a": "xy", "b": [0, 1, 2]}, [[0.1, 0.0, 0.3], [0.2, 0.15, 0.25]])
    n = 20_000
    drawn = Counter(tuple(x.values()) for x in table.sample(n, seed=1))
    for a, b in product("xy", "012"):
        assert near(drawn[a, b] / n, table.probability({"a": a, "b": b}), n)
    assert table.sample(2, seed=5) + table.sample(5, seed=5, first=2) == table.sample(7, seed=5)


def test_a_concept_with_noise_is_the_most_probable_one_of_its_samples():
    values = {"sky": ["sunny", "rainy"], "wind": ["strong", "weak"], "water": ["warm", "cool"]}
    days = Conjunctions(values)
    xs = [dict(zip(values, row, strict=True)) for row in product(*values.values())]
    teacher = ConceptLearner(days, noise=0.2)
    concept = teacher.draw(7)
    n, learner = 4000, teacher.clone()
    drawn = teacher.sample(xs * (n // len(xs)), concept)
    for x, label in drawn:
        learner.learn_one(x, label)
    assert learner.map() == concept
    wrong = sum(concept.covers(x) != label for x, label in drawn)
    assert near(wrong / n, 0.2, n)


@pytest.mark.parametrize(
    "draws",
    [
        BayesianNetwork(PARENTS, tables=ALARM).sample,
        lambda n, seed, first=0: CHUNKS.sample(n, 4, seed, first),
    ],
)
def test_a_cut_into_calls_changes_no_sample(draws):
    assert draws(2, seed=5) + draws(5, seed=5, first=2) == draws(7, seed=5)
    assert draws(7, seed=6) != draws(7, seed=5)


def test_nothing_is_drawn_from_nothing():
    mixture = MixtureModel(GaussianNB()).sample
    networks = BayesianNetwork({"a": []}).sample, HiddenMarkovModel().sample
    for empty in (*networks, HiddenMarkovNB().sample, SemiSupervisedNB(GaussianNB()).sample, mixture):
        with pytest.raises(ValueError, match="no"):
            empty(1)
    assert pick({"a": 0.0, "b": 2.0, "c": 0.0}, 1.0 - 2.0**-53) == "b"
