"""Laws that hold for every model: merge = concatenation, unlearn = nothing happened, cuts are unobservable."""

from __future__ import annotations

import copy
import json
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamnb import BernoulliNB, CategoricalNB, GaussianNB, MultinomialNB, NaiveBayes, Nominal, Text
from streamnb.errors import SmallWeightWarning, UnlearnError
from streamnb.values.example_weights import units
from tests.oracles.words_oracle import words as words_of
from tests.support.states import bytes_of

pytestmark = pytest.mark.early(53)

SPEC = {"body": Text(), "subject": Text(event_model="bernoulli", alpha=0.5), "colour": Nominal(m=2.0)}
WORDS = st.sampled_from([f"w{i}" for i in range(12)] + ["Größe", "ΣΑΣ"])
TEXT = st.lists(WORDS, max_size=8).map(" ".join)
EVENT = st.fixed_dictionaries(
    {},
    optional={
        "body": TEXT,
        "subject": TEXT,
        "colour": st.sampled_from("rgb"),
        "late": st.sampled_from(["x", "y"]),
        "height": st.integers(-64, 64).map(lambda n: n / 4),
    },
)
LABELS = st.sampled_from(["a", "b", "c", "d", "e"])
WEIGHTS = st.sampled_from([1.0, 1.0, 2.0, 0.25, 0.0])
EXAMPLES = st.lists(st.tuples(EVENT, LABELS, WEIGHTS), max_size=20)
MAYBE_LABELLED = st.lists(st.tuples(EVENT, st.one_of(st.none(), LABELS), WEIGHTS), max_size=20)
ALPHAS = st.sampled_from([1.0, 0.01, 0.0])


def new(alpha=1.0):
    return NaiveBayes(SPEC, alpha=alpha)


def taught(rows, alpha=1.0):
    model = new(alpha)
    for x, y, w in rows:
        model.learn_one(x, y, w)
    return model


def learned(model):
    """Everything learned that can be read through the public interface, without order."""
    counts = {}
    for name in ("body", "subject", "colour", "late"):
        try:
            counts[name] = model.class_counts(name)
        except KeyError:
            counts[name] = {}
    weights = {label: weight for label, weight in model.class_weights.items() if weight}
    return weights, counts, model.n_events, model.n_attributes


def without_moments(x):
    return {name: value for name, value in x.items() if name != "height"}


@settings(max_examples=200)
@given(MAYBE_LABELLED, st.lists(st.integers(1, 7), min_size=1, max_size=20), ALPHAS)
def test_how_a_stream_is_cut_is_unobservable(rows, cuts, alpha):
    one_by_one, in_batches = new(alpha), new(alpha)
    expected = []
    for x, y, w in rows:
        expected.append(one_by_one.predict_proba_one(x))
        if y is not None:
            one_by_one.learn_one(x, y, w)
    got = []
    start, cut = 0, 0
    while start < len(rows):
        part = rows[start : start + cuts[cut % len(cuts)]]
        told = in_batches.predict_then_learn_many(*zip(*part, strict=True))
        got += [
            dict(zip(told.classes[:k], row.tolist(), strict=False))
            for k, row in zip(told.known, told.probabilities, strict=True)
        ]
        start, cut = start + len(part), cut + 1
    for want, have in zip(expected, got, strict=True):
        assert want == have  # to the last bit
    assert bytes_of(one_by_one) == bytes_of(in_batches)


@settings(max_examples=100)
@given(
    st.lists(
        st.tuples(TEXT, st.one_of(st.none(), LABELS, st.just(math.nan)), WEIGHTS), min_size=1, max_size=20
    ),
    st.sampled_from(["body", "subject"]),
    st.integers(0, 5),
)
def test_a_batch_of_one_text_each_is_learned_as_any_other(rows, name, before):
    """They are written all at once; with an attribute that is missing, one by one."""
    whole, apart = new(), new()
    for model in (whole, apart):
        model.learn_many([{"body": "w1 w2", "colour": "r"}] * before, ["a"] * before)
    texts, labels, weights = zip(*rows, strict=True)
    at_once = whole.predict_then_learn_many([{name: text} for text in texts], labels, weights)
    one_by_one = apart.predict_then_learn_many(
        [{name: text, "colour": None} for text in texts], labels, weights
    )
    assert at_once.classes == one_by_one.classes
    assert at_once.probabilities.tobytes() == one_by_one.probabilities.tobytes()
    assert at_once.known.tolist() == one_by_one.known.tolist()
    assert bytes_of(whole) == bytes_of(apart)


@given(EXAMPLES, EXAMPLES, EVENT, ALPHAS)
def test_merge_is_concatenation(first, second, x, alpha):
    merged = taught(first, alpha).merge(taught(second, alpha))
    whole = taught(first + second, alpha)
    assert learned(merged) == learned(whole)
    assert merged.joint_log_likelihood(without_moments(x)) == whole.joint_log_likelihood(without_moments(x))
    if any("height" in row for row, _, w in first + second if w):
        for label, moment in whole.class_moments("height").items():
            other = merged.class_moments("height")[label]
            assert other.n == moment.n
            assert other.mean == pytest.approx(moment.mean, rel=1e-12, abs=1e-12)
            assert other.variance == pytest.approx(moment.variance, rel=1e-9, abs=1e-9)


@given(EXAMPLES, ALPHAS)
def test_the_empty_model_is_the_identity_of_merge(rows, alpha):
    assert bytes_of(taught(rows, alpha).merge(new(alpha))) == bytes_of(taught(rows, alpha))
    assert bytes_of(new(alpha).merge(taught(rows, alpha))) == bytes_of(taught(rows, alpha))


@settings(max_examples=200)
@given(EXAMPLES, EXAMPLES, EVENT, ALPHAS, st.randoms(use_true_random=False))
def test_learn_then_unlearn_is_nothing(rows, passing, x, alpha, random):
    model = taught(rows, alpha)
    before, joint = learned(model), model.joint_log_likelihood(without_moments(x))
    for row in passing:
        model.learn_one(*row)
    random.shuffle(passing)
    for row in passing:
        model.unlearn_one(*row)
    assert learned(model) == before
    after = model.joint_log_likelihood(without_moments(x))
    assert {label: after[label] for label in joint} == joint  # to the last bit
    for label, moment in (
        model.class_moments("height").items() if "height" in model._statistics.layout.fields else ()
    ):
        expected = taught(rows, alpha).class_moments("height")[label]
        assert moment.n == expected.n
        assert moment.variance >= 0.0
        assert moment.mean == pytest.approx(expected.mean, abs=1e-9)


@given(EXAMPLES, EVENT, ALPHAS, st.randoms(use_true_random=False))
def test_event_order_is_unobservable_on_counts(rows, x, alpha, random):
    shuffled = list(rows)
    random.shuffle(shuffled)
    one, other = taught(rows, alpha), taught(shuffled, alpha)
    assert learned(one) == learned(other)
    x = without_moments(x)
    assert one.joint_log_likelihood(x) == other.joint_log_likelihood(x)  # class order differs, values do not
    for label, p in one.predict_proba_one(x).items():
        assert other.predict_proba_one(x)[label] == pytest.approx(p, rel=1e-13, abs=1e-300)


@given(EXAMPLES, EVENT)
def test_restart_is_no_restart(rows, x):
    half = len(rows) // 2
    model = taught(rows[:half])
    restarted = new().load_state(*copy.deepcopy(model.state()))
    for row in rows[half:]:
        model.learn_one(*row)
        restarted.learn_one(*row)
    assert bytes_of(model) == bytes_of(restarted)
    assert model.joint_log_likelihood(x) == restarted.joint_log_likelihood(x)


@given(EXAMPLES, EVENT, LABELS)
def test_what_was_never_learned_cannot_be_unlearned(rows, x, label):
    model = taught(rows)
    before = bytes_of(model)
    try:
        model.unlearn_one(x, label)
    except UnlearnError:
        # The vocabulary may not grow either; the tables are as they were.
        assert bytes_of(model) == before
    else:
        model.learn_one(x, label)
        assert learned(model) == learned(taught(rows))


def test_unlearning_says_what_is_wrong():
    model = taught([({"body": "one two", "height": 1.0}, "a", 1.0)])
    for x, y, w in [
        ({"body": "one three"}, "a", 1.0),
        ({"body": "one"}, "b", 1.0),
        ({"body": "one one"}, "a", 1.0),
        ({"body": "one"}, "a", 2.0),
        ({"body": "one", "height": 1.0}, "a", 1.5),
        ({"colour": "r"}, "a", 1.0),
        ({"width": 1.0}, "a", 1.0),
    ]:
        before = bytes_of(model)
        with pytest.raises(UnlearnError, match="never learned"):
            model.unlearn_one(x, y, w)
        assert bytes_of(model) == before


@pytest.mark.parametrize(
    ("x", "y", "w"),
    [
        ({}, "a", 3.0),  # more than its class weighs
        ({"height": 1.0}, "a", 2.0),  # the class weighs as much, but only one event had the attribute
        ({"subject": ""}, "a", 1.0),  # no event of the class had a subject
        ({"subject": "s", "body": ""}, "b", 1.0),
    ],
)
def test_unlearning_looks_at_every_count(x, y, w):
    model = taught([({"height": 1.0}, "a", 1.0), ({}, "a", 1.0), ({"body": "s"}, "b", 1.0)])
    model.learn_one({"subject": "s"}, "c", 5.0)
    before, joint = bytes_of(model), model.joint_log_likelihood({"subject": "s"})
    with pytest.raises(UnlearnError):
        model.unlearn_one(x, y, w)
    assert bytes_of(model) == before
    assert model.joint_log_likelihood({"subject": "s"}) == joint


AMOUNTS = st.sampled_from([1, 2, 0.5, 1 / 1024, 3 / 1024])
BAGS = st.fixed_dictionaries(
    {}, optional={name: st.dictionaries(st.sampled_from("uvw"), AMOUNTS) for name in ("body", "subject")}
)
BAG_EXAMPLES = st.lists(st.tuples(BAGS, LABELS, st.sampled_from([1.0, 0.25, 3 / 1024])), max_size=8)


def test_a_text_without_a_word_that_all_texts_have_cannot_be_unlearned():
    """What would be left is a word in more texts than there are."""
    model = NaiveBayes({"text": Text(event_model="bernoulli")})
    for x, y in [({"text": "a b"}, "x"), ({"z": "1"}, "x"), ({"text": "b"}, "y")]:
        model.learn_one(x, y)
    before = bytes_of(model)
    with pytest.raises(UnlearnError, match="never learned"):
        model.unlearn_one({"text": "a"}, "x")
    assert bytes_of(model) == before
    model.unlearn_one({"text": "a b"}, "x")
    assert model.class_counts("text") == {"b": {"y": 1.0}}


@given(BAG_EXAMPLES, BAG_EXAMPLES)
def test_fractional_counts_of_fractional_weight_are_unlearned(rows, passing):
    model = taught(rows)
    before = learned(model)
    for row in passing:
        model.learn_one(*row)
    for row in passing:
        model.unlearn_one(*row)
    assert learned(model) == before


COUNTED = st.dictionaries(st.sampled_from("uvwxyz"), st.integers(1, 4), min_size=1)
BAG_EVENT = st.fixed_dictionaries({}, optional={"body": COUNTED, "subject": COUNTED})


@given(st.lists(st.tuples(BAG_EVENT, LABELS, WEIGHTS), max_size=12), BAG_EVENT, ALPHAS)
@example(  # three words that b has not, one that a has not
    [({"body": {"u": 1}}, "a", 1.0), ({"body": {"v": 1}}, "b", 1.0)], {"body": {"u": 3, "v": 1}}, 0.0
)
def test_a_bag_of_words_is_its_text(rows, x, alpha):
    def text(event):
        return {name: " ".join(Counter(bag).elements()) for name, bag in event.items()}

    bags, texts = taught(rows, alpha), taught([(text(row), y, w) for row, y, w in rows], alpha)
    assert learned(bags) == learned(texts)
    assert bags.joint_log_likelihood(x) == pytest.approx(texts.joint_log_likelihood(text(x)), rel=1e-12)
    assert bags.predict_proba_one(x) == pytest.approx(texts.predict_proba_one(text(x)), rel=1e-9)


@pytest.mark.parametrize("alpha", [1.0, 1e-9, 1e6])
@pytest.mark.parametrize("count", [1, 1000])
@pytest.mark.parametrize("n", [1, 45, 70, 75, 80, 85, 5000])
def test_long_texts_neither_overflow_nor_underflow(n, count, alpha):
    """Each of n equal words says the same, in two texts one after the other, of likely and unlikely words."""
    model = NaiveBayes({"head": "text", "body": "text"}, alpha=alpha)
    model.learn_one({"head": "u " * count, "body": "u " * count}, "x")
    model.learn_one({"head": "v", "body": "v"}, "y")
    prior = model.joint_log_likelihood({})
    for word in "uv":
        one = model.joint_log_likelihood({"head": word})
        many = model.joint_log_likelihood({"head": f"{word} " * n, "body": f"{word} " * n})
        for label in "xy":
            expected = prior[label] + 2 * n * (one[label] - prior[label])
            assert many[label] == pytest.approx(expected, rel=1e-10, abs=1e-9)
        assert sum(model.predict_proba_one({"head": f"{word} " * n}).values()) == pytest.approx(1.0)


def test_a_class_unlearned_has_no_part_in_the_priors():
    for prior in ("learned", "uniform", {"a": 1.0, "b": 3.0}):
        model = NaiveBayes(prior=prior)
        model.learn_one({"f": "u"}, "a")
        model.learn_one({"f": "u"}, "b")
        model.unlearn_one({"f": "u"}, "b")
        assert model.joint_log_likelihood({}) == {"a": 0.0}
        assert model.predict_proba_one({"f": "u"}) == {"a": 1.0}


def test_a_class_unlearned_does_not_count_as_the_one_with_fewest_misses():
    model = MultinomialNB(alpha=0)
    for text, label in [("u", "a"), ("v", "b"), ("w", "c")]:
        model.learn_one(text, label)
    model.unlearn_one("w", "c")
    assert model.predict_proba_one("u v") == {"a": 0.5, "b": 0.5}


def test_classes_without_a_given_prior_are_alike_among_themselves():
    model = NaiveBayes(prior={"other": 1.0})
    model.learn_one({}, "a", 3.0)
    model.learn_one({}, "b")
    assert model.predict_proba_one({}) == pytest.approx({"a": 0.5, "b": 0.5})
    model.learn_one({}, "other")
    assert model.predict_proba_one({}) == {"a": 0.0, "b": 0.0, "other": 1.0}


@pytest.mark.parametrize(
    "prior", [{"a": -1.0, "b": 2.0}, {"a": 0.0}, {"a": math.inf}, {"a": math.nan}, {}, "flat"]
)
def test_priors_that_are_none_are_refused(prior):
    with pytest.raises(ValueError, match="prior"):
        NaiveBayes(prior=prior)


@pytest.mark.parametrize(
    "nothing", [None, math.nan, math.inf, -math.inf, np.float32("inf"), np.float64("nan")]
)
def test_what_is_missing_drops_its_factor(nothing):
    rows = [({"body": "u", "height": 1.0}, "a", 1.0), ({"body": "v", "height": 4.0}, "b", 1.0)]
    model = taught([*rows, ({"body": "v", "height": 2.0}, "b", 1.0)])
    joint = model.joint_log_likelihood({"body": "u"})
    assert joint != model.joint_log_likelihood({"body": "u", "height": 1.0})
    missing = dict.fromkeys(("height", "colour", "subject", "unheard"), nothing)
    assert model.joint_log_likelihood({"body": "u", **missing}) == joint
    expected = taught([*rows, ({"body": "w"}, "a", 1.0)])
    assert bytes_of(taught([*rows, ({"body": "w", **missing}, "a", 1.0)])) == bytes_of(expected)


def test_nominal_values_are_compared_by_their_text():
    model = CategoricalNB()
    for value in (3, 3.0, np.int64(3), np.float32(3), "3", 2.5, "2.5", True, np.True_, "true", "True"):
        model.learn_one({"f": value}, "a")
    assert model.class_counts("f") == {"3": {"a": 5}, "2.5": {"a": 2}, "true": {"a": 3}, "True": {"a": 1}}
    with pytest.raises(TypeError, match="expected a string, a boolean or a number"):
        model.learn_one({"f": [3]}, "a")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("number", [np.float16, np.float32, np.longdouble, np.int32])
def test_numbers_of_any_type_are_numbers(number):
    model, expected = GaussianNB(), GaussianNB()
    for x, y in ((1.0, "a"), (2.0, "b"), (4.0, "a"), (-8.0, "b")):
        model.learn_one({"height": number(x)}, y)
        expected.learn_one({"height": x}, y)
    assert bytes_of(model) == bytes_of(expected)
    assert model.predict_proba_one({"height": number(3)}) == expected.predict_proba_one({"height": 3.0})


@pytest.mark.parametrize(
    "number", [np.int8, np.uint8, np.int16, np.uint64, np.float16, np.float32, np.longdouble, np.array]
)
def test_weights_of_any_type_are_weights(number):
    assert units(number(100)) == 100 * 1024


@pytest.mark.parametrize("number", [2j, np.complex64(2 + 5j), np.array([2.0]), "2", None])
def test_what_is_no_number_is_no_weight(number):
    with pytest.raises(TypeError):
        units(number)


def test_weights_are_rounded_to_steps_of_1_in_1024():
    model = NaiveBayes()
    for label, weight in {"a": 1.6 / 1024, "b": 1.4 / 1024, "c": 0.0}.items():
        model.learn_one({}, label, weight)
    with pytest.warns(SmallWeightWarning):
        model.learn_one({}, "d", 0.4 / 1024)
    assert model.class_weights == {"a": 2 / 1024, "b": 1 / 1024, "d": 1 / 1024}


@given(EXAMPLES, EXAMPLES)
def test_a_state_is_a_copy(rows, more):
    model = taught([*rows, ({"body": "one", "height": 1.0}, "a", 1.0)])
    state = model.state()
    before = copy.deepcopy(state)
    for row in [*more, ({"body": "one", "height": 2.0}, "a", 1.0)]:
        model.learn_one(*row)
    model.prune(drop_most_frequent=2)
    assert state[0] == before[0]
    assert all(np.array_equal(state[1][name], array) for name, array in before[1].items())


@given(EXAMPLES, EXAMPLES, EVENT)
def test_loading_replaces_all_that_was_learned(rows, others, x):
    """Also how the groups are read: there may be as many of them, in another order."""
    loaded, model = taught(others), taught(rows)
    loaded.predict_proba_one(x)
    loaded.load_state(*model.state())
    assert bytes_of(loaded) == bytes_of(model)
    assert loaded.joint_log_likelihood(x) == model.joint_log_likelihood(x)


def test_numpy_labels_are_written_as_numbers():
    model = NaiveBayes()
    model.learn_one({"f": "u"}, np.int64(3))
    model.learn_one({"f": "v"}, np.bool_(False))
    meta, arrays = model.state()
    assert NaiveBayes().load_state(json.loads(json.dumps(meta)), arrays).classes == [3, False]


def test_a_text_half_unlearned_has_room_among_the_counts():
    """Bernoulli counts are kept by how often each occurs; unlearning a part of a text makes one more."""
    for most in range(4, 24):
        model = BernoulliNB()
        model.learn_one("x y", "a")
        for i in range(2, most):
            model.learn_one(f"own{i}", "a", i)
        model.learn_one("x z", "b")
        model.unlearn_one("x", "a", 0.5)
        derived = BernoulliNB().load_state(*model.state())
        for text in ("", "x", "x z own2"):
            assert model.joint_log_likelihood(text) == derived.joint_log_likelihood(text)


@given(EXAMPLES, EVENT)
def test_predicting_changes_nothing(rows, x):
    model = taught(rows)
    before = bytes_of(model)
    model.predict_proba_one({**x, "unheard": "of", "new": 1.5})
    model.predict_one(x)
    model.predict_then_learn_many([x, {"body": "never seen words"}], [None, None])
    assert bytes_of(model) == before


@pytest.mark.filterwarnings("ignore::streamnb.errors.UndeclaredTextWarning")  # some look like sentences
@given(
    EXAMPLES,
    st.dictionaries(st.sampled_from("pqrs"), st.one_of(st.floats(), st.text(), st.booleans(), st.none())),
)
def test_probabilities_are_finite_and_sum_to_one(rows, odd):
    model = taught([(x | odd, y, w) for x, y, w in rows])
    for x in (odd, {"height": 1e300}, {"height": -1e308, **odd}, {}):
        probabilities = model.predict_proba_one(x)
        assert all(0.0 <= p <= 1.0 for p in probabilities.values())
        assert not probabilities or math.isclose(sum(probabilities.values()), 1.0, rel_tol=1e-9)


@given(st.lists(st.tuples(st.floats(allow_nan=False), LABELS), min_size=1, max_size=12), st.floats())
def test_any_double_can_be_learned(values, query):
    model = NaiveBayes()
    for value, label in values:
        model.learn_one({"v": value}, label)
    probabilities = model.predict_proba_one({"v": query})
    assert math.isclose(sum(probabilities.values()), 1.0, rel_tol=1e-9)
    if model._statistics.layout.fields:
        assert all(np.isfinite(moment.variance) for moment in model.class_moments("v").values())


def test_a_value_infinitely_unlikely_of_every_class_is_the_same_of_each():
    model = NaiveBayes()
    for value, label in [(1e-100, "a"), (3e-100, "a"), (5e-100, "b"), (9e-100, "b")]:
        model.learn_one({"v": value}, label)
    assert all(math.isfinite(joint) for joint in model.joint_log_likelihood({"v": 1e140}).values())
    assert math.isclose(sum(model.predict_proba_one({"v": 1e140}).values()), 1.0)


@given(st.integers(1, 60), st.integers(0, 30))
def test_many_classes_and_rows_keep_their_places(classes, words):
    """Growth in both directions, in any order, moves no count."""
    model = NaiveBayes({"body": "text", "subject": Text(event_model="bernoulli")})
    for k in range(classes):
        text = " ".join(f"w{(k * 7 + i) % (words + 1)} own{k}" for i in range(words % 5 + 1))
        model.learn_one({"body": text, "subject": text}, k)
    for k in range(classes):
        for name in ("body", "subject"):
            assert model.class_counts(name)[f"own{k}"] == {k: words % 5 + 1 if name == "body" else 1}
        assert model.class_weights[k] == 1


def test_smoothing_and_priors_can_change_without_relearning():
    rows = [({"body": "a b b", "subject": "a"}, "x", 1.0), ({"body": "b c", "subject": "c"}, "y", 2.0)]
    spec = {"body": Text(), "subject": Text(event_model="bernoulli")}  # smoothed by the model's alpha
    model = NaiveBayes(spec)
    for row in rows:
        model.learn_one(*row)
    query = {"body": "b c", "subject": "a c"}
    model.predict_proba_one(query)
    for alpha in (0.1, 5.0, 0.0):
        model.alpha = alpha
        model.prior = "uniform"
        fresh = NaiveBayes(spec, alpha=alpha, prior="uniform")
        for row in rows:
            fresh.learn_one(*row)
        assert model.joint_log_likelihood(query) == fresh.joint_log_likelihood(query)


def test_merging_unlike_models_is_refused():
    with pytest.raises(ValueError, match="same class and parameters"):
        new(1.0).merge(new(2.0))


@given(EXAMPLES, EVENT, st.integers(0, 3), st.integers(0, 3), st.one_of(st.none(), st.integers(0, 12)))
def test_pruning_equals_learning_without_the_words(rows, x, min_count, drop, most):
    model = taught(rows)
    before = learned(model)
    forgotten = model.prune(min_count=min_count, drop_most_frequent=drop, max_attributes=most)
    assert model.n_attributes == before[3] - forgotten
    kept = {name: set(counts) for name, counts in learned(model)[1].items()}
    for name in ("colour", "late"):
        assert kept[name] == set(before[1][name])
    words = [
        (name, word, sum(c.values())) for name in ("body", "subject") for word, c in before[1][name].items()
    ]
    gone = [count for name, word, count in words if word not in kept[name]]
    stay = [count for name, word, count in words if word in kept[name]]
    assert len(gone) == forgotten
    assert all(count >= min_count for count in stay)
    if most is not None:
        assert model.n_attributes <= max(most, len(kept["colour"]) + len(kept["late"]))
    elif gone and stay and drop == 0:
        assert max(gone) < min_count

    def without(event):
        return {
            name: " ".join(w for w in words_of(value) if w in kept[name])
            if name in ("body", "subject")
            else value
            for name, value in event.items()
        }

    again = taught([(without(row), y, w) for row, y, w in rows])
    assert learned(again)[1] == learned(model)[1]
    assert model.joint_log_likelihood(x) == pytest.approx(again.joint_log_likelihood(without(x)), rel=1e-9)


def test_stop_words_stay_stopped_and_rare_words_may_return():
    model = taught([({"body": "the the the cat cat dog"}, "a", 1.0)])
    assert model.prune(min_count=2, drop_most_frequent=1) == 2
    assert set(model.class_counts("body")) == {"cat"}
    model.learn_one({"body": "the dog"}, "a")
    assert model.class_counts("body") == {"cat": {"a": 2.0}, "dog": {"a": 1.0}}
    restarted = new().load_state(*model.state())
    restarted.learn_one({"body": "the"}, "a")
    assert restarted.class_counts("body") == model.class_counts("body")
    other = taught([({"body": "the the cat"}, "a", 1.0)])
    with pytest.raises(ValueError, match="stop words"):
        other.merge(model)
    assert learned(model.merge(other))[1]["body"] == {"cat": {"a": 3.0}, "dog": {"a": 1.0}}
    learns = taught([({"body": "the the the cat cat dog"}, "a", 1.0)])
    learns.prune(min_count=2, drop_most_frequent=1)
    learns.learn_many([{"body": "the dog"}, {"body": "the the cat"}], ["a", "a"])
    assert bytes_of(model) == bytes_of(learns)  # as if its events had been learned here


def test_of_equally_rare_words_those_met_later_are_forgotten():
    model = taught([({"body": "d c b a", "colour": "r"}, "a", 1.0)])
    assert model.prune(max_attributes=3) == 2
    assert list(model.class_counts("body")) == ["d", "c"]


@pytest.mark.parametrize("x", [{}, {"text": "w w"}])
def test_counts_that_no_integer_holds_are_not_merged(x):
    model = NaiveBayes({"text": "text"})
    model.learn_one(x, "a", 2.0**20)
    for _ in range(31 if x else 32):
        model.merge(copy.deepcopy(model))
    before = bytes_of(model)
    with pytest.raises(ValueError, match="more than 4,503,599,627,370,496 words or examples"):
        model.merge(copy.deepcopy(model))
    assert bytes_of(model) == before
    assert model.predict_proba_one(x) == {"a": 1.0}


def test_models_pruned_alike_can_be_merged():
    rows = [({"colour": "r", "subject": "s", "body": "the the cat"}, "a", 1.0)]
    more = [({"body": "the the dog", "late": "x", "subject": "s"}, "b", 1.0)]
    models = [taught(rows), taught(more)]
    for model in models:
        assert model.prune(drop_most_frequent=1) == 1
    merged = models[0].merge(models[1])
    assert merged.statistics.vocabulary.size == 6  # the stop word is one row still
    merged.learn_one({"body": "the end", "subject": "the"}, "a")
    assert merged.class_counts("body") == {"cat": {"a": 1}, "dog": {"b": 1}, "end": {"a": 1}}
    assert merged.class_counts("subject") == {"s": {"a": 1, "b": 1}, "the": {"a": 1}}
    assert merged.class_counts("late") == {"x": {"b": 1}}


@pytest.mark.parametrize(
    ("x", "y", "w", "error", "says"),
    [
        ({"new": "group", "other": object()}, "new", 1.0, TypeError, "attribute 'other'"),
        ({"new": 1.5, "height": "tall"}, "new", 1.0, None, None),  # undeclared: a string is nominal
        ({"new": "group", "body": 5}, "new", 1.0, TypeError, "attribute 'body': expected a text"),
        ({"new": "group", "body": {"a": -1}}, "new", 1.0, ValueError, "attribute 'body': a weight or count"),
        ({"new": "group", "body": "\ud800"}, "new", 1.0, ValueError, "a lone surrogate is not text"),
        ({"new": "group"}, "new", -1.0, ValueError, "a weight or count must lie"),
        ({"new": "group"}, "new", math.nan, ValueError, "a weight or count must lie"),
        ({"new": "group"}, "new", 2.0**21, ValueError, "a weight or count must lie"),
        ({"new": "group"}, ["new"], 1.0, TypeError, "unhashable"),
    ],
)
def test_an_event_that_cannot_be_learned_leaves_no_trace(x, y, w, error, says):
    model = taught([({"body": "a", "colour": "r", "height": 1.0}, "x", 1.0)])
    before = bytes_of(model)
    if error is None:
        model.learn_one(x, y, w)
        assert bytes_of(model) != before
        return
    with pytest.raises(error, match=says):
        model.learn_many([{"body": "fine"}, x], ["x", y], [1.0, w])
    assert bytes_of(model) == before


@pytest.mark.parametrize("more", [([],), (["a"], [1.0, 1.0]), (["a"], None, [None, None])])
def test_labels_weights_and_times_are_as_many_as_the_events(more):
    model = taught([({"body": "a"}, "a", 1.0)])
    before = bytes_of(model)
    with pytest.raises(ValueError, match="1 events, but"):
        model.predict_then_learn_many([{"body": "a"}], *more)
    assert bytes_of(model) == before


def test_labels_of_one_model_may_be_of_any_hashable_type():
    model = NaiveBayes()
    labels = [True, "True", 2, 2.5, ("a", 1), None]
    for label in labels[:-1]:
        model.learn_one({"f": str(label)}, label)
    assert model.classes == labels[:-1]
    with pytest.raises(TypeError, match=r"\('a', 1\) cannot be saved"):
        model.state()
