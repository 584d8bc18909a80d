"""Every model against a recount in exact arithmetic."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamnb import (
    BernoulliNB,
    CategoricalNB,
    Continuous,
    GaussianNB,
    MultinomialNB,
    NaiveBayes,
    Nominal,
    Text,
)
from tests.oracles.oracle import Recount

WORDS = st.sampled_from("a b c d e f g Σίσυφος naïve 42 x_1".split())
TEXTS = st.lists(WORDS, max_size=12).map(" ".join)
VALUES = st.sampled_from(["red", "green", "blue", "RED", ""])
NUMBERS = st.integers(-1000, 1000).map(lambda n: n / 8)
LABELS = st.sampled_from(["ham", "spam", "eggs"])
WEIGHTS = st.sampled_from([1, 1, 1, 2, 0.5, 0.0009765625, 3.25, 0])
SMOOTHING = st.one_of(
    st.sampled_from([1.0, 0.5, 0.01, 1e-9, 3.0]),
    st.tuples(st.just("m"), st.sampled_from([1.0, 0.25, 7.0]), st.sampled_from([None, 0.5, 0.125])),
)


def maybe(strategy):
    return st.one_of(st.none(), strategy)


def keywords(how):
    return {"m": how[1], "p": how[2]} if isinstance(how, tuple) else {"alpha": how}


def learn(model, examples):
    for x, y, w in examples:
        model.learn_one(x, y, w)
    return model


def assert_equal(model, recount, x, *, relative=1e-12):
    joints = model.joint_log_likelihood(x)
    assert list(joints) == recount.classes()
    for label, joint in joints.items():
        exact = float(recount.joint(x, label))
        assert joint == pytest.approx(exact, rel=relative, abs=1e-11), (label, joint, exact)
    probabilities = model.predict_proba_one(x)
    for label, exact in recount.posterior(x).items() if joints else ():
        assert probabilities[label] == pytest.approx(float(exact), rel=1e-9, abs=1e-12)
    assert not joints or math.isclose(sum(probabilities.values()), 1.0, rel_tol=1e-12)


def events(**attributes):
    return st.fixed_dictionaries({name: maybe(strategy) for name, strategy in attributes.items()})


def examples(event):
    return st.lists(st.tuples(event, LABELS, WEIGHTS), max_size=12)


TEXT_EVENT = events(text=TEXTS)


@given(examples(TEXT_EVENT), TEXT_EVENT, SMOOTHING)
def test_multinomial(rows, x, how):
    model = learn(MultinomialNB(**keywords(how)), rows)
    assert_equal(model, Recount({"text": ("multinomial", how)}, rows), x)


@given(examples(TEXT_EVENT), TEXT_EVENT, SMOOTHING)
def test_bernoulli(rows, x, how):
    model = learn(BernoulliNB(**keywords(how)), rows)
    assert_equal(model, Recount({"text": ("bernoulli", how)}, rows), x)


NOMINAL_EVENT = events(colour=VALUES, shape=VALUES, size=VALUES)


@given(examples(NOMINAL_EVENT), NOMINAL_EVENT, SMOOTHING)
def test_categorical(rows, x, how):
    model = learn(CategoricalNB(**keywords(how)), rows)
    assert_equal(model, Recount(dict.fromkeys(("colour", "shape", "size"), ("nominal", how)), rows), x)


CONTINUOUS_EVENT = events(height=NUMBERS, width=NUMBERS)


@given(examples(CONTINUOUS_EVENT), CONTINUOUS_EVENT)
def test_gaussian(rows, x):
    model = learn(GaussianNB(), rows)
    recount = Recount({"height": ("continuous", None), "width": ("continuous", None)}, rows)
    # Welford's rounding grows with the condition number of the cell: at most ~1e5 here.
    assert_equal(model, recount, x, relative=1e-9)


MIXED_EVENT = events(
    subject=TEXTS,
    body=TEXTS,
    colour=VALUES,
    flag=st.sampled_from(["true", "false"]),
    height=NUMBERS,
    width=NUMBERS,
)
PRIORS = st.sampled_from(["learned", "uniform", {"ham": 1.0, "spam": 2.0, "eggs": 0.5}])


@settings(max_examples=200)
@given(examples(MIXED_EVENT), MIXED_EVENT, SMOOTHING, SMOOTHING, PRIORS)
def test_any_mixture(rows, x, first, second, prior):
    model = NaiveBayes(
        {
            "subject": Text(event_model="bernoulli", **keywords(second)),
            "body": Text(**keywords(first)),
            "colour": Nominal(**keywords(second)),
            "height": Continuous(),
        },
        **keywords(first),
        prior=prior,
    )
    attributes = {
        "subject": ("bernoulli", second),
        "body": ("multinomial", first),
        "colour": ("nominal", second),
        "flag": ("nominal", first),
        "height": ("continuous", None),
        "width": ("continuous", None),
    }
    assert_equal(learn(model, rows), Recount(attributes, rows, prior), x, relative=1e-9)


@given(examples(MIXED_EVENT), MIXED_EVENT)
@example(  # each class misses one word: ham of the body, spam of the subject
    [
        ({"body": "u", "subject": "s"}, "ham", 1),
        ({"subject": ""}, "ham", 1),
        ({"body": "v", "subject": "t"}, "spam", 1),
        ({"subject": ""}, "spam", 1),
    ],
    {"body": "v", "subject": "s"},
)
@example(  # light examples: "ham" keeps alpha times 10^20 in place of the limit's 0
    [
        *[({}, "ham", 1)] * 6,
        ({"body": "b"}, "ham", 0.0009765625),
        ({"subject": "a d", "body": "a"}, "eggs", 0.0009765625),
        ({"subject": "b c e f"}, "eggs", 1),
    ],
    {"subject": "a d", "body": "a"},
)
def test_alpha_zero_is_the_limit(rows, x):
    """alpha = 0 gives what alpha -> 0 tends to: 10^-200 is close enough to see it and 50 digits are enough."""
    kinds = {"subject": "bernoulli", "body": "multinomial", "colour": "nominal", "flag": "nominal"}
    tiny = Recount({name: (kind, "1e-200") for name, kind in kinds.items()}, rows)
    spec = {"subject": Text(event_model="bernoulli"), "body": Text()}
    x = {name: value for name, value in x.items() if name in kinds}
    model = learn(
        NaiveBayes(spec, alpha=0.0), [({k: v for k, v in r.items() if k in kinds}, y, w) for r, y, w in rows]
    )
    limit = tiny.posterior(x) if tiny.examples else {}
    probabilities = model.predict_proba_one(x)
    assert set(probabilities) == set(limit)
    for label, exact in limit.items():
        assert probabilities[label] == pytest.approx(float(exact), rel=1e-9, abs=1e-40)


@given(examples(MIXED_EVENT), MIXED_EVENT, st.sampled_from([None, 0.5, 0.125]))
def test_m_zero_is_the_limit(rows, x, p):
    kinds = {"subject": "bernoulli", "body": "multinomial", "colour": "nominal", "flag": "nominal"}
    tiny = Recount({name: (kind, ("m", "1e-200", p)) for name, kind in kinds.items()}, rows)
    spec = {"subject": Text(event_model="bernoulli"), "body": Text()}
    x = {name: value for name, value in x.items() if name in kinds}
    model = learn(
        NaiveBayes(spec, m=0.0, p=p), [({k: v for k, v in r.items() if k in kinds}, y, w) for r, y, w in rows]
    )
    for label, exact in (tiny.posterior(x) if tiny.examples else {}).items():
        assert model.predict_proba_one(x)[label] == pytest.approx(float(exact), rel=1e-9, abs=1e-40)


@pytest.mark.parametrize("p", [1 - 1e-6, 1 - 1e-9, 1 - 1e-12])
def test_a_prior_estimate_near_one_costs_no_digits(p):
    """What is left for absence is 1 - p; a difference of two large numbers would not hold it."""
    how = ("m", 1e6, p)
    attributes = {"text": ("bernoulli", how)}
    rows = [({"text": text}, label, 1) for text, label in [("a b", "x"), ("b c", "y"), ("c", "y"), ("", "x")]]
    model = learn(NaiveBayes({"text": Text(event_model="bernoulli", m=1e6, p=p)}), rows)
    recount = Recount(attributes, rows)
    for text in ("a", "b c", ""):
        assert_equal(model, recount, {"text": text})


@pytest.mark.parametrize(
    ("m", "p"), [(2.0, 0.5), (2e-6, 0.5), (2e-100, 0.5), (1e-100, 1e-100), (1e100, 1e-100), (1e100, 0.5)]
)
@pytest.mark.parametrize("present", [0, 1, 7, 300, 400])
def test_long_bernoulli_texts_neither_overflow_nor_underflow(m, p, present):
    """400 words: texts of one class have all of them, those of another none, those of a third every second."""
    words = [f"w{i}" for i in range(400)]
    model = NaiveBayes({"text": Text(event_model="bernoulli", m=m, p=p)})
    for i in range(8):
        model.learn_one({"text": " ".join(words)}, "all")
        model.learn_one({"text": ""}, "none")
        model.learn_one({"text": " ".join(words[i % 2 :: 2])}, "half")
    x = {"text": " ".join(words[:present])}
    joints = model.joint_log_likelihood(x)
    for label, count in {"all": 8, "none": 0, "half": 4}.items():
        here, away = math.log(count + m * p), math.log(8 - count + m * (1 - p))
        whole = math.log(8 + m)
        expected = math.log(1 / 3) + present * (here - whole) + (400 - present) * (away - whole)
        assert joints[label] == pytest.approx(expected, rel=1e-12), label
    assert math.fsum(model.predict_proba_one(x).values()) == pytest.approx(1.0, rel=1e-15)
