"""Many hypotheses over one set of counts: against other people's models, a recount in 50 digits, and laws."""

from __future__ import annotations

import copy
import math
import pickle
import random
from collections import Counter

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn import naive_bayes as peers

from streamnb import BayesOptimalNB, Hypothesis, NaiveBayes, Nominal, SequentialPosterior, Text
from streamnb.errors import UnlearnError
from streamnb.scoring.prequential_scores import ESCAPE
from streamnb.statistics.counter_rng import choose, uniforms
from tests.oracles.gaussian_oracle import gaussian_of
from tests.oracles.words_oracle import words

pytestmark = pytest.mark.thorough

LIKELIHOODS = ["multinomial", "presence", "bernoulli", "complement"]
MODES = ["mixture", "map", "gibbs"]


def occurrences(text):
    """Word -> how often, of a text or a bag; None where there is no text."""
    if isinstance(text, dict):
        return Counter({word: mpmath.mpf(times) for word, times in text.items() if times}) if text else None
    return None if text is None else Counter(words(text))


class Recount:
    """One hypothesis by its definition: every example is gone through for every question, in 50 digits.

    Args:
        hypothesis: which.
        kinds: attribute -> "text", "nominal" or "continuous".
        examples: (event, label, weight, time).
        at: time of the question.
    """

    def __init__(self, hypothesis, kinds, examples, at=None):
        self.hypothesis, self.kinds = hypothesis, kinds
        clock, first, aged = None, next((t for *_, t in examples if t is not None), None), []
        for x, y, w, t in examples:
            clock = max((c for c in (clock, t) if c is not None), default=None)
            aged.append((x, y, w, first if clock is None else clock))
        now = max((t for t in (clock, at) if t is not None), default=None)
        self.examples = [(x, y, mpmath.mpf(w), self.decayed(w, t, now)) for x, y, w, t in aged if w]
        self.classes = list(dict.fromkeys(y for _, y, _, _ in self.examples))

    def decayed(self, w, t, now):
        if self.hypothesis.half_life is None or t is None or now is None:
            return mpmath.mpf(w)
        return w * mpmath.mpf(2) ** (
            -(mpmath.mpf(now) - mpmath.mpf(t)) / mpmath.mpf(self.hypothesis.half_life)
        )

    def smoothing(self, values):
        alpha, m, p = self.hypothesis.smoothing
        if m is None:
            return mpmath.mpf(alpha), mpmath.mpf(alpha) * values
        return mpmath.mpf(m) * (mpmath.mpf(1) / values if p is None else mpmath.mpf(p)), mpmath.mpf(m)

    @mpmath.workdps(40)  # 1 - p keeps its digits for p near 1
    def joints(self, x):
        return {label: self.joint(x, label) for label in self.classes}

    def joint(self, x, label):
        factors = {"text": self.text, "nominal": self.nominal, "continuous": self.continuous}
        total = self.prior(label)
        for name, kind in self.kinds.items():
            if x.get(name) is not None:
                total += factors[kind](name, x[name], label)
        return total

    def prior(self, label):
        prior = self.hypothesis.prior
        if prior == "uniform":
            return -mpmath.log(len(self.classes))
        if prior == "learned":
            prior = {c: sum(w for _, y, _, w in self.examples if y == c) for c in self.classes}
        return mpmath.log(mpmath.mpf(prior[label]) / sum(mpmath.mpf(prior[c]) for c in self.classes))

    def text(self, name, text, label):
        likelihood, here = self.hypothesis.likelihood, occurrences(text)
        if here is None:
            return 0
        texts = [(occurrences(x.get(name)), y, whole, w) for x, y, whole, w in self.examples]
        texts = [row for row in texts if row[0] is not None]
        vocabulary = {word for bag, _, _, _ in texts for word in bag}
        presence = likelihood in {"presence", "bernoulli"}
        counts = {c: Counter() for c in self.classes}
        for bag, y, _, w in texts:
            for word, times in bag.items():
                counts[y][word] += w * (1 if presence else times)
        if likelihood == "bernoulli":
            n = sum(w for _, y, _, w in texts if y == label)
            s, S = self.smoothing(2)
            return sum(
                mpmath.log(
                    ((counts[label][word] + s) if word in here else (n - counts[label][word] + S - s))
                    / (n + S)
                )
                for word in vocabulary
            )
        s, S = self.smoothing(max(1, len(vocabulary)))
        if likelihood == "complement":
            one = sum((counts[c] for c in self.classes if c != label), Counter())
        else:
            one = counts[label]
        n = sum(one.values())
        sign = -1 if likelihood == "complement" else 1
        return sign * sum(
            (1 if presence else times) * mpmath.log((one[word] + s) / (n + S))
            for word, times in here.items()
            if word in vocabulary
        )

    def nominal(self, name, value, label):
        rows = [(x[name], y, w) for x, y, _, w in self.examples if x.get(name) is not None]
        values = {v for v, _, _ in rows}
        if value not in values:
            return 0
        s, S = self.smoothing(len(values))
        n_c = sum(w for v, y, w in rows if (v, y) == (value, label))
        return mpmath.log((n_c + s) / (sum(w for _, y, w in rows if y == label) + S))

    def continuous(self, name, value, label):
        cells = {}
        for c in self.classes:
            rows = [
                (mpmath.mpf(x[name]), w) for x, y, _, w in self.examples if y == c and x.get(name) is not None
            ]
            n = sum(w for _, w in rows)
            if n:
                mean = sum(w * v for v, w in rows) / n
                same = len({v for v, _ in rows}) == 1
                cells[c] = n, mean, 0 if same else sum(w * (v - mean) ** 2 for v, w in rows)
        found = gaussian_of(cells, label)
        if found is None:
            return 0
        mean, variance = found
        return -(mpmath.log(2 * mpmath.pi * variance) + (mpmath.mpf(value) - mean) ** 2 / variance) / 2


def normalised(joints):
    """Probabilities of log scores, class by class."""
    top = max(joints.values())
    shares = {label: math.exp(joint - top) for label, joint in joints.items()}
    return {label: share / sum(shares.values()) for label, share in shares.items()}


def taught(model, examples):
    """A model that has met these (event, label, weight, time), one after the other."""
    for x, y, w, t in examples:
        model.predict_then_learn_many([x], [y], [w], [t])
    return model


def assert_equal(model, kinds, examples, x, *, relative=1e-12, absolute=1e-11):
    """Every hypothesis of a model that has learned the examples says of x what the recount says."""
    found = model.joint_log_likelihoods(x)
    assert list(found) == [h.label for h in model.hypotheses]
    for h in model.hypotheses:
        exact = Recount(h, kinds, examples).joints(x)
        assert list(found[h.label]) == list(exact)
        for label, joint in exact.items():
            assert found[h.label][label] == pytest.approx(float(joint), rel=relative, abs=absolute), (
                h,
                label,
            )


# -- other people's models ----------------------------------------------------------------------------------

CLASSES = ["a", "b", "c"]


@pytest.fixture(params=range(3))
def rng(request):
    return np.random.default_rng(request.param)


def table(rng):
    """Counts of 40 words, each of which occurs, in 200 texts; labels and weights."""
    X = rng.poisson(0.7, size=(200, 40))
    X[:40] += np.eye(40, dtype=int)
    X[50] = 0
    return X, [*CLASSES, *rng.choice(CLASSES, size=197, p=[0.6, 0.3, 0.1])], rng.integers(1, 5, size=200) / 4


def bag(row):
    return {"text": {f"w{i}": times for i, times in enumerate(row)}}


@pytest.mark.parametrize("alpha", [1.0, 0.1, 1e-3])
def test_the_likelihoods_are_those_of_scikit_learn(rng, alpha):
    X, y, w = table(rng)
    model = BayesOptimalNB({"text": "text"}, [Hypothesis(name, alpha=alpha) for name in LIKELIHOODS])
    model.learn_many([bag(row) for row in X.tolist()], y, w)
    Z = (X > 0).astype(int)
    fitted = {
        "multinomial": peers.MultinomialNB(alpha=alpha).fit(X, y, sample_weight=w),
        "presence": peers.MultinomialNB(alpha=alpha).fit(Z, y, sample_weight=w),
        "bernoulli": peers.BernoulliNB(alpha=alpha).fit(X, y, sample_weight=w),
        "complement": peers.ComplementNB(alpha=alpha, norm=False).fit(X, y, sample_weight=w),
    }
    for i in [*range(30), 50]:
        found = model.joint_log_likelihoods(bag(X[i].tolist()))
        for name, peer in fitted.items():
            row = Z[i] if name == "presence" else X[i]
            expected = peer.predict_joint_log_proba(row[np.newaxis])[0]
            if name == "complement":  # it has no prior where there are several classes
                expected = expected + peer.class_log_prior_
            have = [found[f"{name} alpha={alpha:g}"][label] for label in peer.classes_]
            np.testing.assert_allclose(have, expected, rtol=1e-12, err_msg=name)


# -- a recount in 50 digits ---------------------------------------------------------------------------------

WORDS = st.sampled_from("a b c d e f g Σίσυφος naïve 42".split())
TIMES = st.sampled_from([1, 1, 1, 2, 3, 0.5, 2.25, 70])
TEXTS = st.one_of(
    st.lists(WORDS, max_size=10).map(" ".join),
    st.lists(st.sampled_from("abc"), min_size=20, max_size=90).map(" ".join),
    st.dictionaries(WORDS, TIMES, min_size=1, max_size=6),
)
KINDS = {"subject": "text", "body": "text", "colour": "nominal", "height": "continuous"}
EVENTS = st.fixed_dictionaries(
    {},
    optional={
        "subject": TEXTS,
        "body": TEXTS,
        "colour": st.sampled_from(["red", "green", "RED", ""]),
        "height": st.integers(-40, 40).map(lambda n: n / 8),
    },
)
LABELS = st.sampled_from(["ham", "spam", "eggs"])
WEIGHTS = st.sampled_from([1, 1, 1, 2, 0.5, 3.25, 0])
EXAMPLES = st.lists(st.tuples(EVENTS, LABELS, WEIGHTS, st.none()), max_size=10)
SMOOTHINGS = st.one_of(
    st.sampled_from([1.0, 0.1, 1e-9, 3.0, 1e-100, 1e100]).map(lambda alpha: {"alpha": alpha}),
    st.builds(
        lambda m, p: {"m": m, "p": p},
        st.sampled_from([1.0, 0.25, 1e6]),
        st.sampled_from([None, 0.5, 1 - 1e-9]),
    ),
)
PRIORS = st.sampled_from(["learned", "uniform", {"ham": 1.0, "spam": 2.0, "eggs": 0.5}])


def named(specs):
    """One hypothesis of each likelihood."""
    return [Hypothesis(name, prior=prior, name=name, **how) for name, (how, prior) in specs.items()]


HYPOTHESES = st.fixed_dictionaries({name: st.tuples(SMOOTHINGS, PRIORS) for name in LIKELIHOODS}).map(named)
MIXED = {"subject": "text", "body": "text"}


@settings(max_examples=60)
@given(HYPOTHESES, EXAMPLES, EVENTS)
def test_every_hypothesis_is_a_recount(hypotheses, rows, x):
    model = taught(BayesOptimalNB(MIXED, hypotheses), rows)
    assert_equal(model, KINDS, rows, x, relative=1e-9 if "height" in x else 1e-12)


@pytest.mark.parametrize(
    "smoothing", [{"alpha": 1.0}, {"alpha": 1e-100}, {"alpha": 1e100}, {"m": 1e6, "p": 1 - 1e-12}]
)
@pytest.mark.parametrize("count", [1, 1000])
@pytest.mark.parametrize("times", [1, 2, 3, 7, 16, 45, 70, 85, 333, 5000, 2.5])
def test_words_repeated_as_often_as_you_like(times, count, smoothing):
    hypotheses = [Hypothesis(name, **smoothing) for name in LIKELIHOODS]
    rows = [
        ({"head": {"u": count, "w": 1}, "body": {"u": count}}, "x", 1, None),
        ({"head": {"v": 1, "w": 3}, "body": {"v": 2}}, "y", 1, None),
        ({"body": ""}, "z", 1, None),
    ]
    model = taught(BayesOptimalNB({"head": "text", "body": "text"}, hypotheses), rows)
    x = {"head": {"u": times, "v": 1, "w": times, "?": 5}, "body": {"u": 1, "v": times}}
    rounding = 2 * times * 25 * 2.0**-52  # of a sum of so many logarithms of about 1e9 units
    assert_equal(model, {"head": "text", "body": "text"}, rows, x, absolute=max(1e-11, rounding))


def test_ten_thousand_words_and_two_hundred_classes():
    """Long texts split the exponents of many products; new classes widen every table."""
    rng = np.random.default_rng(0)
    kinds, rows = {"text": "text"}, []
    for c in range(200):
        ranks = np.minimum(rng.zipf(1.3, size=100 if c else 10_000), 3000)
        rows.append(({"text": " ".join(f"w{r}" for r in ranks)}, c, 1, None))
    hypotheses = [Hypothesis(name, alpha=alpha) for name in LIKELIHOODS for alpha in (1.0, 1e-100)]
    model = taught(BayesOptimalNB(kinds, hypotheses), rows)
    x = {"text": " ".join(f"w{r}" for r in np.minimum(rng.zipf(1.2, size=10_000), 3500))}
    found = model.joint_log_likelihoods(x)
    for h in hypotheses:
        recount = Recount(h, kinds, rows)
        for label in (0, 1, 199):
            assert found[h.label][label] == pytest.approx(float(recount.joint(x, label)), rel=1e-12)
    probabilities = model.predict_posteriors([x]).probabilities[0]
    assert np.isfinite(probabilities).all()
    assert probabilities.sum() == pytest.approx(1.0, abs=1e-12)


def test_what_other_classes_say_keeps_its_digits_beside_a_large_count():
    """Of a word of one class the others have alpha alone, which a sum with the count would not hold."""
    kinds = {"text": "text"}
    rows = [({"text": {"u": 1_000_000, "v": 1}}, "x", 1, None), ({"text": "v"}, "y", 1, None)]
    model = taught(
        BayesOptimalNB(kinds, [Hypothesis("complement", alpha=a) for a in (0.1, 1e-10, 1e-100)]), rows
    )
    for text in ("u", "u u u", "u v"):
        assert_equal(model, kinds, rows, {"text": text})


def test_bags_of_nothing_are_texts_and_parts_of_nothing_are_none():
    rows = [
        ({"text": {"a": 1, "b": 0}}, "x", 1.0),
        ({"text": {"a": 0}}, "x", 1.0),
        ({"text": {"a": math.nan}}, "y", 1.0),
        ({"text": {"b": 2}}, "y", 1.0),
    ]
    model = BayesOptimalNB({"text": "text"}, [Hypothesis("bernoulli")])
    single = NaiveBayes({"text": "text"}, event_model="bernoulli")
    for row in rows:
        model.learn_one(*row)
        single.learn_one(*row)
    for text in ("", "a", "a b", {"a": 0}, {}):
        (joints,) = model.joint_log_likelihoods({"text": text}).values()
        assert joints == pytest.approx(single.joint_log_likelihood({"text": text}), rel=1e-12)
    before = joint_of(model)
    model.learn_one({"other": "1"}, "x", 0.25)
    apart = copy.deepcopy(model)
    model.learn_one({"text": {"never": 1 / 1024}}, "x", 0.25)  # a quarter of the smallest count there is
    apart.learn_one({"text": ""}, "x", 0.25)
    assert joint_of(model) == joint_of(apart) != before


def joint_of(model):
    return model.joint_log_likelihoods({"text": "a b"})


def test_texts_are_counted_where_no_word_is_left():
    model = BayesOptimalNB({"text": "text"}, [Hypothesis("bernoulli"), Hypothesis("presence")])
    model.learn_one({"text": "a"}, "x")
    assert model.prune(max_attributes=0) == 1
    model.learn_one({"text": ""}, "x")
    model.learn_one({"text": "b"}, "x")
    joints = model.joint_log_likelihoods({"text": "b"})
    assert joints["bernoulli alpha=1"]["x"] == pytest.approx(math.log((1 + 1) / (3 + 2)), rel=1e-12)


@given(HYPOTHESES, EXAMPLES, EVENTS)
def test_pruning_is_never_having_met_the_word(hypotheses, rows, x):
    def without(event):
        kept = {}
        for name, value in event.items():
            text = occurrences(value) if KINDS[name] == "text" else None
            kept[name] = (
                value if text is None else {word: n for word, n in text.items() if word in often[name]}
            )
            if text is not None and not kept[name]:
                kept[name] = ""
        return kept

    model = taught(BayesOptimalNB(MIXED, hypotheses), rows)
    often = {}
    for name in MIXED:
        totals = Counter()
        for event, _, w, _ in rows:
            for word, times in (occurrences(event.get(name)) or {}).items():
                totals[word] += w * times
        often[name] = {word for word, n in totals.items() if n >= 2}
    model.prune(min_count=2)
    assert_equal(model, KINDS, [(without(e), y, w, t) for e, y, w, t in rows], x, relative=1e-9)


# -- separate models, and their mixture ---------------------------------------------------------------------


@given(EXAMPLES, EVENTS, PRIORS)
def test_two_of_them_are_models_of_their_own(rows, x, prior):
    hypotheses = [Hypothesis(name, alpha=0.3, prior=prior) for name in ("multinomial", "bernoulli")]
    model = taught(BayesOptimalNB(MIXED, hypotheses), rows)
    for h in hypotheses:
        alone = NaiveBayes(MIXED, alpha=0.3, prior=prior, event_model=h.likelihood)
        for event, y, w, _ in rows:
            alone.learn_one(event, y, w)
        expected = alone.joint_log_likelihood(x)
        assert model.joint_log_likelihoods(x)[h.label] == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_smoothing_of_an_attribute_holds_for_all():
    spec = {"text": Text(alpha=0.2), "colour": Nominal(m=2.0)}
    hypotheses = [Hypothesis("multinomial", alpha=a) for a in (1.0, 9.0)]
    model = BayesOptimalNB(spec, hypotheses)
    alone = NaiveBayes({"text": Text(alpha=0.2), "colour": Nominal(m=2.0)}, alpha=5.0)
    for x, y in [({"text": "a b", "colour": "r"}, "x"), ({"text": "b", "colour": "g"}, "y")]:
        model.learn_one(x, y)
        alone.learn_one(x, y)
    x = {"text": "a", "colour": "g"}
    for joints in model.joint_log_likelihoods(x).values():
        assert joints == pytest.approx(alone.joint_log_likelihood(x), rel=1e-12)


RICH = [
    Hypothesis("multinomial"),
    Hypothesis("multinomial", alpha=1e-3, half_life=3.0, weight=3.0),
    Hypothesis("presence", alpha=0.1, half_life=20.0, prior="uniform"),
    Hypothesis("presence", m=2.0, p=0.25),
    Hypothesis("bernoulli", alpha=0.5, weight=0.5),
    Hypothesis("complement", alpha=0.1, prior={"ham": 2.0, "eggs": 1.0}),
    Hypothesis("complement", half_life=3.0),
]
LASTING = [h for h in RICH if h.half_life is None]
TIMES_OF_EVENTS = st.one_of(st.none(), st.integers(0, 400).map(lambda n: n / 4), st.sampled_from([-1e9, 5e4]))
STREAM = st.lists(
    st.tuples(EVENTS, st.one_of(st.none(), LABELS, LABELS), WEIGHTS, TIMES_OF_EVENTS), max_size=14
)
RATES = st.sampled_from([0.0, 0.01, 0.5])


def rich(rate=0.0, prediction="mixture", hypotheses=RICH):
    return BayesOptimalNB(MIXED, hypotheses, rate, prediction, seed=7, floor=False)


@settings(max_examples=60)
@given(STREAM, RATES, st.sampled_from(MODES))
@example(
    [
        ({"body": "a"}, "ham", 1, None),
        ({"body": "b"}, "spam", 1, 0.0),
        *([({"body": "a"}, "spam", 1, 1.0)] * 3),
    ],
    0.01,
    "gibbs",
)
def test_predictions_are_those_of_the_posterior_over_what_each_says(rows, rate, prediction):
    """And a hypothesis that gives less than ESCAPE to a label is charged ESCAPE; a new label is one to all."""
    model = rich(rate, prediction)
    weights = SequentialPosterior({h.label: h.weight for h in RICH}, rate)
    for number, (x, y, w, t) in enumerate(rows):
        # The same events in a model of each hypothesis alone, asked at the time of the event.
        answers = model.copying()
        asked = rich(rate, prediction).load_state(*answers.state())
        frozen = asked._answer(asked._encode([x], ts=[t]), joints=True).joints[0]
        known = asked._known()
        said = {
            h.label: normalised({c: row[k] for c, k in known.items()}) if known else {}
            for h, row in zip(RICH, frozen, strict=True)
        }
        expected = weights.predict(said) if prediction == "mixture" else said[weights.map()]
        if prediction == "gibbs":
            u = uniforms(7, number, 1)[0]
            expected = list(said.values())[choose(weights.weights.log_posterior, u)]
        answer = model.predict_then_learn_many([x], [y], [w], [t])
        got = dict(zip(answer.classes, answer.probabilities[0].tolist(), strict=True))
        assert {c: p for c, p in got.items() if c in known} == pytest.approx(expected, rel=1e-12, abs=1e-300)
        assert not known or sum(got.values()) == pytest.approx(1.0, abs=1e-12)
        np.testing.assert_allclose(answer.hypotheses[0], list(weights.probabilities.values()), rtol=1e-9)
        if y is not None and w:
            weights.update_log({name: math.log(max(p.get(y, 0.0), ESCAPE)) for name, p in said.items()})
    assert model.posterior.probabilities == pytest.approx(weights.probabilities, rel=1e-9, abs=1e-300)
    assert model.posterior.losses == pytest.approx(weights.losses, rel=1e-9)
    assert model.n_met == len(rows)


# -- laws ---------------------------------------------------------------------------------------------------


def bytes_of(model):
    meta, arrays = model.state()
    return meta, {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()}


@settings(max_examples=80)
@given(STREAM, st.lists(st.integers(1, 6), min_size=1, max_size=8), RATES, st.sampled_from(MODES))
def test_how_a_stream_is_cut_is_unobservable(rows, cuts, rate, prediction):
    one, other = rich(rate, prediction), rich(rate, prediction)
    singles = [one.predict_then_learn_many([x], [y], [w], [t]) for x, y, w, t in rows]
    parts, start, cut = [], 0, 0
    while start < len(rows):
        part = rows[start : start + cuts[cut % len(cuts)]]
        parts.append(other.predict_then_learn_many(*zip(*part, strict=True)))
        start, cut = start + len(part), cut + 1
    assert bytes_of(one) == bytes_of(other)
    K = len(one.classes)
    padded = [
        np.vstack([np.pad(a.probabilities, ((0, 0), (0, K - len(a.classes)))) for a in answers]).tobytes()
        for answers in (singles, parts)
        if answers
    ]
    assert len(set(padded)) <= 1
    weighed = [
        np.vstack([a.hypotheses for a in answers]).tobytes() for answers in (singles, parts) if answers
    ]
    assert len(set(weighed)) <= 1


@given(EXAMPLES, EVENTS, st.sampled_from(MODES))
def test_one_by_one_is_many(rows, x, prediction):
    one, many, cut = rich(0.01, prediction), rich(0.01, prediction), rich(0.01, prediction)
    for event, y, w, _ in rows:
        one.learn_one(event, y, w)
    if rows:
        xs, ys, ws, _ = zip(*rows, strict=True)
        many.learn_many(xs, ys, ws)
        cut.predict_then_learn_many(xs, ys, ws)
    assert bytes_of(one) == bytes_of(many) == bytes_of(cut)
    before = bytes_of(one)
    asked = one.predict_posteriors([x, {}, x]).probabilities
    assert np.array_equal(asked[0], asked[2])
    assert dict(zip(one._known(), asked[0].tolist(), strict=False)) == one.predict_proba_one(x)
    assert bytes_of(one) == before


@settings(max_examples=60)
@given(STREAM, st.integers(0, 14), RATES, st.sampled_from(["state", "deepcopy", "pickle"]))
def test_restart_is_no_restart(rows, at, rate, how):
    model = taught(rich(rate, "gibbs"), rows[:at])
    again = {
        "state": lambda: rich(rate, "gibbs").load_state(*copy.deepcopy(model.state())),
        "deepcopy": lambda: copy.deepcopy(model),
        "pickle": lambda: pickle.loads(pickle.dumps(model)),  # noqa: S301  our own bytes
    }[how]()
    for x, y, w, t in rows[at:]:
        expected = model.predict_then_learn_many([x], [y], [w], [t])
        got = again.predict_then_learn_many([x], [y], [w], [t])
        assert np.array_equal(got.probabilities, expected.probabilities)
    assert bytes_of(again) == bytes_of(model)


def test_a_clone_is_untrained():
    model = rich(0.1, "map")
    model.learn_one({"body": "a"}, "ham")
    clone = model.clone()
    assert (clone.n_met, clone.n_events, clone.posterior.observations) == (0, 0, 0)
    assert (clone.switching_rate, clone.prediction, clone.hypotheses) == (0.1, "map", RICH)
    clone.learn_one({"body": "b"}, "spam")
    assert model.posterior.observations == 1
    assert model.classes == ["ham"]


def test_a_state_of_other_hypotheses_is_refused_and_changes_nothing():
    rival = Hypothesis("multinomial", name="rival")
    model = BayesOptimalNB(MIXED, [Hypothesis("bernoulli", name="it"), rival])
    model.learn_one({"body": "a"}, "ham")
    before = bytes_of(model)
    others = [
        BayesOptimalNB(MIXED, [Hypothesis("multinomial", name="it"), rival]),
        BayesOptimalNB(MIXED, [Hypothesis("bernoulli"), rival]),
        BayesOptimalNB(MIXED, [Hypothesis("bernoulli", name="it", weight=2.0), rival]),
        BayesOptimalNB(MIXED, [Hypothesis("bernoulli", name="it"), rival], switching_rate=0.5),
        NaiveBayes(MIXED),
    ]
    for other in others:
        with pytest.raises(ValueError, match="state of"):
            model.load_state(*other.state())
        assert bytes_of(model) == before


def without_height(rows):
    """Moments are unlearned to rounding only."""
    return [({k: v for k, v in x.items() if k != "height"}, y, w, t) for x, y, w, t in rows]


@settings(max_examples=40)
@given(EXAMPLES, EXAMPLES, st.randoms(use_true_random=False), EVENTS)
def test_what_was_learned_is_unlearned(rows, passing, random, x):
    rows, passing = without_height(rows), [row for row in without_height(passing) if row[2]]
    met = [*rows, *passing]  # the same classes in the same order, so that rounding is the same too
    model = taught(rich(hypotheses=LASTING), met)
    plain = taught(rich(hypotheses=LASTING), met)
    for event, y, w, _ in reversed(passing):
        plain.unlearn_one(event, y, w)
    shuffled = list(passing)
    random.shuffle(shuffled)
    for event, y, w, _ in shuffled:
        model.unlearn_one(event, y, w)
    assert bytes_of(model) == bytes_of(plain)
    x = {name: value for name, value in x.items() if name != "height"}
    for h in LASTING:
        exact = Recount(h, KINDS, rows).joints(x) if h.prior != {"ham": 2.0, "eggs": 1.0} else {}
        for label, joint in exact.items():
            assert model.joint_log_likelihoods(x)[h.label][label] == pytest.approx(
                float(joint), rel=1e-12, abs=1e-11
            )


@settings(max_examples=80)
@given(EXAMPLES, EVENTS, LABELS, EVENTS)
def test_what_the_counts_rule_out_is_refused_and_nothing_else_breaks(rows, x, label, asked):
    model = taught(rich(hypotheses=LASTING), rows)
    before = bytes_of(model)
    try:
        model.unlearn_one(x, label)
    except UnlearnError:
        assert bytes_of(model) == before
    else:
        probabilities = model.predict_posteriors([asked]).probabilities
        assert np.isfinite(probabilities).all()
        joints = model._answer(model._encode([asked]), joints=True).joints
        assert not np.isnan(joints).any()
        model.learn_one(x, label)
        if "height" not in x:
            again = bytes_of(model)[1]
            assert all(again[name] == before[1][name] for name in ("table", "presence", "texts", "totals"))


@pytest.mark.parametrize(
    ("x", "y", "w"),
    [
        ({"body": "a"}, "ham", 1.0),  # the text had b as well
        ({"body": ""}, "ham", 2.0),  # one of the two had no body
        ({"body": ""}, "spam", 1.0),
        ({"body": "a b c"}, "ham", 1.0),
        ({"body": "a b"}, "ham", 1.5),
        ({"body": "a b"}, "spam", 1.0),
        ({"body": "a b", "subject": ""}, "ham", 1.0),
    ],
)
def test_unlearning_looks_at_texts_and_presence(x, y, w):
    model = taught(
        rich(hypotheses=LASTING),
        [
            ({"body": "a b"}, "ham", 1, None),
            ({"height": 1.0}, "ham", 1, None),
            ({"subject": "a"}, "spam", 1, None),
        ],
    )
    before = bytes_of(model)
    with pytest.raises(UnlearnError):
        model.unlearn_one(x, y, w)
    assert bytes_of(model) == before


def test_a_word_that_was_in_one_text_is_not_unlearned_of_two():
    model = taught(rich(hypotheses=LASTING), [({"body": "a a"}, "ham", 1, None), ({}, "ham", 1, None)])
    model.unlearn_one({"body": "a"}, "ham")
    with pytest.raises(UnlearnError, match="never learned"):
        model.unlearn_one({"body": "a"}, "ham")


def test_what_cannot_be_done_is_refused():
    decaying, lasting = rich(), rich(hypotheses=LASTING)
    for model in (decaying, lasting):
        model.learn_one({"body": "a"}, "ham")
        with pytest.raises(ValueError, match="cannot be merged"):
            model.merge(model.clone())
    before = bytes_of(decaying)
    with pytest.raises(UnlearnError, match="half-life"):
        decaying.unlearn_one({"body": "a"}, "ham")
    assert bytes_of(decaying) == before


# -- the bound ----------------------------------------------------------------------------------------------


@settings(max_examples=80)
@given(STREAM, RATES)
def test_the_mixture_costs_no_more_than_any_hypothesis_and_its_bound(rows, rate):
    """What is published is charged ESCAPE at least, as each hypothesis is: so it lies within ESCAPE of P(d | D)."""
    model = rich(rate)
    total, published = math.fsum(h.weight for h in RICH), []
    for x, y, w, t in rows:
        before = model.posterior.log_evidence
        answer = model.predict_then_learn_many([x], [y], [w], [t])
        if y is None or not w:
            assert model.posterior.log_evidence == before
            continue
        p = answer.probabilities[0, answer.classes.index(y)]
        q = math.exp(model.posterior.log_evidence - before)
        assert p * (1 - 1e-9) <= q <= (p + ESCAPE) * (1 + 1e-9)
        published.append(p)
    T, loss = len(published), -model.posterior.log_evidence
    assert model.posterior.observations == T
    assert loss <= -math.fsum(math.log(max(p, ESCAPE)) for p in published) + 1e-9 * (1 + loss)
    for h, own in zip(RICH, model.posterior.losses.values(), strict=True):
        assert loss <= own + math.log(total / h.weight) - T * math.log1p(-rate) + 1e-9 * (1 + loss)


def concept_stream(n, switch):
    """Texts of ten words; seven in ten of them of the class's half of the vocabulary, and the halves swap."""
    draws, rows = uniforms(3, 0, 21 * n).reshape(n, 21), []
    for t, row in enumerate(draws):
        label = "x" if row[0] < 0.5 else "y"
        half = (label == "x") == (t < switch)
        text = [
            f"{'u' if half == (side < 0.7) else 'v'}{int(40 * which)}"
            for side, which in row[1:].reshape(10, 2)
        ]
        rows.append(({"text": " ".join(text)}, label, 1.0, float(t)))
    return rows


def test_a_concept_that_switches_is_followed_by_forgetting_and_switching():
    n, switch = 3000, 1500
    rows = concept_stream(n, switch)
    lasting = [Hypothesis("multinomial"), Hypothesis("presence")]
    decaying = [Hypothesis("multinomial", half_life=h) for h in (50.0, 1000.0)]
    models = {
        "lasting": BayesOptimalNB({"text": "text"}, lasting, switching_rate=0.0),
        "fading": BayesOptimalNB({"text": "text"}, [*lasting, *decaying], switching_rate=0.0),
        "fading, switching": BayesOptimalNB({"text": "text"}, [*lasting, *decaying], switching_rate=1e-3),
    }
    loss = {}
    for name, model in models.items():
        answer = model.predict_then_learn_many(*zip(*rows, strict=True))
        p = np.array(
            [
                row[answer.classes.index(y)]
                for row, (_, y, _, _) in zip(answer.probabilities, rows, strict=True)
            ]
        )
        charged = -np.log(np.maximum(p, ESCAPE))
        before, soon = (float((p[a:b] < 0.5).mean()) for a, b in ((500, 1500), (1800, 2100)))
        assert before < 0.15, name
        assert (soon < 0.2) == (name != "lasting"), (name, soon)
        loss[name] = charged[switch:].sum()
    assert loss["fading, switching"] < loss["fading"] - 30 < loss["lasting"] - 1000


def test_evidence_forgets_as_predictions_do():
    """What is long past says nothing, of an event of now."""
    model = BayesOptimalNB({"text": "text"}, [Hypothesis("presence", half_life=10.0)])
    for text, label in [("win cash", "spam"), ("lunch", "ham")]:
        model.learn_one({"text": text}, label, t=0.0)
    fresh, stale = (model.explain_one({"text": "cash"}, t=t) for t in (0.0, 600.0))
    assert fresh[0].log_odds > 0.3
    assert not stale or abs(stale[0].log_odds) < 1e-12


def test_a_hypothesis_that_rules_a_class_out_leaves_the_evidence_to_the_others():
    """Its share of an infinite score would be infinite, however small the share."""
    open_minded, sure = Hypothesis("presence"), Hypothesis("multinomial", prior={"spam": 1.0})
    rows = [
        ("win cash now", "spam"),
        ("lunch now", "ham"),
        ("cash prize", "spam"),
        ("see you at lunch", "ham"),
    ]
    alone, both = (BayesOptimalNB({"text": "text"}, h) for h in ([open_minded], [open_minded, sure]))
    for text, label in rows:
        alone.learn_one({"text": text}, label)
        both.learn_one({"text": text}, label)
    assert 0.0 < both.posterior.probabilities[sure.label] < 1.0
    expected, found = (
        {item.value: item.log_odds for item in model.explain_one({"text": "cash lunch"})}
        for model in (alone, both)
    )
    assert found.keys() == expected.keys() == {"cash", "lunch"}
    assert all(abs(odds) < 10.0 and odds * expected[word] > 0.0 for word, odds in found.items())


def test_a_mixture_has_no_linear_view_and_no_joint_probability_but_a_posterior():
    model = BayesOptimalNB({"text": "text"})
    for text, label in [("win cash now", "spam"), ("lunch now", "ham")]:
        model.learn_one({"text": text}, label)
    with pytest.raises(ValueError, match="not a linear function"):
        model.linear_view("spam")
    joint, probabilities = (
        model.joint_log_likelihood({"text": "cash"}),
        model.predict_proba_one({"text": "cash"}),
    )
    assert joint == {label: math.log(p) for label, p in probabilities.items()}


@pytest.mark.parametrize("time", [math.nan, math.inf, 10**400])
def test_a_time_that_is_none_is_not_known(time):
    """The same as no time: now."""
    known, unknown = (
        BayesOptimalNB({"text": "text"}, [Hypothesis("presence", half_life=10.0)]) for _ in "ab"
    )
    for model, t in ((known, None), (unknown, time)):
        model.learn_one({"text": "a"}, "x", t=100.0)
        model.learn_one({"text": "b"}, "y", t=t)
    assert bytes_of(known) == bytes_of(unknown)


@pytest.mark.parametrize("cut", [1, 7, 300])
def test_a_floor_bounds_what_one_surprise_costs_and_what_all_of_it_costs(cut):
    """The state is that of a model without; predictions are the uniform distribution mixed in."""
    rng = random.Random(5)
    labels = [rng.choice("ab" if t < 100 else "abcd") for t in range(300)]
    xs = [{"text": f"{y} {y} {y}" if rng.random() < 0.9 else "a b c d"} for y in labels]
    plain, floored = (BayesOptimalNB({"text": "text"}, floor=floor) for floor in (False, True))
    losses, n = [0.0, 0.0], 0
    for i in range(0, 300, cut):
        part = xs[i : i + cut], labels[i : i + cut]
        said = [m.predict_then_learn_many(*part) for m in (plain, floored)]
        for p, q, y in zip(*(one.probabilities for one in said), part[1], strict=True):
            K, doubt, k = np.count_nonzero(p), 0.5 / (n + 1), said[0].classes.index(y)
            if K:
                assert q[q > 0] == pytest.approx((1 - doubt) * p[p > 0] + doubt / K, rel=1e-12)
                assert q.sum() == pytest.approx(1.0)
                assert (q[p > 0] >= 1 / (2 * K * (n + 1))).all()
            if p[k]:
                losses = [loss - math.log(one[k]) for loss, one in zip(losses, (p, q), strict=True)]
            n += 1
    assert losses[1] <= losses[0] + math.log(math.pi * (n + 1)) / 2
    assert bytes_of(plain) == bytes_of(floored)
    asked = {"text": "a a a"}
    told = [m.predict_proba_one(asked)["b"] for m in (plain, floored)]
    assert told[1] == pytest.approx((1 - 0.5 / 301) * told[0] + 0.5 / 301 / 4)
    alone = [BayesOptimalNB({"text": "text"}, [Hypothesis()], floor=floor) for floor in (False, True)]
    for model in alone:
        model.learn_many(xs, labels)
    assert alone[0].predict_proba_one(asked) == alone[1].predict_proba_one(asked)
