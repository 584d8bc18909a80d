"""Counts that forget in event time, against 2^-((T - t) / h) for every example, and what no clock may do."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb import BayesOptimalNB, Hypothesis
from tests.models.mixture.test_hypotheses import EVENTS, KINDS, LABELS, MIXED, Recount, bytes_of, taught

LIKELIHOODS = ["multinomial", "presence", "complement"]
WEIGHTS = st.sampled_from([1, 1, 2, 0.5, 3.25])


def decaying(*half_lives, **more):
    return [Hypothesis(name, alpha=0.5, half_life=h, **more) for name in LIKELIHOODS for h in half_lives]


def new(hypotheses):
    return BayesOptimalNB(MIXED, hypotheses)


def said(model, x, t):
    """Hypothesis -> class -> log P_h(class, x) at time t."""
    joints = model._answer(model._encode([x], ts=[t]), joints=True).joints[0]
    return {
        h.label: {label: row[k] for label, k in model._known().items()}
        for h, row in zip(model.hypotheses, joints, strict=True)
    }


def assert_decays(hypotheses, rows, x, at, *, relative=1e-12):
    """Counts below 2^-1000 of the newest are nothing in a double: a class of such is compared as a loss."""
    model = taught(new(hypotheses), rows)
    found = said(model, x, at)
    for h in hypotheses:
        exact = Recount(h, KINDS, rows, at).joints(x)
        assert list(found[h.label]) == list(exact)
        for label, joint in exact.items():
            if joint > -600:
                got = found[h.label][label]
                assert got == pytest.approx(float(joint), rel=relative, abs=1e-11), (h.label, label)
            else:
                assert found[h.label][label] < -500
    return model


STEPS = st.lists(
    st.tuples(
        EVENTS,
        LABELS,
        WEIGHTS,
        # Sixty-fourths of a second: times and half-lives whose quotient is exact, whatever its size.
        st.one_of(st.none(), st.integers(-600, 12_000).map(lambda n: n / 64)),
    ),
    max_size=10,
)


@settings(max_examples=25)
@given(STEPS, EVENTS, st.one_of(st.none(), st.integers(0, 20_000).map(lambda n: n / 64)))
def test_an_example_counts_half_after_a_half_life(rows, x, at):
    """Events come late, without time and in any order; up to six epochs of the shortest half-life pass."""
    rows = [({k: v for k, v in e.items() if k != "height"}, y, w, t) for e, y, w, t in rows]
    x = {k: v for k, v in x.items() if k != "height"}
    assert_decays([*decaying(1.0, 2.0, 512.0), Hypothesis(prior="uniform", half_life=2.0)], rows, x, at)


VALUES = st.sampled_from([1.0, 2.0, 2.5, -3.0, 1e3, 1e6 + 0.5])


@settings(max_examples=60)
@given(
    st.lists(st.tuples(VALUES, st.sampled_from("ab"), WEIGHTS, st.integers(0, 200).map(float)), max_size=10),
    VALUES,
)
def test_moments_forget(values, value):
    """The digits are those of Welford.

    A variance of values so alike, or of which one is so old, has few digits in any arithmetic. After 98 half-lives
    what is left of another value is no spread any more (`statistics.moments`), which the oracle does not know.
    """
    rows = sorted((({"height": v}, y, w, t) for v, y, w, t in values), key=lambda row: row[3])
    for y in "ab":
        newest = [t for _, label, _, t in rows if label == y]
        rows = [row for row in rows if row[1] != y or row[3] > max(newest) - 8]
    rows = [row for row in rows if row[3] > rows[-1][3] - 80]
    assert_decays(decaying(1.0), rows, {"height": value}, None, relative=1e-8)


def gap_stream(gap, n=9):
    """Texts and values some time apart; the last word of each has been learned long ago or never."""
    texts = ["a b", "b c c", "a", "d d d a", "c", "b", "", "e a", "d"]
    return [
        ({"body": texts[i], "colour": "rgb"[i % 3], "height": 10.0 + i}, "xyz"[i % 3], 1 + i % 2, gap * i)
        for i in range(n)
    ]


@pytest.mark.parametrize("half_lives", [0.25, 8.0, 15.75, 16.0, 31.0, 32.0, 33.0, 64.0, 100.0])
def test_epochs_are_crossed_one_and_many_at_a_time(half_lives):
    """Rows of an older epoch are brought to the present when they are read, and when they are learned."""
    hypotheses = decaying(2.0) + decaying(64.0)
    rows = gap_stream(2.0 * half_lives)
    for n in range(2, len(rows) + 1):
        for x in ({"body": "a b c d e"}, {"colour": "r"}, {"body": "b b", "colour": "g"}):
            assert_decays(hypotheses, rows[:n], x, rows[n - 1][3] + half_lives)


def test_one_row_is_left_behind_while_others_go_on():
    """A word of the first epoch is learned again in a later one, after all else has moved on."""
    rows = [({"body": "old new"}, "x", 1, 0.0), ({"body": "old"}, "y", 2, 1.0)]
    rows += [({"body": "new"}, "xy"[i % 2], 1, 1.0 + 20.0 * i) for i in range(1, 5)]
    rows += [({"body": "old"}, "y", 1, 81.0), ({"body": "old new"}, "x", 1, 90.0)]
    for n in range(1, len(rows) + 1):
        assert_decays(decaying(1.0, 40.0), rows[:n], {"body": "old new new"}, None)


EXTREME = st.sampled_from([None, 0.0, 1.0, -5.0, 1.79e9, 1e12, 1e300, -1e300, 1e308, -1.7e308, 1e-300])
LARGE = st.sampled_from([0.0, 1.0, -1e140, 1e140, 1e300, 1e-140, 3.0])
ANY = st.lists(
    st.tuples(
        st.fixed_dictionaries(
            {},
            optional={
                "body": st.sampled_from(["a", "a b b", "", "c " * 300]),
                "colour": st.sampled_from("rg"),
                "height": LARGE,
            },
        ),
        st.one_of(st.none(), LABELS, LABELS),
        st.sampled_from([1, 2.0**20, 1 / 1024]),
        EXTREME,
    ),
    max_size=16,
)


@settings(max_examples=150)
@given(ANY, st.integers(1, 16))
def test_nothing_overflows_whatever_the_times_and_values(rows, cut):
    hypotheses = [*decaying(1e-3, 1.0, 1e300), *decaying(60.0, prior="uniform"), Hypothesis("bernoulli")]
    whole, parts = new(hypotheses), new(hypotheses)
    for start in range(0, len(rows), cut):
        parts.predict_then_learn_many(*zip(*rows[start : start + cut], strict=True))
    if rows:
        answer = whole.predict_then_learn_many(*zip(*rows, strict=True))
        sums = answer.probabilities.sum(axis=1)
        assert np.isfinite(answer.probabilities).all()
        assert np.isfinite(answer.hypotheses).all()
        learned_before = np.cumsum([0, *(y is not None for _, y, _, _ in rows[:-1])]) > 0
        np.testing.assert_allclose(sums, learned_before.astype(float), atol=1e-12)
        np.testing.assert_allclose(answer.hypotheses.sum(axis=1), 1.0, atol=1e-12)
    assert bytes_of(whole) == bytes_of(parts)
    for array in whole.state()[1].values():
        assert np.isfinite(array).all() or array.dtype.kind != "f"
    # As after every restart.
    assert bytes_of(new(hypotheses).load_state(*whole.state())) == bytes_of(whole)


@settings(max_examples=60)
@given(STEPS, EVENTS)
def test_what_hardly_forgets_is_what_does_not(rows, x):
    """To the last bit: a weight of 2^-1e-296 is 1."""
    lasting = [Hypothesis(name, alpha=0.5) for name in LIKELIHOODS]
    model = taught(new([*lasting, *decaying(1e300)]), rows)
    joints = list(model.joint_log_likelihoods(x).values())
    assert joints[:3] == joints[3:]


def test_without_times_nothing_is_forgotten():
    rows = [(x, y, w, None) for x, y, w, _ in gap_stream(1.0)]
    model = taught(new([Hypothesis(half_life=1e-3, alpha=0.5), Hypothesis(alpha=0.5)]), rows)
    decaying, lasting = model.joint_log_likelihoods({"body": "a c", "colour": "g", "height": 12.0}).values()
    assert decaying == lasting


@pytest.mark.parametrize("late", [None, math.nan, math.inf, -1e9, 0.0, 99.0])
def test_time_does_not_go_back(late):
    """An event that comes late, or at no time, counts as one of now; and now is then what it was."""
    hypotheses = decaying(10.0)
    rows = [({"body": "a"}, "x", 1, 0.0), ({"body": "b"}, "y", 1, 100.0)]
    came_late = taught(new(hypotheses), [*rows, ({"body": "a b"}, "x", 1, late)])
    in_time = taught(new(hypotheses), [*rows, ({"body": "a b"}, "x", 1, 100.0)])
    assert bytes_of(came_late) == bytes_of(in_time)
    for t in (late, 100.0):
        assert said(came_late, {"body": "a"}, t) == said(came_late, {"body": "a"}, None)
    assert said(came_late, {"body": "a"}, 110.0) != said(came_late, {"body": "a"}, None)


def test_asking_about_the_future_leaves_the_present_as_it_is():
    model = taught(new(decaying(1.0)), gap_stream(3.0))
    before, x = bytes_of(model), {"body": "a b d", "height": 3.0}
    now = said(model, x, None)
    assert said(model, x, 1e6) != now
    model.predict_then_learn_many([x], [None], ts=[1e6])
    assert said(model, x, None) == now
    assert {**bytes_of(model)[0], "posterior": None} == {**before[0], "posterior": None}
    assert bytes_of(model)[1] == before[1]


@pytest.mark.parametrize("half_lives", [0.5, 20.0, 40.0])
def test_words_pruned_are_forgotten_in_every_epoch(half_lives):
    hypotheses = decaying(1.0, 30.0)
    rows = gap_stream(half_lives)
    model = taught(new(hypotheses), rows)
    model.prune(min_count=4)
    kept = set(model.class_counts("body"))
    assert 0 < len(kept) < 5
    left = [
        ({**x, "body": " ".join(w for w in x["body"].split() if w in kept)}, y, w, t) for x, y, w, t in rows
    ]
    more = [({"body": "a d e", "colour": "b"}, "y", 1, rows[-1][3] + half_lives)]
    for learned in (left, left + more):
        if learned is not left:
            taught(model, more)
        found = model.joint_log_likelihoods({"body": "a b c d e"})
        for h in hypotheses:
            exact = {
                y: float(joint)
                for y, joint in Recount(h, KINDS, learned).joints({"body": "a b c d e"}).items()
            }
            assert found[h.label] == pytest.approx(exact, rel=1e-11)


def test_moments_of_long_ago_are_gone_and_large_ones_keep_their_digits():
    hypotheses = [Hypothesis(half_life=1.0)]
    rows = [({"height": 1e9 + i % 7}, "xy"[i % 2], 1, i / 4) for i in range(400)]
    assert_decays(hypotheses, rows, {"height": 1e9 + 2.5}, None, relative=1e-7)
    later = [({"height": float(i % 5)}, "xy"[i % 2], 1, 5000.0 + i / 4) for i in range(40)]
    model = taught(new(hypotheses), rows + later)
    fresh = taught(new(hypotheses), later)
    for value in (0.0, 3.5):
        (old,), (young,) = (m.joint_log_likelihoods({"height": value}).values() for m in (model, fresh))
        assert old == pytest.approx(young, rel=1e-12)


@pytest.mark.parametrize("half_life", [0.0, -1.0, 1e-4, math.inf, math.nan])
def test_half_lives_that_are_none_are_refused(half_life):
    with pytest.raises(ValueError, match="half_life"):
        Hypothesis(half_life=half_life)


def test_bernoulli_does_not_forget():
    with pytest.raises(ValueError, match="not for the bernoulli likelihood"):
        Hypothesis("bernoulli", half_life=1.0)
