"""Moments and their rounding: what counts as spread of a number, and what is left of a number unlearned."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from streamnb import BayesOptimalNB, GaussianNB, Hypothesis, NaiveBayes
from tests.oracles.gaussian_oracle import gaussian_of

EPS = Fraction(2) ** -52
SIZES = st.floats(-1e100, 1e100).filter(lambda x: abs(x) > 1e-100)
WEIGHTS = st.sampled_from([1.0, 1 / 1024, 0.3, 7.0, 1000.0])


def steps_away(x, ulps):
    for _ in range(ulps):
        x = math.nextafter(x, math.inf)
    return x


def exact(rows):
    """Weight, mean and M2 of (value, weight), in fractions."""
    rows = [(Fraction(x), Fraction(round(w * 1024), 1024)) for x, w in rows]
    n = sum(w for _, w in rows)
    mean = sum(w * x for x, w in rows) / n
    return n, mean, sum(w * (x - mean) ** 2 for x, w in rows)


def log_density(x, mean, variance):
    square = (Fraction(x) - mean) ** 2 / variance
    return float(
        -(mpmath.log(2 * mpmath.pi) + mpmath.log(mpmath.mpf(variance.numerator) / variance.denominator)) / 2
        - mpmath.mpf(square.numerator) / square.denominator / 2
    )


def one_by_one(cells, x):
    model = GaussianNB(prior="uniform")
    for label, rows in cells.items():
        for value, weight in rows:
            model.learn_one({"v": value}, label, w=weight)
    return model.joint_log_likelihood({"v": x})


def many(cells, x):
    model = NaiveBayes(prior="uniform")
    rows = [(value, label, weight) for label, rows in cells.items() for value, weight in rows]
    values, labels, weights = zip(*rows, strict=True)
    model.learn_many([{"v": value} for value in values], labels, weights)
    return model.joint_log_likelihood({"v": x})


def mixture(hypothesis):
    def joints(cells, x):
        model = BayesOptimalNB(hypotheses=[hypothesis])
        for label, rows in cells.items():
            for value, weight in rows:
                model.learn_one({"v": value}, label, w=weight)
        return next(iter(model.joint_log_likelihoods({"v": x}).values()))

    return joints


def merged(cells, x):
    model = GaussianNB(prior="uniform")
    for label, rows in cells.items():
        for value, weight in rows:
            other = GaussianNB(prior="uniform")
            other.learn_one({"v": value}, label, w=weight)
            model.merge(other)
    return model.joint_log_likelihood({"v": x})


READERS = {
    "one by one": one_by_one,
    "many": many,
    "merged": merged,
    "hypothesis": mixture(Hypothesis(prior="uniform")),
    "forgetting": mixture(Hypothesis(prior="uniform", half_life=60.0)),
}


def test_a_sum_rounded_by_one_digit_has_no_spread():
    """.1 + .2 is one unit in the last place above .3: read as a variance it made every neighbour impossible."""
    model = GaussianNB()
    for x in (0.25, 0.35, 0.45):
        model.learn_one({"v": x}, "wide")
    for x in [0.3] * 9 + [0.1 + 0.2]:
        model.learn_one({"v": x}, "narrow")
    assert model.predict_one({"v": 0.3001}) == "narrow"
    assert model.predict_proba_one({"v": 0.3001})["narrow"] > 0.5


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@settings(max_examples=30)
@given(
    base=SIZES,
    rows=st.lists(st.tuples(st.integers(0, 3), WEIGHTS), min_size=2, max_size=30),
    times=st.sampled_from([1, 1, 1, 40]),
)
def test_values_equal_but_for_their_last_digits_have_no_spread(read, base, rows, times):
    narrow = [(steps_away(base, ulps), weight) for ulps, weight in rows * times]
    wide = [(base, 1.0), (2.0 * base, 1.0), (4.0 * base, 1.0)]
    x = 1.5 * base
    found = read({"narrow": narrow, "wide": wide}, x)
    n, mean, _ = exact(narrow)
    cells = {"narrow": (n, mean, 0), "wide": exact(wide)}
    of_narrow = log_density(x, *gaussian_of(cells, "narrow"))
    of_wide = log_density(x, *gaussian_of(cells, "wide"))
    assert found["narrow"] == pytest.approx(of_narrow - math.log(2), rel=1e-9, abs=1e-9)
    assert found["wide"] == pytest.approx(of_wide - math.log(2), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@settings(max_examples=30)
@given(
    base=SIZES,
    rows=st.lists(st.tuples(st.integers(0, 3), WEIGHTS), min_size=2, max_size=9),
    others=st.lists(st.tuples(st.integers(0, 3), WEIGHTS), min_size=2, max_size=9),
)
def test_what_is_the_same_in_all_classes_says_nothing(read, base, rows, others):
    cells = {
        "a": [(steps_away(base, ulps), weight) for ulps, weight in rows],
        "b": [(steps_away(base, ulps), weight) for ulps, weight in others],
    }
    assert list(read(cells, base).values()) == [pytest.approx(-math.log(2))] * 2


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@settings(max_examples=30)
@given(
    base=SIZES,
    rows=st.lists(st.tuples(st.integers(0, 3), WEIGHTS), min_size=2, max_size=9),
    others=st.lists(st.tuples(st.integers(0, 3), WEIGHTS), min_size=2, max_size=9),
)
def test_what_is_the_same_within_each_class_alone_decides(read, base, rows, others):
    """The variance over all classes stands in for the one within them."""
    of_class = {
        "a": [(steps_away(base, ulps), weight) for ulps, weight in rows],
        "b": [(steps_away(-2.0 * base, ulps), weight) for ulps, weight in others],
    }
    found = read(of_class, base)
    cells = {label: (*exact(own)[:2], 0) for label, own in of_class.items()}
    for label, joint in found.items():
        of_label = log_density(base, *gaussian_of(cells, label)) - math.log(2)
        assert joint == pytest.approx(of_label, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@settings(max_examples=30)
@given(
    base=SIZES,
    spread=st.floats(16.0, 52.0).map(lambda bits: 2.0 ** (bits - 52.0)),
    rows=st.lists(st.tuples(st.floats(-1.0, 1.0), st.sampled_from([1.0, 0.5, 2.0])), min_size=2, max_size=30),
)
def test_spread_well_above_rounding_is_kept(read, base, spread, rows):
    narrow = [(base * (1.0 + spread * z), weight) for z, weight in rows]
    n, mean, M2 = exact(narrow)
    assume(M2 / n >= (64 * EPS * mean) ** 2)
    x = float(mean)
    wide = [(base, 1.0), (2.0 * base, 1.0)]
    found = read({"narrow": narrow, "wide": wide}, x)
    of_narrow = log_density(x, *gaussian_of({"narrow": (n, mean, M2), "wide": exact(wide)}, "narrow"))
    assert found["narrow"] == pytest.approx(of_narrow - math.log(2), abs=0.1)


def test_milliseconds_beside_seconds_since_1970_are_spread():
    """Relative to the time they are 6e-13, some thousand units in the last place, however many there are."""
    early = [(1.7e9 + 1e-3 * (i % 7), 1.0) for i in range(20_000)]
    late = [(1.7e9 + 0.01 + 1e-3 * (i % 5), 1.0) for i in range(20_000)]
    n, mean, M2 = exact(early)
    found = many({"early": early, "late": late}, 1.7e9 + 0.004)
    of_early = log_density(1.7e9 + 0.004, *gaussian_of({"early": exact(early), "late": exact(late)}, "early"))
    assert found["early"] == pytest.approx(of_early - math.log(2), abs=0.01)
    assert found["early"] == pytest.approx(log_density(1.7e9 + 0.004, mean, M2 / n) - math.log(2), abs=0.01)
    assert found["late"] < found["early"]


@pytest.mark.parametrize("scale", [1.0, 1e-90, 1e90])
def test_a_linear_view_reads_spread_as_the_model_does(scale):
    model = NaiveBayes(prior="uniform")
    for value, label in [(0.3, "a")] * 9 + [(0.1 + 0.2, "a"), (0.2, "b"), (0.4, "b"), (0.5, "b")]:
        model.learn_one({"v": value * scale}, label)
    x = {"v": 0.31 * scale}
    joint = model.joint_log_likelihood(x)
    assert model.linear_view("a").log_odds(x) == pytest.approx(joint["a"] - joint["b"], rel=1e-12)


PARTS = st.floats(0.5, 1.0)
ORDINARY = st.tuples(PARTS, st.sampled_from([1.0, -1.0, 10.0])).map(math.prod)
ANY_SIZE = st.tuples(PARTS, st.sampled_from([1.0, -1.0, 1e3, 1e8, -1e8, 1e20, -1e20, 1e60])).map(math.prod)


@settings(max_examples=300)
@given(
    rest=st.lists(ORDINARY, min_size=1, max_size=8),
    passing=st.lists(ANY_SIZE, min_size=1, max_size=8),
    random=st.randoms(use_true_random=False),
)
def test_what_unlearning_leaves_is_right_to_the_rounding_of_the_largest_value(rest, passing, random):
    """The bounds of the docstring of `moments`; counts are exact."""
    model = GaussianNB()
    for x in rest + passing:
        model.learn_one({"v": x}, "a")
    for x in random.sample(passing, len(passing)):
        model.unlearn_one({"v": x}, "a")
    found = model.class_moments("v")["a"]
    left, mean, M2 = exact([(x, 1.0) for x in rest])
    steps, most = len(rest) + 2 * len(passing), len(rest) + len(passing)
    rounding = steps * EPS * most / left
    largest = max(map(abs, map(Fraction, rest + passing)))
    assert found.n == left
    assert abs(Fraction(found.mean) - mean) <= 4 * rounding * largest
    assert abs(Fraction(found.variance * found.n) - M2) <= 32 * steps * rounding * largest**2


@pytest.mark.parametrize(("passes", "is_left"), [(1e3, True), (1e20, False), (-1e20, False)])
def test_a_value_far_beyond_the_others_takes_what_was_known_of_them(passes, is_left):
    """Where the promise ends: 1e20 is rounded to steps of 16,384, and so is a mean that it was part of."""
    model, without = GaussianNB(), GaussianNB()
    for x in (1.0, 2.0, 4.0):
        for one in (model, without):
            one.learn_one({"v": x}, "a")
            one.learn_one({"v": x + 1.0}, "b")
    model.learn_one({"v": passes}, "a")
    model.unlearn_one({"v": passes}, "a")
    found, expected = (one.predict_proba_one({"v": 1.5})["a"] for one in (model, without))
    assert (found == pytest.approx(expected, rel=1e-9)) == is_left
    assert model.class_weights == without.class_weights
