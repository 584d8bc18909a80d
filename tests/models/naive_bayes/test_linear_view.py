"""The linear view of naive Bayes: bias and weights give the model's own posterior, and the lectures' formulas.

Two log odds are the same where they differ by less than 1e-12 x the sum of the magnitudes of the log factors that
the model adds up for the two classes (at least 1): an attribute's factor is what it alone adds to log P(v, x).
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from itertools import permutations

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn import naive_bayes as peers

from streamnb import (
    BernoulliNB,
    CategoricalNB,
    Continuous,
    GaussianNB,
    LinearView,
    MultinomialNB,
    NaiveBayes,
    Nominal,
    Text,
)
from streamnb.models.naive_bayes.linear_form import curve, log_odds_of_presence, log_odds_of_values, smoothing
from tests.oracles.gaussian_oracle import gaussian_of
from tests.oracles.oracle import Recount

WORDS = st.sampled_from([f"w{i}" for i in range(9)] + ["Größe", "ΣΑΣ"])
TEXT = st.lists(WORDS, max_size=7).map(" ".join)
BAG = st.dictionaries(WORDS.map(str.lower), st.sampled_from([0, 1, 2, 0.5, 2.25]), max_size=4)
EVENT = st.fixed_dictionaries(
    {},
    optional={
        "body": st.one_of(TEXT, BAG),
        "subject": st.one_of(TEXT, BAG),
        "colour": st.sampled_from("rgb"),
        "late": st.sampled_from([True, "y"]),
        "height": st.one_of(st.integers(-64, 64).map(lambda n: n / 4), st.just(math.nan)),
        "seconds": st.integers(-90_000, 90_000).map(lambda n: 1.79e9 + n / 8),
    },
)
LABELS = st.sampled_from(["a", "b", "c"])
WEIGHTS = st.sampled_from([1.0, 1.0, 2.0, 0.25])
EXAMPLES = st.lists(st.tuples(EVENT, LABELS, WEIGHTS), min_size=2, max_size=20)
EVENTS = st.lists(EVENT, min_size=1, max_size=4)
SMOOTHING = st.sampled_from(
    [
        {"alpha": 1.0},
        {"alpha": 1e-3},
        {"alpha": 0.0},
        {"m": 2.0},
        {"m": 0.5, "p": 0.01},
        {"m": 0.0},
        {"m": 0.0, "p": 0.3},
    ]
)
PRIORS = st.sampled_from(["learned", "uniform", {"a": 3, "b": 0.5, "c": 1}, {"a": 1, "b": 0}, {"z": 1}])


def new(**parameters):
    return NaiveBayes(
        {
            "body": Text(),
            "subject": Text(event_model="bernoulli"),
            "colour": Nominal(),
            "height": Continuous(),
        },
        **parameters,
    )


def learned(model, rows):
    for x, y, w in rows:
        model.learn_one(x, y, w)
    return model


def is_nan(value):
    return isinstance(value, float) and math.isnan(value)


def plain(x):
    """Without bags, missing values and the seconds, whose moments in doubles are not those of a recount."""
    names = [name for name, v in x.items() if name != "seconds" and not isinstance(v, dict) and not is_nan(v)]
    return {name: x[name] for name in names}


def pairs(model):
    return permutations([label for label, weight in model.class_weights.items() if weight], 2)


def magnitude(model, x, pair):
    """The sum of the magnitudes of the log factors of the two classes."""
    base = model.joint_log_likelihood({})
    alone = [model.joint_log_likelihood({name: value}) for name, value in x.items()]
    factors = [joint[label] - base[label] for joint in alone for label in pair if math.isfinite(joint[label])]
    return max(
        1.0, sum(map(abs, factors)) + sum(abs(base[label]) for label in pair if math.isfinite(base[label]))
    )


def only(model, pair):
    """The same counts, read by a model whose priors leave but two classes; None where they leave none."""
    model = copy.copy(model)
    weights = model.class_weights
    given_priors = model.prior if isinstance(model.prior, dict) else None
    if model.prior == "learned":
        model.prior = {label: weights[label] for label in pair}
    elif given_priors is None or not any(given_priors.get(label) for label in weights):
        model.prior = dict.fromkeys(pair, 1.0)
    else:
        model.prior = {label: given_priors.get(label, 0.0) for label in pair}
    return model if any(model.prior.values()) else None


def assert_same(model, xs):
    """Of every pair of classes, log odds and probability of these events are the model's own; how many pairs."""
    compared = 0
    for pair in pairs(model):
        alone = only(model, pair)
        if alone is None:
            with pytest.raises(ValueError, match="the given priors of both"):
                model.linear_view(*pair)
            continue
        view = model.linear_view(*pair)
        for x in xs:
            joints, posterior = alone.joint_log_likelihood(x), alone.predict_proba_one(x)
            odds = view.log_odds(x)
            first, second = (joints[label] for label in pair)
            tolerance = 1e-12 * magnitude(alone, x, pair)
            if math.isfinite(first) and math.isfinite(second):
                assert abs(odds - (first - second)) <= tolerance
            elif min(posterior[label] for label in pair) > 0.0:  # alpha = 0, and as many misses: what is left
                want = math.log(posterior[pair[0]]) - math.log(posterior[pair[1]])
                assert abs(odds - want) <= tolerance
            else:  # one is ruled out, or its probability is less than a double can hold
                assert odds < -700.0 if posterior[pair[0]] == 0.0 else odds > 700.0
            assert view.probability(x) == pytest.approx(posterior[pair[0]], rel=0, abs=tolerance)
            compared += 1
    return compared


@settings(max_examples=80)
@given(EXAMPLES, EVENTS, SMOOTHING, PRIORS)
def test_the_linear_form_is_the_posterior(rows, xs, how, prior):
    assert_same(learned(new(**how, prior=prior), rows), [{}, *xs, rows[0][0], rows[-1][0]])


@settings(max_examples=40)
@example(
    [({"subject": "w0"}, "b", 1.0)], [({"subject": ""}, "b", 1.0)], [{"subject": ""}], {"alpha": 1.0}, 0, 0
)
@given(EXAMPLES, EXAMPLES, EVENTS, SMOOTHING, st.integers(0, 3), st.integers(0, 3))
def test_it_is_so_after_unlearning_merging_and_pruning(rows, more, xs, how, min_count, drop):
    model = learned(new(**how), rows)
    for x, y, w in rows[::2]:
        model.unlearn_one(x, y, w)
    assert_same(model, xs)
    model.merge(learned(new(**how), more))
    assert_same(model, xs)
    model.prune(min_count=min_count, drop_most_frequent=drop)
    assert_same(model, [*xs, more[0][0]])


@settings(max_examples=60)
@given(EXAMPLES, EVENTS, st.sampled_from([1.0, 0.125, ("m", 2.0, None), ("m", 0.5, 0.25)]))
def test_it_is_what_a_recount_in_exact_arithmetic_says(rows, xs, how):
    rows = [(plain(x), y, w) for x, y, w in rows]
    xs = [plain(x) for x in xs]
    parameters = {"alpha": how} if isinstance(how, float) else {"m": how[1], "p": how[2]}
    model = learned(new(**parameters), rows)
    kinds = {
        "body": "multinomial",
        "subject": "bernoulli",
        "colour": "nominal",
        "late": "nominal",
        "height": "continuous",
    }
    exact = Recount({name: (kind, how) for name, kind in kinds.items()}, rows)
    for pair in pairs(model):
        view = model.linear_view(*pair)
        for x in xs:
            want = exact.joint(x, pair[0]) - exact.joint(x, pair[1])
            assert abs(view.log_odds(x) - want) <= 1e-12 * magnitude(model, x, pair)


@settings(max_examples=100)
@given(st.lists(st.tuples(st.floats(allow_nan=False), LABELS), min_size=2, max_size=12), st.floats())
@example([(0.0, "a"), (1e-160, "a"), (1e-160, "b"), (3e-160, "b")], 1e140)
@example([(1e140, "a"), (-1e140, "a"), (1.0, "b"), (2.0, "b")], -1e140)
@example([(0.0, "a"), (1e-161, "a"), (1e140, "b"), (1e140, "b")], 0.5)
@example([(1.0, "a"), (2.0, "b"), (2.5, "b"), (0.0, "c")], 1.79e9)
def test_any_double_can_be_asked_for(values, query):
    model = GaussianNB()
    for value, label in values:
        model.learn_one({"x": value}, label)
    assert_same(model, [{"x": query}, {"x": -query}])


MEAN = st.one_of(st.floats(-1e3, 1e3), st.floats(1.7e9, 1.8e9), st.floats(-1e60, 1e60))
VARIANCE = st.one_of(st.floats(1e-12, 1e12), st.floats(1e-60, 1e60))


@settings(max_examples=500)
@given(
    MEAN,
    st.one_of(st.none(), MEAN),
    VARIANCE,
    st.one_of(st.none(), VARIANCE),
    st.one_of(st.none(), MEAN),
    st.floats(-30, 30),
)
def test_a_quadratic_loses_nothing_wherever_it_is_read(mean, other, s2, other_s2, x, steps):
    """Against 50 digits; `steps` standard deviations from the first mean, or anywhere."""
    means, variances = (mean, mean if other is None else other), (s2, s2 if other_s2 is None else other_s2)
    x = mean + steps * math.sqrt(s2) if x is None else x
    squares = [(mpmath.mpf(x) - m) ** 2 / mpmath.mpf(v) for m, v in zip(means, variances, strict=True)]
    logs = [mpmath.log(mpmath.mpf(v)) for v in variances]
    exact = (squares[1] - squares[0] + logs[1] - logs[0]) / 2
    have = curve("x", means, variances).log_odds(x)
    assert abs(have - exact) <= 1e-14 * (sum(squares) + sum(map(abs, logs)) + 1)


# -- the formulas as the lectures print them --------------------------------------------------------------

MAILS = [
    ("win cash win", "spam"),
    ("cash now", "spam"),
    ("win lunch", "spam"),
    ("lunch now", "ham"),
    ("lunch lunch at noon", "ham"),
]


def test_multinomial_weights_are_logs_of_ratios_of_estimates():
    model = MultinomialNB(alpha=0.5)
    for text, label in MAILS:
        model.learn_one(text, label)
    counts = {
        label: Counter(" ".join(t for t, y in MAILS if y == label).split()) for label in ("spam", "ham")
    }
    size = len(counts["spam"] | counts["ham"])

    def estimate(word, label):
        return (counts[label][word] + 0.5) / (counts[label].total() + 0.5 * size)

    view = model.linear_view("spam")
    assert isinstance(view, LinearView)
    assert (view.positive, view.negative, view.absent, view.curves) == ("spam", "ham", {}, [])
    assert view.bias == pytest.approx(math.log(3 / 2), rel=1e-14)
    have = {item.value: item.weight for item in view.items}
    assert have == {
        word: pytest.approx(math.log(estimate(word, "spam") / estimate(word, "ham")), rel=1e-12)
        for word in ("win", "cash", "now", "lunch", "at", "noon")
    }
    assert view.log_odds("win win lunch unheard") == pytest.approx(
        view.bias + 2 * have["win"] + have["lunch"], rel=1e-14
    )
    seen = {item.value: (item.positive, item.negative) for item in view.items}
    assert seen["lunch"] == (1.0, 3.0)


def test_bernoulli_weights_and_the_absent_words():
    model = NaiveBayes({"text": Text(event_model="bernoulli"), "size": Continuous()}, alpha=1.0)
    for text, label in MAILS:
        model.learn_one({"text": text}, label)
    model.learn_one({"size": 1.0}, "ham")  # has no text: counts for the prior alone
    vocabulary = list(dict.fromkeys(" ".join(text for text, _ in MAILS).split()))

    def estimate(word, label):
        texts = [text.split() for text, y in MAILS if y == label]
        return (sum(word in text for text in texts) + 1) / (len(texts) + 2)

    p = {word: estimate(word, "spam") for word in vocabulary}
    q = {word: estimate(word, "ham") for word in vocabulary}
    view = model.linear_view("spam", "ham")
    assert {item.value: item.weight for item in view.items} == {
        word: pytest.approx(
            math.log(p[word] * (1 - q[word]) / (q[word] * (1 - p[word]))), rel=1e-12, abs=1e-15
        )
        for word in vocabulary
    }
    absent = sum(math.log((1 - p[word]) / (1 - q[word])) for word in vocabulary)
    assert view.absent == {"text": pytest.approx(absent, rel=1e-12)}
    assert view.bias == 0.0
    by_hand = math.prod(p[w] if w in ("win", "now") else 1 - p[w] for w in vocabulary) / math.prod(
        q[w] if w in ("win", "now") else 1 - q[w] for w in vocabulary
    )
    assert view.log_odds({"text": "now win win win"}) == pytest.approx(math.log(by_hand), rel=1e-12)
    assert view.log_odds({"text": ""}) == pytest.approx(absent, rel=1e-12)
    assert view.log_odds({}) == view.log_odds({"text": None}) == 0.0  # no text: nothing is absent
    assert view.log_odds({"text": {"win": 0}}) == view.log_odds({"text": ""})


def test_a_word_as_likely_in_both_classes_is_irrelevant():
    model = BernoulliNB()
    for text, label in [("a b", 1), ("b", 1), ("a b", 0), ("b c", 0)]:
        model.learn_one(text, label)
    weights = {item.value: item.weight for item in model.linear_view(1, 0).items}
    assert weights["a"] == weights["b"] == 0.0
    assert weights["c"] < 0.0


def test_nominal_weights_one_for_each_value():
    model = CategoricalNB(m=2.0, p=0.25)
    rows = [("sunny", "no"), ("sunny", "no"), ("rain", "yes"), ("sunny", "yes"), ("overcast", "yes")]
    for outlook, label in rows:
        model.learn_one({"outlook": outlook, "windy": True}, label)
    view = model.linear_view("yes")
    have = {(item.attribute, item.value): item.weight for item in view.items}
    m, p = 2.0, 0.25
    for value in ("sunny", "rain", "overcast"):
        yes, no = (sum(row == (value, label) for row in rows) for label in ("yes", "no"))
        want = math.log((yes + m * p) / (3 + m)) - math.log((no + m * p) / (2 + m))
        assert have["outlook", value] == pytest.approx(want, rel=1e-12)
    assert have["windy", "true"] == pytest.approx(
        math.log((3 + m * p) / (3 + m)) - math.log((2 + m * p) / (2 + m)), rel=1e-12
    )


def test_equal_variances_are_linear_as_the_lectures_print_it():
    """P(v=1|x) = 1 / (1 + exp(log P(v=0)/P(v=1) + sum_i ((mu_i0 - mu_i1)/s_i^2 x_i + (mu_i1^2 - mu_i0^2)/(2 s_i^2))))."""
    rows = [
        ({"a": 1.0, "b": -3.0}, 0),
        ({"a": 3.0, "b": 5.0}, 0),
        ({"a": 4.0, "b": 3.0}, 1),
        ({"a": 6.0, "b": 11.0}, 1),
    ]
    model = GaussianNB()
    for x, label in [*rows, ({}, 1)]:
        model.learn_one(x, label)
    mu_0, mu_1 = {"a": 2.0, "b": 1.0}, {"a": 5.0, "b": 7.0}
    s2 = {
        i: float(gaussian_of({0: (2, mu_0[i], 2 * s**2), 1: (2, mu_1[i], 2 * s**2)}, 0)[1])
        for i, s in (("a", 1.0), ("b", 4.0))
    }
    view = model.linear_view(1)
    for found in view.curves:
        name = found.attribute
        assert found.square == 0.0
        assert -found.weight == pytest.approx((mu_0[name] - mu_1[name]) / s2[name], rel=1e-14)
        at_zero = found.bias - found.weight * found.centre
        assert -at_zero == pytest.approx((mu_1[name] ** 2 - mu_0[name] ** 2) / (2 * s2[name]), rel=1e-14)
    assert [found.attribute for found in view.curves] == ["a", "b"]
    for x in ({"a": 3.1, "b": 2.0}, {"a": -7.0, "b": 40.0}):
        inside = math.log(2 / 3) + sum(
            (mu_0[i] - mu_1[i]) / s2[i] * x[i] + (mu_1[i] ** 2 - mu_0[i] ** 2) / (2 * s2[i])
            for i in ("a", "b")
        )
        assert view.probability(x) == pytest.approx(1 / (1 + math.exp(inside)), rel=1e-12)
        assert view.probability(x) == pytest.approx(model.predict_proba_one(x)[1], rel=1e-12)


# -- other people's code -----------------------------------------------------------------------------------


@pytest.fixture(params=range(3))
def rng(request):
    return np.random.default_rng(request.param)


def labelled(rng, X):
    return [*"abc", *rng.choice(["a", "b", "c"], size=len(X) - 3, p=[0.6, 0.3, 0.1])]


def of_rows(model, X, y):
    for row, label in zip(X.tolist(), y, strict=True):
        model.learn_one({f"w{i}": value for i, value in enumerate(row)}, label)
    return model


@pytest.mark.parametrize("alpha", [1.0, 1e-3])
@pytest.mark.parametrize(
    ("kind", "peer"), [(MultinomialNB, peers.MultinomialNB), (BernoulliNB, peers.BernoulliNB)]
)
def test_weights_are_differences_of_scikit_learns_log_probabilities(rng, alpha, kind, peer):
    X = (
        rng.poisson(0.5, size=(150, 30))
        if kind is MultinomialNB
        else (rng.random((150, 30)) < rng.random(30) ** 2).astype(int)
    )
    X[:30] |= np.eye(30, dtype=int)
    y = labelled(rng, X)
    model, fitted = of_rows(kind(alpha=alpha), X, y), peer(alpha=alpha).fit(X, y)
    log_p = fitted.feature_log_prob_
    for first, second in permutations(range(3), 2):
        view = model.linear_view(fitted.classes_[first], fitted.classes_[second])
        have = {item.value: item.weight for item in view.items}
        want = log_p[first] - log_p[second]
        bias = fitted.class_log_prior_[first] - fitted.class_log_prior_[second]
        if kind is BernoulliNB:
            n = fitted.class_count_[:, None]  # 1 - exp(log_p) would lose the last digits
            log_q = np.log((n - fitted.feature_count_ + alpha) / (n + 2 * alpha))
            assert view.absent["text"] == pytest.approx(
                (log_q[first] - log_q[second]).sum(), rel=1e-12, abs=1e-12
            )
            want = want - (log_q[first] - log_q[second])
        np.testing.assert_allclose([have[f"w{i}"] for i in range(30)], want, rtol=1e-12, atol=1e-12)
        assert view.bias == pytest.approx(bias, rel=1e-12)


def test_curves_are_differences_of_scipys_log_densities(rng):
    X = rng.normal(size=(120, 4)) * [1, 10, 0.1, 30] + [0, 5, -3, 1.79e9]
    y = np.array(labelled(rng, X))
    X[y == "b"] *= [1.5, 2, 0.5, 1]
    view = of_rows(GaussianNB(), X, y).linear_view("a", "b")
    for column, found in zip(X.T, view.curves, strict=True):
        for x in [*column[:10], column.max() * 1.5]:
            logs = [
                norm.logpdf(x, mean, math.sqrt(s2))
                for mean, s2 in zip(found.means, found.variances, strict=True)
            ]
            assert found.log_odds(x) == pytest.approx(
                logs[0] - logs[1], rel=0, abs=1e-12 * max(1, *map(abs, logs))
            )
            d = x - found.centre
            assert found.log_odds(x) == found.square * d * d + found.weight * d + found.bias
        values = {label: column[y == label] for label in "abc"}
        cells = {label: (len(own), own.mean(), own.var() * len(own)) for label, own in values.items()}
        for k, label in enumerate(
            "ab"
        ):  # to rounding of the data, which the offset makes 1e-7 of a deviation
            assert found.means[k] == pytest.approx(cells[label][1], rel=1e-12)
            assert found.variances[k] == pytest.approx(gaussian_of(cells, label)[1], rel=1e-6)


# -- degenerate cases --------------------------------------------------------------------------------------


def test_moments_that_a_class_lacks_are_read_as_the_model_reads_them():
    model = GaussianNB()
    rows = [
        ({"a": 1.0, "flat": 5.0}, 0),
        ({"a": 2.0, "flat": 5.0}, 0),
        ({"a": 7.0}, 1),
        ({}, 2),
        ({"b": 1.0}, 2),
    ]
    for x, label in rows:
        model.learn_one(x, label)
    view = model.linear_view(0, 1)  # of so few examples the pooled variance is that of all
    of_all = np.var([1.0, 2.0, 7.0])
    expected = (0.5 + 10 * of_all) / 12, 10 * of_all / 11
    assert [(found.attribute, found.variances) for found in view.curves] == [("a", pytest.approx(expected))]
    view = model.linear_view(0, 2)  # a class that never had it takes the moments of all
    assert view.curves[0].means == (1.5, pytest.approx(10 / 3))
    assert view.curves[0].variances[1] == pytest.approx(np.var([1.0, 2.0, 7.0]))
    assert assert_same(model, [{"a": 3.0, "flat": 5.0, "b": 2.0}, {"flat": 6.0}, {"b": 0.0}]) == 18


def test_alpha_of_zero_is_read_as_the_limit():
    model = new(alpha=0.0)
    rows = [
        ({"body": "a a b", "subject": "s t"}, 1),
        ({"body": "a c", "subject": "s"}, 1),
        ({"body": "a d d", "subject": "t"}, 0),
    ]
    for x, label in rows:
        model.learn_one(x, label)
    view = model.linear_view(1)
    weights = {(item.attribute, item.value): item.weight for item in view.items}
    assert weights["body", "b"] == weights["body", "c"] == weights["subject", "s"] == math.inf
    assert weights["body", "d"] == weights["subject", "t"] == -math.inf
    assert weights["body", "a"] == pytest.approx(math.log((3 / 5) / (1 / 3)))
    # The empty text: (alpha / 2) (1/2) of class 1, where s was never absent, and alpha of class 0, as t there.
    assert view.absent == {"subject": pytest.approx(math.log(1 / 4))}
    assert view.log_odds({"subject": ""}) == pytest.approx(math.log(2) + math.log(1 / 4))
    assert view.log_odds({"subject": "s t"}) == math.inf
    assert view.log_odds({"subject": "t"}) == -math.inf
    assert view.log_odds({"body": "b"}) == math.inf
    assert view.probability({"body": "d"}) == 0.0
    one_miss_each = math.log((1 / 5 * 1 / 5) / (2 / 3 * 1 / 3))
    assert view.log_odds({"body": "b d"}) == pytest.approx(math.log(2) + one_miss_each)
    assert view.log_odds({"body": "b b d"}) == math.inf  # the one with fewer misses
    assert assert_same(
        model,
        [{"body": text, "subject": other} for text in ("b d", "b b d", "a") for other in ("", "s", "s t")],
    )


def test_priors_that_rule_a_class_out():
    model = learned(
        new(prior={"a": 1.0}), [({"body": "x"}, "a", 1), ({"body": "y"}, "b", 1), ({"body": "z"}, "c", 1)]
    )
    assert model.linear_view("a", "b").bias == math.inf
    assert model.linear_view("b", "a").log_odds({"body": "y"}) == -math.inf
    assert model.linear_view("b", "a").probability({"body": "y"}) == 0.0
    with pytest.raises(ValueError, match="the given priors of both 'b' and 'c' are zero"):
        model.linear_view("b", "c")


def test_which_classes_there_are():
    model = MultinomialNB()
    with pytest.raises(ValueError, match="'spam' against which class\\? There are 0 others"):
        model.linear_view("spam")
    for text, label in MAILS:
        model.learn_one(text, label)
    assert model.linear_view("ham").negative == "spam"
    with pytest.raises(ValueError, match="nothing has been learned of a class 'egg'"):
        model.linear_view("egg", "ham")
    with pytest.raises(ValueError, match="of a class against itself"):
        model.linear_view("ham", "ham")
    model.learn_one("egg", "egg")
    with pytest.raises(ValueError, match="There are 2 others"):
        model.linear_view("ham")
    model.unlearn_one("egg", "egg")  # a class without examples takes no part
    assert model.linear_view("ham").negative == "spam"


@pytest.mark.parametrize(
    "x", [{"body": 3}, {"body": {"w": -1}}, {"colour": [1]}, {"height": "tall"}, {"body": "\ud800"}]
)
def test_what_the_model_refuses_is_refused(x):
    model = learned(new(), [({"body": "a", "height": 1.0}, "a", 1), ({"body": "b", "height": 3.0}, "b", 1)])
    with pytest.raises((TypeError, ValueError)) as theirs:
        model.predict_proba_one(x)
    with pytest.raises(theirs.type) as ours:
        model.linear_view("a").log_odds(x)
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("kind", [MultinomialNB, BernoulliNB])
@pytest.mark.parametrize(
    "x", ["win win now", {"win": 2, "now": 1}, {"subject": "win", "body": "now win", "cash": 0}, {}, ""]
)
def test_the_variants_take_what_they_take(kind, x):
    model = kind(alpha=0.1)
    for text, label in MAILS:
        model.learn_one(text, label)
    view = model.linear_view("spam")
    assert view.probability(x) == pytest.approx(model.predict_proba_one(x)["spam"], rel=1e-13)


def test_a_view_is_of_the_model_as_it_was():
    model = learned(
        new(),
        [
            ({"body": "a b", "height": 1.0}, "a", 1),
            ({"body": "b", "height": 3.0}, "b", 1),
            ({"height": 2.0}, "b", 1),
        ],
    )
    view = model.linear_view("a")
    x = {"body": "a b c", "height": 2.5}
    before = view.log_odds(x)
    learned(model, [({"body": "c c a", "height": 9.0}, "b", 5), ({"late": "n"}, "c", 1)])
    model.prune(drop_most_frequent=2)
    assert view.log_odds(x) == before


def test_counts_that_decay_are_counts():
    """The formulas take any counts above zero, as of tables that forget."""
    how = smoothing(alpha=0.5, m=-1.0, p=math.nan, values=2.0)
    counts, totals = np.array([[300.25, 2.5], [0.0, 1024.0]]), np.array([900.5, 2048.0])
    shares = (counts + 512) / (totals + 1024)
    np.testing.assert_allclose(
        log_odds_of_values(counts, totals, how).plain(), np.log(shares[:, 0] / shares[:, 1]), rtol=1e-13
    )
    weights, absent = log_odds_of_presence(counts, totals, how)
    odds = shares / (1 - shares)
    np.testing.assert_allclose(weights.plain(), np.log(odds[:, 0] / odds[:, 1]), rtol=1e-13)
    assert absent.plain() == pytest.approx(np.log((1 - shares[:, 0]) / (1 - shares[:, 1])).sum(), rel=1e-13)


# -- the top ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [1.0, 0.01, 0.0])
def test_the_top_are_words_that_matter_not_words_seen_once(alpha):
    model = MultinomialNB(alpha=alpha)
    for i in range(50):
        model.learn_one(f"free the the the rare{i}", "spam")
        model.learn_one(f"lunch the the the odd{i}" + " free" * (i % 10 == 0), "ham")
    view = model.linear_view("spam")
    top = view.top(3)
    assert list(top) == ["spam", "ham"]
    assert top["spam"][0].value == "free"
    assert top["ham"][0].value == "lunch"
    assert top["spam"][0].positive == 50.0
    assert top["spam"][0].negative == 5.0
    if alpha < 1.0:
        assert max(view.items, key=lambda item: item.weight).value.startswith("rare")  # by the weight alone
    for label, sign in (("spam", 1), ("ham", -1)):
        every = view.top(1000)[label]
        assert all(sign * item.weight > 0 for item in every)
        assert every[:3] == top[label]


def test_the_top_of_attributes_of_all_kinds_is_by_what_an_average_event_gains():
    """A value in half the events outweighs one in few, whichever attribute it is of."""
    model = new()
    for i in range(40):
        model.learn_one(
            {"body": "x y z" + " win" * (i % 2), "subject": "hot" if i % 8 == 0 else "", "colour": "r"}, "a"
        )
        model.learn_one({"body": "x y z", "subject": "", "colour": "g" if i % 4 else "r"}, "b")
    top = model.linear_view("a", "b").top(3)["a"]
    assert [(item.attribute, item.value) for item in top] == [
        ("body", "win"),
        ("colour", "r"),
        ("subject", "hot"),
    ]
    assert model.linear_view("a", "b").top(0) == {"a": [], "b": []}
