"""A sequential test of a change is the Bayes factor that its page says, to the last bit however it is cut."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb.errors import SnapshotError
from streamnb.scoring.change_test import HEARD, ChangeObservations, ChangeTest, needed

RATES = st.floats(0.01, 0.9)
HAPPENED = st.lists(st.booleans(), min_size=1, max_size=60)


def observations(x, tolerated, alarming):
    x = np.array(x, dtype=np.bool_)
    return ChangeObservations(np.arange(x.size), x, np.full(x.size, tolerated), np.full(x.size, alarming))


def told(test, x, tolerated, alarming, first=0):
    seen = observations(x, tolerated, alarming)
    return [
        d._replace(place=d.place + first) for d in test.observe(seen, np.arange(first, first + len(x)) + 1.0)
    ]


def prior(j):
    """Of a change with observation j: the block's, divided evenly."""
    b = j.bit_length() - 1
    return Fraction(1, (b + 1) * (b + 2) * (1 << b))


def test_the_prior_leaves_nothing_out():
    total, test = Fraction(0), ChangeTest(1e-9)
    for j in range(1, 200):
        total += prior(j)
        test.kept[HEARD] = j
        assert test.bayes_factor == pytest.approx(float(1 - total), rel=1e-12), j
    blocks = (sum(prior(j) for j in range(1 << b, 2 << b)) for b in range(10))
    assert all(found == Fraction(1, (b + 1) * (b + 2)) for b, found in enumerate(blocks))


@given(x=HAPPENED, tolerated=RATES, by=st.floats(0.02, 0.9))
def test_it_is_the_bayes_factor_of_a_change_at_an_unknown_time(x, tolerated, by):
    alarming = tolerated + (0.99 - tolerated) * by
    q, r = Fraction(tolerated), Fraction(alarming)
    ratios = [r / q if one else (1 - r) / (1 - q) for one in x]
    changed, left = Fraction(0), Fraction(1)
    for j in range(1, len(x) + 1):
        product = prior(j)
        for ratio in ratios[j - 1 :]:
            product *= ratio
        changed, left = changed + product, left - prior(j)
    test = ChangeTest(1e-300)
    told(test, x, tolerated, alarming)
    assert test.bayes_factor == pytest.approx(float(changed + left), rel=1e-9)


@given(
    x=st.lists(st.booleans(), max_size=400),
    cuts=st.lists(st.integers(0, 400), max_size=6),
    alpha=st.floats(0.01, 0.5),
)
def test_cuts_and_restarts_change_nothing(x, cuts, alpha):
    """The lists of hypothesis hold runs, so that alarms are raised and ended."""
    whole, parts = ChangeTest(alpha), ChangeTest(alpha)
    expected = told(whole, x, 0.2, 0.6)
    found, first = [], 0
    for end in [*sorted(min(cut, len(x)) for cut in cuts), len(x)]:
        found += told(parts, x[first:end], 0.2, 0.6, first)
        again, first = ChangeTest(alpha), end
        again.load(parts.state(), parts.kept)
        parts = again
    assert found == expected
    assert parts.state() == whole.state()
    assert parts.kept.tobytes() == whole.kept.tobytes()


def test_alarms_are_raised_and_ended_in_turn_and_say_since_when():
    x = [False] * 300 + [True] * 100 + [False] * 300 + [True] * 100
    found = told(ChangeTest(0.01), x, 0.05, 0.5)
    assert [one.is_raised for one in found] == [True, False, True]
    assert [one.since for one in found] == [301, 401, 701]
    assert [one.rate for one in found] == [1.0, 0.0, 1.0]
    assert [one.false_alarm for one in found] == pytest.approx([0.01 / 2, 0.01 / 2, 0.01 / 6])
    assert all(one.bayes_factor >= 1.0 / one.false_alarm for one in found)


def test_needed_grows_with_what_is_asked_and_with_what_went_before():
    plain = needed(0.01, 0.05, 0.01, 0.05)
    assert 200 < plain < 1000
    assert needed(0.01, 0.05, 0.001, 0.05) > plain
    assert needed(0.01, 0.05, 0.01, 0.01) > plain
    assert needed(0.01, 0.03, 0.01, 0.05) > 2 * plain
    assert (
        plain
        < needed(0.01, 0.05, 0.01, 0.05, before=10_000)
        < needed(0.01, 0.05, 0.01, 0.05, before=1_000_000)
    )


@pytest.mark.parametrize(
    ("place", "value"), [(0, 0.5), (0, 2.0), (1, -1.0), (1, np.nan), (2, 1e9), (3, 0.5), (5, 9.0), (6, 1e9)]
)
def test_what_cannot_have_been_heard_is_refused(place, value):
    test = ChangeTest(0.01)
    told(test, [True, False, True, False], 0.2, 0.6)
    kept = test.kept.copy()
    ChangeTest(0.01).load(test.state(), kept)
    kept[place] = value
    with pytest.raises(SnapshotError):
        ChangeTest(0.01).load(test.state(), kept)
