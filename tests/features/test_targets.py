"""Weights and times of many events at once are those of one after the other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb.features.targets import Targets
from streamnb.values.example_weights import HEAVIEST, units

WEIGHTS = st.floats(0.0, HEAVIEST) | st.sampled_from([0.5 / 1024, 1.5 / 1024, 2.5 / 1024, 1.0])


@pytest.mark.filterwarnings("ignore::streamnb.errors.SmallWeightWarning")
@given(st.lists(WEIGHTS | st.integers(0, 9), min_size=1))
def test_weights_are_rounded_as_one_is(weights):
    assert Targets.from_labels(len(weights), None, weights, None).weights.tolist() == list(
        map(units, weights)
    )


@pytest.mark.parametrize("wrong", [-0.1, math.nan, HEAVIEST + 0.5, math.inf])
def test_one_wrong_weight_refuses_all(wrong):
    with pytest.raises(ValueError, match="must lie between"):
        Targets.from_labels(2, None, [1.0, wrong], None)


@pytest.mark.parametrize("times", [[1.5, math.inf], [None, 1.5], [10**400, 2.0], [math.nan, -math.inf]])
def test_times_that_are_not_finite_are_unknown(times):
    found = Targets.from_labels(2, None, None, times).times.tolist()
    for time, seconds in zip(times, found, strict=True):
        assert seconds == time if isinstance(time, float) and math.isfinite(time) else math.isnan(seconds)


def test_events_without_labels_meet_no_class():
    columns, known, adds = Targets.from_labels(3, [None] * 3, [1.0, 0.0, 2.0], None).columns({"a": 0})
    assert (columns.tolist(), known.tolist(), adds.any()) == ([-1, -1, -1], [1, 1, 1], np.False_)
