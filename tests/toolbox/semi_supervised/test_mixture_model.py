"""Mixtures without labels: fixed points of batch EM, recovered components, and their number by evidence."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from streamnb import (
    CategoricalNB,
    GaussianNB,
    MixtureModel,
    MultinomialNB,
    NaiveBayes,
    SequentialPosterior,
    Text,
)
from streamnb.errors import SnapshotError, UnlearnError
from tests.support.states import digest

CENTRES = [(-4.0, 0.0), (0.0, 4.0), (4.0, 0.0)]
WORDS = [f"w{i}" for i in range(20)]
CHANCES = np.random.default_rng(5).dirichlet(np.full(20, 0.2), size=3)


def numbers(n, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        c = int(rng.integers(3))
        a, b = CENTRES[c] + rng.normal(size=2)
        yield {"a": float(a), "b": float(b)}, c


def texts(n, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        c = int(rng.integers(3))
        yield " ".join(rng.choice(WORDS, p=CHANCES[c], size=12)), c


def learned(make, events, n_components=3, **parameters):
    model = MixtureModel(make(), n_components, **{"window": 150, **parameters})
    evidence = 0.0
    for x, _ in events:
        evidence += model.log_evidence_one(x)
        model.learn_one(x)
    return model, evidence


KINDS = {"numbers": (GaussianNB, numbers), "texts": (MultinomialNB, texts)}


@pytest.mark.parametrize("kind", KINDS)
def test_components_are_the_hidden_classes(kind):
    make, draw = KINDS[kind]
    model, _ = learned(make, draw(300))
    pairs = Counter((model.predict_one(x), c) for x, c in draw(300, seed=1))
    name = {c: max(range(3), key=lambda j: pairs[j, c]) for c in range(3)}
    assert sorted(name.values()) == [0, 1, 2]
    assert sum(n for (j, c), n in pairs.items() if name[c] == j) > 0.95 * 300


@pytest.mark.parametrize("kind", KINDS)
def test_evidence_chooses_the_number_of_components(kind):
    """The posterior over 1 to 4 components, by the prequential evidence of each."""
    make, draw = KINDS[kind]
    events = list(draw(400))
    evidences = {k: learned(make, events, k)[1] for k in (1, 2, 3, 4)}
    posterior = SequentialPosterior(dict.fromkeys(evidences, 0.25))
    posterior.update_log(evidences)
    assert posterior.map() == 3
    assert posterior.probabilities[1] + posterior.probabilities[2] < 1e-6


def test_one_component_is_naive_bayes_of_one_class():
    model, evidence = learned(GaussianNB, numbers(80), 1, warmup=10)
    plain = GaussianNB()
    for x, _ in numbers(80):
        plain.learn_one(x, 0)
    found, expected = model.parameters().continuous, plain.parameters().continuous
    for name in ("a", "b"):
        assert found[name][0] == pytest.approx(expected[name][0], rel=1e-9)
    assert evidence < 0.0
    assert model.n_parameters == 4


def test_where_it_rests_is_a_fixed_point_of_batch_em():
    """Two coins per event, two kinds of pairs: responsibilities by Bayes' theorem from their own sums."""
    rng = np.random.default_rng(2)
    events = []
    for _ in range(60):
        p = 0.9 if rng.random() < 0.4 else 0.2
        events.append({name: "HT"[int(rng.random() > p)] for name in "abcde"})
    model = MixtureModel(CategoricalNB(), 2, window=60, warmup=60)
    for x in events:
        model.learn_one(x)
    for _ in range(2000):
        if not model.revisit():
            break
    rows = model.responsibilities()
    total = [sum(row[j] for row in rows) for j in (0, 1)]
    assert all(math.isclose(sum(row.values()), 1.0) for row in rows)
    for x, row in zip(events, rows, strict=True):
        weights = []
        for j in (0, 1):
            p = total[j] / 60
            for name, value in x.items():
                n = sum(r[j] for r, other in zip(rows, events, strict=True) if other[name] == value)
                p *= (n + 1) / (total[j] + 2)
            weights.append(p)
        assert row[0] == pytest.approx(weights[0] / sum(weights), abs=2 / 1024)
    assert min(total) > 10


def test_a_mixture_learned_from_its_samples_has_its_parameters():
    teacher, _ = learned(GaussianNB, numbers(300))
    student = MixtureModel(GaussianNB(), 3, window=150)
    for x, _ in teacher.sample(600, seed=4):
        student.learn_one(x)
    own, found = (sorted(m.parameters().continuous["a"].values()) for m in (teacher, student))
    for one, other in zip(own, found, strict=True):
        assert other.mean == pytest.approx(one.mean, abs=5 * math.sqrt(one.variance / 150))
        assert other.variance == pytest.approx(one.variance, rel=0.5)
    shares = Counter(component for _, component in teacher.sample(600, seed=4))
    for component, p in teacher.parameters().prior.items():
        assert shares[component] / 600 == pytest.approx(p, abs=0.1)


def test_evidence_is_the_sum_over_the_components():
    """log sum_j P(c_j) prod_i N(x_i; mean_ij, variance_ij), between two centres."""
    model, _ = learned(GaussianNB, numbers(200))
    found, x = model.parameters(), {"a": -2.0, "b": 2.0}
    parts = [
        math.log(p) + sum(
            -0.5 * math.log(2 * math.pi * own[j].variance) - (x[name] - own[j].mean) ** 2 / 2 / own[j].variance
            for name, own in found.continuous.items()
        )
        for j, p in found.prior.items()
    ]  # fmt: skip
    assert model.log_evidence_one(x) == pytest.approx(math.log(math.fsum(map(math.exp, parts))), rel=1e-9)
    assert model.log_evidence_one(x) > max(parts) + 0.1
    total = math.fsum(map(math.exp, parts))
    for j, part in zip(found.prior, parts, strict=True):
        assert model.predict_proba_one(x)[j] == pytest.approx(math.exp(part) / total, rel=1e-9)


def test_kinds_of_attributes_multiply():
    model = MixtureModel(NaiveBayes({"text": Text(alpha=0.5)}), 2, warmup=20)
    for i in range(60):
        model.learn_one({"text": "ball goal" if i % 2 else "vote law", "size": i % 2 * 5.0 + i % 7 / 10})
    assert (
        model.predict_one({"text": "goal"})
        == model.predict_one({"size": 5.0})
        != model.predict_one({"size": 0.2})
    )


def test_before_the_warm_up_is_over_nothing_is_said():
    model = MixtureModel(GaussianNB(), 2, warmup=5)
    for x, _ in numbers(4):
        model.learn_one(x)
        assert (model.predict_one(x), model.predict_proba_one(x), model.log_evidence_one(x)) == (
            None,
            {},
            0.0,
        )
    assert not model.is_warm
    model.learn_one({"a": 1.0})
    assert model.is_warm


def test_an_event_of_the_window_is_unlearned_exactly():
    model, _ = learned(MultinomialNB, texts(120), window=200)
    before = model.model.class_weights
    model.learn_one("w1 w2 w3")
    model.unlearn_one("w1 w2 w3")
    assert sum(model.model.class_weights.values()) == sum(before.values()) == 120
    assert model.n_events == 120
    with pytest.raises(UnlearnError, match="in the window"):
        model.unlearn_one("never met")


@pytest.mark.parametrize("n", [60, 130])
def test_a_restored_state_continues_alike(n):
    """During the warm-up, and after it."""
    events = list(numbers(n + 60))
    model, _ = learned(GaussianNB, events[:n])
    again = MixtureModel(GaussianNB(), 3, window=150).load_state(*model.state())
    for x, _ in events[n:]:
        model.learn_one(x)
        again.learn_one(x)
    assert digest(model) == digest(again)
    with pytest.raises(SnapshotError, match="components"):
        MixtureModel(GaussianNB(), 2, window=150).load_state(*model.state())


@pytest.mark.parametrize("seed", range(3))
def test_ten_numbers_for_each_component_separate_them(seed):
    rng = np.random.default_rng(seed)
    model = MixtureModel(GaussianNB(), 2, warmup=20)
    for i in range(20):
        model.learn_one({"x": float(rng.normal(5.0 * (i % 2)))})
    means = sorted(one.mean for one in model.parameters().continuous["x"].values())
    assert means == pytest.approx([0.0, 5.0], abs=1.0)


def test_equal_seeds_learn_alike():
    one, same = (learned(GaussianNB, numbers(120), seed=3)[0] for _ in range(2))
    assert digest(one) == digest(same)


def test_its_limits():
    for parameters in ({"n_components": 0}, {"warmup": 1}, {"window": 50}, {"starts": 0}, {"seed": -1}):
        with pytest.raises(ValueError, match=next(iter(parameters))):
            MixtureModel(GaussianNB(), **parameters)
    taught = GaussianNB()
    taught.learn_one({"a": 1.0}, "x")
    with pytest.raises(ValueError, match="has learned"):
        MixtureModel(taught)
