"""Conjugate posteriors: their laws, and scipy, mpmath, fractions and enumeration as oracles."""

from __future__ import annotations

import math
from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special, stats

from streamnb import BetaBernoulli, DirichletCategorical
from streamnb.errors import SnapshotError, UnlearnError
from streamnb.statistics.credible_intervals import beta_intervals
from streamnb.statistics.rising_factorial import log_beta, log_rising, log_rising_ratio
from tests.support.states import through_a_snapshot

pytestmark = pytest.mark.thorough

mpmath.mp.dps = 60

POSITIVE = st.floats(0.01, 50.0)
WEIGHTS = st.integers(1, 5000).map(lambda units: units / 1024)
VALUES = st.floats(-1e3, 1e3).map(lambda x: round(x, 2))


def dirichlets(labels, other):
    alphas = st.fixed_dictionaries(dict.fromkeys(labels, POSITIVE))
    return st.builds(lambda alpha, mass: lambda: DirichletCategorical(alpha, mass), alphas, other)


KINDS = {
    "beta": (st.builds(lambda a, b: lambda: BetaBernoulli(a, b), POSITIVE, POSITIVE), st.booleans(), (BetaBernoulli, "beta")),
    "dirichlet": (dirichlets("abc", st.just(0.0)), st.sampled_from("abc"), (DirichletCategorical, "dirichlet")),
    "open": (dirichlets("ab", POSITIVE), st.sampled_from("abxyz"), (DirichletCategorical, "open")),
    "process": (dirichlets("", POSITIVE), st.sampled_from("xyz"), (DirichletCategorical, "process")),
}  # fmt: skip
COUNTED = ["beta", "dirichlet", "open", "process"]


def stream(kind, most=30):
    make, observations, _ = KINDS[kind]
    return st.tuples(make, st.lists(st.tuples(observations, WEIGHTS), max_size=most))


def told(posterior, seen):
    for x, w in seen:
        posterior.update(x, w)
    return posterior


def said(posterior):
    """All that a posterior says, for comparison: exactly, where it counts."""
    mean = posterior.mean
    if isinstance(mean, dict):  # the order of labels is that of their coming
        return (
            sorted(posterior.posterior.items()),
            sorted(mean.items()),
            sorted(posterior.variance.items()),
            posterior.log_evidence,
        )
    return posterior.posterior, mean, posterior.variance, posterior.log_evidence


def same(kind, one, other):
    if kind == "normal":
        np.testing.assert_allclose(one.posterior, other.posterior, rtol=1e-9, atol=1e-7)
    else:
        assert said(one) == said(other)


def kept(posterior):
    """The state after it was written and read."""
    return type(posterior).from_state(*through_a_snapshot(posterior))


# -- laws -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_the_order_of_observations_does_not_matter(kind, data):
    make, seen = data.draw(stream(kind))
    shuffled = data.draw(st.permutations(seen))
    same(kind, told(make(), seen), told(make(), shuffled))


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_merge_is_concatenation(kind, data):
    make, seen = data.draw(stream(kind))
    cut = data.draw(st.integers(0, len(seen)))
    one, other = told(make(), seen[:cut]), told(make(), seen[cut:])
    before = said(other)
    assert one.merge(other) is one
    same(kind, one, told(make(), seen))
    assert said(other) == before


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_unlearn_is_the_inverse(kind, data):
    make, seen = data.draw(stream(kind))
    if (
        kind == "normal"
    ):  # a narrow spread of what weighs no more than one observation is lost: see the next test
        seen = [(round(x / 125.0), math.ceil(w * 128) / 1024) for x, w in seen]
    back = data.draw(st.permutations(seen))
    kept_back = data.draw(st.integers(0, len(seen)))
    posterior = told(make(), seen)
    for x, w in back[kept_back:]:
        posterior.unlearn(x, w)
    same(kind, posterior, told(make(), back[:kept_back]))
    for x, w in back[:kept_back]:
        posterior.unlearn(x, w)
    assert said(posterior) == said(make()), "all of it taken back leaves nothing, not even rounding"


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_restart_is_no_restart(kind, data):
    make, seen = data.draw(stream(kind))
    cut = data.draw(st.integers(0, len(seen)))
    again = told(kept(told(make(), seen[:cut])), seen[cut:])
    expected = told(make(), seen)
    assert said(again) == said(expected)
    assert again.prior == expected.prior
    assert again == expected
    assert (again == make()) is (len(seen) == 0)
    assert make().load_state(*again.state()) == again
    assert repr(again) == repr(expected)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_the_evidence_is_the_product_of_the_predictives(kind, data):
    make, seen = data.draw(stream(kind))
    posterior, terms = make(), []
    for x, _ in seen:
        terms.append(posterior.log_predictive(x))
        assert posterior.predictive(x) == pytest.approx(math.exp(terms[-1]), rel=1e-14)
        posterior.update(x)
    assert posterior.log_evidence == pytest.approx(math.fsum(terms), rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("kind", COUNTED)
@given(data=st.data())
def test_predictives_sum_to_one_and_are_the_means(kind, data):
    make, seen = data.draw(stream(kind))
    posterior = told(make(), seen)
    if kind == "beta":
        probabilities, means = [posterior.predictive(x) for x in (True, False)], [posterior.mean]
    else:
        probabilities = [posterior.predictive(label) for label in posterior.posterior]
        means = list(posterior.mean.values())
        probabilities.append(posterior.predictive("never seen"))
        assert (probabilities[-1] > 0) == (kind != "dirichlet")
    assert math.fsum(probabilities) == pytest.approx(1.0, rel=1e-13)
    assert probabilities[: len(means)] == pytest.approx(means, rel=1e-13)


@given(data=st.data())
def test_weights_are_repetitions(data):
    for kind in KINDS:
        make, seen = data.draw(stream(kind, most=8))
        times = data.draw(st.lists(st.integers(0, 5), min_size=len(seen), max_size=len(seen)))
        weighed, repeated = make(), make()
        for (x, _), n in zip(seen, times, strict=True):
            weighed.update(x, n)
            for _ in range(n):
                repeated.update(x)
        same(kind, weighed, repeated)


# -- oracles ----------------------------------------------------------------------------------------------


@given(stream("beta"), st.floats(0.01, 0.999))
def test_beta_agrees_with_scipy(drawn, mass):
    make, seen = drawn
    posterior = told(make(), seen)
    theirs = stats.beta(*posterior.posterior)
    alpha, beta = make().prior
    assert posterior.posterior == (
        pytest.approx(alpha + sum(w for x, w in seen if x)),
        pytest.approx(beta + sum(w for x, w in seen if not x)),
    )
    assert (posterior.mean, posterior.variance) == pytest.approx((theirs.mean(), theirs.var()), rel=1e-11)
    assert posterior.interval(mass) == pytest.approx(theirs.interval(mass), rel=1e-7, abs=1e-300)
    if posterior.mode is not None and min(posterior.posterior) > 1.0:
        nearby = posterior.mode + np.array([-1e-4, 0.0, 1e-4])
        assert theirs.pdf(nearby[(nearby >= 0) & (nearby <= 1)]).max() == theirs.pdf(posterior.mode)


@given(POSITIVE, POSITIVE, st.integers(0, 40), st.integers(0, 40))
def test_counts_of_the_next_ones_are_beta_binomial_and_dirichlet_multinomial(alpha, beta, h, t):
    """In any order: scipy's distributions; known chances are the limit of many imaginary observations."""
    coin = BetaBernoulli(alpha, beta)
    coin.update(True, 2.5)
    logs = coin.log_predictive_counts(h, t)
    assert logs == pytest.approx(stats.betabinom.logpmf(h, h + t, alpha + 2.5, beta), rel=1e-9, abs=1e-9)
    die = DirichletCategorical({"x": alpha, "y": beta, "z": 1.5})
    die.update("z")
    logs = die.log_predictive_counts({"y": t, "x": h, "z": 3})
    expected = stats.dirichlet_multinomial.logpmf([h, t, 3], [alpha, beta, 2.5], h + t + 3)
    assert logs == pytest.approx(float(expected), rel=1e-9, abs=1e-9)
    known = BetaBernoulli(1e12 * alpha, 1e12 * beta).log_predictive_counts(h, t)
    assert known == pytest.approx(stats.binom.logpmf(h, h + t, alpha / (alpha + beta)), rel=1e-6, abs=1e-6)


def test_counts_of_the_next_ones_sum_to_one():
    coin = BetaBernoulli(0.3, 2.0)
    assert sum(math.exp(coin.log_predictive_counts(h, 9 - h)) for h in range(10)) == pytest.approx(1.0)
    assert coin.log_predictive_counts(0, 0) == DirichletCategorical("ab").log_predictive_counts({}) == 0.0
    for wrong in (-1, 0.5, math.inf, math.nan, 10**400):
        with pytest.raises(ValueError, match="whole number"):
            coin.log_predictive_counts(wrong, 1)
    with pytest.raises(ValueError, match="'c': counts need declared labels only"):
        DirichletCategorical("ab").log_predictive_counts({"c": 1})
    with pytest.raises(ValueError, match="`other` must be 0"):
        DirichletCategorical("ab", other=1.0).log_predictive_counts({"a": 1})


@pytest.mark.parametrize(
    ("alpha", "beta", "mode"),
    [(3, 2, 2 / 3), (1, 2, 0.0), (2, 1, 1.0), (0.5, 1, 0.0), (0.5, 3, 0.0), (1, 0.5, 1.0), (1, 1, None), (0.5, 0.5, None),
     (0.2, 0.9, None)],
)  # fmt: skip
def test_the_mode_of_a_beta(alpha, beta, mode):
    assert BetaBernoulli(alpha, beta).mode == (None if mode is None else pytest.approx(mode))


@given(POSITIVE, POSITIVE, st.integers(0, 30), st.integers(0, 30))
def test_the_evidence_of_a_coin_is_the_integral_over_its_chances(alpha, beta, heads, tails):
    coin = BetaBernoulli(alpha, beta)
    coin.update(True, heads)
    coin.update(False, tails)
    exact = mpmath.beta(mpmath.mpf(alpha) + heads, mpmath.mpf(beta) + tails) / mpmath.beta(alpha, beta)
    assert coin.log_evidence == pytest.approx(float(mpmath.log(exact)), rel=1e-12, abs=1e-12)
    if min(alpha, beta) > 1:
        integral, _ = integrate.quad(
            lambda t: stats.beta.pdf(t, alpha, beta) * t**heads * (1 - t) ** tails, 0, 1, epsabs=0
        )
        assert math.exp(coin.log_evidence) == pytest.approx(integral, rel=1e-6)


@given(stream("dirichlet"), st.floats(0.01, 0.999))
def test_dirichlet_agrees_with_scipy(drawn, mass):
    make, seen = drawn
    posterior = told(make(), seen)
    counts = list(posterior.posterior.values())
    theirs = stats.dirichlet(counts)
    assert list(posterior.mean.values()) == pytest.approx(theirs.mean(), rel=1e-11)
    assert list(posterior.variance.values()) == pytest.approx(theirs.var(), rel=1e-10)
    for a, bounds in zip(counts, posterior.interval(mass).values(), strict=True):
        assert bounds == pytest.approx(stats.beta(a, sum(counts) - a).interval(mass), rel=1e-7, abs=1e-300)
    prior = list(make().posterior.values())
    exact = mpmath.fsum(mpmath.loggamma(c) - mpmath.loggamma(p) for c, p in zip(counts, prior, strict=True))
    exact += mpmath.loggamma(mpmath.fsum(prior)) - mpmath.loggamma(mpmath.fsum(counts))
    assert posterior.log_evidence == pytest.approx(float(exact), rel=1e-11, abs=1e-11)
    if posterior.mode is not None and min(posterior.mode.values()) > 0.01:
        assert min(counts) >= 1.0
        mode = np.array(list(posterior.mode.values()))
        aside = [mode + 1e-4 * np.roll([1, -1, 0], i) for i in range(3)]
        assert all(theirs.logpdf(mode / mode.sum()) > theirs.logpdf(a / a.sum()) for a in aside)
    assert (posterior.mode is None) == (min(counts) < 1.0 or counts == [1.0] * 3)


def test_an_open_alphabet_is_the_limit_of_many_labels():
    """other = sum of the imaginary counts of K labels of which nobody declared any, K -> infinity."""
    seen, K, other = "xyxxzy", 10**9, 0.7
    process = DirichletCategorical({"a": 2.0}, other)
    for label in seen:
        process.update(label)
    many = DirichletCategorical(
        {"a": 2.0, **dict.fromkeys("xyz", other / K), "the rest": other * (K - 3) / K}
    )
    for label in seen:
        many.update(label)
    for label in "axyz":
        assert process.predictive(label) == pytest.approx(many.predictive(label), rel=1e-8)
        assert process.interval()[label] == pytest.approx(many.interval()[label], rel=1e-7)
    assert process.predictive("w") == pytest.approx(many.predictive("the rest"), rel=1e-8)
    # Which of the K labels a new one is is not counted in: K choices for the first, and so on.
    assert process.log_evidence == pytest.approx(many.log_evidence + 3 * math.log(K), rel=1e-8)
    assert process.mode is None


@given(st.floats(1e-3, 1e8), st.floats(1e-3, 1e8), st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_an_interval_leaves_as_much_below_as_above(a, b, mass):
    """To seven digits of the bounds."""
    lower, upper = (float(bound) for bound in beta_intervals(a, b, mass))
    assert 0.0 <= lower <= upper <= 1.0
    near = np.array([1 - 1e-7, 1 + 1e-7])
    if lower > 1e-300:
        below = special.betainc(a, b, np.minimum(lower * near, 1.0))
        assert below[0] <= (1 - mass) / 2 <= below[1]
    above = special.betaincc(a, b, np.minimum(upper * near, 1.0))
    assert above[1] <= (1 - mass) / 2 <= above[0]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        *((30.5, 4.5), (1000.5, 34246251.5), (1e5 + 0.5, 1e9), (2e6, 3e6), (1000, 1e9), (1000, 684529256970)),
        *((2e10, 3e10), (1e12, 1e16), (1e16, 1e17), (1e16, 3e15)),
    ],
)
@pytest.mark.parametrize("mass", [0.5, 0.95, 0.999])
def test_the_tails_of_an_interval_are_those_that_mpmath_integrates(a, b, mass):
    lower, upper = (float(bound) for bound in beta_intervals(a, b, mass))
    for first, second, bound in ((a, b, mpmath.mpf(lower)), (b, a, 1 - mpmath.mpf(upper))):
        with mpmath.workdps(25):
            assert float(tail_below(first, second, bound)) == pytest.approx((1 - mass) / 2, rel=1e-6)


@pytest.mark.parametrize("mass", [0.5, 0.95, 0.999999])
def test_a_parameter_of_exactly_1000_is_one_like_its_neighbours(mass):
    """In the inverse of scipy it is not."""
    b = np.floor(np.geomspace(1e7, 1e13, 200))
    bounds = np.array(beta_intervals(1000.0, b, mass))
    beside = np.array([beta_intervals(a, b, mass) for a in (999.999, 1000.001)])
    assert ((beside[0] < bounds) & (bounds < beside[1])).all()
    np.testing.assert_allclose(1.0 - bounds, np.array(beta_intervals(b, 1000.0, mass))[::-1], rtol=1e-14)


@pytest.mark.parametrize("small", [1e-3, 0.5, 1.5, 20.0, 1000.0, 1e6])
@pytest.mark.parametrize("mass", [0.5, 0.95, 0.999])
def test_the_interval_beside_a_huge_parameter_is_that_of_a_gamma(small, mass):
    """Beta(a, b) times b is Gamma(a), for b without end."""
    expected = np.array(stats.gamma(small).interval(mass))
    for huge in (1e20, 1e40, 1e160, 1e300):
        assert np.array(beta_intervals(small, huge, mass)) * huge == pytest.approx(expected, rel=1e-9)
        assert beta_intervals(huge, small, mass) == pytest.approx((1.0, 1.0), abs=1e-12)
    assert beta_intervals(1e300, 1e300, mass) == pytest.approx((0.5, 0.5), rel=1e-12)
    both = beta_intervals([small, small], [1e300, 3.0], mass)
    assert [float(bound[1]) for bound in both] == [float(bound) for bound in beta_intervals(small, 3.0, mass)]


def tail_below(a, b, x):
    """P(theta <= x) of Beta(a, b), its density integrated from where it vanishes."""
    a, b = mpmath.mpf(a), mpmath.mpf(b)
    constant = mpmath.loggamma(a + b) - mpmath.loggamma(a) - mpmath.loggamma(b)
    width = mpmath.sqrt(a * b / (a + b) ** 3)
    points = sorted({max(mpmath.mpf(0), x - k * width) for k in (30, 15, 8, 4, 2, 1, 0)})

    def density(t):
        return mpmath.exp((a - 1) * mpmath.log(t) + (b - 1) * mpmath.log1p(-t) + constant) if t else 0

    return mpmath.quad(density, points)


def test_the_interval_of_jeffreys_prior_is_that_of_the_arcsine():
    """P(theta <= t) of Beta(1/2, 1/2) is 2/pi arcsin(sqrt(t))."""
    lower, upper = beta_intervals(0.5, 0.5, 0.9)
    bounds = [math.sin(math.pi / 2 * tail) ** 2 for tail in (0.05, 0.95)]
    assert [float(lower), float(upper)] == pytest.approx(bounds, rel=1e-14)


# -- numbers of every size --------------------------------------------------------------------------------


def exact_rising(a, n):
    return mpmath.loggamma(mpmath.mpf(a) + mpmath.mpf(n)) - mpmath.loggamma(mpmath.mpf(a))


SIZES = st.floats(-3, 15).map(lambda e: 10.0**e)
ANY_SIZE = st.floats(-300, 300).map(lambda e: 10.0**e)


@given(SIZES, SIZES, SIZES)
def test_rising_factorials_agree_with_mpmath(a, b, n):
    eps = 2.0**-52
    room = 4 * eps * (n * abs(math.log(a + n)) + abs(math.lgamma(min(a, 20.0))) + 40)
    assert abs(log_rising(a, n) - exact_rising(a, n)) <= room
    ratio = exact_rising(a, n) - exact_rising(mpmath.mpf(a) + mpmath.mpf(b), n)
    assert abs(log_rising_ratio(a, b, n) - ratio) <= 8 * eps * (
        min(b, n) * math.log(a + b + n + 2) + abs(ratio) + math.lgamma(20.0)
    )
    beta = mpmath.loggamma(a) + mpmath.loggamma(b) - mpmath.loggamma(mpmath.mpf(a) + mpmath.mpf(b))
    assert abs(log_beta(a, b) - beta) <= 8 * eps * (
        min(a, b) * math.log(a + b + 2) + abs(beta) + math.lgamma(20.0)
    )


def test_one_more_toss_after_very_many():
    coin = BetaBernoulli(1e15, 1e15)
    coin.update(True)
    assert coin.log_evidence == pytest.approx(math.log(0.5), abs=1e-14)
    certain = BetaBernoulli(1.0, 1.0)
    for _ in range(1000):
        certain.update(True, 2.0**20)
    assert certain.log_evidence == pytest.approx(-math.log(1000 * 2**20 + 1), rel=1e-12)
    lower, upper = certain.interval()
    assert lower == pytest.approx(0.025 ** (1 / (1000 * 2**20 + 1)), rel=1e-15)
    assert 1.0 > upper > lower
    new = DirichletCategorical({}, other=2.0)
    for _ in range(1000):
        new.update("a", 2.0**20)
    exact = (
        mpmath.log(2) + mpmath.loggamma(1000 * 2**20) + mpmath.loggamma(2) - mpmath.loggamma(1000 * 2**20 + 2)
    )
    assert new.log_evidence == pytest.approx(float(exact), rel=1e-12)


@given(SIZES, SIZES, SIZES, SIZES)
def test_counts_of_every_size_say_something_finite(alpha, beta, heads, tails):
    coin = BetaBernoulli(alpha, beta)
    for x, n in ((True, heads), (False, tails)):
        coin.update(x, min(n, 2.0**20))
    assert math.isfinite(coin.log_evidence)
    assert coin.log_evidence <= 0.0
    assert 0.0 <= coin.interval()[0] <= coin.interval()[1] <= 1.0
    assert 0.0 < coin.mean <= 1.0
    assert coin.predictive(True) + coin.predictive(False) == pytest.approx(1.0, rel=1e-12)
    assert 0.0 < coin.variance <= 0.25


@given(ANY_SIZE, ANY_SIZE, ANY_SIZE, st.sampled_from([1 / 1024, 1.0, 2.0**20]))
def test_priors_of_every_size_say_something_finite(alpha, beta, other, weight):
    coin, die = BetaBernoulli(alpha, beta), DirichletCategorical({"a": alpha, "b": beta}, other)
    for x in ("a", "b", "new"):
        die.update(x, weight)
    for x in (True, False):
        coin.update(x, weight)
    for posterior in (coin, die):
        assert math.isfinite(posterior.log_evidence)
        assert weight < 1.0 or posterior.log_evidence <= 0.0
    for lower, upper in (coin.interval(), *die.interval().values()):
        assert 0.0 <= lower <= upper <= 1.0


def test_what_nothing_or_little_is_known_of():
    single = DirichletCategorical(["a"])
    assert single.interval() == {"a": (1.0, 1.0)}
    assert (single.mean, single.mode, single.variance, single.predictive("a")) == (
        {"a": 1.0},
        {"a": 1.0},
        {"a": 0.0},
        1.0,
    )
    assert single.predictive("b") == 0.0
    assert single.log_predictive("b") == -math.inf
    process = DirichletCategorical([], other=3.0)
    assert (process.mean, process.mode, process.interval(), process.predictive("a")) == ({}, None, {}, 1.0)
    process.update("a")
    process.unlearn("a")
    assert process.posterior == {}, "what is taken back is as new as ever"
    assert (BetaBernoulli().successes, DirichletCategorical("ab").counts) == (0.0, {"a": 0.0, "b": 0.0})


# -- refusals ---------------------------------------------------------------------------------------------

POSTERIORS = {
    "beta": (lambda: told(BetaBernoulli(), [(True, 2.0), (False, 1.0)]), [None, math.nan, 2, "x", 0.5]),
    "dirichlet": (lambda: told(DirichletCategorical("ab"), [("a", 2.0)]), [None, math.nan, math.inf, "c"]),
    "process": (lambda: told(DirichletCategorical("a", 1.0), [("c", 2.0)]), [None, math.nan]),
}  # fmt: skip
POSSIBLE = {"beta": True, "dirichlet": "a", "process": "c"}


@pytest.mark.parametrize(("kind", "x"), [(kind, x) for kind, (_, xs) in POSTERIORS.items() for x in xs])
def test_what_is_no_observation_is_refused_and_changes_nothing(kind, x):
    posterior = POSTERIORS[kind][0]()
    before = said(posterior)
    for refused in (posterior.update, posterior.unlearn, lambda x: posterior.update(x, 0.0)):
        with pytest.raises(ValueError, match=r"observation|missing|not among the labels"):
            refused(x)
    if kind != "dirichlet" or x != "c":
        with pytest.raises(ValueError, match=r"observation|missing"):
            posterior.log_predictive(x)
    assert said(posterior) == before


@pytest.mark.parametrize("kind", POSTERIORS)
@pytest.mark.parametrize("w", [-1.0, math.nan, math.inf, 2.0**20 + 1])
def test_weights_out_of_range_are_refused(kind, w):
    posterior = POSTERIORS[kind][0]()
    before = said(posterior)
    for refused in (posterior.update, posterior.unlearn):
        with pytest.raises(ValueError, match="weight"):
            refused(POSSIBLE[kind], w)
    posterior.update(POSSIBLE[kind], 0.0)
    posterior.unlearn(POSSIBLE[kind], 0.0)
    assert said(posterior) == before


@pytest.mark.parametrize("kind", POSTERIORS)
def test_what_was_never_observed_cannot_be_taken_back(kind):
    posterior = POSTERIORS[kind][0]()
    before = said(posterior)
    with pytest.raises(UnlearnError):
        posterior.unlearn(POSSIBLE[kind], 2.5)
    if kind in ("dirichlet", "process"):
        with pytest.raises(UnlearnError):
            posterior.unlearn("b" if kind == "dirichlet" else "z", 1.0)
    assert said(posterior) == before


@pytest.mark.parametrize(
    "make",
    [
        *(lambda bad=bad: BetaBernoulli(*bad) for bad in [(0, 1), (1, -1), (math.nan, 1), (1, math.inf), (1e308, 1e308)]),
        *(lambda bad=bad: DirichletCategorical(*bad)
          for bad in [([],), ({"a": 0.0},), (["a", "a"],), ([None],), ([math.nan],), (["a"], -1.0), (["a"], math.inf),
                      ({"a": math.nan},)]),
    ],
)  # fmt: skip
def test_priors_out_of_range_are_refused(make):
    with pytest.raises(ValueError, match=r"must|missing|twice"):
        make()


@pytest.mark.parametrize("kind", POSTERIORS)
@pytest.mark.parametrize("mass", [0.0, 1.0, -0.5, 95, math.nan])
def test_masses_out_of_range_are_refused(kind, mass):
    with pytest.raises(ValueError, match="mass"):
        POSTERIORS[kind][0]().interval(mass)


def test_only_posteriors_of_one_prior_merge():
    posteriors = [BetaBernoulli(), BetaBernoulli(2), DirichletCategorical("ab"), DirichletCategorical("abc"),
                  DirichletCategorical("ab", 1.0)]  # fmt: skip
    for one, other in product(posteriors, repeat=2):
        if one is not other:
            with pytest.raises(ValueError, match="same class and prior"):
                one.merge(other)
    coin = told(BetaBernoulli(), [(True, 3.0)])
    assert coin.merge(coin).successes == 6.0
    die = told(DirichletCategorical("ab", 1.0), [("c", 1.0)])
    assert die.merge(die).counts == {"a": 0.0, "b": 0.0, "c": 2.0}


def ints(*values):
    return np.array(values, dtype=np.int64)


BETA, LABELS = {"alpha": 1.0, "beta": 1.0}, {"labels": ["a", "b"], "alpha": [1.0, 1.0], "other": 0.0}
BAD_STATES = [
    (BetaBernoulli, BETA, {}),
    (BetaBernoulli, BETA, {"counts": ints(1)}),
    (BetaBernoulli, BETA, {"counts": ints(1, -1)}),
    (BetaBernoulli, BETA, {"counts": np.array([1.0, 2.0])}),
    (BetaBernoulli, BETA, {"counts": ints(1, 2), "more": ints(1)}),
    (BetaBernoulli, {"alpha": 1.0}, {"counts": ints(1, 2)}),
    (BetaBernoulli, {"alpha": 1.0, "beta": 0.0}, {"counts": ints(1, 2)}),
    (BetaBernoulli, {"alpha": 1.0, "beta": "x"}, {"counts": ints(1, 2)}),
    (DirichletCategorical, LABELS, {"counts": ints(1)}),
    (DirichletCategorical, LABELS, {"counts": ints(1, -2)}),
    (DirichletCategorical, LABELS | {"labels": ["a", "a"]}, {"counts": ints(1, 2)}),
    (DirichletCategorical, LABELS | {"labels": ["a"]}, {"counts": ints(1)}),
    (DirichletCategorical, LABELS | {"labels": ["a", "b", "c"]}, {"counts": ints(1, 2, 3)}),
    (DirichletCategorical, LABELS | {"labels": ["a", "b", "c"], "other": 1.0}, {"counts": ints(1, 2, 0)}),
    (DirichletCategorical, LABELS | {"labels": ["a", "b", None], "other": 1.0}, {"counts": ints(1, 2, 3)}),
    (DirichletCategorical, LABELS | {"labels": ["a", ["b"]]}, {"counts": ints(1, 2)}),
    (DirichletCategorical, LABELS | {"alpha": [1.0, -1.0]}, {"counts": ints(1, 2)}),
    (DirichletCategorical, {"labels": ["a"]}, {"counts": ints(1)}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "meta", "arrays"), BAD_STATES)
def test_states_that_are_none_are_refused(kind, meta, arrays):
    with pytest.raises(SnapshotError):
        kind.from_state(meta, arrays)


def test_good_states_beside_the_bad_ones_are_read():
    assert BetaBernoulli.from_state(BETA, {"counts": ints(1024, 0)}).successes == 1.0
    assert DirichletCategorical.from_state(LABELS, {"counts": ints(1024, 0)}).counts == {"a": 1.0, "b": 0.0}
    posterior = DirichletCategorical([("a", 1)])
    with pytest.raises(TypeError, match="cannot be saved"):
        posterior.state()


def test_labels_of_numpy_are_saved_as_plain_values():
    die = DirichletCategorical({}, other=1.0)
    for face in np.array([3, 5, 3]):
        die.update(face)
    assert DirichletCategorical.from_state(*through_a_snapshot(die)).posterior == {3: 2.0, 5: 1.0}


def test_a_state_is_a_copy():
    coin = told(BetaBernoulli(), [(True, 1.0)])
    _, arrays = coin.state()
    coin.update(True)
    assert arrays["counts"].tolist() == [1024, 0]


def test_whoever_overrides_update_is_asked_by_learn_one_too():
    class Noting(BetaBernoulli):
        told = ()

        def update(self, x, w=1.0):
            self.told = (*self.told, x)
            super().update(x, w)

    coin = Noting()
    coin.learn_one(True)
    coin.learn_one(False)
    assert coin.told == (True, False)
