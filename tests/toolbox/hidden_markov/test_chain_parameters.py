"""Parameters of a chain, multiplied by hand, are its joint likelihood; numbers are those of deck 004's chunker."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from streamnb import HiddenMarkovModel, HiddenMarkovNB, NaiveBayes

CHUNKER = HiddenMarkovModel(
    initial={"B": 1.0, "I": 0.0},
    transition={"B": {"B": 0.8, "I": 0.2}, "I": {"B": 0.5, "I": 0.5}},
    emission={"B": {"a": 0.25, "b": 0.10, "c": 0.65}, "I": {"a": 0.25, "b": 0.0, "c": 0.75}},
)


def test_the_product_of_the_parameters_is_the_joint_likelihood():
    found = CHUNKER.parameters()
    assert found.transition["B"] == pytest.approx({"B": 0.8, "I": 0.2})
    states, symbols = ["B", "I", "I", "B"], ["a", "c", "a", "b"]
    p = found.initial[states[0]]
    p *= math.prod(found.transition[before][after] for before, after in pairwise(states))
    p *= math.prod(found.emission[state][symbol] for state, symbol in zip(states, symbols, strict=True))
    assert CHUNKER.log_joint(symbols, states) == pytest.approx(math.log(p))
    assert found.n_free == {"initial": 1, "transition": 2, "emission": 4}
    assert CHUNKER.n_parameters == 7


def test_counts_give_smoothed_parameters_and_a_model_without_states_has_none():
    model = HiddenMarkovModel(m=2.0, emission_m=1.0)
    assert model.n_parameters == 0
    model.learn_one(["x", "y", "x"], ["s", "t", "t"])
    found = model.parameters()
    assert found.initial == pytest.approx({"s": 2 / 3, "t": 1 / 3})
    assert found.transition["t"] == pytest.approx({"s": 1 / 3, "t": 2 / 3})
    assert found.emission["t"] == pytest.approx({"x": 1.5 / 3, "y": 1.5 / 3})


def test_events_of_entities_have_the_chain_and_the_tables_of_naive_bayes():
    model, plain = HiddenMarkovNB(entity="machine", transition_m=2.0), NaiveBayes()
    rows = [
        (1, "calm", 1.0, "well"),
        (1, "loud", 4.0, "ill"),
        (2, "calm", 2.0, "well"),
        (1, "calm", 5.0, "ill"),
    ]
    for machine, sound, heat, state in rows:
        model.learn_one({"machine": machine, "sound": sound, "heat": heat}, state)
        plain.learn_one({"sound": sound, "heat": heat}, state)
    found = model.parameters()
    assert found.emission == plain.parameters()
    p = plain.parameters().prior
    assert found.initial == pytest.approx({v: (n + 2 * p[v]) / 4 for v, n in (("well", 2), ("ill", 0))})
    assert found.transition["ill"] == pytest.approx(
        {"well": 2 * p["well"] / 3, "ill": (1 + 2 * p["ill"]) / 3}
    )
    assert found.n_free == {"initial": 1, "transition": 2, "sound": 2, "heat": 4}
    assert model.n_parameters == 9
    x = {"machine": 1, "sound": "loud"}
    joint = {
        v: found.transition["ill"][v] * found.emission.discrete["sound"].table[v]["loud"]
        for v in ("well", "ill")
    }
    assert model.predict_proba_one(x) == pytest.approx(
        {v: one / sum(joint.values()) for v, one in joint.items()}
    )
