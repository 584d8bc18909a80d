"""A state that is copied in slices while the model learns on is the state of the moment it was begun at."""

from __future__ import annotations

import copy as copies
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb import BayesOptimalNB, Hypothesis, NaiveBayes, Text
from streamnb.formats.snapshot_container import part_digest

WORDS = [f"w{i}" for i in range(300)]


def new_model():
    return NaiveBayes({"text": Text(), "subject": Text(event_model="bernoulli")})


def events(rng, n):
    return [
        {
            "text": " ".join(rng.choices(WORDS, k=rng.randrange(12))),
            "subject": rng.choice(WORDS),
            "colour": rng.choice("rgb"),
            "x": rng.gauss(0, 1),
        }
        for _ in range(n)
    ]


def learn(model, rng, n):
    xs = events(rng, n)
    model.learn_many(xs, [rng.choice("abcdef"[: 1 + n % 6]) for _ in xs])
    return xs


@given(
    seed=st.integers(0, 1000),
    before=st.integers(0, 40),
    steps=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 30)), max_size=12),
)
def test_what_is_learned_meanwhile_is_not_in_the_copy(seed, before, steps):
    rng = random.Random(seed)
    model = new_model()
    learn(model, rng, before)
    at_once = part_digest(*copies.deepcopy(model).state())
    copy = model.copying()
    for n_bytes, events in steps:
        copy.advance(n_bytes)
        learn(model, rng, events)
    assert part_digest(*copy.state()) == at_once


@pytest.mark.parametrize("change", ["prune", "merge", "unlearn", "load", "copy again"])
def test_whatever_else_changes_the_model_waits_for_the_copy(change):
    rng = random.Random(7)
    model, other = new_model(), new_model()
    learn(model, rng, 50)
    learn(other, rng, 50)
    x = {"text": "w1 w2 w1", "subject": "w3"}
    model.learn_one(x, "a")
    at_once = part_digest(*copies.deepcopy(model).state())
    copy = model.copying()
    copy.advance(1000)
    if change == "prune":
        assert model.prune(min_count=2, drop_most_frequent=3) > 0
    elif change == "merge":
        model.merge(other)
    elif change == "unlearn":
        model.unlearn_one(x, "a")
    elif change == "load":
        model.load_state(*other.state())
    else:
        model.copying().advance(10)
        learn(model, rng, 5)
    learn(model, rng, 20)
    assert part_digest(*copy.state()) == at_once


def test_a_slice_is_bounded_however_large_the_table():
    model = new_model()
    model.learn_many([{"text": " ".join(f"word{i}" for i in range(20_000))}], ["a"])
    copy = model.copying()
    steps = 0
    while not copy.advance(1 << 12):
        steps += 1
    _, arrays = copy.state()
    assert steps >= sum(array.nbytes for array in arrays.values()) // (1 << 12) - 20
    assert np.array_equal(arrays["table"], model.state()[1]["table"])


HYPOTHESES = [
    Hypothesis("bernoulli"),
    Hypothesis("complement", half_life=2.0),
    Hypothesis("presence", half_life=100.0),
    Hypothesis("multinomial"),
]


def new_frame():
    return BayesOptimalNB({"text": "text", "subject": "text"}, HYPOTHESES, 0.01, "gibbs")


def go_on(model, rng, n, t):
    """Learn n events, some of them without label or time; returns the time after them."""
    xs = events(rng, n)
    ts = [t + i * rng.choice([0.0, 1.0, 40.0]) for i in range(n)]
    ys = [rng.choice(["a", "b", "c", None][: 2 + n % 3]) for _ in xs]
    model.predict_then_learn_many(xs, ys, ts=[rng.choice([t, t, None]) for t in ts])
    return max([t, *ts])


@given(
    seed=st.integers(0, 1000),
    before=st.integers(0, 40),
    steps=st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 30)), max_size=12),
)
def test_posterior_presence_and_what_forgets_are_of_the_same_moment(seed, before, steps):
    rng = random.Random(seed)
    model = new_frame()
    t = go_on(model, rng, before, 0.0)
    twin = copies.deepcopy(model)
    at_once = part_digest(*twin.state())
    copy = model.copying()
    for n_bytes, events in steps:
        copy.advance(n_bytes)
        t = go_on(model, rng, events, t)
    assert part_digest(*copy.state()) == at_once
    again = new_frame().load_state(*copy.state())
    go_on(again, random.Random(1), 20, t)
    go_on(twin, random.Random(1), 20, t)
    assert part_digest(*again.state()) == part_digest(*twin.state())


@pytest.mark.parametrize("change", ["prune", "unlearn", "load"])
def test_whatever_else_changes_the_frame_waits_for_the_copy(change):
    rng = random.Random(7)
    lasting = [h for h in HYPOTHESES if h.half_life is None]
    model, other = (BayesOptimalNB({"text": "text", "subject": "text"}, lasting) for _ in range(2))
    for each in (model, other):
        go_on(each, rng, 50, 0.0)
    x = {"text": "w1 w2 w1", "subject": "w3"}
    model.learn_one(x, "a")
    at_once = part_digest(*copies.deepcopy(model).state())
    copy = model.copying()
    copy.advance(1000)
    if change == "prune":
        assert model.prune(min_count=2, drop_most_frequent=3) > 0
    elif change == "unlearn":
        model.unlearn_one(x, "a")
    else:
        model.load_state(*other.state())
    go_on(model, rng, 20, 50.0)
    assert part_digest(*copy.state()) == at_once
