"""Items of naive Bayes: each is the model's own score of an event that holds this value alone."""

from __future__ import annotations

import random

import pytest

from streamnb import BernoulliNB, CategoricalNB, GaussianNB, HiddenMarkovNB, MultinomialNB, NaiveBayes
from streamnb.features.attributes import Nominal, Text
from streamnb.models.interface.attribution import odds, single_events
from streamnb.models.interface.attribution_parts import LIMIT

ATTRIBUTES = {
    "text": "text",
    "title": Text(event_model="bernoulli"),
    "size": Nominal(values=["s", "m", "l", "xl"]),
}
MODELS = {
    "alpha": lambda: NaiveBayes(ATTRIBUTES),
    "no smoothing": lambda: NaiveBayes({"text": "text", "title": Text(event_model="bernoulli")}, alpha=0.0),
    "m-estimate": lambda: NaiveBayes(ATTRIBUTES, m=2.0),
    "own smoothing": lambda: NaiveBayes(
        {"text": Text(alpha=0.0), "title": Text(event_model="bernoulli", m=3.0, p=0.2)}
    ),
    "a prior of 0": lambda: NaiveBayes(ATTRIBUTES, prior={"a": 1.0, "b": 0.0, "c": 2.0}),
    "uniform": lambda: NaiveBayes(ATTRIBUTES, prior="uniform", event_model="bernoulli"),
    "chains": lambda: HiddenMarkovNB(ATTRIBUTES, entity="entity"),
}
WORDS = [f"w{i}" for i in range(12)] + ["\u00c9t\u00e9"]


def event(rng):
    x = {}
    for name in ("text", "title", "memo"):
        words = rng.choices(WORDS, k=rng.choice([0, 1, 3, 9]))
        if rng.random() < 0.7:
            x[name] = " ".join(words) if rng.random() < 0.7 and name != "memo" else rng.choice(WORDS)
    if rng.random() < 0.3:
        x["text"] = {word: rng.choice([0.5, 1, 2, 3]) for word in rng.choices(WORDS, k=4)}
    if rng.random() < 0.7:
        x["size"] = rng.choice("sm" if rng.random() < 0.8 else ["l"])
    if rng.random() < 0.7:
        x["colour"] = rng.choice(["red", "blue", True, 0])
    for name in ("height", "width"):
        if rng.random() < 0.6:
            x[name] = rng.gauss(1.0, 2.0)
    return x


def expected(model, x, first, second):
    """Log odds of the prior, and of every value, by the scores of events that hold one value alone."""
    nothing = model.joint_log_likelihood({})
    singles = single_events(*model._reader.texts(x))
    scores = [nothing, *(model.joint_log_likelihood(single.event) for single in singles)]
    found = {}
    for single, score in zip(singles, scores[1:], strict=True):
        base = scores[single.base]
        found[single.name, single.value] = odds(score, base, first, second)
    return odds(nothing, dict.fromkeys(nothing, 0.0), first, second), found


def check(model, x, items, first, second, prior=None):
    before, every = expected(model, x, first, second)
    found = {(item.attribute, item.value): item.log_odds for item in items}
    assert len(found) == len(items)
    assert {
        key: value for key, value in every.items() if abs(value) > 1e-9 and abs(value) < LIMIT
    } == pytest.approx(
        {key: value for key, value in found.items() if abs(value) > 1e-9 and abs(value) < LIMIT},
        rel=1e-9,
        abs=1e-9,
    )
    for key, value in found.items():
        if abs(value) == LIMIT:
            assert every[key] == value, key
    assert [abs(item.log_odds) for item in items] == sorted(
        (abs(item.log_odds) for item in items), reverse=True
    )
    if prior is not None:
        assert prior == pytest.approx(before, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_items_are_the_scores_of_single_values(name):
    rng, model = random.Random(name), MODELS[name]()
    for i in range(220):
        x, y = event(rng), rng.choice("aabbbc")
        explanation = model.explanation_one(x)
        if explanation is not None and name != "chains":
            first, second, prior, items = explanation
            check(model, x, items, first, second, prior)
            if i % 10 == 0:
                one, other = rng.sample(sorted(model.classes), 2)
                _, _, prior, items = model.explanation_one(x, of=one, against=other)
                check(model, x, items, one, other, prior)
        if i % 7 == 3:
            model.unlearn_one(x, y) if i % 2 and not model.learn_one(x, y) else None
        model.learn_one(x, y)


def test_a_word_that_every_text_of_a_class_has_counts_the_limit():
    """Without the word the class is excluded; in the other class it is neither certain nor excluded."""
    model = NaiveBayes({"title": Text(event_model="bernoulli")}, alpha=0.0)
    for title, label in (("w x", "a"), ("w", "a"), ("w", "b"), ("x", "b"), ("y", "b")):
        model.learn_one({"title": title}, label)
    first, second, prior, items = model.explanation_one({"title": "w"}, of="a", against="b")
    check(model, {"title": "w"}, items, first, second, prior)
    assert {item.value: item.log_odds for item in items} == {"w": LIMIT, "": -LIMIT}


def test_a_number_beyond_the_cut_of_both_densities_counts_nothing():
    model = NaiveBayes()
    for width, label in ((1e-13, "a"), (1e-12, "b")):
        model.learn_many([{"n": -width}, {"n": width}], [label, label])
    for n, items in ((1e120, 1), (1e139, 0)):
        explanation = model.explanation_one({"n": n}, of="a", against="b")
        check(model, {"n": n}, explanation.items, "a", "b", explanation.prior)
        assert len(explanation.items) == items


@pytest.mark.parametrize(
    ("make", "of"),
    [
        *((make, dict) for name, make in MODELS.items() if name != "chains"),
        (MultinomialNB, lambda x: x.get("text", "")),
        (BernoulliNB, lambda x: x.get("text", "")),
        (GaussianNB, lambda x: {name: value for name, value in x.items() if isinstance(value, float)}),
        (CategoricalNB, lambda x: {name: x[name] for name in x if name in {"colour", "size"}}),
    ],
)
@pytest.mark.parametrize("cut", [1, 7, 200])
def test_a_batch_explains_each_event_before_it_is_learned(make, of, cut):
    rng, alone, together = random.Random(cut), make(), make()
    rows = [(of(event(rng)), rng.choice(["a", "b", "c", None]), rng.choice([1.0, 2.5])) for _ in range(150)]
    if isinstance(alone, GaussianNB):
        rows = [row for row in rows if row[0]]
    expected_items, expected_rows = [], []
    for x, y, w in rows:
        expected_items.append(alone.explain_one(x, 4))
        expected_rows.append(alone.predict_then_learn_many([x], [y], [w]).probabilities[0].tolist())
    items, found = [], []
    for i in range(0, len(rows), cut):
        posteriors, explained = together.explain_then_learn_many(*zip(*rows[i : i + cut], strict=True), top=4)
        items += explained
        found += [
            row[: len(mine)]
            for row, mine in zip(posteriors.probabilities.tolist(), expected_rows[i:], strict=False)
        ]
    assert items == expected_items
    assert found == expected_rows
    assert together.state()[0] == alone.state()[0]


def test_a_bag_keeps_its_keys():
    model = NaiveBayes({"text": "text"})
    for word, label in ((5, "a"), (7, "b"), ("x", "b")):
        model.learn_one({"text": {word: 2}}, label)
    assert {item.value for item in model.explain_one({"text": {5: 1, 7: 1, "x": 1}})} == {5, 7, "x"}


def test_strongest_items_come_first_and_equals_by_their_position():
    model = NaiveBayes({"text": "text"})
    model.learn_one({"text": "c d b a a"}, "one")
    model.learn_one({"text": "z"}, "other")
    _, (items,) = model.explain_then_learn_many([{"text": "b d a c z"}], [None], top=4)
    assert [item.value for item in items] == ["z", "a", "b", "d"]
