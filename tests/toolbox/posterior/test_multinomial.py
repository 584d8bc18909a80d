"""Known chances: every sequence counted one by one is the oracle."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import product

import pytest

from streamnb import MultinomialNB, log_binomial_pmf, log_multinomial_pmf


@pytest.mark.parametrize(
    "chances", [{"a": 0.5, "b": 0.3, "c": 0.2}, {"a": 1.0, "b": 0.0, "c": 0.0}, {"a": 0.75, "b": 0.25}]
)
@pytest.mark.parametrize("n", [0, 1, 4])
def test_the_pmf_is_the_sum_over_all_sequences_with_these_counts(chances, n):
    exact = Counter()
    for sequence in product(chances, repeat=n):
        counts = tuple(sequence.count(outcome) for outcome in chances)
        exact[counts] += math.prod((Fraction(chances[outcome]) for outcome in sequence), start=Fraction(1))
    for counts, p in exact.items():
        found = log_multinomial_pmf(dict(zip(chances, counts, strict=True)), chances)
        assert math.exp(found) == pytest.approx(float(p), rel=1e-13)
        assert log_multinomial_pmf(counts, list(chances.values())) == found
    assert sum(exact.values()) == pytest.approx(1)


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_a_binomial_sums_to_1_and_has_certain_ends(p):
    shares = [math.exp(log_binomial_pmf(k, 6, p)) for k in range(7)]
    assert math.fsum(shares) == pytest.approx(1.0, rel=1e-14)
    if p in (0.0, 1.0):
        assert shares == [float(k == 6 * p) for k in range(7)]
    assert log_binomial_pmf(5000, 10000, 0.5) == pytest.approx(
        math.log(math.comb(10000, 5000)) - 10000 * math.log(2)
    )


@pytest.mark.parametrize(
    ("ask", "match"),
    [
        (lambda: log_multinomial_pmf({"a": 1}, {"a": 0.5}), "sum to 0.5"),
        (lambda: log_multinomial_pmf({"a": 1}, {"a": 1.5, "b": -0.5}), "between 0 and 1"),
        (lambda: log_multinomial_pmf({"z": 1}, {"a": 1.0}), "'z' has no chance"),
        (lambda: log_multinomial_pmf({"a": 0.5}, {"a": 1.0}), "a whole number"),
        (lambda: log_multinomial_pmf([1, 2, 3], [0.5, 0.5]), "2 has no chance"),
        (lambda: log_binomial_pmf(4, 3, 0.5), "a whole number"),
        (lambda: log_binomial_pmf(1, 3, math.nan), "between 0 and 1"),
    ],
)
def test_what_has_no_probability_is_refused(ask, match):
    with pytest.raises(ValueError, match=match):
        ask()


def test_row_11_a_document_of_the_three_word_language():
    """P(D | y) = n! / (a! b! c!) alpha^a beta^b gamma^c, by the ML estimates of each class."""
    model = MultinomialNB(alpha=0)
    for document, label in [("a a b c", 1), ("a b b a", 1), ("c c b a", 0), ("c b c c", 0)]:
        model.learn_one(document, label)
    for x in ("a b c c", "b b", "c a c", ""):
        counts = Counter(x.split())
        for label, chances in {
            1: {"a": 4 / 8, "b": 3 / 8, "c": 1 / 8},
            0: {"a": 1 / 8, "b": 2 / 8, "c": 5 / 8},
        }.items():
            expected = log_multinomial_pmf(counts, chances)
            assert model.document_log_likelihood(x)[label] == pytest.approx(expected, abs=1e-12)
    skipped, known = (model.document_log_likelihood(x) for x in ("a new b", "a b"))
    assert skipped == pytest.approx(known)


def test_the_coefficient_does_not_change_the_posterior():
    model = MultinomialNB()
    model.learn_one("a a b", "x")
    model.learn_one("b c", "y")
    found = model.document_log_likelihood("a b b")
    prior = model.joint_log_likelihood({})
    odds = found["x"] + prior["x"] - found["y"] - prior["y"]
    p = model.predict_proba_one("a b b")
    assert odds == pytest.approx(math.log(p["x"] / p["y"]))
