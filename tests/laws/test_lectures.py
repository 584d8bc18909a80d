"""The numbers that the lectures print, through the public classes. Rows are those of docs/lectures.md."""

from __future__ import annotations

import gzip
import json
import math
import random
import re
from collections import Counter
from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest

import streamnb
from streamnb import (
    BayesianNetwork,
    BayesianNetworkClassifier,
    BayesOptimalClassifier,
    BernoulliNB,
    BetaBernoulli,
    CategoricalNB,
    ConceptLearner,
    Conjunction,
    Conjunctions,
    DirichletCategorical,
    FindS,
    GaussianNB,
    HiddenMarkovModel,
    JointTable,
    LinearRegression,
    LogisticRegression,
    MultinomialNB,
    NaiveBayes,
    Nominal,
    OnlineBaumWelch,
    PlattScaling,
    SemiSupervisedNB,
    SequentialPosterior,
    SigmoidUnit,
)
from streamnb.cli import build_parser, main
from streamnb.runtime.context import load_config
from tests.oracles.gaussian_oracle import gaussian_of
from tests.oracles.words_oracle import words as words_of

PLAY_TENNIS = [  # Mitchell (1997), table 3.2
    ("sunny", "hot", "high", "weak", "no"),
    ("sunny", "hot", "high", "strong", "no"),
    ("overcast", "hot", "high", "weak", "yes"),
    ("rain", "mild", "high", "weak", "yes"),
    ("rain", "cool", "normal", "weak", "yes"),
    ("rain", "cool", "normal", "strong", "no"),
    ("overcast", "cool", "normal", "strong", "yes"),
    ("sunny", "mild", "high", "weak", "no"),
    ("sunny", "cool", "normal", "weak", "yes"),
    ("rain", "mild", "normal", "weak", "yes"),
    ("sunny", "mild", "normal", "strong", "yes"),
    ("overcast", "mild", "high", "strong", "yes"),
    ("overcast", "hot", "normal", "weak", "yes"),
    ("rain", "mild", "high", "strong", "no"),
]
NAMES = ("outlook", "temperature", "humidity", "wind")
QUERY = dict(zip(NAMES, ("sunny", "cool", "high", "strong"), strict=True))


def play_tennis(**keywords):
    model = CategoricalNB(**keywords)
    for *values, label in PLAY_TENNIS:
        model.learn_one(dict(zip(NAMES, values, strict=True)), label)
    return model


def share(model, x, label):
    """P(x | label) as the model reads it."""
    return math.exp(model.joint_log_likelihood(x)[label] - model.joint_log_likelihood({})[label])


def update(posterior, likelihoods):
    """One observation by its probabilities; P(d | D)."""
    return math.exp(posterior.update(likelihoods))


def digits(posterior, places):
    return [round(p, places) for p in posterior.probabilities.values()]


def test_row_1_cancer():
    """P(+ | cancer) P(cancer) = .0078, P(+ | not) P(not) = .0298, P(cancer | +) = .21; MAP is no cancer."""
    posterior = SequentialPosterior({"cancer": 0.008, "not": 0.992})
    evidence = update(posterior, {"cancer": 0.98, "not": 0.03})
    joints = {h: p * evidence for h, p in posterior.probabilities.items()}
    assert {h: round(joint, 4) for h, joint in joints.items()} == {"cancer": 0.0078, "not": 0.0298}
    assert round(posterior.probabilities["cancer"], 2) == 0.21
    assert (posterior.map(), posterior.ml()) == ("not", "cancer")


LIME = {"h1": 0.0, "h2": 0.25, "h3": 0.5, "h4": 0.75, "h5": 1.0}
BOXES = {"h1": 0.1, "h2": 0.2, "h3": 0.4, "h4": 0.2, "h5": 0.1}


def next_is_lime(posterior):
    return posterior.predict({h: {"lime": p, "cherry": 1 - p} for h, p in LIME.items()})["lime"]


def test_rows_1_to_3_candy_boxes():
    """Every column of the slide; the most probable box goes from h3 over h4 to h5; lime from .5 to above .97."""
    posterior = SequentialPosterior(BOXES)
    columns, boxes, limes = [digits(posterior, 3)], [posterior.map()], [next_is_lime(posterior)]
    for _ in range(10):
        assert update(posterior, LIME) == pytest.approx(limes[-1], rel=1e-14), "predicted as it then came"
        columns.append(digits(posterior, 3))
        boxes.append(posterior.map())
        limes.append(next_is_lime(posterior))
    assert columns[0] == [0.1, 0.2, 0.4, 0.2, 0.1]
    assert columns[1] == [0.0, 0.1, 0.4, 0.3, 0.2]
    assert columns[2] == [0.0, 0.038, 0.308, 0.346, 0.308]
    printed = [0, 0.03, 0.30, 0.35, 0.31]  # of two digits, some of them cut off and some rounded
    assert all(abs(exact - shown) < 0.01 for exact, shown in zip(columns[2], printed, strict=True))
    assert boxes == ["h3", "h3", "h4"] + ["h5"] * 8
    assert limes[0] == pytest.approx(0.5, rel=1e-15)
    assert limes == sorted(limes)
    assert 0.97 < limes[10] < 0.98
    for h, p in posterior.probabilities.items():  # P(h | d) = alpha P(h) P(lime | h)^10, at one stroke
        alpha = 1 / sum(BOXES[g] * LIME[g] ** 10 for g in BOXES)
        assert p == pytest.approx(alpha * BOXES[h] * LIME[h] ** 10, rel=1e-13)


@pytest.mark.parametrize("box", list(LIME))
def test_row_1_candies_of_any_box_in_any_order(box):
    """Without switching the order of the observations does not matter."""
    candies = (np.random.default_rng(1).random(10) < LIME[box]).tolist()
    forth, back = SequentialPosterior(BOXES), SequentialPosterior(BOXES)
    for posterior, order in ((forth, candies), (back, sorted(candies))):
        for lime in order:
            update(posterior, {h: p if lime else 1 - p for h, p in LIME.items()})
    assert forth.probabilities == pytest.approx(back.probabilities, rel=1e-13)
    assert forth.probabilities[box] > 0


def test_rows_1_and_2_coin():
    """.714 and .286 after one head: the biased coin has the greater likelihood, the fair one is the likelier."""
    posterior = SequentialPosterior({"fair": 0.75, "biased": 0.25})
    assert update(posterior, {"fair": 0.5, "biased": 0.6}) == pytest.approx(0.525, rel=1e-15)
    assert digits(posterior, 3) == [0.714, 0.286]
    assert (posterior.map(), posterior.ml()) == ("fair", "biased")
    uniform = SequentialPosterior(["fair", "biased"])
    update(uniform, {"fair": 0.5, "biased": 0.6})
    assert uniform.map() == uniform.ml() == "biased", "ML is MAP under a uniform prior"


def test_rows_1_and_2_coin_of_a_hundred_throws():
    """70 heads of 100: .0069 and .9931. The slide prints .0057 and .9943, which its own factors do not give."""
    posterior = SequentialPosterior({"fair": 0.75, "biased": 0.25})
    for toss in range(100):
        head = toss < 70
        update(posterior, {"fair": 0.5, "biased": 0.6 if head else 0.4})
    assert digits(posterior, 4) == [0.0069, 0.9931]
    fair, biased = 7.9e-31 * 0.75, 3.4e-28 * 0.25  # as printed
    assert round(fair / (fair + biased), 4) == 0.0069
    exact = 0.75 * 0.5**100 / (0.75 * 0.5**100 + 0.25 * 0.6**70 * 0.4**30)
    assert posterior.probabilities["fair"] == pytest.approx(exact, rel=1e-12)
    assert posterior.map() == posterior.ml() == "biased"


def test_rows_3_and_4_bayes_optimal_against_map_and_gibbs():
    """Posteriors .4, .3, .3 that say +, -, -: P(+) = .4, P(-) = .6. MAP says +, Bayes optimal -, Gibbs either."""
    posterior = SequentialPosterior({"h1": 0.4, "h2": 0.3, "h3": 0.3})
    says = {"h1": "+", "h2": "-", "h3": "-"}
    prediction = posterior.predict({h: {v: float(v == says[h]) for v in "+-"} for h in says})
    assert prediction == pytest.approx({"+": 0.4, "-": 0.6}, rel=1e-15)
    assert max(prediction, key=prediction.get) == "-"
    assert says[posterior.map()] == "+"
    drawn = [says[posterior.draw(counter, seed=1)] for counter in range(10_000)]
    assert abs(drawn.count("+") / 10_000 - 0.4) < 4.9 * math.sqrt(
        0.4 * 0.6 / 10_000
    )  # false alarms 1 in 10^6


@pytest.mark.parametrize(("picked", "opened"), [(a, b) for a in (1, 2, 3) for b in (1, 2, 3) if a != b])
def test_row_1_monty_hall(picked, opened):
    """The host opens a goat's door, of two of them either: whoever switches wins 2/3."""
    posterior = SequentialPosterior([1, 2, 3])
    chance = {car: 0.0 if car == opened else 0.5 if car == picked else 1.0 for car in (1, 2, 3)}
    assert update(posterior, chance) == pytest.approx(0.5, rel=1e-15)
    other = 6 - picked - opened
    assert posterior.probabilities == pytest.approx({picked: 1 / 3, other: 2 / 3, opened: 0.0}, rel=1e-15)
    assert posterior.map() == other


def test_row_1_monty_hall_as_the_joint_table_of_the_page(tmp_path, monkeypatch, capsys):
    (table,) = re.findall(r"^```csv\n(car.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    (query,) = re.findall(r"^streamnb joint monty.csv \"(.*)\"$", PAGE.read_text(), re.MULTILINE)
    (tmp_path / "monty.csv").write_text(table)
    monkeypatch.chdir(tmp_path)
    assert main(["joint", "monty.csv", query, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["answers"][0]["rows"]
    assert row["probability"] == pytest.approx(2 / 3)


def test_row_9_play_tennis():
    model = play_tennis(alpha=0)
    weights = model.class_weights
    assert (weights["yes"], weights["no"]) == (9, 5)
    assert math.exp(model.joint_log_likelihood({})["yes"]) == pytest.approx(9 / 14, rel=1e-15)
    assert share(model, {"wind": "strong"}, "no") == pytest.approx(3 / 5, rel=1e-14)
    assert share(model, {"wind": "strong"}, "yes") == pytest.approx(3 / 9, rel=1e-14)
    joints = {label: math.exp(joint) for label, joint in model.joint_log_likelihood(QUERY).items()}
    assert round(joints["yes"], 4) == 0.0053
    assert round(joints["no"], 4) == 0.0206
    assert model.predict_one(QUERY) == "no"
    assert round(model.predict_proba_one(QUERY)["no"], 3) == 0.795


def test_row_9_play_tennis_from_the_stored_stream(streams):
    """The same rows as data: `windy` TRUE is a strong wind."""
    model = CategoricalNB(alpha=0)
    with gzip.open(streams / "weka_weather_nominal.jsonl.gz", "rt") as lines:
        for line in lines:
            event = json.loads(line)
            model.learn_one(event["features"], event["label"])
    x = {"outlook": "sunny", "temperature": "cool", "humidity": "high", "windy": "TRUE"}
    assert round(model.predict_proba_one(x)["no"], 3) == 0.795


def test_row_9_independent_parameters():
    """1 for the class, then (values - 1) x 2 classes for each attribute: 4, 4, 2, 2."""
    model = play_tennis()
    classes = len(model.classes)
    parameters = [classes - 1] + [(len(model.class_counts(name)) - 1) * classes for name in NAMES]
    assert parameters == [1, 4, 4, 2, 2]
    network = BayesianNetwork({"play": [], **{name: ["play"] for name in NAMES}})
    for *values, label in PLAY_TENNIS:
        network.learn_one({**dict(zip(NAMES, values, strict=True)), "play": label})
    assert list(network.parameters().n_free.values()) == parameters
    assert network.n_parameters == 13


def test_row_9_lion():
    """A furry animal with short teeth that is not scary: .001 (lion) against .0225 (not lion)."""
    yes = {"has fur": (0.5, 0.1), "long teeth": (0.9, 0.5), "scary": (0.8, 0.5)}
    tables = {
        name: {label: {"yes": p, "no": 1 - p} for label, p in zip(("lion", "not lion"), ps, strict=True)}
        for name, ps in yes.items()
    }
    model = CategoricalNB.from_tables({"lion": 0.1, "not lion": 0.9}, tables)
    animal = {"has fur": "yes", "long teeth": "no", "scary": "no"}
    joints = {label: math.exp(joint) for label, joint in model.joint_log_likelihood(animal).items()}
    assert joints == pytest.approx(
        {"lion": 0.1 * 0.5 * 0.1 * 0.2, "not lion": 0.9 * 0.1 * 0.5 * 0.5}, rel=1e-14
    )
    assert {label: round(joint, 4) for label, joint in joints.items()} == {"lion": 0.001, "not lion": 0.0225}
    assert model.predict_one(animal) == "not lion"
    for wrong in ({"yes": 0.5, "no": 0.4}, {"yes": 1.5, "no": -0.5}):
        with pytest.raises(ValueError, match=r"'fur' of 'lion': .* does not sum to 1"):
            CategoricalNB.from_tables({"lion": 1.0}, {"fur": {"lion": wrong}})


@pytest.mark.parametrize("m", [0.5, 1, 2, 14])
def test_row_10_m_estimate(m):
    """P(wind = strong | no): n = 5, n_c = 3, p = .5."""
    model = play_tennis(m=m, p=0.5)
    assert share(model, {"wind": "strong"}, "no") == pytest.approx((3 + m * 0.5) / (5 + m), rel=1e-14)
    uniform = play_tennis(m=m)  # two values: p = 1/2 by itself
    assert share(uniform, {"wind": "strong"}, "no") == pytest.approx((3 + m * 0.5) / (5 + m), rel=1e-14)


def test_row_10_laplace_is_the_m_estimate_with_m_equal_k():
    laplace, m_estimate = play_tennis(alpha=1), play_tennis(m=3, p=1 / 3)
    for value in ("sunny", "overcast", "rain"):
        x = {"outlook": value}
        assert laplace.joint_log_likelihood(x) == pytest.approx(m_estimate.joint_log_likelihood(x), rel=1e-14)


def test_row_10_values_that_are_declared_and_not_met():
    """One lion, with fur: Laplace 2/3, and (1 + m / 2) / (1 + m) by the m-estimate, .600 of which m = 4."""
    for smoothing, expected in [
        ({"alpha": 1}, 2 / 3),
        ({"m": 2}, 2 / 3),
        ({"m": 4, "p": 0.5}, 0.6),
        ({"m": 4}, 0.6),
    ]:
        model = CategoricalNB(**smoothing, attributes={"has fur": Nominal(values=["yes", "no"])})
        model.learn_one({"has fur": "yes"}, "lion")
        assert share(model, {"has fur": "yes"}, "lion") == pytest.approx(expected, rel=1e-14)
        assert share(model, {"has fur": "no"}, "lion") == pytest.approx(1 - expected, rel=1e-14)


def test_row_10_shares_of_declared_values_sum_to_one_from_the_first_event_on():
    outlooks = ("sunny", "overcast", "rain")
    model = CategoricalNB(m=3, p=1 / 3, attributes={"outlook": Nominal(values=outlooks)})
    for row in PLAY_TENNIS:
        model.learn_one({"outlook": row[0]}, row[-1])
        for label in model.classes:
            assert sum(share(model, {"outlook": value}, label) for value in outlooks) == pytest.approx(
                1.0, rel=1e-14
            )


def test_row_11_three_words():
    """Maximum likelihood in a language of three words: eta = sum y / m, and the shares of a, b, c."""
    documents = [("a a b", 1), ("a c", 1), ("b b c c", 0), ("c", 0), ("a b c c", 0)]
    model = MultinomialNB(alpha=0)
    for text, y in documents:
        model.learn_one(text, y)
    assert math.exp(model.joint_log_likelihood({})[1]) == pytest.approx(2 / 5, rel=1e-15)
    for label, counts in {1: (3, 1, 1), 0: (1, 3, 5)}.items():
        for word, count in zip("abc", counts, strict=True):
            assert share(model, word, label) == pytest.approx(count / sum(counts), rel=1e-14)


def test_row_11_smoothing_and_vocabulary():
    """P(w_k | v_j) = (n_k + 1) / (n + |Vocabulary|), over positions whose word is in Vocabulary only."""
    model = MultinomialNB()
    model.learn_one("win cash win", "spam")
    model.learn_one("lunch cash", "ham")
    assert share(model, "win", "spam") == pytest.approx((2 + 1) / (3 + 3), rel=1e-14)
    assert share(model, "win", "ham") == pytest.approx((0 + 1) / (2 + 3), rel=1e-14)
    assert model.joint_log_likelihood("win zebra quagga") == model.joint_log_likelihood("win")


def test_row_12_absent_words_count():
    model = BernoulliNB(alpha=0)
    for text, label in [("a b", "x"), ("a", "x"), ("b c", "y"), ("a b c", "y"), ("c", "y"), ("", "y")]:
        model.learn_one(text, label)
    # P(a|x) = 1, P(b|x) = 1/2, P(c|x) = 0; P(a|y) = 1/4, P(b|y) = 1/2, P(c|y) = 3/4
    joints = model.joint_log_likelihood("a")
    assert math.exp(joints["x"]) == pytest.approx(2 / 6 * 1 * (1 / 2) * 1, rel=1e-14)
    assert math.exp(joints["y"]) == pytest.approx(4 / 6 * (1 / 4) * (1 / 2) * (1 / 4), rel=1e-14)
    assert model.joint_log_likelihood("c")["x"] == -math.inf
    assert model.predict_proba_one("c") == {"x": 0.0, "y": 1.0}


def test_row_13_gaussian():
    """Rows with Y = 1: X1 = 2, -1.2, 2.2: mean 1, variance 2.43 (divided by n)."""
    model = GaussianNB()
    for x1, y in [(2.0, 1), (-1.2, 1), (2.2, 1), (0.5, 0), (-3.0, 0)]:
        model.learn_one({"X1": x1}, y)
    moment = model.class_moments("X1")[1]
    assert moment.n == 3
    assert moment.mean == pytest.approx(1.0, rel=1e-15)
    assert round(moment.variance, 2) == 2.43
    cells = {y: (n, mean, n * s2) for y, (n, mean, s2) in model.class_moments("X1").items()}
    mean, variance = gaussian_of(cells, 1)  # of three examples the class leans on the pooled variance
    density = math.exp(-((0.7 - mean) ** 2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)
    assert share(model, {"X1": 0.7}, 1) == pytest.approx(density, rel=1e-13)


def test_row_14_attributes_of_several_kinds_multiply():
    rng = np.random.default_rng(3)
    together, apart = NaiveBayes({"text": "text"}), {}
    kinds = {"text": MultinomialNB(), "colour": CategoricalNB(), "height": GaussianNB()}
    for _ in range(40):
        y = rng.choice(["a", "b"])
        x = {
            "text": " ".join(rng.choice(["u", "v", "w"], size=3)),
            "colour": str(rng.choice(["red", "blue"])),
            "height": float(rng.normal()),
        }
        together.learn_one(x, y)
        for name, model in kinds.items():
            model.learn_one({name: x[name]}, y)
        apart = x
    prior = together.joint_log_likelihood({})
    for label, joint in together.joint_log_likelihood(apart).items():
        factors = sum(
            model.joint_log_likelihood({name: apart[name]})[label] - prior[label]
            for name, model in kinds.items()
        )
        assert joint == pytest.approx(prior[label] + factors, rel=1e-13)


def test_row_22_vocabulary_without_the_most_frequent_and_the_rarest_words(streams):
    """The 100 most frequent words and those seen fewer than 3 times are dropped; others count as before."""
    model, times, by_class = MultinomialNB(), Counter(), {}
    with gzip.open(streams / "sms_spam.jsonl.gz", "rt") as lines:
        for line in lines:
            event = json.loads(line)
            model.learn_one(event["text"], event["label"])
            words = words_of(event["text"])
            times.update(words)
            by_class.setdefault(event["label"], Counter()).update(words)
    assert len(model.class_counts("text")) == len(times)
    frequent = {word for word, _ in times.most_common(100)}  # of equals, the one met first
    kept = {word for word, n in times.items() if word not in frequent and n >= 3}
    assert model.prune(min_count=3, drop_most_frequent=100) == len(times) - len(kept)
    assert model.class_counts("text") == {
        word: {label: by_class[label][word] for label in by_class if by_class[label][word]} for word in kept
    }
    tokens = {label: sum(by_class[label][word] for word in kept) for label in by_class}
    rare = min(kept, key=lambda word: (times[word], word))
    assert share(model, rare, "ham") == pytest.approx(
        (by_class["ham"][rare] + 1) / (tokens["ham"] + len(kept)), rel=1e-12
    )
    for word in frequent:  # for good
        model.learn_one(word, "ham")
    assert set(model.class_counts("text")) == kept


ENJOY_SPORT = [  # Mitchell (1997), table 2.1
    ("sunny", "warm", "normal", "strong", "warm", "same", "yes"),
    ("sunny", "warm", "high", "strong", "warm", "same", "yes"),
    ("rainy", "cold", "high", "strong", "warm", "change", "no"),
    ("sunny", "warm", "high", "strong", "cool", "change", "yes"),
]
DAYS = Conjunctions(
    {
        "sky": ["sunny", "cloudy", "rainy"],
        "temperature": ["warm", "cold"],
        "humidity": ["normal", "high"],
        "wind": ["strong", "weak"],
        "water": ["warm", "cool"],
        "forecast": ["same", "change"],
    }
)


def day(values):
    return dict(zip(DAYS.attributes, values, strict=True))


def concept(examples=ENJOY_SPORT, **keywords):
    model = ConceptLearner(DAYS, positive="yes", negative="no", **keywords)
    for *values, label in examples:
        model.learn_one(day(values), label)
    return model


def test_row_5_enjoy_sport():
    """973 hypotheses; S and G as the book traces them; a version space of six."""
    assert concept().n_hypotheses == 973
    traced = [  # figures 2.4 to 2.7: S, G, and how many lie between
        (["<0, 0, 0, 0, 0, 0>"], ["<?, ?, ?, ?, ?, ?>"], 973),
        (["<sunny, warm, normal, strong, warm, same>"], ["<?, ?, ?, ?, ?, ?>"], 64),
        (["<sunny, warm, ?, strong, warm, same>"], ["<?, ?, ?, ?, ?, ?>"], 32),
        (
            ["<sunny, warm, ?, strong, warm, same>"],
            ["<?, ?, ?, ?, ?, same>", "<?, warm, ?, ?, ?, ?>", "<sunny, ?, ?, ?, ?, ?>"],
            28,
        ),
        (["<sunny, warm, ?, strong, ?, ?>"], ["<?, warm, ?, ?, ?, ?>", "<sunny, ?, ?, ?, ?, ?>"], 6),
    ]
    for n, (specific, general, size) in enumerate(traced):
        found = concept(ENJOY_SPORT[:n]).version_space
        assert [DAYS.notation(h) for h in found.specific] == specific
        assert [DAYS.notation(h) for h in found.general] == general
        assert len(found) == size
    assert {DAYS.notation(h) for h in concept().version_space} == {  # figure 2.3
        "<sunny, warm, ?, strong, ?, ?>",
        "<sunny, ?, ?, strong, ?, ?>",
        "<sunny, warm, ?, ?, ?, ?>",
        "<?, warm, ?, strong, ?, ?>",
        "<sunny, ?, ?, ?, ?, ?>",
        "<?, warm, ?, ?, ?, ?>",
    }


def test_row_5_votes_of_the_version_space():
    """New days (table 2.6): all say yes; all say no; three of six; two of six, so that no has 2/3."""
    votes = {
        ("sunny", "warm", "normal", "strong", "cool", "change"): Fraction(1),
        ("rainy", "cold", "normal", "weak", "warm", "same"): Fraction(0),
        ("sunny", "warm", "normal", "weak", "warm", "same"): Fraction(1, 2),
        ("sunny", "cold", "normal", "strong", "warm", "same"): Fraction(1, 3),
    }
    model = concept()
    for values, vote in votes.items():
        assert model.version_space.vote(day(values)) == vote
        assert model.predict_proba_one(day(values)) == {"no": float(1 - vote), "yes": float(vote)}


def test_row_5_posterior_and_evidence():
    """P(h | D) = 1/|VS| for h consistent with D, else 0; P(D) = |VS|/|H|."""
    model = concept()
    assert model.evidence == Fraction(6, 973)
    assert math.exp(model.log_evidence) == pytest.approx(6 / 973, rel=1e-14)
    for h, p in model.probabilities.items():
        assert p == (1 / 6 if h in model.version_space else 0.0)


def test_row_5_evolution_of_the_posterior():
    """Uniform at first; then zero where inconsistent, and higher, and even, over what remains."""
    model, heights, spaces = concept([]), [], []
    for *values, label in [*ENJOY_SPORT, (None,) * 7]:
        p = model.posterior
        heights.append(p.max())
        spaces.append(set(np.flatnonzero(p).tolist()))
        assert set(p.tolist()) <= {0.0, 1 / len(spaces[-1])}
        if label is not None:
            predicted = model.predict_proba_one(day(values))[label]
            before, _ = model.evidence, model.learn_one(day(values), label)
            assert float(model.evidence / before) == pytest.approx(predicted, rel=1e-14)
    assert heights == [1 / 973, 1 / 64, 1 / 32, 1 / 28, 1 / 6]
    assert all(after < before for before, after in pairwise(spaces))


def test_row_5_find_s_is_a_map_learner():
    """Under the uniform prior one of the MAP hypotheses; under one that favours the specific, the one."""
    find_s = FindS("yes", "no")
    steps = [
        "nothing",
        "sky=sunny & temperature=warm & humidity=normal & wind=strong & water=warm & forecast=same",
        "sky=sunny & temperature=warm & wind=strong & water=warm & forecast=same",
        "sky=sunny & temperature=warm & wind=strong & water=warm & forecast=same",
        "sky=sunny & temperature=warm & wind=strong",
    ]
    uniform, specific = concept([]), concept([], prior="specific")
    prior = {h: uniform.hypotheses.specificity()[DAYS.number(h)] for h in uniform.probabilities}
    few = [Conjunction(None), *list(prior)[1:60:7]]
    assert all(prior[h] > prior[g] for h in few for g in few if g != h and g.is_more_general_or_equal(h))
    for n, step in enumerate(steps):
        assert str(find_s.hypothesis) == step
        assert specific.map() == find_s.hypothesis
        assert uniform.probability(find_s.hypothesis) == max(uniform.posterior), "a consistent learner"
        if n < len(ENJOY_SPORT):
            *values, label = ENJOY_SPORT[n]
            for model in (find_s, uniform, specific):
                model.learn_one(day(values), label)


def test_row_5_noisy_labels():
    """Each label flipped with probability .1: an example lowers P(h) by a ninth, and eliminates nothing."""
    model = concept(noise=0.1)
    agreements = {
        h: sum(h.covers(day(v)) == (y == "yes") for *v, y in ENJOY_SPORT) for h in model.probabilities
    }
    likelihoods = {h: 0.9**n * 0.1 ** (4 - n) for h, n in agreements.items()}
    evidence = math.fsum(likelihoods.values()) / 973
    assert model.log_evidence == pytest.approx(math.log(evidence), rel=1e-13)
    for h, p in model.probabilities.items():
        assert p == pytest.approx(likelihoods[h] / 973 / evidence, rel=1e-12)
    assert model.ml() in model.version_space
    flipped = concept([*ENJOY_SPORT, (*ENJOY_SPORT[0][:-1], "no")], noise=0.1)
    assert len(flipped.version_space) == 0
    right_before = {flipped.probability(h) for h in model.version_space}
    assert right_before == {max(flipped.posterior)}, "one error each, and nobody has none"


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_row_5_play_tennis_in_the_bound(noise):
    """No conjunction is right about the 14 days; in a mixture it costs at most ln 3 more than the best."""
    values = [list(dict.fromkeys(column)) for column in zip(*PLAY_TENNIS, strict=True)]
    space = Conjunctions(dict(zip(NAMES, values[:-1], strict=True)))
    models = {
        "concepts": ConceptLearner(space, noise=noise, positive="yes", negative="no"),
        "find-s": FindS("yes", "no"),
        "bayes": CategoricalNB(),
    }
    model, loss = BayesOptimalClassifier(models), 0.0
    for *x, y in PLAY_TENNIS:
        event = dict(zip(NAMES, x, strict=True))
        loss -= math.log(max(model.predict_proba_one(event).get(y, 0.0), 1e-15))
        model.learn_one(event, y)
    assert loss <= min(model.posterior.losses.values()) + math.log(3) + 1e-12
    assert models["concepts"].n_hypotheses == 1 + 4 * 4 * 3 * 3
    assert len(models["concepts"].version_space) == 0
    assert models["find-s"].hypothesis == Conjunction({}), "nine days of play have no value in common"


def gaussian_log_likelihood(w, X, d, variance):
    """Ln p(D | h) = sum of ln N(d_i; h(x_i), variance)."""
    residuals = d - w[0] - X @ w[1:]
    return float(-0.5 * (np.square(residuals) / variance + math.log(2 * math.pi * variance)).sum())


def test_row_6_least_squares_is_maximum_likelihood_under_gaussian_noise():
    """h_ML = argmin sum (d_i - h(x_i))^2 has the greatest p(D | h) of all w, and of all noise variances."""
    from scipy import optimize

    rng = np.random.default_rng(6)
    X = rng.normal(size=(60, 2))
    d = 2.0 + X @ [1.0, -3.0] + rng.normal(size=60)
    model = LinearRegression()
    for x, target in zip(X.tolist(), d.tolist(), strict=True):
        model.learn_one(dict(enumerate(x)), target)
    ml = np.array([model.intercept, *model.weights.values()])
    variance = model.noise_variance
    assert variance == pytest.approx(np.square(d - ml[0] - X @ ml[1:]).sum() / 60, rel=1e-12)
    greatest = gaussian_log_likelihood(ml, X, d, variance)
    for step in np.vstack([np.eye(3), -np.eye(3)]) * 1e-3:
        assert gaussian_log_likelihood(ml + step, X, d, variance) < greatest
    assert gaussian_log_likelihood(ml, X, d, variance * 1.01) < greatest
    assert gaussian_log_likelihood(ml, X, d, variance / 1.01) < greatest
    found = optimize.minimize(lambda w: -gaussian_log_likelihood(w, X, d, 1.0), np.zeros(3), tol=1e-10)
    assert ml == pytest.approx(found.x, rel=1e-6), "whatever the variance of the noise is"


def test_row_6_the_likeliest_line_is_not_the_target_itself():
    """It is inferred from a limited sample: the target f explains it less well."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(10, 1))
    d = 1.0 + 2.0 * X[:, 0] + rng.normal(size=10)
    model = LinearRegression()
    for (x,), target in zip(X.tolist(), d.tolist(), strict=True):
        model.learn_one({"x": x}, target)
    ml = np.array([model.intercept, model.weights["x"]])
    assert ml != pytest.approx([1.0, 2.0], abs=1e-3)
    assert gaussian_log_likelihood(ml, X, d, 1.0) > gaussian_log_likelihood(np.array([1.0, 2.0]), X, d, 1.0)


PROBABLE = [({"x": 0.5, "z": -1.0}, 1.0), ({"x": 2.0, "z": 0.3}, 0.0), ({"x": -1.5, "z": 1.0}, 0.7)]


def test_row_7_cross_entropy():
    """P(D | h) = prod h^d (1 - h)^(1 - d), whose negated logarithm is the cross entropy."""
    unit = SigmoidUnit(rate=0.5)
    unit.learn_many(PROBABLE)
    likelihood = math.prod(
        unit.predict_one(x) ** d * (1.0 - unit.predict_one(x)) ** (1.0 - d) for x, d in PROBABLE
    )
    assert unit.log_likelihood(PROBABLE) == pytest.approx(math.log(likelihood), rel=1e-13)
    assert SigmoidUnit().log_likelihood(PROBABLE) == pytest.approx(-3 * math.log(2), rel=1e-14)


def test_row_7_gradient_of_the_likelihood():
    """dG/dw_k = sum (d_i - h(x_i)) x_ik by finite differences, and the step is eta times it."""
    unit = SigmoidUnit(rate=0.2)
    for _ in range(3):
        unit.learn_many(PROBABLE)
    before = {"": unit.intercept, **unit.weights}
    derivatives = {}
    for place, name in enumerate(before):
        values = []
        for step in (1e-6, -1e-6):
            meta, arrays = unit.state()
            arrays["weights"][place] += step
            values.append(SigmoidUnit().load_state(meta, arrays).log_likelihood(PROBABLE))
        derivatives[name] = (values[0] - values[1]) / 2e-6
    expected = {
        name: math.fsum((d - unit.predict_one(x)) * x.get(name, 1.0) for x, d in PROBABLE) for name in before
    }
    assert derivatives == pytest.approx(expected, abs=1e-8)
    unit.learn_many(PROBABLE)
    after = {"": unit.intercept, **unit.weights}
    moved = {name: after[name] - before[name] for name in before}
    assert moved == pytest.approx({name: 0.2 * slope for name, slope in expected.items()}, rel=1e-12)


def test_row_7_learns_probabilities():
    """Targets 0 and 1 that are drawn: h(x) comes to the probability that f(x) = 1, not to 0 or 1."""
    rng = np.random.default_rng(8)
    truth = {"a": 0.8, "b": 0.3}
    unit = SigmoidUnit(rate=0.01)
    for _ in range(20_000):
        value = str(rng.choice(["a", "b"]))
        unit.learn_one({"x": value}, float(rng.random() < truth[value]))
    for value, p in truth.items():
        assert abs(unit.predict_one({"x": value}) - p) < 0.08
    best = math.fsum(p * math.log(p) + (1 - p) * math.log(1 - p) for p in truth.values()) / 2
    assert unit.cross_entropy / unit.n < -best + 0.02


def test_row_15_naive_bayes_is_a_linear_separator():
    """w_i = log [p_i (1 - q_i)] / [q_i (1 - p_i)], and P(v = 1 | x) = 1 / (1 + exp(-sum w_i x_i + b))."""
    model = BernoulliNB(alpha=1)
    for text, label in [("a b", 1), ("a", 1), ("b c", 0), ("a b c", 0), ("c", 0)]:
        model.learn_one(text, label)
    p = {"a": 3 / 4, "b": 2 / 4, "c": 1 / 4}  # (n_c + 1) / (n + 2) of two texts of class 1
    q = {"a": 2 / 5, "b": 3 / 5, "c": 4 / 5}  # of three of class 0
    w = {i: math.log(p[i] * (1 - q[i]) / (q[i] * (1 - p[i]))) for i in p}
    view = model.linear_view(1)
    assert {item.value: item.weight for item in view.items} == pytest.approx(w, rel=1e-13)
    b = -math.log(2 / 3) - sum(math.log((1 - p[i]) / (1 - q[i])) for i in p)
    for text in ("", "a", "b c", "a b c"):
        logistic = 1 / (1 + math.exp(-sum(w[i] for i in text.split()) + b))
        assert model.predict_proba_one(text)[1] == pytest.approx(logistic, rel=1e-13)
        assert view.probability(text) == pytest.approx(logistic, rel=1e-13)


def test_row_15_gaussians_of_equal_variance():
    """Inside the exponent: log P(v=0)/P(v=1) + sum (mu_0 - mu_1) / s^2 x + (mu_1^2 - mu_0^2) / 2 s^2."""
    model = GaussianNB()
    means = {0: (1.0, -2.0), 1: (3.0, 0.5)}
    spread = (1.0, 0.25)  # mean +- s in either class
    for label, mean in means.items():
        for sign in (1, -1):
            model.learn_one(
                {i: m + sign * s for i, (m, s) in enumerate(zip(mean, spread, strict=True))}, label, 3.0
            )
    model.learn_one({}, 0, 6.0)
    read = []  # s^2 of each attribute, the same of both classes
    for i, s in enumerate(spread):
        cells = {label: (6.0, mean[i], 6.0 * s**2) for label, mean in means.items()}
        read.append(gaussian_of(cells, 0)[1])
        assert read[i] == gaussian_of(cells, 1)[1]
    for x in [(2.0, -1.0), (0.0, 0.0), (4.0, -3.0)]:
        exponent = math.log(4 / 2) + sum(
            (m0 - m1) / s2 * xi + (m1**2 - m0**2) / (2 * s2)
            for m0, m1, s2, xi in zip(means[0], means[1], read, x, strict=True)
        )
        expected = 1 / (1 + math.exp(exponent))
        assert model.predict_proba_one(dict(enumerate(x)))[1] == pytest.approx(expected, rel=1e-12)


def test_row_16_logistic_regression():
    """The minimum of 1/2 w^T w + C sum log(1 + exp(-y w^T x)), as scipy finds it, with x_0 = 1."""
    from scipy import optimize

    rng = np.random.default_rng(9)
    X = rng.normal(size=(80, 3))
    y = np.where(X @ [1.0, -2.0, 0.5] + rng.logistic(size=80) > 0, 1, -1)
    C = 2.0
    constant = np.column_stack([np.ones(80), X])

    def f(w):
        return 0.5 * w @ w + C * np.log1p(np.exp(-y * (constant @ w))).sum()

    least = optimize.minimize(f, np.zeros(4), tol=1e-12)
    model = LogisticRegression(C)
    events = [(dict(enumerate(x)), label) for x, label in zip(X.tolist(), y.tolist(), strict=True)]
    for x, label in events:
        model.learn_one(x, label)
    bias, weights = model.weights_of(1)
    assert least.fun < f(np.array([bias, *weights.values()])) < 1.02 * least.fun, "one observation at a time"
    model.refine(events)
    bias, weights = model.weights_of(1)
    assert [bias, *weights.values()] == pytest.approx(least.x, abs=1e-5)
    for x, _ in events[:9]:  # P(y = +1 | x, w) = [1 + exp(-(w^T x + b))]^-1
        net = bias + math.fsum(weights[k] * v for k, v in x.items())
        assert model.predict_proba_one(x)[1] == pytest.approx(1 / (1 + math.exp(-net)), rel=1e-12)


def test_row_16_expresses_what_naive_bayes_cannot():
    """Three copies of one attribute against another: naive Bayes counts each copy, the twin does not."""
    rng = np.random.default_rng(10)
    bayes, twin, losses = GaussianNB(), LogisticRegression(), np.zeros(2)
    for i in range(1500):
        u, v = rng.normal(size=2).tolist()
        y = bool(u + 3.0 * v + rng.logistic() > 0.0)
        x = {"u": u, "copy": u, "another": u, "v": v}
        if i >= 500:
            losses -= [math.log(model.predict_proba_one(x)[y]) for model in (bayes, twin)]
        for model in (bayes, twin):
            model.learn_one(x, y)
    assert losses[1] < 0.95 * losses[0]


def test_row_17_platt():
    """Pr(y = 1 | x) = 1 / (1 + exp(A f + B)); A and B of pairs held out: scored before they are learned."""
    rng = np.random.default_rng(11)
    platt = PlattScaling()
    for f in (rng.normal(size=5000) * 3.0).tolist():
        platt.learn_one(f, bool(rng.random() < 1 / (1 + math.exp(-0.5 * f + 0.7))))
    assert pytest.approx((-0.5, 0.7), abs=0.12) == (platt.A, platt.B)
    for f in (-4.0, 0.0, 2.5):
        expected = 1 / (1 + math.exp(platt.A * f + platt.B))
        assert platt.probability(f) == pytest.approx(expected, rel=1e-13)
    assert platt.probability(math.log(4.0)) == pytest.approx(
        1 / (1 + math.exp(-0.5 * math.log(4) + 0.7)), abs=0.03
    )


@pytest.mark.parametrize(("alpha_heads", "alpha_tails"), [(1.0, 1.0), (10.0, 10.0), (3.0, 0.5)])
def test_row_8_coin(alpha_heads, alpha_tails):
    """P(theta | d) ~ Beta(alpha_H + heads, alpha_T + tails): imaginary counts, and 70 heads in 100 tosses."""
    coin = BetaBernoulli(alpha_heads, alpha_tails)
    for toss in range(100):
        coin.update(toss % 10 < 7)
    assert coin.posterior == (alpha_heads + 70, alpha_tails + 30)
    # The posterior is in proportion to P(d | theta) P(theta), with P(d | theta) = theta^70 (1 - theta)^30.
    theta = np.linspace(0.0, 1.0, 10_001)[1:-1]
    joint = (70 + alpha_heads - 1) * np.log(theta) + (30 + alpha_tails - 1) * np.log1p(-theta)
    weights = np.exp(joint - joint.max())
    assert coin.mean == pytest.approx(float(weights @ theta / weights.sum()), rel=1e-9)
    assert coin.mode == pytest.approx(theta[weights.argmax()], abs=1e-4)
    assert coin.mean == pytest.approx((alpha_heads + 70) / (alpha_heads + alpha_tails + 100), rel=1e-15)


def test_row_8_maximum_likelihood_is_the_mode_under_a_uniform_prior():
    """theta_ML = heads / (heads + tails) = .7, and P(D) = 1 / (101 C(100, 70)) for a sequence."""
    coin = BetaBernoulli(1, 1)
    coin.update(True, 70)
    coin.update(False, 30)
    assert coin.mode == pytest.approx(0.7, rel=1e-15)
    assert coin.log_evidence == pytest.approx(-math.log(101 * math.comb(100, 70)), rel=1e-13)


def test_row_8_die():
    """Dirichlet of a die: P(face | d) = (alpha + n_face) / (k alpha + n), and P(D) of the multinomial counts."""
    throws = [2, 5, 5, 1, 6, 5, 2, 5]
    die = DirichletCategorical([1, 2, 3, 4, 5, 6])
    for face in throws:
        die.update(face)
    assert die.posterior == {1: 2, 2: 3, 3: 1, 4: 1, 5: 5, 6: 2}
    assert die.mean == pytest.approx(
        {face: (1 + throws.count(face)) / (6 + 8) for face in range(1, 7)}, rel=1e-15
    )
    assert die.mode == pytest.approx({face: throws.count(face) / 8 for face in range(1, 7)}, rel=1e-15)
    # Under the uniform prior all counts of 8 throws are as probable: C(13, 5) of them, each of n! / (x_1! ... x_6!)
    # sequences.
    sequences = math.factorial(8) // math.prod(math.factorial(throws.count(face)) for face in range(1, 7))
    assert die.log_evidence == pytest.approx(-math.log(math.comb(13, 5) * sequences), rel=1e-13)


def test_row_8_of_a_hundred_throws_in_any_order():
    """Binomial and multinomial coefficients: 100! / (70! 30!) orders of 70 heads, 60 of 3, 2 and 1 faces."""
    coin = BetaBernoulli(1, 1)
    in_order = math.lgamma(71) + math.lgamma(31) - math.lgamma(102)  # B(71, 31), of one order
    orders = math.comb(100, 70)
    assert coin.log_predictive_counts(70, 30) == pytest.approx(in_order + math.log(orders), abs=1e-9)
    assert math.exp(coin.log_predictive_counts(70, 30)) == pytest.approx(
        1 / 101
    )  # each of 0 to 100 as likely
    known = BetaBernoulli(6e9, 4e9)  # a chance of .6, for all practical purposes
    binomial = orders * 0.6**70 * 0.4**30
    assert math.exp(known.log_predictive_counts(70, 30)) == pytest.approx(binomial, rel=1e-6)
    die = DirichletCategorical(dict.fromkeys("abc", 1e9))
    assert math.exp(die.log_predictive_counts({"a": 3, "b": 2, "c": 1})) == pytest.approx(60 / 3**6, rel=1e-6)


def test_row_8_laplace_smoothing_is_the_mean_of_a_dirichlet_posterior():
    """P(w_k | v_j) = (n_k + 1) / (n + |Vocabulary|), as `MultinomialNB` has it."""
    model, words = MultinomialNB(), DirichletCategorical(["win", "cash", "lunch"])
    model.learn_one("win cash win", "spam")
    model.learn_one("lunch cash", "ham")
    for word in ["win", "cash", "win"]:
        words.update(word)
    for word, mean in words.mean.items():
        assert share(model, word, "spam") == pytest.approx(mean, rel=1e-14)


def test_row_18_the_mixture_of_components():
    """P(d) = sum_j P(c_j) P(d | c_j): labels one to one, and with one label missing."""
    model = SemiSupervisedNB(CategoricalNB(alpha=0), unlabelled_weight=1)
    for word, label in [("ball", "sport"), ("ball", "sport"), ("vote", "sport"), ("vote", "politics")]:
        model.learn_one({"word": word}, label)
    # P(sport) = 3/4, P(vote | sport) = 1/3, P(vote | politics) = 1
    assert math.exp(model.log_evidence_one({"word": "vote"})) == pytest.approx(
        3 / 4 * 1 / 3 + 1 / 4, rel=1e-14
    )
    model.learn_one({"word": "vote"}, None)  # P(sport | vote) = 1/2, and both stay equally likely
    assert model.responsibilities() == [{"sport": 0.5, "politics": 0.5}]
    assert model.class_weights == {"sport": 3.5, "politics": 1.5}
    # the fixed point r = P(sport | vote) of EM: joint counts of (sport, vote) and (politics, vote) are 1 + r, 2 - r
    assert model.predict_proba_one({"word": "vote"})["sport"] == pytest.approx(1.5 / 3, rel=1e-14)
    assert model.revisit() == 0


def chunker():
    """The lecture's model of phrases, of which it prints what a and b need; `rest` is all other characters."""
    return HiddenMarkovModel(
        initial={"B": 1.0, "I": 0.0, "O": 0.0},
        transition={"B": {"B": 0.8, "I": 0.2}, "I": {"B": 0.5, "I": 0.5}},
        emission={"B": {"a": 0.25, "b": 0.10, "rest": 0.65}, "I": {"a": 0.25, "b": 0.0, "rest": 0.75}},
    )


@pytest.mark.parametrize(
    ("characters", "tags", "likelihood"),
    [
        ("a", "B", 0.25),
        ("b", "B", 0.10),
        ("a", "I", 0.0),  # p(I) = 0
        ("aa", "BB", 0.25 * 0.8 * 0.25),
        ("aa", "BI", 0.25 * 0.2 * 0.25),
        ("ab", "BB", 0.25 * 0.8 * 0.10),
        ("ab", "BI", 0.0),  # p(b | I) = 0
        ("aab", "BIB", 0.25 * 0.2 * 0.25 * 0.5 * 0.10),
        ("baab", "BIIB", 0.10 * 0.2 * 0.25 * 0.5 * 0.25 * 0.5 * 0.10),
    ],
)
def test_row_19_likelihoods_of_characters_and_tags(characters, tags, likelihood):
    """P(x, s) = p(s_1) prod P(s_i+1 | s_i) prod P(x_i | s_i), with the numbers that the slide prints."""
    assert math.exp(chunker().log_joint(characters, tags)) == pytest.approx(likelihood, rel=1e-13)


@pytest.mark.parametrize("characters", ["a", "ab", "aab", "abaab", "aaaaaa", "bababa"])
def test_row_19_the_most_likely_tags_are_the_best_of_all_sequences(characters):
    """argmax over l of P(x | l) P(l), and P(x), their sum, which has as many terms as there are sequences."""
    model = chunker()
    joints = {
        tags: math.exp(model.log_joint(characters, tags)) for tags in product("BIO", repeat=len(characters))
    }
    best = model.viterbi(characters)
    assert joints[tuple(best.states)] == max(joints.values())
    assert math.exp(best.log_probability) == pytest.approx(max(joints.values()), rel=1e-13)
    assert math.exp(model.log_evidence(characters)) == pytest.approx(sum(joints.values()), rel=1e-13)
    for t, row in enumerate(model.smooth(characters)):
        of_b = sum(joint for tags, joint in joints.items() if tags[t] == "B")
        assert row[0] == pytest.approx(of_b / sum(joints.values()), rel=1e-13)


def test_row_19_b_is_never_inside_a_phrase():
    """p(b | I) = 0, and B -> B .8 beats every way through I."""
    model = chunker()
    is_b = model.smooth("abaab")[:, 0].tolist()
    assert [p == 1.0 for p in is_b] == [True, True, False, False, True]
    assert math.exp(model.log_evidence("ab")) == pytest.approx(0.25 * 0.8 * 0.10, rel=1e-13)
    assert model.viterbi("aab").states == ["B", "B", "B"]


def test_row_19_parameters_from_tagged_data():
    """The most likely parameters P(x_i | s_i), P(s_i+1 | s_i), p(s_1) are shares of counts; no sequence again."""
    model = HiddenMarkovModel(m=0.0, emission_m=0.0)
    for characters, tags in [("abca", "BBII"), ("ab", "BB"), ("ca", "IB")]:
        model.learn_one(characters, tags)
    assert model.initial_probabilities() == pytest.approx({"B": 2 / 3, "I": 1 / 3})
    assert model.transition_probabilities()["B"] == pytest.approx({"B": 2 / 3, "I": 1 / 3})
    assert model.transition_probabilities()["I"] == pytest.approx({"B": 1 / 2, "I": 1 / 2})
    assert model.emission_probabilities()["B"] == pytest.approx({"a": 3 / 5, "b": 2 / 5, "c": 0.0})
    assert model.emission_probabilities()["I"] == pytest.approx({"a": 1 / 3, "b": 0.0, "c": 2 / 3})


def test_row_19_with_hidden_tags_by_em():
    """From characters alone, each seen once, EM finds what explains them nearly as well as the model that drew them."""
    model, draw = chunker(), random.Random(19)
    emission, transition = model.emission_probabilities(), model.transition_probabilities()
    told, state = [], "B"
    for _ in range(4000):
        told += draw.choices(list(emission[state]), list(emission[state].values()))
        state = draw.choices(list(transition[state]), list(transition[state].values()))[0]
    online, without_states = OnlineBaumWelch(2), OnlineBaumWelch(1)
    for learner in (online, without_states):
        learner.learn_many(told)
    found, plain = (one.model().log_evidence(told) / len(told) for one in (online, without_states))
    assert model.log_evidence(told) / len(told) - 0.001 < found
    assert plain < found


def test_row_20_tables_by_counting_and_naive_bayes_as_a_network():
    """P(Y) = prod P(Y_i | pa(Y_i)) over PlayTennis: 9/14 P(sunny|yes) ... against 5/14 ..., no with .795."""
    network = BayesianNetwork({"play": [], **{name: ["play"] for name in NAMES}}, alpha=0)
    for *values, label in PLAY_TENNIS:
        network.learn_one({**dict(zip(NAMES, values, strict=True)), "play": label})
    assert network.marginal("play") == pytest.approx({"no": 5 / 14, "yes": 9 / 14})
    assert network.table("wind")["no",]["strong"] == pytest.approx(3 / 5)
    joint = {label: math.exp(network.log_evidence({**QUERY, "play": label})) for label in ("yes", "no")}
    assert joint["yes"] == pytest.approx(0.0053, abs=5e-5)
    assert joint["no"] == pytest.approx(0.0206, abs=5e-5)
    assert network.most_probable("play", given=QUERY).values == {"play": "no"}
    assert network.marginal("play", given=QUERY)["no"] == pytest.approx(0.795, abs=5e-4)
    assert network.d_separated("outlook", "wind", "play")
    assert not network.d_separated("outlook", "wind")


def test_row_20_the_alarm_table_as_a_network():
    """Counted from a thousand worlds with the frequencies of the joint table, an alarm that both cause."""
    joint = {
        ("yes", "yes", "yes"): 10, ("yes", "yes", "no"): 80, ("yes", "no", "yes"): 1, ("yes", "no", "no"): 9,
        ("no", "yes", "yes"): 10, ("no", "yes", "no"): 90, ("no", "no", "yes"): 10, ("no", "no", "no"): 790,
    }  # fmt: skip
    names = ("burglary", "alarm", "earthquake")
    parents = {"burglary": [], "earthquake": ["burglary"], "alarm": ["burglary", "earthquake"]}
    network = BayesianNetwork(parents, alpha=0)  # with all arrows, any joint table can be had
    for values, times in joint.items():
        network.learn_one(dict(zip(names, values, strict=True)), times)
    assert network.probability({"alarm": "yes"}) == pytest.approx(0.19, rel=1e-12)
    assert network.probability({"burglary": "yes"}) == pytest.approx(0.1, rel=1e-12)
    assert network.probability({"burglary": "yes"}, given={"alarm": "yes"}) == pytest.approx(
        0.09 / 0.19, rel=1e-12
    )
    assert not network.independent("burglary", "earthquake")


def test_row_20_naive_bayes_is_the_network_without_edges_and_answers_no():
    """PlayTennis: P(no | sunny, cool, high, strong) = .0206 / (.0206 + .0053) = .795."""
    model = BayesianNetworkClassifier({name: ["label"] for name in NAMES}, alpha=0)
    for *values, label in PLAY_TENNIS:
        model.learn_one(dict(zip(NAMES, values, strict=True)), label)
    assert round(model.predict_proba_one(QUERY)["no"], 3) == 0.795
    joint = [model.network.probability({**QUERY, "label": label}) for label in ("yes", "no")]
    assert [round(p, 4) for p in joint] == [0.0053, 0.0206]


YES_NO = ["yes", "no"]


def test_row_21_bayes_theorem_on_counts():
    """Seven worlds, four with A and three with B: P(A) = 4/7, P(B) = 3/7, P(B|A) = 2/4, P(A|B) = 2/3."""
    table = JointTable.from_counts({"A": YES_NO, "B": YES_NO}, [[2, 2], [1, 2]])
    a, b = {"A": "yes"}, {"B": "yes"}
    assert table.probability(a) == pytest.approx(4 / 7, rel=1e-15)
    assert table.probability(b) == pytest.approx(3 / 7, rel=1e-15)
    assert table.probability(b, given=a) == pytest.approx(2 / 4, rel=1e-15)
    assert table.probability(a, given=b) == pytest.approx(2 / 3, rel=1e-15)
    by_bayes = table.probability(b, given=a) * table.probability(a) / table.probability(b)
    assert by_bayes == pytest.approx(2 / 3, rel=1e-15)


def test_row_21_alarm():
    """The table of eight rows gives P(alarm) = .19 and P(burglary) = .1; the rounded one .47, .9 and .09."""
    full = JointTable(
        {"burglary": YES_NO, "alarm": YES_NO, "earthquake": YES_NO},
        [[[0.01, 0.08], [0.001, 0.009]], [[0.01, 0.09], [0.01, 0.79]]],
    )
    burglary, alarm = {"burglary": "yes"}, {"alarm": "yes"}
    assert full.probability(alarm) == pytest.approx(0.19, rel=1e-14)
    assert full.probability(burglary) == pytest.approx(0.1, rel=1e-14)
    assert full.probability(burglary, given=alarm) == pytest.approx(0.09 / 0.19, rel=1e-14)
    rounded = JointTable({"burglary": YES_NO, "alarm": YES_NO}, [[0.09, 0.01], [0.1, 0.8]])
    assert round(rounded.probability(burglary, given=alarm), 2) == 0.47
    assert rounded.probability(alarm, given=burglary) == pytest.approx(0.9, rel=1e-14)
    assert round(rounded.probability({**burglary, **alarm}), 2) == 0.09
    assert round(0.47 * 0.19, 2) == 0.09  # the slide multiplies what it has printed
    assert full.restricted("burglary", "alarm").probabilities == pytest.approx(rounded.probabilities)
    assert rounded.most_probable(given=alarm).values == {"burglary": "no"}


SMART = {
    ("yes", "yes", "yes"): 0.432, ("yes", "no", "yes"): 0.16, ("no", "yes", "yes"): 0.084, ("no", "no", "yes"): 0.008,
    ("yes", "yes", "no"): 0.048, ("yes", "no", "no"): 0.16, ("no", "yes", "no"): 0.036, ("no", "no", "no"): 0.072,
}  # fmt: skip


def test_row_21_the_sum_rule_counts_what_is_in_both_once():
    """P(smart or study) = .8 + .6 - .48 = .92; P(prepared | smart or study) = .676 / .92."""
    table = JointTable({"smart": YES_NO, "study": YES_NO, "prepared": YES_NO}, SMART)
    either = [{"smart": "yes"}, {"study": "yes"}]
    assert table.probability(either) == pytest.approx(0.92)
    summands = [one.sign * round(one.probability, 12) for one in table.inclusion_exclusion(either)]
    assert summands == [0.8, 0.6, -0.48]
    assert table.probability({"prepared": "yes"}, given=either) == pytest.approx(0.676 / 0.92)


def test_row_21_smart_study_prepared():
    """Smart and study are independent: .6 x .8 = .48. Of the take-home questions every answer is no."""
    table = JointTable({"smart": YES_NO, "study": YES_NO, "prepared": YES_NO}, SMART)
    answer = table.independent("smart", "study")
    assert answer
    first = answer.comparisons[0]
    assert (first.p_a, first.p_b) == pytest.approx((0.8, 0.6), rel=1e-14)
    assert (first.joint, first.product) == pytest.approx((0.48, 0.48), rel=1e-14)

    prepared = table.independent("prepared", "study")  # P(both) = .516, and .684 x .6 = .4104
    assert not prepared
    assert (prepared.comparisons[0].joint, prepared.comparisons[0].product) == pytest.approx((0.516, 0.4104))

    smart = table.independent("smart", "prepared", given="study")
    assert not smart
    by_study = {
        one.given["study"]: one
        for one in smart.comparisons
        if (one.a, one.b) == ({"smart": "yes"}, {"prepared": "yes"})
    }
    assert (by_study["yes"].joint, by_study["yes"].p_a, by_study["yes"].p_b) == pytest.approx(
        (0.72, 0.8, 0.86)
    )
    assert by_study["yes"].product == pytest.approx(0.688)
    assert (by_study["no"].joint, by_study["no"].product) == pytest.approx((0.4, 0.8 * 0.42))

    study = table.independent("study", "prepared", given="smart")
    assert not study
    by_smart = {
        one.given["smart"]: one
        for one in study.comparisons
        if (one.a, one.b) == ({"study": "yes"}, {"prepared": "yes"})
    }
    assert (by_smart["yes"].joint, by_smart["yes"].product) == pytest.approx((0.54, 0.6 * 0.74))
    assert (by_smart["no"].joint, by_smart["no"].product) == pytest.approx((0.42, 0.6 * 0.46))


def test_row_21_independent_yet_not_given_a_third():
    """x and y are fair bits and l = x and y: given l = 0, p(x=1) = p(y=1) = 1/3, but p(x=1, y=1) = 0."""
    table = JointTable(
        {name: [0, 1] for name in "xyl"}, {(x, y, x & y): 0.25 for x in (0, 1) for y in (0, 1)}
    )
    given = {"l": 0}
    assert table.probability({"x": 1}, given) == pytest.approx(1 / 3, rel=1e-15)
    assert table.probability({"y": 1}, given) == pytest.approx(1 / 3, rel=1e-15)
    assert table.probability({"x": 1, "y": 1}, given) == 0.0
    assert table.independent("x", "y")
    assert not table.independent("x", "y", given="l")
    network = BayesianNetwork({"x": [], "y": [], "l": ["x", "y"]})
    assert network.d_separated("x", "y")
    assert not network.d_separated("x", "y", "l")


def test_row_21_independent_given_a_third_yet_not_independent():
    """p(x=1 | l=0) = 1, p(y=1 | l=0) = 0, p(x=1 | l=1) = 0, p(y=1 | l=1) = 1: each l makes x and y certain.

    With fair l, p(x=1, y=1) = 0, and p(x=1) p(y=1) = 1/4.
    """
    table = JointTable({name: [0, 1] for name in "xyl"}, {(1, 0, 0): 0.5, (0, 1, 1): 0.5})
    assert table.independent("x", "y", given="l")
    answer = table.independent("x", "y")
    assert not answer
    one = next(c for c in answer.comparisons if (c.a, c.b) == ({"x": "1"}, {"y": "1"}))
    assert (one.joint, one.product) == (0.0, 0.25)


PAGE = Path(__file__).parents[2] / "docs" / "lectures.md"
ROWS = {
    int(row): cells for row, cells in re.findall(r"^\| (\d+) \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
}


@pytest.mark.parametrize("row", range(1, 23))
def test_every_row_has_a_class_and_a_test_that_is_named_after_it(row):
    """Found by its number; the classes that the page names are there."""
    tests = [name for name in globals() if name.startswith("test_row")]
    of = [re.match(r"test_rows?_(\d+)(?:_(and|to)_(\d+))?_", name).groups() for name in tests]
    held = set()
    for first, joined, last in of:
        held |= set(range(int(first), int(last) + 1)) if joined == "to" else {int(first), int(last or first)}
    assert row in held
    named = re.findall(r"`([A-Z]\w+)", ROWS[row])
    assert all(hasattr(streamnb, name) for name in named), named
    assert named or row == 10


def test_the_commands_of_the_page_are_commands_and_what_it_evaluates_is_there(
    streams, tmp_path, monkeypatch, capsys
):
    """Each parses, over files that are there; those with a module of one's own are run."""
    (module,) = re.findall(r"^```python\n((?!>>>).*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    (tmp_path / "mine.py").write_text(module)
    monkeypatch.chdir(streams)
    monkeypatch.syspath_prepend(tmp_path)
    commands = [c for cells in ROWS.values() for c in re.findall(r"`streamnb (evaluate [^`]+)`", cells)]
    assert len(commands) > 15
    for command in {*commands, "evaluate weka_weather_nominal.jsonl.gz --model mine:both"}:
        words = command.replace("--config config/", f"--config {PAGE.parent.parent}/config/").split()
        options = build_parser().parse_args(words)
        assert Path(options.file).exists(), command
        assert options.order is None or Path(options.order).exists(), command
        if options.model:
            assert main([*words, "--json"]) == 0
            assert json.loads(capsys.readouterr().out)["learned"] == 14
        else:
            load_config(options)
