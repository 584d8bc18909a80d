"""Parameters that can be read are those that predict, and events drawn from them teach them again."""

from __future__ import annotations

import json
import math
from collections import Counter
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb import BernoulliNB, CategoricalNB, GaussianNB, MultinomialNB, NaiveBayes, Nominal
from streamnb.cli import main
from tests.laws.test_lectures import NAMES, QUERY, play_tennis

EVENTS = st.lists(
    st.tuples(
        st.fixed_dictionaries(
            {},
            optional={
                "color": st.sampled_from(["red", "blue", "green"]),
                "text": st.sampled_from(["win cash", "lunch now", "cash now now", ""]),
                "size": st.floats(-9, 9),
            },
        ),
        st.sampled_from(["a", "b", "c"]),
    ),
    min_size=1,
    max_size=12,
)
SMOOTHING = st.sampled_from(
    [{}, {"alpha": 0.25}, {"m": 2.0}, {"prior": "uniform"}, {"prior": {"a": 3.0, "b": 1.0}}]
)


def by_parameters(parameters, x, label):
    """Log P(label, x) as a student would multiply it."""
    found = math.log(parameters.prior[label]) if parameters.prior[label] else -math.inf
    for name, own in parameters.discrete.items():
        row = own.table[label]
        if name not in x:
            continue
        if own.kind == "bernoulli":
            here = set(x[name].split())
            found += sum(math.log(p if word in here else 1.0 - p) for word, p in row.items())
        else:
            values = x[name].split() if own.kind == "multinomial" else [x[name]]
            found += sum(math.log(row[value]) for value in values if value in row)
    for name, of_class in parameters.continuous.items():
        if name in x:
            mean, variance = of_class[label]
            found -= 0.5 * (math.log(2 * math.pi * variance) + (x[name] - mean) ** 2 / variance)
    return found


def test_they_print_as_plain_numbers():
    assert "np." not in repr(play_tennis(m=2.0).parameters())


@given(EVENTS, SMOOTHING, st.sampled_from(["multinomial", "bernoulli"]))
def test_the_product_of_the_parameters_is_the_joint_likelihood(events, smoothing, event_model):
    model = NaiveBayes(event_model=event_model, **smoothing)
    for x, label in events:
        model.learn_one(x, label)
    parameters = model.parameters()
    assert math.fsum(parameters.prior.values()) == pytest.approx(1.0)
    for x, _ in events:
        for label, joint in model.joint_log_likelihood(x).items():
            assert by_parameters(parameters, x, label) == pytest.approx(joint, rel=1e-9, abs=1e-9)
    for own in parameters.discrete.values():
        if own.kind != "bernoulli":
            for row in own.table.values():
                assert not row or math.fsum(row.values()) == pytest.approx(1.0)


def test_row_9_play_tennis_has_1_4_4_2_2_parameters():
    parameters = play_tennis().parameters()
    assert list(parameters.n_free.values()) == [1, 4, 4, 2, 2]
    assert play_tennis().n_parameters == 13
    unsmoothed = play_tennis(alpha=0).parameters()
    assert unsmoothed.prior == pytest.approx({"no": 5 / 14, "yes": 9 / 14})
    assert unsmoothed.discrete["wind"].table["no"]["strong"] == pytest.approx(3 / 5)
    products = {
        label: p * math.prod(unsmoothed.discrete[name].table[label][QUERY[name]] for name in NAMES)
        for label, p in unsmoothed.prior.items()
    }
    assert {label: round(p, 4) for label, p in products.items()} == {"no": 0.0206, "yes": 0.0053}


def test_booleans_of_two_classes_have_2n_plus_1_parameters():
    """Deck 001: of 2 (2 n + 1) numbers, 2 n + 1 need to be estimated."""
    model = CategoricalNB()
    for i, row in enumerate(product([True, False], repeat=3)):
        model.learn_one(dict(zip("abc", row, strict=True)), i % 2)
    parameters = model.parameters()
    numbers = len(parameters.prior) + sum(
        len(row) for own in parameters.discrete.values() for row in own.table.values()
    )
    assert (numbers, model.n_parameters) == (2 * (2 * 3 + 1), 2 * 3 + 1)


def test_declared_values_that_were_not_met_have_a_probability():
    model = CategoricalNB(attributes={"cover": Nominal(values=["fur", "feathers", "scales"])})
    model.learn_one({"cover": "fur"}, "lion")
    own = model.parameters().discrete["cover"]
    assert own.table["lion"] == pytest.approx({"fur": 0.5, "feathers": 0.25, "scales": 0.25})
    assert (own.added, own.added_total, own.n_values, own.n_free) == (1.0, 3.0, 3, 2)


def test_without_smoothing_a_value_that_a_class_lacks_has_probability_0():
    model = CategoricalNB(alpha=0)
    model.learn_one({"a": "x"}, 0)
    model.learn_one({"a": "y"}, 1)
    assert model.parameters().discrete["a"].table == {0: {"x": 1.0, "y": 0.0}, 1: {"x": 0.0, "y": 1.0}}
    assert all(x == {"a": "xy"[label]} for x, label in model.sample(50))


def test_a_model_without_examples_has_no_parameters():
    assert NaiveBayes().n_parameters == 0
    with pytest.raises(ValueError, match="nothing has been learned"):
        NaiveBayes().sample(1)


def taught():
    mixed = NaiveBayes({"text": "text"})
    for i in range(30):
        mixed.learn_one(
            {
                "text": ["win cash now", "lunch now"][i % 2],
                "size": i % 5 + 3.0 * (i % 2),
                "hue": "rgb"[i % 3],
            },
            ["spam", "ham"][i % 2] if i % 7 else "odd",
        )
    words, presence, numbers = MultinomialNB(), BernoulliNB(), GaussianNB()
    for text, label in [("a b b", 1), ("a c", 0), ("c c b", 0), ("d", 1)]:
        words.learn_one(text, label)
        presence.learn_one(text, label)
    for x, label in [(1.0, "l"), (2.5, "l"), (7.0, "r"), (9.0, "r"), (5.0, "r")]:
        numbers.learn_one({"x": x}, label)
    return [mixed, words, presence, numbers, play_tennis()]


@pytest.mark.parametrize("model", taught(), ids=lambda model: type(model).__name__)
def test_a_model_learned_from_its_samples_converges_to_it(model):
    n = 20_000
    drawn = model.sample(n, seed=3)
    again = model.clone()
    again.learn_many(*map(list, zip(*drawn, strict=True)))
    told, found = model.parameters(), again.parameters()
    for label, p in told.prior.items():
        assert abs(found.prior[label] - p) < 5 * math.sqrt(p * (1 - p) / n)
    for name, own in told.discrete.items():
        for label, row in own.table.items():
            size = n * told.prior[label]
            for value, p in row.items():
                assert abs(found.discrete[name].table[label].get(value, 0.0) - p) < 6 * math.sqrt(p / size)
    for name, of_class in told.continuous.items():
        for label, (mean, variance) in of_class.items():
            size = n * told.prior[label]
            other = found.continuous[name][label]
            assert abs(other.mean - mean) < 5 * math.sqrt(variance / size)
            assert abs(other.variance / variance - 1.0) < 5 * math.sqrt(2.0 / size)


def test_a_cut_into_calls_changes_no_sample():
    for model in taught():
        assert model.sample(2, seed=5) + model.sample(5, seed=5, first=2) == model.sample(7, seed=5)
        assert model.sample(7, seed=6) != model.sample(7, seed=5)


def test_on_its_samples_a_model_reaches_the_bayes_rate():
    """The best accuracy is sum over x of max over v of P(v, x); every x of PlayTennis's 36 is enumerated."""
    model = play_tennis()
    values = [list(model.parameters().discrete[name].table["no"]) for name in NAMES]
    joints = [
        model.joint_log_likelihood(dict(zip(NAMES, row, strict=True))).values() for row in product(*values)
    ]
    best = sum(math.exp(max(row)) for row in joints)
    assert sum(math.exp(joint) for row in joints for joint in row) == pytest.approx(1.0)
    learner, n = play_tennis().clone(), 20_000
    for x, label in model.sample(n):
        learner.learn_one(x, label)
    right = sum(learner.predict_one(x) == label for x, label in model.sample(n, first=n))
    assert abs(right / n - best) < 5 * math.sqrt(best * (1 - best) / n)


def test_evaluate_on_samples_reaches_the_bayes_rate(tmp_path, capsys):
    """Learned on one half of a drawn stream and scored on the other, as for any file of events."""
    model, n = play_tennis(), 6000
    values = [list(model.parameters().discrete[name].table["no"]) for name in NAMES]
    rows = [dict(zip(NAMES, row, strict=True)) for row in product(*values)]
    best = sum(math.exp(max(model.joint_log_likelihood(x).values())) for x in rows)
    lines = [json.dumps({"features": x, "label": label}) for x, label in model.sample(n, seed=8)]
    (tmp_path / "drawn.jsonl").write_text("\n".join(lines))
    arguments = ["--holdout", "1/2", "--set", "model.kind=naive_bayes", "--json"]
    assert main(["evaluate", str(tmp_path / "drawn.jsonl"), *arguments]) == 0
    scores = json.loads(capsys.readouterr().out)["cumulative"]
    assert abs(scores["accuracy"] - best) < 5 * math.sqrt(best * (1 - best) / (n / 2))


def test_consecutive_samples_are_independent():
    """No uniform of an event is used again by the next one."""
    model, n = play_tennis(), 20_000
    drawn = model.sample(n)
    prior, wind = model.parameters().prior, Counter(x["wind"] for x, _ in drawn)
    outlook = Counter(x["outlook"] for x, _ in drawn)
    for counts, name in ((wind, "wind"), (outlook, "outlook")):
        for value, times in counts.items():
            joint = sum(x[name] == value and y == "no" for (x, _), (_, y) in pairwise(drawn)) / n
            p = times / n * prior["no"]
            assert abs(joint - p) < 6 * math.sqrt(p * (1 - p) / n)


@pytest.mark.parametrize("prior", ["learned", "uniform"])
def test_a_class_that_comes_later_has_parameters(prior):
    model = CategoricalNB(prior=prior)
    for i, label in enumerate("abcd"):
        model.learn_one({"f": "u"}, label)
        assert model.parameters().prior == dict.fromkeys("abcd"[: i + 1], 1 / (i + 1))
