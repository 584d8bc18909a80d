"""Factors of any size, in any number and order: their product neither overflows nor underflows, nor loses digits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb import NaiveBayes, Nominal, Text
from tests.oracles.oracle import Recount


def taught(n, alpha, scale):
    """Two classes that know n nominal attributes, texts and numbers, each like the others."""
    model = NaiveBayes({f"t{i}": "text" for i in range(n)}, alpha=alpha)
    for value, label in [("u", "x"), ("u", "x"), ("v", "x"), ("v", "y")]:
        for number in (0.0, 1.0, 3.0) if label == "x" else (2.0, 7.0):
            model.learn_one(
                {name: found for i in range(n) for name, found in event(i, value, number * scale).items()},
                label,
            )
    return model


def event(i, value, number):
    return {f"n{i}": value, f"x{i}": number, f"t{i}": f"{value} " * 5}


@pytest.mark.parametrize("scale", [1.0, 1e-120, 1e-150, 1e120, 1e150])
@pytest.mark.parametrize("alpha", [1.0, 1e-9, 1e-100, 1e50, 1e100])
@pytest.mark.parametrize("n", [1, 3, 50])
def test_each_attribute_says_the_same_beside_others_as_alone(n, alpha, scale):
    """Values that are likely, unlikely and as good as impossible; by turns nominal, a text and a number."""
    model = taught(n, alpha, scale)
    prior = model.joint_log_likelihood({})
    for value, number in [("u", 0.5), ("v", 40.0)]:
        alone = [
            model.joint_log_likelihood({name: found})
            for name, found in event(0, value, number * scale).items()
        ]
        many = model.joint_log_likelihood(
            {name: found for i in range(n) for name, found in event(i, value, number * scale).items()}
        )
        for label in "xy":
            expected = prior[label] + n * sum(one[label] - prior[label] for one in alone)
            assert many[label] == pytest.approx(expected, rel=1e-12, abs=1e-9)


VALUES = st.sampled_from(["red", "green", "blue", None])
NUMBERS = st.sampled_from([0.0, 1.5, -2.0, 1e60, 1e-60, None])
EVENTS = st.lists(
    st.tuples(VALUES, VALUES, st.sampled_from(["one", "two two", "", None]), NUMBERS, NUMBERS),
    min_size=1,
    max_size=8,
)


@settings(max_examples=60)
@given(
    events=EVENTS,
    labels=st.lists(st.sampled_from("abc"), min_size=8, max_size=8),
    order=st.permutations(["k", "t", "l", "n", "b", "m"]),
    alpha=st.sampled_from([1.0, 0.25, 1e-100]),
    m_and_p=st.sampled_from([(2.0, 0.25), (1e-80, 1e-90)]),
)
def test_the_joint_of_every_event_is_that_of_an_exact_recount(events, labels, order, alpha, m_and_p):
    m, p = m_and_p
    declared = {"t": Text(), "b": Text(event_model="bernoulli"), "k": Nominal(m=m, p=p)}
    kinds = {
        "k": ("nominal", ("m", m, p)),
        "l": ("nominal", alpha),
        "t": ("multinomial", alpha),
        "b": ("bernoulli", alpha),
        "n": ("continuous", None),
        "m": ("continuous", None),
    }
    model, examples = NaiveBayes(declared, alpha=alpha), []
    for (k, other, text, n, far), label in zip(events, labels, strict=False):
        whole = {"k": k, "l": other, "t": text, "b": text, "n": n, "m": far}
        x = {name: whole[name] for name in order if whole[name] is not None}
        recount = Recount(kinds, examples)
        for known, joint in model.joint_log_likelihood(x).items():
            assert joint == pytest.approx(float(recount.joint(x, known)), rel=1e-9, abs=1e-9)
        model.learn_one(x, label)
        examples.append((x, label, 1.0))
