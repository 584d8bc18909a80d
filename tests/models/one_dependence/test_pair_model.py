"""Counts of pairs of values: what a value is, and states that are none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb import BayesOptimalNB, OneDependence
from streamnb.errors import SnapshotError
from streamnb.models.one_dependence.pair_model import PairModel
from streamnb.models.one_dependence.value_codes import magnitudes
from tests.models.one_dependence.test_one_dependence_among_others import stream
from tests.oracles.pair_oracle import key_of

pytestmark = pytest.mark.thorough


@given(st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=300, deadline=None)
def test_values_share_a_magnitude_where_octave_and_quarter_are_the_same(value):
    for other in (value * 1.07, value * 1.3, -value, math.nextafter(value, math.inf), 1.0):
        if abs(value) < 1e139 and abs(other) < 1e139 and min(abs(value), abs(other)) > 1e-300:
            same = magnitudes(np.array([value]))[0] == magnitudes(np.array([other]))[0]
            assert same == (key_of(value) == key_of(other))


def state_of_one():
    """Of the pairs of a mixture that has learned a stream."""
    model = BayesOptimalNB({"text": "text"}, [OneDependence()])
    model.learn_many(*zip(*stream(1), strict=True))
    (pairs,) = model._dependence._models
    return pairs.counts.memory, *pairs.state()


def test_a_state_is_read_as_it_was_written():
    memory, meta, arrays = state_of_one()
    again, same = PairModel.from_state(memory, meta, arrays).state()
    assert again == meta
    assert {name: array.tobytes() for name, array in same.items()} == {
        name: array.tobytes() for name, array in arrays.items()
    }
    assert arrays["pairs"].any()


def spoil(how, meta, arrays):
    {
        "a count below zero": lambda: arrays["pairs"].__setitem__((0, 0), -1),
        "another total": lambda: arrays["totals"].__setitem__((0, 0), arrays["totals"][0, 0] + 1),
        "more than the class": lambda: arrays["class_weights"].__setitem__(slice(None), 1),
        "a parent": lambda: arrays["parents"].__setitem__(1, 0),
        "a shape": lambda: arrays.__setitem__("values", arrays["values"][1:]),
        "a type": lambda: arrays.__setitem__("values", arrays["values"].astype(np.float64)),
        "an array less": lambda: arrays.pop("pairs"),
        "a value twice": lambda: meta.__setitem__(
            "attributes", [[kind, name, [*keys[:-1], keys[0]]] for kind, name, keys in meta["attributes"]]
        ),
        "a key of another kind": lambda: meta.__setitem__(
            "attributes", [[kind, name, [None, *keys[1:]]] for kind, name, keys in meta["attributes"]]
        ),
        "no attributes": lambda: meta.__setitem__("attributes", 3),
        "events below zero": lambda: meta.__setitem__("events", -1),
        "events that are no number": lambda: meta.__setitem__("events", "many"),
        "pairs of no number": lambda: meta.__setitem__("paired", -2),
    }[how]()


@pytest.mark.parametrize("how", [
    "a count below zero", "another total", "more than the class", "a parent", "a shape", "a type", "an array less", "a value twice", "a key of another kind", "no attributes", "events below zero", "events that are no number", "pairs of no number",
])  # fmt: skip
def test_a_damaged_state_is_refused(how):
    memory, meta, arrays = state_of_one()
    meta, arrays = dict(meta), {name: array.copy() for name, array in arrays.items()}
    spoil(how, meta, arrays)
    with pytest.raises(SnapshotError):
        PairModel.from_state(memory, meta, arrays)
