"""Drift of attributes: exact tests, a bounded rate of false alarms, and power against planted drifts."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from streamnb.scoring.attribute_drift import (
    ALPHA,
    MOST_ATTRIBUTES,
    AttributeSample,
    attribute_drift,
    distance_p_value,
    rate_p_values,
)

values = st.one_of(st.floats(allow_nan=False), st.frozensets(st.sampled_from("abc")).map(tuple))
events = st.lists(st.dictionaries(st.sampled_from(["x", "y", "z"]), values))


def sample(found):
    made = AttributeSample()
    for one in found:
        made.update(one)
    return made


def state(one):
    numbers = {name: sorted(found) for name, found in one.numbers.items()}
    return one.n_events, one.present, one.values, numbers


@given(events, events)
def test_merging_samples_in_any_order_equals_one_sample_of_all_events(first, second):
    merged, turned = sample(first), sample(second)
    merged.merge(sample(second))
    turned.merge(sample(first))
    assert state(merged) == state(turned) == state(sample(first + second))


def test_a_word_that_an_event_repeats_counts_once():
    assert sample([{"text": ["a", "a", "b"]}]).values == {"text": {"a": 1, "b": 1}}


@given(st.integers(0, 60), st.integers(0, 40), st.integers(0, 40), st.integers(0, 60))
def test_the_p_value_of_a_rate_is_at_least_the_exact_one_and_close_to_it_in_the_tail(had, has, old, new):
    n_before, n_now = had + old, has + new
    if not n_before or not n_now:
        return
    found = rate_p_values(np.array([had]), np.array([has]), n_before, n_now)[0]
    exact = stats.hypergeom(n_before + n_now, had + has, n_now)
    tail = min(1.0, 2.0 * min(exact.sf(has - 1), exact.cdf(has)))
    assert found >= tail * (1 - 1e-9)
    if tail < 1e-4:
        assert found < 1.5 * tail


def test_the_p_value_of_a_distance_is_at_least_the_exact_one():
    rng = np.random.default_rng(1)
    for shift in (0.0, 0.1, 0.3, 0.6):
        old, new = rng.normal(size=300), rng.normal(shift, size=120)
        exact = stats.ks_2samp(old, new, method="exact").pvalue
        assert exact <= distance_p_value(old, new) <= max(4 * exact, exact**0.9 * 10)


def normal_event(rng, *, free=0.05, mean=0.0, present=0.8, colour=0.3):
    """One event whose words depend on each other."""
    words = {f"w{int(40 * rng.random() ** 2)}" for _ in range(6)}
    if rng.random() < free:
        words |= {"free", "win"}
    event = {"text": words, "colour": (["red" if rng.random() < colour else "blue"])}
    event["size"] = rng.gauss(mean, 1.0)
    event["count"] = float(rng.randrange(5))  # ties
    if rng.random() < present:
        event["note"] = ("yes",)
    return event


def tables(n, alpha, size=100):
    rng = random.Random(2)
    for _ in range(n):
        reference = sample(normal_event(rng) for _ in range(4 * size))
        windows = [sample(normal_event(rng) for _ in range(size)) for _ in range(4)]
        yield attribute_drift(reference, windows, alpha)


def marked(found):
    return {
        name: [one.p <= found.level for one in changes]
        for name, changes in found.changes.items()
        if any(one.p <= found.level for one in changes)
    }


def test_a_table_without_drift_marks_anything_at_most_as_often_as_promised():
    n, alpha = 300, 0.2
    n_false = sum(bool(marked(one)) for one in tables(n, alpha))
    assert n_false <= stats.binom(n, alpha).ppf(0.999)
    assert n_false >= 1  # the bound is not so loose that nothing is ever marked


@pytest.mark.parametrize(
    ("planted", "name", "value"),
    [
        ({"free": 0.2}, "text", "free"),
        ({"colour": 0.5}, "colour", "red"),
        ({"mean": 0.8}, "size", None),
        ({"present": 0.5}, "note", None),
    ],
)
def test_a_planted_drift_is_marked_in_its_windows_alone_and_named(planted, name, value):
    rng = random.Random(3)
    reference = sample(normal_event(rng) for _ in range(2000))
    windows = [sample(normal_event(rng) for _ in range(500)) for _ in range(2)]
    windows += [sample(normal_event(rng, **planted) for _ in range(500)) for _ in range(2)]
    found = attribute_drift(reference, windows)
    assert found.level == ALPHA / (5 * 4)
    assert marked(found) == {name: [False, False, True, True]}
    last = found.changes[name][-1]
    assert last.value in {value, "win", "blue", "yes"}
    assert last.is_number == ("mean" in planted)
    if "mean" in planted:
        assert (last.before, last.now) == (pytest.approx(0.0, abs=0.1), pytest.approx(0.8, abs=0.15))
    if "free" in planted:
        assert (last.before, last.now) == (pytest.approx(0.05, abs=0.02), pytest.approx(0.2, abs=0.06))


def test_sorted_events_drift_in_every_attribute_that_differs_between_classes():
    rng = random.Random(4)
    reference = sample(normal_event(rng, free=0.0, mean=-1.0) for _ in range(1000))
    windows = [sample(normal_event(rng, free=0.5, mean=1.0) for _ in range(500))]
    assert set(marked(attribute_drift(reference, windows))) == {"text", "size"}


def test_the_most_frequent_attributes_are_tested_and_the_others_counted():
    many = {f"a{n:03}": 1.0 for n in range(MOST_ATTRIBUTES + 7)}
    found = attribute_drift(sample([many] * 30), [sample([many] * 30)])
    assert len(found.changes) == MOST_ATTRIBUTES
    assert found.n_omitted == 7
    assert found.level == ALPHA / MOST_ATTRIBUTES


def test_empty_windows_and_constants_drift_nowhere():
    assert attribute_drift(AttributeSample(), [AttributeSample()]).changes == {}
    same = [{"x": 1.0, "y": ("a",)}] * 50
    assert marked(attribute_drift(sample(same), [sample(same), AttributeSample()])) == {}
