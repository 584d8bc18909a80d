"""Concept learning: against enumeration with fractions, and the laws of its counts."""

from __future__ import annotations

import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from river import multiclass

from streamnb import (
    BayesOptimalClassifier,
    CategoricalNB,
    ConceptLearner,
    Conjunction,
    Conjunctions,
    FindS,
    SequentialPosterior,
    VersionSpace,
)
from streamnb.errors import SmallWeightWarning, SnapshotError, UnlearnError
from streamnb.toolbox.concepts.conjunctions import MOST_HYPOTHESES
from tests.oracles import concept_oracle as oracle
from tests.support.states import bytes_of, through_a_snapshot

pytestmark = pytest.mark.thorough

law = settings(deadline=None, max_examples=150)
VALUES = ["u", "v", 3, True]
MISSING = [None, math.nan, math.inf, -math.inf]
SPACES = st.dictionaries(
    st.sampled_from("abc"),
    st.lists(st.sampled_from(VALUES), min_size=1, max_size=3, unique_by=oracle.text),
    min_size=1,
)
NOISES = st.sampled_from([Fraction(0), Fraction(1, 16), Fraction(1, 4), Fraction(1, 2)])  # exact as doubles


@st.composite
def instances(draw, attributes, *, complete=False):
    """An event: declared values, others, and missing ones of all kinds; some attributes nobody declared."""
    if complete:
        return {name: draw(st.sampled_from(values)) for name, values in attributes.items()}
    x = {}
    for name in draw(st.lists(st.sampled_from([*attributes, "z"]), unique=True)):
        x[name] = draw(
            st.sampled_from([*attributes.get(name, []), *attributes.get(name, []), "new", 7.5, *MISSING])
        )
    return x


@st.composite
def streams(draw, *, complete=False, most=8):
    """A space, and examples (x, is positive, weight) of it."""
    attributes = draw(SPACES)
    example = st.tuples(
        instances(attributes, complete=complete),
        st.booleans(),
        st.just(1) if complete else st.sampled_from([1, 1, 2, 5]),
    )
    return attributes, draw(st.lists(example, max_size=most))


def taught(attributes, examples, **keywords):
    learner = ConceptLearner(Conjunctions(attributes), **keywords)
    for x, y, w in examples:
        learner.learn_one(x, y, w)
    return learner


def as_conjunction(h):
    if h == oracle.NOTHING:
        return Conjunction(None)
    return Conjunction({name: value for name, value in h.items() if value is not oracle.ANY})


# -- against enumeration ------------------------------------------------------------------------------------


@given(SPACES, st.data())
@law
def test_a_space_is_all_conjunctions_and_the_empty_one(attributes, data):
    space, expected = Conjunctions(attributes), oracle.hypotheses(attributes)
    x = data.draw(instances(attributes))
    assert space.size == len(expected) == 1 + math.prod(1 + len(values) for values in attributes.values())
    covering, undecided = (numbers.tolist() for numbers in space.judge(x))
    assert len(set(covering + undecided)) == len(covering + undecided)
    for i, h in enumerate(expected):
        conjunction = as_conjunction(h)
        assert space.hypothesis(i) == conjunction
        assert space.number(conjunction) == i
        assert conjunction.covers(x) is oracle.says(h, x)
        assert oracle.says(h, x) is (True if i in covering else None if i in undecided else False)
        for other in expected:
            assert conjunction.is_more_general_or_equal(
                as_conjunction(other)
            ) == oracle.more_general_or_equal(h, other)


@given(streams(), NOISES, st.data())
@law
def test_posterior_evidence_and_prediction_are_those_of_enumeration(case, noise, data):
    attributes, examples = case
    H = len(oracle.hypotheses(attributes))
    relative = data.draw(
        st.one_of(st.none(), st.lists(st.integers(0, 4), min_size=H, max_size=H).filter(any)), label="prior"
    )
    x = data.draw(instances(attributes))
    total = sum(relative) if relative else H
    prior = [Fraction(p, total) for p in relative or [1] * H]
    joint = oracle.joint(attributes, prior, noise, examples)
    learner = taught(
        attributes, examples, noise=float(noise), prior="uniform" if relative is None else relative
    )
    evidence = sum(joint)
    if evidence == 0:
        assert learner.log_evidence == -math.inf
        return
    assert learner.log_evidence == pytest.approx(math.log(evidence), rel=1e-12, abs=1e-12)
    assert float(learner.evidence) == pytest.approx(float(evidence), rel=1e-11)
    assert learner.posterior.tolist() == pytest.approx([float(p / evidence) for p in joint], rel=1e-11)
    assert list(learner.probabilities.values()) == learner.posterior.tolist()
    likeliest = learner.probabilities[learner.map()]
    assert likeliest == max(learner.probabilities.values())
    yes = oracle.joint(attributes, prior, noise, [*examples, (x, True, 1)])
    no = oracle.joint(attributes, prior, noise, [*examples, (x, False, 1)])
    assert learner.predict_proba_one(x) == pytest.approx(
        {False: float(sum(no) / evidence), True: float(sum(yes) / evidence)}, rel=1e-12
    )
    n = data.draw(st.integers(0, H + 2), label="n")
    in_order = sorted(learner.probabilities.items(), key=lambda item: -item[1])  # of equals the first
    assert learner.most_probable(n) == in_order[:n]
    likelihoods = oracle.joint(attributes, [Fraction(p > 0) for p in prior], noise, examples)
    best = likelihoods[learner.hypotheses.number(learner.ml())]
    assert float(best) == pytest.approx(float(max(likelihoods)), rel=1e-12)


@given(streams(), st.data())
@law
def test_without_noise_evidence_and_votes_are_exact_fractions(case, data):
    attributes, examples = case
    x = data.draw(instances(attributes))
    members = [h for h in oracle.hypotheses(attributes) if oracle.consistent(h, examples)]
    learner = taught(attributes, examples)
    space = learner.version_space
    joint = oracle.joint(attributes, [Fraction(1)] * learner.n_hypotheses, Fraction(0), examples)
    assert learner.evidence == sum(joint) / learner.n_hypotheses
    assert list(space) == [as_conjunction(h) for h in members]
    assert len(space) == len(members)
    assert all((as_conjunction(h) in space) == (h in members) for h in oracle.hypotheses(attributes))
    specific, general = oracle.boundaries(members)
    assert space.specific == [as_conjunction(h) for h in specific]
    assert space.general == [as_conjunction(h) for h in general]
    if members:
        votes = {True: Fraction(1), False: Fraction(0), None: Fraction(1, 2)}
        assert space.vote(x) == sum(votes[oracle.says(h, x)] for h in members) / len(members)
    else:
        with pytest.raises(ValueError, match="version space is empty"):
            space.vote(x)


@given(streams(complete=True))
@law
def test_boundaries_are_those_of_candidate_elimination(case):
    attributes, examples = case
    S, G = oracle.candidate_elimination(attributes, examples)
    space = taught(attributes, examples).version_space
    assert set(space.specific) == {as_conjunction(h) for h in S}
    assert set(space.general) == {as_conjunction(h) for h in G}
    inside = [
        h
        for h in oracle.hypotheses(attributes)
        if any(oracle.more_general_or_equal(h, s) for s in S)
        and any(oracle.more_general_or_equal(g, h) for g in G)
    ]
    assert list(space) == [as_conjunction(h) for h in inside]


@given(streams(), NOISES)
@law
def test_it_is_the_sequential_posterior(case, noise):
    attributes, examples = case
    space = Conjunctions(attributes)
    one_by_one = SequentialPosterior(range(space.size))
    learner = ConceptLearner(space, noise=float(noise))
    logs = {True: math.log(1 - noise), False: math.log(noise) if noise else -math.inf, None: math.log(0.5)}
    for x, y, _ in examples:
        answers = [space.hypothesis(i).covers(x) for i in range(space.size)]
        row = [logs[None if answer is None else answer == y] for answer in answers]
        if np.max(row + one_by_one.weights.log_posterior) == -math.inf:
            return
        predicted = learner.predict_proba_one(x)[y]
        assert math.exp(one_by_one.update_log(row)) == pytest.approx(predicted, rel=1e-11)
        learner.learn_one(x, y)
        assert learner.posterior.tolist() == pytest.approx(list(one_by_one.probabilities.values()), abs=1e-13)
        assert learner.log_evidence == pytest.approx(one_by_one.log_evidence, rel=1e-12, abs=1e-12)


# -- laws ---------------------------------------------------------------------------------------------------


@given(streams(), NOISES, st.randoms(use_true_random=False))
@law
def test_order_does_not_matter(case, noise, random):
    attributes, examples = case
    shuffled = random.sample(examples, len(examples))
    one, other = (taught(attributes, rows, noise=float(noise)) for rows in (examples, shuffled))
    assert bytes_of(one) == bytes_of(other)
    assert one.posterior.tobytes() == other.posterior.tobytes()
    assert one.log_evidence == other.log_evidence


@given(streams(), st.data())
@law
def test_unlearning_is_the_inverse_of_learning(case, data):
    attributes, examples = case
    assume(examples)
    gone = data.draw(st.integers(0, len(examples) - 1))
    learner = taught(attributes, examples)
    learner.map()
    learner.unlearn_one(*examples[gone])
    rest = taught(attributes, examples[:gone] + examples[gone + 1 :])
    assert bytes_of(learner) == bytes_of(rest)
    assert learner.posterior.tolist() == rest.posterior.tolist()


@given(streams(), st.data())
@law
def test_what_was_never_learned_is_not_unlearned(case, data):
    """Whatever is undone, counts stay those of some examples; what is refused changes nothing."""
    attributes, examples = case
    learner = taught(attributes, examples)
    weight = sum(w for _, _, w in examples)
    x, y = data.draw(instances(attributes)), data.draw(st.booleans())
    before = bytes_of(learner)
    with pytest.raises(UnlearnError):
        learner.unlearn_one(x, y, weight + 1)
    assert bytes_of(learner) == before
    with pytest.raises(UnlearnError):
        learner.unlearn_one(x, y, sum(w for _, truth, w in examples if truth == y) + 1)
    assert bytes_of(learner) == before
    try:
        learner.unlearn_one(x, y)
    except UnlearnError:
        assert bytes_of(learner) == before
    else:
        assert learner._counts.disagreements().min() >= 0
        learner.learn_one(x, y)
        assert bytes_of(learner) == before


def test_another_instance_is_not_unlearned():
    learner = taught({"a": ["u", "v"]}, [({"a": "u"}, True, 1)])
    for wrong in ({"a": "v"}, {}, {"a": "new"}):
        with pytest.raises(UnlearnError):
            learner.unlearn_one(wrong, y=True)
    learner.unlearn_one({"a": "u"}, y=True)
    assert bytes_of(learner) == bytes_of(taught({"a": ["u", "v"]}, []))


@given(streams(), st.integers(0, 8), NOISES)
@law
def test_a_restart_is_no_restart(case, cut, noise):
    attributes, examples = case
    through = taught(attributes, examples, noise=float(noise))
    stopped = taught(attributes, examples[:cut], noise=float(noise))
    resumed = ConceptLearner(Conjunctions(attributes), noise=float(noise))
    resumed.learn_one({}, y=True)
    assert resumed.load_state(*through_a_snapshot(stopped)) is resumed
    for x, y, w in examples[cut:]:
        resumed.learn_one(x, y, w)
    assert bytes_of(resumed) == bytes_of(through)
    assert resumed.posterior.tobytes() == through.posterior.tobytes()


@given(streams(), st.data())
@law
def test_reading_changes_nothing(case, data):
    attributes, examples = case
    learner = taught(attributes, examples)
    before = pickle.dumps(learner)
    x = data.draw(instances(attributes))
    first = learner.predict_proba_one(x), learner.map(), learner.log_evidence, learner.posterior.tolist()
    learner.posterior[:] = 0.0
    list(learner.version_space)
    assert first == (
        learner.predict_proba_one(x),
        learner.map(),
        learner.log_evidence,
        learner.posterior.tolist(),
    )
    assert pickle.dumps(learner) == before
    twin = copy.deepcopy(learner)
    twin.learn_one(x, y=True)
    assert bytes_of(learner) != bytes_of(twin)


def test_a_version_space_stays_as_it_was_asked_for():
    learner = taught({"a": ["u", "v"]}, [])
    space = learner.version_space
    learner.learn_one({"a": "u"}, y=True)
    assert len(space) == 4
    assert list(learner.version_space) == [Conjunction({}), Conjunction({"a": "u"})]


# -- noise, priors, weights ---------------------------------------------------------------------------------


def test_no_noise_is_the_limit_of_little_noise():
    """A collapsed version space: the hypotheses of least disagreement are left, by their prior."""
    attributes = {"a": ["u", "v"], "b": ["u", "v"]}
    exclusive_or = [({"a": a, "b": b}, a != b, 1) for a in "uv" for b in "uv"]
    for prior in ("uniform", "specific"):
        limit, near = (taught(attributes, exclusive_or, noise=noise, prior=prior) for noise in (0.0, 1e-12))
        assert len(limit.version_space) == 0
        assert limit.log_evidence == -math.inf
        assert limit.posterior.tolist() == pytest.approx(near.posterior.tolist(), abs=1e-11)
        assert sum(p > 0 for p in limit.posterior) == 2, "one error each: the two of one positive example"
        assert limit.predict_proba_one({"a": "u", "b": "v"}) == pytest.approx({True: 0.5, False: 0.5})
    assert taught(attributes, exclusive_or).evidence == 0


def test_noise_may_be_changed_at_any_time():
    attributes, examples = {"a": ["u", "v"]}, [({"a": "u"}, True, 3), ({"a": "v"}, True, 1)]
    learner = taught(attributes, examples, noise=0.25)
    learner.map()
    learner.noise = 0.0625
    assert learner.posterior.tolist() == taught(attributes, examples, noise=0.0625).posterior.tolist()
    learner.noise = 0.7
    with pytest.raises(ValueError, match="noise"):
        learner.predict_proba_one({"a": "u"})


def test_half_of_the_labels_flipped_tell_nothing():
    learner = taught({"a": ["u", "v"]}, [({"a": "u"}, True, 1000)], noise=0.5, prior=[1, 2, 3, 4])
    assert learner.posterior.tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4], rel=1e-15)
    assert learner.predict_proba_one({"a": "u"}) == pytest.approx({True: 0.5, False: 0.5}, rel=1e-15)


def test_priors_of_any_size_and_in_any_form():
    space = Conjunctions({"a": ["u", "v"]})
    weights = {Conjunction({}): 1e-300, Conjunction({"a": "v"}): 1e300}
    learner = ConceptLearner(space, weights)
    assert learner.probability(Conjunction({"a": "v"})) == 1.0
    learner.learn_one({"a": "u"}, y=True)
    assert learner.map() == Conjunction({}), "the only one left of those with a prior"
    assert learner.log_evidence == pytest.approx(-600 * math.log(10), rel=1e-12)
    assert learner.predict_proba_one({"a": "v"}) == {True: 1.0, False: 0.0}
    assert learner.ml() == Conjunction({})
    array = ConceptLearner(space, np.array([0.0, 1e-300, 0.0, 1e300]))
    array.learn_one({"a": "u"}, y=True)
    assert array.posterior.tolist() == learner.posterior.tolist()
    learner.learn_one({"a": "u"}, y=False)
    assert learner.map() == Conjunction({"a": "v"}), (
        "all are wrong now, once each; those without prior do not count"
    )


def test_hypotheses_without_prior_have_no_part_in_the_limit():
    """One without prior agrees with all labels: the version space is not empty, and yet P(D) = 0."""
    space = Conjunctions({"a": ["u", "v"]})
    learner = ConceptLearner(space, {Conjunction(None): 1.0, Conjunction({"a": "v"}): 3.0})
    learner.learn_one({"a": "u"}, y=True)
    assert len(learner.version_space) == 2
    assert learner.log_evidence == -math.inf
    assert learner.posterior.tolist() == pytest.approx([0.25, 0.0, 0.0, 0.75], rel=1e-14)


def test_in_the_limit_nothing_outweighs_a_disagreement():
    """Four million examples that one cannot tell, against a thousandth that the other denies."""
    learner = ConceptLearner({"cannot tell": lambda _: None, "no": lambda _: False})
    for _ in range(4):
        learner.learn_one({}, y=False, w=2**20)
    assert learner.map() == "no"
    learner.learn_one({}, y=True, w=1 / 1024)
    assert learner.probabilities == {"cannot tell": 1.0, "no": 0.0}


def test_a_small_probability_is_not_rounded_away():
    """Of two hypotheses the unlikely one alone says no: 1e-30, not the rest of a difference."""
    learner = ConceptLearner({"yes": lambda _: True, "no": lambda _: False}, {"yes": 1.0, "no": 1e-30})
    assert learner.predict_proba_one({}) == pytest.approx({True: 1.0, False: 1e-30}, rel=1e-15)


def test_the_specific_prior_doubles_with_each_constraint():
    space = Conjunctions({"a": ["u", "v"], "b": ["u"]})
    learner = ConceptLearner(space, "specific")
    relative = {"nothing": 8, "anything": 1, "b=u": 2, "a=u": 2, "a=v": 2, "a=u & b=u": 4, "a=v & b=u": 4}
    expected = {h: p / sum(relative.values()) for h, p in relative.items()}
    assert {str(h): p for h, p in learner.probabilities.items()} == pytest.approx(expected, rel=1e-14)


def test_weights_count_in_steps():
    attributes, x = {"a": ["u", "v"]}, {"a": "u"}
    split, whole = taught(attributes, [(x, True, 0.25)] * 4), taught(attributes, [(x, True, 1)])
    assert split.posterior.tolist() == whole.posterior.tolist()
    assert split.class_weights == whole.class_weights == {True: 1.0, False: 0.0}
    assert (split.n_events, whole.n_events) == (4, 1)
    nothing = taught(attributes, [(x, True, 0)])
    nothing.unlearn_one(x, True, 0)
    assert bytes_of(nothing) == bytes_of(taught(attributes, []))
    with pytest.warns(SmallWeightWarning):
        least = taught(attributes, [(x, False, 1e-9)])
    assert least.class_weights == {True: 0.0, False: 1 / 1024}
    for wrong in (-1.0, math.nan, math.inf, 2.0**21):
        with pytest.raises(ValueError, match="weight"):
            nothing.learn_one(x, y=True, w=wrong)
    parts = taught(attributes, [({}, True, 0.5)])
    with pytest.raises(ValueError, match="part of an example"):
        _ = parts.evidence
    assert parts.log_evidence == pytest.approx(math.log((1 + 2 * math.sqrt(0.5)) / 4), rel=1e-14)


def test_a_long_stream_stays_finite_and_exact():
    """A hundred million examples of each kind: differences are still taken from integers."""
    learner = ConceptLearner(Conjunctions({"a": ["u", "v"]}), noise=0.125)
    everything, a_u = Conjunction({}), Conjunction({"a": "u"})
    kinds = [({"a": "u"}, True), ({"a": "v"}, True), ({}, False)]
    for x, y in kinds * 100:
        learner.learn_one(x, y, 2**20)
    assert learner.probabilities == {h: float(h == everything) for h in learner.probabilities}
    assert learner.log_evidence == pytest.approx(
        100 * 2**20 * math.log(0.875**2 * 0.125) - math.log(4), rel=1e-13
    )
    for x, y in kinds[1:] * 100:
        learner.unlearn_one(x, y, 2**20)
    learner.learn_one({"a": "v"}, y=True)
    assert learner.posterior.sum() == pytest.approx(1.0, rel=1e-15)
    assert learner.probability(everything) / learner.probability(a_u) == pytest.approx(7.0, rel=1e-12)


def test_gibbs_draws_from_the_posterior():
    learner = taught({"a": ["u", "v"]}, [({"a": "u"}, True, 1)])
    drawn = [learner.draw(i, seed=5) for i in range(4000)]
    assert drawn == [learner.draw(i, seed=5) for i in range(4000)]
    assert set(drawn) == {Conjunction({}), Conjunction({"a": "u"})}
    assert abs(drawn.count(Conjunction({})) / 4000 - 0.5) < 4.9 * math.sqrt(
        0.25 / 4000
    )  # false alarms 1 in 10^6


def test_a_large_space_is_a_formula():
    """A million conjunctions: posterior and votes have a closed form after one positive example."""
    attributes = {f"a{i}": ["u", "v", "w"] for i in range(10)}
    learner = ConceptLearner(Conjunctions(attributes))
    x = dict.fromkeys(attributes, "u")
    assert learner.map() == Conjunction(None), "of equals the first"
    assert learner.n_hypotheses == 4**10 + 1
    learner.learn_one(x, y=True)
    assert learner.evidence == Fraction(2**10, 4**10 + 1)
    other = x | {"a3": "v", "a7": "w"}
    assert learner.predict_proba_one(other) == {True: 1 / 4, False: 3 / 4}
    learner.learn_one(other, y=False)
    assert len(learner.version_space) == 2**10 - 2**8
    assert [str(h) for h in learner.version_space.general] == ["a7=u", "a3=u"]
    learner.noise = 0.1
    H, one, both = 4**10 + 1, 2**10, 2**8  # those that cover one of the two, and both
    evidence = (0.81 * (one - both) + 0.09 * (both + H - 2 * one + both) + 0.01 * (one - both)) / H
    assert learner.log_evidence == pytest.approx(math.log(evidence), rel=1e-12)
    assert learner.probability(Conjunction({"a3": "u"})) == pytest.approx(0.81 / H / evidence, rel=1e-12)


# -- hypotheses that are functions --------------------------------------------------------------------------


def test_functions_are_hypotheses_by_their_name():
    learner = ConceptLearner(
        {"low": lambda x: x["n"] < 5, "even": lambda x: x["n"] % 2 == 0, "?": lambda _: None}
    )
    learner.learn_one({"n": 2}, y=True)
    assert learner.probabilities == {"low": 0.4, "even": 0.4, "?": 0.2}
    assert learner.predict_proba_one({"n": 4}) == pytest.approx({True: 0.9, False: 0.1})
    learner.learn_one({"n": 3}, y=True)
    assert learner.map() == learner.ml() == "low"
    assert (learner.evidence, list(learner.version_space)) == (Fraction(5, 12), ["low", "?"])
    assert "even" not in learner.version_space
    assert "nobody" not in learner.version_space
    assert learner.version_space.vote({"n": 9}) == Fraction(1, 4)
    for boundary in ("specific", "general"):
        with pytest.raises(TypeError, match="order"):
            getattr(learner.version_space, boundary)
    with pytest.raises(TypeError, match="order"):
        ConceptLearner({"a": lambda _: True}, "specific")


@pytest.mark.parametrize("answer", ["no", 1, 0.0, math.nan, [True]], ids=repr)
def test_a_function_says_true_false_or_none(answer):
    learner = ConceptLearner({"fine": lambda _: True, "odd": lambda _: answer})
    for ask in (learner.predict_proba_one, lambda x: learner.learn_one(x, y=True)):
        with pytest.raises(TypeError, match="odd"):
            ask({})
    assert learner.n_events == 0
    assert ConceptLearner({"numpy": lambda _: np.bool_(True)}).predict_one({}) is True


def test_a_function_that_fails_fails_the_example_and_nothing_is_learned():
    learner = ConceptLearner({"all": lambda _: True, "needs n": lambda x: x["n"] > 0})
    learner.learn_one({"n": 1}, y=False)
    before = bytes_of(learner)
    with pytest.raises(KeyError):
        learner.learn_one({}, y=True)
    assert bytes_of(learner) == before


# -- labels, and what is refused ----------------------------------------------------------------------------


def test_labels_are_any_two_values():
    for positive, negative in (("spam", "ham"), (1, 0), (-1, 1), (False, True), (0.5, "half")):
        for learner in (
            ConceptLearner(Conjunctions({"a": ["u", "v"]}), positive=positive, negative=negative),
            FindS(positive, negative),
        ):
            assert list(learner.predict_proba_one({"a": "u"})) == [negative, positive]
            learner.learn_one({"a": "v"}, negative)
            learner.learn_one({"a": "u"}, positive)
            assert learner.predict_one({"a": "v"}) == negative
            assert learner.predict_one({"a": "u"}) == positive
            for other in ("third", None, math.nan, 17):
                with pytest.raises(ValueError, match="label"):
                    learner.learn_one({"a": "u"}, other)
                with pytest.raises(ValueError, match="label"):
                    (getattr(learner, "unlearn_one", None) or learner.learn_one)({"a": "u"}, other)


def test_of_equals_the_negative_label():
    assert FindS().predict_one({}) is False
    half = ConceptLearner(Conjunctions({"a": ["u", "v"]}), [0, 1, 1, 0])
    assert half.predict_proba_one({"a": "v"}) == {False: 0.5, True: 0.5}
    assert half.predict_one({"a": "v"}) is False


SPACE = Conjunctions({"a": ["u", "v"]})


@pytest.mark.parametrize(
    ("make", "error", "why"),
    [
        (lambda: Conjunctions({}), ValueError, "at least one attribute"),
        (lambda: Conjunctions({"a": []}), ValueError, "at least one"),
        (lambda: Conjunctions({"a": [3, 3.0]}), ValueError, "different"),
        (lambda: Conjunctions({"a": [None]}), TypeError, "NoneType"),
        (lambda: Conjunctions(dict.fromkeys(range(24), "u")), ValueError, "more than"),
        (lambda: Conjunction({"a": ["u"]}), TypeError, "list"),
        (lambda: ConceptLearner({}), ValueError, "at least one hypothesis"),
        (lambda: ConceptLearner(SPACE, noise=-0.1), ValueError, "noise"),
        (lambda: ConceptLearner(SPACE, noise=0.51), ValueError, "noise"),
        (lambda: ConceptLearner(SPACE, noise=math.nan), ValueError, "noise"),
        (lambda: ConceptLearner(SPACE, positive="a", negative="a"), ValueError, "two labels"),
        (lambda: ConceptLearner(SPACE, positive=1, negative=True), ValueError, "two labels"),
        (lambda: FindS(None), ValueError, "two labels"),
        (lambda: ConceptLearner(SPACE, "general"), ValueError, "prior"),
        (lambda: ConceptLearner(SPACE, [1.0, 1.0]), ValueError, "shape"),
        (lambda: ConceptLearner(SPACE, [0.0] * 4), ValueError, "not all zero"),
        (lambda: ConceptLearner(SPACE, [1.0, 1.0, 1.0, -1.0]), ValueError, "negative"),
        (lambda: ConceptLearner(SPACE, [1.0, 1.0, 1.0, math.inf]), ValueError, "finite"),
        (lambda: ConceptLearner(SPACE, {}), ValueError, "not all zero"),
        (lambda: ConceptLearner(SPACE, {Conjunction({"b": "u"}): 1.0}), ValueError, "not a hypothesis of the space"),
        (lambda: ConceptLearner(SPACE).most_probable(-1), ValueError, "-1"),
        (lambda: SPACE.hypothesis(4), IndexError, "4"),
        (lambda: SPACE.hypothesis(-1), IndexError, "-1"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(make, error, why):
    with pytest.raises(error, match=why):
        make()
    assert Conjunctions(dict.fromkeys(range(23), "u")).size <= MOST_HYPOTHESES


@pytest.mark.parametrize("other", ["a=u", None, 1])
def test_what_is_no_conjunction_is_none_of_the_hypotheses(other):
    learner = ConceptLearner(SPACE)
    assert other not in learner.version_space
    with pytest.raises(KeyError, match=repr(other)):
        learner.probability(other)
    with pytest.raises(ValueError, match="not a hypothesis"):
        ConceptLearner(SPACE, {other: 1.0})


def test_values_that_are_none_are_refused_and_nothing_is_learned():
    for learner in (ConceptLearner(SPACE), FindS()):
        learner.learn_one({"a": "u"}, y=True)
        before = learner.state()[0]
        with pytest.raises(TypeError, match="list"):
            learner.learn_one({"a": ["u"]}, y=True)
        assert learner.state()[0] == before
    ConceptLearner(SPACE).learn_one({"undeclared": ["u"], "a": 10**400}, y=True)


# -- states -------------------------------------------------------------------------------------------------


def without(meta, name):
    return {key: value for key, value in meta.items() if key != name}


STATES = {
    "another class": lambda meta, arrays: (meta | {"type": "FindS"}, arrays),
    "other labels": lambda meta, arrays: (meta | {"labels": ["no", "yes"]}, arrays),
    "other hypotheses": lambda meta, arrays: (meta | {"hypotheses": {"attributes": [["a", ["u"]]]}}, arrays),
    "no total": lambda meta, arrays: (without(meta, "total"), arrays),
    "a huge total": lambda meta, arrays: (meta | {"total": 2**63}, arrays),
    "a fraction": lambda meta, arrays: (meta | {"positives": 0.5}, arrays),
    "more positives than examples": lambda meta, arrays: (meta | {"positives": 4096}, arrays),
    "examples without weight": lambda meta, arrays: (meta | {"total": 0, "positives": 0}, arrays),
    "no margin": lambda meta, arrays: (meta, {"undecided": arrays["undecided"]}),
    "another array": lambda meta, arrays: (meta, arrays | {"more": arrays["margin"]}),
    "a shape": lambda meta, arrays: (meta, arrays | {"margin": arrays["margin"][:3]}),
    "a type": lambda meta, arrays: (meta, arrays | {"margin": arrays["margin"].astype(float)}),
    "too few disagreements": lambda meta, arrays: (meta, arrays | {"margin": arrays["margin"] - 1025}),
    "too many": lambda meta, arrays: (meta, arrays | {"margin": arrays["margin"] + 4096}),
    "an overflow": lambda meta, arrays: (meta, arrays | {"margin": arrays["margin"] + (2**63 - 1)}),
    "undecided below zero": lambda meta, arrays: (meta, arrays | {"undecided": arrays["undecided"] - 1025}),
    "undecided too often": lambda meta, arrays: (meta, arrays | {"undecided": arrays["undecided"] + 1024}),
}


@pytest.mark.parametrize("damage", STATES.values(), ids=STATES)
def test_a_state_that_is_none_is_refused_and_nothing_is_changed(damage):
    learner = taught({"a": ["u", "v"]}, [({"a": "u"}, True, 1), ({}, False, 1)])
    before = bytes_of(learner)
    with pytest.raises(SnapshotError):
        learner.load_state(*damage(*learner.state()))
    assert bytes_of(learner) == before


def test_states_of_functions_know_them_by_name():
    learner = ConceptLearner({"a": lambda _: True, "b": lambda _: False})
    learner.learn_one({}, y=True)
    again = ConceptLearner({"a": lambda _: True, "b": lambda _: False}).load_state(
        *through_a_snapshot(learner)
    )
    assert again.map() == "a"
    with pytest.raises(SnapshotError):
        ConceptLearner({"b": lambda _: True, "a": lambda _: False}).load_state(*learner.state())


@pytest.mark.parametrize(
    "model",
    [
        ConceptLearner({("a", 1): lambda _: True}),
        ConceptLearner(Conjunctions({("a", 1): ["u"]})),
        ConceptLearner(SPACE, positive=("yes",)),
        FindS(positive=("yes",)),
    ],
    ids=["function", "attribute", "label", "label of find-s"],
)
def test_names_that_json_has_no_form_for_are_not_saved(model):
    with pytest.raises(TypeError, match="cannot be saved"):
        model.state()


# -- FIND-S -------------------------------------------------------------------------------------------------


def find_s(examples):
    model = FindS()
    for x, y, *_ in examples:
        model.learn_one(x, y)
    return model


@given(streams(complete=True))
@law
def test_find_s_is_the_map_learner_of_a_prior_that_favours_specific_hypotheses(case):
    """Wherever the target is a conjunction and the labels are right; and one MAP hypothesis under the uniform."""
    attributes, examples = case
    found = find_s(examples).hypothesis
    specific, uniform = (taught(attributes, examples, prior=prior) for prior in ("specific", "uniform"))
    if len(specific.version_space):
        assert specific.map() == found
        assert specific.version_space.specific == [found]
        assert uniform.probability(found) == uniform.probability(uniform.map())
    else:
        assert found not in specific.version_space
    covered = [x for x, y, _ in examples if y]
    assert all(found.covers(x) for x in covered)
    alone = taught(attributes, [(x, y, w) for x, y, w in examples if y], prior="specific")
    assert alone.map() == found, "negative examples teach it nothing"


@given(streams(), st.randoms(use_true_random=False))
@law
def test_find_s_knows_no_order(case, random):
    _, examples = case
    whole = find_s(examples)
    assert find_s(random.sample(examples, len(examples))).state() == whole.state()


@given(streams(), st.integers(0, 8), st.data())
@law
def test_find_s_restarts(case, cut, data):
    attributes, examples = case
    resumed = find_s([({"old": "u"}, True)]).load_state(*through_a_snapshot(find_s(examples[:cut])))
    for x, y, _ in examples[cut:]:
        resumed.learn_one(x, y)
    assert resumed.state() == find_s(examples).state()
    x = data.draw(instances(attributes))
    assert resumed.predict_proba_one(x) == find_s(examples).predict_proba_one(x)


def test_what_is_missing_drops_no_constraint_and_tells_nothing():
    model = find_s([({"a": "u", "b": None}, True), ({"b": "v", "c": math.nan}, True), ({"a": "v"}, False)])
    assert model.hypothesis == Conjunction({"a": "u", "b": "v"})
    assert model.predict_proba_one({"a": "u"}) == {True: 0.5, False: 0.5}
    assert model.predict_proba_one({"a": "v"}) == {True: 0.0, False: 1.0}
    assert model.predict_proba_one({"a": "u", "b": "v", "c": 1e300}) == {True: 1.0, False: 0.0}


@pytest.mark.parametrize(
    "change",
    [
        {"type": "ConceptLearner"},
        {"labels": [0, 2]},
        {"positives": -1},
        {"positives": True},
        {"positives": 0},
        {"asked": None},
        {"asked": [["a"]]},
        {"asked": [["a", 3]]},
        {"asked": ["ab"]},
        {"asked": [{"a": 1, "b": 2}]},
        {"asked": [[None, "u"]]},
        {"asked": [["a", "u"], ["a", "v"]]},
    ],
    ids=str,
)
def test_a_state_that_find_s_cannot_have_is_refused(change):
    model = find_s([({"a": "u"}, True)])
    meta, arrays = model.state()
    with pytest.raises(SnapshotError):
        model.load_state(meta | change, arrays)
    with pytest.raises(SnapshotError):
        model.load_state(meta, {"more": np.zeros(1)})
    assert model.state() == (meta, arrays)


# -- as hypotheses of a mixture -----------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_the_bound_over_concepts_of_which_none_may_be_right(noise):
    """A fifth of the labels flipped: what is certain of itself is charged for it, the mixture hardly."""
    attributes = {name: ["u", "v", "w"] for name in "abc"}
    rng = np.random.default_rng(4)
    models = {
        "concepts": ConceptLearner(Conjunctions(attributes), noise=noise),
        "noisy": ConceptLearner(Conjunctions(attributes), "specific", 0.2),
        "find-s": FindS(),
        "bayes": CategoricalNB(),
    }
    model = BayesOptimalClassifier(models)
    total = 0.0
    for _ in range(300):
        x = {name: str(rng.choice(["u", "v", "w"])) for name in attributes}
        y = bool((x["a"] == "u") != (rng.random() < 0.2))
        total -= math.log(max(model.predict_proba_one(x).get(y, 0.0), 1e-15))
        model.learn_one(x, y)
    losses = model.posterior.losses
    assert total <= min(losses.values()) + math.log(4) + 1e-9
    assert model.posterior.regret() <= model.posterior.bound() + 1e-9
    assert model.posterior.map() == "noisy"
    assert losses["noisy"] == pytest.approx(-models["noisy"].log_evidence, rel=1e-9)
    assert losses["noisy"] < losses["bayes"] < losses["find-s"]


def test_a_concept_of_each_class():
    """River's one-vs-rest makes a concept of each of several labels."""
    model = multiclass.OneVsRestClassifier(ConceptLearner(Conjunctions({"a": ["u", "v", "w"]}), noise=0.01))
    for _ in range(5):
        for value, label in zip("uvw", "xyz", strict=True):
            model.learn_one({"a": value}, label)
    assert [model.predict_one({"a": value}) for value in "uvw"] == ["x", "y", "z"]
    assert math.fsum(model.predict_proba_one({"a": "new"}).values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "new", [lambda: ConceptLearner(SPACE, "specific", 0.1), FindS], ids=["concepts", "find-s"]
)
def test_a_clone_is_untrained_and_a_copy_is_trained(new):
    model = new()
    model.learn_one({"a": "u"}, y=True)
    clone, twin = model.clone(), model.clone(include_attributes=True)
    assert bytes_of(clone) == bytes_of(new()) != bytes_of(model)
    assert clone.predict_proba_one({"a": "u"}) == new().predict_proba_one({"a": "u"})
    assert twin.predict_proba_one({"a": "u"}) == model.predict_proba_one({"a": "u"})
    twin.learn_one({"a": "v"}, y=True)
    assert twin.predict_proba_one({"a": "v"}) != model.predict_proba_one({"a": "v"})


def test_a_version_space_of_a_space_and_a_mask():
    space = VersionSpace(SPACE, np.array([True, False, True, False]))
    assert list(space) == [Conjunction(None), Conjunction({"a": "u"})]
    assert space.specific == [Conjunction(None)]
    assert space.general == [Conjunction({"a": "u"})]


def test_a_space_is_no_label():
    """FIND-S needs no declared attributes: its first argument is a label."""
    with pytest.raises(TypeError, match="a label is a string, a number or a boolean, not a Conjunctions"):
        FindS(Conjunctions({"sky": ["sunny", "rainy"]}))
