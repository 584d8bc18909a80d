"""Items of the lectures that have no row of their own, and the page's table of all items."""

from __future__ import annotations

import gzip
import inspect
import json
import math
import re
from collections import Counter
from fractions import Fraction
from itertools import islice, product
from pathlib import Path

import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import streamnb
from streamnb import (
    BayesianNetworkClassifier,
    BayesOptimalNB,
    BernoulliNB,
    BetaBernoulli,
    CategoricalNB,
    GaussianNB,
    HiddenMarkovModel,
    Hypothesis,
    JointTable,
    LinearUnit,
    MultinomialNB,
    NaiveBayes,
    Nominal,
    SequentialPosterior,
    SmoothedPrior,
    Text,
    log_binomial_pmf,
)
from tests.laws.test_lectures import NAMES, PLAY_TENNIS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "lectures.md").read_text()
ITEMS = [
    (deck, *item)
    for deck, section in re.findall(r"^### Deck (\d+)\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL)
    for item in re.findall(r"^\| (.+?) \| (.+?) \| `(test_\w+)` \|$", section, re.MULTILINE)
]

ANIMALS = [
    ({"fur": 1, "teeth": 0, "scary": 0}, 0),
    ({"fur": 0, "teeth": 1, "scary": 1}, 0),
    ({"fur": 1, "teeth": 1, "scary": 1}, 1),
]


def animals(**keywords):
    model = CategoricalNB(**keywords)
    for x, label in ANIMALS:
        model.learn_one({name: str(value) for name, value in x.items()}, label)
    return model


def test_likelihood_of_three_animals():
    """P(D | h) of deck 001 as its formula: counts as exponents; d_k / N_0 has the greatest likelihood."""
    found = animals(alpha=0).parameters()
    theta0 = {name: found.discrete[name].table[0].get("1", 0.0) for name in ("fur", "teeth", "scary")}
    assert theta0 == {"fur": 0.5, "teeth": 0.5, "scary": 0.5}  # d_k / N_0
    assert found.prior == pytest.approx({0: 2 / 3, 1: 1 / 3})

    def likelihood(t0, p1):
        return (1 - p1) ** 2 * math.prod(t * (1 - t) for t in t0.values()) * p1  # a lion's chances are 1

    best = likelihood(theta0, found.prior[1])
    direct = math.prod(
        found.prior[y]
        * math.prod(found.discrete[name].table[y].get(str(value), 0.0) for name, value in x.items())
        for x, y in ANIMALS
    )
    assert direct == pytest.approx(best, rel=1e-12)
    for name, change in product(theta0, (-0.05, 0.05)):
        assert likelihood({**theta0, name: 0.5 + change}, found.prior[1]) < best
    assert likelihood(theta0, found.prior[1] + 0.05) < best > likelihood(theta0, found.prior[1] - 0.05)


def test_a_lion_cub_needs_smoothing():
    """Scary = false never occurred with a lion: probability 0 without smoothing, 1/3 by Laplace's rule."""
    cub = {"fur": "1", "teeth": "1", "scary": "0"}
    assert animals(alpha=0).parameters().discrete["scary"].table[1]["0"] == 0.0
    laplace, m_estimate = animals(alpha=1), animals(m=2, p=0.5)
    assert laplace.parameters().discrete["scary"].table[1]["0"] == pytest.approx(1 / 3)
    assert laplace.predict_proba_one(cub) == pytest.approx(m_estimate.predict_proba_one(cub))
    assert laplace.predict_proba_one(cub)[1] > 0.3


def test_an_estimate_with_a_prior_for_each_value():
    """(n_c + m p_v) / (n + m) with p = (.7, .3) of each value, in naive Bayes and in the same network."""
    wind = Nominal(m=4, p={"weak": 0.7, "strong": 0.3})
    model = CategoricalNB(attributes={"outlook": Nominal(m=4), "wind": wind})
    network = BayesianNetworkClassifier(attributes={"outlook": Nominal(m=4), "wind": wind})
    counts = Counter()
    for *values, label in PLAY_TENNIS:
        x = {"outlook": values[NAMES.index("outlook")], "wind": values[NAMES.index("wind")]}
        for one in (model, network):  # their values come one by one, and after predictions, too
            one.learn_one(x, label)
            one.predict_proba_one(x)
        counts.update([label, (label, x["wind"]), (label, "outlook", x["outlook"])])
    own = model.parameters().discrete["wind"]
    assert own.table["no"]["strong"] == pytest.approx((3 + 4 * 0.3) / (5 + 4))
    assert own.added == pytest.approx({"weak": 2.8, "strong": 1.2})
    assert network.network.table("wind")[("no",)] == pytest.approx(own.table["no"])
    for sky, blows in product(("sunny", "rain"), ("weak", "strong")):
        joint = {
            v: counts[v] / 14
            * (counts[v, "outlook", sky] + 4 / 3) / (counts[v] + 4)
            * (counts[v, blows] + 4 * wind.p[blows]) / (counts[v] + 4)
            for v in ("yes", "no")
        }  # fmt: skip
        for one in (model, network):
            found = one.predict_proba_one({"outlook": sky, "wind": blows})
            assert found["yes"] == pytest.approx(joint["yes"] / sum(joint.values()), rel=1e-12)
    for refused in (
        lambda: CategoricalNB(m=4, p=wind.p),
        lambda: Text(m=4, p=wind.p),
        lambda: BayesOptimalNB({"wind": wind}),
        lambda: Hypothesis(m=4, p=wind.p),
    ):
        with pytest.raises(ValueError, match="CategoricalNB"):
            refused()


@pytest.mark.parametrize(
    "parameters",
    [
        {"m": 4, "p": {"weak": 0.7, "strong": 0.2}},
        {"m": 4, "p": {"weak": 1.7, "strong": -0.7}},
        {"p": {"weak": 0.7, "strong": 0.3}},
        {"m": 4, "p": {"weak": 0.7, "strong": 0.3}, "values": ["weak", "calm"]},
        {"m": 4, "p": {}},
    ],
)
def test_priors_of_values_that_are_none_are_refused(parameters):
    with pytest.raises(ValueError, match=r"p must|p has|p belongs"):
        Nominal(**parameters)


def test_a_document_of_700_dislikes_and_300_likes():
    """Deck 000: P(dislike) = .7; the document of 19 words has one factor for each position, the same for each order."""
    model = MultinomialNB()
    for i in range(1000):
        model.learn_one(
            "this is one paragraph" if i % 10 < 7 else "an example of two sentences", int(i % 10 >= 7)
        )
    document = (
        "This is an example document for the naive Bayes classifier. "
        "This document contains only one paragraph, or two sentences."
    )
    assert len(re.findall(r"\w+", document)) == 19
    parameters = model.parameters()
    assert parameters.prior == pytest.approx({0: 0.7, 1: 0.3})
    for label, row in parameters.discrete["text"].table.items():
        known = [row[word] for word in re.findall(r"\w+", document.lower()) if word in row]
        joint = math.log(parameters.prior[label]) + math.fsum(map(math.log, known))
        assert model.joint_log_likelihood(document)[label] == pytest.approx(joint)


def test_a_joint_table_of_three_booleans_in_three_steps():
    """Deck 004's recipe: all combinations, a probability for each, and they must sum to 1."""
    printed = [0.30, 0.05, 0.10, 0.05, 0.05, 0.10, 0.25, 0.10]
    rows = dict(zip(product([0, 1], repeat=3), printed, strict=True))
    table = JointTable({name: [0, 1] for name in "ABC"}, rows)
    assert table.marginal("A")["1"] == pytest.approx(0.5)
    assert table.probability({"A": 1}, given={"B": 1, "C": 0}) == pytest.approx(0.25 / 0.35)
    with pytest.raises(ValueError, match="sum to"):
        JointTable({name: [0, 1] for name in "ABC"}, {**rows, (0, 0, 0): 0.31})


def test_total_probability_of_exclusive_events():
    """P(B) = sum P(B | A_i) P(A_i), also given C."""
    rows = dict(zip(product([0, 1], "xyz", [0, 1]), [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3], strict=True))
    table = JointTable.from_counts(
        {"B": [0, 1], "A": "xyz", "C": [0, 1]},
        [[[rows[b, a, c] for c in (0, 1)] for a in "xyz"] for b in (0, 1)],
    )
    for given in ({}, {"C": 1}):
        parts = [
            table.probability({"B": 1}, given={"A": a, **given}) * table.probability({"A": a}, given=given)
            for a in "xyz"
        ]
        assert table.probability({"B": 1}, given=given) == pytest.approx(math.fsum(parts))


def test_a_binomial_of_coin_tosses_is_greatest_at_k_by_m():
    """L(p) = k log p + (m - k) log(1 - p) has its maximum at k / m; the coefficient does not depend on p."""
    k, m = 70, 100
    logs = {p / 100: log_binomial_pmf(k, m, p / 100) for p in range(101)}
    assert max(logs, key=logs.get) == k / m
    free = {p: k * math.log(p) + (m - k) * math.log(1 - p) for p in (0.3, 0.7)}
    assert logs[0.7] - logs[0.3] == pytest.approx(free[0.7] - free[0.3])
    coin = BetaBernoulli(1, 1)
    for i in range(m):
        coin.update(i < k)
    assert coin.mode == pytest.approx(k / m)


DECK_NUMBERS = [
    (2.0, 3.0, 1.0, 1),
    (-1.2, 2.0, 0.4, 1),
    (1.2, 0.3, 0.0, 0),
    (2.2, 1.1, 0.0, 1),
    (0.1, 0.9, 0.3, 0),
]
"""Deck 004's rows X1, X2, X3, Y, and one more of class 0, whose variance would be 0 otherwise."""


def test_one_variance_for_all_classes_is_a_logistic_function():
    """P(v = 1 | x) = 1 / (1 + exp(ln P(0)/P(1) + sum (mu_0 - mu_1) / s^2 x + (mu_1^2 - mu_0^2) / 2 s^2))."""
    model, tied = GaussianNB(), GaussianNB(covariance="tied")
    for *values, label in DECK_NUMBERS:
        model.learn_one(dict(enumerate(values)), label)
        tied.learn_one(dict(enumerate(values)), label)
    view = model.linear_view(1, covariance="tied")
    exponent = {"x": [math.log(2 / 3)]}
    x = {0: 0.7, 1: -2.0, 2: 5.0}
    for i, value in x.items():
        rows = {y: [row[i] for row in DECK_NUMBERS if row[-1] == y] for y in (0, 1)}
        mu = {y: math.fsum(own) / len(own) for y, own in rows.items()}
        s2 = math.fsum((one - mu[y]) ** 2 for y, own in rows.items() for one in own) / len(DECK_NUMBERS)
        exponent["x"].append((mu[0] - mu[1]) / s2 * value + (mu[1] ** 2 - mu[0] ** 2) / (2 * s2))
    logistic = 1 / (1 + math.exp(math.fsum(exponent["x"])))
    for found in (view.probability(x), tied.linear_view(1).probability(x), tied.predict_proba_one(x)[1]):
        assert found == pytest.approx(logistic, rel=1e-12)
    assert tied.n_parameters == 1 + 3 * (2 + 1)  # P(v), two means and one variance of each number
    assert all(curve.square == 0.0 for curve in view.curves)
    halves = [view.log_odds({0: a}) for a in (-3.0, 0.0, 3.0)]
    assert halves[1] == pytest.approx((halves[0] + halves[2]) / 2)
    assert any(curve.square for curve in model.linear_view(1).curves), (
        "the boundary of own variances is curved"
    )
    with pytest.raises(ValueError, match="covariance"):
        model.linear_view(1, covariance="full")


def test_one_variance_of_one_number_is_linear_discriminant_analysis():
    model, X, y = GaussianNB(covariance="tied"), [], []
    for i in range(40):
        X.append([math.sin(3.0 * i) * (1 + i % 3) + 2.0 * (i % 4 == 0)])
        y.append(int(i % 4 == 0))
        model.learn_one({"x": X[-1][0]}, y[-1])
    peer = LinearDiscriminantAnalysis(solver="lsqr").fit(X, y)
    for x in (-2.0, 0.3, 4.0):
        assert model.predict_proba_one({"x": x})[1] == pytest.approx(
            peer.predict_proba([[x]])[0, 1], rel=1e-9
        )


def test_a_smoothed_class_prior():
    """(n_v + m p_v) / (n + m), and no other table changes: the same as m p_v events of no attribute each."""
    for make, x, m, p in (
        (CategoricalNB, {"wind": "weak"}, 2.0, {"yes": 0.5, "no": 0.5}),  # Laplace
        (MultinomialNB, "good fun", 4.0, {"yes": 0.75, "no": 0.25}),
        (BernoulliNB, "good fun", 4.0, {"yes": 0.75, "no": 0.25}),
        (GaussianNB, {"size": 3.0}, 2.0, {"yes": 0.5, "no": 0.5}),
    ):
        plain, model, smoothed = make(), make(), make(prior=SmoothedPrior(m, p))
        for label, share in p.items():
            model.learn_one({}, label, m * share)
        for label, n in (("yes", 9), ("no", 5)):
            for i in range(n):
                event = {"size": 3.0 + i} if "size" in x else x
                for one in (model, plain, smoothed):
                    one.learn_one(event, label)
        assert smoothed.predict_proba_one(x) == pytest.approx(model.predict_proba_one(x), rel=1e-12)
        assert smoothed.class_weights == plain.class_weights
        own = model.parameters()
        assert own.prior == pytest.approx(
            {"yes": (9 + m * p["yes"]) / (14 + m), "no": (5 + m * p["no"]) / (14 + m)}
        )
        assert smoothed.parameters().prior == pytest.approx(own.prior)
        assert own.continuous == plain.parameters().continuous
        assert {name: one.table for name, one in own.discrete.items()} == {
            name: one.table for name, one in plain.parameters().discrete.items()
        }
        assert model.n_parameters == plain.n_parameters
    with pytest.raises(ValueError, match=r"`learn_one\(\{\}, label, w\)` adds w"):
        CategoricalNB(prior="smoothed")


@pytest.mark.parametrize(("make", "free"), [(BernoulliNB, 2 * 3 + 1), (MultinomialNB, 2 * (3 - 1) + 1)])
def test_both_text_models_have_2n_plus_2_numbers(make, free):
    """Deck 004: n = |Dictionary|; the shares of multinomial words sum to 1, so that fewer are free."""
    model = make()
    model.learn_one("win cash", "spam")
    model.learn_one("lunch", "ham")
    found = model.parameters()
    rows = found.discrete["text"].table.values()
    assert len(found.prior) + sum(map(len, rows)) == 2 * 3 + 2
    assert model.n_parameters == free
    assert make is BernoulliNB or [sum(row.values()) for row in rows] == pytest.approx([1.0, 1.0])


SENTENCES = [
    "I saw the girl in the park", "we saw it in the park", "it rained in the park", "the girl saw it",
    "I put it in the house", "we met the girl in the house", "it stood in the park",
]  # fmt: skip
TAGS = {"in": "P", "the": "D", "girl": "N", "park": "N", "house": "N", "it": "O", "i": "O", "we": "O"}


def test_text_correction_by_a_generative_model():
    """Pr(I saw the girl it the park) < Pr(I saw the girl in the park), by the evidence of a tagged chain."""
    model = HiddenMarkovModel(m=0.1, emission_m=0.1)
    for sentence in SENTENCES:
        words = sentence.lower().split()
        model.learn_one(words, [TAGS.get(word, "V") for word in words])
    wrong, right = (f"i saw the girl {word} the park".split() for word in ("it", "in"))
    assert model.log_evidence(right) - model.log_evidence(wrong) > 2.0


def test_text_correction_by_a_discriminative_model():
    """The rule of the slide, "if `the` occurs after the target, then in", learned by a perceptron."""
    unit = LinearUnit(rate=1.0, loss="perceptron")
    events = []
    for sentence in SENTENCES:
        words = ["^", *sentence.lower().split(), "$"]
        for i, word in enumerate(words):
            if word in ("in", "it"):
                events.append(({"before": words[i - 1], "after": words[i + 1]}, 1 if word == "in" else -1))
    for x, d in events * 5:
        unit.learn_one(x, d)
    assert all((unit.predict_one(x) > 0) == (d > 0) for x, d in events)
    assert unit.predict_one({"before": "girl", "after": "the"}) > 0
    assert max(unit.weights, key=unit.weights.get) == ("after", "the")


def lift(file, n=4000):
    """Share of likes among the tenth of the articles with the highest P(like) so far unseen, by the base rate."""
    model, rated = NaiveBayes({"text": "text"}, alpha=0.01), []
    with gzip.open(file, "rt") as lines:
        for event in map(json.loads, islice(lines, n)):
            x, label = {"text": event["text"]}, event["label"].startswith("sci.")
            if model.n_events > 500:
                rated.append((model.predict_proba_one(x).get(True, 0.0), label))
            model.learn_one(x, label)
    top = sorted(rated, key=lambda pair: -pair[0])[: len(rated) // 10]
    base = Fraction(sum(label for _, label in rated), len(rated))
    return float(base), sum(label for _, label in top) / len(top) / float(base)


def test_row_23_the_lift_of_a_readers_taste(streams):
    """NewsWeeder's articles were three to four times as often interesting as all articles."""
    base, found = lift(streams / "20news_bydate.jsonl.gz")
    assert (f"{base:.0%}", f"{found:.1f}") == tuple(
        re.findall(r"(\d+%) of all.*?lift of (\d\.\d)", PAGE, re.DOTALL)[0]
    )


def test_the_priors_of_the_candy_boxes_belong_to_names():
    """A list is one of hypotheses: .1, .2, .4, .2, .1 alone would name two of them twice."""
    with pytest.raises(ValueError, match="a mapping has the weight"):
        SequentialPosterior([0.1, 0.2, 0.4, 0.2, 0.1])


def test_every_item_of_the_page_has_code_and_a_test():
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(ITEMS) >= 60
    assert {deck for deck, *_ in ITEMS} == {"000", "001", "002", "003", "004"}
    for deck, item, code, test in ITEMS:
        assert f"def {test}(" in tests, (deck, item, test)
        (name, member, parameter) = re.fullmatch(r".*?`(\w+)(?:\.(\w+)|\((\w+)\)| \w+)?`.*", code).groups()
        if name == "streamnb":
            continue
        found = getattr(streamnb, name)
        assert member is None or hasattr(found, member), (deck, item, code)
        assert parameter is None or parameter in inspect.signature(found).parameters, (deck, item, code)
